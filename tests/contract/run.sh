#!/usr/bin/env bash
# Holds the contract in proto/ against landed.binpb, the contract as it last landed; and what gateways and workers say to each other against
# cluster.binpb, likewise.
#
#   compare  fails if a client of the landed contract would break (the rules are in proto/buf.yaml). Fails also if the
#            contract has changed otherwise: a change that landed.binpb lacks would not be protected from the next one
#   renew    writes both anew from proto/; commit them together with the change
#
# They are descriptor sets without comments, so a changed comment needs no renewal. Both commands need buf.
set -euo pipefail
cd "$(dirname "$0")/../.."

landed=tests/contract/landed.binpb
# What gateways and workers say to each other is no part of the contract: no client has it.
contract=(proto --exclude-path proto/toolgate/cluster)
cluster=tests/contract/cluster.binpb
of_cluster=(--path toolgate/cluster)
# A gateway works with workers of releases before it: what they send must be read, and what they call must be there. Names are free.
of_workers='{"version":"v2","breaking":{"use":["WIRE","PACKAGE_SERVICE_NO_DELETE","RPC_NO_DELETE","FIELD_NO_DELETE_UNLESS_NUMBER_RESERVED"]}}'

# in_proto ARGUMENT...: runs buf where it takes single folders of the contract.
in_proto() (
    cd proto
    buf "$@"
)

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

    if ! in_proto breaking "${of_cluster[@]}" --against "../$cluster" --config "$of_workers"; then
        cat >&2 <<MESSAGE

These changes break workers of the release before, which gateways of this one work with. Add fields, values and RPCs; leave those that exist
for two minor versions, and reserve the numbers of those that go. If a break is intended, raise the version of the cluster protocol
(PROTOCOLS in crates/server/src/app/registration.rs) and run \`make contract\`.
MESSAGE
        return 1
    fi

    scratch="$(mktemp -d)"
    trap 'rm -rf "$scratch"' EXIT
    own_part "$scratch/before.binpb" "$landed"
    own_part "$scratch/now.binpb" "${contract[@]}"
    own_part "$scratch/cluster-before.binpb" "$cluster"
    in_proto build "${of_cluster[@]}" --exclude-source-info -o "$scratch/cluster.binpb"
    own_part "$scratch/cluster-now.binpb" "$scratch/cluster.binpb"
    if ! cmp -s "$scratch/cluster-before.binpb" "$scratch/cluster-now.binpb"; then
        cat >&2 <<MESSAGE
What gateways and workers say to each other has changed without breaking those of the release before, but $cluster does not
have the change. Until it does, nothing protects what is new: run \`make contract\` and commit the file together with the change.
MESSAGE
        return 1
    fi
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
    if [[ -f "$cluster" ]] && ! in_proto breaking "${of_cluster[@]}" --against "../$cluster" --config "$of_workers"; then
        echo "From now on these breaks count as landed: workers of the release before need another version of the protocol." >&2
    fi
    in_proto build "${of_cluster[@]}" --exclude-source-info -o "../$cluster"
}

case "${1:-}" in
compare) compare ;;
renew) renew ;;
*)
    echo "usage: $0 compare | renew" >&2
    exit 2
    ;;
esac
