//! What must survive the process: calls and their logs, stored outputs, prompts and standing approvals, session facts, the
//! journal, changes of files, and the audit.
//!
//! *Invariant:* it uses the crates `model` and `telemetry` only, and knows neither tools nor the engine. Each trait is plain
//! data behind a few methods, so that one machine (SQLite and files, [`local`]) and several (a message store) can both
//! carry it; the generic suite in `tests/it/store.rs` runs on every implementation. A method that returns `Ok` has made
//! its change durable against the death of the process.
//!
//! In reading order:
//!
//! - this file and `outputs`: the traits of a store, and the data that they take and return;
//! - [`audit`]: the records of the audit, chained by their digests; `audit/facts` says what is recorded, `audit/line`
//!   writes it, and `audit/verify` verifies an export;
//! - [`events`]: what the journal has of calls and prompts;
//! - [`outbox`]: what a change has to tell of in the audit and in the journal, and how it is numbered and chained;
//! - `interest`: what approvers listen to, as processes tell each other;
//! - [`ledger`]: a store that others write to who have none; [`lost`]: the end of a call whose run died;
//! - [`created`]: workspaces that clients create where several processes share a store;
//! - [`outage`]: how often it is said that a store is away;
//! - [`change`], [`overlay`], [`output`], [`codec`]: what every store does alike with calls, facts, outputs, JSON and pages;
//! - [`local`]: the embedded store. Its files in `local/`:
//!   - `store`, `open`, `schema`, `instances`, `claim`: one run's view of a data directory, how it is opened, the tables, which
//!     runs are alive, and which of them is the service;
//!   - `writer`, `queue`, `sequencer`, `checkpoint`, `readers`: the one connection that writes, what waits for it, what is told
//!     at the end of each transaction, the write-ahead log, and the connections that read;
//!   - `calls` with `packed`, `prompts`, `facts`, `journal` with `follower`, `changes` with `blobs`, `audit`, `workspaces`: one
//!     file for each trait, and how records of calls are compressed;
//!   - `outputs` with `output_rows`, `output_file`, `spool`, `folders`, `sweep`, `output_recovery`: stored outputs, a row
//!     and a file each;
//!   - `volume`: the files of a run that has no database; `export`: all that a data directory has, for another store;
//!   - `quota`, `query`, `error`: how much of the disk may be taken, listings by pages, and how failures are reported.

#![cfg_attr(test, allow(clippy::disallowed_methods))] // tests make the folders and programs they work with

pub mod audit;
pub mod change;
pub mod codec;
pub mod created;
pub mod events;
mod interest;
pub mod ledger;
pub mod local;
pub mod lost;
pub mod outage;
pub mod outbox;
pub mod output;
mod outputs;
pub mod overlay;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::Notify;
use toolgate_model::{
    Approval, CallEvent, CallId, CallRecord, CallState, Decision, EndReason, Facts, FileChange, Grant, GrantId,
    InstanceId, Prompt, PromptId, PromptState, ServiceEvent, SessionId, SessionKey, Timestamp, WorkspaceSet,
};

use crate::audit::{Fact, Head};
pub use crate::interest::Interest;
pub use crate::outputs::{OutputFilter, OutputInfo, OutputOwner, OutputRetention, OutputWriter, Outputs};

/// Why a store could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Two writers: what was to be changed is not what it was when it was read.
    #[error("conflict: {0}")]
    Conflict(String),
    /// Another run has taken the workspace over: whoever gets this stops its calls and programs.
    #[error("taken over: {0}")]
    Fenced(String),
    /// What was to be changed is not there.
    #[error("not found: {0}")]
    NotFound(String),
    /// A page token that the store did not give out.
    #[error("bad page token: {0}")]
    BadPage(String),
    /// No space left, or a quota.
    #[error("no space left: {0}")]
    Full(String),
    /// The store cannot be reached at this moment. What was to be changed is not changed, or is found changed when it is tried again.
    #[error("the store cannot be reached: {0}")]
    Unavailable(String),
    /// The store itself failed.
    #[error("{context}")]
    Failed {
        /// What was attempted.
        context: String,
        /// Why it failed.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// A part of a listing. Items are in the order of creation, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageRequest {
    /// How many items at most; at least 1.
    pub size: usize,
    /// The `next` of the page before, or none for the first.
    pub after: Option<String>,
}

/// One page.
#[derive(Clone, Debug, PartialEq)]
pub struct Page<T> {
    /// The items.
    pub items: Vec<T>,
    /// Where the next page begins, if there is one.
    pub next: Option<String>,
}

/// Which calls to list. Empty lists and `None` match all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CallFilter {
    /// The workspaces.
    #[serde(skip)]
    pub workspaces: WorkspaceSet,
    /// The session.
    pub session: Option<SessionId>,
    /// Any of these states.
    pub states: Vec<CallState>,
    /// Any of these tools.
    pub tools: Vec<String>,
    /// Failed for any of these reasons.
    pub reasons: Vec<EndReason>,
    /// The call that made them.
    pub parent: Option<CallId>,
    /// The agent.
    pub agent: Option<String>,
    /// Who made them.
    pub requester: Option<String>,
    /// Admitted at this moment or later.
    pub from: Option<Timestamp>,
    /// Admitted before this moment.
    pub until: Option<Timestamp>,
    /// What the tool, the id, the title or the summary contains, in whatever case.
    pub text: Option<String>,
}

/// Which sessions to list. Empty lists and `None` match all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionFilter {
    /// The workspaces.
    #[serde(skip)]
    pub workspaces: WorkspaceSet,
    /// A call was admitted or ended at this moment or later.
    pub from: Option<Timestamp>,
    /// The first call was admitted before this moment.
    pub until: Option<Timestamp>,
}

/// What the stored calls of a session tell of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionSummary {
    /// The session.
    pub session: SessionKey,
    /// The agents that made its calls.
    pub agents: Vec<String>,
    /// When its first call was admitted.
    pub first: Timestamp,
    /// When a call was last admitted or ended.
    pub active: Timestamp,
    /// How many calls it has.
    pub calls: u64,
    /// How many of them have not ended.
    pub unfinished: u64,
    /// How many wait for a person.
    pub waiting: u64,
    /// Whether it was ended, and no call came since.
    pub ended: bool,
}

/// The key of the fact that a session was ended: its value is when, in milliseconds.
pub const ENDED: &str = "ended";

/// What became of an attempt to create a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Created {
    /// The call is new.
    New,
    /// The id is taken by this call, unchanged.
    Taken(Box<CallRecord>),
}

/// The records of calls and their append-only logs.
#[async_trait]
pub trait CallLog: Send + Sync + 'static {
    /// Stores a new call with its first events, in one transaction.
    async fn create_call(&self, record: CallRecord, events: Vec<CallEvent>) -> Result<Created, StoreError>;

    /// Appends events and replaces the record, in one transaction. `record.last_sequence` is the number of the last
    /// event. With no events only the record is replaced. An end among the events tells what `record.ending` does.
    ///
    /// # Errors
    /// `Conflict` if the stored log does not end just before the first event, or belongs to another owner.
    async fn append(&self, record: CallRecord, events: Vec<CallEvent>) -> Result<(), StoreError>;

    /// Returns the record of a call.
    async fn get(&self, id: &CallId) -> Result<Option<CallRecord>, StoreError>;

    /// Returns the calls that have a name within a workspace, because a call of another one had it first: see
    /// [`CallId::within`].
    async fn namesakes(&self, id: &CallId) -> Result<Vec<CallId>, StoreError>;

    /// Returns at most `limit` events with a number above `after`, in order.
    async fn events(&self, id: &CallId, after: u64, limit: usize) -> Result<Vec<CallEvent>, StoreError>;

    /// Lists calls, newest first.
    async fn list_calls(&self, filter: &CallFilter, page: &PageRequest) -> Result<Page<CallRecord>, StoreError>;

    /// Lists sessions, the one with the latest call first.
    async fn list_sessions(
        &self,
        filter: &SessionFilter,
        page: &PageRequest,
    ) -> Result<Page<SessionSummary>, StoreError>;

    /// Takes over the unfinished calls whose owner is dead, and their open prompts: sets their owner to `new_owner` and
    /// returns them. Two services that start at once never get the same call.
    async fn adopt_orphans(&self, new_owner: &InstanceId) -> Result<Vec<CallRecord>, StoreError>;

    /// Deletes finished calls that ended before `before`, with their logs, their prompts and their changes; contents
    /// that no change refers to any more go with them, now or at a later call. Returns how many calls went.
    async fn sweep_calls(&self, before: Timestamp) -> Result<usize, StoreError>;
}

/// Which prompts to list. Empty lists and `None` match all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PromptFilter {
    /// The run of the service that waits.
    pub owner: Option<InstanceId>,
    /// The workspaces.
    #[serde(skip)]
    pub workspaces: WorkspaceSet,
    /// Any of these sessions.
    pub sessions: Vec<SessionId>,
    /// Any of these prompts. A gateway of an earlier release does not know it: what is wanted may be missing then.
    pub ids: Vec<PromptId>,
    /// The call.
    pub call: Option<CallId>,
    /// Any of these states.
    pub states: Vec<PromptState>,
    /// Only those that came after this one; all if there is no such prompt.
    pub after: Option<PromptId>,
}

/// What became of an attempt to settle a prompt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Settled {
    /// This attempt decided: the settled prompts (the named one first, then those settled with it) and the new grants.
    Now {
        /// The prompts as they are now.
        prompts: Vec<Prompt>,
    },
    /// It was decided before; this is the prompt with its decision.
    Before(Box<Prompt>),
    /// There is no such prompt.
    Unknown,
    /// Another prompt of the session came that had not been looked at; nothing is settled.
    Overtaken,
}

/// A stored prompt, and what was stored with it of whoever asks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AskedPrompt {
    /// The prompt.
    pub prompt: Prompt,
    /// What [`Prompts::open`] was given; none of a prompt that has ended, or that an earlier release has stored.
    pub asker: Option<Value>,
    /// The number of this state of the prompt, as [`Prompts::open_prompts`] has it.
    pub revision: u64,
    /// How long ago it was opened, by the clock of the store: that of who asks and that of who answers may differ.
    #[serde(default)]
    pub age: Duration,
}

/// The end of one prompt, with its new state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settlement {
    /// Which prompt.
    pub prompt: PromptId,
    /// The state it gets; never `Open`.
    pub state: PromptState,
    /// The decision.
    pub decision: Decision,
    /// The grants of which it takes one use each: where one is gone, a prompt that was to be settled too stays open.
    pub uses: Vec<GrantId>,
}

/// Prompts, their decisions, and the grants that `always` leaves behind.
#[async_trait]
pub trait Prompts: Send + Sync + 'static {
    /// Stores a new open prompt, with what is to be known of whoever asks as long as it is open.
    ///
    /// `judged_by` are the grants by which it was found that a person must be asked. If others hold for the prompt's owner
    /// by now, the prompt is not stored, and they are returned: one of them may allow it. `None` stores it in any case.
    async fn open(
        &self,
        prompt: Prompt,
        asker: Option<Value>,
        judged_by: Option<BTreeSet<GrantId>>,
    ) -> Result<Vec<Grant>, StoreError>;

    /// Replaces what is known of whoever asks, unless the prompt has ended.
    async fn replace_asker(&self, id: &PromptId, asker: Option<Value>) -> Result<(), StoreError>;

    /// Returns a prompt.
    async fn prompt(&self, id: &PromptId) -> Result<Option<Prompt>, StoreError>;

    /// Returns a prompt, and what is known of whoever asks.
    async fn asked(&self, id: &PromptId) -> Result<Option<AskedPrompt>, StoreError>;

    /// Returns the open prompts of a session in the order of their arrival, and what is known of whoever asks.
    async fn asked_in(&self, session: &SessionKey) -> Result<Vec<AskedPrompt>, StoreError>;

    /// Returns the id of each open prompt with a number that is another one after every change of it. It is cheap: for those
    /// who look often whether another process has changed anything.
    async fn open_prompts(&self) -> Result<Vec<(PromptId, u64)>, StoreError>;

    /// Lists prompts in the order of their arrival, at most `limit`.
    async fn prompts(&self, filter: &PromptFilter, limit: usize) -> Result<Vec<Prompt>, StoreError>;

    /// Adds an approval to a prompt and returns the prompt, or `None` if it is not open or there is none. A second
    /// approval of the same principal changes nothing.
    async fn approve(&self, id: &PromptId, approval: Approval) -> Result<Option<Prompt>, StoreError>;

    /// Settles a prompt and, if it was still open, stores the grants and settles those of `also` that still are open and
    /// whose grants are there: all in one transaction. The first one wins; later ones get its decision.
    ///
    /// `beside` are the other open prompts of the session that were looked at to find what follows from the decision. If
    /// there are more by now, nothing is settled; `None` settles in any case. Whether the reply is to what was asked, and
    /// whether whoever replies may, is for the caller to check: what that depends on is never changed once it is stored.
    async fn settle(
        &self,
        first: Settlement,
        also: Vec<Settlement>,
        grants: Vec<Grant>,
        beside: Option<BTreeSet<PromptId>>,
    ) -> Result<Settled, StoreError>;

    /// Counts a use of each grant at `now`, or of none: returns those that are not there or have ended, none if the uses
    /// are counted. A store that several machines share judges by a clock of its own whether one has ended. A grant whose last use it was is deleted. Two who use a grant at once never get more of it than there is.
    async fn use_grants(&self, ids: &[GrantId], now: Timestamp) -> Result<Vec<GrantId>, StoreError>;

    /// Lists the grants that hold for a run of the service, its own and those that outlast any run, oldest first; some
    /// may have ended by time.
    async fn grants(&self, owner: &InstanceId) -> Result<Vec<Grant>, StoreError>;

    /// As [`Self::grants`], of several runs; one that holds for more than one of them comes at least once. A store with thousands of runs asks
    /// once for all.
    async fn grants_of(&self, owners: &[InstanceId]) -> Result<Vec<Grant>, StoreError> {
        let mut grants = Vec::new();
        for owner in owners {
            grants.extend(self.grants(owner).await?);
        }
        Ok(grants)
    }

    /// Returns a grant, whosever it is.
    async fn grant(&self, id: &GrantId) -> Result<Option<Grant>, StoreError>;

    /// Deletes a grant, which `by` takes back; returns it, or `None` if there is none. `by` may be empty.
    async fn revoke(&self, id: &GrantId, by: &str) -> Result<Option<Grant>, StoreError>;

    /// Says to other processes what those listen to here who may answer prompts. It replaces what was said before, and holds as long
    /// as this run lives. A store that tells nobody keeps nothing.
    async fn attend(&self, _interests: Vec<Interest>) -> Result<(), StoreError> {
        Ok(())
    }

    /// Returns what those listen to in other processes who may answer prompts.
    async fn attended_elsewhere(&self) -> Result<Vec<Interest>, StoreError> {
        Ok(Vec::new())
    }

    /// The same, perhaps as it was a moment ago and without those whom only calls of since then concern: for whoever looks again and again.
    async fn attended_lately(&self) -> Result<Vec<Interest>, StoreError> {
        self.attended_elsewhere().await
    }

    /// Returns what is notified when another process may have changed a prompt or a grant; none if the store cannot tell. It is a
    /// help only: whoever waits looks at the store now and then all the same.
    fn changed_elsewhere(&self) -> Option<Arc<Notify>> {
        None
    }
}

/// Prompts that [`read_prompts`] reads with one request.
const PROMPTS_AT_ONCE: usize = 64;

/// Reads prompts with few requests, where one for each would fall behind, and returns them in the order of the ids. What an answer lacks
/// is read by itself: it may be gone, or keep others from being read, or the gateway is an older one. Fails only if the store is away.
pub async fn read_prompts(
    store: &(impl Prompts + ?Sized),
    ids: impl IntoIterator<Item = PromptId>,
) -> Result<Vec<(PromptId, Result<Option<Prompt>, StoreError>)>, StoreError> {
    let (ids, mut at_once): (Vec<PromptId>, _) = (ids.into_iter().collect(), HashMap::new());
    for some in ids.chunks(PROMPTS_AT_ONCE).filter(|some| some.len() > 1) {
        let filter = PromptFilter {
            ids: some.to_vec(),
            ..PromptFilter::default()
        };
        match store.prompts(&filter, some.len()).await {
            Ok(prompts) => at_once.extend(prompts.into_iter().map(|prompt| (prompt.id.clone(), prompt))),
            Err(error) => tracing::debug!(%error, "prompts cannot be read at once"),
        }
    }
    let mut found = Vec::with_capacity(ids.len());
    for id in ids {
        let prompt = match at_once.remove(&id) {
            Some(prompt) => Ok(Some(prompt)),
            None => match store.prompt(&id).await {
                Err(error @ StoreError::Unavailable(_)) => return Err(error),
                prompt => prompt,
            },
        };
        found.push((id, prompt));
    }
    Ok(found)
}

/// Facts of sessions that outlive a call. A session of the same id in another workspace has its own.
#[async_trait]
pub trait SessionFacts: Send + Sync + 'static {
    /// Returns one fact.
    async fn fact(&self, session: &SessionKey, key: &str) -> Result<Option<Value>, StoreError>;

    /// Returns every fact of a session.
    async fn facts(&self, session: &SessionKey) -> Result<Facts, StoreError>;

    /// Queues a fact for storing: it replaces the one of the same key, is seen by every `fact` that begins after this
    /// returns, and is durable before any `CallLog::append` that begins after this returns.
    fn remember(&self, session: &SessionKey, key: &str, value: Value);

    /// Deletes the facts of a session. Returns how many.
    async fn forget(&self, session: &SessionKey) -> Result<usize, StoreError>;
}

/// The journal of what happened in all workspaces, numbered from 1 without gaps within the store. It has by itself what
/// [`events`] says of calls and prompts, each in the transaction of the thing itself and once.
#[async_trait]
pub trait Journal: Send + Sync + 'static {
    /// Queues an event of something else; it is numbered and stored in the order of the calls to this function, and before any
    /// `CallLog::append` that begins after this returns.
    fn record(&self, event: ServiceEvent);

    /// Returns at most `limit` events with a number above `after`, in order.
    async fn since(&self, after: u64, limit: usize) -> Result<Vec<(u64, ServiceEvent)>, StoreError>;

    /// Returns the number of the last stored event, 0 if there is none. The receiver sees later values, soon also those that
    /// others who share the store have stored.
    async fn last(&self) -> Result<tokio::sync::watch::Receiver<u64>, StoreError>;

    /// Deletes events from before `before`. Their numbers are not used again. Returns how many.
    async fn sweep_journal(&self, before: Timestamp) -> Result<usize, StoreError>;
}

/// What calls changed in files, and the contents before and after, so that a change can be taken back.
#[async_trait]
pub trait Changes: Send + Sync + 'static {
    /// Keeps a content and returns its SHA-256, hexadecimal. What is kept already is not stored twice. A content that no
    /// change refers to is kept for at least an hour.
    ///
    /// # Errors
    /// `Full` if there is no space left.
    async fn put_blob(&self, bytes: Bytes) -> Result<String, StoreError>;

    /// Returns a content, or `None` if it is not kept, or no longer.
    async fn blob(&self, sha256: &str) -> Result<Option<Bytes>, StoreError>;

    /// Adds to the changes of a call, in order. Put the contents that they refer to first: they are kept as long as the
    /// call is.
    ///
    /// # Errors
    /// `NotFound` if there is no such call.
    async fn record_changes(&self, call: &CallId, changes: Vec<FileChange>) -> Result<(), StoreError>;

    /// Returns the changes of a call in the order in which they were recorded; none for an unknown call.
    async fn changes(&self, call: &CallId) -> Result<Vec<FileChange>, StoreError>;
}

/// The end of the audit, and where it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEnd {
    /// The last record.
    pub head: Head,
    /// The last record that was removed; 0 if all are there.
    pub removed: u64,
}

/// One record of the audit, as it is verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditLine {
    /// Its number.
    pub sequence: u64,
    /// Canonical JSON without a line feed.
    pub json: String,
}

/// The audit: one chain for all that share the store. It records by itself what it is asked to store: the admission of a
/// call with [`CallLog::create_call`], its end with [`CallLog::append`], prompts, decisions and revoked grants with
/// [`Prompts`], each in the transaction of the thing itself and once.
#[async_trait]
pub trait Audit: Send + Sync + 'static {
    /// Queues a fact that is no change of anything stored; it is recorded before any `CallLog::append` that begins after
    /// this returns.
    fn audit(&self, fact: Fact);

    /// Returns the end of the chain. A chain has at least its first record.
    async fn audit_end(&self) -> Result<AuditEnd, StoreError>;

    /// Returns at most `limit` records with a number of `from` or above, in order.
    async fn audit_lines(&self, from: u64, limit: usize) -> Result<Vec<AuditLine>, StoreError>;

    /// Returns the number of the first record that was made at or after a moment; of the next one if there is none.
    async fn audit_since(&self, time: Timestamp) -> Result<u64, StoreError>;

    /// Removes records from before `before`, the oldest first and perhaps not all at once, and leaves a checkpoint from
    /// which the rest can be verified. Returns how many went; 0 when there is nothing more to remove.
    async fn sweep_audit(&self, before: Timestamp) -> Result<usize, StoreError>;
}

/// A workspace that was opened while the service ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenedWorkspace {
    /// Its name.
    pub name: String,
    /// Its folder, links followed.
    pub directory: String,
    /// Who opened it: the principal, or empty without authentication.
    pub by: String,
    /// When.
    pub time: Timestamp,
}

/// The workspaces that were opened while a service ran, for the next run. The audit records each opening and closing.
#[async_trait]
pub trait Workspaces: Send + Sync + 'static {
    /// Remembers a workspace; one of the same name is replaced. There is room for its outputs then.
    async fn keep_workspace(&self, opened: OpenedWorkspace) -> Result<(), StoreError>;

    /// Forgets a workspace, in the name of a principal if one is known; false if none was remembered. Its records stay.
    async fn drop_workspace(&self, name: &str, by: &str) -> Result<bool, StoreError>;

    /// Returns those that are remembered, in the order in which they were opened.
    async fn workspaces(&self) -> Result<Vec<OpenedWorkspace>, StoreError>;
}

/// What a run of the service does with its store besides reading and writing.
#[async_trait]
pub trait Upkeep: Send + Sync + 'static {
    /// Prepares for what calls of a workspace will store, before any is made. Blocks for a moment.
    ///
    /// # Errors
    /// There is no room for their outputs.
    fn prepare_workspace(&self, name: &str) -> Result<(), StoreError>;

    /// Writes something that changes nothing, and looks whether there is room for more.
    ///
    /// # Errors
    /// The store cannot be written, or it is full.
    async fn check(&self) -> Result<(), StoreError>;

    /// Returns the bytes that are free where outputs are kept; none if that cannot be told.
    async fn free_bytes(&self) -> Option<u64>;

    /// Returns how many portions of what was to be told were set aside, because they could not be read.
    ///
    /// # Errors
    /// The store cannot be reached.
    async fn untold(&self) -> Result<u64, StoreError> {
        Ok(0)
    }

    /// Says whether another run has died since, and nobody has looked after what it left. Blocks for a moment.
    fn has_dead_runs(&self) -> bool;

    /// Forgets the runs that have died, once what they left has been looked after. Blocks for a moment.
    ///
    /// # Errors
    /// Another process has kept the store from it for too long.
    fn forget_dead_runs(&self) -> Result<(), StoreError>;

    /// Says whether others may say of this run what it did not store itself: then nobody is shown what is not stored, because they
    /// may be told something else later.
    fn tells_others(&self) -> bool {
        false
    }

    /// Takes note that others may take this run for dead, because a connection broke: they are shown that it lives.
    fn show_life(&self) {}

    /// Gives up what this run has, without waiting for what is queued: it was stopped, and nothing that it started runs any more.
    ///
    /// # Errors
    /// Others have to wait until they take it for dead.
    async fn give_up(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Waits until everything queued is written, then gives the store up. What comes later fails.
    ///
    /// # Errors
    /// What was queued may not be written.
    async fn close(&self) -> Result<(), StoreError>;
}

/// Every store together, as one implementation gives them.
pub trait Store: CallLog + Outputs + Prompts + SessionFacts + Journal + Changes + Audit + Workspaces + Upkeep {}

impl<T: CallLog + Outputs + Prompts + SessionFacts + Journal + Changes + Audit + Workspaces + Upkeep> Store for T {}
