{{/* What is in `toolgate.toml` of gateways and of workers. */}}

{{/* The values' `config`, without the parts of the other role. */}}
{{- define "toolgate.config.gateway" -}}
{{- $context := dict "Values" (include "toolgate.gateway.values" . | fromJson) "Chart" .Chart "Release" .Release }}
{{- $config := omit (deepCopy .Values.config) "trust" "state" "sandbox" "shell" "extensions" "lsp" "network" "search" }}
{{- $_ := set $config "listen" (include "toolgate.config.listen" $context | fromJson) }}
{{- $auth := include "toolgate.config.auth" $context | fromJson }}
{{- with .Values.workers.external.principals }}{{ $_ := set $auth "workers" . }}{{ end }}
{{- if (include "toolgate.config.rules" . | fromJson).workers }}
{{- /* Beside this file, and read again when it changes: a new worker restarts no gateway. */}}
{{- $_ := set $auth "workers_file" "/etc/toolgate/config/workers.toml" }}
{{- end }}
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

{{/* Who may register as a worker, and what each may have: a rule for each worker, and one for those that wait for a workspace. */}}
{{- define "toolgate.config.rules" -}}
{{- $rules := list }}
{{- $subject := printf "system:serviceaccount:%s:%s" .Release.Namespace (include "toolgate.worker.name" .) }}
{{- $showsCertificate := include "toolgate.worker.showsCertificate" . }}
{{- range include "toolgate.workers" . | fromJsonArray }}
{{- if $showsCertificate }}
{{- $rules = append $rules (dict "san" .host "workspaces" (list .workspace)) }}
{{- else }}
{{- $rules = append $rules (dict "subject" $subject "pod" (printf "%s-0" .object) "workspaces" (list .workspace) "hosts" (list .host)) }}
{{- end }}
{{- end }}
{{- with include "toolgate.waiting" . | fromJson }}
{{- $waiting := . }}
{{- range .pods }}
{{- $host := printf "%s{pod}.%s" . $waiting.domain }}
{{- $rules = append $rules (dict "subject" $subject "pod" (printf "%s*" .) "pool" true "workspaces" $.Values.workers.workspaces "hosts" (list $host)) }}
{{- end }}
{{- end }}
{{- toJson (dict "workers" (concat $rules .Values.workers.external.rules)) }}
{{- end }}

{{- define "toolgate.config.fleet" -}}
{{- $part := include "toolgate.config.database" . | fromJson }}
{{- $_ := set $part "lease" .Values.workers.lease }}
{{- $_ := set $part "migrate" "never" }}
{{- $_ := set $part "ca" "/etc/toolgate/cluster-ca/ca.crt" }}
{{- $_ := set $part "listen" (printf "0.0.0.0:%d" (int64 .Values.gateway.workersPort)) }}
{{- $tls := dict "certificate" "/etc/toolgate/tls/tls.crt" "key" "/etc/toolgate/tls/tls.key" }}
{{- with .Values.workers }}
{{- if or (include "toolgate.worker.showsCertificate" $) (eq .kind "external") }}
{{- $_ := set $tls "client_ca" "/etc/toolgate/cluster-ca/ca.crt" }}
{{- end }}
{{- if or .jwt.jwks.secretName .jwt.jwks.configMapName }}
{{- $_ := set $part "jwt" (dict "jwks_file" "/etc/toolgate/worker-jwks/jwks.json" "issuer" .jwt.issuer "audience" "toolgate-gateway") }}
{{- end }}
{{- with .external.reach }}{{ $_ := set $part "reach" . }}{{ end }}
{{- if .pool.replicas }}{{ $_ := set $part "pool" "first-call" }}{{ end }}
{{- end }}
{{- $_ := set $part "tls" $tls }}
{{- with include "toolgate.config.provisioner" . | fromJson }}{{ $_ := set $part "provisioner" . }}{{ end }}
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

{{/* What makes a place for a workspace that is asked for; nothing where workspaces come with their workers. */}}
{{- define "toolgate.config.provisioner" -}}
{{- $part := dict }}
{{- with .Values.workers }}
{{- if eq .kind "agentSandbox" }}
{{- $part = dict
  "kind" "agent-sandbox"
  "namespace" $.Release.Namespace
  "template" (include "toolgate.worker.name" $)
  "ca_file" "/etc/toolgate/kubernetes/ca.crt"
  "token_file" "/etc/toolgate/kubernetes/token"
}}
{{- else if .webhook.url }}
{{- $part = dict "kind" "webhook" "url" .webhook.url "token_file" "/etc/toolgate/webhook/token" }}
{{- if .webhook.caSecretName }}{{ $_ := set $part "ca_file" "/etc/toolgate/webhook-ca/ca.crt" }}{{ end }}
{{- end }}
{{- if $part }}
{{- if .onFirstCall }}{{ $_ := set $part "on_first_call" true }}{{ end }}
{{- if .idleSuspend }}{{ $_ := set $part "idle_suspend" .idleSuspend }}{{ end }}
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
{{- $cluster := dict "role" "worker" "gateways" (list (include "toolgate.gateway.address" .)) "resolve" true }}
{{- $_ := set $cluster "ca" "/etc/toolgate/cluster-ca/ca.crt" }}
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
