//! Thousands who watch the calls of a fleet, half of them at each of two gateways, whose outputs go to a bucket.
//!
//! *Invariant:* every watcher sees the whole of its call. All parts are processes of their own, and share this machine's cores with whoever
//! watches.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use toolgate_contract::ExecuteToolRequest;

use crate::many::Many;
use crate::measure::Samples;
use crate::processes::Processors;
use crate::s3::S3;
use crate::service::{execute, request, tools};
use crate::table::{Row, show_bytes, show_time};
use crate::watcher::{Stage, watch};
use crate::{GROUP, MARK, MIB, PATIENCE, Report, come_to_the_end, command, end};

/// Calls that are watched.
const CALLS: usize = 100;

/// Streams on one connection.
const STREAMS: usize = 200;

/// Bytes of an output, most of which goes to the bucket, and how often it is measured.
const LONG: usize = 40 << 20;
const ROUNDS: usize = 5;

/// Measures it for so many seconds.
pub(crate) async fn run(count: usize, seconds: u64, report: &mut Report) -> Result<()> {
    let s3 = S3::start(false).await;
    let many = Many::start(2, Some(&s3.endpoint(None))).await?;
    let resident = |gateway: usize| anyhow::Ok(many.gateways[gateway].serving()?.memory()?.resident);
    let before = resident(0)?.max(resident(1)?);
    let mut client = tools(many.connect(0).await?);
    let mut calls = Vec::new();
    for number in 0..CALLS {
        let mut stream = client.execute_tool(in_main(command(number))).await?.into_inner();
        let event = stream.message().await?.and_then(|message| message.event);
        calls.push(event.context("a call without an event")?.call_id);
    }
    let stage = Arc::new(Stage::default());
    let mut all = JoinSet::new();
    let begun = Instant::now();
    for first in (0..count).step_by(STREAMS) {
        // One connection at one gateway, the next at the other.
        let client = tools(many.connect(first / STREAMS % 2).await?);
        for number in first..count.min(first + STREAMS) {
            // Each call is watched at both.
            let id = calls[(number + number / STREAMS) % CALLS].clone();
            all.spawn(watch(client.clone(), id, false, stage.clone()));
        }
    }
    timeout(PATIENCE, stage.all_have_read(count))
        .await
        .context("some watchers have read nothing")?;
    let opened = begun.elapsed();

    let pids = [many.gateways[0].serving()?.pid()?, many.gateways[1].serving()?.pid()?];
    let own = |pid: u32| anyhow::Ok(Processors::of(pid)?.own);
    stage.begin().await?;
    let (begun, used) = (Instant::now(), own(pids[0])? + own(pids[1])?);
    sleep(Duration::from_secs(seconds)).await;
    let used = own(pids[0])? + own(pids[1])? - used;
    let share = 50.0 * used.as_secs_f64() / begun.elapsed().as_secs_f64();
    let delays = Samples::new(stage.delays().await?)?;
    let most = resident(0)?.max(resident(1)?);
    let what = format!("memory of a gateway, each with half of {count} watchers");
    let detail = format!("{} before; all read within {}", show_bytes(before), show_time(opened));
    report.rows.push(Row::memory(&what, detail, most, 200 * MIB));
    let what = format!("from a command's write to one of {count} watchers: p99");
    let limit = Duration::from_millis(50);
    report
        .rows
        .push(Row::time(&what, &delays, delays.percentile(99), limit));
    report.rows.push(Row::told(
        "processor time of each gateway meanwhile, of one core",
        format!("{} lines were seen in {seconds} s", delays.len()),
        format!("{share:.0} %"),
    ));

    let mut times = Vec::new();
    for round in 0..ROUNDS {
        let input = json!({"command": format!(": {MARK}; head -c {LONG} /dev/zero | tr '\\0' x"), "description": round.to_string()});
        times.push(execute(&mut client, in_main(request("long", "bash", input))).await?.0);
    }
    let times = Samples::new(times)?;
    let detail = format!("{} parts are in the bucket", s3.names("fleet").len());
    ensure!(!s3.names("fleet").is_empty(), "nothing is in the bucket");
    let what = format!(
        "a command that prints {}, most of it for the bucket, meanwhile",
        show_bytes(LONG as u64)
    );
    report.rows.push(Row::told(&what, detail, show_time(times.median())));

    eprintln!("ending all …");
    end(many.gateways[0].serving()?, CALLS.next_multiple_of(GROUP)).await?;
    let seen = come_to_the_end(&mut all, report).await?;
    let detail = format!(
        "of {count}, who saw {} lines",
        seen.iter().map(|one| one.lines).sum::<u64>()
    );
    let missed = count - seen.len();
    report
        .rows
        .push(Row::count("watchers that missed something", detail, missed, 0));
    many.stop().await
}

/// Makes a call at the worker that is there.
fn in_main(mut asked: ExecuteToolRequest) -> ExecuteToolRequest {
    "main".clone_into(&mut asked.context.get_or_insert_default().workspace);
    asked
}
