//! A large fleet at one gateway: thousands of workers that do nothing, thousands of prompts, the death of the gateway, and a tenant that
//! makes more prompts than anybody answers. And at two gateways: thousands who watch calls.
//!
//! *Invariant:* gateways, database and one worker are real, and so are all connections; the other workers are tasks that say what real ones
//! say. A part that fails is told as a fault, and the others are measured all the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tonic::Code;
use tonic::transport::Channel;
use toolgate_contract::cluster::ledger_service_client::LedgerServiceClient;
use toolgate_contract::cluster::{
    CreateCallRequest, ListInterestsRequest, ListOpenPromptsRequest, OpenPromptRequest, RenewLeaseRequest,
};
use toolgate_contract::permission_service_client::PermissionServiceClient;
use toolgate_contract::watch_prompts_response::Message;
use toolgate_contract::{ListPromptsRequest, PromptFilter, WatchPromptsRequest};
use toolgate_model::{InstanceId, Timestamp};

use crate::many::{LEASE, Many, have_room, read, token, workspace};
use crate::measure::Samples;
use crate::part::Part;
use crate::processes::open_files;
use crate::service::{Connection, Memory, execute, tools};
use crate::simulated::{Crowd, Plan, Worker, shown};
use crate::table::{Row, show_bytes, show_time};
use crate::{Args, MIB, Report, suite, watchers};

const PATIENCE: Duration = Duration::from_secs(180);

/// How long is measured what does nothing.
const IDLE: Duration = Duration::from_secs(20);

/// Prompts of the inbox.
const PROMPTS: usize = 2_000;

/// How many of the tenant's requests are under way at once, and how many prompts of the other tenant are measured.
const FLOOD: usize = 64;
const MEASURED: usize = 200;

/// How long prompts are measured at most, on a machine that is slow or busy.
const LONGEST: Duration = Duration::from_secs(60);

/// Bytes that an idle worker may take of a gateway.
const EACH: u64 = 40 << 10;

/// Files that are open in a process beside one for each worker.
const OTHER_FILES: u64 = 2_000;

/// Measures all of it.
pub(crate) async fn run(args: Args, report: &mut Report) -> Result<()> {
    have_room(args.workers as u64 + OTHER_FILES)?;
    if args.workers > 0 {
        workers(args.workers, report).await?;
    }
    if args.streams > 0 {
        eprintln!("{} watchers on two gateways …", args.streams);
        watchers::run(args.streams, args.seconds, report).await?;
    }
    Ok(())
}

async fn workers(count: usize, report: &mut Report) -> Result<()> {
    let mut many = Many::start(1, None).await?;
    let empty = many.gateways[0].serving()?.memory()?;
    let plan = Plan {
        workers: count,
        gateways: many.gateways.iter().map(Part::url).collect(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        on_a_line: 1,
        token,
        workspace,
    };
    eprintln!("{count} workers come …");
    let begun = Instant::now();
    let crowd = Crowd::start(&plan).await;
    all_are_there(&crowd, count).await?;
    let came = begun.elapsed();
    report.rows.push(Row::told(
        &format!("{count} simulated workers come at once: until all are there"),
        format!(
            "at most {} in 0.1 s, {} attempts",
            crowd.facts.rush(),
            crowd.facts.attempts.load(Ordering::Relaxed)
        ),
        show_time(came),
    ));
    eprintln!("they do nothing …");
    let outcome = idle(&many, count, empty, report).await;
    report.note("idle workers", outcome);
    report.show();
    eprintln!("some of them ask …");
    let outcome = prompts(&many, &crowd, report).await;
    report.note("an inbox", outcome);
    report.show();
    eprintln!("the gateway dies …");
    let outcome = death(&mut many, &crowd, count, report).await;
    report.note("the death of a gateway", outcome);
    report.show();
    eprintln!("one tenant asks without a pause …");
    let outcome = flood(&many, &crowd, report).await;
    report.note("a flood", outcome);
    crowd.stop().await;
    many.stop().await
}

async fn all_are_there(crowd: &Crowd, workers: usize) -> Result<()> {
    let begun = Instant::now();
    let facts = &crowd.facts;
    loop {
        let now = (
            facts.registered.load(Ordering::Relaxed),
            facts.bound.load(Ordering::Relaxed),
        );
        if now.0 >= workers && now.1 >= workers && crowd.workers.iter().all(|one| !one.is_at_work() || one.follows()) {
            return Ok(());
        }
        let why = || facts.why.lock().map(|why| format!("{why:?}")).unwrap_or_default();
        ensure!(begun.elapsed() < PATIENCE, "{now:?} of {workers} are there: {}", why());
        sleep(Duration::from_millis(20)).await;
    }
}

async fn idle(many: &Many, workers: usize, empty: Memory, report: &mut Report) -> Result<()> {
    // Their leases end, and the gateways see that nothing is left of them.
    sleep(LEASE * 4).await;
    let gateway = many.gateways[0].serving()?;
    let counting = many.count()?;
    sleep(IDLE).await;
    let [own, database] = counting.shares()?;
    let memory = gateway.memory()?;
    let each = memory.resident.saturating_sub(empty.resident) / workers as u64;
    let detail = format!("{} files are open in the gateway", open_files(gateway.pid()?)?);
    report
        .rows
        .push(Row::kib("memory of a gateway for an idle worker", detail, each, EACH));
    let detail = format!(
        "{} without, {} at its peak",
        show_bytes(empty.resident),
        show_bytes(memory.peak)
    );
    let what = format!("memory of a gateway with {workers} idle workers");
    report.rows.push(Row::memory(&what, detail, memory.resident, 400 * MIB));
    report.rows.push(Row::told(
        "processor time of the gateway meanwhile, of one core",
        String::new(),
        format!("{own:.1} %"),
    ));
    let what = "processor time of the database meanwhile, of one core";
    report.rows.push(Row::share(what, database, 5.0));
    let mut client = tools(many.connect(0).await?);
    let mut times = Vec::new();
    for _ in 0..MEASURED {
        times.push(execute(&mut client, read()).await?.0);
    }
    let times = Samples::new(times)?;
    let p99 = times.percentile(99);
    report.rows.push(Row::time(
        "a call at a real worker among them: p99",
        &times,
        p99,
        Duration::from_millis(15),
    ));
    Ok(())
}

/// Has a worker ask a person; returns the name of the prompt.
async fn ask(crowd: &Crowd, worker: &Worker, name: &str) -> Result<String> {
    let run = InstanceId::new(worker.run.clone());
    let mut call = suite::record(&format!("call-{name}"), &run);
    call.origin.workspace.clone_from(&worker.workspace);
    call.created = Timestamp::now();
    let events = suite::grow(&mut call, 1);
    worker.works();
    let mut ledger = crowd.ledger(worker, 0);
    let asked = |holding| {
        anyhow::Ok(CreateCallRequest {
            holding,
            record: serde_json::to_vec(&call)?,
            events: serde_json::to_vec(&events)?,
            ..CreateCallRequest::default()
        })
    };
    let created = ledger.create_call(shown(worker, asked(worker.holding())?)).await;
    if created.is_err_and(|status| status.code() == Code::FailedPrecondition) {
        crowd.bind_again(worker, 0).await?;
        ledger.create_call(shown(worker, asked(worker.holding())?)).await?;
    }
    let id = format!("prompt-{name}");
    let mut prompt = suite::prompt(&id, call.id.as_str(), &run);
    prompt.workspace.clone_from(&worker.workspace);
    prompt.created = Timestamp::now();
    let asked = OpenPromptRequest {
        holding: worker.holding(),
        prompt: serde_json::to_vec(&prompt)?,
        ..OpenPromptRequest::default()
    };
    ledger.open_prompt(shown(worker, asked)).await?;
    Ok(id)
}

/// Does what a worker does while one of its calls waits for a person.
async fn wait(worker: Arc<Worker>, mut ledger: LedgerServiceClient<Channel>) {
    // Not all of them in the same second.
    let mut seconds = worker.number as u64;
    loop {
        sleep(Duration::from_secs(1)).await;
        seconds += 1;
        let workspaces = vec![worker.workspace.clone()];
        if seconds.is_multiple_of(LEASE.as_secs() / 3) {
            let holding = worker.holding();
            let holdings = holding.clone().into_iter().collect();
            let _ = ledger
                .renew_lease(shown(&worker, RenewLeaseRequest { holding, holdings }))
                .await;
        }
        if seconds.is_multiple_of(2) {
            let asked = ListInterestsRequest {
                workspaces: workspaces.clone(),
            };
            let _ = ledger.list_interests(shown(&worker, asked)).await;
        }
        if seconds.is_multiple_of(5) {
            let _ = ledger
                .list_open_prompts(shown(&worker, ListOpenPromptsRequest { workspaces }))
                .await;
        }
    }
}

fn everybody() -> Option<PromptFilter> {
    Some(PromptFilter {
        all: true,
        workspace: "-".to_owned(),
        ..PromptFilter::default()
    })
}

async fn prompts(many: &Many, crowd: &Crowd, report: &mut Report) -> Result<()> {
    let count = PROMPTS.min(crowd.workers.len());
    let (begun, mut waiting) = (Instant::now(), JoinSet::new());
    for first in (0..count).step_by(FLOOD) {
        let asking = &crowd.workers[first..count.min(first + FLOOD)];
        let asks = asking.iter().map(|worker| async move {
            let name = format!("inbox-{}", worker.number);
            ask(crowd, worker, &name).await
        });
        futures_util::future::try_join_all(asks).await?;
        // At once: whoever renews no lease is taken for dead, and its prompts are withdrawn.
        for worker in asking {
            waiting.spawn(wait(worker.clone(), crowd.ledger(worker, 0)));
        }
    }
    let opened = begun.elapsed();
    sleep(LEASE).await;
    let connection = many.connect(0).await?;
    let (mut lists, mut snapshots) = (Vec::new(), Vec::new());
    for _ in 0..20 {
        lists.push(listed(&connection, count).await?);
        snapshots.push(snapshot(&connection, count).await?);
    }
    let counting = many.count()?;
    sleep(IDLE).await;
    let [own, database] = counting.shares()?;
    let memory = many.gateways[0].serving()?.memory()?;
    waiting.shutdown().await;
    for (what, times) in [("listed", lists), ("shown to an approver", snapshots)] {
        let times = Samples::new(times)?;
        let what = format!("an inbox of {count} prompts {what}");
        report
            .rows
            .push(Row::time(&what, &times, times.median(), Duration::from_millis(250)));
    }
    report.rows.push(Row::told(
        &format!("{count} calls wait for a person: processor time of the gateway, of one core"),
        format!(
            "the database {database:.1} %, memory {}; opened in {}",
            show_bytes(memory.resident),
            show_time(opened)
        ),
        format!("{own:.1} %"),
    ));
    Ok(())
}

async fn listed(connection: &Connection, count: usize) -> Result<Duration> {
    let mut client = PermissionServiceClient::new(connection.clone());
    let (begun, mut found, mut page_token) = (Instant::now(), 0, String::new());
    loop {
        let asked = ListPromptsRequest {
            filter: everybody(),
            page_size: 1000,
            page_token,
            ..ListPromptsRequest::default()
        };
        let page = client.list_prompts(asked).await?.into_inner();
        found += page.prompts.len();
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    ensure!(found == count, "{found} prompts instead of {count}");
    Ok(begun.elapsed())
}

async fn snapshot(connection: &Connection, count: usize) -> Result<Duration> {
    let mut client = PermissionServiceClient::new(connection.clone());
    let begun = Instant::now();
    let asked = WatchPromptsRequest { filter: everybody() };
    let mut stream = client.watch_prompts(asked).await?.into_inner();
    loop {
        let message = stream.message().await?.context("the stream has ended")?.message;
        if let Some(Message::SnapshotEnd(end)) = message {
            ensure!(usize::try_from(end.prompts)? == count, "{end:?} instead of {count}");
            return Ok(begun.elapsed());
        }
    }
}

/// Kills the gateway and starts it again: all workers come back, and a call is made as soon as it can be.
async fn death(many: &mut Many, crowd: &Crowd, workers: usize, report: &mut Report) -> Result<()> {
    let facts = &crowd.facts;
    many.gateways[0].kill().await?;
    let begun = Instant::now();
    while facts.registered.load(Ordering::Relaxed) > 0 || facts.follows.load(Ordering::Relaxed) > 0 {
        ensure!(begun.elapsed() < PATIENCE, "workers do not notice");
        sleep(Duration::from_millis(5)).await;
    }
    facts.arrivals.lock().map(|mut arrivals| arrivals.clear()).ok();
    let attempts = facts.attempts.load(Ordering::Relaxed);
    many.gateways[0].run().await?;
    let back = Instant::now();
    let first_call = many.called(0).await?;
    let is_over = Arc::new(AtomicBool::new(false));
    let calls = {
        let (connection, is_over) = (many.connect(0).await?, is_over.clone());
        tokio::spawn(async move {
            let mut times = Vec::new();
            loop {
                times.push(execute(&mut tools(connection.clone()), read()).await?.0);
                if is_over.load(Ordering::Acquire) {
                    break;
                }
                sleep(Duration::from_millis(10)).await;
            }
            anyhow::Ok(times)
        })
    };
    all_are_there(crowd, workers).await?;
    let all = back.elapsed();
    is_over.store(true, Ordering::Release);
    let calls = Samples::new(calls.await??)?;
    let memory = many.gateways[0].serving()?.memory()?;
    report.rows.push(Row::told(
        "the gateway was killed and is back: until all workers are",
        format!(
            "at most {} in 0.1 s, {} attempts, at its peak {}",
            facts.rush(),
            facts.attempts.load(Ordering::Relaxed) - attempts,
            show_bytes(memory.peak)
        ),
        show_time(all),
    ));
    report.rows.push(Row::told(
        "the first call at a real worker after it is back",
        format!("those after it {calls}"),
        show_time(first_call),
    ));
    Ok(())
}

/// Takes from asking until somebody who sees one tenant sees the prompt; and until it is stored.
async fn seen(many: &Many, crowd: &Crowd, what: &str) -> Result<[Samples; 2]> {
    let mut client = PermissionServiceClient::new(many.connect_as_person(0).await?);
    let asked = WatchPromptsRequest { filter: everybody() };
    let mut stream = client.watch_prompts(asked).await?.into_inner();
    let of_tenant: Vec<&Arc<Worker>> = crowd
        .workers
        .iter()
        .filter(|one| one.workspace.starts_with("g001/"))
        .collect();
    let (mut times, mut stored, begun_all) = (Vec::new(), Vec::new(), Instant::now());
    for number in 0..MEASURED {
        if begun_all.elapsed() > LONGEST {
            break;
        }
        let worker = of_tenant[number % of_tenant.len()];
        let begun = Instant::now();
        let id = ask(crowd, worker, &format!("{what}-{number}")).await?;
        stored.push(begun.elapsed());
        let seeing = async {
            loop {
                let message = stream.message().await?.context("the stream has ended")?;
                if let Some(Message::PromptAdded(added)) = message.message
                    && added.prompt.is_some_and(|prompt| prompt.prompt_id == id)
                {
                    return anyhow::Ok(());
                }
            }
        };
        // All of it: heartbeats come whatever else does.
        timeout(PATIENCE, seeing)
            .await
            .with_context(|| format!("the prompt {id} is not seen"))??;
        times.push(begun.elapsed());
    }
    Ok([Samples::new(times)?, Samples::new(stored)?])
}

/// Another tenant asks as much as it can.
async fn flood(many: &Many, crowd: &Crowd, report: &mut Report) -> Result<()> {
    let mut waiting = JoinSet::new();
    for worker in &crowd.workers {
        if worker.workspace.starts_with("g000/") || worker.workspace.starts_with("g001/") {
            waiting.spawn(wait(worker.clone(), crowd.ledger(worker, 0)));
        }
    }
    let [alone, _] = seen(many, crowd, "alone").await?;
    let of_other: Vec<Arc<Worker>> = crowd
        .workers
        .iter()
        .filter(|one| one.workspace.starts_with("g000/"))
        .cloned()
        .collect();
    let is_over = AtomicBool::new(false);
    let (is_over, of_other) = (&is_over, &of_other);
    let floods = (0..FLOOD).map(|flood| async move {
        let (mut taken, mut number) = (0_usize, 0_usize);
        while !is_over.load(Ordering::Acquire) {
            let worker = &of_other[(flood + number * FLOOD) % of_other.len()];
            taken += usize::from(ask(crowd, worker, &format!("flood-{flood}-{number}")).await.is_ok());
            number += 1;
        }
        (taken, number)
    });
    let begun = Instant::now();
    let measured = async {
        sleep(Duration::from_secs(1)).await;
        let measured = seen(many, crowd, "flooded").await;
        is_over.store(true, Ordering::Release);
        measured
    };
    let counting = many.count()?;
    let (counts, measured) = tokio::join!(futures_util::future::join_all(floods), measured);
    let [flooded, stored] = measured?;
    let [own, database] = counting.shares()?;
    let took = begun.elapsed().as_secs_f64();
    let (taken, tried) = counts.iter().fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
    let what = format!(
        "a tenant's prompt is seen while another one opens {:.0} a second ({:.0} are refused): p99",
        taken as f64 / took,
        (tried - taken) as f64 / took
    );
    report.rows.push(Row::more(
        &what,
        99,
        &flooded,
        ("alone", &alone),
        Duration::from_millis(250),
    ));
    report.rows.push(Row::told(
        "of that, until it is stored",
        format!("the gateway takes {own:.0} % of one core, the database {database:.0} %"),
        stored.to_string(),
    ));
    Ok(())
}
