//! The server crashes in the middle of writes: what was acknowledged is there, and nothing is there twice.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use toolgate_model::{CallId, InstanceId, ServiceEvent, ServiceEventKind, Timestamp};
use toolgate_postgres::{PostgresOptions, PostgresStore};
use toolgate_store::audit::{Fact, Kind, Record, Verifier};
use toolgate_store::{Audit as _, CallLog as _, Created, Journal as _, Outputs as _, Upkeep as _};

use crate::fixture::{database, make_template};
use crate::server::Server;
use crate::store::{end, grow, record};

const CLIENTS: u64 = 8;
const CRASHES: u64 = 3;

/// What a client was told.
#[derive(Default)]
struct Told {
    created: BTreeSet<String>,
    ended: BTreeSet<String>,
}

/// Writes calls from their beginning to their end until it is time, whatever becomes of the server.
async fn client(store: Arc<PostgresStore>, name: u64, instance: InstanceId, is_over: Arc<AtomicBool>) -> Told {
    let mut told = Told::default();
    for number in 0_u64.. {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        let id = format!("{name}-{number}");
        let mut call = record(&id, &instance);
        let events = grow(&mut call, 2);
        match store.create_call(call.clone(), events).await {
            Ok(Created::New) => told.created.insert(id.clone()),
            Ok(Created::Taken(_)) => panic!("{id} is new"),
            Err(_) => {
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            }
        };
        let events = end(&mut call, Timestamp(9));
        if store.append(call, events).await.is_ok() {
            told.ended.insert(id);
        }
    }
    told
}

/// Tells of something that is no change, over and over. Returns how often.
async fn teller(store: Arc<PostgresStore>, is_over: Arc<AtomicBool>) -> u64 {
    let count = AtomicU64::new(0);
    while !is_over.load(Ordering::Relaxed) {
        let number = count.fetch_add(1, Ordering::Relaxed);
        store.audit(Fact {
            reason: number.to_string(),
            ..Fact::new(Kind::Allowed)
        });
        store.record(ServiceEvent {
            workspace: number.to_string(),
            session: None,
            time: Timestamp(1),
            kind: ServiceEventKind::SessionEnded,
        });
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    count.into_inner()
}

async fn records(store: &PostgresStore) -> Vec<Record> {
    let end = store.audit_end().await.unwrap();
    let lines = store.audit_lines(0, usize::MAX).await.unwrap();
    let mut verifier = Verifier::default();
    lines
        .iter()
        .for_each(|line| verifier.line(line.json.as_bytes()).unwrap());
    verifier.line(end.head.line(lines.len() as u64).as_bytes()).unwrap();
    verifier.finish().unwrap();
    lines
        .iter()
        .map(|line| serde_json::from_str(&line.json).unwrap())
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_was_acknowledged_is_lost_and_nothing_is_there_twice() {
    let server = Server::start(false).await;
    make_template(&server).await;
    let address = server.address(&database(&server).await);
    let instance = InstanceId::generate();
    let options = || PostgresOptions::new(address.clone());
    let store = Arc::new(PostgresStore::open(options(), instance.clone()).await.unwrap());
    let is_over = Arc::new(AtomicBool::new(false));
    let mut clients = JoinSet::new();
    for name in 0..CLIENTS {
        clients.spawn(client(store.clone(), name, instance.clone(), is_over.clone()));
    }
    let mut tellers = JoinSet::new();
    tellers.spawn(teller(store.clone(), is_over.clone()));
    for _ in 0..CRASHES {
        tokio::time::sleep(Duration::from_millis(700)).await;
        server.crash();
        tokio::time::sleep(Duration::from_millis(100)).await;
        server.resume().await;
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    is_over.store(true, Ordering::Relaxed);
    let told = clients.join_all().await;
    let notes = tellers.join_all().await.remove(0);
    store.close().await.unwrap();

    let store = PostgresStore::open(options(), InstanceId::generate()).await.unwrap();
    let records = records(&store).await;
    let mut counts: BTreeMap<(Counted, String), usize> = BTreeMap::new();
    for Record { fact, .. } in &records {
        let call = fact.call.as_ref().map(|call| call.as_str().to_owned());
        match fact.kind {
            Kind::Admitted => *counts.entry((Counted::Admitted, call.unwrap())).or_default() += 1,
            Kind::Ended => *counts.entry((Counted::Ended, call.unwrap())).or_default() += 1,
            Kind::Allowed => *counts.entry((Counted::Allowed, fact.reason.clone())).or_default() += 1,
            _ => {}
        }
    }
    let twice: Vec<_> = counts.iter().filter(|(_, count)| **count != 1).collect();
    assert!(twice.is_empty(), "told more than once: {twice:?}");
    let allowed = counts.keys().filter(|(kind, _)| *kind == Counted::Allowed).count() as u64;
    assert_eq!(allowed, notes, "each note is there once");
    let events = store.since(0, usize::MAX).await.unwrap();
    let numbers: Vec<u64> = events.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>(), "no gap");
    let noted: Vec<&str> = events
        .iter()
        .filter(|(_, event)| matches!(event.kind, ServiceEventKind::SessionEnded))
        .map(|(_, event)| event.workspace.as_str())
        .collect();
    let expected: Vec<String> = (0..notes).map(|number| number.to_string()).collect();
    assert_eq!(noted, expected, "each event is there once, in its order");

    let mut acknowledged = 0;
    for told in &told {
        assert!(!told.ended.is_empty());
        for id in &told.created {
            let call = store
                .get(&CallId::from(id.as_str()))
                .await
                .unwrap()
                .expect("it was acknowledged");
            let log = store.events(&call.id, 0, 100).await.unwrap();
            let sequences: Vec<u64> = log.iter().map(|event| event.sequence).collect();
            assert_eq!(sequences, (1..=call.last_sequence).collect::<Vec<_>>());
            assert!(counts.contains_key(&(Counted::Admitted, id.clone())));
            let has_ended = call.state.is_terminal();
            assert!(has_ended || !told.ended.contains(id), "its end was acknowledged");
            assert_eq!(counts.contains_key(&(Counted::Ended, id.clone())), has_ended, "{id}");
            acknowledged += 1;
        }
    }
    assert!(acknowledged > 50, "{acknowledged} calls");
    store.close().await.unwrap();
}

/// The kinds of records that are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Counted {
    Admitted,
    Ended,
    Allowed,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_output_has_every_byte_that_was_acknowledged() {
    let server = Server::start(false).await;
    make_template(&server).await;
    let address = server.address(&database(&server).await);
    let store = PostgresStore::open(PostgresOptions::new(address.clone()), InstanceId::generate());
    let store = store.await.unwrap();
    let owner = toolgate_store::OutputOwner::from(&record("c", &InstanceId::generate()));
    let mut writer = store.create_output(owner).await.unwrap();
    let id = writer.id().clone();
    // Short pieces for the row, then short and long ones for the parts.
    let mut expected = Vec::new();
    let lengths = [10, 60_000, 10_000, 3_000, 3_000, 20_000, 2_500_000, 5, 7, 1_048_576];
    for (number, length) in lengths.iter().cycle().take(30).enumerate() {
        let piece: Vec<u8> = (0..*length).map(|at: usize| (at * 31 + number) as u8).collect();
        if number % 10 == 7 {
            server.crash();
            assert!(writer.append(piece.clone().into()).await.is_err(), "nobody is there");
            server.resume().await;
        }
        // The first one may meet a connection from before.
        while writer.append(piece.clone().into()).await.is_err() {}
        expected.extend(piece);
        let length = store.look(&id).await.unwrap().unwrap().bytes;
        assert_eq!(length, expected.len() as u64);
    }
    for (offset, max) in [
        (0, 16 << 20),
        (65_530, 20),
        (65_536, 1),
        (70_000, 100_000),
        (3_000_000, 1 << 20),
    ] {
        let read = store.read(&id, offset as u64, max).await.unwrap();
        let end = (offset + max).min(expected.len());
        assert!(read[..] == expected[offset..end], "{offset}, {max}");
    }
    writer.finish().await.unwrap();
    let mut whole = Vec::new();
    while whole.len() < expected.len() {
        whole.extend(store.read(&id, whole.len() as u64, usize::MAX).await.unwrap());
    }
    assert!(whole == expected);
    store.close().await.unwrap();
}
