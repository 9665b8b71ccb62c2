//! A worker that stores more than it may waits, and loses nothing by it: neither what it stores nor its workspaces.

use std::time::{Duration, Instant};

use toolgate_contract::output_service_client::OutputServiceClient;
use toolgate_contract::*;

use super::clock::Clock;
use super::setup::{Fleet, LEASE, Plan};
use crate::gateway::setup::*;
use crate::support::{collect, completed, end_of, eventually, run_request, test, waiting};
use crate::telemetry;

/// How high the command counts: some bytes more than both gateways let through at once.
const NUMBERS: u64 = 4_900_000;

#[test]
fn who_stores_too_much_waits_and_loses_nothing() {
    test(async {
        let plan = Plan {
            settings: "limits.max_worker_bytes_per_second = \"256KiB\"",
            ..Plan::default()
        };
        let fleet = Fleet::of(plan).await;
        let request = RunToolRequest {
            call_id: "much".to_owned(),
            ..run_request(bash("wa", &format!("seq {NUMBERS}")))
        };
        let mut tools = fleet.tools(0, ANNA).await;
        let begun = Instant::now();
        let running = tokio::spawn(async move { tools.run_tool(request).await });
        let refusals = async || {
            let mut count = 0.0;
            for gateway in &fleet.gateways {
                let (_, metrics) = telemetry::get(gateway.admin.as_ref().unwrap(), "/metrics")
                    .await
                    .unwrap();
                let series = "toolgate_limit_refusals_total{limit=\"limits.max_worker_bytes_per_second\"}";
                count += metrics
                    .lines()
                    .find_map(|line| line.strip_prefix(series)?.trim().parse::<f64>().ok())
                    .unwrap_or_default();
            }
            count
        };
        eventually("it stores too much", async || refusals().await > 0.0).await;
        // Others do not wait for it.
        let before = Instant::now();
        completed(&fleet.run(1, "wb", "true").await.unwrap());
        assert!(before.elapsed() < Duration::from_secs(5), "{:?}", before.elapsed());
        let call = running.await.unwrap().unwrap().into_inner().call.unwrap();
        let output_id = completed(&call).truncation.as_ref().unwrap().output_id.clone();
        let mut outputs = OutputServiceClient::with_interceptor(fleet.channel(1).await, Shown(ANNA, None));
        let get = GetOutputRequest {
            output_id: output_id.clone(),
        };
        let mut output = None;
        eventually("all of it is stored", async || {
            output = outputs.get_output(get.clone()).await.unwrap().into_inner().output;
            output.as_ref().is_some_and(|output| output.complete)
        })
        .await;
        println!("it took {:?}, with {} refusals", begun.elapsed(), refusals().await);
        assert!(begun.elapsed() > 2 * LEASE, "{:?}", begun.elapsed());
        let output = output.unwrap();
        assert_eq!(output.total_lines, NUMBERS as i64);
        let tail = ReadOutputRequest {
            output_id,
            range: Some(read_output_request::Range::Tail(Tail { lines: 1 })),
        };
        let last = outputs
            .read_output(tail)
            .await
            .unwrap()
            .into_inner()
            .message()
            .await
            .unwrap();
        assert_eq!(last.unwrap().data, format!("{NUMBERS}\n").into_bytes());
        // It is the same run, and its log says why it waited.
        let log = fleet.workers[0].log();
        assert!(!log.contains("this run has lost its workspaces"), "{log}");
        assert!(log.contains("limits.max_worker_bytes_per_second"), "{log}");
        fleet.assert_calm();
    });
}

#[test]
fn what_a_connection_of_a_client_carries_bounds_no_worker() {
    test(async {
        // With another gateway, a worker would go there.
        let plan = Plan {
            gateways: vec![Clock::Right],
            settings: "limits.max_streams_per_connection = 2",
            ..Plan::default()
        };
        let fleet = Fleet::of(plan).await;
        // Its registration and what it follows are two streams that go on.
        let mut tools = fleet.tools(0, ANNA).await;
        let mut asking = tools.execute_tool(bash("wa", "echo ask 1")).await.unwrap().into_inner();
        let prompt = waiting(&mut asking).await;
        completed(&fleet.run(0, "wa", "true").await.unwrap());
        assert_eq!(fleet.allow(0, &prompt).await.unwrap().result(), ReplyResult::Accepted);
        let events = collect(asking).await.unwrap();
        assert!(matches!(end_of(&events), call::Ending::Completed(_)), "{events:?}");
        fleet.assert_calm();
    });
}
