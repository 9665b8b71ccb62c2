{{/* Refuses what would be unsafe, all of it at once. Included by the one template that is always rendered. */}}

{{- define "toolgate.checks" -}}
{{- $problems := list }}
{{- range list "reach" "routes" "commands" "pod" "state" "network" "cluster" "workers" }}
{{- $problems = concat $problems (include (printf "toolgate.checks.%s" .) $ | fromJsonArray) }}
{{- end }}
{{- if $problems }}
{{- fail (printf "\n\nToolgate is not installed like this:\n  - %s\n" (join "\n  - " $problems)) }}
{{- end }}
{{- end }}

{{/* Who can call, and what is on the line. */}}
{{- define "toolgate.checks.reach" -}}
{{- $problems := list }}
{{- $tokens := .Values.auth.tokens.secretName }}
{{- $jwks := include "toolgate.hasJwks" . }}
{{- with .Values }}
{{- if .listen.tcp }}
{{- if not (or $tokens $jwks .auth.certificates) }}
{{- $problems = append $problems "nobody would be asked who they are: set auth.tokens.secretName, auth.jwt or auth.certificates" }}
{{- end }}
{{- if and (eq .tls.mode "secret") (not .tls.secretName) }}
{{- $problems = append $problems "the line would not be encrypted: set tls.secretName, tls.mode=certManager, or tls.mode=insecure if something in front of the pod encrypts" }}
{{- end }}
{{- if and (eq .tls.mode "certManager") (not .tls.certManager.issuerRef.name) }}
{{- $problems = append $problems "tls.mode=certManager needs tls.certManager.issuerRef.name" }}
{{- end }}
{{- if and (eq .tls.mode "insecure") (has .service.type (list "LoadBalancer" "NodePort")) }}
{{- $problems = append $problems (printf "service.type=%s with tls.mode=insecure puts tokens on the network in the clear" .service.type) }}
{{- end }}
{{- if and .auth.certificates (not (and .tls.clientCA.secretName (ne .tls.mode "insecure"))) }}
{{- $problems = append $problems "auth.certificates needs TLS and tls.clientCA.secretName: nobody could show a certificate" }}
{{- end }}
{{- else if has .mode (list "server" "cluster") }}
{{- $problems = append $problems "listen.tcp=false leaves a server that nobody can call" }}
{{- end }}
{{- if and $jwks (not (and .auth.jwt.issuer .auth.jwt.audience)) }}
{{- $problems = append $problems "auth.jwt needs issuer and audience: a token must name both" }}
{{- end }}
{{- if and (not $jwks) (or .auth.jwt.issuer .auth.jwt.audience) }}
{{- $problems = append $problems "auth.jwt needs jwks.secretName or jwks.configMapName: the keys that tokens are signed with" }}
{{- end }}
{{- with .auth.jwt.jwks }}
{{- if and .secretName .configMapName }}
{{- $problems = append $problems "auth.jwt.jwks is in a secret or in a config map, not in both" }}
{{- end }}
{{- end }}
{{- if and (has "prompts.reply" .auth.unix.scopes) (has .mode (list "sidecar" "config")) }}
{{- $problems = append $problems "auth.unix.scopes has prompts.reply: the agent would answer for other callers" }}
{{- end }}
{{- end }}
{{- toJson $problems }}
{{- end }}

{{/* What leads to the service from outside the cluster. */}}
{{- define "toolgate.checks.routes" -}}
{{- $problems := list }}
{{- $served := include "toolgate.isServed" . }}
{{- with .Values }}
{{- range list "ingress" "grpcRoute" }}
{{- if and (get $.Values .).enabled (not $served) }}
{{- $problems = append $problems (printf "%s.enabled: there is no port to lead to" .) }}
{{- end }}
{{- end }}
{{- if and .ingress.enabled (not .ingress.host) }}
{{- $problems = append $problems "ingress.host is needed" }}
{{- end }}
{{- if and .ingress.enabled (not .ingress.tlsSecretName) }}
{{- $problems = append $problems "ingress.tlsSecretName is needed: tokens would be on the network in the clear" }}
{{- end }}
{{- if and .grpcRoute.enabled (not .grpcRoute.parentRefs) }}
{{- $problems = append $problems "grpcRoute.parentRefs is needed: a route belongs to a gateway" }}
{{- end }}
{{- with .grpcRoute }}
{{- if and .enabled (ne $.Values.tls.mode "insecure") (not .backendTLS.enabled) }}
{{- $problems = append $problems "grpcRoute needs backendTLS.enabled: the gateway would not encrypt, and the pod wants it; or tls.mode=insecure" }}
{{- end }}
{{- if and .backendTLS.enabled (eq $.Values.tls.mode "insecure") }}
{{- $problems = append $problems "grpcRoute.backendTLS is for a pod that encrypts, and tls.mode is insecure" }}
{{- end }}
{{- if and .backendTLS.enabled (not .backendTLS.caConfigMapName) }}
{{- $problems = append $problems "grpcRoute.backendTLS.caConfigMapName is needed: the gateway would not know the pod's certificate" }}
{{- end }}
{{- end }}
{{- end }}
{{- toJson $problems }}
{{- end }}

{{/* What commands could do that they should not. */}}
{{- define "toolgate.checks.commands" -}}
{{- $problems := list }}
{{- with .Values }}
{{- $sandbox := .config.sandbox | default dict }}
{{- $modes := list ($sandbox.mode | default "off") }}
{{- range $_, $agent := $sandbox.agents }}{{ if $agent.mode }}{{ $modes = append $modes $agent.mode }}{{ end }}{{ end }}
{{- if and (has "off" $modes) (not .unsafe.unconfinedCommands) }}
{{- $problems = append $problems "config.sandbox.mode=off lets commands read the service's tokens and keys: choose workspace-write, or set unsafe.unconfinedCommands" }}
{{- end }}
{{- range $sandbox.writable }}
{{- $path := trimSuffix "/" . }}
{{- range list "/home/toolgate" "/var/lib/toolgate" "/etc/toolgate" "/opt/toolgate" "/run/toolgate" }}
{{- if or (eq $path "") (eq $path .) (hasPrefix (printf "%s/" $path) .) (and (ne . "/home/toolgate") (hasPrefix (printf "%s/" .) $path)) (has $path (list "/home/toolgate/.config" "/home/toolgate/.opencode")) }}
{{- $problems = append $problems (printf "config.sandbox.writable: %q would let commands write the service's own files" $path) }}
{{- end }}
{{- end }}
{{- end }}
{{- $trusted := .config.trust }}
{{- range .workspaces }}{{ if .trust }}{{ $trusted = true }}{{ end }}{{ end }}
{{- if and $trusted (not .unsafe.trustProjects) }}
{{- $problems = append $problems "trust runs code of the workspaces as the service, outside the sandbox: set unsafe.trustProjects" }}
{{- end }}
{{- if not (kindIs "map" (mustFromJson .opencode.json)) }}
{{- $problems = append $problems "opencode.json is no JSON object" }}
{{- end }}
{{- $self := (.config.permission | default dict).self_approval }}
{{- range .workspaces }}{{ if .selfApproval }}{{ $self = true }}{{ end }}{{ end }}
{{- if and $self (not .unsafe.selfApproval) }}
{{- $problems = append $problems "self_approval lets whoever makes a call answer its prompts: set unsafe.selfApproval" }}
{{- end }}
{{- if and .opencode.projectConfig (not .unsafe.projectConfig) }}
{{- $problems = append $problems "opencode.projectConfig lets a workspace allow what is asked here: set unsafe.projectConfig" }}
{{- end }}
{{- range .env }}
{{- if regexMatch "^(TOOLGATE_|OPENCODE_(CONFIG|PERMISSION|DISABLE_PROJECT_CONFIG)|HOME$|XDG_)" .name }}
{{- $problems = append $problems (printf "env: %s would go past the checks of this chart: use config, opencode or telemetry" .name) }}
{{- end }}
{{- end }}
{{- end }}
{{- toJson ($problems | uniq) }}
{{- end }}

{{/* How the pod starts, lives and ends. */}}
{{- define "toolgate.checks.pod" -}}
{{- $problems := list }}
{{- $kind := include "toolgate.probeKind" . }}
{{- $needed := add (include "toolgate.drainSeconds" . | int64) (.Values.lifecycle.preStopSeconds | int64) 10 }}
{{- $grace := include "toolgate.gracePeriod" . | int64 }}
{{- if lt $grace $needed }}
{{- $problems = append $problems (printf "lifecycle.terminationGracePeriodSeconds=%d is shorter than the drain: preStopSeconds, config.drain_grace and 10 s to close are %d" $grace $needed) }}
{{- end }}
{{- with .Values }}
{{- if and (eq .mode "cluster") (ne (int64 .replicas) 1) }}
{{- $problems = append $problems (printf "replicas=%d is for one pod: set gateway.replicas, and workers in workers.list" (int64 .replicas)) }}
{{- else if gt (int64 .replicas) 1 }}
{{- $problems = append $problems (printf "replicas=%d: the embedded store belongs to one pod; install one release for each workspace instead, or mode=cluster" (int64 .replicas)) }}
{{- end }}
{{- if and (eq $kind "grpc") (not .listen.tcp) }}
{{- $problems = append $problems "probes.kind=grpc needs listen.tcp" }}
{{- end }}
{{- if and (eq $kind "grpc") (ne .tls.mode "insecure") }}
{{- $problems = append $problems "probes.kind=grpc does not work with TLS, which the kubelet does not speak there: choose http" }}
{{- end }}
{{- if and (eq $kind "http") (not .telemetry.admin.enabled) }}
{{- $problems = append $problems "the probes need telemetry.admin.enabled: with TLS, or without TCP, the kubelet has nothing else to ask" }}
{{- end }}
{{- if eq (int64 .listen.port) (int64 .telemetry.admin.port) }}
{{- $problems = append $problems "listen.port and telemetry.admin.port are the same" }}
{{- end }}
{{- if eq .mode "sidecar" }}
{{- if not (and .sidecar.agent.name .sidecar.agent.image) }}
{{- $problems = append $problems "mode=sidecar needs sidecar.agent with name and image" }}
{{- end }}
{{- if eq (int64 .sidecar.agentUser) (int64 .security.runAsUser) }}
{{- $problems = append $problems "sidecar.agentUser is security.runAsUser: the agent would own the socket, and answer its own prompts" }}
{{- end }}
{{- if hasKey .sidecar.agent "securityContext" }}
{{- $problems = append $problems "sidecar.agent.securityContext is the chart's: the agent is held to what the service is held to" }}
{{- end }}
{{- end }}
{{- if and .serviceMonitor.enabled (not .telemetry.admin.enabled) }}
{{- $problems = append $problems "serviceMonitor needs telemetry.admin.enabled: there is nothing to scrape" }}
{{- end }}
{{- range .extraVolumes }}
{{- if .hostPath }}
{{- $problems = append $problems (printf "extraVolumes: %q is a folder of the node" .name) }}
{{- end }}
{{- range (.projected | default dict).sources }}
{{- if .serviceAccountToken }}
{{- $problems = append $problems "extraVolumes: a service-account token would be within reach of commands" }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- toJson $problems }}
{{- end }}

{{/* Whether records are kept, and fit. */}}
{{- define "toolgate.checks.state" -}}
{{- $problems := list }}
{{- with .Values }}
{{- if and .state.ephemeral (not .unsafe.ephemeralState) }}
{{- $problems = append $problems "state.ephemeral loses the audit and every record with the pod: set unsafe.ephemeralState" }}
{{- end }}
{{- if not (or .state.existingClaim) }}
{{- $limits := .config.limits | default dict }}
{{- $outputs := include "toolgate.mebibytes" ($limits.max_total_output_bytes | default "16GiB") | int64 }}
{{- $free := include "toolgate.mebibytes" ($limits.min_free_bytes | default "256MiB") | int64 }}
{{- $size := include "toolgate.mebibytes" .state.size | int64 }}
{{- if lt $size (add $outputs $free) }}
{{- $problems = append $problems (printf "state.size=%s is less than config.limits.max_total_output_bytes and min_free_bytes together" .state.size) }}
{{- end }}
{{- end }}
{{- $names := list }}
{{- range .workspaces }}
{{- if has .name $names }}
{{- $problems = append $problems (printf "workspaces: there are two of the name %q" .name) }}
{{- end }}
{{- $names = append $names .name }}
{{- end }}
{{- range .auth.certificates }}
{{- range .workspaces }}
{{- if not (or (has . $names) (eq $.Values.mode "cluster")) }}
{{- $problems = append $problems (printf "auth.certificates: there is no workspace %q" .) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- toJson $problems }}
{{- end }}

{{/* What can be reached that must not be: above all the metadata services of clouds, which hand out credentials. */}}
{{- define "toolgate.checks.network" -}}
{{- $problems := list }}
{{- with .Values }}
{{- if and (not .networkPolicy.enabled) (not .unsafe.noNetworkPolicy) (ne .mode "config") }}
{{- $problems = append $problems "networkPolicy.enabled=false lets commands reach the whole cluster: set unsafe.noNetworkPolicy" }}
{{- end }}
{{- $named := list }}
{{- with .networkPolicy.egress }}{{ $named = concat .otlp .database .outputs .kubernetes .webhook }}{{ end }}
{{- range $rule := concat .networkPolicy.egress.extra (list (dict "to" $named "named" true)) }}
{{- if not (or $rule.to $rule.named) }}
{{- $problems = append $problems "networkPolicy.egress.extra: a rule without \"to\" reaches everything, the metadata service included" }}
{{- end }}
{{- range $rule.to }}
{{- with .ipBlock }}
{{- if include "toolgate.reachesMetadata" . }}
{{- $problems = append $problems (printf "networkPolicy.egress: %s reaches a metadata service: add it to \"except\"" .cidr) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- range (.config.network | default dict).allow }}
{{- if or (contains "metadata" .) (include "toolgate.reachesMetadata" (dict "cidr" .)) }}
{{- $problems = append $problems (printf "config.network.allow: %s reaches a metadata service" .) }}
{{- end }}
{{- end }}
{{- end }}
{{- toJson $problems }}
{{- end }}

{{/* Says which metadata service is in a block of addresses (`cidr`, `except`), if any. What is no address has none. */}}
{{- define "toolgate.reachesMetadata" -}}
{{- $block := . }}
{{- $found := list }}
{{- range list "169.254.169.254" "169.254.170.2" "100.100.100.200" "192.0.0.192" "168.63.129.16" }}
{{- $address := . }}
{{- if include "toolgate.inBlock" (dict "address" $address "cidr" $block.cidr) }}
{{- $spared := false }}
{{- range $block.except }}{{ if include "toolgate.inBlock" (dict "address" $address "cidr" .) }}{{ $spared = true }}{{ end }}{{ end }}
{{- if not $spared }}{{ $found = append $found $address }}{{ end }}
{{- end }}
{{- end }}
{{- /* IPv6: a block so large that it holds the private networks, or one of those with a metadata service. */}}
{{- $cidr := lower $block.cidr }}
{{- if and (contains ":" $cidr) (or (regexMatch "^(::|[0-9a-f:]*)/[0-6]$" $cidr) (regexMatch "^\\[?(f[cd][0-9a-f:]*/[78]|fd00:ec2:|fd20:ce:|fe80:)" $cidr)) }}
{{- if not (or (has "fc00::/7" $block.except) (and (has "fd00:ec2::254/128" $block.except) (has "fd20:ce::254/128" $block.except))) }}
{{- $found = append $found "fd00:ec2::254" }}
{{- end }}
{{- end }}
{{- join " " $found }}
{{- end }}

{{/* Says `yes` where an IPv4 `address` is in `cidr`; a port behind it does not matter. */}}
{{- define "toolgate.inBlock" -}}
{{- if regexMatch "^[0-9]+(\\.[0-9]+){3}(/[0-9]+)?(:[0-9]+)?$" .cidr }}
{{- $parts := splitList "/" (regexReplaceAll ":[0-9]+$" .cidr "") }}
{{- $size := 1 }}
{{- $bits := 32 }}
{{- if eq (len $parts) 2 }}{{ $bits = int64 (index $parts 1) }}{{ end }}
{{- range until (int (sub 32 $bits)) }}{{ $size = mul $size 2 }}{{ end }}
{{- $network := include "toolgate.ipv4" (first $parts) | int64 }}
{{- $address := include "toolgate.ipv4" .address | int64 }}
{{- if eq (div $network $size) (div $address $size) }}yes{{ end }}
{{- end }}
{{- end }}

{{- define "toolgate.ipv4" -}}
{{- $number := 0 }}
{{- range splitList "." . }}{{ $number = add (mul $number 256) (int64 .) }}{{ end }}
{{- $number }}
{{- end }}
