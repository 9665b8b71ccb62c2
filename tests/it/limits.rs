//! Each limit: what is beyond it, how that is told, and that there is room again afterwards.

mod queue;
mod stops;
mod table;
mod traffic;

use std::path::PathBuf;

use serde_json::{Value, json};
use tonic::Code;
use tonic_types::ErrorDetails;
use toolgate_contract::call_event::Event;
use toolgate_contract::*;

use crate::support::*;

/// A setup with these limits, by their keys.
fn limited<const N: usize>(limits: [(&'static str, &str); N]) -> Setup {
    limits.into_iter().fold(Setup::default(), with)
}

fn with(setup: Setup, (key, value): (&'static str, &str)) -> Setup {
    let name: &'static str = format!("TOOLGATE_LIMITS_{}", key.to_ascii_uppercase()).leak();
    setup.env(name, value)
}

/// Checks that a limit refused something, and said so in every detail. Returns the details.
fn refused_by<T: std::fmt::Debug>(
    result: Result<T, tonic::Status>,
    reason: &str,
    key: &str,
    value: &str,
) -> ErrorDetails {
    let details = refused(result, Code::ResourceExhausted, reason);
    let key = format!("limits.{key}");
    let metadata = &details.error_info().unwrap().metadata;
    assert_eq!(
        (metadata["limit"].as_str(), metadata["value"].as_str()),
        (key.as_str(), value)
    );
    let violation = &details.quota_failure().unwrap().violations[0];
    assert_eq!(violation.subject, key);
    assert!(violation.description.contains(value), "{violation:?}");
    details
}

/// A call that holds its slot until it is let go.
struct Busy {
    id: &'static str,
    work: PathBuf,
    events: tonic::Streaming<ExecuteToolResponse>,
}

impl Busy {
    async fn start(server: &Server, id: &'static str) -> Self {
        Self::with(server, id, |request| request).await
    }

    async fn with(
        server: &Server,
        id: &'static str,
        change: impl FnOnce(ExecuteToolRequest) -> ExecuteToolRequest,
    ) -> Self {
        let request = kept(id, bash(&format!("mkfifo go-{id}; echo ready; cat go-{id}")));
        let events = server.tools().execute_tool(change(request)).await.unwrap();
        let (work, mut events) = (server.work(), events.into_inner());
        next_such(&mut events, is_output).await;
        Self { id, work, events }
    }

    async fn let_go(self) -> Vec<CallEvent> {
        let go = self.work.join(format!("go-{}", self.id));
        tokio::task::spawn_blocking(move || std::fs::write(go, "on\n"))
            .await
            .unwrap()
            .unwrap();
        collect(self.events).await.unwrap()
    }
}

/// Starts a call that has to wait, and returns why.
async fn queue(server: &Server, id: &str, request: ExecuteToolRequest) -> CallQueued {
    let (_, queued) = queue_stream(server, kept(id, request)).await;
    queued
}

async fn queue_stream(
    server: &Server,
    request: ExecuteToolRequest,
) -> (tonic::Streaming<ExecuteToolResponse>, CallQueued) {
    let mut events = server.tools().execute_tool(request).await.unwrap().into_inner();
    let first = events.message().await.unwrap().unwrap().event.unwrap();
    match first.event {
        Some(Event::Pending(CallPending {
            queued: Some(queued), ..
        })) => (events, queued),
        other => panic!("it does not wait: {other:?}"),
    }
}

async fn queued_calls(server: &Server) -> i32 {
    let info = server.info().get_server_info(GetServerInfoRequest {}).await;
    info.unwrap().into_inner().queued_calls
}

/// The end of a kept call, waited for.
async fn end(server: &Server, id: &str) -> Call {
    server.watch(id, 0).await.unwrap();
    server.get(id).await
}

/// Checks that a call ended without having done anything, and says so.
fn never_started(call: &Call, reason: FailureReason) {
    let failed = failed(call);
    assert_eq!(failed.reason(), reason, "{failed:?}");
    let metadata = json_of(failed.metadata.as_ref().unwrap());
    assert_eq!(metadata["started"], Value::Bool(false), "{failed:?}");
    assert!(failed.error.to_lowercase().contains("nothing was done"), "{failed:?}");
    assert!(call.start_time.is_none());
}

fn http() -> reqwest::Client {
    // The program does so first thing; here any test may come first.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    reqwest::Client::builder().no_proxy().build().unwrap()
}

/// How often a limit has refused something.
async fn refusals(server: &Server, key: &str) -> u64 {
    let url = format!("http://{}/metrics", server.admin.as_deref().unwrap());
    let text = http().get(url).send().await.unwrap().text().await.unwrap();
    let series = format!("toolgate_limit_refusals_total{{limit=\"limits.{key}\"}} ");
    let line = text.lines().find_map(|line| line.strip_prefix(&series));
    line.map_or(0, |count| count.parse().unwrap())
}
