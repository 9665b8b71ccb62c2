//! Which workers may use the ledger, and for which workspaces.
//!
//! *Invariant:* who calls is what the gate has found, never what a request says. Whose a run is the store remembers, and compares.

use std::sync::Arc;

use tonic::codegen::http::Extensions;
use tonic::{Request, Status};
use toolgate_contract::ErrorReason;
use toolgate_contract::cluster::Holding;
use toolgate_ledger::wire;
use toolgate_model::{InstanceId, WorkspaceSet, workspace_name_problem};
use toolgate_server::grpc::auth::OnBehalf;
use toolgate_server::grpc::status;
use toolgate_store::StoreError;
use toolgate_store::ledger::{Hold, Note};

use crate::ledger_messages::read;
use crate::ledger_rate::Allowance;
use crate::registry::MAX_WORKSPACES;

/// Bytes of JSON that are read of whoever says that it has a workspace: to read them costs less than to look whether it has.
pub(crate) const MAX_UNHELD_BYTES: usize = 64 << 10;

/// Bytes of one record, prompt or note: those who read many at once have room for them.
pub(crate) const MAX_RECORD_BYTES: usize = 16 << 20;

/// Letters of the name of a run.
const MAX_RUN_LETTERS: usize = 128;

/// Who may be a worker.
pub(crate) struct Workers {
    principals: Vec<String>,
}

/// A worker that has called, and what it may still store, if it stores something.
pub(crate) struct Caller(OnBehalf, Option<Arc<Allowance>>);

impl Workers {
    pub(crate) fn new(principals: Vec<String>) -> Self {
        Self { principals }
    }

    /// Returns who calls, if that is a worker, and what it asks.
    pub(crate) fn enter<Q>(&self, request: Request<Q>) -> Result<(Caller, Q), Status> {
        Ok((self.caller(request.extensions())?, request.into_inner()))
    }

    pub(crate) fn principals(&self) -> &[String] {
        &self.principals
    }

    /// Returns who calls, if that is a worker.
    pub(crate) fn caller(&self, extensions: &Extensions) -> Result<Caller, Status> {
        let caller = OnBehalf::of(extensions)?;
        if self.principals.contains(&caller.id()) {
            return Ok(Caller(caller, extensions.get().cloned()));
        }
        let problem = format!(
            "{} may not write as a worker: name it in auth.workers of the gateway's configuration",
            caller.id()
        );
        Err(status::refused(ErrorReason::ScopeMissing, problem))
    }
}

impl Caller {
    /// Returns the principal.
    pub(crate) fn id(&self) -> String {
        self.0.id()
    }

    /// Returns what a change says of its workspace, if the caller may see that.
    pub(crate) fn hold(&self, holding: Option<Holding>) -> Result<Hold, Status> {
        let holding = holding.ok_or_else(|| status::bad_field("holding", "expected one"))?;
        let hold = wire::of_holding(holding, self.id());
        self.must_see("holding.workspace", &hold.workspace)?;
        Ok(hold)
    }

    /// Returns the names of workspaces that are to be taken.
    pub(crate) fn wanted(&self, names: Vec<String>) -> Result<Vec<String>, Status> {
        if names.is_empty() || names.len() > MAX_WORKSPACES {
            let problem = format!("expected 1 to {MAX_WORKSPACES} names");
            return Err(status::bad_field("workspaces", problem));
        }
        for name in &names {
            // What no configuration could name would stay for ever, and nobody could ask for it.
            if let Some(problem) = workspace_name_problem(name) {
                return Err(status::bad_field("workspaces", problem));
            }
            self.must_see("workspaces", name)?;
        }
        Ok(self.stored(names))
    }

    /// Counts what is stored beyond the one record that each request counts as.
    pub(crate) fn stored<T>(&self, some: Vec<T>) -> Vec<T> {
        if let Some(allowance) = &self.1 {
            allowance.draw_records(some.len());
        }
        some
    }

    /// Returns the workspaces that are read: of those that are named the ones that the caller sees, as many as it can have.
    pub(crate) fn reads(&self, names: Vec<String>) -> WorkspaceSet {
        let names = names.into_iter().take(MAX_WORKSPACES);
        WorkspaceSet::of_names(names.filter(|name| self.0.sees(name)))
    }

    pub(crate) fn must_see(&self, field: &str, workspace: &str) -> Result<(), Status> {
        if self.0.sees(workspace) {
            return Ok(());
        }
        let problem = format!(
            "{field}: {} may not have the workspace {workspace}: add it to the workspaces of its token",
            self.0.id()
        );
        Err(status::refused(ErrorReason::WorkspacesLimited, problem))
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
