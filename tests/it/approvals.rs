//! Standing approvals: how far they reach, what ends them, and that they never allow more than was granted.

use std::time::{Duration, SystemTime};

use serde_json::json;
use tokio::task::JoinSet;
use toolgate_contract::call_event::Event;
use toolgate_contract::*;

use crate::support::*;

fn asks() -> Setup {
    Setup::permission(json!({ "bash": "ask" }))
}

fn scope(reach: GrantReach, max_uses: i32) -> GrantScope {
    GrantScope {
        reach: reach.into(),
        expire_time: None,
        max_uses,
    }
}

fn always(prompt: &Prompt, scope: GrantScope) -> PromptReply {
    PromptReply {
        scope: Some(scope),
        ..reply(prompt, PromptDecision::Always)
    }
}

async fn try_answer(server: &Server, reply: PromptReply) -> Result<PromptReplyResult, tonic::Status> {
    let request = ReplyPromptRequest {
        reply: Some(reply),
        name: "ann".to_owned(),
    };
    Ok(server
        .permissions()
        .reply_prompt(request)
        .await?
        .into_inner()
        .result
        .unwrap())
}

async fn grants(server: &Server) -> Vec<Grant> {
    let request = ListGrantsRequest::default();
    server
        .permissions()
        .list_grants(request)
        .await
        .unwrap()
        .into_inner()
        .grants
}

/// Starts a call and returns its prompt, or none if it came to its end without one.
async fn asked(server: &Server, session: &str, command: &str) -> Option<Prompt> {
    let id = format!("c{}", uuid::Uuid::now_v7().simple());
    let request = in_session(session, kept(&id, bash(command)));
    let mut stream = server.tools().execute_tool(request).await.unwrap().into_inner();
    while let Some(response) = stream.message().await.unwrap() {
        match response.event.unwrap().event.unwrap() {
            Event::Waiting(waiting) => return waiting.prompt,
            Event::Completed(_) => return None,
            Event::Failed(failed) => panic!("{}", failed.error),
            _ => {}
        }
    }
    panic!("a stream without an end")
}

/// Has a first call ask and be answered, and returns its prompt.
async fn grant(server: &Server, session: &str, command: &str, scope: GrantScope) -> Prompt {
    let prompt = asked(server, session, command).await.expect("it asks");
    let response = try_answer(server, always(&prompt, scope)).await.unwrap();
    assert_eq!(response.result(), ReplyResult::Accepted);
    prompt
}

#[test]
fn a_grant_reaches_as_far_as_its_scope() {
    test(async {
        let mut server = Server::with(asks()).await;
        grant(&server, "one", "echo run", scope(GrantReach::Run, 0)).await;
        let of_session = grant(&server, "one", "printf session", scope(GrantReach::Session, 0)).await;
        grant(&server, "one", "seq 1", scope(GrantReach::Workspace, 0)).await;
        for (session, command, is_free) in [
            ("one", "echo x", true),
            ("two", "echo x", true),
            ("one", "printf x", true),
            ("two", "printf x", false),
            ("two", "seq 2", true),
        ] {
            let free = asked(&server, session, command).await.is_none();
            assert_eq!(free, is_free, "{session} {command}");
        }
        let listed = grants(&server).await;
        let by_pattern = |pattern: &str| listed.iter().find(|grant| grant.pattern == pattern).unwrap();
        assert_eq!((listed.len(), by_pattern("echo *").use_count), (3, 2));
        let printf = by_pattern("printf *");
        assert_eq!(printf.scope.unwrap().reach(), GrantReach::Session);
        assert_eq!((printf.session_id.as_str(), printf.use_count), ("one", 1));
        assert_eq!(
            (printf.granted_by.as_str(), &printf.prompt_id),
            ("ann", &of_session.prompt_id)
        );
        assert!(printf.last_use_time.is_some());

        server.kill9().await;
        server.restart().await;
        assert!(asked(&server, "one", "echo x").await.is_some(), "that run is over");
        assert!(asked(&server, "one", "printf x").await.is_none());
        assert!(asked(&server, "three", "seq 3").await.is_none());
        let counts: Vec<i64> = grants(&server).await.iter().map(|grant| grant.use_count).collect();
        assert_eq!(counts, [2, 2], "uses are counted across restarts");
        let end = EndSessionRequest {
            session_id: "one".to_owned(),
            ..Default::default()
        };
        server.sessions().end_session(end).await.unwrap();
        assert!(asked(&server, "one", "printf x").await.is_some());
        let left = grants(&server).await;
        assert_eq!(left.len(), 1);
        let revoke = RevokeGrantRequest {
            grant_id: left[0].grant_id.clone(),
        };
        server.permissions().revoke_grant(revoke).await.unwrap();
        server.stop().await;
        server.restart().await;
        assert!(asked(&server, "one", "seq 4").await.is_some(), "revoked for good");
    });
}

#[test]
fn prompts_wait_while_somebody_was_there() {
    test(async {
        let setup = asks()
            .env("TOOLGATE_PERMISSION_UNATTENDED", "attended")
            .env("TOOLGATE_PERMISSION_ATTENDED_WITHIN", "1500ms");
        let server = Server::with(setup).await;
        let call = server.run("bash", json!({"command": "true", "description": "d"})).await;
        assert_eq!(
            failed(&call).reason(),
            FailureReason::PromptExpired,
            "nobody was ever there"
        );
        let approver = Approver::open(server.connect().await, "here").await.unwrap();
        let first = asked(&server, "s", "echo 1").await.expect("somebody is there");
        drop(approver);
        let second = asked(&server, "s", "echo 2").await.expect("somebody was there");
        for prompt in [&first, &second] {
            let log = server.watch(&prompt.call_id, 0).await.unwrap();
            match end_of(&log) {
                call::Ending::Failed(failed) => assert_eq!(failed.reason(), FailureReason::PromptExpired),
                other => panic!("{other:?}"),
            }
        }
        let call = server.run("bash", json!({"command": "true", "description": "d"})).await;
        assert_eq!(failed(&call).reason(), FailureReason::PromptExpired);
    });
}

#[test]
fn uses_are_never_exceeded() {
    test(async {
        let mut server = Server::with(asks()).await;
        grant(&server, "s", "echo 0", scope(GrantReach::Workspace, 7)).await;
        let mut free = 0;
        for round in 0..3 {
            let mut calls = JoinSet::new();
            for index in 0..if round == 0 { 4 } else { 6 } {
                let id = format!("r{round}-{index}");
                let request = in_session(&id, kept(&id, bash("echo x")));
                let mut tools = server.tools();
                calls.spawn(async move {
                    let mut stream = tools.execute_tool(request).await.unwrap().into_inner();
                    loop {
                        match stream.message().await.unwrap().unwrap().event.unwrap().event.unwrap() {
                            Event::Waiting(_) => return 0,
                            Event::Completed(_) => return 1,
                            _ => {}
                        }
                    }
                });
            }
            free += calls.join_all().await.into_iter().sum::<i32>();
            assert_eq!(free, [4, 7, 7][round]);
            if round == 0 {
                assert_eq!(grants(&server).await[0].use_count, 4);
            } else {
                assert!(grants(&server).await.is_empty(), "a grant that is used up is gone");
            }
            server.kill9().await;
            server.restart().await;
        }
    });
}

#[test]
fn a_grant_ends_at_its_time() {
    test(async {
        let server = Server::with(asks()).await;
        let until = |moment: SystemTime| GrantScope {
            expire_time: Some(moment.into()),
            ..GrantScope::default()
        };
        let prompt = asked(&server, "s", "echo 0").await.unwrap();
        let past = always(&prompt, until(SystemTime::now() - Duration::from_secs(1)));
        assert_eq!(try_answer(&server, past).await.unwrap().result(), ReplyResult::Invalid);
        let soon = until(SystemTime::now() + Duration::from_secs(6));
        try_answer(&server, always(&prompt, soon)).await.unwrap();
        assert!(asked(&server, "s", "echo 1").await.is_none());
        eventually("the grant has ended", async || grants(&server).await.is_empty()).await;
        assert!(asked(&server, "s", "echo 2").await.is_some());
    });
}

#[test]
fn only_what_the_prompt_listed_is_granted() {
    test(async {
        let server = Server::with(asks()).await;
        let prompt = asked(&server, "s", "echo a && printf b").await.unwrap();
        let Some(prompt::Request::Permission(request)) = &prompt.request else {
            panic!("a permission prompt")
        };
        assert_eq!(request.always, ["echo *", "printf *"]);
        let chosen = |patterns: &[&str]| PromptReply {
            always_patterns: patterns.iter().map(|&pattern| pattern.to_owned()).collect(),
            ..reply(&prompt, PromptDecision::Always)
        };
        let misplaced = PromptReply {
            decision: PromptDecision::Once.into(),
            ..chosen(&["echo *"])
        };
        let negative = always(&prompt, scope(GrantReach::Run, -1));
        // What is to be granted is named: nothing is not all.
        for wrong in [
            chosen(&[]),
            chosen(&["*"]),
            chosen(&["echo *", "printf b"]),
            misplaced,
            negative,
        ] {
            assert_eq!(try_answer(&server, wrong).await.unwrap().result(), ReplyResult::Invalid);
        }
        assert!(grants(&server).await.is_empty());
        try_answer(&server, chosen(&["printf *"])).await.unwrap();
        let patterns: Vec<String> = grants(&server).await.into_iter().map(|grant| grant.pattern).collect();
        assert_eq!(patterns, ["printf *"]);
        assert!(asked(&server, "s", "printf c").await.is_none());
        assert!(asked(&server, "s", "echo c").await.is_some());
    });
}

#[test]
fn a_limited_grant_covers_as_many_waiting_prompts() {
    test(async {
        let server = Server::with(asks()).await;
        let mut prompts = Vec::new();
        for index in 0..4 {
            prompts.push(asked(&server, "s", &format!("echo {index}")).await.unwrap());
        }
        try_answer(&server, always(&prompts[0], scope(GrantReach::Run, 2)))
            .await
            .unwrap();
        let mut states = Vec::new();
        for prompt in &prompts {
            let prompt_id = prompt.prompt_id.clone();
            let stored = server.permissions().get_prompt(GetPromptRequest { prompt_id }).await;
            states.push(stored.unwrap().into_inner().prompt.unwrap().state());
        }
        let resolved = PromptState::Resolved;
        assert_eq!(states, [resolved, resolved, resolved, PromptState::Open]);
        assert!(grants(&server).await.is_empty());
    });
}
