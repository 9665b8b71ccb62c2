//! Workspaces that are suspended and resumed: nothing of them runs, and what only waits for a person goes on waiting.
//!
//! *Invariant:* a call is left in a suspended workspace only if it could be taken up again when that is resumed; the same check
//! decides here and after a restart of the service. Nobody looks after such a call before.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::json;
use toolgate_model::{
    CallEvent, CallId, CallRecord, CallState, EndReason, Ending, EventKind, PromptState, SessionKey, Timestamp,
    WorkspaceSet,
};
use toolgate_store::{CallFilter, PageRequest, PromptFilter, StoreError};

use crate::calls::stop_and_wait;
use crate::catalogs::WorkspaceRuntime;
use crate::live::LiveCall;
use crate::parts::Parts;
use crate::{metrics, restart};

/// Calls of one page, when those of a workspace are looked for.
const PAGE: usize = 500;

/// What became of the calls of a workspace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rested {
    /// Calls that were cancelled.
    pub cancelled: usize,
    /// Calls that wait for a person.
    pub waiting: usize,
}

/// Lets nothing of a workspace run any more. From now on `rests` stands for it.
pub(crate) async fn suspend(
    parts: &Arc<Parts>,
    place: &Arc<WorkspaceRuntime>,
    rests: WorkspaceRuntime,
) -> Result<Rested, StoreError> {
    let name = place.workspace.name();
    let calls = parts.calls.close(name, &place.gate);
    let left: Vec<Arc<LiveCall>> = calls
        .iter()
        .filter(|call| restart::leave_in(parts, call, place))
        .cloned()
        .collect();
    let ids: BTreeSet<&CallId> = left.iter().map(|call| &call.id).collect();
    let running: Vec<Arc<LiveCall>> = calls.iter().filter(|call| !ids.contains(&call.id)).cloned().collect();
    // From here on new calls find that it is suspended. What may be left was judged by the rules of before.
    parts.catalogs.add(rests);
    stop_and_wait(&running, EndReason::Cancelled).await;
    for call in &left {
        is_gone(parts, &call.id).await;
    }
    Ok(Rested {
        cancelled: running.len(),
        waiting: left.len(),
    })
}

/// Waits until a call that comes to its end, or was left, does not run here any more.
async fn is_gone(parts: &Parts, id: &CallId) {
    loop {
        let changed = parts.calls.changed();
        tokio::pin!(changed);
        changed.as_mut().enable();
        if parts.calls.find(id).is_none() {
            return;
        }
        changed.await;
    }
}

/// Returns the calls of a workspace that have not ended and do not run.
async fn left_in(parts: &Parts, workspace: &str) -> Result<Vec<CallRecord>, StoreError> {
    let filter = CallFilter {
        workspaces: WorkspaceSet::one(workspace),
        states: vec![CallState::Pending, CallState::Running, CallState::Waiting],
        ..CallFilter::default()
    };
    let mut page = PageRequest {
        size: PAGE,
        after: None,
    };
    let mut found = Vec::new();
    loop {
        let calls = parts.store.list_calls(&filter, &page).await?;
        let is_left =
            |record: &CallRecord| record.owner == parts.calls.instance && parts.calls.find(&record.id).is_none();
        found.extend(calls.items.into_iter().filter(is_left));
        match calls.next {
            Some(next) => page.after = Some(next),
            None => return Ok(found),
        }
    }
}

/// Says which calls are to be looked after, now that their workspace is back.
pub(crate) async fn take_up(parts: &Parts, workspace: &str) -> Result<(), StoreError> {
    let left = left_in(parts, workspace).await?;
    parts
        .calls
        .adopted
        .lock()
        .extend(left.into_iter().map(|record| record.id));
    Ok(())
}

/// Cancels what waits in a suspended workspace, or in one session of it; returns how many calls that were.
pub(crate) async fn cancel_left(
    parts: &Parts,
    workspace: &str,
    session: Option<&SessionKey>,
) -> Result<usize, StoreError> {
    if !parts.catalogs.is_held(workspace) {
        return Ok(0);
    }
    let mut left = left_in(parts, workspace).await?;
    left.retain(|record| session.is_none_or(|session| record.origin.is_of(session)));
    let count = left.len();
    for record in left {
        cancel(parts, record).await?;
    }
    Ok(count)
}

/// Cancels a call, if it waits in a suspended workspace.
pub(crate) async fn cancel_one(parts: &Parts, id: &CallId) -> Result<(), StoreError> {
    let record = parts.store.get(id).await?.filter(|record| {
        let is_own = record.owner == parts.calls.instance && record.ended.is_none();
        is_own && parts.catalogs.is_held(&record.origin.workspace) && parts.calls.find(id).is_none()
    });
    match record {
        Some(record) => cancel(parts, record).await,
        None => Ok(()),
    }
}

async fn cancel(parts: &Parts, mut record: CallRecord) -> Result<(), StoreError> {
    // Before the end: a call without an end is looked after again, should this be interrupted.
    let filter = PromptFilter {
        call: Some(record.id.clone()),
        states: vec![PromptState::Open],
        ..PromptFilter::default()
    };
    for prompt in parts.store.prompts(&filter, usize::MAX).await? {
        let why = "the call was stopped while its workspace was suspended";
        parts.prompts.withdraw(&prompt.id, why).await?;
    }
    let now = Timestamp::now().max(record.started.unwrap_or(record.created));
    let text = "The call was cancelled while it waited for a person and its workspace was suspended.";
    let mut ending = Ending::failed(EndReason::Cancelled, text);
    ending.title.clone_from(&record.title);
    ending.metadata.insert("interrupted".to_owned(), json!(true));
    record.state = ending.state();
    record.ended = Some(now);
    record.waiting_on = None;
    record.ending = Some(ending.clone());
    record.last_sequence += 1;
    metrics::count_end(&parts.telemetry.metrics, &record.tool, &ending);
    let event = CallEvent {
        sequence: record.last_sequence,
        time: now,
        kind: EventKind::Ended(Box::new(ending)),
    };
    parts.store.append(record, vec![event]).await
}
