#!/usr/bin/env bash
# The published SDKs of agent-sandbox for Python and Go: README.md beside this file says how it is started.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="$(cd "$here/../.." && pwd)"
target="$TOOLGATE_TARGET"
# shellcheck source=../setup/go.sh
. "$root/tests/setup/go.sh"

PYTHON=1.0.8
GRPCIO=1.85.1 # what the library for Python wants as well
GO="$(sed -n 's|.*sigs.k8s.io/agent-sandbox v||p' "$here/agent-sandbox/go/go.mod")"

packages="$ECOSYSTEM/python"
if [[ ! -e "$packages/k8s_agent_sandbox-$PYTHON.dist-info" ]]; then
    rm -rf "$packages"
    python3 -m pip install --disable-pip-version-check --no-input --no-cache-dir --only-binary :all: --target "$packages" \
        "k8s-agent-sandbox[async,grpc]==$PYTHON" "grpcio>=$GRPCIO" docstring-parser googleapis-common-protos >&2
fi

played=()
if go="$(find_go)"; then
    sources="$here/agent-sandbox/go"
    if [[ ! -x "$ECOSYSTEM/go" || -n "$(find "$sources" -newer "$ECOSYSTEM/go" -type f)" ]]; then
        (cd "$sources" && in_go build -trimpath -o "$ECOSYSTEM/go" .) >&2
        forget_go
    fi
    played=("$ECOSYSTEM/go" "$GO")
else
    printf '%s\t%s\tCANNOT\t%s\n' "sigs.k8s.io/agent-sandbox (Go)" "$GO" "no Go 1.21 or later is installed" >>"$RESULTS"
fi
PYTHONPATH="$packages:$root/clients/python/src" python3 "$here/agent-sandbox/play.py" "${played[@]}" | tee -a "$RESULTS"
