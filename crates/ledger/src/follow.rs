//! Hears of a gateway when prompts or grants may have changed.
//!
//! *Invariant:* it is a help only: whoever waits for a change looks now and then all the same. While a gateway is heard that looks more often,
//! for all its workers, most of these looks cost nothing: what was read before is still so, unless the gateway or this run has changed
//! something, or it was read too long ago. A worker in which nobody waits for a decision hears of nothing: of thousands, most are such,
//! however many calls they make.

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

/// How long after somebody wanted to know of prompts it is listened on: whoever waits looks more often than that.
const WANTED: Duration = Duration::from_secs(30);

/// How often it is looked whether there are other workspaces.
const LOOK: Duration = Duration::from_secs(1);

/// How long is good what was read of prompts while a gateway says that nothing has changed, which may be wrong or cut off; and of approvers,
/// of which it says nothing.
const PROMPTS_ARE_GOOD: Duration = Duration::from_secs(5);
pub(crate) const APPROVERS_ARE_GOOD: Duration = Duration::from_secs(2);

/// The same of prompts, and for how long: a gateway says nothing of a prompt that was opened and decided elsewhere before it looked. Longer
/// than the two seconds after which a gateway that could not look tells everybody.
const UNSEEN_ARE_GOOD: Duration = Duration::from_millis(500);
const UNSEEN: Duration = Duration::from_secs(3);

/// How far a gateway was heard.
#[derive(Default)]
pub(crate) struct News {
    follows: AtomicBool,
    /// When somebody wanted to know of prompts last.
    wanted: Mutex<Option<Instant>>,
    /// Somebody does.
    wish: Notify,
    /// When there was a prompt last that the gateway may not have seen.
    unseen: Mutex<Option<Instant>>,
    /// Another one whenever there may have been a change.
    number: AtomicU64,
}

impl News {
    /// Takes note that there may have been a change.
    pub(crate) fn come(&self) {
        self.number.fetch_add(1, Ordering::AcqRel);
    }

    /// Takes note that there may be a prompt which the gateway has not seen.
    pub(crate) fn is_unseen(&self) {
        *self.unseen.lock() = Some(Instant::now());
        self.come();
    }

    /// Takes note that somebody wants to know of prompts.
    pub(crate) fn want(&self) {
        *self.wanted.lock() = Some(Instant::now());
        self.wish.notify_one();
    }

    fn is_wanted(&self) -> bool {
        self.wanted.lock().is_some_and(|wanted| wanted.elapsed() < WANTED)
    }

    /// Returns when somebody wants to know of prompts.
    async fn wanted(&self) {
        while !self.is_wanted() {
            self.wish.notified().await;
        }
    }

    fn follow(&self, follows: bool) {
        self.follows.store(follows, Ordering::Release);
        self.is_unseen();
    }

    /// Returns how long is good what was read of prompts.
    pub(crate) fn prompts_are_good(&self) -> Duration {
        match *self.unseen.lock() {
            Some(since) if since.elapsed() < UNSEEN => UNSEEN_ARE_GOOD,
            Some(_) | None => PROMPTS_ARE_GOOD,
        }
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
        if let Some(known) = &*self.0.lock()
            && news.last() == Some(known.number)
            && known.begun.elapsed() < good
            && known.workspaces == workspaces
        {
            return Ok(known.answer.clone());
        }
        self.anew(news, workspaces, read).await
    }

    /// Reads it, whatever was read before.
    pub(crate) async fn anew<E>(
        &self,
        news: &News,
        workspaces: &[String],
        read: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let (last, begun) = (news.last(), Instant::now());
        let answer = read.await?;
        let mut known = self.0.lock();
        // What was read from a later moment on is not forgotten for what is older.
        if let Some(later) = &*known
            && later.begun > begun
            && later.workspaces == workspaces
        {
            return Ok(later.answer.clone());
        }
        *known = last.map(|number| Known {
            number,
            begun,
            workspaces: workspaces.to_vec(),
            answer: answer.clone(),
        });
        Ok(answer)
    }
}

/// Notifies of changes while somebody wants to know of them, for as long as it is polled.
pub(crate) async fn changes(holds: &Holds, (news, changed): (&News, &Notify)) {
    let mut pause = PAUSES.0;
    loop {
        news.wanted().await;
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
                while news.is_wanted() && holds.names() == workspaces {
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
                }
                news.follow(false);
                if !news.is_wanted() {
                    continue;
                }
                holds.hurry();
            }
            Err(why) => tracing::debug!(why, "no gateway says when prompts change"),
        }
        sleep(with_chance(pause)).await;
        pause = (pause * 2).min(PAUSES.1);
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::ready;

    use super::*;

    fn says(answer: u32) -> impl Future<Output = Result<u32, Infallible>> {
        ready(Ok(answer))
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_read_anew_is_what_is_remembered() {
        let (news, read) = (News::default(), Read::default());
        let here = ["main".to_owned()];
        let remembered = async |answer| read.or_else((&news, APPROVERS_ARE_GOOD), &here, says(answer)).await;
        let anew = async |answer| read.anew(&news, &here, says(answer)).await;
        news.follow(true);
        assert_eq!((remembered(1).await, remembered(2).await), (Ok(1), Ok(1)));
        // A call that asks now counts on nothing that was read before it was there, and nobody goes back behind that.
        assert_eq!((anew(3).await, remembered(4).await), (Ok(3), Ok(3)));
        let older = async {
            sleep(Duration::from_secs(1)).await;
            Ok::<_, Infallible>(5)
        };
        let newer = async {
            sleep(Duration::from_millis(500)).await;
            anew(6).await
        };
        let both = tokio::join!(read.anew(&news, &here, older), newer);
        assert_eq!((both, remembered(7).await), ((Ok(6), Ok(6)), Ok(6)));
        sleep(APPROVERS_ARE_GOOD).await;
        assert_eq!(remembered(8).await, Ok(8));
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_is_listened_to_unless_somebody_wants_to_know() {
        let news = News::default();
        let begins = async || timeout(WANTED, news.wanted()).await.is_ok();
        assert!(!begins().await);
        news.want();
        assert!(begins().await && news.is_wanted());
        sleep(WANTED).await;
        assert!(!news.is_wanted(), "nobody has asked for long");
        assert!(!begins().await, "and an old wish is none");
    }

    #[tokio::test(start_paused = true)]
    async fn prompts_that_the_gateway_may_not_have_seen_are_looked_at_often() {
        let news = News::default();
        assert_eq!(news.prompts_are_good(), PROMPTS_ARE_GOOD);
        for unseen in [|news: &News| news.is_unseen(), |news: &News| news.follow(true)] {
            unseen(&news);
            assert_eq!(news.prompts_are_good(), UNSEEN_ARE_GOOD);
            sleep(UNSEEN).await;
            assert_eq!(news.prompts_are_good(), PROMPTS_ARE_GOOD);
        }
    }
}
