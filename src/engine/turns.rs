//! Which calls run and which wait for their turn: the part that wakes them.
//!
//! *Invariant:* a call has its [`Turn`] from the moment it counts until its tool is done; dropped, wherever that happens,
//! it leaves no trace, and whoever is next is woken. Nothing is awaited while the lock is held.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;

use super::live::lock;
use super::queue::{Comer, Full, Place, Queue, RunLimits, Ticket, Who};
use crate::call::{CallRecord, Origin, Queued};

/// The calls of one engine, as far as they take turns.
pub(super) struct Turns(Mutex<State>);

struct State {
    queue: Queue,
    /// Wakes those that wait.
    wake: HashMap<Ticket, oneshot::Sender<()>>,
}

/// The place of one call among those that run or wait. Dropping it makes room.
pub(super) struct Turn {
    turns: Arc<Turns>,
    ticket: Ticket,
    /// None once it runs.
    waits: Option<(Queued, oneshot::Receiver<()>)>,
}

/// How a call stands to the one that made it, or in whose name it is made.
#[derive(Clone, Copy, Debug)]
pub(super) enum Above {
    /// There is none that waits for it.
    Nobody,
    /// That one may wait for it.
    Waits(Ticket),
    /// That one made it itself.
    Made(Ticket),
}

impl Turns {
    pub(super) fn new(limits: RunLimits) -> Arc<Self> {
        Arc::new(Self(Mutex::new(State {
            queue: Queue::new(limits),
            wake: HashMap::new(),
        })))
    }

    /// Takes a place for a call.
    pub(super) fn enter(self: &Arc<Self>, origin: &Origin, bytes: usize, above: Above) -> Result<Turn, Full> {
        let (below, is_expected) = match above {
            Above::Nobody => (None, false),
            Above::Waits(ticket) => (Some(ticket), false),
            Above::Made(ticket) => (Some(ticket), true),
        };
        let comer = Comer {
            who: who(origin),
            bytes,
            below,
            is_expected,
        };
        let mut state = lock(&self.0);
        let (ticket, place) = state.queue.enter(comer)?;
        let waits = match place {
            Place::Runs => None,
            Place::Waits { limit, ahead } => {
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
            turns: self.clone(),
            ticket,
            waits,
        })
    }

    /// Takes a place for a call that is taken up after a restart: it counts, and runs.
    pub(super) fn enter_anyway(self: &Arc<Self>, record: &CallRecord) -> Turn {
        let ticket = lock(&self.0).queue.enter_anyway(who(&record.origin));
        Turn {
            turns: self.clone(),
            ticket,
            waits: None,
        }
    }

    /// Says whether a call waits for its turn.
    pub(super) fn is_waiting(&self, ticket: Ticket) -> bool {
        lock(&self.0).wake.contains_key(&ticket)
    }

    /// Returns how many calls wait for their turn.
    pub(super) fn waiting(&self) -> usize {
        lock(&self.0).queue.waiting()
    }
}

fn who(origin: &Origin) -> Who {
    Who {
        workspace: origin.workspace.as_str().into(),
        session: origin.session.as_str().into(),
        principal: origin.requester.as_str().into(),
    }
}

impl Turn {
    pub(super) fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// Returns what the call waits for, if it does.
    pub(super) fn queued(&mut self) -> Option<Queued> {
        if let Some((_, woken)) = &mut self.waits
            && woken.try_recv().is_ok()
        {
            self.waits = None;
        }
        self.waits.as_ref().map(|(queued, _)| queued.clone())
    }

    /// Waits until the call may run.
    pub(super) async fn comes(&mut self) {
        if let Some((_, woken)) = &mut self.waits {
            // The other end is kept until it is used: it goes with this place only.
            let _ = woken.await;
            self.waits = None;
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut state = lock(&self.turns.0);
        state.wake.remove(&self.ticket);
        for started in state.queue.leave(self.ticket) {
            if let Some(wake) = state.wake.remove(&started) {
                // Whoever gave up in this moment gives its slot back by its own drop.
                let _ = wake.send(());
            }
        }
    }
}
