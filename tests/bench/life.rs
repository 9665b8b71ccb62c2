//! Beginnings, ends and crowds: starting, cancelling, a thousand calls at once.
//!
//! *Invariant:* ends of processes are seen through descriptors of the processes themselves, never guessed from times.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde_json::json;
use tokio::task::JoinSet;
use tonic::Streaming;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use toolgate_contract::call_event::Event;
use toolgate_contract::session_service_client::SessionServiceClient;
use toolgate_contract::{
    CallCompleted, CancelCallRequest, EndSessionRequest, ExecuteToolRequest, ExecuteToolResponse, WatchCallRequest,
    WatchCallResponse,
};

use crate::Plan;
use crate::measure::Samples;
use crate::service::{Memory, Service, Tools, execute, folder, next, request};
use crate::table::{Row, show_bytes, show_time};

const MIB: u64 = 1 << 20;

/// How long a program may take to go after the polite signal, before it is killed.
const GRACE: Duration = Duration::from_millis(200);

/// A time to sleep that nothing else on the machine sleeps: the mark by which survivors are found.
const MARK: &str = "86399.0471";

/// Calls that are cancelled side by side.
const LANES: usize = 4;

/// From a cancellation to the end of the last descendant, of commands that ignore the polite signal.
pub(crate) async fn cancel(plan: Plan) -> Result<Vec<Row>> {
    let workspace = folder()?;
    let service = Service::start(workspace.path()).await?;
    let each = plan.samples(250, 10);
    let mut lanes = JoinSet::new();
    for lane in 0..LANES {
        let client = service.tools().await?;
        lanes.spawn(cancel_in_a_row(client, lane, each));
    }
    let mut times = Vec::new();
    while let Some(lane) = lanes.join_next().await {
        times.extend(lane??);
    }
    let survivors = count_marked()?;
    service.stop().await?;
    let times = Samples::new(times)?;
    let (figure, limit) = (times.percentile(99), Duration::from_millis(250));
    let detail = format!("of {} processes in {} calls", 4 * each * LANES, each * LANES);
    Ok(vec![
        Row::time(
            "cancel to last descendant gone, beyond the grace",
            &times,
            figure,
            limit,
        ),
        Row::count("survivors", detail, survivors, 0),
    ])
}

async fn cancel_in_a_row(mut client: Tools, lane: usize, rounds: usize) -> Result<Vec<Duration>> {
    let mut times = Vec::with_capacity(rounds);
    for round in 0..rounds {
        times.push(cancel_one(&mut client, format!("{lane}.{round}")).await?);
    }
    Ok(times)
}

/// Starts a command with a child, a grandchild and a descendant in a session of its own, all deaf to SIGTERM, cancels the
/// call, and returns how long after it the last of them had ended, beyond the grace.
async fn cancel_one(client: &mut Tools, id: String) -> Result<Duration> {
    let command = format!(
        "trap '' TERM; sleep {MARK} & echo $!; (sleep {MARK} & echo $!); \
         setsid sh -c 'echo $$; exec sleep {MARK}' & echo $$; wait"
    );
    let input = json!({"command": command, "description": id});
    let mut stream = client.execute_tool(request("bench", "bash", input)).await?.into_inner();
    let (call, pids) = printed_pids(&mut stream, 4).await?;
    let processes = pids.iter().map(|&pid| open_process(pid)).collect::<Result<Vec<_>>>()?;
    let begin = Instant::now();
    let ends = tokio::task::spawn_blocking(move || wait_for_ends(&processes, begin));
    client.cancel_call(CancelCallRequest { call_id: call }).await?;
    let last = ends.await??;
    while next(&mut stream).await?.is_some() {}
    Ok(last.saturating_sub(GRACE))
}

/// Reads a call's output until it has printed so many process ids; returns the call's id too.
async fn printed_pids(stream: &mut Streaming<ExecuteToolResponse>, count: usize) -> Result<(String, Vec<i32>)> {
    let mut printed = Vec::new();
    loop {
        let message = stream.message().await?.context("the command ended by itself")?;
        let event = message.event.context("a message without an event")?;
        if let Some(Event::Output(output)) = event.event {
            printed.extend_from_slice(&output.data);
        }
        let text = std::str::from_utf8(&printed)?;
        let pids = text.lines().map(str::parse).collect::<Result<Vec<i32>, _>>()?;
        if pids.len() == count && text.ends_with('\n') {
            return Ok((event.call_id, pids));
        }
    }
}

fn open_process(pid: i32) -> Result<OwnedFd> {
    let pid = Pid::from_raw(pid).context("a process id")?;
    pidfd_open(pid, PidfdFlags::empty()).context("a process that had ended before")
}

fn wait_for_ends(processes: &[OwnedFd], begin: Instant) -> Result<Duration> {
    let patience = Timespec { tv_sec: 10, tv_nsec: 0 };
    for process in processes {
        let ready = poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&patience))?;
        ensure!(ready == 1, "a process lives on 10 seconds after its call was cancelled");
    }
    Ok(begin.elapsed())
}

/// Counts the processes of the machine that carry the mark.
fn count_marked() -> Result<usize> {
    let is_marked = |path: &Path| {
        std::fs::read(path.join("cmdline"))
            .is_ok_and(|line| line.windows(MARK.len()).any(|part| part == MARK.as_bytes()))
    };
    let processes = std::fs::read_dir("/proc").context("listing processes")?;
    Ok(processes
        .filter_map(Result::ok)
        .filter(|process| is_marked(&process.path()))
        .count())
}

/// Start to SERVING, and the memory of a service that has nothing to do.
pub(crate) async fn start(plan: Plan) -> Result<Vec<Row>> {
    let workspace = folder()?;
    let mut times = Vec::new();
    let mut idle: Option<Memory> = None;
    for _ in 0..plan.samples(20, 3) {
        let begin = Instant::now();
        let service = Service::start(workspace.path()).await?;
        let mut health = HealthClient::new(service.connect().await?);
        let request = HealthCheckRequest { service: String::new() };
        let status = health.check(request).await?.into_inner().status();
        times.push(begin.elapsed());
        ensure!(status == ServingStatus::Serving, "the service is {status:?}");
        idle = Some(service.memory()?);
        service.stop().await?;
    }
    let times = Samples::new(times)?;
    let idle = idle.context("no start")?.resident;
    let (calls, after) = after_calls(workspace.path(), plan).await?;
    let detail = format!("{calls} calls; {} at its peak", show_bytes(after.peak));
    Ok(vec![
        Row::time("start to SERVING", &times, times.median(), Duration::from_millis(50)),
        Row::memory("idle memory, after the start", String::new(), idle, 25 * MIB),
        Row::memory("idle memory, after 50,000 calls", detail, after.resident, 40 * MIB),
    ])
}

/// Returns how many calls of every kind a service has served, and its memory when it is idle again.
async fn after_calls(workspace: &Path, plan: Plan) -> Result<(usize, Memory)> {
    const CLIENTS: usize = 16;
    std::fs::write(workspace.join("a.txt"), "text\n")?;
    let service = Service::start(workspace).await?;
    let each = plan.samples(50_000, 1_600) / CLIENTS;
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        clients.spawn(calls_of_every_kind(service.tools().await?, client, each));
    }
    while let Some(client) = clients.join_next().await {
        client??;
    }
    let memory = service.memory()?;
    service.stop().await?;
    Ok((each * CLIENTS, memory))
}

async fn calls_of_every_kind(mut client: Tools, number: usize, calls: usize) -> Result<()> {
    let session = format!("bench-{number}");
    for round in 0..calls {
        let (tool, input) = match round % 10 {
            1 => ("bash", json!({"command": "true", "description": "nothing"})),
            3 => ("grep", json!({"pattern": "text"})),
            5 => ("glob", json!({"pattern": "*"})),
            other => ("read", json!({"filePath": "a.txt", "offset": 1, "limit": other + 1})),
        };
        let _: (Duration, CallCompleted, u64) = execute(&mut client, request(&session, tool, input)).await?;
    }
    Ok(())
}

/// The memory of a service in which 1,000 calls run, each with its own stream and two watchers more.
pub(crate) async fn crowd(plan: Plan) -> Result<Vec<Row>> {
    const CALLS_ON_A_CONNECTION: usize = 50;
    let calls = plan.samples(1000, 100);
    let workspace = folder()?;
    let service = Service::start(workspace.path()).await?;
    let begin = Instant::now();
    let mut crowd = JoinSet::new();
    for first in (0..calls).step_by(CALLS_ON_A_CONNECTION) {
        let client = service.tools().await?;
        crowd.spawn(run_and_watch(client, first..calls.min(first + CALLS_ON_A_CONNECTION)));
    }
    let (mut streams, mut watchers) = (Vec::new(), Vec::new());
    while let Some(group) = crowd.join_next().await {
        let (own, others) = group??;
        streams.extend(own);
        watchers.extend(others);
    }
    let started = begin.elapsed();
    let memory = service.memory()?;
    let begin = Instant::now();
    let mut sessions = SessionServiceClient::new(service.connect().await?);
    let ended = sessions
        .end_session(EndSessionRequest {
            session_id: "bench".to_owned(),
            ..Default::default()
        })
        .await?
        .into_inner();
    let detail = format!(
        "{} streams, {} watchers; started in {}, cancelled in {}",
        streams.len(),
        watchers.len(),
        show_time(started),
        show_time(begin.elapsed())
    );
    ensure!(
        usize::try_from(ended.cancelled_calls) == Ok(calls),
        "of {calls} calls {} still ran",
        ended.cancelled_calls
    );
    service.stop().await?;
    let what = "memory with 1,000 running calls and 2,000 watchers";
    Ok(vec![Row::memory(what, detail, memory.resident, 200 * MIB)])
}

type Watched = (Vec<Streaming<ExecuteToolResponse>>, Vec<Streaming<WatchCallResponse>>);

async fn run_and_watch(mut client: Tools, numbers: std::ops::Range<usize>) -> Result<Watched> {
    let (mut streams, mut watchers) = (Vec::new(), Vec::new());
    for number in numbers {
        let input = json!({"command": "sleep 600", "description": number.to_string()});
        let request: ExecuteToolRequest = request("bench", "bash", input);
        let mut stream = client.execute_tool(request).await?.into_inner();
        let call_id = loop {
            let message = stream.message().await?.context("a call ended too early")?;
            let event = message.event.context("a message without an event")?;
            // The first metadata come when the program runs.
            if matches!(event.event, Some(Event::Metadata(_))) {
                break event.call_id;
            }
        };
        for _ in 0..2 {
            let watch = WatchCallRequest {
                call_id: call_id.clone(),
                ..WatchCallRequest::default()
            };
            let mut watcher = client.watch_call(watch).await?.into_inner();
            watcher.message().await?.context("a watcher saw nothing")?;
            watchers.push(watcher);
        }
        streams.push(stream);
    }
    Ok((streams, watchers))
}
