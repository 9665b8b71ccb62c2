{{/*
Writes TOML. Helm's own `toToml` writes whole numbers as fractions, which a checked configuration refuses.
A string of JSON is a basic string of TOML, too.
*/}}

{{- define "toolgate.toml.key" -}}
{{- if regexMatch "^[A-Za-z0-9_-]+$" . }}{{ . }}{{ else }}{{ toJson . }}{{ end }}
{{- end }}

{{- define "toolgate.toml.value" -}}
{{- if kindIs "string" . }}{{ toJson . }}
{{- else if kindIs "bool" . }}{{ . }}
{{- else if kindIs "slice" . }}
{{- $items := list }}
{{- range . }}{{ $items = append $items (include "toolgate.toml.value" .) }}{{ end -}}
[{{ join ", " $items }}]
{{- else }}{{ int64 . }}
{{- end }}
{{- end }}

{{/* Says `tables` for a list of tables. */}}
{{- define "toolgate.toml.kind" -}}
{{- if kindIs "map" . }}table
{{- else if kindIs "invalid" . }}nothing
{{- else if and (kindIs "slice" .) . (kindIs "map" (first .)) }}tables
{{- else }}value
{{- end }}
{{- end }}

{{/* Takes `path`, the keys that lead to a table, and `table`. Absent values are left out, and so are empty tables. */}}
{{- define "toolgate.toml.table" -}}
{{- $path := .path }}
{{- range $key, $value := .table }}
{{- if eq "value" (include "toolgate.toml.kind" $value) }}
{{ include "toolgate.toml.key" $key }} = {{ include "toolgate.toml.value" $value }}
{{- end }}
{{- end }}
{{- range $key, $value := .table }}
{{- $kind := include "toolgate.toml.kind" $value }}
{{- $name := append $path (include "toolgate.toml.key" $key) }}
{{- if and (eq $kind "table") $value }}
{{- $inner := include "toolgate.toml.table" (dict "path" $name "table" $value) }}
{{- if trim $inner }}
{{- /* A table of tables only needs no line of its own. */}}
{{- if not (hasPrefix "[" (trim $inner)) }}

[{{ join "." $name }}]
{{- end }}
{{- $inner }}
{{- end }}
{{- else if eq $kind "tables" }}
{{- range $value }}

[[{{ join "." $name }}]]
{{- include "toolgate.toml.table" (dict "path" $name "table" .) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
