//! Workers that go away while something runs, and that are away when something is asked.

use std::time::Duration;

use rustix::process::Signal;
use tokio::time::timeout;
use tonic::{Code, Request};
use toolgate_contract::call_event::Event;
use toolgate_contract::watch_prompts_response::Message;
use toolgate_contract::*;

use super::setup::*;
use crate::support::{
    self, check_log, collect, collect_watch, eventually, everybody, is_output, next_such, refused, test, waiting,
};

#[test]
fn a_stream_goes_on_when_its_worker_is_back() {
    test(async {
        let mut fleet = Fleet::start().await;
        let request = bash("wb", "echo begun; sleep 100");
        let mut call = fleet.tools(ANNA).execute_tool(request).await.unwrap().into_inner();
        let begun = next_such(&mut call, is_output).await;
        let home = fleet.home();
        fleet.workers[1].kill9().await;
        fleet.workers[1].run(&home).await;
        let rest = collect(call).await.unwrap();
        check_log(begun.sequence, &rest);
        match &rest.last().unwrap().event {
            Some(Event::Failed(failed)) => assert_eq!(failed.reason(), FailureReason::Lost),
            other => panic!("{other:?}"),
        }
        fleet.assert_calm();
    });
}

#[test]
fn what_is_at_a_worker_that_is_away_is_told_so() {
    test(async {
        let mut fleet = Fleet::start().await;
        let made = fleet.run(ANNA, "wb", "true").await.unwrap().call_id;
        fleet.workers[1].kill9().await;
        let away = fleet.run(ANNA, "wb", "true").await;
        let details = refused(away, Code::Unavailable, "WORKER_GONE");
        assert!(details.retry_info().unwrap().retry_delay.is_some());
        let get = GetCallRequest { call_id: made };
        refused(
            fleet.tools(ANNA).get_call(get.clone()).await,
            Code::Unavailable,
            "WORKER_GONE",
        );
        // The others go on.
        fleet.run(ANNA, "wa", "true").await.unwrap();
        fleet.run(ANNA, "wc", "true").await.unwrap();
        let home = fleet.home();
        fleet.workers[1].run(&home).await;
        fleet.run(ANNA, "wb", "true").await.unwrap();
        fleet.tools(ANNA).get_call(get).await.unwrap();
        fleet.assert_calm();
    });
}

#[test]
fn a_worker_that_hangs_keeps_back_no_prompts_of_others() {
    test(async {
        let fleet = Fleet::start().await;
        let asking = fleet.tools(ANNA).execute_tool(bash("wa", "echo ask 1")).await;
        let mut asking = asking.unwrap().into_inner();
        let prompt = waiting(&mut asking).await;
        fleet.workers[2].send(Signal::STOP);
        let request = WatchPromptsRequest {
            filter: Some(everybody()),
        };
        let watched = fleet.prompts(CARL).watch_prompts(request).await;
        let mut watched = watched.unwrap().into_inner();
        let mut seen = Vec::new();
        // A connection that is dead is found out later than this.
        let snapshot = timeout(Duration::from_secs(12), async {
            loop {
                match watched.message().await.unwrap().unwrap().message.unwrap() {
                    Message::PromptAdded(added) => seen.push(added.prompt.unwrap().prompt_id),
                    Message::SnapshotEnd(end) => break end.prompts,
                    Message::Opened(_)
                    | Message::PromptUpdated(_)
                    | Message::PromptResolved(_)
                    | Message::Heartbeat(_) => {}
                }
            }
        });
        assert_eq!(snapshot.await.expect("it does not wait for the worker that hangs"), 1);
        assert_eq!(seen, [prompt.prompt_id]);
        fleet.workers[2].send(Signal::CONT);
        fleet.assert_calm();
    });
}

#[test]
fn a_call_outlives_its_gateway_if_its_client_comes_back() {
    test(async {
        let mut fleet = Fleet::start().await;
        for signal in [Signal::KILL, Signal::TERM] {
            let request = ExecuteToolRequest {
                on_disconnect: OnDisconnect::Cancel.into(),
                ..bash("wb", "echo begun; sleep 20; echo done")
            };
            let mut call = fleet.tools(ANNA).execute_tool(request).await.unwrap().into_inner();
            let begun = next_such(&mut call, is_output).await;
            let call_id = begun.call_id;
            fleet.gateway.signal(signal).await;
            let home = fleet.home();
            fleet.gateway.run(&home).await;
            fleet.channel = support::connect_tcp(&fleet.gateway.address).await.unwrap();
            drop(call);
            let watch = WatchCallRequest {
                call_id,
                after_sequence: begun.sequence,
                ..WatchCallRequest::default()
            };
            let watched = fleet.tools(ANNA).watch_call(watch).await.unwrap().into_inner();
            let rest = collect_watch(watched).await.unwrap();
            assert!(
                matches!(rest.last().unwrap().event, Some(Event::Completed(_))),
                "{signal:?}: {rest:?}"
            );
        }
        fleet.assert_calm();
    });
}

#[test]
fn a_call_ends_when_its_gateway_is_gone_and_its_client_stays_away() {
    test(async {
        let mut fleet = Fleet::start().await;
        let request = ExecuteToolRequest {
            call_id: "mine".to_owned(),
            on_disconnect: OnDisconnect::Cancel.into(),
            ..bash("wb", "echo begun; sleep 300")
        };
        // The second time the client has come back, and is lost with the gateway once more.
        for _ in 0..2 {
            let mut call = fleet
                .tools(ANNA)
                .execute_tool(request.clone())
                .await
                .unwrap()
                .into_inner();
            next_such(&mut call, is_output).await;
            fleet.gateway.kill9().await;
            let home = fleet.home();
            fleet.gateway.run(&home).await;
            fleet.channel = support::connect_tcp(&fleet.gateway.address).await.unwrap();
        }
        let state = async || {
            let get = GetCallRequest {
                call_id: "mine".to_owned(),
            };
            let call = fleet.tools(ANNA).get_call(get).await.unwrap().into_inner().call;
            call.unwrap().state()
        };
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(state().await, CallState::Running, "its client may still come back");
        let ended = eventually("it is cancelled", async || state().await == CallState::Failed);
        timeout(Duration::from_secs(60), ended).await.unwrap();
        fleet.assert_calm();
    });
}

#[test]
fn a_stream_whose_worker_stays_away_ends_without_an_end_of_the_call() {
    test(async {
        let mut fleet = Fleet::start().await;
        let request = bash("wb", "echo begun; sleep 100");
        let mut call = fleet.tools(ANNA).execute_tool(request).await.unwrap().into_inner();
        next_such(&mut call, is_output).await;
        fleet.workers[1].kill9().await;
        let end = collect(call).await;
        let details = refused(end, Code::Unavailable, "WORKER_GONE");
        assert!(details.retry_info().unwrap().retry_delay.is_some());
        fleet.assert_calm();
    });
}

#[test]
fn a_deadline_and_a_client_that_leaves_reach_the_call() {
    test(async {
        let fleet = Fleet::start().await;
        let mut call = Request::new(support::run_request(bash("wb", "sleep 100")));
        call.set_timeout(Duration::from_secs(6));
        let ended = fleet.tools(ANNA).run_tool(call).await.unwrap_err();
        assert!(
            [Code::DeadlineExceeded, Code::Cancelled].contains(&ended.code()),
            "{ended:?}"
        );
        let request = ExecuteToolRequest {
            on_disconnect: OnDisconnect::Cancel.into(),
            ..bash("wb", "echo begun; sleep 100")
        };
        let mut call = fleet.tools(ANNA).execute_tool(request).await.unwrap().into_inner();
        next_such(&mut call, is_output).await;
        drop(call);
        eventually("both calls are cancelled", async || {
            let list = ListCallsRequest {
                workspace: "wb".to_owned(),
                ..ListCallsRequest::default()
            };
            let calls = fleet.tools(ANNA).list_calls(list).await.unwrap().into_inner().calls;
            calls.len() == 2 && calls.iter().all(|call| call.state() == CallState::Failed)
        })
        .await;
        fleet.assert_calm();
    });
}
