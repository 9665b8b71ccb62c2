//! The names of stored outputs, and how their lines are counted.
//!
//! *Invariant:* a name is used as part of a path only after [`is_name`] said that it is one.

use parking_lot::Mutex;
use toolgate_model::{OutputId, Timestamp};
use uuid::{NoContext, Uuid};

const PREFIX: &str = "tool_";
const TIME_DIGITS: usize = 12;
const RANDOM_LETTERS: usize = 14;
const LETTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Makes the names of one service; those of one millisecond are told apart and sorted by a counter.
#[derive(Default)]
pub struct Names {
    /// The millisecond and the counter of the last name.
    last: Mutex<(u64, u64)>,
}

impl Names {
    /// Makes the next one.
    pub fn next(&self, now: Timestamp) -> OutputId {
        let millis = u64::try_from(now.millis()).unwrap_or(0);
        let counter = {
            let mut last = self.last.lock();
            *last = if last.0 == millis {
                (millis, last.1 + 1)
            } else {
                (millis, 1)
            };
            last.1
        };
        let time = millis.wrapping_mul(4096).wrapping_add(counter) & 0xffff_ffff_ffff;
        OutputId::new(format!("{PREFIX}{time:012x}{}", random_letters()))
    }
}

fn random_letters() -> String {
    // Without a context all bits of a version 7 UUID beside its time are random, 62 of them at the low end.
    let bits = || Uuid::new_v7(uuid::Timestamp::from_unix(NoContext, 0, 0)).as_u128() & ((1 << 62) - 1);
    let mut random = bits() << 62 | bits();
    let mut letter = || {
        let index = random % 62;
        random /= 62;
        char::from(LETTERS[index as usize])
    };
    (0..RANDOM_LETTERS).map(|_| letter()).collect()
}

/// Says whether a text is the name of an output.
pub fn is_name(text: &str) -> bool {
    let Some((time, random)) = text
        .strip_prefix(PREFIX)
        .and_then(|rest| rest.split_at_checked(TIME_DIGITS))
    else {
        return false;
    };
    time.bytes()
        .all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
        && random.len() == RANDOM_LETTERS
        && random.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// Lines counted piece by piece, as editors count them: a last line without a line feed counts.
#[derive(Clone, Copy, Default)]
pub struct Lines {
    line_feeds: u64,
    has_open_end: bool,
}

impl Lines {
    /// Adds the next piece.
    pub fn add(&mut self, piece: &[u8]) {
        self.line_feeds += line_feeds(piece);
        if let Some(last) = piece.last() {
            self.has_open_end = *last != b'\n';
        }
    }

    /// Returns how many there are so far.
    pub fn count(self) -> u64 {
        self.line_feeds + u64::from(self.has_open_end)
    }
}

fn line_feeds(piece: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', piece).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_sort_by_time_and_never_repeat() {
        let names = Names::default();
        let made: Vec<String> = [5, 5, 5, 6, 6, 70]
            .iter()
            .map(|millis| names.next(Timestamp(*millis)).to_string())
            .collect();
        assert!(made.is_sorted(), "{made:?}");
        assert!(made.iter().all(|name| is_name(name)), "{made:?}");
        let times: Vec<&str> = made.iter().map(|name| &name[5..17]).collect();
        assert_eq!(
            times,
            [
                "000000005001",
                "000000005002",
                "000000005003",
                "000000006001",
                "000000006002",
                "000000046001"
            ]
        );
        let randoms: std::collections::BTreeSet<&str> = made.iter().map(|name| &name[17..]).collect();
        assert_eq!(randoms.len(), made.len());
    }

    #[test]
    fn line_feeds_are_counted() {
        for length in [0, 1, 254, 255, 256, 511, 100_000] {
            assert_eq!(line_feeds(&vec![b'\n'; length]), length as u64);
            assert_eq!(line_feeds(&vec![0x8a; length]), 0);
        }
        assert_eq!(line_feeds(b"\na\r\n\n"), 3);
    }

    #[test]
    fn names_wrap() {
        let name = Names::default().next(Timestamp((1 << 36) + 1));
        assert_eq!(&name.as_str()[5..17], "000000001001");
    }

    #[test]
    fn what_is_a_name() {
        let check = |text: &str, expected: bool| assert_eq!(is_name(text), expected, "{text:?}");
        check("tool_0123456789abABCDEFGHIJKLMN", true);
        check("tool_0123456789ABABCDEFGHIJKLMN", false);
        check("tool_0123456789abABCDEFGHIJKLM", false);
        check("tool_0123456789abABCDEFGHIJKLMNO", false);
        check("tool_0123456789abABCDEFGHIJKL/N", false);
        check("tool_0123456789abABCDEFGHIJKLM\0", false);
        check("tool_0123456789a\u{e9}BCDEFGHIJKLMN", false);
        check("../../etc/passwd", false);
        check("", false);
    }
}
