{{/* What is in `toolgate.toml` of gateways and of workers. */}}

{{/* The values' `config`, without the parts of the other role. */}}
{{- define "toolgate.config.gateway" -}}
{{- $context := dict "Values" (include "toolgate.gateway.values" . | fromJson) "Chart" .Chart "Release" .Release }}
{{- $config := omit (deepCopy .Values.config) "trust" "state" "sandbox" "shell" "extensions" "lsp" "network" "search" }}
{{- $_ := set $config "listen" (include "toolgate.config.listen" $context | fromJson) }}
{{- $auth := include "toolgate.config.auth" $context | fromJson }}
{{- $_ := set $auth "workers" (include "toolgate.config.principals" . | fromJsonArray) }}
{{- $_ := set $config "auth" $auth }}
{{- $_ := set $config "telemetry" (include "toolgate.config.telemetry" . | fromJson) }}
{{- $_ := set $config "cluster" (include "toolgate.config.fleet" . | fromJson) }}
{{- with .Values.tenants }}
{{- $tenants := dict }}
{{- range . }}
{{- $tenant := dict "workspaces" (.workspaces | default (list (printf "%s/*" .name))) }}
{{- if hasKey . "maxWorkspaces" }}{{ $_ := set $tenant "max_workspaces" .maxWorkspaces }}{{ end }}
{{- if hasKey . "maxRunningCalls" }}{{ $_ := set $tenant "max_running_calls" .maxRunningCalls }}{{ end }}
{{- $_ := set $tenants .name $tenant }}
{{- end }}
{{- $_ := set $config "tenants" $tenants }}
{{- end }}
{{- include "toolgate.config.secrets" (dict "files" $context.Values.secretFiles "config" $config) }}
{{- include "toolgate.toml.table" (dict "path" list "table" $config) | trim }}
{{- end }}

{{/* Who may register as a worker. */}}
{{- define "toolgate.config.principals" -}}
{{- $principals := .Values.workers.external.principals }}
{{- if ne .Values.workers.kind "external" }}
{{- if include "toolgate.worker.showsCertificate" . }}
{{- range .Values.workers.list }}{{ $principals = append $principals (printf "certificate:%s" .name) }}{{ end }}
{{- else }}
{{- $principals = append $principals (printf "jwt:system:serviceaccount:%s:%s" .Release.Namespace (include "toolgate.worker.name" .)) }}
{{- end }}
{{- end }}
{{- toJson (uniq $principals) }}
{{- end }}

{{- define "toolgate.config.fleet" -}}
{{- $part := include "toolgate.config.database" . | fromJson }}
{{- $_ := set $part "lease" .Values.workers.lease }}
{{- $_ := set $part "migrate" "never" }}
{{- $_ := set $part "ca" "/etc/toolgate/cluster-ca/ca.crt" }}
{{- $reach := .Values.workers.external.reach }}
{{- range include "toolgate.workers" . | fromJsonArray }}
{{- $reach = append $reach (printf "%s:%d" .host (int64 $.Values.workers.port)) }}
{{- end }}
{{- if $reach }}{{ $_ := set $part "reach" $reach }}{{ end }}
{{- with .Values.outputs }}
{{- if .bucket }}
{{- $_ := set $part "outputs" (printf "s3://%s" (list .bucket .prefix | compact | join "/")) }}
{{- if .endpoint }}{{ $_ := set $part "outputs_endpoint" .endpoint }}{{ end }}
{{- if .region }}{{ $_ := set $part "outputs_region" .region }}{{ end }}
{{- if .pathStyle }}{{ $_ := set $part "outputs_path_style" true }}{{ end }}
{{- if .secretName }}{{ $_ := set $part "outputs_keys_file" "/etc/toolgate/outputs/keys" }}{{ end }}
{{- end }}
{{- end }}
{{- toJson $part }}
{{- end }}

{{- define "toolgate.config.database" -}}
{{- $part := dict "role" "gateway" "store_file" "/etc/toolgate/database/url" }}
{{- if .Values.database.caSecretName }}{{ $_ := set $part "store_ca" "/etc/toolgate/database-ca/ca.crt" }}{{ end }}
{{- toJson $part }}
{{- end }}

{{/* Only what the job needs that brings the tables up to date: it runs before the other objects are there. */}}
{{- define "toolgate.config.migration" -}}
{{- $config := dict "cluster" (include "toolgate.config.database" . | fromJson) }}
{{- /* A gateway has to be told whom it lets in; the job lets nobody in. */}}
{{- $_ := set $config "auth" (dict "tokens_file" "/etc/toolgate/tokens/tokens" "workers" (list "token:nobody")) }}
{{- $_ := set $config "log" (.Values.config.log | default dict) }}
{{- include "toolgate.toml.table" (dict "path" list "table" $config) | trim }}
{{- end }}

{{/* What all workers have in common; the rest is in their environment. */}}
{{- define "toolgate.config.worker" -}}
{{- $context := dict "Values" (include "toolgate.worker.values" . | fromJson) "Chart" .Chart "Release" .Release }}
{{- $config := omit (deepCopy .Values.config) "state" "audit" "console" }}
{{- $_ := set $config "data_dir" "/var/lib/toolgate/data" }}
{{- $_ := set $config "listen" (include "toolgate.config.listen" $context | fromJson) }}
{{- $_ := set $config "telemetry" (include "toolgate.config.telemetry" . | fromJson) }}
{{- $sandbox := $config.sandbox | default dict }}
{{- $_ := set $sandbox "hidden" (include "toolgate.config.hidden" . | fromJson).hidden }}
{{- $_ := set $config "sandbox" $sandbox }}
{{- $cluster := dict "role" "worker" "gateways" (include "toolgate.gateway.addresses" . | fromJsonArray) }}
{{- $withCertificate := and (eq .Values.workers.kind "agentSandbox") (not .Values.workers.ca.secretName) }}
{{- $_ := set $cluster "ca" (ternary "/etc/toolgate/tls/ca.crt" "/etc/toolgate/cluster-ca/ca.crt" $withCertificate) }}
{{- if include "toolgate.worker.showsCertificate" . }}
{{- $_ := set $cluster "certificate" "/etc/toolgate/tls/tls.crt" }}
{{- $_ := set $cluster "key" "/etc/toolgate/tls/tls.key" }}
{{- else }}
{{- $_ := set $cluster "identity" "/etc/toolgate/identity/token" }}
{{- end }}
{{- $_ := set $config "cluster" $cluster }}
{{- include "toolgate.config.secrets" (dict "files" $context.Values.secretFiles "config" $config) }}
{{- include "toolgate.toml.table" (dict "path" list "table" $config) | trim }}
{{- end }}
