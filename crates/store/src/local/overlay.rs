//! Session facts that are not committed yet.

use std::collections::HashMap;

use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use toolgate_model::{Facts, SessionKey};

/// Facts that are not committed yet.
#[derive(Default)]
pub(super) struct Overlay {
    /// The newest value of each, with the number of its `remember`.
    queued: Mutex<Queued>,
}

#[derive(Default)]
pub(super) struct Queued {
    pub(super) sessions: HashMap<SessionKey, HashMap<String, (u64, Value)>>,
    pub(super) count: u64,
}

impl Overlay {
    pub(super) fn queued(&self) -> MutexGuard<'_, Queued> {
        self.queued.lock()
    }

    pub(super) fn get(&self, session: &SessionKey, key: &str) -> Option<Value> {
        self.queued()
            .sessions
            .get(session)?
            .get(key)
            .map(|(_, value)| value.clone())
    }

    pub(super) fn session(&self, session: &SessionKey) -> Facts {
        let queued = self.queued();
        let facts = queued.sessions.get(session).into_iter().flatten();
        facts.map(|(key, (_, value))| (key.clone(), value.clone())).collect()
    }

    pub(super) fn remove(&self, session: &SessionKey, key: &str, number: u64) {
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
