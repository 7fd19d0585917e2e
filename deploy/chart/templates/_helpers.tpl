{{/* The names, labels and versions that all templates share. */}}

{{- define "placet.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* The name of every object; room is left for `-scheduler` and other endings. */}}
{{- define "placet.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" }}
{{- else if contains (include "placet.name" .) .Release.Name }}
{{- .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "placet.name" .) | trunc 50 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "placet.serviceAccount" -}}
{{- default (include "placet.fullname" .) .Values.serviceAccount.name }}
{{- end }}

{{- define "placet.selectorLabels" -}}
app.kubernetes.io/name: {{ include "placet.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "placet.labels" -}}
{{ include "placet.selectorLabels" . }}
{{ include "placet.otherLabels" . }}
{{- end }}

{{/* The labels that a selector does not use. */}}
{{- define "placet.otherLabels" -}}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "placet.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ default .Chart.AppVersion $image.tag }}
{{- end -}}
{{- end }}

{{/* kube-scheduler's image: of the cluster's version, v1.35.2 for v1.35.2-gke.100. */}}
{{- define "placet.schedulerImage" -}}
{{- $image := .Values.scheduler.image -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ default (printf "v%s" (include "placet.kubeVersion" .)) $image.tag }}
{{- end -}}
{{- end }}

{{/* The version of the cluster without a provider's suffix. */}}
{{- define "placet.kubeVersion" -}}
{{- $version := semver .Capabilities.KubeVersion.Version -}}
{{ $version.Major }}.{{ $version.Minor }}.{{ $version.Patch }}
{{- end }}

{{/* The schedulerNames of the pods that Placet is asked about, as a list. */}}
{{- define "placet.schedulerNames" -}}
{{- if eq .Values.mode "second-scheduler" -}}
{{ list .Values.scheduler.name | toJson }}
{{- else -}}
{{ .Values.scheduler.names | toJson }}
{{- end -}}
{{- end }}

{{/* How pods of opted-in namespaces get their scheduler: `policy`, `webhook`, or empty for not at all. */}}
{{- define "placet.optIn" -}}
{{- if and .Values.optIn.gate (eq .Values.mode "second-scheduler") -}}
{{- fail "optIn.gate is for the other modes: a second kube-scheduler gets only the pods of namespaces that opt in" -}}
{{- end -}}
{{- if and .Values.optIn.enabled (or .Values.optIn.gate (eq .Values.mode "second-scheduler")) -}}
{{- $has := semverCompare ">=1.36.0-0" (include "placet.kubeVersion" .) -}}
{{- if and (eq .Values.optIn.by "policy") (not $has) -}}
{{- fail (printf "optIn.by: policy needs Kubernetes 1.36, and the cluster has %s: set optIn.by to webhook" .Capabilities.KubeVersion.Version) -}}
{{- end -}}
{{- if eq .Values.optIn.by "auto" -}}
{{ ternary "policy" "webhook" $has }}
{{- else -}}
{{ .Values.optIn.by }}
{{- end -}}
{{- end -}}
{{- end }}

{{/* Whether the API server asks Placet about policies: `true`, or empty. */}}
{{- define "placet.checksPolicies" -}}
{{- if kindIs "bool" .Values.webhooks.policies -}}
{{- if .Values.webhooks.policies -}}true{{- end -}}
{{- else if eq .Values.certificates.mode "selfSigned" -}}
true
{{- end -}}
{{- end }}

{{/* Whether the API server calls Placet's webhooks: `true`, or empty. */}}
{{- define "placet.webhooks" -}}
{{- if or (include "placet.checksPolicies" .) .Values.portable.enabled (eq (include "placet.optIn" .) "webhook") -}}
true
{{- end -}}
{{- end }}

{{/* Whether Placet serves HTTPS: `true`, or empty. */}}
{{- define "placet.tls" -}}
{{- if or (eq .Values.mode "service") (include "placet.webhooks" .) -}}
true
{{- end -}}
{{- end }}

{{/* The port of HTTPS. A kube-scheduler beside Placet has another one, of plain HTTP on 127.0.0.1. */}}
{{- define "placet.httpsPort" -}}
{{ ternary .Values.ports.serve .Values.ports.webhooks (eq .Values.mode "service") }}
{{- end }}

{{/* The Secret with Placet's certificate; empty without HTTPS. */}}
{{- define "placet.tlsSecret" -}}
{{- if include "placet.tls" . -}}
{{ default (printf "%s-tls" (include "placet.fullname" .)) .Values.certificates.secretName }}
{{- end -}}
{{- end }}

{{/* The same, if it is mounted. Placet itself reads one that it keeps. */}}
{{- define "placet.mountedSecret" -}}
{{- if ne .Values.certificates.mode "selfSigned" -}}
{{ include "placet.tlsSecret" . }}
{{- end -}}
{{- end }}

{{/* The DNS names of the Service, as a list. */}}
{{- define "placet.dnsNames" -}}
{{- $service := printf "%s.%s.svc" (include "placet.fullname" .) .Release.Namespace -}}
{{ concat (list $service (printf "%s.cluster.local" $service)) .Values.certificates.dnsNames | toJson }}
{{- end }}
