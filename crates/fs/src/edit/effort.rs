//! How much a search may cost.
//!
//! *Invariant:* whatever a search does more than once per byte is paid for here first, so that it ends, and soon after
//! its call was cancelled (`docs/spec/file-tools.md` §4.2).

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
    /// What must be left over, for the work that comes later.
    reserved: u64,
    look_at: u64,
    cancelled: &'a CancellationToken,
}

impl<'a> Effort<'a> {
    pub(super) fn new(cancelled: &'a CancellationToken) -> Self {
        Self {
            left: BUDGET,
            reserved: 0,
            look_at: BUDGET,
            cancelled,
        }
    }

    /// Pays for work that is about to be done.
    pub(super) fn spend(&mut self, units: usize) -> Result<(), Halt> {
        let left = self.left.checked_sub(units as u64);
        self.left = left.filter(|&left| left >= self.reserved).ok_or(Halt::Exhausted)?;
        if self.left <= self.look_at {
            self.look_at = self.left.saturating_sub(LOOK_EVERY);
            if self.cancelled.is_cancelled() {
                return Err(Halt::Cancelled);
            }
        }
        Ok(())
    }

    /// Does work that a search can do without, for at most half of what is left; `None` if that is not enough.
    pub(super) fn with_half<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T, Halt>) -> Result<Option<T>, Halt> {
        let reserved = self.reserved;
        self.reserved = self.left - (self.left - reserved) / 2;
        let result = work(self);
        self.reserved = reserved;
        match result {
            Ok(done) => Ok(Some(done)),
            Err(Halt::Exhausted) => Ok(None),
            Err(Halt::Cancelled) => Err(Halt::Cancelled),
        }
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

    #[test]
    fn what_a_search_can_do_without_leaves_half() {
        let cancelled = CancellationToken::new();
        let mut effort = Effort::new(&cancelled);
        let half = usize::try_from(BUDGET / 2).unwrap();
        assert_eq!(effort.with_half(|effort| effort.spend(half + 1)), Ok(None));
        assert_eq!(effort.with_half(|effort| effort.spend(half)), Ok(Some(())));
        let nested = effort.with_half(|effort| effort.with_half(|effort| effort.spend(half / 2)));
        assert_eq!(nested, Ok(Some(None)));
        assert_eq!(effort.spend(half), Ok(()));
        assert_eq!(effort.spend(1), Err(Halt::Exhausted));
        assert_eq!(
            effort.with_half(|_| Err::<(), Halt>(Halt::Cancelled)),
            Err(Halt::Cancelled)
        );
    }
}
