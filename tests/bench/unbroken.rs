//! Calls without a pause, for minutes: the write-ahead log of the database stays short, whoever reads, and neither memory nor open files
//! grow with the number of calls.
//!
//! *Invariant:* inputs differ from call to call, so that nobody is asked about a loop. A reader of another program holds
//! on to what it sees for a moment, again and again, as a backup does.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use rusqlite::Connection;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use toolgate_contract::call_event::Event;
use toolgate_contract::{ExecuteToolRequest, ListCallsRequest};

use crate::Report;
use crate::cost::bytes_in;
use crate::processes::open_files;
use crate::service::{Service, Tools, folder, request};
use crate::table::{Row, show_bytes, show_size};

const CLIENTS: usize = 64;
const READERS: usize = 4;

/// What the log may take at any time.
const MOST: u64 = 64 << 20;

/// How much more memory, and how many more files, the last of the calls may have than the first.
const MEMORY: u64 = 16 << 20;
const FILES: usize = 16;

/// How often the files are looked at, and how long another program reads.
const LOOK: Duration = Duration::from_millis(20);
const HELD: Duration = Duration::from_millis(300);

/// What is being done, and how far it is.
struct Load {
    begin: Instant,
    time: Duration,
    at_least: u64,
    calls: AtomicU64,
    stop: CancellationToken,
}

impl Load {
    /// Counts one more call; false when the time is over and there were enough.
    fn goes_on(&self) -> bool {
        let calls = self.calls.load(Ordering::Relaxed);
        !self.stop.is_cancelled() && (self.begin.elapsed() < self.time || calls < self.at_least)
    }
}

/// For `time` calls of every kind, and then small ones until there were `at_least`.
pub(crate) async fn run(program: &Path, time: Duration, at_least: u64, report: &mut Report) -> Result<()> {
    let workspace = folder()?;
    let line = format!("{}\n", "x".repeat(53));
    fs::write(workspace.path().join("large"), line.repeat(1_000))?;
    fs::write(workspace.path().join("small"), line.repeat(4))?;
    let limits = [("TOOLGATE_LIMITS_MAX_TOTAL_OUTPUT_BYTES", "1TiB".to_owned())];
    let service = Service::of(program, workspace.path(), &json!({}), &limits).await?;
    let database = service.data_dir().join("toolgate.db");
    let load = Arc::new(Load {
        begin: Instant::now(),
        time,
        at_least,
        calls: AtomicU64::new(0),
        stop: CancellationToken::new(),
    });
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        clients.spawn(call(service.tools().await?, client, load.clone()));
    }
    let mut readers = JoinSet::new();
    for _ in 0..READERS {
        readers.spawn(list(service.tools().await?, load.stop.clone()));
    }
    readers.spawn(hold(database.clone(), load.stop.clone()));
    let log = with_suffix(&database, "-wal");
    let mut longest = 0;
    let mut taken = Taken::default();
    let failed = loop {
        longest = longest.max(fs::metadata(&log).map_or(0, |log| log.len()));
        taken.look(&service)?;
        tokio::select! {
            ended = clients.join_next() => match ended {
                None => break None,
                Some(ended) => if let Err(error) = ended? { break Some(error) },
            },
            () = sleep(LOOK) => {}
        }
    };
    load.stop.cancel();
    while let Some(ended) = readers.join_next().await {
        ended??;
    }
    let calls = load.calls.load(Ordering::Relaxed);
    let took = load.begin.elapsed();
    let database = fs::metadata(&database)?.len();
    let detail = format!("{calls} calls in {took:.0?}; the database has {}", show_bytes(database));
    report.rows.push(Row::memory(
        "the log of the database at its longest",
        detail,
        longest,
        MOST,
    ));
    if longest > MOST {
        report.faults.push(format!("the log took {longest} bytes"));
    }
    if let Some(error) = failed {
        report.faults.push(format!("a call without a pause: {error:#}"));
    }
    let memory = service.memory()?;
    let detail = format!("{} at its peak", show_bytes(memory.peak));
    report.rows.push(Row::told(
        "memory after these calls",
        detail,
        show_bytes(memory.resident),
    ));
    taken.judge(report);
    let bytes = bytes_in(&service.data_dir())?;
    let detail = format!("{} for all", show_bytes(bytes));
    let each = show_size(bytes / calls.max(1));
    report
        .rows
        .push(Row::told("disk for each of these calls", detail, each));
    service.stop().await
}

/// What the service took at moments of the load, in order.
#[derive(Default)]
struct Taken {
    looks: usize,
    memory: Vec<u64>,
    files: Vec<u64>,
}

impl Taken {
    fn look(&mut self, service: &Service) -> Result<()> {
        // Less often than the log, which is as long as it likes for a moment only.
        self.looks += 1;
        if self.looks.is_multiple_of(10) {
            self.memory.push(service.memory()?.resident);
            self.files.push(open_files(service.pid()?)? as u64);
        }
        Ok(())
    }

    /// What was taken at the beginning, when all that comes once had come, and at the end.
    fn ends(mut taken: Vec<u64>) -> Option<(u64, u64)> {
        let part = taken.len() / 5;
        let median = |part: &mut [u64]| {
            part.sort_unstable();
            part.get(part.len() / 2).copied()
        };
        let last = median(&mut taken[4 * part..]);
        Some((median(&mut taken[part..2 * part])?, last?))
    }

    fn judge(self, report: &mut Report) {
        if let Some((early, late)) = Self::ends(self.memory) {
            let what = "memory that came with these calls";
            let detail = format!("{} early, {} late", show_bytes(early), show_bytes(late));
            report
                .rows
                .push(Row::memory(what, detail.clone(), late.saturating_sub(early), MEMORY));
            if late > early + MEMORY {
                report.faults.push(format!("memory grows: {detail}"));
            }
        }
        if let Some((early, late)) = Self::ends(self.files) {
            let what = "open files that came with these calls";
            let detail = format!("{early} early, {late} late");
            let more = usize::try_from(late.saturating_sub(early)).unwrap_or(usize::MAX);
            report.rows.push(Row::count(what, detail.clone(), more, FILES));
            if more > FILES {
                report.faults.push(format!("open files grow: {detail}"));
            }
        }
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}

/// One client without a pause.
async fn call(mut tools: Tools, client: usize, load: Arc<Load>) -> Result<()> {
    let mut number = 0;
    while load.goes_on() {
        let mixed = load.begin.elapsed() < load.time;
        let mut stream = tools.execute_tool(input(client, number, mixed)).await?.into_inner();
        let mut last = None;
        while let Some(message) = stream.message().await? {
            last = message.event.and_then(|event| event.event);
        }
        let last = last.context("a call without an end")?;
        ensure!(matches!(last, Event::Completed(_)), "a call ended with {last:?}");
        load.calls.fetch_add(1, Ordering::Relaxed);
        number += 1;
    }
    Ok(())
}

/// Of eleven calls seven read a file of 54 KB, two run a command, one writes and one searches; or each reads little.
fn input(client: usize, number: u64, mixed: bool) -> ExecuteToolRequest {
    let session = format!("unbroken-{client}");
    let of = |tool: &str, input: Value| request(&session, tool, input);
    if !mixed {
        return of("read", json!({"filePath": "small", "offset": number % 3}));
    }
    match number % 11 {
        1 | 6 => of(
            "bash",
            json!({"command": format!("echo {number}"), "description": "Says a number"}),
        ),
        3 => of(
            "write",
            json!({"filePath": format!("new-{client}-{number}"), "content": number.to_string()}),
        ),
        8 => of("grep", json!({"pattern": format!("xx{number}"), "path": "."})),
        _ => of("read", json!({"filePath": "large", "offset": number % 7})),
    }
}

/// Lists calls, one page after another.
async fn list(mut tools: Tools, stop: CancellationToken) -> Result<()> {
    while !stop.is_cancelled() {
        let list = ListCallsRequest {
            page_size: 20,
            ..ListCallsRequest::default()
        };
        tools.list_calls(list).await?;
    }
    Ok(())
}

/// Reads as another program does.
async fn hold(database: PathBuf, stop: CancellationToken) -> Result<()> {
    let db = Connection::open(database)?;
    while !stop.is_cancelled() {
        db.execute_batch("BEGIN; SELECT count(*) FROM facts;")?;
        sleep(HELD).await;
        db.execute_batch("COMMIT")?;
        sleep(HELD).await;
    }
    Ok(())
}
