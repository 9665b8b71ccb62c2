#!/usr/bin/env bash
# Runs Toolgate with programs of others, prints a table of what was run, and keeps it in docs/reference/compatibility.md:
# run.sh [NAME...]; `run.sh check` only looks at the page. README.md beside this file says what a script is.
#
# The page has what passed in its latest whole run, and nothing else: the rows of a script that fails stay as they were.
set -uo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="$(cd "$here/../.." && pwd)"
cd "$root" || exit 1
target="$(realpath -m "${TOOLGATE_TARGET:-${CARGO_TARGET_DIR:-target}}")"
export TOOLGATE_TARGET="$target"
export PATH="$target/tools/bin:$PATH"
page=docs/reference/compatibility.md
tab=$'\t'

# names: of all scripts.
names() {
    local script
    for script in "$here"/*.sh; do
        [[ "$script" == "$here/run.sh" ]] || basename "$script" .sh
    done
}

# on_page: the rows of the page, with a tab between fields.
on_page() { sed -n 's/^| `\([^`|]*\)` | \([^|]*\) | \([^|]*\) | \([^|]*\) |$/\1\t\2\t\3\t\4/p' "$page"; }

# check: whether the page is what runs leave: whole rows, in order, of scripts that exist.
check() {
    local result=0 name found
    local -a all
    mapfile -t all < <(names)
    found=$'\n'"$(on_page)"
    local tables
    tables="$(grep -c '^| `' "$page")"
    if [[ "$tables" != "$(on_page | wc -l)" ]]; then
        echo "$page: a row does not have the four fields: the script, program, version, what was shown" >&2
        result=1
    fi
    if ! diff <(on_page) <(on_page | LC_ALL=C sort -f -u) >&2; then
        echo "$page: rows are not in order, or there twice" >&2
        result=1
    fi
    while IFS= read -r name; do
        [[ " ${all[*]} " == *" $name "* ]] || { echo "$page: there is no tests/ecosystem/$name.sh" >&2; result=1; }
    done < <(on_page | cut -f 1 | sort -u)
    for name in "${all[@]}"; do
        [[ -x "$here/$name.sh" ]] || { echo "tests/ecosystem/$name.sh is not executable" >&2; result=1; }
        # Not in a pipe, which grep would leave early.
        [[ "$found" == *$'\n'"$name$tab"* ]] ||
            { echo "$page has no rows of $name: run tests/ecosystem/run.sh $name" >&2; result=1; }
    done
    return $result
}

# keep NAME ROWS: makes these rows the page's rows of a script.
keep() {
    local fresh
    fresh="$(mktemp)" || return 1
    {
        sed '/^| `/d; /^|---/q' "$page"
        {
            on_page | grep -v "^$1$tab"
            sed "s/^/$1\t/" "$2" | awk -F '\t' -v OFS='\t' '{ print $1, $2, $3, $5 }'
        } | LC_ALL=C sort -f -u | sed 's/^\([^\t]*\)\t\([^\t]*\)\t\([^\t]*\)\t\(.*\)$/| `\1` | \2 | \3 | \4 |/'
        sed '1,/^|---/d; /^| `/d' "$page"
    } >"$fresh"
    cat "$fresh" >"$page"
    rm -f "$fresh"
}

# has RESULT FILE: whether a row has it.
has() { awk -F '\t' -v wanted="$1" '$3 == wanted { found = 1 } END { exit !found }' "$2"; }

# fits FILE: whether each line is a row.
fits() {
    awk -F '\t' 'NF != 4 || $1 == "" || $2 == "" || /[|]/ || $3 !~ /^(passed|FAILED|CANNOT)$/ { print "no row: " $0; bad = 1 }
        END { exit bad }' "$1"
}

# run NAME: one script. Its rows are in its folder.
run() {
    local name="$1" folder="$target/ecosystem/$1" status=0 start=$SECONDS
    mkdir -p "$folder" || return 1
    : >"$folder/rows"
    printf '==> %s\n' "$name"
    ECOSYSTEM="$folder" RESULTS="$folder/rows" timeout --kill-after 10 900 "$here/$name.sh" \
        </dev/null >"$folder/log" 2>&1 || status=$?
    fits "$folder/rows" || status=1
    [[ -s "$folder/rows" ]] || status=1
    ! has FAILED "$folder/rows" || status=1
    [[ "${CI:-}" != true ]] || ! has CANNOT "$folder/rows" || status=1
    if ((status)); then
        cat "$folder/log"
        printf 'tests/ecosystem/%s.sh failed (%s)\n' "$name" "$status"
    elif ! has FAILED "$folder/rows" && ! has CANNOT "$folder/rows"; then
        keep "$name" "$folder/rows" || status=1
    fi
    printf '    %s s\n' "$((SECONDS - start))"
    sed "s/^/$name\t/" "$folder/rows" >>"$table"
    ((status == 0)) || printf '%s\t\t\tFAILED\tsee %s\n' "$name" "$folder/log" >>"$table"
    return "$status"
}

if [[ "${1:-}" == check ]]; then
    check
    exit
fi
export TOOLGATE_BIN
TOOLGATE_BIN="$(realpath -m "${TOOLGATE_BIN:-$target/debug/toolgate}")"
if [[ ! -x "$TOOLGATE_BIN" ]]; then
    echo "there is no $TOOLGATE_BIN: run 'cargo build', or name a program by TOOLGATE_BIN" >&2
    exit 2
fi
mapfile -t wanted < <(if (($#)); then printf '%s\n' "$@"; else names; fi)
for name in "${wanted[@]}"; do
    if [[ ! -x "$here/$name.sh" || "$name" == run ]]; then
        printf 'no script %s; there are: %s\n' "$name" "$(names | paste -sd ' ')" >&2
        exit 2
    fi
done
table="$(mktemp)" || exit 1
trap 'rm -f "$table"' EXIT
result=0
for name in "${wanted[@]}"; do
    run "$name" || result=1
done
printf '\n'
{ printf 'script\tprogram\tversion\tresult\tnote\n'; cat "$table"; } | awk -F '\t' '
    { for (i = 1; i < 5; i++) { cell[NR, i] = $i; if (length($i) > width[i]) width[i] = length($i) }; last[NR] = $5 }
    END {
        for (row = 1; row <= NR; row++) {
            for (i = 1; i < 5; i++) printf "%-" width[i] "s  ", cell[row, i]
            print last[row]
        }
    }'
exit "$result"
