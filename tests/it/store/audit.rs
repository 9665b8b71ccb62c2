//! The audit: one chain, in step with everything else that is stored.

use toolgate_model::{
    Decision, Grant, GrantId, GrantScope, InputEdit, InstanceId, Prompt, PromptId, PromptOutcome, PromptState, Reply,
    SessionId, Timestamp,
};
use toolgate_store::audit::{Fact, Kind, Record, Verifier};
use toolgate_store::{Created, Settlement, Store};

use super::{Fixture, approval, create, end, grow, prompt, record};

/// The records of a store, verified.
async fn records(store: &dyn Store) -> Vec<Record> {
    let end = store.audit_end().await.unwrap();
    let lines = store.audit_lines(0, usize::MAX).await.unwrap();
    let mut verifier = Verifier::default();
    for line in &lines {
        verifier.line(line.json.as_bytes()).unwrap();
    }
    verifier.line(end.head.line(lines.len() as u64).as_bytes()).unwrap();
    verifier.finish().unwrap();
    lines
        .iter()
        .map(|line| serde_json::from_str(&line.json).unwrap())
        .collect()
}

async fn kinds(store: &dyn Store) -> Vec<Kind> {
    records(store)
        .await
        .into_iter()
        .map(|record| record.fact.kind)
        .collect()
}

pub(crate) async fn each_thing_is_recorded_once(fixture: &dyn Fixture) {
    let instance = InstanceId::generate();
    let store = fixture.open(&instance).await;
    let mut call = create(&*store, record("c", &instance)).await;
    let again = store
        .create_call(call.clone(), grow(&mut record("c", &instance), 1))
        .await
        .unwrap();
    assert!(matches!(again, Created::Taken(_)));
    store.open(prompt("p", "c", &instance), None, None).await.unwrap();
    assert!(store.open(prompt("p", "c", &instance), None, None).await.is_err());
    let mut stale = call.clone();
    let events = end(&mut call, Timestamp(5));
    store.append(call.clone(), events.clone()).await.unwrap();
    assert!(store.append(call.clone(), events).await.is_err(), "it has ended");
    assert!(
        store
            .append(stale.clone(), end(&mut stale, Timestamp(6)))
            .await
            .is_err()
    );
    assert_eq!(
        kinds(&*store).await,
        [Kind::Genesis, Kind::Admitted, Kind::Prompted, Kind::Ended]
    );
}

/// The end of a prompt by a principal that calls itself something else.
fn settled(prompt: &str, principal: &str, reply: Reply) -> Settlement {
    Settlement {
        prompt: PromptId::from(prompt),
        state: PromptState::Resolved,
        decision: Decision {
            outcome: PromptOutcome::Replied(reply),
            time: Timestamp(2_000),
            reply_id: String::new(),
            by: "in own words".to_owned(),
            principal: principal.to_owned(),
            because_of: None,
        },
        uses: Vec::new(),
    }
}

pub(crate) async fn people_are_recorded(fixture: &dyn Fixture) {
    let instance = InstanceId::generate();
    let store = fixture.open(&instance).await;
    for id in ["two", "instead", "anonymous"] {
        let open = Prompt {
            requester: "token:asks".to_owned(),
            ..prompt(id, "c", &instance)
        };
        store.open(open, None, None).await.unwrap();
    }
    let two = PromptId::from("two");
    for principal in ["token:ann", "token:ann", "token:bob"] {
        store.approve(&two, approval(principal)).await.unwrap();
    }
    let grant = Grant {
        id: GrantId::from("g"),
        owner: instance.clone(),
        workspace: "main".to_owned(),
        worktree: String::new(),
        session: SessionId::from("s"),
        scope: GrantScope::default(),
        permission: "bash".to_owned(),
        pattern: "ls *".to_owned(),
        prompt: two.clone(),
        approvers: Vec::new(),
        title: String::new(),
        by: String::new(),
        created: Timestamp(2_000),
        uses: 0,
        last_used: None,
    };
    let edit = InputEdit {
        input_json: "{}".to_owned(),
        input_digest: "22".to_owned(),
        ..InputEdit::default()
    };
    for (settlement, grants) in [
        (settled("two", "token:bob", Reply::Once), vec![grant]),
        (settled("instead", "token:bob", Reply::Instead(edit)), Vec::new()),
        (settled("anonymous", "", Reply::Once), Vec::new()),
    ] {
        store.settle(settlement, Vec::new(), grants, None).await.unwrap();
    }
    assert_eq!(store.approve(&two, approval("token:late")).await.unwrap(), None);
    let granted = GrantId::from("g");
    for _ in 0..2 {
        store.revoke(&granted, "token:carol").await.unwrap();
    }
    let facts: Vec<Fact> = records(&*store)
        .await
        .into_iter()
        .map(|record| record.fact)
        .skip_while(|fact| matches!(fact.kind, Kind::Genesis | Kind::Prompted))
        .collect();
    let said: Vec<(Kind, &str, &str, &str)> = facts
        .iter()
        .map(|fact| {
            (
                fact.kind,
                fact.by.as_str(),
                fact.decision.as_str(),
                fact.reason.as_str(),
            )
        })
        .collect();
    assert_eq!(
        said,
        [
            (Kind::Approved, "token:ann", "", ""),
            (Kind::Approved, "token:bob", "", ""),
            (Kind::Decided, "token:bob", "once", ""),
            (Kind::Decided, "token:bob", "instead", "22"),
            (Kind::Decided, "in own words", "once", ""),
            (Kind::Revoked, "token:carol", "", ""),
        ]
    );
    for fact in &facts[..5] {
        assert_eq!(
            (fact.requester.as_str(), fact.input_digest.as_str()),
            ("token:asks", "11")
        );
        assert_eq!(
            (fact.permission.as_str(), fact.patterns.as_slice()),
            ("bash", ["ls".to_owned()].as_slice())
        );
    }
    assert_eq!(
        (&facts[2].grants, &facts[5].grants),
        (&vec![granted.clone()], &vec![granted])
    );
}

pub(crate) async fn facts_are_recorded_before_appends(fixture: &dyn Fixture) {
    let instance = InstanceId::generate();
    let store = fixture.open(&instance).await;
    let mut call = create(&*store, record("c", &instance)).await;
    for _ in 0..50 {
        store.audit(Fact::new(Kind::Allowed));
    }
    let events = end(&mut call, Timestamp(5));
    store.append(call, events).await.unwrap();
    let kinds = kinds(&*store).await;
    assert_eq!(kinds.len(), 53);
    assert_eq!(kinds.last(), Some(&Kind::Ended));
    fixture.stop(&instance).await;
    let store = fixture.open(&InstanceId::generate()).await;
    assert_eq!(records(&*store).await.len(), 53, "a restart goes on with the chain");
}

pub(crate) async fn two_stores_keep_one_chain(fixture: &dyn Fixture) {
    let (one, two) = (InstanceId::generate(), InstanceId::generate());
    let stores = [fixture.open(&one).await, fixture.open(&two).await];
    for number in 0..40 {
        for (index, store) in stores.iter().enumerate() {
            store.audit(Fact::new(Kind::Allowed));
            create(&**store, record(&format!("c{index}-{number}"), &one)).await;
        }
    }
    assert_eq!(records(&*stores[0]).await.len(), 161);
    assert_eq!(records(&*stores[0]).await, records(&*stores[1]).await);
}

pub(crate) async fn sweeping_the_audit(fixture: &dyn Fixture) {
    let instance = InstanceId::generate();
    let store = fixture.open(&instance).await;
    for number in 0..20 {
        create(&*store, record(&format!("c{number}"), &instance)).await;
    }
    assert_eq!(store.sweep_audit(Timestamp(0)).await.unwrap(), 0);
    let later = Timestamp(Timestamp::now().millis() + 1_000);
    assert_eq!(store.audit_since(later).await.unwrap(), 22);
    assert_eq!(store.sweep_audit(later).await.unwrap(), 20, "the head stays");
    let left = records(&*store).await;
    assert_eq!(left.len(), 2);
    assert_eq!((left[0].sequence, left[1].fact.kind), (21, Kind::Checkpoint));
    assert_eq!(store.audit_end().await.unwrap().removed, 20);
    assert_eq!(store.sweep_audit(later).await.unwrap(), 1);
    assert_eq!(
        store.sweep_audit(later).await.unwrap(),
        0,
        "checkpoints alone do not make way for others"
    );
    create(&*store, record("last", &instance)).await;
    let kinds = kinds(&*store).await;
    assert_eq!(kinds, [Kind::Checkpoint, Kind::Checkpoint, Kind::Admitted]);
}
