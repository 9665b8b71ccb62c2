#!/usr/bin/env bash
# What the tests of the repository call: setup, generate [--check], check, build, test, driver.
#
# Everything is installed in $TOOLGATE_TARGET/clients/python (by default target/clients/python of the repository), in
# the exact versions of requirements.lock. Exit code 3 and `python: reason` mean that this machine cannot run it.
set -uo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="$(cd "$here/../.." && pwd)"
target="$(realpath -m "${TOOLGATE_TARGET:-$root/target}")/clients/python"
venv="$target/venv"
generated=src/toolgate/v1
cd "$here" || exit 1

cannot() {
    echo "python: $1"
    exit 3
}

apt_install() {
    local sudo=()
    [[ "$(id -u)" == 0 ]] || sudo=(sudo -n)
    command -v apt-get >/dev/null && "${sudo[@]}" apt-get install -y -q "$@" >&2
}

find_python() {
    local python
    for python in python3 python3.14 python3.13 python3.12 python3.11 python3.10; do
        if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
            command -v "$python"
            return 0
        fi
    done
    return 1
}

setup() {
    local python wanted
    wanted="$(cat requirements.lock pyproject.toml | sha256sum) $here"
    [[ -x "$venv/bin/python" && "$(cat "$target/installed" 2>/dev/null)" == "$wanted" ]] && return 0
    python="$(find_python)" || { apt_install python3 && python="$(find_python)"; } || cannot "needs Python 3.10 or later"
    "$python" -c 'import ensurepip, venv' 2>/dev/null || apt_install python3-venv || cannot "Python has no venv"
    mkdir -p "$target" && rm -rf "$venv" "$target/installed" || return 1
    "$python" -m venv "$venv" || cannot "no virtual environment can be made"
    "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --only-binary :all: -r requirements.lock >&2 ||
        cannot "the packages of requirements.lock cannot be installed"
    "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable . >&2 || return 1
    echo "$wanted" >"$target/installed"
}

# generate_into FOLDER: the stubs of every proto.
generate_into() {
    local protos
    # What gateways and workers say to each other is no part of the contract.
    mapfile -t protos < <(cd "$root/proto" && find toolgate/v1 -name '*.proto' | sort)
    PATH="$venv/bin:$PATH" python -m grpc_tools.protoc -I "$root/proto" \
        --python_out="$1" --grpc_python_out="$1" --mypy_out=quiet:"$1" --mypy_grpc_out=quiet:"$1" "${protos[@]}" || return 1
    # A file without a service has no stubs.
    local proto
    for proto in "${protos[@]}"; do
        grep -q '^service ' "$root/proto/$proto" || rm -f "$1/${proto%.proto}_pb2_grpc.py" "$1/${proto%.proto}_pb2_grpc.pyi"
    done
    echo '"""The messages and stubs of the contract, generated from `proto/` by `run.sh generate`."""' \
        >"$1/toolgate/v1/__init__.py"
}

generate() {
    local fresh result=0
    setup || return 1
    fresh="$(mktemp -d)" || return 1
    if ! generate_into "$fresh"; then
        result=1
    elif [[ "${1:-}" == --check ]]; then
        if ! diff -r -x __pycache__ "$fresh/toolgate/v1" "$generated"; then
            echo "clients/python/$generated is not what proto/ says: run clients/python/run.sh generate" >&2
            result=1
        fi
    else
        rm -rf "$generated" && cp -r "$fresh/toolgate/v1" "$generated" || result=1
    fi
    rm -rf "$fresh"
    return $result
}

check() {
    setup || return 1
    local result=0
    "$venv/bin/ruff" format --quiet --check --diff . || result=1
    "$venv/bin/ruff" check --quiet . || result=1
    "$venv/bin/mypy" --cache-dir "$target/mypy" || result=1
    return $result
}

run_tests() {
    setup || return 1
    export TOOLGATE_BIN="${TOOLGATE_BIN:-$root/target/debug/toolgate}"
    "$venv/bin/python" -m pytest -o cache_dir="$target/pytest" "$@" && return 0
    # What is late on a busy machine is in time when it runs alone; what fails twice is a fault.
    echo "Those that failed are run once more." >&2
    "$venv/bin/python" -m pytest -o cache_dir="$target/pytest" --last-failed --last-failed-no-failures none "$@"
}

verb="${1:-}"
shift || true
case "$verb" in
    setup) setup ;;
    generate) generate "$@" ;;
    check) check ;;
    build) "$venv/bin/python" -m compileall -q src tests ;;
    test) run_tests "$@" ;;
    driver) exec "$venv/bin/python" tests/driver.py ;;
    *)
        echo "usage: run.sh setup | generate [--check] | check | build | test | driver" >&2
        exit 2
        ;;
esac
