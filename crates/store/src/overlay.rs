//! Session facts that are not stored yet, seen by those who ask for them.
//!
//! *Invariant:* a fact leaves only when it is stored, and only if it was not replaced meanwhile; so a reader that asks here
//! first and the store second never misses one.

use std::collections::HashMap;

use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use toolgate_model::{Facts, SessionKey};

/// Facts that are not committed yet.
#[derive(Default)]
pub struct Overlay {
    /// The newest value of each, with the number of its `remember`.
    queued: Mutex<Queued>,
}

/// What is queued.
#[derive(Default)]
pub struct Queued {
    /// The newest value of each fact, with its number.
    pub sessions: HashMap<SessionKey, HashMap<String, (u64, Value)>>,
    /// How many were ever queued: the number of the last one.
    pub count: u64,
}

impl Overlay {
    /// Returns what is queued, held: who queues a fact holds it, so that two of the same key have one order.
    pub fn queued(&self) -> MutexGuard<'_, Queued> {
        self.queued.lock()
    }

    /// Returns a fact that is queued.
    pub fn get(&self, session: &SessionKey, key: &str) -> Option<Value> {
        self.queued()
            .sessions
            .get(session)?
            .get(key)
            .map(|(_, value)| value.clone())
    }

    /// Returns the facts of a session that are queued.
    pub fn session(&self, session: &SessionKey) -> Facts {
        let queued = self.queued();
        let facts = queued.sessions.get(session).into_iter().flatten();
        facts.map(|(key, (_, value))| (key.clone(), value.clone())).collect()
    }

    /// Removes a fact that is stored or lost, unless it was replaced since.
    pub fn remove(&self, session: &SessionKey, key: &str, number: u64) {
        let mut queued = self.queued();
        let Some(facts) = queued.sessions.get_mut(session) else {
            return;
        };
        if facts.get(key).is_some_and(|(newest, _)| *newest == number) {
            facts.remove(key);
        }
        if facts.is_empty() {
            queued.sessions.remove(session);
        }
    }
}
