//! Workers as messages have them.
//!
//! *Invariant:* nobody reads of a workspace that they may not see.

use toolgate_contract::cluster::{RefusedWorkspace, Worker as Listed, WorkerKind, WorkerState};
use toolgate_server::grpc::auth::OnBehalf;

use crate::registry::Registry;
use crate::worker::Worker;

/// What is not served of a worker, as messages have it.
pub(crate) fn refused(worker: &Worker, sees: impl Fn(&str) -> bool) -> Vec<RefusedWorkspace> {
    let all = worker.not_served.read().clone();
    let seen = all.iter().filter(|(workspace, _)| sees(workspace));
    seen.map(|(workspace, reason)| RefusedWorkspace {
        workspace: workspace.clone(),
        reason: reason.clone(),
    })
    .collect()
}

/// What somebody sees of a worker.
pub(crate) fn listed(registry: &Registry, caller: &OnBehalf, worker: &Worker) -> Listed {
    let facts = worker.facts.read().clone();
    let served = facts.workspaces.iter().map(|one| &one.name);
    let served = served.filter(|name| registry.has(worker, name) && caller.sees(name));
    let (state, problem) = match (&facts.refused, &facts.away) {
        _ if !facts.is_there => {
            let why = facts.away.as_ref().map(|(why, _)| why.to_string());
            (
                WorkerState::Away,
                why.unwrap_or_else(|| "it was not asked yet".to_owned()),
            )
        }
        (Some(why), _) => (WorkerState::Refused, why.to_string()),
        (None, _) if worker.is_draining() => (WorkerState::Draining, String::new()),
        (None, _) if worker.waits() => (WorkerState::Unbound, String::new()),
        (None, _) => (WorkerState::Ready, String::new()),
    };
    Listed {
        name: worker.name.clone(),
        kind: match worker.is_listed() {
            true => WorkerKind::Listed,
            false => WorkerKind::Registered,
        }
        .into(),
        address: worker.address(),
        version: facts.version.to_string(),
        state: state.into(),
        problem,
        away_since: facts.away.map(|(_, since)| since.into()),
        workspaces: served.cloned().collect(),
        refused_workspaces: refused(worker, |workspace| caller.sees(workspace)),
        running_calls: facts.calls.0,
        queued_calls: facts.calls.1,
    }
}
