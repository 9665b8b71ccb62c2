//! Changes of which no answer came: whoever says the same again finds it there, once.

use std::time::Duration;

use bytes::Bytes;
use toolgate_model::{CallId, CallRecord, GrantId, InstanceId, Prompt, Timestamp};
use toolgate_postgres::{PostgresOptions, PostgresStore};
use toolgate_store::audit::{Fact, Kind};
use toolgate_store::ledger::{Ledger as _, Note};
use toolgate_store::{
    Audit as _, CallLog as _, Created, OutputOwner, Outputs as _, Prompts as _, StoreError, Upkeep as _,
};

use crate::fixture::{database, server};
use crate::holding::{bound, created};
use crate::proxy::Proxy;
use crate::server::Server;
use crate::store::{create, end, grow, prompt, record};

const LIMIT: Duration = Duration::from_secs(1);

pub(crate) struct Scene {
    server: &'static Server,
    name: String,
    pub(crate) proxy: Proxy,
    pub(crate) store: PostgresStore,
    instance: InstanceId,
}

impl Scene {
    pub(crate) async fn new() -> Self {
        let server = server().await;
        let (name, proxy) = (database(server).await, Proxy::start(server));
        let instance = InstanceId::generate();
        let options = PostgresOptions {
            time_limit: LIMIT,
            ..PostgresOptions::new(proxy.address(&name))
        };
        let store = PostgresStore::open(options, instance.clone()).await.unwrap();
        Self {
            server,
            name,
            proxy,
            store,
            instance,
        }
    }

    /// The kinds of the records of the audit after the first.
    async fn told(&self) -> Vec<String> {
        let lines = self.store.audit_lines(2, 100).await.unwrap();
        let kinds = lines.iter().map(|line| {
            let record: serde_json::Value = serde_json::from_str(&line.json).unwrap();
            record["kind"].as_str().unwrap().to_owned()
        });
        kinds.collect()
    }
}

const APPEND: [&str; 1] = ["append_to_call_1("];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_append_without_an_answer_is_gone_on_with() {
    let scene = Scene::new().await;
    let store = &scene.store;
    let mut call = create(store, record("c", &scene.instance)).await;
    let mut unstored = Vec::new();
    // Each time with all that was not acknowledged, as a writer does that keeps it; the end with the rest.
    for _ in 0..2 {
        unstored.extend(grow(&mut call, 3));
        scene.proxy.lose(&APPEND);
        let lost = store.append(call.clone(), unstored.clone()).await;
        assert!(matches!(lost, Err(StoreError::Unavailable(_))), "{lost:?}");
        assert!(scene.proxy.has_lost());
    }
    unstored.extend(end(&mut call, Timestamp(5_000)));
    scene.proxy.lose(&APPEND);
    assert!(store.append(call.clone(), unstored.clone()).await.is_err());
    // The last one is there as a whole; another one of the same events that are not the same is not.
    let mut other = unstored.clone();
    other[1].time = Timestamp(77);
    assert!(matches!(
        store.append(call.clone(), other).await,
        Err(StoreError::Conflict(_))
    ));
    store.append(call.clone(), unstored.clone()).await.unwrap();
    assert_eq!(store.get(&call.id).await.unwrap().unwrap(), call);
    let log = store.events(&call.id, 1, 100).await.unwrap();
    assert_eq!(log, unstored);
    assert_eq!(scene.told().await, ["admitted", "ended"]);
    // Nobody is unsure any more.
    let again = store.append(call, unstored).await;
    assert!(matches!(again, Err(StoreError::Conflict(_))), "{again:?}");
    scene.store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn so_it_is_for_a_run_without_a_database() {
    let scene = Scene::new().await;
    let store = &scene.store;
    let hold = bound(store, &InstanceId::generate(), "main").await;
    scene.proxy.lose(&["create_call_1("]);
    let mut call = created(store, &hold, "c").await;
    assert!(scene.proxy.has_lost());
    let events = grow(&mut call, 3);
    scene.proxy.lose(&APPEND);
    let lost = store.append_for(&hold, call.clone(), events.clone(), false).await;
    assert!(matches!(lost, Err(StoreError::Unavailable(_))), "{lost:?}");
    store.append_for(&hold, call.clone(), events, true).await.unwrap();
    let note = || {
        vec![Note::Audit(Box::new(Fact {
            workspace: "main".to_owned(),
            ..Fact::new(Kind::Allowed)
        }))]
    };
    scene.proxy.lose(&["store_notes_1("]);
    let lost = store.note_for(&hold, 1, note()).await;
    assert!(matches!(lost, Err(StoreError::Unavailable(_))), "{lost:?}");
    store.note_for(&hold, 1, note()).await.unwrap();
    scene.proxy.lose(&["INSERT INTO prompts", "COMMIT"]);
    let opened = store.open_for(&hold, prompt("p", "c", &hold.run), None, None, false);
    assert!(opened.await.unwrap().is_empty());
    assert!(scene.proxy.has_lost());
    assert_eq!(scene.told().await, ["admitted", "allowed", "prompted"]);
    assert_eq!(store.get(&call.id).await.unwrap().unwrap(), call);

    // With notes: it is there once, and so are they.
    let mut second = CallRecord {
        id: CallId::from("d"),
        last_sequence: 0,
        created: Timestamp::now(),
        ..call
    };
    let events = grow(&mut second, 1);
    scene.proxy.lose(&["create_call_1("]);
    let with_notes = store.create_call_with(&hold, (2, note()), second.clone(), events, false);
    assert_eq!(with_notes.await.unwrap(), Created::New);
    assert!(scene.proxy.has_lost());
    assert_eq!(store.get(&second.id).await.unwrap(), Some(second.clone()));
    let events = grow(&mut second, 1);
    let append = |again: bool| store.append_with(&hold, (3, note()), second.clone(), events.clone(), again);
    scene.proxy.lose(&APPEND);
    let lost = append(false).await;
    assert!(matches!(lost, Err(StoreError::Unavailable(_))), "{lost:?}");
    append(true).await.unwrap();
    assert_eq!(scene.told().await[3..], ["admitted", "allowed", "allowed"]);
    assert_eq!(store.get(&second.id).await.unwrap(), Some(second));
    scene.store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_end_that_nobody_heard_of_is_found_after_the_database_was_away() {
    let scene = Scene::new().await;
    let store = &scene.store;
    let mut call = create(store, record("c", &scene.instance)).await;
    let events = end(&mut call, Timestamp(5_000));
    // Its caller goes away.
    scene.proxy.hang(&APPEND);
    let gone = tokio::time::timeout(LIMIT / 4, store.append(call.clone(), events.clone())).await;
    assert!(gone.is_err());
    // It cannot be asked for a while.
    let locked = "ALTER TABLE call_days RENAME TO elsewhere";
    scene.server.run(&scene.name, locked).await;
    assert!(store.append(call.clone(), events.clone()).await.is_err());
    scene
        .server
        .run(&scene.name, "ALTER TABLE elsewhere RENAME TO call_days")
        .await;
    store.append(call.clone(), events).await.unwrap();
    assert_eq!(scene.told().await, ["admitted", "ended"]);
    scene.store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_is_created_without_an_answer_is_new() {
    let scene = Scene::new().await;
    let store = &scene.store;
    let new = |id: &str| {
        let mut call = record(id, &scene.instance);
        let events = grow(&mut call, 2);
        (call, events)
    };
    scene.proxy.lose(&["create_call_1("]);
    let (call, events) = new("lost");
    assert_eq!(store.create_call(call, events).await.unwrap(), Created::New);
    assert!(scene.proxy.has_lost());
    scene.proxy.hang(&["create_call_1("]);
    let (call, events) = new("late");
    assert_eq!(store.create_call(call, events).await.unwrap(), Created::New);
    // Another one's is not this one's because there was no answer.
    let (mut call, events) = new("lost");
    call.title = "another".to_owned();
    scene.proxy.lose(&["create_call_1("]);
    let taken = store.create_call(call, events).await.unwrap();
    assert!(matches!(taken, Created::Taken(taken) if taken.title.is_empty()));
    assert_eq!(scene.told().await, ["admitted", "admitted"]);
    scene.store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prompt_that_is_opened_without_an_answer_is_open() {
    let scene = Scene::new().await;
    let store = &scene.store;
    scene.proxy.lose(&["INSERT INTO prompts", "COMMIT"]);
    let opened = store.open(
        prompt("p", "c", &scene.instance),
        None,
        Some([GrantId::from("g")].into()),
    );
    assert!(opened.await.unwrap().is_empty());
    assert!(scene.proxy.has_lost());
    let other = Prompt {
        agent: "another".to_owned(),
        ..prompt("p", "c", &scene.instance)
    };
    scene.proxy.lose(&["INSERT INTO prompts"]);
    let refused = store.open(other, None, None).await;
    assert!(matches!(refused, Err(StoreError::Conflict(_))), "{refused:?}");
    assert_eq!(scene.told().await, ["prompted"]);
    scene.store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_piece_of_an_output_is_there_once() {
    let scene = Scene::new().await;
    let store = &scene.store;
    let call: CallRecord = record("c", &scene.instance);
    let mut writer = store.create_output(OutputOwner::from(&call)).await.unwrap();
    writer.append("a\n".into()).await.unwrap();
    // Its connection is lost.
    scene.proxy.lose(&["append_to_output_1("]);
    writer.append("b\n".into()).await.unwrap();
    assert!(scene.proxy.has_lost());
    // Its caller goes away, and says it again.
    let gone = async |writer: &mut Box<dyn toolgate_store::OutputWriter>, piece: &'static str| {
        scene.proxy.hang(&["append_to_output_1("]);
        let gone = tokio::time::timeout(LIMIT / 4, writer.append(Bytes::from(piece))).await;
        assert!(gone.is_err());
    };
    gone(&mut writer, "c\n").await;
    writer.append("c\n".into()).await.unwrap();
    // Its caller goes away, and goes on with something else.
    gone(&mut writer, "d\n").await;
    let refused = writer.append("e\n".into()).await;
    assert!(matches!(refused, Err(StoreError::Conflict(_))), "{refused:?}");
    writer.append("e\n".into()).await.unwrap();
    let info = writer.finish().await.unwrap();
    assert_eq!((info.bytes, info.lines), (10, 5));
    let read = store.read(&info.id, 0, 100).await.unwrap();
    assert_eq!(read, "a\nb\nc\nd\ne\n");
    scene.store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_were_taken_over_are_returned_in_the_end() {
    let scene = Scene::new().await;
    let store = &scene.store;
    let dead = InstanceId::generate();
    for number in 0..100 {
        create(store, record(&number.to_string(), &dead)).await;
    }
    // More than one transaction takes, of which a later one fails.
    let refuse = "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                      IF new.id = '90' THEN
                          RAISE EXCEPTION 'not now';
                      END IF;
                      RETURN new;
                  END $$;
                  CREATE TRIGGER refuse BEFORE UPDATE ON calls FOR EACH ROW EXECUTE FUNCTION refuse()";
    scene.server.run(&scene.name, refuse).await;
    assert!(store.adopt_orphans(&scene.instance).await.is_err());
    scene.server.run(&scene.name, "DROP TRIGGER refuse ON calls").await;
    // And the last answer is lost.
    scene.proxy.lose(&["FOR UPDATE OF c SKIP LOCKED", "COMMIT"]);
    assert!(store.adopt_orphans(&scene.instance).await.is_err());
    assert!(scene.proxy.has_lost());
    let adopted = store.adopt_orphans(&scene.instance).await.unwrap();
    assert_eq!(adopted.len(), 100);
    assert!(adopted.iter().all(|call| call.owner == scene.instance));
    assert_eq!(store.adopt_orphans(&scene.instance).await.unwrap(), []);
    assert!(store.get(&CallId::from("90")).await.unwrap().is_some());
    scene.store.close().await.unwrap();
}
