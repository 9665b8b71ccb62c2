//! SIGTERM: no new calls, a grace for short ones, an end for all, exit 0; and a second signal that does not wait. What
//! waits for a person is in `drain/waiting.rs`, what streams are told in `drain/notices.rs`, many stops in `drain/load.rs`.

mod load;
mod notices;
mod waiting;

use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;
use tokio::time::Instant;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use toolgate_contract::channel_response::Message;
use toolgate_contract::*;

use crate::support::*;

fn setup(grace: &str) -> Setup {
    Setup::permission(json!({ "bash": { "*": "allow", ": ask*": "ask" } })).env("TOOLGATE_DRAIN_GRACE", grace)
}

fn reason(events: &[CallEvent]) -> FailureReason {
    match end_of(events) {
        call::Ending::Failed(failed) => failed.reason(),
        call::Ending::Completed(_) => FailureReason::Unspecified,
    }
}

fn failed_reason(call: &Call) -> FailureReason {
    failed(call).reason()
}

/// What of a stream is the call's log.
fn logged(events: &[CallEvent]) -> Vec<CallEvent> {
    events.iter().filter(|event| event.sequence != 0).cloned().collect()
}

#[test]
fn everything_comes_to_its_end() {
    test(async {
        let mut server = Server::with(setup("10s")).await;
        let execute = async |id: &str, command: &str| {
            let request = kept(id, bash(command));
            server.tools().execute_tool(request).await.unwrap().into_inner()
        };
        let mut short = execute("short", "mkfifo go; echo ready; cat go").await;
        next_such(&mut short, is_output).await;
        let mut long = execute("long", "setsid sleep 86301 & echo ready; sleep 86301").await;
        next_such(&mut long, is_output).await;
        let mut asking = execute("asking", ": ask; true").await;
        let prompt = waiting(&mut asking).await;
        let mut approver = Approver::open(server.connect().await, "idle").await.unwrap();
        let mut events = server
            .sessions()
            .watch_events(WatchEventsRequest::default())
            .await
            .unwrap()
            .into_inner();
        let mut prompts = server
            .permissions()
            .watch_prompts(watch_all())
            .await
            .unwrap()
            .into_inner();
        let service = "toolgate.v1.ToolService".to_owned();
        let mut health = server
            .health()
            .watch(HealthCheckRequest { service })
            .await
            .unwrap()
            .into_inner();
        let status = health.message().await.unwrap().unwrap().status();
        assert_eq!(status, ServingStatus::Serving);

        let from = Instant::now();
        server.signal(Signal::TERM);
        let status = health.message().await.unwrap().unwrap().status();
        assert_eq!(status, ServingStatus::NotServing);
        eventually("new calls are refused", async || {
            let result = server.tools().run_tool(run_request(bash("true"))).await;
            match result {
                Ok(_) => false,
                Err(status) => {
                    let details = refused::<()>(Err(status), Code::Unavailable, "DRAINING");
                    assert!(details.retry_info().is_some());
                    true
                }
            }
        })
        .await;
        let again = kept("short", bash("mkfifo go; echo ready; cat go"));
        let attached = server.tools().execute_tool(again).await;
        assert!(attached.is_ok(), "a running call may be attached to");
        let go = server.work().join("go");
        tokio::task::spawn_blocking(move || std::fs::write(go, "done\n"))
            .await
            .unwrap()
            .unwrap();
        let short = collect(short).await.unwrap();
        assert!(
            matches!(end_of(&short), call::Ending::Completed(_)),
            "the grace is for this"
        );

        assert_eq!(reason(&collect(long).await.unwrap()), FailureReason::Drained);
        refused(collect(asking).await, Code::Unavailable, "DRAINING");
        let end = loop {
            match approver.next().await {
                Ok(message) => assert!(!matches!(message, Message::PromptResolved(_)), "{message:?}"),
                Err(status) => break status,
            }
        };
        assert_eq!(end.code(), Code::Unavailable);
        let end = loop {
            match events.message().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("an end without a status"),
                Err(status) => break status,
            }
        };
        assert_eq!(end.code(), Code::Unavailable, "{end:?}");
        while let Ok(Some(_)) = prompts.message().await {}
        let status = server.ended().await;
        assert_eq!(status.code(), Some(0));
        assert!(from.elapsed() < Duration::from_secs(10 + 20), "{:?}", from.elapsed());
        assert_eq!(processes("86301"), Vec::<u32>::new());
        server.assert_calm();

        server.restart().await;
        assert_eq!(failed(&server.get("long").await).reason(), FailureReason::Drained);
        let asking = server.get("asking").await;
        assert_eq!(asking.state(), CallState::Waiting);
        assert_eq!(asking.waiting_prompt_id, prompt.prompt_id);
        let log = server.watch("short", 0).await.unwrap();
        check_log(0, &log);
        assert!(log.ends_with(&logged(&short)));
    });
}

#[test]
fn nothing_to_wait_for_is_not_waited_for() {
    test(async {
        let mut server = Server::with(setup("20s")).await;
        server
            .run("bash", json!({"command": "true", "description": "nothing"}))
            .await;
        let from = Instant::now();
        server.stop().await;
        assert!(from.elapsed() < Duration::from_secs(5), "{:?}", from.elapsed());
    });
}

#[test]
fn a_second_signal_exits_at_once() {
    test(async {
        let mut server = Server::with(setup("60s")).await;
        let request = kept("long", bash("setsid sleep 86302 & echo ready; sleep 86302"));
        let mut stream = server.tools().execute_tool(request).await.unwrap().into_inner();
        next_such(&mut stream, is_output).await;
        let mut health = server
            .health()
            .watch(HealthCheckRequest::default())
            .await
            .unwrap()
            .into_inner();
        health.message().await.unwrap();
        server.signal(Signal::TERM);
        health.message().await.unwrap();
        let from = Instant::now();
        server.signal(Signal::INT);
        let status = server.ended().await;
        assert_eq!(status.code(), Some(130));
        assert!(from.elapsed() < Duration::from_secs(5));
        gone("86302").await;
        server.restart().await;
        let log = server.watch("long", 0).await.unwrap();
        check_log(0, &log);
        let reason = reason(&log);
        assert!(
            matches!(reason, FailureReason::Lost | FailureReason::Drained),
            "{reason:?}: {log:?}"
        );
        server.assert_calm();
    });
}

#[test]
fn starts_during_the_drain_are_run_or_refused() {
    test(async {
        let mut server = Server::with(setup("5s")).await;
        let mut clients = tokio::task::JoinSet::new();
        for client in 0..4 {
            let mut tools = server.tools();
            clients.spawn(async move {
                let mut acknowledged = Vec::new();
                for index in 0..10_000 {
                    let id = format!("d{client}-{index}");
                    match tools.execute_tool(kept(&id, bash("true"))).await {
                        Ok(stream) => {
                            if let Ok(Some(_)) = stream.into_inner().message().await {
                                acknowledged.push(id);
                            }
                        }
                        Err(_) => break,
                    }
                }
                acknowledged
            });
        }
        eventually("some calls are through", async || {
            let list = ListCallsRequest {
                page_size: 20,
                ..Default::default()
            };
            server.tools().list_calls(list).await.unwrap().into_inner().calls.len() == 20
        })
        .await;
        server.stop().await;
        let acknowledged = clients.join_all().await.concat();
        server.restart().await;
        for id in acknowledged {
            let call = server.get(&id).await;
            assert!(call.ending.is_some(), "{id} is {:?}", call.state());
            let lost =
                matches!(&call.ending, Some(call::Ending::Failed(failed)) if failed.reason() == FailureReason::Lost);
            assert!(!lost, "{id} was lost by a drain");
        }
    });
}
