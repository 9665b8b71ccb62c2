//! Gateways that are replaced one after the other while everything goes on: no call is lost, and everybody who was told that a gateway stops
//! goes on at another one.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::Signal;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tonic::Code;
use tonic::transport::{Channel, Endpoint};
use toolgate_contract::session_service_client::SessionServiceClient;
use toolgate_contract::tool_service_client::ToolServiceClient;
use toolgate_contract::*;

use super::chaos::{self, End, Seen};
use super::clock::Clock;
use super::dice::Dice;
use super::setup::{Fleet, Plan};
use crate::gateway::people::{AGAIN, Approver, Gateways, PATIENCE};
use crate::gateway::setup::*;
use crate::support::{completed, eventually, is_output, next_such, run_request, test};

const GATEWAYS: usize = 3;
const CALLERS: usize = 12;
const APPROVERS: usize = 3;
const WATCHERS: usize = 2;

/// What is told to one who follows all events, at whatever gateway.
#[derive(Default)]
struct Followed {
    events: AtomicUsize,
    notices: AtomicUsize,
    ends: Mutex<Vec<Code>>,
}

/// Follows the events of everything without a gap, and takes the stream up at the next gateway whenever it ends.
async fn follow(mut gateways: Gateways, followed: Arc<Followed>, stop: CancellationToken) {
    let mut after = None;
    while !stop.is_cancelled() {
        let mut client = SessionServiceClient::with_interceptor(gateways.next(), Shown(CARL, None));
        let asked = WatchEventsRequest {
            workspace: "-".to_owned(),
            after_sequence: after,
            ..WatchEventsRequest::default()
        };
        if let Ok(Ok(stream)) = timeout(PATIENCE, client.watch_events(asked)).await {
            let mut stream = stream.into_inner();
            loop {
                let message = tokio::select! {
                    message = stream.message() => message,
                    () = stop.cancelled() => return,
                };
                let event = match message {
                    Ok(message) => message.and_then(|message| message.event).unwrap(),
                    Err(status) => {
                        followed.ends.lock().unwrap().push(status.code());
                        break;
                    }
                };
                if let Some(event::Event::Heartbeat(heartbeat)) = &event.event {
                    followed
                        .notices
                        .fetch_add(usize::from(heartbeat.draining), Ordering::Relaxed);
                } else {
                    assert!(
                        after.is_none_or(|after| event.sequence == after + 1),
                        "{after:?} {event:?}"
                    );
                    followed.events.fetch_add(1, Ordering::Relaxed);
                }
                after = Some(event.sequence);
            }
        }
        sleep(AGAIN).await;
    }
}

/// Reads without a pause, and tries again elsewhere what a gateway did not answer.
async fn read(mut gateways: Gateways, number: usize, done: Arc<AtomicUsize>, stop: CancellationToken) {
    for round in 0.. {
        let call_id = format!("read-{number}-{round}");
        let request = RunToolRequest {
            call_id,
            tool: "read".to_owned(),
            arguments: Some(run_tool_request::Arguments::InputJson(
                r#"{"filePath":"opencode.json"}"#.to_owned(),
            )),
            ..run_request(bash("wa", ""))
        };
        loop {
            let mut tools = ToolServiceClient::with_interceptor(gateways.next(), Shown(ANNA, None));
            if let Ok(Ok(answer)) = timeout(PATIENCE, tools.run_tool(request.clone())).await {
                completed(&answer.into_inner().call.unwrap());
                break;
            }
            sleep(AGAIN).await;
        }
        done.fetch_add(1, Ordering::Relaxed);
        if stop.is_cancelled() {
            return;
        }
    }
}

#[test]
fn gateways_are_replaced_under_load_and_no_call_is_lost() {
    test(async {
        let plan = Plan {
            gateways: vec![Clock::Right; GATEWAYS],
            settings: "drain_grace = \"4s\"",
            ..Plan::default()
        };
        let mut fleet = Fleet::of(plan).await;
        let channels: Vec<Channel> = fleet
            .gateways
            .iter()
            .map(|gateway| {
                Endpoint::try_from(format!("http://{}", gateway.address))
                    .unwrap()
                    .connect_lazy()
            })
            .collect();
        let gateways = |next: usize| Gateways {
            channels: channels.clone(),
            next,
        };
        let (seen, followed, reads) = (
            Arc::new(Seen::default()),
            Arc::new(Followed::default()),
            Arc::new(AtomicUsize::new(0)),
        );
        let (stop, over) = (CancellationToken::new(), CancellationToken::new());
        let (mut others, mut callers) = (JoinSet::new(), JoinSet::new());
        for number in 0..APPROVERS {
            let approver = Approver {
                gateways: gateways(number),
                number,
            };
            others.spawn(approver.approve(seen.accepted.clone(), over.clone()));
        }
        for number in 0..WATCHERS {
            others.spawn(chaos::watch(
                gateways(number),
                Dice(number as u64 + 1),
                seen.clone(),
                over.clone(),
            ));
        }
        // One at each gateway.
        for number in 0..GATEWAYS {
            others.spawn(follow(gateways(number), followed.clone(), over.clone()));
        }
        for number in 0..2 {
            callers.spawn(read(gateways(number), number, reads.clone(), stop.clone()));
        }
        for first in 0..CALLERS {
            let (mut gateways, seen, stop) = (gateways(first), seen.clone(), stop.clone());
            callers.spawn(async move {
                for number in (first..).step_by(CALLERS) {
                    chaos::call(&mut gateways, number, ["wa", "wb"][number % 2], &seen).await;
                    if stop.is_cancelled() {
                        return;
                    }
                }
            });
        }

        // One command outlasts all gateways, and its caller goes on with it.
        let long = ExecuteToolRequest {
            call_id: "long".to_owned(),
            ..bash("wb", "echo begun; until [ -e over ]; do sleep 0.1; done; echo over")
        };
        let mut tools = fleet.tools(0, ANNA).await;
        let mut running = tools.execute_tool(long).await.unwrap().into_inner();
        let begun = next_such(&mut running, is_output).await;
        let (ended, last) = (Arc::new(AtomicBool::new(false)), begun.sequence);
        let long = {
            let (mut gateways, ended) = (gateways(1), ended.clone());
            tokio::spawn(async move {
                let mut last = last;
                while let Ok(Some(message)) = running.message().await {
                    let event = message.event.unwrap();
                    last = last.max(event.sequence);
                    if let Some(call_event::Event::Completed(_)) = event.event {
                        return;
                    }
                }
                ended.store(true, Ordering::Relaxed);
                loop {
                    let mut tools = ToolServiceClient::with_interceptor(gateways.next(), Shown(ANNA, None));
                    let again = WatchCallRequest {
                        call_id: "long".to_owned(),
                        after_sequence: last,
                        output: OutputMode::Full.into(),
                    };
                    let Ok(stream) = tools.watch_call(again).await else {
                        sleep(AGAIN).await;
                        continue;
                    };
                    let mut stream = stream.into_inner();
                    while let Ok(Some(message)) = stream.message().await {
                        let event = message.event.unwrap();
                        assert!(
                            event.sequence == 0 || event.sequence == last + 1,
                            "{event:?} after {last}"
                        );
                        last = last.max(event.sequence);
                        if let Some(call_event::Event::Completed(_)) = event.event {
                            return;
                        }
                    }
                }
            })
        };

        for number in 0..GATEWAYS {
            let before = (seen.ends.lock().unwrap().len(), reads.load(Ordering::Relaxed));
            eventually("there is load", async || {
                seen.ends.lock().unwrap().len() > before.0 + CALLERS && reads.load(Ordering::Relaxed) > before.1
            })
            .await;
            let status = fleet.gateways[number].signal(Signal::TERM).await;
            assert_eq!(status, Some(0), "{}", fleet.gateways[number].log());
            let home = fleet.home();
            fleet.gateways[number].run(&home).await;
            fleet.ready().await;
        }
        assert!(ended.load(Ordering::Relaxed), "its first gateway was replaced");
        put(&fleet.path("worker-b/own/over"), "");
        timeout(PATIENCE, long).await.expect("it ends").unwrap();
        stop.cancel();
        while let Some(caller) = timeout(Duration::from_secs(30), callers.join_next())
            .await
            .expect("all calls end")
        {
            caller.unwrap();
        }
        over.cancel();
        while let Some(other) = timeout(PATIENCE, others.join_next()).await.expect("all end") {
            other.unwrap();
        }
        chaos::check_what_ran(&fleet, &seen);
        chaos::check_database(&fleet, &seen).await;
        let ends = seen.ends.lock().unwrap();
        let lost: Vec<_> = ends.iter().filter(|(_, end)| **end != End::Completed).collect();
        assert!(lost.is_empty(), "{lost:?}");
        let notices = followed.notices.load(Ordering::Relaxed);
        let codes = followed.ends.lock().unwrap().clone();
        println!(
            "{} calls, {} reads, {} prompts, {} events in {} streams, {notices} notices",
            ends.len(),
            reads.load(Ordering::Relaxed),
            seen.accepted.lock().unwrap().len(),
            followed.events.load(Ordering::Relaxed),
            codes.len(),
        );
        assert!(
            codes.len() >= GATEWAYS && codes.iter().all(|code| *code == Code::Unavailable),
            "{codes:?}"
        );
        assert!(
            notices >= codes.len(),
            "each stream is told before it ends: {notices} of {}",
            codes.len()
        );
        fleet.assert_calm();
    });
}
