//! From servers of tools to the client that follows a call: an MCP client hears what a server says in the midst of a call, and
//! may be asked for what only it has, a model for instance.
//!
//! *Invariant:* nothing here decides anything, and nothing is kept: where nobody follows a call, what is said is dropped, and
//! what is asked for is not to be had. Only what a client says it can is asked of it.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::sync::{mpsc, oneshot};
use toolgate_model::CallId;

/// What may wait for a client; notes beyond that are dropped.
const MAX_WAITING: usize = 256;

/// How many of that may be lines for a log, which are long.
const MAX_LINES: usize = 64;

/// What a client that follows a call can be asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Abilities {
    /// It has a model.
    pub sampling: bool,
    /// It has folders.
    pub roots: bool,
}

/// Something of a client that a server may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ability {
    /// A model.
    Sampling,
    /// Folders.
    Roots,
}

/// What a server says to whoever follows a call.
#[derive(Debug)]
pub enum Said {
    /// How far it is.
    Progress {
        /// How far.
        progress: f64,
        /// How far it will be when it is done.
        total: Option<f64>,
        /// What it is doing.
        message: Option<String>,
    },
    /// A line for a log: the parameters of `notifications/message`.
    Logged(Value),
    /// It asks for something, and waits.
    Asks(Vec<Request>),
    /// It asks for what the client says it does not have.
    Lacks(Ability),
    /// A prompt of the call comes next, which belongs to what was asked for.
    PromptFollows,
    /// The prompt is over, or there was none.
    PromptOver,
    /// The result as the server sent it, after the hooks.
    Result(Value),
    /// The error that it answered with.
    Failed {
        /// The code.
        code: i64,
        /// What it said.
        message: String,
    },
}

/// A request of a server to the client.
#[derive(Debug)]
pub struct Request {
    /// Its name among those of the call.
    pub key: String,
    /// The method.
    pub method: String,
    /// What the server wants.
    pub params: Value,
    /// Takes the answer. Dropped, there is none.
    pub answer: oneshot::Sender<Map<String, Value>>,
}

/// What a server answers to a call.
#[derive(Debug)]
pub enum Answer {
    /// The result as the server sent it, after the hooks.
    Result(Value),
    /// An error.
    Failed {
        /// The code.
        code: i64,
        /// What it said.
        message: String,
    },
}

/// Who follows which call.
#[derive(Debug, Default)]
pub struct Relays {
    /// Never held across an await.
    followers: Mutex<HashMap<CallId, Follower>>,
    /// Who takes the answer, of which call. Never held across an await.
    takers: Mutex<HashMap<CallId, Vec<oneshot::Sender<Answer>>>>,
}

/// The way to a client that follows a call.
#[derive(Clone, Debug)]
pub(super) struct Follower {
    pub(super) abilities: Abilities,
    sender: mpsc::Sender<Said>,
}

impl Follower {
    /// Says something that nobody needs to hear.
    pub(super) fn note(&self, said: Said) {
        let waiting = self.sender.max_capacity() - self.sender.capacity();
        if matches!(said, Said::Logged(_)) && waiting >= MAX_LINES {
            return;
        }
        let _ = self.sender.try_send(said);
    }

    /// Says something that must be heard. False if nobody is there any more.
    pub(super) async fn say(&self, said: Said) -> bool {
        self.sender.send(said).await.is_ok()
    }
}

impl Relays {
    /// Follows a call that is about to be made, until what is returned is dropped.
    pub fn follow(self: &Arc<Self>, call: &CallId, abilities: Abilities) -> Followed {
        let (sender, receiver) = mpsc::channel(MAX_WAITING);
        self.followers
            .lock()
            .insert(call.clone(), Follower { abilities, sender });
        Followed {
            relays: Arc::clone(self),
            call: call.clone(),
            receiver,
        }
    }

    /// Takes the answer to a call that is about to be made, or that goes on. Several may: each gets it.
    pub fn take(self: &Arc<Self>, call: &CallId) -> Taken {
        let (sender, receiver) = oneshot::channel();
        self.takers.lock().entry(call.clone()).or_default().push(sender);
        Taken {
            relays: Arc::clone(self),
            call: call.clone(),
            receiver,
        }
    }

    /// Hands out the answer to a call, which is made only if somebody takes it.
    pub(super) fn hand_out(&self, call: &CallId, answer: impl Fn() -> Answer) {
        let takers = self.takers.lock().remove(call).unwrap_or_default();
        for taker in takers {
            // It may have gone meanwhile.
            let _ = taker.send(answer());
        }
    }

    /// Returns the way to whoever follows a call.
    pub(super) fn of(&self, call: &CallId) -> Option<Follower> {
        self.followers.lock().get(call).cloned()
    }
}

/// The answer to a call, which somebody takes.
#[derive(Debug)]
pub struct Taken {
    relays: Arc<Relays>,
    call: CallId,
    receiver: oneshot::Receiver<Answer>,
}

impl Taken {
    /// Returns the answer, if it has come: at the latest when the call has ended.
    pub fn answer(&mut self) -> Option<Answer> {
        self.receiver.try_recv().ok()
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.receiver.close();
        let mut takers = self.relays.takers.lock();
        if let Some(all) = takers.get_mut(&self.call) {
            all.retain(|taker| !taker.is_closed());
            if all.is_empty() {
                takers.remove(&self.call);
            }
        }
    }
}

/// A call that is followed.
#[derive(Debug)]
pub struct Followed {
    relays: Arc<Relays>,
    call: CallId,
    receiver: mpsc::Receiver<Said>,
}

impl Followed {
    /// Waits for what is said next. It never ends: whoever follows a call knows from the call when that is over.
    pub async fn next(&mut self) -> Said {
        match self.receiver.recv().await {
            Some(said) => said,
            None => std::future::pending().await,
        }
    }

    /// Returns what has been said already.
    pub fn said(&mut self) -> Option<Said> {
        self.receiver.try_recv().ok()
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        self.relays.followers.lock().remove(&self.call);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_who_follows_hears() {
        let relays = Arc::new(Relays::default());
        let call = CallId::from("c");
        assert!(relays.of(&call).is_none());
        let mut followed = relays.follow(&call, Abilities::default());
        let follower = relays.of(&call).unwrap();
        follower.note(Said::PromptFollows);
        assert!(matches!(followed.next().await, Said::PromptFollows));
        assert!(followed.said().is_none());
        for _ in 0..=MAX_LINES {
            follower.note(Said::Logged(Value::Null));
        }
        follower.note(Said::PromptOver);
        let lines = std::iter::from_fn(|| followed.said()).filter(|said| matches!(said, Said::Logged(_)));
        assert_eq!(lines.count(), MAX_LINES, "lines leave room for what matters");
        drop(followed);
        assert!(relays.of(&call).is_none());
        assert!(!follower.say(Said::PromptFollows).await);
    }

    #[test]
    fn everybody_who_takes_an_answer_gets_it_and_nothing_is_kept() {
        let relays = Arc::new(Relays::default());
        let call = CallId::from("c");
        let (mut one, mut other, gone) = (relays.take(&call), relays.take(&call), relays.take(&call));
        drop(gone);
        assert!(one.answer().is_none());
        relays.hand_out(&call, || Answer::Result(Value::Bool(true)));
        for taken in [&mut one, &mut other] {
            assert!(matches!(taken.answer(), Some(Answer::Result(Value::Bool(true)))));
        }
        let late = relays.take(&call);
        drop((one, other, late));
        assert!(relays.takers.lock().is_empty());
    }
}
