//! `toolgate workers`: the workers of a gateway, and what is not served of them.

use clap::Args;
use tonic::{Code, Request, Status};
use toolgate_contract::cluster::cluster_service_client::ClusterServiceClient;
use toolgate_contract::cluster::{ListWorkersRequest, Worker, WorkerKind, WorkerState};

use super::connection;
use super::exit::{Exit, Failure};
use super::globals::Globals;
use super::terminal::{Terminal, visible};
use super::words;

/// Lists the workers of a gateway.
#[derive(Debug, Args)]
pub(super) struct WorkersArgs {}

impl WorkersArgs {
    pub(super) async fn run(self, globals: &Globals, terminal: &Terminal) -> Result<Exit, Failure> {
        let client = connection::connect(globals, None, terminal).await?;
        let mut cluster = ClusterServiceClient::new(client.channel());
        let listed = cluster.list_workers(Request::new(ListWorkersRequest {})).await;
        let listed = listed.map_err(|status| {
            // What knows no such service is a service that runs calls.
            let is_none = status.code() == Code::Unimplemented;
            if is_none {
                Status::unimplemented("this server is not a gateway, so it has no workers")
            } else {
                status
            }
        })?;
        let workers = listed.into_inner().workers;
        if terminal.json {
            workers.iter().try_for_each(|worker| terminal.message(worker))?;
            return Ok(Exit::Completed);
        }
        let rows: Vec<Vec<String>> = workers.iter().map(row).collect();
        let headings = ["WORKER", "KIND", "ADDRESS", "VERSION", "STATE", "WORKSPACES", "CALLS"];
        terminal.table(&headings, &rows)?;
        for worker in &workers {
            let name = visible(&worker.name);
            if !worker.problem.is_empty() {
                terminal.inform(&format!("{name}: {}", visible(&worker.problem)));
            }
            for refused in &worker.refused_workspaces {
                let (workspace, reason) = (visible(&refused.workspace), visible(&refused.reason));
                terminal.inform(&format!("{name}: the workspace {workspace} is not served: {reason}"));
            }
        }
        Ok(Exit::Completed)
    }
}

fn row(worker: &Worker) -> Vec<String> {
    let kind = match worker.kind() {
        WorkerKind::Listed => "listed",
        WorkerKind::Registered => "registered",
        WorkerKind::Unspecified => "?",
    };
    let state = match (worker.state(), worker.away_since) {
        (WorkerState::Ready, _) => "ready".to_owned(),
        (WorkerState::Refused, _) => "refused".to_owned(),
        (WorkerState::Draining, _) => "draining".to_owned(),
        (WorkerState::Unbound, _) => "unbound".to_owned(),
        (WorkerState::Away, Some(since)) => format!("away since {}", words::time(since)),
        (WorkerState::Away, None) => "away".to_owned(),
        (WorkerState::Unspecified, _) => "?".to_owned(),
    };
    let version = visible(&worker.version).into_owned();
    vec![
        visible(&worker.name).into_owned(),
        kind.to_owned(),
        visible(&worker.address).into_owned(),
        if version.is_empty() { "-".to_owned() } else { version },
        state,
        worker.workspaces.len().to_string(),
        worker.running_calls.to_string(),
    ]
}
