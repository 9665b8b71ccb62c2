#!/usr/bin/env bash
# Makes everything by which the program is installed, of programs that are built: pack.sh FOLDER PROGRAM...
#
#   toolgate-VERSION-linux-CPU.tar.gz    the program, manual pages, completions; to be unpacked below /usr/local
#   toolgate-VERSION-linux-CPU.cdx.json  what the program is made of (CycloneDX)
#   toolgate_VERSION_CPU.deb             the same for Debian and Ubuntu
#   toolgate-VERSION-py3-none-….whl      the library for Python with the program beside it, for PyPI; and without it, as
#                                        a wheel for other machines and as an sdist
#   toolgate-linux-CPU-VERSION.tgz       the program for npm, @toolgate/linux-CPU, and toolgate-VERSION.tgz: the library,
#                                        which installs it
#   SHA256SUMS
#
# What is for the version in Cargo.toml is put into FOLDER, which must be empty or new. For which machine a program is, and
# whether it needs the library of GNU, its own headers say. Nothing depends on the time, the folder or the user: the same
# programs and the same commit give the same bytes (SOURCE_DATE_EPOCH, by default the time of the last commit).
#
# The manual pages and the completions are printed by the first program that runs here, or else by TOOLGATE_BIN. The tools
# come from clients/python/run.sh and clients/typescript/run.sh. `NOT MADE: …` says what could not be made here; the exit
# code is 1 then. With TOOLGATE_QUICK=1, for tests, the archive and the package for Debian are packed less tightly.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
cd "$here/../../.."
target="$(realpath -m "${TOOLGATE_TARGET:-${CARGO_TARGET_DIR:-target}}")"
export TOOLGATE_TARGET="$target" LC_ALL=C TZ=UTC
SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}"
export SOURCE_DATE_EPOCH
version="$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)"
level=9
[[ -z "${TOOLGATE_QUICK:-}" ]] || level=1
umask 022
result=0

fail() {
    printf '%s\n' "$*" >&2
    exit 1
}

not_made() {
    printf 'NOT MADE: %s\n' "$*"
    result=1
}

# quietly COMMAND...: what it prints matters only if it fails.
quietly() {
    local output
    output="$("$@" 2>&1 </dev/null)" || fail "$*: $output"
}

# fill FILE NAME=VALUE...: a template with its @NAME@ filled in.
fill() {
    local text pair
    text="$(<"$1")"
    for pair in "${@:2}"; do text="${text//@${pair%%=*}@/"${pair#*=}"}"; done
    printf '%s\n' "$text"
}

# look_at PROGRAM: sets `machine`, with what Debian (`debian`) and Node (`cpu`) call it, and `glibc`: the version of that
# library that it needs, or nothing.
look_at() {
    local header
    header="$(readelf --file-header --program-headers --wide "$1" 2>/dev/null)" || fail "$1 is no program"
    case "$header" in
        *"Machine: "*X86-64*) machine=x86_64 debian=amd64 cpu=x64 ;;
        *"Machine: "*AArch64*) machine=aarch64 debian=arm64 cpu=arm64 ;;
        *) fail "$1 is for a machine that there are no packages for" ;;
    esac
    glibc=
    [[ "$header" == *INTERP* ]] || return 0
    glibc="$(readelf --version-info --wide "$1" | sed -n 's/.*Name: GLIBC_\([0-9.]*\).*/\1/p' | sort -uV | tail -n 1)"
    [[ -n "$glibc" ]] || fail "$1 needs a library that its packages would not name"
}

# pages SPEAKER: what all programs have beside them, in $stage/share.
pages() {
    local share="$stage/share"
    mkdir -p "$share"/{bash-completion/completions,zsh/site-functions,fish/vendor_completions.d,doc/toolgate}
    "$1" completions bash >"$share/bash-completion/completions/toolgate"
    "$1" completions zsh >"$share/zsh/site-functions/_toolgate"
    "$1" completions fish >"$share/fish/vendor_completions.d/toolgate.fish"
    quietly "$1" man "$share/man/man1"
    install -m 0644 LICENSE CHANGELOG.md "$share/doc/toolgate/"
}

# tree FOLDER PROGRAM: the program with its pages, as below /usr.
tree() {
    mkdir -p "$1"
    install -D -m 0755 "$2" "$1/bin/toolgate"
    cp -r "$stage/share" "$1/share"
}

archive() {
    local name="$1"
    mv "$stage/tree" "$stage/$name"
    tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --format=gnu \
        -C "$stage" -cf - "$name" | gzip -n "-$level" >"$out/$name.tar.gz"
    mv "$stage/$name" "$stage/tree"
}

# wheel [TREE PLATFORM]
wheel() {
    (cd clients/python && TOOLGATE_WHEEL_TREE="${1:-}" TOOLGATE_WHEEL_TAG="py3-none-${2:-any}" \
        quietly "$target/clients/python/venv/bin/python" -m hatchling build --target wheel --directory "$out")
}

# pack_npm FOLDER: a package of npm, which is the same whatever npm or this machine are like.
pack_npm() {
    quietly npm pack "$1" --pack-destination "$out" --ignore-scripts
}

carrier() {
    local folder="$stage/npm-$cpu"
    mkdir "$folder"
    cp -r "$stage/tree/bin" "$stage/tree/share" LICENSE "$folder/"
    fill "$here/npm.md" CPU="$cpu" >"$folder/README.md"
    node "$here/manifest.mjs" carrier "$cpu" "${glibc:+glibc}" >"$folder/package.json"
    pack_npm "$folder"
}

library() {
    local folder="$stage/npm"
    mkdir -p "$folder/bin"
    cp -r clients/typescript/{README.md,LICENSE,dist,src} "$folder/"
    install -m 0755 "$here/launcher.js" "$folder/bin/toolgate.js"
    node "$here/manifest.mjs" library "$@" >"$folder/package.json"
    pack_npm "$folder"
}

deb() {
    local folder="$stage/deb" size doc
    command -v dpkg-deb >/dev/null || { not_made "the package for Debian: there is no dpkg-deb"; return 0; }
    doc="$folder/usr/share/doc/toolgate"
    rm -rf "$folder"
    mkdir -p "$folder/DEBIAN"
    cp -r "$stage/tree" "$folder/usr"
    mv "$folder/usr/share/zsh/site-functions" "$folder/usr/share/zsh/vendor-completions"
    mv "$doc/CHANGELOG.md" "$doc/changelog"
    rm "$doc/LICENSE"
    install -m 0644 "$here/copyright" "$doc/copyright"
    gzip -9n "$doc/changelog" "$doc/third-party-licenses.txt" "$folder"/usr/share/man/man1/*
    size="$(find "$folder/usr" -type f -printf '%s\n' | awk '{ sum += int(($1 + 1023) / 1024) } END { print sum }')"
    fill "$here/control" VERSION="$version" ARCHITECTURE="$debian" SIZE="$size" \
        DEPENDS="${glibc:+libc6 (>= $glibc), libgcc-s1}" | sed '/^Depends: $/d' >"$folder/DEBIAN/control"
    (cd "$folder" && find usr -type f -print0 | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
    find "$folder" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
    # With more threads the bytes would depend on how many cores there are.
    quietly dpkg-deb --root-owner-group -Zxz "-z$level" --threads-max=1 --build "$folder" "$out/toolgate_${version}_$debian.deb"
}

# pack PROGRAM
pack() {
    local name triple
    look_at "$1"
    [[ " ${cpus[*]} " != *" $cpu "* ]] || fail "two programs are for $machine"
    cpus+=("$cpu")
    name="toolgate-$version-linux-$machine${glibc:+-gnu}"
    triple="$machine-unknown-linux-musl"
    [[ -z "$glibc" ]] || triple="${triple/%musl/gnu}"
    rm -rf "$stage/tree"
    tree "$stage/tree" "$1"
    python3 -B "$here/notices.py" "$triple" >"$stage/tree/share/doc/toolgate/third-party-licenses.txt"
    echo "  $name${glibc:+ (needs glibc $glibc)}" >&2
    archive "$name"
    python3 -B "$here/sbom.py" "$triple" >"$out/$name.cdx.json"
    if [[ -n "$glibc" ]]; then
        wheel "$stage/tree" "manylinux_${glibc//./_}_$machine"
    else
        wheel "$stage/tree" "manylinux_2_17_$machine.manylinux2014_$machine.musllinux_1_1_$machine"
    fi
    carrier
    deb
}

(($# > 1)) || fail "usage: pack.sh FOLDER PROGRAM..."
out="$(realpath -m "$1")"
shift
mkdir -p "$out"
[[ -z "$(ls -A "$out")" ]] || fail "$out is not empty"
stage="$(mktemp -d)"
trap 'rm -rf "$stage"' EXIT

speaker=
for program in "$@" ${TOOLGATE_BIN:+"$TOOLGATE_BIN"}; do
    # What is for another machine does not run.
    said="$("$program" --version 2>/dev/null)" || continue
    [[ "$said" != "toolgate "* || "$said" == "toolgate $version" ]] || fail "$program is not of version $version: $said"
    [[ -n "$speaker" || "$said" != "toolgate $version" ]] || speaker="$program"
done
[[ -n "$speaker" ]] || fail "none of the programs runs here; let TOOLGATE_BIN name one that does"
clients/python/run.sh setup
clients/typescript/run.sh setup
clients/typescript/run.sh build
pages "$speaker"
cpus=()
for program; do pack "$program"; done
wheel
(cd clients/python && quietly "$target/clients/python/venv/bin/python" -m hatchling build --target sdist --directory "$out")
library "${cpus[@]}"
(cd "$out" && sha256sum -- * >"$stage/SHA256SUMS" && mv "$stage/SHA256SUMS" .)
exit $result
