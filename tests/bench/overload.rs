//! More calls than the service allows: what becomes of them, and how soon all is well again when others end.
//!
//! *Invariant:* a call beyond the limit is refused with a word on when to try again, or waits for its turn; either way it
//! runs once there is room, and none is lost.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;
use toolgate_contract::ExecuteToolRequest;
use toolgate_contract::call_event::Event;
use toolgate_contract::{CallState, CancelCallRequest, FailureReason, ListCallsRequest, OnDisconnect};

use crate::Report;
use crate::service::{Service, Tools, request, tools};
use crate::table::{Row, show_time};

/// Calls beyond the limit.
const BEYOND: usize = 50;

/// How long the service stays overloaded.
const OVERLOADED: Duration = Duration::from_secs(2);

/// The longest that a call beyond the limit may take once there is room.
const PATIENCE: Duration = Duration::from_secs(60);

/// The longest that is waited before another attempt.
const AGAIN: Duration = Duration::from_millis(500);

/// Makes calls beyond the limit, and room for them after a while.
pub(crate) async fn run(service: &Service, limit: usize, report: &mut Report) -> Result<()> {
    let mut client = tools(service.connect().await?);
    let full = running(&mut client).await?;
    ensure!(full == limit, "{full} calls run, not {limit}");
    let (room, has_room) = watch::channel(false);
    let mut beyond = JoinSet::new();
    for number in 0..BEYOND {
        beyond.spawn(insist(client.clone(), number, has_room.clone()));
    }
    sleep(OVERLOADED).await;
    room.send_replace(true);
    let begin = Instant::now();
    // Of one session, whose watchers see their ends now.
    let list = ListCallsRequest {
        session_id: "load-0".to_owned(),
        states: vec![CallState::Running.into()],
        page_size: 500,
        ..ListCallsRequest::default()
    };
    let ending = client.list_calls(list).await?.into_inner().calls;
    for call in ending.iter().take(BEYOND) {
        let call_id = call.call_id.clone();
        client.cancel_call(CancelCallRequest { call_id }).await?;
    }
    let (mut refused, mut early) = (0, 0);
    let all = async {
        while let Some(call) = beyond.join_next().await {
            let outcome = call.map_err(anyhow::Error::from).and_then(|outcome| outcome);
            match outcome {
                Ok(outcome) => {
                    refused += outcome.refused;
                    early += usize::from(outcome.early);
                }
                Err(error) => report.faults.push(format!("a call beyond the limit: {error:#}")),
            }
        }
    };
    timeout(PATIENCE, all)
        .await
        .context("a call beyond the limit never came to its end")?;
    if early > 0 {
        report
            .faults
            .push(format!("{early} calls beyond the limit ran before there was room"));
    }
    let detail = format!("{refused} times refused in {OVERLOADED:?}; the others waited their turn");
    let what = format!("{BEYOND} calls beyond the limit, all run after room for");
    report.rows.push(Row::told(&what, detail, show_time(begin.elapsed())));
    Ok(())
}

/// What became of a call beyond the limit, which has run.
struct Outcome {
    /// How often it was refused before.
    refused: usize,
    /// It ran while there was no room.
    early: bool,
}

/// Makes a call, again and again if it is refused, until it has run.
async fn insist(mut client: Tools, number: usize, has_room: watch::Receiver<bool>) -> Result<Outcome> {
    let mut refused = 0;
    loop {
        match attempt(&mut client, number, refused).await? {
            Ok(()) => {
                let early = !*has_room.borrow();
                return Ok(Outcome { refused, early });
            }
            Err(wait) => {
                refused += 1;
                sleep(wait.min(AGAIN)).await;
            }
        }
    }
}

/// Makes a call once; the inner error is when to try again.
async fn attempt(client: &mut Tools, number: usize, attempt: usize) -> Result<std::result::Result<(), Duration>> {
    let input = json!({ "command": "echo done", "description": format!("{number}, {attempt}") });
    let call = ExecuteToolRequest {
        on_disconnect: OnDisconnect::Keep.into(),
        ..request(&format!("beyond-{number}"), "bash", input)
    };
    let mut stream = match client.execute_tool(call).await {
        Ok(stream) => stream.into_inner(),
        Err(status) => return later(&status).map(Err),
    };
    loop {
        let message = match stream.message().await {
            Ok(message) => message.context("a stream without an end of its call")?,
            Err(status) => return later(&status).map(Err),
        };
        match message.event.and_then(|event| event.event) {
            Some(Event::Completed(completed)) => {
                ensure!(completed.output.contains("done"), "it says {:?}", completed.output);
                return Ok(Ok(()));
            }
            // Its turn did not come in the time that the service lets calls wait.
            Some(Event::Failed(failed)) if failed.reason() == FailureReason::Quota => return Ok(Err(AGAIN)),
            Some(Event::Failed(failed)) => bail!("it failed: {}", failed.error),
            _ => {}
        }
    }
}

/// Reads when to try again out of a refusal.
fn later(status: &Status) -> Result<Duration> {
    ensure!(status.code() == Code::ResourceExhausted, "{status:?}");
    let retry = status
        .get_error_details()
        .retry_info()
        .and_then(|retry| retry.retry_delay);
    retry.context("a refusal that does not say when to try again")
}

/// Counts the calls that run, a page after another.
pub(crate) async fn running(client: &mut Tools) -> Result<usize> {
    let mut list = ListCallsRequest {
        states: vec![CallState::Running.into()],
        page_size: 500,
        ..ListCallsRequest::default()
    };
    let mut count = 0;
    loop {
        let page = client.list_calls(list.clone()).await?.into_inner();
        count += page.calls.len();
        if page.next_page_token.is_empty() {
            return Ok(count);
        }
        list.page_token = page.next_page_token;
    }
}
