//! Prompts, and the grants that decisions leave behind; how prompts end is in `settling`.
//!
//! *Invariant:* a prompt that is not open is never changed again; the check and the change share one transaction, and the row is
//! held in between. Locks are taken in one order: the workspace, its prompts by their ids, grants by theirs. Who opens a prompt
//! and who settles one hold the workspace: neither misses what the other one does at the same moment.
//!
//! A prompt is opened for a call that still is its owner's: a run that stood still for longer than its lease finds that others
//! have taken the call over. One that is opened
//! again because there was no answer is open.
//!
//! The workspace is locked by its name, not by its row of `workspaces`, which has none of those that a run with a database works in;
//! what is fenced has locked that row before, and the call next. Who asks for a run without a database is judged by what is stored.
//!
//! What is told in the outbox here is told to the other processes, too: somebody waits for it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use tokio::sync::Notify;
use tokio_postgres::Row;
use toolgate_model::{
    Approval, CallRecord, Grant, GrantId, InstanceId, Prompt, PromptId, PromptState, SessionKey, Timestamp,
    WorkspaceSet,
};
use toolgate_store::audit::Fact;
use toolgate_store::codec::{decode, encode, unsigned};
use toolgate_store::ledger::Hold;
use toolgate_store::outbox::{Entry, Outbox};
use toolgate_store::{AskedPrompt, Interest, PromptFilter, Prompts, Settled, Settlement, StoreError, events};

use crate::connection::{Session, retrying};
use crate::fence::{self, Fence};
use crate::listening::NOTIFYING;
use crate::partitions::place_in;
use crate::query::Query;
use crate::sequencer::entries;
use crate::settling::{Decisions, settle};
use crate::store::{PostgresStore, Shared};
use crate::text::{Key, key, plain};
use crate::values::values;
use crate::{approvers, grants};

/// Prompts of one workspace that may be open whose run has no database: all who answer look at all of them.
const MAX_OPEN_PROMPTS: i64 = 1_000;

/// Those of one principal, however many workspaces it has.
const MAX_OPEN_PROMPTS_OF_PRINCIPAL: i64 = 10_000;

/// Bytes of the open prompts of one principal whose runs have no database, and of a list of prompts.
const MAX_PROMPT_BYTES: u64 = 48 << 20;

/// Holds a workspace's prompts until the transaction ends.
pub(crate) async fn hold_workspace(session: &mut Session, workspace: &str) -> Result<(), StoreError> {
    let sql = "SELECT pg_advisory_xact_lock(75, hashtext($1))";
    session.rows(sql, values![key(workspace)]).await.map(drop)
}

/// Puts what a change has to tell into the outbox.
pub(crate) async fn tell(session: &mut Session, mut outbox: Outbox) -> Result<(), StoreError> {
    if let Some(told) = entries(outbox.take())? {
        let sql = match session.notifies {
            true => NOTIFYING,
            false => "INSERT INTO outbox (entries) VALUES ($1)",
        };
        session.run(sql, values![told]).await?;
    }
    Ok(())
}

/// Makes sure that the call of a prompt stays its owner's until the transaction ends, if there is such a call; behind a fence there
/// must be one of that workspace and session.
async fn hold_call(session: &mut Session, prompt: &Prompt, fence: Option<&Fence>) -> Result<(), StoreError> {
    let row = match place_in(session, &prompt.call).await? {
        None => None,
        Some((day, number)) => {
            let sql = "SELECT owner, workspace, session FROM calls WHERE day = $1 AND number = $2 FOR SHARE";
            session.row(sql, values![day, number]).await?
        }
    };
    if let Some(fence) = fence {
        let is_there = row.as_ref().is_some_and(|row| {
            row.get::<_, &str>(1) == fence.workspace && row.get::<_, &str>(2) == key(prompt.session.as_str())
        });
        if !is_there {
            return Err(StoreError::NotFound(format!("call {}", prompt.call)));
        }
    }
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

/// Refuses one more open prompt of a workspace or a principal that has too many. Two that come at once do not see each other.
async fn must_have_room(session: &mut Session, fence: &Fence, workspace: &str, next: usize) -> Result<(), StoreError> {
    // Whose a workspace was last its prompts are, also when nobody has it now.
    let sql = "SELECT count(*) FILTER (WHERE workspace = $1), count(*), coalesce(sum(bytes), 0)::bigint
               FROM (SELECT workspace, octet_length(prompt) AS bytes FROM prompts JOIN workspaces ON workspaces.id = workspace
                   WHERE state = 'open' AND principal = $2 LIMIT $3) AS few";
    let values = values![fence.workspace, fence.principal, MAX_OPEN_PROMPTS_OF_PRINCIPAL];
    let row = session.row(sql, values).await?;
    let counted = |row: Row| (row.get::<_, i64>(0), row.get::<_, i64>(1), unsigned(row.get(2)));
    let (here, all, bytes) = row.map_or((0, 0, 0), counted);
    let fits = all < MAX_OPEN_PROMPTS_OF_PRINCIPAL && bytes + next as u64 <= MAX_PROMPT_BYTES;
    if fits && here < MAX_OPEN_PROMPTS {
        return Ok(());
    }
    Err(StoreError::Full(format!(
        "{here} prompts of workspace {workspace} are open (at most {MAX_OPEN_PROMPTS}), and {all} of all workspaces of its worker's \
         identity, with {bytes} bytes (at most {MAX_OPEN_PROMPTS_OF_PRINCIPAL}, with {MAX_PROMPT_BYTES} bytes): reply to some of them, or \
         cancel their calls"
    )))
}

async fn open_in(
    session: &mut Session,
    prompt: &Prompt,
    asker: Option<&str>,
    judged_by: Option<&BTreeSet<GrantId>>,
    fence: Option<&Fence>,
    is_doubtful: bool,
) -> Result<Vec<Grant>, StoreError> {
    if let Some(fence) = fence {
        fence.hold(session).await?;
    }
    hold_call(session, prompt, fence).await?;
    hold_workspace(session, &prompt.workspace).await?;
    let json = encode("a prompt", prompt)?;
    // Before it is judged anew: what is open is not to be forgotten because a grant has come since.
    if is_doubtful && is_stored(session, prompt, &json).await? {
        return Ok(Vec::new());
    }
    if let Some(known) = judged_by {
        let mut others = grants::others(session, &prompt.owner, known).await?;
        others.retain(|grant| fence.is_none() || grant.workspace == prompt.workspace);
        if !others.is_empty() {
            return Ok(others);
        }
    }
    if let Some(fence) = fence {
        must_have_room(session, fence, &prompt.workspace, json.len()).await?;
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
pub(crate) async fn hold(session: &mut Session, ids: &[&PromptId]) -> Result<BTreeMap<PromptId, Prompt>, StoreError> {
    let keys: Vec<String> = ids.iter().map(|id| key(id.as_str())).collect();
    let sql = "SELECT prompt FROM prompts WHERE id = ANY ($1) ORDER BY id FOR UPDATE";
    let rows = session.rows(sql, values![keys]).await?;
    let read = |row: &Row| decode::<Prompt>("a prompt", row.get(0)).map(|prompt| (prompt.id.clone(), prompt));
    rows.iter().map(read).collect()
}

/// Changes a prompt that is held: its owner, its approvals, or its end. What is known of whoever asks goes with its end.
pub(crate) async fn replace(session: &mut Session, prompt: &Prompt) -> Result<(), StoreError> {
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

/// Opens a prompt.
pub(crate) async fn open(
    shared: &Shared,
    prompt: &Prompt,
    asker: Option<Value>,
    judged_by: Option<&BTreeSet<GrantId>>,
    fence: Option<&Fence>,
    is_repeated: bool,
) -> Result<Vec<Grant>, StoreError> {
    let (db, asker) = (&shared.db, asker.map(|asker| asker.to_string()));
    let open = async |is_doubtful: bool| {
        let mut session = db.begin("store a prompt").await?;
        let opened = open_in(&mut session, prompt, asker.as_deref(), judged_by, fence, is_doubtful);
        let opened = opened.await;
        session.end(opened).await
    };
    let opened = db
        .certainly("store a prompt", |is_repeated_here| {
            retrying(move || open(is_repeated || is_repeated_here))
        })
        .await?;
    shared.told();
    Ok(opened)
}

/// Replaces what is known of whoever asks; says whether there is such an open prompt.
pub(crate) async fn replace_asker(
    shared: &Shared,
    id: &PromptId,
    asker: Option<Value>,
    fence: Option<&Fence>,
) -> Result<bool, StoreError> {
    let sql = "replaced AS (UPDATE prompts SET asker = $2 {FROM held }WHERE id = $1 AND state = 'open'
                   {AND prompts.workspace = held.workspace }RETURNING TRUE)
               SELECT FROM replaced";
    let asker = asker.map(|asker| asker.to_string());
    let id = key(id.as_str());
    let values = values![id, asker];
    let row = fence::row_of(&shared.db, "store who asks", fence, sql, values).await?;
    Ok(row.is_some())
}

/// Counts a use of each grant, or of none; behind a fence, of those that hold for the run there.
pub(crate) async fn use_grants(
    shared: &Shared,
    ids: &[GrantId],
    now: Timestamp,
    hold: Option<&Hold>,
) -> Result<Vec<GrantId>, StoreError> {
    let fence = hold.map(Fence::new);
    let holds = |grant: &Grant| {
        hold.is_none_or(|hold| {
            let in_run = grant.scope.reach.outlasts_the_run() || grant.owner == hold.run;
            in_run && grant.workspace == hold.workspace
        })
    };
    retrying(|| async {
        let mut session = shared.db.begin("count the use of a grant").await?;
        let gone = async {
            if let Some(fence) = &fence {
                fence.hold(&mut session).await?;
            }
            grants::use_in(&mut session, ids, now, holds).await
        }
        .await;
        session.end(gone).await
    })
    .await
}

/// Takes a grant back; behind a fence, one of that workspace.
pub(crate) async fn revoke(
    shared: &Shared,
    id: &GrantId,
    by: &str,
    hold: Option<&Hold>,
) -> Result<Option<Grant>, StoreError> {
    let fence = hold.map(Fence::new);
    let revoked = retrying(|| async {
        let mut session = shared.db.begin("take a grant back").await?;
        let revoked = async {
            if let Some(fence) = &fence {
                fence.hold(&mut session).await?;
            }
            let Some(grant) = grants::remove(&mut session, id).await? else {
                return Ok(None);
            };
            // What has been done goes with the error.
            if hold.is_some_and(|hold| hold.workspace != grant.workspace) {
                return Err(StoreError::NotFound(format!("grant {id}")));
            }
            let mut outbox = Outbox::default();
            outbox.tell(Fact::revoked(&grant, by));
            tell(&mut session, outbox).await?;
            Ok(Some(grant))
        }
        .await;
        session.end(revoked).await
    })
    .await?;
    shared.told();
    Ok(revoked)
}

/// Returns the open prompts of some calls, held, by their ids.
pub(crate) async fn open_of(session: &mut Session, calls: &[CallRecord]) -> Result<Vec<Prompt>, StoreError> {
    let calls: Vec<String> = calls.iter().map(|call| key(call.id.as_str())).collect();
    let sql = "SELECT prompt FROM prompts WHERE state = 'open' AND call = ANY ($1) ORDER BY id FOR UPDATE";
    let rows = session.rows(sql, values![calls]).await?;
    rows.iter().map(|row| decode("a prompt", row.get(0))).collect()
}

/// Gives the open prompts of adopted calls to their new owner.
pub(crate) async fn adopt(
    session: &mut Session,
    calls: &[CallRecord],
    new_owner: &InstanceId,
) -> Result<(), StoreError> {
    for mut prompt in open_of(session, calls).await? {
        prompt.owner = new_owner.clone();
        replace(session, &prompt).await?;
    }
    Ok(())
}

/// What [`asked_prompt`] takes.
const ASKED: &str =
    "SELECT prompt, asker, revision, extract(epoch FROM clock_timestamp() - opened)::float8 FROM prompts";

fn asked_prompt(row: &Row) -> Result<AskedPrompt, StoreError> {
    let asker: Option<&str> = row.get(1);
    Ok(AskedPrompt {
        prompt: decode("a prompt", row.get(0))?,
        asker: asker.map(|asker| decode("who asks", asker)).transpose()?,
        revision: unsigned(row.get(2)),
        // Below zero if that clock was set back.
        age: Duration::try_from_secs_f64(row.get(3)).unwrap_or_default(),
    })
}

/// Returns a prompt.
pub(crate) async fn get(shared: &Shared, id: &PromptId) -> Result<Option<Prompt>, StoreError> {
    let sql = "SELECT prompt FROM prompts WHERE id = $1";
    let row = shared.db.row("read a prompt", sql, values![key(id.as_str())]).await?;
    row.map(|row| decode("a prompt", row.get(0))).transpose()
}

fn select(filter: &PromptFilter) -> Query {
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
}

const LIST: &str = "list prompts";

async fn list(shared: &Shared, filter: &PromptFilter, limit: usize) -> Result<Vec<Prompt>, StoreError> {
    let rows = select(filter).rows(&shared.db, LIST, " ORDER BY number", limit).await?;
    rows.iter().map(|row| decode("a prompt", row.get(0))).collect()
}

/// Lists prompts for a run without a database, if they are no more than one answer has room for.
pub(crate) async fn list_for(shared: &Shared, filter: &PromptFilter, limit: usize) -> Result<Vec<Prompt>, StoreError> {
    let weighed = ("prompt", " ORDER BY number");
    let bytes = select(filter).bytes(&shared.db, LIST, weighed, limit).await?;
    match bytes > MAX_PROMPT_BYTES {
        true => Err(StoreError::Full(format!(
            "these prompts have {bytes} bytes, and an answer at most {MAX_PROMPT_BYTES}: ask for fewer"
        ))),
        false => list(shared, filter, limit).await,
    }
}

const LIST_OPEN: &str = "list the open prompts";

const OPEN: &str = "SELECT coalesce(full_id, id), revision FROM prompts WHERE state = 'open'";

fn open_prompt(row: &Row) -> (PromptId, u64) {
    (PromptId::new(plain(row.get(0))), unsigned(row.get(1)))
}

/// Lists the open prompts of some workspaces.
pub(crate) async fn list_open(
    shared: &Shared,
    workspaces: &WorkspaceSet,
    limit: usize,
) -> Result<Vec<(PromptId, u64)>, StoreError> {
    let query = Query::new(OPEN).within("workspace", workspaces);
    let rows = query.rows(&shared.db, LIST_OPEN, " ORDER BY number", limit).await?;
    Ok(rows.iter().map(open_prompt).collect())
}

#[async_trait]
impl Prompts for PostgresStore {
    async fn open(
        &self,
        prompt: Prompt,
        asker: Option<Value>,
        judged_by: Option<BTreeSet<GrantId>>,
    ) -> Result<Vec<Grant>, StoreError> {
        let doubts = &self.shared.unsure.prompts;
        let was_doubtful = doubts.begin(&prompt.id);
        let opened = open(&self.shared, &prompt, asker, judged_by.as_ref(), None, was_doubtful).await;
        doubts.end(&prompt.id, was_doubtful, &opened);
        opened
    }

    async fn attend(&self, interests: Vec<Interest>) -> Result<(), StoreError> {
        approvers::attend(&self.shared.db, &self.shared.instances, &interests).await
    }

    async fn attended_elsewhere(&self) -> Result<Vec<Interest>, StoreError> {
        approvers::elsewhere(&self.shared.db, &self.shared.instances).await
    }

    async fn replace_asker(&self, id: &PromptId, asker: Option<Value>) -> Result<(), StoreError> {
        replace_asker(&self.shared, id, asker, None).await.map(drop)
    }

    async fn prompt(&self, id: &PromptId) -> Result<Option<Prompt>, StoreError> {
        get(&self.shared, id).await
    }

    async fn asked(&self, id: &PromptId) -> Result<Option<AskedPrompt>, StoreError> {
        let sql = format!("{ASKED} WHERE id = $1");
        let row = self
            .shared
            .db
            .row("read a prompt", &sql, values![key(id.as_str())])
            .await?;
        row.as_ref().map(asked_prompt).transpose()
    }

    async fn asked_in(&self, session: &SessionKey) -> Result<Vec<AskedPrompt>, StoreError> {
        let sql = format!("{ASKED} WHERE state = 'open' AND workspace = $1 AND session = $2 ORDER BY number");
        let (workspace, session) = (key(&session.workspace), key(session.session.as_str()));
        let rows = self
            .shared
            .db
            .rows("read the prompts of a session", &sql, values![workspace, session])
            .await?;
        rows.iter().map(asked_prompt).collect()
    }

    async fn open_prompts(&self) -> Result<Vec<(PromptId, u64)>, StoreError> {
        let rows = self.shared.db.rows(LIST_OPEN, OPEN, values![]).await?;
        Ok(rows.iter().map(open_prompt).collect())
    }

    async fn prompts(&self, filter: &PromptFilter, limit: usize) -> Result<Vec<Prompt>, StoreError> {
        list(&self.shared, filter, limit).await
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
        let Some(prompt) = get(&self.shared, &first.prompt).await? else {
            return Ok(Settled::Unknown);
        };
        settle(&self.shared, &prompt.workspace, &decisions, None).await
    }

    async fn use_grants(&self, ids: &[GrantId], now: Timestamp) -> Result<Vec<GrantId>, StoreError> {
        use_grants(&self.shared, ids, now, None).await
    }

    async fn grants(&self, owner: &InstanceId) -> Result<Vec<Grant>, StoreError> {
        grants::of(&self.shared.db, std::slice::from_ref(owner)).await
    }

    async fn grants_of(&self, owners: &[InstanceId]) -> Result<Vec<Grant>, StoreError> {
        grants::of(&self.shared.db, owners).await
    }

    async fn grant(&self, id: &GrantId) -> Result<Option<Grant>, StoreError> {
        grants::get(&self.shared.db, id).await
    }

    async fn revoke(&self, id: &GrantId, by: &str) -> Result<Option<Grant>, StoreError> {
        revoke(&self.shared, id, by, None).await
    }

    fn changed_elsewhere(&self) -> Option<Arc<Notify>> {
        self.shared.changed.clone()
    }
}
