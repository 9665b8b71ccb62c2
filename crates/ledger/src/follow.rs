//! Hears of a gateway when prompts or grants may have changed.
//!
//! *Invariant:* it is a help only: whoever waits for a change looks now and then all the same. While a gateway is heard that looks more often,
//! for all its workers, most of these looks cost nothing: what was read before is still so, unless the gateway or this run has changed
//! something, or it was read too long ago.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};
use toolgate_contract::cluster::follow_response::Message;

use crate::chance::with_chance;
use crate::holds::Holds;
use crate::wire::HEARTBEAT;

/// How long to wait before a stream is opened again: at first, and at most. Half of it to one and a half, by chance: a gateway that ends is
/// left by all workers at once.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// The shortest pause of a worker in which nothing goes on: nobody waits for what it would hear.
const IDLE_PAUSE: Duration = Duration::from_secs(3);

/// How often it is looked whether there are other workspaces.
const LOOK: Duration = Duration::from_secs(1);

/// How long is good what was read of prompts while a gateway says that nothing has changed, which may be wrong or cut off; and of approvers,
/// of which it says nothing.
pub(crate) const PROMPTS_ARE_GOOD: Duration = Duration::from_secs(5);
pub(crate) const APPROVERS_ARE_GOOD: Duration = Duration::from_secs(2);

/// How far a gateway was heard.
#[derive(Default)]
pub(crate) struct News {
    follows: AtomicBool,
    /// Another one whenever there may have been a change.
    number: AtomicU64,
}

impl News {
    /// Takes note that there may have been a change.
    pub(crate) fn come(&self) {
        self.number.fetch_add(1, Ordering::AcqRel);
    }

    fn follow(&self, follows: bool) {
        self.follows.store(follows, Ordering::Release);
        self.come();
    }

    /// Returns the number of the last change; none while no gateway would say that there is another one.
    fn last(&self) -> Option<u64> {
        self.follows
            .load(Ordering::Acquire)
            .then(|| self.number.load(Ordering::Acquire))
    }
}

/// What was read last, if anything was.
pub(crate) struct Read<T>(Mutex<Option<Known<T>>>);

struct Known<T> {
    /// After which change it was read, and when.
    number: u64,
    begun: Instant,
    workspaces: Vec<String>,
    answer: T,
}

impl<T> Default for Read<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Clone> Read<T> {
    /// Returns what was read of some workspaces if nothing can have changed since, else reads it anew.
    pub(crate) async fn or_else<E>(
        &self,
        (news, good): (&News, Duration),
        workspaces: &[String],
        read: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let (last, begun) = (news.last(), Instant::now());
        if let Some(known) = &*self.0.lock()
            && last == Some(known.number)
            && known.begun.elapsed() < good
            && known.workspaces == workspaces
        {
            return Ok(known.answer.clone());
        }
        let answer = read.await?;
        *self.0.lock() = last.map(|number| Known {
            number,
            begun,
            workspaces: workspaces.to_vec(),
            answer: answer.clone(),
        });
        Ok(answer)
    }
}

/// Notifies of changes for as long as it is polled.
pub(crate) async fn changes(holds: &Holds, (news, changed): (&News, &Notify)) {
    let mut pause = PAUSES.0;
    loop {
        let workspaces = holds.names();
        if workspaces.is_empty() {
            sleep(LOOK).await;
            continue;
        }
        match holds.gateways.follow(workspaces.clone()).await {
            Ok(mut stream) => {
                // There may have been changes while nobody listened.
                news.follow(true);
                changed.notify_one();
                loop {
                    match timeout(HEARTBEAT * 3, stream.message()).await {
                        Ok(Ok(Some(said))) => {
                            pause = PAUSES.0;
                            if matches!(said.message, Some(Message::Changed(_))) {
                                news.come();
                                changed.notify_one();
                            }
                        }
                        Ok(Ok(None) | Err(_)) | Err(_) => break,
                    }
                    if holds.names() != workspaces {
                        break;
                    }
                }
                news.follow(false);
                holds.hurry();
            }
            Err(why) => tracing::debug!(why, "no gateway says when prompts change"),
        }
        let least = match holds.is_idle() {
            true => IDLE_PAUSE,
            false => Duration::ZERO,
        };
        sleep(with_chance(pause.max(least))).await;
        pause = (pause * 2).min(PAUSES.1);
    }
}
