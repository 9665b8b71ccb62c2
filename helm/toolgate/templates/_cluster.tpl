{{/*
Gateways with a database and the workers behind them: their names, and the contexts in which the pieces of the one pod
(`_pod.tpl`) are made for them. A context has the values as that pod would have them, and beside them

  component, worker, isSpread      by what its pods are selected, and whether they are spread over nodes
  workersPort                      where workers come, beside `listen.port`
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

{{/* Says `yes` where each gateway has a service of its own, and so a name that stays. */}}
{{- define "toolgate.gateway.isNamed" -}}
{{- if .Values.gateway.podServices.type }}yes{{ end }}
{{- end }}

{{/* Where workers in the cluster find gateways: a name that stands for all of them. */}}
{{- define "toolgate.gateway.address" -}}
{{- printf "https://%s.%s.svc:%d" (include "toolgate.gateway.name" .) .Release.Namespace (int64 .Values.gateway.workersPort) }}
{{- end }}

{{/*
The workers of `workers.list`: `name`, `workspace`, `object` (its StatefulSet), `host` (where gateways reach it), `volume` and
`tlsSecretName`.
*/}}
{{- define "toolgate.workers" -}}
{{- $workers := list }}
{{- $all := include "toolgate.worker.name" . }}
{{- range .Values.workers.list }}
{{- $object := printf "%s-%s" $all .name }}
{{- $host := printf "%s-0.%s.%s.svc" $object $all $.Release.Namespace }}
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

{{/*
What the workers are that have no workspace yet, which differ in their name only: `name`, `object`, `domain` (what is behind the
name of a pod where gateways reach it) and `pods` (what the names of their pods begin with); nothing if there are none.
*/}}
{{- define "toolgate.waiting" -}}
{{- $all := include "toolgate.worker.name" . }}
{{- if eq .Values.workers.kind "agentSandbox" }}
{{- /* The service of a sandbox has its name, and so has its pod. One that waited is called after the pool, another one after its claim,
       whose name begins as gateways have it. */}}
{{- toJson (dict "name" "" "object" $all "domain" (printf "%s.svc" .Release.Namespace) "pods" (list (printf "%s-" $all) "ws-")) }}
{{- else if .Values.workers.pool.replicas }}
{{- $object := printf "%s-pool" $all }}
{{- toJson (dict "name" "pool" "object" $object "domain" (printf "%s.%s.svc" $all .Release.Namespace) "pods" (list (printf "%s-" $object)) "volume" .Values.workers.volume) }}
{{- else }}
{{- toJson dict }}
{{- end }}
{{- end }}

{{/* Says `yes` where workers are known by their certificates. */}}
{{- define "toolgate.worker.showsCertificate" -}}
{{- with .Values.workers }}
{{- if eq (.identity | default (ternary "serviceAccount" "certificate" (eq .kind "agentSandbox"))) "certificate" }}yes{{ end }}
{{- end }}
{{- end }}

{{/* What the API server of Kubernetes knows gateways by, and they it: a token for it alone, in a folder of the program's. */}}
{{- define "toolgate.gateway.kubernetes" -}}
{{- $token := dict "serviceAccountToken" (dict "path" "token" "expirationSeconds" 3600) }}
{{- $authority := dict "configMap" (dict "name" "kube-root-ca.crt" "items" (list (dict "key" "ca.crt" "path" "ca.crt"))) }}
{{- toJson (dict "projected" (dict "defaultMode" 288 "sources" (list $token $authority))) }}
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
{{- with .Values.workers }}
{{- if or .jwt.jwks.secretName .jwt.jwks.configMapName }}
{{- $_ := set $secrets "worker-jwks" (dict "secret" .jwt.jwks.secretName "configMap" .jwt.jwks.configMapName "items" (dict .jwt.jwks.key "jwks.json")) }}
{{- end }}
{{- if eq .kind "agentSandbox" }}
{{- $_ := set $secrets "kubernetes" (dict "source" (include "toolgate.gateway.kubernetes" $ | fromJson)) }}
{{- end }}
{{- if .webhook.url }}
{{- $_ := set $secrets "webhook" (dict "secret" .webhook.tokenSecretName "items" (dict .webhook.tokenKey "token")) }}
{{- if .webhook.caSecretName }}
{{- $_ := set $secrets "webhook-ca" (dict "secret" .webhook.caSecretName "items" (dict .webhook.caKey "ca.crt")) }}
{{- end }}
{{- end }}
{{- end }}
{{- toJson (dict
  "component" "gateway"
  "isSpread" true
  "workersPort" .Values.gateway.workersPort
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
{{- $_ := set $values "listen" (dict "tcp" true "port" .Values.workers.port "origins" list "agentSandbox" .Values.listen.agentSandbox) }}
{{- $_ := set $values "workspaces" (list (dict "name" "main" "volume" .Values.workers.volume)) }}
{{- $_ := set $values "tls" (dict "mode" "secret" "secretName" "" "clientCA" (dict "secretName" "")) }}
{{- $_ := set $values "auth" (dict "tokens" (dict "secretName" "") "jwt" (dict "jwks" dict) "certificates" list "unix" .Values.auth.unix) }}
{{- $_ := set $values.secretFiles "auditKey" dict }}
{{- toJson $values }}
{{- end }}

{{/*
The context of a worker, but for what an `include` cannot give back: takes `root` and `worker`, one of `toolgate.workers` or
`toolgate.waiting`.
*/}}
{{- define "toolgate.worker.extras" -}}
{{- $secrets := dict }}
{{- with .root.Values }}
{{- if $.worker.domain }}
{{- $_ := set $secrets "tls" (dict "source" (include "toolgate.waiting.certificate" $ | fromJson)) }}
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
{{- $host := .worker.host }}
{{- if .worker.domain }}
{{- $field := dict "apiVersion" "v1" "fieldPath" "metadata.name" }}
{{- $environment = append $environment (dict "name" "TOOLGATE_CLUSTER_NAME" "valueFrom" (dict "fieldRef" $field)) }}
{{- $host = printf "$(TOOLGATE_CLUSTER_NAME).%s" .worker.domain }}
{{- else }}
{{- $environment = append $environment (dict "name" "TOOLGATE_CLUSTER_NAME" "value" .worker.name) }}
{{- $environment = append $environment (dict "name" "WORKSPACE" "value" .worker.workspace) }}
{{- end }}
{{- $environment = append $environment (dict "name" "TOOLGATE_CLUSTER_ADVERTISE" "value" (printf "https://%s:%d" $host (int64 .root.Values.workers.port))) }}
{{- /* One without a name is given a workspace by a gateway. */}}
{{- $environment = append $environment (dict "name" "TOOLGATE_WORKSPACES" "value" (ternary "=/workspaces/main" "$(WORKSPACE)=/workspaces/main" (hasKey .worker "domain"))) }}
{{- if and .worker.domain (not .root.Values.workers.ca.secretName) }}
{{- $environment = append $environment (dict "name" "TOOLGATE_CLUSTER_CA" "value" "/etc/toolgate/tls/ca.crt") }}
{{- end }}
{{- toJson $environment }}
{{- end }}

{{/* A certificate that is made for each pod on its node: nobody else ever has its key. */}}
{{- define "toolgate.waiting.certificate" -}}
{{- $of := "csi.cert-manager.io" }}
{{- $domain := .worker.domain | replace (printf "%s.svc" .root.Release.Namespace) "${POD_NAMESPACE}.svc" }}
{{- $group := .root.Values.security.fsGroup }}
{{- with .root.Values.tls.certManager }}
{{- $attributes := dict
  (printf "%s/issuer-name" $of) .issuerRef.name
  (printf "%s/issuer-kind" $of) .issuerRef.kind
  (printf "%s/issuer-group" $of) .issuerRef.group
  (printf "%s/dns-names" $of) (printf "${POD_NAME}.%s" $domain)
  (printf "%s/key-usages" $of) "digital signature,server auth,client auth"
  (printf "%s/duration" $of) .duration
  (printf "%s/renew-before" $of) .renewBefore
  (printf "%s/fs-group" $of) ($group | int64 | toString)
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
