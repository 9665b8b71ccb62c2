#!/usr/bin/env bash
# Fuzzes each target for a bounded time, from the seeds that are checked in and what earlier runs have found. Ends with 1
# if one of them found something, and keeps the input that did under tests/fuzz/artifacts. With names of targets as
# arguments, only those. FUZZ_SECONDS is the time for each.
#
# The stable toolchain is enough: coverage needs two code generation options, and no sanitizer is used, because the service
# has no unsafe code where these targets go. libFuzzer itself comes with its crate, and needs a C++ compiler.
set -euo pipefail
cd "$(dirname "$0")"

seconds="${FUZZ_SECONDS:-60}"
target="$(realpath -m "${CARGO_TARGET_DIR:-../../target}")/fuzz"
host="$(rustc -vV | sed -n 's/^host: //p')"
targets=("$@")
((${#targets[@]})) || targets=(patch edit commands attacks)

# What needs no libFuzzer: command lines, held against bash itself, and the whole corpus of attacks.
failed=0
left=()
for name in "${targets[@]}"; do
    case $name in
        commands) arguments=(fuzz "$seconds") ;;
        attacks) arguments=(attacks) ;;
        *)
            if [[ ! -f "targets/$name.rs" ]]; then
                echo "no target $name; there are: commands attacks $(basename -s .rs -a targets/*.rs | paste -sd ' ')" >&2
                exit 2
            fi
            left+=("$name")
            continue
            ;;
    esac
    printf '\n==> %s\n' "$name"
    (cd ../.. && cargo test --locked --quiet --test judge -- "${arguments[@]}") || failed=1
done
((${#left[@]})) || exit $failed
targets=("${left[@]}")

if ! command -v "${CXX:-c++}" >/dev/null; then
    echo "libFuzzer is built from C++, and there is no compiler: install one (apt-get install g++) or set CXX" >&2
    exit 2
fi

# With --target, what runs during the build is not instrumented.
coverage=(
    -Cpasses=sancov-module
    -Cllvm-args=-sanitizer-coverage-level=4
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters
    -Cllvm-args=-sanitizer-coverage-pc-table
    -Cllvm-args=-sanitizer-coverage-trace-compares
    -Ccodegen-units=1
    --cfg fuzzing
)
cp ../../Cargo.lock Cargo.lock
RUSTFLAGS="${coverage[*]}" CARGO_TARGET_DIR="$target" cargo build --target "$host" --bins

for name in "${targets[@]}"; do
    printf '\n==> %s, %s s\n' "$name" "$seconds"
    mkdir -p "artifacts/$name" "$target/corpus/$name"
    options=(
        "-max_total_time=$seconds"
        -max_len=4096
        -timeout=10
        -rss_limit_mb=2048
        -print_final_stats=1
        -verbosity=0
        "-artifact_prefix=artifacts/$name/"
    )
    [[ ! -f "targets/$name.dict" ]] || options+=("-dict=targets/$name.dict")
    log="$target/$name.log"
    if "$target/$host/debug/$name" "${options[@]}" "$target/corpus/$name" "seeds/$name" </dev/null >"$log" 2>&1; then
        grep -E 'executed_units|per_sec|slowest' "$log"
        echo "$name: nothing found"
    else
        tail -n 60 "$log"
        echo "$name: FAILED; the input is in tests/fuzz/artifacts/$name" >&2
        failed=1
    fi
done
exit $failed
