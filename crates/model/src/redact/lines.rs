//! Texts without the ends of lines in the middle of what is encoded: `base64` and `xxd -p` write lines of a fixed length.
//!
//! *Invariant:* pure, and in the time that it takes to read the text.

/// A text without line ends between letters, and where each byte of it was.
pub(super) struct Joined {
    pub(super) bytes: Vec<u8>,
    /// How many bytes were left out before a byte and all after it, in order.
    cuts: Vec<(usize, usize)>,
}

impl Joined {
    /// Joins the lines of a text; none if there is nothing to join.
    pub(super) fn new(text: &[u8]) -> Option<Self> {
        Self::join(text, false)
    }

    /// As [`Self::new`], for a text that goes on: a line end at its end may turn out to be one to be left out.
    pub(super) fn new_unfinished(text: &[u8]) -> Option<Self> {
        Self::join(text, true)
    }

    fn join(text: &[u8], goes_on: bool) -> Option<Self> {
        memchr::memchr(b'\n', text)?;
        let (mut bytes, mut cuts) = (Vec::with_capacity(text.len()), Vec::new());
        let (mut from, mut left_out) = (0, 0);
        for feed in memchr::memchr_iter(b'\n', text) {
            let end = feed - usize::from(feed > 0 && text[feed - 1] == b'\r');
            let after = text.get(feed + 1).copied();
            let is_between = end > from.min(end) && is_letter(text[end - 1]) && after.map_or(goes_on, is_letter);
            if is_between {
                bytes.extend_from_slice(&text[from..end]);
                left_out += feed + 1 - end;
                cuts.push((bytes.len(), left_out));
                from = feed + 1;
            }
        }
        if cuts.is_empty() {
            return None;
        }
        bytes.extend_from_slice(&text[from..]);
        Some(Self { bytes, cuts })
    }

    /// Returns where in the text a byte was.
    pub(super) fn place(&self, at: usize) -> usize {
        let before = self.cuts.partition_point(|(from, _)| *from <= at);
        let left_out = before.checked_sub(1).map_or(0, |last| self.cuts[last].1);
        at + left_out
    }
}

fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+/=-_".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_joined_and_places_found() {
        let text = b"a b\ncd\r\ne\n\nf\n";
        let joined = Joined::new(text).unwrap();
        assert_eq!(joined.bytes, b"a bcde\n\nf\n");
        let shown: Vec<u8> = (0..joined.bytes.len()).map(|at| text[joined.place(at)]).collect();
        assert_eq!(shown, joined.bytes);
        assert!(Joined::new(b"a \n b\n").is_none() && Joined::new(b"ab").is_none());
        assert_eq!(Joined::new_unfinished(b"ab\n").unwrap().bytes, b"ab");
    }
}
