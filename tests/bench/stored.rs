//! A fleet that keeps its history in PostgreSQL: what a gateway, a worker and the database cost together, and what their deaths do.
//!
//! *Invariant:* every part is a process of its own, the database waits for the disk, and everything shares this machine's cores.

#![allow(clippy::unwrap_used)] // the server of the tests says itself what it lacks

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::json;
use tempfile::TempDir;
use tokio::time::{sleep, timeout};
use toolgate_contract::call_event::Event;
use toolgate_contract::{ExecuteToolRequest, FailureReason, OnDisconnect, OutputMode, WatchCallRequest};

use crate::calls::{Approver, FILES, SESSION};
use crate::crowd::crowd;
use crate::measure::{Samples, in_turns};
use crate::part::{AGENT, Part, write};
use crate::service::{self, Connection, Service, Token, execute, folder, request};
use crate::table::{Row, show_time};
use crate::{Plan, bare};

#[allow(dead_code)] // the tests of the store use all of it
#[path = "../../crates/postgres/tests/store/server.rs"]
mod server;

use server::Server;

const PERSON: &str = "the-person-of-the-benchmark";
const WORKER: &str = "the-worker-of-the-benchmark";

/// Clients of the load.
const CLIENTS: usize = 32;

const PATIENCE: Duration = Duration::from_secs(60);

struct Stored {
    folder: TempDir,
    database: Server,
    gateways: Vec<Part>,
    worker: Part,
}

impl Stored {
    /// Starts two gateways and a worker, whose workspace has the files to read.
    async fn start() -> Result<Self> {
        let database = Server::start(false).await;
        database.run("postgres", "CREATE DATABASE fleet").await;
        let folder = folder()?;
        let entry = |name: &str, token: &str, rest: &str| {
            format!("[[tokens]]\nname = \"{name}\"\ntoken = \"{token}\"\n{rest}\n")
        };
        let all = "scopes = [\"*\"]";
        let tokens = entry("agent", AGENT, all)
            + &entry("person", PERSON, all)
            + &entry("worker", WORKER, "scopes = []\nworkspaces = [\"main\"]");
        let settings = "[auth]\ntokens_file = \"tokens\"\nworkers = [\"token:worker\"]\n\
                        [cluster]\nrole = \"gateway\"\nstore_file = \"database\"\nmigrate = \"start\"\n";
        let mut gateways = Vec::new();
        for name in ["one", "two"] {
            write(&folder.path().join(name), "tokens", &tokens)?;
            write(&folder.path().join(name), "database", &database.url("fleet"))?;
            gateways.push(Part::start(folder.path().join(name), "gateway", settings).await?);
        }
        let place = folder.path().join("worker");
        write(&place, "identity", WORKER)?;
        fill(&place.join("own"))?;
        let bash = json!({"*": "allow", "echo ask*": "ask"});
        // Whether a worker can be used is asked with the same call again and again.
        let rules = json!({"permission": {"bash": bash, "doom_loop": "allow"}});
        write(&place.join(".config/opencode"), "opencode.json", &rules.to_string())?;
        let addresses: Vec<String> = gateways.iter().map(|gateway| format!("{:?}", gateway.url())).collect();
        let settings = format!(
            "data_dir = \"data\"\nlisten.unix = \"s\"\nlimits.max_running_calls = 64\n[cluster]\nrole = \"worker\"\n\
             gateways = [{}]\nidentity = \"identity\"\nname = \"worker\"\nadvertise = \"unix:{}\"\n\
             [[workspaces]]\nname = \"main\"\ndirectory = \"own\"\n",
            addresses.join(", "),
            place.canonicalize()?.join("s").display(),
        );
        let worker = Part::start(place, "serve", &settings).await?;
        let fleet = Self {
            folder,
            database,
            gateways,
            worker,
        };
        fleet.ready().await?;
        Ok(fleet)
    }

    /// Waits until a call runs through each gateway.
    async fn ready(&self) -> Result<()> {
        for gateway in &self.gateways {
            let begun = Instant::now();
            loop {
                let mut client = service::tools(gateway.serving()?.connect().await?);
                match execute(&mut client, read(0)).await {
                    Ok(_) => break,
                    Err(error) if begun.elapsed() > PATIENCE => return Err(error),
                    Err(_) => sleep(Duration::from_millis(50)).await,
                }
            }
        }
        Ok(())
    }

    async fn connect(&self, gateway: usize) -> Result<Connection> {
        self.gateways[gateway].serving()?.connect().await
    }

    async fn connect_as(&self, gateway: usize, token: &str) -> Result<Connection> {
        self.gateways[gateway].serving()?.connect_with(Token::new(token)?).await
    }

    async fn stop(mut self) -> Result<()> {
        for part in std::iter::once(&mut self.worker).chain(&mut self.gateways) {
            part.stop().await?;
        }
        drop(self.database);
        Ok(self.folder.close()?)
    }
}

fn fill(workspace: &Path) -> Result<()> {
    for name in FILES {
        write(workspace, name, &format!("{name}, {}\n", "x".repeat(32)).repeat(50))?;
    }
    Ok(())
}

fn read(round: usize) -> ExecuteToolRequest {
    request(SESSION, "read", json!({"filePath": FILES[round % 2]}))
}

fn bash(command: &str, description: &str) -> ExecuteToolRequest {
    request("fleet", "bash", json!({"command": command, "description": description}))
}

/// Calls through a gateway with a database beside those of a single machine, how many there may be, and what a person's answer,
/// the audit, the death of a worker and the death of a gateway take.
pub(crate) async fn fleet(plan: Plan) -> Result<Vec<Row>> {
    let workspace = folder()?;
    fill(workspace.path())?;
    let single = Service::start(workspace.path()).await?;
    let mut fleet = Stored::start().await?;
    let mut rows = through(&fleet, &single, plan).await?;
    rows.extend(load(&fleet, &single, plan).await?);
    single.stop().await?;
    rows.extend(prompts(&fleet, plan).await?);
    rows.push(deaths_of_a_worker(&mut fleet, plan).await?);
    rows.push(deaths_of_a_gateway(&mut fleet, plan).await?);
    fleet.stop().await?;
    Ok(rows)
}

/// Two calls of a bare service, one after the other, and one commit of what they answer: a gateway adds at least as much, as a request
/// goes through it to a worker, which stores through it before it answers.
async fn least(fleet: &Stored, direct: &mut service::Tools, plan: Plan) -> Result<Row> {
    let messages = service::recorded(direct, read(0)).await?;
    let result: Vec<u8> = messages.iter().flat_map(prost::Message::encode_to_vec).collect();
    let bare = bare::start(&messages, &fleet.folder.path().join("worker/own")).await?;
    let mut client = service::tools(bare.connect().await?);
    let database = fleet.database.connect("fleet").await?;
    database.batch_execute("CREATE TABLE least (result bytea)").await?;
    let (both, commit) = in_turns(
        plan.samples(1000, 100),
        async |round| {
            let (first, ..) = execute(&mut client, read(round)).await?;
            let (second, ..) = execute(&mut client, read(round)).await?;
            Ok(first + second)
        },
        async |_| {
            let begun = Instant::now();
            database.execute("INSERT INTO least VALUES ($1)", &[&result]).await?;
            Ok(begun.elapsed())
        },
    )
    .await?;
    let what = "fleet: the least that a gateway with a database adds: two bare calls and a commit";
    let sum = both.median() + commit.median();
    Ok(Row::told(what, format!("{both} and {commit}"), show_time(sum)))
}

async fn through(fleet: &Stored, single: &Service, plan: Plan) -> Result<Vec<Row>> {
    let mut through = service::tools(fleet.connect(0).await?);
    let mut direct = single.tools().await?;
    let least = least(fleet, &mut direct, plan).await?;
    let (ours, floor) = in_turns(
        plan.samples(2000, 200),
        async |round| execute(&mut through, read(round)).await.map(|(time, ..)| time),
        async |round| execute(&mut direct, read(round)).await.map(|(time, ..)| time),
    )
    .await?;
    let what = "fleet: read of 2 KB through a gateway with a database";
    let mut rows = vec![Row::more(
        what,
        50,
        &ours,
        ("one machine", &floor),
        Duration::from_micros(1500),
    )];
    rows.push(least);
    let (ours, floor) = in_turns(
        plan.samples(1000, 100),
        async |round| {
            execute(&mut through, bash("true", FILES[round % 2]))
                .await
                .map(|(time, ..)| time)
        },
        async |round| {
            execute(&mut direct, bash("true", FILES[round % 2]))
                .await
                .map(|(time, ..)| time)
        },
    )
    .await?;
    let what = "fleet: bash `true` through a gateway with a database";
    rows.push(Row::more(
        what,
        50,
        &ours,
        ("one machine", &floor),
        Duration::from_millis(3),
    ));
    let limit = Duration::from_millis(15);
    rows.push(Row::time("fleet: the same, p99", &ours, ours.percentile(99), limit));
    Ok(rows)
}

/// What a client of the load does.
async fn read_one(mut client: service::Tools, number: usize, round: usize) -> Result<()> {
    let input = json!({"filePath": FILES[round % 2]});
    let call = request(&format!("load-{number}"), "read", input);
    execute(&mut client, call).await.map(drop)
}

async fn load(fleet: &Stored, single: &Service, plan: Plan) -> Result<Vec<Row>> {
    let time = Duration::from_secs(plan.samples(10, 2) as u64);
    let is_over = Arc::new(AtomicBool::new(false));
    let windows = tokio::spawn(windows(fleet.database.connect("fleet").await?, Arc::clone(&is_over)));
    let ours = crowd(|| fleet.connect(0), CLIENTS, time, read_one).await?.a_second();
    is_over.store(true, Ordering::Release);
    let windows = Samples::new(windows.await??)?;
    let floor = crowd(|| single.connect(), CLIENTS, time, read_one).await?.a_second();
    let what = format!("fleet: reads by {CLIENTS} clients, a second");
    Ok(vec![
        Row::rate(&what, ours, ("one machine", floor), Some(1000.0)),
        Row::time(
            "fleet: from stored to chained in the audit, p99, meanwhile",
            &windows,
            windows.percentile(99),
            Duration::from_millis(100),
        ),
    ])
}

/// Takes how long what has been committed waits until it is numbered and chained.
async fn windows(database: tokio_postgres::Client, is_over: Arc<AtomicBool>) -> Result<Vec<Duration>> {
    let mut times = Vec::new();
    while !is_over.load(Ordering::Acquire) {
        let last: Option<i64> = database.query_one("SELECT max(number) FROM outbox", &[]).await?.get(0);
        let Some(last) = last else {
            sleep(Duration::from_millis(5)).await;
            continue;
        };
        let begun = Instant::now();
        let sql = "SELECT EXISTS (SELECT FROM outbox WHERE number <= $1)";
        while database.query_one(sql, &[&last]).await?.get(0) {
            sleep(Duration::from_millis(5)).await;
        }
        times.push(begun.elapsed());
    }
    Ok(times)
}

/// A question that a worker asks, a person who sees it at another gateway than the caller's, and the call that goes on.
async fn prompts(fleet: &Stored, plan: Plan) -> Result<Vec<Row>> {
    let mut client = service::tools(fleet.connect(0).await?);
    let mut approver = Approver::open(fleet.connect_as(1, PERSON).await?).await?;
    let rounds = plan.samples(300, 30);
    let mut times = Vec::new();
    for round in 0..rounds + 10 {
        let begin = Instant::now();
        let call = async {
            let mut stream = client
                .execute_tool(bash("echo ask", FILES[round % 2]))
                .await?
                .into_inner();
            let (mut asked, mut resumed) = (None, None);
            while let Some(event) = service::next(&mut stream).await? {
                if matches!(event, Event::Waiting(_)) {
                    asked = Some(begin.elapsed());
                } else if matches!(event, Event::Resumed(_)) {
                    resumed = Some(begin.elapsed());
                }
            }
            Ok((
                asked.context("nobody was asked")?,
                resumed.context("the call was not resumed")?,
            ))
        };
        let ((asked, resumed), approval) = tokio::try_join!(call, approver.approve(begin))?;
        if round >= 10 {
            // The prompt may be seen before its caller hears of it: it is asked from the first of both.
            times.push(resumed.saturating_sub(asked.min(approval.seen)));
        }
    }
    let times = Samples::new(times)?;
    let what = "fleet: asked at a worker, seen and answered at another gateway, resumed";
    Ok(vec![Row::time(what, &times, times.median(), Duration::from_millis(10))])
}

async fn deaths_of_a_worker(fleet: &mut Stored, plan: Plan) -> Result<Row> {
    let mut times = Vec::new();
    for round in 0..plan.samples(10, 3) {
        let mut client = service::tools(fleet.connect(0).await?);
        let command = format!("echo {round}; sleep 100");
        let mut stream = client.execute_tool(bash(&command, "is killed")).await?.into_inner();
        while !matches!(next(&mut stream).await?, Event::Output(_)) {}
        fleet.worker.kill().await?;
        let begun = Instant::now();
        let failed = loop {
            if let Event::Failed(failed) = next(&mut stream).await? {
                break failed;
            }
        };
        ensure!(
            failed.reason() == FailureReason::Lost,
            "the call ended otherwise: {failed:?}"
        );
        times.push(begun.elapsed());
        fleet.worker.run().await?;
        fleet.ready().await?;
    }
    let times = Samples::new(times)?;
    let what = "fleet: from the death of a worker until its call is LOST";
    Ok(Row::time(what, &times, times.median(), Duration::from_secs(2)))
}

async fn deaths_of_a_gateway(fleet: &mut Stored, plan: Plan) -> Result<Row> {
    let mut times = Vec::new();
    for round in 0..plan.samples(10, 3) {
        let mut client = service::tools(fleet.connect(0).await?);
        let mut other = service::tools(fleet.connect(1).await?);
        let command = format!("for i in {{1..300}}; do echo {round}.$i; sleep 0.01; done");
        let kept = ExecuteToolRequest {
            on_disconnect: OnDisconnect::Keep.into(),
            ..bash(&command, "goes on")
        };
        let mut stream = client.execute_tool(kept).await?.into_inner();
        let (call_id, mut last) = loop {
            let event = stream
                .message()
                .await?
                .and_then(|message| message.event)
                .context("no event")?;
            match event.event {
                Some(Event::Output(_)) => break (event.call_id, event.sequence),
                Some(Event::Waiting(asked)) => bail!("a person is asked: {asked:?}"),
                _ => {}
            }
        };
        fleet.gateways[0].kill().await?;
        let begun = Instant::now();
        while let Ok(Some(message)) = stream.message().await {
            last = message.event.map_or(last, |event| event.sequence.max(last));
        }
        let watch = WatchCallRequest {
            call_id,
            after_sequence: last,
            output: OutputMode::Full.into(),
        };
        let mut stream = other.watch_call(watch).await?.into_inner();
        let event = stream
            .message()
            .await?
            .and_then(|message| message.event)
            .context("no event")?;
        ensure!(
            event.sequence == last + 1,
            "the watcher goes on at {} after {last}",
            event.sequence
        );
        times.push(begun.elapsed());
        fleet.gateways[0].run().await?;
        fleet.ready().await?;
    }
    let times = Samples::new(times)?;
    let what = "fleet: from the death of a gateway until a watcher goes on at the other";
    Ok(Row::time(what, &times, times.median(), Duration::from_secs(1)))
}

async fn next(stream: &mut tonic::Streaming<toolgate_contract::ExecuteToolResponse>) -> Result<Event> {
    let event = timeout(PATIENCE, service::next(stream))
        .await
        .context("nothing comes")??;
    event.context("the stream has ended")
}
