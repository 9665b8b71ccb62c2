//! Outputs that this process writes, as far as the database does not have them yet: those without a byte, and those whose
//! writer went away a moment ago.

use std::collections::HashMap;

use parking_lot::Mutex;
use toolgate_model::{OutputId, Timestamp};
use toolgate_store::{OutputInfo, OutputOwner};

/// What is known here of an output that is being written.
#[derive(Clone)]
pub(crate) struct Live {
    pub(crate) owner: OutputOwner,
    pub(crate) created: Timestamp,
    /// Whether the database has a row of it.
    pub(crate) is_stored: bool,
    /// Its lines, once nobody writes it any more.
    pub(crate) ended: Option<u64>,
}

/// The outputs that this process writes.
#[derive(Default)]
pub(crate) struct LiveOutputs(Mutex<HashMap<OutputId, Live>>);

impl LiveOutputs {
    pub(crate) fn add(&self, id: OutputId, owner: OutputOwner, created: Timestamp) {
        let live = Live {
            owner,
            created,
            is_stored: false,
            ended: None,
        };
        self.0.lock().insert(id, live);
    }

    pub(crate) fn get(&self, id: &OutputId) -> Option<Live> {
        self.0.lock().get(id).cloned()
    }

    pub(crate) fn change(&self, id: &OutputId, change: impl FnOnce(&mut Live)) {
        self.0.lock().get_mut(id).map(change);
    }

    pub(crate) fn remove(&self, id: &OutputId) {
        self.0.lock().remove(id);
    }

    /// Adds to what the database says of an output what it will say in a moment.
    pub(crate) fn complete(&self, mut info: OutputInfo) -> OutputInfo {
        if let Some(lines) = self.get(&info.id).and_then(|live| live.ended)
            && !info.complete
        {
            (info.complete, info.lines) = (true, lines);
        }
        info
    }
}
