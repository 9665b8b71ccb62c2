//! The conformance runner: plays every case of `cases/` against the program `toolgate`, through the public contract.
//!
//! `cargo test --test conformance -- files/read/` plays the cases whose id contains that text; `--list` names them all.
//! `--client python` plays them through a client library and its driver instead of the runner's own stubs, `--gateway` through a
//! gateway in front of three services, `--store` through a gateway with a database before a worker.
//! A case that cannot pass yet stands in `known.rs` with its reason, and must not pass.
//!
//! *Invariant:* a case passes only if every expectation in it was checked and held.

#![allow(clippy::disallowed_methods)] // starts the program that it tests, and makes the folders that it works in

mod approver;
mod args;
mod asked;
mod case;
mod connection;
#[path = "../it/clients/driver.rs"]
mod driver;
mod entry;
mod fake_lsp;
mod fake_mcp;
mod fleet;
mod gateway;
mod happenings;
mod host;
mod http;
mod known;
mod lsp;
mod matcher;
mod mcp;
mod play;
#[allow(dead_code)] // the tests of the store itself use all of it
#[allow(clippy::unwrap_used)] // a server is there, or nothing is played
#[path = "../../crates/postgres/tests/store/server.rs"]
mod postgres;
mod report;
mod rows;
mod self_check;
mod server;
mod tables;
mod vars;
mod verdict;
mod workspace;

use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use args::Args;
use case::{Body, Case};
use driver::Driver;
use fleet::Fleet;
use gateway::Workers;
use play::{Bench, Problems};
use report::{Outcome, Tally, judge};
use workspace::GitTemplate;

const CASES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/conformance/cases");

fn main() -> ExitCode {
    if let Some(code) = fake_mcp::run().or_else(fake_lsp::run) {
        return code;
    }
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("FAILED  the runner: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<bool> {
    let args = Args::parse(std::env::args().skip(1));
    self_check::run().context("the runner's check of itself")?;
    let mut cases = case::load(Path::new(CASES))?;
    let ids: Vec<&str> = cases.iter().map(|case| case.id.as_str()).collect();
    if args.list {
        for id in ids.into_iter().filter(|id| args.wants(id)) {
            println!("{id}: test");
        }
        return Ok(true);
    }
    let mut tally = Tally::default();
    for fault in known::faults(known::KNOWN, &ids) {
        tally.fault(&fault);
    }
    cases.retain(|case| args.wants(&case.id));
    if args.client.is_some() || args.gateway || args.store {
        // What a library or a gateway has no part in is not played through it.
        cases.retain(|case| case.body.uses_a_service());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(play_all(cases, &args, &mut tally))?;
    println!("{}", tally.summary());
    Ok(tally.failed == 0)
}

/// Plays cases beside each other and reports them in their order.
async fn play_all(cases: Vec<Case>, args: &Args, tally: &mut Tally) -> Result<()> {
    let cores = std::thread::available_parallelism().map_or(2, NonZero::get);
    let slots = Arc::new(Semaphore::new(args.threads.unwrap_or(cores * 2).max(1)));
    let bench = Arc::new(Bench {
        template: GitTemplate::make()?,
        driver: args.client.as_deref().map(Driver::start).transpose()?,
        others: match args.gateway {
            true => Some(Workers::start().await?),
            false => None,
        },
        fleet: match args.store {
            true => Some(Fleet::start().await?),
            false => None,
        },
    });
    let ids: Vec<String> = cases.iter().map(|case| case.id.clone()).collect();
    let mut running = JoinSet::new();
    for (index, case) in cases.into_iter().enumerate() {
        let (slots, bench) = (Arc::clone(&slots), Arc::clone(&bench));
        running.spawn(async move {
            let _slot = slots.acquire_owned().await;
            (index, outcome(&case, &bench).await)
        });
    }
    let mut done: BTreeMap<usize, Outcome> = BTreeMap::new();
    let mut next = 0;
    while let Some(joined) = running.join_next().await {
        let (index, outcome) = joined.context("a case made the runner panic")?;
        done.insert(index, outcome);
        while let Some(outcome) = done.remove(&next) {
            tally.add(&ids[next], &outcome);
            next += 1;
        }
    }
    Ok(())
}

async fn outcome(case: &Case, bench: &Bench) -> Outcome {
    let known = known::reason(&case.id);
    let missing = case.needs.iter().find(|program| !is_installed(program));
    match (known, missing) {
        (None, Some(program)) => Outcome::Known(format!("needs {program}, which is not installed")),
        (known, _) => judge(known, play(case, bench).await),
    }
}

async fn play(case: &Case, bench: &Bench) -> Result<Problems> {
    match &case.body {
        Body::Steps(scenario) => play::scenario(scenario, bench).await,
        Body::AgentPermission(table) => play::agent_permission(table, bench).await,
        Body::Registry(table) => play::registry(table, bench).await,
        Body::Arity(table) => or(asked::arity(table, bench).await?, || tables::arity(table)),
        Body::Wildcard(table) => or(asked::wildcard(table, bench).await?, || tables::wildcard(table)),
        Body::Evaluate(table) => or(asked::evaluate(table, bench).await?, || tables::evaluate(table)),
        Body::Ruleset(table) => {
            // The contract tells of rules what they decide, not which there are.
            let mut problems = tables::ruleset(table)?;
            problems.extend(asked::ruleset(table, bench).await?);
            Ok(problems)
        }
        Body::DisabledTools(table) => tables::disabled_tools(table),
        Body::Truncate(table) => or(asked::truncate(table, bench).await?, || tables::truncate(table)),
        Body::SchemaTransform(table) => play::schema_transform(table, bench).await,
    }
}

/// Returns what the contract answered, or else what the library's functions give.
fn or(asked: Option<Problems>, otherwise: impl FnOnce() -> Result<Problems>) -> Result<Problems> {
    asked.map_or_else(otherwise, Ok)
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}
