#!/usr/bin/env bash
# The tests of the images, without a container engine.
#
#   setup   builds what they need in target/tools/image, from the Go module proxy. Prints why they cannot run here, and
#           exits with 3 then
#   test    runs them
#
# What they show of the Dockerfile is what BuildKit's own code makes of it. The root file systems are made by the script
# that makes those of the images, and the service runs in them as the Dockerfile says, in namespaces of its own. What is
# not as in the images:
#
# - The program is the one that the other tests use, linked statically with the library of GNU: that takes seconds, since
#   all but the last link is there. That of the images is built for musl with the profile `dist`. A program that was built in another
#   way is tested in its place if TOOLGATE_IMAGE_PROGRAM names it.
# - The shell is this machine's, with its libraries, and not Debian's.
# - The network is this machine's.
#
# TOOLGATE_TARGET is the folder for everything that is made, `target` by default. A root file system in which something
# failed is left in target/image.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1

target="$(realpath -m "${TOOLGATE_TARGET:-target}")"
tools="$target/tools/image"
work="$target/image"
check="$tools/check"
source tests/setup/go.sh

cannot() {
    echo "$1"
    exit 3
}

build_check() {
    local stamp go
    stamp="$(cat tests/image/check/* | sha256sum)"
    [[ -x "$check" && "$(cat "$check.stamp" 2>/dev/null)" == "$stamp" ]] && return 0
    go="$(find_go)" || cannot "go: not installed; the program that looks at the images is built with it"
    mkdir -p "$tools" || exit 1
    echo "setup: building check" >&2
    (cd tests/image/check && in_go build -trimpath -o "$check" .) >&2
    local result=$?
    forget_go
    ((result == 0)) && echo "$stamp" >"$check.stamp"
}

setup() {
    local why
    [[ "$(uname -s)" == Linux ]] || cannot "containers are of Linux"
    ((EUID == 0)) || cannot "only root can make root file systems, whose files belong to others"
    [[ -x "$target/tools/bin/grpcurl" ]] || cannot "grpcurl is not in $target/tools/bin: tests/setup/tools.sh"
    echo 'int main(void) { return 0; }' | cc -static -x c -o /dev/null - 2>/dev/null ||
        cannot "cc cannot link statically; libc6-dev has what it needs, or glibc-static"
    build_check || cannot "check: Go could not build it here"
    why="$("$check" try 2>&1)" || cannot "this machine lets nobody make a container: ${why#check: }"
}

# Leaves the program of the other tests as it was. With the feature that tests need of tokio, what the program is made of is not
# built once more; the crates of this repository that have default features are.
program() {
    local result
    export CARGO_TARGET_DIR="$target"
    cargo rustc --locked --quiet --bin toolgate --features tokio/test-util -- -C target-feature=+crt-static &&
        strip -o "$work/toolgate" "$target/debug/toolgate"
    result=$?
    cargo build --locked --quiet --workspace --bin toolgate --features "tokio/test-util,toolgate-tool/testing" && return $result
}

test_images() {
    local program="${TOOLGATE_IMAGE_PROGRAM:-}"
    if [[ ! -x "$check" ]]; then
        echo "the program is not there: tests/image/run.sh setup" >&2
        exit 2
    fi
    mkdir -p "$work" || exit 1
    if [[ -z "$program" ]]; then
        program="$work/toolgate"
        program || exit 1
    fi
    "$check" -program "$(realpath "$program")" -grpcurl "$target/tools/bin/grpcurl" -work "$work/boxes"
    local result=$?
    rm -f "$work/toolgate"
    exit $result
}

case "${1:-}" in
    setup) setup ;;
    test) test_images ;;
    *)
        echo "usage: tests/image/run.sh setup | test" >&2
        exit 2
        ;;
esac
