//! Who has to make room where many share what is bounded.
//!
//! *Invariant:* pure. Nobody's go because somebody else has too many: first go the oldest of whoever has more than one may, then
//! the oldest of whoever has most.

use std::collections::BTreeMap;

use tokio::time::Instant;

/// How many there may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Most {
    /// Of one owner.
    pub(super) of_one: usize,
    /// Of all.
    pub(super) of_all: usize,
}

/// Returns those that have to go. Each is named by its key, and has an owner and the time since when it is there.
pub(super) fn too_many<'k, K: Clone + 'k>(all: impl Iterator<Item = (&'k K, &'k str, Instant)>, most: Most) -> Vec<K> {
    let mut by_owner: BTreeMap<&str, Vec<(Instant, &K)>> = BTreeMap::new();
    for (key, owner, since) in all {
        by_owner.entry(owner).or_default().push((since, key));
    }
    let mut gone = Vec::new();
    for of_one in by_owner.values_mut() {
        // The oldest come last, from where they are taken.
        of_one.sort_by(|(one, _), (other, _)| other.cmp(one));
        while of_one.len() > most.of_one {
            gone.extend(of_one.pop().map(|(_, key)| key.clone()));
        }
    }
    while by_owner.values().map(Vec::len).sum::<usize>() > most.of_all {
        let largest = by_owner.values_mut().max_by_key(|of_one| of_one.len());
        gone.extend(largest.and_then(Vec::pop).map(|(_, key)| key.clone()));
    }
    gone
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn nobody_makes_room_for_whoever_has_more() {
        let start = Instant::now();
        let check = |counts: &[(&'static str, usize)], expected: &[&str]| {
            let all: Vec<(String, &str, Instant)> = counts
                .iter()
                .flat_map(|(owner, count)| (0..*count).map(move |at| (format!("{owner}{at}"), *owner, at)))
                .map(|(key, owner, at)| (key, owner, start + Duration::from_secs(at as u64)))
                .collect();
            let most = Most { of_one: 3, of_all: 5 };
            let gone = too_many(all.iter().map(|(key, owner, since)| (key, *owner, *since)), most);
            assert_eq!(gone, expected, "{counts:?}");
        };
        check(&[], &[]);
        check(&[("a", 3), ("b", 2)], &[]);
        check(&[("a", 5), ("b", 1)], &["a0", "a1"]);
        check(&[("a", 3), ("b", 1), ("c", 1), ("d", 1)], &["a0"]);
        check(&[("a", 4), ("b", 3)], &["a0", "b0"]);
    }
}
