#!/usr/bin/env bash
# Runs every suite and says at the end how each went. With names of suites as arguments, only those.
#
# A suite that this machine cannot run is never passed over in silence: it stands in the last lines as
# `NOT RUN: <suite>: <reason>`, which is a failure where CI=true.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

target="$(realpath -m "${CARGO_TARGET_DIR:-target}")"
export CARGO_TARGET_DIR="$target"
export PATH="$target/tools/bin:$PATH"
export CARGO_TERM_COLOR="${CARGO_TERM_COLOR:-auto}"
languages=(python typescript go java rust)
suites=" format clippy buf-lint buf-format buf-breaking unit features postgres it readme conformance conformance-gateway conformance-store documentation"
suites+="${languages[*]/#/ client-}${languages[*]/#/ conformance-} clients agents console chart image "
wanted=" $* "
summary=()
not_run=()
flaky=()
failed=0

wants() { [[ "$wanted" == "  " || "$wanted" == *" $1 "* ]]; }

# suite NAME COMMAND...: runs it, whatever came of the others.
suite() {
    local name="$1" start=$SECONDS
    shift
    wants "$name" || return 0
    printf '\n==> %s\n' "$name"
    if "$@" </dev/null; then
        summary+=("passed   $name ($((SECONDS - start)) s)")
    else
        summary+=("FAILED   $name ($((SECONDS - start)) s)")
        failed=1
    fi
}

cannot() {
    wants "$1" || return 0
    not_run+=("NOT RUN: $1: $2")
}

# against_programs TEST ARGUMENT...: tests that talk to real programs, each of which may be late on a busy machine. A few that
# fail are run once more, alone, and named at the end; what fails twice is a fault.
against_programs() {
    local test="$1" log names name scope=()
    shift
    # Each store has its own.
    [[ "$test" == store ]] && scope=(--workspace --no-fail-fast)
    log="$(mktemp)" || return 1
    cargo test --locked --quiet "${scope[@]}" --test "$test" -- "$@" 2>&1 | tee "$log"
    local status="${PIPESTATUS[0]}"
    mapfile -t names < <(sed -n '/^failures:$/,/^test result/s/^    \([a-z0-9_]*::[a-z0-9_:]*\)$/\1/p' "$log" | sort -u)
    rm -f "$log"
    ((status)) || return 0
    ((${#names[@]} > 0 && ${#names[@]} <= 3)) || return 1
    printf '\nOnce more, alone: %s\n' "${names[*]}"
    for name in "${names[@]}"; do
        cargo test --locked --quiet "${scope[@]}" --test "$test" -- --exact "$name" || return 1
    done
    flaky+=("${names[@]/#/FLAKY    }")
}

# component NAME: a part of the Rust toolchain that minimal installations leave out.
component() {
    cargo "$1" --version >/dev/null 2>&1 && return 0
    local name="${1/fmt/rustfmt}"
    command -v rustup >/dev/null && rustup component add "$name" && cargo "$1" --version >/dev/null 2>&1
}

in_proto() { (cd proto && "$@"); }

# Private items are documented too, so links to them lead somewhere.
documentation() {
    RUSTDOCFLAGS="-D warnings -A rustdoc::private-intra-doc-links" \
        cargo doc --locked --workspace --no-deps --document-private-items --quiet
}

# What a build may leave out: the program and its unit tests with nothing of it, and the program with each part alone.
features() {
    local parts=(-p toolgate -p toolgate-server -p toolgate-extensions -p toolgate-telemetry --lib --bins) name names
    cargo test --locked --quiet "${parts[@]}" --no-default-features || return 1
    mapfile -t names < <(sed -n 's/^default = \["\(.*\)"\]$/\1/p' Cargo.toml | sed 's/", "/\n/g')
    ((${#names[@]} == 6)) || return 1
    for name in "${names[@]}"; do
        printf 'only %s\n' "$name"
        cargo clippy --locked --quiet "${parts[@]}" --no-default-features --features "$name" -- -D warnings || return 1
    done
}

# The example agents, each on a terminal of its own.
agents() {
    tests/agents/run.sh setup && tests/agents/run.sh test
}

# The page for browsers, in a real one.
console() {
    clients/console/run.sh check && CONSOLE_CALLS="${CONSOLE_CALLS:-1000}" clients/console/run.sh test
}

# prepared SUITE SCRIPT: sets up what a suite needs, or says why it cannot run.
prepared() {
    local reason
    wants "$1" || return 1
    reason="$("$2" setup </dev/null)" && return 0
    cannot "$1" "${reason:-its setup failed}"
    return 1
}

# client LANGUAGE: what a library has to show by itself; then the service is played through it.
client() {
    local run="clients/$1/run.sh"
    # Java and Rust have no stubs in the repository to compare with the contract: their builds generate them.
    [[ "$1" == java || "$1" == rust ]] || "$run" generate --check || return 1
    "$run" check && "$run" build && "$run" test
}

for name in "$@"; do
    if [[ "$suites" != *" $name "* ]]; then
        echo "no suite $name; there are:$suites" >&2
        exit 2
    fi
done

declare -A missing=()
if wants buf-lint || wants buf-format || wants buf-breaking || wants postgres || wants it || wants readme || wants conformance || wants conformance-gateway || wants conformance-store || wants image; then
    while IFS= read -r line; do
        missing["${line%%: *}"]="${line#*: }"
    done < <(tests/setup/tools.sh </dev/null)
fi

if component fmt; then
    suite format cargo fmt --check
else
    cannot format "this Rust has no rustfmt, and rustup could not add it"
fi
if component clippy; then
    suite clippy cargo clippy --locked --workspace --all-targets --quiet -- -D warnings
else
    cannot clippy "this Rust has no clippy, and rustup could not add it"
fi
if [[ -z "${missing[buf]:-}" ]]; then
    suite buf-lint in_proto buf lint
    suite buf-format in_proto buf format -d --exit-code
    suite buf-breaking tests/contract/run.sh compare
else
    for name in buf-lint buf-format buf-breaking; do
        cannot "$name" "buf is ${missing[buf]}"
    done
fi
suite unit cargo test --locked --quiet --workspace --lib --bins
suite features features
# Where there is no server it fails: the store of a fleet is not to go untested.
suite postgres against_programs store
skipped=(--skip readme:: --skip clients::)
if [[ -n "${missing[mcp-npm]:-}" ]]; then
    skipped+=(--skip servers_of_npm --skip a_real_server)
    cannot it "what needs MCP servers of npm: they are ${missing[mcp-npm]}"
fi
if [[ -n "${missing[mcp-pypi]:-}" ]]; then
    skipped+=(--skip a_server_of_pypi --skip the_server_that_fetches --skip python_sdk)
    cannot it "what needs MCP servers of PyPI, or the SDK of Python: they are ${missing[mcp-pypi]}"
fi
if [[ -n "${missing[mcp-sdk]:-}" ]]; then
    # The other MCP clients are still run.
    export TOOLGATE_TEST_WITHOUT_MCP_SDK=1
    cannot it "what needs the TypeScript SDK of MCP and its inspector: they are ${missing[mcp-sdk]}"
fi
if [[ -n "${missing[grpcio]:-}" || -n "${missing[grpcurl]:-}" ]]; then
    skipped+=(--skip a_host_in_python --skip stubs::)
    cannot it "what needs grpcurl, or plain stubs for Python: grpcio is ${missing[grpcio]:-here}, grpcurl is ${missing[grpcurl]:-here}"
fi
declare -A language_servers=(
    [typescript]=typescript_language_server [pyright]=pyright [gopls]=gopls [rust-analyzer]=rust_analyzer
)
for name in "${!language_servers[@]}"; do
    [[ -n "${missing[$name]:-}" ]] || continue
    skipped+=(--skip "lsp::real::${language_servers[$name]}")
    cannot it "what needs the language server $name: it is ${missing[$name]}"
done
for name in bun node-22 deno; do
    [[ -n "${missing[$name]:-}" ]] || continue
    # What needs no runtime of JavaScript is still tested.
    skipped+=(--skip custom::)
    cannot it "custom tools need $name: it is ${missing[$name]}"
done
suite it against_programs it "${skipped[@]}"
if [[ -n "${missing[grpcurl]:-}" ]]; then
    # The commands of the pages that need no grpcurl are still run.
    export TOOLGATE_TEST_WITHOUT_GRPCURL=1
    cannot readme "what needs grpcurl: it is ${missing[grpcurl]}"
fi
suite readme cargo test --locked --quiet --test it -- readme::
[[ -z "${missing[bun]:-}" ]] || cannot conformance "custom tools: bun is ${missing[bun]}"
suite conformance cargo test --locked --quiet --test conformance
[[ -z "${missing[bun]:-}" ]] || cannot conformance-gateway "custom tools: bun is ${missing[bun]}"
suite conformance-gateway cargo test --locked --quiet --test conformance -- --gateway
[[ -z "${missing[bun]:-}" ]] || cannot conformance-store "custom tools: bun is ${missing[bun]}"
suite conformance-store cargo test --locked --quiet --test conformance -- --store

export TOOLGATE_TARGET="$target" TOOLGATE_BIN="$target/debug/toolgate"
without=()
for name in "${languages[@]/#/client-}" "${languages[@]/#/conformance-}" clients agents console chart image; do
    # Once: what was built before may be older than the sources.
    if wants "$name"; then cargo build --locked --quiet || exit 1; break; fi
done
for language in "${languages[@]}"; do
    wants "client-$language" || wants "conformance-$language" || wants clients || continue
    reason="$("clients/$language/run.sh" setup </dev/null)"
    case $? in
        0) ;;
        3)
            without+=("$language")
            cannot "client-$language" "$reason"
            cannot "conformance-$language" "$reason"
            cannot clients "what needs the library for $language: $reason"
            continue
            ;;
        *) printf 'The setup of clients/%s failed.\n%s\n' "$language" "$reason" ;;
    esac
    suite "client-$language" client "$language"
    wants "client-$language" || "clients/$language/run.sh" build </dev/null
    suite "conformance-$language" cargo test --locked --quiet --test conformance -- --client "$language"
done
export TOOLGATE_TEST_WITHOUT_CLIENTS="${without[*]}"
suite clients against_programs it "${without[@]/#/--skip=::}" clients::
if [[ " ${without[*]} " =~ \ (python|typescript)\  ]]; then
    cannot agents "they need the libraries for Python and TypeScript"
else
    suite agents agents
fi
prepared console clients/console/run.sh && suite console console
prepared chart tests/chart/run.sh && suite chart tests/chart/run.sh test
prepared image tests/image/run.sh && suite image tests/image/run.sh test
suite documentation documentation

printf '\n'
printf '%s\n' "${summary[@]}"
((${#flaky[@]} == 0)) || printf '%s\n' "${flaky[@]}"
if ((${#not_run[@]})); then
    printf '%s\n' "${not_run[@]}"
    [[ "${CI:-}" != true ]] || failed=1
fi
exit $failed
