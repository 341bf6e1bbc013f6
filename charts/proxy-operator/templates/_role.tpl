{{/*
A role and, with "subjects", its binding. Call: dict "root" $ "component" NAME "name" NAME "rules" LIST, with "cluster" true or
"namespace" NAME, and if need be "subjects" LIST, "labels" MAP, "annotations" MAP.
*/}}
{{- define "proxy-operator.role" }}
{{- $kind := ternary "ClusterRole" "Role" (hasKey . "cluster") }}
{{- $call := ternary (merge (dict "namespace" "") .) . (hasKey . "cluster") }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}
metadata:
  {{- include "proxy-operator.metadata" $call | nindent 2 }}
rules:
{{ toYaml .rules }}
{{- with .subjects }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}Binding
metadata:
  {{- include "proxy-operator.metadata" $call | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ $kind }}
  name: {{ $.name | quote }}
subjects:
{{ toYaml . }}
{{- end }}
{{- end }}
