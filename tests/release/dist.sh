#!/usr/bin/env bash
# Builds the program as it is shipped, and makes the packages that carry it, in target/packages: dist.sh [TARGET...]
#
# Without targets it is built for Linux on x86-64 and arm64, linked with musl, wholly static. `rustup` brings the standard
# library of Rust for them, and zig (from PyPI, as cargo-zigbuild) the C library and a compiler for the other machine. A
# target of this machine is built with its own compiler: `make dist TARGETS=x86_64-unknown-linux-gnu` needs neither.
#
# What could not be built is said at the end, a line `NOT BUILT: TARGET: reason` for each, and the exit code is 1. What is
# there is whole nevertheless.
set -uo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
cd "$here/../.." || exit 1
target="$(realpath -m "${CARGO_TARGET_DIR:-target}")"
export CARGO_TARGET_DIR="$target"
out="$target/packages"
venv="$target/tools/zig"
own="$(rustc -vV | sed -n 's/^host: //p')"
wanted=("$@")
((${#wanted[@]})) || wanted=(x86_64-unknown-linux-musl aarch64-unknown-linux-musl)
source tests/setup/rust.sh
programs=()
not_built=()

# zig: what compiles and links C for other machines, in fixed versions.
zig() {
    cmp -s "$here/zig.txt" "$venv/zig.txt" && return 0
    rm -rf "$venv"
    python3 -m venv "$venv" && "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$here/zig.txt" >&2 &&
        cp "$here/zig.txt" "$venv/"
}

# build TARGET: the path of the program in `program`, or a reason in `reason`.
build() {
    local options=(--locked --profile dist --bin toolgate --target "$1") flags=""
    [[ "$1" != *-musl ]] || flags="-C target-feature=+crt-static"
    program="$target/$1/dist/toolgate"
    if ! has_std "$1"; then
        reason="there is no standard library of Rust for it here, and rustup could not bring it"
    elif [[ "$1" == "$own" ]]; then
        RUSTFLAGS="$flags" cargo build "${options[@]}" && return 0
        reason="cargo could not build it"
    elif ! zig; then
        reason="zig, which is needed to compile for it, could not be installed from PyPI"
    else
        PATH="$venv/bin:$PATH" RUSTFLAGS="$flags" cargo zigbuild "${options[@]}" && return 0
        reason="cargo-zigbuild could not build it"
    fi
    return 1
}

for name in "${wanted[@]}"; do
    echo "==> $name" >&2
    if ! build "$name"; then
        not_built+=("$name: $reason")
    elif [[ "$name" == *-musl && "$(readelf --program-headers --wide "$program")" == *INTERP* ]]; then
        not_built+=("$name: the program is not static")
    else
        programs+=("$program")
    fi
done
result=0
rm -rf "$out"
if ((${#programs[@]})); then
    echo "==> packages" >&2
    # A program that runs here prints the manual pages and the completions.
    if [[ -z "${TOOLGATE_BIN:-}" && " ${wanted[*]}" != *" $(uname -m)-"* ]]; then
        cargo build --locked --bin toolgate && export TOOLGATE_BIN="$target/debug/toolgate"
    fi
    "$here/pack/pack.sh" "$out" "${programs[@]}" || result=1
    (cd "$out" && ls -sh)
    printf 'in %s\n' "$out"
fi
((${#not_built[@]} == 0)) || { printf 'NOT BUILT: %s\n' "${not_built[@]}"; result=1; }
exit $result
