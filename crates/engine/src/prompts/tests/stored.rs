//! The inbox: what it decides about prompts that are only stored, with nobody who waits.

use toolgate_store::{AskedPrompt, PromptFilter};

use super::super::asker::Asker;
use super::*;

/// Stores a prompt as the asking half of another process does.
async fn store(run: &Run, prompt: Prompt, approvals: &ApprovalPolicy) {
    let asker = Asker::new(&prompt, &rights(), approvals).to_json().expect("JSON");
    let others = run.store.open(prompt, Some(asker), None).await.expect("it is stored");
    assert!(others.is_empty());
}

async fn stored(run: &Run, id: &str, command: &str) {
    store(run, run.prompt(id, permission(command)), &ApprovalPolicy::default()).await;
}

#[tokio::test]
async fn consequences_are_settled_and_grants_made() {
    let folder = TempDir::new().expect("a folder");
    let (asks, inbox) = (Run::on(&folder).await, Run::on(&folder).await);
    for (id, command) in [("1", "ls a"), ("2", "ls b"), ("3", "rm c"), ("4", "ls d")] {
        stored(&asks, id, command).await;
    }
    let questions = asks.prompt("5", PromptRequest::Questions(Vec::new()));
    store(&asks, questions, &ApprovalPolicy::default()).await;
    // An earlier release stored nothing of who asks, and another process of the session has grants of its own.
    let before = asks.prompt("6", permission("ls e"));
    asks.store.open(before, None, None).await.expect("it is stored");
    stored(&inbox, "7", "ls f").await;
    asks.store
        .replace_asker(
            &PromptId::from("4"),
            Some(serde_json::json!({"takes_two": false, "only": "newer releases"})),
        )
        .await
        .expect("it is stored");

    let replied = inbox.reply("1", always("ls", GrantReach::Run)).await;
    assert!(matches!(replied, ReplyOutcome::Accepted(_)), "{replied:?}");
    for (id, because_of) in [
        ("1", None),
        ("2", Some("1")),
        ("3", None),
        ("4", None),
        ("5", None),
        ("6", None),
        ("7", None),
    ] {
        assert_eq!(inbox.because_of(id).await.as_deref(), because_of, "{id}");
        assert_eq!(inbox.decision(id).await.is_some(), ["1", "2"].contains(&id), "{id}");
    }
    let grants = asks.store.grants(&asks.instance).await.expect("grants");
    let made: Vec<_> = grants
        .iter()
        .map(|grant| (grant.pattern.as_str(), grant.uses))
        .collect();
    assert_eq!(made, [("ls *", 1)]);
    assert_eq!(inbox.store.grants(&inbox.instance).await.expect("grants"), []);
    let ended = inbox.store.asked(&PromptId::from("1")).await.expect("it is read");
    assert_eq!(
        ended.map(|asked: AskedPrompt| asked.asker),
        Some(None),
        "no longer than needed"
    );

    // Its own reply works, whoever stored it.
    let replied = inbox.reply("6", Reply::Once).await;
    assert!(matches!(replied, ReplyOutcome::Accepted(_)), "{replied:?}");
    // What cannot be read of who asks may be what forbids the reply.
    let given = ApproverReply {
        prompt: PromptId::from("4"),
        reply_id: String::new(),
        reply: Reply::Once,
        input_digest: "11".to_owned(),
        by: String::new(),
        principal: Principal::anonymous(),
    };
    assert!(inbox.broker.inbox.reply(given).await.is_err());

    // A rejection needs no rights, and is for all but questions.
    inbox.reply("3", rejection()).await;
    for (id, because_of) in [("4", Some("3")), ("5", None), ("7", Some("3"))] {
        assert_eq!(inbox.because_of(id).await.as_deref(), because_of, "{id}");
    }
    let open = PromptFilter {
        states: vec![PromptState::Open],
        ..PromptFilter::default()
    };
    let open = inbox.broker.inbox.list(&open, 10).await.expect("a list");
    assert_eq!(open.iter().map(|prompt| prompt.id.as_str()).collect::<Vec<_>>(), ["5"]);
}

#[tokio::test]
async fn the_stricter_policy_holds() {
    let folder = TempDir::new().expect("a folder");
    let policy = |self_approval, names: &[&str]| ApprovalPolicy {
        self_approval,
        second_approver: names.iter().map(|&name| name.to_owned()).collect(),
        ..ApprovalPolicy::default()
    };
    let lax = policy(Some(true), &[]);
    let strict = policy(Some(false), &["bash"]);
    for (asking, answering) in [(&lax, &strict), (&strict, &lax), (&strict, &strict)] {
        let (asks, inbox) = (Run::on(&folder).await, Run::with(&folder, answering.clone()).await);
        let id = PromptId::generate(&permission("ls"));
        let id = id.as_str();
        store(&asks, asks.prompt(id, permission("ls a")), asking).await;
        let replied = inbox.reply_as("asks", id, Reply::Once).await;
        assert!(matches!(replied, ReplyOutcome::NotAllowed(_)), "{replied:?}");
        for _ in 0..2 {
            let replied = inbox.reply_as("ann", id, Reply::Once).await;
            assert!(matches!(replied, ReplyOutcome::Recorded(_)), "{replied:?}");
        }
        let replied = inbox.reply_as("bob", id, Reply::Once).await;
        assert!(matches!(replied, ReplyOutcome::Accepted(_)), "{replied:?}");
    }
    let (asks, inbox) = (Run::on(&folder).await, Run::with(&folder, lax.clone()).await);
    store(&asks, asks.prompt("lax", permission("ls a")), &lax).await;
    let replied = inbox.reply_as("asks", "lax", Reply::Once).await;
    assert!(matches!(replied, ReplyOutcome::Accepted(_)), "{replied:?}");
}

#[tokio::test]
async fn two_approvals_decide_even_if_the_service_died_before_the_decision() {
    let folder = TempDir::new().expect("a folder");
    let policy = ApprovalPolicy {
        second_approver: vec!["bash".to_owned()],
        ..ApprovalPolicy::default()
    };
    let run = Run::with(&folder, policy.clone()).await;
    store(&run, run.prompt("p", permission("ls a")), &policy).await;
    for name in ["ann", "bob"] {
        let approval = toolgate_model::Approval {
            principal: Principal::new(PrincipalKind::Token, name).id(),
            by: name.to_owned(),
            always: None,
            time: Timestamp::now(),
            reply_id: String::new(),
        };
        run.store.approve(&PromptId::from("p"), approval).await.expect("stored");
    }
    let replied = run.reply_as("ann", "p", Reply::Once).await;
    assert!(matches!(replied, ReplyOutcome::Accepted(_)), "{replied:?}");
}

#[tokio::test]
async fn a_reply_after_the_time_is_too_late_though_nobody_ended_the_prompt() {
    let folder = TempDir::new().expect("a folder");
    let run = Run::on(&folder).await;
    let prompt = Prompt {
        expires: Some(Timestamp(1)),
        ..run.prompt("p", permission("ls a"))
    };
    store(&run, prompt, &ApprovalPolicy::default()).await;
    let replied = run.reply("p", Reply::Once).await;
    let ReplyOutcome::Before(prompt) = replied else {
        panic!("{replied:?}")
    };
    assert_eq!(prompt.state, PromptState::Expired);
}
