{{/* The container of the service and its volumes, for the pod of this chart and for pods of others. */}}

{{- define "toolgate.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: {{ int64 .Values.security.runAsUser }}
runAsGroup: {{ int64 .Values.security.runAsGroup }}
fsGroup: {{ int64 .Values.security.fsGroup }}
# Otherwise the kubelet opens every file of the store to the group, each time that the pod starts.
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  {{- if .Values.security.seccompProfile }}
  type: Localhost
  localhostProfile: {{ .Values.security.seccompProfile }}
  {{- else }}
  type: RuntimeDefault
  {{- end }}
{{- end }}

{{- define "toolgate.containerSecurityContext" -}}
allowPrivilegeEscalation: false
capabilities:
  drop: [ALL]
privileged: false
readOnlyRootFilesystem: true
{{- end }}

{{- define "toolgate.probe" -}}
{{- $probe := .probe }}
{{- if eq "grpc" (include "toolgate.probeKind" .root) -}}
grpc:
  port: {{ int64 .root.Values.listen.port }}
  service: {{ $probe.service }}
{{- else -}}
httpGet:
  port: admin
  path: {{ .path }}
{{- end }}
periodSeconds: {{ int64 $probe.periodSeconds }}
timeoutSeconds: {{ int64 $probe.timeoutSeconds }}
failureThreshold: {{ int64 $probe.failureThreshold }}
{{- end }}

{{/* The service's container. As a sidecar it starts before the others, and ends after them. */}}
{{- define "toolgate.container" -}}
name: toolgate
{{- if .Values.toolbox.image }}
image: {{ .Values.toolbox.image }}
imagePullPolicy: {{ .Values.toolbox.pullPolicy }}
command: [/opt/toolgate/toolgate]
{{- else }}
image: {{ include "toolgate.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
command: [/usr/local/bin/toolgate]
{{- end }}
args: [{{ .command | default "serve" }}]
{{- if include "toolgate.sharesSocket" . }}
restartPolicy: Always
{{- end }}
env:
  - name: TOOLGATE_CONFIG
    value: /etc/toolgate/config/toolgate.toml
  - name: HOME
    value: /home/toolgate
  {{- if not .Values.opencode.projectConfig }}
  - name: OPENCODE_DISABLE_PROJECT_CONFIG
    value: "1"
  {{- end }}
  {{- with .environment }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  {{- with .Values.env }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- if or .Values.listen.tcp .Values.telemetry.admin.enabled }}
ports:
  {{- if .Values.listen.tcp }}
  - name: grpc
    containerPort: {{ int64 .Values.listen.port }}
  {{- end }}
  {{- with .workersPort }}
  - name: workers
    containerPort: {{ int64 . }}
  {{- end }}
  {{- if .Values.telemetry.admin.enabled }}
  - name: admin
    containerPort: {{ int64 .Values.telemetry.admin.port }}
  {{- end }}
{{- end }}
startupProbe:
  {{- include "toolgate.probe" (dict "root" . "probe" .Values.probes.startup "path" "/readyz") | nindent 2 }}
readinessProbe:
  {{- include "toolgate.probe" (dict "root" . "probe" .Values.probes.readiness "path" "/readyz") | nindent 2 }}
livenessProbe:
  {{- include "toolgate.probe" (dict "root" . "probe" .Values.probes.liveness "path" "/healthz") | nindent 2 }}
{{- if gt (int64 .Values.lifecycle.preStopSeconds) 0 }}
lifecycle:
  preStop:
    sleep:
      seconds: {{ int64 .Values.lifecycle.preStopSeconds }}
{{- end }}
resources:
  {{- toYaml .Values.resources | nindent 2 }}
securityContext:
  {{- include "toolgate.containerSecurityContext" . | nindent 2 }}
  runAsNonRoot: true
  runAsUser: {{ int64 .Values.security.runAsUser }}
  runAsGroup: {{ int64 .Values.security.runAsGroup }}
volumeMounts:
  - name: toolgate-config
    mountPath: /etc/toolgate/config
    readOnly: true
  {{- if .Values.workspaces }}
  # The strongest place for what OpenCode's tools are told.
  - name: toolgate-config
    mountPath: /etc/opencode/opencode.json
    subPath: opencode.json
    readOnly: true
  - name: toolgate-state
    mountPath: /var/lib/toolgate
  {{- end }}
  - name: toolgate-tmp
    mountPath: /tmp
  - name: toolgate-home
    mountPath: /home/toolgate
  {{- if include "toolgate.sharesSocket" . }}
  - name: toolgate-socket
    mountPath: /run/toolgate
  {{- end }}
  {{- if .Values.toolbox.image }}
  - name: toolgate-program
    mountPath: /opt/toolgate
    readOnly: true
  {{- end }}
  {{- range $name, $_ := include "toolgate.secretVolumes" . | fromJson }}
  - name: toolgate-{{ $name }}
    mountPath: /etc/toolgate/{{ $name }}
    readOnly: true
  {{- end }}
  {{- include "toolgate.workspaceMounts" . | trim | nindent 2 }}
  {{- with .Values.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{- define "toolgate.workspaceMounts" -}}
{{- range .Values.workspaces }}
- name: workspace-{{ .name }}
  mountPath: /workspaces/{{ .name }}
  {{- with .volume.subPath }}
  subPath: {{ . }}
  {{- end }}
{{- end }}
{{- end }}

{{/* Puts the program into the image that has what commands need. */}}
{{- define "toolgate.copyContainer" -}}
name: copy-program
image: {{ include "toolgate.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
command:
  {{- toYaml .Values.toolbox.copyCommand | nindent 2 }}
resources:
  requests: {cpu: 10m, memory: 16Mi}
  limits: {memory: 64Mi}
securityContext:
  {{- include "toolgate.containerSecurityContext" . | nindent 2 }}
volumeMounts:
  - name: toolgate-program
    mountPath: /opt/toolgate
{{- end }}

{{/*
The volumes of secrets: by the folder in `/etc/toolgate`, where they come from, and which key is which file. Their files
belong to root and the pod's group, which the kubelet makes them readable for. A context of `_cluster.tpl` has more of them, some with
a `source` that is no secret.
*/}}
{{- define "toolgate.secretVolumes" -}}
{{- $volumes := dict }}
{{- with .Values }}
{{- if include "toolgate.encrypts" $ }}
{{- $_ := set $volumes "tls" (dict "secret" (include "toolgate.tlsSecretName" $) "items" (dict "tls.crt" "tls.crt" "tls.key" "tls.key")) }}
{{- if .tls.clientCA.secretName }}
{{- $_ := set $volumes "client-ca" (dict "secret" .tls.clientCA.secretName "items" (dict .tls.clientCA.key "ca.crt")) }}
{{- end }}
{{- end }}
{{- if .auth.tokens.secretName }}
{{- $_ := set $volumes "tokens" (dict "secret" .auth.tokens.secretName "items" (dict .auth.tokens.key "tokens")) }}
{{- end }}
{{- with .auth.jwt.jwks }}
{{- if or .secretName .configMapName }}
{{- $_ := set $volumes "jwks" (dict "secret" .secretName "configMap" .configMapName "items" (dict .key "jwks.json")) }}
{{- end }}
{{- end }}
{{- with .secretFiles.auditKey }}
{{- if .secretName }}{{ $_ := set $volumes "audit-key" (dict "secret" .secretName "items" (dict .key "key")) }}{{ end }}
{{- end }}
{{- with .secretFiles.searchKey }}
{{- if .secretName }}{{ $_ := set $volumes "search-key" (dict "secret" .secretName "items" (dict .key "key")) }}{{ end }}
{{- end }}
{{- range $index, $file := .secretFiles.redact }}
{{- $_ := set $volumes (printf "redact-%d" $index) (dict "secret" $file.secretName "items" (dict $file.key "secret")) }}
{{- end }}
{{- end }}
{{- toJson (merge (deepCopy (.secrets | default dict)) $volumes) }}
{{- end }}

{{/* The volumes of the container, claims that a StatefulSet makes left out. */}}
{{- define "toolgate.volumes" -}}
- name: toolgate-config
  configMap:
    name: {{ .configMap | default (include "toolgate.fullname" .) }}
- name: toolgate-tmp
  emptyDir:
    sizeLimit: {{ .Values.scratch.tmp }}
- name: toolgate-home
  emptyDir:
    sizeLimit: {{ .Values.scratch.home }}
{{- if include "toolgate.sharesSocket" . }}
- name: toolgate-socket
  emptyDir:
    medium: Memory
    sizeLimit: 1Mi
{{- end }}
{{- if .Values.toolbox.image }}
- name: toolgate-program
  emptyDir:
    sizeLimit: 256Mi
{{- end }}
{{- range $name, $volume := include "toolgate.secretVolumes" . | fromJson }}
- name: toolgate-{{ $name }}
  {{- if $volume.source }}
  {{- toYaml $volume.source | nindent 2 }}
  {{- else }}
  {{- if $volume.secret }}
  secret:
    secretName: {{ $volume.secret }}
  {{- else }}
  configMap:
    name: {{ $volume.configMap }}
  {{- end }}
    defaultMode: 0440
    items:
      {{- range $key, $path := $volume.items }}
      - key: {{ $key }}
        path: {{ $path }}
      {{- end }}
  {{- end }}
{{- end }}
{{- if .Values.state.existingClaim }}
- name: toolgate-state
  persistentVolumeClaim:
    claimName: {{ .Values.state.existingClaim }}
{{- else if .Values.state.ephemeral }}
- name: toolgate-state
  emptyDir:
    sizeLimit: {{ .Values.state.size }}
{{- end }}
{{- range .Values.workspaces }}
{{- if .volume.existingClaim }}
- name: workspace-{{ .name }}
  persistentVolumeClaim:
    claimName: {{ .volume.existingClaim }}
{{- else if .volume.ephemeral }}
- name: workspace-{{ .name }}
  emptyDir:
    sizeLimit: {{ .volume.size }}
{{- end }}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "toolgate.claim" -}}
- apiVersion: v1
  kind: PersistentVolumeClaim
  metadata:
    name: {{ .name }}
  spec:
    accessModes: [{{ .accessMode | default "ReadWriteOncePod" }}]
    {{- with .storageClass }}
    storageClassName: {{ . }}
    {{- end }}
    resources:
      requests:
        storage: {{ .size }}
{{- end }}

{{- define "toolgate.claims" -}}
{{- with .Values.state }}
{{- if not (or .existingClaim .ephemeral) }}
{{ include "toolgate.claim" (dict "name" "toolgate-state" "size" .size "storageClass" .storageClass "accessMode" .accessMode) }}
{{- end }}
{{- end }}
{{- range .Values.workspaces }}
{{- if not (or .volume.existingClaim .volume.ephemeral) }}
{{ include "toolgate.claim" (merge (dict "name" (printf "workspace-%s" .name)) .volume) }}
{{- end }}
{{- end }}
{{- end }}

{{/*
For the pod of another chart that has this one as a dependency with `mode: config`: the container, to be an entry of
`initContainers`, and the volumes. The claims are that chart's.
*/}}
{{- define "toolgate.sidecar.container" -}}
{{- if .Values.toolbox.image }}
- {{ include "toolgate.copyContainer" . | nindent 2 | trim }}
{{- end }}
- {{ include "toolgate.container" . | nindent 2 | trim }}
{{- end }}

{{- define "toolgate.sidecar.volumes" -}}
{{- include "toolgate.volumes" . }}
{{- end }}

{{/* The agent beside the service: as what the values say, with the socket, and under the same restrictions. */}}
{{- define "toolgate.agentContainer" -}}
{{- $agent := deepCopy .Values.sidecar.agent }}
{{- $env := concat (list (dict "name" "TOOLGATE_SERVER" "value" "unix:/run/toolgate/toolgate.sock")) ($agent.env | default list) }}
{{- $mounts := list (dict "name" "toolgate-socket" "mountPath" "/run/toolgate" "readOnly" true) (dict "name" "agent-tmp" "mountPath" "/tmp") }}
{{- if ne .Values.sidecar.workspaces "none" }}
{{- range include "toolgate.workspaceMounts" . | fromYamlArray }}
{{- $mounts = append $mounts (merge (dict "readOnly" (eq $.Values.sidecar.workspaces "read")) .) }}
{{- end }}
{{- end }}
{{- $mounts = concat $mounts ($agent.volumeMounts | default list) }}
{{- $context := include "toolgate.containerSecurityContext" . | fromYaml }}
{{- $_ := set $context "runAsNonRoot" true }}
{{- $_ := set $context "runAsUser" (int64 .Values.sidecar.agentUser) }}
{{- $_ := set $context "runAsGroup" (int64 .Values.sidecar.agentUser) }}
{{- toYaml (merge (dict "env" $env "volumeMounts" $mounts "securityContext" $context) $agent) }}
{{- end }}

{{- define "toolgate.configChecksum" -}}
{{- printf "%s\n%s" (include "toolgate.config" .) .Values.opencode.json | sha256sum }}
{{- end }}

{{/* What a pod of this chart is: of the one pod, or of a part of a cluster with a context of its own (`_cluster.tpl`). */}}
{{- define "toolgate.podTemplate" -}}
metadata:
  # Without the version of the chart: a new chart alone is no reason to start anew.
  labels:
    {{- include "toolgate.podSelector" . | nindent 4 }}
    app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | trunc 63 | quote }}
    app.kubernetes.io/part-of: toolgate
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    # The service reads its configuration when it starts; certificates and tokens it reads again by itself.
    checksum/config: {{ .checksum | default (include "toolgate.configChecksum" .) }}
    kubectl.kubernetes.io/default-container: {{ ternary .Values.sidecar.agent.name "toolgate" (eq .Values.mode "sidecar") }}
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ .serviceAccount | default (include "toolgate.serviceAccountName" .) }}
  automountServiceAccountToken: false
  # Variables such as TOOLGATE_PORT, which Kubernetes would set for a service called `toolgate`, are not wanted.
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ include "toolgate.gracePeriod" . }}
  securityContext:
    {{- include "toolgate.podSecurityContext" . | nindent 4 }}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- range . }}
    - name: {{ . }}
    {{- end }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with .Values.runtimeClassName }}
  runtimeClassName: {{ . }}
  {{- end }}
  {{- if eq .Values.mode "sidecar" }}
  initContainers:
    {{- include "toolgate.sidecar.container" . | trim | nindent 4 }}
  containers:
    - {{ include "toolgate.agentContainer" . | nindent 6 | trim }}
  {{- else }}
  {{- if .Values.toolbox.image }}
  initContainers:
    - {{ include "toolgate.copyContainer" . | nindent 6 | trim }}
  {{- end }}
  containers:
    - {{ include "toolgate.container" . | nindent 6 | trim }}
  {{- end }}
  volumes:
    {{- include "toolgate.volumes" . | nindent 4 }}
    {{- if eq .Values.mode "sidecar" }}
    - name: agent-tmp
      emptyDir:
        sizeLimit: {{ .Values.scratch.tmp }}
    {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if .isSpread }}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "toolgate.podSelector" . | nindent 10 }}
  {{- end }}
{{- end }}
