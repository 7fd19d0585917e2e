{{/* The template of the pods, for every kind of workload. */}}

{{- define "placet.pod" -}}
metadata:
  labels:
    {{- include "placet.selectorLabels" . | nindent 4 }}
    {{- with .Values.commonLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    kubectl.kubernetes.io/default-container: placet
    # Policies are read again by themselves; other changes need new pods.
    checksum/config: {{ include "placet.configuration" . | sha256sum }}
    {{- if eq .Values.mode "second-scheduler" }}
    checksum/scheduler: {{ include "placet.schedulerConfiguration" . | sha256sum }}
    {{- end }}
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  {{- if eq .Values.mode "control-plane" }}
  hostNetwork: true
  dnsPolicy: ClusterFirstWithHostNet
  {{- end }}
  serviceAccountName: {{ include "placet.serviceAccount" . }}
  automountServiceAccountToken: true
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
  {{- if .Values.nodeSelector }}
  nodeSelector: {{- toYaml .Values.nodeSelector | nindent 4 }}
  {{- else if eq .Values.mode "control-plane" }}
  nodeSelector:
    node-role.kubernetes.io/control-plane: ""
  {{- end }}
  {{- if kindIs "invalid" .Values.tolerations }}
  tolerations:
    {{- if eq .Values.mode "control-plane" }}
    # Like the kube-scheduler beside it.
    - operator: Exists
    {{- else }}
    - key: CriticalAddonsOnly
      operator: Exists
    - key: node-role.kubernetes.io/control-plane
      operator: Exists
      effect: NoSchedule
    {{- end }}
  {{- else if .Values.tolerations }}
  tolerations: {{- toYaml .Values.tolerations | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if and .Values.topologySpreadConstraints (ne .Values.mode "control-plane") }}
  topologySpreadConstraints:
    {{- range .Values.topologySpreadConstraints }}
    - {{- toYaml . | nindent 6 }}
      labelSelector:
        matchLabels: {{- include "placet.selectorLabels" $ | nindent 10 }}
      matchLabelKeys: [pod-template-hash]
    {{- end }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    seccompProfile: {type: RuntimeDefault}
  containers:
    - name: placet
      image: {{ include "placet.image" . }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      command: [placet]
      args:
        - serve
        - --config=/etc/placet/placet.yaml
        {{- range .Values.extraArgs }}
        - {{ . | quote }}
        {{- end }}
      env:
        # The tables of the grammar are kept here when the container starts again.
        - name: HOME
          value: /tmp
        {{- with .Values.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      ports:
        - name: health
          containerPort: {{ .Values.ports.health }}
        {{- if include "placet.tls" . }}
        - name: https
          containerPort: {{ include "placet.httpsPort" . }}
        {{- end }}
        {{- if .Values.ports.sharedView }}
        - name: view
          containerPort: {{ .Values.ports.sharedView }}
        {{- end }}
      startupProbe:
        httpGet: {{- include "placet.probe" (list $ "/livez") | nindent 10 }}
        periodSeconds: 2
        failureThreshold: 60
      livenessProbe:
        httpGet: {{- include "placet.probe" (list $ "/livez") | nindent 10 }}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 3
      readinessProbe:
        httpGet: {{- include "placet.probe" (list $ "/readyz") | nindent 10 }}
        periodSeconds: 5
        timeoutSeconds: 5
        failureThreshold: 2
      {{- with .Values.resources }}
      resources: {{- toYaml . | nindent 8 }}
      {{- end }}
      securityContext: {{- include "placet.containerSecurity" . | nindent 8 }}
      volumeMounts:
        - name: config
          mountPath: /etc/placet
          readOnly: true
        {{- if .Values.policies }}
        - name: policies
          mountPath: /etc/placet/policies
          readOnly: true
        {{- end }}
        {{- if .Values.data.folder }}
        - name: data
          mountPath: /etc/placet/data
          readOnly: true
        {{- end }}
        {{- if .Values.data.caSecret }}
        - name: data-ca
          mountPath: /etc/placet/data-ca
          readOnly: true
        {{- end }}
        {{- if .Values.data.tokenSecret }}
        - name: data-token
          mountPath: /etc/placet/data-token
          readOnly: true
        {{- end }}
        {{- if .Values.data.headersSecret }}
        - name: data-headers
          mountPath: /etc/placet/data-headers
          readOnly: true
        {{- end }}
        {{- if include "placet.mountedSecret" . }}
        - name: tls
          mountPath: /etc/placet/tls
          readOnly: true
        {{- end }}
        {{- if eq .Values.mode "service" }}
        - name: clients
          mountPath: /etc/placet/clients
          readOnly: true
        {{- end }}
        - name: tmp
          mountPath: /tmp
        {{- with .Values.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    {{- if eq .Values.mode "second-scheduler" }}
    {{- include "placet.scheduler" . | nindent 4 }}
    {{- end }}
  volumes:
    - name: config
      configMap:
        name: {{ include "placet.fullname" . }}-config
    {{- if .Values.policies }}
    - name: policies
      configMap:
        name: {{ include "placet.fullname" . }}-policies
    {{- end }}
    {{- if eq .Values.mode "second-scheduler" }}
    - name: scheduler
      configMap:
        name: {{ include "placet.fullname" . }}-scheduler
    {{- end }}
    {{- with .Values.data.folder }}
    - name: data
      {{- toYaml . | nindent 6 }}
    {{- end }}
    {{- with .Values.data.caSecret }}
    - name: data-ca
      secret: {secretName: {{ . }}, defaultMode: 0440}
    {{- end }}
    {{- with .Values.data.tokenSecret }}
    - name: data-token
      secret: {secretName: {{ . }}, defaultMode: 0440}
    {{- end }}
    {{- with .Values.data.headersSecret }}
    - name: data-headers
      secret: {secretName: {{ . }}, defaultMode: 0440}
    {{- end }}
    {{- with include "placet.mountedSecret" . }}
    - name: tls
      secret: {secretName: {{ . }}, defaultMode: 0440}
    {{- end }}
    {{- if eq .Values.mode "service" }}
    - name: clients
      {{- if .Values.clients.caSecret }}
      secret:
        secretName: {{ .Values.clients.caSecret }}
      {{- else }}
      configMap:
        name: {{ .Values.clients.caConfigMap }}
      {{- end }}
    {{- end }}
    - name: tmp
      emptyDir: {sizeLimit: 64Mi}
    {{- with .Values.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end }}

{{/* The container of kube-scheduler. */}}
{{- define "placet.scheduler" -}}
- name: kube-scheduler
  image: {{ include "placet.schedulerImage" . }}
  imagePullPolicy: {{ .Values.scheduler.image.pullPolicy }}
  command: [kube-scheduler]
  args:
    - --config=/etc/kubernetes/scheduler.yaml
    - --v={{ .Values.scheduler.logLevel }}
    {{- range .Values.scheduler.extraArgs }}
    - {{ . | quote }}
    {{- end }}
  ports:
    - name: scheduler
      containerPort: 10259
  startupProbe:
    httpGet: {path: /livez, port: scheduler, scheme: HTTPS}
    periodSeconds: 2
    failureThreshold: 60
  livenessProbe:
    # Fails when the Lease could not be renewed and the process goes on all the same.
    httpGet: {path: /healthz, port: scheduler, scheme: HTTPS}
    periodSeconds: 10
    timeoutSeconds: 5
    failureThreshold: 3
  readinessProbe:
    httpGet: {path: /readyz, port: scheduler, scheme: HTTPS}
    periodSeconds: 5
    timeoutSeconds: 5
    failureThreshold: 2
  {{- with .Values.scheduler.resources }}
  resources: {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext: {{- include "placet.containerSecurity" . | nindent 4 }}
  volumeMounts:
    - name: scheduler
      mountPath: /etc/kubernetes
      readOnly: true
{{- end }}

{{- define "placet.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities: {drop: [ALL]}
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{/* The httpGet of a probe: the chart's values and a path. On the host's network, health may listen on 127.0.0.1 only. */}}
{{- define "placet.probe" -}}
{{- $values := (index . 0).Values -}}
path: {{ index . 1 }}
port: health
{{- if eq $values.mode "control-plane" }}
{{- with $values.controlPlane.healthHost }}
host: {{ . }}
{{- end }}
{{- end }}
{{- end }}
