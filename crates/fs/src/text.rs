//! Text as the tools' texts define it: UTF-16 units, JavaScript's white space, byte order marks.
//!
//! *Invariant:* pure. Limits in "characters" count UTF-16 code units and never cut inside a pair
//! (`docs/spec/file-tools.md` §1.10).

/// The byte order mark as text.
pub const BOM: char = '\u{feff}';

/// The byte order mark as the bytes of a file.
pub const BOM_BYTES: &[u8] = b"\xef\xbb\xbf";

/// Splits a leading byte order mark off; the flag says whether there was one.
pub fn split_bom(text: &str) -> (bool, &str) {
    match text.strip_prefix(BOM) {
        Some(rest) => (true, rest),
        None => (false, text),
    }
}

/// Says whether JavaScript counts `c` as white space, in `trim` and in `\s`. Not the same set as
/// [`char::is_whitespace`]: U+0085 is not in it, U+FEFF is.
pub fn is_js_whitespace(c: char) -> bool {
    matches!(
        c,
        '\u{9}'..='\u{d}'
            | ' '
            | '\u{a0}'
            | '\u{1680}'
            | '\u{2000}'..='\u{200a}'
            | '\u{2028}'
            | '\u{2029}'
            | '\u{202f}'
            | '\u{205f}'
            | '\u{3000}'
            | BOM
    )
}

/// Returns the longest start of `text` that has at most `max` UTF-16 units, or `None` if all of it has.
pub fn cut_utf16(text: &str, max: usize) -> Option<&str> {
    // A UTF-16 unit takes at least one byte of UTF-8, so a short text needs no counting.
    if text.len() <= max {
        return None;
    }
    let mut units = 0;
    for (at, c) in text.char_indices() {
        units += c.len_utf16();
        if units > max {
            return Some(&text[..at]);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn white_space_is_javascripts() {
        let listed = "\t\n\u{b}\u{c}\r \u{a0}\u{1680}\u{2000}\u{200a}\u{2028}\u{2029}\u{202f}\u{205f}\u{3000}\u{feff}";
        assert!(listed.chars().all(is_js_whitespace));
        assert!(!"\u{85}\u{200b}\u{180e}a0_".chars().any(is_js_whitespace));
    }

    #[test]
    fn cuts_by_utf16_units() {
        let check =
            |text: &str, max: usize, expected: Option<&str>| assert_eq!(cut_utf16(text, max), expected, "{text}");
        check("abc", 3, None);
        check("abcd", 3, Some("abc"));
        check("ééé", 3, None);
        check("éééé", 3, Some("ééé"));
        check("🚀🚀", 3, Some("🚀"));
        check("🚀🚀", 4, None);
        check("🚀", 1, Some(""));
        check("", 0, None);
    }

    proptest! {
        #[test]
        fn a_cut_is_the_longest_start_that_fits(text in "\\PC{0,40}", max in 0_usize..50) {
            let units = |text: &str| text.encode_utf16().count();
            match cut_utf16(&text, max) {
                None => prop_assert!(units(&text) <= max),
                Some(start) => {
                    prop_assert!(text.starts_with(start) && units(start) <= max && units(&text) > max);
                    let next = text[start.len()..].chars().next().map_or(0, char::len_utf16);
                    prop_assert!(units(start) + next > max);
                }
            }
        }
    }
}
