{{/* What the values mean for the operator: its configuration file, its arguments, its rights. */}}

{{/* "true" if all namespaces are watched. */}}
{{- define "proxy-operator.everywhere" -}}{{ empty .Values.watchNamespaces }}{{- end -}}

{{/* "true" if the chart makes the ClusterRoles that aren't the operator's own. */}}
{{- define "proxy-operator.clusterRoles" -}}
{{- $auto := and (eq .Values.rbac.clusterRoles "auto") (eq (include "proxy-operator.everywhere" .) "true") -}}
{{- and .Values.rbac.create (or $auto (eq .Values.rbac.clusterRoles "always")) -}}
{{- end -}}

{{/* https, http or none. */}}
{{- define "proxy-operator.metrics" -}}
{{- if ne .Values.metrics.serve "auto" -}}
{{- .Values.metrics.serve -}}
{{- else if or (not .Values.rbac.create) (eq (include "proxy-operator.clusterRoles" .) "true") -}}
https
{{- else -}}
none
{{- end -}}
{{- end -}}

{{/* "true" if an object of the Prometheus Operator is rendered. Call: dict "root" $ "mode" MODE. */}}
{{- define "proxy-operator.rendered" -}}
{{- or (eq .mode "always") (and (eq .mode "auto") (.root.Capabilities.APIVersions.Has "monitoring.coreos.com/v1")) -}}
{{- end -}}

{{- define "proxy-operator.judgeURL" -}}
{{- if .Values.judge.url -}}
{{- .Values.judge.url -}}
{{- else if .Values.judge.enabled -}}
{{- printf "http://%s-judge.%s.svc:%d/" (include "proxy-operator.fullname" .) .Release.Namespace (int .Values.judge.service.port) -}}
{{- end -}}
{{- end -}}

{{/* A number or a part, as a text: a number of a values file is a float64, which prints as 1e+06. */}}
{{- define "proxy-operator.number" -}}
{{- if kindIs "string" . -}}{{- . -}}{{- else -}}{{- int . -}}{{- end -}}
{{- end -}}

{{/* The accounts that are on, as a map of name to account. A field that is null was left out by another values file. */}}
{{- define "proxy-operator.accounts" -}}
{{- $on := dict -}}
{{- range $name, $account := .Values.providers -}}
{{- if and $account (ne (toString $account.enabled) "false") -}}
{{- $written := dict -}}
{{- range $field, $value := $account -}}{{- if not (kindIs "invalid" $value) -}}{{- $_ := set $written $field $value -}}{{- end -}}{{- end -}}
{{- $_ := set $on $name $written -}}
{{- end -}}
{{- end -}}
{{- toYaml $on -}}
{{- end -}}

{{/* "true" if there is an account of type kubernetes. */}}
{{- define "proxy-operator.makesPods" -}}
{{- $yes := false -}}
{{- range include "proxy-operator.accounts" . | fromYaml -}}{{- if eq .type "kubernetes" -}}{{- $yes = true -}}{{- end -}}{{- end -}}
{{- $yes -}}
{{- end -}}

{{/* operator.yaml. A map has its keys sorted, so that it is the same at each rendering. */}}
{{- define "proxy-operator.configuration" -}}
{{- $list := list -}}
{{- range $name, $account := include "proxy-operator.accounts" . | fromYaml -}}
{{- $own := merge (dict "name" $name) (omit $account "enabled" "credentialsSecret" "name") -}}
{{- /* What YAML 1.1 makes of the word Off. */ -}}
{{- if kindIs "bool" $own.orphans -}}{{- $_ := set $own "orphans" "Off" -}}{{- end -}}
{{- $list = append $list $own -}}
{{- end -}}
accounts: {{- if $list }}{{ toYaml $list | nindent 0 }}{{ else }} []{{ end }}
{{- end -}}

{{- define "proxy-operator.args" -}}
{{- $metrics := include "proxy-operator.metrics" . -}}
- manager
- --leader-elect
- --config=/etc/proxy-operator/operator.yaml
- --health-probe-bind-address=:8081
{{- if eq $metrics "none" }}
- --metrics-bind-address=0
{{- else }}
- --metrics-bind-address=:{{ .Values.metrics.port | int }}
{{- if eq $metrics "http" }}
- --metrics-secure=false
{{- end }}
{{- if .Values.metrics.certificateSecret }}
- --metrics-cert-path=/var/run/secrets/proxy-operator-metrics
{{- end }}
{{- end }}
- {{ printf "--instance=%s" .Values.instance | quote }}
{{- with .Values.clusterID }}
- {{ printf "--cluster-id=%s" . | quote }}
{{- end }}
{{- with .Values.watchNamespaces }}
- {{ printf "--watch-namespaces=%s" (join "," .) | quote }}
{{- end }}
{{- if not .Values.secretWatch }}
- --secret-watch=false
{{- end }}
- --max-concurrent-reconciles={{ .Values.maxConcurrentReconciles | int }}
- {{ printf "--disruption-budget=%s" (include "proxy-operator.number" .Values.disruptionBudget) | quote }}
- --log-level={{ .Values.log.level }}
- --log-format={{ .Values.log.format }}
{{- include "proxy-operator.healthArgs" . }}
{{- if eq (include "proxy-operator.makesPods" .) "true" }}
- {{ printf "--proxy-image=%s" (.Values.proxyImage | default (include "proxy-operator.image" .)) | quote }}
{{- end }}
{{- range .Values.extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end -}}

{{- define "proxy-operator.healthArgs" -}}
{{- if not .Values.health.enabled }}
- --health-check=false
{{- end }}
{{- with include "proxy-operator.judgeURL" . }}
- {{ printf "--judge-url=%s" . | quote }}
{{- end }}
{{- range .Values.health.targets }}
- {{ printf "--health-target=%s" . | quote }}
{{- end }}
- {{ printf "--health-interval=%s" .Values.health.interval | quote }}
- {{ printf "--health-timeout=%s" .Values.health.timeout | quote }}
- {{ printf "--unhealthy-timeout=%s" .Values.health.unhealthyTimeout | quote }}
- {{ printf "--boot-deadline=%s" .Values.health.bootDeadline | quote }}
{{- range .Values.health.denyCIDRs }}
- {{ printf "--health-deny-cidr=%s" . | quote }}
{{- end }}
{{- end -}}

{{/*
The operator's rules, from the generated ones, less what these values leave unused: pods, and Secrets to be made and
removed, are those of accounts of type kubernetes; Secrets are listed for these, and for --secret-watch.
*/}}
{{- define "proxy-operator.managerRules" -}}
{{- $pods := eq (include "proxy-operator.makesPods" .) "true" -}}
{{- $unused := list -}}
{{- if not $pods -}}{{- $unused = concat $unused (list "create" "delete") -}}{{- end -}}
{{- if not .Values.secretWatch -}}{{- $unused = append $unused "watch" -}}{{- if not $pods -}}{{- $unused = append $unused "list" -}}{{- end -}}{{- end -}}
{{- $rules := list -}}
{{- range include "proxy-operator.rules.manager-role" . | fromYamlArray -}}
{{- $rule := . -}}
{{- if has "secrets" .resources -}}
{{- $verbs := list -}}
{{- range .verbs -}}{{- if not (has . $unused) -}}{{- $verbs = append $verbs . -}}{{- end -}}{{- end -}}
{{- $rule = set (deepCopy .) "verbs" $verbs -}}
{{- end -}}
{{- $ofPods := has "pods" .resources -}}
{{- $ofCluster := has "namespaces" .resources -}}
{{- if and (or $pods (not $ofPods)) (not $ofCluster) -}}{{- $rules = append $rules $rule -}}{{- end -}}
{{- end -}}
{{- toYaml (concat $rules .Values.rbac.extraRules) -}}
{{- end -}}

{{/* The rule by which the cluster is told from others: none if the values say which it is. */}}
{{- define "proxy-operator.clusterRules" -}}
{{- $rules := list -}}
{{- if not .Values.clusterID -}}
{{- range include "proxy-operator.rules.manager-role" . | fromYamlArray -}}
{{- if has "namespaces" .resources -}}{{- $rules = append $rules . -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- toYaml $rules -}}
{{- end -}}

{{/*
Not empty if a job runs before an uninstallation: to delete, or to look that no Proxy is left when the CRDs go. With kept
CRDs and objects there is nothing to do, and nothing that could fail.
*/}}
{{- define "proxy-operator.uninstalls" -}}
{{- if or (eq .Values.uninstall.policy "Delete") (and .Values.crds.enabled (not .Values.crds.keep)) -}}true{{- end -}}
{{- end -}}
