# The packages that carry the program: what pack/pack.sh makes of TOOLGATE_BIN, installed by pip, npm and dpkg, and from the
# archive. Sourced by run.sh.
#
# With TOOLGATE_QUICK=1 (`make test`) the packages have a small program in them that starts TOOLGATE_BIN, since the debug program
# takes long to compress. What needs more of PyPI and npm is left out: programs that look at packages, uv, and what the library
# needs.

check_program() {
    local made="$work/program/packages" program="$work/program/toolgate" tour="$work/program/tour" status=0
    rm -rf "$work/program"
    mkdir -p "$tour" "$work/program/home" || return 1
    echo 'hello from a file' >"$tour/greeting"
    step "packages with the program" "one command makes all of them; checksums" is_packed || return 1
    step "archive of the program" "makes a call; manual pages without a warning; completions; SBOM" from_archive || status=1
    step "toolgate with the program (PyPI)" "pip puts toolgate on the PATH, where it makes a call" from_pypi || status=1
    step "toolgate with the program (npm)" "npx toolgate makes a call; a signal ends the program" from_npm || status=1
    if command -v dpkg-deb >/dev/null; then
        step "toolgate (Debian)" "dpkg installs it into an empty root; it makes a call" from_debian || status=1
    fi
    step "packages, made again" "the same bytes, for x86-64 and arm64" is_reproducible || status=1
    return $status
}

# step PROGRAM NOTE CHECK: adds its row, with what the check noted.
step() {
    local result noted=
    "$3"
    result=$?
    row "$1" "$version" $result "$2${noted:+ ($noted)}"
}

# works COMMAND...: whether it is the program: its version, and a call that needs no service.
works() {
    local said alone=(env -u TOOLGATE_SERVER HOME="$work/program/home" TOOLGATE_DATA_DIR="$work/program/data" npm_config_update_notifier=false)
    said="$(cd "$tour" && "${alone[@]}" "$@" --version 2>&1 </dev/null)"
    [[ "$said" == "toolgate $version" ]] || { fail "$* --version printed: $said"; return 1; }
    said="$(cd "$tour" && "${alone[@]}" "$@" call --standalone grep pattern=from 2>&1 </dev/null)"
    [[ "$said" == *"hello from a file"* ]] || fail "$* call printed: $said"
}

is_packed() {
    if [[ -n "${TOOLGATE_QUICK:-}" ]]; then
        printf '#include <unistd.h>\nint main(int count, char **words) { return execv("%s", words), 126; }\n' "$TOOLGATE_BIN" |
            cc -x c -o "$program" - || return 1
    else
        # The debug program is large for what it does not need here.
        strip -o "$program" "$TOOLGATE_BIN" || return 1
    fi
    quietly "$here/pack/pack.sh" "$made" "$program" && (cd "$made" && quietly sha256sum -c SHA256SUMS)
}

from_archive() {
    local prefix="$work/program/archive"
    mkdir "$prefix" && tar -xzf "$made"/toolgate-"$version"-linux-*.tar.gz -C "$prefix" --strip-components 1 &&
        works "$prefix/bin/toolgate" && pages_are_good "$prefix/share/man/man1" && completes "$prefix/share" &&
        is_a_bom "$made"/toolgate-*.cdx.json
}

# pages_are_good FOLDER
pages_are_good() {
    local page said
    [[ -s "$1/toolgate.1" && -s "$1/toolgate-call.1" ]] || { fail "there are no manual pages"; return 1; }
    command -v man >/dev/null && command -v groff >/dev/null || { noted+="man is not here; "; return 0; }
    for page in "$1"/*; do
        said="$(groff -Kutf8 -Tutf8 -man -ww -z "$page" 2>&1)"
        [[ -z "$said" ]] || { fail "$page: $said"; return 1; }
    done
    said="$(MANWIDTH=80 man --warnings -l "$1/toolgate.1" 2>&1)"
    [[ "$said" == *"toolgate-call(1)"* && "$said" != *warning:* ]] || fail "man shows: $said"
}

# completes SHARE: whether the shells that are here take their files.
completes() {
    local said shells=bash
    # What bash offers is tested in tests/it/completions.rs.
    said="$(bash --norc -c 'source "$1" && complete -p toolgate' bash "$1/bash-completion/completions/toolgate" 2>&1)"
    [[ "$said" == *"-F _toolgate"* ]] || { fail "bash: $said"; return 1; }
    if command -v zsh >/dev/null; then
        said="$(zsh -f -c 'fpath=($1 $fpath); autoload -Uz compinit; compinit -u -d "$2"; print -r -- $_comps[toolgate]; autoload +X _toolgate' \
            zsh "$1/zsh/site-functions" "$work/program/zcompdump" 2>&1)"
        [[ "$said" == _toolgate ]] || { fail "zsh: $said"; return 1; }
        shells+=", zsh"
    fi
    if command -v fish >/dev/null; then
        said="$(fish --no-config -c 'source $argv[1]; complete -C "toolgate ca"' "$1/fish/vendor_completions.d/toolgate.fish" 2>&1)"
        [[ "$said" == *cancel* ]] || { fail "fish: $said"; return 1; }
        shells+=", fish"
    fi
    noted+="completions in $shells"
}

# is_a_bom FILE: whether it has what it has to, and follows the schema where the program for that is installed.
is_a_bom() {
    python3 - "$1" <<'END' || return 1
import json
import sys

document = json.load(open(sys.argv[1], encoding="utf-8"))
names = {component["name"]: component for component in document["components"]}
assert document["metadata"]["component"]["name"] == "toolgate", "it is not about the program"
for name in ["tokio", "tonic", "rusqlite", "toolgate-server", "preact"]:
    assert names[name]["version"], f"{name} has no version"
for name in ["proptest", "toolgate-it", "esbuild"]:
    assert name not in names, f"{name} is not in the program"
references = {component["bom-ref"] for component in [document["metadata"]["component"], *document["components"]]}
for dependency in document["dependencies"]:
    assert {dependency["ref"], *dependency["dependsOn"]} <= references, dependency
licensed = [component for component in document["components"] if "licenses" in component]
assert len(licensed) > 0.95 * len(document["components"]), "licences are missing"
END
    [[ -n "${TOOLGATE_QUICK:-}" ]] && return 0
    python_programs && quietly "$work/python/bin/python" -c '
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
with open(sys.argv[1], encoding="utf-8") as file:
    sys.exit(JsonStrictValidator(SchemaVersion.V1_6).validate_str(file.read()))' "$1"
}

from_pypi() {
    local fresh="$work/program/python" wheel pip
    wheel="$(echo "$made"/toolgate-"$version"-py3-none-*linux*.whl)"
    pip=("$fresh/bin/pip" --quiet --disable-pip-version-check)
    # The program needs nothing of what the library does.
    quietly python3 -m venv "$fresh" && quietly "${pip[@]}" install --no-deps "$wheel" && works "$fresh/bin/toolgate" || return 1
    [[ -s "$fresh/share/man/man1/toolgate.1" ]] || { fail "the wheel has no manual page"; return 1; }
    # Of the two wheels pip has to choose the one with the program.
    quietly "${pip[@]}" download --no-deps --no-index --find-links "$made" \
        --dest "$work/program/chosen" toolgate && cmp "$wheel" "$work/program/chosen"/*.whl || return 1
    [[ -n "${TOOLGATE_QUICK:-}" ]] && return 0
    quietly "${pip[@]}" install "$wheel" && greets "$fresh/bin/python" "$here/consumers/call.py" || return 1
    python_programs && quietly "$work/python/bin/twine" check --strict "$made"/*.whl "$made"/toolgate-"$version".tar.gz &&
        works "$work/python/bin/uv" tool run --quiet --from "$wheel" toolgate && noted="uvx too, and the library beside it"
}

from_npm() {
    local fresh="$work/program/npm" library carrier name said
    library="$made/toolgate-$version.tgz"
    carrier="$(echo "$made"/toolgate-linux-*-"$version".tgz)"
    mkdir "$fresh" && printf '{"name": "consumer", "private": true}\n' >"$fresh/package.json" || return 1
    (cd "$fresh" && quietly npm install --no-audit --no-fund --ignore-scripts "$library" "$carrier") || return 1
    (cd "$fresh" && quietly node --input-type=module --eval 'import { connect } from "toolgate/node"; process.exit(connect ? 0 : 1)') || return 1
    # npx looks for packages from the folder that it is started in.
    local tour="$fresh/tour"
    cp -r "$work/program/tour" "$tour" && works npx --no-install toolgate || return 1
    # Node of this machine, and one that lets a program take its place.
    for name in node "$target/tools/bin/node-22"; do
        command -v "$name" >/dev/null || continue
        works "$name" "$fresh/node_modules/toolgate/bin/toolgate.js" && is_ended_by_a_signal "$name" "$fresh" || return 1
    done
    # Without the package that fits, for instance on another system.
    rm -r "$fresh"/node_modules/@toolgate
    said="$(node "$fresh/node_modules/toolgate/bin/toolgate.js" --version 2>&1)"
    [[ $? == 127 && "$said" == *"there is no package @toolgate/linux-"* ]] || { fail "without its program it said: $said"; return 1; }
    [[ -n "${TOOLGATE_QUICK:-}" ]] && return 0
    npm_programs && quietly "$work/npm/node_modules/.bin/publint" run --strict "$library" &&
        quietly "$work/npm/node_modules/.bin/publint" run --strict "$carrier"
}

# is_ended_by_a_signal NODE FOLDER: whether what is sent to Node reaches the service, and its exit code comes back.
is_ended_by_a_signal() {
    local socket="$folder/npm" process result left=600 launcher="$2/node_modules/toolgate/bin/toolgate.js"
    rm -f "$socket"
    HOME="$folder" XDG_CONFIG_HOME="$folder" "$1" "$launcher" serve --no-tcp --socket "$socket" \
        --data-dir "$folder/npm-data" --workspace "default=$folder/work" >"$folder/npm-log" 2>&1 </dev/null &
    process=$!
    until [[ -S "$socket" ]]; do
        ((left-- > 0)) && kill -0 "$process" 2>/dev/null || { kill "$process" 2>/dev/null; fail "$(cat "$folder/npm-log")"; return 1; }
        sleep 0.1
    done
    kill -TERM "$process"
    wait "$process"
    result=$?
    ((result == 0)) && [[ ! -S "$socket" ]] || fail "SIGTERM ended it with $result: $(cat "$folder/npm-log")"
}

from_debian() {
    local root="$work/program/debian" package
    package="$(echo "$made"/toolgate_"$version"_*.deb)"
    if ((EUID != 0)); then
        noted="unpacked only: files of others can be made by root alone"
        quietly dpkg-deb --extract "$package" "$root" && works "$root/usr/bin/toolgate" && debian_has_all "$root/usr/share"
        return
    fi
    mkdir -p "$root"/var/lib/dpkg/{updates,info,triggers} && touch "$root/var/lib/dpkg/status" || return 1
    # What it depends on is on this machine, and not in the empty root.
    quietly dpkg --root="$root" --force-depends --force-not-root --force-script-chrootless --log=/dev/null --install "$package" &&
        works "$root/usr/bin/toolgate" || return 1
    [[ "$(dpkg-query --admindir="$root/var/lib/dpkg" --show --showformat '${Version} ${db:Status-Status}' toolgate)" == "$version installed" ]] ||
        { fail "dpkg does not say that it is installed"; return 1; }
    debian_has_all "$root/usr/share" && quietly dpkg --root="$root" --force-not-root --log=/dev/null --purge toolgate || return 1
    [[ ! -e "$root/usr/bin/toolgate" ]] || fail "the package leaves its program behind"
}

debian_has_all() {
    local wanted
    for wanted in man/man1/toolgate.1.gz bash-completion/completions/toolgate zsh/vendor-completions/_toolgate \
        fish/vendor_completions.d/toolgate.fish doc/toolgate/copyright doc/toolgate/changelog.gz; do
        [[ -s "$1/$wanted" ]] || { fail "the package has no $wanted"; return 1; }
    done
}

# Two tiny programs, static, one of which says that it is for arm64: what is made of them is as for the real ones.
is_reproducible() {
    local folder="$work/program/tiny" one two
    one="$folder/x86-64"
    two="$folder/arm64"
    mkdir -p "$folder" && echo 'int main(void) { return 0; }' | cc -static -x c -o "$one" - && cp "$one" "$two" || return 1
    [[ "$(uname -m)" == x86_64 ]] || { fail "this is for x86-64"; return 1; }
    printf '\xb7\x00' | dd of="$two" bs=1 seek=18 conv=notrunc status=none || return 1
    quietly "$here/pack/pack.sh" "$folder/first" "$one" "$two" &&
        (umask 077 && cp "$one" "$two" "$work/program/" && TZ=Pacific/Auckland LC_ALL=C.UTF-8 quietly \
            "$here/pack/pack.sh" "$folder/second" "$work/program/x86-64" "$work/program/arm64") &&
        quietly diff -r "$folder/first" "$folder/second" || return 1
    diff - <(cd "$folder/first" && ls) <<END || fail "other packages than there should be"
SHA256SUMS
toolgate-$version-linux-aarch64.cdx.json
toolgate-$version-linux-aarch64.tar.gz
toolgate-$version-linux-x86_64.cdx.json
toolgate-$version-linux-x86_64.tar.gz
toolgate-$version-py3-none-any.whl
toolgate-$version-py3-none-manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64.whl
toolgate-$version-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.musllinux_1_1_x86_64.whl
toolgate-$version.tar.gz
toolgate-$version.tgz
toolgate-linux-arm64-$version.tgz
toolgate-linux-x64-$version.tgz
toolgate_${version}_amd64.deb
toolgate_${version}_arm64.deb
END
}
