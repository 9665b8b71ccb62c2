//! What runs without a database write: the same statements as for this run's own, behind the fence of a workspace.
//!
//! *Invariant:* what a run says of itself is held against what it has: what is about another workspace or another run is refused here,
//! and what is stored of another one is not found. It tells the audit what it decided by its own rules, and no more: what the
//! store sees itself, and what people decide, is never taken from it.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::Value;
use toolgate_model::{
    CallEvent, CallId, CallRecord, CallState, FileChange, Grant, GrantId, InstanceId, JsonMap, Origin, OutputId,
    Prompt, PromptId, PromptState, ServiceEvent, ServiceEventKind, SessionId, SessionKey, Timestamp, WorkspaceSet,
};
use toolgate_store::audit::{Fact, Kind};
use toolgate_store::change::Change;
use toolgate_store::ledger::{Binding, Bound, Hold, Ledger, Note as Told, Part, Upload};
use toolgate_store::outbox::Entry;
use toolgate_store::{Created, Interest, OutputInfo, OutputOwner, PromptFilter, Settled, Settlement, StoreError};

use crate::calls::Creation;
use crate::fence::Fence;
use crate::notes::{self, Note, Numbered};
use crate::store::PostgresStore;
use crate::text::key;
use crate::{
    adoption, approvers, bindings, bucket_uploads, calls, changes, facts, holds, outputs_for, prompts, reaper,
    sequencer, settling,
};

/// Refuses what is not of the workspace and the run that have the hold.
fn must_be_of(hold: &Hold, what: &str, workspace: &str, run: Option<&InstanceId>) -> Result<(), StoreError> {
    let Hold {
        workspace: held,
        run: holder,
        principal: _,
        epoch: _,
    } = hold;
    if workspace != held {
        return Err(StoreError::Conflict(format!(
            "{what} is of workspace {workspace}, and what is held is {held}"
        )));
    }
    match run.filter(|run| *run != holder) {
        Some(other) => Err(StoreError::Conflict(format!(
            "{what} is of run {other}, and the workspace is held by {holder}"
        ))),
        None => Ok(()),
    }
}

fn must_be_of_call(hold: &Hold, record: &CallRecord) -> Result<(), StoreError> {
    let what = format!("call {}", record.id);
    must_be_of(hold, &what, &record.origin.workspace, Some(&record.owner))
}

/// Refuses a call that is of a moment far from this machine's clock.
fn must_be_of_now(record: &CallRecord, difference: Duration) -> Result<(), StoreError> {
    let apart = record.created.millis().abs_diff(Timestamp::now().millis());
    if u128::from(apart) <= difference.as_millis() {
        return Ok(());
    }
    Err(StoreError::Conflict(format!(
        "call {} was created {} s before or after the gateway's clock: set the clocks of the worker and of the gateway",
        record.id,
        apart / 1_000
    )))
}

/// Refuses what is of a moment to come, by far: what is old is deleted by what it says of its age, and that would stay.
fn must_not_be_to_come(what: &str, moment: Option<Timestamp>, difference: Duration) -> Result<(), StoreError> {
    let ahead = moment.map_or(0, |moment| moment.millis().saturating_sub(Timestamp::now().millis()));
    if i128::from(ahead) <= i128::try_from(difference.as_millis()).unwrap_or(i128::MAX) {
        return Ok(());
    }
    Err(StoreError::Conflict(format!(
        "{what} is {} s behind the gateway's clock: set the clocks of the worker and of the gateway",
        ahead / 1_000
    )))
}

/// Returns what another workspace may know of a call: that it has its id, and not where it is.
fn blank(taken: &CallRecord) -> CallRecord {
    CallRecord {
        id: taken.id.clone(),
        owner: InstanceId::from(""),
        origin: Origin {
            workspace: String::new(),
            directory: String::new(),
            session: SessionId::from(""),
            message_id: String::new(),
            agent: String::new(),
            model: Default::default(),
            client: String::new(),
            client_name: String::new(),
            parent: None,
            requester: String::new(),
            on_behalf_of: Vec::new(),
            clients: Vec::new(),
            unanswered: None,
            environment: Default::default(),
            extra: JsonMap::new(),
        },
        tool: String::new(),
        requested_tool: String::new(),
        directory: String::new(),
        in_task: false,
        ancestors: Vec::new(),
        made_by_call: false,
        is_step: false,
        request_digest: String::new(),
        input_json: String::new(),
        input_digest: String::new(),
        original: None,
        timeout: None,
        on_disconnect: Default::default(),
        state: CallState::Pending,
        created: Timestamp(0),
        started: None,
        ended: None,
        last_sequence: 0,
        title: String::new(),
        summary: String::new(),
        waiting_on: None,
        ending: None,
    }
}

/// Makes a note ready that a run may rightly tell of.
fn note(hold: &Hold, told: Told) -> Result<Note, StoreError> {
    match told {
        Told::Fact { session, key, value } => {
            must_be_of(hold, "a fact", &session.workspace, None)?;
            Ok(Note::Fact {
                session,
                name: key,
                json: value.to_string(),
                number: 0,
            })
        }
        Told::Event(event) => {
            must_be_of(hold, "an event", &event.workspace, None)?;
            match is_seen_by_the_store(&event) {
                true => Err(StoreError::Conflict(
                    "what the store sees itself is not told by a run".to_owned(),
                )),
                false => Entry::try_from(&event).map(Note::Told),
            }
        }
        Told::Audit(fact) => audited(hold, *fact).map(|fact| Note::Told(fact.into())),
    }
}

/// Says whether an event is told with a change of a call or a prompt.
fn is_seen_by_the_store(event: &ServiceEvent) -> bool {
    match event.kind {
        ServiceEventKind::Call { .. }
        | ServiceEventKind::Metadata { .. }
        | ServiceEventKind::PromptAdded { .. }
        | ServiceEventKind::PromptResolved { .. }
        | ServiceEventKind::Listening { .. } => true,
        ServiceEventKind::FileEdited { .. }
        | ServiceEventKind::TodosUpdated { .. }
        | ServiceEventKind::SessionEnded
        | ServiceEventKind::WorkspaceChanged { .. }
        | ServiceEventKind::ToolsChanged { .. } => false,
    }
}

/// Returns what the audit says of somebody whom only a run has named: nobody's principal begins so.
fn named_by_run(hold: &Hold, by: &str) -> String {
    match by.is_empty() {
        true => String::new(),
        false => format!("worker {}: {by}", hold.principal),
    }
}

/// Refuses records of the audit about calls and prompts of other workspaces. Of one that is not there nothing is known: a record may
/// come before its call.
async fn must_be_about(
    store: &PostgresStore,
    hold: &Hold,
    notes: &[Told],
    new: Option<&CallId>,
) -> Result<(), StoreError> {
    let facts = notes.iter().filter_map(|note| match note {
        Told::Audit(fact) => Some(fact),
        Told::Fact { .. } | Told::Event(_) => None,
    });
    let (mut about, mut asked) = (BTreeSet::new(), BTreeSet::new());
    for fact in facts {
        about.extend(fact.call.iter().chain(&fact.parent));
        asked.extend(fact.prompt.iter().chain(&fact.because_of));
    }
    about.retain(|id| Some(*id) != new);
    // Most are about calls that are to be created.
    for id in calls::known_of(&store.shared.db, &about).await? {
        let workspace = calls::workspace_of(&store.shared.db, id).await?;
        if workspace.is_some_and(|workspace| workspace != key(&hold.workspace)) {
            return Err(StoreError::NotFound(format!("call {id}")));
        }
    }
    for id in asked {
        let prompt = prompts::get(&store.shared, id).await?;
        if prompt.is_some_and(|prompt| prompt.workspace != hold.workspace) {
            return Err(StoreError::NotFound(format!("prompt {id}")));
        }
    }
    Ok(())
}

/// Makes notes ready that a run may rightly tell of, the call that is created with them, or changed, included: whether that is one of the
/// workspace shows when they are stored.
async fn noted(
    store: &PostgresStore,
    hold: &Hold,
    notes: &[Told],
    new: Option<&CallId>,
) -> Result<Vec<Note>, StoreError> {
    must_be_about(store, hold, notes, new).await?;
    for told in notes {
        if let Told::Event(event) = told {
            must_not_be_to_come("an event", Some(event.time), store.shared.clock_difference)?;
        }
    }
    notes.iter().map(|told| note(hold, told.clone())).collect()
}

/// What became of an attempt to create a call.
enum Made {
    New,
    /// It is there from an earlier attempt, whatever became of its notes.
    Repeated,
    /// The id is taken by this one.
    Taken(Box<CallRecord>),
    /// The notes are not what comes next, or the id is taken.
    Nothing,
}

/// Creates a call, with notes that came before it.
async fn create(
    store: &PostgresStore,
    hold: &Hold,
    notes: Option<&Numbered>,
    (record, events): (CallRecord, Vec<CallEvent>),
    again: bool,
) -> Result<Made, StoreError> {
    must_be_of_call(hold, &record)?;
    must_be_of_now(&record, store.shared.clock_difference)?;
    must_not_be_to_come("the end of a call", record.ended, store.shared.clock_difference)?;
    if let Some(named) = record.id.workspace() {
        // Names within other workspaces are theirs.
        must_be_of(hold, &format!("the id {}", record.id.as_str()), named, None)?;
    }
    let (id, fence) = (record.id.clone(), Fence::new(hold));
    let change = Change::creation(record, &events)?;
    match calls::create(store, change, &events, Some(&fence), notes, again).await? {
        Creation::Done => return Ok(Made::New),
        Creation::Repeated => return Ok(Made::Repeated),
        Creation::Refused => return Ok(Made::Nothing),
        Creation::Taken => {}
    }
    fence.check(&store.shared.db).await?;
    let taken = calls::get(&store.shared.db, &id).await?;
    let taken = taken.ok_or_else(|| StoreError::Conflict(format!("call {id} has just been deleted")))?;
    Ok(Made::Taken(Box::new(match taken.origin.workspace == hold.workspace {
        true => taken,
        false => blank(&taken),
    })))
}

/// Takes a record of the audit that a run may make, in its name. The number of refusals that were only counted names no workspace:
/// it gets this one.
fn audited(hold: &Hold, fact: Fact) -> Result<Fact, StoreError> {
    match fact.kind {
        Kind::Refused | Kind::Allowed | Kind::Denied | Kind::WorkspaceOpened | Kind::WorkspaceClosed => {}
        Kind::Genesis
        | Kind::Admitted
        | Kind::Prompted
        | Kind::Approved
        | Kind::Decided
        | Kind::Revoked
        | Kind::Ended
        | Kind::WorkspaceSuspended
        | Kind::WorkspaceResumed
        | Kind::Checkpoint => {
            let kind = fact.kind.as_str();
            return Err(StoreError::Conflict(format!(
                "a run does not record that something is {kind}"
            )));
        }
    }
    let workspace = match fact.workspace.is_empty() {
        true => hold.workspace.clone(),
        false => fact.workspace.clone(),
    };
    must_be_of(hold, "a record of the audit", &workspace, fact.instance.as_ref())?;
    Ok(Fact {
        workspace,
        instance: Some(hold.run.clone()),
        by: named_by_run(hold, &fact.by),
        chain: String::new(),
        removed: None,
        removed_hash: String::new(),
        ..fact
    })
}

/// Makes sure that a call is one of the workspace.
async fn must_have_call(store: &PostgresStore, hold: &Hold, call: &CallId) -> Result<(), StoreError> {
    let stored = calls::get(&store.shared.db, call).await?;
    match stored.is_some_and(|stored| stored.origin.workspace == hold.workspace) {
        true => Ok(()),
        false => Err(StoreError::NotFound(format!("call {call}"))),
    }
}

#[async_trait]
impl Ledger for PostgresStore {
    fn lease(&self) -> Duration {
        self.shared.instances.lease()
    }

    async fn bind(
        &self,
        run: &InstanceId,
        principal: &str,
        address: &str,
        workspaces: &[String],
    ) -> Result<Bound, StoreError> {
        holds::bind(&self.shared, run, principal, address, workspaces).await
    }

    async fn bind_worker(&self, principal: &str, worker: &str, workspace: &str) -> Result<Binding, StoreError> {
        bindings::bind(&self.shared, principal, worker, workspace).await
    }

    async fn bindings_of(&self, principal: &str) -> Result<Vec<(String, String)>, StoreError> {
        bindings::of(&self.shared, principal).await
    }

    async fn is_run_of(&self, run: &InstanceId, principal: &str) -> Result<bool, StoreError> {
        holds::is_run_of(&self.shared, run, principal).await
    }

    async fn renew_leases(&self, runs: &[InstanceId]) -> Result<Vec<InstanceId>, StoreError> {
        holds::renew(&self.shared, runs).await
    }

    async fn renew_holds(&self, holds: &[Hold]) -> Result<Vec<Hold>, StoreError> {
        holds::renew_holds(&self.shared, holds).await
    }

    async fn has_noted(&self, run: &InstanceId, noted: u64) -> Result<(), StoreError> {
        holds::has_noted(&self.shared, run, noted).await
    }

    async fn doubt_after(&self, run: &InstanceId, principal: &str, silence: Duration) -> Result<(), StoreError> {
        holds::doubt(&self.shared, run, principal, silence).await
    }

    async fn holders(&self, workspaces: &[String]) -> Result<HashMap<String, InstanceId>, StoreError> {
        holds::holders(&self.shared, workspaces).await
    }

    async fn was_held(&self, workspace: &str) -> Result<bool, StoreError> {
        holds::was_held(&self.shared, workspace).await
    }

    async fn lag(&self) -> Result<Duration, StoreError> {
        sequencer::lag(&self.shared.db).await
    }

    fn expired(&self) -> u64 {
        self.shared.instances.expired()
    }

    async fn release(&self, run: &InstanceId) -> Result<(), StoreError> {
        holds::release(&self.shared, run).await
    }

    async fn must_hold(&self, hold: &Hold) -> Result<(), StoreError> {
        Fence::new(hold).check(&self.shared.db).await
    }

    async fn create_call_for(
        &self,
        hold: &Hold,
        record: CallRecord,
        events: Vec<CallEvent>,
        again: bool,
    ) -> Result<Created, StoreError> {
        let id = record.id.clone();
        match create(self, hold, None, (record, events), again).await? {
            Made::New | Made::Repeated => Ok(Created::New),
            Made::Taken(taken) => Ok(Created::Taken(taken)),
            Made::Nothing => Err(StoreError::Conflict(format!("call {id} was not created"))),
        }
    }

    async fn create_call_with(
        &self,
        hold: &Hold,
        (first, notes): (u64, Vec<Told>),
        record: CallRecord,
        events: Vec<CallEvent>,
        again: bool,
    ) -> Result<Created, StoreError> {
        if notes.is_empty() {
            return self.create_call_for(hold, record, events, again).await;
        }
        let taken = noted(self, hold, &notes, Some(&record.id)).await?;
        notes::must_have_room(&self.shared, &taken).await?;
        let numbered = Numbered::new(first.saturating_sub(1), taken)?;
        let call = (record.clone(), events.clone());
        match create(self, hold, Some(&numbered), call, again).await? {
            Made::New => Ok(Created::New),
            Made::Repeated => {
                // It may have been created with fewer of them, or with none.
                self.note_for(hold, first, notes).await?;
                Ok(Created::New)
            }
            Made::Taken(taken) => Ok(Created::Taken(taken)),
            Made::Nothing => {
                self.note_for(hold, first, notes).await?;
                self.create_call_for(hold, record, events, again).await
            }
        }
    }

    async fn append_with(
        &self,
        hold: &Hold,
        (first, notes): (u64, Vec<Told>),
        record: CallRecord,
        events: Vec<CallEvent>,
        again: bool,
    ) -> Result<(), StoreError> {
        if !notes.is_empty() {
            must_be_of_call(hold, &record)?;
            must_not_be_to_come("the end of a call", record.ended, self.shared.clock_difference)?;
            let taken = noted(self, hold, &notes, Some(&record.id)).await?;
            notes::must_have_room(&self.shared, &taken).await?;
            let numbered = Numbered::new(first.saturating_sub(1), taken)?;
            if calls::append_with(self, record.clone(), &events, &Fence::new(hold), &numbered).await? {
                return Ok(());
            }
            self.note_for(hold, first, notes).await?;
        }
        self.append_for(hold, record, events, again).await
    }

    async fn append_for(
        &self,
        hold: &Hold,
        record: CallRecord,
        events: Vec<CallEvent>,
        again: bool,
    ) -> Result<(), StoreError> {
        must_be_of_call(hold, &record)?;
        must_not_be_to_come("the end of a call", record.ended, self.shared.clock_difference)?;
        calls::append(self, record, events, Some(&Fence::new(hold)), again).await
    }

    async fn adopt_for(&self, hold: &Hold) -> Result<Vec<CallRecord>, StoreError> {
        adoption::adopt_for(self, hold).await
    }

    async fn record_changes_for(&self, hold: &Hold, call: &CallId, changes: Vec<FileChange>) -> Result<(), StoreError> {
        must_have_call(self, hold, call).await?;
        changes::record(&self.shared, call, changes, Some(&Fence::new(hold))).await
    }

    async fn record_changes_after(
        &self,
        hold: &Hold,
        call: &CallId,
        before: u64,
        changes: Vec<FileChange>,
    ) -> Result<(), StoreError> {
        must_have_call(self, hold, call).await?;
        changes::record_after(&self.shared, call, before, changes, &Fence::new(hold)).await
    }

    async fn open_for(
        &self,
        hold: &Hold,
        prompt: Prompt,
        asker: Option<Value>,
        judged_by: Option<BTreeSet<GrantId>>,
        again: bool,
    ) -> Result<Vec<Grant>, StoreError> {
        let what = format!("prompt {}", prompt.id);
        must_be_of(hold, &what, &prompt.workspace, Some(&prompt.owner))?;
        let is_new = prompt.state == PromptState::Open && prompt.decision.is_none() && prompt.approvals.is_empty();
        if !is_new {
            return Err(StoreError::Conflict(format!("{what} is not a new one")));
        }
        let fence = Fence::new(hold);
        prompts::open(&self.shared, &prompt, asker, judged_by.as_ref(), Some(&fence), again).await
    }

    async fn prompts_for(&self, filter: &PromptFilter, limit: usize) -> Result<Vec<Prompt>, StoreError> {
        prompts::list_for(&self.shared, filter, limit).await
    }

    async fn open_prompts_in(
        &self,
        workspaces: &WorkspaceSet,
        limit: usize,
    ) -> Result<Vec<(PromptId, u64)>, StoreError> {
        prompts::list_open(&self.shared, workspaces, limit).await
    }

    async fn interests_in(&self, workspaces: &[String]) -> Result<Vec<Interest>, StoreError> {
        approvers::of(&self.shared.db, &self.shared.instances, workspaces).await
    }

    async fn replace_asker_for(&self, hold: &Hold, id: &PromptId, asker: Option<Value>) -> Result<(), StoreError> {
        let fence = Fence::new(hold);
        if prompts::replace_asker(&self.shared, id, asker, Some(&fence)).await? {
            return Ok(());
        }
        fence.check(&self.shared.db).await?;
        // One that has ended is nothing to complain of.
        let stored = prompts::get(&self.shared, id).await?;
        match stored.is_some_and(|stored| stored.workspace != hold.workspace) {
            true => Err(StoreError::NotFound(format!("prompt {id}"))),
            false => Ok(()),
        }
    }

    async fn end_prompt_for(&self, hold: &Hold, end: Settlement) -> Result<Settled, StoreError> {
        settling::end(&self.shared, hold, &end).await
    }

    async fn use_grants_for(&self, hold: &Hold, ids: &[GrantId], now: Timestamp) -> Result<Vec<GrantId>, StoreError> {
        prompts::use_grants(&self.shared, ids, now, Some(hold)).await
    }

    async fn revoke_for(&self, hold: &Hold, id: &GrantId, by: &str) -> Result<Option<Grant>, StoreError> {
        prompts::revoke(&self.shared, id, &named_by_run(hold, by), Some(hold)).await
    }

    async fn note_for(&self, hold: &Hold, first: u64, notes: Vec<Told>) -> Result<(), StoreError> {
        let notes = noted(self, hold, &notes, None).await?;
        notes::store_for(&self.shared, &Fence::new(hold), first, notes).await?;
        self.shared.told();
        Ok(())
    }

    async fn forget_for(&self, hold: &Hold, session: &SessionKey) -> Result<usize, StoreError> {
        must_be_of(hold, "a session", &session.workspace, None)?;
        facts::forget(&self.shared, session, Some(&Fence::new(hold))).await
    }

    async fn begin_output_for(
        &self,
        hold: &Hold,
        id: &OutputId,
        owner: OutputOwner,
        created: Timestamp,
    ) -> Result<(), StoreError> {
        outputs_for::begin(&self.shared, hold, id, owner, created).await
    }

    async fn append_output_for(&self, hold: &Hold, id: &OutputId, offset: u64, bytes: Bytes) -> Result<(), StoreError> {
        outputs_for::append(&self.shared, hold, id, offset, &bytes).await
    }

    async fn finish_output_for(&self, hold: &Hold, id: &OutputId, lines: u64) -> Result<OutputInfo, StoreError> {
        outputs_for::finish(&self.shared, hold, id, lines).await
    }

    async fn reap(&self) -> Result<Vec<CallRecord>, StoreError> {
        reaper::reap(&self.shared).await
    }

    async fn presign_part(&self, hold: &Hold, id: &OutputId, part: &Part) -> Result<Option<Upload>, StoreError> {
        bucket_uploads::presign(&self.shared, hold, id, part).await
    }

    async fn record_part(&self, hold: &Hold, id: &OutputId, part: &Part, object: &str) -> Result<(), StoreError> {
        bucket_uploads::record(&self.shared, hold, id, part, object).await
    }
}
