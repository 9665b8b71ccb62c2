//! Notes: what nobody waits for, on its way to a gateway. Facts of sessions, and what audit and journal have besides calls and prompts.
//!
//! *Invariant:* notes are sent in their order, and numbered when they are: those of which no answer came are sent again with their
//! numbers. A note leaves the queue when it is stored; what must come after it waits for that.

use std::collections::VecDeque;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::{MutexGuard, Notify};
use toolgate_contract::cluster::StoreNotesRequest;
use toolgate_model::SessionKey;
use toolgate_store::StoreError;
use toolgate_store::ledger::Note;
use toolgate_store::overlay::Overlay;

use crate::holds::Holds;
use crate::wire;

/// Notes of one request, and the bytes of them.
const PORTION: (usize, usize) = (wire::MAX_NOTES, 4 << 20);

/// Notes that are stored with a change at most, and the bytes of them: what is more goes before it.
const RIDING: (usize, usize) = (256, 512 << 10);

/// While no gateway is reached, so many bytes of notes are kept; what comes on top is lost, and told of in the log.
const MAX_BYTES: usize = 8 << 20;

struct Queued {
    workspace: String,
    note: Note,
    bytes: usize,
    /// Of a fact: its number in the overlay.
    number: u64,
}

#[derive(Default)]
struct Waiting {
    notes: VecDeque<Queued>,
    bytes: usize,
    /// How many have left the queue.
    done: u64,
    closed: bool,
}

/// Notes of one kind and workspace.
type Portion = (String, bool, usize, Vec<u8>);

/// All notes that waited, on their way with a change.
pub(crate) struct Riding<'n> {
    notes: &'n Notes,
    stored: MutexGuard<'n, u64>,
    count: usize,
    /// Their JSON.
    pub(crate) json: Vec<u8>,
}

impl Riding<'_> {
    /// Returns the number of the first one.
    pub(crate) fn first(&self) -> u64 {
        *self.stored + 1
    }

    /// Takes in what came of the change and up to which notes are stored, and returns the former. None if it could not be made like this:
    /// one of the notes may not be taken, so they have to be stored before it. A gateway of an earlier release may have stored the change
    /// alone: then they stay here.
    pub(crate) fn settle<A>(
        mut self,
        answer: Result<(A, u64), StoreError>,
        holds: &Holds,
    ) -> Option<Result<A, StoreError>> {
        match answer {
            Ok((answer, noted)) => {
                let last = *self.stored + self.count as u64;
                if noted >= last {
                    *self.stored = last;
                    holds.has_noted(last);
                    let gone = self.notes.take(self.count);
                    gone.iter().for_each(|note| self.notes.leave(note));
                } else {
                    self.notes.wake.notify_one();
                }
                Some(Ok(answer))
            }
            Err(
                StoreError::Conflict(_) | StoreError::NotFound(_) | StoreError::Full(_) | StoreError::Failed { .. },
            ) => None,
            Err(error) => Some(Err(error)),
        }
    }
}

/// The notes of this run.
#[derive(Default)]
pub(crate) struct Notes {
    state: Mutex<Waiting>,
    /// Held by who sends a portion: how many notes are stored.
    sending: tokio::sync::Mutex<u64>,
    pub(crate) wake: Notify,
    pub(crate) overlay: Overlay,
}

impl Notes {
    /// Queues a note. Never blocks.
    pub(crate) fn add(&self, workspace: &str, note: Note) {
        let bytes = serde_json::to_string(&note).map_or(0, |json| json.len());
        self.queue(Queued {
            workspace: workspace.to_owned(),
            note,
            bytes,
            number: 0,
        });
    }

    /// Queues a fact, which is seen at once.
    pub(crate) fn remember(&self, session: &SessionKey, key: &str, value: Value) {
        let bytes = key.len() + value.to_string().len();
        // Held while the fact is queued, so that the overlay and the queue agree on the order of two of the same name.
        let mut queued = self.overlay.queued();
        queued.count += 1;
        let number = queued.count;
        let facts = queued.sessions.entry(session.clone()).or_default();
        facts.insert(key.to_owned(), (number, value.clone()));
        let note = Note::Fact {
            session: session.clone(),
            key: key.to_owned(),
            value,
        };
        let lost = self.try_queue(Queued {
            workspace: session.workspace.clone(),
            note,
            bytes,
            number,
        });
        drop(queued);
        if let Err((note, why)) = lost {
            self.lose(&note, why);
        }
    }

    fn queue(&self, note: Queued) {
        if let Err((note, why)) = self.try_queue(note) {
            self.lose(&note, why);
        }
    }

    fn try_queue(&self, note: Queued) -> Result<(), (Box<Queued>, &'static str)> {
        let mut state = self.state.lock();
        if state.closed {
            return Err((Box::new(note), "the store is closed"));
        }
        if state.bytes > MAX_BYTES {
            return Err((Box::new(note), "too much waits for a gateway"));
        }
        state.bytes += note.bytes;
        state.notes.push_back(note);
        drop(state);
        self.wake.notify_one();
        Ok(())
    }

    fn lose(&self, lost: &Queued, why: &str) {
        match &lost.note {
            Note::Fact { session, key, .. } => {
                tracing::error!(why, workspace = session.workspace, session = %session.session, key, "a session's fact is lost");
            }
            Note::Event(_) => tracing::error!(why, workspace = lost.workspace, "an event of the journal is lost"),
            Note::Audit(fact) => tracing::error!(why, kind = fact.kind.as_str(), "a record of the audit is lost"),
        }
        self.leave(lost);
    }

    /// Takes a fact out of the overlay.
    fn leave(&self, note: &Queued) {
        if let Note::Fact { session, key, .. } = &note.note {
            self.overlay.remove(session, key, note.number);
        }
    }

    /// Refuses what comes from now on.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
    }

    /// Returns when everything is stored that was queued before.
    pub(crate) async fn flush(&self, holds: &Holds) -> Result<(), StoreError> {
        let Some(until) = self.until() else {
            return Ok(());
        };
        let mut most = PORTION.0;
        loop {
            let mut stored = self.sending.lock().await;
            let Some((workspace, is_audit, count, json)) = self.portion(until, most)? else {
                return Ok(());
            };
            // A refusal may name a workspace that there is not.
            let hold = match holds.any().filter(|_| is_audit && !holds.has(&workspace)) {
                Some(any) => Ok(any),
                None => holds.of(&workspace).await,
            };
            let sent = match hold {
                Ok(hold) => {
                    let question = StoreNotesRequest {
                        holding: Some(wire::holding(&hold)),
                        first: *stored + 1,
                        notes: json,
                    };
                    holds.change(question).await.map(drop)
                }
                Err(error) => Err(error),
            };
            match sent {
                Ok(()) => {
                    *stored += count as u64;
                    holds.has_noted(*stored);
                    self.take(count).iter().for_each(|note| self.leave(note));
                }
                // They are said again later: they may be stored already.
                Err(error @ (StoreError::Unavailable(_) | StoreError::Fenced(_))) => return Err(error),
                // One of them is not taken: the others are not lost with it.
                Err(_) if count > 1 => most = 1,
                Err(error) => {
                    let why = error.to_string();
                    self.take(count).iter().for_each(|note| self.lose(note, &why));
                }
            }
        }
    }

    /// Has all notes that wait go with a change of a workspace, which comes behind them; none if they are stored by then. Those of
    /// others go with it, whose changes need not take any along: so many at once make few requests.
    pub(crate) async fn riding(&self, holds: &Holds, workspace: &str) -> Result<Option<Riding<'_>>, StoreError> {
        let Some(until) = self.until() else {
            return Ok(None);
        };
        let stored = self.sending.lock().await;
        let (count, json) = {
            let state = self.state.lock();
            if state.done >= until {
                return Ok(None);
            }
            let is_here = |one: &Queued| one.workspace == workspace;
            let fit = state.notes.len() <= RIDING.0 && state.bytes <= RIDING.1 && state.notes.iter().all(is_here);
            let notes: Vec<&Note> = state.notes.iter().filter(|_| fit).map(|one| &one.note).collect();
            (notes.len(), wire::json("notes", &notes)?)
        };
        if count == 0 {
            drop(stored);
            self.flush(holds).await?;
            return Ok(None);
        }
        Ok(Some(Riding {
            notes: self,
            stored,
            count,
            json,
        }))
    }

    /// Returns the number of the last note that waits.
    fn until(&self) -> Option<u64> {
        let state = self.state.lock();
        (!state.notes.is_empty()).then(|| state.done + state.notes.len() as u64)
    }

    /// Returns the first notes of one workspace, if they are to be stored by now: it, whether they are for the audit, how many they are, and
    /// their JSON.
    fn portion(&self, until: u64, most: usize) -> Result<Option<Portion>, StoreError> {
        let state = self.state.lock();
        if state.done >= until {
            return Ok(None);
        }
        let Some(first) = state.notes.front() else {
            return Ok(None);
        };
        let room = PORTION.1;
        let is_audit = |note: &Note| matches!(note, Note::Audit(_));
        let mut bytes = 0;
        let alike = state.notes.iter().take(most).take_while(|one| {
            let fits = bytes == 0 || bytes + one.bytes <= room;
            bytes += one.bytes;
            fits && one.workspace == first.workspace && is_audit(&one.note) == is_audit(&first.note)
        });
        let notes: Vec<&Note> = alike.map(|one| &one.note).collect();
        Ok(Some((
            first.workspace.clone(),
            is_audit(&first.note),
            notes.len(),
            wire::json("notes", &notes)?,
        )))
    }

    fn take(&self, count: usize) -> Vec<Queued> {
        let mut state = self.state.lock();
        let count = count.min(state.notes.len());
        let gone: Vec<Queued> = state.notes.drain(..count).collect();
        state.done += gone.len() as u64;
        state.bytes -= gone.iter().map(|note| note.bytes).sum::<usize>();
        gone
    }
}
