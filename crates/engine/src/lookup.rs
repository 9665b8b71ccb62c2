//! Finding calls, whether they run here or are only stored.
//!
//! *Invariant:* reads only.

use std::sync::Arc;

use toolgate_model::{CallId, CallRecord, FileChange, Origin, SessionKey, WorkspaceSet};
use toolgate_store::{CallFilter, PageRequest, StoreError};
use toolgate_tool::ToolError;

use crate::live::LiveCall;
use crate::not_running::NotRunning;
use crate::parts::Parts;

/// Returns the record of a call, as it is shown.
pub(crate) async fn record(parts: &Parts, id: &CallId) -> Result<Option<CallRecord>, StoreError> {
    let live = parts.calls.find(id);
    let record = match live.map(|call| call.record()) {
        Some(record) if record.last_sequence > 0 => Some((*record).clone()),
        Some(_) | None => parts.store.get(id).await?,
    };
    Ok(record.map(|record| parts.log.redacted(record)))
}

/// Finds a call that runs here.
pub(crate) async fn running(parts: &Parts, id: &CallId) -> Result<Arc<LiveCall>, NotRunning> {
    let live = parts.calls.find(id);
    if let Some(call) = live.filter(|call| !call.record().state.is_terminal()) {
        return Ok(call);
    }
    let call = id.clone();
    Err(match record(parts, id).await? {
        None => NotRunning::NotFound(call),
        Some(record) if record.state.is_terminal() || record.owner == parts.calls.instance => NotRunning::Ended(call),
        Some(record) => NotRunning::Elsewhere {
            call,
            owner: record.owner,
        },
    })
}

/// Returns whose a call is, also of one that is not recorded yet.
pub(crate) async fn origin(parts: &Parts, id: &CallId) -> Result<Option<Origin>, StoreError> {
    match parts.calls.find(id) {
        Some(call) => Ok(Some(call.record().origin.clone())),
        None => Ok(parts.store.get(id).await?.map(|record| record.origin)),
    }
}

/// Returns the calls of a name in the workspaces that somebody sees.
pub(crate) async fn named(parts: &Parts, id: &CallId, sees: impl Fn(&str) -> bool) -> Result<Vec<CallId>, StoreError> {
    let name = CallId::from(id.name());
    let mut found = parts.store.namesakes(&name).await?;
    let places = parts.catalogs.all();
    let ids = places.iter().map(|place| name.within(place.workspace.name()));
    found.extend(parts.calls.present(ids));
    found.push(name);
    found.sort();
    found.dedup();
    let mut seen = Vec::new();
    for one in found {
        let workspace = origin(parts, &one).await?.map(|origin| origin.workspace);
        let is_meant = |workspace: &String| id.workspace().is_none_or(|meant| meant == workspace);
        if workspace.is_some_and(|workspace| sees(&workspace) && is_meant(&workspace)) {
            seen.push(one);
        }
    }
    Ok(seen)
}

/// Returns whether calls were made in a workspace that are still stored.
pub(crate) async fn has_records(parts: &Parts, workspace: &str) -> Result<bool, StoreError> {
    let filter = CallFilter {
        workspaces: WorkspaceSet::one(workspace),
        ..CallFilter::default()
    };
    let page = PageRequest { size: 1, after: None };
    Ok(!parts.store.list_calls(&filter, &page).await?.items.is_empty())
}

/// Returns whether a session has made calls that are still stored.
pub(crate) async fn has_calls(parts: &Parts, session: &SessionKey) -> Result<bool, StoreError> {
    let filter = CallFilter {
        workspaces: WorkspaceSet::one(&session.workspace),
        session: Some(session.session.clone()),
        ..CallFilter::default()
    };
    let page = PageRequest { size: 1, after: None };
    Ok(!parts.store.list_calls(&filter, &page).await?.items.is_empty())
}

/// Returns the whole id of a call of a workspace.
///
/// # Errors
/// There is no such call in the workspace.
pub(crate) async fn call_of(parts: &Parts, workspace: &str, call: &CallId) -> Result<CallId, ToolError> {
    let named = named(parts, call, |one| one == workspace).await;
    let named = named.map_err(|error| ToolError::Internal(Box::new(error)))?;
    let missing = || ToolError::failed(format!("There is no call {call} in the workspace {workspace}."));
    named.into_iter().next().ok_or_else(missing)
}

/// Returns what an ended call of a workspace did to files, in order; never nothing.
///
/// # Errors
/// There is no such call in the workspace, it has not ended, or it changed nothing.
pub(crate) async fn changes_made_by(
    parts: &Parts,
    workspace: &str,
    call: &CallId,
) -> Result<Vec<FileChange>, ToolError> {
    let internal = |error: StoreError| ToolError::Internal(Box::new(error));
    let named = named(parts, call, |one| one == workspace).await;
    let record = match named.map_err(internal)?.first() {
        Some(id) => parts.store.get(id).await.map_err(internal)?,
        None => None,
    };
    let Some(record) = record else {
        return Err(ToolError::failed(format!(
            "There is no call {call} in the workspace {workspace}, or it is too long ago to be reverted."
        )));
    };
    if !record.state.is_terminal() {
        return Err(ToolError::failed(format!(
            "The call {call} has not ended. Wait for its end, or cancel it first."
        )));
    }
    let changes = parts.store.changes(&record.id).await.map_err(internal)?;
    if changes.is_empty() {
        return Err(ToolError::failed(format!(
            "The call {call} ({}) changed no files that it recorded, so there is nothing to revert. What a command \
             does to files is not recorded.",
            record.tool
        )));
    }
    Ok(changes)
}
