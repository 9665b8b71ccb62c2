//! Which workers may use the ledger, and for which workspaces.
//!
//! *Invariant:* who calls is what the gate has found, never what a request says. Whose a run is the store remembers, and compares.

use std::sync::Arc;

use tonic::codegen::http::Extensions;
use tonic::{Request, Status};
use toolgate_contract::ErrorReason;
use toolgate_contract::cluster::{Holding, PartUpload};
use toolgate_ledger::wire;
use toolgate_model::{CallEvent, CallRecord, InstanceId, WorkspaceSet, workspace_name_problem};
use toolgate_server::grpc::auth::OnBehalf;
use toolgate_server::grpc::status;
use toolgate_store::StoreError;
use toolgate_store::ledger::{Hold, Note, PART_BYTES, Upload};

use crate::bindings::Bindings;
use crate::ledger_messages::read;
use crate::ledger_rate::Allowance;
use crate::registry::MAX_WORKSPACES;

/// Bytes of JSON that are read of whoever says that it has a workspace: to read them costs less than to look whether it has.
pub(crate) const MAX_UNHELD_BYTES: usize = 64 << 10;

/// Bytes of one record, prompt or note: those who read many at once have room for them.
pub(crate) const MAX_RECORD_BYTES: usize = 16 << 20;

/// Letters of the name of a run.
const MAX_RUN_LETTERS: usize = 128;

/// A worker that has called.
pub(crate) struct Caller {
    caller: OnBehalf,
    /// What it is bound to, if it has only that.
    bindings: Option<Arc<Bindings>>,
    /// What it may still store, if it stores something.
    allowance: Option<Arc<Allowance>>,
}

/// Returns who calls, if that is a worker, and what it asks.
pub(crate) fn enter<Q>(request: Request<Q>, bindings: &Arc<Bindings>) -> Result<(Caller, Q), Status> {
    let caller = worker(request.extensions())?;
    let bindings = caller.may_be_bound_to().is_some().then(|| Arc::clone(bindings));
    let caller = Caller {
        caller,
        bindings,
        allowance: request.extensions().get().cloned(),
    };
    Ok((caller, request.into_inner()))
}

/// Returns who calls, if that is a worker.
pub(crate) fn worker(extensions: &Extensions) -> Result<OnBehalf, Status> {
    let caller = OnBehalf::of(extensions)?;
    if caller.is_worker() {
        return Ok(caller);
    }
    let problem = format!(
        "{} may not write as a worker: name it in auth.workers of the gateway's configuration, or in auth.workers_file",
        caller.id()
    );
    Err(status::refused(ErrorReason::ScopeMissing, problem))
}

impl Caller {
    /// Returns the principal.
    pub(crate) fn id(&self) -> String {
        self.caller.id()
    }

    /// Returns what a change says of its workspace, if the caller may see that.
    pub(crate) async fn hold(&self, holding: Option<Holding>) -> Result<Hold, Status> {
        let holding = holding.ok_or_else(|| status::bad_field("holding", "expected one"))?;
        let hold = wire::of_holding(holding, self.id());
        self.must_see("holding.workspace", &hold.workspace).await?;
        Ok(hold)
    }

    /// Returns the names of workspaces that are to be taken.
    pub(crate) async fn wanted(&self, names: Vec<String>) -> Result<Vec<String>, Status> {
        if names.is_empty() || names.len() > MAX_WORKSPACES {
            let problem = format!("expected 1 to {MAX_WORKSPACES} names");
            return Err(status::bad_field("workspaces", problem));
        }
        // What no configuration could name would stay for ever, and nobody could ask for it.
        if let Some(problem) = names.iter().find_map(|name| workspace_name_problem(name)) {
            return Err(status::bad_field("workspaces", problem));
        }
        if let Some(bindings) = &self.bindings {
            // One that was taken back takes nothing.
            let looked = bindings.look(&self.id()).await;
            looked.map_err(|error| wire::refusal(&error))?;
        }
        let seen = self.seen(names.clone()).await?;
        match names.iter().find(|name| !seen.contains(name)) {
            Some(other) => Err(self.sees_not("workspaces", other)),
            None => Ok(self.stored(names)),
        }
    }

    /// Counts what is stored beyond the one record that each request counts as.
    pub(crate) fn stored<T>(&self, some: Vec<T>) -> Vec<T> {
        if let Some(allowance) = &self.allowance {
            allowance.draw_records(some.len());
        }
        some
    }

    /// Reads notes that came with a change, of which the first has this number. Returns the number of the last one, too; 0 without any.
    pub(crate) fn notes(&self, first: u64, notes: &[u8]) -> Result<((u64, Vec<Note>), u64), Status> {
        let notes = self.stored(read_notes(notes)?);
        let last = match notes.len() as u64 {
            0 => 0,
            count => first.saturating_add(count - 1),
        };
        Ok(((first, notes), last))
    }

    /// Reads a call with events. The request counts as the first of them; what is told of the others is as much again.
    pub(crate) fn change(&self, record: &[u8], events: &[u8]) -> Result<(CallRecord, Vec<CallEvent>), Status> {
        let events: Vec<CallEvent> = read("events", events)?;
        if let Some(allowance) = &self.allowance {
            allowance.draw_records(events.len().saturating_sub(1));
        }
        Ok((read("record", record)?, events))
    }

    /// Says how a part is put where outputs are, past this gateway, and counts its bytes.
    pub(crate) fn puts(&self, upload: Upload) -> PartUpload {
        if let Some(allowance) = &self.allowance {
            allowance.draw_bytes(usize::try_from(PART_BYTES).unwrap_or(usize::MAX));
        }
        wire::part_upload(upload)
    }

    /// Returns the workspaces that are read: of those that are named the ones that the caller sees, as many as it can have.
    pub(crate) async fn reads(&self, mut names: Vec<String>) -> Result<WorkspaceSet, Status> {
        names.truncate(MAX_WORKSPACES);
        self.seen(names).await
    }

    pub(crate) async fn must_see(&self, field: &str, workspace: &str) -> Result<(), Status> {
        match self.seen(vec![workspace.to_owned()]).await?.is_empty() {
            false => Ok(()),
            true => Err(self.sees_not(field, workspace)),
        }
    }

    /// Returns those of some workspaces that the caller may have.
    async fn seen(&self, mut names: Vec<String>) -> Result<WorkspaceSet, Status> {
        match &self.bindings {
            None => names.retain(|name| self.caller.sees(name)),
            Some(bindings) => {
                let bound = bindings.among(&self.id(), &names).await;
                names = bound.map_err(|error| wire::refusal(&error))?;
            }
        }
        Ok(WorkspaceSet::of_names(names))
    }

    fn sees_not(&self, field: &str, workspace: &str) -> Status {
        let remedy = match self.bindings {
            None => "add it to the workspaces of its token, or of the rule that names it",
            Some(_) => "it is not bound to it",
        };
        let problem = format!(
            "{field}: {} may not have the workspace {workspace}: {remedy}",
            self.id()
        );
        status::refused(ErrorReason::WorkspacesLimited, problem)
    }
}

/// Refuses a record, a prompt or a note that is longer than any that a worker has reason to store.
pub(crate) fn must_fit(what: &str, json: &[u8]) -> Result<(), Status> {
    if json.len() <= MAX_RECORD_BYTES {
        return Ok(());
    }
    let problem = format!(
        "{what} of {} bytes is too long: expected at most {MAX_RECORD_BYTES}",
        json.len()
    );
    Err(wire::refusal(&StoreError::Full(problem)))
}

/// Reads notes that came together, if any did.
pub(crate) fn read_notes(json: &[u8]) -> Result<Vec<Note>, Status> {
    if json.is_empty() {
        return Ok(Vec::new());
    }
    let notes: Vec<Note> = read("notes", json)?;
    must_each_fit(json, &notes)?;
    Ok(notes)
}

/// As [`must_fit`], of each of some notes that came together, and of their number.
fn must_each_fit(all: &[u8], notes: &[Note]) -> Result<(), Status> {
    if notes.len() > wire::MAX_NOTES {
        let problem = format!(
            "{} notes are too many: expected at most {}",
            notes.len(),
            wire::MAX_NOTES
        );
        return Err(wire::refusal(&StoreError::Full(problem)));
    }
    if all.len() <= MAX_RECORD_BYTES {
        return Ok(());
    }
    for note in notes {
        must_fit(
            "a note",
            &wire::json("a note", note).map_err(|error| wire::refusal(&error))?,
        )?;
    }
    Ok(())
}

/// Reads the name of a run.
pub(crate) fn run(name: String) -> Result<InstanceId, Status> {
    match name.is_empty() || name.len() > MAX_RUN_LETTERS {
        true => Err(status::bad_field("run", "expected the name of a run")),
        false => Ok(InstanceId::new(name)),
    }
}
