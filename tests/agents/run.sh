#!/usr/bin/env bash
# The example agents, and OpenCode with the plugin: setup, check, test [ARGUMENTS OF unittest...]. For one language: `run.sh test -k Python`.
#
# TOOLGATE_BIN is the program to test with; TOOLGATE_TARGET is where things are installed. Exit code 3 and a line
# `agents: reason` mean that this machine cannot run them.
set -uo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="$(cd "$here/../.." && pwd)"
target="$(realpath -m "${TOOLGATE_TARGET:-$root/target}")"
export TOOLGATE_TARGET="$target"
export TOOLGATE_BIN="${TOOLGATE_BIN:-$target/debug/toolgate}"
python_agent="$root/clients/python/examples/agent"
typescript_agent="$root/clients/typescript/examples/agent"
venv="$target/clients/python/venv/bin"
packages="$target/agents/python"

# library LANGUAGE VERB: where a machine lacks something, the library says what.
library() {
    local result=0
    "$root/clients/$1/run.sh" "$2" || result=$?
    ((result == 0)) || exit "$result"
}

setup_python() {
    library python setup
    local wanted
    wanted="$(sha256sum <"$python_agent/requirements.lock")"
    [[ "$(cat "$packages/.installed" 2>/dev/null)" == "$wanted" ]] && return 0
    rm -rf "$packages"
    "$venv/pip" install --quiet --disable-pip-version-check --no-deps --only-binary :all: \
        --target "$packages" -r "$python_agent/requirements.lock" >&2 || return 1
    echo "$wanted" >"$packages/.installed"
}

setup_typescript() {
    library typescript setup
    # What `npm install` makes of the dependency on the library beside it.
    mkdir -p "$typescript_agent/node_modules" && ln -sfn ../../.. "$typescript_agent/node_modules/toolgate"
}

compile() { (cd "$typescript_agent" && ../../node_modules/.bin/tsc "$@"); }

setup() {
    command -v git >/dev/null || { echo "agents: git is needed"; exit 3; }
    setup_python && setup_typescript && library typescript build && compile && library opencode setup
}

check() {
    local result=0
    (cd "$python_agent" && "$venv/ruff" format --quiet --check --diff .) || result=1
    (cd "$python_agent" && "$venv/ruff" check --quiet .) || result=1
    (cd "$python_agent" && PYTHONPATH="$packages" "$venv/mypy" --cache-dir "$target/agents/mypy") || result=1
    (cd "$here" && "$venv/ruff" format --quiet --check --diff --line-length 120 .) || result=1
    (cd "$root/clients/typescript" && node_modules/.bin/biome ci --colors=off --error-on-warnings examples) || result=1
    compile --noEmit || result=1
    "$root/clients/opencode/run.sh" check || result=1
    return $result
}

run_tests() {
    export PYTHONPATH="$packages:$python_agent" PYTHONDONTWRITEBYTECODE=1
    export AGENT_PYTHON="[\"$venv/python\", \"-m\", \"toolgate_agent\"]"
    export AGENT_TYPESCRIPT="[\"node\", \"$typescript_agent/dist/main.js\"]"
    cd "$here" || return 1
    timeout 900 "$venv/python" test_agents.py "$@" && return 0
    # What is late on a busy machine is in time the next time; what fails twice is a fault.
    echo "All are run once more." >&2
    timeout 900 "$venv/python" test_agents.py "$@"
}

# OpenCode with the plugin, unless some of the tests of the example agents are wanted.
run_opencode() { (($# > 0)) || "$root/clients/opencode/run.sh" test; }

verb="${1:-}"
shift || true
case "$verb" in
    setup) setup ;;
    check) setup && check ;;
    test) setup && check && run_tests "$@" && run_opencode "$@" ;;
    *)
        echo "usage: run.sh setup | check | test [arguments of unittest]" >&2
        exit 2
        ;;
esac
