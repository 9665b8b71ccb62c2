{{/*
Gateways with a database and the workers behind them: their names, and the contexts in which the pieces of the one pod
(`_pod.tpl`) are made for them. A context has the values as that pod would have them, and beside them

  component, worker, isSpread      by what its pods are selected, and whether they are spread over nodes
  command, environment             what the program is started with
  configMap, checksum              where its configuration is
  secrets                          volumes beside those that the values name
  serviceAccount                   whose pods they are
*/}}

{{- define "toolgate.gateway.name" -}}
{{ include "toolgate.fullname" . }}-gateway
{{- end }}

{{- define "toolgate.worker.name" -}}
{{ include "toolgate.fullname" . }}-worker
{{- end }}

{{/* How many gateways there may be, each of which workers name. */}}
{{- define "toolgate.gateway.count" -}}
{{- with .Values.gateway }}{{ ternary .autoscaling.maxReplicas .replicas .autoscaling.enabled | int64 }}{{ end }}
{{- end }}

{{- define "toolgate.gateway.addresses" -}}
{{- $name := include "toolgate.gateway.name" . }}
{{- $addresses := list }}
{{- range until (include "toolgate.gateway.count" . | int) }}
{{- $addresses = append $addresses (printf "https://%s-%d.%s.%s.svc:%d" $name . $name $.Release.Namespace (int64 $.Values.listen.port)) }}
{{- end }}
{{- toJson $addresses }}
{{- end }}

{{/*
The workers of `workers.list`: `name`, `workspace`, `object` (its StatefulSet or its claim), `host` (where gateways reach it),
`volume` and `tlsSecretName`.
*/}}
{{- define "toolgate.workers" -}}
{{- $workers := list }}
{{- $all := include "toolgate.worker.name" . }}
{{- range .Values.workers.list }}
{{- $object := printf "%s-%s" $all .name }}
{{- $host := printf "%s-0.%s.%s.svc" $object $all $.Release.Namespace }}
{{- if eq $.Values.workers.kind "agentSandbox" }}
{{- /* The service of a sandbox has its name, and the sandbox that of its claim. */}}
{{- $host = printf "%s.%s.svc" $object $.Release.Namespace }}
{{- end }}
{{- $workers = append $workers (dict
  "name" .name
  "workspace" (.workspace | default .name)
  "object" $object
  "host" $host
  "volume" (.volume | default $.Values.workers.volume)
  "tlsSecretName" (.tlsSecretName | default (ternary (printf "%s-tls" $object) "" (eq $.Values.tls.mode "certManager")))
) }}
{{- end }}
{{- toJson $workers }}
{{- end }}

{{/* Says `yes` where workers are known by their certificates. */}}
{{- define "toolgate.worker.showsCertificate" -}}
{{- if eq .Values.workers.identity "certificate" }}yes{{ end }}
{{- end }}

{{/* The authority that signs certificates of gateways and workers: takes `root` and `own`, a secret that has it, too. */}}
{{- define "toolgate.clusterAuthority" -}}
{{- with .root.Values.workers.ca }}
{{- toJson (dict "secret" (.secretName | default $.own) "items" (dict .key "ca.crt")) }}
{{- end }}
{{- end }}

{{/* The values of the gateways, as JSON: they run nothing, so that nothing of commands is there. */}}
{{- define "toolgate.gateway.values" -}}
{{- $values := deepCopy .Values }}
{{- range $key := list "resources" "env" "podAnnotations" "podLabels" "nodeSelector" "tolerations" "affinity" }}
{{- $_ := set $values $key (get $.Values.gateway $key) }}
{{- end }}
{{- range $key := list "workspaces" "extraVolumes" "extraVolumeMounts" }}{{ $_ := set $values $key list }}{{ end }}
{{- $_ := set $values "toolbox" (dict "image" "") }}
{{- $_ := set $values "runtimeClassName" "" }}
{{- $_ := set $values "state" (dict "existingClaim" "" "ephemeral" false "size" "1Gi") }}
{{- $_ := set $values "secretFiles" (omit .Values.secretFiles "searchKey") }}
{{- $_ := set $values.secretFiles "searchKey" dict }}
{{- $auth := $values.auth }}
{{- if include "toolgate.worker.showsCertificate" . }}
{{- range include "toolgate.workers" . | fromJsonArray }}
{{- $entry := dict "name" .name "san" .host "scopes" list "workspaces" (list .workspace) }}
{{- $_ := set $auth "certificates" (append $auth.certificates $entry) }}
{{- end }}
{{- if and (not .Values.tls.clientCA.secretName) (ne .Values.workers.kind "external") }}
{{- $authority := include "toolgate.clusterAuthority" (dict "root" . "own" (include "toolgate.tlsSecretName" .)) | fromJson }}
{{- $_ := set $values.tls "clientCA" (dict "secretName" $authority.secret "key" .Values.workers.ca.key "mode" "optional") }}
{{- end }}
{{- else }}
{{- $_ := set $auth.jwt "audience" "toolgate-gateway" }}
{{- end }}
{{- toJson $values }}
{{- end }}

{{/* The context of the gateways, but for what an `include` cannot give back. */}}
{{- define "toolgate.gateway.extras" -}}
{{- $secrets := dict "cluster-ca" (include "toolgate.clusterAuthority" (dict "root" . "own" (include "toolgate.tlsSecretName" .)) | fromJson) }}
{{- $secrets = merge $secrets (include "toolgate.database.secrets" . | fromJson) }}
{{- with .Values.outputs }}
{{- if and .bucket .secretName }}
{{- $_ := set $secrets "outputs" (dict "secret" .secretName "items" (dict .key "keys")) }}
{{- end }}
{{- end }}
{{- toJson (dict
  "component" "gateway"
  "isSpread" true
  "command" "gateway"
  "configMap" (include "toolgate.gateway.name" .)
  "checksum" (include "toolgate.config.gateway" . | sha256sum)
  "secrets" $secrets
) }}
{{- end }}

{{- define "toolgate.database.secrets" -}}
{{- $secrets := dict }}
{{- with .Values.database }}
{{- $_ := set $secrets "database" (dict "secret" .secretName "items" (dict .key "url")) }}
{{- if .caSecretName }}
{{- $_ := set $secrets "database-ca" (dict "secret" .caSecretName "items" (dict .caKey "ca.crt")) }}
{{- end }}
{{- end }}
{{- toJson $secrets }}
{{- end }}

{{/* The values of a worker, as JSON: who may call is not its business, and the audit is not with it. */}}
{{- define "toolgate.worker.values" -}}
{{- $values := deepCopy .Values }}
{{- range $key, $value := omit .Values.workers.template "image" }}{{ $_ := set $values $key $value }}{{ end }}
{{- with .Values.workers.template.image }}
{{- /* A tag of its own beats the digest of the other image. */}}
{{- $_ := set $values "image" (merge (deepCopy .) (ternary (omit $.Values.image "digest") $.Values.image (hasKey . "tag")) (dict "digest" "")) }}
{{- end }}
{{- $_ := set $values "mode" "server" }}
{{- $_ := set $values "listen" (dict "tcp" true "port" .Values.workers.port "origins" list) }}
{{- $_ := set $values "workspaces" (list (dict "name" "main" "volume" .Values.workers.volume)) }}
{{- $_ := set $values "tls" (dict "mode" "secret" "secretName" "" "clientCA" (dict "secretName" "")) }}
{{- $_ := set $values "auth" (dict "tokens" (dict "secretName" "") "jwt" (dict "jwks" dict) "certificates" list "unix" .Values.auth.unix) }}
{{- $_ := set $values.secretFiles "auditKey" dict }}
{{- toJson $values }}
{{- end }}

{{/* The context of a worker, but for what an `include` cannot give back: takes `root` and `worker`, one of `toolgate.workers`. */}}
{{- define "toolgate.worker.extras" -}}
{{- $secrets := dict }}
{{- with .root.Values }}
{{- if eq .workers.kind "agentSandbox" }}
{{- $_ := set $secrets "tls" (dict "source" (include "toolgate.sandbox.certificate" $.root | fromJson)) }}
{{- if .workers.ca.secretName }}
{{- $_ := set $secrets "cluster-ca" (include "toolgate.clusterAuthority" (dict "root" $.root "own" "") | fromJson) }}
{{- end }}
{{- else }}
{{- $_ := set $secrets "tls" (dict "secret" $.worker.tlsSecretName "items" (dict "tls.crt" "tls.crt" "tls.key" "tls.key")) }}
{{- $_ := set $secrets "cluster-ca" (include "toolgate.clusterAuthority" (dict "root" $.root "own" $.worker.tlsSecretName) | fromJson) }}
{{- end }}
{{- end }}
{{- if not (include "toolgate.worker.showsCertificate" .root) }}
{{- $token := dict "audience" "toolgate-gateway" "expirationSeconds" 3600 "path" "token" }}
{{- $projected := dict "defaultMode" 288 "sources" (list (dict "serviceAccountToken" $token)) }}
{{- $_ := set $secrets "identity" (dict "source" (dict "projected" $projected)) }}
{{- end }}
{{- toJson (dict
  "component" "worker"
  "worker" .worker.name
  "configMap" (include "toolgate.worker.name" .root)
  "checksum" (printf "%s\n%s" (include "toolgate.config.worker" .root) .root.Values.opencode.json | sha256sum)
  "secrets" $secrets
  "serviceAccount" (include "toolgate.worker.name" .root)
  "environment" (include "toolgate.worker.environment" . | fromJsonArray)
) }}
{{- end }}

{{/* What differs from worker to worker, so that all have one configuration. */}}
{{- define "toolgate.worker.environment" -}}
{{- $environment := list }}
{{- if eq .root.Values.workers.kind "agentSandbox" }}
{{- $field := dict "apiVersion" "v1" "fieldPath" "metadata.name" }}
{{- $environment = append $environment (dict "name" "TOOLGATE_CLUSTER_NAME" "valueFrom" (dict "fieldRef" $field)) }}
{{- $field := dict "apiVersion" "v1" "fieldPath" "metadata.annotations['toolgate.dev/workspace']" }}
{{- $environment = append $environment (dict "name" "WORKSPACE" "valueFrom" (dict "fieldRef" $field)) }}
{{- else }}
{{- $environment = append $environment (dict "name" "TOOLGATE_CLUSTER_NAME" "value" .worker.name) }}
{{- $environment = append $environment (dict "name" "WORKSPACE" "value" .worker.workspace) }}
{{- end }}
{{- $host := ternary (printf "$(TOOLGATE_CLUSTER_NAME).%s.svc" .root.Release.Namespace) .worker.host (eq .root.Values.workers.kind "agentSandbox") }}
{{- $environment = append $environment (dict "name" "TOOLGATE_CLUSTER_ADVERTISE" "value" (printf "https://%s:%d" $host (int64 .root.Values.workers.port))) }}
{{- $environment = append $environment (dict "name" "TOOLGATE_WORKSPACES" "value" "$(WORKSPACE)=/workspaces/main") }}
{{- toJson $environment }}
{{- end }}

{{/* A certificate that is made for each sandbox on its node: nobody else ever has its key. */}}
{{- define "toolgate.sandbox.certificate" -}}
{{- $of := "csi.cert-manager.io" }}
{{- with .Values.tls.certManager }}
{{- $attributes := dict
  (printf "%s/issuer-name" $of) .issuerRef.name
  (printf "%s/issuer-kind" $of) .issuerRef.kind
  (printf "%s/issuer-group" $of) .issuerRef.group
  (printf "%s/dns-names" $of) "${POD_NAME}.${POD_NAMESPACE}.svc"
  (printf "%s/key-usages" $of) "digital signature,server auth,client auth"
  (printf "%s/duration" $of) .duration
  (printf "%s/renew-before" $of) .renewBefore
  (printf "%s/fs-group" $of) ($.Values.security.fsGroup | int64 | toString)
}}
{{- toJson (dict "csi" (dict "driver" $of "readOnly" true "volumeAttributes" $attributes)) }}
{{- end }}
{{- end }}

{{/* The version of agent-sandbox's API: what is said, else the newer one that the cluster has. */}}
{{- define "toolgate.sandbox.version" -}}
{{- $group := "extensions.agents.x-k8s.io" }}
{{- $isOld := and (.Capabilities.APIVersions.Has (printf "%s/v1alpha1" $group)) (not (.Capabilities.APIVersions.Has (printf "%s/v1beta1" $group))) }}
{{- .Values.workers.agentSandbox.apiVersion | default (ternary "v1alpha1" "v1beta1" $isOld) }}
{{- end }}
