//! Prompts, decisions, and the grants that decisions leave behind.
//!
//! *Invariant:* a prompt that is not open is never changed again; the check and the change share one transaction, and the row is
//! held in between. Locks are taken in one order: the workspace, its prompts by their ids, grants by theirs. Who opens a prompt
//! and who settles one hold the workspace: neither misses what the other one does at the same moment.
//!
//! A prompt is opened for a call that still is its owner's: a run that stood still for longer than its lease finds that others
//! have taken the call over. One that is opened
//! again because there was no answer is open.
//!
//! The workspace is locked by its name, not by a row of `workspaces`: prompts are opened for workspaces that have none yet.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use serde_json::Value;
use tokio_postgres::Row;
use toolgate_model::{
    Approval, CallRecord, Grant, GrantId, InstanceId, Prompt, PromptId, PromptState, SessionKey, Timestamp,
};
use toolgate_store::audit::Fact;
use toolgate_store::codec::{decode, encode, unsigned};
use toolgate_store::outbox::{Entry, Outbox};
use toolgate_store::{AskedPrompt, Interest, PromptFilter, Prompts, Settled, Settlement, StoreError, events};

use crate::connection::{Session, retrying};
use crate::partitions::place_in;
use crate::query::Query;
use crate::sequencer::entries;
use crate::store::{PostgresStore, Shared};
use crate::text::{Key, key, plain};
use crate::values::values;
use crate::{approvers, grants};

/// Holds a workspace's prompts until the transaction ends.
async fn hold_workspace(session: &mut Session, workspace: &str) -> Result<(), StoreError> {
    let sql = "SELECT pg_advisory_xact_lock(75, hashtext($1))";
    session.rows(sql, values![key(workspace)]).await.map(drop)
}

async fn tell(session: &mut Session, mut outbox: Outbox) -> Result<(), StoreError> {
    if let Some(told) = entries(outbox.take())? {
        session
            .run("INSERT INTO outbox (entries) VALUES ($1)", values![told])
            .await?;
    }
    Ok(())
}

/// Makes sure that the call of a prompt stays its owner's until the transaction ends, if there is such a call.
async fn hold_call(session: &mut Session, prompt: &Prompt) -> Result<(), StoreError> {
    let Some((day, number)) = place_in(session, &prompt.call).await? else {
        return Ok(());
    };
    let sql = "SELECT owner FROM calls WHERE day = $1 AND number = $2 FOR SHARE";
    let row = session.row(sql, values![day, number]).await?;
    let owner = row.map(|row| row.get::<_, String>(0));
    match owner.is_none_or(|owner| owner == key(prompt.owner.as_str())) {
        true => Ok(()),
        false => Err(StoreError::Conflict(format!(
            "call {} belongs to another instance by now",
            prompt.call
        ))),
    }
}

fn exists(prompt: &Prompt) -> StoreError {
    StoreError::Conflict(format!("prompt {} exists", prompt.id))
}

/// Says whether exactly this prompt is stored, whatever came of it since.
///
/// # Errors
/// `Conflict` if another one of the same id is.
async fn is_stored(session: &mut Session, prompt: &Prompt, json: &str) -> Result<bool, StoreError> {
    let sql = "SELECT prompt FROM prompts WHERE id = $1";
    let Some(row) = session.row(sql, values![key(prompt.id.as_str())]).await? else {
        return Ok(false);
    };
    let stored = Prompt {
        state: prompt.state,
        decision: prompt.decision.clone(),
        approvals: prompt.approvals.clone(),
        ..decode("a prompt", row.get(0))?
    };
    match encode("a prompt", &stored)? == json {
        true => Ok(true),
        false => Err(exists(prompt)),
    }
}

async fn open_in(
    session: &mut Session,
    prompt: &Prompt,
    asker: Option<&str>,
    judged_by: Option<&BTreeSet<GrantId>>,
    is_doubtful: bool,
) -> Result<Vec<Grant>, StoreError> {
    hold_call(session, prompt).await?;
    hold_workspace(session, &prompt.workspace).await?;
    let json = encode("a prompt", prompt)?;
    // Before it is judged anew: what is open is not to be forgotten because a grant has come since.
    if is_doubtful && is_stored(session, prompt, &json).await? {
        return Ok(Vec::new());
    }
    if let Some(known) = judged_by {
        let others = grants::others(session, &prompt.owner, known).await?;
        if !others.is_empty() {
            return Ok(others);
        }
    }
    let id = Key::new(prompt.id.as_str());
    let added = session
        .run(
            "INSERT INTO prompts (id, full_id, call, owner, session, workspace, state, prompt, asker)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (id) DO NOTHING",
            values![
                id.key,
                id.full,
                key(prompt.call.as_str()),
                key(prompt.owner.as_str()),
                key(prompt.session.as_str()),
                key(&prompt.workspace),
                prompt.state.as_str(),
                json,
                asker
            ],
        )
        .await?;
    if added == 0 {
        return Err(exists(prompt));
    }
    let mut outbox = Outbox::default();
    outbox.tell(Fact::prompted(prompt));
    outbox.tell(Entry::try_from(&events::prompt_opened(prompt))?);
    tell(session, outbox).await?;
    Ok(Vec::new())
}

/// Returns the prompts of some ids, held, by their ids.
async fn hold(session: &mut Session, ids: &[&PromptId]) -> Result<BTreeMap<PromptId, Prompt>, StoreError> {
    let keys: Vec<String> = ids.iter().map(|id| key(id.as_str())).collect();
    let sql = "SELECT prompt FROM prompts WHERE id = ANY ($1) ORDER BY id FOR UPDATE";
    let rows = session.rows(sql, values![keys]).await?;
    let read = |row: &Row| decode::<Prompt>("a prompt", row.get(0)).map(|prompt| (prompt.id.clone(), prompt));
    rows.iter().map(read).collect()
}

/// Changes a prompt that is held: its owner, its approvals, or its end. What is known of whoever asks goes with its end.
async fn replace(session: &mut Session, prompt: &Prompt) -> Result<(), StoreError> {
    let sql = "UPDATE prompts SET owner = $2, state = $3, prompt = $4, asker = CASE WHEN $5 THEN asker END,
                   revision = revision + 1 WHERE id = $1";
    let is_open = prompt.state == PromptState::Open;
    session
        .run(
            sql,
            values![
                key(prompt.id.as_str()),
                key(prompt.owner.as_str()),
                prompt.state.as_str(),
                encode("a prompt", prompt)?,
                is_open
            ],
        )
        .await
        .map(drop)
}

/// Says whether a session has open prompts besides these.
async fn has_more(session: &mut Session, prompt: &Prompt, known: &BTreeSet<PromptId>) -> Result<bool, StoreError> {
    let known: Vec<String> = known.iter().chain([&prompt.id]).map(|id| key(id.as_str())).collect();
    let sql =
        "SELECT FROM prompts WHERE state = 'open' AND workspace = $1 AND session = $2 AND NOT id = ANY ($3) LIMIT 1";
    let (workspace, in_session) = (key(&prompt.workspace), key(prompt.session.as_str()));
    Ok(session.row(sql, values![workspace, in_session, known]).await?.is_some())
}

async fn approve_in(session: &mut Session, id: &PromptId, approval: &Approval) -> Result<Option<Prompt>, StoreError> {
    let held = hold(session, &[id]).await?.remove(id);
    let Some(mut prompt) = held.filter(|prompt| prompt.state == PromptState::Open) else {
        return Ok(None);
    };
    let mut earlier = prompt.approvals.iter();
    if !earlier.any(|earlier| earlier.principal == approval.principal) {
        let mut outbox = Outbox::default();
        outbox.tell(Fact::approved(&prompt, approval));
        prompt.approvals.push(approval.clone());
        replace(session, &prompt).await?;
        tell(session, outbox).await?;
    }
    Ok(Some(prompt))
}

/// What a decision changes.
struct Decisions<'d> {
    first: &'d Settlement,
    also: &'d [Settlement],
    grants: &'d [Grant],
    beside: Option<&'d BTreeSet<PromptId>>,
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

async fn settle(shared: &Shared, decisions: &Decisions<'_>) -> Result<Settled, StoreError> {
    let what = "settle a prompt";
    let Some(prompt) = get(shared, &decisions.first.prompt).await? else {
        return Ok(Settled::Unknown);
    };
    retrying(|| async {
        let mut session = shared.db.begin(what).await?;
        let settled = settle_in(&mut session, &prompt.workspace, decisions).await;
        session.end(settled).await
    })
    .await
}

/// Gives the open prompts of adopted calls to their new owner.
pub(crate) async fn adopt(
    session: &mut Session,
    calls: &[CallRecord],
    new_owner: &InstanceId,
) -> Result<(), StoreError> {
    let calls: Vec<String> = calls.iter().map(|call| key(call.id.as_str())).collect();
    let sql = "SELECT prompt FROM prompts WHERE state = 'open' AND call = ANY ($1) ORDER BY id FOR UPDATE";
    for row in session.rows(sql, values![calls]).await? {
        let mut prompt: Prompt = decode("a prompt", row.get(0))?;
        prompt.owner = new_owner.clone();
        replace(session, &prompt).await?;
    }
    Ok(())
}

fn asked_prompt(row: &Row) -> Result<AskedPrompt, StoreError> {
    let asker: Option<&str> = row.get(1);
    Ok(AskedPrompt {
        prompt: decode("a prompt", row.get(0))?,
        asker: asker.map(|asker| decode("who asks", asker)).transpose()?,
        revision: unsigned(row.get(2)),
    })
}

async fn get(shared: &Shared, id: &PromptId) -> Result<Option<Prompt>, StoreError> {
    let sql = "SELECT prompt FROM prompts WHERE id = $1";
    let row = shared.db.row("read a prompt", sql, values![key(id.as_str())]).await?;
    row.map(|row| decode("a prompt", row.get(0))).transpose()
}

#[async_trait]
impl Prompts for PostgresStore {
    async fn open(
        &self,
        prompt: Prompt,
        asker: Option<Value>,
        judged_by: Option<BTreeSet<GrantId>>,
    ) -> Result<Vec<Grant>, StoreError> {
        let (db, asker) = (&self.shared.db, asker.map(|asker| asker.to_string()));
        let open = async |is_doubtful: bool| {
            let mut session = db.begin("store a prompt").await?;
            let opened = open_in(&mut session, &prompt, asker.as_deref(), judged_by.as_ref(), is_doubtful);
            let opened = opened.await;
            session.end(opened).await
        };
        let doubts = &self.shared.unsure.prompts;
        let was_doubtful = doubts.begin(&prompt.id);
        let opened = db
            .certainly(|is_repeated| retrying(move || open(was_doubtful || is_repeated)))
            .await;
        doubts.end(&prompt.id, was_doubtful, &opened);
        let opened = opened?;
        self.shared.told();
        Ok(opened)
    }

    async fn attend(&self, interests: Vec<Interest>) -> Result<(), StoreError> {
        approvers::attend(&self.shared.db, &self.shared.instances, &interests).await
    }

    async fn attended_elsewhere(&self) -> Result<Vec<Interest>, StoreError> {
        approvers::elsewhere(&self.shared.db, &self.shared.instances).await
    }

    async fn replace_asker(&self, id: &PromptId, asker: Option<Value>) -> Result<(), StoreError> {
        let sql = "UPDATE prompts SET asker = $2 WHERE id = $1 AND state = 'open'";
        let asker = asker.map(|asker| asker.to_string());
        let id = key(id.as_str());
        self.shared
            .db
            .rows("store who asks", sql, values![id, asker])
            .await
            .map(drop)
    }

    async fn prompt(&self, id: &PromptId) -> Result<Option<Prompt>, StoreError> {
        get(&self.shared, id).await
    }

    async fn asked(&self, id: &PromptId) -> Result<Option<AskedPrompt>, StoreError> {
        let sql = "SELECT prompt, asker, revision FROM prompts WHERE id = $1";
        let row = self
            .shared
            .db
            .row("read a prompt", sql, values![key(id.as_str())])
            .await?;
        row.as_ref().map(asked_prompt).transpose()
    }

    async fn asked_in(&self, session: &SessionKey) -> Result<Vec<AskedPrompt>, StoreError> {
        let sql = "SELECT prompt, asker, revision FROM prompts
                   WHERE state = 'open' AND workspace = $1 AND session = $2 ORDER BY number";
        let (workspace, session) = (key(&session.workspace), key(session.session.as_str()));
        let rows = self
            .shared
            .db
            .rows("read the prompts of a session", sql, values![workspace, session])
            .await?;
        rows.iter().map(asked_prompt).collect()
    }

    async fn open_prompts(&self) -> Result<Vec<(PromptId, u64)>, StoreError> {
        let sql = "SELECT coalesce(full_id, id), revision FROM prompts WHERE state = 'open'";
        let rows = self.shared.db.rows("list the open prompts", sql, values![]).await?;
        let read = |row: &Row| (PromptId::new(plain(row.get(0))), unsigned(row.get(1)));
        Ok(rows.iter().map(read).collect())
    }

    async fn prompts(&self, filter: &PromptFilter, limit: usize) -> Result<Vec<Prompt>, StoreError> {
        let query = match filter.states.as_slice() {
            // A literal, so that the index over the few open prompts is used.
            [PromptState::Open] => Query::new("SELECT prompt FROM prompts WHERE state = 'open'"),
            states => Query::new("SELECT prompt FROM prompts WHERE TRUE")
                .one_of("state", states.iter().map(|state| state.as_str())),
        };
        let query = query
            .is("owner", filter.owner.as_ref().map(|owner| owner.as_str()))
            .within("workspace", &filter.workspaces)
            .is("call", filter.call.as_ref().map(|call| call.as_str()))
            .one_of("session", filter.sessions.iter().map(|session| session.as_str()))
            .numbered_after("prompts", filter.after.as_ref().map(|after| after.as_str()));
        let rows = query
            .rows(&self.shared.db, "list prompts", " ORDER BY number", limit)
            .await?;
        rows.iter().map(|row| decode("a prompt", row.get(0))).collect()
    }

    async fn approve(&self, id: &PromptId, approval: Approval) -> Result<Option<Prompt>, StoreError> {
        let approved = retrying(|| async {
            let mut session = self.shared.db.begin("add an approval").await?;
            let approved = approve_in(&mut session, id, &approval).await;
            session.end(approved).await
        })
        .await?;
        self.shared.told();
        Ok(approved)
    }

    async fn settle(
        &self,
        first: Settlement,
        also: Vec<Settlement>,
        grants: Vec<Grant>,
        beside: Option<BTreeSet<PromptId>>,
    ) -> Result<Settled, StoreError> {
        let decisions = Decisions {
            first: &first,
            also: &also,
            grants: &grants,
            beside: beside.as_ref(),
        };
        let settled = settle(&self.shared, &decisions).await?;
        self.shared.told();
        Ok(settled)
    }

    async fn use_grants(&self, ids: &[GrantId], now: Timestamp) -> Result<Vec<GrantId>, StoreError> {
        retrying(|| async {
            let mut session = self.shared.db.begin("count the use of a grant").await?;
            let gone = grants::use_in(&mut session, ids, now).await;
            session.end(gone).await
        })
        .await
    }

    async fn grants(&self, owner: &InstanceId) -> Result<Vec<Grant>, StoreError> {
        grants::of(&self.shared.db, owner).await
    }

    async fn grant(&self, id: &GrantId) -> Result<Option<Grant>, StoreError> {
        grants::get(&self.shared.db, id).await
    }

    async fn revoke(&self, id: &GrantId, by: &str) -> Result<Option<Grant>, StoreError> {
        let revoked = retrying(|| async {
            let mut session = self.shared.db.begin("take a grant back").await?;
            let revoked = async {
                let revoked = grants::remove(&mut session, id).await?;
                if let Some(grant) = &revoked {
                    let mut outbox = Outbox::default();
                    outbox.tell(Fact::revoked(grant, by));
                    tell(&mut session, outbox).await?;
                }
                Ok(revoked)
            }
            .await;
            session.end(revoked).await
        })
        .await?;
        self.shared.told();
        Ok(revoked)
    }
}
