//! Text as rows that fit the width of a terminal.
//!
//! *Invariant:* nothing is cut off: what is longer than a row goes on in the next one. A row that goes on, and a further line of the
//! same text, is marked in a margin that the text itself cannot reach, so that a text cannot pass for another. Nothing that is not
//! seen gets here: all text goes through [`printable`].

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::theme::Theme;
use crate::cli::terminal::visible;

/// What stands in the margin of a row that goes on with the row above.
pub(super) const GOES_ON: &str = "↪ ";

/// What stands in the margin of a further line of a text.
pub(super) const NEXT_LINE: &str = "│ ";

/// Columns of a tab.
pub(super) const TAB: &str = "    ";

/// A text with its look, of which several make a paragraph.
pub(super) type Piece = (String, Style);

/// Rows of a width.
pub(super) struct Rows {
    width: usize,
    pub(super) lines: Vec<Line<'static>>,
    theme: Theme,
}

impl Rows {
    pub(super) fn new(width: u16, theme: Theme) -> Self {
        Self {
            // Below that, a margin and a wide letter have no room.
            width: usize::from(width).max(8),
            lines: Vec::new(),
            theme,
        }
    }

    pub(super) fn blank(&mut self) {
        if self.lines.last().is_some_and(|line| line.width() > 0) {
            self.lines.push(Line::default());
        }
    }

    /// Adds a text as it is, each of its lines in as many rows as it needs. `margin` stands before the first one.
    pub(super) fn exact(&mut self, margin: &str, text: &str, style: Style) {
        let text = printable(text);
        let indent = width_of(margin).max(2);
        let room = self.width.saturating_sub(indent).max(2);
        for (number, line) in text.split('\n').enumerate() {
            let mut row = String::new();
            let mut used = 0;
            let mut before = if number == 0 {
                format!("{margin:indent$}")
            } else {
                format!("{NEXT_LINE:>indent$}")
            };
            for (symbol, width) in symbols(line) {
                if used + width > room {
                    self.push(std::mem::take(&mut before), std::mem::take(&mut row), style);
                    before = format!("{GOES_ON:>indent$}");
                    used = 0;
                }
                row.push_str(&symbol);
                used += width;
            }
            self.push(before, row, style);
        }
    }

    fn push(&mut self, margin: String, text: String, style: Style) {
        let margin = Span::styled(margin, self.theme.dim());
        self.lines.push(Line::from(vec![margin, Span::styled(text, style)]));
    }

    /// Adds a paragraph, broken between words; rows after the first begin `indent` columns from the left.
    pub(super) fn flow(&mut self, indent: usize, pieces: &[Piece]) {
        let indent = indent.min(self.width / 2);
        let mut row: Vec<Span<'static>> = Vec::new();
        let mut used = 0;
        for (text, style) in pieces {
            for (number, line) in printable(text).split('\n').enumerate() {
                if number > 0 {
                    self.end(&mut row, &mut used, indent);
                }
                for word in words(line) {
                    let width = width_of(word);
                    if used + width_of(word.trim_end()) > self.width && used > indent {
                        self.end(&mut row, &mut used, indent);
                    }
                    if used + width_of(word.trim_end()) <= self.width {
                        used += width;
                        row.push(Span::styled(word.to_owned(), *style));
                        continue;
                    }
                    // Longer than a row.
                    let mut part = String::new();
                    for (symbol, width) in symbols(word) {
                        if used + width > self.width {
                            row.push(Span::styled(std::mem::take(&mut part), *style));
                            self.end(&mut row, &mut used, indent);
                        }
                        part.push_str(&symbol);
                        used += width;
                    }
                    row.push(Span::styled(part, *style));
                }
            }
        }
        self.lines.push(Line::from(row));
    }

    fn end(&mut self, row: &mut Vec<Span<'static>>, used: &mut usize, indent: usize) {
        self.lines.push(Line::from(std::mem::take(row)));
        row.push(Span::raw(" ".repeat(indent)));
        *used = indent;
    }
}

/// Returns a text without anything that is not seen: control characters are shown, and so is what has no width of its own where there
/// is nothing that it could belong to. Tabs are blanks.
pub(super) fn printable(text: &str) -> String {
    let text = visible(text).replace('\t', TAB);
    if text.is_ascii() {
        return text;
    }
    let line = |line: &str| {
        let symbols = symbols(line).into_iter();
        let seen = symbols.map(|(symbol, width)| match width {
            0 => symbol.escape_unicode().to_string(),
            _ => symbol,
        });
        seen.collect::<String>()
    };
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

/// Returns the columns that a text takes.
pub(super) fn width_of(text: &str) -> usize {
    Span::raw(text).width()
}

/// Returns what is printed as one symbol each, with its columns.
pub(super) fn symbols(text: &str) -> Vec<(String, usize)> {
    let span = Span::raw(text);
    let symbols = span.styled_graphemes(Style::default());
    symbols
        .map(|one| (one.symbol.to_owned(), width_of(one.symbol)))
        .collect()
}

/// Returns as much of a text on one line as fits, with an ellipsis in the place of the rest.
pub(super) fn cut(text: &str, width: usize) -> String {
    let text = printable(text).replace('\n', "⏎");
    if width_of(&text) <= width {
        return text;
    }
    let mut shown = String::new();
    let mut used = 1;
    for (symbol, size) in symbols(&text) {
        if used + size > width {
            break;
        }
        shown.push_str(&symbol);
        used += size;
    }
    if width > 0 {
        shown.push('…');
    }
    shown
}

/// Returns the words of a line, each with the blanks after it.
fn words(line: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = line;
    while !rest.is_empty() {
        let begin = rest.len() - rest.trim_start_matches(' ').len();
        let word = rest[begin..].find(' ').map_or(rest.len(), |end| begin + end);
        let end = word + (rest[word..].len() - rest[word..].trim_start_matches(' ').len());
        let (first, after) = rest.split_at(end);
        words.push(first);
        rest = after;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(rows: &Rows) -> Vec<String> {
        let text = |line: &Line<'_>| line.spans.iter().map(|span| &*span.content).collect();
        rows.lines.iter().map(text).collect()
    }

    #[test]
    fn exact_text_goes_on_in_marked_rows() {
        let mut rows = Rows::new(10, Theme::new(false));
        rows.exact("$ ", "echo 123456789\n↪ x\ty", Style::default());
        assert_eq!(texts(&rows), ["$ echo 123", "↪ 456789", "│ ↪ x    y"]);
        let mut rows = Rows::new(30, Theme::new(false));
        rows.exact("! asks    ", "a\n  allowed b", Style::default());
        assert_eq!(texts(&rows), ["! asks    a", "        │   allowed b"]);
        let mut rows = Rows::new(10, Theme::new(false));
        rows.exact("", "ab\r\x1b[2Kcd", Style::default());
        assert_eq!(
            texts(&rows).concat().replace("↪ ", "").replace(' ', ""),
            "ab\\u{d}\\u{1b}[2Kcd"
        );
    }

    #[test]
    fn nothing_is_hidden_for_want_of_width() {
        fn check(text: &str, expected: &str) {
            assert_eq!(printable(text), expected);
        }
        check("e\u{301}\ta", "e\u{301}    a");
        check("\u{301}a\n\u{fe0f}b", "\\u{301}a\n\\u{fe0f}b");
        check("a\u{7}", "a\\u{7}");
    }

    #[test]
    fn wide_letters_are_never_cut() {
        for width in 8..20 {
            let mut rows = Rows::new(width, Theme::new(false));
            let text = "日本語❤️👩‍👩‍👧e\u{301}日本語 x";
            rows.exact("", text, Style::default());
            rows.flow(2, &[(text.to_owned(), Style::default())]);
            for line in &rows.lines {
                assert!(line.width() <= usize::from(width), "{line:?}");
            }
        }
    }

    #[test]
    fn paragraphs_break_between_words() {
        let mut rows = Rows::new(12, Theme::new(false));
        rows.flow(
            2,
            &[
                ("one two ".into(), Style::default()),
                ("three four".into(), Style::default()),
            ],
        );
        rows.flow(2, &[("abcdefghijklmnopq rs".into(), Style::default())]);
        let found: Vec<String> = texts(&rows).iter().map(|row| row.trim_end().to_owned()).collect();
        assert_eq!(found, ["one two", "  three four", "abcdefghijkl", "  mnopq rs"]);
    }

    #[test]
    fn one_line_is_cut_with_an_ellipsis() {
        fn check(text: &str, width: usize, expected: &str) {
            assert_eq!(cut(text, width), expected);
        }
        check("abc", 3, "abc");
        check("abcd", 3, "ab…");
        check("日本語", 5, "日本…");
        check("a\nb", 9, "a⏎b");
        check("abc", 0, "");
    }
}
