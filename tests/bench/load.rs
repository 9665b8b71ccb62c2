//! The service under load: many running calls, many watchers of which some do not read, more calls than are allowed, and
//! the end of all of it.
//!
//! Then old calls are deleted while new ones come. At last, calls without a pause, for five minutes and until there were 500,000.
//!
//! `cargo bench --bench load` takes about twenty minutes and 20 GiB of disk, and prints one table; `-- --gateway` puts the
//! calls and watchers, and 10,000 streams, on a gateway instead; `-- --fleet` measures a gateway with a database and 10,000 workers, and
//! two gateways with 10,000 watchers (`--workers 0` and `--streams 0` leave one of them out).
//!
//! `-- --calls 100 --seconds 5 --unbroken-seconds 20 --unbroken-calls 0` takes less; `-- --only running`, `retained` or `unbroken`
//! measures a part. The variable `TOOLGATE_LOAD_SERVICE` names another program to measure. Figures are reported, not judged; the
//! exit code is 1 if something was lost: an event, a byte of output, a call, or the end of a program; or if the log, the memory or the
//! open files of the service grew with the calls, or old calls went more slowly than new ones came.
//!
//! *Invariant:* the service is a process of its own, reached over loopback TCP; every command is a real one and writes
//! the time at which it does.

#![allow(clippy::disallowed_methods)] // a benchmark makes the files and programs that it measures

mod cost;
mod gateway;
mod many;
mod measure;
mod overload;
mod part;
mod processes;
mod retained;
#[allow(dead_code, clippy::unwrap_used)] // the tests of the store use all of it
#[path = "../../crates/postgres/tests/store/s3.rs"]
mod s3;
mod scale;
#[allow(dead_code, clippy::unwrap_used)] // the tests of the store use all of it
#[path = "../../crates/postgres/tests/store/server.rs"]
mod server;
mod service;
#[allow(clippy::unwrap_used)] // the tests of a fleet use it too
#[path = "../it/fleet/simulated.rs"]
mod simulated;
#[allow(dead_code, unused_imports, unused_macros, clippy::unwrap_used)] // the tests of the stores use all of it
#[path = "../it/store/suite.rs"]
mod suite;
mod table;
mod through;
mod unbroken;
mod watcher;
mod watchers;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use toolgate_contract::session_service_client::SessionServiceClient;
use toolgate_contract::{EndSessionRequest, ExecuteToolRequest, OnDisconnect};

use crate::measure::Samples;
use crate::processes::{Processors, marked};
use crate::service::{Memory, Service, Serving, Tools, folder, request, tools};
use crate::table::{Row, render, show_bytes, show_time};
use crate::watcher::{Seen, Stage, watch};

/// What the command lines of the load have in them.
const MARK: &str = "toolgate-load";

/// Calls of one session, which share a connection with those of their watchers that read.
const GROUP: usize = 50;

/// Of so many watchers one does not read.
const STALLED: usize = 5;

/// What a stream takes that nobody reads.
const NARROW: u32 = 512;

/// The longest that anything may take to begin, or to end.
const PATIENCE: Duration = Duration::from_secs(120);

const MIB: u64 = 1 << 20;

/// How much load.
#[derive(Clone, Copy, Debug, Parser)]
struct Args {
    /// Calls that run; each has two watchers.
    #[arg(long, default_value_t = 1000)]
    calls: usize,
    /// How long is measured.
    #[arg(long, default_value_t = 30)]
    seconds: u64,
    /// How long calls of every kind are made without a pause.
    #[arg(long, default_value_t = 300)]
    unbroken_seconds: u64,
    /// How many calls without a pause there are at least.
    #[arg(long, default_value_t = 500_000)]
    unbroken_calls: u64,
    /// Measure this part only.
    #[arg(long)]
    only: Option<Only>,
    /// Measure what goes through a gateway instead.
    #[arg(long)]
    gateway: bool,
    /// Measure a fleet of many workers instead.
    #[arg(long)]
    fleet: bool,
    /// How many workers it has.
    #[arg(long, default_value_t = 10_000)]
    workers: usize,
    /// Streams that are open at the gateway at once; of a fleet, those who watch its calls.
    #[arg(long, default_value_t = 10_000)]
    streams: usize,
    /// Given by cargo.
    #[arg(long, hide = true)]
    bench: bool,
}

/// A part of the load on one service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Only {
    Running,
    Retained,
    Unbroken,
}

/// What was measured, and what was lost.
#[derive(Default)]
pub(crate) struct Report {
    rows: Vec<Row>,
    faults: Vec<String>,
}

impl Report {
    /// Shows what there is so far: what takes long may be stopped.
    fn show(&self) {
        eprintln!("{}", render(&self.rows));
    }

    /// Takes note of a part that could not be measured.
    fn note(&mut self, what: &str, outcome: Result<()>) {
        if let Err(error) = outcome {
            self.faults.push(format!("{what}: {error:#}"));
        }
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let mut report = Report::default();
    let args = Args::parse();
    let outcome = if args.fleet {
        scale::run(args, &mut report).await
    } else if args.gateway {
        through::run(&program(), args, &mut report).await
    } else {
        run(args, &mut report).await
    };
    if let Err(error) = outcome {
        report.faults.push(format!("{error:#}"));
    }
    println!("{}", render(&report.rows));
    for fault in report.faults.iter().take(20) {
        println!("FAULT  {fault}");
    }
    if report.faults.len() > 20 {
        println!("FAULT  and {} more", report.faults.len() - 20);
    }
    ExitCode::from(u8::from(!report.faults.is_empty()))
}

/// Returns the program that is measured.
fn program() -> PathBuf {
    std::env::var_os("TOOLGATE_LOAD_SERVICE")
        .map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_toolgate")), PathBuf::from)
}

async fn run(args: Args, report: &mut Report) -> Result<()> {
    let program = program();
    let wants = |part| args.only.is_none_or(|only| only == part);
    if wants(Only::Running) {
        running(&program, args, report).await?;
        report.show();
    }
    if wants(Only::Retained) {
        eprintln!("old calls go while new ones come …");
        let outcome = retained::run(&program, report).await;
        report.note("retention", outcome);
        report.show();
    }
    if wants(Only::Unbroken) {
        eprintln!("calls without a pause …");
        let time = Duration::from_secs(args.unbroken_seconds);
        unbroken::run(&program, time, args.unbroken_calls, report).await?;
    }
    Ok(())
}

async fn running(program: &Path, args: Args, report: &mut Report) -> Result<()> {
    let workspace = folder()?;
    let limit = [("TOOLGATE_LIMITS_MAX_RUNNING_CALLS", args.calls.to_string())];
    let service = Service::of(program, workspace.path(), &json!({}), &limit).await?;
    let idle = service.memory()?;
    let stage = Arc::new(Stage::default());

    eprintln!("starting {} calls …", args.calls);
    let begin = Instant::now();
    let mut watchers = start(service.serving(), args.calls, &stage).await?;
    let count = watchers.len();
    timeout(PATIENCE, stage.all_have_read(count - stalled(args.calls)))
        .await
        .context("some watchers have read nothing")?;
    let started = begin.elapsed();
    eprintln!("measuring for {} s …", args.seconds);
    let full = measured(&service, &stage, args, report).await?;

    eprintln!("more calls than are allowed …");
    overload::run(&service, args.calls, report).await?;

    eprintln!("ending all …");
    stage.go_on.cancel();
    timeout(PATIENCE, stage.all_have_read(count))
        .await
        .context("watchers that had stalled have read nothing")?;
    let begin = Instant::now();
    end(service.serving(), args.calls).await?;
    let seen = come_to_the_end(&mut watchers, report).await?;
    let ended = begin.elapsed();
    judge(service.serving(), report, &seen, args.calls).await?;
    let after = service.memory()?;
    let anonymous = |memory: Memory| format!("{} anonymous", show_bytes(memory.anonymous));
    let told = |what: &str, memory: Memory| Row::told(what, anonymous(memory), show_bytes(memory.resident));
    let what = format!("memory with {} running calls and {count} watchers", args.calls);
    report
        .rows
        .insert(0, Row::memory(&what, anonymous(full), full.resident, 200 * MIB));
    report.rows.insert(1, told("memory before", idle));
    report.rows.insert(2, told("memory after the end of all", after));
    report.rows.insert(
        3,
        Row::told("memory at its peak", String::new(), show_bytes(after.peak)),
    );
    let detail = format!("started in {}, ended in {}", show_time(started), show_time(ended));
    let events: usize = seen.iter().map(|seen| seen.events).sum();
    report
        .rows
        .push(Row::told("events told of, in all", detail, events.to_string()));
    service.stop().await
}

fn stalled(calls: usize) -> usize {
    2 * calls / STALLED
}

type Watchers = JoinSet<Result<Seen>>;

/// Starts the calls and two watchers for each.
async fn start(serving: &Serving, calls: usize, stage: &Arc<Stage>) -> Result<Watchers> {
    ensure!(
        calls > 0 && calls.is_multiple_of(GROUP),
        "calls come in groups of {GROUP}"
    );
    let mut groups = JoinSet::new();
    for first in (0..calls).step_by(GROUP) {
        let client = tools(serving.connect().await?);
        let narrow = tools(serving.connect_narrow(NARROW).await?);
        groups.spawn(start_group(client, narrow, first, stage.clone()));
    }
    let mut all = JoinSet::new();
    while let Some(group) = groups.join_next().await {
        for watcher in group?? {
            all.spawn(watcher);
        }
    }
    Ok(all)
}

async fn start_group(
    mut client: Tools,
    narrow: Tools,
    first: usize,
    stage: Arc<Stage>,
) -> Result<Vec<impl Future<Output = Result<Seen>> + Send + 'static>> {
    let mut watchers = Vec::new();
    for number in first..first + GROUP {
        let mut stream = client.execute_tool(command(number)).await?.into_inner();
        let event = stream.message().await?.and_then(|message| message.event);
        let id = event.context("a call without an event")?.call_id;
        for watcher in [2 * number, 2 * number + 1] {
            let stalls = watcher % STALLED == 0;
            let client = if stalls { narrow.clone() } else { client.clone() };
            watchers.push(watch(client, id.clone(), stalls, stage.clone()));
        }
    }
    Ok(watchers)
}

/// A command that writes a line now and then, with its number and the time in microseconds.
fn command(number: usize) -> ExecuteToolRequest {
    // Waits by a builtin: a program for each wait would measure how fast the machine starts programs.
    let period = 1000 + number % 1000;
    let line = format!(
        ": {MARK}; printf -v pad %100s; exec {{w}}<> <(:); n=0; read -t 0.{:03} -u $w; while :; do \
         echo \"$n ${{EPOCHREALTIME/./}} $pad\"; n=$((n+1)); read -t {}.{:03} -u $w; done",
        number % 997,
        period / 1000,
        period % 1000,
    );
    let input = json!({ "command": line, "description": number.to_string(), "timeout": 3_600_000 });
    ExecuteToolRequest {
        on_disconnect: OnDisconnect::Keep.into(),
        ..request(&session(number), "bash", input)
    }
}

fn session(number: usize) -> String {
    format!("load-{}", number / GROUP)
}

/// Measures for a while; returns the memory at the end of it.
async fn measured(service: &Service, stage: &Stage, args: Args, report: &mut Report) -> Result<Memory> {
    let (pid, own) = (service.pid()?, std::process::id());
    stage.begin().await?;
    let begin = Instant::now();
    let before = (Processors::of(pid)?, Processors::of(own)?);
    sleep(Duration::from_secs(args.seconds)).await;
    let took = begin.elapsed();
    let after = (Processors::of(pid)?, Processors::of(own)?);
    let memory = service.memory()?;
    let delays = Samples::new(stage.delays().await?)?;
    let share = |time: Duration| format!("{:.0} %", 100.0 * time.as_secs_f64() / took.as_secs_f64());
    let of_service = after.0.own.saturating_sub(before.0.own);
    let detail = format!(
        "its commands {}, the clients {}",
        share(after.0.below.saturating_sub(before.0.below)),
        share(after.1.own.saturating_sub(before.1.own)),
    );
    report.rows.push(Row::told(
        "processor time of the service, of one core",
        detail,
        share(of_service),
    ));
    let most = show_time(delays.percentile(100));
    let detail = format!("{delays}, of {} lines", delays.len());
    report
        .rows
        .push(Row::told("from a command's write to a watcher; at most", detail, most));
    Ok(memory)
}

/// Waits until every watcher has seen the end of its call.
async fn come_to_the_end(watchers: &mut Watchers, report: &mut Report) -> Result<Vec<Seen>> {
    let mut seen = Vec::new();
    while let Some(watcher) = timeout(PATIENCE, watchers.join_next())
        .await
        .context("a watcher never ends")?
    {
        match watcher? {
            Ok(watched) => seen.push(watched),
            Err(error) => report.faults.push(format!("a watcher: {error:#}")),
        }
    }
    Ok(seen)
}

/// Ends every session of the load.
async fn end(serving: &Serving, calls: usize) -> Result<()> {
    let mut sessions = SessionServiceClient::new(serving.connect().await?);
    for first in (0..calls).step_by(GROUP) {
        let session_id = session(first);
        sessions
            .end_session(EndSessionRequest {
                session_id,
                ..Default::default()
            })
            .await?;
    }
    Ok(())
}

/// Nothing is left, and every watcher has seen the whole of its call.
async fn judge(serving: &Serving, report: &mut Report, seen: &[Seen], calls: usize) -> Result<()> {
    let survivors = marked(MARK)?;
    if survivors > 0 {
        report.faults.push(format!("{survivors} processes are left"));
    }
    let running = overload::running(&mut tools(serving.connect().await?)).await?;
    if running > 0 {
        report.faults.push(format!("{running} calls have not ended"));
    }
    if seen.len() != 2 * calls {
        report
            .faults
            .push(format!("{} of {} watchers came to the end", seen.len(), 2 * calls));
    }
    let silent = seen.iter().filter(|seen| seen.lines == 0).count();
    if silent > 0 {
        report.faults.push(format!("{silent} watchers have seen no line"));
    }
    let detail = format!("of {} watchers, {} of them stalled", 2 * calls, stalled(calls));
    report.rows.push(Row::count(
        "watchers that missed something",
        detail,
        2 * calls - seen.len(),
        0,
    ));
    let detail = format!("of {calls} commands");
    report.rows.push(Row::count("processes left", detail, survivors, 0));
    Ok(())
}
