{{/* More that is refused: names, the CRDs of a running release, and what would undo the chart's own. */}}

{{- define "proxy-operator.validateNames" -}}
{{- $name := include "proxy-operator.fullname" . -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $name) -}}
{{- fail (printf "objects would be named %q, and a Service takes lower-case letters, digits and hyphens, with a letter first: set fullnameOverride to such a name" $name) -}}
{{- end -}}
{{- /* Hooks make and remove accounts of these names while the operator runs. */ -}}
{{- $hooks := list (printf "%s-uninstall" $name) (printf "%s-test" $name) -}}
{{- $account := include "proxy-operator.serviceAccountName" . -}}
{{- if has $account $hooks -}}
{{- fail (printf "serviceAccount.name=%s is the account of a hook of this chart, which makes it and removes it: choose another name" $account) -}}
{{- end -}}
{{- if has .Values.uninstall.serviceAccountName $hooks -}}
{{- fail (printf "uninstall.serviceAccountName=%s is the account of a hook of this chart, which makes it and removes it: choose another name" .Values.uninstall.serviceAccountName) -}}
{{- end -}}
{{- end -}}

{{/*
A release whose CRD isn't kept must not lose it by an upgrade: Helm would remove the CRD, every Proxy with it, and run no hook
that could look. Whether it is kept is told by the release's own ConfigMap, as whoever upgrades may read that. What
`helm template` renders sees no cluster, and isn't guarded.
*/}}
{{- define "proxy-operator.validateCRDs" -}}
{{- if not .Values.crds.enabled -}}
{{- if not .Values.crds.keep -}}
{{- fail "crds.keep=false with crds.enabled=false would take the CRD of an installed release away, and all Proxies with it: set crds.keep=true; if the release has the CRD, upgrade with crds.enabled=true and crds.keep=true first" -}}
{{- end -}}
{{- $live := lookup "v1" "ConfigMap" .Release.Namespace (include "proxy-operator.fullname" .) -}}
{{- if get (dig "metadata" "annotations" dict $live) "proxy-operator.io/crds" -}}
{{- fail "crds.enabled=false would take the CRD of this release away, and all Proxies with it, as it was installed with crds.keep=false: upgrade with crds.enabled=true and crds.keep=true first" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The annotation of the ConfigMap by which proxy-operator.validateCRDs knows a release whose CRD isn't kept. */}}
{{- define "proxy-operator.crdsMark" -}}
{{- if and .Values.crds.enabled (not .Values.crds.keep) -}}
proxy-operator.io/crds: not-kept
{{- end -}}
{{- end -}}

{{/* What users add must not replace what the chart sets, as roles, probes and hooks are made from the same values. */}}
{{- define "proxy-operator.validateExtras" -}}
{{- $v := .Values -}}
{{- $values := dict "help" "" "leader-elect" "" "config" "providers" "health-probe-bind-address" "" "leader-election-namespace" "" "operator-namespace" ""
  "metrics-bind-address" "metrics.port" "metrics-secure" "metrics.serve" "instance" "instance" "cluster-id" "clusterID"
  "watch-namespaces" "watchNamespaces" "secret-watch" "secretWatch" "max-concurrent-reconciles" "maxConcurrentReconciles"
  "disruption-budget" "disruptionBudget" "log-level" "log.level" "log-format" "log.format" "health-check" "health.enabled"
  "judge-url" "judge.url" "health-target" "health.targets" "health-interval" "health.interval" "health-timeout" "health.timeout"
  "unhealthy-timeout" "health.unhealthyTimeout" "boot-deadline" "health.bootDeadline" "health-deny-cidr" "health.denyCIDRs"
  "proxy-image" "proxyImage" -}}
{{- if $v.metrics.certificateSecret -}}{{- $_ := set $values "metrics-cert-path" "metrics.certificateSecret" -}}{{- end -}}
{{- range $v.extraArgs -}}
{{- $flag := trimPrefix "--" . | splitList "=" | first -}}
{{- if hasKey $values $flag -}}
{{- with get $values $flag -}}
{{- fail (printf "extraArgs: --%s has a value of its own, from which more than the flag is made: set %s" $flag .) -}}
{{- end -}}
{{- fail (printf "extraArgs: --%s is the chart's own, which its hooks and probes rely on: leave it out" $flag) -}}
{{- end -}}
{{- end -}}
{{- range $v.extraVolumes -}}
{{- if or (has .name (list "config" "metrics-certificate")) (regexMatch "^credentials-[0-9]+$" .name) -}}
{{- fail (printf "extraVolumes: the chart has a volume %s: choose another name" .name) -}}
{{- end -}}
{{- end -}}
{{- range $v.extraVolumeMounts -}}
{{- if regexMatch "^/(etc/proxy-operator|var/run/secrets/proxy-operator|var/run/secrets/proxy-operator-metrics)(/|$)" (clean .mountPath) -}}
{{- fail (printf "extraVolumeMounts: %s is a folder of the chart's own: choose another one" .mountPath) -}}
{{- end -}}
{{- end -}}
{{- $annotations := dict "commonAnnotations" $v.commonAnnotations "serviceAccount.annotations" $v.serviceAccount.annotations
  "judge.service.annotations" $v.judge.service.annotations "dashboard.annotations" $v.dashboard.annotations "crds.annotations" $v.crds.annotations -}}
{{- range $value, $map := $annotations -}}
{{- range $key, $_ := $map -}}
{{- if hasPrefix "helm.sh/" $key -}}
{{- fail (printf "%s: %s would change what Helm does with the chart's own objects: leave it out" $value $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
