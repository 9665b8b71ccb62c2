//! The end of prompts: by a decision and what follows from it, by the run that asked, or because the run is dead.
//!
//! *Invariant:* as [`crate::prompts`] has it: the workspace, its prompts by their ids, grants by theirs. Of a run without a database
//! only an end is taken that permits nothing.

use std::collections::BTreeSet;

use toolgate_model::{CallRecord, Decision, Grant, GrantId, Prompt, PromptId, PromptOutcome, PromptState};
use toolgate_store::audit::Fact;
use toolgate_store::ledger::Hold;
use toolgate_store::outbox::{Entry, Outbox};
use toolgate_store::{Settled, Settlement, StoreError, events};

use crate::connection::{Session, retrying};
use crate::fence::Fence;
use crate::grants;
use crate::prompts::{get, hold, hold_workspace, open_of, replace, tell};
use crate::store::Shared;
use crate::text::key;
use crate::values::values;

/// What a decision changes.
pub(crate) struct Decisions<'d> {
    pub(crate) first: &'d Settlement,
    pub(crate) also: &'d [Settlement],
    pub(crate) grants: &'d [Grant],
    pub(crate) beside: Option<&'d BTreeSet<PromptId>>,
}

/// Says whether a session has open prompts besides these.
async fn has_more(session: &mut Session, prompt: &Prompt, known: &BTreeSet<PromptId>) -> Result<bool, StoreError> {
    let known: Vec<String> = known.iter().chain([&prompt.id]).map(|id| key(id.as_str())).collect();
    let sql =
        "SELECT FROM prompts WHERE state = 'open' AND workspace = $1 AND session = $2 AND NOT id = ANY ($3) LIMIT 1";
    let (workspace, in_session) = (key(&prompt.workspace), key(prompt.session.as_str()));
    Ok(session.row(sql, values![workspace, in_session, known]).await?.is_some())
}

async fn settle_in(session: &mut Session, workspace: &str, decisions: &Decisions<'_>) -> Result<Settled, StoreError> {
    let Decisions {
        first,
        also,
        grants,
        beside,
    } = *decisions;
    hold_workspace(session, workspace).await?;
    let ids: Vec<&PromptId> = also
        .iter()
        .chain([first])
        .map(|settlement| &settlement.prompt)
        .collect();
    let mut held = hold(session, &ids).await?;
    let Some(prompt) = held.remove(&first.prompt) else {
        return Ok(Settled::Unknown);
    };
    if prompt.state != PromptState::Open {
        return Ok(Settled::Before(Box::new(prompt)));
    }
    if let Some(known) = beside
        && has_more(session, &prompt, known).await?
    {
        return Ok(Settled::Overtaken);
    }
    let mut outbox = Outbox::default();
    let made = grants.iter().map(|grant| grant.id.clone()).collect();
    let mut prompts = vec![close(session, &mut outbox, prompt, first, made).await?];
    for grant in grants {
        grants::add(session, grant).await?;
    }
    // All at once and by their ids, whichever of them will be used.
    grants::hold(session, also.iter().flat_map(|settlement| &settlement.uses)).await?;
    for settlement in also {
        let Some(prompt) = held
            .remove(&settlement.prompt)
            .filter(|prompt| prompt.state == PromptState::Open)
        else {
            continue;
        };
        let gone = grants::count_uses(session, &settlement.uses, settlement.decision.time).await?;
        if gone.is_empty() {
            let used = settlement.uses.clone();
            prompts.push(close(session, &mut outbox, prompt, settlement, used).await?);
        } else {
            held.insert(prompt.id.clone(), prompt);
        }
    }
    tell(session, outbox).await?;
    Ok(Settled::Now { prompts })
}

async fn close(
    session: &mut Session,
    outbox: &mut Outbox,
    mut prompt: Prompt,
    settlement: &Settlement,
    grants: Vec<GrantId>,
) -> Result<Prompt, StoreError> {
    prompt.state = settlement.state;
    prompt.decision = Some(settlement.decision.clone());
    replace(session, &prompt).await?;
    outbox.tell(Fact::decided(&prompt, grants));
    outbox.tell(Entry::try_from(&events::prompt_ended(&prompt))?);
    Ok(prompt)
}

/// Settles a prompt of a workspace.
pub(crate) async fn settle(
    shared: &Shared,
    workspace: &str,
    decisions: &Decisions<'_>,
    fence: Option<&Fence>,
) -> Result<Settled, StoreError> {
    let settled = retrying(|| async {
        let mut session = shared.db.begin("settle a prompt").await?;
        let settled = async {
            if let Some(fence) = fence {
                fence.hold(&mut session).await?;
            }
            settle_in(&mut session, workspace, decisions).await
        }
        .await;
        session.end(settled).await
    })
    .await?;
    shared.told();
    Ok(settled)
}

/// Ends a prompt of a workspace for the run that holds it. What it is and whose never changes.
pub(crate) async fn end(shared: &Shared, hold: &Hold, end: &Settlement) -> Result<Settled, StoreError> {
    let Some(prompt) = get(shared, &end.prompt).await? else {
        return Ok(Settled::Unknown);
    };
    if prompt.workspace != hold.workspace {
        return Err(StoreError::NotFound(format!("prompt {}", end.prompt)));
    }
    if !may_end(&prompt, end) {
        let why = format!(
            "prompt {} is decided where replies are taken, not by the run that asks",
            prompt.id
        );
        return Err(StoreError::Conflict(why));
    }
    // Who answered a question is known only where replies are taken: here it is the run that says so.
    let mut end = end.clone();
    if matches!(end.decision.outcome, PromptOutcome::Replied(_)) {
        end.decision.principal = String::new();
        end.decision.by.clone_from(&hold.principal);
    }
    let decisions = Decisions {
        first: &end,
        also: &[],
        grants: &[],
        beside: None,
    };
    settle(shared, &hold.workspace, &decisions, Some(&Fence::new(hold))).await
}

/// Says whether the run that asks may end a prompt so: nothing is permitted by it, and nobody is said to have done it who is not
/// asked for a permission. Answers to questions go to the tool that asked them.
fn may_end(prompt: &Prompt, end: &Settlement) -> bool {
    let decision = &end.decision;
    let by_nobody = [&decision.reply_id, &decision.by, &decision.principal];
    let by_nobody = by_nobody.iter().all(|text| text.is_empty());
    let is_right = match (end.state, &decision.outcome) {
        (PromptState::Expired, PromptOutcome::Expired) | (PromptState::Withdrawn, PromptOutcome::Withdrawn(_)) => {
            by_nobody
        }
        (PromptState::Resolved, PromptOutcome::Replied(reply)) => prompt.ask().is_none() && prompt.takes(reply),
        (
            PromptState::Open | PromptState::Resolved | PromptState::Expired | PromptState::Withdrawn,
            PromptOutcome::Replied(_) | PromptOutcome::Expired | PromptOutcome::Withdrawn(_),
        ) => false,
    };
    is_right && decision.because_of.is_none() && end.uses.is_empty()
}

/// Withdraws the open prompts of calls of a workspace, which are held.
pub(crate) async fn withdraw(
    session: &mut Session,
    workspace: &str,
    calls: &[CallRecord],
    why: &str,
) -> Result<(), StoreError> {
    hold_workspace(session, workspace).await?;
    let mut outbox = Outbox::default();
    for prompt in open_of(session, calls).await? {
        let end = Settlement {
            prompt: prompt.id.clone(),
            state: PromptState::Withdrawn,
            decision: Decision::new(PromptOutcome::Withdrawn(why.to_owned())),
            uses: Vec::new(),
        };
        close(session, &mut outbox, prompt, &end, Vec::new()).await?;
    }
    tell(session, outbox).await
}
