//! The edit distance of two lines: how many units must be inserted, deleted or changed.
//!
//! *Invariant:* 64 rows of the matrix per step and only those near its diagonal, so two lines of 10,000 units take a
//! million steps and a few kilobytes; paid for before it is begun.

use rapidfuzz::distance::levenshtein::{Args, distance_with_args};

use super::effort::{Effort, Halt};

/// Rows that are dealt with in one step.
const BITS: usize = 64;

/// Steps for one pair of lines; beyond it they are too long to be compared. It bounds the memory as well.
const MAX_STEPS: usize = 4_000_000;

/// Returns the distance of `a` and `b`, or `None` if it is above `max`.
pub(super) fn distance_within(
    a: &[u16],
    b: &[u16],
    max: usize,
    effort: &mut Effort<'_>,
) -> Result<Option<usize>, Halt> {
    if a.len().abs_diff(b.len()) > max {
        return Ok(None);
    }
    // What is further from the diagonal than `max` cannot belong to a distance within it.
    let rows = a.len().min(b.len()).min(max.saturating_mul(2).saturating_add(BITS));
    let steps = rows.div_ceil(BITS).saturating_mul(a.len().max(b.len()));
    if steps > MAX_STEPS {
        return Err(Halt::Exhausted);
    }
    effort.spend(steps)?;
    let within = Args::default().score_cutoff(max);
    Ok(distance_with_args(a.iter().copied(), b.iter().copied(), &within))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tokio_util::sync::CancellationToken;

    fn units(text: &str) -> Vec<u16> {
        text.encode_utf16().collect()
    }

    fn within(a: &str, b: &str, max: usize) -> Result<Option<usize>, Halt> {
        let cancelled = CancellationToken::new();
        distance_within(&units(a), &units(b), max, &mut Effort::new(&cancelled))
    }

    #[test]
    fn counts_utf16_units() {
        let check = |a: &str, b: &str, expected: usize| assert_eq!(within(a, b, 100), Ok(Some(expected)), "{a} {b}");
        check("kitten", "sitting", 3);
        check("", "", 0);
        check("", "ab", 2);
        check("é", "e", 1);
        check("🚀", "", 2);
        check("🚀", "🚁", 1);
    }

    #[test]
    fn two_very_long_lines_are_a_bounded_amount_of_work() {
        let (a, b) = ("ab".repeat(5000), "cd".repeat(5000));
        let cancelled = CancellationToken::new();
        let mut effort = Effort::new(&cancelled);
        let distance = distance_within(&units(&a), &units(&b), 10_000, &mut effort);
        assert_eq!(distance, Ok(Some(10_000)));
        assert!(effort.spent() < 2_000_000);
        let longer = "x".repeat(100_000);
        assert_eq!(within(&longer, &"y".repeat(100_000), 100_000), Err(Halt::Exhausted));
        assert_eq!(within(&longer, "y", 1000), Ok(None));
    }

    proptest! {
        #[test]
        fn agrees_with_the_textbook(a in "[abc]{0,200}", b in "[abc]{0,200}", max in 0_usize..200) {
            let expected = strsim::generic_levenshtein(&units(&a), &units(&b));
            prop_assert_eq!(within(&a, &b, 1000), Ok(Some(expected)));
            prop_assert_eq!(within(&a, &b, max), Ok((expected <= max).then_some(expected)));
        }
    }
}
