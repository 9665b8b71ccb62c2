//! Prompts that nobody answers: in time, because nobody is there, or because the caller does not want to wait.

use std::time::Duration;

use serde_json::json;
use tonic::Code;
use toolgate_contract::*;

use crate::prompts::{answer, ask, asks, lines, open_prompts, stored};
use crate::support::*;

#[test]
fn nobody_answers() {
    test(async {
        let server = Server::with(asks().env("TOOLGATE_PERMISSION_TIMEOUT", "1s")).await;
        let (stream, prompt) = ask(&server, "s", "expires", "echo ran >> ran").await;
        assert!(prompt.expire_time.is_some());
        match end_of(&collect(stream).await.unwrap()) {
            call::Ending::Failed(failed) => assert_eq!(failed.reason(), FailureReason::PromptExpired),
            other => panic!("{other:?}"),
        }
        let late = answer(&server, reply(&prompt, PromptDecision::Once)).await;
        assert_eq!(late.result(), ReplyResult::Expired);
        assert_eq!(late.prompt.unwrap().state(), PromptState::Expired);
        assert!(lines(&server, "ran").is_empty());
    });
    test(async {
        let server = Server::with(asks().env("TOOLGATE_PERMISSION_UNATTENDED", "refuse")).await;
        let call = server.run("bash", json!({"command": "true", "description": "d"})).await;
        assert_eq!(failed(&call).reason(), FailureReason::PromptExpired);
        assert!(open_prompts(&server).await.is_empty());
        let _approver = Approver::open(server.connect().await, "here").await.unwrap();
        let (_, prompt) = ask(&server, "s", "attended", "true").await;
        assert_eq!(stored(&server, &prompt.prompt_id).await.state(), PromptState::Open);
    });
}

#[test]
fn expired_while_the_server_was_away() {
    test(async {
        let mut server = Server::with(asks().env("TOOLGATE_PERMISSION_TIMEOUT", "1s")).await;
        let (_, prompt) = ask(&server, "s", "away", "echo ran >> ran").await;
        server.kill9().await;
        // The moment of expiry passes while nothing runs.
        tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
        server.restart().await;
        let log = server.watch("away", 0).await.unwrap();
        match end_of(&log) {
            call::Ending::Failed(failed) => assert_eq!(failed.reason(), FailureReason::PromptExpired),
            other => panic!("{other:?}"),
        }
        assert_eq!(stored(&server, &prompt.prompt_id).await.state(), PromptState::Expired);
        assert!(lines(&server, "ran").is_empty());
    });
}

#[test]
fn a_unary_call_says_what_nobody_answered() {
    test(async {
        let server = Server::with(Setup {
            config: Some(json!({ "permission": { "bash": "ask" }, "experimental": { "batch_tool": true } })),
            ..Setup::default()
        })
        .await;
        let unary = |id: &str, unattended: Unattended, wait_timeout: Option<Duration>| RunToolRequest {
            unattended: unattended.into(),
            wait_timeout: wait_timeout.map(|wait| wait.try_into().unwrap()),
            ..run_request(kept(id, bash("echo ran >> ran")))
        };
        let refusal = async |request: RunToolRequest| match run(&mut server.tools(), request).await.unwrap().ending {
            Some(call::Ending::Failed(failed)) => (failed.reason(), failed.error),
            other => panic!("{other:?}"),
        };
        // Nobody listens: refused at once, and what would have been asked is said.
        for unattended in [Unattended::Unspecified, Unattended::Refuse] {
            let (reason, error) = refusal(unary(&format!("refused{unattended:?}"), unattended, None)).await;
            assert_eq!(reason, FailureReason::PromptExpired);
            assert!(
                error.contains("permission `bash`") && error.contains("toolgate approve"),
                "{error}"
            );
        }
        assert!(server.prompts(list_all()).await.is_empty());
        // An approver with another filter is nobody.
        let filter = PromptFilter {
            session_ids: vec!["another".to_owned()],
            ..PromptFilter::default()
        };
        let other = Approver::open_for(server.connect().await, "other", filter)
            .await
            .unwrap();
        let (reason, _) = refusal(unary("other", Unattended::Refuse, None)).await;
        assert_eq!(reason, FailureReason::PromptExpired);
        drop(other);
        // It may wait, within a bound; the error names the prompt, also if a call below asks.
        let batch =
            json!({ "tool_calls": [{ "tool": "bash", "parameters": { "command": "true", "description": "d" } }] });
        let mut ended = Vec::new();
        for (id, request) in [("waits", bash("echo ran >> ran")), ("batch", request("batch", batch))] {
            let request = RunToolRequest {
                wait_timeout: Some(Duration::from_millis(300).try_into().unwrap()),
                ..run_request(kept(id, request))
            };
            let call = run(&mut server.tools(), request).await.unwrap();
            let expired = server
                .prompts(ListPromptsRequest {
                    states: vec![PromptState::Expired.into()],
                    ..list_all()
                })
                .await;
            ended.push(call);
            assert_eq!(expired.len(), ended.len(), "{ended:?}");
            let named = &expired[0].prompt_id;
            assert!(format!("{:?}", ended[0]).contains(named), "{ended:?}");
        }
        // Somebody listens: the call waits for the answer.
        let mut approver = Approver::open(server.connect().await, "approver").await.unwrap();
        let (call, ()) = tokio::join!(
            async {
                run(&mut server.tools(), unary("approved", Unattended::Refuse, None))
                    .await
                    .unwrap()
            },
            async {
                let prompt = approver.added().await;
                approver.send(reply(&prompt, PromptDecision::Once)).await;
            }
        );
        assert!(matches!(call.ending, Some(call::Ending::Completed(_))), "{call:?}");
        assert_eq!(lines(&server, "ran"), ["ran"]);
        let misplaced = unary("misplaced", Unattended::Refuse, Some(Duration::from_secs(1)));
        refused(
            server.tools().run_tool(misplaced).await,
            Code::InvalidArgument,
            "INVALID_FIELD",
        );
    });
}
