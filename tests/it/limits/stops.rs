//! Calls that are stopped while they wait for their turn: by a person, by the end of their session, with their client,
//! with the service.

use std::fs;

use rustix::process::Signal;

use super::*;

#[test]
fn who_waits_can_be_cancelled_and_leaves_no_trace() {
    test(async {
        let server = Server::with(limited([("max_running_calls", "1"), ("max_queued_calls", "3")])).await;
        let busy = Busy::start(&server, "busy").await;
        for id in ["cancelled", "of-a-session"] {
            queue(&server, id, in_session(id, bash(&format!("touch {id}")))).await;
        }
        let (gone, _) = queue_stream(
            &server,
            ExecuteToolRequest {
                call_id: "gone".to_owned(),
                ..bash("touch gone")
            },
        )
        .await;
        assert_eq!(queued_calls(&server).await, 3);

        let call = server.cancel("cancelled").await;
        never_started(&call, FailureReason::Cancelled);
        let session = EndSessionRequest {
            session_id: "of-a-session".to_owned(),
            ..Default::default()
        };
        server.sessions().end_session(session).await.unwrap();
        never_started(&server.get("of-a-session").await, FailureReason::Cancelled);
        drop(gone);
        never_started(&end(&server, "gone").await, FailureReason::Cancelled);
        assert_eq!(queued_calls(&server).await, 0);

        // Their places are free, and their turns go to those who are there.
        for id in ["a", "b", "c"] {
            queue(&server, id, bash(&format!("touch {id}"))).await;
        }
        busy.let_go().await;
        for id in ["a", "b", "c"] {
            completed(&end(&server, id).await);
            assert!(server.work().join(id).exists());
        }
        for id in ["cancelled", "of-a-session", "gone"] {
            assert!(!server.work().join(id).exists(), "{id} ran");
            check_log(0, &server.watch(id, 0).await.unwrap());
        }
    });
}

#[test]
fn inputs_with_many_keys_hold_up_nobody() {
    test(async {
        let mut server = Server::start().await;
        let mut large = Vec::new();
        for index in 0..8 {
            let fields = (0..60_000).map(|key| (format!("key{key}"), json!(key)));
            let request = kept(&format!("large-{index}"), request("todoread", fields.collect()));
            let mut tools = server.tools();
            large.push(tokio::spawn(async move { run(&mut tools, run_request(request)).await }));
        }
        // Answered while they are looked at, and so is the signal.
        completed(&server.run("todoread", json!({})).await);
        server.stop().await;
        for call in large {
            // Those that came before the end ran or were refused; none was left hanging.
            let _ = call.await.unwrap();
        }
    });
}

async fn fill(server: &Server) -> (Busy, Vec<String>) {
    let busy = Busy::start(server, "busy").await;
    let ids: Vec<String> = (0..50).map(|index| format!("waits-{index}")).collect();
    for id in &ids {
        queue(server, id, bash(&format!("echo {id} >> ran"))).await;
    }
    (busy, ids)
}

#[test]
fn a_drain_ends_what_waits_and_lets_finish_what_runs() {
    test(async {
        let setup = limited([("max_running_calls", "1")]).env("TOOLGATE_DRAIN_GRACE", "20s");
        let mut server = Server::with(setup).await;
        let (busy, ids) = fill(&server).await;
        let (waits, _) = queue_stream(&server, kept("seen", bash("touch seen"))).await;
        server.signal(Signal::TERM);
        let log = collect(waits).await.unwrap();
        match end_of(&log) {
            call::Ending::Failed(failed) => assert_eq!(failed.reason(), FailureReason::Drained),
            call::Ending::Completed(_) => panic!("it ran"),
        }
        // What runs has its grace, and nothing takes its place.
        let log = busy.let_go().await;
        assert!(matches!(end_of(&log), call::Ending::Completed(_)));
        assert_eq!(server.ended().await.code(), Some(0), "{}", server.log());
        server.restart().await;
        for id in &ids {
            never_started(&server.get(id).await, FailureReason::Drained);
        }
        assert!(!server.work().join("ran").exists());
        server.stop().await;
    });
}

#[test]
fn after_a_kill_what_waited_says_that_it_did_nothing() {
    test(async {
        let mut server = Server::with(limited([("max_running_calls", "1")])).await;
        let (_busy, ids) = fill(&server).await;
        server.kill9().await;
        server.restart().await;
        for id in &ids {
            never_started(&server.get(id).await, FailureReason::Lost);
        }
        let busy = server.get("busy").await;
        let lost = failed(&busy);
        assert_eq!(lost.reason(), FailureReason::Lost);
        assert!(
            !json_of(lost.metadata.as_ref().unwrap())
                .as_object()
                .unwrap()
                .contains_key("started")
        );
        assert!(!server.work().join("ran").exists());
        // There is room, and as much as before.
        fs::remove_file(server.work().join("go-busy")).unwrap();
        let again = Busy::start(&server, "again").await;
        queue(&server, "next", bash("echo next")).await;
        again.let_go().await;
        assert_eq!(completed(&end(&server, "next").await).output.trim(), "next");
        server.stop().await;
    });
}

#[test]
fn calls_that_wait_for_people_count_again_after_a_restart() {
    test(async {
        let setup = Setup::permission(serde_json::json!({ "bash": { "*": "allow", ": ask*": "ask" } }));
        let setup = with(setup, ("max_running_calls", "1"));
        let mut server = Server::with(setup).await;
        let asks = kept("asks", bash(": ask; echo asked"));
        let mut asks = server.tools().execute_tool(asks).await.unwrap().into_inner();
        let prompt = waiting(&mut asks).await;
        server.kill9().await;
        server.restart().await;
        eventually("the call waits again", async || {
            server.get("asks").await.state() == CallState::Waiting
        })
        .await;
        queue(&server, "next", bash("echo next")).await;
        let once = ReplyPromptRequest {
            reply: Some(reply(&prompt, PromptDecision::Once)),
            name: String::new(),
        };
        server.permissions().reply_prompt(once).await.unwrap();
        assert_eq!(completed(&end(&server, "asks").await).output.trim(), "asked");
        assert_eq!(completed(&end(&server, "next").await).output.trim(), "next");
    });
}

#[test]
fn a_drain_lets_a_batch_that_runs_come_to_its_last_part() {
    test(async {
        let setup = Setup {
            config: Some(serde_json::json!({ "experimental": { "batch_tool": true } })),
            ..limited([("max_running_calls", "1")]).env("TOOLGATE_DRAIN_GRACE", "20s")
        };
        let mut server = Server::with(setup).await;
        let part = |n: usize| {
            let command = format!("echo {n} >> parts; until [ -e go ]; do sleep 0.02; done");
            serde_json::json!({"tool": "bash", "parameters": {"command": command, "description": "a test"}})
        };
        let parts: Vec<Value> = (0..4).map(part).collect();
        let batch = kept("batch", request("batch", serde_json::json!({ "tool_calls": parts })));
        let batch = server.tools().execute_tool(batch).await.unwrap().into_inner();
        eventually("the others wait for the first", async || {
            queued_calls(&server).await == 3
        })
        .await;
        let (stranger, _) = queue_stream(&server, kept("stranger", bash("touch stranger"))).await;
        server.signal(Signal::TERM);
        collect(stranger).await.unwrap();
        fs::write(server.work().join("go"), "").unwrap();
        match end_of(&collect(batch).await.unwrap()) {
            call::Ending::Completed(end) => assert!(end.output.contains("All 4 tools"), "{}", end.output),
            other => panic!("{other:?}"),
        }
        assert_eq!(server.ended().await.code(), Some(0), "{}", server.log());
        assert!(!server.work().join("stranger").exists());
    });
}
