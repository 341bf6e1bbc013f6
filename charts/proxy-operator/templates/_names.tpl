{{/* Names, labels and the image. Names are short enough that every suffix fits into a label. */}}

{{- define "proxy-operator.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 52 | trimAll "-" -}}
{{- end -}}

{{/* A release's name may have dots, and that of a Service none. */}}
{{- define "proxy-operator.fullname" -}}
{{- $name := printf "%s-%s" .Release.Name (include "proxy-operator.name" .) -}}
{{- if contains (include "proxy-operator.name" .) .Release.Name -}}{{- $name = .Release.Name -}}{{- end -}}
{{- .Values.fullnameOverride | default $name | replace "." "-" | trunc 52 | trimAll "-" -}}
{{- end -}}

{{/* What has no namespace, or stands in one of somebody else's, is told apart by the release's: no namespace has a colon. */}}
{{- define "proxy-operator.globalName" -}}
{{- printf "%s:%s" .Release.Namespace (include "proxy-operator.fullname" .) -}}
{{- end -}}

{{- define "proxy-operator.serviceAccountName" -}}
{{- .Values.serviceAccount.name | default (include "proxy-operator.fullname" .) -}}
{{- end -}}

{{/* Labels that select pods; they never change. Call: dict "root" $ "component" NAME. */}}
{{- define "proxy-operator.selector" -}}
app.kubernetes.io/name: {{ include "proxy-operator.name" .root | quote }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{/*
Metadata of an object. Call: dict "root" $ "component" NAME "name" NAME, and if need be "namespace" NAME (the release's by
default, "" for none), "labels" MAP, "annotations" MAP. The chart's own go before those of users.
*/}}
{{- define "proxy-operator.metadata" -}}
{{- $root := .root -}}
{{- $own := include "proxy-operator.selector" . | fromYaml -}}
{{- $_ := set $own "app.kubernetes.io/version" ($root.Chart.AppVersion | toString | replace "+" "_" | trunc 63) -}}
{{- $_ := set $own "app.kubernetes.io/managed-by" $root.Release.Service -}}
{{- $_ := set $own "helm.sh/chart" (printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-") -}}
{{- $labels := mergeOverwrite (dict) $root.Values.commonLabels (.labels | default dict) $own -}}
{{- $annotations := mergeOverwrite (dict) $root.Values.commonAnnotations (.annotations | default dict) -}}
{{- $namespace := ternary .namespace $root.Release.Namespace (hasKey . "namespace") -}}
name: {{ .name | quote }}
{{- with $namespace }}
namespace: {{ . | quote }}
{{- end }}
labels:
  {{- toYaml $labels | nindent 2 }}
{{- with $annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "proxy-operator.image" -}}
{{- $registry := ((.Values.global).imageRegistry) | default .Values.image.registry -}}
{{- with $registry }}{{ . }}/{{ end -}}
{{- .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion -}}
{{- with .Values.image.digest }}@{{ . }}{{ end -}}
{{- end -}}
