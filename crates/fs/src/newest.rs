//! The newest files of a search: the first of all matches in order, without keeping all matches.
//!
//! *Invariant:* memory is bounded by the limit, whatever is pushed; what is kept equals sorting everything and cutting.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::{Path, PathBuf};

/// When a file was last modified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Modified {
    /// Seconds since 1970, negative before.
    pub seconds: i64,
    /// Nanoseconds within the second.
    pub nanos: u32,
}

/// The place of a file in results: newest first, then by path.
pub type Rank = (Reverse<Modified>, PathBuf);

/// Keeps the first `limit` of the paths pushed into it, newest first, ties by path.
#[derive(Debug)]
pub struct Newest {
    limit: usize,
    seen: u64,
    last_on_top: BinaryHeap<Rank>,
}

impl Newest {
    /// Makes an empty collection.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            seen: 0,
            last_on_top: BinaryHeap::new(),
        }
    }

    /// Takes a path in, if it is among the first so far.
    pub fn push(&mut self, modified: Modified, path: &Path) {
        self.seen += 1;
        if self.last_on_top.len() >= self.limit {
            let is_behind = |last: &Rank| (last.0, last.1.as_path()) <= (Reverse(modified), path);
            if self.last_on_top.peek().is_none_or(is_behind) {
                return;
            }
            self.last_on_top.pop();
        }
        self.last_on_top.push((Reverse(modified), path.to_path_buf()));
    }

    /// Takes in what another collection has seen and kept.
    pub fn merge(&mut self, other: Self) {
        let seen = self.seen + other.seen;
        for (modified, path) in other.last_on_top {
            self.push(modified.0, &path);
        }
        self.seen = seen;
    }

    /// Returns how many paths were pushed.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// Returns the paths in order.
    pub fn into_sorted(self) -> Vec<PathBuf> {
        self.last_on_top
            .into_sorted_vec()
            .into_iter()
            .map(|(_, path)| path)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn equals_sorting_then_cutting(
            files in proptest::collection::vec((0..4_i64, 0..2_u32, 0..30_u8), 0..60),
            split in 0..60_usize,
            limit in 0..12_usize,
        ) {
            let split = split.min(files.len());
            let collect = |files: &[(i64, u32, u8)]| {
                let mut newest = Newest::new(limit);
                for &(seconds, nanos, name) in files {
                    newest.push(Modified { seconds, nanos }, Path::new(&format!("f{name}")));
                }
                newest
            };
            let mut newest = collect(&files[..split]);
            newest.merge(collect(&files[split..]));
            let mut sorted = files.clone();
            sorted.sort_by_key(|&(seconds, nanos, name)| {
                (Reverse(Modified { seconds, nanos }), PathBuf::from(format!("f{name}")))
            });
            let expected: Vec<PathBuf> =
                sorted.iter().take(limit).map(|file| PathBuf::from(format!("f{}", file.2))).collect();
            prop_assert_eq!(newest.seen(), files.len() as u64);
            prop_assert_eq!(newest.into_sorted(), expected);
        }
    }
}
