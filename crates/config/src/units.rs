//! Durations and sizes as people write them: `250ms`, `10m`, `8MiB`.
//!
//! Not the crates `humantime` and `bytesize`: they take texts that are errors here, such as `1h 30m`, `5w` and `8MB`, and
//! write `7days` for `7d`.

use std::time::Duration;

/// About a hundred years: more is a slip of the hand, and sums with it could overflow.
const MAX_SECONDS: u64 = 100 * 366 * 86_400;

#[rustfmt::skip]
const DURATIONS: [(&str, u64); 5] = [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

#[rustfmt::skip]
const SIZES: [(&str, u64); 5] = [("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40)];

/// Reads a duration: an integer and one of `ms`, `s`, `m`, `h`, `d`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let millis = with_unit(text, &DURATIONS).filter(|millis| millis / 1000 <= MAX_SECONDS);
    millis.map(Duration::from_millis).ok_or_else(|| {
        format!("expected a duration such as \"250ms\", \"10s\", \"5m\", \"2h\" or \"7d\", found {text:?}")
    })
}

/// Reads a number of bytes: an integer, alone or with one of `B`, `KiB`, `MiB`, `GiB`, `TiB`.
pub(super) fn size(text: &str) -> Result<u64, String> {
    text.parse()
        .ok()
        .or_else(|| with_unit(text, &SIZES))
        .ok_or_else(|| format!("expected a number of bytes such as \"8MiB\", \"64KiB\" or 1048576, found {text:?}"))
}

/// Writes a duration in the largest unit that leaves it whole.
pub(super) fn show_duration(duration: Duration) -> String {
    show(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX), &DURATIONS)
}

/// Writes a number of bytes in the largest unit that leaves it whole.
pub(super) fn show_size(bytes: u64) -> String {
    show(bytes, &SIZES)
}

fn with_unit(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let (_, factor) = units.iter().find(|(name, _)| *name == unit.trim_start())?;
    number.parse::<u64>().ok()?.checked_mul(*factor)
}

fn show(number: u64, units: &[(&str, u64)]) -> String {
    let whole = units
        .iter()
        .rev()
        .find(|(_, factor)| number >= *factor && number.is_multiple_of(*factor));
    let (unit, factor) = whole.unwrap_or(&units[0]);
    format!("{}{unit}", number / factor)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations() {
        for (text, millis) in [
            ("250ms", Some(250)),
            ("10s", Some(10_000)),
            ("5 m", Some(300_000)),
            ("2h", Some(7_200_000)),
            ("7d", Some(604_800_000)),
            ("0s", Some(0)),
            ("10", None),
            ("s", None),
            ("", None),
            ("-1s", None),
            ("1.5h", None),
            ("5w", None),
            ("99999999999999999999d", None),
            ("18446744073709551615ms", None),
        ] {
            assert_eq!(duration(text).ok(), millis.map(Duration::from_millis), "{text:?}");
        }
    }

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("1048576", Some(1 << 20)),
            ("8MiB", Some(8 << 20)),
            ("2 GiB", Some(2 << 30)),
            ("1B", Some(1)),
            ("8MB", None),
            ("MiB", None),
            ("99999999999TiB", None),
        ] {
            assert_eq!(size(text).ok(), bytes, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_back(millis in 0..3_000_000_000_u64, bytes: u64) {
            let time = Duration::from_millis(millis);
            prop_assert_eq!(duration(&show_duration(time)), Ok(time));
            prop_assert_eq!(size(&show_size(bytes)), Ok(bytes));
        }

        #[test]
        fn never_panics(text in ".*") {
            let _ = (duration(&text), size(&text));
        }
    }
}
