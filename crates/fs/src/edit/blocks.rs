//! Strategies 3 and 8: blocks whose first and last lines are those of oldString.
//!
//! *Invariant:* a block ends at the first line that can end it, found by walking once through the lines that can. The
//! comparison of inner lines stops as soon as the block cannot be accepted any more.

use super::distance::distance_within;
use super::effort::{Effort, Halt};
use super::lines::trim;
use super::search::{BLANK, Place, Search};

/// How similar the inner lines of a block must be to oldString's, on average.
const ENOUGH: f64 = 0.65;

/// Sums of fractions are off by less than this.
const ROUNDING: f64 = 1e-9;

/// The first and the last line of a block.
#[derive(Clone, Copy, Debug)]
struct Block {
    first: usize,
    last: usize,
}

impl Block {
    fn height(self) -> usize {
        self.last - self.first + 1
    }
}

/// Strategy 3, block-anchor: a block of about the height of oldString, with similar inner lines; of several the most
/// similar one, and those that are the same text.
pub(super) fn block_anchor(search: &Search<'_>, effort: &mut Effort<'_>) -> Result<Vec<Place>, Halt> {
    let height = search.old_lines.len();
    let slack = (height / 4).max(1);
    let mut blocks = anchored(search, effort)?;
    blocks.retain(|block| block.height().abs_diff(height) <= slack);
    // When lines are too long to be compared, or too many, the most similar block is unknown and none is chosen. The
    // strategies after this one may still find something, so there must be effort left for them.
    let best = effort.with_half(|effort| most_similar(search, &blocks, effort))?;
    let Some(best) = best.flatten().and_then(|block| search.block(block.first, block.last)) else {
        return Ok(Vec::new());
    };
    let text = search.lines.text();
    let places = blocks.iter().filter_map(|block| search.block(block.first, block.last));
    Ok(places
        .filter(|place| text[place.clone()] == text[best.clone()])
        .collect())
}

/// Strategy 8, context-aware: a block of exactly the height of oldString, half of whose inner lines are equal.
pub(super) fn context_aware(search: &Search<'_>, effort: &mut Effort<'_>) -> Result<Vec<Place>, Halt> {
    let height = search.old_ids.len();
    let mut places = Vec::new();
    for block in anchored(search, effort)? {
        if block.height() != height {
            continue;
        }
        effort.spend(height)?;
        let inner = search.old_ids[1..height - 1]
            .iter()
            .zip(&search.file_ids[block.first + 1..block.last]);
        let written = inner.filter(|&(&old, &file)| old != BLANK || file != BLANK);
        let (count, equal) = written.fold((0_usize, 0_usize), |(count, equal), (old, file)| {
            (count + 1, equal + usize::from(old == file))
        });
        if 2 * equal >= count {
            places.extend(search.block(block.first, block.last));
        }
    }
    Ok(places)
}

/// Returns the blocks of at least three lines that begin and end like oldString: for every first line the nearest last.
fn anchored(search: &Search<'_>, effort: &mut Effort<'_>) -> Result<Vec<Block>, Halt> {
    let &[first, _, .., last] = search.old_ids.as_slice() else {
        return Ok(Vec::new());
    };
    effort.spend(2 * search.file_ids.len())?;
    let positions = |id: u32| {
        let ids = search.file_ids.iter().enumerate();
        ids.filter(move |&(_, &file)| file == id).map(|(line, _)| line)
    };
    let mut ends = positions(last).peekable();
    let mut blocks = Vec::new();
    for first in positions(first) {
        while ends.next_if(|&end| end < first + 2).is_some() {}
        let Some(&last) = ends.peek() else { break };
        blocks.push(Block { first, last });
    }
    Ok(blocks)
}

/// Returns the most similar block, of equal ones the first, if it is similar enough.
fn most_similar(search: &Search<'_>, blocks: &[Block], effort: &mut Effort<'_>) -> Result<Option<Block>, Halt> {
    let mut best: Option<(f64, Block)> = None;
    for block in blocks {
        let wanted = best.map_or(ENOUGH - ROUNDING, |(similarity, _)| similarity + ROUNDING);
        if let Some(similarity) = similarity(search, *block, wanted, effort)? {
            best = Some((similarity, *block));
        }
    }
    Ok(best.map(|(_, block)| block))
}

/// Returns how similar the inner lines are on average, or `None` if less than `wanted`.
fn similarity(search: &Search<'_>, block: Block, wanted: f64, effort: &mut Effort<'_>) -> Result<Option<f64>, Halt> {
    let inner = search.old_lines.len().min(block.height()) - 2;
    let wanted_sum = wanted * inner as f64;
    let mut sum = 0.0;
    for line in 1..=inner {
        effort.spend(1)?;
        // What this line must give if all after it were equal.
        let least = wanted_sum - sum - (inner - line) as f64;
        if least > 1.0 {
            return Ok(None);
        }
        match line_similarity(search, line, block.first + line, least, effort)? {
            Some(similarity) => sum += similarity,
            None => return Ok(None),
        }
    }
    Ok((sum >= wanted_sum).then(|| sum / inner as f64))
}

/// Compares a line of oldString with one of the file, both trimmed; two empty ones have nothing in common. `None` means
/// less than `least`.
fn line_similarity(
    search: &Search<'_>,
    old_line: usize,
    file_line: usize,
    least: f64,
    effort: &mut Effort<'_>,
) -> Result<Option<f64>, Halt> {
    let old_id = search.old_ids[old_line];
    if old_id == search.file_ids[file_line] {
        return Ok(Some(if old_id == BLANK { 0.0 } else { 1.0 }));
    }
    let (old, file) = (search.old_lines[old_line], trim(search.lines.raw(file_line)));
    effort.spend(old.len() + file.len())?;
    let units = |text: &str| text.encode_utf16().collect::<Vec<u16>>();
    let (old, file) = (units(old), units(file));
    let longer = old.len().max(file.len());
    // One more than the exact bound, which rounding could miss; the sum is compared in the end.
    let max = ((1.0 - least.max(0.0)) * longer as f64) as usize + 1;
    let distance = distance_within(&old, &file, max, effort)?;
    Ok(distance.map(|distance| 1.0 - distance as f64 / longer as f64))
}

#[cfg(test)]
mod tests {
    use super::super::search::testing::found;
    use super::*;
    use tokio_util::sync::CancellationToken;

    #[test]
    fn the_most_similar_block_wins() {
        let check = |text: &str, old: &str, expected: &[&str]| {
            assert_eq!(found(block_anchor, text, old), expected, "{old:?}");
        };
        check("{\n abcdefghij\n}\nz", "{\nabcdefghxx\n}", &["{\n abcdefghij\n}"]);
        check("{\n abcdefghij\n}\nz", "{\nabcdefghxx\n}\n", &["{\n abcdefghij\n}\n"]);
        check("{\r\nabcd\r\n}\r\nz", "{\r\nabcx\r\n}", &["{\r\nabcd\r\n}"]);
        // 13 of 20 is enough, 12 is not.
        check(
            "{\nabcdefghijklmnopqrst\n}",
            "{\nabcdefghijklm\n}",
            &["{\nabcdefghijklmnopqrst\n}"],
        );
        check("{\nabcdefghijklmnopqrst\n}", "{\nabcdefghijkl\n}", &[]);
        check("{\nabcX\n}\n{\nabcd\n}", "{\nabcde\n}", &["{\nabcd\n}"]);
        check("{\nab1\n}\n{\nab2\n}", "{\nabc\n}", &["{\nab1\n}"]);
        check("{\nabcX\n}\n{\nabcX\n}", "{\nabcd\n}", &["{\nabcX\n}", "{\nabcX\n}"]);
        // One inner line may be missing or too many; two may not.
        check("{\na\nb\nc\n}", "{\na\nb\n}", &["{\na\nb\nc\n}"]);
        check("{\na\nb\nc\nd\n}", "{\na\nb\n}", &[]);
        // Two lines and a final newline are two lines.
        check("{\na\n}\n", "{\n}\n", &[]);
        check("{\n\n}", "{\n \n}", &[]);
        check("{\n}", "{\na\n}", &[]);
    }

    #[test]
    fn no_block_is_chosen_when_one_is_too_long_to_be_compared() {
        let block = |line: &str| format!("{{\n{line}\n}}\n");
        let (long, other) = ("a".repeat(20_000), block(&"b".repeat(20_000)));
        let (old, near) = (block(&format!("{long}01234")), block(&format!("{long}zzzzz")));
        let check = |text: &str, expected: usize| assert_eq!(found(block_anchor, text, &old).len(), expected);
        check(&near, 1);
        check(&other, 0);
        check(&format!("{other}{near}"), 0);
        // Less similar than one before it is known sooner.
        check(&format!("{near}{other}"), 1);
    }

    #[test]
    fn half_of_the_inner_lines_must_be_equal() {
        let check = |text: &str, old: &str, expected: &[&str]| {
            assert_eq!(found(context_aware, text, old), expected, "{old:?}");
        };
        check("{\na\nzzzz\n}", "{\na\nb\n}", &["{\na\nzzzz\n}"]);
        check("{\ny\nzzzz\nb\n}", "{\na\nb\nb\n}", &[]);
        check("{\n\n \n}\n", "{\n\t\n\n}\n", &["{\n\n \n}\n"]);
        check("{\na\n\nx\n}", "{\na\n\ny\n}", &["{\na\n\nx\n}"]);
        check("{\na\nb\nc\n}", "{\na\nb\n}", &[]);
        check("{\n}\na\n}", "{\nb\na\n}", &["{\n}\na\n}"]);
        check("{\na\n}", "{\n}\n", &[]);
    }

    #[test]
    fn many_blocks_of_unlike_lines_are_given_up_early() {
        let body: String = (0..400).map(|n| format!("some words of line {n}\n")).collect();
        let text = format!("{{\n{body}}}\n").repeat(20);
        let other: String = (0..400).map(|n| format!("{n} ZZZZZZZZZZZZZZZZZZZ\n")).collect();
        let cancelled = CancellationToken::new();
        let mut effort = Effort::new(&cancelled);
        let old = format!("{{\n{other}}}");
        let search = Search::new(&text, &old, "", &mut effort).unwrap();
        let before = effort.spent();
        assert_eq!(block_anchor(&search, &mut effort), Ok(Vec::new()));
        // 20 blocks of 400 pairs of lines, each pair two texts and a matrix; less than half is looked at.
        assert!(effort.spent() - before < 20 * 400 * 3 * 24 / 2);
    }
}
