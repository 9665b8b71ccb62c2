//! What a run of the service leaves to the next one, and what it takes up of the one before.
//!
//! *Invariant:* a call is left only if the next run would take it up: the same check decides here and there. A call of an
//! earlier run is taken up once its tool is there, or ends as lost. If the service stops before that, the next run looks
//! after it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use toolgate_model::{CallId, CallRecord, EndReason, Prompt, PromptState, Timestamp};
use toolgate_store::lost::{self, only_waits};
use toolgate_store::{PromptFilter, StoreError};

use crate::catalogs::{Restart, WorkspaceRuntime};
use crate::held::Held;
use crate::live::LiveCall;
use crate::parts::Parts;
use crate::prompts::exchange::DOOM_LOOP;
use crate::run::Run;
use crate::stranded::Stranded;
use crate::subagent::child::ChildAdmission;
use crate::{metrics, subagent};

/// How long the client of a call that was taken up after a restart has to come back.
const CLIENT_GRACE: Duration = Duration::from_secs(60);

/// How long a call of an earlier run waits for its tool.
const TOOL_TIMEOUT: Duration = Duration::from_secs(60);

/// What start-up found of an earlier run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Calls that wait again.
    pub resumed: usize,
    /// Calls that ended as lost.
    pub lost: usize,
    /// Folders in which lost calls were changing files: their temporary files may still be there.
    pub folders: BTreeSet<PathBuf>,
}

/// Looks after calls that an earlier run of the service left unfinished. What fails is left to the next time: see [`Calls::has_adopted`].
///
/// [`Calls::has_adopted`]: crate::calls::Calls::has_adopted
pub(crate) async fn recover(parts: &Arc<Parts>, children: &Arc<dyn ChildAdmission>) -> Result<Recovered, StoreError> {
    parts.calls.expect_successor();
    let orphans = parts.store.adopt_orphans(&parts.calls.instance).await?;
    let ids = orphans.into_iter().map(|orphan| orphan.id);
    let ids: Vec<CallId> = parts.calls.adopted.lock().drain(..).chain(ids).collect();
    let mut recovered = Recovered::default();
    for id in ids {
        if let Err(error) = look_after(parts, children, &id, &mut recovered).await {
            leave_for_later(parts, id, &error);
        }
    }
    Ok(recovered)
}

/// Keeps a call in mind that could not be looked after: only this run can, it owns the call.
fn leave_for_later(parts: &Parts, id: CallId, error: &StoreError) {
    let error: &(dyn std::error::Error + 'static) = error;
    tracing::error!(call = %id, error, "a call of an earlier run could not be looked after; it is tried again");
    parts.calls.adopted.lock().push(id);
}

async fn look_after(
    parts: &Arc<Parts>,
    children: &Arc<dyn ChildAdmission>,
    id: &CallId,
    recovered: &mut Recovered,
) -> Result<(), StoreError> {
    if parts.calls.find(id).is_some() {
        // It runs here.
        return Ok(());
    }
    let stored = parts.store.get(id).await?;
    // An attempt that failed may have ended it all the same.
    let Some(orphan) = stored.filter(|record| record.ended.is_none()) else {
        return Ok(());
    };
    if only_waits(&orphan) && is_held(parts, &orphan) {
        // It is looked after when its workspace is back.
        return Ok(());
    }
    let mut why = None;
    if only_waits(&orphan) {
        why = match resume_later(parts, children, &orphan) {
            true => None,
            false => resume(parts, children, &orphan).await?.err(),
        };
        if why.is_none() {
            recovered.resumed += 1;
            return Ok(());
        }
    }
    let changes = parts.store.changes(id).await?;
    let folders = changes.iter().filter_map(|change| change.path.parent());
    recovered.folders.extend(folders.map(Path::to_path_buf));
    end_as_lost(parts, orphan, why).await?;
    recovered.lost += 1;
    Ok(())
}

fn is_held(parts: &Parts, record: &CallRecord) -> bool {
    let place = parts.catalogs.find(&record.origin.workspace);
    place.is_some_and(|place| match place.gate.hold() {
        Some(Held::Creating | Held::Suspended { .. }) => true,
        // Of one that is being deleted nothing goes on, also not in the next one of its name.
        Some(Held::Failed(_) | Held::Deleting) | None => false,
    })
}

/// Takes a call up later if code is being loaded, which may bring its tool, its agent, and rules and hooks that hold it back,
/// or if its tool is not there and sources are being connected to; returns whether it does.
fn resume_later(parts: &Arc<Parts>, children: &Arc<dyn ChildAdmission>, record: &CallRecord) -> bool {
    let place = parts.catalogs.find(&record.origin.workspace);
    let waits = place.is_some_and(|place| {
        let (is_loading, is_connecting) = (place.tools.is_loading(), place.tools.is_connecting());
        has_to_wait(is_loading, is_connecting, || parts.catalogs.has_tool(record))
    });
    if !waits {
        return false;
    }
    let (owner, children, record) = (parts.clone(), children.clone(), record.clone());
    parts.calls.tasks.spawn(async move {
        let id = record.id.clone();
        let resumed = resume_or_end(&owner, &children, record);
        let ended = owner.log.closing().run_until_cancelled(resumed).await;
        if let Some(Err(error)) = ended {
            leave_for_later(&owner, id, &error);
        }
    });
    true
}

/// Code that is being loaded may take something away from a call whose tool is there already.
fn has_to_wait(is_loading: bool, is_connecting: bool, has_tool: impl FnOnce() -> bool) -> bool {
    is_loading || (is_connecting && !has_tool())
}

async fn resume_or_end(
    parts: &Arc<Parts>,
    children: &Arc<dyn ChildAdmission>,
    record: CallRecord,
) -> Result<(), StoreError> {
    if let Some(place) = parts.catalogs.find(&record.origin.workspace) {
        place.tools.loaded().await;
        let mut changes = place.tools.changes();
        let comes = async {
            while !parts.catalogs.has_tool(&record) && place.tools.is_connecting() {
                // The sender lives as long as the catalog.
                let _ = changes.changed().await;
            }
        };
        // Too late is as good as never.
        let _ = tokio::time::timeout(TOOL_TIMEOUT, comes).await;
    }
    match resume(parts, children, &record).await? {
        Ok(()) => Ok(()),
        Err(why) => end_as_lost(parts, record, Some(why)).await,
    }
}

/// Runs a call again that waited for a person when its service died, or says why it cannot be.
async fn resume(
    parts: &Arc<Parts>,
    children: &Arc<dyn ChildAdmission>,
    record: &CallRecord,
) -> Result<Result<(), Stranded>, StoreError> {
    let restart = match parts.catalogs.restart(record) {
        Ok(restart) => restart,
        Err(why) => return Ok(Err(why)),
    };
    let Restart {
        place,
        workspace,
        rights,
        registry,
        entry,
    } = restart;
    let filter = PromptFilter {
        call: Some(record.id.clone()),
        ..Default::default()
    };
    let mut earlier = Vec::new();
    let asks_first = record.started.is_none();
    let prompts = parts.store.prompts(&filter, usize::MAX).await?;
    if prompts.iter().any(Prompt::is_late) {
        return Ok(Err(Stranded::AskedLate));
    }
    // The loop question is not asked again once the tool has started.
    for prompt in prompts {
        if asks_first || prompt.ask().is_none_or(|ask| ask.permission != DOOM_LOOP) {
            earlier.push(parts.prompts.restore(prompt, &rights).await?);
        }
    }
    let (live, turn) = parts.calls.take_up(record, parts.log.ring());
    live.awaits_clients
        .store(subagent::awaits_clients(&entry), Ordering::Release);
    live.handover.take_up();
    if entry.tool.properties().reads_input {
        live.take_input();
    }
    metrics::count_start(&parts.telemetry.metrics, &record.tool, entry.source);
    live.publish_stored(record.clone(), Vec::new());
    parts.calls.insert(live.clone());
    if place.gate.is_closed() {
        // Whoever closed it may have looked before the call was there.
        live.stop(EndReason::Cancelled);
    }
    // Its client has lost the stream; it may come back, or read on by watching.
    parts.calls.tasks.spawn(live.attach().linger(CLIENT_GRACE));
    let found = (registry, entry);
    let run = Run::new(
        parts,
        children.clone(),
        (&place, workspace),
        live,
        record.clone(),
        found,
        rights,
    )
    .in_turn(Some(turn));
    parts.calls.tasks.spawn(run.work(asks_first, earlier));
    Ok(Ok(()))
}

async fn end_as_lost(parts: &Parts, mut record: CallRecord, why: Option<Stranded>) -> Result<(), StoreError> {
    let withdrawn = why.as_ref().map_or(lost::WITHDRAWN, Stranded::why_withdrawn);
    // Before the end: a call without an end is looked after again, should this be interrupted.
    let filter = PromptFilter {
        call: Some(record.id.clone()),
        states: vec![PromptState::Open],
        ..Default::default()
    };
    for prompt in parts.store.prompts(&filter, usize::MAX).await? {
        parts.prompts.withdraw(&prompt.id, withdrawn).await?;
    }
    let now = Timestamp::now();
    let end = match why {
        Some(why) => {
            let text = why.told_of(&record);
            lost::end_as(&mut record, &text, now)
        }
        None => lost::end(&mut record, now),
    };
    if let Some(ending) = &record.ending {
        metrics::count_end(&parts.telemetry.metrics, &record.tool, ending);
    }
    parts.store.append(record, vec![end]).await
}

/// Returns how many calls were left when none does anything but wait, or what is left of them after `grace`; the others
/// are asked to stop.
pub(crate) async fn let_go(parts: &Parts, grace: Duration) -> usize {
    let mut left = 0;
    let others_have_ended = async {
        loop {
            let changed = parts.calls.changed();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let calls = parts.calls.all();
            // Most of the time one runs, and the others need not be looked at.
            if calls
                .iter()
                .all(|call| call.handover.is_left() || may_be_left(parts, call))
            {
                left += leave(parts, &calls);
                if calls.iter().all(|call| call.handover.is_left()) {
                    return;
                }
            }
            changed.await;
        }
    };
    // Over or not, the rest is the same.
    let _ = tokio::time::timeout(grace, others_have_ended).await;
    left + stop_running(parts)
}

/// Asks every call to stop, because the service does; those that the next run takes up are left to it. Returns how many
/// these are.
pub(crate) fn stop_running(parts: &Parts) -> usize {
    parts.log.closing().cancel();
    let calls = parts.calls.all();
    let left = leave(parts, &calls);
    for call in calls.iter().filter(|call| !call.handover.is_left()) {
        call.stop(EndReason::Drained);
    }
    left
}

fn leave(parts: &Parts, calls: &[Arc<LiveCall>]) -> usize {
    calls
        .iter()
        .filter(|call| !call.handover.is_left() && may_be_left(parts, call) && call.handover.leave())
        .count()
}

fn may_be_left(parts: &Parts, call: &LiveCall) -> bool {
    could_be_left(parts, call) && parts.catalogs.restart(&call.record()).is_ok()
}

fn could_be_left(parts: &Parts, call: &LiveCall) -> bool {
    let has_reason_to_stay =
        !parts.calls.has_successor() || call.stop_reason().is_some() || !call.handover.could_be_left();
    !has_reason_to_stay && only_waits(&call.record())
}

/// Leaves a call of a workspace that is being suspended, if it could go on in there later; returns whether it is left.
pub(crate) fn leave_in(parts: &Parts, call: &LiveCall, place: &Arc<WorkspaceRuntime>) -> bool {
    let could_go_on = || parts.catalogs.restart_in(place.clone(), &call.record()).is_ok();
    could_be_left(parts, call) && could_go_on() && call.handover.leave()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_taken_up_while_code_is_being_loaded() {
        for has_tool in [false, true] {
            assert!(has_to_wait(true, false, || has_tool));
            assert!(has_to_wait(true, true, || has_tool));
            assert!(!has_to_wait(false, false, || has_tool));
            assert_eq!(has_to_wait(false, true, || has_tool), !has_tool);
        }
    }
}
