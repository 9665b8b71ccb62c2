#!/usr/bin/env bash
# The tests of the Helm chart.
#
#   setup   installs what they need in target/tools/chart, from the Go module proxy. Prints `NAME: reason` for what cannot
#           be had, and exits with 3 then
#   test    runs them, with the PostgreSQL of tests/setup/tools.sh; TOOLGATE_BIN names the program of the service, target/debug/toolgate by default
#   docs    writes the chart's README again
#
# TOOLGATE_TARGET is the folder for everything that is made, `target` by default. Rendered manifests are left in
# target/chart, a file for each file of values.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1

target="$(realpath -m "${TOOLGATE_TARGET:-target}")"
tools="$target/tools/chart"
bin="$tools/bin"
chart=helm/toolgate
source tests/setup/go.sh

# The oldest that the chart installs on, and a new one.
KUBERNETES=(1.30.14 1.36.3)
PROMETHEUS_OPERATOR=0.85.0
GATEWAY_API=1.6.3
CERT_MANAGER=1.21.2
# Definitions of agent-sandbox, a folder for each of its releases.
AGENT_SANDBOX=tests/chart/crds

log() { echo "setup: $*" >&2; }

# The programs belong to one module, whose go.sum pins all of what they are made of.
programs() {
    local stamp version="${KUBERNETES[-1]}" flags package
    # As Helm's own build says which Kubernetes it is for.
    flags="-X helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor=1"
    flags+=" -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor=$(cut -d. -f2 <<<"$version")"
    stamp="$(cat tests/chart/check/go.{mod,sum} | sha256sum) $flags"
    [[ "$(cat "$bin/programs.stamp" 2>/dev/null)" == "$stamp" ]] && return 0
    for package in helm.sh/helm/v3/cmd/helm github.com/helm-unittest/helm-unittest/cmd/helm-unittest \
        github.com/norwoodj/helm-docs/cmd/helm-docs; do
        log "building ${package##*/}"
        (cd tests/chart/check && in_go build -trimpath -ldflags "$flags" -o "$bin/${package##*/}" "$package") >&2 || return 1
    done
    echo "$stamp" >"$bin/programs.stamp"
}

check() {
    local stamp
    stamp="$(cat tests/chart/check/* | sha256sum)"
    [[ "$(cat "$bin/check.stamp" 2>/dev/null)" == "$stamp" ]] && return 0
    log "building check"
    (cd tests/chart/check && in_go build -trimpath -o "$bin/check" .) >&2 && echo "$stamp" >"$bin/check.stamp"
}

# module PATH VERSION: prints where its files are.
module() {
    local empty
    empty="$(mktemp -d)" || return 1
    (cd "$empty" && in_go mod download -json "$1@v$2") | sed -n 's/^\t"Dir": "\(.*\)",\?$/\1/p'
    rm -rf "$empty"
}

schemas() {
    local version folder stamp="${KUBERNETES[*]} $PROMETHEUS_OPERATOR $GATEWAY_API $CERT_MANAGER"
    stamp+=" $(cat tests/chart/check/schemas.go "$AGENT_SANDBOX"/*/*.yaml | sha256sum)"
    [[ "$(cat "$tools/schemas/stamp" 2>/dev/null)" == "$stamp" ]] && return 0
    rm -rf "$tools/schemas"
    for version in "${KUBERNETES[@]}"; do
        log "fetching the API of Kubernetes $version"
        folder="$(module k8s.io/kubernetes "$version")" && [[ -n "$folder" ]] || return 1
        "$bin/check" schemas "$tools/schemas" "v$version" "$folder/api/openapi-spec/swagger.json" || return 1
    done
    log "fetching definitions of custom resources"
    local operator gateway manager
    operator="$(module github.com/prometheus-operator/prometheus-operator "$PROMETHEUS_OPERATOR")/example/prometheus-operator-crd"
    gateway="$(module sigs.k8s.io/gateway-api "$GATEWAY_API")/config/crd/standard"
    manager="$(module github.com/cert-manager/cert-manager "$CERT_MANAGER")/deploy/crds"
    "$bin/check" schemas "$tools/schemas" crds "$operator"/monitoring.coreos.com_{servicemonitors,prometheusrules}.yaml \
        "$gateway"/gateway.networking.k8s.io_{grpcroutes,backendtlspolicies}.yaml \
        "$manager"/cert-manager.io_certificates.yaml || return 1
    for folder in "$AGENT_SANDBOX"/*/; do
        "$bin/check" schemas "$tools/schemas" "agent-sandbox-$(basename "$folder")" "$folder"/*.yaml || return 1
    done
    echo "$stamp" >"$tools/schemas/stamp"
}

# Prints the folder of PostgreSQL's programs, which `tests/setup/tools.sh` installs.
find_postgres() {
    local found
    for found in "$target/tools/bin/initdb" "$(command -v initdb)" /usr/lib/postgresql/*/bin/initdb; do
        [[ -x "$found" ]] && dirname "$(realpath "$found")" && return 0
    done
    return 1
}

setup() {
    mkdir -p "$bin" || exit 1
    local go
    if ! go="$(find_go)"; then
        echo "go: not installed; the programs of the chart's tests are built with it"
        exit 3
    fi
    local missing=0
    if ! find_postgres >/dev/null; then
        echo "postgres: not installed; tests/setup/tools.sh does that"
        missing=1
    fi
    if ! programs || ! check; then
        echo "helm: Go could not build it here, nor the other programs"
        missing=1
    elif ! schemas; then
        echo "schemas: the Go module proxy does not have them, or cannot be reached"
        missing=1
    fi
    forget_go
    ((missing == 0)) || exit 3
}

# The README is made of the comments in values.yaml, which this keeps it to.
document() { "$bin/helm-docs" --chart-search-root helm --template-files README.md.gotmpl --log-level warning "$@"; }

up_to_date() { diff -u "$chart/README.md" <(document --dry-run) && echo "The chart's README is up to date."; }

test_chart() {
    local failed=0 file values=()
    if [[ ! -x "$bin/check" ]]; then
        echo "the programs are not there: tests/chart/run.sh setup" >&2
        exit 2
    fi
    export HELM_CACHE_HOME="$tools/helm/cache" HELM_CONFIG_HOME="$tools/helm/config" HELM_DATA_HOME="$tools/helm/data"
    for file in tests/chart/values/*.yaml; do
        "$bin/helm" lint --strict --quiet "$chart" --values "$file" || failed=1
        values+=("$file")
    done
    echo "helm lint: ${#values[@]} value files"
    "$bin/helm-unittest" --strict --file "../../tests/chart/unit/*_test.yaml" "$chart" || failed=1
    up_to_date || failed=1
    rm -rf "$target/chart" && mkdir -p "$target/chart" || exit 1
    "$bin/check" -chart "$chart" -tests tests/chart -schemas "$tools/schemas" -helm "$bin/helm" -out "$target/chart" \
        -postgres "$(find_postgres)" -toolgate "$(realpath "${TOOLGATE_BIN:-$target/debug/toolgate}")" || failed=1
    exit $failed
}

case "${1:-}" in
    setup) setup ;;
    test) test_chart ;;
    docs) document ;;
    *)
        echo "usage: tests/chart/run.sh setup | test | docs" >&2
        exit 2
        ;;
esac
