{{/* Values that contradict each other are refused, with the way out. The schema refuses those that are wrong by themselves. */}}
{{- define "proxy-operator.validate" -}}
{{- $v := .Values -}}
{{- if hasKey $v "enabled" | and (not $v.enabled) -}}
{{- fail "enabled=false is the condition of a chart that this one is a part of, and no condition names it: write `condition: proxy-operator.enabled` into that chart's dependencies, or leave it out" -}}
{{- end -}}
{{- include "proxy-operator.validateNames" . -}}
{{- include "proxy-operator.validateCRDs" . -}}
{{- include "proxy-operator.validateExtras" . -}}
{{- if and $v.watchNamespaces $v.crds.enabled (not $v.crds.keep) -}}
{{- fail "crds.keep=false would take the Proxies of all namespaces away, and watchNamespaces names some: set crds.keep=true, or crds.enabled=false where another release has the CRDs" -}}
{{- end -}}
{{- if and (not $v.serviceAccount.create) (not $v.serviceAccount.name) -}}
{{- fail "serviceAccount.create=false needs the name of the ServiceAccount that somebody else makes: set serviceAccount.name" -}}
{{- end -}}
{{- if and (eq $v.rbac.clusterRoles "always") (not $v.rbac.create) -}}
{{- fail "rbac.clusterRoles=always with rbac.create=false: set rbac.create=true, or leave rbac.clusterRoles out" -}}
{{- end -}}
{{- if and (not $v.rbac.create) (include "proxy-operator.uninstalls" .) (not $v.uninstall.serviceAccountName) -}}
{{- fail "with rbac.create=false the uninstall job needs a ServiceAccount that may list and delete Proxies: set uninstall.serviceAccountName, or uninstall.policy=Retain and crds.keep=true" -}}
{{- end -}}
{{- $written := $v.podDisruptionBudget.minAvailable -}}
{{- $stay := int $written -}}
{{- /* A part is rounded up. */ -}}
{{- if kindIs "string" $written -}}{{- $stay = div (add (mul (trimSuffix "%" $written | atoi) (int $v.replicas)) 99) 100 -}}{{- end -}}
{{- if and (gt (int $v.replicas) 1) $v.podDisruptionBudget.enabled (ge (int $stay) (int $v.replicas)) -}}
{{- fail (printf "podDisruptionBudget.minAvailable=%s with replicas=%d lets no pod be evicted, so that no node can be drained: set it to less than replicas" (include "proxy-operator.number" $written) (int $v.replicas)) -}}
{{- end -}}
{{- include "proxy-operator.validateMetrics" . -}}
{{- include "proxy-operator.validateAccounts" . -}}
{{- end -}}

{{- define "proxy-operator.validateMetrics" -}}
{{- $v := .Values -}}
{{- if and (eq $v.metrics.serve "https") $v.rbac.create (ne (include "proxy-operator.clusterRoles" .) "true") -}}
{{- fail "metrics.serve=https asks the API server who a reader is, which takes a ClusterRole, and there is none with watchNamespaces or rbac.clusterRoles=never: set rbac.clusterRoles=always, or metrics.serve=http or none" -}}
{{- end -}}
{{- if and (ne (include "proxy-operator.metrics" .) "none") (eq (int $v.metrics.port) 8081) -}}
{{- fail "metrics.port=8081 is the port of the operator's probes: choose another one, such as 8443" -}}
{{- end -}}
{{- if eq (include "proxy-operator.metrics" .) "none" -}}
{{- range $name := list "serviceMonitor" "prometheusRule" "dashboard" -}}
{{- if ne (get $v $name).renderMode "never" -}}
{{- fail (printf "%s.renderMode=%s, and no metrics are served with these values: set metrics.serve=http, or rbac.clusterRoles=always for https, or %s.renderMode=never" $name (get $v $name).renderMode $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "proxy-operator.validateAccounts" -}}
{{- $watched := .Values.watchNamespaces -}}
{{- range $name, $account := include "proxy-operator.accounts" . | fromYaml -}}
{{- range $key := keys (omit $account "enabled" "credentialsSecret" "type" "allowedNamespaces" "limits" "orphans") | sortAlpha -}}
{{- if ne $key $account.type -}}
{{- fail (printf "providers.%s.%s: an account of type %s has allowedNamespaces, limits, orphans, credentialsSecret, enabled and the section %s; write one of these" $name $key $account.type $account.type) -}}
{{- end -}}
{{- end -}}
{{- if and (eq $account.type "kubernetes") $account.credentialsSecret -}}
{{- fail (printf "providers.%s.credentialsSecret: an account of type kubernetes makes pods in this cluster with the operator's ServiceAccount: leave it out" $name) -}}
{{- end -}}
{{- range $ns := $account.allowedNamespaces -}}
{{- if and $watched (not (has $ns $watched)) -}}
{{- fail (printf "providers.%s.allowedNamespaces: nobody watches %s: add it to watchNamespaces, or leave it out" $name $ns) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
