//! Where a character stands: as people count, and as servers do.
//!
//! People and models count characters from 1. Servers count from 0, in UTF-16 units unless they say otherwise.
//!
//! *Invariant:* pure. A place beyond the end of a line, or of the text, stays beyond it by as much.

/// In what servers count within a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Encoding {
    Utf8,
    #[default]
    Utf16,
    Utf32,
}

impl Encoding {
    /// Returns the encoding of that name; a name that nobody knows is that of the default.
    pub(super) fn named(name: &str) -> Self {
        match name {
            "utf-8" => Self::Utf8,
            "utf-32" => Self::Utf32,
            _ => Self::Utf16,
        }
    }

    fn units(self, c: char) -> usize {
        match self {
            Self::Utf8 => c.len_utf8(),
            Self::Utf16 => c.len_utf16(),
            Self::Utf32 => 1,
        }
    }
}

/// Returns how many units of `encoding` stand before a character, `character` and `line` counted from 1.
pub(super) fn units_before(text: &str, line: u32, character: u32, encoding: Encoding) -> u64 {
    let wanted = u64::from(character.saturating_sub(1));
    let (mut passed, mut units) = (0, 0);
    for c in line_of(text, line).unwrap_or_default().chars() {
        if passed == wanted {
            break;
        }
        passed += 1;
        units += encoding.units(c) as u64;
    }
    units + (wanted - passed)
}

/// Returns a line without its end, counted from 1. Lines end as the protocol says: `\n`, `\r\n` or `\r`.
fn line_of(text: &str, number: u32) -> Option<&str> {
    let mut left = text;
    for _ in 1..number {
        let end = left.find(['\n', '\r'])?;
        let length = if left[end..].starts_with("\r\n") { 2 } else { 1 };
        left = &left[end + length..];
    }
    left.split(['\n', '\r']).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_as_servers_do() {
        let text = "one\r\ntwo\rä€😀x\n";
        let check = |line: u32, character: u32, expected: [u64; 3]| {
            let found = [Encoding::Utf8, Encoding::Utf16, Encoding::Utf32]
                .map(|encoding| units_before(text, line, character, encoding));
            assert_eq!(found, expected, "{line}:{character}");
        };
        check(1, 1, [0, 0, 0]);
        check(2, 3, [2, 2, 2]);
        check(3, 1, [0, 0, 0]);
        check(3, 2, [2, 1, 1]);
        check(3, 3, [5, 2, 2]);
        check(3, 4, [9, 4, 3]);
        check(3, 5, [10, 5, 4]);
        check(3, 7, [12, 7, 6]);
        check(1, 9, [8, 8, 8]);
        check(4, 3, [2, 2, 2]);
        check(9, 5, [4, 4, 4]);
        check(u32::MAX, u32::MAX, [u64::from(u32::MAX) - 1; 3]);
        check(0, 0, [0, 0, 0]);
    }

    #[test]
    fn servers_name_what_they_count_in() {
        for (name, expected) in [
            ("utf-8", Encoding::Utf8),
            ("utf-16", Encoding::Utf16),
            ("utf-32", Encoding::Utf32),
            ("ebcdic", Encoding::Utf16),
        ] {
            assert_eq!(Encoding::named(name), expected);
        }
    }
}
