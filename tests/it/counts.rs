//! What one small call takes, counted, so that what was saved does not creep back: transactions of the database, system calls that read
//! or write, and allocations.
//!
//! The service that is counted runs in a process of its own, which is this program once more with one test only: its allocator counts,
//! and the kernel counts what it reads and writes. Its clients are in the first process. Transactions are counted in the log of the
//! database, where the last page of each is marked.
//!
//! *Invariant:* nothing is timed, and nothing else runs in the process that is counted.

#![allow(unsafe_code)] // an allocator that counts can be made in no other way

use std::alloc::{GlobalAlloc, Layout, System};
use std::fs;
use std::io::stdin;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tonic::transport::Channel;
use toolgate_config::{Config, Environment, RawConfig};
use toolgate_contract::call;
use toolgate_contract::tool_service_client::ToolServiceClient;
use toolgate_server::app::{App, Claim};

use crate::support::*;

/// The test, as its name is given to the second process.
const TEST: &str = "counts::a_small_call_takes_no_more_than_it_did";

/// Has the second process serve this folder.
const FOLDER: &str = "TOOLGATE_TEST_COUNTED";

/// What begins the lines that the second process answers with.
const ANSWER: &str = "counted:";

/// Calls that are made first, and calls that are counted; few enough for the log of the database not to be begun anew meanwhile.
const FIRST: usize = 15;
const COUNTED: usize = 25;

/// The most that a call may take: a little more than it takes where each of its changes is a transaction of its own, as on a busy machine.
/// Lower them when a call takes less; raise one only for something that is worth it.
struct Limits {
    transactions: f64,
    /// Of those that read or write a file, a pipe or an event, as `/proc/self/io` counts them.
    system_calls: f64,
    allocations: f64,
}

const READ: Limits = Limits {
    transactions: 2.2,
    system_calls: 45.0,
    allocations: 1_200.0,
};

const BASH: Limits = Limits {
    transactions: 4.2,
    system_calls: 125.0,
    // 240 of them remember where folders lead, and save 850 system calls that follow links.
    allocations: 1_850.0,
};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: all is left to the allocator of the system, which keeps the contract.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(block, layout) }
    }
}

/// What a process has taken so far.
#[derive(Clone, Copy, Debug)]
struct Counts {
    /// Which log of the database it is: they are numbered.
    log: u32,
    transactions: u64,
    system_calls: u64,
    allocations: u64,
}

/// Serves a folder until the end of the input, and answers each of its lines with what was counted.
fn serve(folder: &Path) {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let text = |path: PathBuf| path.to_str().unwrap().to_owned();
    let variables = [
        ("HOME".to_owned(), text(folder.join("home"))),
        ("PATH".to_owned(), std::env::var("PATH").unwrap()),
        ("SHELL".to_owned(), "/bin/bash".to_owned()),
    ];
    let environment = Environment::new(variables, folder);
    let settings = RawConfig::default()
        .with_some("data_dir", Some(text(folder.join("data"))))
        .with_some("listen.tcp", Some("127.0.0.1:0"))
        .with_some("listen.unix", Some("none"))
        .with_workspaces(&[("default", text(folder.join("work")))]);
    let config = Config::load(None, settings, &environment).unwrap();
    let running = runtime.block_on(async {
        let claim = Claim::take(&config.data_dir).unwrap();
        let watchdog = env!("CARGO_BIN_EXE_toolgate");
        let mut app = App::build(&config, &environment, Some(watchdog.into())).await.unwrap();
        app.recover(claim).await.unwrap();
        app.start().await.unwrap()
    });
    println!("\n{ANSWER}{}", running.tcp.unwrap());
    let mut line = String::new();
    while stdin().read_line(&mut line).unwrap() > 0 {
        line.clear();
        let allocations = ALLOCATIONS.load(Ordering::Relaxed);
        let io = fs::read_to_string("/proc/self/io").unwrap();
        let field = |name: &str| {
            let line = io.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.trim().parse::<u64>().unwrap()
        };
        println!("{ANSWER}{} {allocations}", field("syscr:") + field("syscw:"));
    }
    runtime.block_on(running.drain());
}

/// The second process.
struct Counted {
    folder: TempDir,
    child: Child,
    input: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
    tools: ToolServiceClient<Channel>,
}

impl Counted {
    async fn start() -> Self {
        let folder = TempDir::new().unwrap();
        for name in ["home", "work", "data"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        for name in ["a.txt", "b.txt"] {
            fs::write(folder.path().join("work").join(name), "a line of text\n".repeat(100)).unwrap();
        }
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", TEST, "--nocapture", "--test-threads", "1"])
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("TMPDIR", folder.path())
            .env(FOLDER, folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let mut answers = BufReader::new(child.stdout.take().unwrap()).lines();
        let address = answer(&mut answers).await;
        let tools = tools(connect_tcp(&address).await.unwrap());
        Self {
            folder,
            child,
            input,
            answers,
            tools,
        }
    }

    async fn counts(&mut self) -> Counts {
        self.input.write_all(b"\n").await.unwrap();
        let answer = answer(&mut self.answers).await;
        let (system_calls, allocations) = answer.split_once(' ').unwrap();
        let (log, transactions) = transactions(&self.folder.path().join("data/toolgate.db-wal"));
        Counts {
            log,
            transactions,
            system_calls: system_calls.parse().unwrap(),
            allocations: allocations.parse().unwrap(),
        }
    }

    async fn call(&mut self, tool: &str, input: Value) {
        let request = in_session("counted", request(tool, input));
        let events = collect(self.tools.execute_tool(request).await.unwrap().into_inner()).await;
        let end = end_of(&events.unwrap());
        assert!(matches!(end, call::Ending::Completed(_)), "{end:?}");
    }

    async fn stop(mut self) {
        drop(self.tools);
        drop(self.input);
        assert!(self.child.wait().await.unwrap().success());
    }
}

async fn answer(answers: &mut Lines<BufReader<ChildStdout>>) -> String {
    loop {
        let line = answers.next_line().await.unwrap().expect("the second process serves");
        if let Some(answer) = line.strip_prefix(ANSWER) {
            return answer.to_owned();
        }
    }
}

/// Returns the number of a log of SQLite, and how many transactions are in it: a frame that says how large the database is then is the
/// last one of a transaction. The format is that of https://www.sqlite.org/fileformat2.html#the_write_ahead_log.
fn transactions(log: &Path) -> (u32, u64) {
    const HEADER: usize = 32;
    const FRAME_HEADER: usize = 24;
    let log = fs::read(log).unwrap();
    let number = |at: usize| u32::from_be_bytes(log[at..at + 4].try_into().unwrap());
    let page = number(8) as usize;
    let frames = (HEADER..).step_by(FRAME_HEADER + page);
    let whole = frames.take_while(|at| at + FRAME_HEADER + page <= log.len());
    // Frames of an earlier log have other numbers behind these.
    let valid = whole.take_while(|at| log[at + 8..at + 16] == log[16..24]);
    (number(12), valid.filter(|at| number(at + 4) > 0).count() as u64)
}

/// Holds what each of some calls has taken against the limits.
async fn check(tool: &str, input: impl Fn(usize) -> Value, limits: &Limits) {
    let mut counted = Counted::start().await;
    for round in 0..FIRST {
        counted.call(tool, input(round)).await;
    }
    let before = counted.counts().await;
    for round in 0..COUNTED {
        counted.call(tool, input(FIRST + round)).await;
    }
    let after = counted.counts().await;
    assert_eq!(before.log, after.log, "the log was begun anew: make fewer calls");
    let each = |of: fn(&Counts) -> u64| (of(&after) - of(&before)) as f64 / COUNTED as f64;
    let taken = [
        ("transactions", each(|all| all.transactions), limits.transactions),
        ("system calls", each(|all| all.system_calls), limits.system_calls),
        ("allocations", each(|all| all.allocations), limits.allocations),
    ];
    println!("{tool}: {taken:?}");
    for (what, taken, limit) in taken {
        assert!(
            taken <= limit,
            "a call of `{tool}` takes {taken:.1} {what}, and {limit:.1} at most are wanted. Find what came to it, and take it off the \
             path of a call; or, if it is worth it, raise the limit in tests/it/counts.rs and say for what."
        );
        assert!(taken > 0.0, "no {what} of `{tool}` are counted");
    }
    counted.stop().await;
}

#[test]
fn a_small_call_takes_no_more_than_it_did() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return serve(Path::new(&folder));
    }
    test(async {
        let names = ["a.txt", "b.txt"];
        check("read", |round| json!({"filePath": names[round % 2]}), &READ).await;
        let command = |round: usize| json!({"command": "true", "description": names[round % 2]});
        check("bash", command, &BASH).await;
    });
}
