//! Which calls run and which wait for their turn: the part that wakes them.
//!
//! *Invariant:* a call has its [`Turn`] from the moment it counts until its tool is done; dropped, wherever that happens,
//! it leaves no trace, and whoever is next is woken. Nothing is awaited while the lock is held.

mod fair;

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use toolgate_model::{CallRecord, Origin, Queued};

pub(crate) use self::fair::Limit;
pub use self::fair::RunLimits;
pub(crate) use self::fair::Ticket;
use self::fair::{Full, Queue, QueuePosition, SlotOwner, SlotRequest};

/// The calls of one engine, as far as they take turns.
pub(crate) struct Scheduler(Mutex<State>);

struct State {
    queue: Queue,
    /// Wakes those that wait.
    wake: HashMap<Ticket, oneshot::Sender<()>>,
}

/// The place of one call among those that run or wait. Dropping it makes room.
pub(crate) struct Turn {
    scheduler: Arc<Scheduler>,
    ticket: Ticket,
    /// None once it runs.
    waits: Option<(Queued, oneshot::Receiver<()>)>,
}

/// The call below which another one is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parent {
    pub(crate) ticket: Ticket,
    /// It makes the call itself.
    pub(crate) is_maker: bool,
}

impl Scheduler {
    pub(crate) fn new(limits: RunLimits) -> Arc<Self> {
        Arc::new(Self(Mutex::new(State {
            queue: Queue::new(limits),
            wake: HashMap::new(),
        })))
    }

    /// Takes a place for a call.
    pub(crate) fn enter(self: &Arc<Self>, origin: &Origin, bytes: usize, parent: Option<Parent>) -> Result<Turn, Full> {
        let request = SlotRequest {
            owner: owner(origin),
            bytes,
            parent: parent.map(|parent| parent.ticket),
            is_expected: parent.is_some_and(|parent| parent.is_maker),
        };
        let mut state = self.0.lock();
        let (ticket, position) = state.queue.enter(request)?;
        let waits = match position {
            QueuePosition::Runs => None,
            QueuePosition::Waits { limit, ahead } => {
                let (wake, woken) = oneshot::channel();
                state.wake.insert(ticket, wake);
                let limit = limit.key().to_owned();
                Some((
                    Queued {
                        limit,
                        ahead: ahead as u64,
                    },
                    woken,
                ))
            }
        };
        drop(state);
        Ok(Turn {
            scheduler: self.clone(),
            ticket,
            waits,
        })
    }

    /// Takes a place for a call that is taken up after a restart: it counts, and runs.
    pub(crate) fn enter_anyway(self: &Arc<Self>, record: &CallRecord) -> Turn {
        let ticket = self.0.lock().queue.enter_anyway(owner(&record.origin));
        Turn {
            scheduler: self.clone(),
            ticket,
            waits: None,
        }
    }

    /// Returns whether a call waits for its turn.
    pub(crate) fn is_waiting(&self, ticket: Ticket) -> bool {
        self.0.lock().wake.contains_key(&ticket)
    }

    /// Returns how many calls wait for their turn.
    pub(crate) fn waiting(&self) -> usize {
        self.0.lock().queue.waiting()
    }
}

fn owner(origin: &Origin) -> SlotOwner {
    // The same id in another workspace is another session, which takes nothing of this one's share.
    let session = format!("{}\0{}", origin.workspace, origin.session);
    SlotOwner {
        workspace: origin.workspace.as_str().into(),
        session: session.into(),
        principal: origin.payer().into(),
    }
}

impl Turn {
    pub(crate) fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// Returns what the call waits for, if it does.
    pub(crate) fn queued(&mut self) -> Option<Queued> {
        if let Some((_, woken)) = &mut self.waits
            && woken.try_recv().is_ok()
        {
            self.waits = None;
        }
        self.waits.as_ref().map(|(queued, _)| queued.clone())
    }

    /// Waits until the call may run.
    pub(crate) async fn wait(&mut self) {
        if let Some((_, woken)) = &mut self.waits {
            // The other end is kept until it is used: it goes with this place only.
            let _ = woken.await;
            self.waits = None;
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut state = self.scheduler.0.lock();
        state.wake.remove(&self.ticket);
        for started in state.queue.leave(self.ticket) {
            if let Some(wake) = state.wake.remove(&started) {
                // Whoever gave up in this moment gives its slot back by its own drop.
                let _ = wake.send(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use proptest::prelude::*;
    use tokio::task::JoinSet;
    use toolgate_model::{Model, SessionId};

    use super::*;

    fn origin(index: usize) -> Origin {
        Origin {
            workspace: "w".to_owned(),
            session: SessionId::new(format!("s{}", index % 7)),
            directory: String::new(),
            message_id: String::new(),
            agent: "build".to_owned(),
            model: Model::default(),
            client: "cli".to_owned(),
            client_name: String::new(),
            unanswered: None,
            parent: None,
            requester: format!("p{}", index % 3),
            on_behalf_of: Vec::new(),
            clients: Vec::new(),
            extra: Default::default(),
            environment: Default::default(),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        // Whoever gives up does so at any moment, also in the one in which its turn comes.
        #[test]
        fn everybody_runs_or_gives_up_and_nothing_stays(
            max_running in 1..4_usize,
            gives_up in prop::collection::vec(prop::option::weighted(0.4, 0..400_u64), 1..120),
        ) {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
            let ran = runtime.block_on(async {
                let scheduler = Scheduler::new(RunLimits {
                    max_running,
                    max_per_workspace: None,
                    max_per_session: Some(2),
                    max_per_principal: Some(2),
                    max_queued: 1000,
                    max_queued_bytes: 1 << 20,
                });
                let running = Arc::new(AtomicUsize::new(0));
                let mut calls = JoinSet::new();
                for (index, after) in gives_up.iter().copied().enumerate() {
                    let (scheduler, running) = (scheduler.clone(), running.clone());
                    calls.spawn(async move {
                        let mut turn = scheduler.enter(&origin(index), 1, None).unwrap();
                        let limit = Duration::from_micros(after.unwrap_or(60_000_000));
                        if tokio::time::timeout(limit, turn.wait()).await.is_err() {
                            return false;
                        }
                        assert!(turn.queued().is_none());
                        assert!(running.fetch_add(1, Ordering::SeqCst) < max_running);
                        tokio::task::yield_now().await;
                        running.fetch_sub(1, Ordering::SeqCst);
                        true
                    });
                }
                let ran = calls.join_all().await;
                let state = scheduler.0.lock();
                assert!(state.wake.is_empty());
                assert!(state.queue.is_empty());
                ran
            });
            let patient = gives_up.iter().filter(|after| after.is_none()).count();
            prop_assert!(ran.into_iter().filter(|ran| *ran).count() >= patient);
        }
    }
}
