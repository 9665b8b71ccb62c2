//! The store on PostgreSQL: whole calls a second, beside what the same server does of the simplest transaction.
//!
//! And an output of 1 GB: see `parts`, which `cargo bench … -- parts` does alone.
//!
//! *Invariant:* both wait for the disk and have the same number of clients, in turns, in one run: read the ratio.

#![allow(clippy::disallowed_methods)] // benchmarks make the folders and programs they work with
#![allow(clippy::unwrap_used)] // what a benchmark needs is there, or it fails
#![allow(dead_code, unused_imports, unused_macros)] // the tests of the store use more of these

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use toolgate_model::{InstanceId, Timestamp};
use toolgate_postgres::{PostgresOptions, PostgresStore, migrate};
use toolgate_store::audit::{Fact, Kind};
use toolgate_store::{Audit as _, CallLog as _, Upkeep as _};

use crate::server::Server;

mod parts;
#[path = "../../crates/postgres/tests/store/s3.rs"]
mod s3;
#[path = "../../crates/postgres/tests/store/s3_bucket.rs"]
mod s3_bucket;
#[path = "../../crates/postgres/tests/store/server.rs"]
mod server;
#[path = "../it/store/suite.rs"]
mod suite;

const CLIENTS: u64 = 32;
const ROUNDS: usize = 3;
const ROUND: Duration = Duration::from_secs(5);

/// Has all clients do the same until the round is over; returns how often a second.
async fn rate<W>(client: impl Fn(u64) -> W) -> f64
where
    W: Future<Output = u64> + Send + 'static,
{
    let begun = Instant::now();
    let mut clients = JoinSet::new();
    (0..CLIENTS).for_each(|number| drop(clients.spawn(client(number))));
    let done: u64 = clients.join_all().await.into_iter().sum();
    done as f64 / begun.elapsed().as_secs_f64()
}

async fn inserts(server: &Server) -> f64 {
    let mut connections = Vec::new();
    for _ in 0..CLIENTS {
        connections.push(Arc::new(server.connect("bench").await.unwrap()));
    }
    rate(|number| {
        let connection = Arc::clone(&connections[number as usize]);
        async move {
            let (begun, mut done, text) = (Instant::now(), 0, "x".repeat(500));
            let insert = connection
                .prepare("INSERT INTO floor (text) VALUES ($1)")
                .await
                .unwrap();
            while begun.elapsed() < ROUND {
                connection.execute(&insert, &[&text]).await.unwrap();
                done += 1;
            }
            done
        }
    })
    .await
}

/// Calls from their beginning to their end, two transactions each; with a note of the audit where rules have allowed them.
async fn calls(store: &Arc<PostgresStore>, instance: &InstanceId, is_noted: bool) -> f64 {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    rate(|_| {
        let (store, instance) = (Arc::clone(store), instance.clone());
        async move {
            let (begun, mut done) = (Instant::now(), 0);
            while begun.elapsed() < ROUND {
                let id = format!("call-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
                let mut call = suite::record(&id, &instance);
                call.created = Timestamp::now();
                let events = suite::grow(&mut call, 2);
                store.create_call(call.clone(), events).await.unwrap();
                if is_noted {
                    store.audit(Fact::new(Kind::Allowed));
                }
                let events = suite::end(&mut call, Timestamp::now());
                store.append(call, events).await.unwrap();
                done += 1;
            }
            done
        }
    })
    .await
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

#[tokio::main]
async fn main() {
    let server = Server::start(false).await;
    server.run("postgres", "CREATE DATABASE bench").await;
    let options = PostgresOptions {
        connections: CLIENTS as usize,
        ..PostgresOptions::new(server.address("bench"))
    };
    migrate(&options).await.unwrap();
    server
        .run("bench", "CREATE TABLE floor (number bigserial PRIMARY KEY, text text)")
        .await;
    if std::env::args().any(|word| word == "parts") {
        return parts::run(&server, "bench").await;
    }
    let instance = InstanceId::generate();
    let store = Arc::new(PostgresStore::open(options, instance.clone()).await.unwrap());
    let (mut floors, mut plain, mut noted) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        floors.push(inserts(&server).await);
        plain.push(calls(&store, &instance, false).await);
        let begun = Instant::now();
        let records = store.audit_end().await.unwrap().head.sequence;
        let behind = begun.elapsed();
        noted.push(calls(&store, &instance, true).await);
        println!(
            "round {round}: {:.0} inserts/s, {:.0} calls/s, {:.0} with a note; {records} records, the last after {} ms",
            floors[round],
            plain[round],
            noted[round],
            behind.as_millis()
        );
    }
    let (floor, plain, noted) = (median(floors), median(plain), median(noted));
    println!("{CLIENTS} clients, fsync on: {floor:.0} plain inserts/s");
    for (name, calls) in [("whole calls", plain), ("whole calls, each with a note", noted)] {
        println!(
            "{name}: {calls:.0} calls/s, {:.2} transactions for each plain insert",
            2.0 * calls / floor
        );
    }
    store.close().await.unwrap();
    parts::run(&server, "bench").await;
}
