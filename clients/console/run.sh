#!/usr/bin/env bash
# The console's own commands, for the tests of the repository and for whoever works on it:
#
#   setup     gets the pinned packages, and a Chromium out of one of them
#   build     builds the page into the folder that the service takes it from; gets the packages if they are missing
#   check     format, types, and that the built page is that of the sources
#   test      drives the page in Chromium, against the service $TOOLGATE_BIN
#   pictures  makes the pictures of the documentation anew, in docs/pictures, from the service $TOOLGATE_BIN
#
# `setup` prints `NAME: reason` and ends with 3 if this machine cannot have something.
set -uo pipefail
cd "$(dirname "$0")" || exit 1
page="$PWD/../../crates/server/src/grpc/console"
target="$(realpath -m "${CARGO_TARGET_DIR:-../../target}")"
export CARGO_TARGET_DIR="$target"
export PATH="$PWD/node_modules/.bin:$target/tools/bin:$PATH"

cannot() {
    echo "$1: $2"
    exit 3
}

# The stubs are those of the TypeScript library. They are copied, so that they use the packages of the page.
stubs() {
    local from=../typescript/src/gen/toolgate to=src/gen/toolgate
    diff -rq "$from" "$to" >/dev/null 2>&1 || { rm -rf src/gen && mkdir src/gen && cp -R "$from" "$to"; }
}

packages() {
    command -v node >/dev/null || cannot node "not found"
    (($(node -p 'process.versions.node.split(".")[0]') >= 20)) || cannot node "$(node --version) is older than 20"
    local stamp="$target/tools/console-packages" wanted
    wanted="$(sha256sum package-lock.json | cut -d ' ' -f 1)"
    if [[ "$(cat "$stamp" 2>/dev/null)" != "$wanted" || ! -d node_modules ]]; then
        npm ci --no-audit --no-fund --loglevel=error >&2 || cannot npm "the packages of package-lock.json could not be had"
        mkdir -p "$target/tools" && echo "$wanted" >"$stamp"
    fi
}

setup() {
    packages
    stubs || return 1
    node browser.mjs >&2 || cannot chromium "it could not be unpacked, or does not run here"
}

check() {
    local failed=0 fresh
    stubs || return 1
    prettier --check . || failed=1
    tsc -p . || failed=1
    fresh="$(mktemp -d)" || return 1
    node build.mjs --out "$fresh" && diff -rq --exclude '*.br' --exclude '*.gz' "$fresh" "$page" &&
        node build.mjs --check "$page" || {
        echo "the built page is not that of the sources: clients/console/run.sh build" >&2
        failed=1
    }
    rm -rf "$fresh"
    return $failed
}

program() {
    [[ -x "${TOOLGATE_BIN:-}" ]] && return
    echo "TOOLGATE_BIN does not name a program" >&2
    exit 2
}

case "${1:-}" in
setup) setup ;;
build) packages && stubs && node build.mjs --out "$page" ;;
check) check ;;
test)
    shift
    program
    stubs && playwright test "$@"
    ;;
pictures)
    program
    stubs && playwright test --config pictures.config.ts
    ;;
*)
    sed -n 's/^# \{0,1\}//p' "$0" | sed -n '2,11p' >&2
    exit 2
    ;;
esac
