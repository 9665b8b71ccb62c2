//! A window of lines of a text, taken from a stream.
//!
//! *Invariant:* one pass in constant memory: of a text of any size only the window is kept, and of a line of any length
//! no more than is shown. Lines end with LF; one CR before it belongs to the ending (`docs/spec/file-tools.md` §2, step
//! 5).

use std::io::{self, Read};

use super::text::{BOM_BYTES, cut_utf16};

/// A longer line is cut to this many UTF-16 units.
const MAX_LINE_UNITS: usize = 2000;

/// What a cut line ends with.
const CUT_MARK: &str = "... (line truncated to 2000 chars)";

/// Bytes of a line that are kept. A UTF-16 unit takes at most three bytes of UTF-8, and invalid bytes become
/// characters of one unit for at most three bytes; so a line that does not fit into this is above the limit, and
/// where it is cut off does not show.
const MAX_LINE_BYTES: usize = 3 * MAX_LINE_UNITS + 16;

/// Bytes of a window: its lines, and one for each line feed between them.
pub const MAX_WINDOW_BYTES: usize = 51_200;

/// Which lines are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The first line, from 1.
    pub offset: u64,
    /// How many lines at most.
    pub limit: u64,
}

/// Why a window ends where it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The text ends there.
    Text,
    /// The limit of lines is reached and there are more.
    Lines,
    /// The next line would exceed [`MAX_WINDOW_BYTES`].
    Bytes,
}

/// Lines of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// The lines, without their endings.
    pub lines: Vec<String>,
    /// The lines of the whole text.
    pub total: u64,
    /// Why there are no more lines.
    pub end: End,
}

/// Reads a text to its end, in blocks of the size of `buffer`, and returns the wanted lines. `start` is what was
/// already read of it. Every block is shown to `on_block`, which may stop the reading by an error.
pub(super) fn read(
    start: &[u8],
    mut rest: impl Read,
    wanted: Wanted,
    buffer: &mut [u8],
    mut on_block: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<Window> {
    let mut scan = Scan::new(wanted);
    on_block(start)?;
    scan.feed(start.strip_prefix(BOM_BYTES).unwrap_or(start));
    loop {
        let count = match rest.read(buffer) {
            Ok(0) => return Ok(scan.finish()),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        on_block(&buffer[..count])?;
        scan.feed(&buffer[..count]);
    }
}

struct Scan {
    wanted: Wanted,
    /// Lines whose line feed was seen.
    passed: u64,
    /// Whether something follows the last line feed.
    open: bool,
    /// The start of the line being read, if it is in the window.
    line: Vec<u8>,
    lines: Vec<String>,
    bytes: usize,
    full: bool,
}

impl Scan {
    fn new(wanted: Wanted) -> Self {
        Self {
            wanted,
            passed: 0,
            open: false,
            line: Vec::new(),
            lines: Vec::new(),
            bytes: 0,
            full: false,
        }
    }

    fn feed(&mut self, block: &[u8]) {
        let Some(last) = block.last() else { return };
        self.open = *last != b'\n';
        let mut rest = self.skip_to_window(block);
        while !rest.is_empty() && self.wants_line() {
            let Some(at) = memchr::memchr(b'\n', rest) else {
                self.keep(rest);
                return;
            };
            self.keep(&rest[..at]);
            self.end_line(true);
            self.passed += 1;
            rest = &rest[at + 1..];
        }
        self.passed += count_line_feeds(rest);
    }

    /// Passes the lines before the window and returns what is left of the block. Whole blocks are only counted.
    fn skip_to_window<'a>(&mut self, block: &'a [u8]) -> &'a [u8] {
        let before = self.wanted.offset.saturating_sub(1);
        if self.passed >= before {
            return block;
        }
        let feeds = count_line_feeds(block);
        if self.passed + feeds < before {
            self.passed += feeds;
            return &[];
        }
        let mut rest = block;
        while self.passed < before {
            let Some(at) = memchr::memchr(b'\n', rest) else {
                return &[];
            };
            self.passed += 1;
            rest = &rest[at + 1..];
        }
        rest
    }

    fn wants_line(&self) -> bool {
        !self.full && (self.lines.len() as u64) < self.wanted.limit
    }

    fn keep(&mut self, part: &[u8]) {
        let room = MAX_LINE_BYTES.saturating_sub(self.line.len());
        self.line.extend_from_slice(&part[..part.len().min(room)]);
    }

    fn end_line(&mut self, by_line_feed: bool) {
        let mut bytes = self.line.as_slice();
        if by_line_feed && bytes.len() < MAX_LINE_BYTES {
            bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        }
        let decoded = String::from_utf8_lossy(bytes);
        let shown = match cut_utf16(&decoded, MAX_LINE_UNITS) {
            Some(start) => format!("{start}{CUT_MARK}"),
            None => decoded.into_owned(),
        };
        let size = shown.len() + usize::from(!self.lines.is_empty());
        if self.bytes + size > MAX_WINDOW_BYTES {
            self.full = true;
        } else {
            self.bytes += size;
            self.lines.push(shown);
        }
        self.line.clear();
    }

    fn finish(mut self) -> Window {
        let before = self.wanted.offset.saturating_sub(1);
        if self.open && self.passed >= before && self.wants_line() {
            self.end_line(false);
        }
        let total = self.passed + u64::from(self.open);
        let shown_to = before.saturating_add(self.lines.len() as u64);
        let end = if self.full {
            End::Bytes
        } else if shown_to < total {
            End::Lines
        } else {
            End::Text
        };
        Window {
            lines: self.lines,
            total,
            end,
        }
    }
}

fn count_line_feeds(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Gives out its bytes in pieces of one size.
    struct Pieces<'a>(&'a [u8], usize);

    impl Read for Pieces<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = self.1.min(self.0.len()).min(buffer.len());
            let (now, later) = self.0.split_at(count);
            buffer[..count].copy_from_slice(now);
            self.0 = later;
            Ok(count)
        }
    }

    fn window(text: &[u8], offset: u64, limit: u64, piece: usize) -> Window {
        // The start is never split within a byte order mark.
        let (start, rest) = text.split_at(text.len().min(piece.max(3)));
        read(
            start,
            Pieces(rest, piece),
            Wanted { offset, limit },
            &mut [0; 64],
            |_| Ok(()),
        )
        .unwrap()
    }

    fn plain(text: &[u8]) -> Vec<String> {
        let text = text.strip_prefix(BOM_BYTES).unwrap_or(text);
        let mut lines: Vec<&[u8]> = text.split(|&byte| byte == b'\n').collect();
        let open = lines.pop().unwrap_or_default();
        let mut lines: Vec<_> = lines
            .iter()
            .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
            .collect();
        if !open.is_empty() {
            lines.push(open);
        }
        lines
            .iter()
            .map(|line| String::from_utf8_lossy(line).into_owned())
            .collect()
    }

    #[test]
    fn splits_lines() {
        let check = |text: &[u8], expected: &[&str]| {
            let seen = window(text, 1, 2000, 5);
            assert_eq!(seen.lines, expected, "{text:?}");
            assert_eq!((seen.total, seen.end), (expected.len() as u64, End::Text), "{text:?}");
        };
        check(b"", &[]);
        check(b"\n", &[""]);
        check(b"a", &["a"]);
        check(b"a\nb", &["a", "b"]);
        check(b"a\r\nb\r\r\n", &["a", "b\r"]);
        check(b"a\rb\n", &["a\rb"]);
        check(b"a\r", &["a\r"]);
        check(b"\xef\xbb\xbfa\n", &["a"]);
        check(b"\xef\xbb\xbf", &[]);
        check(b"caf\xe9 au\n", &["caf\u{fffd} au"]);
        check("日本語\n🚀\n".as_bytes(), &["日本語", "🚀"]);
    }

    #[test]
    fn cuts_long_lines_and_large_windows() {
        let shown = |text: &[u8]| window(text, 1, 2000, 64).lines;
        let cut = |start: String| vec![format!("{start}... (line truncated to 2000 chars)")];
        assert_eq!(shown("x".repeat(2000).as_bytes()), ["x".repeat(2000)]);
        assert_eq!(shown("x".repeat(2001).as_bytes()), cut("x".repeat(2000)));
        assert_eq!(
            shown(format!("{}\r\n", "x".repeat(2000)).as_bytes()),
            ["x".repeat(2000)]
        );
        assert_eq!(shown("€".repeat(2000).as_bytes()), ["€".repeat(2000)]);
        assert_eq!(shown("€".repeat(9000).as_bytes()), cut("€".repeat(2000)));
        assert_eq!(shown("🚀".repeat(1001).as_bytes()), cut("🚀".repeat(1000)));
        assert_eq!(
            shown(format!("x{}", "🚀".repeat(1001)).as_bytes()),
            cut(format!("x{}", "🚀".repeat(999)))
        );
        assert_eq!(shown(&[0xff; 7000]), cut("\u{fffd}".repeat(2000)));

        let text = format!("{}\n", "x".repeat(100)).repeat(1000);
        let seen = window(text.as_bytes(), 1, 2000, 64);
        assert_eq!((seen.lines.len(), seen.total, seen.end), (506, 1000, End::Bytes));
        let seen = window(text.as_bytes(), 507, 2000, 64);
        assert_eq!((seen.lines.len(), seen.total, seen.end), (494, 1000, End::Text));
    }

    #[test]
    fn counts_line_feeds() {
        for length in [0, 1, 191, 192, 193, 1000] {
            assert_eq!(count_line_feeds(&vec![b'\n'; length]), length as u64);
            assert_eq!(count_line_feeds(&vec![b'x'; length]), 0);
        }
    }

    proptest! {
        #[test]
        fn agrees_with_plain_splitting(
            text in proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), Just(b'a'), Just(0xc3), any::<u8>()], 0..60),
            offset in 1_u64..12,
            limit in 1_u64..12,
            piece in 1_usize..9,
        ) {
            let all = plain(&text);
            let seen = window(&text, offset, limit, piece);
            let expected: Vec<_> = all.iter().skip(offset as usize - 1).take(limit as usize).cloned().collect();
            prop_assert_eq!(seen.total, all.len() as u64);
            let more = offset as usize - 1 + expected.len() < all.len();
            prop_assert_eq!(seen.end, if more { End::Lines } else { End::Text });
            prop_assert_eq!(seen.lines, expected);
        }
    }
}
