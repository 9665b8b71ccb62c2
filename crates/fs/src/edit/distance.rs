//! The edit distance of two lines: how many units must be inserted, deleted or changed.
//!
//! *Invariant:* 64 rows of the matrix per step and only those near its diagonal, so two lines of 10,000 units take a
//! million steps and some hundred kilobytes; paid for before it is begun. What two lines begin and end with together
//! costs nothing of it.

use rapidfuzz::distance::levenshtein::{Args, distance_with_args};

use super::effort::{Effort, Halt};

/// Rows that are dealt with in one step.
const BITS: usize = 64;

/// Steps for one pair of lines.
const MAX_STEPS: usize = 4_000_000;

/// Units between the first and the last difference of two lines; beyond it, the tables would take too much memory.
const MAX_UNITS: usize = 1 << 18;

/// Returns the distance of `a` and `b`, or `None` if it is above `max`. Of lines that are too long to be compared whole,
/// only a small distance is found; whether they have a larger one within `max` stays unknown, which is
/// [`Halt::Exhausted`].
pub(super) fn distance_within(
    a: &[u16],
    b: &[u16],
    max: usize,
    effort: &mut Effort<'_>,
) -> Result<Option<usize>, Halt> {
    if a.len().abs_diff(b.len()) > max {
        return Ok(None);
    }
    let (a, b) = without_common_ends(a, b);
    let longer = a.len().max(b.len());
    if longer > MAX_UNITS {
        return Err(Halt::Exhausted);
    }
    // What is further from the diagonal than `max` cannot belong to a distance within it.
    let rows = |max: usize| a.len().min(b.len()).min(max.saturating_mul(2).saturating_add(BITS));
    let steps = |max: usize| rows(max).div_ceil(BITS).saturating_mul(longer);
    let is_whole = steps(max) <= MAX_STEPS;
    let max = if is_whole {
        max
    } else {
        (MAX_STEPS / longer - 1) * BITS / 2
    };
    effort.spend(steps(max))?;
    let within = Args::default().score_cutoff(max);
    let distance = distance_with_args(a.iter().copied(), b.iter().copied(), &within);
    if is_whole || distance.is_some() {
        Ok(distance)
    } else {
        Err(Halt::Exhausted)
    }
}

/// Returns what lies between the units that both begin with and those that both end with.
fn without_common_ends<'a>(a: &'a [u16], b: &'a [u16]) -> (&'a [u16], &'a [u16]) {
    let prefix = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let (a, b) = (&a[prefix..], &b[prefix..]);
    let suffix = a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count();
    (&a[..a.len() - suffix], &b[..b.len() - suffix])
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

    #[test]
    fn very_long_lines_that_are_nearly_the_same_are_compared() {
        let check = |length: usize, a: (&str, &str), b: (&str, &str), expected: Result<Option<usize>, Halt>| {
            let line = |(first, last): (&str, &str)| format!("{first}{}{last}", "ab".repeat(length / 2));
            assert_eq!(within(&line(a), &line(b), length / 3), expected, "{length} {a:?} {b:?}");
        };
        check(20_000, ("", "0123456789"), ("", "zzzzzzzzzz"), Ok(Some(10)));
        check(20_000, ("", ""), ("x", "y"), Ok(Some(2)));
        check(100_000, ("x", ""), ("", "yy"), Ok(Some(3)));
        check(1_000_000, ("same", "0"), ("same", "z"), Ok(Some(1)));
        check(1_000_000, ("x", ""), ("", "y"), Err(Halt::Exhausted));
    }

    proptest! {
        #[test]
        fn agrees_with_the_textbook(
            start in "[abc]{0,100}",
            a in "[abc]{0,200}",
            b in "[abc]{0,200}",
            end in "[abc]{0,100}",
            max in 0_usize..200,
        ) {
            let (a, b) = (format!("{start}{a}{end}"), format!("{start}{b}{end}"));
            let expected = strsim::generic_levenshtein(&units(&a), &units(&b));
            prop_assert_eq!(within(&a, &b, 1000), Ok(Some(expected)));
            prop_assert_eq!(within(&a, &b, max), Ok((expected <= max).then_some(expected)));
        }
    }
}
