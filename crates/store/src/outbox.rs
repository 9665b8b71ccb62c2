//! What a change has to tell: facts for the audit and events for the journal, and the sequencer that numbers and chains them.
//!
//! A change puts what it has to tell into the outbox in its own transaction, and knows nothing of numbers and hashes. The
//! sequencer takes what is there, in its order, and makes of it the next part of both: one read of where they end, and one
//! new end, for however much there is. A store may do both in one transaction ([`crate::local`]); where many write at once, the
//! outbox is a table with entries as JSON, which one sequencer empties.
//!
//! *Invariant:* nothing here touches a store or a clock. Of the same entries, in whatever portions they are taken, comes the
//! same chain.

use serde::{Deserialize, Serialize};
use toolgate_model::{ServiceEvent, Timestamp};

use crate::StoreError;
use crate::audit::{Fact, Head, Record, RecordError, Recorder};

/// Something to tell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entry {
    /// A fact for the audit.
    Fact(Box<Fact>),
    /// An event for the journal.
    Event(StoredEvent),
}

impl From<Fact> for Entry {
    fn from(fact: Fact) -> Self {
        Self::Fact(Box::new(fact))
    }
}

impl TryFrom<&ServiceEvent> for Entry {
    type Error = StoreError;

    fn try_from(event: &ServiceEvent) -> Result<Self, StoreError> {
        let json = serde_json::to_string(event).map_err(|error| StoreError::Failed {
            context: "write an event of the journal".to_owned(),
            source: Box::new(error),
        })?;
        Ok(Self::Event(StoredEvent { time: event.time, json }))
    }
}

/// An event as the journal keeps it: nobody reads it on the way there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredEvent {
    /// When.
    pub time: Timestamp,
    /// The [`ServiceEvent`] as JSON.
    pub json: String,
}

/// What the changes of a transaction have to tell, in their order.
#[derive(Debug, Default)]
pub struct Outbox(Vec<Entry>);

impl Outbox {
    /// Adds something to tell.
    pub fn tell(&mut self, entry: impl Into<Entry>) {
        self.0.push(entry.into());
    }

    /// Returns how much there is to tell.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Says whether there is nothing to tell.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Says whether there is a fact among what came after so many entries.
    pub fn has_facts_after(&self, count: usize) -> bool {
        let later = self.0.iter().skip(count);
        later.into_iter().any(|entry| matches!(entry, Entry::Fact(_)))
    }

    /// Takes back all but the first entries, because the change that told the others is undone.
    pub fn truncate(&mut self, count: usize) {
        self.0.truncate(count);
    }

    /// Takes everything out.
    pub fn take(&mut self) -> Vec<Entry> {
        std::mem::take(&mut self.0)
    }
}

/// Where the audit and the journal end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ends {
    /// The head of the audit.
    pub audit: Head,
    /// The number of the last event that was ever in the journal.
    pub journal: u64,
}

/// What entries have become, to be stored in one transaction with the new ends.
#[derive(Clone, Debug, PartialEq)]
pub struct Sequenced {
    /// What is added to the audit.
    pub records: Vec<Record>,
    /// What is added to the journal, with its numbers.
    pub events: Vec<(u64, StoredEvent)>,
    /// Where both end now.
    pub ends: Ends,
}

/// Numbers and chains entries behind where the audit and the journal end; `time` is when the records are made.
///
/// # Errors
/// The audit is kept with a key, and there is none here.
pub fn sequence(
    recorder: &Recorder,
    ends: Ends,
    time: Timestamp,
    entries: Vec<Entry>,
) -> Result<Sequenced, RecordError> {
    let (mut facts, mut events, mut journal) = (Vec::new(), Vec::new(), ends.journal);
    for entry in entries {
        match entry {
            Entry::Fact(fact) => facts.push(*fact),
            Entry::Event(event) => {
                journal += 1;
                events.push((journal, event));
            }
        }
    }
    // Events are told also by a process that has not the key of the audit.
    let (records, audit) = match facts.is_empty() {
        true => (Vec::new(), ends.audit),
        false => recorder.chain(ends.audit, time, facts)?,
    };
    Ok(Sequenced {
        records,
        events,
        ends: Ends { audit, journal },
    })
}

#[cfg(test)]
mod tests {
    use toolgate_model::audit_key::Key;
    use toolgate_model::{ServiceEventKind, WorkspaceChange};

    use super::*;
    use crate::audit::{Kind, Verifier};

    fn entries() -> Vec<Entry> {
        let entry = |number: usize| {
            let workspace = format!("w{number}");
            if number.is_multiple_of(3) {
                let change = WorkspaceChange::Changed;
                let event = ServiceEvent {
                    workspace,
                    session: None,
                    time: Timestamp(1),
                    kind: ServiceEventKind::WorkspaceChanged { change },
                };
                return Entry::try_from(&event).unwrap();
            }
            let kind = Kind::Admitted;
            Entry::from(Fact {
                workspace,
                ..Fact::new(kind)
            })
        };
        (0..60).map(entry).collect()
    }

    /// A chain with all the entries, taken so many at a time from a table that keeps them as JSON.
    fn sequenced(recorder: &Recorder, portion: usize) -> (Vec<String>, Vec<(u64, StoredEvent)>, Ends) {
        let (record, audit) = recorder.begin(&"instance".into(), "chain", Timestamp(7));
        let mut ends = Ends { audit, journal: 4 };
        let (mut lines, mut events) = (vec![record.line()], Vec::new());
        let table: Vec<String> = entries()
            .iter()
            .map(|entry| serde_json::to_string(entry).unwrap())
            .collect();
        for rows in table.chunks(portion) {
            let taken = rows.iter().map(|row| serde_json::from_str(row).unwrap()).collect();
            let sequenced = sequence(recorder, ends, Timestamp(7), taken).unwrap();
            lines.extend(sequenced.records.iter().map(Record::line));
            events.extend(sequenced.events);
            ends = sequenced.ends;
        }
        (lines, events, ends)
    }

    #[test]
    fn in_whatever_portions_it_is_taken_the_same_chain_comes_of_it() {
        for key in [None, Key::new(b"0123456789abcdef0123456789abcdef").ok()] {
            let recorder = Recorder {
                key: key.clone(),
                ..Recorder::default()
            };
            let (lines, events, ends) = sequenced(&recorder, 1);
            assert_eq!((lines.len(), events.len()), (41, 20));
            assert!(events.iter().map(|(number, _)| *number).eq(5..25));
            assert_eq!((ends.audit.sequence, ends.journal), (41, 24));
            let mut verifier = Verifier::new(key.into_iter().collect());
            lines.iter().for_each(|line| verifier.line(line.as_bytes()).unwrap());
            verifier.line(ends.audit.line(41).as_bytes()).unwrap();
            verifier.finish().unwrap();
            for portion in [2, 7, 60] {
                assert_eq!(
                    sequenced(&recorder, portion),
                    (lines.clone(), events.clone(), ends.clone())
                );
            }
        }
    }

    #[test]
    fn what_is_undone_is_not_told() {
        let mut outbox = Outbox::default();
        let event = entries().remove(0);
        outbox.tell(event.clone());
        outbox.tell(Fact::new(Kind::Allowed));
        assert!(outbox.has_facts_after(0) && outbox.has_facts_after(1) && !outbox.has_facts_after(2));
        outbox.truncate(1);
        assert!(!outbox.has_facts_after(0));
        assert_eq!((outbox.len(), outbox.take()), (1, vec![event]));
        assert!(outbox.is_empty());
    }

    #[test]
    fn a_chain_with_a_key_does_not_go_on_without_it() {
        let keyed = Recorder {
            key: Key::new(b"0123456789abcdef0123456789abcdef").ok(),
            ..Recorder::default()
        };
        let (_, audit) = keyed.begin(&"instance".into(), "chain", Timestamp(7));
        let ends = Ends { audit, journal: 0 };
        assert!(sequence(&Recorder::default(), ends.clone(), Timestamp(7), entries()).is_err());
        let events = entries().into_iter().filter(|entry| matches!(entry, Entry::Event(_)));
        let told = sequence(&Recorder::default(), ends, Timestamp(7), events.collect()).unwrap();
        assert_eq!((told.records.len(), told.events.len()), (0, 20));
    }
}
