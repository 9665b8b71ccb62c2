//! Workers, gateways and the database die while something runs, or while somebody is asked.

use std::time::Duration;

use tokio::time::sleep;
use tonic::Code;
use toolgate_contract::call_event::Event;
use toolgate_contract::*;

use super::setup::Fleet;
use crate::gateway::setup::*;
use crate::support::{
    check_log, collect, collect_watch, completed, end_of, eventually, failed, is_output, is_terminal, next_such,
    refused, test, waiting, watch_request,
};

/// Says that a log ends once, with LOST.
fn assert_lost(after: i64, events: &[CallEvent]) {
    check_log(after, events);
    assert_eq!(events.iter().filter(|event| is_terminal(event)).count(), 1);
    match &events.last().unwrap().event {
        Some(Event::Failed(failed)) => assert_eq!(failed.reason(), FailureReason::Lost),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_call_of_a_worker_that_dies_is_lost_once_and_everywhere() {
    test(async {
        let mut fleet = Fleet::start().await;
        let (running, begun) = fleet.begin(0, "wa").await;
        let id = begun.call_id.clone();
        let mut elsewhere = fleet.tools(1, ANNA).await;
        let watched = elsewhere.watch_call(watch_request(&id, 0, OutputMode::Full)).await;
        let watched = watched.unwrap().into_inner();
        fleet.workers[0].kill9().await;
        // The streams of both gateways go on until the end is known.
        let rest = collect(running).await.unwrap();
        assert_lost(begun.sequence, &rest);
        assert_lost(0, &collect_watch(watched).await.unwrap());
        for gateway in 0..2 {
            let call = fleet.get(gateway, &id).await.unwrap();
            assert_eq!(failed(&call).reason(), FailureReason::Lost);
        }
        // The next run of the worker has the workspace again.
        let home = fleet.home();
        fleet.workers[0].run(&home).await;
        fleet.ready().await;
        completed(&fleet.run(1, "wa", "true").await.unwrap());
        fleet.assert_calm();
    });
}

#[test]
fn a_prompt_outlives_its_worker() {
    test(async {
        let mut fleet = Fleet::start().await;
        let mut tools = fleet.tools(0, ANNA).await;
        let asking = tools.execute_tool(bash("wa", "echo ask 1 >answered")).await;
        let mut asking = asking.unwrap().into_inner();
        let prompt = waiting(&mut asking).await;
        fleet.workers[0].kill9().await;
        // Its lease is over by then: the call is not lost all the same.
        sleep(Duration::from_secs(5)).await;
        let call = fleet.get(1, &prompt.call_id).await.unwrap();
        assert_eq!(call.state(), CallState::Waiting);
        let taken = fleet.allow(1, &prompt).await.unwrap();
        assert_eq!(taken.result(), ReplyResult::Accepted);
        let home = fleet.home();
        fleet.workers[0].run(&home).await;
        let events = collect(asking).await.unwrap();
        assert!(matches!(end_of(&events), call::Ending::Completed(_)), "{events:?}");
        assert!(fleet.path("worker-a/own/answered").exists());
        fleet.assert_calm();
    });
}

#[test]
fn a_client_of_a_gateway_that_dies_goes_on_at_the_other() {
    test(async {
        let mut fleet = Fleet::start().await;
        let request = ExecuteToolRequest {
            on_disconnect: OnDisconnect::Keep.into(),
            ..bash("wa", "echo begun; sleep 3; echo done")
        };
        let mut tools = fleet.tools(0, ANNA).await;
        let mut running = tools.execute_tool(request).await.unwrap().into_inner();
        let begun = next_such(&mut running, is_output).await;
        fleet.gateways[0].kill9().await;
        collect(running).await.unwrap_err();
        let mut elsewhere = fleet.tools(1, ANNA).await;
        let after = begun.sequence;
        let rest = elsewhere
            .watch_call(watch_request(&begun.call_id, after, OutputMode::Full))
            .await;
        let rest = collect_watch(rest.unwrap().into_inner()).await.unwrap();
        check_log(after, &rest);
        assert!(matches!(end_of(&rest), call::Ending::Completed(_)), "{rest:?}");
        fleet.assert_calm();
    });
}

#[test]
fn commands_go_on_while_the_database_is_away() {
    test(async {
        let fleet = Fleet::start().await;
        let before = fleet.run(0, "wb", "echo before").await.unwrap();
        let request = ExecuteToolRequest {
            on_disconnect: OnDisconnect::Keep.into(),
            ..bash("wa", "echo begun; sleep 6; echo done | tee finished")
        };
        let mut tools = fleet.tools(0, ANNA).await;
        let mut running = tools.execute_tool(request).await.unwrap().into_inner();
        let begun = next_such(&mut running, is_output).await;
        fleet.database.crash();
        let away = fleet.run(1, "wb", "echo during").await;
        let details = refused(away, Code::Unavailable, "STORE_UNAVAILABLE");
        assert!(details.retry_info().unwrap().retry_delay.is_some());
        fleet.database.resume().await;
        eventually("the command has gone on", async || {
            fleet.path("worker-a/own/finished").exists()
        })
        .await;
        let mut end = None;
        eventually("its end is stored", async || {
            let found = fleet.get(1, &begun.call_id).await;
            end = found.ok().filter(|call| call.ending.is_some());
            end.is_some()
        })
        .await;
        assert_eq!(completed(&end.unwrap()).output, "begun\ndone\n");
        assert_eq!(fleet.get(1, &before.call_id).await.unwrap(), before);
        completed(&fleet.run(1, "wb", "echo after").await.unwrap());
        fleet.assert_calm();
    });
}
