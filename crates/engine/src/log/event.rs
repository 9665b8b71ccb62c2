//! The events of a call's log: how they are numbered, and what they do to the call's record.
//!
//! *Invariant:* pure but for the time that an event gets.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use toolgate_model::redact::Redactor;
use toolgate_model::{CallEvent, CallRecord, CallState, EventKind, JsonMap, Timestamp};

/// An event with the bytes of its output, if it has any and they are still at hand.
#[derive(Clone, Debug)]
pub(crate) struct LoggedEvent {
    pub(crate) event: Arc<CallEvent>,
    pub(crate) data: Option<Bytes>,
}

/// Makes the event that the tool of a call starts.
pub(crate) fn running_event(record: &CallRecord, redactor: &Redactor) -> EventKind {
    EventKind::Running {
        input_json: redactor.text(&record.input_json).into_owned(),
        input_digest: record.input_digest.clone(),
        title: record.title.clone(),
    }
}

/// Numbers events and brings the record to where they leave it.
pub(crate) fn apply(record: &mut CallRecord, kinds: Vec<EventKind>) -> Vec<CallEvent> {
    let time = Timestamp::now();
    let mut events = Vec::with_capacity(kinds.len());
    for kind in kinds {
        record.last_sequence += 1;
        match &kind {
            EventKind::Running { .. } => {
                record.state = CallState::Running;
                record.started = Some(time);
            }
            EventKind::Ended(ending) => {
                record.state = ending.state();
                record.ended = Some(time);
                record.waiting_on = None;
                record.ending = Some((**ending).clone());
            }
            EventKind::Pending { .. }
            | EventKind::Metadata { .. }
            | EventKind::Output { .. }
            | EventKind::Waiting { .. }
            | EventKind::Resumed { .. }
            | EventKind::Child { .. }
            | EventKind::Listening { .. }
            | EventKind::Warning { .. } => {}
        }
        events.push(CallEvent {
            sequence: record.last_sequence,
            time,
            kind,
        });
    }
    events
}

/// Applies a metadata patch: absent keys stay, null clears, any other value replaces the key's whole value.
pub(crate) fn merge(metadata: &mut JsonMap, patch: JsonMap) {
    for (key, value) in patch {
        if value == Value::Null {
            metadata.remove(&key);
        } else {
            metadata.insert(key, value);
        }
    }
}
