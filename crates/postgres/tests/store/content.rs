//! What outputs of tests have: nowhere the same as elsewhere.
//!
//! *Invariant:* it is made once. To make it takes a test that is not optimised longer than a store does to keep it.

use std::sync::LazyLock;

const ALL_BYTES: usize = 80 << 20;

/// How far apart the contents begin that two seeds have.
const APART: u64 = 1_000_003;

static ALL: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let words = 1..=ALL_BYTES as u64 / 8;
    words
        .flat_map(|at| at.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes())
        .collect()
});

/// Returns what an output has from a place on; one of another seed, of at most 60, has something else.
pub(crate) fn content(seed: u64, from: u64, length: u64) -> &'static [u8] {
    let start = (seed * APART + from) as usize;
    &ALL[start..start + length as usize]
}
