//! What runs without a database may write, and what not.

use std::time::Duration;

use serde_json::json;
use toolgate_model::{
    CallId, CallRecord, CallState, Decision, Grant, GrantId, GrantReach, GrantScope, InstanceId, OutputId, Prompt,
    PromptId, PromptOutcome, PromptRequest, PromptState, Question, Reply, ServiceEvent, ServiceEventKind, SessionId,
    SessionKey, Timestamp,
};
use toolgate_postgres::PostgresStore;
use toolgate_store::audit::{Fact, Kind};
use toolgate_store::ledger::{Hold, Ledger as _, Note};
use toolgate_store::{
    Audit as _, CallLog as _, Changes as _, Created, Journal as _, OutputOwner, Outputs as _, Prompts as _,
    SessionFacts as _, Settled, Settlement, StoreError, Upkeep as _,
};

use crate::holding::{Scene, bound, created};
use crate::store::{approval, end, grow, prompt, record};

const LEASE: Duration = Duration::from_secs(30);

pub(crate) fn settlement(prompt: &str, state: PromptState, outcome: PromptOutcome) -> Settlement {
    Settlement {
        prompt: PromptId::from(prompt),
        state,
        decision: Decision {
            time: Timestamp(2_000),
            ..Decision::new(outcome)
        },
        uses: Vec::new(),
    }
}

fn expiry(prompt: &str) -> Settlement {
    settlement(prompt, PromptState::Expired, PromptOutcome::Expired)
}

pub(crate) fn grant(id: &str, workspace: &str, owner: &InstanceId, reach: GrantReach) -> Grant {
    Grant {
        id: GrantId::from(id),
        owner: owner.clone(),
        workspace: workspace.to_owned(),
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
        created: Timestamp(2_000),
        uses: 0,
        last_used: None,
    }
}

pub(crate) fn asked(id: &str, call: &CallRecord) -> Prompt {
    Prompt {
        workspace: call.origin.workspace.clone(),
        ..prompt(id, call.id.as_str(), &call.owner)
    }
}

/// Has a person grant something, as a gateway stores it.
pub(crate) async fn granted(store: &PostgresStore, hold: &Hold, call: &CallRecord, grants: Vec<Grant>) {
    let id = format!("granting-{}", grants[0].id);
    store.open_for(hold, asked(&id, call), None, None, false).await.unwrap();
    let reply = settlement(&id, PromptState::Resolved, PromptOutcome::Replied(Reply::Once));
    let settled = store.settle(reply, Vec::new(), grants, None).await.unwrap();
    assert!(matches!(settled, Settled::Now { .. }));
}

fn key(workspace: &str) -> SessionKey {
    SessionKey::new(workspace, &SessionId::from("ses_1"))
}

fn fact(workspace: &str, name: &str) -> Note {
    Note::Fact {
        session: key(workspace),
        key: name.to_owned(),
        value: json!(name),
    }
}

pub(crate) fn audited(workspace: &str, kind: Kind, reason: &str) -> Note {
    Note::Audit(Box::new(Fact {
        workspace: workspace.to_owned(),
        reason: reason.to_owned(),
        ..Fact::new(kind)
    }))
}

pub(crate) fn output(last: char) -> OutputId {
    OutputId::new(format!("tool_0123456789abABCDEFGHIJKLM{last}"))
}

/// Everything that is stored, as one text for each table.
pub(crate) async fn everything(scene: &Scene) -> Vec<String> {
    scene.store.audit_end().await.unwrap();
    let client = scene.server.connect(&scene.name).await.unwrap();
    let mut all = Vec::new();
    for table in [
        "calls",
        "call_days",
        "events",
        "prompts",
        "grants",
        "facts",
        "journal",
        "audit",
        "outputs",
        "output_parts",
        "changes",
        "workspaces",
    ] {
        let sql = format!("SELECT coalesce(string_agg(t::text, '|' ORDER BY t::text), '') FROM {table} t");
        let rows = client.query_typed(&sql, &[]).await.unwrap();
        all.push(format!("{table}: {}", rows[0].get::<_, String>(0)));
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_was_taken_over_changes_nothing() {
    let scene = Scene::new(LEASE).await;
    let (store, first) = (&scene.store, InstanceId::generate());
    let hold = scene.bound(&first, "main").await;
    let call = created(store, &hold, "c").await;
    let mut ended = created(store, &hold, "ended").await;
    let events = end(&mut ended, Timestamp(5_000));
    store.append_for(&hold, ended.clone(), events, false).await.unwrap();
    store
        .open_for(&hold, asked("p", &call), Some(json!(1)), None, false)
        .await
        .unwrap();
    granted(
        store,
        &hold,
        &call,
        vec![grant("g", "main", &first, GrantReach::Workspace)],
    )
    .await;
    store.note_for(&hold, 1, vec![fact("main", "a")]).await.unwrap();
    let owner = OutputOwner::from(&call);
    store
        .begin_output_for(&hold, &output('a'), owner.clone(), call.created)
        .await
        .unwrap();
    store
        .append_output_for(&hold, &output('a'), 0, "abc".into())
        .await
        .unwrap();

    scene.kill(&first).await;
    let next = scene.bound(&InstanceId::generate(), "main").await;
    // Its row is there again: what refuses it is the epoch, not that it is dead.
    let row = format!(
        "INSERT INTO instances (id, lease_until, noted) VALUES ('{first}', clock_timestamp() + interval '1 hour', 1)"
    );
    scene.server.run(&scene.name, &row).await;
    let before = everything(&scene).await;

    let mut refused: Vec<(&str, Option<StoreError>)> = Vec::new();
    for again in [false, true] {
        let mut new = record("new", &first);
        let events = grow(&mut new, 1);
        let outcome = store.create_call_for(&hold, new, events, again).await;
        refused.push(("create", outcome.err()));
        let mut taken = record("c", &first);
        let events = grow(&mut taken, 1);
        let outcome = store.create_call_for(&hold, taken, events, again).await;
        refused.push(("create one that is there", outcome.err()));
        let mut grown = call.clone();
        let events = grow(&mut grown, 2);
        refused.push(("append", store.append_for(&hold, grown, events, again).await.err()));
        let mut late = ended.clone();
        let events = grow(&mut late, 1);
        refused.push((
            "append after the end",
            store.append_for(&hold, late, events, again).await.err(),
        ));
        let opened = store.open_for(&hold, asked("q", &call), None, None, again).await;
        refused.push(("open", opened.err()));
    }
    refused.push((
        "append nothing",
        store.append_for(&hold, call.clone(), Vec::new(), false).await.err(),
    ));
    refused.push(("adopt", store.adopt_for(&hold).await.err()));
    refused.push((
        "changes",
        store.record_changes_for(&hold, &call.id, Vec::new()).await.err(),
    ));
    refused.push(("asker", store.replace_asker_for(&hold, &"p".into(), None).await.err()));
    refused.push(("end a prompt", store.end_prompt_for(&hold, expiry("p")).await.err()));
    let ids = [GrantId::from("g")];
    refused.push(("use", store.use_grants_for(&hold, &ids, Timestamp(3_000)).await.err()));
    refused.push(("revoke", store.revoke_for(&hold, &ids[0], "me").await.err()));
    refused.push(("note", store.note_for(&hold, 2, vec![fact("main", "b")]).await.err()));
    refused.push(("forget", store.forget_for(&hold, &key("main")).await.err()));
    let begun = store
        .begin_output_for(&hold, &output('b'), owner.clone(), call.created)
        .await;
    refused.push(("begin an output", begun.err()));
    let begun = store.begin_output_for(&hold, &output('a'), owner, call.created).await;
    refused.push(("begin one that is there", begun.err()));
    for (offset, piece) in [(3, "def"), (0, "abc")] {
        let appended = store.append_output_for(&hold, &output('a'), offset, piece.into()).await;
        refused.push(("write to an output", appended.err()));
    }
    refused.push(("finish", store.finish_output_for(&hold, &output('a'), 1).await.err()));
    for (what, error) in refused {
        assert!(matches!(error, Some(StoreError::Fenced(_))), "{what}: {error:?}");
    }
    assert_eq!(everything(&scene).await, before);
    // The next one may.
    let adopted = store.adopt_for(&next).await.unwrap();
    assert_eq!(adopted.iter().map(|call| call.id.as_str()).collect::<Vec<_>>(), ["c"]);
    store.end_prompt_for(&next, expiry("p")).await.unwrap();
    scene.store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_another_workspaces_is_not_changed() {
    let scene = Scene::new(LEASE).await;
    let store = &scene.store;
    let (hold, theirs) = (
        scene.bound(&InstanceId::generate(), "main").await,
        bound(store, &InstanceId::generate(), "other").await,
    );
    let call = created(store, &theirs, "theirs").await;
    let mine = created(store, &hold, "mine").await;
    store
        .open_for(&theirs, asked("p", &call), None, None, false)
        .await
        .unwrap();
    granted(
        store,
        &theirs,
        &call,
        vec![grant("g", "other", &theirs.run, GrantReach::Workspace)],
    )
    .await;
    store.note_for(&theirs, 1, vec![fact("other", "a")]).await.unwrap();
    let owner = OutputOwner::from(&call);
    store
        .begin_output_for(&theirs, &output('a'), owner.clone(), call.created)
        .await
        .unwrap();
    let before = everything(&scene).await;

    // As if it were its own: with its own names in what it says, and their ids.
    let pretended = CallRecord {
        owner: hold.run.clone(),
        origin: record("c", &hold.run).origin,
        ..call.clone()
    };
    let mut refused: Vec<(&str, Option<StoreError>)> = Vec::new();
    for record in [&call, &pretended] {
        let mut grown = record.clone();
        let events = grow(&mut grown, 1);
        refused.push(("append", store.append_for(&hold, grown, events, true).await.err()));
        let mut ended = record.clone();
        let events = end(&mut ended, Timestamp(5_000));
        refused.push(("end", store.append_for(&hold, ended, events, false).await.err()));
        let opened = store.open_for(&hold, asked("q", record), None, None, false).await;
        refused.push(("open", opened.err()));
    }
    let mut within = record("x", &hold.run);
    within.id = CallId::from("x").within("other");
    let events = grow(&mut within, 1);
    refused.push((
        "their names",
        store.create_call_for(&hold, within, events, false).await.err(),
    ));
    let mut approved = asked("q", &mine);
    approved.approvals.push(approval("one"));
    refused.push((
        "approved",
        store.open_for(&hold, approved, None, None, false).await.err(),
    ));
    refused.push((
        "changes",
        store.record_changes_for(&hold, &call.id, Vec::new()).await.err(),
    ));
    refused.push(("asker", store.replace_asker_for(&hold, &"p".into(), None).await.err()));
    refused.push(("end a prompt", store.end_prompt_for(&hold, expiry("p")).await.err()));
    refused.push(("revoke", store.revoke_for(&hold, &"g".into(), "me").await.err()));
    refused.push(("forget", store.forget_for(&hold, &key("other")).await.err()));
    let event = ServiceEvent::in_session(key("other"), ServiceEventKind::SessionEnded);
    for (what, note) in [
        ("fact", fact("other", "b")),
        ("event", Note::Event(event)),
        ("audit", audited("other", Kind::Allowed, "")),
    ] {
        refused.push((what, store.note_for(&hold, 1, vec![note]).await.err()));
    }
    let begun = store
        .begin_output_for(&hold, &output('b'), owner.clone(), call.created)
        .await;
    refused.push(("begin an output", begun.err()));
    let lied = OutputOwner {
        workspace: "main".to_owned(),
        ..owner
    };
    let begun = store
        .begin_output_for(&hold, &output('b'), lied.clone(), call.created)
        .await;
    refused.push(("begin an output of their call", begun.err()));
    let begun = store
        .begin_output_for(&hold, &output('a'), OutputOwner::from(&mine), call.created)
        .await;
    refused.push(("begin their output", begun.err()));
    let appended = store.append_output_for(&hold, &output('a'), 0, "abc".into()).await;
    refused.push(("write to an output", appended.err()));
    refused.push(("finish", store.finish_output_for(&hold, &output('a'), 1).await.err()));
    for (what, error) in refused {
        assert!(
            matches!(error, Some(StoreError::Conflict(_) | StoreError::NotFound(_))),
            "{what}: {error:?}"
        );
    }
    // What does not hold here is as good as gone, and what another workspace has granted is nothing to judge by.
    let gone = store
        .use_grants_for(&hold, &["g".into()], Timestamp(3_000))
        .await
        .unwrap();
    assert_eq!(gone, [GrantId::from("g")]);
    // Of a call of theirs it learns that the id is taken.
    let mut same = pretended.clone();
    same.last_sequence = 0;
    let events = grow(&mut same, 1);
    let Created::Taken(taken) = store.create_call_for(&hold, same, events, true).await.unwrap() else {
        panic!("it is theirs");
    };
    assert_eq!((&taken.id, taken.origin.workspace.as_str()), (&call.id, ""));
    assert_eq!(taken.input_json, "");
    assert_eq!(taken.request_digest, "");
    assert_eq!(everything(&scene).await, before);
    let none = store
        .open_for(&hold, asked("q", &mine), None, Some(Default::default()), false)
        .await
        .unwrap();
    assert_eq!(none, []);
    scene.store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_asks_does_not_decide() {
    let scene = Scene::new(LEASE).await;
    let (store, run) = (&scene.store, InstanceId::generate());
    let hold = scene.bound(&run, "main").await;
    let call = created(store, &hold, "c").await;
    store
        .open_for(&hold, asked("p", &call), None, None, false)
        .await
        .unwrap();
    let question = Question {
        question: "Which?".to_owned(),
        header: "which".to_owned(),
        options: Vec::new(),
        multiple: false,
        custom: true,
        form: None,
    };
    let questions = Prompt {
        request: PromptRequest::Questions(vec![question]),
        ..asked("q", &call)
    };
    store.open_for(&hold, questions, None, None, false).await.unwrap();
    let replied = |reply| PromptOutcome::Replied(reply);
    let reject = || Reply::Reject { message: String::new() };
    let mut by_somebody = expiry("p");
    by_somebody.decision.by = "alice".to_owned();
    let mut using = expiry("p");
    using.uses.push(GrantId::from("g"));
    for refused in [
        settlement("p", PromptState::Resolved, replied(Reply::Once)),
        settlement("p", PromptState::Resolved, replied(reject())),
        settlement("p", PromptState::Expired, replied(Reply::Once)),
        settlement("p", PromptState::Resolved, PromptOutcome::Expired),
        settlement("p", PromptState::Open, PromptOutcome::Expired),
        settlement("q", PromptState::Resolved, replied(Reply::Once)),
        by_somebody,
        using,
    ] {
        let outcome = store.end_prompt_for(&hold, refused.clone()).await;
        assert!(
            matches!(outcome, Err(StoreError::Conflict(_))),
            "{refused:?}: {outcome:?}"
        );
    }
    let answers = settlement(
        "q",
        PromptState::Resolved,
        replied(Reply::Answers(vec![vec!["this".to_owned()]])),
    );
    assert!(matches!(
        store.end_prompt_for(&hold, answers).await.unwrap(),
        Settled::Now { .. }
    ));
    let why = PromptOutcome::Withdrawn("gone".to_owned());
    let ended = store
        .end_prompt_for(&hold, settlement("p", PromptState::Withdrawn, why))
        .await
        .unwrap();
    assert!(matches!(ended, Settled::Now { .. }));
    assert!(matches!(
        store.end_prompt_for(&hold, expiry("p")).await.unwrap(),
        Settled::Before(_)
    ));
    assert_eq!(
        store.end_prompt_for(&hold, expiry("x")).await.unwrap(),
        Settled::Unknown
    );

    for kind in [
        Kind::Genesis,
        Kind::Admitted,
        Kind::Prompted,
        Kind::Approved,
        Kind::Decided,
        Kind::Revoked,
        Kind::Ended,
        Kind::Checkpoint,
    ] {
        let outcome = store.note_for(&hold, 1, vec![audited("main", kind, "")]).await;
        assert!(matches!(outcome, Err(StoreError::Conflict(_))), "{kind:?}: {outcome:?}");
    }
    let resolved = ServiceEventKind::PromptResolved {
        prompt: "p".into(),
        call: call.id.clone(),
        state: PromptState::Resolved,
    };
    let event = Note::Event(ServiceEvent::in_session(key("main"), resolved));
    let outcome = store.note_for(&hold, 1, vec![event]).await;
    assert!(matches!(outcome, Err(StoreError::Conflict(_))), "{outcome:?}");
    scene.store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_said_again_is_there_once() {
    let scene = Scene::new(LEASE).await;
    let (store, run) = (&scene.store, InstanceId::generate());
    let hold = scene.bound(&run, "main").await;
    let mut call = record("c", &run);
    call.created = Timestamp::now();
    let events = grow(&mut call, 2);
    for (again, expected) in [(false, true), (true, true), (false, false)] {
        let outcome = store
            .create_call_for(&hold, call.clone(), events.clone(), again)
            .await
            .unwrap();
        assert_eq!(outcome == Created::New, expected);
    }
    let first = grow(&mut call, 2);
    store
        .append_for(&hold, call.clone(), first.clone(), false)
        .await
        .unwrap();
    let mut more = first;
    more.extend(grow(&mut call, 1));
    let refused = store.append_for(&hold, call.clone(), more.clone(), false).await;
    assert!(matches!(refused, Err(StoreError::Conflict(_))), "{refused:?}");
    store.append_for(&hold, call.clone(), more.clone(), true).await.unwrap();
    store.append_for(&hold, call.clone(), more, true).await.unwrap();
    call.state = CallState::Waiting;
    store.append_for(&hold, call.clone(), Vec::new(), true).await.unwrap();
    assert_eq!(store.get(&call.id).await.unwrap().unwrap(), call);
    assert_eq!(store.events(&call.id, 0, 100).await.unwrap().len(), 5);
    for again in [false, true] {
        store
            .open_for(&hold, asked("p", &call), None, None, again)
            .await
            .unwrap();
    }
    let refused = store.open_for(&hold, asked("p", &call), None, None, false).await;
    assert!(matches!(refused, Err(StoreError::Conflict(_))), "{refused:?}");

    let noted = |numbers: std::ops::Range<u64>| -> Vec<Note> {
        numbers
            .map(|number| audited("main", Kind::Denied, &number.to_string()))
            .collect()
    };
    store.note_for(&hold, 1, noted(1..3)).await.unwrap();
    store.note_for(&hold, 1, noted(1..3)).await.unwrap();
    store.note_for(&hold, 2, noted(2..5)).await.unwrap();
    store.note_for(&hold, 3, noted(3..4)).await.unwrap();
    let gap = store.note_for(&hold, 6, noted(6..7)).await;
    assert!(matches!(gap, Err(StoreError::Conflict(_))), "{gap:?}");
    store
        .note_for(&hold, 5, vec![fact("main", "a"), audited("", Kind::Refused, "5")])
        .await
        .unwrap();
    let lines = store.audit_lines(1, 1_000).await.unwrap();
    let records = lines
        .iter()
        .map(|line| serde_json::from_str::<serde_json::Value>(&line.json).unwrap());
    let own: Vec<serde_json::Value> = records.filter(|record| record["reason"].is_string()).collect();
    let reasons: Vec<&str> = own.iter().map(|record| record["reason"].as_str().unwrap()).collect();
    assert_eq!(reasons, ["1", "2", "3", "4", "5"]);
    assert!(
        own.iter()
            .all(|record| record["instance"] == run.as_str() && record["workspace"] == "main")
    );
    assert_eq!(store.fact(&key("main"), "a").await.unwrap(), Some(json!("a")));
    assert_eq!(store.forget_for(&hold, &key("main")).await.unwrap(), 1);
    assert!(!store.since(0, 100).await.unwrap().is_empty());
    scene.store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outputs_are_written_once_where_they_end() {
    let scene = Scene::new(LEASE).await;
    let (store, run) = (&scene.store, InstanceId::generate());
    let hold = scene.bound(&run, "main").await;
    let call = created(store, &hold, "c").await;
    let (id, owner) = (output('a'), OutputOwner::from(&call));
    for _ in 0..2 {
        store
            .begin_output_for(&hold, &id, owner.clone(), call.created)
            .await
            .unwrap();
    }
    let long = "x".repeat(200_000);
    let text = format!("abcdef{long}");
    let mut appends = vec![
        (0, "abc"),
        (0, "abc"),
        (0, "abcdef"),
        (3, "def"),
        (6, long.as_str()),
        (6, long.as_str()),
    ];
    appends.push((2, "cdef"));
    for (offset, piece) in appends {
        let piece = bytes::Bytes::from(piece.to_owned());
        store.append_output_for(&hold, &id, offset, piece).await.unwrap();
    }
    for (offset, piece) in [(7, "abc"), (300_000, "z"), (text.len() as u64 - 1, "yz")] {
        let refused = store.append_output_for(&hold, &id, offset, piece.into()).await;
        assert!(matches!(refused, Err(StoreError::Conflict(_))), "{offset}: {refused:?}");
    }
    assert!(!store.look(&id).await.unwrap().unwrap().complete);
    let info = store.finish_output_for(&hold, &id, 1).await.unwrap();
    assert_eq!((info.bytes, info.lines, info.complete), (text.len() as u64, 1, true));
    assert_eq!(info.owner, owner);
    let again = store.finish_output_for(&hold, &id, 1).await.unwrap();
    assert_eq!(again, info);
    let read = store.read(&id, 0, 1 << 20).await.unwrap();
    assert!(read == text.as_bytes());
    let refused = store
        .append_output_for(&hold, &id, text.len() as u64, "more".into())
        .await;
    assert!(matches!(refused, Err(StoreError::Conflict(_))), "{refused:?}");
    scene.store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grants_are_used_where_they_hold() {
    let scene = Scene::new(LEASE).await;
    let (store, run) = (&scene.store, InstanceId::generate());
    let (hold, other) = (scene.bound(&run, "main").await, InstanceId::generate());
    let call = created(store, &hold, "c").await;
    let over = Grant {
        scope: GrantScope {
            until: Some(Timestamp(10_000)),
            ..GrantScope::default()
        },
        ..grant("over", "main", &run, GrantReach::Run)
    };
    let grants = vec![
        grant("for-good", "main", &other, GrantReach::Workspace),
        grant("of-run", "main", &run, GrantReach::Run),
        grant("of-other-run", "main", &other, GrantReach::Run),
        over,
    ];
    granted(store, &hold, &call, grants).await;
    let used = async |ids: &[&str]| {
        let ids: Vec<GrantId> = ids.iter().map(|id| GrantId::from(*id)).collect();
        store.use_grants_for(&hold, &ids, Timestamp(3_000)).await.unwrap()
    };
    assert_eq!(used(&["for-good", "of-run"]).await, []);
    assert_eq!(
        used(&["for-good", "of-other-run"]).await,
        [GrantId::from("of-other-run")]
    );
    assert_eq!(
        used(&["over"]).await,
        [GrantId::from("over")],
        "whatever the clock of the run says"
    );
    assert_eq!(store.grant(&"for-good".into()).await.unwrap().unwrap().uses, 1);
    let others = store
        .open_for(&hold, asked("p", &call), None, Some(Default::default()), false)
        .await
        .unwrap();
    let mut ids: Vec<&str> = others.iter().map(|grant| grant.id.as_str()).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["for-good", "of-run"], "these are to be judged by first");
    let revoked = store.revoke_for(&hold, &"for-good".into(), "me").await.unwrap();
    assert_eq!(revoked.map(|grant| grant.uses), Some(1));
    assert_eq!(store.revoke_for(&hold, &"for-good".into(), "me").await.unwrap(), None);
    assert_eq!(store.changes(&call.id).await.unwrap(), []);
    store.record_changes_for(&hold, &call.id, Vec::new()).await.unwrap();
    scene.store.close().await.unwrap();
}
