//! What the gateway answers itself: what it is, the workspaces of all workers, and which worker opens another one.
//!
//! *Invariant:* a worker that is away is told, never left out.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::future::join_all;
use tokio::time::timeout;
use tonic::body::Body;
use tonic::codegen::http::Response;
use tonic::{Code, Status};
use toolgate_contract::*;
use toolgate_server::grpc::auth::OnBehalf;
use toolgate_server::grpc::status;

use crate::parts::Parts;
use crate::registry::ASK_TIMEOUT;
use crate::wire::{gone, unary};
use crate::worker::Worker;

/// Workspaces on a page, by itself and at most.
const PAGE: (usize, usize) = (50, 500);

/// Workers that are asked the same at once.
const ASKED_AT_ONCE: usize = 512;

/// Calls that a session tells of.
const RECENT_CALLS: usize = 20;

/// Asks all workers the same.
async fn asked<Q, A>(
    parts: &Parts,
    caller: &OnBehalf,
    path: &'static str,
    question: &Q,
) -> Vec<(Arc<Worker>, Result<A, Status>)>
where
    Q: prost::Message + Clone + 'static,
    A: prost::Message + Default + 'static,
{
    let entry = &caller.entry();
    let workers = parts.registry.workers_for(caller);
    let mut answers = Vec::with_capacity(workers.len());
    // Not all of thousands: each may need a connection of its own.
    for some in workers.chunks(ASKED_AT_ONCE) {
        let asking = some.iter().map(|worker| async move {
            let answer = timeout(ASK_TIMEOUT, worker.ask(path, question.clone(), Some(entry))).await;
            (worker.clone(), answer.unwrap_or_else(|_| Err(gone(&worker.name))))
        });
        answers.extend(join_all(asking).await);
    }
    answers
}

/// Says what the gateway is, and what its workers are together.
pub(crate) async fn info(parts: &Parts, caller: &OnBehalf) -> Result<Response<Body>, Status> {
    let facts = &parts.facts;
    let path = "/toolgate.v1.InfoService/GetServerInfo";
    let answers = asked::<_, GetServerInfoResponse>(parts, caller, path, &GetServerInfoRequest {}).await;
    let mut info = GetServerInfoResponse {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        api_revision: API_REVISION,
        instance_id: facts.instance.clone(),
        start_time: Some(facts.started.into()),
        warnings: facts.warnings.clone(),
        ..GetServerInfoResponse::default()
    };
    let mut are_alike = true;
    for (worker, answer) in answers {
        let theirs = match answer {
            Ok(theirs) => theirs,
            Err(status) if status.code() == Code::Unavailable => {
                info.warnings.push(status.message().to_owned());
                continue;
            }
            Err(status) => {
                info.warnings.push(format!("{}: {}", worker.name, status.message()));
                continue;
            }
        };
        let counting = theirs
            .workspaces
            .into_iter()
            .filter(|one| parts.registry.counts(&worker, &one.name));
        info.workspaces.extend(counting);
        info.running_calls = info.running_calls.saturating_add(theirs.running_calls);
        info.queued_calls = info.queued_calls.saturating_add(theirs.queued_calls);
        info.features.extend(theirs.features);
        let name = &worker.name;
        info.warnings
            .extend(theirs.warnings.into_iter().map(|warning| format!("{name}: {warning}")));
        are_alike &= info.sandbox_info.is_none() || info.sandbox_info == theirs.sandbox_info;
        info.sandbox = theirs.sandbox;
        info.sandbox_info = theirs.sandbox_info;
        info.limits = match (info.limits, theirs.limits) {
            (Some(limits), Some(theirs)) => Some(smaller(limits, &theirs)),
            (limits, theirs) => limits.or(theirs),
        };
    }
    if !are_alike {
        // What holds for one worker only is told of none.
        info.sandbox = Sandbox::Unspecified.into();
        info.sandbox_info = None;
    }
    let own = [(Feature::Console, facts.console), (Feature::Jwt, facts.takes_jwt)];
    if parts.created.is_some() {
        info.features.push(Feature::CreateWorkspaces.into());
    }
    info.features
        .retain(|feature| own.iter().all(|(own, _)| i32::from(*own) != *feature));
    info.features.extend(
        own.iter()
            .filter(|(_, is_there)| *is_there)
            .map(|(feature, _)| i32::from(*feature)),
    );
    info.features.sort_unstable();
    info.features.dedup();
    let limits = info.limits.get_or_insert_default();
    let wide = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    limits.max_message_bytes = i64::try_from(facts.max_message_bytes).unwrap_or(i64::MAX);
    limits.max_requests_per_second = facts.limits.requests_per_second.map(|most| wide(most as usize));
    limits.max_request_burst = facts.limits.request_burst.map(|most| wide(most as usize));
    limits.max_streams = wide(facts.limits.streams);
    limits.max_streams_per_principal = facts.limits.streams_per_principal.map(wide);
    limits.max_streams_per_connection = wide(facts.limits.streams_per_connection as usize);
    Ok(unary(&info))
}

/// Returns what fits into both.
fn smaller(limits: Limits, others: &Limits) -> Limits {
    Limits {
        max_input_bytes: limits.max_input_bytes.min(others.max_input_bytes),
        max_output_bytes: limits.max_output_bytes.min(others.max_output_bytes),
        max_running_calls: limits.max_running_calls.saturating_add(others.max_running_calls),
        max_queued_calls: limits.max_queued_calls.saturating_add(others.max_queued_calls),
        max_workspaces: limits.max_workspaces.saturating_add(others.max_workspaces),
        max_open_prompts: limits.max_open_prompts.saturating_add(others.max_open_prompts),
        ..limits
    }
}

/// Lists the workspaces of all workers by name.
pub(crate) async fn workspaces(
    parts: &Parts,
    caller: &OnBehalf,
    question: ListWorkspacesRequest,
) -> Result<Response<Body>, Status> {
    let size = match usize::try_from(question.page_size) {
        Ok(0) => PAGE.0,
        Ok(size) => size.min(PAGE.1),
        Err(_) => return Err(status::bad_field("page_size", "expected 0 or more")),
    };
    parts.registry.refresh().await;
    let (mut found, mut roots, mut templates) = (Vec::new(), Vec::new(), BTreeSet::new());
    for worker in parts.registry.workers_for(caller) {
        let facts = worker.facts.read().clone();
        if !facts.is_there && facts.workspaces.is_empty() {
            if facts.has_lost_all || worker.was_never_bound() {
                continue;
            }
            return Err(gone(&worker.name));
        }
        let seen = facts
            .workspaces
            .iter()
            .filter(|one| caller.sees(&one.name) && parts.registry.counts(&worker, &one.name));
        found.extend(seen.cloned().map(|mut one| {
            if !facts.is_there {
                one.problem = gone(&worker.name).message().to_owned();
            }
            one
        }));
        roots.extend(facts.roots.iter().cloned());
        templates.extend(facts.templates.iter().cloned());
    }
    found.retain(|one| one.name > question.page_token);
    if let Some(created) = &parts.created {
        let among = created.put_among(caller, &mut found, (&question.page_token, size));
        among.await.map_err(status::store)?;
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    let has_more = found.len() > size;
    found.truncate(size);
    let last = found.last().filter(|_| has_more).map(|one| one.name.clone());
    Ok(unary(&ListWorkspacesResponse {
        next_page_token: last.unwrap_or_default(),
        workspaces: found,
        roots,
        templates: templates.into_iter().collect(),
    }))
}

/// A workspace that is to be at some worker.
pub(crate) struct NewWorkspace {
    pub(crate) workspace: String,
    /// The folder that is opened; none if one is created.
    directory: Option<String>,
}

impl NewWorkspace {
    pub(crate) fn opened(question: OpenWorkspaceRequest) -> Self {
        Self {
            workspace: question.workspace,
            directory: Some(question.directory),
        }
    }

    pub(crate) fn created(question: CreateWorkspaceRequest) -> Self {
        Self {
            workspace: question.workspace,
            directory: None,
        }
    }
}

/// Finds the worker that opens or creates a workspace: whose it is already, else the first that may open the folder, or creates
/// any.
pub(crate) async fn opener(parts: &Parts, caller: &OnBehalf, question: NewWorkspace) -> Result<Arc<Worker>, Status> {
    if let Some(owner) = parts.registry.owner(&question.workspace) {
        return Ok(owner);
    }
    match parts.registry.place(caller, &question.workspace).await {
        Ok((worker, _)) => return Ok(worker),
        Err(status) if status.code() == Code::NotFound => {}
        Err(status) => return Err(status),
    }
    let may_have = |worker: &&Arc<Worker>| {
        let is_there = worker.facts.read().is_there;
        is_there && worker.may_have(&question.workspace) && !worker.is_draining()
    };
    let may_open = |worker: &&Arc<Worker>| {
        let facts = worker.facts.read().clone();
        let Some(directory) = &question.directory else {
            return facts.creates;
        };
        let roots = facts.roots;
        let is_below = |root: &String| std::path::Path::new(directory).starts_with(root);
        let is_relative = !directory.starts_with('/');
        roots.iter().any(|root| is_relative || is_below(root))
    };
    let workers = parts.registry.workers_for(caller);
    // One that may not says why.
    let found = workers.iter().filter(may_have).find(may_open);
    let found = found.or_else(|| workers.iter().find(may_have)).or(workers.first());
    found.cloned().ok_or_else(|| gone("that opens workspaces"))
}

/// Returns a session as it is in all workspaces together.
pub(crate) async fn session(
    parts: &Parts,
    caller: &OnBehalf,
    question: GetSessionRequest,
) -> Result<Response<Body>, Status> {
    let path = "/toolgate.v1.SessionService/GetSession";
    let answers = asked::<_, GetSessionResponse>(parts, caller, path, &question).await;
    let (mut sessions, mut missing) = (Vec::new(), None);
    for (worker, answer) in answers {
        let counts = |workspace: &str| parts.registry.counts(&worker, workspace);
        match answer {
            Ok(answer) => sessions.extend(answer.session.map(|mut session| {
                let of_call = |call: &Call| call.context.as_ref().is_none_or(|context| counts(&context.workspace));
                session.recent_calls.retain(of_call);
                session.open_prompts.retain(|prompt| counts(&prompt.workspace));
                session.grants.retain(|grant| counts(&grant.workspace));
                session
            })),
            Err(status) if status.code() == Code::NotFound => missing = Some(status),
            Err(status) => return Err(status),
        }
    }
    if sessions.is_empty() {
        return Err(missing.unwrap_or_else(|| status::not_found("session", &question.session_id)));
    }
    let moment = |call: &Call| call.create_time.as_ref().map(|time| (time.seconds, time.nanos));
    // The list of tasks is that of the latest call.
    sessions.sort_by_key(|session: &Session| std::cmp::Reverse(session.recent_calls.first().map(moment)));
    let mut sessions = sessions.into_iter();
    let mut session = sessions.next().unwrap_or_default();
    for other in sessions {
        session.recent_calls.extend(other.recent_calls);
        session.open_prompts.extend(other.open_prompts);
        session.grants.extend(other.grants);
    }
    session.recent_calls.sort_by_key(|call| std::cmp::Reverse(moment(call)));
    session.recent_calls.truncate(RECENT_CALLS);
    Ok(unary(&GetSessionResponse { session: Some(session) }))
}
