#!/usr/bin/env bash
# Builds every package as it is published, and uses each in an empty project that knows nothing of this repository: run.sh
# [python] [typescript] [java] [go] [rust] [program] [cargo]. Nothing is published. README.md beside this file says what is looked at.
#
# Each part adds a row to $RESULTS (tests/ecosystem/README.md says what a row is), or to a file that is printed at the end.
set -uo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="$(cd "$here/../.." && pwd)"
cd "$root" || exit 1
target="$(realpath -m "${TOOLGATE_TARGET:-${CARGO_TARGET_DIR:-target}}")"
work="$(realpath -m "${ECOSYSTEM:-$target/ecosystem/packages}")"
export PATH="$target/tools/bin:$PATH" TOOLGATE_BIN="${TOOLGATE_BIN:-$target/debug/toolgate}"
unset CARGO_TARGET_DIR
all=(python typescript java go rust program cargo)
repository=https://github.com/toolgate/toolgate
version="$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)"
rows="$(mktemp)" || exit 1
trap 'rm -f "$rows"' EXIT
printed="${RESULTS:-$rows}"
mkdir -p "$work" || exit 1

fail() {
    printf '%s\n' "$*" >&2
    return 1
}

# quietly COMMAND...: what it prints matters only if it fails.
quietly() {
    local output status
    output="$("$@" 2>&1 </dev/null)"
    status=$?
    ((status == 0)) || printf '%s\n' "$output" >&2
    return $status
}

# block FILE LANGUAGE NUMBER: the code of a page, counted from 1.
block() {
    awk -v want="$3" -v open="^\`\`\`$2(,.*)?\$" '
        $0 ~ open { inside = ++count == want; next }
        /^```/ { inside = 0 }
        inside' "$1"
}

# A service for the programs of all parts: its rules allow everything.
serve() {
    local socket
    [[ -x "$TOOLGATE_BIN" ]] || { fail "TOOLGATE_BIN has to name the program of the service"; exit 1; }
    folder="$(mktemp -d)" || exit 1
    socket="$folder/s"
    mkdir "$folder/work"
    HOME="$folder" XDG_CONFIG_HOME="$folder" "$TOOLGATE_BIN" serve --no-tcp --socket "$socket" --data-dir "$folder/data" \
        --workspace "default=$folder/work" >"$folder/log" 2>&1 </dev/null &
    service=$!
    trap 'kill "$service" 2>/dev/null; wait "$service" 2>/dev/null; rm -rf "$folder" "$rows"' EXIT
    local left=600
    until [[ -S "$socket" ]]; do
        ((left-- > 0)) && kill -0 "$service" 2>/dev/null || { cat "$folder/log" >&2; exit 1; }
        sleep 0.1
    done
    export TOOLGATE_SERVER="unix:$socket"
}

# greets COMMAND...: whether a program made a call by the library as it is installed.
greets() {
    local printed
    printed="$("$@" 2>&1 </dev/null)" && [[ "$printed" == *"hello from a call"* ]] || fail "the program printed: $printed"
}

# versions: whether all packages and what libraries say of themselves are of one version.
versions() {
    local file wrong=0
    local -A says=(
        [clients/python/src/toolgate/_version.py]="__version__ = \"$version\""
        [clients/python/pyproject.toml]="version = \"$version\""
        [clients/typescript/package.json]="\"version\": \"$version\""
        [clients/typescript/src/version.ts]="/$version\""
        [clients/java/pom.xml]="<version>$version</version>"
        [clients/java/adapters/pom.xml]="<version>$version</version>"
        [clients/java/src/main/java/io/toolgate/ClientBuilder.java]="toolgate-java/$version\""
        [clients/go/client.go]="const Version = \"$version\""
        [clients/go/toolgategenkit/go.mod]="clients/go v$version"
    )
    for file in "${!says[@]}"; do
        grep -qF -- "${says[$file]}" "$file" || { fail "$file does not say ${says[$file]}"; wrong=1; }
    done
    return $wrong
}

# The programs of PyPI that packages are checked with: in fixed versions, installed once.
python_programs() {
    cmp -s "$here/requirements.txt" "$work/python/requirements.txt" && return 0
    rm -rf "$work/python"
    quietly python3 -m venv "$work/python" &&
        quietly "$work/python/bin/pip" install --quiet --disable-pip-version-check -r "$here/requirements.txt" &&
        cp "$here/requirements.txt" "$work/python/"
}

# The programs of npm that packages are checked with: in fixed versions, installed once.
npm_programs() {
    local wanted="$here/npm/package-lock.json"
    cmp -s "$wanted" "$work/npm/node_modules/.installed" && return 0
    mkdir -p "$work/npm" && cp "$here/npm/package.json" "$wanted" "$work/npm/" &&
        quietly npm ci --prefix "$work/npm" --no-audit --no-fund --ignore-scripts && cp "$wanted" "$work/npm/node_modules/.installed"
}

# row PROGRAM VERSION STATUS NOTE
row() {
    local result=passed
    (($3 == 0)) || result=FAILED
    printf '%s\t%s\t%s\t%s\n' "$1" "$2" "$result" "$4" >>"$printed"
    return "$3"
}

for part in "${all[@]}"; do
    # shellcheck source=/dev/null
    source "$here/$part.sh"
done
parts=("$@")
((${#parts[@]})) || parts=("${all[@]}")
for part in "${parts[@]}"; do
    [[ " ${all[*]} " == *" $part "* ]] || { fail "no package for $part; there are: ${all[*]}"; exit 2; }
done

serve
result=0
versions || result=1
for part in "${parts[@]}"; do
    start=$SECONDS
    echo "==> $part" >&2
    # A part of its own process: where it goes and what it sets ends with it.
    ("check_$part") || result=1
    echo "    $((SECONDS - start)) s" >&2
done
[[ -n "${RESULTS:-}" ]] || column -t -s $'\t' "$printed" 2>/dev/null || cat "$printed"
exit $result
