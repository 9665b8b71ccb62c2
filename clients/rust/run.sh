#!/usr/bin/env bash
# The Rust client's part of the tests: setup, build, check, test, driver. Quiet on success; what this machine cannot have is
# one line `NAME: reason` and exit code 3.
set -uo pipefail

cd "$(dirname "$0")" || exit 1
root="$(cd ../.. && pwd)"
target="${TOOLGATE_TARGET:-$root/target}"
export CARGO_TARGET_DIR="$target"

need_cargo() {
    command -v cargo >/dev/null && return 0
    echo "cargo: no Rust is installed"
    exit 3
}

# Runs a command whose output matters only if it fails.
quietly() {
    local output status
    output="$("$@" 2>&1)"
    status=$?
    ((status == 0)) || printf '%s\n' "$output" >&2
    return $status
}

# With the features that the tests of the whole workspace have: what the library is made of is not built once more for it
# alone. `check` compiles it as its users do.
as_tested=(--package toolgate --package toolgate-client --features "tokio/test-util,toolgate-tool/testing")

build() { quietly cargo build --locked --quiet "${as_tested[@]}" --examples; }

check() {
    quietly cargo fmt --package toolgate-client --check &&
        quietly cargo clippy --locked --quiet --package toolgate-client --all-targets -- -D warnings &&
        RUSTDOCFLAGS="-D warnings" quietly cargo doc --locked --quiet --package toolgate-client --no-deps
}

run_tests() {
    export TOOLGATE_BIN="${TOOLGATE_BIN:-$target/debug/toolgate}"
    build || return 1
    tests && return 0
    # What is late on a busy machine is in time the next time; what fails twice is a fault.
    echo "The tests are run once more." >&2
    tests
}

tests() {
    cargo test --locked --quiet "${as_tested[@]}" --lib --test guides && cargo test --locked --quiet "${as_tested[@]}" --doc
}

need_cargo
case "${1:-}" in
    setup) ;;
    build | check) "$1" ;;
    test) run_tests ;;
    driver)
        [[ -x "$target/debug/examples/driver" ]] || build || exit 1
        exec "$target/debug/examples/driver"
        ;;
    *)
        echo "usage: run.sh setup|build|check|test|driver" >&2
        exit 2
        ;;
esac
