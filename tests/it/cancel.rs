//! Calls that are stopped: by CancelCall, by a lost client, by their time limit, with their session. Nothing of them stays.

use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::Instant;
use toolgate_contract::call_event::Event;
use toolgate_contract::*;

use crate::support::*;

fn cancel_request(id: &str) -> CancelCallRequest {
    CancelCallRequest { call_id: id.to_owned() }
}

/// A command that is done only when it is killed, with descendants of several kinds whose command lines have `marker`.
fn stubborn(marker: &str) -> ExecuteToolRequest {
    bash(&format!(
        "trap '' TERM INT; setsid sleep {marker} & (sleep {marker}; true) & (trap '' TERM; sleep {marker}; true) & \
         echo ready; sleep {marker}"
    ))
}

async fn started(server: &Server, request: ExecuteToolRequest) -> tonic::Streaming<ExecuteToolResponse> {
    let mut stream = server.tools().execute_tool(request).await.unwrap().into_inner();
    next_such(&mut stream, is_output).await;
    stream
}

#[test]
fn many_at_once_leave_nothing() {
    test(async {
        let mut server = Server::start().await;
        let mut starting = JoinSet::new();
        for index in 0..60 {
            let mut tools = server.tools();
            let request = in_session(&format!("s{index}"), kept(&format!("c{index}"), stubborn("86201")));
            starting.spawn(async move {
                let mut stream = tools.execute_tool(request).await.unwrap().into_inner();
                next_such(&mut stream, is_output).await;
                stream
            });
        }
        let streams = starting.join_all().await;
        assert!(processes("86201").len() >= 60 * 4);
        let mut cancelling = JoinSet::new();
        for index in 0..60 {
            let mut tools = server.tools();
            cancelling.spawn(async move { tools.cancel_call(cancel_request(&format!("c{index}"))).await });
        }
        for cancelled in cancelling.join_all().await {
            let call = cancelled.unwrap().into_inner().call.unwrap();
            assert_eq!(failed(&call).reason(), FailureReason::Cancelled);
        }
        assert_eq!(processes("86201"), Vec::<u32>::new(), "gone when CancelCall returns");
        for stream in streams {
            let events = collect(stream).await.unwrap();
            assert!(events.last().is_some_and(is_terminal));
        }
        server.stop().await;
    });
}

#[test]
fn a_lost_client_cancels_unless_it_asked_to_keep() {
    test(async {
        let server = Server::start().await;
        let cancelled = ExecuteToolRequest {
            call_id: "gone".to_owned(),
            ..stubborn("86202")
        };
        drop(started(&server, cancelled).await);
        let events = server.watch("gone", 0).await.unwrap();
        check_log(0, &events);
        match end_of(&events) {
            call::Ending::Failed(failed) => assert_eq!(failed.reason(), FailureReason::Cancelled),
            other => panic!("{other:?}"),
        }
        assert_eq!(processes("86202"), Vec::<u32>::new());

        let fifo = server.work().join("go");
        let keep = kept("kept", bash("mkfifo go; echo ready; cat go"));
        drop(started(&server, keep).await);
        tokio::task::spawn_blocking(move || std::fs::write(fifo, "went on\n"))
            .await
            .unwrap()
            .unwrap();
        let events = server.watch("kept", 0).await.unwrap();
        assert_eq!(output_of(&events), b"ready\nwent on\n");
    });
}

#[test]
fn two_clients_of_one_call_must_both_be_lost() {
    test(async {
        let server = Server::start().await;
        let request = ExecuteToolRequest {
            call_id: "both".to_owned(),
            ..bash("mkfifo go; echo ready; cat go")
        };
        let first = started(&server, request.clone()).await;
        let second = started(&server, request).await;
        drop(first);
        // An answer after the loss was noticed: the call runs.
        server.info().get_server_info(GetServerInfoRequest {}).await.unwrap();
        let fifo = server.work().join("go");
        tokio::task::spawn_blocking(move || std::fs::write(fifo, "on\n"))
            .await
            .unwrap()
            .unwrap();
        let events = collect(second).await.unwrap();
        assert!(matches!(end_of(&events), call::Ending::Completed(_)));
    });
}

#[test]
fn a_dropped_run_tool_cancels() {
    test(async {
        let server = Server::start().await;
        let request = ExecuteToolRequest {
            call_id: "run".to_owned(),
            ..stubborn("86203")
        };
        let mut tools = server.tools();
        let mut running = JoinSet::new();
        running.spawn(async move { tools.run_tool(run_request(request)).await });
        eventually("it runs", async || processes("86203").len() >= 4).await;
        running.shutdown().await;
        let events = server.watch("run", 0).await.unwrap();
        check_log(0, &events);
        assert_eq!(processes("86203"), Vec::<u32>::new());
    });
}

#[test]
fn cancelled_while_waiting_and_after_the_end() {
    test(async {
        let server = Server::with(Setup::permission(json!({ "bash": "ask" }))).await;
        let mut stream = server
            .tools()
            .execute_tool(kept("w", bash("echo ran >> ran")))
            .await
            .unwrap()
            .into_inner();
        let prompt = waiting(&mut stream).await;
        let cancelled = server.tools().cancel_call(cancel_request("w")).await.unwrap();
        let cancelled = cancelled.into_inner().call.unwrap();
        assert_eq!(failed(&cancelled).reason(), FailureReason::Cancelled);
        let get = GetPromptRequest {
            prompt_id: prompt.prompt_id.clone(),
        };
        let prompt = server
            .permissions()
            .get_prompt(get)
            .await
            .unwrap()
            .into_inner()
            .prompt
            .unwrap();
        assert_eq!(prompt.state(), PromptState::Withdrawn);
        assert_ne!(prompt.resolution.as_ref().unwrap().withdrawn_because, "");
        let late = ReplyPromptRequest {
            reply: Some(reply(&prompt, PromptDecision::Once)),
            name: String::new(),
        };
        let late = server
            .permissions()
            .reply_prompt(late)
            .await
            .unwrap()
            .into_inner()
            .result
            .unwrap();
        assert_eq!(late.result(), ReplyResult::Withdrawn);
        let again = server.tools().cancel_call(cancel_request("w")).await.unwrap();
        assert_eq!(
            again.into_inner().call.unwrap(),
            cancelled,
            "an ended call stays as it was"
        );
        assert!(!server.work().join("ran").exists());
    });
}

#[test]
fn the_time_limit_stands_still_while_a_person_is_asked() {
    test(async {
        let server = Server::with(Setup::permission(json!({ "bash": "ask" }))).await;
        let limited = ExecuteToolRequest {
            timeout: Some(prost_types::Duration { seconds: 3, nanos: 0 }),
            ..kept("limited", stubborn("86204"))
        };
        let mut stream = server.tools().execute_tool(limited).await.unwrap().into_inner();
        let prompt = waiting(&mut stream).await;
        // The wait is longer than the limit: that is what is tested.
        tokio::time::sleep(Duration::from_millis(3_500)).await;
        assert_eq!(server.get("limited").await.state(), CallState::Waiting);
        let yes = ReplyPromptRequest {
            reply: Some(reply(&prompt, PromptDecision::Once)),
            name: String::new(),
        };
        server.permissions().reply_prompt(yes).await.unwrap();
        next_such(&mut stream, |event| matches!(event, Event::Resumed(_))).await;
        let from = Instant::now();
        let events = collect(stream).await.unwrap();
        assert!(from.elapsed() < Duration::from_secs(60));
        match end_of(&events) {
            call::Ending::Failed(failed) => {
                assert_eq!(failed.reason(), FailureReason::TimedOut);
                let waited = failed.timing.unwrap().waited.unwrap();
                assert!((waited.seconds, waited.nanos) >= (3, 500_000_000), "{waited:?}");
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(processes("86204"), Vec::<u32>::new());
    });
}

#[test]
fn the_end_of_a_session_ends_its_calls() {
    test(async {
        let server = Server::with(Setup::permission(json!({ "bash": { "*": "allow", ": ask*": "ask" } }))).await;
        let running = started(&server, in_session("mine", kept("a", stubborn("86205")))).await;
        let mut asking = server
            .tools()
            .execute_tool(in_session("mine", kept("b", bash(": ask; true"))))
            .await
            .unwrap()
            .into_inner();
        waiting(&mut asking).await;
        let other = started(&server, in_session("other", kept("c", bash("echo ready; sleep 86206")))).await;
        let request = EndSessionRequest {
            session_id: "mine".to_owned(),
            ..Default::default()
        };
        let ended = server.sessions().end_session(request).await.unwrap().into_inner();
        assert_eq!(ended.cancelled_calls, 2);
        assert_eq!(processes("86205"), Vec::<u32>::new());
        for stream in [running, asking] {
            assert!(collect(stream).await.unwrap().last().is_some_and(is_terminal));
        }
        let request = GetSessionRequest {
            session_id: "mine".to_owned(),
            ..Default::default()
        };
        let session = server
            .sessions()
            .get_session(request)
            .await
            .unwrap()
            .into_inner()
            .session
            .unwrap();
        assert!(session.open_prompts.is_empty());
        assert_eq!(session.recent_calls.len(), 2);
        assert_eq!(server.get("c").await.state(), CallState::Running);
        server.tools().cancel_call(cancel_request("c")).await.unwrap();
        drop(other);
    });
}
