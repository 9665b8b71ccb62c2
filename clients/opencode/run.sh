#!/usr/bin/env bash
# The plugin for OpenCode: plugin, setup, check, build, test [ARGUMENTS OF node --test...].
#
# TOOLGATE_BIN is the program to test with; TOOLGATE_TARGET is where OpenCode is installed, from npm; OPENCODE_VERSIONS names some of
# the versions that it is tested with. Exit code 3 and a line `opencode: reason` mean that this machine cannot run it.
set -uo pipefail
cd "$(dirname "$0")" || exit 1

# The versions that the plugin is tested with.
read -ra VERSIONS <<<"${OPENCODE_VERSIONS:-1.1.31 1.18.33}"

target="$(realpath -m "${TOOLGATE_TARGET:-../../target}")"
tools="../typescript/node_modules/.bin"

fail() {
    echo "opencode: $*"
    exit 1
}

library() {
    local result=0
    ../typescript/run.sh "$1" || result=$?
    ((result == 0)) || exit "$result"
}

program() { echo "$target/tools/opencode-$1/opencode"; }

# Each of its packages for a system has the program and nothing else; the one that people install would fetch them all.
install() {
    local version="$1" folder="$target/tools/opencode-$1" package
    [[ "$("$(program "$version")" --version 2>/dev/null)" == "$version" ]] && return 0
    case "$(uname -s)-$(uname -m)" in
    Linux-x86_64) package=opencode-linux-x64 ;;
    Linux-aarch64) package=opencode-linux-arm64 ;;
    Darwin-arm64) package=opencode-darwin-arm64 ;;
    Darwin-x86_64) package=opencode-darwin-x64 ;;
    *)
        echo "opencode: it has no package for $(uname -s) on $(uname -m)"
        exit 3
        ;;
    esac
    if [[ "$package" == opencode-linux-x64 ]] && ! grep -qm1 avx2 /proc/cpuinfo; then package+=-baseline; fi
    npm install --prefix "$folder" --cache "$folder/cache" --no-audit --no-fund --ignore-scripts "$package@$version" >&2 || {
        echo "opencode: npm could not install $package@$version"
        exit 3
    }
    rm -rf "$folder/cache"
    ln -sfn "node_modules/$package/bin/opencode" "$folder/opencode" && chmod +x "$folder/node_modules/$package/bin/opencode"
}

# All that the plugin itself needs.
libraries() {
    library setup
    # What `npm install` makes of the dependencies.
    mkdir -p node_modules && ln -sfn ../../typescript node_modules/toolgate &&
        ln -sfn ../../typescript/node_modules/zod node_modules/zod || exit 1
}

setup() {
    libraries
    local version
    for version in "${VERSIONS[@]}"; do install "$version"; done
}

check() {
    local said
    library build
    said="$("$tools/biome" ci --colors=off --error-on-warnings . 2>&1)" || fail "biome: $said"
    said="$("$tools/tsc" -p tsconfig.json --noEmit)" || fail "tsc: $said"
}

build() {
    library build
    rm -rf dist build
    "$tools/tsc" -p tsconfig.build.json && "$tools/tsc" -p tsconfig.json || fail "it does not compile"
}

run_tests() {
    local version programs=()
    for version in "${VERSIONS[@]}"; do programs+=("$(program "$version")"); done
    OPENCODE_PROGRAMS="$(
        IFS=:
        echo "${programs[*]}"
    )"
    export OPENCODE_PROGRAMS
    local tests=(node --test --test-reporter=spec --test-timeout=180000 build/test/*.test.js)
    "${tests[@]}" "$@" && return 0
    # What is late on a busy machine is in time the next time; what fails twice is a fault.
    echo "All are run once more." >&2
    "${tests[@]}" "$@"
}

verb="${1:-}"
shift || true
case "$verb" in
plugin) libraries && build ;;
setup) setup ;;
check) setup && check ;;
build) setup && build ;;
test)
    [[ -x "${TOOLGATE_BIN:-}" ]] || fail "TOOLGATE_BIN has to name the service to test with"
    setup && build && run_tests "$@"
    ;;
*)
    echo "usage: run.sh plugin | setup | check | build | test [arguments of node --test]"
    exit 2
    ;;
esac
