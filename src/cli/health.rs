//! `toolgate health`: whether a server takes calls, for what can ask only by starting a program: the `HEALTHCHECK` of an
//! image without a shell, and probes of a server that wants TLS.
//!
//! *Invariant:* the exit code is the answer; health is told to everybody, so no credentials are needed.

use std::time::Duration;

use clap::Args;
use serde_json::json;
use tonic::{Code, Request, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use super::connection;
use super::exit::{Exit, Failure};
use super::globals::Globals;
use super::terminal::Terminal;

const TIMEOUT: Duration = Duration::from_secs(5);

/// What to ask about. The exit code is 0 if it is served, 5 if it is not or nothing answers, and 8 if there is no such
/// service.
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
        let client = connection::connect(globals).await?;
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
        if terminal.json {
            terminal.record(&json!({ "status": status.as_str_name() }))?;
        } else {
            terminal.line(status.as_str_name())?;
        }
        Ok(match status {
            ServingStatus::Serving => Exit::Completed,
            ServingStatus::Unknown | ServingStatus::NotServing | ServingStatus::ServiceUnknown => Exit::Unreachable,
        })
    }
}
