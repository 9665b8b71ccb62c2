//! The long runs of what the tests of command lines run for moments: `fuzz SECONDS` holds random lines against bash, and
//! `attacks` runs the whole corpus.

#![allow(clippy::disallowed_methods)] // tests make the folders and programs they work with
#![allow(clippy::wildcard_enum_match_arm)] // the other arm of a test is its failure
#![allow(clippy::unwrap_used)] // what a test needs is there, or the test fails

#[path = "../it/commands/arena.rs"]
mod arena;
#[path = "../it/commands/attacks.rs"]
mod attacks;
#[path = "../it/commands/fuzz.rs"]
mod fuzz;
#[path = "../it/commands/rulesets.rs"]
mod rulesets;
#[path = "../it/commands/trial.rs"]
mod trial;

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How many threads run lines.
const THREADS: usize = 2;

/// After so many failures a thread gives up.
const MOST: usize = 20;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let failures = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["fuzz", seconds] => fuzzed(&root, Duration::from_secs(seconds.parse().unwrap())),
        ["attacks"] => attacked(&root),
        _ => {
            eprintln!("usage: fuzz SECONDS | attacks");
            return ExitCode::from(2);
        }
    };
    for failure in &failures {
        println!("{failure}");
    }
    println!("{} failures", failures.len());
    ExitCode::from(u8::from(!failures.is_empty()))
}

fn fuzzed(root: &Path, time: Duration) -> Vec<String> {
    let until = Instant::now() + time;
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    println!("the first seed is {seed}");
    let reports: Vec<fuzz::Report> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let place = root.join(thread.to_string());
                scope.spawn(move || {
                    let runtime = tokio::runtime::Builder::new_current_thread()
                        .enable_all()
                        .build()
                        .unwrap();
                    runtime.block_on(fuzz::run(place, seed + thread as u64, usize::MAX, until, MOST))
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let (lines, clear) = reports.iter().fold((0, 0), |(lines, clear), report| {
        (lines + report.lines, clear + report.clear)
    });
    println!("{lines} lines, {clear} of them clear and run");
    reports.into_iter().flat_map(|report| report.failures).collect()
}

fn attacked(root: &Path) -> Vec<String> {
    let (all, made) = attacks::attacks(1);
    let found = trial::verdict(root, all);
    println!(
        "{made} attacks are made, {} have their effect here, {} have none",
        found.proven,
        found.idle.len()
    );
    found.outside.into_iter().chain(found.unasked).collect()
}
