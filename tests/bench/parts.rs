//! One output of 1 GB through the store: bytes a second, and the processor time of everything that has to do with it.
//!
//! *Invariant:* the same bytes each time, in one run: without a bucket, with one, and put by permission as a worker does. The servers
//! are on this machine and take their share of its cores.

use std::collections::BTreeMap;
use std::time::Instant;

use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use toolgate_model::InstanceId;
use toolgate_postgres::{PostgresOptions, PostgresStore};
use toolgate_store::ledger::{FIRST_PART, Hold, Ledger as _, PART_BYTES, Part};
use toolgate_store::{OutputOwner, OutputRetention, Outputs as _, Upkeep as _};

use crate::s3::S3;
use crate::server::Server;
use crate::suite;

const BYTES: u64 = 1 << 30;

/// What one append brings.
const PIECE: u64 = 256 << 10;

/// Processor time of this process and all that it has started, in seconds.
fn processor_seconds() -> f64 {
    let mut processes = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else {
            continue;
        };
        let (before, after) = (stat.find(' ').unwrap(), stat.rfind(')').unwrap());
        let fields: Vec<i64> = stat[after + 4..]
            .split(' ')
            .map_while(|field| field.trim().parse().ok())
            .collect();
        // The parent, and then user and system time, of itself and of children that have ended.
        processes.insert(
            stat[..before].parse::<i64>().unwrap(),
            (fields[0], fields[10..14].iter().sum::<i64>()),
        );
    }
    let own = i64::from(std::process::id());
    let is_ours = |mut id: i64| loop {
        match processes.get(&id) {
            _ if id == own => return true,
            Some((parent, _)) => id = *parent,
            None => return false,
        }
    };
    let ticks = processes
        .iter()
        .filter(|(id, _)| is_ours(**id))
        .map(|(_, (_, ticks))| ticks)
        .sum::<i64>();
    ticks as f64 / 100.0
}

/// Bytes of which no two pieces are the same, cheaply made, about as compressible as a log.
fn content(from: u64, length: u64) -> Bytes {
    let lines = from / 64..(from + length) / 64;
    lines
        .flat_map(|line| format!("{line:>20} {:>42}\n", line.wrapping_mul(0x9e37_79b9_7f4a_7c15)).into_bytes())
        .collect()
}

async fn measured(what: &str, work: impl Future<Output = ()>) {
    let (begun, before) = (Instant::now(), processor_seconds());
    work.await;
    let (time, processor) = (begun.elapsed().as_secs_f64(), processor_seconds() - before);
    println!(
        "{what}: {:.0} MB/s, {processor:.1} s of processor time in all",
        BYTES as f64 / 1e6 / time
    );
}

fn owner(instance: &InstanceId) -> OutputOwner {
    OutputOwner::from(&suite::record("c", instance))
}

async fn write_and_read(store: &PostgresStore, instance: &InstanceId, what: &str) {
    let mut writer = store.create_output(owner(instance)).await.unwrap();
    let id = writer.id().clone();
    measured(&format!("{what}, written"), async {
        for at in 0..BYTES / PIECE {
            writer.append(content(at * PIECE, PIECE)).await.unwrap();
        }
    })
    .await;
    read(store, &id, what).await;
    writer.finish().await.unwrap();
}

async fn read(store: &PostgresStore, id: &toolgate_model::OutputId, what: &str) {
    measured(&format!("{what}, read"), async {
        let mut at = 0;
        while at < BYTES {
            let read = store.read(id, at, (4 << 20).min((BYTES - at) as usize)).await.unwrap();
            assert!(!read.is_empty());
            at += read.len() as u64;
        }
    })
    .await;
}

async fn put(store: &PostgresStore, hold: &Hold) {
    let mut writer = store.create_output(owner(&hold.run)).await.unwrap();
    writer.append(content(0, FIRST_PART)).await.unwrap();
    let id = writer.id().clone();
    let client = reqwest::Client::new();
    measured("put by permission", async {
        for number in 0..BYTES / PART_BYTES {
            let start = FIRST_PART + number * PART_BYTES;
            let bytes = content(start, PART_BYTES);
            let sha256 = hex::encode(Sha256::digest(&bytes));
            let part = Part { start, sha256 };
            let upload = store.presign_part(hold, &id, &part).await.unwrap().unwrap();
            let mut request = client.put(&upload.url).body(bytes);
            for (name, value) in &upload.headers {
                request = request.header(name, value);
            }
            request.send().await.unwrap().error_for_status().unwrap();
            store.record_part(hold, &id, &part, &upload.object).await.unwrap();
        }
    })
    .await;
    read(store, &id, "put by permission").await;
    writer.finish().await.unwrap();
}

/// Measures in a database that has its tables.
pub(crate) async fn run(server: &Server, database: &str) {
    let s3 = S3::start(false).await;
    for bucket in [None, Some(s3.bucket(None, "bench"))] {
        let what = if bucket.is_some() {
            "1 GB, with a bucket"
        } else {
            "1 GB, in the database"
        };
        let instance = InstanceId::generate();
        let has_bucket = bucket.is_some();
        let options = PostgresOptions {
            bucket,
            ..PostgresOptions::new(server.address(database))
        };
        let store = PostgresStore::open(options, instance.clone()).await.unwrap();
        write_and_read(&store, &instance, what).await;
        if has_bucket {
            let hold = Hold {
                workspace: "main".to_owned(),
                run: instance.clone(),
                principal: "bench".to_owned(),
                epoch: 1,
            };
            let held = format!(
                "INSERT INTO workspaces (id, owner, epoch, principal) VALUES ('main', '{instance}', 1, 'bench')"
            );
            server.run(database, &held).await;
            put(&store, &hold).await;
        }
        let keep = OutputRetention {
            before: toolgate_model::Timestamp::now().after(std::time::Duration::from_secs(60)),
            max_total_bytes: 0,
        };
        store.sweep_outputs(keep).await.unwrap();
        store.close().await.unwrap();
    }
}
