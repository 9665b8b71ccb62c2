//! Workspaces that clients create: what is wanted of each, who works for it, and that nothing is admitted where nothing is to run.

use std::time::Duration;

use toolgate_model::{InstanceId, PromptState, Timestamp, WorkspaceSource};
use toolgate_postgres::PostgresStore;
use toolgate_store::created::{Asked, CreatedWorkspace, CreatedWorkspaces as _, NewWorkspace, Quota, Stage, Step};
use toolgate_store::ledger::{Binding, Bound, Hold, Ledger as _};
use toolgate_store::{CallLog as _, Created, Prompts as _, StoreError, Upkeep as _};

use crate::holding::{PRINCIPAL, Scene, created, open};
use crate::reaping::{told, waiting};
use crate::store::{grow, record};

const LEASE: Duration = Duration::from_secs(30);
const TERM: Duration = Duration::from_secs(30);

fn new(name: &str, source: WorkspaceSource) -> NewWorkspace {
    NewWorkspace {
        name: name.to_owned(),
        source,
        by: "token:anna".to_owned(),
        time: Timestamp::now(),
        request: format!("request-of-{name}"),
    }
}

async fn want(store: &PostgresStore, name: &str) -> Asked {
    let new = new(name, WorkspaceSource::Empty);
    store.want_workspace(new, &[], &[]).await.unwrap()
}

/// Claims the only one for which something is to be done.
async fn claimed(store: &PostgresStore) -> CreatedWorkspace {
    let mut claimed = store.claim_created(TERM, 10).await.unwrap();
    assert_eq!(claimed.len(), 1, "{claimed:?}");
    claimed.remove(0)
}

/// Makes a workspace that a run has.
async fn ready(scene: &Scene, name: &str) -> InstanceId {
    let store = &scene.store;
    assert!(matches!(want(store, name).await, Asked::Now(_)));
    let workspace = claimed(store).await;
    let run = InstanceId::generate();
    scene.bound(&run, name).await;
    let reached = Step::Reached(Stage::Ready, Duration::from_secs(300));
    assert!(store.step_created(&workspace, reached).await.unwrap());
    run
}

/// Stores a new call of a run.
async fn called(store: &PostgresStore, hold: &Hold, id: &str) -> Result<Created, StoreError> {
    let mut call = record(id, &hold.run);
    call.origin.workspace.clone_from(&hold.workspace);
    call.created = Timestamp::now();
    let events = grow(&mut call, 1);
    store.create_call_for(hold, call, events, false).await
}

async fn stage(store: &PostgresStore, name: &str) -> Option<Stage> {
    store.created(name).await.unwrap().map(|one| one.stage)
}

#[tokio::test]
async fn a_name_is_one_workspace() {
    let scene = Scene::new(LEASE).await;
    let (store, other) = (&scene.store, open(scene.server, &scene.name, LEASE).await);
    let template = |name: &str| new("acme/a", WorkspaceSource::Template(name.to_owned()));
    let (one, two) = tokio::join!(
        store.want_workspace(template("web"), &[], &[]),
        other.want_workspace(template("web"), &[], &[]),
    );
    let both = [one.unwrap(), two.unwrap()];
    let is_now = |asked: &&Asked| matches!(asked, Asked::Now(_));
    assert_eq!(both.iter().filter(is_now).count(), 1, "{both:?}");
    let otherwise = store.want_workspace(template("other"), &[], &[]).await.unwrap();
    assert_eq!(otherwise, Asked::Otherwise);
    // What somebody has or had without creating it, or serves, is nobody's to create.
    scene.bound(&InstanceId::generate(), "held").await;
    assert_eq!(want(store, "held").await, Asked::Foreign);
    store.bind_worker("worker:pods/p", "", "bound").await.unwrap();
    assert_eq!(want(store, "bound").await, Asked::Foreign);
    let served = ["served".to_owned()];
    let asked = store.want_workspace(new("served", WorkspaceSource::Empty), &[], &served);
    assert_eq!(asked.await.unwrap(), Asked::Foreign);

    // Those of other gateways count, those under way too, and those that are served.
    let quota = |of: &[&str], most| Quota {
        of: Some(of.iter().map(|one| (*one).to_owned()).collect()),
        most,
    };
    let served = ["acme/served".to_owned(), "acme".to_owned()];
    let ask = async |name: &str, quota: Quota| {
        let quotas = [Quota { of: None, most: 100 }, quota];
        store
            .want_workspace(new(name, WorkspaceSource::Empty), &quotas, &served)
            .await
            .unwrap()
    };
    let full = ask("acme/b", quota(&["acme/*"], 2)).await;
    assert_eq!(full, Asked::Full { quota: 1, open: 2 });
    assert!(matches!(ask("acme/b", quota(&["acme/*"], 3)).await, Asked::Now(_)));
    assert!(matches!(
        ask("beta/b", quota(&["beta/*", "acme"], 2)).await,
        Asked::Now(_)
    ));
    let named = store.created_after("acme/a", 10).await.unwrap();
    let named: Vec<&str> = named.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(named, ["acme/b", "beta/b"]);
    assert_eq!(store.count_created().await.unwrap(), [(Stage::Creating, 3)]);
}

#[tokio::test]
async fn one_at_a_time_works_for_a_workspace() {
    let scene = Scene::new(LEASE).await;
    let (store, other) = (&scene.store, open(scene.server, &scene.name, LEASE).await);
    want(store, "a").await;
    let first = claimed(store).await;
    assert!(other.claim_created(TERM, 10).await.unwrap().is_empty());
    assert!(store.keep_claim(&first, TERM).await.unwrap());
    assert!(!other.keep_claim(&first, TERM).await.unwrap());
    // Who is gone is waited for no longer than its claim.
    scene
        .server
        .run(
            &scene.name,
            "UPDATE created_workspaces SET claimed_until = clock_timestamp()",
        )
        .await;
    let second = claimed(&other).await;
    assert_eq!(second.name, "a");
    assert!(
        !store
            .step_created(&first, Step::Failed("late".to_owned()))
            .await
            .unwrap()
    );
    let later = Step::Later {
        after: Duration::ZERO,
        problem: "not yet".to_owned(),
        is_begun: true,
        attempts: 3,
    };
    assert!(other.step_created(&second, later).await.unwrap());
    let third = claimed(store).await;
    assert_eq!(
        (third.problem.as_str(), third.is_begun, third.attempts),
        ("not yet", true, 3)
    );

    // Whoever wants something else is not overtaken, and whoever is at it gives way first.
    let deleting = store
        .want_stage("a", &[Stage::Creating], Stage::Deleting, "token:ben")
        .await;
    assert_eq!(deleting.unwrap().unwrap().asked_by, "token:ben");
    assert!(!store.keep_claim(&third, TERM).await.unwrap());
    assert!(
        !store
            .step_created(&third, Step::Reached(Stage::Ready, TERM))
            .await
            .unwrap()
    );
    assert!(other.claim_created(TERM, 10).await.unwrap().is_empty());
    store.give_back(&third).await.unwrap();
    let fourth = claimed(&other).await;
    other.forget_created(&fourth).await.unwrap();
    assert_eq!(stage(store, "a").await, None);
    assert!(matches!(want(store, "a").await, Asked::Now(_)));

    // One that has failed is tried again, with the source as it is said then.
    let workspace = claimed(store).await;
    store
        .step_created(&workspace, Step::Failed("why".to_owned()))
        .await
        .unwrap();
    let failed = store.created("a").await.unwrap().unwrap();
    assert_eq!((failed.stage, failed.problem.as_str()), (Stage::Failed, "why"));
    assert!(store.claim_created(TERM, 10).await.unwrap().is_empty());
    assert!(matches!(want(store, "a").await, Asked::Now(again) if again.problem.is_empty()));
}

#[tokio::test]
async fn what_is_wanted_once_more_is_not_what_was_wanted_before() {
    let scene = Scene::new(LEASE).await;
    let store = &scene.store;
    ready(&scene, "a").await;
    let to = async |from: Stage, to: Stage| {
        let wanted = store.want_stage("a", &[from], to, "token:ben").await;
        assert!(wanted.unwrap().is_some(), "from {from:?} to {to:?}");
    };
    to(Stage::Ready, Stage::Suspending).await;
    let attempt = claimed(store).await;
    assert!(store.keep_claim(&attempt, TERM).await.unwrap());
    // While that attempt is under way.
    to(Stage::Suspending, Stage::Resuming).await;
    to(Stage::Resuming, Stage::Suspending).await;
    assert!(!store.keep_claim(&attempt, TERM).await.unwrap());
    let suspended = Step::Reached(Stage::Suspended, TERM);
    assert!(!store.step_created(&attempt, suspended.clone()).await.unwrap());
    assert_eq!(stage(store, "a").await, Some(Stage::Suspending));
    store.give_back(&attempt).await.unwrap();
    let again = claimed(store).await;
    assert!(store.step_created(&again, suspended).await.unwrap());
    assert_eq!(stage(store, "a").await, Some(Stage::Suspended));
}

#[tokio::test]
async fn nothing_is_admitted_where_nothing_is_to_run() {
    let scene = Scene::new(LEASE).await;
    let store = &scene.store;
    let run = ready(&scene, "a").await;
    let hold = scene.bound(&run, "a").await;
    let waits = waiting(store, &hold, "waits", false).await;
    let runs = created(store, &hold, "runs").await;
    let unfinished = store.unfinished_calls("a").await.unwrap();
    assert_eq!(unfinished, [(waits.id.clone(), true), (runs.id.clone(), false)]);

    store
        .want_stage("a", &[Stage::Ready], Stage::Suspending, "token:anna")
        .await
        .unwrap();
    let workspace = claimed(store).await;
    store.take_from_holder(&workspace).await.unwrap();
    // The run has it no more, and nobody gets it.
    assert!(matches!(called(store, &hold, "late").await, Err(StoreError::Fenced(_))));
    for run in [&run, &InstanceId::generate()] {
        let bound = store.bind(run, PRINCIPAL, "", &["a".to_owned()]).await.unwrap();
        assert!(matches!(bound, Bound::Held { .. }), "{bound:?}");
    }
    store.end_calls(&workspace, false, 2).await.unwrap();
    let ended = store.get(&runs.id).await.unwrap().unwrap();
    assert!(ended.ended.is_some(), "{ended:?}");
    let is_open = async || store.prompt(&"p-waits".into()).await.unwrap().unwrap().state == PromptState::Open;
    assert!(store.get(&waits.id).await.unwrap().unwrap().ended.is_none() && is_open().await);
    assert_eq!(store.created("a").await.unwrap().unwrap().cancelled, 3);
    store
        .step_created(&workspace, Step::Reached(Stage::Suspended, TERM))
        .await
        .unwrap();

    // As long as its prompt is open it rests, and then it goes on.
    assert!(store.resume_answered().await.unwrap().is_empty());
    scene
        .server
        .run(&scene.name, "UPDATE prompts SET state = 'resolved'")
        .await;
    assert_eq!(store.resume_answered().await.unwrap(), ["a"]);
    scene.server.run(&scene.name, "UPDATE prompts SET state = 'open'").await;
    let workspace = claimed(store).await;
    assert_eq!((workspace.stage, workspace.asked_by.as_str()), (Stage::Resuming, ""));
    let next = InstanceId::generate();
    let hold = scene.bound(&next, "a").await;
    assert_eq!(store.adopt_for(&hold).await.unwrap()[0].id, waits.id);
    store
        .step_created(&workspace, Step::Reached(Stage::Ready, TERM))
        .await
        .unwrap();

    // With the workspace goes what waits there.
    store
        .want_stage("a", &[Stage::Ready], Stage::Deleting, "token:anna")
        .await
        .unwrap();
    let workspace = claimed(store).await;
    store.take_from_holder(&workspace).await.unwrap();
    store.end_calls(&workspace, true, 0).await.unwrap();
    assert!(store.get(&waits.id).await.unwrap().unwrap().ended.is_some() && !is_open().await);
    store.forget_created(&workspace).await.unwrap();
    assert!(!store.was_held("a").await.unwrap());
    for kind in [
        "workspace_opened",
        "workspace_suspended",
        "workspace_resumed",
        "workspace_closed",
    ] {
        crate::leases::until(kind, async || told(store, kind).await == 1).await;
    }
    // Anybody may have the name now.
    scene.bound(&InstanceId::generate(), "a").await;
    assert_eq!(want(store, "a").await, Asked::Foreign);
    scene.store.close().await.unwrap();
}

#[tokio::test]
async fn what_is_idle_rests_unless_a_call_comes() {
    let scene = Scene::new(LEASE).await;
    let store = &scene.store;
    let run = ready(&scene, "a").await;
    let hold = scene.bound(&run, "a").await;
    let idle = Duration::from_secs(60);
    let grow_old = "UPDATE created_workspaces SET called = clock_timestamp() - interval '1 hour'";
    assert!(store.suspend_idle(idle).await.unwrap().is_empty());
    scene.server.run(&scene.name, grow_old).await;
    store.note_called(&["a".to_owned(), "none".to_owned()]).await.unwrap();
    assert!(store.suspend_idle(idle).await.unwrap().is_empty());
    // What runs is seen although nobody has noted it, and what waits does not count.
    waiting(store, &hold, "waits", false).await;
    let runs = created(store, &hold, "runs").await;
    scene.server.run(&scene.name, grow_old).await;
    assert!(store.suspend_idle(idle).await.unwrap().is_empty());
    let mut ended = runs.clone();
    let end = toolgate_store::lost::end(&mut ended, Timestamp(1_000));
    store.append_for(&hold, ended, vec![end], false).await.unwrap();
    scene.server.run(&scene.name, grow_old).await;
    scene
        .server
        .run(&scene.name, "UPDATE calls SET ended = 1000 WHERE ended IS NOT NULL")
        .await;
    assert_eq!(store.suspend_idle(idle).await.unwrap(), ["a"]);
    assert_eq!(stage(store, "a").await, Some(Stage::Suspending));
    assert!(matches!(called(store, &hold, "late").await, Err(StoreError::Fenced(_))));
}

#[tokio::test]
async fn what_has_just_ended_was_use_however_long_ago_it_began() {
    let scene = Scene::new(LEASE).await;
    let store = &scene.store;
    let run = ready(&scene, "a").await;
    let hold = scene.bound(&run, "a").await;
    let mut call = record("long", &hold.run);
    call.origin.workspace.clone_from(&hold.workspace);
    call.created = Timestamp(Timestamp::now().millis() - 3 * 86_400_000);
    let events = grow(&mut call, 1);
    store.create_call_for(&hold, call.clone(), events, false).await.unwrap();
    let end = toolgate_store::lost::end(&mut call, Timestamp::now());
    store.append_for(&hold, call, vec![end], false).await.unwrap();
    let grow_old = "UPDATE created_workspaces SET called = clock_timestamp() - interval '1 hour'";
    scene.server.run(&scene.name, grow_old).await;
    assert!(store.suspend_idle(Duration::from_secs(60)).await.unwrap().is_empty());
    assert_eq!(stage(store, "a").await, Some(Stage::Ready));
}

#[tokio::test]
async fn what_a_later_release_has_written_is_in_nobodys_way() {
    let scene = Scene::new(LEASE).await;
    let store = &scene.store;
    let run = ready(&scene, "b").await;
    let hold = scene.bound(&run, "b").await;
    ready(&scene, "d").await;
    for name in ["a", "c", "e"] {
        want(store, name).await;
    }
    let sql = async |sql: &str| scene.server.run(&scene.name, sql).await;
    sql("UPDATE created_workspaces SET stage = 'moving' WHERE name = 'a'").await;
    sql("UPDATE created_workspaces SET source = '{\"other\":1}' WHERE name = 'c'").await;

    // A page is as long as if they were not there: a shorter one would be taken for the last.
    let mut pages = Vec::new();
    let mut last = String::new();
    loop {
        let page = store.created_after(&last, 2).await.unwrap();
        let names: Vec<String> = page.into_iter().map(|one| one.name).collect();
        let Some(name) = names.last() else { break };
        last.clone_from(name);
        pages.push(names);
    }
    assert_eq!(pages, [vec!["b".to_owned(), "d".to_owned()], vec!["e".to_owned()]]);

    // They are not claimed, and come again in a moment, maybe to somebody who knows them.
    assert_eq!(claimed(store).await.name, "e");
    assert!(store.claim_created(TERM, 10).await.unwrap().is_empty());
    let other = open(scene.server, &scene.name, LEASE).await;
    assert!(other.claim_created(TERM, 10).await.unwrap().is_empty(), "not at once");
    let again = "UPDATE created_workspaces SET due = clock_timestamp(), stage = 'creating'
                 WHERE name = 'a' AND due < clock_timestamp() + interval '11 seconds' AND claimant IS NULL";
    sql(again).await;
    assert_eq!(claimed(&other).await.name, "a");

    // A call that cannot be read may run.
    created(store, &hold, "unknown").await;
    sql("UPDATE calls SET record = '{}' WHERE id = 'unknown'").await;
    sql("UPDATE created_workspaces SET called = clock_timestamp() - interval '1 hour'").await;
    let suspended = store.suspend_idle(Duration::from_secs(60)).await.unwrap();
    assert_eq!(suspended, ["d"]);
    assert_eq!(stage(store, "b").await, Some(Stage::Ready));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_is_free_again_is_one_persons() {
    let scene = Scene::new(LEASE).await;
    let store = &scene.store;
    let other = open(scene.server, &scene.name, LEASE).await;
    let forget = async |name: &str| {
        ready(&scene, name).await;
        let stage = store.want_stage(name, &[Stage::Ready], Stage::Deleting, "").await;
        assert!(stage.unwrap().is_some());
        store.forget_created(&claimed(store).await).await.unwrap();
        assert!(!store.was_held(name).await.unwrap());
    };
    // A release that knows nothing of that has it, and has had it.
    forget("old").await;
    let old = "UPDATE workspaces SET owner = 'old', epoch = epoch + 1 WHERE id = 'old'";
    scene.server.run(&scene.name, old).await;
    assert_eq!(want(store, "old").await, Asked::Foreign);
    scene
        .server
        .run(&scene.name, "UPDATE workspaces SET owner = NULL WHERE id = 'old'")
        .await;
    assert_eq!(want(store, "old").await, Asked::Foreign);
    assert!(store.was_held("old").await.unwrap());
    assert!(store.which_are_free(&["old".to_owned()]).await.unwrap().is_empty());

    // A run that takes it and a worker that is bound to it at the same moment: one of them does.
    for round in 0..20 {
        let name = format!("w{round}");
        forget(&name).await;
        let (run, names) = (InstanceId::generate(), [name.clone()]);
        let (taken, bound) = tokio::join!(
            store.bind(&run, PRINCIPAL, "", &names),
            other.bind_worker("worker:pods/p", &name, &name),
        );
        let (taken, bound) = (matches!(taken, Ok(Bound::Now(_))), bound.unwrap() == Binding::Now);
        assert_ne!(taken, bound, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_and_a_suspension_at_once_do_not_miss_each_other() {
    let scene = Scene::new(LEASE).await;
    let store = &scene.store;
    for round in 0..30 {
        let name = format!("w{round}");
        let run = ready(&scene, &name).await;
        let hold = scene.bound(&run, &name).await;
        let grow_old =
            "UPDATE created_workspaces SET called = clock_timestamp() - interval '1 hour' WHERE stage = 'ready'";
        scene.server.run(&scene.name, grow_old).await;
        let id = format!("call-{round}");
        let (called, rested) = tokio::join!(called(store, &hold, &id), store.suspend_idle(Duration::from_secs(60)),);
        let rested = rested.unwrap().contains(&name);
        assert_ne!(called.is_ok(), rested, "{name}: {called:?}");
        scene.server.run(&scene.name, "DELETE FROM created_workspaces").await;
    }
}

#[tokio::test]
async fn the_worker_of_another_pod_takes_the_place_of_the_first() {
    let scene = Scene::new(LEASE).await;
    let store = &scene.store;
    want(store, "a").await;
    let workspace = claimed(store).await;
    let bind = async |pod: &str| store.bind_worker(&format!("worker:pods/{pod}"), "", "a").await.unwrap();
    assert_eq!(bind("one").await, Binding::Now);
    // Also where a run has had it.
    let run = InstanceId::generate();
    let bound = store
        .bind(&run, "worker:pods/one", "", &["a".to_owned()])
        .await
        .unwrap();
    assert!(matches!(bound, Bound::Now(_)));
    assert!(matches!(bind("two").await, Binding::OfAnother { .. }));
    store.release_binding(&workspace, "worker:pods/two", "").await.unwrap();
    assert_eq!(bind("two").await, Binding::Now);
    assert!(matches!(bind("one").await, Binding::OfAnother { .. }));
    // Who has not claimed it changes nothing.
    let other = open(scene.server, &scene.name, LEASE).await;
    other.release_binding(&workspace, "worker:pods/one", "").await.unwrap();
    assert_eq!(bind("two").await, Binding::Now);
}
