//! Which workers may use the ledger, and for which workspaces.
//!
//! *Invariant:* who calls is what the gate has found, never what a request says. A run that has been seen with one principal is not that
//! of another one.

use std::collections::HashMap;

use parking_lot::Mutex;
use tonic::codegen::http::Extensions;
use tonic::{Request, Status};
use toolgate_contract::ErrorReason;
use toolgate_contract::cluster::Holding;
use toolgate_ledger::wire;
use toolgate_model::{InstanceId, WorkspaceSet};
use toolgate_server::grpc::auth::OnBehalf;
use toolgate_server::grpc::status;
use toolgate_store::ledger::Hold;

use crate::registry::MAX_WORKSPACES;

/// Runs whose principals are remembered. Beyond that all are forgotten, and learnt again.
const MOST_RUNS: usize = 100_000;

/// Letters of the name of a run.
const MAX_RUN_LETTERS: usize = 128;

/// Whose runs are whose.
pub(crate) struct Workers {
    /// The principals that may be workers.
    principals: Vec<String>,
    /// Those of runs that have said who they are.
    runs: Mutex<HashMap<InstanceId, String>>,
}

/// A worker that has called.
pub(crate) struct Caller(OnBehalf);

impl Workers {
    pub(crate) fn new(principals: Vec<String>) -> Self {
        Self {
            principals,
            runs: Mutex::default(),
        }
    }

    /// Returns who calls, if that is a worker, and what it asks.
    pub(crate) fn enter<Q>(&self, request: Request<Q>) -> Result<(Caller, Q), Status> {
        Ok((self.caller(request.extensions())?, request.into_inner()))
    }

    fn caller(&self, extensions: &Extensions) -> Result<Caller, Status> {
        let caller = OnBehalf::of(extensions)?;
        if self.principals.contains(&caller.id()) {
            return Ok(Caller(caller));
        }
        let problem = format!(
            "{} may not write as a worker: name it in auth.workers of the gateway's configuration",
            caller.id()
        );
        Err(status::refused(ErrorReason::ScopeMissing, problem))
    }

    /// Says whether a run is known as the caller's; an error if it is another one's.
    pub(crate) fn knows(&self, caller: &Caller, run: &InstanceId) -> Result<bool, Status> {
        match self.runs.lock().get(run) {
            Some(principal) if *principal != caller.0.id() => {
                let problem = format!("the run {run} is one of another worker");
                Err(status::refused(ErrorReason::ScopeMissing, problem))
            }
            known => Ok(known.is_some()),
        }
    }

    /// Remembers that a run is the caller's.
    pub(crate) fn learn(&self, caller: &Caller, run: &InstanceId) {
        let mut runs = self.runs.lock();
        if runs.len() >= MOST_RUNS {
            runs.clear();
        }
        runs.insert(run.clone(), caller.0.id());
    }

    pub(crate) fn forget(&self, run: &InstanceId) {
        self.runs.lock().remove(run);
    }
}

impl Caller {
    /// Returns what a change says of its workspace, if the caller may see that.
    pub(crate) fn hold(&self, holding: Option<Holding>) -> Result<Hold, Status> {
        let hold = wire::of_holding(holding.ok_or_else(|| status::bad_field("holding", "expected one"))?);
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
            self.must_see("workspaces", name)?;
        }
        Ok(names)
    }

    /// Returns the workspaces that are read: of those that are named the ones that the caller sees.
    pub(crate) fn reads(&self, names: Vec<String>) -> WorkspaceSet {
        WorkspaceSet::of_names(names.into_iter().filter(|name| self.0.sees(name)))
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

/// Reads the name of a run.
pub(crate) fn run(name: String) -> Result<InstanceId, Status> {
    match name.is_empty() || name.len() > MAX_RUN_LETTERS {
        true => Err(status::bad_field("run", "expected the name of a run")),
        false => Ok(InstanceId::new(name)),
    }
}
