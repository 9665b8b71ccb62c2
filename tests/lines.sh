#!/usr/bin/env bash
# Prints the lines of code of each crate and their sum: without comments, blank lines and tests.
set -euo pipefail
cd "$(dirname "$0")/.."
shopt -s nullglob
roots=(src crates/*/src clients/rust/sr[c])

# The files of `mod NAME;` lines that stand below `#[cfg(test)]`, and all that is below them.
test_files() {
    find "${roots[@]}" -name '*.rs' | while IFS= read -r file; do
        local folder="${file%.rs}"
        case "${file##*/}" in lib.rs | main.rs | mod.rs) folder="${file%/*}" ;; esac
        awk -v folder="$folder" '
            /^ *#\[cfg\(test\)\]/ { test = 1; next }
            test && /mod [a-z_]+;/ { match($0, /mod [a-z_]+/); print folder "/" substr($0, RSTART + 4, RLENGTH - 4) }
            !/^ *#\[/ { test = 0 }
        ' "$file"
    done
}

tests="$(test_files)"
is_test() {
    local known
    while IFS= read -r known; do
        [[ -n "$known" && ("$1" == "$known.rs" || "$1" == "$known/"*) ]] && return 0
    done <<<"$tests"
    return 1
}

# Inline modules of tests stand at the end of their files.
code() {
    awk '
        /^#\[cfg\(test\)\]/ { held = 1; next }
        held && /^(pub(\([a-z]+\))? )?mod [a-z_]+ \{/ { exit }
        { held = 0 }
        !/^ *$/ && !/^ *\/\// { lines++ }
        END { print lines + 0 }
    ' "$@"
}

total=0
for root in "${roots[@]}"; do
    lines=0
    while IFS= read -r file; do
        is_test "$file" || lines=$((lines + $(code "$file")))
    done < <(find "$root" -name '*.rs')
    name="${root#crates/}"
    name="${name%/src}"
    printf '%6d  %s\n' "$lines" "${name/#src/toolgate}"
    total=$((total + lines))
done
printf '%6d  in all\n' "$total"
