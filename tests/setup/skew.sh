#!/usr/bin/env bash
# Builds the program of an earlier commit, in target/earlier, and runs the tests of mixed releases with it: its workers under the gateways of
# this tree, and its gateways on the tables of this tree. `tests/setup/skew.sh v0.1.0` takes that commit or tag. Without one it takes the newest
# tag, or the commit below if there is no tag.
set -euo pipefail

first=03e83544

cd "$(dirname "$0")/../.."
target="$(realpath -m "${CARGO_TARGET_DIR:-target}")"
commit="${1:-$(git describe --tags --abbrev=0 2>/dev/null || echo "$first")}"
commit="$(git rev-parse --verify --quiet "$commit^{commit}")" || {
    echo "skew: there is no commit ${1:-$first} here: fetch the whole history (git fetch --unshallow)" >&2
    exit 1
}
tree="$target/earlier/tree"
rm -rf "$tree"
mkdir -p "$tree"
git archive "$commit" | tar -x -C "$tree"
(cd "$tree" && CARGO_TARGET_DIR="$target/earlier" cargo build --locked --bin toolgate)
cargo build --locked --bin toolgate
TOOLGATE_EARLIER="$target/earlier/debug/toolgate" PATH="$target/tools/bin:$PATH" \
    cargo test --locked --test it -- --nocapture fleet::skew::
