//! Which workers that calls wait for were looked for of late.
//!
//! *Invariant:* however many ask at once, one of them looks.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// How often it is looked what has become of a worker that calls wait for, at most: a round of questions to
/// workers seldom takes longer.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// When it was looked last for the workers that calls wait for.
#[derive(Default)]
pub(super) struct Looks(Mutex<HashMap<String, Instant>>);

impl Looks {
    /// Says whether it is to be looked now, which whoever asks this does.
    pub(super) fn is_due(&self, workspace: &str) -> bool {
        let mut looks = self.0.lock();
        let is_due = looks.get(workspace).is_none_or(|last| last.elapsed() >= LOOK_AGAIN);
        if is_due {
            looks.retain(|_, last| last.elapsed() < LOOK_AGAIN);
            looks.insert(workspace.to_owned(), Instant::now());
        }
        is_due
    }

    /// Takes in that a worker is here: should it go, that is another matter.
    pub(super) fn are_over(&self, workspace: &str) {
        self.0.lock().remove(workspace);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_call_of_many_looks_for_a_worker() {
        let looks = Looks::default();
        let due = |workspace| (0..100).filter(|_| looks.is_due(workspace)).count();
        assert_eq!((due("a"), due("b"), due("a")), (1, 1, 0));
        // Whoever did may have given up.
        tokio::time::advance(LOOK_AGAIN).await;
        assert_eq!(due("a"), 1);
        assert_eq!(looks.0.lock().len(), 1, "what is over is not kept");
        looks.are_over("a");
        assert_eq!(due("a"), 1);
    }
}
