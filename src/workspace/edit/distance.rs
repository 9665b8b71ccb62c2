//! The edit distance of two lines: how many units must be inserted, deleted or changed.
//!
//! *Invariant:* 64 rows of the matrix per step (Myers 1999, in blocks as Hyyrö 2003), so two lines of 10,000 units take
//! a million steps and a few kilobytes; paid for before it is begun. No crate at hand stops at a bound.

use std::collections::HashMap;

use super::effort::{Effort, Halt};

/// Bits of a block.
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
    let (a, b) = without_common_ends(a, b);
    let (pattern, text) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    if text.len() - pattern.len() > max {
        return Ok(None);
    }
    if pattern.is_empty() {
        return Ok(Some(text.len()));
    }
    let steps = pattern.len().div_ceil(BITS).saturating_mul(text.len());
    if steps > MAX_STEPS {
        return Err(Halt::Exhausted);
    }
    let mut columns = Columns::new(pattern);
    for (at, unit) in text.iter().enumerate() {
        effort.spend(columns.blocks.len())?;
        columns.advance(*unit);
        // Each unit that is left can take at most one off.
        if columns.distance > max.saturating_add(text.len() - at - 1) {
            return Ok(None);
        }
    }
    Ok((columns.distance <= max).then_some(columns.distance))
}

fn without_common_ends<'a>(a: &'a [u16], b: &'a [u16]) -> (&'a [u16], &'a [u16]) {
    let start = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let (a, b) = (&a[start..], &b[start..]);
    let end = a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count();
    (&a[..a.len() - end], &b[..b.len() - end])
}

/// One column of the matrix after the other, as differences between neighbours: a bit per row.
struct Columns {
    blocks: Vec<Block>,
    /// Where each unit's masks begin: in which rows the pattern has it.
    offsets: HashMap<u16, usize>,
    masks: Vec<u64>,
    /// The last row of the last block.
    last_row: u64,
    /// The number in the last row.
    distance: usize,
}

#[derive(Clone, Copy)]
struct Block {
    /// Rows that are one more than the row above.
    up: u64,
    /// Rows that are one less.
    down: u64,
}

impl Columns {
    fn new(pattern: &[u16]) -> Self {
        let count = pattern.len().div_ceil(BITS);
        let mut offsets = HashMap::new();
        let mut masks: Vec<u64> = Vec::new();
        for (row, unit) in pattern.iter().enumerate() {
            let offset = *offsets.entry(*unit).or_insert_with(|| {
                masks.resize(masks.len() + count, 0);
                masks.len() - count
            });
            masks[offset + row / BITS] |= 1 << (row % BITS);
        }
        Self {
            blocks: vec![Block { up: u64::MAX, down: 0 }; count],
            offsets,
            masks,
            last_row: 1 << ((pattern.len() - 1) % BITS),
            distance: pattern.len(),
        }
    }

    fn advance(&mut self, unit: u16) {
        let masks = self.offsets.get(&unit).map(|&offset| &self.masks[offset..]);
        let last = self.blocks.len() - 1;
        // The row above the first one counts the columns.
        let mut carry = 1;
        for (at, block) in self.blocks.iter_mut().enumerate() {
            let equal = masks.map_or(0, |masks| masks[at]);
            let bottom = if at == last { self.last_row } else { 1 << (BITS - 1) };
            carry = block.advance(equal, carry, bottom);
        }
        self.distance = self.distance.saturating_add_signed(carry);
    }
}

impl Block {
    /// Moves one column on; `carry` is the difference between the columns in the row above, and the result that in the
    /// row `bottom`.
    fn advance(&mut self, equal: u64, carry: isize, bottom: u64) -> isize {
        let vertical = equal | self.down;
        let equal = equal | u64::from(carry < 0);
        let horizontal = ((equal & self.up).wrapping_add(self.up) ^ self.up) | equal;
        let more = self.down | !(horizontal | self.up);
        let less = self.up & horizontal;
        let below = isize::from(more & bottom != 0) - isize::from(less & bottom != 0);
        let more = (more << 1) | u64::from(carry > 0);
        let less = (less << 1) | u64::from(carry < 0);
        self.up = less | !(vertical | more);
        self.down = more & vertical;
        below
    }
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
