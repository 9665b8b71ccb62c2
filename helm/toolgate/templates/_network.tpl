{{/* Where pods may connect to. */}}

{{/* The rules of `parts`, by the values of `networkPolicy` (`policy`). */}}
{{- define "toolgate.egress" -}}
{{- $rules := list }}
{{- range .parts }}
{{- with include (printf "toolgate.egress.%s" .) $.policy | trim }}{{ $rules = append $rules . }}{{ end }}
{{- end }}
{{- join "\n" $rules }}
{{- end }}

{{- define "toolgate.egress.dns" -}}
{{- with .egress.dns }}
- to:
    {{- toYaml . | nindent 4 }}
  ports:
    - port: 53
      protocol: UDP
    - port: 53
      protocol: TCP
{{- end }}
{{- end }}

{{- define "toolgate.egress.internet" -}}
{{- if .egress.internet }}
# Everything but private, shared and link-local networks; a cloud's metadata service is in one of them.
- to:
    - ipBlock:
        cidr: 0.0.0.0/0
        except:
          - 0.0.0.0/8
          - 10.0.0.0/8
          - 100.64.0.0/10
          - 127.0.0.0/8
          - 168.63.129.16/32
          - 169.254.0.0/16
          - 172.16.0.0/12
          - 192.0.0.0/24
          - 192.168.0.0/16
          - 198.18.0.0/15
          - 224.0.0.0/3
    - ipBlock:
        cidr: ::/0
        except:
          - ::1/128
          - 64:ff9b::/96
          - fc00::/7
          - fe80::/10
          - ff00::/8
  ports:
    {{- range .egress.internetPorts }}
    - port: {{ int64 . }}
      protocol: TCP
    {{- end }}
{{- end }}
{{- end }}

{{- define "toolgate.egress.otlp" -}}
{{- with .egress.otlp }}
- to:
    {{- toYaml . | nindent 4 }}
{{- end }}
{{- end }}

{{- define "toolgate.egress.extra" -}}
{{- with .egress.extra }}
{{- toYaml . }}
{{- end }}
{{- end }}

{{- define "toolgate.egress.database" -}}
{{- with .egress.database }}
- to:
    {{- toYaml . | nindent 4 }}
  ports:
    - port: {{ int64 $.egress.databasePort }}
      protocol: TCP
{{- end }}
{{- end }}

{{- define "toolgate.egress.outputs" -}}
{{- with .egress.outputs }}
- to:
    {{- toYaml . | nindent 4 }}
  ports:
    - port: {{ int64 $.egress.outputsPort }}
      protocol: TCP
{{- end }}
{{- end }}

{{- define "toolgate.egress.kubernetes" -}}
{{- with .egress.kubernetes }}
- to:
    {{- toYaml . | nindent 4 }}
  ports:
    {{- range $.egress.kubernetesPorts }}
    - port: {{ int64 . }}
      protocol: TCP
    {{- end }}
{{- end }}
{{- end }}

{{- define "toolgate.egress.webhook" -}}
{{- with .egress.webhook }}
- to:
    {{- toYaml . | nindent 4 }}
  ports:
    - port: {{ int64 $.egress.webhookPort }}
      protocol: TCP
{{- end }}
{{- end }}

{{- define "toolgate.ingress.monitoring" -}}
{{- if and .Values.networkPolicy.monitoring .Values.telemetry.admin.enabled }}
- from:
    {{- toYaml .Values.networkPolicy.monitoring | nindent 4 }}
  ports:
    - port: {{ int64 .Values.telemetry.admin.port }}
      protocol: TCP
{{- end }}
{{- end }}
