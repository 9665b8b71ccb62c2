#!/usr/bin/env bash
# What the test runner of the repository calls: setup, generate [--check], check, build, test, driver.
set -uo pipefail
cd "$(dirname "$0")" || exit 1

fail() {
    echo "typescript: $*"
    exit 1
}

# Whether this machine can build and run the library at all.
require_node() {
    local major
    major="$(node -p 'process.versions.node.split(".")[0]' 2>/dev/null)" || major=0
    if ((major < 20)); then
        echo "typescript: Node 20 or later is needed"
        exit 3
    fi
}

setup() {
    local stamp=node_modules/.installed
    cmp -s package-lock.json "$stamp" && return 0
    local log
    log="$(npm ci --no-audit --no-fund 2>&1)" || fail "npm ci failed: $log"
    cp package-lock.json "$stamp"
}

# generate_into FOLDER
generate_into() {
    local buf="../../target/tools/bin/buf"
    command -v buf >/dev/null && buf=buf
    "$buf" generate --template "$(template "$1")" || fail "buf generate failed"
}

template() {
    sed "s#out: .*#out: $1#" buf.gen.yaml >node_modules/.buf.gen.yaml
    echo node_modules/.buf.gen.yaml
}

generate() {
    if [[ "${1:-}" != --check ]]; then
        generate_into src/gen
        return
    fi
    fresh="$(mktemp -d)"
    trap 'rm -rf "$fresh"' EXIT
    generate_into "$fresh/gen"
    diff -r src/gen "$fresh/gen" || fail "src/gen is not what proto/ gives: run clients/typescript/run.sh generate"
}

check() {
    local said
    said="$(node_modules/.bin/biome ci --colors=off --error-on-warnings . 2>&1)" || fail "biome: $said"
    said="$(node_modules/.bin/tsc -p tsconfig.json --noEmit)" || fail "tsc: $said"
}

# Quick when nothing changed: what was compiled stays as long as no source is newer.
build() {
    local stamp=build/.compiled
    if [[ -e "$stamp" ]] && [[ -z "$(find src test tsconfig*.json package-lock.json -newer "$stamp" -print -quit)" ]]; then
        return 0
    fi
    rm -rf build dist
    node_modules/.bin/tsc -p tsconfig.build.json || fail "the library does not compile"
    node_modules/.bin/tsc -p tsconfig.json || fail "the tests do not compile"
    touch "$stamp"
}

run_tests() {
    local tests=(node --test --test-reporter=spec --test-timeout=120000 build/test/*.test.js)
    "${tests[@]}" "$@" && return 0
    # What is late on a busy machine is in time the next time; what fails twice is a fault.
    echo "All are run once more." >&2
    "${tests[@]}" "$@"
}

verb="${1:-}"
shift || true
require_node
case "$verb" in
setup) setup ;;
generate) setup && generate "$@" ;;
check) setup && check ;;
build) setup && build ;;
test)
    [[ -x "${TOOLGATE_BIN:-}" ]] || fail "TOOLGATE_BIN has to name the server to test against"
    setup && build && run_tests "$@"
    ;;
driver) exec node --enable-source-maps build/test/driver.js ;;
*)
    echo "usage: run.sh setup | generate [--check] | check | build | test | driver"
    exit 2
    ;;
esac
