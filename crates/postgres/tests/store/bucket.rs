//! Outputs in a bucket: what is there, what is not, and what becomes of it when somebody stops in the middle.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tokio::task::JoinSet;
use toolgate_model::{InstanceId, OutputId, Timestamp};
use toolgate_postgres::{Bucket, PostgresOptions, PostgresStore};
use toolgate_store::{OutputOwner, OutputRetention, OutputWriter, Outputs as _, StoreError, Upkeep as _};

use crate::content::content;
use crate::fixture::{database, server};
use crate::leases::until;
use crate::s3::{self, Door, S3};
use crate::server::Server;
use crate::store::record;

pub(crate) const MIB: u64 = 1 << 20;

/// A database, and a part of the bucket that only it uses.
pub(crate) struct Place {
    pub(crate) server: &'static Server,
    s3: &'static S3,
    name: String,
}

impl Place {
    pub(crate) async fn new() -> Self {
        let server = server().await;
        Self {
            server,
            s3: s3::shared().await,
            name: database(server).await,
        }
    }

    pub(crate) fn bucket(&self) -> Bucket {
        self.s3.bucket(None, &self.name)
    }

    pub(crate) async fn open(&self, bucket: Option<Bucket>) -> PostgresStore {
        let options = PostgresOptions {
            bucket,
            ..PostgresOptions::new(self.server.address(&self.name))
        };
        PostgresStore::open(options, InstanceId::generate()).await.unwrap()
    }

    /// The one number that a question has for an answer.
    pub(crate) async fn number(&self, sql: &str) -> i64 {
        let client = self.server.connect(&self.name).await.unwrap();
        client.query_typed(sql, &[]).await.unwrap()[0].get(0)
    }

    /// As [`Self::number`], of a text.
    pub(crate) async fn text(&self, sql: &str) -> String {
        let client = self.server.connect(&self.name).await.unwrap();
        client.query_typed(sql, &[]).await.unwrap()[0].get(0)
    }

    pub(crate) async fn bytes_in_database(&self) -> i64 {
        self.number("SELECT coalesce(sum(octet_length(content)), 0)::bigint FROM output_parts")
            .await
    }

    pub(crate) async fn parts(&self) -> i64 {
        self.number("SELECT count(*) FROM objects WHERE due IS NULL").await
    }

    /// The objects that the bucket has, and those that outputs have.
    async fn both_sides(&self) -> (BTreeSet<String>, BTreeSet<String>) {
        let client = self.server.connect(&self.name).await.unwrap();
        let rows = client.query_typed("SELECT name FROM objects", &[]).await.unwrap();
        let names = self.s3.names(&self.name).into_iter();
        (names.collect(), rows.iter().map(|row| row.get(0)).collect())
    }

    pub(crate) async fn run(&self, sql: &str) {
        self.server.run(&self.name, sql).await;
    }
}

pub(crate) fn owner() -> OutputOwner {
    OutputOwner::from(&record("c", &InstanceId::generate()))
}

pub(crate) async fn grow(writer: &mut dyn OutputWriter, seed: u64, from: u64, to: u64) {
    let mut at = from;
    while at < to {
        let length = (700_001).min(to - at);
        writer
            .append(Bytes::from_static(content(seed, at, length)))
            .await
            .unwrap();
        at += length;
    }
}

pub(crate) async fn check(store: &PostgresStore, id: &OutputId, seed: u64, from: u64, to: u64) {
    let mut at = from;
    while at < to {
        let read = store.read(id, at, (5 * MIB).min(to - at) as usize).await.unwrap();
        assert!(
            !read.is_empty() && read == *content(seed, at, read.len() as u64),
            "at {at}"
        );
        at += read.len() as u64;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn full_parts_go_to_the_bucket() {
    let place = Place::new().await;
    let stores = [
        place.open(Some(place.bucket())).await,
        place.open(Some(place.bucket())).await,
    ];
    let mut writer = stores[0].create_output(owner()).await.unwrap();
    let id = writer.id().clone();
    grow(&mut *writer, 1, 0, 20 * MIB).await;
    until("the full parts are in the bucket", async || place.parts().await == 2).await;
    assert_eq!(place.bytes_in_database().await as u64, 4 * MIB - (64 << 10));
    assert_eq!(place.s3.names(&place.name).len(), 2);
    for store in &stores {
        check(store, &id, 1, 0, 20 * MIB).await;
        check(store, &id, 1, 8 * MIB + (64 << 10) - 1, 8 * MIB + (64 << 10) + 1).await;
    }
    let info = writer.finish().await.unwrap();
    assert_eq!(info.bytes, 20 * MIB);
    until("so is the end", async || place.parts().await == 3).await;
    assert_eq!(place.bytes_in_database().await, 0);
    check(&stores[1], &id, 1, 0, 20 * MIB).await;
    assert_eq!(stores[1].stat(&id).await.unwrap().unwrap().sha256.len(), 64);
    // Whoever deletes need not be who wrote.
    assert!(stores[1].delete(&id).await.unwrap());
    until("what was deleted is gone", async || {
        place.both_sides().await == Default::default()
    })
    .await;
    assert!(matches!(
        stores[0].read(&id, 10 * MIB, 10).await,
        Err(StoreError::NotFound(_))
    ));
    for store in stores {
        store.close().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_who_writes_needs_the_bucket() {
    let place = Place::new().await;
    let door = Door::of(place.s3).await;
    let store = place.open(Some(place.s3.bucket(Some(&door), &place.name))).await;
    door.shut();
    let mut writer = store.create_output(owner()).await.unwrap();
    let id = writer.id().clone();
    grow(&mut *writer, 2, 0, 18 * MIB).await;
    until("the bucket was tried", async || door.was_tried()).await;
    check(&store, &id, 2, 0, 18 * MIB).await;
    assert_eq!(place.parts().await, 0);
    door.open();
    until("the parts are in the bucket", async || place.parts().await == 2).await;
    // The first attempts may have gone on until it was there again: then nothing was tried in vain.
    let in_vain = place.both_sides().await.1.len() - 2;
    check(&store, &id, 2, 0, 18 * MIB).await;
    door.shut();
    let read = store.read(&id, 9 * MIB, 10).await;
    assert!(matches!(read, Err(StoreError::Unavailable(_))), "{read:?}");
    // What is not in the bucket is there.
    check(&store, &id, 2, 0, 64 << 10).await;
    check(&store, &id, 2, 17 * MIB, 18 * MIB).await;
    grow(&mut *writer, 2, 18 * MIB, 19 * MIB).await;
    // The reading above was a try, too.
    door.shut();
    writer.finish().await.unwrap();
    until("the end was tried", async || door.was_tried()).await;
    assert!(store.delete(&id).await.unwrap());
    assert_eq!(place.bytes_in_database().await, 0);
    let deleted = place.s3.names(&place.name);
    assert_eq!(deleted.len(), 2);
    door.open();
    until("what was deleted is gone", async || {
        // It would go by itself, a pause later.
        let _ = store.sweep_bucket(Duration::ZERO).await;
        let there = place.s3.names(&place.name);
        !deleted.iter().any(|name| there.contains(name))
    })
    .await;
    // What was tried in vain is forgotten later: it might have arrived. The end does so if it was tried again as the door was opened.
    let kept = place.both_sides().await;
    assert!(kept.1.len() >= in_vain, "{kept:?} of {in_vain}");
    place.run(LATER).await;
    until("what was tried in vain is forgotten", async || {
        // The store may be at it by itself, too.
        store.sweep_bucket(Duration::ZERO).await.unwrap();
        place.both_sides().await == Default::default()
    })
    .await;
    store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_its_bucket_a_part_cannot_be_read() {
    let place = Place::new().await;
    let store = place.open(Some(place.bucket())).await;
    let mut writer = store.create_output(owner()).await.unwrap();
    let id = writer.id().clone();
    grow(&mut *writer, 3, 0, 9 * MIB).await;
    until("the part is in the bucket", async || place.parts().await == 1).await;
    for (other, expected) in [
        (None, "none is configured"),
        (Some(place.s3.bucket(None, "elsewhere")), "is not in the bucket"),
    ] {
        let other = place.open(other).await;
        check(&other, &id, 3, 0, 64 << 10).await;
        let read = other.read(&id, MIB, 10).await;
        let Err(StoreError::Failed { source, .. }) = &read else {
            panic!("{read:?}");
        };
        assert!(source.to_string().contains(expected), "{source}");
        other.close().await.unwrap();
    }
    check(&store, &id, 3, 0, 9 * MIB).await;
    store.close().await.unwrap();
}

/// Has the database refuse a step.
fn refuse(step: &str) -> String {
    format!(
        "CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not now'; END $$;
         CREATE TRIGGER refuse BEFORE {step} EXECUTE FUNCTION refuse()"
    )
}

/// As if everything that is on its way had been so for long.
pub(crate) const LATER: &str = "UPDATE objects SET due = due - interval '2 hours' WHERE due IS NOT NULL";

const FORGIVE: &str = "DROP FUNCTION refuse CASCADE";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_stops_in_the_middle_leaves_nothing() {
    let place = Place::new().await;
    for (seed, step, objects) in [
        (1, "INSERT ON objects FOR EACH ROW", 0),
        (2, "UPDATE ON objects FOR EACH ROW WHEN (new.due IS NULL)", 1),
        (3, "DELETE ON output_parts FOR EACH ROW", 1),
    ] {
        place.run(&refuse(step)).await;
        let store = place.open(Some(place.bucket())).await;
        let mut writer = store.create_output(owner()).await.unwrap();
        let id = writer.id().clone();
        grow(&mut *writer, seed, 0, 9 * MIB).await;
        until("the object is there", async || {
            place.s3.names(&place.name).len() >= objects
        })
        .await;
        assert_eq!(place.parts().await, 0);
        check(&store, &id, seed, 0, 9 * MIB).await;
        store.close().await.unwrap();
        drop(writer);
        place.run(&format!("{FORGIVE}; {LATER}")).await;

        let store = place.open(Some(place.bucket())).await;
        until("it goes on", async || place.parts().await == 1).await;
        check(&store, &id, seed, 0, 9 * MIB).await;
        until("both sides agree", async || {
            store.sweep_bucket(Duration::ZERO).await.unwrap();
            let (there, known) = place.both_sides().await;
            there.len() == 1 && there == known
        })
        .await;
        check(&store, &id, seed, 0, 9 * MIB).await;

        // Objects go before their rows.
        place.run(&refuse("DELETE ON objects FOR EACH ROW")).await;
        assert!(store.delete(&id).await.unwrap());
        until("the object is gone", async || place.s3.names(&place.name).is_empty()).await;
        store.close().await.unwrap();
        assert_eq!(place.both_sides().await.1.len(), 1);
        place.run(FORGIVE).await;
        let store = place.open(Some(place.bucket())).await;
        until("so is the row", async || place.both_sides().await == Default::default()).await;
        store.close().await.unwrap();
    }
}

/// Numbers that look random, the same in each run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

/// How many parts have not been moved that could be.
const MOVABLE: &str = "SELECT count(*) FROM output_parts JOIN outputs ON number = output
    WHERE (start - 65536) % 8388608 = 0 AND (bytes >= start + 8388608 OR complete AND bytes > start + 262144)";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn database_and_bucket_agree_whoever_stops_whenever() {
    let (place, mut dice) = (Place::new().await, Dice(7));
    let known: Arc<Mutex<HashMap<OutputId, u64>>> = Arc::default();
    for round in 0..6 {
        let store = Arc::new(place.open(Some(place.bucket())).await);
        let mut work = JoinSet::new();
        for number in 0..3 {
            let (store, known, length) = (Arc::clone(&store), Arc::clone(&known), dice.below(20 * MIB));
            work.spawn(async move {
                let (mut writer, seed) = (store.create_output(owner()).await.unwrap(), round * 10 + number);
                known.lock().unwrap().insert(writer.id().clone(), seed);
                grow(&mut *writer, seed, 0, length).await;
                writer.finish().await.unwrap();
            });
        }
        let all: Vec<OutputId> = known.lock().unwrap().keys().cloned().collect();
        let unlucky: Vec<OutputId> = all.into_iter().filter(|_| dice.below(4) == 0).collect();
        let deleting = Arc::clone(&store);
        work.spawn(async move {
            for id in unlucky {
                // One that is being written stays.
                let deleted = deleting.delete(&id).await;
                assert!(matches!(deleted, Ok(_) | Err(StoreError::Conflict(_))), "{deleted:?}");
            }
        });
        let patience = Duration::from_millis(300 + dice.below(2_000));
        let _ = tokio::time::timeout(patience, async { while work.join_next().await.is_some() {} }).await;
        // Everything stops where it is.
        work.abort_all();
        while let Some(ended) = work.join_next().await {
            assert!(ended.is_ok() || ended.unwrap_err().is_cancelled());
        }
    }
    until("all runs are over", async || {
        place.number("SELECT count(*) FROM instances").await == 0
    })
    .await;
    place.run(LATER).await;
    let store = place.open(Some(place.bucket())).await;
    until("all parts are moved", async || place.number(MOVABLE).await == 0).await;
    let agree = async || {
        until("both sides agree", async || {
            store.sweep_bucket(Duration::ZERO).await.unwrap();
            let (there, known) = place.both_sides().await;
            there == known
        })
        .await;
    };
    agree().await;
    assert!(place.parts().await > 0, "some of it was moved");
    let known = std::mem::take(&mut *known.lock().unwrap());
    let mut left = 0;
    for (id, seed) in known {
        if let Some(info) = store.look(&id).await.unwrap() {
            check(&store, &id, seed, 0, info.bytes).await;
            left += 1;
        }
    }
    assert!(left > 0);
    let keep = OutputRetention {
        before: Timestamp::now().after(Duration::from_secs(3_600)),
        max_total_bytes: 0,
    };
    assert_eq!(store.sweep_outputs(keep).await.unwrap(), left);
    agree().await;
    assert_eq!(place.both_sides().await, Default::default());
    assert_eq!(place.bytes_in_database().await, 0);
    store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_without_a_row_go_when_they_are_old() {
    let place = Place::new().await;
    let store = place.open(Some(place.bucket())).await;
    let mut writer = store.create_output(owner()).await.unwrap();
    grow(&mut *writer, 4, 0, 17 * MIB).await;
    until("the parts are in the bucket", async || place.parts().await == 2).await;
    let before = place.s3.names(&place.name);
    // As if the database had been put back to a state before one of them.
    place.run("DELETE FROM objects WHERE start > 100000").await;
    assert_eq!(store.sweep_bucket(Duration::from_secs(3_600)).await.unwrap(), 0);
    assert_eq!(place.s3.names(&place.name), before);
    assert_eq!(store.sweep_bucket(Duration::ZERO).await.unwrap(), 1);
    assert_eq!(place.s3.names(&place.name), before[..1]);
    check(&store, writer.id(), 4, 0, 8 * MIB).await;
    store.close().await.unwrap();
}
