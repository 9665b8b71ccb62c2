//! What a store does for runs of the service that have none: workers write through a gateway, which has the database.
//!
//! *Invariant:* every change names who holds the workspace that it is about, and takes place only if that is still so in the same
//! transaction: a run whose workspace another one has taken over changes nothing any more. Nothing that a run says of itself widens
//! what it may change: what belongs to another workspace is [`StoreError::NotFound`] or [`StoreError::Conflict`] to it.
//!
//! A change of which no answer came is said again, perhaps to another process that shares the store: `again` says that it is. What of
//! it is there already is not stored twice then.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolgate_model::{
    CallEvent, CallId, CallRecord, FileChange, Grant, GrantId, InstanceId, OutputId, Prompt, PromptId, ServiceEvent,
    SessionKey, Timestamp, WorkspaceSet,
};

use crate::audit::Fact;
use crate::{Created, Interest, OutputInfo, OutputOwner, PromptFilter, Settled, Settlement, Store, StoreError};

/// That a run has a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// The workspace.
    pub workspace: String,
    /// The run that has it.
    pub run: InstanceId,
    /// Whose the run is: who was found to call, never what a run says.
    pub principal: String,
    /// How many times it has been taken over: what was written with an earlier number is not taken any more.
    pub epoch: u64,
}

/// What became of an attempt to take workspaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The run has all of them.
    Now(Vec<Hold>),
    /// It got none: another run has one of them, which may still live.
    Held {
        /// Which.
        workspace: String,
        /// By which run.
        by: InstanceId,
        /// After how long it is worth trying again.
        retry: Duration,
    },
}

/// What became of an attempt to bind a worker that came without a workspace to one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Binding {
    /// It is bound to it.
    Now,
    /// The worker is bound to another workspace.
    Elsewhere,
    /// Another worker is bound to the workspace.
    OfAnother {
        /// Its principal.
        principal: String,
        /// Its name.
        worker: String,
    },
    /// Somebody has, or had, the workspace without being bound to it.
    Held,
}

/// Something to store that is no change of a call or a prompt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Note {
    /// A fact of a session: see [`crate::SessionFacts::remember`].
    Fact {
        /// The session.
        session: SessionKey,
        /// Its key.
        key: String,
        /// Its value.
        value: Value,
    },
    /// An event of the journal: see [`crate::Journal::record`].
    Event(ServiceEvent),
    /// A record of the audit: see [`crate::Audit::audit`].
    Audit(Box<Fact>),
}

/// A store that others write to through this process. What they may read they read as any other reader does: see [`Store`].
#[async_trait]
pub trait Ledger: Store {
    /// Returns how long the lease of a run lasts.
    fn lease(&self) -> Duration;

    /// Gives workspaces to a run: all or none. A workspace is free if no run has it, if the run that had it is dead, or if that one has
    /// released it. `address` is where the run can be reached, for people. Said again by the same run it gives what the run has.
    ///
    /// # Errors
    /// `Conflict` if the run is not this principal's.
    async fn bind(
        &self,
        run: &InstanceId,
        principal: &str,
        address: &str,
        workspaces: &[String],
    ) -> Result<Bound, StoreError>;

    /// Binds a worker of a principal, which came without a workspace, to one that nobody has had: for good. Said again it finds what it
    /// has done. A principal that stands for one machine has one worker, whose name is empty.
    async fn bind_worker(&self, principal: &str, worker: &str, workspace: &str) -> Result<Binding, StoreError>;

    /// Returns what workers of a principal are bound to, each with the name of its worker.
    async fn bindings_of(&self, principal: &str) -> Result<Vec<(String, String)>, StoreError>;

    /// Says whether a run is there that this principal has given workspaces.
    async fn is_run_of(&self, run: &InstanceId, principal: &str) -> Result<bool, StoreError>;

    /// Renews the leases of runs, many at once. Returns those that have none any more: what they had may be taken over.
    async fn renew_leases(&self, runs: &[InstanceId]) -> Result<Vec<InstanceId>, StoreError>;

    /// Renews the leases of those who have what is named here, many at once. Returns what they do not have any more. A run that has one
    /// of several is renewed.
    async fn renew_holds(&self, holds: &[Hold]) -> Result<Vec<Hold>, StoreError>;

    /// Takes in how many of its notes a run knows to be stored, after it was bound: its row may be a new one, as it was silent for long.
    async fn has_noted(&self, run: &InstanceId, noted: u64) -> Result<(), StoreError>;

    /// Says that the connection to a run of this principal broke: it is dead unless its lease is renewed within a moment.
    async fn doubt(&self, run: &InstanceId, principal: &str) -> Result<(), StoreError> {
        self.doubt_after(run, principal, Duration::ZERO).await
    }

    /// As [`Self::doubt`], of a run that was last heard so long ago: nothing happens if its lease was renewed since then.
    async fn doubt_after(&self, run: &InstanceId, principal: &str, silence: Duration) -> Result<(), StoreError>;

    /// Returns which runs have these workspaces now, by their names; none if nobody has one.
    async fn holders(&self, workspaces: &[String]) -> Result<HashMap<String, InstanceId>, StoreError>;

    /// Says whether a run has ever had a workspace.
    async fn was_held(&self, workspace: &str) -> Result<bool, StoreError>;

    /// Returns how long the oldest waits of what audit and journal are to have, and have not yet.
    async fn lag(&self) -> Result<Duration, StoreError>;

    /// Returns how many workspaces this process has taken from runs that were not heard of any more.
    fn expired(&self) -> u64;

    /// Gives up what a run has, because it ends: as [`crate::Upkeep::close`].
    async fn release(&self, run: &InstanceId) -> Result<(), StoreError>;

    /// Finds out whether a run has a workspace: before much is read of what it wants to change there.
    ///
    /// # Errors
    /// `Fenced` if it has not.
    async fn must_hold(&self, hold: &Hold) -> Result<(), StoreError>;

    /// As [`crate::CallLog::create_call`].
    async fn create_call_for(
        &self,
        hold: &Hold,
        record: CallRecord,
        events: Vec<CallEvent>,
        again: bool,
    ) -> Result<Created, StoreError>;

    /// As [`Self::create_call_for`], with notes that came before it: as [`Self::note_for`] has them, of which these are `first` and the
    /// following ones. All is stored, or nothing; also if the id is taken, the notes are.
    async fn create_call_with(
        &self,
        hold: &Hold,
        (first, notes): (u64, Vec<Note>),
        record: CallRecord,
        events: Vec<CallEvent>,
        again: bool,
    ) -> Result<Created, StoreError>;

    /// As [`Self::append_for`], with notes that came before it: as [`Self::note_for`] has them, of which these are `first` and the
    /// following ones. The notes are stored even if nothing can be appended.
    async fn append_with(
        &self,
        hold: &Hold,
        (first, notes): (u64, Vec<Note>),
        record: CallRecord,
        events: Vec<CallEvent>,
        again: bool,
    ) -> Result<(), StoreError>;

    /// As [`crate::CallLog::append`].
    async fn append_for(
        &self,
        hold: &Hold,
        record: CallRecord,
        events: Vec<CallEvent>,
        again: bool,
    ) -> Result<(), StoreError>;

    /// As [`crate::CallLog::adopt_orphans`], of one workspace: takes over the unfinished calls that earlier holders left, and their open
    /// prompts. Said again it returns those of this run that it had not ended.
    async fn adopt_for(&self, hold: &Hold) -> Result<Vec<CallRecord>, StoreError>;

    /// As [`crate::Changes::record_changes`].
    async fn record_changes_for(&self, hold: &Hold, call: &CallId, changes: Vec<FileChange>) -> Result<(), StoreError>;

    /// As [`Self::record_changes_for`], of changes that come behind so many others of the call: those that are stored already are not
    /// stored twice.
    ///
    /// # Errors
    /// `Conflict` if some of those before them are missing.
    async fn record_changes_after(
        &self,
        hold: &Hold,
        call: &CallId,
        before: u64,
        changes: Vec<FileChange>,
    ) -> Result<(), StoreError>;

    /// As [`crate::Prompts::open`].
    async fn open_for(
        &self,
        hold: &Hold,
        prompt: Prompt,
        asker: Option<Value>,
        judged_by: Option<BTreeSet<GrantId>>,
        again: bool,
    ) -> Result<Vec<Grant>, StoreError>;

    /// As [`crate::Prompts::prompts`].
    ///
    /// # Errors
    /// `Full` if they are more than one answer has room for.
    async fn prompts_for(&self, filter: &PromptFilter, limit: usize) -> Result<Vec<Prompt>, StoreError>;

    /// As [`crate::Prompts::open_prompts`], of these workspaces, and at most so many: the first ones. Those of others are not looked at:
    /// of thousands of workers each one asks, every few seconds.
    async fn open_prompts_in(
        &self,
        workspaces: &WorkspaceSet,
        limit: usize,
    ) -> Result<Vec<(PromptId, u64)>, StoreError>;

    /// Returns what those listen to of these workspaces who may answer prompts, at this process and at others that share the store. Of
    /// the sessions and the clients that they have named there are those of unfinished calls of these workspaces only.
    async fn interests_in(&self, workspaces: &[String]) -> Result<Vec<Interest>, StoreError>;

    /// As [`crate::Prompts::replace_asker`].
    async fn replace_asker_for(&self, hold: &Hold, id: &PromptId, asker: Option<Value>) -> Result<(), StoreError>;

    /// Ends a prompt that nobody has decided: it expired, or its call has gone. It never decides one.
    ///
    /// # Errors
    /// `Conflict` if the settlement decides.
    async fn end_prompt_for(&self, hold: &Hold, end: Settlement) -> Result<Settled, StoreError>;

    /// As [`crate::Prompts::use_grants`]. What is counted once more because there was no answer is a use too many, never one too few.
    async fn use_grants_for(&self, hold: &Hold, ids: &[GrantId], now: Timestamp) -> Result<Vec<GrantId>, StoreError>;

    /// As [`crate::Prompts::revoke`], of a grant of the workspace.
    async fn revoke_for(&self, hold: &Hold, id: &GrantId, by: &str) -> Result<Option<Grant>, StoreError>;

    /// Stores notes in their order, durably. `first` is the number of the first one: a run numbers its notes from 1 without gaps, and
    /// those that are stored already are not stored twice.
    async fn note_for(&self, hold: &Hold, first: u64, notes: Vec<Note>) -> Result<(), StoreError>;

    /// As [`crate::SessionFacts::forget`].
    async fn forget_for(&self, hold: &Hold, session: &SessionKey) -> Result<usize, StoreError>;

    /// Begins an output, whose id the run chose. Begun again by the same run, it is the same output.
    async fn begin_output_for(
        &self,
        hold: &Hold,
        id: &OutputId,
        owner: OutputOwner,
        created: Timestamp,
    ) -> Result<(), StoreError>;

    /// Appends bytes to an output that ends at `offset`. Bytes that are there already are not stored twice.
    ///
    /// # Errors
    /// `Conflict` if it ends elsewhere.
    async fn append_output_for(&self, hold: &Hold, id: &OutputId, offset: u64, bytes: Bytes) -> Result<(), StoreError>;

    /// Ends an output, of which the writer has counted the lines.
    async fn finish_output_for(&self, hold: &Hold, id: &OutputId, lines: u64) -> Result<OutputInfo, StoreError>;

    /// Ends as lost what dead runs have left and nobody waits for, and takes their workspaces from them, so that what they still write
    /// is not taken. What waits for a person waits for the next run that has the workspace. Returns the calls that it has ended. Two
    /// processes that do this at once end each call once.
    async fn reap(&self) -> Result<Vec<CallRecord>, StoreError>;

    /// Lets a run put a part of an output where outputs are kept, without it passing through here. None if there is no such place:
    /// then all of it is appended.
    ///
    /// # Errors
    /// `Conflict` if it is no part as [`Part`] says, or the output has ended.
    async fn presign_part(&self, hold: &Hold, id: &OutputId, part: &Part) -> Result<Option<Upload>, StoreError> {
        let _ = (hold, id, part);
        Ok(None)
    }

    /// Makes what was put by an [`Upload`] a part of its output, in place of what was appended of it. The output ends behind it then,
    /// unless it is longer already. Said again, it is the same.
    ///
    /// # Errors
    /// `Conflict` if it is not there as it was asked for, if it was asked for too long ago, or if the output does not reach up to its
    /// start.
    async fn record_part(&self, hold: &Hold, id: &OutputId, part: &Part, object: &str) -> Result<(), StoreError> {
        let _ = (hold, part, object);
        Err(StoreError::Conflict(format!(
            "parts of output {id} are not kept elsewhere"
        )))
    }
}

/// Where the first part of an output begins; what is before it is appended.
pub const FIRST_PART: u64 = 64 << 10;

/// How long a part is.
pub const PART_BYTES: u64 = 8 << 20;

/// A part of an output: it begins at [`FIRST_PART`] or a multiple of [`PART_BYTES`] behind it, and is that long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The place of its first byte in the output.
    pub start: u64,
    /// SHA-256 of its bytes, hexadecimal.
    pub sha256: String,
}

/// How to put one part where outputs are kept: by one request that anybody can make who knows this.
#[derive(Clone, PartialEq, Eq)]
pub struct Upload {
    /// What it is called there: for [`Ledger::record_part`].
    pub object: String,
    /// Where to send the bytes, by PUT.
    pub url: String,
    /// The headers to send with them, exactly these: with others, or with other bytes than those of the part, they are refused.
    pub headers: Vec<(String, String)>,
    /// For how long.
    pub expires_in: Duration,
}

/// Without the URL, which is as good as a password.
impl std::fmt::Debug for Upload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Upload")
            .field("object", &self.object)
            .field("expires_in", &self.expires_in)
            .finish_non_exhaustive()
    }
}
