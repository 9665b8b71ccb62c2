//! What the engine does for a tool that runs a subagent: the subagent's session and its tools.
//!
//! *Invariant:* the calls of a subagent are ordinary ones that name the task as their parent. None of them outlives it.

pub(crate) mod child;
pub(crate) mod rights;

use serde_json::{Value, json};
use toolgate_model::Source;
use toolgate_model::{CallId, CallRecord, Grant, GrantReach, Model, Origin, SessionId, SessionKey, WorkspaceSet};
use toolgate_permission::Rights;
use toolgate_permission::agents::Agent;
use toolgate_store::{CallFilter, PageRequest, StoreError};
use toolgate_tool::registry::{Entry, Registry};
use toolgate_tool::{Delegated, dialect};

use crate::catalogs::WorkspaceRuntime;
use crate::lookup;
use crate::parts::Parts;

/// The session fact that makes a session a subagent's; it holds the workspace.
const SUBAGENT: &str = "subagent";

/// How far up tasks are counted; no configuration allows more.
const MAX_LINKS: usize = 256;

/// Returns the rights of an agent that works on behalf of a call, or by itself. None if there is no such call.
pub(crate) async fn rights_below(
    parts: &Parts,
    place: &WorkspaceRuntime,
    agent: &Agent,
    parent: Option<&CallId>,
) -> Result<Option<Rights>, StoreError> {
    let Some(parent) = parent else {
        return Ok(Some(place.rights(agent)));
    };
    let parent = lookup::record(parts, parent).await?;
    Ok(parent.map(|parent| parts.catalogs.rights_below(place, &agent.name, &parent)))
}

/// Returns whether a call may wait for calls that clients make in its name: its tool hands work to a front end, or is not
/// one of ours.
pub(crate) fn awaits_clients(entry: &Entry) -> bool {
    entry.source != Source::Builtin || entry.tool.properties().runs_subagent
}

/// Counts the tasks above a call.
pub(crate) async fn tasks_above(parts: &Parts, mut next: Option<CallId>) -> Result<usize, StoreError> {
    let mut tasks = 0;
    for _ in 0..MAX_LINKS {
        let Some(id) = next else { break };
        let Some(parent) = lookup::record(parts, &id).await? else {
            break;
        };
        tasks += usize::from(parent.runs_subagent());
        next = parent.origin.parent;
    }
    Ok(tasks)
}

/// Finds or makes the session of a subagent, and says which tools it has on its model, which may not be the call's.
pub(crate) async fn delegate(
    parts: &Parts,
    record: &CallRecord,
    registry: &Registry,
    (agent, mut model): (&str, Model),
    resumed: Option<&str>,
) -> Result<Delegated, StoreError> {
    let workspace = &record.origin.workspace;
    let found = match resumed {
        Some(id) => session_for(parts, &record.origin, SessionId::from(id)).await?,
        None => None,
    };
    let resumed = found.is_some();
    let session = found.unwrap_or_else(SessionId::generate);
    if !resumed {
        let key = SessionKey::new(workspace, &session);
        parts.store.remember(&key, SUBAGENT, json!(workspace));
    }
    let (mut allowed, mut denied) = (Vec::new(), Vec::new());
    if let Some(place) = parts.catalogs.find(workspace) {
        dialect::complete(&mut model, &place.now().packages);
        let origin = Origin {
            agent: agent.to_owned(),
            model: model.clone(),
            ..record.origin.clone()
        };
        let rights = parts.catalogs.rights_below(&place, agent, record);
        let offered = registry.offered(&place.offer_for(&origin), &rights);
        allowed.extend(offered.into_iter().map(|definition| definition.name));
        // What answers calls that cannot be understood is never denied.
        let others = registry.tools().map(|tool| tool.name()).skip(1);
        denied.extend(
            others
                .filter(|name| !allowed.iter().any(|one| one == name))
                .map(str::to_owned),
        );
    }
    Ok(Delegated {
        session,
        resumed,
        model,
        allowed,
        denied,
    })
}

/// Returns a session if a task may go on in it: a subagent's of the workspace, or another one that is open to it.
async fn session_for(parts: &Parts, task: &Origin, session: SessionId) -> Result<Option<SessionId>, StoreError> {
    let key = SessionKey::new(&task.workspace, &session);
    let fact = parts.store.fact(&key, SUBAGENT).await?;
    if fact.as_ref().and_then(Value::as_str) == Some(&task.workspace) {
        return Ok(Some(session));
    }
    let filter = CallFilter {
        workspaces: WorkspaceSet::one(&task.workspace),
        session: Some(session.clone()),
        ..CallFilter::default()
    };
    let page = PageRequest { size: 1, after: None };
    let newest = parts.log.list(&filter, &page).await?.items.into_iter().next();
    let grants = parts.inbox.grants(Some(&task.workspace)).await?;
    let is_open = newest.is_some_and(|newest| is_open_to(task, &newest.origin, &grants));
    Ok(is_open.then_some(session))
}

/// Returns whether a task may go on in a session that is no subagent's, by the newest call there. A model can name any
/// session: it must not come to work in one of somebody else, nor with approvals that a person gave for that one only.
fn is_open_to(task: &Origin, newest: &Origin, grants: &[Grant]) -> bool {
    let (asking, there) = (task.requesters(), newest.requesters());
    let is_among = |some: &[String], all: &[String]| some.iter().all(|id| all.contains(id));
    // One may have the front end more that runs subagents: of a task below a task, or where a task was in the session before.
    let is_own = is_among(&there, &asking) || is_among(&asking, &there);
    is_own
        && (newest.session == task.session
            || !grants
                .iter()
                .any(|grant| grant.scope.reach == GrantReach::Session && grant.session == newest.session))
}

#[cfg(test)]
mod tests {
    use toolgate_model::{GrantId, GrantScope, InstanceId, JsonMap, PromptId, Timestamp};

    use super::*;

    fn origin(session: &str, requester: &str, on_behalf_of: &[&str]) -> Origin {
        Origin {
            workspace: "w".to_owned(),
            session: SessionId::from(session),
            directory: String::new(),
            message_id: String::new(),
            agent: "build".to_owned(),
            model: Model::default(),
            client: String::new(),
            client_name: String::new(),
            unanswered: None,
            parent: None,
            requester: requester.to_owned(),
            on_behalf_of: on_behalf_of.iter().map(|id| (*id).to_owned()).collect(),
            clients: Vec::new(),
            extra: JsonMap::new(),
            environment: Default::default(),
        }
    }

    fn grant(session: &str, reach: GrantReach) -> Grant {
        Grant {
            id: GrantId::from("g"),
            owner: InstanceId::generate(),
            workspace: "w".to_owned(),
            worktree: String::new(),
            session: SessionId::from(session),
            scope: GrantScope {
                reach,
                ..GrantScope::default()
            },
            permission: "bash".to_owned(),
            pattern: "*".to_owned(),
            prompt: PromptId::from("p"),
            approvers: Vec::new(),
            title: String::new(),
            by: String::new(),
            created: Timestamp::now(),
            uses: 0,
            last_used: None,
        }
    }

    #[test]
    fn nobody_goes_on_in_a_session_of_somebody_else() {
        let check = |task: Origin, newest: Origin, expected: bool| {
            assert_eq!(is_open_to(&task, &newest, &[]), expected, "{task:?} in {newest:?}");
        };
        check(origin("t", "", &[]), origin("s", "", &[]), true);
        check(origin("t", "token:a", &[]), origin("s", "token:a", &[]), true);
        check(origin("t", "token:a", &[]), origin("s", "token:b", &[]), false);
        check(origin("t", "token:a", &[]), origin("s", "", &[]), false);
        check(
            origin("t", "token:host", &["token:a"]),
            origin("s", "token:a", &[]),
            true,
        );
        check(
            origin("t", "token:host", &["token:a"]),
            origin("s", "token:host", &["token:b"]),
            false,
        );
        check(
            origin("t", "token:a", &[]),
            origin("s", "token:host", &["token:a"]),
            true,
        );
        check(
            origin("t", "token:a", &[]),
            origin("s", "token:host", &["token:b"]),
            false,
        );
        check(
            origin("t", "token:a", &["token:b"]),
            origin("s", "token:a", &["token:c"]),
            false,
        );
    }

    #[test]
    fn approvals_for_one_session_stay_there() {
        let check = |session: &str, grant: Grant, expected: bool| {
            let newest = origin(session, "", &[]);
            assert_eq!(
                is_open_to(&origin("t", "", &[]), &newest, &[grant]),
                expected,
                "{session}"
            );
        };
        check("s", grant("s", GrantReach::Session), false);
        check("s", grant("other", GrantReach::Session), true);
        check("s", grant("s", GrantReach::Run), true);
        check("s", grant("s", GrantReach::Workspace), true);
        check("t", grant("t", GrantReach::Session), true);
    }
}
