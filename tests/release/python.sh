# PyPI: the sdist and the wheel that is built from it. Sourced by run.sh.

check_python() {
    local venv="$work/python" fresh="$work/python-fresh" packages="$work/python-packages" status=0
    python_programs || return 1
    rm -rf "$packages" "$fresh"
    {
        quietly "$venv/bin/python" -m build --no-isolation --outdir "$packages" clients/python &&
            quietly "$venv/bin/twine" check --strict "$packages"/* &&
            has_types "$packages"/*.whl &&
            links_lead_somewhere "$packages"/*.whl &&
            quietly python3 -m venv "$fresh" &&
            quietly "$fresh/bin/pip" install --quiet --disable-pip-version-check "$packages"/*.whl &&
            greets "$fresh/bin/python" "$here/consumers/call.py" &&
            types_of_readme "$venv" "$fresh"
    } || status=1
    row "toolgate (PyPI)" "$version" $status \
        "twine check; the wheel alone makes a call; the README's programs are clean for mypy --strict and pyright strict"
}

has_types() {
    [[ "$(python3 -m zipfile -l "$1")" == *toolgate/py.typed\ * ]] || fail "$1 does not say that it is typed"
}

# A page of PyPI has nothing beside it.
links_lead_somewhere() {
    local relative
    relative="$(unzip -p "$1" '*/METADATA' | grep -o '](\.\./[^)]*)')" && fail "the page on PyPI would have these links: $relative"
    return 0
}

# types_of_readme TOOLS PYTHON: the programs of the README, against the package as it is installed.
types_of_readme() {
    local programs="$work/python-programs"
    rm -rf "$programs"
    mkdir "$programs" || return 1
    python3 - clients/python/README.md "$programs" <<'END' || return 1
import pathlib
import re
import sys

page, folder = map(pathlib.Path, sys.argv[1:])
first, second, *others = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
for name, program in [("first", first), ("second", second), ("others", "\n".join(others))]:
    (folder / f"{name}.py").write_text(program)
END
    quietly "$1/bin/mypy" --strict --python-executable "$2/bin/python" --cache-dir "$work/mypy" "$programs" || return 1
    printf '{"include": ["."], "typeCheckingMode": "strict", "pythonVersion": "3.10"}\n' >"$programs/pyrightconfig.json"
    npm_programs && quietly "$work/npm/node_modules/.bin/pyright" --project "$programs" --pythonpath "$2/bin/python"
}
