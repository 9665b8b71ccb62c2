{{/* Names, labels and numbers that several templates share. */}}

{{- define "toolgate.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* Short enough for what is put behind it: the longest is a label of the StatefulSet's revision. */}}
{{- define "toolgate.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else }}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) | trunc 40 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "toolgate.selector" -}}
app.kubernetes.io/name: {{ include "toolgate.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* What a pod is selected by. A context of `_cluster.tpl` says which part of the cluster the pod is. */}}
{{- define "toolgate.podSelector" -}}
{{ include "toolgate.selector" . }}
{{- with .component }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- with .worker }}
toolgate.dev/worker: {{ . }}
{{- end }}
{{- end }}

{{- define "toolgate.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "toolgate.selector" . }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | trunc 63 | quote }}
app.kubernetes.io/part-of: toolgate
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "toolgate.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}
{{- end }}

{{- define "toolgate.serviceAccountName" -}}
{{- .Values.serviceAccount.name | default (ternary (include "toolgate.fullname" .) "default" .Values.serviceAccount.create) }}
{{- end }}

{{- define "toolgate.tlsSecretName" -}}
{{- if eq .Values.tls.mode "certManager" }}
{{- .Values.tls.secretName | default (printf "%s-tls" (include "toolgate.fullname" .)) }}
{{- else }}
{{- .Values.tls.secretName }}
{{- end }}
{{- end }}

{{/* Says `yes` where the service encrypts. */}}
{{- define "toolgate.encrypts" -}}
{{- if and .Values.listen.tcp (ne .Values.tls.mode "insecure") }}yes{{ end }}
{{- end }}

{{/* Says `yes` where other pods call the service, so that there is something to route to. */}}
{{- define "toolgate.isServed" -}}
{{- if and .Values.listen.tcp (ne .Values.mode "config") }}yes{{ end }}
{{- end }}

{{/* Says `yes` where pods of this chart run. */}}
{{- define "toolgate.runs" -}}
{{- if ne .Values.mode "config" }}yes{{ end }}
{{- end }}

{{/* Says `yes` where gateways and workers run, in the place of one pod. */}}
{{- define "toolgate.isCluster" -}}
{{- if eq .Values.mode "cluster" }}yes{{ end }}
{{- end }}

{{/* Says `yes` where one pod of this chart runs. */}}
{{- define "toolgate.runsAlone" -}}
{{- if and (include "toolgate.runs" .) (not (include "toolgate.isCluster" .)) }}yes{{ end }}
{{- end }}

{{/* Says `yes` where other containers of the pod use the socket. */}}
{{- define "toolgate.sharesSocket" -}}
{{- if has .Values.mode (list "sidecar" "config") }}yes{{ end }}
{{- end }}

{{- define "toolgate.probeKind" -}}
{{- if ne .Values.probes.kind "auto" }}
{{- .Values.probes.kind }}
{{- else }}
{{- ternary "grpc" "http" (and .Values.listen.tcp (eq .Values.tls.mode "insecure")) }}
{{- end }}
{{- end }}

{{/* A duration of `toolgate.toml` in whole seconds, rounded up. */}}
{{- define "toolgate.seconds" -}}
{{- $number := regexFind "^[0-9]+" . | int64 }}
{{- $unit := regexFind "[a-z]+$" . }}
{{- if eq $unit "ms" }}{{ div (add $number 999) 1000 }}
{{- else if eq $unit "s" }}{{ $number }}
{{- else if eq $unit "m" }}{{ mul $number 60 }}
{{- else if eq $unit "h" }}{{ mul $number 3600 }}
{{- else if eq $unit "d" }}{{ mul $number 86400 }}
{{- else }}{{ fail (printf "%q is not a duration such as \"60s\" or \"5m\"" .) }}
{{- end }}
{{- end }}

{{/* A size of `toolgate.toml`, or a quantity of Kubernetes, in MiB, rounded down. */}}
{{- define "toolgate.mebibytes" -}}
{{- $text := toString . }}
{{- $number := regexFind "^[0-9]+" $text | int64 }}
{{- $unit := regexFind "[A-Za-z]*$" $text | trimSuffix "B" }}
{{- if eq $unit "" }}{{ div $number 1048576 }}
{{- else if eq $unit "Ki" }}{{ div $number 1024 }}
{{- else if eq $unit "Mi" }}{{ $number }}
{{- else if eq $unit "Gi" }}{{ mul $number 1024 }}
{{- else if eq $unit "Ti" }}{{ mul $number 1048576 }}
{{- else }}{{ fail (printf "%q is not a size such as \"20Gi\"" $text) }}
{{- end }}
{{- end }}

{{- define "toolgate.drainSeconds" -}}
{{- include "toolgate.seconds" (.Values.config.drain_grace | default "10s") }}
{{- end }}

{{- define "toolgate.gracePeriod" -}}
{{- $needed := add (include "toolgate.drainSeconds" . | int64) (.Values.lifecycle.preStopSeconds | int64) }}
{{- if kindIs "invalid" .Values.lifecycle.terminationGracePeriodSeconds }}
{{- add $needed 30 }}
{{- else }}
{{- .Values.lifecycle.terminationGracePeriodSeconds | int64 }}
{{- end }}
{{- end }}
