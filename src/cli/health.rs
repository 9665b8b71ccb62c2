//! `toolgate health`: whether a server takes calls, for what can ask only by starting a program: the `HEALTHCHECK` of an
//! image without a shell, and probes of a server that wants TLS.
//!
//! *Invariant:* the exit code is the answer; health is told to everybody, so no credentials are needed.

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use tonic::{Code, Request, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use toolgate_client::Client;
use toolgate_contract::WorkspaceInfo;

use super::connection;
use super::exit::{Exit, Failure};
use super::globals::Globals;
use super::terminal::{Terminal, visible};

const TIMEOUT: Duration = Duration::from_secs(5);

/// What is wrong with rules and told one by one.
const MAX_TOLD: usize = 20;

/// What to ask about. The exit code is 0 if it is served, 5 if it is not or nothing answers, and 8 if there is no such
/// service. What is wrong with the rules of workspaces is told beside that, to those who may see it, and changes no exit code.
#[derive(Debug, Args)]
pub(super) struct HealthArgs {
    /// The service of the contract to ask about; empty for the whole server. `toolgate.v1.ToolService` is served while
    /// calls are taken.
    #[arg(long, value_name = "NAME", default_value = "toolgate.v1.ToolService")]
    service: String,
}

impl HealthArgs {
    pub(super) async fn run(self, globals: &Globals, terminal: &Terminal) -> Result<Exit, Failure> {
        let service = self.service.clone();
        let mut request = Request::new(HealthCheckRequest { service: self.service });
        request.set_timeout(TIMEOUT);
        let client = connection::connect(globals, None, terminal).await?;
        let answer = HealthClient::new(client.channel()).check(request).await;
        let answer = answer.map_err(|status| {
            let is_unknown = status.code() == Code::NotFound;
            if is_unknown {
                Status::not_found(format!("unknown service {service}"))
            } else {
                status
            }
        })?;
        let status = answer.into_inner().status();
        let wrong = wrong_with_rules(&client).await;
        if terminal.json {
            let mut record = json!({ "status": status.as_str_name() });
            if !wrong.is_empty() {
                record["warnings"] = wrong
                    .iter()
                    .map(|(workspace, text)| json!({"workspace": workspace, "text": text}))
                    .collect::<Value>();
            }
            terminal.record(&record)?;
        } else {
            terminal.line(status.as_str_name())?;
            for (workspace, text) in wrong.iter().take(MAX_TOLD) {
                terminal.inform(&visible(&format!("{workspace}: {text}")));
            }
            if let Some(more) = wrong.len().checked_sub(MAX_TOLD).filter(|more| *more > 0) {
                terminal.inform(&format!("and {more} more"));
            }
        }
        Ok(match status {
            ServingStatus::Serving => Exit::Completed,
            ServingStatus::Unknown | ServingStatus::NotServing | ServingStatus::ServiceUnknown => Exit::Unreachable,
        })
    }
}

/// Returns what a person should know of the rules of each workspace, as far as whoever asks may see it. It makes no server
/// unhealthy: a file that cannot be used leaves the rules from before in force, or its own workspace closed.
async fn wrong_with_rules(client: &Client) -> Vec<(String, String)> {
    let Ok(Ok(info)) = tokio::time::timeout(TIMEOUT, client.server_info()).await else {
        return Vec::new();
    };
    let of_workspace = |workspace: WorkspaceInfo| {
        let problem = Some(workspace.problem).filter(|problem| !problem.is_empty());
        let texts = problem.into_iter().chain(workspace.warnings);
        texts.map(move |text| (workspace.name.clone(), text))
    };
    info.workspaces.into_iter().flat_map(of_workspace).collect()
}
