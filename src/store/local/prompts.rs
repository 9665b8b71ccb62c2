//! Prompts, decisions and grants in the database.
//!
//! *Invariant:* a prompt that is not open is never changed again; the check and the change share one transaction.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, params};

use super::error::{Doing, decode, encode, is_duplicate};
use super::instances::Instances;
use super::query::Query;
use super::{LocalStore, audit};
use crate::audit::{Fact, Recorder};
use crate::call::{CallId, Grant, GrantId, InstanceId, Prompt, PromptId, PromptState};
use crate::store::{PromptFilter, Prompts, Settled, Settlement, StoreError};

fn open(db: &Connection, recorder: &Recorder, prompt: &Prompt, json: &str) -> Result<(), StoreError> {
    let added = db
        .prepare_cached(
            "INSERT INTO prompts (id, call, owner, session, workspace, state, prompt) VALUES (?, ?, ?, ?, ?, ?, ?)
             ON CONFLICT (id) DO NOTHING",
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
            ])
        })
        .doing(db, "store a prompt")?;
    match added {
        0 => Err(StoreError::Conflict(format!("prompt {} exists", prompt.id))),
        _ => audit::append(db, recorder, [Fact::prompted(prompt)]),
    }
}

fn get(db: &Connection, id: &PromptId) -> Result<Option<Prompt>, StoreError> {
    let json: Option<String> = db
        .prepare_cached("SELECT prompt FROM prompts WHERE id = ?")
        .and_then(|mut statement| statement.query_row([id.as_str()], |row| row.get(0)).optional())
        .doing(db, "read a prompt")?;
    json.map(|json| decode("a prompt", &json)).transpose()
}

fn replace(db: &Connection, prompt: &Prompt) -> Result<(), StoreError> {
    let json = encode("a prompt", prompt)?;
    db.prepare_cached("UPDATE prompts SET owner = ?, state = ?, prompt = ? WHERE id = ?")
        .and_then(|mut statement| {
            statement.execute(params![
                prompt.owner.as_str(),
                prompt.state.as_str(),
                json,
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

fn settle(
    db: &Connection,
    recorder: &Recorder,
    first: Settlement,
    also: Vec<Settlement>,
    grants: &[(Grant, String)],
) -> Result<Settled, StoreError> {
    let Some(prompt) = get(db, &first.prompt)? else {
        return Ok(Settled::Unknown);
    };
    if prompt.state != PromptState::Open {
        return Ok(Settled::Before(Box::new(prompt)));
    }
    let mut prompts = vec![close(db, prompt, first)?];
    for settlement in also {
        if let Some(prompt) = get(db, &settlement.prompt)?.filter(|prompt| prompt.state == PromptState::Open) {
            prompts.push(close(db, prompt, settlement)?);
        }
    }
    for (grant, json) in grants {
        add_grant(db, grant, json)?;
    }
    let mut made: Vec<GrantId> = grants.iter().map(|(grant, _)| grant.id.clone()).collect();
    // The grants are of the first prompt's reply.
    let facts = prompts
        .iter()
        .map(|prompt| Fact::decided(prompt, std::mem::take(&mut made)));
    audit::append(db, recorder, facts)?;
    Ok(Settled::Now { prompts })
}

fn add_grant(db: &Connection, grant: &Grant, json: &str) -> Result<(), StoreError> {
    let added = db
        .prepare_cached("INSERT INTO grants (id, owner, content) VALUES (?, ?, ?)")
        .and_then(|mut statement| statement.execute(params![grant.id.as_str(), grant.owner.as_str(), json]));
    match added {
        Err(error) if is_duplicate(&error) => Err(StoreError::Conflict(format!("grant {} exists", grant.id))),
        other => other.map(drop).doing(db, "store a grant"),
    }
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
        .is("workspace", filter.workspace.as_deref())
        .is("call", filter.call.as_ref().map(|call| call.as_str()))
        .one_of("session", filter.sessions.iter().map(|session| session.as_str()))
        .numbered_after("prompts", filter.after.as_ref().map(|after| after.as_str()))
        .rows(db, " ORDER BY number", items, |row| row.get::<_, String>(0))?
        .iter()
        .map(|json| decode("a prompt", json))
        .collect()
}

fn grants(db: &Connection, owner: &InstanceId) -> Result<Vec<Grant>, StoreError> {
    Query::new("SELECT content FROM grants WHERE TRUE")
        .is("owner", Some(owner.as_str()))
        .rows(db, " ORDER BY number", usize::MAX, |row| row.get::<_, String>(0))?
        .iter()
        .map(|json| decode("a grant", json))
        .collect()
}

/// Deletes the grants of dead runs of the service: they hold for nobody any more.
pub(super) fn sweep_grants(db: &Connection, instances: &Instances) -> Result<(), StoreError> {
    let what = "delete grants of a dead instance";
    let owners: Vec<String> = db
        .prepare_cached("SELECT DISTINCT owner FROM grants")
        .and_then(|mut statement| statement.query_map([], |row| row.get(0))?.collect())
        .doing(db, what)?;
    for owner in owners.iter().filter(|owner| !instances.is_alive(owner)) {
        db.execute("DELETE FROM grants WHERE owner = ?", [owner])
            .doing(db, what)?;
    }
    Ok(())
}

fn revoke(db: &Connection, recorder: &Recorder, id: &GrantId) -> Result<Option<Grant>, StoreError> {
    let json: Option<String> = db
        .prepare_cached("DELETE FROM grants WHERE id = ? RETURNING content")
        .and_then(|mut statement| statement.query_row([id.as_str()], |row| row.get(0)).optional())
        .doing(db, "delete a grant")?;
    let grant: Option<Grant> = json.map(|json| decode("a grant", &json)).transpose()?;
    audit::append(db, recorder, grant.as_ref().map(Fact::revoked))?;
    Ok(grant)
}

#[async_trait]
impl Prompts for LocalStore {
    async fn open(&self, prompt: Prompt) -> Result<(), StoreError> {
        let json = encode("a prompt", &prompt)?;
        let recorder = self.recorder.clone();
        self.writer.ask(move |db| open(db, &recorder, &prompt, &json)).await
    }

    async fn prompt(&self, id: &PromptId) -> Result<Option<Prompt>, StoreError> {
        let id = id.clone();
        self.readers.read(move |db| get(db, &id)).await
    }

    async fn prompts(&self, filter: &PromptFilter, limit: usize) -> Result<Vec<Prompt>, StoreError> {
        let filter = filter.clone();
        self.readers.read(move |db| list(db, &filter, limit)).await
    }

    async fn settle(
        &self,
        first: Settlement,
        also: Vec<Settlement>,
        grants: Vec<Grant>,
    ) -> Result<Settled, StoreError> {
        let with_json = |grant: Grant| encode("a grant", &grant).map(|json| (grant, json));
        let grants: Vec<(Grant, String)> = grants.into_iter().map(with_json).collect::<Result<_, _>>()?;
        let recorder = self.recorder.clone();
        self.writer
            .ask(move |db| settle(db, &recorder, first, also, &grants))
            .await
    }

    async fn grants(&self, owner: &InstanceId) -> Result<Vec<Grant>, StoreError> {
        let owner = owner.clone();
        self.readers.read(move |db| grants(db, &owner)).await
    }

    async fn revoke(&self, id: &GrantId) -> Result<Option<Grant>, StoreError> {
        let id = id.clone();
        let recorder = self.recorder.clone();
        self.writer.ask(move |db| revoke(db, &recorder, &id)).await
    }
}
