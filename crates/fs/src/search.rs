//! Searching one file for the lines that match a regular expression.
//!
//! *Invariant:* memory is bounded whatever the file holds: a line that is too long is searched in pieces, what is kept
//! of a line is its beginning, and a file with a NUL byte is binary and has no lines at all.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read};
use std::rc::Rc;

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, MmapChoice, Searcher, SearcherBuilder, Sink, SinkMatch};

/// The longest regular expression, in bytes.
const MAX_PATTERN: usize = 64 * 1024;
/// Memory for the compiled expression, and for its lazy automaton on each thread, in bytes.
const MAX_COMPILED: usize = 2 << 20;
/// UTF-16 units of a line that are shown.
const MAX_SHOWN: usize = 2000;
/// Bytes that hold more than [`MAX_SHOWN`] units, however they are decoded.
const HEAD: usize = 4 * MAX_SHOWN;
/// Files up to this size are read in one go.
const SMALL: usize = 64 * 1024;
/// Bytes after which a line is searched in pieces.
const PIECE: usize = 4 << 20;
/// Bytes by which two pieces of a line overlap, so that a match on the border is found.
const OVERLAP: usize = 64 * 1024;

/// An expression that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ExpressionError {
    /// Longer than any sensible expression.
    #[error("invalid regular expression: it is {length} bytes long, at most {MAX_PATTERN} are allowed")]
    TooLong {
        /// Its length in bytes.
        length: usize,
    },
    /// It can only match across lines.
    #[error(
        "invalid regular expression: a line break (\\n) cannot match, because the search goes line by line. \
         Search for what stands on one of the lines"
    )]
    LineBreak,
    /// The syntax is wrong, or it is too large when compiled.
    #[error("invalid regular expression: {0}")]
    Syntax(String),
}

/// A compiled regular expression.
#[derive(Clone, Debug)]
pub struct Expression(RegexMatcher);

impl Expression {
    /// Compiles a regular expression in Rust's syntax, case sensitive.
    ///
    /// # Errors
    /// It is malformed, too large, or can only match across lines.
    pub fn compile(pattern: &str) -> Result<Self, ExpressionError> {
        if pattern.len() > MAX_PATTERN {
            return Err(ExpressionError::TooLong { length: pattern.len() });
        }
        let built = RegexMatcherBuilder::new()
            .multi_line(true)
            .line_terminator(Some(b'\n'))
            .size_limit(MAX_COMPILED)
            .dfa_size_limit(MAX_COMPILED)
            .build(pattern);
        built.map(Self).map_err(|error| {
            if matches!(error.kind(), grep_regex::ErrorKind::NotAllowed(_)) {
                return ExpressionError::LineBreak;
            }
            let text = error.to_string();
            ExpressionError::Syntax(shorten(text.as_bytes()))
        })
    }
}

/// A line that matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatchedLine {
    /// Its number, from 1.
    pub number: u64,
    /// Its text without its ending; if it is long, the beginning and three dots.
    pub text: String,
}

/// The matches of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileMatches {
    /// The first lines that match.
    pub lines: Vec<MatchedLine>,
    /// Whether there are more than were asked for.
    pub has_more: bool,
}

/// Searches files one after another with the same buffers.
#[derive(Debug)]
pub struct FileSearcher {
    expression: Expression,
    searcher: Searcher,
    small: Vec<u8>,
}

impl FileSearcher {
    /// Makes a searcher for one thread.
    pub fn new(expression: Expression) -> Self {
        let searcher = SearcherBuilder::new()
            .line_number(true)
            .binary_detection(BinaryDetection::quit(0))
            // A mapped file that somebody cuts short kills the process.
            .memory_map(MmapChoice::never())
            .heap_limit(Some(2 * PIECE))
            .build();
        Self {
            expression,
            searcher,
            small: vec![0; SMALL + 1],
        }
    }

    /// Returns the first `most` matching lines of a file, and whether there are more.
    ///
    /// # Errors
    /// The file cannot be read, or `is_stopped` said so.
    pub fn search(
        &mut self,
        mut file: &File,
        size: u64,
        most: usize,
        is_stopped: &dyn Fn() -> bool,
    ) -> io::Result<FileMatches> {
        let breaks = Rc::new(RefCell::new(VecDeque::new()));
        let mut collect = Collect {
            found: FileMatches::default(),
            most,
            is_binary: false,
            breaks: Rc::clone(&breaks),
            passed: 0,
            last: 0,
        };
        let matcher = &self.expression.0;
        let length = match size <= SMALL as u64 {
            true => read_small(file, size, &mut self.small)?,
            false => 0,
        };
        let head = &self.small[..length];
        if size <= SMALL as u64 && length <= SMALL {
            self.searcher.search_slice(matcher, head, &mut collect)?;
        } else {
            let reader = Pieces::new(head.chain(&mut file), breaks, is_stopped);
            self.searcher.search_reader(matcher, reader, &mut collect)?;
        }
        if collect.is_binary {
            return Ok(FileMatches::default());
        }
        Ok(collect.found)
    }
}

/// Reads a file that was small when it was opened; returns how much was read, all of it unless the buffer is full.
fn read_small(mut file: &File, size: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while length < buffer.len() {
        match file.read(&mut buffer[length..]) {
            Ok(0) => break,
            Ok(count) => length += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if length as u64 == size {
            break;
        }
    }
    Ok(length)
}

/// A place where a long line was broken.
struct Break {
    /// Where the next piece begins, in the bytes that the searcher sees.
    at: u64,
    /// The beginning of the line.
    head: Rc<[u8]>,
}

type Breaks = Rc<RefCell<VecDeque<Break>>>;

/// Collects matching lines, and puts the pieces of a long line together again.
struct Collect {
    found: FileMatches,
    most: usize,
    is_binary: bool,
    breaks: Breaks,
    passed: u64,
    last: u64,
}

impl Sink for &mut Collect {
    type Error = io::Error;

    fn matched(&mut self, _searcher: &Searcher, matched: &SinkMatch<'_>) -> io::Result<bool> {
        let start = matched.absolute_byte_offset();
        let mut head = None;
        let mut breaks = self.breaks.borrow_mut();
        while let Some(passed) = breaks.pop_front_if(|first| first.at <= start) {
            self.passed += 1;
            head = (passed.at == start).then_some(passed.head);
        }
        let number = matched.line_number().unwrap_or(0).saturating_sub(self.passed);
        if number == self.last {
            return Ok(true);
        }
        if self.found.lines.len() >= self.most {
            self.found.has_more = true;
            return Ok(false);
        }
        self.last = number;
        let text = shorten(head.as_deref().unwrap_or(matched.bytes()));
        self.found.lines.push(MatchedLine { number, text });
        Ok(true)
    }

    fn binary_data(&mut self, _searcher: &Searcher, _offset: u64) -> io::Result<bool> {
        self.is_binary = true;
        Ok(false)
    }
}

/// Returns a line without its ending, cut after [`MAX_SHOWN`] units.
fn shorten(line: &[u8]) -> String {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let mut text = String::from_utf8_lossy(&line[..line.len().min(HEAD)]).into_owned();
    let mut units = 0;
    let cut = text.char_indices().find_map(|(at, letter)| {
        units += letter.len_utf16();
        (units > MAX_SHOWN).then_some(at)
    });
    if let Some(cut) = cut {
        text.truncate(cut);
        text.push_str("...");
    }
    text
}

/// Reads a file and breaks lines that are too long into overlapping pieces, so that the searcher's buffer stays small.
///
/// A break can let `^` and `$` match inside such a line; that is the price of searching it at all.
struct Pieces<'a, R> {
    inner: R,
    breaks: Breaks,
    is_stopped: &'a dyn Fn() -> bool,
    /// What was read ahead or is given out a second time.
    again: VecDeque<u8>,
    /// Bytes given out so far.
    given: u64,
    /// Bytes of the current line or piece given out so far.
    line: usize,
    /// The beginning of the current line.
    head: Vec<u8>,
    /// The same, once the line was broken.
    broken: Option<Rc<[u8]>>,
    /// The end of the current line.
    tail: Vec<u8>,
    /// In UTF-16 a break would tear characters apart.
    may_break: bool,
    is_begun: bool,
}

impl<'a, R: Read> Pieces<'a, R> {
    fn new(inner: R, breaks: Breaks, is_stopped: &'a dyn Fn() -> bool) -> Self {
        Self {
            inner,
            breaks,
            is_stopped,
            again: VecDeque::new(),
            given: 0,
            line: 0,
            head: Vec::new(),
            broken: None,
            tail: Vec::new(),
            may_break: true,
            is_begun: false,
        }
    }

    /// Looks at the byte order mark: UTF-8's is taken away here, because the searcher's offsets do not count it.
    fn begin(&mut self) -> io::Result<()> {
        let mut mark = Vec::with_capacity(3);
        self.inner.by_ref().take(3).read_to_end(&mut mark)?;
        if mark == b"\xEF\xBB\xBF" {
            mark.clear();
        }
        self.may_break = !mark.starts_with(b"\xFF\xFE") && !mark.starts_with(b"\xFE\xFF");
        self.again.extend(mark);
        self.is_begun = true;
        Ok(())
    }

    fn record_line(&mut self, bytes: &[u8]) {
        self.given += bytes.len() as u64;
        let current = match bytes.iter().rposition(|&byte| byte == b'\n') {
            Some(end) => {
                self.line = 0;
                self.broken = None;
                self.head.clear();
                self.tail.clear();
                &bytes[end + 1..]
            }
            None => bytes,
        };
        self.line += current.len();
        let room = HEAD.saturating_sub(self.head.len()).min(current.len());
        self.head.extend_from_slice(&current[..room]);
        self.tail
            .extend_from_slice(&current[current.len().saturating_sub(OVERLAP)..]);
        if self.tail.len() > 2 * OVERLAP {
            self.tail.drain(..self.tail.len() - OVERLAP);
        }
    }

    fn break_line(&mut self) {
        let head = self.broken.get_or_insert_with(|| Rc::from(self.head.as_slice()));
        self.given += 1;
        self.breaks.borrow_mut().push_back(Break {
            at: self.given,
            head: Rc::clone(head),
        });
        let overlap = self.tail.len().min(OVERLAP);
        self.again.extend(self.tail.drain(self.tail.len() - overlap..));
        self.tail.clear();
        self.line = 0;
    }
}

impl<R: Read> Read for Pieces<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if (self.is_stopped)() {
            return Err(io::Error::other("the search was stopped"));
        }
        if !self.is_begun {
            self.begin()?;
        }
        if buffer.is_empty() {
            return Ok(0);
        }
        if self.may_break && self.line >= PIECE {
            self.break_line();
            buffer[0] = b'\n';
            return Ok(1);
        }
        let most = buffer.len().min(SMALL);
        let buffer = &mut buffer[..most];
        let count = if self.again.is_empty() {
            self.inner.read(buffer)?
        } else {
            self.again.read(buffer)?
        };
        self.record_line(&buffer[..count]);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek, Write};

    fn search(bytes: &[u8], pattern: &str, most: usize) -> FileMatches {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file.rewind().unwrap();
        let mut searcher = FileSearcher::new(Expression::compile(pattern).unwrap());
        let found = searcher.search(&file, bytes.len() as u64, most, &|| false).unwrap();
        // What was small when it was looked at may have grown.
        file.rewind().unwrap();
        let grown = searcher
            .search(&file, bytes.len().min(10) as u64, most, &|| false)
            .unwrap();
        if bytes.len() > SMALL || bytes.len() <= 10 {
            assert_eq!(grown, found);
        }
        found
    }

    fn check(bytes: &[u8], pattern: &str, expected: &[(u64, &str)]) {
        let found = search(bytes, pattern, 100);
        let lines: Vec<(u64, &str)> = found
            .lines
            .iter()
            .map(|line| (line.number, line.text.as_str()))
            .collect();
        assert_eq!(lines, expected);
        assert!(!found.has_more);
    }

    #[test]
    fn finds_lines() {
        check(b"a\nneedle\r\n\nneedle", "needle", &[(2, "needle"), (4, "needle")]);
        check(b"needle \xe9 end\n", "needle", &[(1, "needle \u{fffd} end")]);
        check(b"\xEF\xBB\xBFneedle\n", "^needle", &[(1, "needle")]);
        check(b"\xFF\xFEn\0e\0\n\0x\0", "x", &[(2, "x")]);
        check(b"a\n\nb\n", "^$", &[(2, "")]);
        check(b"", "x*", &[]);
        check(b"needle\0", "needle", &[]);
    }

    #[test]
    fn a_later_nul_byte_makes_a_file_binary() {
        let mut bytes = b"needle\n".repeat(SMALL);
        bytes.push(0);
        let found = search(&bytes, "needle|x", usize::MAX);
        assert_eq!(found, FileMatches::default());
    }

    #[test]
    fn stops_after_what_was_asked_for() {
        let found = search(b"x\nx\nx\n", "x", 2);
        assert_eq!((found.lines.len(), found.has_more), (2, true));
        let found = search(b"x\nx\nx\n", "x", 3);
        assert_eq!((found.lines.len(), found.has_more), (3, false));
        let found = search(b"x\n", "x", 0);
        assert_eq!((found.lines.len(), found.has_more), (0, true));
    }

    #[test]
    fn cuts_long_lines_between_characters() {
        let shown = |units: usize| format!("{}...", "a".repeat(units));
        assert_eq!(shorten("a".repeat(2000).as_bytes()), "a".repeat(2000));
        assert_eq!(shorten("a".repeat(2001).as_bytes()), shown(2000));
        assert_eq!(
            shorten(format!("{}\u{1f600}", "a".repeat(1999)).as_bytes()),
            shown(1999)
        );
        assert_eq!(
            shorten("\u{1f600}".repeat(1001).as_bytes()),
            format!("{}...", "\u{1f600}".repeat(1000))
        );
        assert_eq!(
            shorten("\u{ffff}".repeat(5000).as_bytes()),
            format!("{}...", "\u{ffff}".repeat(2000))
        );
    }

    #[test]
    fn searches_endless_lines_in_pieces() {
        let mut bytes = b"first\nstart ".to_vec();
        bytes.resize(2 * PIECE + SMALL, b'z');
        bytes.extend_from_slice(b"needle and more\nlast needle\n");
        let start = format!("start {}...", "z".repeat(MAX_SHOWN - 6));
        check(&bytes, "needle", &[(2, &start), (3, "last needle")]);
        check(&bytes, "zzz", &[(2, &start)]);
        check(&bytes, "first|last", &[(1, "first"), (3, "last needle")]);
        // A match on the border between two pieces.
        let mut bytes = vec![b'z'; PIECE - 500];
        bytes.resize(PIECE + 500, b'b');
        bytes.resize(PIECE + SMALL, b'z');
        assert_eq!(search(&bytes, "zb{1000}z", 100).lines.len(), 1);
    }

    #[test]
    fn stops_inside_a_file() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&b"x\n".repeat(SMALL)).unwrap();
        file.rewind().unwrap();
        let mut searcher = FileSearcher::new(Expression::compile("y").unwrap());
        assert!(searcher.search(&file, 2 * SMALL as u64, 100, &|| true).is_err());
    }
}
