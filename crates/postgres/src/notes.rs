//! Notes: what nobody waits for, on its way to the database. Facts of sessions, entries of audit and journal that are no change
//! of anything stored, and the ends of outputs whose writers went away.
//!
//! *Invariant:* notes are stored in their order, one portion at a time, each note once: a portion is counted in the row of this
//! run in its own transaction, so after a commit of which the answer is missing that row tells whether it was one. So it is with
//! notes of runs without a database, which keep their queues themselves. A note leaves the queue when it is stored; who must come after it waits for that.

use std::collections::{BTreeMap, HashMap, VecDeque};

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Notify;
use tokio_postgres::types::{ToSql, Type};
use toolgate_model::{OutputId, SessionKey};
use toolgate_store::StoreError;
use toolgate_store::codec::{signed, unsigned};
use toolgate_store::outbox::Entry;
use toolgate_store::overlay::Overlay;

use crate::connection::{Database, retrying};
use crate::fence::{self, Fence, Held};
use crate::instances::Instances;
use crate::live::LiveOutputs;
use crate::sequencer::entries;
use crate::store::Shared;
use crate::text::{Key, key};
use crate::values::{typed, values};

/// Notes of one transaction.
const NOTES_PER_PORTION: usize = 1_000;

/// While the database is away, so many bytes of notes are kept, about; what comes on top is lost, and told of in the log.
const MAX_BYTES: usize = 8 << 20;

/// Facts that a session may have whose run has no database, and bytes of each.
const MAX_FACTS: i64 = 20_000;
const MAX_FACT_BYTES: usize = 1 << 20;

/// Facts that a session which is far from having too many may get before it is looked again, and the sessions of which that is known.
const FREE_FACTS: i64 = 1_000;
const MAX_SESSIONS: usize = 10_000;

/// What a note takes besides its text.
const NOTE_BYTES: usize = 256;

/// Something to store for which nobody waits.
#[derive(Clone)]
pub(crate) enum Note {
    /// A fact of a session, with the number that it has in the overlay.
    Fact {
        session: SessionKey,
        name: String,
        json: String,
        number: u64,
    },
    /// Something to tell.
    Told(Entry),
    /// The end of an output that nobody finished, and its lines.
    Ended { output: OutputId, lines: Option<u64> },
}

impl Note {
    fn bytes(&self) -> usize {
        let text = match self {
            Self::Fact { name, json, .. } => name.len() + json.len(),
            Self::Told(Entry::Event(event)) => event.json.len(),
            Self::Told(Entry::Fact(_)) => NOTE_BYTES,
            Self::Ended { output, .. } => output.as_str().len(),
        };
        NOTE_BYTES + text
    }

    /// Says in the log that it is lost.
    fn lost(&self, why: &str) {
        match self {
            Self::Fact { session, name, .. } => {
                tracing::error!(why, workspace = session.workspace, session = %session.session, name, "a session's fact is lost");
            }
            Self::Told(Entry::Fact(fact)) => {
                tracing::error!(why, kind = fact.kind.as_str(), "a record of the audit is lost");
            }
            Self::Told(Entry::Event(_)) => tracing::error!(why, "an event of the journal is lost"),
            Self::Ended { output, .. } => {
                tracing::warn!(why, %output, "an output counts as incomplete while this run lives")
            }
        }
    }
}

#[derive(Default)]
struct Waiting {
    notes: VecDeque<Note>,
    bytes: usize,
    /// How many have left the queue.
    done: u64,
    closed: bool,
}

/// The notes of one run.
#[derive(Default)]
pub(crate) struct Notes {
    state: Mutex<Waiting>,
    /// Held by who stores a portion; it knows whether it is unknown what became of the one before.
    storing: tokio::sync::Mutex<bool>,
    /// Somebody has something for the tasks to do.
    pub(crate) wake: Notify,
    pub(crate) overlay: Overlay,
    pub(crate) live: LiveOutputs,
}

impl Notes {
    /// Queues a note. Never blocks.
    pub(crate) fn add(&self, note: Note) {
        if let Err((note, why)) = self.try_add(note) {
            note.lost(why);
            self.leave(&note);
        }
    }

    fn try_add(&self, note: Note) -> Result<(), (Note, &'static str)> {
        let mut state = self.state.lock();
        if state.closed {
            return Err((note, "the store is closed"));
        }
        if state.bytes > MAX_BYTES {
            return Err((note, "too much waits for the database"));
        }
        state.bytes += note.bytes();
        state.notes.push_back(note);
        drop(state);
        self.wake.notify_one();
        Ok(())
    }

    /// Queues a fact, which is seen at once.
    pub(crate) fn remember(&self, session: &SessionKey, name: &str, value: Value) {
        let json = value.to_string();
        // Held while the fact is queued, so that the overlay and the queue agree on the order of two of the same name.
        let mut queued = self.overlay.queued();
        queued.count += 1;
        let number = queued.count;
        let facts = queued.sessions.entry(session.clone()).or_default();
        facts.insert(name.to_owned(), (number, value));
        let added = self.try_add(Note::Fact {
            session: session.clone(),
            name: name.to_owned(),
            json,
            number,
        });
        drop(queued);
        if let Err((note, why)) = added {
            note.lost(why);
            self.leave(&note);
        }
    }

    fn leave(&self, note: &Note) {
        match note {
            Note::Fact {
                session, name, number, ..
            } => self.overlay.remove(session, name, *number),
            Note::Ended { output, .. } => self.live.remove(output),
            Note::Told(_) => {}
        }
    }

    /// Refuses what comes from now on.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.wake.notify_one();
    }

    /// Gives up what is queued, because nobody will store it any more.
    pub(crate) fn give_up(&self) {
        let notes = std::mem::take(&mut self.state.lock().notes);
        for note in notes {
            note.lost("the store is closed");
            self.leave(&note);
        }
    }

    /// Returns when everything is stored that was queued before.
    pub(crate) async fn flush(&self, db: &Database, instances: &Instances) -> Result<(), StoreError> {
        let until = {
            let state = self.state.lock();
            if state.notes.is_empty() {
                return Ok(());
            }
            state.done + state.notes.len() as u64
        };
        loop {
            let mut is_unsure = db.turn("wait for notes to be stored", &self.storing).await?;
            if self.state.lock().done >= until {
                return Ok(());
            }
            if *is_unsure {
                let known = self.state.lock().done;
                self.stored(unsigned(instances.noted(db, signed(known)).await?));
                *is_unsure = false;
                continue;
            }
            let (from, portion) = {
                let state = self.state.lock();
                let portion: Vec<Note> = state.notes.iter().take(NOTES_PER_PORTION).cloned().collect();
                (state.done, portion)
            };
            let done = from + portion.len() as u64;
            // Until it is known to be stored: also if whoever waits for it goes away.
            *is_unsure = true;
            if store(db, &instances.id, &Numbered::new(from, portion)?, None).await? {
                *is_unsure = false;
                self.stored(done);
            }
        }
    }

    /// Takes the first notes out of the queue, up to the one of this number.
    fn stored(&self, done: u64) {
        let gone: Vec<Note> = {
            let mut state = self.state.lock();
            let count = usize::try_from(done.saturating_sub(state.done)).unwrap_or(0);
            let count = count.min(state.notes.len());
            let gone: Vec<Note> = state.notes.drain(..count).collect();
            state.done += gone.len() as u64;
            state.bytes -= gone.iter().map(Note::bytes).sum::<usize>();
            gone
        };
        gone.iter().for_each(|note| self.leave(note));
    }
}

/// What a portion has to store, by kinds.
#[derive(Default)]
struct Portion {
    /// The last one of each name.
    facts: BTreeMap<(String, String, String), (Option<String>, String)>,
    told: Vec<Entry>,
    outputs: Vec<String>,
    lines: Vec<Option<i64>>,
}

impl Portion {
    fn of(notes: Vec<Note>) -> Self {
        let mut portion = Self::default();
        for note in notes {
            match note {
                Note::Fact {
                    session, name, json, ..
                } => {
                    let name = Key::new(&name);
                    let place = (key(&session.workspace), key(session.session.as_str()), name.key);
                    portion.facts.insert(place, (name.full, json));
                }
                Note::Told(entry) => portion.told.push(entry),
                Note::Ended { output, lines } => {
                    portion.outputs.push(key(output.as_str()));
                    portion.lines.push(lines.map(signed));
                }
            }
        }
        portion
    }
}

/// Notes of a run, as they are stored: those after one number up to another.
pub(crate) struct Numbered {
    before: i64,
    last: i64,
    workspaces: Vec<String>,
    sessions: Vec<String>,
    names: Vec<String>,
    full: Vec<Option<String>>,
    facts: Vec<String>,
    /// What they tell.
    pub(crate) told: Vec<Entry>,
    told_json: Option<String>,
    outputs: Vec<String>,
    lines: Vec<Option<i64>>,
}

impl Numbered {
    pub(crate) fn new(before: u64, notes: Vec<Note>) -> Result<Self, StoreError> {
        let last = before + notes.len() as u64;
        let Portion {
            facts,
            told,
            outputs,
            lines,
        } = Portion::of(notes);
        let mut numbered = Self {
            before: signed(before),
            last: signed(last),
            workspaces: Vec::new(),
            sessions: Vec::new(),
            names: Vec::new(),
            full: Vec::new(),
            facts: Vec::new(),
            told_json: entries(told.clone())?,
            told,
            outputs,
            lines,
        };
        for ((workspace, session, name), (full, json)) in facts {
            numbered.workspaces.push(workspace);
            numbered.sessions.push(session);
            numbered.names.push(name);
            numbered.full.push(full);
            numbered.facts.push(json);
        }
        Ok(numbered)
    }

    /// Returns the arguments of a function of the database that stores them.
    fn places(&self) -> [(&(dyn ToSql + Sync), Type); 7] {
        [
            typed(&self.before),
            typed(&self.last),
            typed(&self.workspaces),
            typed(&self.sessions),
            typed(&self.names),
            typed(&self.full),
            typed(&self.facts),
        ]
    }
}

static NO_NUMBER: Option<i64> = None;
static NO_TEXT: Option<String> = None;
static NO_TEXTS: Option<Vec<String>> = None;

/// Returns the arguments of a function of the database that makes a change, about the notes that are stored with it: the last one is what
/// they tell if the change does not take place. All are null without notes.
pub(crate) fn riding(notes: Option<&Numbered>) -> Vec<(&(dyn ToSql + Sync), Type)> {
    let Some(notes) = notes else {
        let numbers = [typed(&NO_NUMBER), typed(&NO_NUMBER)];
        let facts = std::iter::repeat_with(|| typed(&NO_TEXTS)).take(5);
        return numbers.into_iter().chain(facts).chain([typed(&NO_TEXT)]).collect();
    };
    let mut values = notes.places().to_vec();
    values.push(typed(&notes.told_json));
    values
}

/// Stores notes; false if the row of this run does not say that they begin where the last one ended. A portion of which no answer
/// came may still be on its way: then this one waits for it here, and is not what comes next.
async fn store(db: &Database, run: &str, notes: &Numbered, fence: Option<&Fence>) -> Result<bool, StoreError> {
    let held = Held::of_run(run, fence);
    let mut values = held.values().to_vec();
    values.extend(notes.places());
    values.extend([typed(&notes.outputs), typed(&notes.lines), typed(&notes.told_json)]);
    let sql = fence::call("store_notes_1", values.len());
    let row = retrying(|| async { db.session("store notes").await?.row(&sql, &values).await }).await?;
    Ok(row.is_some_and(|row| row.get(0)))
}

/// How many more facts sessions may have before it is looked again how many there are: of those with runs without a database.
#[derive(Default)]
pub(crate) struct Room(Mutex<HashMap<(String, String), i64>>);

impl Room {
    /// Takes what these facts need, if it is there for all.
    fn take(&self, places: &[&SessionKey]) -> bool {
        let mut left = self.0.lock();
        places.iter().all(|place| {
            let left = left.get_mut(&(place.workspace.clone(), place.session.to_string()));
            left.is_some_and(|left| {
                *left -= 1;
                *left >= 0
            })
        })
    }

    fn has(&self, places: &[&SessionKey]) {
        let mut left = self.0.lock();
        if left.len() > MAX_SESSIONS {
            left.clear();
        }
        for place in places {
            left.insert((place.workspace.clone(), place.session.to_string()), FREE_FACTS);
        }
    }
}

/// Refuses facts of a run without a database that are too long, or more than a session has reason to have: they are read as a whole.
pub(crate) async fn must_have_room(shared: &Shared, notes: &[Note]) -> Result<(), StoreError> {
    let (mut places, mut keys) = (Vec::new(), (Vec::new(), Vec::new(), Vec::new()));
    for note in notes {
        let Note::Fact {
            session, name, json, ..
        } = note
        else {
            continue;
        };
        if json.len() > MAX_FACT_BYTES {
            let bytes = json.len();
            let why = format!("a fact of {bytes} bytes is too long: expected at most {MAX_FACT_BYTES}");
            return Err(StoreError::Full(why));
        }
        keys.0.push(key(&session.workspace));
        keys.1.push(key(session.session.as_str()));
        keys.2.push(key(name));
        places.push(session);
    }
    if places.is_empty() || shared.room.take(&places) {
        return Ok(());
    }
    let sql = "SELECT min(place) FROM (SELECT DISTINCT ON (workspace, session) workspace, session, place
                   FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS one (workspace, session, name, place)
                   WHERE NOT EXISTS (SELECT FROM facts WHERE facts.workspace = one.workspace
                       AND facts.session = one.session AND facts.name = one.name)) AS new
               WHERE (SELECT count(*) FROM (SELECT FROM facts WHERE facts.workspace = new.workspace
                   AND facts.session = new.session LIMIT $4) AS few) >= $4";
    let look = async |most: i64| {
        let values = values![keys.0, keys.1, keys.2, most];
        let row = shared.db.row("look what sessions have", sql, values).await?;
        Ok::<_, StoreError>(row.and_then(|row| row.get::<_, Option<i64>>(0)))
    };
    if look(MAX_FACTS - FREE_FACTS).await?.is_none() {
        shared.room.has(&places);
        return Ok(());
    }
    let place = look(MAX_FACTS).await?;
    match place.and_then(|place| places.get(usize::try_from(place - 1).ok()?)) {
        Some(full) => Err(StoreError::Full(format!(
            "session {} of workspace {} has {MAX_FACTS} facts: begin another session",
            full.session, full.workspace
        ))),
        None => Ok(()),
    }
}

/// Stores notes of a run without a database, which numbers them from 1: those that it has not stored before.
///
/// # Errors
/// `Conflict` if the notes before them are not stored.
pub(crate) async fn store_for(shared: &Shared, fence: &Fence, first: u64, notes: Vec<Note>) -> Result<(), StoreError> {
    let db = &shared.db;
    must_have_room(shared, &notes).await?;
    let what = "look which notes are stored";
    let before = first.saturating_sub(1);
    let last = before + notes.len() as u64;
    let mut done = before;
    while done < last {
        let rest = notes.iter().skip(usize::try_from(done - before).unwrap_or(usize::MAX));
        let portion: Vec<Note> = rest.take(NOTES_PER_PORTION).cloned().collect();
        let next = done + portion.len() as u64;
        if store(db, &fence.run, &Numbered::new(done, portion)?, Some(fence)).await? {
            done = next;
            continue;
        }
        fence.check(db).await?;
        let sql = "SELECT noted FROM instances WHERE id = $1";
        let row = db.row(what, sql, values![fence.run]).await?;
        let noted = row.map(|row| unsigned(row.get(0))).ok_or_else(|| fence.broken())?;
        if noted < before {
            let why = format!("note {first} of a run comes after {noted}: those between are missing");
            return Err(StoreError::Conflict(why));
        }
        done = noted;
    }
    Ok(())
}
