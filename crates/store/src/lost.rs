//! The end of a call whose run died, and which calls do not end then.
//!
//! *Invariant:* pure. Who looks after what a dead run left, the next run or another process that shares the store, does the same.

use serde_json::json;
use toolgate_model::{CallEvent, CallRecord, CallState, EndReason, Ending, EventKind, Timestamp};

/// Returns whether all that a call does is to wait for a person: it goes on in the next run. The maker of a call that another call or
/// a subagent made is lost with its run, so there would be nobody for its result.
pub fn only_waits(record: &CallRecord) -> bool {
    record.state == CallState::Waiting && !record.made_by_call && !record.in_task
}

/// Says why an open prompt of a lost call is withdrawn.
pub const WITHDRAWN: &str = "the service ended while the call was running";

/// Ends a call as lost, by what its record tells; returns the event.
pub fn end(record: &mut CallRecord, now: Timestamp) -> CallEvent {
    end_without(record, now, 0)
}

/// As [`end`], of a call of whose output so many bytes are missing that its log tells of.
pub fn end_without(record: &mut CallRecord, now: Timestamp, missing: u64) -> CallEvent {
    // Who ends it may have a clock that is behind that of who ran it.
    let now = now.max(record.started.unwrap_or(record.created));
    // Before a tool starts, that is stored.
    let has_started = record.started.is_some() || record.state != CallState::Pending;
    let text = if has_started {
        "The service ended while this call was running, so its result is lost and what it did is not known. Look at \
         the present state before you repeat it."
    } else {
        "The service ended before this call was started. Nothing was done: it can be repeated."
    };
    let text = match missing {
        0 => text.to_owned(),
        _ => format!("{text} Of what it printed, the last {missing} bytes or more are lost."),
    };
    end_told(record, &text, now, missing)
}

/// As [`end`], with a text of who knows more of it.
pub fn end_as(record: &mut CallRecord, text: &str, now: Timestamp) -> CallEvent {
    end_told(record, text, now, 0)
}

/// Says why an open prompt is withdrawn whose call is cancelled by [`cancel_without`].
pub const CANCELLED: &str = "the workspace of the call was suspended or deleted";

/// Ends a call as cancelled whose workspace was taken from its run, as [`end_without`] does.
pub fn cancel_without(record: &mut CallRecord, now: Timestamp, missing: u64) -> CallEvent {
    let now = now.max(record.started.unwrap_or(record.created));
    let text = "The call was cancelled because its workspace was suspended or deleted.";
    end_with(record, Ending::failed(EndReason::Cancelled, text), now, missing)
}

fn end_told(record: &mut CallRecord, text: &str, now: Timestamp, missing: u64) -> CallEvent {
    end_with(record, Ending::failed(EndReason::Lost, text), now, missing)
}

fn end_with(record: &mut CallRecord, mut ending: Ending, now: Timestamp, missing: u64) -> CallEvent {
    let has_started = record.started.is_some() || record.state != CallState::Pending;
    ending.title.clone_from(&record.title);
    ending.metadata.insert("interrupted".to_owned(), json!(true));
    if !has_started {
        ending.metadata.insert("started".to_owned(), json!(false));
    }
    if missing > 0 {
        ending.metadata.insert("lost_output_bytes".to_owned(), json!(missing));
    }
    record.state = ending.state();
    record.ended = Some(now);
    record.waiting_on = None;
    record.ending = Some(ending.clone());
    record.last_sequence += 1;
    CallEvent {
        sequence: record.last_sequence,
        time: now,
        kind: EventKind::Ended(Box::new(ending)),
    }
}
