#!/usr/bin/env bash
# The console's own commands, for the tests of the repository and for whoever works on it:
#
#   setup     gets the pinned packages, and a Chromium out of one of them
#   build     builds the page into crates/server/src/grpc/console, where the service takes it from
#   generate  makes the stubs from the contract; needs buf
#   check     format, types, and that the built page is that of the sources
#   test      drives the page in Chromium, against the service $TOOLGATE_BIN
#
# `setup` prints `NAME: reason` and ends with 3 if this machine cannot have something.
set -uo pipefail
cd "$(dirname "$0")" || exit 1
target="$(realpath -m "${CARGO_TARGET_DIR:-../../target}")"
export CARGO_TARGET_DIR="$target"
export PATH="$PWD/node_modules/.bin:$target/tools/bin:$PATH"

cannot() {
    echo "$1: $2"
    exit 3
}

setup() {
    command -v node >/dev/null || cannot node "not found"
    (($(node -p 'process.versions.node.split(".")[0]') >= 20)) || cannot node "$(node --version) is older than 20"
    local stamp="$target/tools/console-packages" wanted
    wanted="$(sha256sum package-lock.json | cut -d ' ' -f 1)"
    if [[ "$(cat "$stamp" 2>/dev/null)" != "$wanted" || ! -d node_modules ]]; then
        npm ci --no-audit --no-fund --loglevel=error >&2 || cannot npm "the packages of package-lock.json could not be had"
        mkdir -p "$target/tools" && echo "$wanted" >"$stamp"
    fi
    node browser.mjs >&2 || cannot chromium "it could not be unpacked, or does not run here"
}

check() {
    local failed=0 fresh
    prettier --check . || failed=1
    tsc -p . || failed=1
    fresh="$(mktemp -d)" || return 1
    node build.mjs --out "$fresh" && diff -rq "$fresh" ../../crates/server/src/grpc/console || {
        echo "the built page is not that of the sources: clients/console/run.sh build" >&2
        failed=1
    }
    if command -v buf >/dev/null; then
        buf generate ../../proto --template buf.gen.yaml --output "$fresh" && diff -rq "$fresh/src/gen" src/gen || {
            echo "the stubs are not those of the contract: clients/console/run.sh generate" >&2
            failed=1
        }
    fi
    rm -rf "$fresh"
    return $failed
}

case "${1:-}" in
setup) setup ;;
build) node build.mjs ;;
generate) buf generate ../../proto --template buf.gen.yaml ;;
check) check ;;
test)
    shift
    [[ -x "${TOOLGATE_BIN:-}" ]] || {
        echo "TOOLGATE_BIN does not name a program" >&2
        exit 2
    }
    playwright test "$@"
    ;;
*)
    sed -n 's/^# \{0,1\}//p' "$0" | sed -n '2,10p' >&2
    exit 2
    ;;
esac
