//! Large things: much output, and the end of a large file.
//!
//! *Invariant:* the service's memory is looked at from outside, as the kernel counts it.

use std::fs::{self, File};
use std::io::{BufWriter, Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use toolgate_contract::output_service_client::OutputServiceClient;
use toolgate_contract::{CallCompleted, DeleteOutputRequest};

use crate::cost::Meter;
use crate::measure::{in_turns, turns};
use crate::service::{self, SHELL, Service, Tools, environment, execute, folder, request};
use crate::table::{Row, show_bytes};
use crate::{Plan, bare};

const MIB: u64 = 1 << 20;

/// A line of output.
const LINE: &str = "a line of output such as a build prints: compiling module 4711 of 10000";

/// 200 MB of command output with one reader against a bare service that keeps and streams it, and that against the same command
/// into a file.
pub(crate) async fn output(plan: Plan) -> Result<Vec<Row>> {
    const BYTES: u64 = 200_000_000;
    let workspace = folder()?;
    let service = Service::start(workspace.path()).await?;
    let mut client = service.tools().await?;
    // Kept until the end, as the service's home is not.
    let home = folder()?;
    let target = home.path().join("floor");
    let print = format!("yes '{LINE}' | head -c {BYTES}");
    let streamed = async |client: &mut Tools, round: usize| {
        let input = json!({"command": print, "description": round.to_string()});
        let (time, completed, streamed) = execute(client, request("bench", bare::BASH, input)).await?;
        ensure!(streamed == BYTES, "the stream had {streamed} bytes");
        Ok((time, completed.truncation.unwrap_or_default().output_id))
    };
    let into_a_file = async |_| {
        let mut command = Command::new(SHELL);
        command.arg("-c").arg(format!("{print} > {}", target.display()));
        command.env_clear().envs(environment(home.path())).stdin(Stdio::null());
        let begin = Instant::now();
        let status = command.status()?;
        let time = begin.elapsed();
        ensure!(status.success(), "the shell ended with {status}");
        ensure!(fs::metadata(&target)?.len() == BYTES, "the file is incomplete");
        fs::remove_file(&target)?;
        Ok(time)
    };
    let rounds = plan.samples(7, 2);
    let mut outputs = OutputServiceClient::new(service.connect().await?);
    let peer = bare::start(&[], workspace.path()).await?;
    let mut peer_client = service::tools(peer.connect().await?);
    let kept = async |round| {
        let (time, output_id) = streamed(&mut client, round).await?;
        // Deleted like the file of the floor: the next one that is written then finds the same memory free.
        outputs.delete_output(DeleteOutputRequest { output_id }).await?;
        Ok(time)
    };
    let before = service.memory()?.resident;
    let meters = (Meter::start(service.pid()?, None)?, Meter::start(peer.pid()?, None)?);
    let bare = async |round| Ok(streamed(&mut peer_client, round).await?.0);
    let (ours, floor) = in_turns(rounds, kept, bare).await?;
    let costs = (meters.0.each_of(turns(rounds))?, meters.1.each_of(turns(rounds))?);
    service.stop().await?;
    let bare = async |round| Ok(streamed(&mut peer_client, round).await?.0);
    let (least, least_floor) = in_turns(rounds, bare, into_a_file).await?;
    let name = "a bare tonic service that keeps and streams it";
    Ok(vec![
        Row::ratio("200 MB of output, one reader", &ours, (name, &floor), Some(0.8)).costing(costs.0, Some(costs.1)),
        growth("200 MB of output, memory for it", before, costs.0.peak, 32 * MIB),
        Row::ratio(
            "200 MB of output by a bare tonic service",
            &least,
            ("sh -c '… > file'", &least_floor),
            None,
        ),
    ])
}

fn growth(what: &str, before: u64, peak: u64, target: u64) -> Row {
    let detail = format!("{} to {}", show_bytes(before), show_bytes(peak));
    Row::memory(what, detail, peak.saturating_sub(before), target)
}

/// `read` near the end of 1 GB against `wc -l`, and against a scan that counts line feeds.
pub(crate) async fn tail(plan: Plan) -> Result<Vec<Row>> {
    const LINES: u64 = 14_000_000;
    const SHOWN: u64 = 100;
    let workspace = folder()?;
    let path = workspace.path().join("large.txt");
    write_lines(&path, LINES)?;
    fs::write(workspace.path().join("small.txt"), "text\n")?;
    let service = Service::start(workspace.path()).await?;
    let mut client = service.tools().await?;
    // What every first call occupies is not due to the size of the file.
    execute(&mut client, request("bench", "read", json!({"filePath": "small.txt"}))).await?;
    let before = service.memory()?.resident;
    let meter = Meter::start(service.pid()?, None)?;
    let first = LINES - 1000;
    let mut shown = 0;
    let mut read = async |_: usize| {
        // Never the same lines again.
        shown += 1;
        let input = json!({"filePath": "large.txt", "offset": first + shown, "limit": SHOWN});
        let (time, completed, _) = execute(&mut client, request("bench", "read", input)).await?;
        check(&completed, first + shown)?;
        Ok(time)
    };
    let rounds = plan.samples(9, 3);
    let (ours, floor) = in_turns(rounds, &mut read, async |_| {
        let begin = Instant::now();
        let counted = Command::new("wc").arg("-l").arg(&path).output()?;
        let time = begin.elapsed();
        let counted = String::from_utf8(counted.stdout)?;
        ensure!(counted.starts_with(&LINES.to_string()), "wc -l counts {counted}");
        Ok(time)
    })
    .await?;
    let cost = meter.each_of(turns(rounds))?;
    let (again, scanned) = in_turns(rounds, &mut read, async |round| {
        let begin = Instant::now();
        let lines = scan(&path, first + round as u64)?;
        let time = begin.elapsed();
        ensure!(lines == LINES, "the scan counts {lines} lines");
        Ok(time)
    })
    .await?;
    service.stop().await?;
    Ok(vec![
        Row::ratio("read near the end of 1 GB", &ours, ("wc -l", &floor), Some(1.2)).costing(cost, None),
        growth("read near the end of 1 GB, memory for it", before, cost.peak, 8 * MIB),
        Row::ratio(
            "read near the end of 1 GB, over a scan",
            &again,
            ("memchr scan", &scanned),
            None,
        ),
    ])
}

fn write_lines(path: &Path, lines: u64) -> Result<()> {
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    for number in 1..=lines {
        writeln!(file, "{LINE} {number:07}")?;
    }
    file.flush().context("writing the large file")
}

fn check(completed: &CallCompleted, first: u64) -> Result<()> {
    let is_there = completed.output.contains(&format!("{first}: {LINE}"));
    ensure!(is_there, "line {first} is not in the result: {}", completed.output);
    Ok(())
}

/// Counts the lines of a file, and keeps the block in which line `first` begins, as `tail` would to print it.
fn scan(path: &Path, first: u64) -> Result<u64> {
    let mut file = File::open(path)?;
    let mut buffer = vec![0; 256 << 10];
    let (mut lines, mut kept) = (0, Vec::new());
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            std::hint::black_box(&kept);
            return Ok(lines);
        }
        lines += memchr::memchr_iter(b'\n', &buffer[..count]).count() as u64;
        if lines >= first && kept.is_empty() {
            kept.extend_from_slice(&buffer[..count]);
        }
    }
}
