//! Calls and their logs in the database.
//!
//! *Invariant:* the columns beside a record's JSON repeat what is in it, and are written in the same statement. How a call
//! ended is stored once, in the record: the text of that event is empty, and it is made from the record when it is read;
//! should the record change after the end, the event is written out first.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, params};
use toolgate_model::{CallEvent, CallId, CallRecord, EventKind, InstanceId, Timestamp};

use super::error::{Doing, decode, encode, limit, signed, unsigned};
use super::instances::Instances;
use super::packed::{self, JSON, Json};
use super::prompts;
use super::{LocalStore, call_list, sessions};
use crate::change::{Change, end_of};
use crate::outbox::Outbox;
use crate::{CallFilter, CallLog, Created, Page, PageRequest, SessionFilter, SessionSummary, StoreError};

/// So many calls are changed in one transaction: all that there are would be more than the log may have.
const CALLS_PER_DELETE: i64 = 64;

/// So many facts are looked at in one transaction, for those of sessions that are gone.
const FACTS_PER_LOOK: i64 = 1_000;

/// A change and its events as they are stored; made before the writer is bothered.
struct Stored {
    change: Change,
    record: packed::Stored,
    events: Vec<(i64, String)>,
}

impl Stored {
    fn new(mut change: Change, events: &[CallEvent]) -> Result<Self, StoreError> {
        let record = packed::Stored::new(std::mem::take(&mut change.json));
        let events = events.iter().map(text_of).collect::<Result<_, StoreError>>()?;
        Ok(Self { change, record, events })
    }

    fn create(mut self, db: &Connection, outbox: &mut Outbox) -> Result<Created, StoreError> {
        let CallRecord {
            id,
            owner,
            origin,
            tool,
            state,
            created,
            last_sequence,
            ..
        } = &self.change.record;
        let added = db
            .prepare_cached(
                "INSERT INTO calls (id, owner, workspace, session, tool, state, created, ended, last_sequence, record,
                     packed, agent, requester, parent, reason, words)
                 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING",
            )
            .and_then(|mut statement| {
                statement.execute(params![
                    id.as_str(),
                    owner.as_str(),
                    origin.workspace,
                    origin.session.as_str(),
                    tool,
                    state.as_str(),
                    created.millis(),
                    self.change.ended(),
                    signed(*last_sequence),
                    self.record.record(),
                    self.record.packed(),
                    origin.agent,
                    origin.requester,
                    origin.parent.as_ref().map(|parent| parent.as_str()),
                    self.change.reason(),
                    self.change.words,
                ])
            })
            .doing(db, "create a call")?;
        if added == 0 {
            let taken = get(db, id)?.ok_or_else(|| StoreError::NotFound(format!("call {id}")))?;
            return Ok(Created::Taken(Box::new(taken)));
        }
        self.store_events(db, db.last_insert_rowid())?;
        self.change.tell(true, outbox);
        Ok(Created::New)
    }

    fn append(mut self, db: &Connection, outbox: &mut Outbox) -> Result<(), StoreError> {
        let CallRecord {
            id,
            owner,
            tool,
            state,
            last_sequence,
            ..
        } = &self.change.record;
        if state.is_terminal() && !self.change.ends {
            keep_end(db, id)?;
        }
        let number: Option<i64> = db
            .prepare_cached(
                "UPDATE calls SET tool = ?, state = ?, ended = ?, last_sequence = ?, record = ?, packed = ?, reason = ?,
                     words = ?
                 WHERE id = ? AND owner = ? AND last_sequence = ? RETURNING number",
            )
            .and_then(|mut statement| {
                let values = params![
                    tool,
                    state.as_str(),
                    self.change.ended(),
                    signed(*last_sequence),
                    self.record.record(),
                    self.record.packed(),
                    self.change.reason(),
                    self.change.words,
                    id.as_str(),
                    owner.as_str(),
                    signed(self.change.follows),
                ];
                statement.query_row(values, |row| row.get(0)).optional()
            })
            .doing(db, "append to a call")?;
        match number {
            Some(number) => {
                self.store_events(db, number)?;
                self.change.tell(false, outbox);
                Ok(())
            }
            None => Err(self.change.why_not(get(db, id)?.as_ref())),
        }
    }

    fn store_events(&self, db: &Connection, call: i64) -> Result<(), StoreError> {
        if self.events.is_empty() {
            return Ok(());
        }
        let what = "store an event";
        let mut statement = db
            .prepare_cached("INSERT INTO events (call, sequence, event) VALUES (?, ?, ?)")
            .doing(db, what)?;
        for (sequence, event) in &self.events {
            statement.execute(params![call, sequence, event]).doing(db, what)?;
        }
        Ok(())
    }

    /// Returns how many bytes are written.
    fn bytes(&self) -> usize {
        let events: usize = self.events.iter().map(|(_, event)| event.len()).sum();
        self.record.len() + events
    }
}

/// Returns the number and the stored text of an event.
fn text_of(event: &CallEvent) -> Result<(i64, String), StoreError> {
    let text = if matches!(event.kind, EventKind::Ended(_)) {
        String::new()
    } else {
        encode("an event", event)?
    };
    Ok((signed(event.sequence), text))
}

/// Writes the event of a call's end out, before the record that it is made from changes.
fn keep_end(db: &Connection, id: &CallId) -> Result<(), StoreError> {
    let Some(record) = get(db, id)? else { return Ok(()) };
    let what = "write out the end of a call";
    let end: Option<(i64, i64)> = db
        .prepare_cached(
            "SELECT call, sequence FROM events
             WHERE call = (SELECT number FROM calls WHERE id = ?) AND event = ''",
        )
        .and_then(|mut statement| {
            statement
                .query_row([id.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))
                .optional()
        })
        .doing(db, what)?;
    let Some((call, sequence)) = end else { return Ok(()) };
    let text = encode("an event", &end_of(record, unsigned(sequence))?)?;
    db.prepare_cached("UPDATE events SET event = ? WHERE call = ? AND sequence = ?")
        .and_then(|mut statement| statement.execute(params![text, call, sequence]))
        .doing(db, what)?;
    Ok(())
}

fn get(db: &Connection, id: &CallId) -> Result<Option<CallRecord>, StoreError> {
    let json: Option<Json> = db
        .prepare_cached(&format!("SELECT {JSON} FROM calls WHERE id = ?"))
        .and_then(|mut statement| statement.query_row([id.as_str()], |row| row.get(0)).optional())
        .doing(db, "read a call")?;
    json.map(|json| decode("a call", &json.0)).transpose()
}

fn namesakes(db: &Connection, id: &CallId) -> Result<Vec<CallId>, StoreError> {
    db.prepare_cached("SELECT id FROM calls WHERE id > ? AND id < ?")
        .and_then(|mut statement| {
            let (from, to) = id.range_within();
            statement
                .query_map([from, to], |row| row.get::<_, String>(0).map(CallId::new))?
                .collect()
        })
        .doing(db, "look for calls of a name")
}

fn events_of(db: &Connection, id: &CallId, after: u64, items: usize) -> Result<Vec<CallEvent>, StoreError> {
    let rows: Vec<(i64, String)> = db
        .prepare_cached(
            "SELECT sequence, event FROM events WHERE call = (SELECT number FROM calls WHERE id = ?) AND sequence > ?
             ORDER BY sequence LIMIT ?",
        )
        .and_then(|mut statement| {
            statement
                .query_map(params![id.as_str(), signed(after), limit(items)], |row| {
                    Ok((row.get(0)?, row.get(1)?))
                })?
                .collect()
        })
        .doing(db, "read the log of a call")?;
    rows.into_iter()
        .map(|(sequence, json)| {
            if !json.is_empty() {
                return decode("an event", &json);
            }
            let record = get(db, id)?.ok_or_else(|| StoreError::NotFound(format!("call {id}")))?;
            end_of(record, unsigned(sequence))
        })
        .collect()
}

/// Takes over some calls; none when there are no more. Everything happens in the writer's transaction, which no other
/// process shares: of two who adopt at once, the second finds the owner changed.
fn adopt(db: &Connection, instances: &Instances, new_owner: &InstanceId) -> Result<Vec<CallRecord>, StoreError> {
    let what = "take over calls of a dead instance";
    let owners: Vec<String> = db
        .prepare_cached("SELECT DISTINCT owner FROM calls WHERE ended IS NULL")
        .and_then(|mut statement| statement.query_map([], |row| row.get(0))?.collect())
        .doing(db, what)?;
    let mut adopted = Vec::new();
    for owner in owners
        .iter()
        .filter(|owner| *owner != new_owner.as_str() && !instances.is_alive(owner))
    {
        let rows: Vec<(i64, Json)> = db
            .prepare_cached(&format!(
                "SELECT number, {JSON} FROM calls WHERE ended IS NULL AND owner = ? ORDER BY number LIMIT ?"
            ))
            .and_then(|mut statement| {
                statement
                    .query_map(params![owner, CALLS_PER_DELETE], |row| Ok((row.get(0)?, row.get(1)?)))?
                    .collect()
            })
            .doing(db, what)?;
        for (number, json) in rows {
            let mut record: CallRecord = decode("a call", &json.0)?;
            record.owner = new_owner.clone();
            let json = packed::Stored::new(encode("a call", &record)?);
            db.prepare_cached("UPDATE calls SET owner = ?, record = ?, packed = ? WHERE number = ?")
                .and_then(|mut statement| {
                    statement.execute(params![new_owner.as_str(), json.record(), json.packed(), number])
                })
                .doing(db, what)?;
            prompts::adopt(db, &record.id, new_owner)?;
            adopted.push(record);
        }
    }
    Ok(adopted)
}

/// Deletes the oldest of the calls that ended before a moment: so many that the log has room for them.
fn sweep(db: &Connection, before: Timestamp) -> Result<usize, StoreError> {
    let what = "delete old calls";
    // A call that ended before a moment was admitted before it: only those that ran for long are looked at in vain.
    let oldest = "created < ?1 AND ended < ?1 ORDER BY created, number LIMIT ?2";
    let some = params![before.millis(), CALLS_PER_DELETE];
    db.prepare_cached(&format!(
        "DELETE FROM prompts WHERE call IN (SELECT id FROM calls INDEXED BY calls_by_time WHERE {oldest})"
    ))
    .and_then(|mut statement| statement.execute(some))
    .doing(db, what)?;
    db.prepare_cached(&format!(
        "DELETE FROM calls WHERE number IN (SELECT number FROM calls INDEXED BY calls_by_time WHERE {oldest})"
    ))
    .and_then(|mut statement| statement.execute(some))
    .doing(db, what)
}

/// Deletes the facts of some sessions that have no calls: those that come after one. Returns the last it has looked at, or none
/// when there are no more.
fn sweep_facts(
    db: &Connection,
    (workspace, session): &(String, String),
) -> Result<Option<(String, String)>, StoreError> {
    let what = "delete facts of old sessions";
    let last: Option<(String, String)> = db
        .prepare_cached(
            "SELECT workspace, session FROM facts WHERE (workspace, session) > (?, ?) ORDER BY workspace, session
             LIMIT 1 OFFSET ?",
        )
        .and_then(|mut statement| {
            let row = statement.query_row(params![workspace, session, FACTS_PER_LOOK], |row| {
                Ok((row.get(0)?, row.get(1)?))
            });
            row.optional()
        })
        .doing(db, what)?;
    let gone = "NOT EXISTS (SELECT 1 FROM sessions WHERE sessions.workspace = facts.workspace AND sessions.session = facts.session)";
    match &last {
        Some((to_workspace, to_session)) => db.execute(
            &format!(
                "DELETE FROM facts WHERE (workspace, session) > (?, ?) AND (workspace, session) <= (?, ?) AND {gone}"
            ),
            [workspace, session, to_workspace, to_session],
        ),
        None => db.execute(
            &format!("DELETE FROM facts WHERE (workspace, session) > (?, ?) AND {gone}"),
            [workspace, session],
        ),
    }
    .doing(db, what)?;
    Ok(last)
}

#[async_trait]
impl CallLog for LocalStore {
    async fn create_call(&self, record: CallRecord, events: Vec<CallEvent>) -> Result<Created, StoreError> {
        let change = Stored::new(Change::creation(record, &events)?, &events)?;
        let bytes = change.bytes();
        if let Err(full) = self.quota.check_records(bytes as u64) {
            if !self.make_room(bytes as u64).await {
                return Err(full);
            }
            self.quota.check_records(bytes as u64)?;
        }
        self.writer
            .tell_sized(bytes, move |db, outbox| change.create(db, outbox))
            .await
    }

    async fn append(&self, record: CallRecord, events: Vec<CallEvent>) -> Result<(), StoreError> {
        let change = Stored::new(Change::new(record, &events)?, &events)?;
        self.writer
            .tell_sized(change.bytes(), move |db, outbox| change.append(db, outbox))
            .await
    }

    async fn get(&self, id: &CallId) -> Result<Option<CallRecord>, StoreError> {
        let id = id.clone();
        self.readers.read(move |db| get(db, &id)).await
    }

    async fn namesakes(&self, id: &CallId) -> Result<Vec<CallId>, StoreError> {
        let id = id.clone();
        self.readers.read(move |db| namesakes(db, &id)).await
    }

    async fn events(&self, id: &CallId, after: u64, limit: usize) -> Result<Vec<CallEvent>, StoreError> {
        let id = id.clone();
        self.readers.read(move |db| events_of(db, &id, after, limit)).await
    }

    async fn list_calls(&self, filter: &CallFilter, page: &PageRequest) -> Result<Page<CallRecord>, StoreError> {
        let (filter, page) = (filter.clone(), page.clone());
        self.readers.read(move |db| call_list::list(db, &filter, &page)).await
    }

    async fn list_sessions(
        &self,
        filter: &SessionFilter,
        page: &PageRequest,
    ) -> Result<Page<SessionSummary>, StoreError> {
        let (filter, page, overlay) = (filter.clone(), page.clone(), self.overlay.clone());
        self.readers
            .read(move |db| sessions::list(db, &overlay, &filter, &page))
            .await
    }

    async fn adopt_orphans(&self, new_owner: &InstanceId) -> Result<Vec<CallRecord>, StoreError> {
        let mut adopted = Vec::new();
        loop {
            let (new_owner, instances) = (new_owner.clone(), self.instances.clone());
            let some = self.writer.write(move |db| adopt(db, &instances, &new_owner)).await?;
            if some.is_empty() {
                return Ok(adopted);
            }
            adopted.extend(some);
        }
    }

    async fn sweep_calls(&self, before: Timestamp) -> Result<usize, StoreError> {
        let mut count = 0;
        loop {
            let some = self.writer.write(move |db| sweep(db, before)).await?;
            if some == 0 {
                break;
            }
            count += some;
        }
        let mut next = Some(Default::default());
        while let Some(after) = next {
            next = self.writer.write(move |db| sweep_facts(db, &after)).await?;
        }
        let instances = self.instances.clone();
        self.writer
            .write(move |db| prompts::sweep_grants(db, &instances).map(drop))
            .await?;
        self.sweep_blobs().await?;
        self.give_space_back().await?;
        Ok(count)
    }
}
