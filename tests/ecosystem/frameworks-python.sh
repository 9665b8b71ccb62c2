#!/usr/bin/env bash
# The adapters of the library for Python, on the frameworks themselves: checked against their types, and run.
set -uo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/frameworks-python"
library="$PWD/clients/python"
venv="$ECOSYSTEM/venv"
failed=0

row() { printf '%s\t%s\t%s\t%s\n' "$@" >>"$RESULTS"; }

version() { "$venv/bin/python" -c "import importlib.metadata as m; print(m.version('$1'))"; }

find_python() {
    local python
    for python in python3 python3.14 python3.13 python3.12 python3.11; do
        if "$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$python"
            return 0
        fi
    done
    return 1
}

# install PYTHON: what requirements.lock says, unless it is there.
install() {
    local wanted
    wanted="$(cat "$here/requirements.lock" "$library/pyproject.toml" | sha256sum) $library"
    [[ "$(cat "$venv/.installed" 2>/dev/null)" == "$wanted" ]] && return 0
    rm -rf "$venv" && "$1" -m venv "$venv" || return 1
    "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --only-binary :all: -r "$here/requirements.lock" &&
        "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable "$library" &&
        echo "$wanted" >"$venv/.installed"
}

# check: the adapters and their tests, against the types of the frameworks.
check() {
    local result=0
    "$venv/bin/ruff" format --quiet --check --diff --line-length 120 "$here" || result=1
    MYPYPATH="$library/src:$library:$here" "$venv/bin/mypy" --config-file "$library/pyproject.toml" --python-version 3.11 \
        --cache-dir "$ECOSYSTEM/mypy" "$library/src/toolgate/adapters" "$here" || result=1
    return $result
}

# try TEST NOTE PACKAGE NAME...: runs a test, and writes a row for each package.
try() {
    local test="$1" note="$2" result=passed
    shift 2
    (cd "$here" && PYTHONPATH="$library:$here" PYTHONDONTWRITEBYTECODE=1 \
        "$venv/bin/python" -m pytest -o cache_dir="$ECOSYSTEM/pytest" "test_$test.py") || {
        result=FAILED
        failed=1
        note="see the log"
    }
    while (($#)); do
        row "$2" "$(version "$1")" "$result" "$note"
        shift 2
    done
}

names=("LangChain (PyPI)" "LangGraph (PyPI)" "Pydantic AI (PyPI)" "OpenAI Agents SDK (PyPI)")
python="$(find_python)" || {
    for name in "${names[@]}"; do row "$name" - CANNOT "it needs Python 3.11 or later"; done
    exit 0
}
if ! install "$python" || ! check; then
    for name in "${names[@]}"; do row "$name" - FAILED "not installed, or the adapter does not fit its types"; done
    exit 1
fi
asked="tools, streamed output, prompts, pictures, failures, cancellation"
try langchain "$asked; a prompt is an interrupt" langchain "LangChain (PyPI)" langgraph "LangGraph (PyPI)"
try pydantic_ai "$asked; a prompt is a deferred call" pydantic-ai-slim "Pydantic AI (PyPI)"
try openai_agents "$asked; a prompt is an interruption" openai-agents "OpenAI Agents SDK (PyPI)"
# Of no package, but of the page.
try guide ""
exit "$failed"
