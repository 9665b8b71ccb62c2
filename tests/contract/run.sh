#!/usr/bin/env bash
# Holds the contract in proto/ against landed.binpb, the contract as it last landed.
#
#   compare  fails if a client of the landed contract would break (the rules are in proto/buf.yaml). Fails also if the
#            contract has changed otherwise: a change that landed.binpb lacks would not be protected from the next one
#   renew    writes landed.binpb anew from proto/; commit it together with the change
#
# landed.binpb is a descriptor set without comments, so a changed comment needs no renewal. Both commands need buf.
set -euo pipefail
cd "$(dirname "$0")/../.."

landed=tests/contract/landed.binpb
# What gateways and workers say to each other is no part of the contract, and may change.
contract=(proto --exclude-path proto/toolgate/cluster)

# own_part FILE INPUT...: writes the descriptors of our own files; those of Google come with buf and may change with it.
own_part() {
    local file="$1"
    shift
    buf build "$@" --exclude-source-info --exclude-imports --as-file-descriptor-set -o "$file"
}

compare() {
    local status=0
    # A file that does not parse is no break, though buf returns the same for both.
    buf build proto -o /dev/null || return 1
    buf breaking proto --against "$landed" || status=$?
    case $status in
    0) ;;
    100)
        cat >&2 <<MESSAGE

These changes break clients that were built from the last landed contract, $landed.
Add fields, values and RPCs; do not change or remove those that exist. If a break is intended, run \`make contract\`,
which makes the present contract the landed one, and say in the commit message what breaks and why.
MESSAGE
        return 1
        ;;
    *) return 1 ;; # buf has said what is wrong
    esac

    scratch="$(mktemp -d)"
    trap 'rm -rf "$scratch"' EXIT
    own_part "$scratch/before.binpb" "$landed"
    own_part "$scratch/now.binpb" "${contract[@]}"
    if ! cmp -s "$scratch/before.binpb" "$scratch/now.binpb"; then
        cat >&2 <<MESSAGE
The contract has changed without breaking clients, but $landed does not have the change.
Until it does, nothing protects what is new: run \`make contract\` and commit the file together with the change.
MESSAGE
        return 1
    fi
}

renew() {
    buf build proto -o /dev/null
    if [[ -f "$landed" ]] && ! buf breaking proto --against "$landed"; then
        echo "From now on these breaks count as landed." >&2
    fi
    buf build "${contract[@]}" --exclude-source-info -o "$landed"
}

case "${1:-}" in
compare) compare ;;
renew) renew ;;
*)
    echo "usage: $0 compare | renew" >&2
    exit 2
    ;;
esac
