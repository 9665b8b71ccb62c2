//! Asking a worker what it is and has.
//!
//! *Invariant:* what a worker said last stays known when it does not answer; only that it is away is new then.

use std::sync::atomic::Ordering;
use std::time::SystemTime;

use tokio::time::timeout;
use tonic::{Code, Status};
use toolgate_contract::{
    Feature, GetServerInfoRequest, GetServerInfoResponse, GetWorkspaceRequest, GetWorkspaceResponse,
    ListWorkspacesRequest, ListWorkspacesResponse, WorkspaceInfo,
};
use toolgate_server::grpc::auth::OnBehalf;

use crate::facts::Facts;
use crate::registry::{ASK_TIMEOUT, MAX_WORKSPACES};
use crate::versions;
use crate::worker::Worker;

const GET_SERVER_INFO: &str = "/toolgate.v1.InfoService/GetServerInfo";
const GET_WORKSPACE: &str = "/toolgate.v1.WorkspaceService/GetWorkspace";
const LIST_WORKSPACES: &str = "/toolgate.v1.WorkspaceService/ListWorkspaces";

/// Workspaces on one page, as many as may be.
const PAGE: i32 = 500;

/// What a worker says of itself, and of its workspaces: these, its default one first, and the rest of the list.
type Answer = (GetServerInfoResponse, Vec<WorkspaceInfo>, ListWorkspacesResponse);

/// News of a worker that is asked for it. Whoever gives up before it has answered, or could have, leaves them to the next one.
pub(crate) struct Taken<'a>(Option<&'a Worker>);

impl<'a> Taken<'a> {
    pub(crate) fn of(worker: &'a Worker) -> Self {
        let has_news = worker.has_news.swap(false, Ordering::AcqRel);
        Self(Some(worker).filter(|_| has_news))
    }

    /// Takes note that it was asked.
    pub(crate) fn are_known(mut self) {
        self.0 = None;
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if let Some(worker) = self.0 {
            worker.is_news();
        }
    }
}

/// Asks a worker what it is and has.
pub(crate) async fn learn(worker: &Worker) {
    let news = Taken::of(worker);
    worker.is_asked();
    ask(worker).await;
    news.are_known();
}

async fn ask(worker: &Worker) {
    if worker.has_left() {
        return away(&mut worker.facts.write(), worker, "its registration has ended");
    }
    let answer = timeout(ASK_TIMEOUT, answer(worker)).await;
    let mut facts = worker.facts.write();
    match answer {
        Ok(Ok((info, workspaces, rest))) => {
            let refused = versions::problem(versions::OWN, &info.version);
            if !facts.is_there {
                tracing::info!(worker = worker.name, workspaces = workspaces.len(), "a worker is there");
            }
            if let Some(why) = refused.as_deref().filter(|why| facts.refused.as_deref() != Some(*why)) {
                tracing::error!(
                    worker = worker.name,
                    address = worker.address(),
                    why,
                    "a worker is not used"
                );
            }
            let carried = info
                .limits
                .as_ref()
                .map_or(0, |limits| limits.max_streams_per_connection);
            worker.lines.carry(carried.into());
            *facts = Facts {
                is_there: true,
                was_told: false,
                has_lost_all: false,
                is_excused: false,
                workspaces: workspaces.into(),
                roots: rest.roots.into(),
                templates: rest.templates.into(),
                creates: info.features.contains(&Feature::CreateWorkspaces.into()),
                version: info.version.into(),
                refused: refused.map(Into::into),
                away: None,
                calls: (info.running_calls, info.queued_calls),
            };
        }
        Ok(Err(status)) if status.code() == Code::Unauthenticated => {
            let how = match worker.is_listed() {
                true => format!(
                    "by the `token_file` or `certificate` of cluster.workers.{}",
                    worker.name
                ),
                false => "by the secret of its registration".to_owned(),
            };
            let why = format!("it does not know the gateway, {how}: {}", status.message());
            away(&mut facts, worker, &why);
        }
        // It is there, and has too much to do.
        Ok(Err(status)) if status.code() == Code::ResourceExhausted && facts.is_there => {}
        Ok(Err(status)) => {
            let lost = worker.why_lost().filter(|_| status.code() == Code::Unavailable);
            let why = lost.unwrap_or_else(|| status.message().to_owned());
            away(&mut facts, worker, &why);
        }
        Err(_) => away(&mut facts, worker, "it does not answer"),
    }
}

async fn answer(worker: &Worker) -> Result<Answer, Status> {
    // So that a worker that does not take it for a gateway is found out here, and not by those who call.
    let entry = &OnBehalf::entry_of_gateway();
    let info = worker
        .ask_about_itself(GET_SERVER_INFO, GetServerInfoRequest {}, Some(entry))
        .await?;
    let (workspaces, rest) = workspaces(worker).await?;
    Ok((info, workspaces, rest))
}

/// Returns the workspaces of a worker, its default one first, and what else it says of workspaces.
async fn workspaces(worker: &Worker) -> Result<(Vec<WorkspaceInfo>, ListWorkspacesResponse), Status> {
    let (mut workspaces, mut page_token) = (Vec::new(), String::new());
    let entry = &OnBehalf::entry_of_gateway();
    let rest = loop {
        let question = ListWorkspacesRequest {
            page_size: PAGE,
            page_token,
        };
        let asked = worker.ask_about_itself(LIST_WORKSPACES, question, Some(entry)).await;
        let mut page: ListWorkspacesResponse = asked?;
        workspaces.append(&mut page.workspaces);
        if workspaces.len() > MAX_WORKSPACES {
            return Err(Status::failed_precondition("it has too many workspaces"));
        }
        page_token = std::mem::take(&mut page.next_page_token);
        if page_token.is_empty() {
            break page;
        }
    };
    let known = worker.facts.read().workspaces.clone();
    let is_one = |name: &str, list: &[WorkspaceInfo]| list.iter().any(|one| one.name == name);
    let are_known = workspaces.len() == known.len() && known.iter().all(|one| is_one(&one.name, &workspaces));
    let default = match known.first().filter(|_| are_known) {
        Some(first) => first.name.clone(),
        // The list has them by name, and does not say which one is meant by an empty name.
        None if workspaces.len() > 1 => {
            let asked = worker
                .ask_about_itself(GET_WORKSPACE, GetWorkspaceRequest::default(), Some(entry))
                .await;
            let GetWorkspaceResponse { workspace } = asked?;
            workspace.unwrap_or_default().name
        }
        None => String::new(),
    };
    workspaces.sort_by_key(|one| one.name != default);
    Ok((workspaces, rest))
}

fn away(facts: &mut Facts, worker: &Worker, why: &str) {
    if facts.is_there || !facts.was_told {
        tracing::warn!(
            worker = worker.name,
            address = worker.address(),
            why,
            "a worker cannot be used"
        );
    }
    let since = facts.away.take().filter(|_| !facts.is_there).map(|(_, since)| since);
    facts.away = Some((why.into(), since.unwrap_or_else(SystemTime::now)));
    facts.is_there = false;
    facts.was_told = true;
}
