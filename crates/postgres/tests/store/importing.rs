//! The history of a data directory, brought into a database.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;
use toolgate_model::audit_key::Key;
use toolgate_model::{
    CallState, EndReason, EventKind, FileChange, FileVersion, Grant, GrantId, GrantReach, GrantScope, InstanceId,
    Outcome, PromptId, PromptState, SessionId, SessionKey, Timestamp,
};
use toolgate_postgres::{Imported, PostgresOptions, PostgresStore, import, look};
use toolgate_store::audit::{Recorder, Verified, Verifier};
use toolgate_store::ledger::Ledger as _;
use toolgate_store::local::export::Export;
use toolgate_store::local::{Claim, LocalStore, StoreOptions};
use toolgate_store::{
    AskedPrompt, Audit as _, CallLog as _, Changes as _, Journal as _, OutputOwner, Outputs as _, Prompts as _,
    SessionFacts as _, StoreError, Upkeep as _,
};

use crate::fixture::{database, server};
use crate::holding::bound;
use crate::leases::until;
use crate::server::Server;
use crate::store::{create, end, grow, prompt, record};

const OUTPUT: usize = 3_000_000;

/// All tables that a history comes into.
const ROWS: &str = "SELECT (SELECT count(*) FROM calls) + (SELECT count(*) FROM call_days) + (SELECT count(*) FROM events)
    + (SELECT count(*) FROM prompts) + (SELECT count(*) FROM outputs) + (SELECT count(*) FROM journal) + (SELECT count(*) FROM audit)
    + (SELECT count(*) FROM ends) + (SELECT count(*) FROM pg_inherits WHERE inhparent = 'calls'::regclass)";

fn recorder() -> Recorder {
    Recorder {
        key: Key::new(b"0123456789abcdef0123456789abcdef").ok(),
        ..Recorder::default()
    }
}

fn options(server: &Server, name: &str) -> PostgresOptions {
    PostgresOptions {
        recorder: recorder(),
        ..PostgresOptions::new(server.address(name))
    }
}

fn session() -> SessionKey {
    SessionKey::new("main", &SessionId::from("ses_1"))
}

async fn open_local(folder: &TempDir, instance: &InstanceId) -> LocalStore {
    let options = StoreOptions {
        recorder: recorder(),
        ..StoreOptions::default()
    };
    LocalStore::open_with(folder.path(), instance.clone(), options).unwrap()
}

/// Fills a data directory: calls `ends`, `runs` and `waits` with a prompt, a grant for good and one of the run, a fact, an output of `ends`.
async fn fill(folder: &TempDir) {
    let instance = InstanceId::generate();
    let store = open_local(folder, &instance).await;
    let mut ends = create(&store, record("ends", &instance)).await;
    let logged = grow(&mut ends, 2_000);
    store.append(ends.clone(), logged).await.unwrap();
    let owner = OutputOwner::from(&ends);
    let mut writer = store.create_output(owner.clone()).await.unwrap();
    writer.append("line\n".repeat(OUTPUT / 5).into()).await.unwrap();
    writer.finish().await.unwrap();
    // One that its run did not complete.
    let mut writer = store.create_output(owner).await.unwrap();
    writer.append("half".into()).await.unwrap();
    let after = FileVersion {
        sha256: store.put_blob("content".into()).await.unwrap(),
        bytes: 7,
        mode: None,
    };
    let change = FileChange {
        path: PathBuf::from("/file"),
        shown: PathBuf::from("file"),
        before: None,
        after: Some(after),
    };
    store.record_changes(&ends.id, vec![change]).await.unwrap();
    let logged = end(&mut ends, Timestamp::now());
    store.append(ends, logged).await.unwrap();
    for (id, state, waits) in [("runs", CallState::Running, false), ("waits", CallState::Waiting, true)] {
        let mut call = create(&store, record(id, &instance)).await;
        (call.state, call.waiting_on) = (state, waits.then(|| PromptId::from("p-waits")));
        let events = grow(&mut call, 1);
        store.append(call, events).await.unwrap();
        let name = format!("p-{id}");
        let asker = Some(json!({ "asks": id }));
        store.open(prompt(&name, id, &instance), asker, None).await.unwrap();
    }
    let kept = |id: &str, reach| Grant {
        id: GrantId::from(id),
        owner: instance.clone(),
        workspace: "main".to_owned(),
        worktree: String::new(),
        session: SessionId::from("ses_1"),
        scope: GrantScope {
            reach,
            ..GrantScope::default()
        },
        permission: "bash".to_owned(),
        pattern: "ls *".to_owned(),
        prompt: PromptId::from("p"),
        approvers: Vec::new(),
        title: String::new(),
        by: String::new(),
        created: Timestamp::now(),
        uses: 0,
        last_used: None,
    };
    let granting = create(&store, record("grants", &instance)).await;
    let asked = prompt("p-grants", granting.id.as_str(), &instance);
    store.open(asked, None, None).await.unwrap();
    let settlement = toolgate_store::Settlement {
        prompt: "p-grants".into(),
        state: PromptState::Withdrawn,
        decision: toolgate_model::Decision::new(toolgate_model::PromptOutcome::Withdrawn("so".to_owned())),
        uses: Vec::new(),
    };
    let grants = vec![
        kept("for-good", GrantReach::Session),
        kept("of-the-run", GrantScope::default().reach),
    ];
    store.settle(settlement, Vec::new(), grants, None).await.unwrap();
    store.remember(&session(), "todos\0", json!(["one"]));
    drop(writer);
    store.close().await.unwrap();
}

fn refused(outcome: Result<Imported, StoreError>, expected: &str) {
    match outcome {
        Err(StoreError::Conflict(text)) => assert!(text.contains(expected), "{text}"),
        other => panic!("{other:?}"),
    }
}

async fn verify(store: &PostgresStore) -> Verified {
    let head = store.audit_end().await.unwrap().head;
    let lines = store.audit_lines(1, usize::MAX).await.unwrap();
    let mut verifier = Verifier::new(recorder().key.into_iter().collect());
    for line in &lines {
        verifier.line(line.json.as_bytes()).unwrap();
    }
    verifier.line(head.line(lines.len() as u64).as_bytes()).unwrap();
    verifier.finish().unwrap()
}

async fn rows(server: &Server, name: &str) -> i64 {
    let client = server.connect(name).await.unwrap();
    client.query_one(ROWS, &[]).await.unwrap().get(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_history_goes_on_in_a_database() {
    let (folder, server) = (TempDir::new().unwrap(), server().await);
    let name = database(server).await;
    fill(&folder).await;
    let options = options(server, &name);
    // Whoever looks at it as a gateway does begins a chain, which is no history.
    let looked = PostgresStore::open(self::options(server, &name), InstanceId::generate())
        .await
        .unwrap();
    looked.close().await.unwrap();

    let claim = Claim::take(folder.path()).unwrap();
    assert!(Export::open(folder.path()).is_err(), "a service has it");
    drop(claim);
    let mut export = Export::open(folder.path()).unwrap();
    assert!(Claim::take(folder.path()).is_err(), "it is claimed");
    let other = PostgresOptions::new(server.address(&name));
    refused(import(&other, &mut export, Vec::new()).await, "audit.key_file");
    let expected = look(&options, &mut export).await.unwrap();
    let imported = import(&options, &mut export, Vec::new()).await.unwrap();
    assert_eq!(imported, expected);
    let counts = &imported.counts;
    assert_eq!(
        (
            counts.calls,
            counts.prompts,
            counts.grants,
            counts.facts,
            counts.changes
        ),
        (4, 3, 1, 1, 1)
    );
    assert_eq!((counts.outputs, imported.output_bytes), (2, OUTPUT as u64 + 4));
    assert_eq!((imported.lost, imported.waiting), (2, 1));
    refused(import(&options, &mut export, Vec::new()).await, "not empty");
    refused(look(&options, &mut export).await, "4 calls");
    drop(export);

    let local = open_local(&folder, &InstanceId::generate()).await;
    let store = PostgresStore::open(options, InstanceId::generate()).await.unwrap();
    for id in ["ends", "waits"] {
        let id = id.into();
        assert_eq!(store.get(&id).await.unwrap(), local.get(&id).await.unwrap());
        let log = store.events(&id, 0, 10_000).await.unwrap();
        assert!(log == local.events(&id, 0, 10_000).await.unwrap() && !log.is_empty());
        assert_eq!(store.changes(&id).await.unwrap(), local.changes(&id).await.unwrap());
    }
    for id in ["p-waits", "p-grants"] {
        let id = id.into();
        let (found, expected) = (store.asked(&id).await.unwrap(), local.asked(&id).await.unwrap());
        let (found, expected) = (found.unwrap(), expected.unwrap());
        // That was a moment ago.
        assert!(found.age.abs_diff(expected.age) < Duration::from_secs(600), "{found:?}");
        let age = expected.age;
        assert_eq!(AskedPrompt { age, ..found }, expected);
    }
    let lost = store.get(&"runs".into()).await.unwrap().unwrap();
    let outcome = lost.ending.map(|ending| ending.outcome);
    assert!(matches!(
        outcome,
        Some(Outcome::Failed {
            reason: EndReason::Lost,
            ..
        })
    ));
    let log = store.events(&"runs".into(), 0, 100).await.unwrap();
    assert!(matches!(log.last().unwrap().kind, EventKind::Ended(_)) && log.len() == 3);
    let withdrawn = store.prompt(&"p-runs".into()).await.unwrap().unwrap();
    assert_eq!(withdrawn.state, PromptState::Withdrawn);
    assert!(store.grant(&"for-good".into()).await.unwrap().is_some());
    assert!(store.grant(&"of-the-run".into()).await.unwrap().is_none());
    let facts = store.facts(&session()).await.unwrap();
    assert_eq!(facts.get("todos\0"), Some(&json!(["one"])));
    let page = toolgate_store::PageRequest {
        size: 10,
        ..Default::default()
    };
    let outputs = store.list_outputs(&Default::default(), &page).await.unwrap().items;
    assert_eq!(outputs.len(), 2);
    for output in outputs {
        let (brought, kept) = (
            store.stat(&output.id).await.unwrap().unwrap(),
            local.stat(&output.id).await.unwrap().unwrap(),
        );
        assert_eq!((&brought.sha256, brought.lines), (&kept.sha256, kept.lines));
        assert!(brought.complete);
        let bytes = store.read(&output.id, 0, OUTPUT + 1).await.unwrap();
        assert!(bytes == local.read(&output.id, 0, OUTPUT + 1).await.unwrap() && !bytes.is_empty());
    }

    // The journal has its numbers, and goes on; so does the chain of the audit.
    let (before, after) = (
        local.since(0, 10_000).await.unwrap(),
        store.since(0, 10_000).await.unwrap(),
    );
    assert!(after.len() > before.len() && after[..before.len()] == before[..]);
    assert!(after.iter().map(|(number, _)| *number).eq(1..=after.len() as u64));
    let (chain, seam) = (imported.head.as_ref().unwrap().chain.clone(), counts.audit);
    let verified = verify(&store).await;
    assert_eq!((&verified.head.chain, verified.first), (&chain, 1));
    assert!(verified.count > seam, "what was lost is in it");
    create(&store, record("new", &InstanceId::from("x"))).await;
    assert!(verify(&store).await.count > verified.count);

    // What waits is for the next holder of the workspace, and can be answered.
    let orphans = store.adopt_orphans(&InstanceId::generate()).await.unwrap();
    assert!(orphans.iter().all(|call| call.id.as_str() != "waits"));
    let hold = bound(&store, &InstanceId::generate(), "main").await;
    let adopted = store.adopt_for(&hold).await.unwrap();
    assert!(adopted.iter().any(|call| call.id.as_str() == "waits"));
    let asked = store.asked(&"p-waits".into()).await.unwrap().unwrap();
    assert_eq!((asked.prompt.state, asked.prompt.owner), (PromptState::Open, hold.run));
    assert_eq!(asked.asker, Some(json!({ "asks": "waits" })));
    local.close().await.unwrap();
    store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_is_cut_off_leaves_the_database_empty() {
    let (folder, server) = (TempDir::new().unwrap(), server().await);
    let name = database(server).await;
    fill(&folder).await;
    assert_eq!(rows(server, &name).await, 0);
    let mut export = Export::open(folder.path()).unwrap();
    let options = options(server, &name);
    // It stops before the journal, behind calls and outputs.
    let blocker = server.connect(&name).await.unwrap();
    blocker
        .batch_execute("BEGIN; LOCK TABLE journal IN SHARE MODE")
        .await
        .unwrap();
    let watcher = server.connect(&name).await.unwrap();
    {
        let importing = import(&options, &mut export, Vec::new());
        let stopped = until("it waits", async || {
            let sql = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'journal'::regclass";
            watcher.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) > 0
        });
        tokio::select! {
            outcome = importing => panic!("{outcome:?}"),
            () = stopped => {}
        }
    }
    blocker.batch_execute("ROLLBACK").await.unwrap();
    until("it is given up", async || {
        let sql = "SELECT count(*) FROM pg_locks WHERE relation = 'call_days'::regclass";
        watcher.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) == 0
    })
    .await;
    assert_eq!(rows(server, &name).await, 0);

    // While a gateway uses it nothing is brought.
    let gateway = PostgresStore::open(self::options(server, &name), InstanceId::generate())
        .await
        .unwrap();
    refused(
        import(&options, &mut export, Vec::new()).await,
        "a gateway uses the database",
    );
    gateway.close().await.unwrap();
    let imported = import(&options, &mut export, Vec::new()).await.unwrap();
    assert_eq!(imported.counts.calls, 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_go_on_is_not_brought() {
    let (folder, server) = (TempDir::new().unwrap(), server().await);
    let name = database(server).await;
    fill(&folder).await;
    let other = Recorder {
        key: Key::new(b"another key of 32 bytes, no less").ok(),
        ..Recorder::default()
    };
    let mut export = Export::open(folder.path()).unwrap();
    let options = PostgresOptions {
        recorder: other,
        ..options(server, &name)
    };
    refused(import(&options, &mut export, Vec::new()).await, "another one");
    assert!(Export::open(&folder.path().join("nothing")).is_err());
    assert!(!folder.path().join("nothing").exists());
    assert_eq!(rows(server, &name).await, 0);
}

/// Fills a data directory with a call of each of so many days.
async fn fill_days(folder: &TempDir, days: i64) {
    let instance = InstanceId::generate();
    let store = open_local(folder, &instance).await;
    let today = Timestamp::now().millis();
    for day in 0..days {
        let mut call = record(&format!("of-day-{day}"), &instance);
        call.created = Timestamp(today - day * 86_400_000);
        let mut call = create(&store, call).await;
        let logged = end(&mut call, Timestamp(today));
        store.append(call, logged).await.unwrap();
    }
    store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_than_a_year_comes_at_once_and_what_is_too_much_is_told() {
    let (server, folder) = (server().await, TempDir::new().unwrap());
    let name = database(server).await;
    fill_days(&folder, 400).await;
    let mut export = Export::open(folder.path()).unwrap();
    assert_eq!(export.days().unwrap(), 400);
    let imported = import(&options(server, &name), &mut export, Vec::new()).await.unwrap();
    assert_eq!(imported.counts.calls, 400);
    let store = PostgresStore::open(options(server, &name), InstanceId::generate()).await;
    let store = store.unwrap();
    for day in [0, 399] {
        let id = format!("of-day-{day}");
        assert_eq!(store.get(&id.as_str().into()).await.unwrap().unwrap().id.as_str(), id);
    }
    store.close().await.unwrap();

    // As many days as this server can lock the tables of, and one more.
    let folder = TempDir::new().unwrap();
    let name = database(server).await;
    let sql =
        "SELECT current_setting('max_locks_per_transaction')::bigint * current_setting('max_connections')::bigint";
    let row = server
        .connect(&name)
        .await
        .unwrap()
        .query_typed(sql, &[])
        .await
        .unwrap();
    let most: i64 = row[0].get::<_, i64>(0) / 14;
    fill_days(&folder, most + 1).await;
    let mut export = Export::open(folder.path()).unwrap();
    let says =
        format!("can lock the tables of {most} at once: set max_locks_per_transaction of the server to 65 or more");
    refused(look(&options(server, &name), &mut export).await, &says);
    refused(import(&options(server, &name), &mut export, Vec::new()).await, &says);
}
