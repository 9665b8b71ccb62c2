//! What counts as white space, and where it stands.
//!
//! *Invariant:* pages are written for browsers, so the white space is that of their language: with the byte order mark,
//! without U+0085.

/// Says whether a character is white space.
pub(super) fn is_space(c: char) -> bool {
    match c {
        '\u{feff}' => true,
        '\u{85}' => false,
        _ => c.is_whitespace(),
    }
}

/// Says whether a character is white space that separates words: a no-break space is not.
pub(super) fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

/// Returns a text without the white space around it.
pub(super) fn trim(text: &str) -> &str {
    text.trim_matches(is_space)
}

/// The longest stretches of a text whose characters are all of one kind.
pub(super) struct Runs(Vec<(usize, usize)>);

impl Runs {
    /// Finds them.
    pub(super) fn find(text: &str, is_wanted: fn(char) -> bool) -> Self {
        let mut runs: Vec<(usize, usize)> = Vec::new();
        for (at, c) in text.char_indices().filter(|(_, c)| is_wanted(*c)) {
            let end = at + c.len_utf8();
            match runs.last_mut() {
                Some(last) if last.1 == at => last.1 = end,
                Some(_) | None => runs.push((at, end)),
            }
        }
        Self(runs)
    }

    /// Returns where the stretch ends that a part of the text begins with; where the part begins, if it begins otherwise.
    pub(super) fn end_of_start(&self, start: usize, end: usize) -> usize {
        let next = self.0.partition_point(|run| run.1 <= start);
        let run = self.0.get(next).filter(|run| run.0 <= start);
        run.map_or(start, |run| run.1.min(end))
    }

    /// Returns where the stretch begins that a part of the text ends with; where the part ends, if it ends otherwise.
    pub(super) fn start_of_end(&self, start: usize, end: usize) -> usize {
        let next = self.0.partition_point(|run| run.1 < end);
        let run = self.0.get(next).filter(|run| run.0 < end);
        run.map_or(end, |run| run.0.max(start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_space_at_the_edges_of_a_part() {
        let text = "ab  c \u{a0}\u{a0} ";
        let runs = Runs::find(text, is_space);
        let check = |part: (usize, usize), edges: (usize, usize)| {
            let found = (runs.end_of_start(part.0, part.1), runs.start_of_end(part.0, part.1));
            assert_eq!(found, edges, "{:?}", &text[part.0..part.1]);
        };
        check((0, 2), (0, 2));
        check((2, 5), (4, 5));
        check((2, 3), (3, 2));
        check((3, 4), (4, 3));
        check((0, 3), (0, 2));
        check((4, 11), (4, 5));
        check((8, 11), (11, 8));
        check((2, 2), (2, 2));
    }
}
