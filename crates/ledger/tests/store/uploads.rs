//! Long outputs of workers: their full parts go to the bucket without a gateway, and every byte is read at the gateways all the same.

use std::time::{Duration, Instant};

use bytes::Bytes;
use tempfile::TempDir;
use tonic::transport::Endpoint;
use tonic::{Code, Request, Status};
use toolgate_contract::cluster::ledger_service_client::LedgerServiceClient;
use toolgate_contract::cluster::{BindRequest, Holding, PresignPartRequest, PresignPartResponse, RecordPartRequest};
use toolgate_ledger::{LedgerStore, wire};
use toolgate_model::{InstanceId, OutputId};
use toolgate_postgres::{Bucket, BucketOptions, PostgresStore};
use toolgate_store::ledger::{FIRST_PART, PART_BYTES};
use toolgate_store::{OutputOwner, OutputWriter, Outputs as _, Upkeep as _};

use crate::content::content;
use crate::gateway::{LIMITED, Running, WORKER, options};
use crate::postgres::{database, server};
use crate::proxy::Line;
use crate::s3::{Door, S3};
use crate::store::{create, record};

pub(crate) const MIB: u64 = 1 << 20;

pub(crate) const SEED: u64 = 1;

/// How long something may take that has to happen.
const PATIENCE: Duration = Duration::from_secs(150);

pub(crate) async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !is_so().await {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

pub(crate) async fn grow(writer: &mut dyn OutputWriter, from: u64, to: u64) {
    let mut at = from;
    while at < to {
        let length = 700_001.min(to - at);
        writer
            .append(Bytes::from_static(content(SEED, at, length)))
            .await
            .unwrap();
        at += length;
    }
}

/// Reads at a gateway, and compares.
pub(crate) async fn check(store: &PostgresStore, id: &OutputId, from: u64, to: u64) {
    let mut at = from;
    while at < to {
        let read = store.read(id, at, (5 * MIB).min(to - at) as usize).await.unwrap();
        assert!(
            !read.is_empty() && read == *content(SEED, at, read.len() as u64),
            "at {at}"
        );
        at += read.len() as u64;
    }
}

/// A gateway with a bucket behind a door, and a worker that has `main` behind a line.
pub(crate) struct Scene {
    /// The name of the database.
    database: String,
    pub(crate) s3: S3,
    door: Door,
    pub(crate) gateway: Running,
    line: Line,
    pub(crate) worker: LedgerStore,
    pub(crate) run: InstanceId,
    _folder: TempDir,
}

impl Scene {
    pub(crate) async fn new() -> Self {
        Self::with_bucket(|options| Bucket::new(options).unwrap()).await
    }

    pub(crate) async fn with_bucket(bucket: impl FnOnce(BucketOptions) -> Bucket) -> Self {
        let (server, s3) = (server().await, S3::start(false).await);
        let door = Door::of(&s3).await;
        let database = database(server).await;
        let bucket = bucket(s3.options(Some(&door), "a"));
        let gateway = Running::with_bucket(&server.address(&database), Some(bucket)).await;
        let line = Line::to(&gateway.address()).await;
        let (folder, run) = (tempfile::tempdir().unwrap(), InstanceId::generate());
        let mut options = options(&[line.address()], &run, folder.path(), WORKER);
        options.workspaces = vec!["main".to_owned()];
        let worker = LedgerStore::open(options).await.unwrap();
        // While a call runs, the lease is renewed.
        create(&worker, record("call", &run)).await;
        Self {
            database,
            s3,
            door,
            gateway,
            line,
            worker,
            run,
            _folder: folder,
        }
    }

    pub(crate) async fn writer(&self) -> Box<dyn OutputWriter> {
        let owner = OutputOwner::from(&record("call", &self.run));
        self.worker.create_output(owner).await.unwrap()
    }

    fn objects(&self) -> usize {
        self.s3.names("a").len()
    }

    /// How much of an output the gateway has.
    async fn bytes(&self, id: &OutputId) -> u64 {
        let info = self.gateway.store.look(id).await.unwrap();
        info.map_or(0, |info| info.bytes)
    }

    /// Has the minutes pass in which nobody but who was allowed to puts a part, and after which somebody looks for such parts.
    async fn minutes_pass(&self) {
        let over = "UPDATE objects SET due = due - interval '2 minutes' WHERE due IS NOT NULL";
        server().await.run(&self.database, over).await;
        // Whoever deletes something has them looked for.
        let store = &self.gateway.store;
        let mut writer = store
            .create_output(OutputOwner::from(&record("call", &self.run)))
            .await
            .unwrap();
        writer.append("gone".into()).await.unwrap();
        let gone = writer.finish().await.unwrap();
        assert!(store.delete(&gone.id).await.unwrap());
    }

    pub(crate) async fn end(self) {
        self.worker.close().await.unwrap();
        self.gateway.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_output_that_grows_is_read_at_the_gateway() {
    let scene = Scene::new().await;
    let (mut writer, total) = (scene.writer().await, 40 * MIB);
    let id = writer.id().clone();
    let writing = tokio::spawn(async move {
        for start in (0..40).map(|number| number * MIB) {
            grow(&mut *writer, start, start + MIB).await;
        }
        writer.finish().await.unwrap()
    });
    let (mut seen, begun) = (0, Instant::now());
    while seen < total {
        assert!(begun.elapsed() < PATIENCE, "the gateway has {seen} bytes");
        let bytes = scene.bytes(&id).await;
        assert!(bytes >= seen, "it has become shorter");
        check(&scene.gateway.store, &id, seen, bytes).await;
        seen = bytes;
    }
    let info = writing.await.unwrap();
    assert_eq!((info.bytes, info.complete), (total, true));
    check(&scene.gateway.store, &id, 0, total).await;
    // The last one is not full.
    until("all is in the bucket", async || scene.objects() >= 5).await;
    check(&scene.gateway.store, &id, 0, total).await;
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn full_parts_pass_no_gateway() {
    let scene = Scene::new().await;
    let mut writer = scene.writer().await;
    let id = writer.id().clone();
    // While there is no gateway, all is written.
    scene.line.cut();
    grow(&mut *writer, 0, 40 * MIB).await;
    let before = scene.line.bytes_asked();
    scene.line.reset();
    let info = writer.finish().await.unwrap();
    assert_eq!((info.bytes, info.complete), (40 * MIB, true));
    until("the gateway has all of it", async || scene.bytes(&id).await == 40 * MIB).await;
    // A piece was sent before the first part, and what no part is full of behind the last one.
    let asked = scene.line.bytes_asked() - before;
    assert!((8 * MIB..11 * MIB).contains(&asked), "{asked}");
    check(&scene.gateway.store, &id, 0, 40 * MIB).await;
    until("so is the end", async || scene.objects() == 5).await;
    assert_eq!(
        scene.gateway.store.stat(&id).await.unwrap().unwrap().sha256,
        hex::encode(<sha2::Sha256 as sha2::Digest>::digest(content(SEED, 0, 40 * MIB)))
    );
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_while_the_bucket_is_away() {
    let scene = Scene::new().await;
    let mut writer = scene.writer().await;
    let id = writer.id().clone();
    grow(&mut *writer, 0, 20 * MIB).await;
    until("the first part is in the bucket", async || scene.objects() > 0).await;
    scene.door.shut();
    grow(&mut *writer, 20 * MIB, 50 * MIB).await;
    until("somebody has tried", async || scene.door.was_tried()).await;
    // Some of it cannot be read meanwhile, but all of it is there.
    until("the gateway has all of it", async || scene.bytes(&id).await == 50 * MIB).await;
    let info = writer.finish().await.unwrap();
    assert_eq!((info.bytes, info.complete), (50 * MIB, true));
    scene.door.open();
    check(&scene.gateway.store, &id, 0, 50 * MIB).await;
    scene.minutes_pass().await;
    until("all of it is in the bucket", async || scene.objects() >= 7).await;
    check(&scene.gateway.store, &id, 0, 50 * MIB).await;
    // The next one goes there again.
    let mut writer = scene.writer().await;
    let next = writer.id().clone();
    grow(&mut *writer, 0, 20 * MIB).await;
    writer.finish().await.unwrap();
    until("the gateway has all of that", async || {
        scene.bytes(&next).await == 20 * MIB
    })
    .await;
    check(&scene.gateway.store, &next, 0, 20 * MIB).await;
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_bucket_all_is_appended() {
    let server = server().await;
    let gateway = Running::start(&server.address(&database(server).await)).await;
    let (folder, run) = (tempfile::tempdir().unwrap(), InstanceId::generate());
    let mut options = options(&[gateway.address()], &run, folder.path(), WORKER);
    options.workspaces = vec!["main".to_owned()];
    let worker = LedgerStore::open(options).await.unwrap();
    create(&worker, record("call", &run)).await;
    let owner = OutputOwner::from(&record("call", &run));
    let mut writer = worker.create_output(owner).await.unwrap();
    let id = writer.id().clone();
    grow(&mut *writer, 0, 20 * MIB).await;
    assert_eq!(writer.finish().await.unwrap().bytes, 20 * MIB);
    until("the gateway has all of it", async || {
        let found = gateway.store.look(&id).await.unwrap();
        found.is_some_and(|info| info.bytes == 20 * MIB)
    })
    .await;
    check(&gateway.store, &id, 0, 20 * MIB).await;
    worker.close().await.unwrap();
    gateway.stop().await;
}

pub(crate) fn shown<Q>(token: &str, question: Q) -> Request<Q> {
    let mut request = Request::new(question);
    let token = format!("Bearer {token}").parse().unwrap();
    request.metadata_mut().insert("authorization", token);
    request
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_puts_parts_of_its_own_outputs_only() {
    let scene = Scene::new().await;
    let mut writer = scene.writer().await;
    let id = writer.id().to_string();
    grow(&mut *writer, 0, MIB).await;
    until("the output is known", async || scene.bytes(writer.id()).await == MIB).await;
    let channel = Endpoint::from_shared(scene.gateway.address()).unwrap();
    let mut client = LedgerServiceClient::new(channel.connect().await.unwrap());
    let bound = BindRequest {
        run: "limited".to_owned(),
        noted: 0,
        address: String::new(),
        workspaces: vec!["other".to_owned()],
    };
    let bound = client.bind(shown(LIMITED, bound)).await.unwrap().into_inner();
    let other = bound.holdings[0].clone();
    let main = Holding {
        workspace: "main".to_owned(),
        run: scene.run.to_string(),
        epoch: 1,
    };
    let part = content(SEED, FIRST_PART, PART_BYTES);
    let sha256 = hex::encode(<sha2::Sha256 as sha2::Digest>::digest(part));
    let presign = |holding: &Holding, start: u64| PresignPartRequest {
        holding: Some(holding.clone()),
        id: id.clone(),
        start,
        sha256: sha256.clone(),
    };
    let record = |holding: &Holding, object: &str| RecordPartRequest {
        holding: Some(holding.clone()),
        id: id.clone(),
        start: FIRST_PART,
        sha256: sha256.clone(),
        object: object.to_owned(),
    };
    let refused = |answer: Result<(), Status>, reason: &str, code: Code| {
        let status = answer.unwrap_err();
        assert_eq!(status.code(), code, "{status:?}");
        let found = status.metadata().get(wire::REASON).map(|found| found.to_str().unwrap());
        assert_eq!(found.unwrap_or_default(), reason, "{status:?}");
    };
    let empty = |answer: Result<tonic::Response<PresignPartResponse>, Status>| answer.map(drop);

    let answer = client.presign_part(shown(WORKER, presign(&main, FIRST_PART))).await;
    let upload = answer.unwrap().into_inner().upload.unwrap();
    let answer = client.presign_part(shown(LIMITED, presign(&other, FIRST_PART))).await;
    refused(empty(answer), "conflict", Code::Aborted);
    let answer = client.presign_part(shown(LIMITED, presign(&main, FIRST_PART))).await;
    refused(empty(answer), "", Code::PermissionDenied);
    let answer = client.presign_part(shown(WORKER, presign(&main, 0))).await;
    refused(empty(answer), "conflict", Code::Aborted);
    let late = Holding {
        epoch: 2,
        ..main.clone()
    };
    let answer = client.presign_part(shown(WORKER, presign(&late, FIRST_PART))).await;
    refused(empty(answer), "fenced", Code::FailedPrecondition);
    // Nothing was put, so nothing is recorded, whoever says so.
    let answer = client.record_part(shown(WORKER, record(&main, &upload.object))).await;
    refused(answer.map(drop), "conflict", Code::Aborted);
    let answer = client.record_part(shown(LIMITED, record(&main, &upload.object))).await;
    refused(answer.map(drop), "", Code::PermissionDenied);
    assert_eq!(scene.objects(), 0);
    writer.finish().await.unwrap();
    scene.end().await;
}
