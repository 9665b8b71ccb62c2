//! Truncation: how much of an output the model sees (`docs/spec/framework.md` §5).
//!
//! *Invariant:* pure. It is given a window of the output and its totals, and never the whole of a large one.

/// How much of an output the model sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Lines at most.
    pub max_lines: usize,
    /// UTF-8 bytes at most.
    pub max_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_lines: 2000,
            max_bytes: 51_200,
        }
    }
}

/// Which end of the output is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// The first lines.
    #[default]
    Head,
    /// The last lines.
    Tail,
}

/// The size of a whole output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Bytes.
    pub bytes: u64,
    /// Lines as editors count them: nothing follows a final line feed.
    pub lines: u64,
    /// What line feeds separate: one more than there are line feeds, so the piece after a final newline counts. Only the
    /// text for the model is cut and counted by this.
    pub pieces: u64,
}

impl Totals {
    /// Counts a text.
    pub fn measure(text: &[u8]) -> Self {
        let feeds = text.iter().filter(|&&byte| byte == b'\n').count() as u64;
        let has_open_end = !matches!(text.last(), None | Some(b'\n'));
        Self {
            bytes: text.len() as u64,
            lines: feeds + u64::from(has_open_end),
            pieces: feeds + 1,
        }
    }

    /// Returns whether an output of this size is shown whole.
    pub fn fit(&self, limits: &Limits) -> bool {
        self.bytes <= limits.max_bytes as u64 && self.pieces <= limits.max_lines as u64
    }
}

/// What is left out of a cut output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removed {
    /// The line limit was reached first: this many lines.
    Lines(u64),
    /// The byte limit was reached first: this many bytes.
    Bytes(u64),
}

/// The part of an output that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preview<'a> {
    /// Whole lines, joined as they were.
    pub kept: &'a [u8],
    /// What is left out.
    pub removed: Removed,
}

/// Returns how many bytes of an output [`preview`] must see.
pub fn window_bytes(limits: &Limits) -> usize {
    limits.max_bytes.saturating_add(1)
}

/// Takes whole lines from one end of an output that does not fit. `window` is that end of it: at least
/// [`window_bytes`] bytes, or the whole.
pub fn preview<'a>(window: &'a [u8], totals: Totals, limits: &Limits, direction: Direction) -> Preview<'a> {
    let mut taken_lines = 0;
    let mut taken_bytes = 0;
    let mut hit_bytes = false;
    let mut take = |line: &[u8]| {
        if taken_lines == limits.max_lines {
            return false;
        }
        let cost = line.len() + usize::from(taken_lines > 0);
        if taken_bytes + cost > limits.max_bytes {
            hit_bytes = true;
            return false;
        }
        taken_bytes += cost;
        taken_lines += 1;
        true
    };
    let kept = match direction {
        Direction::Head => {
            let _stopped_at = window.split(|&byte| byte == b'\n').find(|line| !take(line));
            &window[..taken_bytes]
        }
        Direction::Tail => {
            let _stopped_at = window.rsplit(|&byte| byte == b'\n').find(|line| !take(line));
            &window[window.len() - taken_bytes..]
        }
    };
    let removed = if hit_bytes {
        Removed::Bytes(totals.bytes.saturating_sub(taken_bytes as u64))
    } else {
        Removed::Lines(totals.pieces.saturating_sub(taken_lines as u64))
    };
    Preview { kept, removed }
}

/// Writes what the model reads instead of the whole: preview, notice and hint.
pub fn render(preview: &Preview<'_>, direction: Direction, path: &str, may_delegate: bool) -> String {
    let kept = String::from_utf8_lossy(preview.kept);
    let notice = match preview.removed {
        Removed::Lines(count) => format!("...{count} lines truncated..."),
        Removed::Bytes(count) => format!("...{count} bytes truncated..."),
    };
    let advice = if may_delegate {
        "Use the Task tool to have explore agent process this file with Grep and Read (with offset/limit). \
         Do NOT read the full file yourself - delegate to save context."
    } else {
        "Use Grep to search the full content or Read with offset/limit to view specific sections."
    };
    let hint = format!("The tool call succeeded but the output was truncated. Full output saved to: {path}\n{advice}");
    match direction {
        Direction::Head => format!("{kept}\n\n{notice}\n\n{hint}"),
        Direction::Tail => format!("{notice}\n\n{hint}\n\n{kept}"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cut(text: &str, max_lines: usize, max_bytes: usize, direction: Direction) -> Option<(String, Removed)> {
        let limits = Limits { max_lines, max_bytes };
        let totals = Totals::measure(text.as_bytes());
        if totals.fit(&limits) {
            return None;
        }
        let preview = preview(text.as_bytes(), totals, &limits, direction);
        Some((String::from_utf8_lossy(preview.kept).into_owned(), preview.removed))
    }

    #[test]
    fn takes_whole_lines() {
        let check = |text: &str, lines, bytes, direction, expected: Option<(&str, Removed)>| {
            let expected = expected.map(|(kept, removed)| (kept.to_owned(), removed));
            assert_eq!(
                cut(text, lines, bytes, direction),
                expected,
                "{text:?} {lines} {bytes} {direction:?}"
            );
        };
        check("a\nb\nc", 3, 5, Direction::Head, None);
        check(
            "l1\nl2\nl3\nl4\nl5",
            2,
            99,
            Direction::Head,
            Some(("l1\nl2", Removed::Lines(3))),
        );
        check("l1\nl2\n", 2, 99, Direction::Head, Some(("l1\nl2", Removed::Lines(1))));
        check(
            "aaaa\nbbbb\ncccc",
            99,
            10,
            Direction::Head,
            Some(("aaaa\nbbbb", Removed::Bytes(5))),
        );
        check("xxxxxxxxxxxx", 99, 10, Direction::Head, Some(("", Removed::Bytes(12))));
        check(
            "l1\nl2\nl3\nl4\nl5",
            2,
            99,
            Direction::Tail,
            Some(("l4\nl5", Removed::Lines(3))),
        );
        check(
            "aaaa\nbbbb\ncccc",
            99,
            9,
            Direction::Tail,
            Some(("bbbb\ncccc", Removed::Bytes(5))),
        );
        check("\n\n\n", 2, 99, Direction::Head, Some(("\n", Removed::Lines(2))));
    }

    #[test]
    fn lines_and_pieces() {
        let check = |text: &str, lines, pieces| {
            let totals = Totals::measure(text.as_bytes());
            assert_eq!((totals.lines, totals.pieces), (lines, pieces), "{text:?}");
        };
        check("", 0, 1);
        check("hello", 1, 1);
        check("hello\n", 1, 2);
        check("\n", 1, 2);
        check("a\nb", 2, 2);
    }

    proptest! {
        #[test]
        fn keeps_an_end_within_the_limits(text in "[ab\né]{0,60}", lines in 1usize..6, bytes in 1usize..20) {
            for direction in [Direction::Head, Direction::Tail] {
                let Some((kept, _)) = cut(&text, lines, bytes, direction) else { continue };
                prop_assert!(kept.len() <= bytes);
                prop_assert!(kept.is_empty() || kept.split('\n').count() <= lines);
                match direction {
                    Direction::Head => prop_assert!(text.starts_with(&kept)),
                    Direction::Tail => prop_assert!(text.ends_with(&kept)),
                }
            }
        }

        #[test]
        fn a_window_is_enough(text in "[ab\n]{0,80}", lines in 1usize..9, bytes in 1usize..20) {
            let limits = Limits { max_lines: lines, max_bytes: bytes };
            let totals = Totals::measure(text.as_bytes());
            prop_assume!(!totals.fit(&limits));
            let size = window_bytes(&limits).min(text.len());
            let (head, tail) = (&text.as_bytes()[..size], &text.as_bytes()[text.len() - size..]);
            prop_assert_eq!(
                preview(head, totals, &limits, Direction::Head),
                preview(text.as_bytes(), totals, &limits, Direction::Head)
            );
            prop_assert_eq!(
                preview(tail, totals, &limits, Direction::Tail),
                preview(text.as_bytes(), totals, &limits, Direction::Tail)
            );
        }
    }
}
