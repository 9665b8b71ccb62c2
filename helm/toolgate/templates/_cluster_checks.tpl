{{/* Refuses gateways and workers that would not find each other, or do what they should not. Included by `toolgate.checks`. */}}

{{/* The gateways, and what they keep. */}}
{{- define "toolgate.checks.cluster" -}}
{{- $problems := list }}
{{- with .Values }}
{{- if ne .mode "cluster" }}
{{- range $part, $isSet := dict "database" .database.secretName "outputs" .outputs.bucket "workers.list" .workers.list "tenants" .tenants }}
{{- if $isSet }}
{{- $problems = append $problems (printf "%s is for gateways and their workers: set mode=cluster" $part) }}
{{- end }}
{{- end }}
{{- else }}
{{- if not .database.secretName }}
{{- $problems = append $problems "database.secretName is needed: what happens is kept in PostgreSQL" }}
{{- end }}
{{- if eq .tls.mode "insecure" }}
{{- $problems = append $problems "tls.mode=insecure: workers and clients come to the same port, and workers want it encrypted; let what is in front encrypt to the gateways" }}
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
{{- if not $.Values.unsafe.autoscaledGateways }}
{{- $problems = append $problems "gateway.autoscaling: workers name maxReplicas gateways, and while fewer run they stop when the database is away for a lease: set unsafe.autoscaledGateways" }}
{{- end }}
{{- if gt (int64 .autoscaling.minReplicas) (int64 .autoscaling.maxReplicas) }}
{{- $problems = append $problems "gateway.autoscaling: minReplicas is more than maxReplicas" }}
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

{{/* The workers: who they are, and what this version cannot do with them. */}}
{{- define "toolgate.checks.workers" -}}
{{- $problems := list }}
{{- if include "toolgate.isCluster" . }}
{{- with .Values.workers }}
{{- $isExternal := eq .kind "external" }}
{{- if and $isExternal .list }}
{{- $problems = append $problems "workers.list with workers.kind=external: nothing here makes them; name in workers.external.principals who may register" }}
{{- end }}
{{- if and $isExternal (not .external.principals) }}
{{- $problems = append $problems "workers.kind=external needs workers.external.principals: nobody could register as a worker" }}
{{- end }}
{{- if not (or $isExternal .list) }}
{{- $problems = append $problems (printf "workers.list is needed with workers.kind=%s: nobody would run calls" .kind) }}
{{- end }}
{{- if and $isExternal $.Values.networkPolicy.enabled (not .external.peers) }}
{{- $problems = append $problems "workers.external.peers is needed: workers and gateways could not reach each other" }}
{{- end }}
{{- if .warm }}
{{- $problems = append $problems "workers.warm: this version cannot give a workspace to a sandbox that is there already; leave it 0" }}
{{- end }}
{{- if .idleSuspend }}
{{- $problems = append $problems "workers.idleSuspend: this version cannot put workers to rest, nor wake them; leave it empty" }}
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
{{- if eq .kind "agentSandbox" }}
{{- if ne $.Values.tls.mode "certManager" }}
{{- $problems = append $problems "workers.kind=agentSandbox needs tls.mode=certManager, with its CSI driver: a sandbox has no certificate otherwise" }}
{{- end }}
{{- range .list }}
{{- if .volume }}
{{- $problems = append $problems (printf "workers.list: %s: all sandboxes have one template, so workers.volume says what volume they have" .name) }}
{{- end }}
{{- end }}
{{- end }}
{{- if and (eq .kind "statefulSets") (eq $.Values.tls.mode "secret") }}
{{- range .list }}
{{- if not .tlsSecretName }}
{{- $problems = append $problems (printf "workers.list: %s needs tlsSecretName, or tls.mode=certManager: the line to it would not be encrypted" .name) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- $problems = concat $problems (include "toolgate.checks.names" . | fromJsonArray) (include "toolgate.checks.identity" . | fromJsonArray) }}
{{- end }}
{{- toJson ($problems | uniq) }}
{{- end }}

{{/* Workers of one name, or of one workspace, would take it from each other. */}}
{{- define "toolgate.checks.names" -}}
{{- $problems := list }}
{{- $names := list }}
{{- $workspaces := list }}
{{- range include "toolgate.workers" . | fromJsonArray }}
{{- if has .name $names }}
{{- $problems = append $problems (printf "workers.list: there are two of the name %q" .name) }}
{{- end }}
{{- if has .workspace $workspaces }}
{{- $problems = append $problems (printf "workers.list: two workers have the workspace %q, which can be one's only" .workspace) }}
{{- end }}
{{- $names = append $names .name }}
{{- $workspaces = append $workspaces .workspace }}
{{- /* Kubernetes puts ten letters more into a label. */}}
{{- if gt (len .object) 52 }}
{{- $problems = append $problems (printf "workers.list: %q is too long: %s has more than 52 letters" .name .object) }}
{{- end }}
{{- end }}
{{- range .Values.auth.certificates }}
{{- if and (has .name $names) (include "toolgate.worker.showsCertificate" $) }}
{{- $problems = append $problems (printf "auth.certificates: %q is the name of a worker, and its owner could register as that one" .name) }}
{{- end }}
{{- end }}
{{- toJson $problems }}
{{- end }}

{{/* How gateways know workers. */}}
{{- define "toolgate.checks.identity" -}}
{{- $problems := list }}
{{- if not (include "toolgate.worker.showsCertificate" .) }}
{{- with .Values }}
{{- if eq .workers.kind "external" }}
{{- $problems = append $problems "workers.identity=serviceAccount is for workers of this chart: name others in workers.external.principals" }}
{{- end }}
{{- if not .unsafe.workersOfAnyWorkspace }}
{{- $problems = append $problems "workers.identity=serviceAccount: a token of a service account names no workspace, so a worker may have any that is free: set unsafe.workersOfAnyWorkspace" }}
{{- end }}
{{- if not (and (or .auth.jwt.jwks.secretName .auth.jwt.jwks.configMapName) .auth.jwt.issuer) }}
{{- $problems = append $problems "workers.identity=serviceAccount needs auth.jwt.jwks and auth.jwt.issuer: those of the cluster" }}
{{- end }}
{{- if and .auth.jwt.audience (ne .auth.jwt.audience "toolgate-gateway") }}
{{- $problems = append $problems "workers.identity=serviceAccount: a gateway takes signed tokens of one issuer, the cluster's, for the audience toolgate-gateway: leave auth.jwt.audience empty, and give people tokens or certificates" }}
{{- end }}
{{- if or .auth.jwt.workspaceClaim .auth.jwt.nameClaim }}
{{- $problems = append $problems "workers.identity=serviceAccount: tokens of service accounts have their names in sub, and no claim with workspaces: leave auth.jwt.nameClaim and auth.jwt.workspaceClaim empty" }}
{{- end }}
{{- end }}
{{- end }}
{{- toJson $problems }}
{{- end }}
