//! How much a search may cost.
//!
//! *Invariant:* whatever a search does more than once per byte is paid for here first, so that it ends, and soon after
//! its call was cancelled (`spec/file-tools.md` §4.2).

use tokio_util::sync::CancellationToken;

/// What one edit may spend: a tenth of a second or two. Searches that find something spend a small part of it.
const BUDGET: u64 = 100_000_000;

/// What is spent between two looks at the cancellation.
const LOOK_EVERY: u64 = 1 << 16;

/// Why a search stopped before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Halt {
    /// It would have cost too much.
    Exhausted,
    /// Its call was cancelled.
    Cancelled,
}

/// The account of one search. A unit is a byte, a line or a machine word looked at.
#[derive(Debug)]
pub(super) struct Effort<'a> {
    left: u64,
    look_at: u64,
    cancelled: &'a CancellationToken,
}

impl<'a> Effort<'a> {
    pub(super) fn new(cancelled: &'a CancellationToken) -> Self {
        Self {
            left: BUDGET,
            look_at: BUDGET,
            cancelled,
        }
    }

    /// Pays for work that is about to be done.
    pub(super) fn spend(&mut self, units: usize) -> Result<(), Halt> {
        self.left = self.left.checked_sub(units as u64).ok_or(Halt::Exhausted)?;
        if self.left <= self.look_at {
            self.look_at = self.left.saturating_sub(LOOK_EVERY);
            if self.cancelled.is_cancelled() {
                return Err(Halt::Cancelled);
            }
        }
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn spent(&self) -> u64 {
        BUDGET - self.left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_when_nothing_is_left_or_the_call_is_cancelled() {
        let cancelled = CancellationToken::new();
        let mut effort = Effort::new(&cancelled);
        assert_eq!(effort.spend(1), Ok(()));
        assert_eq!(effort.spend(usize::try_from(BUDGET).unwrap()), Err(Halt::Exhausted));
        cancelled.cancel();
        let looks = (0..=LOOK_EVERY).map(|_| effort.spend(1));
        assert!(looks.into_iter().any(|look| look == Err(Halt::Cancelled)));
    }
}
