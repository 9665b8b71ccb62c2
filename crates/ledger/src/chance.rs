//! Pauses of which no two are alike, so that those who lost the same thing at the same moment do not all come back at the same moment.
//!
//! *Invariant:* a pause is never longer than one and a half of what it should be, and a share never longer than the whole.

use std::time::Duration;

/// Returns between half of a pause and one and a half of it.
pub fn with_chance(pause: Duration) -> Duration {
    pause / 2 + share_of(pause)
}

/// Returns a share of a time: none of it, all of it, or something between.
pub fn share_of(time: Duration) -> Duration {
    let [one, other, ..] = *uuid::Uuid::new_v4().as_bytes();
    time * u32::from(u16::from_be_bytes([one, other])) / u32::from(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_about_as_long_as_they_should_be() {
        let pause = Duration::from_secs(5);
        let mut all: Vec<Duration> = (0..100).map(|_| with_chance(pause)).collect();
        assert!(
            all.iter().all(|one| *one >= pause / 2 && *one <= pause * 3 / 2),
            "{all:?}"
        );
        all.sort();
        all.dedup();
        assert!(all.len() > 50, "they differ: {all:?}");
    }
}
