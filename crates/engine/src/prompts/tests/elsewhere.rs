//! The asking half and the board: what another process decides, grants and asks.

use tokio::time::timeout;

use super::super::broker::{Change, Subscription};
use super::*;

/// Waits for the decision on a prompt.
async fn decided(opened: Opened) -> Decision {
    let decision = timeout(LIMIT, opened.decision).await;
    decision.expect("it is woken").expect("it is decided")
}

#[tokio::test]
async fn a_call_is_woken_by_the_decision_of_another_process() {
    let folder = TempDir::new().expect("a folder");
    let (asks, answers) = (Run::on(&folder).await, Run::on(&folder).await);
    let (one, two) = (asks.opened("1", "ls a").await, asks.opened("2", "ls b").await);
    let other = asks.opened("3", "rm c").await;
    assert_eq!(asks.broker.asking.open_prompts(), 3);
    answers.reply("1", always("ls", GrantReach::Run)).await;
    assert_eq!(
        decided(one).await.outcome,
        PromptOutcome::Replied(always("ls", GrantReach::Run))
    );
    assert_eq!(decided(two).await.because_of, Some(PromptId::from("1")));
    // What was granted with it is known with it.
    let Asked::Allowed { grants } = asks.ask("4", "ls d").await else {
        panic!("it is granted")
    };
    let uses = asks.store.grants(&asks.instance).await.expect("grants");
    assert_eq!(
        uses.iter().map(|grant| (&grant.id, grant.uses)).collect::<Vec<_>>(),
        [(&grants[0], 2)]
    );
    assert!(
        matches!(answers.ask("5", "ls e").await, Asked::Opened(_)),
        "it holds for that run only"
    );

    let withdrawn = asks.broker.asking.withdraw(&PromptId::from("3"), "gone").await;
    let gone = PromptOutcome::Withdrawn("gone".to_owned());
    assert_eq!(
        withdrawn.expect("stored").map(|decision| decision.outcome),
        Some(gone.clone())
    );
    assert_eq!(decided(other).await.outcome, gone);
    let late = answers.reply("3", Reply::Once).await;
    assert!(matches!(late, ReplyOutcome::Before(_)), "{late:?}");
    assert_eq!(asks.broker.asking.open_prompts(), 0);
    for run in [asks, answers] {
        timeout(LIMIT, run.broker.asking.finish())
            .await
            .expect("nothing goes on");
    }
}

#[tokio::test]
async fn a_grant_of_another_process_is_known_before_anybody_is_asked() {
    let folder = TempDir::new().expect("a folder");
    let (asks, answers) = (Run::on(&folder).await, Run::on(&folder).await);
    let _asked = answers.opened("1", "ls a").await;
    answers.reply("1", always("ls", GrantReach::Workspace)).await;
    assert!(matches!(asks.ask("2", "ls b").await, Asked::Allowed { .. }));
    assert_eq!(asks.store.prompt(&PromptId::from("2")).await.expect("it is read"), None);
    assert!(matches!(asks.ask("3", "rm b").await, Asked::Opened(_)));
    // Taken back elsewhere, it does not count either.
    let grants = answers.broker.inbox.grants(None).await.expect("grants");
    answers.broker.inbox.revoke(&grants[0].id, "").await.expect("revoked");
    assert!(matches!(asks.ask("4", "ls c").await, Asked::Opened(_)));
}

#[tokio::test]
async fn listeners_see_the_prompts_of_other_processes() {
    let folder = TempDir::new().expect("a folder");
    let policy = ApprovalPolicy {
        second_approver: vec!["bash".to_owned()],
        ..ApprovalPolicy::default()
    };
    let (asks, watches) = (
        Run::with(&folder, policy.clone()).await,
        Run::with(&folder, policy).await,
    );
    let first = asks.opened("1", "ls a").await;
    let listener = watches.broker.inbox.listen(Subscription::default()).await;
    let mut listener = listener.expect("it listens");
    assert_eq!(listener.snapshot, std::slice::from_ref(&first.prompt));
    let second = asks.opened("2", "ls b").await;
    let mut next = async || {
        let change = timeout(LIMIT, listener.changes.recv()).await;
        change.expect("it is told").expect("it keeps up")
    };
    assert_eq!(next().await, Change::Added(second.prompt.clone()));
    asks.reply("2", Reply::Once).await;
    let change = next().await;
    assert!(
        matches!(&change, Change::Approved(prompt) if prompt.approvals.len() == 1),
        "{change:?}"
    );
    // What is done here is told at once, and not again when the store is looked at.
    watches.reply_as("bob", "2", Reply::Once).await;
    let change = next().await;
    assert!(
        matches!(&change, Change::Resolved(prompt) if prompt.id == second.prompt.id),
        "{change:?}"
    );
    asks.reply("1", rejection()).await;
    let change = next().await;
    assert!(
        matches!(&change, Change::Resolved(prompt) if prompt.id == first.prompt.id),
        "{change:?}"
    );
    assert!(matches!(
        decided(second).await.outcome,
        PromptOutcome::Replied(Reply::Once)
    ));
    // Both happened once in the journal, whoever saw them.
    let resolved = watches.store.since(0, 100).await.expect("the journal");
    let resolved = resolved
        .iter()
        .filter(|(_, event)| matches!(event.kind, toolgate_model::ServiceEventKind::PromptResolved { .. }));
    assert_eq!(resolved.count(), 2);
}

#[tokio::test]
async fn a_call_that_goes_on_after_a_restart_finds_what_was_decided_meanwhile() {
    let folder = TempDir::new().expect("a folder");
    let (dead, next) = (Run::on(&folder).await, Run::on(&folder).await);
    let (open, answered) = (dead.opened("1", "ls a").await, dead.opened("2", "rm b").await);
    // Nobody waits: the process is gone.
    next.reply("2", Reply::Once).await;
    let restored = next.broker.asking.restore((*answered.prompt).clone(), &rights()).await;
    let restored = restored.expect("it is there");
    assert_eq!(restored.prompt.state, PromptState::Resolved);
    assert_eq!(decided(restored).await.outcome, PromptOutcome::Replied(Reply::Once));
    // From now on the rights count that it has after the restart.
    let mut denied = rights();
    denied.rules = [Rule {
        permission: "bash".to_owned(),
        pattern: "*".to_owned(),
        action: Action::Deny,
    }]
    .into();
    let restored = next.broker.asking.restore((*open.prompt).clone(), &denied).await;
    let restored = restored.expect("it is there");
    assert_eq!(restored.prompt.state, PromptState::Open);
    let _asked = next.opened("3", "ls c").await;
    next.reply("3", always("ls", GrantReach::Workspace)).await;
    assert_eq!(next.because_of("1").await, None);
    next.reply("1", Reply::Once).await;
    assert_eq!(decided(restored).await.outcome, PromptOutcome::Replied(Reply::Once));
}
