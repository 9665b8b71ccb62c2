{{/* What is in `toolgate.toml`: the values' `config`, and what the chart decides. */}}

{{/*
The part of the configuration for telemetry: the one place that knows the names of its keys.
*/}}
{{- define "toolgate.config.telemetry" -}}
{{- $part := dict }}
{{- with .Values.telemetry }}
{{- if .admin.enabled }}{{ $_ := set $part "admin" (printf "0.0.0.0:%d" (int64 .admin.port)) }}{{ end }}
{{- if .otlp.endpoint }}{{ $_ := set $part "otlp_endpoint" .otlp.endpoint }}{{ end }}
{{- end }}
{{- toJson $part }}
{{- end }}

{{- define "toolgate.config.listen" -}}
{{- $part := dict "unix" "none" }}
{{- if include "toolgate.sharesSocket" . }}{{ $_ := set $part "unix" "/run/toolgate/toolgate.sock" }}{{ end }}
{{- if .Values.listen.tcp }}
{{- $_ := set $part "tcp" (printf "0.0.0.0:%d" (int64 .Values.listen.port)) }}
{{- with .Values.listen.origins }}{{ $_ := set $part "origins" . }}{{ end }}
{{- if .Values.listen.agentSandbox }}{{ $_ := set $part "agent_sandbox" true }}{{ end }}
{{- if include "toolgate.encrypts" . }}
{{- $tls := dict "certificate" "/etc/toolgate/tls/tls.crt" "key" "/etc/toolgate/tls/tls.key" }}
{{- with .Values.tls.clientCA }}
{{- if .secretName }}
{{- $_ := set $tls "client_ca" "/etc/toolgate/client-ca/ca.crt" }}
{{- $_ := set $tls "client_auth" .mode }}
{{- end }}
{{- end }}
{{- $_ := set $part "tls" $tls }}
{{- else }}
{{- $_ := set $part "insecure" true }}
{{- end }}
{{- else }}
{{- $_ := set $part "tcp" "none" }}
{{- end }}
{{- toJson $part }}
{{- end }}

{{- define "toolgate.config.auth" -}}
{{- $part := dict }}
{{- if .Values.auth.tokens.secretName }}{{ $_ := set $part "tokens_file" "/etc/toolgate/tokens/tokens" }}{{ end }}
{{- if include "toolgate.hasJwks" . }}
{{- $jwt := dict "jwks_file" "/etc/toolgate/jwks/jwks.json" }}
{{- range $key, $value := omit .Values.auth.jwt "jwks" }}
{{- if $value }}{{ $_ := set $jwt (snakecase $key) $value }}{{ end }}
{{- end }}
{{- $_ := set $part "jwt" $jwt }}
{{- end }}
{{- with .Values.auth.certificates }}{{ $_ := set $part "certificates" . }}{{ end }}
{{- if include "toolgate.sharesSocket" . }}
{{- $_ := set $part "unix" (dict "group" (.Values.security.fsGroup | int64 | toString) "scopes" .Values.auth.unix.scopes) }}
{{- end }}
{{- toJson $part }}
{{- end }}

{{- define "toolgate.hasJwks" -}}
{{- with .Values.auth.jwt.jwks }}{{ if or .secretName .configMapName }}yes{{ end }}{{ end }}
{{- end }}

{{- define "toolgate.config.workspaces" -}}
{{- $entries := list }}
{{- range .Values.workspaces }}
{{- $entry := dict "name" .name "directory" (printf "/workspaces/%s" .name) }}
{{- if hasKey . "selfApproval" }}{{ $_ := set $entry "self_approval" .selfApproval }}{{ end }}
{{- if hasKey . "trust" }}{{ $_ := set $entry "trust" .trust }}{{ end }}
{{- $entries = append $entries $entry }}
{{- end }}
{{- toJson (dict "workspaces" $entries) }}
{{- end }}

{{/*
What commands must not read although the service does. They run as its user, so only the sandbox keeps them from it; the
data directory is hidden by the service itself.
*/}}
{{- define "toolgate.config.hidden" -}}
{{- $hidden := list "/etc/toolgate" "/var/run/secrets" }}
{{- with .Values.config.sandbox }}{{ $hidden = concat $hidden (.hidden | default list) }}{{ end }}
{{- toJson (dict "hidden" (uniq $hidden)) }}
{{- end }}

{{/* Puts the files of secrets into a configuration: takes `files` and `config`. */}}
{{- define "toolgate.config.secrets" -}}
{{- $config := .config }}
{{- with .files }}
{{- if .auditKey.secretName }}
{{- $_ := set $config "audit" (merge (dict "key_file" "/etc/toolgate/audit-key/key") ($config.audit | default dict)) }}
{{- end }}
{{- if .searchKey.secretName }}
{{- $_ := set $config "search" (merge (dict "key_file" "/etc/toolgate/search-key/key") ($config.search | default dict)) }}
{{- end }}
{{- $files := list }}
{{- range $index, $_ := .redact }}{{ $files = append $files (printf "/etc/toolgate/redact-%d/secret" $index) }}{{ end }}
{{- if $files }}
{{- $_ := set $config "redact" (merge (dict "files" $files) ($config.redact | default dict)) }}
{{- end }}
{{- end }}
{{- end }}

{{- define "toolgate.config" -}}
{{- $config := deepCopy .Values.config }}
{{- $_ := set $config "data_dir" "/var/lib/toolgate/data" }}
{{- $_ := set $config "listen" (include "toolgate.config.listen" . | fromJson) }}
{{- $_ := set $config "auth" (include "toolgate.config.auth" . | fromJson) }}
{{- $_ := set $config "workspaces" (include "toolgate.config.workspaces" . | fromJson).workspaces }}
{{- $_ := set $config "telemetry" (include "toolgate.config.telemetry" . | fromJson) }}
{{- $sandbox := $config.sandbox | default dict }}
{{- $_ := set $sandbox "hidden" (include "toolgate.config.hidden" . | fromJson).hidden }}
{{- $_ := set $config "sandbox" $sandbox }}
{{- include "toolgate.config.secrets" (dict "files" .Values.secretFiles "config" $config) }}
{{- include "toolgate.toml.table" (dict "path" list "table" $config) | trim }}
{{- end }}
