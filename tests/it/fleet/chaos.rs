//! A fleet in which everything dies: gateways, workers, the database, and the lines between them, again and again, while commands
//! run, people are asked and answer, and others watch. Some of the clocks are off by an hour.
//!
//! *Invariant:* callers and approvers do what the guides tell every client to do: they try again with the same ids. What they were told
//! is compared with what the database has in the end. The faults follow from a seed, which is printed: `TOOLGATE_CHAOS_SEED` gives it
//! back. What the machine makes of them is another time another order.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tonic::transport::{Channel, Endpoint};
use toolgate_contract::call_event::Event;
use toolgate_contract::tool_service_client::ToolServiceClient;
use toolgate_contract::*;

use super::clock::Clock;
use super::dice::{Dice, seed};
use super::line::Line;
use super::setup::{Fleet, LEASE, Plan};
use crate::gateway::people::{AGAIN, Accepted, Approver, Gateways, PATIENCE};
use crate::gateway::setup::*;
use crate::support::{check_log, collect_watch, eventually, output_of, watch_request};

const CALLERS: usize = 24;
const WATCHERS: usize = 4;
const APPROVERS: usize = 8;
const GATEWAYS: usize = 3;

/// How much there is of everything.
#[derive(Clone, Copy)]
struct Size {
    workers: usize,
    /// Processes that are killed or stopped.
    deaths: usize,
    crashes: usize,
    cuts: usize,
}

impl Size {
    /// A few of each, or with the variable `TOOLGATE_CHAOS`, as `make chaos` sets it, as many as a bad year has.
    fn wanted() -> Self {
        match std::env::var_os("TOOLGATE_CHAOS") {
            None => Self {
                workers: 4,
                deaths: 40,
                crashes: 1,
                cuts: 4,
            },
            Some(_) => Self {
                workers: 8,
                deaths: 300,
                crashes: 3,
                cuts: 20,
            },
        }
    }
}

/// How long everything may take that is still under way when nothing dies any more.
const CALM: Duration = Duration::from_secs(90);

/// How a call ended, as a client was told.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum End {
    Completed,
    Lost,
    /// Its worker has stopped by itself, or something of it could not be stored in time.
    Stopped,
}

/// What clients saw.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) ends: Mutex<BTreeMap<String, End>>,
    pub(super) accepted: Arc<Accepted>,
    pub(super) watched: Mutex<usize>,
}

/// What a call does, by its number: it asks, it writes, it prints much, it takes a while.
fn command(number: usize) -> String {
    match number % 4 {
        0 => format!("echo ask {number} >>ran"),
        1 => format!("echo {number} >>ran"),
        2 => format!("echo {number} >>ran; seq 3000"),
        _ => format!("echo {number} >>ran; sleep 1"),
    }
}

fn name(number: usize) -> String {
    format!("chaos-{number}")
}

/// Reads the end of a log, which is whole.
fn end_of(number: usize, events: &[CallEvent]) -> End {
    check_log(0, events);
    match &events.last().unwrap().event {
        Some(Event::Completed(_)) => {
            if number % 4 == 2 {
                let expected: String = (1..=3000).map(|line| format!("{line}\n")).collect();
                assert!(
                    output_of(events) == expected.as_bytes(),
                    "the output of {}",
                    name(number)
                );
            }
            End::Completed
        }
        Some(Event::Failed(failed)) if failed.reason() == FailureReason::Lost => End::Lost,
        Some(Event::Failed(failed)) if matches!(failed.reason(), FailureReason::Drained | FailureReason::Internal) => {
            End::Stopped
        }
        other => panic!("{} ended as {other:?}", name(number)),
    }
}

/// Makes a call and follows it to its end, whatever breaks on the way.
pub(super) async fn call(gateways: &mut Gateways, number: usize, workspace: &str, seen: &Seen) {
    let request = ExecuteToolRequest {
        call_id: name(number),
        on_disconnect: OnDisconnect::Keep.into(),
        ..bash(workspace, &command(number))
    };
    loop {
        let mut tools = ToolServiceClient::with_interceptor(gateways.next(), Shown(ANNA, None));
        if let Ok(Ok(stream)) = timeout(PATIENCE, tools.execute_tool(request.clone())).await {
            let (mut stream, mut events) = (stream.into_inner(), Vec::new());
            while let Ok(Ok(Some(message))) = timeout(PATIENCE, stream.message()).await {
                events.extend(message.event);
            }
            let is_end = |event: &CallEvent| matches!(event.event, Some(Event::Completed(_) | Event::Failed(_)));
            if events.last().is_some_and(is_end) {
                let before = seen.ends.lock().unwrap().insert(name(number), end_of(number, &events));
                assert_eq!(before, None, "{} has ended twice", name(number));
                return;
            }
        }
        sleep(AGAIN).await;
    }
}

/// Watches calls that have ended, at whatever gateway, and compares what it is told with what their callers were told.
pub(super) async fn watch(mut gateways: Gateways, mut dice: Dice, seen: Arc<Seen>, stop: CancellationToken) {
    while !stop.is_cancelled() {
        sleep(AGAIN).await;
        let ended = {
            let ends = seen.ends.lock().unwrap();
            let chosen = dice.roll(ends.len().max(1));
            ends.iter().nth(chosen).map(|(id, end)| (id.clone(), end.clone()))
        };
        let Some((id, end)) = ended else { continue };
        let number = id.trim_start_matches("chaos-").parse().unwrap();
        let mut tools = ToolServiceClient::with_interceptor(gateways.next(), Shown(CARL, None));
        let watched = async {
            let stream = tools.watch_call(watch_request(&id, 0, OutputMode::Full)).await?;
            collect_watch(stream.into_inner()).await
        };
        if let Ok(Ok(events)) = timeout(PATIENCE, watched).await {
            assert_eq!(end_of(number, &events), end, "{id}");
            *seen.watched.lock().unwrap() += 1;
        }
    }
}

/// What is to happen.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Death,
    Crash,
    Cut,
}

/// Returns the faults in an order that follows from the dice; crashes of the database come evenly.
fn faults(size: Size, dice: &mut Dice) -> Vec<Fault> {
    let mut faults = vec![Fault::Death; size.deaths];
    for _ in 0..size.cuts {
        faults.insert(dice.roll(faults.len()), Fault::Cut);
    }
    for crash in 0..size.crashes {
        let place = faults.len() * (2 * crash + 1) / (2 * size.crashes);
        faults.insert(place, Fault::Crash);
    }
    faults
}

/// A process that is stopped, or a line that is cut, and until when.
enum Until {
    Continues(usize, Instant),
    Mended(usize, Instant),
}

struct Killer {
    fleet: Fleet,
    dice: Dice,
    lines: Vec<Arc<Line>>,
    pending: Vec<Until>,
    counts: BTreeMap<&'static str, usize>,
}

impl Killer {
    /// The processes: the gateways, then the workers.
    fn process(&mut self, number: usize) -> &mut Process {
        match number.checked_sub(GATEWAYS) {
            None => &mut self.fleet.gateways[number],
            Some(worker) => &mut self.fleet.workers[worker],
        }
    }

    fn is_stopped(&self, number: usize) -> bool {
        let mut pending = self.pending.iter();
        pending.any(|until| matches!(until, Until::Continues(process, _) if *process == number))
    }

    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    async fn fault(&mut self, fault: Fault, size: Size) {
        let home = self.fleet.home();
        match fault {
            Fault::Death => {
                let number = self.dice.roll(GATEWAYS + size.workers);
                if self.process(number).has_ended() {
                    self.process(number).spawn(&home);
                    self.count("ended by themselves");
                    return;
                }
                if self.is_stopped(number) {
                    // It dies while it is stopped.
                    self.pending
                        .retain(|until| !matches!(until, Until::Continues(process, _) if *process == number));
                } else if self.dice.roll(5) == 0 {
                    let time = self.dice.moment(LEASE / 2, LEASE * 2);
                    self.process(number).send(Signal::STOP);
                    self.pending.push(Until::Continues(number, Instant::now() + time));
                    self.count("stopped");
                    return;
                }
                let is_gateway = number < GATEWAYS;
                self.process(number).kill9().await;
                self.process(number).spawn(&home);
                self.count(if is_gateway {
                    "gateways killed"
                } else {
                    "workers killed"
                });
            }
            Fault::Crash => {
                self.fleet.database.crash();
                sleep(self.dice.moment(Duration::ZERO, LEASE)).await;
                self.fleet.database.resume().await;
                self.count("database crashed");
            }
            Fault::Cut => {
                let line = self.dice.roll(self.lines.len());
                let time = self.dice.moment(LEASE / 2, LEASE * 2);
                self.lines[line].set_cut(true);
                self.pending.push(Until::Mended(line, Instant::now() + time));
                self.count("lines cut");
            }
        }
    }

    /// Lets go on what was stopped for long enough, and starts again what has ended by itself.
    fn look_after(&mut self, all: bool) {
        let home = self.fleet.home();
        let now = Instant::now();
        for until in std::mem::take(&mut self.pending) {
            match until {
                Until::Continues(process, when) if all || when <= now => self.process(process).send(Signal::CONT),
                Until::Mended(line, when) if all || when <= now => self.lines[line].set_cut(false),
                later => self.pending.push(later),
            }
        }
        for number in 0..GATEWAYS + self.fleet.workers.len() {
            if self.process(number).has_ended() {
                self.process(number).spawn(&home);
                self.count("ended by themselves");
            }
        }
    }
}

/// Returns the first column of all rows.
async fn texts(client: &tokio_postgres::Client, sql: &str) -> Vec<String> {
    let rows = client.query(sql, &[]).await.unwrap();
    rows.iter().map(|row| row.get::<_, String>(0)).collect()
}

/// Compares the database with itself and with what clients were told.
pub(super) async fn check_database(fleet: &Fleet, seen: &Seen) {
    let client = fleet.database.connect("fleet").await.unwrap();
    let none = async |what: &str, sql: &str| {
        let found = texts(&client, sql).await;
        assert!(found.is_empty(), "{what}: {found:?}");
    };
    eventually("all is told that was stored", async || {
        texts(&client, "SELECT number::text FROM outbox").await.is_empty()
    })
    .await;
    none("calls without an end", "SELECT id FROM calls WHERE ended IS NULL").await;
    none(
        "logs with gaps, or that do not end with their calls",
        "SELECT c.id FROM calls c LEFT JOIN
             (SELECT day, call, min(first) AS first, max(last) AS last, sum(last - first + 1) AS events FROM events GROUP BY 1, 2) e
             ON e.day = c.day AND e.call = c.number
         WHERE e.first IS DISTINCT FROM 1 OR e.last <> c.last_sequence OR e.events <> c.last_sequence",
    )
    .await;
    none(
        "prompts that are still open",
        "SELECT id FROM prompts WHERE state = 'open'",
    )
    .await;
    none(
        "what is in the audit twice",
        "SELECT (record::json ->> 'kind') || ' ' || coalesce(record::json ->> 'prompt', record::json ->> 'call') FROM audit
         WHERE record::json ->> 'kind' IN ('admitted', 'ended', 'prompted', 'decided')
         GROUP BY record::json ->> 'kind', record::json ->> 'call', record::json ->> 'prompt' HAVING count(*) > 1",
    )
    .await;
    let stored: BTreeSet<String> = texts(&client, "SELECT id FROM calls").await.into_iter().collect();
    let ends = seen.ends.lock().unwrap().clone();
    for id in ends.keys() {
        assert!(stored.contains(id), "{id} is not stored");
    }
    let mut decisions = BTreeMap::new();
    for json in texts(&client, "SELECT prompt FROM prompts WHERE state = 'resolved'").await {
        let prompt: Value = serde_json::from_str(&json).unwrap();
        let id = prompt["id"].as_str().unwrap().to_owned();
        decisions.insert(id, prompt["decision"]["reply_id"].as_str().unwrap().to_owned());
    }
    for (prompt, (_, replies)) in &*seen.accepted.lock().unwrap() {
        let replies: Vec<&String> = replies.iter().collect();
        assert_eq!(
            replies,
            [&decisions[prompt]],
            "what was taken is what is stored of {prompt}"
        );
    }
}

/// Compares what ran with how the calls ended.
pub(super) fn check_what_ran(fleet: &Fleet, seen: &Seen) {
    let mut ran: BTreeMap<String, usize> = BTreeMap::new();
    for worker in fleet.names() {
        let file = fleet.path(&format!("worker-{worker}/own/ran"));
        for line in fs::read_to_string(file).unwrap_or_default().lines() {
            let number = line.trim_start_matches("ask ").to_owned();
            *ran.entry(format!("chaos-{number}")).or_default() += 1;
        }
    }
    for (call, end) in &*seen.ends.lock().unwrap() {
        let times = ran.get(call).copied().unwrap_or(0);
        match end {
            End::Completed => assert_eq!(times, 1, "{call} has completed"),
            End::Lost | End::Stopped => assert!(times <= 1, "{call} ran {times} times"),
        }
    }
}

async fn everything_dies(size: Size, seed: u64) {
    let mut dice = Dice(seed);
    // Nobody compares two clocks, so all may be wrong but the database's.
    let clocks = [Clock::Right, Clock::Ahead, Clock::Behind].into_iter().cycle();
    let plan = Plan {
        gateways: clocks.clone().take(GATEWAYS).collect(),
        workers: clocks.skip(1).take(size.workers).collect(),
        ..Plan::default()
    };
    let (fleet, lines) = Fleet::with_lines(plan).await;
    let channel = |gateway: &Process| Endpoint::try_from(format!("http://{}", gateway.address)).unwrap();
    let channels: Vec<Channel> = fleet
        .gateways
        .iter()
        .map(|gateway| channel(gateway).connect_timeout(PATIENCE).connect_lazy())
        .collect();
    let gateways = |next: usize| Gateways {
        channels: channels.clone(),
        next,
    };
    let workspaces: Vec<String> = fleet.names().iter().map(|name| format!("w{name}")).collect();
    let seen = Arc::new(Seen::default());
    let (stop, over) = (CancellationToken::new(), CancellationToken::new());
    let (mut others, mut callers) = (JoinSet::new(), JoinSet::new());
    for number in 0..APPROVERS {
        let approver = Approver {
            gateways: gateways(number),
            number,
        };
        others.spawn(approver.approve(seen.accepted.clone(), over.clone()));
    }
    for number in 0..WATCHERS {
        let dice = Dice(seed ^ (number as u64 + 1));
        others.spawn(watch(gateways(number), dice, seen.clone(), over.clone()));
    }
    for first in 0..CALLERS {
        let (mut gateways, seen, stop, workspaces) = (gateways(first), seen.clone(), stop.clone(), workspaces.clone());
        callers.spawn(async move {
            let mut number = first;
            while !stop.is_cancelled() {
                call(&mut gateways, number, &workspaces[number % workspaces.len()], &seen).await;
                number += CALLERS;
            }
        });
    }

    let mut killer = Killer {
        fleet,
        lines,
        pending: Vec::new(),
        counts: BTreeMap::new(),
        dice: Dice(dice.roll(usize::MAX) as u64),
    };
    for fault in faults(size, &mut dice) {
        let pause = dice.moment(Duration::from_millis(200), Duration::from_millis(1_200));
        let until = Instant::now() + pause;
        while Instant::now() < until {
            killer.look_after(false);
            sleep(Duration::from_millis(20)).await;
        }
        killer.fault(fault, size).await;
    }
    stop.cancel();
    let calm = async {
        let mut ticks = tokio::time::interval(Duration::from_millis(50));
        loop {
            tokio::select! {
                caller = callers.join_next() => match caller {
                    Some(caller) => caller.unwrap(),
                    None => return,
                },
                _ = ticks.tick() => killer.look_after(true),
            }
        }
    };
    let has_ended = timeout(CALM, calm).await.is_ok();
    over.cancel();
    let fleet = &killer.fleet;
    if !has_ended {
        for process in fleet.gateways.iter().chain(&fleet.workers) {
            println!("{}", process.log());
        }
        panic!("calls have no end {CALM:?} after the last fault");
    }
    while let Some(other) = timeout(CALM, others.join_next())
        .await
        .expect("everybody comes to an end")
    {
        other.unwrap();
    }
    check_what_ran(fleet, &seen);
    check_database(fleet, &seen).await;
    fleet.assert_calm();
    let ends = seen.ends.lock().unwrap();
    let lost = ends.values().filter(|end| **end == End::Lost).count();
    let (decided, watched) = (seen.accepted.lock().unwrap().len(), *seen.watched.lock().unwrap());
    println!(
        "{} calls, {lost} lost, {decided} replies taken, {watched} watched again; {:?}",
        ends.len(),
        killer.counts
    );
    // How much more depends on how busy the machine is.
    assert!(ends.len() > CALLERS && decided > 0 && watched > 0);
}

#[test]
fn what_was_acknowledged_is_kept_whatever_dies() {
    let seed = seed("TOOLGATE_CHAOS_SEED");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(everything_dies(Size::wanted(), seed));
    runtime.shutdown_timeout(Duration::from_secs(1));
}
