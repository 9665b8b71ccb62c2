//! Calls that many watch at one gateway.

use std::fs;
use std::time::Duration;

use rustix::process::Signal;
use tokio::task::JoinSet;
use tokio::time::sleep;
use toolgate_contract::*;

use super::setup::Fleet;
use crate::gateway::setup::*;
use crate::support::{check_log, collect_watch, end_of, eventually, output_of, test, watch_request};
use crate::telemetry;

const WATCHERS: u64 = 30;

/// Says how many streams a gateway has at the worker `a`.
async fn streams(fleet: &Fleet, gateway: usize) -> f64 {
    let admin = fleet.gateways[gateway].admin.as_ref().unwrap();
    let (_, metrics) = telemetry::get(admin, "/metrics").await.unwrap();
    let series = "toolgate_gateway_worker_streams{worker=\"a\"}";
    let found = metrics.lines().find_map(|line| line.strip_prefix(series));
    found.unwrap().trim().parse().unwrap()
}

#[test]
fn what_many_watch_comes_from_the_worker_once() {
    test(async {
        let fleet = Fleet::start().await;
        let counts = "until test -e stop; do echo a line; sleep 0.02; done; echo over";
        for ends_well in [true, false] {
            let request = ExecuteToolRequest {
                on_disconnect: OnDisconnect::Keep.into(),
                ..bash("wa", counts)
            };
            let mut tools = fleet.tools(0, ANNA).await;
            let mut running = tools.execute_tool(request).await.unwrap().into_inner();
            let id = running.message().await.unwrap().unwrap().event.unwrap().call_id;
            drop(running);
            let mut watchers = JoinSet::new();
            for number in 0..WATCHERS {
                let (mut tools, request) = (fleet.tools(0, ANNA).await, watch_request(&id, 0, OutputMode::Full));
                // They come one after the other, and read from the beginning.
                sleep(Duration::from_millis(number)).await;
                let stream = tools.watch_call(request).await.unwrap().into_inner();
                watchers.spawn(collect_watch(stream));
            }
            // Some that do not share: the other gateway's, and what asks for less.
            let tail = tools.watch_call(watch_request(&id, 0, OutputMode::None)).await;
            let mut other = fleet.tools(1, ANNA).await;
            let elsewhere = other.watch_call(watch_request(&id, 0, OutputMode::Full)).await;
            eventually("they share a stream", async || streams(&fleet, 0).await <= 4.0).await;
            match ends_well {
                true => fs::write(fleet.path("worker-a/own/stop"), "").unwrap(),
                false => fleet.workers[0].send(Signal::KILL),
            }
            let expected = collect_watch(elsewhere.unwrap().into_inner()).await.unwrap();
            assert_eq!(matches!(end_of(&expected), call::Ending::Completed(_)), ends_well);
            let shown = |events: &[CallEvent]| {
                let logged = events.iter().filter(|event| event.sequence != 0);
                logged.cloned().collect::<Vec<_>>()
            };
            while let Some(seen) = watchers.join_next().await {
                let seen = seen.unwrap().unwrap();
                if ends_well {
                    check_log(0, &seen);
                    assert_eq!(shown(&seen), shown(&expected));
                    assert!(output_of(&seen).ends_with(b"over\n"));
                }
                assert_eq!(shown(&seen).last(), shown(&expected).last());
            }
            drop(tail);
            let _ = fs::remove_file(fleet.path("worker-a/own/stop"));
        }
        fleet.assert_calm();
    });
}
