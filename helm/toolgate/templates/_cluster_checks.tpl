{{/* Refuses gateways and workers that would not find each other, or do what they should not. Included by `toolgate.checks`. */}}

{{/* The gateways, and what they keep. */}}
{{- define "toolgate.checks.cluster" -}}
{{- $problems := list }}
{{- with .Values }}
{{- if ne .mode "cluster" }}
{{- range $part, $isSet := dict "database" .database.secretName "outputs" .outputs.bucket "workers.list" .workers.list "workers.webhook" .workers.webhook.url "tenants" .tenants }}
{{- if $isSet }}
{{- $problems = append $problems (printf "%s is for gateways and their workers: set mode=cluster" $part) }}
{{- end }}
{{- end }}
{{- else }}
{{- if not .database.secretName }}
{{- $problems = append $problems "database.secretName is needed: what happens is kept in PostgreSQL" }}
{{- end }}
{{- if eq .tls.mode "insecure" }}
{{- $problems = append $problems "tls.mode=insecure: workers come encrypted, with the certificate that clients see; let what is in front encrypt to the gateways" }}
{{- end }}
{{- if .outputs.bucket }}
{{- if and .networkPolicy.enabled (not .networkPolicy.egress.outputs) }}
{{- $problems = append $problems "networkPolicy.egress.outputs is needed: gateways could not reach the bucket" }}
{{- end }}
{{- else }}
{{- range list "endpoint" "region" "secretName" }}
{{- if get $.Values.outputs . }}
{{- $problems = append $problems (printf "outputs.%s is about a bucket: set outputs.bucket" .) }}
{{- end }}
{{- end }}
{{- end }}
{{- if and .networkPolicy.enabled (not .networkPolicy.egress.database) }}
{{- $problems = append $problems "networkPolicy.egress.database is needed: gateways could not reach the database" }}
{{- end }}
{{- if .config.state }}
{{- $problems = append $problems "config.state is about the store of one pod: a database has its own settings" }}
{{- end }}
{{- with .gateway }}
{{- if .autoscaling.enabled }}
{{- if .podServices.type }}
{{- $problems = append $problems "gateway.autoscaling with gateway.podServices: workers outside name each gateway, and would not know of more" }}
{{- end }}
{{- if gt (int64 .autoscaling.minReplicas) (int64 .autoscaling.maxReplicas) }}
{{- $problems = append $problems "gateway.autoscaling: minReplicas is more than maxReplicas" }}
{{- end }}
{{- end }}
{{- range $key, $port := dict "listen.port" $.Values.listen.port "telemetry.admin.port" $.Values.telemetry.admin.port }}
{{- if eq (int64 $.Values.gateway.workersPort) (int64 $port) }}
{{- $problems = append $problems (printf "gateway.workersPort and %s are the same: what comes to one would not be told from the other" $key) }}
{{- end }}
{{- end }}
{{- range .env }}
{{- if regexMatch "^(TOOLGATE_|HOME$|XDG_)" .name }}
{{- $problems = append $problems (printf "gateway.env: %s would go past the checks of this chart: use config or telemetry" .name) }}
{{- end }}
{{- end }}
{{- end }}
{{- $names := list }}
{{- range .tenants }}
{{- if has .name $names }}
{{- $problems = append $problems (printf "tenants: there are two of the name %q" .name) }}
{{- end }}
{{- $names = append $names .name }}
{{- end }}
{{- $seconds := include "toolgate.seconds" .workers.lease | int64 }}
{{- if or (lt $seconds 3) (gt $seconds 600) }}
{{- $problems = append $problems (printf "workers.lease=%s: from 3s to 10m" .workers.lease) }}
{{- end }}
{{- end }}
{{- end }}
{{- toJson $problems }}
{{- end }}

{{/* The workers: who makes them, and what that takes. */}}
{{- define "toolgate.checks.workers" -}}
{{- $problems := list }}
{{- if include "toolgate.isCluster" . }}
{{- with .Values.workers }}
{{- $isExternal := eq .kind "external" }}
{{- if and $isExternal .list }}
{{- $problems = append $problems "workers.list with workers.kind=external: nothing here makes them; name in workers.external who may register" }}
{{- end }}
{{- if and (eq .kind "agentSandbox") .list }}
{{- $problems = append $problems "workers.list with workers.kind=agentSandbox: gateways claim a sandbox for each workspace that is created, or called first with workers.onFirstCall; leave it empty" }}
{{- end }}
{{- if and $isExternal (not (or .external.principals .external.rules)) }}
{{- $problems = append $problems "workers.kind=external needs workers.external.principals or workers.external.rules: nobody could register as a worker" }}
{{- end }}
{{- if and (eq .kind "statefulSets") (not (or .list .pool.replicas)) }}
{{- $problems = append $problems "workers.list or workers.pool.replicas is needed with workers.kind=statefulSets: nobody would run calls" }}
{{- end }}
{{- if and .pool.replicas (ne .kind "statefulSets") }}
{{- $problems = append $problems (printf "workers.pool.replicas with workers.kind=%s: it is for statefulSets; for sandboxes that wait set workers.warm" .kind) }}
{{- end }}
{{- if and $isExternal $.Values.networkPolicy.enabled (not .external.peers) }}
{{- $problems = append $problems "workers.external.peers is needed: workers and gateways could not reach each other" }}
{{- end }}
{{- if .volume.existingClaim }}
{{- $problems = append $problems "workers.volume.existingClaim would be one volume for all workers: say it in workers.list" }}
{{- end }}
{{- if and $.Values.state.existingClaim (not $isExternal) }}
{{- $problems = append $problems "state.existingClaim would be one volume for all workers: each needs its own" }}
{{- end }}
{{- if eq (int64 .port) (int64 $.Values.telemetry.admin.port) }}
{{- $problems = append $problems "workers.port and telemetry.admin.port are the same" }}
{{- end }}
{{- if and (or .pool.replicas (eq .kind "agentSandbox")) (ne $.Values.tls.mode "certManager") }}
{{- $what := ternary "workers.kind=agentSandbox" "workers.pool.replicas" (eq .kind "agentSandbox") }}
{{- $problems = append $problems (printf "%s needs tls.mode=certManager, with its CSI driver: pods that are made from one template have no certificate otherwise" $what) }}
{{- end }}
{{- if and (eq .kind "statefulSets") (eq $.Values.tls.mode "secret") }}
{{- range .list }}
{{- if not .tlsSecretName }}
{{- $problems = append $problems (printf "workers.list: %s needs tlsSecretName, or tls.mode=certManager: the line to it would not be encrypted" .name) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- range list "made" "names" "identity" }}
{{- $problems = concat $problems (include (printf "toolgate.checks.%s" .) $ | fromJsonArray) }}
{{- end }}
{{- end }}
{{- toJson ($problems | uniq) }}
{{- end }}

{{/* Workspaces that are made when somebody wants them. */}}
{{- define "toolgate.checks.made" -}}
{{- $problems := list }}
{{- $policy := .Values.networkPolicy }}
{{- with .Values.workers }}
{{- $isSandbox := eq .kind "agentSandbox" }}
{{- if and .webhook.url (ne .kind "external") }}
{{- $problems = append $problems (printf "workers.webhook.url with workers.kind=%s: two would make the workers; set workers.kind=external" .kind) }}
{{- end }}
{{- if and .webhook.url (not .webhook.tokenSecretName) }}
{{- $problems = append $problems "workers.webhook.tokenSecretName is needed: the webhook could not tell a gateway from anybody else" }}
{{- end }}
{{- if and .webhook.url $policy.enabled (not $policy.egress.webhook) }}
{{- $problems = append $problems "networkPolicy.egress.webhook is needed: gateways could not reach the webhook" }}
{{- end }}
{{- range $key := list "tokenSecretName" "caSecretName" }}
{{- if and (get $.Values.workers.webhook $key) (not $.Values.workers.webhook.url) }}
{{- $problems = append $problems (printf "workers.webhook.%s is about a webhook: set workers.webhook.url" $key) }}
{{- end }}
{{- end }}
{{- if and $isSandbox $policy.enabled (not $policy.egress.kubernetes) }}
{{- $problems = append $problems "networkPolicy.egress.kubernetes is needed: gateways could not ask Kubernetes for sandboxes" }}
{{- end }}
{{- if and $isSandbox (not $.Values.serviceAccount.create) (has $.Values.serviceAccount.name (list "" "default")) }}
{{- $problems = append $problems "workers.kind=agentSandbox needs an account of the gateways' own: with the default one each pod of the namespace could claim sandboxes, and delete them" }}
{{- end }}
{{- if and .warm (not $isSandbox) }}
{{- $problems = append $problems (printf "workers.warm with workers.kind=%s: nothing here makes sandboxes; leave it 0%s" .kind (ternary ", or set workers.pool.replicas" "" (eq .kind "statefulSets"))) }}
{{- end }}
{{- range $key := list "onFirstCall" "idleSuspend" }}
{{- if and (get $.Values.workers $key) (not (or $isSandbox $.Values.workers.webhook.url)) }}
{{- $problems = append $problems (printf "workers.%s is for workspaces that gateways have made: set workers.kind=agentSandbox, or workers.webhook.url" $key) }}
{{- end }}
{{- end }}
{{- if and .idleSuspend $isSandbox .volume.ephemeral }}
{{- $problems = append $problems "workers.idleSuspend with workers.volume.ephemeral: a workspace would be gone when it is suspended" }}
{{- end }}
{{- end }}
{{- toJson $problems }}
{{- end }}

{{/* Workers of one name, or of one workspace, would take it from each other. */}}
{{- define "toolgate.checks.names" -}}
{{- $problems := list }}
{{- $names := list }}
{{- $workspaces := list }}
{{- $hosts := list }}
{{- range include "toolgate.workers" . | fromJsonArray }}
{{- if has .name $names }}
{{- $problems = append $problems (printf "workers.list: there are two of the name %q" .name) }}
{{- end }}
{{- if has .workspace $workspaces }}
{{- $problems = append $problems (printf "workers.list: two workers have the workspace %q, which can be one's only" .workspace) }}
{{- end }}
{{- $names = append $names .name }}
{{- $workspaces = append $workspaces .workspace }}
{{- $hosts = append $hosts .host }}
{{- /* Kubernetes puts ten letters more into a label. */}}
{{- if gt (len .object) 52 }}
{{- $problems = append $problems (printf "workers.list: %q is too long: %s has more than 52 letters" .name .object) }}
{{- end }}
{{- end }}
{{- if and .Values.workers.pool.replicas (has "pool" $names) }}
{{- $problems = append $problems "workers.list: \"pool\" is what the workers of workers.pool are called: take another name" }}
{{- end }}
{{- range .Values.auth.certificates }}
{{- if and .san (has .san $hosts) (include "toolgate.worker.showsCertificate" $) }}
{{- $problems = append $problems (printf "auth.certificates: %q is where a worker is, whose certificate would be taken for that of %s" .san .name) }}
{{- end }}
{{- end }}
{{- toJson $problems }}
{{- end }}

{{/* How gateways know workers. */}}
{{- define "toolgate.checks.identity" -}}
{{- $problems := list }}
{{- with .Values.workers }}
{{- $hasKeys := or .jwt.jwks.secretName .jwt.jwks.configMapName }}
{{- $isExternal := eq .kind "external" }}
{{- if and .jwt.jwks.secretName .jwt.jwks.configMapName }}
{{- $problems = append $problems "workers.jwt.jwks is in a secret or in a config map, not in both" }}
{{- end }}
{{- if and $hasKeys (not .jwt.issuer) }}
{{- $problems = append $problems "workers.jwt.issuer is needed: that of the cluster, by which its tokens are told from others" }}
{{- end }}
{{- if and .jwt.issuer (not $hasKeys) }}
{{- $problems = append $problems "workers.jwt needs jwks.configMapName or jwks.secretName: the keys that the cluster signs tokens with" }}
{{- end }}
{{- if and (eq .identity "certificate") (eq .kind "agentSandbox") }}
{{- $problems = append $problems "workers.identity=certificate with workers.kind=agentSandbox: gateways know sandboxes by the pod that their token names; leave it empty" }}
{{- end }}
{{- if and .pool.replicas (ne .identity "serviceAccount") }}
{{- $problems = append $problems "workers.pool.replicas needs workers.identity=serviceAccount: gateways know workers that wait by the pod that their token names" }}
{{- end }}
{{- if and (eq .identity "serviceAccount") $isExternal }}
{{- $problems = append $problems "workers.identity=serviceAccount is for workers of this chart: name others in workers.external" }}
{{- end }}
{{- if not (or $hasKeys $isExternal (include "toolgate.worker.showsCertificate" $)) }}
{{- $problems = append $problems (printf "%s needs workers.jwt.jwks and workers.jwt.issuer: the keys and the issuer of the cluster, which workers' tokens are checked by" (ternary "workers.kind=agentSandbox" "workers.identity=serviceAccount" (eq .kind "agentSandbox"))) }}
{{- end }}
{{- if and $hasKeys $isExternal (not .external.rules) }}
{{- $problems = append $problems "workers.jwt with workers.kind=external needs workers.external.rules: it is not said what a worker with such a token may have" }}
{{- end }}
{{- if and $hasKeys (eq .jwt.issuer $.Values.auth.jwt.issuer) (eq $.Values.auth.jwt.audience "toolgate-gateway") }}
{{- $problems = append $problems "auth.jwt.audience=toolgate-gateway is that of workers, of the same issuer: a token of one would be a token of the other" }}
{{- end }}
{{- end }}
{{- toJson $problems }}
{{- end }}
