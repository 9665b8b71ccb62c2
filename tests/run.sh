#!/usr/bin/env bash
# Runs every suite and says at the end how each went. With names of suites as arguments, only those.
#
# A suite that this machine cannot run is never passed over in silence: it stands in the last lines as
# `NOT RUN: <suite>: <reason>`, which is a failure where CI=true.
#
# What waits for others runs beside what computes: the setups beside the builds, and then two lanes of suites beside each
# other. What runs beside is printed as a whole when it has ended.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

target="$(realpath -m "${CARGO_TARGET_DIR:-target}")"
export CARGO_TARGET_DIR="$target"
export PATH="$target/tools/bin:$PATH"
export CARGO_TERM_COLOR="${CARGO_TERM_COLOR:-auto}"
source tests/setup/rust.sh
languages=(python typescript go java rust)
suites=" format clippy build unit features documentation musl buf-lint buf-format buf-breaking postgres it readme conformance"
suites+=" conformance-gateway conformance-store${languages[*]/#/ client-}${languages[*]/#/ conformance-} clients packages agents ecosystem console chart image "
wanted=" $* "
# What is said at the end, each kind in a file, since lanes are processes of their own; and what is not printed yet.
said="$(mktemp -d)" || exit 1
touch "$said"/{summary,flaky,not_run}
trap 'rm -rf "$said"' EXIT
trap 'stop; exit 130' INT TERM
lane=

# stop: ends what runs beside. Each job is a group.
stop() {
    local job
    for job in $(jobs -p); do kill -- "-$job" 2>/dev/null; done
}

# wants NAME...: whether one of them is to run.
wants() {
    local name
    for name in "$@"; do
        [[ "$wanted" == "  " || "$wanted" == *" $name "* ]] && return 0
    done
    return 1
}

# suite NAME COMMAND...: runs it, whatever came of the others.
suite() {
    local name="$1" start=$SECONDS result=passed
    shift
    wants "$name" || return 0
    if [[ -z "$lane" ]]; then
        printf '\n==> %s\n' "$name"
        "$@" </dev/null || result=FAILED
    else
        printf '\n... %s\n' "$name"
        "$@" </dev/null >"$said/$name.log" 2>&1 || result=FAILED
        { flock 9 && printf '\n==> %s\n' "$name" && cat "$said/$name.log"; } 9>>"$said/lock"
    fi
    echo "$result   $name ($((SECONDS - start)) s)" >>"$said/summary"
}

cannot() {
    wants "$1" || return 0
    echo "NOT RUN: $1: $2" >>"$said/not_run"
}

# setup NAME COMMAND...: its output is for `prepared`, which says whether it went well.
setup() {
    "${@:2}" </dev/null >"$said/$1.answer" 2>"$said/$1.setup"
    echo $? >"$said/$1.status"
}

# prepared NAME: returns the status of a setup, and leaves what it answered in `reason`. What no suite wants is not set up.
prepared() {
    reason=
    [[ -e "$said/$1.status" ]] || return 0
    cat "$said/$1.setup" >&2
    reason="$(<"$said/$1.answer")"
    return "$(<"$said/$1.status")"
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
    printf '%s\n' "${names[@]/#/FLAKY    }" >>"$said/flaky"
}

# can NAME COMMAND...: does what needs something that may be missing, if it is there.
can() { [[ " ${can[*]} " != *" $1 "* ]] || "${@:2}"; }

in_proto() { (cd proto && "$@"); }

# With these the program is the one that the tests of Rust build: the features that only they need of what it is made of.
# Without them it would be built once more, with most of what it is made of.
as_tested=(--features "tokio/test-util,toolgate-tool/testing")

# All that the tests of Rust are: at once, so that no core waits for the last one of them.
build() { cargo test --locked --quiet --workspace --lib --bins --tests --no-run && cargo build --locked --quiet --workspace --examples; }

# Private items are documented too, so links to them lead somewhere.
documentation() {
    RUSTDOCFLAGS="-D warnings -A rustdoc::private-intra-doc-links" \
        cargo doc --locked --workspace "${as_tested[@]}" --no-deps --document-private-items --quiet
}

# What a build may leave out: the program with nothing of it, and with each part alone. That it compiles is what can fail: no
# test is about a part that is not there.
features() {
    local parts=(-p toolgate -p toolgate-server -p toolgate-extensions -p toolgate-telemetry --lib --bins) name names
    mapfile -t names < <(sed -n 's/^default = \["\(.*\)"\]$/\1/p' Cargo.toml | sed 's/", "/\n/g')
    ((${#names[@]} == 6)) || return 1
    for name in "" "${names[@]}"; do
        printf 'only %s\n' "${name:-what is always there}"
        cargo clippy --locked --quiet --no-deps "${parts[@]}" --no-default-features --features "$name" -- -D warnings || return 1
    done
}

# What talks most to the kernel, with the C library of the program that is shipped: types of its constants differ. Nothing is
# linked, so any compiler will do for the C in it.
musl() {
    local machine="$(uname -m)-unknown-linux-musl"
    export "CC_${machine//-/_}=cc"
    cargo check --locked --quiet --target "$machine" -p toolgate-process -p toolgate-fs -p toolgate-lsp
}

# The example agents, each on a terminal of its own.
agents() {
    tests/agents/run.sh setup && tests/agents/run.sh test
}

# The page for browsers, in a real one.
console() {
    clients/console/run.sh check && CONSOLE_CALLS="${CONSOLE_CALLS:-1000}" clients/console/run.sh test
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

for_programs() { export TOOLGATE_TARGET="$target" TOOLGATE_BIN="$target/debug/toolgate"; }

setups() {
    local name
    # Go's own library is built once for all of them.
    export TOOLGATE_KEEP_CACHES=1
    if wants musl buf-lint buf-format buf-breaking postgres it readme conformance conformance-gateway conformance-store image; then
        setup tools tests/setup/tools.sh
    fi
    for_programs
    for name in "${languages[@]}"; do
        if wants "client-$name" "conformance-$name" clients || { wants packages && [[ "$name" == python || "$name" == typescript ]]; }; then
            setup "$name" "clients/$name/run.sh" setup
        fi
    done
    if wants console; then setup console clients/console/run.sh setup; fi
    for name in chart image; do
        if wants "$name"; then setup "$name" "tests/$name/run.sh" setup; fi
    done
    rm -rf "$target"/tools/{go,go-cache}
}

# beside COMMAND...: a job with a group of its own. It does not ignore SIGINT as other jobs of a script do, and so would
# programs that tests interrupt.
beside() {
    set -m
    "$@" &
    set +m
}

# Before the setups, which add a part of the toolchain as well.
can=()
for name in fmt clippy; do
    if has_component "cargo-$name" "${name/fmt/rustfmt}"; then can+=("$name"); else cannot "${name/fmt/format}" "this Rust has no $name, and rustup could not add it"; fi
done
beside setups
can fmt suite format cargo fmt --check
can clippy suite clippy cargo clippy --locked --workspace --all-targets --quiet -- -D warnings
suite build build
suite unit cargo test --locked --quiet --workspace --lib --bins
suite features features
suite documentation documentation
wait

declare -A missing=()
if prepared tools; then
    while IFS= read -r line; do
        [[ -z "$line" ]] || missing["${line%%: *}"]="${line#*: }"
    done <<<"$reason"
fi
if [[ -z "${missing[musl]:-}" ]]; then
    suite musl musl
else
    cannot musl "${missing[musl]}"
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
if [[ -n "${missing[grpcurl]:-}" ]]; then
    # The commands of the pages that need no grpcurl are still run.
    export TOOLGATE_TEST_WITHOUT_GRPCURL=1
    cannot readme "what needs grpcurl: it is ${missing[grpcurl]}"
fi
for name in conformance conformance-gateway conformance-store; do
    [[ -z "${missing[bun]:-}" ]] || cannot "$name" "custom tools: bun is ${missing[bun]}"
done
without=()
for language in "${languages[@]}"; do
    prepared "$language"
    case $? in
        0) ;;
        3)
            without+=("$language")
            cannot "client-$language" "$reason"
            cannot "conformance-$language" "$reason"
            cannot clients "what needs the library for $language: $reason"
            ;;
        *) printf 'The setup of clients/%s failed.\n%s\n' "$language" "$reason" ;;
    esac
done
for name in console chart image; do
    if prepared "$name"; then can+=("$name"); else cannot "$name" "${reason:-its setup failed}"; fi
done

# Of all packages: for one alone the others would lack their default features, and be built once more.
program() { cargo build --locked --quiet --workspace --bin toolgate "${as_tested[@]}"; }

# The other suites, in two lanes: the second one has more that waits for others.
without_libraries() {
    suite conformance cargo test --locked --quiet --test conformance
    # Where there is no server it fails: the store of a fleet is not to go untested.
    suite postgres against_programs store
    suite readme cargo test --locked --quiet --test it -- readme::
    suite conformance-gateway cargo test --locked --quiet --test conformance -- --gateway
    suite conformance-store cargo test --locked --quiet --test conformance -- --store
    for_programs
    # Whether their page is what runs leave; the programs themselves are for `make ecosystem`.
    suite ecosystem tests/ecosystem/run.sh check
    can console suite console console
    can chart suite chart tests/chart/run.sh test
}

with_libraries() {
    local language
    for_programs
    for language in "${languages[@]}"; do
        [[ " ${without[*]} " != *" $language "* ]] || continue
        suite "client-$language" client "$language"
        wants "client-$language" || ! wants "conformance-$language" clients || "clients/$language/run.sh" build </dev/null
        suite "conformance-$language" cargo test --locked --quiet --test conformance -- --client "$language"
    done
    export TOOLGATE_TEST_WITHOUT_CLIENTS="${without[*]}"
    suite clients against_programs it "${without[@]/#/--skip=::}" clients::
    if [[ " ${without[*]} " =~ \ (python|typescript)\  ]]; then
        cannot packages "they have the libraries for Python and TypeScript in them"
        cannot agents "they need the libraries for Python and TypeScript"
    else
        command -v dpkg-deb >/dev/null || cannot packages "the one for Debian: dpkg-deb is not here"
        # The packages without the program, and programs that look at packages, are for `make release-check`.
        TOOLGATE_QUICK=1 suite packages tests/release/run.sh program
        suite agents agents
    fi
}

if wants "${languages[@]/#/client-}" "${languages[@]/#/conformance-}" clients packages agents console chart image; then
    # Once, and first: what was built before may be older than the sources.
    program || exit 1
fi
# Alone: many of its tests are about time, and it takes both cores by itself.
suite it against_programs it "${skipped[@]}"
if (($# == 1)); then
    without_libraries
    with_libraries
else
    lane=beside
    beside without_libraries
    beside with_libraries
    wait
    lane=
fi
# Alone: for a while the program of the others is linked in another way.
for_programs
can image suite image tests/image/run.sh test

for name in $suites; do
    # A lane may have been killed.
    ! wants "$name" || grep -qsE "^(passed  |FAILED  |NOT RUN:) $name[ :]" "$said"/{summary,not_run} ||
        echo "FAILED   $name (it was not run)" >>"$said/summary"
done
printf '\n'
cat "$said"/{summary,flaky,not_run}
if grep -q ^FAILED "$said/summary" || [[ -s "$said/not_run" && "${CI:-}" == true ]]; then exit 1; fi
exit 0
