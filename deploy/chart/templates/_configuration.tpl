{{/* The configurations of Placet and of its kube-scheduler, as texts. */}}

{{- define "placet.configuration" -}}
{{- $mode := .Values.mode -}}
{{- if and .Values.bind.httpTimeout (not .Values.bind.enabled) -}}
{{- fail "bind.httpTimeout has no effect without bind.enabled" -}}
{{- end -}}
{{- $healthHost := ternary .Values.controlPlane.healthHost "" (eq $mode "control-plane") -}}
{{- $own := dict
  "apiVersion" "placet.dev/v1alpha1"
  "kind" "PlacetConfiguration"
  "listen" (printf "%s:%d" (ternary "" "127.0.0.1" (eq $mode "service")) (int .Values.ports.serve))
  "healthListen" (printf "%s:%d" $healthHost (int .Values.ports.health))
  "viewPort" (int .Values.ports.view)
  "lease" (printf "%s/%s" .Release.Namespace (include "placet.fullname" .))
  "schedulerName" (include "placet.schedulerNames" . | fromJsonArray)
-}}
{{- if eq $mode "second-scheduler" -}}
{{- $_ := set $own "schedulerLease" (printf "%s/%s-scheduler" .Release.Namespace (include "placet.fullname" .)) -}}
{{- end -}}
{{- if eq $mode "service" -}}
{{- $_ := set $own "lameduck" (default "15s" .Values.config.lameduck) -}}
{{- $_ := set $own "clientCa" "/etc/placet/clients/ca.crt" -}}
{{- $_ := set $own "clientName" .Values.clients.names -}}
{{- end -}}
{{- if and (include "placet.webhooks" .) (ne $mode "service") -}}
{{- $_ := set $own "webhookListen" (printf ":%d" (int .Values.ports.webhooks)) -}}
{{- end -}}
{{- if .Values.ports.sharedView -}}
{{- if not (include "placet.tls" .) -}}
{{- fail "ports.sharedView needs a certificate: set webhooks.policies to true" -}}
{{- end -}}
{{- $_ := set $own "viewListen" (printf ":%d" (int .Values.ports.sharedView)) -}}
{{- end -}}
{{- if include "placet.mountedSecret" . -}}
{{- $_ := set $own "tlsCert" "/etc/placet/tls/tls.crt" -}}
{{- $_ := set $own "tlsKey" "/etc/placet/tls/tls.key" -}}
{{- else if include "placet.tls" . -}}
{{- $_ := set $own "tlsSecret" (printf "%s/%s" .Release.Namespace (include "placet.tlsSecret" .)) -}}
{{- $_ := set $own "tlsName" (concat (include "placet.dnsNames" . | fromJsonArray) .Values.certificates.ipAddresses) -}}
{{- if include "placet.webhooks" . -}}
{{- $_ := set $own "webhookConfiguration" (list (include "placet.fullname" .)) -}}
{{- end -}}
{{- end -}}
{{- if .Values.policies -}}
{{- $_ := set $own "policies" (list "/etc/placet/policies") -}}
{{- end -}}
{{- if .Values.data.folder -}}
{{- $_ := set $own "dataFolder" "/etc/placet/data" -}}
{{- end -}}
{{- if .Values.data.caSecret -}}
{{- $_ := set $own "dataCa" "/etc/placet/data-ca/ca.crt" -}}
{{- end -}}
{{- if .Values.data.tokenSecret -}}
{{- $_ := set $own "dataToken" "/etc/placet/data-token/token" -}}
{{- end -}}
{{- if .Values.data.headersSecret -}}
{{- $_ := set $own "dataHeaders" "/etc/placet/data-headers/headers" -}}
{{- end -}}
{{- if .Values.bind.enabled -}}
{{- $_ := set $own "bind" true -}}
{{- end -}}
{{- if ne .Values.repair.mode "off" -}}
{{- $_ := set $own "repair" .Values.repair.mode -}}
{{- end -}}
{{- if .Values.optIn.gate -}}
{{- $_ := set $own "gate" true -}}
{{- end -}}
{{- if .Values.portable.enabled -}}
{{- with .Values.portable.frozenLabels -}}
{{- $_ := set $own "frozenLabel" . -}}
{{- end -}}
{{- with .Values.portable.frozenAnnotations -}}
{{- $_ := set $own "frozenAnnotation" . -}}
{{- end -}}
{{- end -}}
{{ merge $own .Values.config | toYaml }}
{{- end }}

{{- define "placet.schedulerConfiguration" -}}
{{- $extender := dict
  "urlPrefix" (printf "http://127.0.0.1:%d/api/scheduler" (int .Values.ports.serve))
  "filterVerb" "filter"
  "prioritizeVerb" "prioritize"
  "preemptVerb" "preempt"
  "weight" (int .Values.scheduler.weight)
  "httpTimeout" .Values.config.httpTimeout
  "nodeCacheCapable" true
  "ignorable" .Values.scheduler.ignorable
-}}
{{- $extenders := list $extender -}}
{{- if .Values.bind.httpTimeout -}}
{{- $extenders = append $extenders (dict
  "urlPrefix" $extender.urlPrefix
  "bindVerb" "bind"
  "httpTimeout" .Values.bind.httpTimeout
  "ignorable" false
) -}}
{{- else if .Values.bind.enabled -}}
{{- $_ := set $extender "bindVerb" "bind" -}}
{{- end -}}
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection:
  qps: {{ .Values.scheduler.clientConnection.qps }}
  burst: {{ .Values.scheduler.clientConnection.burst }}
# A Lease of its own: neither that of the cluster's kube-scheduler nor that of Placet.
leaderElection:
  leaderElect: true
  resourceNamespace: {{ .Release.Namespace }}
  resourceName: {{ include "placet.fullname" . }}-scheduler
# With less, Placet gets only a sample of the nodes if there are 100 or more.
percentageOfNodesToScore: 100
profiles:
  - {{- merge (dict "schedulerName" .Values.scheduler.name) .Values.scheduler.profile | toYaml | nindent 4 }}
extenders:
{{- range $extenders }}
  - {{- toYaml . | nindent 4 }}
{{- end }}
{{- end }}
