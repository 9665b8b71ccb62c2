//! What Toolgate costs, as ratios: every figure is taken beside a named floor or peer, in the same run, in turns.
//!
//! `cargo bench --bench ratios` measures everything and prints one table; `-- --quick` takes few samples, and
//! `-- read grep` measures only what has such a word in its name. Figures are reported, not judged: the exit code is 0
//! whatever they are, and 1 if something could not be measured. `rg` is taken from the path or else installed under
//! `target/tools`.
//!
//! *Invariant:* the service runs as the program `toolgate serve`, in a process of its own and reached over loopback TCP.
//! Nothing is left behind: no process, no file but `rg`.

#![allow(clippy::disallowed_methods)] // a benchmark makes the files and programs that it measures

mod bare;
mod bulk;
mod calls;
mod edits;
mod gateway;
mod language;
mod life;
mod measure;
mod part;
mod search;
mod service;
mod stored;
mod table;
mod tree;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Parser;

use table::Row;

/// What to measure.
#[derive(Debug, Parser)]
struct Args {
    /// Take few samples: for a look, not for a report.
    #[arg(long)]
    quick: bool,
    /// Measure only what has one of these words in its name.
    words: Vec<String>,
    /// Given by cargo.
    #[arg(long, hide = true)]
    bench: bool,
    /// Serve the messages of this file instead: the bare peer.
    #[arg(long, hide = true, value_name = "FILE")]
    bare_stream: Option<PathBuf>,
    /// Be a language server that takes so many milliseconds.
    #[arg(long, hide = true, value_name = "MILLISECONDS", requires = "seen")]
    language_server: Option<u64>,
    /// What comes into being when the language server is told of a file.
    #[arg(long, hide = true, value_name = "FILE")]
    seen: Option<PathBuf>,
}

/// Returns the program that is measured.
fn program() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_toolgate"))
}

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    quick: bool,
}

impl Plan {
    /// Returns one of two numbers of samples.
    pub(crate) fn samples(self, full: usize, quick: usize) -> usize {
        if self.quick { quick } else { full }
    }
}

/// The measurements, in the order of the table.
const NAMES: [&str; 15] = [
    "read",
    "bash",
    "gateway",
    "fleet",
    "durability",
    "latency",
    "search",
    "edits",
    "language",
    "output",
    "tail",
    "cancel",
    "prompt",
    "start",
    "crowd",
];

async fn measure(name: &str, plan: Plan) -> Result<Vec<Row>> {
    match name {
        "read" => calls::read(plan).await,
        "bash" => calls::bash(plan).await,
        "gateway" => calls::through_gateway(plan).await,
        "fleet" => stored::fleet(plan).await,
        "durability" => calls::durability(plan).await,
        "latency" => calls::latency(plan).await,
        "search" => search::search(plan).await,
        "edits" => edits::edits(plan).await,
        "language" => language::language(plan).await,
        "output" => bulk::output(plan).await,
        "tail" => bulk::tail(plan).await,
        "cancel" => life::cancel(plan).await,
        "prompt" => calls::prompt(plan).await,
        "start" => life::start(plan).await,
        "crowd" => life::crowd(plan).await,
        other => anyhow::bail!("there is no measurement {other:?}"),
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    if let Some(messages) = &args.bare_stream {
        return match bare::serve(messages).await {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("the bare peer: {error:#}");
                ExitCode::FAILURE
            }
        };
    }
    if let (Some(delay), Some(seen)) = (args.language_server, &args.seen) {
        // It ends with the service that it serves.
        return ExitCode::from(u8::from(language::serve(delay, seen).is_err()));
    }
    let plan = Plan { quick: args.quick };
    let is_wanted = |name: &&str| args.words.is_empty() || args.words.iter().any(|word| name.contains(word.as_str()));
    let mut rows = Vec::new();
    let mut failures = Vec::new();
    for name in NAMES.iter().filter(|name| is_wanted(name)) {
        eprintln!("measuring {name} …");
        match measure(name, plan).await.with_context(|| format!("measuring {name}")) {
            Ok(measured) => rows.extend(measured),
            Err(error) => failures.push(error),
        }
    }
    println!("{}", table::render(&rows));
    for error in &failures {
        println!("NOT MEASURED  {error:#}");
    }
    if rows.is_empty() && failures.is_empty() {
        println!("Nothing has such a name; there are: {}", NAMES.join(" "));
        return ExitCode::FAILURE;
    }
    ExitCode::from(u8::from(!failures.is_empty()))
}
