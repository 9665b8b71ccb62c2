//! Parts that others put into the bucket: each permission is for one object of some bytes, and for who holds the workspace.

use std::time::Duration;

use bytes::Bytes;
use reqwest::header::HeaderName;
use reqwest::{Client, StatusCode};
use sha2::{Digest as _, Sha256};
use toolgate_model::{InstanceId, OutputId, Timestamp};
use toolgate_postgres::PostgresStore;
use toolgate_store::ledger::{FIRST_PART, Hold, Ledger as _, PART_BYTES, Part, Upload};
use toolgate_store::{OutputWriter, Outputs as _, StoreError, Upkeep as _};
use toolgate_web::{Network, Request, Settings};

use crate::bucket::{LATER, MIB, Place, check, grow, owner};
use crate::content::content;
use crate::leases::until;

/// A run that has a workspace and writes an output, as far as the store sees it.
struct Scene {
    place: Place,
    store: PostgresStore,
    hold: Hold,
    writer: Box<dyn OutputWriter>,
}

const SEED: u64 = 11;

impl Scene {
    async fn new() -> Self {
        let place = Place::new().await;
        let store = place.open(Some(place.bucket())).await;
        let run: String = place.text("SELECT id FROM instances").await;
        place
            .run(&format!(
                "INSERT INTO workspaces (id, owner, epoch, principal)
                     VALUES ('main', '{run}', 3, 'p'), ('other', '{run}', 3, 'p'), ('third', 'other', 3, 'p')"
            ))
            .await;
        let hold = Hold {
            workspace: "main".to_owned(),
            run: InstanceId::from(run.as_str()),
            principal: "p".to_owned(),
            epoch: 3,
        };
        let mut writer = store.create_output(owner()).await.unwrap();
        grow(&mut *writer, SEED, 0, 2 * MIB).await;
        Self {
            place,
            store,
            hold,
            writer,
        }
    }

    fn id(&self) -> &OutputId {
        self.writer.id()
    }

    async fn presign(&self, part: &Part) -> Upload {
        let upload = self.store.presign_part(&self.hold, self.id(), part).await.unwrap();
        upload.expect("there is a bucket")
    }

    async fn record(&self, part: &Part, object: &str) -> Result<(), StoreError> {
        self.store.record_part(&self.hold, self.id(), part, object).await
    }
}

/// The bytes of a part, and what it is called by.
fn part(number: u64) -> (Vec<u8>, Part) {
    let start = FIRST_PART + number * PART_BYTES;
    let bytes = content(SEED, start, PART_BYTES);
    let sha256 = hex::encode(Sha256::digest(bytes));
    (bytes.to_vec(), Part { start, sha256 })
}

/// Returns what the server says, or none if it hangs up in the middle.
async fn put(url: &str, headers: &[(String, String)], bytes: Vec<u8>) -> Option<StatusCode> {
    let headers = headers
        .iter()
        .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap()));
    let request = Request {
        body: Some(bytes.into()),
        ..Request::within(Duration::from_secs(60), url.parse().unwrap(), headers.collect())
    };
    let answer = Network::new(Settings::default()).put_named(request).await;
    answer.ok().map(|answer| StatusCode::from_u16(answer.status()).unwrap())
}

fn refused(status: Option<StatusCode>) {
    assert!(status.is_none_or(|status| status.is_client_error()), "{status:?}");
}

fn conflict<T: std::fmt::Debug>(result: Result<T, StoreError>) {
    assert!(matches!(result, Err(StoreError::Conflict(_))), "{result:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_part_that_was_put_stands_for_what_was_appended() {
    let scene = Scene::new().await;
    for number in 0..2 {
        let (bytes, part) = part(number);
        let upload = scene.presign(&part).await;
        conflict(scene.record(&part, &upload.object).await);
        assert_eq!(put(&upload.url, &upload.headers, bytes).await, Some(StatusCode::OK));
        // Said again, it is the same.
        for _ in 0..2 {
            scene.record(&part, &upload.object).await.unwrap();
        }
    }
    assert_eq!(
        (scene.place.parts().await, scene.place.bytes_in_database().await),
        (2, 0)
    );
    let info = scene.store.look(scene.id()).await.unwrap().unwrap();
    assert_eq!((info.bytes, info.complete), (FIRST_PART + 2 * PART_BYTES, false));
    check(&scene.store, scene.id(), SEED, 0, info.bytes).await;
    // Once more by another object: the first one stays, the other goes.
    let (bytes, part) = part(1);
    let upload = scene.presign(&part).await;
    assert_eq!(put(&upload.url, &upload.headers, bytes).await, Some(StatusCode::OK));
    scene.record(&part, &upload.object).await.unwrap();
    scene.place.run(LATER).await;
    assert_eq!(scene.store.sweep_bucket(Duration::ZERO).await.unwrap(), 1);
    check(&scene.store, scene.id(), SEED, 0, info.bytes).await;
    scene.store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_permission_is_for_these_bytes_at_this_place() {
    let scene = Scene::new().await;
    let (bytes, part) = part(0);
    let upload = scene.presign(&part).await;
    let mut other = bytes.clone();
    other[5] ^= 1;
    refused(put(&upload.url, &upload.headers, other).await);
    refused(put(&upload.url, &upload.headers, bytes[..100].to_vec()).await);
    refused(put(&upload.url, &[], bytes.clone()).await);
    let elsewhere = upload
        .url
        .replace(scene.id().as_str(), "tool_0123456789abABCDEFGHIJKLMN");
    assert_ne!(elsewhere, upload.url);
    refused(put(&elsewhere, &upload.headers, bytes.clone()).await);
    let got = Client::new().get(&upload.url).send().await;
    refused(got.ok().map(|answer| answer.status()));
    // Nothing of all this is a part.
    conflict(scene.record(&part, &upload.object).await);
    assert_eq!(put(&upload.url, &upload.headers, bytes).await, Some(StatusCode::OK));
    scene.record(&part, &upload.object).await.unwrap();
    scene.store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_who_holds_the_workspace_puts_parts() {
    let scene = Scene::new().await;
    let (bytes, first) = part(0);
    let (_, second) = part(1);
    let upload = scene.presign(&first).await;
    assert_eq!(put(&upload.url, &upload.headers, bytes).await, Some(StatusCode::OK));
    let (store, id, run) = (&scene.store, scene.id(), scene.hold.run.as_str());
    for (workspace, run, epoch) in [
        ("main", run, 2),
        ("main", "other", 3),
        ("third", run, 3),
        ("new", run, 3),
    ] {
        let hold = Hold {
            workspace: workspace.to_owned(),
            run: InstanceId::from(run),
            principal: "p".to_owned(),
            epoch,
        };
        let presigned = store.presign_part(&hold, id, &second).await;
        assert!(matches!(presigned, Err(StoreError::Fenced(_))), "{presigned:?}");
        let recorded = store.record_part(&hold, id, &first, &upload.object).await;
        assert!(matches!(recorded, Err(StoreError::Fenced(_))), "{recorded:?}");
    }
    // It holds both, and the output is of one of them.
    let of_another = Hold {
        workspace: "other".to_owned(),
        ..scene.hold.clone()
    };
    conflict(store.presign_part(&of_another, id, &first).await);
    let recorded = store.record_part(&of_another, id, &first, &upload.object).await;
    assert!(matches!(recorded, Err(StoreError::NotFound(_))), "{recorded:?}");
    // Something else than was asked for.
    conflict(scene.record(&second, &upload.object).await);
    let otherwise = Part {
        sha256: second.sha256.clone(),
        ..first.clone()
    };
    conflict(scene.record(&otherwise, &upload.object).await);
    conflict(scene.record(&first, &upload.object.replace(id.as_str(), "..")).await);
    let too_far = FIRST_PART + 34 * PART_BYTES;
    let last = FIRST_PART + (u64::MAX - FIRST_PART) / PART_BYTES * PART_BYTES;
    for start in [0, FIRST_PART + 1, FIRST_PART + PART_BYTES - 1, u64::MAX, too_far, last] {
        let part = Part { start, ..first.clone() };
        conflict(store.presign_part(&scene.hold, id, &part).await);
    }
    for sha256 in ["", "00", "zz"] {
        let part = Part {
            sha256: sha256.to_owned(),
            ..first.clone()
        };
        conflict(store.presign_part(&scene.hold, id, &part).await);
    }
    let unknown = OutputId::from("tool_0123456789abABCDEFGHIJKLMN");
    conflict(store.presign_part(&scene.hold, &unknown, &first).await);
    scene.record(&first, &upload.object).await.unwrap();
    assert_eq!(scene.place.parts().await, 1);
    scene.store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn so_many_parts_of_a_workspace_are_on_their_way() {
    let scene = Scene::new().await;
    let (_, part) = part(0);
    let mut other = scene.store.create_output(owner()).await.unwrap();
    other.append("begun".into()).await.unwrap();
    let others = |count: i64| {
        format!(
            "INSERT INTO objects (name, output, start, bytes, due)
             SELECT 'many-' || {count} || '-' || place, number, place, 1, clock_timestamp() + interval '1 hour'
             FROM outputs, generate_series(1, {count}) AS many (place) WHERE id = '{}'",
            other.id()
        )
    };
    scene.place.run(&others(255)).await;
    scene.presign(&part).await;
    conflict(scene.store.presign_part(&scene.hold, scene.id(), &part).await);
    scene
        .place
        .run("UPDATE objects SET due = '-infinity' WHERE name = 'many-255-7'")
        .await;
    scene.presign(&part).await;
    // Eight workspaces with 256 are those of one identity.
    scene.place.run("DELETE FROM objects").await;
    scene
        .place
        .run(
            "INSERT INTO workspaces (id, principal) SELECT 'w' || place, 'p' FROM generate_series(0, 7) AS many (place);
             INSERT INTO outputs (id, instance, call, session, workspace, origin, created, written)
                 SELECT 'o' || place, instance, call, session, 'w' || place, origin, created, written
                 FROM outputs, generate_series(0, 7) AS many (place) WHERE outputs.number = (SELECT min(number) FROM outputs);
             INSERT INTO objects (name, output, start, bytes, due)
                 SELECT 'of-' || outputs.id || '-' || place, number, place, 1, clock_timestamp() + interval '1 hour'
                 FROM outputs, generate_series(1, 256) AS many (place) WHERE outputs.id LIKE 'o_'",
        )
        .await;
    conflict(scene.store.presign_part(&scene.hold, scene.id(), &part).await);
    scene
        .place
        .run("UPDATE workspaces SET principal = 'another' WHERE id = 'w3'")
        .await;
    scene.presign(&part).await;
    drop(other);
    scene.store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_part_that_comes_too_late_is_none() {
    let mut scene = Scene::new().await;
    let (bytes, first) = part(0);
    let upload = scene.presign(&first).await;
    assert_eq!(
        put(&upload.url, &upload.headers, bytes.clone()).await,
        Some(StatusCode::OK)
    );
    // The sweep has been there.
    scene.place.run(LATER).await;
    conflict(scene.record(&first, &upload.object).await);
    scene.store.sweep_bucket(Duration::ZERO).await.unwrap();
    conflict(scene.record(&first, &upload.object).await);
    // What was appended is there all the same, and goes by itself.
    grow(&mut *scene.writer, SEED, 2 * MIB, 9 * MIB).await;
    until("the part is in the bucket", async || scene.place.parts().await == 1).await;
    check(&scene.store, scene.id(), SEED, 0, 9 * MIB).await;
    // Its bytes are the same, so it is nothing new.
    let upload = scene.presign(&first).await;
    assert_eq!(put(&upload.url, &upload.headers, bytes).await, Some(StatusCode::OK));
    scene.record(&first, &upload.object).await.unwrap();
    assert_eq!(scene.place.parts().await, 1);
    // It ends before the third part begins, and then for good.
    let (bytes, third) = part(2);
    let upload = scene.presign(&third).await;
    assert_eq!(put(&upload.url, &upload.headers, bytes).await, Some(StatusCode::OK));
    conflict(scene.record(&third, &upload.object).await);
    let id = scene.id().clone();
    scene.writer.finish().await.unwrap();
    let (_, second) = part(1);
    conflict(scene.store.presign_part(&scene.hold, &id, &second).await);
    conflict(scene.store.record_part(&scene.hold, &id, &third, &upload.object).await);
    assert!(scene.store.delete(&id).await.unwrap());
    let recorded = scene.store.record_part(&scene.hold, &id, &third, &upload.object).await;
    assert!(matches!(recorded, Err(StoreError::NotFound(_))), "{recorded:?}");
    scene.store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_bucket_nothing_is_put() {
    let scene = Scene::new().await;
    let without = scene.place.open(None).await;
    let (_, part) = part(0);
    let presigned = without.presign_part(&scene.hold, scene.id(), &part).await;
    assert!(matches!(presigned, Ok(None)), "{presigned:?}");
    conflict(without.record_part(&scene.hold, scene.id(), &part, "name").await);
    without.close().await.unwrap();
    scene.store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_worker_appends_goes_to_the_bucket_as_well() {
    let scene = Scene::new().await;
    let (store, hold) = (&scene.store, &scene.hold);
    let id = OutputId::from("tool_0123456789abABCDEFGHIJKLMN");
    store
        .begin_output_for(hold, &id, owner(), Timestamp::now())
        .await
        .unwrap();
    for start in (0..9).map(|number| number * MIB) {
        let bytes = Bytes::from_static(content(SEED, start, MIB));
        store.append_output_for(hold, &id, start, bytes).await.unwrap();
    }
    until("the part is in the bucket", async || scene.place.parts().await == 1).await;
    // Said again, it is compared with what is in the bucket.
    let again = Bytes::from_static(content(SEED, 8 * MIB, MIB));
    store.append_output_for(hold, &id, 8 * MIB, again).await.unwrap();
    let info = store.finish_output_for(hold, &id, 1).await.unwrap();
    assert_eq!(info.bytes, 9 * MIB);
    until("so is the end", async || scene.place.parts().await == 2).await;
    check(store, &id, SEED, 0, 9 * MIB).await;
    scene.store.close().await.unwrap();
}
