//! Prompts, decisions and grants in the database.
//!
//! *Invariant:* a prompt that is not open is never changed again; the check and the change share one transaction.

use std::collections::BTreeSet;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, params};
use serde_json::Value;
use toolgate_model::{
    Approval, CallId, Grant, GrantId, GrantReach, InstanceId, Prompt, PromptId, PromptState, SessionKey, Timestamp,
};

use super::error::{Doing, decode, encode, is_duplicate, unsigned};
use super::instances::Instances;
use super::query::Query;
use super::store::LocalStore;
use crate::audit::Fact;
use crate::outbox::{Entry, Outbox};
use crate::{AskedPrompt, PromptFilter, Prompts, Settled, Settlement, StoreError, events};

/// What is stored of a prompt.
struct Opening {
    prompt: Prompt,
    json: String,
    asker: Option<String>,
}

fn open(
    db: &Connection,
    outbox: &mut Outbox,
    opening: &Opening,
    judged_by: Option<&BTreeSet<GrantId>>,
) -> Result<Vec<Grant>, StoreError> {
    let Opening { prompt, json, asker } = opening;
    if let Some(known) = judged_by {
        let others = other_grants(db, &prompt.owner, known)?;
        if !others.is_empty() {
            return Ok(others);
        }
    }
    let added = db
        .prepare_cached(
            "INSERT INTO prompts (id, call, owner, session, workspace, state, prompt, asker)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING",
        )
        .and_then(|mut statement| {
            statement.execute(params![
                prompt.id.as_str(),
                prompt.call.as_str(),
                prompt.owner.as_str(),
                prompt.session.as_str(),
                prompt.workspace,
                prompt.state.as_str(),
                json,
                asker,
            ])
        })
        .doing(db, "store a prompt")?;
    if added == 0 {
        return Err(StoreError::Conflict(format!("prompt {} exists", prompt.id)));
    }
    outbox.tell(Fact::prompted(prompt));
    outbox.tell(Entry::try_from(&events::prompt_opened(prompt))?);
    Ok(Vec::new())
}

/// Returns the grants that hold for a run of the service besides those that are known.
fn other_grants(db: &Connection, owner: &InstanceId, known: &BTreeSet<GrantId>) -> Result<Vec<Grant>, StoreError> {
    let what = "look for new grants";
    let ids: Vec<String> = db
        .prepare_cached("SELECT id FROM grants WHERE owner IN (?, ?) ORDER BY number")
        .and_then(|mut statement| {
            let rows = statement.query_map([NOBODY, owner.as_str()], |row| row.get(0))?;
            rows.collect()
        })
        .doing(db, what)?;
    let now = Timestamp::now();
    let mut others = Vec::new();
    for id in ids.into_iter().map(GrantId::new).filter(|id| !known.contains(id)) {
        others.extend(grant(db, &id)?.filter(|grant| !grant.is_over(now)));
    }
    Ok(others)
}

fn get(db: &Connection, id: &PromptId) -> Result<Option<Prompt>, StoreError> {
    let json: Option<String> = db
        .prepare_cached("SELECT prompt FROM prompts WHERE id = ?")
        .and_then(|mut statement| statement.query_row([id.as_str()], |row| row.get(0)).optional())
        .doing(db, "read a prompt")?;
    json.map(|json| decode("a prompt", &json)).transpose()
}

fn asked(db: &Connection, id: &PromptId) -> Result<Option<AskedPrompt>, StoreError> {
    let row: Option<AskedRow> = db
        .prepare_cached("SELECT prompt, asker, revision FROM prompts WHERE id = ?")
        .and_then(|mut statement| {
            let row = statement.query_row([id.as_str()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
            row.optional()
        })
        .doing(db, "read a prompt")?;
    row.map(asked_prompt).transpose()
}

fn asked_in(db: &Connection, session: &SessionKey) -> Result<Vec<AskedPrompt>, StoreError> {
    let rows = Query::new("SELECT prompt, asker, revision FROM prompts WHERE state = 'open'")
        .is("session", Some(session.session.as_str()))
        .is("workspace", Some(&session.workspace))
        .rows(db, " ORDER BY number", usize::MAX, |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })?;
    rows.into_iter().map(asked_prompt).collect()
}

/// A prompt, what is known of whoever asks, and the number of this state.
type AskedRow = (String, Option<String>, i64);

fn asked_prompt((prompt, asker, revision): AskedRow) -> Result<AskedPrompt, StoreError> {
    let prompt: Prompt = decode("a prompt", &prompt)?;
    Ok(AskedPrompt {
        // All that use this store are on one machine.
        age: Timestamp::now().since(prompt.created),
        prompt,
        asker: asker.map(|asker| decode("who asks", &asker)).transpose()?,
        revision: unsigned(revision),
    })
}

fn replace_asker(db: &Connection, id: &PromptId, asker: Option<&str>) -> Result<(), StoreError> {
    db.prepare_cached("UPDATE prompts SET asker = ? WHERE id = ? AND state = 'open'")
        .and_then(|mut statement| statement.execute(params![asker, id.as_str()]))
        .map(drop)
        .doing(db, "store who asks")
}

fn open_prompts(db: &Connection) -> Result<Vec<(PromptId, u64)>, StoreError> {
    // The index has all that is asked for, and the prompts themselves may be large.
    db.prepare_cached("SELECT id, revision FROM prompts INDEXED BY prompts_open_revisions WHERE state = 'open'")
        .and_then(|mut statement| {
            let rows = statement.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get(1)?)))?;
            rows.map(|row| row.map(|(id, revision)| (PromptId::new(id), unsigned(revision))))
                .collect()
        })
        .doing(db, "list the open prompts")
}

/// Says whether a session has open prompts besides these.
fn has_more(db: &Connection, prompt: &Prompt, known: &BTreeSet<PromptId>) -> Result<bool, StoreError> {
    let ids = Query::new("SELECT id FROM prompts WHERE state = 'open'")
        .is("session", Some(prompt.session.as_str()))
        .is("workspace", Some(&prompt.workspace))
        .rows(db, "", usize::MAX, |row| row.get::<_, String>(0))?;
    let mut ids = ids.into_iter().map(PromptId::new);
    Ok(ids.any(|id| id != prompt.id && !known.contains(&id)))
}

/// Changes a prompt that was read in the same transaction: its owner, its approvals, or its end. What is known of whoever
/// asks goes with its end.
fn replace(db: &Connection, prompt: &Prompt) -> Result<(), StoreError> {
    let json = encode("a prompt", prompt)?;
    let is_open = prompt.state == PromptState::Open;
    db.prepare_cached(
        "UPDATE prompts SET owner = ?, state = ?, prompt = ?, asker = CASE WHEN ? THEN asker END, revision = revision + 1
         WHERE id = ?",
    )
    .and_then(|mut statement| {
        statement.execute(params![
            prompt.owner.as_str(),
            prompt.state.as_str(),
            json,
            is_open,
            prompt.id.as_str()
        ])
    })
    .map(drop)
    .doing(db, "change a prompt")
}

fn close(db: &Connection, mut prompt: Prompt, settlement: Settlement) -> Result<Prompt, StoreError> {
    prompt.state = settlement.state;
    prompt.decision = Some(settlement.decision);
    replace(db, &prompt)?;
    Ok(prompt)
}

fn approve(
    db: &Connection,
    outbox: &mut Outbox,
    id: &PromptId,
    approval: Approval,
) -> Result<Option<Prompt>, StoreError> {
    let Some(mut prompt) = get(db, id)?.filter(|prompt| prompt.state == PromptState::Open) else {
        return Ok(None);
    };
    if !prompt
        .approvals
        .iter()
        .any(|earlier| earlier.principal == approval.principal)
    {
        let fact = Fact::approved(&prompt, &approval);
        prompt.approvals.push(approval);
        replace(db, &prompt)?;
        outbox.tell(fact);
    }
    Ok(Some(prompt))
}

fn settle(
    db: &Connection,
    outbox: &mut Outbox,
    first: Settlement,
    also: Vec<Settlement>,
    grants: &[(Grant, String)],
    beside: Option<&BTreeSet<PromptId>>,
) -> Result<Settled, StoreError> {
    let Some(prompt) = get(db, &first.prompt)? else {
        return Ok(Settled::Unknown);
    };
    if prompt.state != PromptState::Open {
        return Ok(Settled::Before(Box::new(prompt)));
    }
    if let Some(known) = beside
        && has_more(db, &prompt, known)?
    {
        return Ok(Settled::Overtaken);
    }
    let made = grants.iter().map(|(grant, _)| grant.id.clone()).collect();
    let prompt = close(db, prompt, first)?;
    tell_end(outbox, &prompt, made)?;
    let mut prompts = vec![prompt];
    for (grant, json) in grants {
        add_grant(db, grant, json)?;
    }
    for settlement in also {
        if let Some(prompt) = get(db, &settlement.prompt)?.filter(|prompt| prompt.state == PromptState::Open)
            && use_grants(db, &settlement.uses, settlement.decision.time)?.is_empty()
        {
            let used = settlement.uses.clone();
            let prompt = close(db, prompt, settlement)?;
            tell_end(outbox, &prompt, used)?;
            prompts.push(prompt);
        }
    }
    Ok(Settled::Now { prompts })
}

fn tell_end(outbox: &mut Outbox, prompt: &Prompt, grants: Vec<GrantId>) -> Result<(), StoreError> {
    outbox.tell(Fact::decided(prompt, grants));
    outbox.tell(Entry::try_from(&events::prompt_ended(prompt))?);
    Ok(())
}

/// The owner of the grants that outlast any run.
const NOBODY: &str = "";

fn add_grant(db: &Connection, grant: &Grant, json: &str) -> Result<(), StoreError> {
    let owner = if grant.scope.reach.outlasts_the_run() {
        NOBODY
    } else {
        grant.owner.as_str()
    };
    let added = db
        .prepare_cached("INSERT INTO grants (id, owner, content) VALUES (?, ?, ?)")
        .and_then(|mut statement| statement.execute(params![grant.id.as_str(), owner, json]));
    match added {
        Err(error) if is_duplicate(&error) => Err(StoreError::Conflict(format!("grant {} exists", grant.id))),
        other => other.map(drop).doing(db, "store a grant"),
    }
}

fn grant(db: &Connection, id: &GrantId) -> Result<Option<Grant>, StoreError> {
    let json: Option<String> = db
        .prepare_cached("SELECT content FROM grants WHERE id = ?")
        .and_then(|mut statement| statement.query_row([id.as_str()], |row| row.get(0)).optional())
        .doing(db, "read a grant")?;
    json.map(|json| decode("a grant", &json)).transpose()
}

/// Counts a use of each grant, or of none; returns those that cannot be used.
fn use_grants(db: &Connection, ids: &[GrantId], now: Timestamp) -> Result<Vec<GrantId>, StoreError> {
    let what = "count the use of a grant";
    let mut gone = Vec::new();
    let mut used = Vec::with_capacity(ids.len());
    for id in ids {
        match grant(db, id)?.filter(|grant| !grant.is_over(now)) {
            Some(grant) => used.push(grant),
            None => gone.push(id.clone()),
        }
    }
    if !gone.is_empty() {
        return Ok(gone);
    }
    for mut grant in used {
        grant.count(now);
        if grant.is_over(now) {
            delete_grant(db, &grant.id)?;
            continue;
        }
        let json = encode("a grant", &grant)?;
        db.prepare_cached("UPDATE grants SET content = ? WHERE id = ?")
            .and_then(|mut statement| statement.execute(params![json, grant.id.as_str()]))
            .doing(db, what)?;
    }
    Ok(gone)
}

fn delete_grant(db: &Connection, id: &GrantId) -> Result<(), StoreError> {
    db.prepare_cached("DELETE FROM grants WHERE id = ?")
        .and_then(|mut statement| statement.execute([id.as_str()]))
        .map(drop)
        .doing(db, "delete a grant")
}

/// Gives the open prompts of an adopted call to the call's new owner.
pub(super) fn adopt(db: &Connection, call: &CallId, new_owner: &InstanceId) -> Result<(), StoreError> {
    let open = Query::new("SELECT prompt FROM prompts WHERE state = 'open'").is("call", Some(call.as_str()));
    for json in open.rows(db, "", usize::MAX, |row| row.get::<_, String>(0))? {
        let mut prompt: Prompt = decode("a prompt", &json)?;
        prompt.owner = new_owner.clone();
        replace(db, &prompt)?;
    }
    Ok(())
}

fn list(db: &Connection, filter: &PromptFilter, items: usize) -> Result<Vec<Prompt>, StoreError> {
    let query = match filter.states.as_slice() {
        // A literal, so that the index over the few open prompts is used.
        [PromptState::Open] => Query::new("SELECT prompt FROM prompts WHERE state = 'open'"),
        states => Query::new("SELECT prompt FROM prompts WHERE TRUE")
            .one_of("state", states.iter().map(|state| state.as_str())),
    };
    query
        .is("owner", filter.owner.as_ref().map(|owner| owner.as_str()))
        .within("workspace", &filter.workspaces)
        .is("call", filter.call.as_ref().map(|call| call.as_str()))
        .one_of("session", filter.sessions.iter().map(|session| session.as_str()))
        .one_of("id", filter.ids.iter().map(|id| id.as_str()))
        .numbered_after("prompts", filter.after.as_ref().map(|after| after.as_str()))
        .rows(db, " ORDER BY number", items, |row| row.get::<_, String>(0))?
        .iter()
        .map(|json| decode("a prompt", json))
        .collect()
}

fn grants(db: &Connection, owner: &InstanceId) -> Result<Vec<Grant>, StoreError> {
    Query::new("SELECT content FROM grants WHERE TRUE")
        .one_of("owner", [NOBODY, owner.as_str()].into_iter())
        .rows(db, " ORDER BY number", usize::MAX, |row| row.get::<_, String>(0))?
        .iter()
        .map(|json| decode("a grant", json))
        .collect()
}

/// Deletes the grants that hold for nobody any more: those of dead runs, those that ended by time, and those of sessions of
/// which no call is left.
pub(super) fn sweep_grants(db: &Connection, instances: &Instances) -> Result<(), StoreError> {
    let what = "delete grants that have ended";
    let owners: Vec<String> = db
        .prepare_cached("SELECT DISTINCT owner FROM grants WHERE owner <> ''")
        .and_then(|mut statement| statement.query_map([], |row| row.get(0))?.collect())
        .doing(db, what)?;
    for owner in owners.iter().filter(|owner| !instances.is_alive(owner)) {
        db.execute("DELETE FROM grants WHERE owner = ?", [owner])
            .doing(db, what)?;
    }
    let now = Timestamp::now();
    for json in
        Query::new("SELECT content FROM grants WHERE TRUE").rows(db, "", usize::MAX, |row| row.get::<_, String>(0))?
    {
        let grant: Grant = decode("a grant", &json)?;
        let lost_its_session = || -> Result<bool, StoreError> {
            let calls = "SELECT EXISTS (SELECT 1 FROM calls WHERE session = ?)";
            let is_known: bool = db
                .query_row(calls, [grant.session.as_str()], |row| row.get(0))
                .doing(db, what)?;
            Ok(grant.scope.reach == GrantReach::Session && !is_known)
        };
        if grant.is_over(now) || lost_its_session()? {
            delete_grant(db, &grant.id)?;
        }
    }
    Ok(())
}

fn revoke(db: &Connection, outbox: &mut Outbox, id: &GrantId, by: &str) -> Result<Option<Grant>, StoreError> {
    let json: Option<String> = db
        .prepare_cached("DELETE FROM grants WHERE id = ? RETURNING content")
        .and_then(|mut statement| statement.query_row([id.as_str()], |row| row.get(0)).optional())
        .doing(db, "delete a grant")?;
    let grant: Option<Grant> = json.map(|json| decode("a grant", &json)).transpose()?;
    if let Some(grant) = &grant {
        outbox.tell(Fact::revoked(grant, by));
    }
    Ok(grant)
}

#[async_trait]
impl Prompts for LocalStore {
    async fn open(
        &self,
        prompt: Prompt,
        asker: Option<Value>,
        judged_by: Option<BTreeSet<GrantId>>,
    ) -> Result<Vec<Grant>, StoreError> {
        let opening = Opening {
            json: encode("a prompt", &prompt)?,
            asker: asker.map(|asker| asker.to_string()),
            prompt,
        };
        self.writer
            .tell(move |db, outbox| open(db, outbox, &opening, judged_by.as_ref()))
            .await
    }

    async fn replace_asker(&self, id: &PromptId, asker: Option<Value>) -> Result<(), StoreError> {
        let (id, asker) = (id.clone(), asker.map(|asker| asker.to_string()));
        self.writer
            .write(move |db| replace_asker(db, &id, asker.as_deref()))
            .await
    }

    async fn asked(&self, id: &PromptId) -> Result<Option<AskedPrompt>, StoreError> {
        let id = id.clone();
        self.readers.read(move |db| asked(db, &id)).await
    }

    async fn asked_in(&self, session: &SessionKey) -> Result<Vec<AskedPrompt>, StoreError> {
        let session = session.clone();
        self.readers.read(move |db| asked_in(db, &session)).await
    }

    async fn open_prompts(&self) -> Result<Vec<(PromptId, u64)>, StoreError> {
        self.readers.read(open_prompts).await
    }

    async fn prompt(&self, id: &PromptId) -> Result<Option<Prompt>, StoreError> {
        let id = id.clone();
        self.readers.read(move |db| get(db, &id)).await
    }

    async fn prompts(&self, filter: &PromptFilter, limit: usize) -> Result<Vec<Prompt>, StoreError> {
        let filter = filter.clone();
        self.readers.read(move |db| list(db, &filter, limit)).await
    }

    async fn approve(&self, id: &PromptId, approval: Approval) -> Result<Option<Prompt>, StoreError> {
        let id = id.clone();
        self.writer
            .tell(move |db, outbox| approve(db, outbox, &id, approval))
            .await
    }

    async fn settle(
        &self,
        first: Settlement,
        also: Vec<Settlement>,
        grants: Vec<Grant>,
        beside: Option<BTreeSet<PromptId>>,
    ) -> Result<Settled, StoreError> {
        let grants: Vec<(Grant, String)> = grants
            .into_iter()
            .map(|grant| encode("a grant", &grant).map(|json| (grant, json)))
            .collect::<Result<_, _>>()?;
        self.writer
            .tell(move |db, outbox| settle(db, outbox, first, also, &grants, beside.as_ref()))
            .await
    }

    async fn use_grants(&self, ids: &[GrantId], now: Timestamp) -> Result<Vec<GrantId>, StoreError> {
        let ids = ids.to_vec();
        self.writer.write(move |db| use_grants(db, &ids, now)).await
    }

    async fn grants(&self, owner: &InstanceId) -> Result<Vec<Grant>, StoreError> {
        let owner = owner.clone();
        self.readers.read(move |db| grants(db, &owner)).await
    }

    async fn grant(&self, id: &GrantId) -> Result<Option<Grant>, StoreError> {
        let id = id.clone();
        self.readers.read(move |db| grant(db, &id)).await
    }

    async fn revoke(&self, id: &GrantId, by: &str) -> Result<Option<Grant>, StoreError> {
        let (id, by) = (id.clone(), by.to_owned());
        self.writer.tell(move |db, outbox| revoke(db, outbox, &id, &by)).await
    }
}
