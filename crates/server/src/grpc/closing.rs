//! The end of a process as its open streams see it: at once, or one after the other, so that thousands of clients do not all come to the
//! next process in the same moment.
//!
//! *Invariant:* a stream that takes a turn hears of the end once. Streams that say what happens end first: nothing is lost with them.
//! Those of calls end last, since many calls come to their own end meanwhile.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// In so many groups streams end one after the other.
const GROUPS: usize = 64;

/// The end of a process.
#[derive(Clone, Default)]
pub struct Closing(Arc<State>);

#[derive(Default)]
struct State {
    begun: CancellationToken,
    first: Groups,
    last: Groups,
    /// What is kept until the process ends.
    kept: Mutex<Vec<Box<dyn Any + Send>>>,
}

struct Groups {
    all: [CancellationToken; GROUPS],
    next: AtomicUsize,
}

impl Default for Groups {
    fn default() -> Self {
        Self {
            all: std::array::from_fn(|_| CancellationToken::new()),
            next: AtomicUsize::new(0),
        }
    }
}

impl Groups {
    fn join(&self) -> CancellationToken {
        let at = self.next.fetch_add(1, Ordering::Relaxed) % GROUPS;
        self.all[at].clone()
    }

    async fn end(&self, time: Duration) {
        for group in &self.all {
            group.cancel();
            if !time.is_zero() {
                sleep(time / GROUPS as u32).await;
            }
        }
    }
}

impl Closing {
    /// Returns what is cancelled when the end begins: for what is no stream, and for streams that are few.
    pub fn at_once(&self) -> &CancellationToken {
        &self.0.begun
    }

    /// Returns what is cancelled when a stream is to end that begins now and has no end of its own.
    pub fn turn(&self) -> CancellationToken {
        self.0.first.join()
    }

    /// Returns what is cancelled when the stream of a call is to end that begins now.
    pub fn last_turn(&self) -> CancellationToken {
        self.0.last.join()
    }

    /// Begins the end. Streams go on until it is their turn.
    pub fn begin(&self) {
        self.0.begun.cancel();
    }

    /// Ends the streams that have no end of their own, spread over a time.
    pub async fn end_first(&self, time: Duration) {
        self.0.first.end(time).await;
    }

    /// Ends the streams of calls, spread over a time.
    pub async fn end_last(&self, time: Duration) {
        self.0.last.end(time).await;
    }

    /// Ends all streams now.
    pub fn close(&self) {
        self.begin();
        let State { first, last, .. } = &*self.0;
        first.all.iter().chain(&last.all).for_each(CancellationToken::cancel);
    }

    /// Keeps something until the process ends.
    pub fn keep(&self, kept: impl Any + Send) {
        self.0.kept.lock().push(Box::new(kept));
    }

    /// Drops what was kept.
    pub fn forget(&self) {
        self.0.kept.lock().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn streams_end_one_after_the_other_and_those_of_calls_last() {
        let closing = Closing::default();
        let turns: Vec<_> = (0..GROUPS * 3).map(|_| closing.turn()).collect();
        let of_call = closing.last_turn();
        let ended = || turns.iter().filter(|turn| turn.is_cancelled()).count();
        closing.begin();
        assert!(closing.at_once().is_cancelled());
        assert_eq!(ended(), 0);
        let time = Duration::from_secs(10);
        let ending = closing.end_first(time);
        tokio::pin!(ending);
        let half = tokio::time::timeout(time / 2 + Duration::from_millis(1), &mut ending).await;
        assert!(half.is_err());
        assert!(
            (turns.len() / 2..=turns.len() / 2 + 6).contains(&ended()),
            "{}",
            ended()
        );
        ending.await;
        assert_eq!((ended(), of_call.is_cancelled()), (turns.len(), false));
        closing.end_last(Duration::ZERO).await;
        assert!(of_call.is_cancelled());
    }

    #[test]
    fn all_may_end_at_once() {
        let closing = Closing::default();
        let turns = [closing.turn(), closing.last_turn(), closing.at_once().clone()];
        closing.close();
        assert!(turns.iter().all(CancellationToken::is_cancelled));
    }
}
