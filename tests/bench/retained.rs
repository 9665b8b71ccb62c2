//! Old calls are deleted while new ones come: the deleting keeps up, nobody waits for it, and the space comes back.
//!
//! *Invariant:* what is looked at is the database as another program sees it, a moment at a time, and the longest that a client waited.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use rusqlite::{Connection, OpenFlags};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::measure::Samples;
use crate::service::{Service, Tools, execute, folder, request};
use crate::table::{Row, show_bytes, show_time};
use crate::{MIB, Report};

const CLIENTS: usize = 16;

/// What is kept. The service looks for the first time a minute after its start.
const KEPT: Duration = Duration::from_secs(30);
const FIRST_LOOK: Duration = Duration::from_secs(60);

/// How often the database is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// How long the old calls may take to go, and the space to come back.
const PATIENCE: Duration = Duration::from_secs(180);

/// What a pause may take. A machine with more to do has longer ones, which the time beside shows.
const PAUSE: Duration = Duration::from_millis(50);

/// What may stay free in the file: less is not worth the work.
const FREE: u64 = 16 * MIB;

/// What another program sees of the database.
#[derive(Clone, Copy, Debug)]
struct Seen {
    first: u64,
    last: u64,
    bytes: u64,
    free: u64,
}

fn look(db: &Connection) -> Result<Seen> {
    let one = |sql: &str| db.query_row(sql, [], |row| row.get::<_, i64>(0)).map(i64::unsigned_abs);
    let page = one("PRAGMA page_size")?;
    Ok(Seen {
        first: one("SELECT coalesce(min(number), 0) FROM calls")?,
        last: one("SELECT coalesce(max(number), 0) FROM calls")?,
        bytes: one("PRAGMA page_count")? * page,
        free: one("PRAGMA freelist_count")? * page,
    })
}

/// Reads and commands without a pause until `stop`.
async fn call(mut tools: Tools, client: usize, calls: Arc<AtomicU64>, stop: CancellationToken) -> Result<()> {
    let session = format!("retained-{client}");
    for round in 0.. {
        if stop.is_cancelled() {
            break;
        }
        let input = json!({"filePath": "a.txt", "limit": round % 7 + 1});
        execute(&mut tools, request(&session, "read", input)).await?;
        calls.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// One client that makes one small call after another, and takes the time of each.
async fn probe(mut tools: Tools, stop: CancellationToken) -> Result<Vec<(Instant, Duration)>> {
    let mut times = Vec::new();
    while !stop.is_cancelled() {
        let begun = Instant::now();
        let input = json!({"filePath": "a.txt", "limit": times.len() % 7 + 1});
        execute(&mut tools, request("probe", "read", input)).await?;
        times.push((begun, begun.elapsed()));
        sleep(Duration::from_millis(2)).await;
    }
    Ok(times)
}

/// Measures a service that keeps calls for half a minute only.
pub(crate) async fn run(program: &Path, report: &mut Report) -> Result<()> {
    let workspace = folder()?;
    fs::write(workspace.path().join("a.txt"), "a line\n".repeat(50))?;
    let kept = format!("{}s", KEPT.as_secs());
    let variables = [
        ("TOOLGATE_RETENTION_CALLS", kept.clone()),
        ("TOOLGATE_RETENTION_JOURNAL", kept.clone()),
        ("TOOLGATE_RETENTION_OUTPUTS", kept),
    ];
    let service = Service::of(program, workspace.path(), &json!({}), &variables).await?;
    let database = service.data_dir().join("toolgate.db");
    let (calls, stop) = (Arc::new(AtomicU64::new(0)), CancellationToken::new());
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        clients.spawn(call(service.tools().await?, client, calls.clone(), stop.clone()));
    }
    let probing = {
        let (tools, stop) = (service.tools().await?, stop.clone());
        let mut probing = JoinSet::new();
        probing.spawn(probe(tools, stop));
        probing
    };
    let outcome = follow(&database, &calls, report).await;
    stop.cancel();
    while let Some(client) = clients.join_next().await {
        client??;
    }
    let times = probing.join_all().await.pop().context("no probe")??;
    let (from, until) = outcome?;
    judge_pauses(&times, from, until, report)?;
    given_back(&database, report).await?;
    service.stop().await
}

/// Follows the first time that old calls are deleted; returns from when until when.
async fn follow(database: &Path, calls: &AtomicU64, report: &mut Report) -> Result<(Instant, Instant)> {
    let db = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let begun = Instant::now();
    let first = look(&db)?.first;
    while look(&db)?.first <= first.max(1) {
        ensure!(begun.elapsed() < FIRST_LOOK + PATIENCE, "nothing is deleted");
        sleep(LOOK).await;
    }
    let (from, before) = (Instant::now(), (look(&db)?, calls.load(Ordering::Relaxed)));
    // Over when for a while no more go than come: what has become old meanwhile may wait for the next time.
    let mut last = (Instant::now(), before.0.first);
    while last.0.elapsed() < Duration::from_secs(3) {
        sleep(LOOK).await;
        let seen = look(&db)?;
        if seen.first > last.1 {
            last = (Instant::now(), seen.first);
        }
        if from.elapsed() > PATIENCE {
            break;
        }
    }
    let took = last.0.duration_since(from).max(LOOK);
    let rate = |count: u64, time: Duration| count as f64 / time.as_secs_f64();
    let deleted = rate(last.1 - before.0.first, took);
    let made = rate(calls.load(Ordering::Relaxed) - before.1, from.elapsed());
    let seen = look(&db)?;
    let what = "retention: calls deleted a second, while others are made";
    report.rows.push(Row::rate(what, deleted, ("made", made), Some(made)));
    if deleted < made {
        report
            .faults
            .push(format!("{deleted:.0} calls are deleted a second, and {made:.0} made"));
    }
    let detail = format!(
        "{} calls in {}; {} of the file are free",
        last.1 - first,
        show_time(took),
        show_bytes(seen.free)
    );
    let stored = (seen.last - seen.first).to_string();
    report
        .rows
        .push(Row::told("retention: calls that are left", detail, stored));
    Ok((from, last.0))
}

/// Compares what the probe waited while old calls went with what it waited before.
fn judge_pauses(times: &[(Instant, Duration)], from: Instant, until: Instant, report: &mut Report) -> Result<()> {
    let of = |is_meanwhile: bool| {
        let chosen = times
            .iter()
            .filter(|(at, _)| (*at + PAUSE >= from && *at <= until) == is_meanwhile);
        Samples::new(chosen.map(|(_, time)| *time).collect())
    };
    let (meanwhile, otherwise) = (of(true)?, of(false)?);
    let row = Row::more(
        "retention: a call while others are deleted, p99",
        99,
        &meanwhile,
        ("otherwise", &otherwise),
        PAUSE,
    );
    report.rows.push(row);
    let worst = meanwhile.percentile(100);
    let row = Row::time(
        "retention: the longest call while others are deleted",
        &meanwhile,
        worst,
        PAUSE,
    );
    report
        .rows
        .push(row.beside(&format!("otherwise {}", show_time(otherwise.percentile(100)))));
    Ok(())
}

/// Nobody calls any more: the file becomes as small as what is in it.
async fn given_back(database: &Path, report: &mut Report) -> Result<()> {
    let db = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let begun = Instant::now();
    let before = look(&db)?;
    let mut seen = before;
    while seen.free > FREE && begun.elapsed() < PATIENCE / 6 {
        sleep(LOOK).await;
        seen = look(&db)?;
    }
    let detail = format!(
        "of {}; {} of {} when the last call had ended",
        show_bytes(seen.bytes),
        show_bytes(before.free),
        show_bytes(before.bytes)
    );
    report.rows.push(Row::memory(
        "retention: free in the file of the database",
        detail,
        seen.free,
        FREE,
    ));
    Ok(())
}
