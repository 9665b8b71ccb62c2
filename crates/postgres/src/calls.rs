//! Calls and their logs.
//!
//! *Invariant:* a change of a call is one statement, and so one transaction and one round trip: a function of the database stores the
//! record, a row of events, and what there is to tell (`migrations/0003.sql`). It begins with the fence.
//!
//! A change of which no answer came may be stored or not, and its writer cannot tell: it says the same again, with more behind it
//! perhaps. What of it is there already is recognized then and not stored again. Of another writer's change nothing is: one that
//! nobody is unsure of is refused if it does not fit.
//!
//! How a call ended is stored once, in the record: in the row of events it is a null. Should the record change after the end,
//! the event is written out first.

use std::collections::BTreeSet;

use async_trait::async_trait;
use toolgate_model::{CallEvent, CallId, CallRecord, EventKind, InstanceId, Timestamp};
use toolgate_store::change::{Change, end_of};
use toolgate_store::codec::{decode, encode, signed, unsigned};
use toolgate_store::outbox::Outbox;
use toolgate_store::{CallFilter, CallLog, Created, Page, PageRequest, SessionFilter, SessionSummary, StoreError};

use crate::connection::{Database, Session, retrying};
use crate::fence::{self, Fence, Held};
use crate::notes::{Numbered, riding};
use crate::partitions::{day_of, place, place_in};
use crate::query::Query;
use crate::sequencer::entries;
use crate::store::PostgresStore;
use crate::text::{Key, escaped, key, plain};
use crate::values::values;
use crate::{adoption, retention, sessions};

/// Rows of events that one statement brings, each of one flush.
const EVENT_ROWS: i64 = 16;

/// Events as they are stored: one row of a flush.
struct Batch {
    first: i64,
    last: i64,
    ends: bool,
    /// None without events.
    json: Option<String>,
}

impl Batch {
    fn new(events: &[CallEvent]) -> Result<Self, StoreError> {
        let is_end = |event: &CallEvent| matches!(event.kind, EventKind::Ended(_));
        let sequence = |event: Option<&CallEvent>| event.map_or(0, |event| signed(event.sequence));
        let stored: Vec<Option<&CallEvent>> = events
            .iter()
            .map(|event| Some(event).filter(|one| !is_end(one)))
            .collect();
        Ok(Self {
            first: sequence(events.first()),
            last: sequence(events.last()),
            ends: events.iter().any(is_end),
            json: (!events.is_empty()).then(|| encode("events", &stored)).transpose()?,
        })
    }
}

/// Reads a row of events; `record` is the call's, if an end is among them.
fn events_in(first: i64, batch: &str, record: Option<&str>) -> Result<Vec<CallEvent>, StoreError> {
    let stored: Vec<Option<CallEvent>> = decode("events", batch)?;
    let sequences = unsigned(first)..;
    let read = |(sequence, event): (u64, Option<CallEvent>)| match event {
        Some(event) => Ok(event),
        None => end_of(decode("a call", record.unwrap_or_default())?, sequence),
    };
    sequences.zip(stored).map(read).collect()
}

/// Returns what a change has to tell, as a row of the outbox has it.
fn told_by(change: &mut Change, is_new: bool) -> Result<Option<String>, StoreError> {
    let mut outbox = Outbox::default();
    change.tell(is_new, &mut outbox);
    entries(outbox.take())
}

/// Returns which of some calls there are.
pub(crate) async fn known_of<'c>(db: &Database, ids: &BTreeSet<&'c CallId>) -> Result<Vec<&'c CallId>, StoreError> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let keys: Vec<String> = ids.iter().map(|id| key(id.as_str())).collect();
    let sql = "SELECT id FROM call_days WHERE id = ANY ($1)";
    let rows = db.rows("look which calls there are", sql, values![keys]).await?;
    let known: BTreeSet<String> = rows.iter().map(|row| row.get(0)).collect();
    let ids = ids.iter().copied();
    Ok(ids.filter(|id| known.contains(&key(id.as_str()))).collect())
}

/// Returns the workspace of a call, as statements name it.
pub(crate) async fn workspace_of(db: &Database, id: &CallId) -> Result<Option<String>, StoreError> {
    let Some((day, number)) = place(db, id).await? else {
        return Ok(None);
    };
    let sql = "SELECT workspace FROM calls WHERE day = $1 AND number = $2";
    let row = db.row("find a call", sql, values![day, number]).await?;
    Ok(row.map(|row| row.get(0)))
}

/// What became of an attempt to create a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Creation {
    Done,
    /// The same was stored before, and it is not known with which notes.
    Repeated,
    /// Its id is taken.
    Taken,
    /// Nothing is done: its id is taken, or the notes that came before it are not what comes next.
    Refused,
}

/// Creates a call, with notes of its run that came before it. `is_repeated` says that the same may have been created before.
pub(crate) async fn create(
    store: &PostgresStore,
    mut change: Change,
    events: &[CallEvent],
    fence: Option<&Fence>,
    notes: Option<&Numbered>,
    is_repeated: bool,
) -> Result<Creation, StoreError> {
    let shared = &store.shared;
    let batch = Batch::new(events)?;
    let told = match notes {
        None => told_by(&mut change, true)?,
        Some(notes) => {
            let mut outbox = Outbox::default();
            change.tell_of_creation(&notes.told, &mut outbox);
            entries(outbox.take())?
        }
    };
    let (record, words) = (&change.record, escaped(&change.words));
    let origin = &record.origin;
    let (id, workspace, session) = (
        Key::new(record.id.as_str()),
        Key::new(&origin.workspace),
        Key::new(origin.session.as_str()),
    );
    let (owner, tool) = (key(record.owner.as_str()), key(&record.tool));
    let (agent, requester) = (escaped(&origin.agent), escaped(&origin.requester));
    let parent = origin.parent.as_ref().map(|parent| key(parent.as_str()));
    let day = day_of(record.created);
    let (state, created) = (record.state.as_str(), record.created.millis());
    let (ended, last_sequence, reason) = (change.ended(), signed(record.last_sequence), change.reason());
    let held = Held::new(fence);
    let mut all = held.values().to_vec();
    all.extend(riding(notes));
    all.extend_from_slice(values![
        id.key,
        id.full,
        day,
        owner,
        workspace.key,
        workspace.full,
        session.key,
        session.full,
        tool,
        state,
        created,
        ended,
        last_sequence,
        agent,
        requester,
        parent,
        reason,
        words,
        change.json,
        batch.first,
        batch.last,
        batch.ends,
        batch.json,
        told
    ]);
    let (what, sql) = ("create a call", fence::call("create_call_1", all.len()));
    let attempt = || async { retrying(|| async { shared.db.session(what).await?.row(&sql, &all).await }).await };
    let create = async |is_repeated_here: bool| {
        let is_repeated = is_repeated || is_repeated_here;
        if !shared.days.has(day) {
            // Whoever changes nothing makes no tables either.
            fence::check(fence, &shared.db).await?;
        }
        let row = shared.days.storing(&shared.db, day, attempt).await?;
        let (is_noted, is_created) = row.map_or((false, false), |row| (row.get(0), row.get(1)));
        if is_created {
            return Ok(Creation::Done);
        }
        if is_repeated {
            // It may be this one that was stored before.
            let stored = get(&shared.db, &record.id).await?;
            let stored = stored.map(|stored| encode(what, &stored)).transpose()?;
            if stored.as_ref() == Some(&change.json) {
                return Ok(Creation::Repeated);
            }
        }
        Ok(match notes.is_some() && !is_noted {
            true => Creation::Refused,
            false => Creation::Taken,
        })
    };
    let created = shared.db.certainly(what, create).await?;
    if matches!(created, Creation::Done | Creation::Repeated) {
        shared.told();
    }
    Ok(created)
}

/// Appends; if it is not known what became of the last append to this call, without what that one has stored. Of a run without a
/// database, only it knows that: `is_repeated`.
pub(crate) async fn append(
    store: &PostgresStore,
    record: CallRecord,
    events: Vec<CallEvent>,
    fence: Option<&Fence>,
    is_repeated: bool,
) -> Result<(), StoreError> {
    let change = Change::new(record.clone(), &events)?;
    let outcome = append_once(store, change, &events, fence).await;
    match outcome {
        Err(StoreError::Conflict(_)) if is_repeated => append_rest(store, record, events, fence, outcome).await,
        other => other,
    }
}

/// Appends with notes of its run that came before it, all in one; false if that cannot be, and nothing or the notes only are stored.
pub(crate) async fn append_with(
    store: &PostgresStore,
    record: CallRecord,
    events: &[CallEvent],
    fence: &Fence,
    notes: &Numbered,
) -> Result<bool, StoreError> {
    let (shared, mut change) = (&store.shared, Change::new(record, events)?);
    if changes_after_end(&change) {
        return Ok(false);
    }
    let batch = Batch::new(events)?;
    let mut outbox = Outbox::default();
    notes.told.iter().cloned().for_each(|entry| outbox.tell(entry));
    change.tell(false, &mut outbox);
    let told = entries(outbox.take())?;
    let appended = retrying(|| async {
        let mut session = shared.db.session("append to a call").await?;
        append_in(&mut session, Some(fence), Some(notes), &change, &batch, told.as_deref()).await
    });
    let is_appended = appended.await?;
    if is_appended {
        shared.told();
    }
    Ok(is_appended)
}

/// Says whether the record changes when the event of its end is stored already.
fn changes_after_end(change: &Change) -> bool {
    change.record.state.is_terminal() && !change.ends
}

async fn append_own(store: &PostgresStore, record: CallRecord, events: Vec<CallEvent>) -> Result<(), StoreError> {
    let (doubts, id) = (&store.shared.unsure.appends, record.id.clone());
    let is_doubtful = doubts.begin(&id);
    let outcome = append(store, record, events, None, is_doubtful).await;
    doubts.end(&id, is_doubtful, &outcome);
    outcome
}

/// Appends what is not stored yet, if the log ends with the rest; else what came of it stays.
async fn append_rest(
    store: &PostgresStore,
    record: CallRecord,
    mut events: Vec<CallEvent>,
    fence: Option<&Fence>,
    outcome: Result<(), StoreError>,
) -> Result<(), StoreError> {
    let Some((stored, ahead)) = ahead(store, &record, &events).await? else {
        return outcome;
    };
    events.drain(..ahead);
    if events.is_empty() && encode("a call", &stored)? == encode("a call", &record)? {
        return Ok(());
    }
    append_once(store, Change::new(record, &events)?, &events, fence).await
}

/// Returns the stored call and with how many of these events its log ends; none if it ends otherwise.
async fn ahead(
    store: &PostgresStore,
    record: &CallRecord,
    events: &[CallEvent],
) -> Result<Option<(CallRecord, usize)>, StoreError> {
    let db = &store.shared.db;
    let (Some(first), Some(stored)) = (events.first(), get(db, &record.id).await?) else {
        return Ok(None);
    };
    let follows = first.sequence.saturating_sub(1);
    let ahead = stored.last_sequence.checked_sub(follows).map(usize::try_from);
    let Some(Ok(ahead @ 1..)) = ahead.filter(|_| stored.owner == record.owner) else {
        return Ok(None);
    };
    let Some(before) = events.get(..ahead) else {
        return Ok(None);
    };
    let log = events_of(db, &record.id, follows, ahead).await?;
    // As they are written: what is read back may be the same in other words.
    let is_same = encode("events", &log)? == encode("events", &before)?;
    Ok(is_same.then_some((stored, ahead)))
}

async fn append_once(
    store: &PostgresStore,
    mut change: Change,
    events: &[CallEvent],
    fence: Option<&Fence>,
) -> Result<(), StoreError> {
    let shared = &store.shared;
    let batch = Batch::new(events)?;
    let told = told_by(&mut change, false)?;
    let appended = if changes_after_end(&change) {
        retrying(|| async {
            let mut session = shared.db.begin("append to a call").await?;
            let appended = async {
                if let Some(fence) = fence {
                    fence.hold(&mut session).await?;
                }
                keep_end(&mut session, &change.record, fence).await?;
                append_in(&mut session, fence, None, &change, &batch, told.as_deref()).await
            }
            .await;
            session.end(appended).await
        })
        .await?
    } else {
        retrying(|| async {
            let mut session = shared.db.session("append to a call").await?;
            append_in(&mut session, fence, None, &change, &batch, told.as_deref()).await
        })
        .await?
    };
    if appended {
        shared.told();
        return Ok(());
    }
    fence::check(fence, &shared.db).await?;
    let stored = get(&shared.db, &change.record.id).await?;
    let workspace = &change.record.origin.workspace;
    let stored = stored.filter(|stored| fence.is_none() || stored.origin.workspace == *workspace);
    Err(change.why_not(stored.as_ref()))
}

async fn append_in(
    session: &mut Session,
    fence: Option<&Fence>,
    notes: Option<&Numbered>,
    change: &Change,
    batch: &Batch,
    told: Option<&str>,
) -> Result<bool, StoreError> {
    let record = &change.record;
    let (id, owner, tool) = (key(record.id.as_str()), key(record.owner.as_str()), key(&record.tool));
    let (day, state, ended) = (day_of(record.created), record.state.as_str(), change.ended());
    let (last, follows) = (signed(record.last_sequence), signed(change.follows));
    let (reason, words) = (change.reason(), escaped(&change.words));
    let held = Held::new(fence);
    let mut all = held.values().to_vec();
    all.extend(riding(notes));
    all.extend_from_slice(values![
        id,
        day,
        owner,
        tool,
        state,
        ended,
        last,
        change.json,
        reason,
        words,
        follows,
        batch.first,
        batch.last,
        batch.ends,
        batch.json,
        told
    ]);
    let row = session.row(&fence::call("append_to_call_1", all.len()), &all).await?;
    Ok(row.is_some_and(|row| row.get(0)))
}

/// Ends a call whose record and last event say so, within a transaction that holds it.
pub(crate) async fn end_in(session: &mut Session, record: CallRecord, end: CallEvent) -> Result<(), StoreError> {
    let events = [end];
    let mut change = Change::new(record, &events)?;
    let (batch, told) = (Batch::new(&events)?, told_by(&mut change, false)?);
    match append_in(session, None, None, &change, &batch, told.as_deref()).await? {
        true => Ok(()),
        false => Err(change.why_not(None)),
    }
}

/// Writes the event of a call's end out, before the record that it is made from changes.
async fn keep_end(session: &mut Session, record: &CallRecord, fence: Option<&Fence>) -> Result<(), StoreError> {
    let Some((day, number)) = place_in(session, &record.id).await? else {
        return Ok(());
    };
    let sql =
        "SELECT record FROM calls WHERE day = $1 AND number = $2 AND workspace = coalesce($3, workspace) FOR UPDATE";
    let workspace = fence.map(|fence| fence.workspace.as_str());
    let Some(call) = session.row(sql, values![day, number, workspace]).await? else {
        return Ok(());
    };
    let json: String = call.get(0);
    let sql = "SELECT first, last, batch FROM events WHERE day = $1 AND call = $2 AND ends";
    for row in session.rows(sql, values![day, number]).await? {
        let batch = encode("events", &events_in(row.get(0), row.get(2), Some(&json))?)?;
        let sql = "UPDATE events SET ends = FALSE, batch = $4 WHERE day = $1 AND call = $2 AND last = $3";
        session
            .run(sql, values![day, number, row.get::<_, i64>(1), batch])
            .await?;
    }
    Ok(())
}

/// Returns the record of a call.
pub(crate) async fn get(db: &Database, id: &CallId) -> Result<Option<CallRecord>, StoreError> {
    let Some((day, number)) = place(db, id).await? else {
        return Ok(None);
    };
    let sql = "SELECT record FROM calls WHERE day = $1 AND number = $2";
    let row = db.row("read a call", sql, values![day, number]).await?;
    row.map(|row| decode("a call", row.get(0))).transpose()
}

async fn events_of(db: &Database, id: &CallId, after: u64, items: usize) -> Result<Vec<CallEvent>, StoreError> {
    let (mut after, mut events) = (after, Vec::new());
    let Some((day, number)) = place(db, id).await? else {
        return Ok(events);
    };
    let sql = "SELECT first, last, batch,
                   CASE WHEN ends THEN (SELECT record FROM calls WHERE day = $1 AND number = $2) END
               FROM events WHERE day = $1 AND call = $2 AND last > $3 ORDER BY last LIMIT $4";
    while events.len() < items {
        let what = "read the log of a call";
        let rows = db
            .rows(what, sql, values![day, number, signed(after), EVENT_ROWS])
            .await?;
        for row in &rows {
            let batch = events_in(row.get(0), row.get(2), row.get(3))?;
            events.extend(batch.into_iter().filter(|event| event.sequence > after));
            after = unsigned(row.get(1));
        }
        if (rows.len() as i64) < EVENT_ROWS {
            break;
        }
    }
    events.truncate(items);
    Ok(events)
}

fn select(filter: &CallFilter) -> Query {
    let query = Query::new("SELECT number, record FROM calls WHERE TRUE")
        .within("workspace", &filter.workspaces)
        .is("session", filter.session.as_ref().map(|session| session.as_str()))
        .one_of("state", filter.states.iter().map(|state| state.as_str()))
        .one_of("tool", filter.tools.iter().map(String::as_str))
        .one_of("reason", filter.reasons.iter().map(|reason| reason.as_str()))
        .is("parent", filter.parent.as_ref().map(|parent| parent.as_str()))
        .whole("agent", filter.agent.as_deref())
        .whole("requester", filter.requester.as_deref())
        .moment("created >= ", filter.from)
        .moment("created < ", filter.until)
        // Says the same of the days, so that the others are not looked at.
        .compare("day >= ", filter.from.map(day_of))
        .compare("day <= ", filter.until.map(day_of))
        .contains("words", filter.text.as_ref().map(|text| text.to_lowercase()).as_deref());
    let unfinished = !filter.states.is_empty() && !filter.states.iter().any(|state| state.is_terminal());
    // Says the same once more, in the words of the index over the few calls that still run.
    if unfinished { query.also("ended IS NULL") } else { query }
}

#[async_trait]
impl CallLog for PostgresStore {
    async fn create_call(&self, record: CallRecord, events: Vec<CallEvent>) -> Result<Created, StoreError> {
        let id = record.id.clone();
        let change = Change::creation(record, &events)?;
        self.shared.flush().await?;
        if create(self, change, &events, None, None, false).await? != Creation::Taken {
            return Ok(Created::New);
        }
        let taken = get(&self.shared.db, &id).await?;
        let taken = taken.ok_or_else(|| StoreError::Conflict(format!("call {id} has just been deleted")))?;
        Ok(Created::Taken(Box::new(taken)))
    }

    async fn append(&self, record: CallRecord, events: Vec<CallEvent>) -> Result<(), StoreError> {
        self.shared.flush().await?;
        append_own(self, record, events).await
    }

    async fn get(&self, id: &CallId) -> Result<Option<CallRecord>, StoreError> {
        get(&self.shared.db, id).await
    }

    async fn namesakes(&self, id: &CallId) -> Result<Vec<CallId>, StoreError> {
        let (from, to) = id.range_within();
        let sql = "SELECT coalesce(full_id, id) FROM call_days WHERE id > $1 AND id < $2 ORDER BY id";
        let rows = self
            .shared
            .db
            .rows("look for calls of a name", sql, values![key(&from), key(&to)])
            .await?;
        Ok(rows.iter().map(|row| CallId::new(plain(row.get(0)))).collect())
    }

    async fn events(&self, id: &CallId, after: u64, limit: usize) -> Result<Vec<CallEvent>, StoreError> {
        events_of(&self.shared.db, id, after, limit).await
    }

    async fn list_calls(&self, filter: &CallFilter, page: &PageRequest) -> Result<Page<CallRecord>, StoreError> {
        let read = |row: &tokio_postgres::Row| decode("a call", row.get("record"));
        let query = select(filter);
        query
            .page(&self.shared.db, "list calls", page, "octet_length(record)", read)
            .await
    }

    async fn list_sessions(
        &self,
        filter: &SessionFilter,
        page: &PageRequest,
    ) -> Result<Page<SessionSummary>, StoreError> {
        sessions::list(&self.shared.db, &self.shared.notes.overlay, filter, page).await
    }

    async fn adopt_orphans(&self, new_owner: &InstanceId) -> Result<Vec<CallRecord>, StoreError> {
        adoption::adopt_orphans(self, new_owner).await
    }

    async fn sweep_calls(&self, before: Timestamp) -> Result<usize, StoreError> {
        retention::sweep(&self.shared, before).await
    }
}
