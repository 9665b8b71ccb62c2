//! What Toolgate costs, as ratios: every figure is taken beside a named floor or peer, in the same run, in turns.
//!
//! `cargo bench --bench ratios` measures everything and prints one table; `-- --quick` takes few samples, and
//! `-- read grep` measures only what has such a word in its name (`rows.rs` has the names). `-- --stored 10000000 stored` looks at so
//! many stored calls, which take about 1.5 KiB each. Figures are reported, not judged: the exit code is 0
//! whatever they are, and 1 if something could not be measured. `rg` is taken from the path or else installed under
//! `target/tools`.
//!
//! With `TOOLGATE_UPDATE_DOCS=1`, and no words, `docs/reference/performance.md` is written from what was measured.
//!
//! *Invariant:* the service runs as the program `toolgate serve`, in a process of its own and reached over loopback TCP.
//! Nothing is left behind: no process, no file but `rg`.

#![allow(clippy::disallowed_methods)] // a benchmark makes the files and programs that it measures

mod bare;
mod bulk;
mod calls;
mod cost;
mod crowd;
mod edits;
mod gateway;
mod language;
mod life;
mod measure;
mod millions;
mod page;
mod part;
mod peers;
mod processes;
mod rows;
mod search;
mod service;
mod stored;
mod table;
mod tree;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use tokio::time::timeout;

use rows::{MEASURED, Measured};
use table::Row;

/// The longest that one measurement may take: what hangs must not keep the others from being told.
const LONGEST: Duration = Duration::from_secs(20 * 60);

/// What to measure.
#[derive(Debug, Parser)]
struct Args {
    /// Take few samples: for a look, not for a report.
    #[arg(long)]
    quick: bool,
    /// Measure only what has one of these words in its name.
    words: Vec<String>,
    /// How many calls are stored for the measurement of that name.
    #[arg(long, default_value_t = 200_000)]
    stored: u64,
    /// Given by cargo.
    #[arg(long, hide = true)]
    bench: bool,
    /// Serve the messages of this file instead: the bare peer.
    #[arg(long, hide = true, value_name = "FILE")]
    bare_stream: Option<PathBuf>,
    /// Be an MCP server that reads files.
    #[arg(long, hide = true, value_name = "WAY")]
    mcp_server: Option<peers::Way>,
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
    /// Stored calls.
    pub(crate) stored: u64,
}

impl Plan {
    /// Returns one of two numbers of samples.
    pub(crate) fn samples(self, full: usize, quick: usize) -> usize {
        if self.quick { quick } else { full }
    }
}

async fn measure(name: &str, plan: Plan) -> Result<Vec<Row>> {
    match name {
        "read" => calls::read(plan).await,
        "get" => calls::get(plan).await,
        "disk" => calls::disk(plan).await,
        "bash" => calls::bash(plan).await,
        "peers" => peers::peers(plan).await,
        "filesystem" => peers::file_system(plan).await,
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
        "stored" => millions::stored(plan).await,
        other => anyhow::bail!("there is no measurement {other:?}"),
    }
}

/// Measures, in a time that is bounded.
async fn measured(one: &Measured, plan: Plan) -> Result<Vec<Row>> {
    let begun = Instant::now();
    let measuring = timeout(LONGEST, measure(one.name, plan)).await;
    eprintln!("  took {:.0?}", begun.elapsed());
    measuring
        .context("it takes too long")
        .flatten()
        .with_context(|| format!("measuring {}", one.name))
}

/// Holds the names of rows against those that the page has.
fn check_names(one: &Measured, rows: &[Row]) -> Result<()> {
    let found: Vec<&str> = rows.iter().map(Row::what).collect();
    ensure!(
        found == one.rows,
        "tests/bench/rows.rs has other rows for {}: {found:?}",
        one.name
    );
    Ok(())
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    let served = match (&args.bare_stream, args.mcp_server) {
        (Some(messages), _) => Some(bare::serve(messages).await),
        (None, Some(way)) => Some(peers::serve(way).await),
        (None, None) => None,
    };
    if let Some(served) = served {
        return match served {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("a peer: {error:#}");
                ExitCode::FAILURE
            }
        };
    }
    if let (Some(delay), Some(seen)) = (args.language_server, &args.seen) {
        // It ends with the service that it serves.
        return ExitCode::from(u8::from(language::serve(delay, seen).is_err()));
    }
    let plan = Plan {
        quick: args.quick,
        stored: args.stored,
    };
    let is_wanted =
        |one: &&Measured| args.words.is_empty() || args.words.iter().any(|word| one.name.contains(word.as_str()));
    let (mut all, mut failures) = (Vec::new(), Vec::new());
    for one in MEASURED.iter().filter(is_wanted) {
        eprintln!("measuring {} …", one.name);
        match measured(one, plan).await {
            Ok(rows) => {
                failures.extend(check_names(one, &rows).err());
                all.push((one, rows));
            }
            Err(error) => {
                failures.push(error);
                all.push((one, Vec::new()));
            }
        }
    }
    let rows: Vec<Row> = all.iter().flat_map(|(_, rows)| rows.clone()).collect();
    println!("{}", table::render(&rows));
    if args.words.is_empty() && std::env::var_os(page::UPDATE).is_some() {
        let written = page::write(&all, plan).context("writing the page");
        failures.extend(written.err());
    }
    for error in &failures {
        println!("NOT MEASURED  {error:#}");
    }
    if all.is_empty() {
        let names: Vec<&str> = MEASURED.iter().map(|one| one.name).collect();
        println!("Nothing has such a name; there are: {}", names.join(" "));
        return ExitCode::FAILURE;
    }
    ExitCode::from(u8::from(!failures.is_empty()))
}
