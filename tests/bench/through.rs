//! The same load through a gateway: watchers of which many do not read, beside some that need no gateway; and more streams than
//! anybody has open at once.
//!
//! *Invariant:* every watcher sees the whole of its call, whichever way it comes.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use toolgate_contract::{CallState, ExecuteToolRequest, ListCallsRequest, OnDisconnect, OutputMode, WatchCallRequest};

use crate::gateway::Fleet;
use crate::measure::Samples;
use crate::processes::Processors;
use crate::service::{folder, request, tools};
use crate::table::{Row, show_bytes};
use crate::watcher::{Stage, watch};
use crate::{Args, GROUP, MARK, MIB, PATIENCE, Report, come_to_the_end, end, judge, session, stalled, start};

/// Watchers that come without the gateway: the floor.
const DIRECT: usize = 100;

/// Streams on one connection.
const STREAMS: usize = 200;

/// Calls that the streams watch.
const WATCHED: usize = 50;

/// Measures both.
pub(crate) async fn run(program: &Path, args: Args, report: &mut Report) -> Result<()> {
    watchers(program, args, report).await?;
    streams(program, args.streams, report).await
}

async fn watchers(program: &Path, args: Args, report: &mut Report) -> Result<()> {
    let workspace = folder()?;
    let limit = [("TOOLGATE_LIMITS_MAX_RUNNING_CALLS", args.calls.to_string())];
    let fleet = Fleet::start(program, workspace.path(), &limit).await?;
    let (gateway, service) = (&fleet.gateway, fleet.service.serving());
    let idle = gateway.memory()?;
    let (stage, direct) = (Arc::new(Stage::default()), Arc::new(Stage::default()));
    eprintln!("starting {} calls …", args.calls);
    let mut through = start(gateway, args.calls, &stage).await?;
    let mut beside = JoinSet::new();
    let list = ListCallsRequest {
        states: vec![CallState::Running.into()],
        page_size: DIRECT.try_into()?,
        ..ListCallsRequest::default()
    };
    let mut client = tools(service.connect().await?);
    for call in client.list_calls(list).await?.into_inner().calls {
        beside.spawn(watch(client.clone(), call.call_id, false, direct.clone()));
    }
    let (count, floor) = (through.len(), beside.len());
    let all = async {
        stage.all_have_read(count - stalled(args.calls)).await;
        direct.all_have_read(floor).await;
    };
    timeout(PATIENCE, all)
        .await
        .context("some watchers have read nothing")?;

    eprintln!("measuring for {} s …", args.seconds);
    tokio::try_join!(stage.begin(), direct.begin())?;
    let before = Processors::of(gateway.pid()?)?;
    sleep(Duration::from_secs(args.seconds)).await;
    let used = Processors::of(gateway.pid()?)?.own.saturating_sub(before.own);
    let full = gateway.memory()?;
    let delays = tokio::try_join!(stage.delays(), direct.delays())?;
    let delays = (Samples::new(delays.0)?, Samples::new(delays.1)?);

    eprintln!("ending all …");
    stage.go_on.cancel();
    timeout(PATIENCE, stage.all_have_read(count))
        .await
        .context("watchers that had stalled have read nothing")?;
    end(gateway, args.calls).await?;
    let mut seen = come_to_the_end(&mut through, report).await?;
    judge(gateway, report, &seen, args.calls).await?;
    seen.extend(come_to_the_end(&mut beside, report).await?);
    ensure!(seen.len() == count + floor, "{} watchers saw the end", seen.len());
    let what = format!(
        "a command's write to one of {count} watchers, {} stalled: p99",
        stalled(args.calls)
    );
    let row = Row::more(&what, 99, &delays.0, ("direct", &delays.1), Duration::from_millis(50));
    report.rows.push(row);
    let share = 100.0 * used.as_secs_f64() / args.seconds as f64;
    let told = |what: &str, detail: String, figure: String| Row::told(what, detail, figure);
    report.rows.push(told(
        "processor time of the gateway, of one core",
        String::new(),
        format!("{share:.0} %"),
    ));
    let detail = format!(
        "idle {}, at its peak {}",
        show_bytes(idle.resident),
        show_bytes(gateway.memory()?.peak)
    );
    report.rows.push(told(
        "memory of the gateway with them",
        detail,
        show_bytes(full.resident),
    ));
    fleet.stop().await
}

/// Streams of calls that say nothing.
async fn streams(program: &Path, count: usize, report: &mut Report) -> Result<()> {
    let workspace = folder()?;
    let limit = [("TOOLGATE_LIMITS_MAX_STREAMS", (2 * count).to_string())];
    let fleet = Fleet::start(program, workspace.path(), &limit).await?;
    let gateway = &fleet.gateway;
    let idle = gateway.memory()?;
    let mut client = tools(gateway.connect().await?);
    let mut calls = Vec::new();
    for number in 0..WATCHED {
        let input = json!({"command": format!(": {MARK}; sleep 3600"), "description": number.to_string(), "timeout": 3_600_000});
        let call = ExecuteToolRequest {
            on_disconnect: OnDisconnect::Keep.into(),
            ..request(&session(GROUP * number), "bash", input)
        };
        let mut stream = client.execute_tool(call).await?.into_inner();
        let event = stream.message().await?.and_then(|message| message.event);
        calls.push(event.context("a call without an event")?.call_id);
    }
    eprintln!("opening {count} streams …");
    let mut open = Vec::new();
    let mut client = client.clone();
    for number in 0..count {
        if number % STREAMS == 0 {
            client = tools(gateway.connect().await?);
        }
        let request = WatchCallRequest {
            call_id: calls[number % WATCHED].clone(),
            after_sequence: 0,
            output: OutputMode::Full.into(),
        };
        let mut stream = client.watch_call(request).await?.into_inner();
        ensure!(stream.message().await?.is_some(), "a stream has ended");
        open.push(stream);
    }
    let full = gateway.memory()?;
    let detail = format!("idle {}", show_bytes(idle.resident));
    let what = format!("memory of a gateway with {count} open streams");
    report.rows.push(Row::memory(&what, detail, full.resident, 200 * MIB));
    let worker = fleet.service.memory()?;
    report.rows.push(Row::told(
        "memory of its worker",
        String::new(),
        show_bytes(worker.resident),
    ));
    eprintln!("ending all …");
    end(gateway, GROUP * WATCHED).await?;
    for mut stream in open {
        while timeout(PATIENCE, stream.message())
            .await
            .context("a stream never ends")??
            .is_some()
        {}
    }
    fleet.stop().await
}
