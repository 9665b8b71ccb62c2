//! A change of a call, made ready to be stored: what its record and its new events say, whatever store keeps them.
//!
//! *Invariant:* what is beside a record's JSON repeats what is in it. How a call ended is stored once, in the record; the
//! event that tells it is made from the record when it is read.

use toolgate_model::{CallEvent, CallRecord, EventKind, Outcome};

use crate::audit::Fact;
use crate::codec::{encode, failed};
use crate::outbox::{Entry, Outbox};
use crate::{StoreError, events};

/// A record as it is to be, and what is known of the events that come with it.
pub struct Change {
    /// The record.
    pub record: CallRecord,
    /// The record as JSON.
    pub json: String,
    /// What a text is looked for in, in lower case.
    pub words: String,
    /// The number of the event that must be the last one now.
    pub follows: u64,
    /// Whether the end is among the events.
    pub ends: bool,
    /// What the journal has of it, until it is told.
    pub told: Vec<Entry>,
}

impl Change {
    /// Makes a change ready.
    ///
    /// # Errors
    /// `Conflict` if the events are not consecutive, or do not end where the record says.
    pub fn new(record: CallRecord, new: &[CallEvent]) -> Result<Self, StoreError> {
        let follows = match new.first() {
            Some(first) => first.sequence.checked_sub(1),
            None => Some(record.last_sequence),
        };
        let last = new.last().map_or(record.last_sequence, |last| last.sequence);
        let consecutive = new
            .windows(2)
            .all(|pair| pair[0].sequence.checked_add(1) == Some(pair[1].sequence));
        let Some(follows) = follows.filter(|_| consecutive && last == record.last_sequence) else {
            return Err(StoreError::Conflict(format!(
                "the new events of call {} are not consecutive",
                record.id
            )));
        };
        let told = events::of_call(&record, new);
        let words = [&record.tool, record.id.as_str(), &record.title, &record.summary].join("\n");
        Ok(Self {
            json: encode("a call", &record)?,
            words: words.to_lowercase(),
            follows,
            ends: new.iter().any(|event| matches!(event.kind, EventKind::Ended(_))),
            told: told.iter().map(Entry::try_from).collect::<Result<_, StoreError>>()?,
            record,
        })
    }

    /// As [`Self::new`], for a call that is to be created.
    ///
    /// # Errors
    /// `Conflict` also if the events do not begin at 1.
    pub fn creation(record: CallRecord, new: &[CallEvent]) -> Result<Self, StoreError> {
        let change = Self::new(record, new)?;
        if change.follows != 0 {
            return Err(StoreError::Conflict(format!(
                "the log of call {} does not begin at 1",
                change.record.id
            )));
        }
        Ok(change)
    }

    /// As [`Self::tell`] of a new call, with what was told meanwhile: it follows the admission.
    pub fn tell_of_creation(&mut self, meanwhile: &[Entry], outbox: &mut Outbox) {
        outbox.tell(Fact::admitted(&self.record));
        meanwhile.iter().cloned().for_each(|entry| outbox.tell(entry));
        self.tell(false, outbox);
    }

    /// Puts what it tells into the outbox, of a new call also that it was admitted.
    pub fn tell(&mut self, is_new: bool, outbox: &mut Outbox) {
        if is_new {
            outbox.tell(Fact::admitted(&self.record));
        }
        if self.ends {
            outbox.tell(Fact::ended(&self.record));
        }
        self.told.drain(..).for_each(|event| outbox.tell(event));
    }

    /// Returns the moment of the end in milliseconds; none exactly while the call is unfinished.
    pub fn ended(&self) -> Option<i64> {
        let record = &self.record;
        record
            .state
            .is_terminal()
            .then(|| record.ended.unwrap_or(record.created).millis())
    }

    /// Returns why it failed; none unless it did.
    pub fn reason(&self) -> Option<&'static str> {
        match &self.record.ending.as_ref()?.outcome {
            Outcome::Failed { reason, .. } => Some(reason.as_str()),
            Outcome::Completed { .. } => None,
        }
    }

    /// Says why a call could not be appended to, of what is stored of it.
    pub fn why_not(&self, stored: Option<&CallRecord>) -> StoreError {
        let id = &self.record.id;
        match stored {
            None => StoreError::NotFound(format!("call {id}")),
            Some(stored) if stored.owner != self.record.owner => {
                StoreError::Conflict(format!("call {id} belongs to instance {}", stored.owner))
            }
            Some(stored) => StoreError::Conflict(format!(
                "the log of call {id} ends at {}, not {}",
                stored.last_sequence, self.follows
            )),
        }
    }
}

/// Returns the event that tells how a call ended.
///
/// # Errors
/// Its record has no end.
pub fn end_of(record: CallRecord, sequence: u64) -> Result<CallEvent, StoreError> {
    let ending = record
        .ending
        .ok_or_else(|| failed("read the log of a call", "it has an end that its record does not know"))?;
    Ok(CallEvent {
        sequence,
        time: record.ended.unwrap_or(record.created),
        kind: EventKind::Ended(Box::new(ending)),
    })
}
