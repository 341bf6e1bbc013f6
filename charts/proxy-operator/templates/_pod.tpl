{{/* What all pods of the chart have in common. It makes them pass the Pod Security Standard "restricted". */}}

{{- define "proxy-operator.podMetadata" -}}
{{- $labels := mergeOverwrite (dict) .root.Values.commonLabels (.labels | default dict) (include "proxy-operator.selector" . | fromYaml) -}}
labels:
  {{- toYaml $labels | nindent 2 }}
{{- with mergeOverwrite (dict) .root.Values.commonAnnotations (.annotations | default dict) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "proxy-operator.podSpec" -}}
{{- with concat .Values.imagePullSecrets (((.Values.global).imagePullSecrets) | default list) }}
imagePullSecrets:
{{- range . }}
- name: {{ kindIs "string" . | ternary . (get (kindIs "map" . | ternary . dict) "name") | quote }}
{{- end }}
{{- end }}
enableServiceLinks: false
securityContext:
  {{- toYaml (mergeOverwrite (deepCopy .Values.podSecurityContext) (dict "runAsNonRoot" true "seccompProfile" (dict "type" "RuntimeDefault"))) | nindent 2 }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
affinity:
  {{- if .Values.affinity }}
  {{- toYaml .Values.affinity | nindent 2 }}
  {{- else }}
  nodeAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      nodeSelectorTerms:
      - matchExpressions:
        - key: kubernetes.io/arch
          operator: In
          values: [amd64, arm64]
  {{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- end -}}

{{- define "proxy-operator.container" -}}
image: {{ include "proxy-operator.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end -}}
