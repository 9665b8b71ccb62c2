//! What is written where: results to standard output, everything else to standard error, in colour where wanted.
//!
//! *Invariant:* text from outside that a person decides by goes through [`visible`], so that it cannot move the cursor
//! or hide a part of itself. A reader of standard output that left ends the program quietly.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, ErrorKind, IsTerminal as _, Write as _};

use clap::ValueEnum;
use prost::{Message, Name};
use rustix::termios::tcgetwinsize;
use serde_json::Value;
use toolgate_contract::json::to_json;

use super::exit::Failure;
use super::log;

/// When to use colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Colour {
    /// On a terminal, unless NO_COLOR is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl Colour {
    /// Returns whether to use colour on a stream that is, or is not, a terminal.
    pub(crate) fn applies_to(self, is_terminal: bool) -> bool {
        match self {
            Self::Auto => is_terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
            Self::Always => true,
            Self::Never => false,
        }
    }
}

/// Returns a number with what is counted, in the plural unless there is one.
pub(super) fn counted(number: impl TryInto<i64>, noun: &str) -> String {
    let number = number.try_into().unwrap_or(i64::MAX);
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// A look of a text.
#[derive(Clone, Copy, Debug)]
pub(super) enum Look {
    Bold,
    Dim,
    Red,
    Green,
    Yellow,
    Cyan,
}

/// Gives texts a look, or leaves them plain.
#[derive(Clone, Copy, Debug)]
pub(super) struct Paint(pub(super) bool);

impl Paint {
    /// Returns the text with the look.
    pub(super) fn text(self, look: Look, text: &str) -> String {
        if !self.0 {
            return text.to_owned();
        }
        let code = match look {
            Look::Bold => 1,
            Look::Dim => 2,
            Look::Red => 31,
            Look::Green => 32,
            Look::Yellow => 33,
            Look::Cyan => 36,
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

/// The two streams and how to write to them.
#[derive(Clone, Debug)]
pub(super) struct Terminal {
    /// Whether to print JSON.
    pub(super) json: bool,
    /// Whether to tell more.
    pub(super) verbose: bool,
    /// Looks on standard output.
    pub(super) out: Paint,
    /// Looks on standard error.
    pub(super) err: Paint,
    /// Whether a person looks at standard output.
    pub(super) shows_output: bool,
    /// Whether a person looks at standard error.
    pub(super) shows_notes: bool,
    /// Whether a program reads the log: notes are messages of it.
    pub(super) logs_messages: bool,
    /// Whether this is a service, which nobody who does not read its notes may hold up.
    pub(super) serves: bool,
    /// How wide standard output is, if it is a terminal.
    pub(super) width: Option<usize>,
}

impl Terminal {
    /// Looks at the two streams.
    pub(super) fn new(json: bool, colour: Colour, verbose: u8) -> Self {
        let (out, err) = (io::stdout().is_terminal(), io::stderr().is_terminal());
        Self {
            json,
            verbose: verbose > 0,
            out: Paint(colour.applies_to(out)),
            err: Paint(colour.applies_to(err)),
            shows_output: out,
            shows_notes: err,
            logs_messages: false,
            serves: false,
            width: width(),
        }
    }

    /// Writes bytes to standard output as they are.
    pub(super) fn bytes(&self, bytes: &[u8]) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        let written = stdout.write_all(bytes).and_then(|()| stdout.flush());
        written.map_err(|error| {
            if error.kind() == ErrorKind::BrokenPipe {
                Failure::BrokenPipe
            } else {
                Failure::Write(error)
            }
        })
    }

    /// Writes a text and the end of its line to standard output.
    pub(super) fn line(&self, text: &str) -> Result<(), Failure> {
        self.bytes(format!("{text}\n").as_bytes())
    }

    /// Writes a message of the contract to standard output, as protobuf JSON on one line.
    pub(super) fn message<M: Message + Name>(&self, message: &M) -> Result<(), Failure> {
        self.line(&to_json(message).map_err(Failure::Json)?)
    }

    /// Writes what is no message of the contract to standard output, as JSON on one line.
    pub(super) fn record(&self, value: &Value) -> Result<(), Failure> {
        self.line(&value.to_string())
    }

    /// Tells a person something on standard error, which may be closed.
    pub(super) fn inform(&self, text: &str) {
        if self.logs_messages {
            tracing::info!("{text}");
        } else if self.serves {
            log::tell(text);
        } else {
            let _ = writeln!(io::stderr().lock(), "{text}");
        }
    }

    /// Tells a person what failed.
    pub(super) fn error(&self, text: &str) {
        if self.logs_messages {
            tracing::error!("{text}");
        } else {
            self.inform(&format!("{} {text}", self.err.text(Look::Red, "error:")));
        }
    }

    /// Tells a person what is most likely a mistake.
    pub(super) fn warning(&self, text: &str) {
        self.inform(&format!(
            "{} {}",
            self.err.text(Look::Yellow, "warning:"),
            visible(text)
        ));
    }

    /// Writes rows below their headings, columns aligned. On a terminal long cells are cut, but for the first, which is what other
    /// commands take; what does not fit beside the rest is on lines below its row.
    pub(super) fn table(&self, headings: &[&str], rows: &[Vec<String>]) -> Result<(), Failure> {
        self.lines(headings, rows, self.width)
    }

    /// Writes rows as [`Self::table`], with every cell whole. There need not be headings.
    pub(super) fn whole_table(&self, headings: &[&str], rows: &[Vec<String>]) -> Result<(), Failure> {
        self.lines(headings, rows, None)
    }

    fn lines(&self, headings: &[&str], rows: &[Vec<String>], width: Option<usize>) -> Result<(), Failure> {
        let head: Vec<String> = headings.iter().map(|text| (*text).to_owned()).collect();
        let mut lines = laid_out(&head, rows, width).into_iter();
        let mut text = String::new();
        if !headings.is_empty()
            && let Some(line) = lines.next()
        {
            let _ = writeln!(text, "{}", self.out.text(Look::Bold, &line));
        }
        lines.for_each(|line| {
            let _ = writeln!(text, "{line}");
        });
        self.bytes(text.as_bytes())
    }
}

/// Between two columns.
const GAP: usize = 2;

/// A cell is not cut to less than this: where so much of it does not fit, it goes to a line below.
const LEAST: usize = 24;

/// A last column with cells longer than this is free text, which goes to a line of its own before any other column has to.
const SHORT: usize = 12;

/// What begins a line below a row.
const INDENT: &str = "    ";

/// Returns the width of the terminal that standard output is, in characters.
pub(super) fn width() -> Option<usize> {
    let stdout = io::stdout();
    let size = stdout.is_terminal().then(|| tcgetwinsize(&stdout).ok()).flatten()?;
    (size.ws_col > 0).then(|| usize::from(size.ws_col))
}

/// Returns how wide each column is, as its widest cell.
fn widths<'a>(rows: impl Iterator<Item = &'a [String]>) -> Vec<usize> {
    let mut widths = Vec::new();
    for row in rows {
        widths.resize(row.len().max(widths.len()), 0);
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    widths
}

/// Which columns of a table stay beside each other on a terminal.
#[derive(Clone, Copy)]
struct Layout {
    /// So many of the first ones.
    first: usize,
    /// Whether the last one does as well.
    has_last: bool,
}

impl Layout {
    /// Returns the one that shows most beside each other in `most` characters, for columns of these widths. The first one, which is
    /// what other commands take, stays in any case.
    fn of(widths: &[usize], most: usize) -> Self {
        let Some((&last, others)) = widths.split_last().filter(|(_, others)| !others.is_empty()) else {
            return Self {
                first: 0,
                has_last: true,
            };
        };
        let needed = |first: usize| {
            let least = others.iter().enumerate().take(first);
            let least = least.map(|(column, width)| least_width(column, *width) + GAP);
            least.sum::<usize>()
        };
        let fits = |first: &usize| needed(*first) + last.min(LEAST) <= most;
        let all = others.len();
        let beside = if last > SHORT { all..=all } else { 1..=all };
        if let Some(first) = beside.rev().find(fits) {
            return Self { first, has_last: true };
        }
        let first = (1..=all).rev().find(|first| needed(*first) <= most + GAP);
        Self {
            first: first.unwrap_or(1),
            has_last: false,
        }
    }

    /// Returns the cells that stay beside each other.
    fn beside<T: Clone>(self, row: &[T]) -> Vec<T> {
        let last = row.last().filter(|_| self.has_last);
        row.iter().take(self.first).chain(last).cloned().collect()
    }

    /// Returns the other cells of a row, on lines below it: each with its heading, and free text by itself.
    fn below(self, headings: &[String], row: &[String], most: usize) -> Vec<String> {
        let Some((last, others)) = row.split_last() else {
            return Vec::new();
        };
        let mut lines: Vec<String> = Vec::new();
        let named = headings.iter().zip(others).skip(self.first);
        for (heading, cell) in named.filter(|(_, cell)| !cell.is_empty()) {
            let text = format!("{} {cell}", heading.to_lowercase());
            let room = most.saturating_sub(text.chars().count() + GAP + INDENT.len());
            match lines.last_mut().filter(|line| line.chars().count() <= room) {
                Some(line) => {
                    line.push_str(&" ".repeat(GAP));
                    line.push_str(&text);
                }
                None => lines.push(text),
            }
        }
        lines.extend(Some(last).filter(|last| !self.has_last && !last.is_empty()).cloned());
        let cut_off = |line: &String| format!("{INDENT}{}", cut(line, most.saturating_sub(INDENT.len())));
        lines.iter().map(cut_off).collect()
    }
}

/// Returns how narrow a column may be made.
fn least_width(column: usize, width: usize) -> usize {
    if column == 0 { width } else { width.min(LEAST) }
}

/// Cuts the widest columns until all of them fit.
fn narrow(widths: &mut [usize], most: usize) {
    let gaps = GAP * widths.len().saturating_sub(1);
    while widths.iter().sum::<usize>() + gaps > most {
        let others = widths.iter_mut().skip(1);
        match others.filter(|width| **width > LEAST).max_by_key(|width| **width) {
            Some(widest) => *widest -= 1,
            None => break,
        }
    }
}

/// Returns a table as lines, the headings first, if there are any.
fn laid_out(headings: &[String], rows: &[Vec<String>], width: Option<usize>) -> Vec<String> {
    let head = Some(headings).filter(|one| !one.is_empty());
    let all = || head.into_iter().chain(rows.iter().map(Vec::as_slice));
    let free = widths(all());
    let Some(most) = width else {
        return all().map(|row| aligned(row, &free)).collect();
    };
    let layout = Layout::of(&free, most);
    let mut widths = layout.beside(&free);
    narrow(&mut widths, most);
    let mut lines = Vec::new();
    lines.extend(head.map(|head| aligned(&layout.beside(head), &widths)));
    for row in rows {
        lines.push(aligned(&layout.beside(row), &widths));
        lines.extend(layout.below(headings, row, most));
    }
    lines
}

/// Returns a row as a line; the last cell is not filled up.
fn aligned(row: &[String], widths: &[usize]) -> String {
    let cells = row
        .iter()
        .zip(widths)
        .map(|(cell, &width)| format!("{:width$}{}", cut(cell, width), " ".repeat(GAP)));
    cells.collect::<String>().trim_end().to_owned()
}

/// Returns a text of at most `width` characters.
fn cut(text: &str, width: usize) -> Cow<'_, str> {
    if text.chars().count() <= width {
        return Cow::Borrowed(text);
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    Cow::Owned(kept + "…")
}

/// Returns whether a character could fool the reader of a text.
fn is_deceptive(letter: char) -> bool {
    let is_control = letter.is_control() && letter != '\n' && letter != '\t';
    is_control
        || matches!(
            letter,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
                | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}'
                | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}'
        )
}

/// Returns the text with everything shown that could fool its reader: control characters, and characters that reorder
/// or hide text. Line feeds and tabs stay.
pub(super) fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(is_deceptive) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::new();
    for letter in text.chars() {
        if is_deceptive(letter) {
            shown.extend(letter.escape_unicode());
        } else {
            shown.push(letter);
        }
    }
    Cow::Owned(shown)
}

/// Returns the text as one visible line, so that it cannot pass for others.
pub(super) fn on_one_line(text: &str) -> String {
    visible(text).replace('\n', "⏎")
}

/// Returns the text as one visible line, cut after `limit` characters.
pub(super) fn short(text: &str, limit: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = visible(&line);
    match line.char_indices().nth(limit) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.into_owned(),
    }
}

/// Returns a count of bytes as people read it.
pub(super) fn bytes(count: i64) -> String {
    const UNITS: [(i64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    for (size, unit) in UNITS {
        if count >= size {
            let tenths = i128::from(count) * 10 / i128::from(size);
            return format!("{}.{} {unit}", tenths / 10, tenths % 10);
        }
    }
    format!("{count} bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_text_is_shown() {
        fn check(text: &str, expected: &str) {
            assert_eq!(visible(text), expected);
        }
        check("ls -la\n\tx", "ls -la\n\tx");
        check("rm -rf /\r echo hi", "rm -rf /\\u{d} echo hi");
        check("a\x1b[2Kb", "a\\u{1b}[2Kb");
        check("x\u{202e}y", "x\\u{202e}y");
        check("a\u{e0061}\u{3164}b", "a\\u{e0061}\\u{3164}b");
        check("zoë ☃", "zoë ☃");
    }

    #[test]
    fn texts_are_cut_to_one_line() {
        fn check(text: &str, limit: usize, expected: &str) {
            assert_eq!(short(text, limit), expected);
        }
        check("a\n  b", 10, "a b");
        check("abcdef", 3, "abc…");
        check("äöü", 3, "äöü");
    }

    #[test]
    fn byte_counts_read_well() {
        fn check(count: i64, expected: &str) {
            assert_eq!(bytes(count), expected);
        }
        check(0, "0 bytes");
        check(1023, "1023 bytes");
        check(1536, "1.5 KiB");
        check(i64::MAX, "8589934591.9 GiB");
    }

    fn cells(row: &[&str]) -> Vec<String> {
        row.iter().map(|cell| (*cell).to_owned()).collect()
    }

    #[test]
    fn columns_are_aligned_and_cut_to_the_terminal() {
        let check = |rows: &[&[&str]], width: Option<usize>, expected: &[&str]| {
            let rows: Vec<_> = rows.iter().map(|row| cells(row)).collect();
            assert_eq!(laid_out(&[], &rows, width), expected);
        };
        check(&[&["a", "x"], &["bcd", ""]], None, &["a    x", "bcd"]);
        check(
            &[&["an-id-that-stays", "a long title"]],
            None,
            &["an-id-that-stays  a long title"],
        );
        check(
            &[&["an-id-that-stays", "a title longer than that"]],
            Some(42),
            &["an-id-that-stays  a title longer than that"],
        );
        check(
            &[&["an-id-that-stays", "a title longer than that one"]],
            Some(42),
            &["an-id-that-stays  a title longer than tha…"],
        );
        check(
            &[&["an-id-that-stays", "a long title"]],
            Some(10),
            &["an-id-that-stays", "    a lon…"],
        );
        check(&[&["1", "äöüäöüäöü"]], Some(9), &["1", "    äöüä…"]);
    }

    #[test]
    fn free_text_that_does_not_fit_has_a_line_of_its_own() {
        let rows = [
            cells(&["an-id", "running", "a title of some length"]),
            cells(&["other", "failed", ""]),
        ];
        let heading = cells(&["CALL", "STATE", "TITLE"]);
        assert_eq!(
            laid_out(&heading, &rows, Some(24)),
            [
                "CALL   STATE",
                "an-id  running",
                "    a title of some len…",
                "other  failed",
            ]
        );
        assert_eq!(
            laid_out(&heading, &rows, Some(40))[1],
            "an-id  running  a title of some length"
        );
    }

    #[test]
    fn columns_that_do_not_fit_are_below_and_no_heading_is_broken() {
        let heading = cells(&["GRANT", "HOLDS", "USES", "LAST USE", "ALLOWS"]);
        let row = cells(&["grant_1", "for good", "0", "", "bash git status *"]);
        let lines = |width: usize| laid_out(&heading, std::slice::from_ref(&row), Some(width));
        assert_eq!(
            lines(60),
            [
                "GRANT    HOLDS     USES  LAST USE  ALLOWS",
                "grant_1  for good  0               bash git status *",
            ]
        );
        assert_eq!(
            lines(30),
            [
                "GRANT    HOLDS     USES",
                "grant_1  for good  0",
                "    bash git status *",
            ]
        );
        assert_eq!(
            lines(18),
            [
                "GRANT    HOLDS",
                "grant_1  for good",
                "    uses 0",
                "    bash git stat…"
            ]
        );
        assert_eq!(lines(16)[0], "GRANT");
        assert_eq!(lines(3)[0], "GRANT");
        // A last column of words stays beside the first, and others go.
        let heading = cells(&["SESSION", "AGENTS", "CALLS", "STATE"]);
        assert_eq!(
            laid_out(&heading, &[cells(&["ses_1", "build", "3", "idle"])], Some(24)),
            ["SESSION  AGENTS  STATE", "ses_1    build   idle", "    calls 3"]
        );
    }
}
