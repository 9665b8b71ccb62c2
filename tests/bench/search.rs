//! `grep` and `glob` against the same search by ripgrep as a process.
//!
//! *Invariant:* the peer's output is read to its end, and says what the tool says: the number of results is compared.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::Plan;
use crate::measure::in_turns;
use crate::service::{Service, environment, execute, folder, request};
use crate::table::Row;
use crate::tree::{self, COMMON, RARE};

/// The version that is installed where there is none.
const RIPGREP: &str = "14.1.1";

/// Results that the tools show.
const SHOWN: usize = 100;

/// A search, in the words of both sides.
struct Search {
    what: &'static str,
    tool: &'static str,
    pattern: &'static str,
    /// Which of the files there are, of how many.
    files: usize,
}

const fn search_of(what: &'static str, tool: &'static str, pattern: &'static str, files: usize) -> Search {
    Search {
        what,
        tool,
        pattern,
        files,
    }
}

const LARGE: usize = 10_000;
const SMALL: usize = 200;

const SEARCHES: [Search; 6] = [
    search_of("grep, 10,000 files, few matches", "grep", RARE, LARGE),
    search_of("grep, 10,000 files, matches everywhere", "grep", COMMON, LARGE),
    search_of("glob *.rs, 10,000 files", "glob", "**/*.rs", LARGE),
    search_of("glob **/*, 10,000 files", "glob", "**/*", LARGE),
    search_of("grep, 200 files, matches everywhere", "grep", COMMON, SMALL),
    search_of("glob *.rs, 200 files", "glob", "**/*.rs", SMALL),
];

/// Measures every search on its tree.
pub(crate) async fn search(plan: Plan) -> Result<Vec<Row>> {
    let rg = ripgrep()?;
    let mut rows = Vec::new();
    for files in [LARGE, SMALL] {
        let root = folder()?;
        tree::generate(root.path(), files)?;
        let service = Service::start(root.path()).await?;
        for search in SEARCHES.iter().filter(|search| search.files == files) {
            rows.extend(compare(search, &rg, root.path(), &service, plan).await?);
        }
        service.stop().await?;
    }
    Ok(rows)
}

async fn compare(search: &Search, rg: &Path, root: &Path, service: &Service, plan: Plan) -> Result<Vec<Row>> {
    let mut client = service.tools().await?;
    let home = service.home();
    let rounds = match search.files {
        LARGE => plan.samples(60, 10),
        _ => plan.samples(200, 20),
    };
    let (mut shown, mut found) = (0, 0);
    let (ours, floor) = in_turns(
        rounds,
        async |round| {
            // Two spellings of one folder: three identical calls in a row would be asked about.
            let path = root.join(["", "."][round % 2]);
            let input = json!({"pattern": search.pattern, "path": path});
            let (time, completed, _) = execute(&mut client, request("bench", search.tool, input)).await?;
            shown = shown_results(search.tool, completed.metadata.map(metadata_count))?;
            Ok(time)
        },
        async |_| {
            let (time, output) = run(rg, &arguments(search), root, &home)?;
            found = output.iter().filter(|&&byte| byte == b'\n').count();
            Ok(time)
        },
    )
    .await?;
    ensure!(
        shown == found.min(SHOWN),
        "{}: the tool shows {shown} results where rg finds {found}",
        search.what
    );
    Ok(vec![Row::ratio(search.what, &ours, ("rg", &floor), Some(1.0))])
}

/// The arguments with which ripgrep looks at the same files for the same.
fn arguments(search: &Search) -> Vec<&'static str> {
    let files = ["--hidden", "--no-messages", "--glob=!.git"];
    let own = match search.tool {
        "grep" => ["-nH", "--no-heading", "--color=never", "--regexp", search.pattern],
        _ => ["--files", "--no-config", "--color=never", "--glob", search.pattern],
    };
    files.into_iter().chain(own).collect()
}

fn run(rg: &Path, arguments: &[&str], root: &Path, home: &Path) -> Result<(Duration, Vec<u8>)> {
    let mut command = Command::new(rg);
    command.args(arguments).env_clear().envs(environment(home));
    // Without a path `rg --files` lists the current folder, which is what the tool's folder is.
    command
        .arg("./")
        .current_dir(root)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit());
    let begin = Instant::now();
    let output = command.output().context("running rg")?;
    let time = begin.elapsed();
    ensure!(output.status.success(), "rg ended with {}", output.status);
    Ok((time, output.stdout))
}

fn metadata_count(metadata: prost_types::Struct) -> Option<f64> {
    ["matches", "count"]
        .iter()
        .find_map(|key| match metadata.fields.get(*key)?.kind {
            Some(prost_types::value::Kind::NumberValue(number)) => Some(number),
            _ => None,
        })
}

fn shown_results(tool: &str, count: Option<Option<f64>>) -> Result<usize> {
    let count = count
        .flatten()
        .with_context(|| format!("{tool} does not say how much it found"))?;
    serde_json::from_value(Value::from(count as u64)).context("a count")
}

/// Returns ripgrep: of the path, or installed under `target/tools`.
fn ripgrep() -> Result<PathBuf> {
    let folders = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect::<Vec<_>>();
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/tools");
    let installed = tools.join("bin/rg");
    let mut candidates = folders
        .iter()
        .map(|folder| folder.join("rg"))
        .chain([installed.clone()]);
    if let Some(rg) = candidates.find(|candidate| candidate.is_file()) {
        return Ok(rg);
    }
    eprintln!("installing ripgrep {RIPGREP} under {} …", tools.display());
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["install", "ripgrep", "--locked", "--version", RIPGREP, "--root"]);
    let status = command.arg(&tools).status().context("running cargo install")?;
    ensure!(status.success(), "ripgrep could not be installed: {status}");
    Ok(installed)
}
