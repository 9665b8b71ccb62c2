//! Gateways and workers that are killed again and again, while calls wait for people and people answer.
//!
//! *Invariant:* callers and approvers do what the guides tell every client to do: they try again with the same ids.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tonic::transport::Endpoint;
use toolgate_contract::call_event::Event;
use toolgate_contract::permission_service_client::PermissionServiceClient;
use toolgate_contract::tool_service_client::ToolServiceClient;
use toolgate_contract::*;

use super::people::{AGAIN, Accepted, Approver, Gateways};
use super::setup::*;
use crate::support::{list_all, test};

const CALLERS: usize = 40;
const APPROVERS: usize = 8;

/// How much there is of everything.
#[derive(Clone, Copy)]
struct Size {
    workers: usize,
    calls: usize,
    kills: usize,
}

impl Size {
    /// A few of each, or with the variable `TOOLGATE_CHAOS`, as `make chaos` sets it, as many as a fleet has.
    fn wanted() -> Self {
        match std::env::var_os("TOOLGATE_CHAOS") {
            None => Self {
                workers: 6,
                calls: 240,
                kills: 12,
            },
            Some(_) => Self {
                workers: 20,
                calls: 1_000,
                kills: 40,
            },
        }
    }
}

/// What clients saw.
#[derive(Default)]
struct Seen {
    /// How each call ended.
    ends: Mutex<BTreeMap<String, Option<FailureReason>>>,
    accepted: Arc<Accepted>,
}

/// Makes a call and follows it to its end, whatever breaks on the way.
async fn call(gateways: &mut Gateways, number: usize, workspace: usize, seen: &Seen) {
    let id = format!("chaos-{number}");
    let request = ExecuteToolRequest {
        call_id: id.clone(),
        on_disconnect: OnDisconnect::Keep.into(),
        ..bash(&format!("w{workspace}"), &format!("echo ask {number} >>ran"))
    };
    loop {
        let mut tools = ToolServiceClient::with_interceptor(gateways.next(), Shown(ANNA, None));
        if let Ok(stream) = tools.execute_tool(request.clone()).await {
            let mut stream = stream.into_inner();
            while let Ok(Some(message)) = stream.message().await {
                let end = match message.event.unwrap().event.unwrap() {
                    Event::Completed(_) => None,
                    Event::Failed(failed) => Some(failed.reason()),
                    _ => continue,
                };
                let before = seen.ends.lock().unwrap().insert(id.clone(), end);
                assert_eq!(before, None, "{id} has ended twice");
                return;
            }
        }
        sleep(AGAIN).await;
    }
}

#[test]
fn every_prompt_is_decided_once_whatever_dies() {
    test(async {
        let size = Size::wanted();
        let folder = TempDir::new().unwrap();
        let home = home_in(folder.path());
        let names: Vec<String> = (0..size.workers).map(|number| number.to_string()).collect();
        let starting = names.iter().map(|name| start_worker(folder.path(), name, "", RULES));
        let mut processes: Vec<Process> = join_all(starting).await;
        let named = names.iter().zip(&processes).map(|(name, worker)| worker.named(name));
        let named: String = named.collect();
        let mut channels = Vec::new();
        for name in ["gateway-a", "gateway-b"] {
            let gateway = start_gateway(folder.path(), name, "", &named).await;
            let endpoint = Endpoint::try_from(format!("http://{}", gateway.address)).unwrap();
            channels.push(endpoint.connect_lazy());
            processes.push(gateway);
        }

        let seen = Arc::new(Seen::default());
        let stop = CancellationToken::new();
        let mut approvers = JoinSet::new();
        for number in 0..APPROVERS {
            let approver = Approver {
                gateways: Gateways {
                    channels: channels.clone(),
                    next: number,
                },
                number,
            };
            approvers.spawn(approver.approve(seen.accepted.clone(), stop.clone()));
        }
        let mut callers = JoinSet::new();
        for first in 0..CALLERS {
            let (mut gateways, seen) = (
                Gateways {
                    channels: channels.clone(),
                    next: first,
                },
                seen.clone(),
            );
            callers.spawn(async move {
                for number in (first..size.calls).step_by(CALLERS) {
                    call(&mut gateways, number, number % size.workers, &seen).await;
                }
            });
        }
        // One kill is of a gateway, the next of a worker, each at another moment of what goes on.
        for kill in 0..size.kills {
            let part = size.calls * kill / size.kills;
            while seen.ends.lock().unwrap().len() < part {
                sleep(Duration::from_millis(5)).await;
            }
            let victim = match kill % 2 {
                0 => size.workers + kill / 2 % 2,
                _ => kill / 2 * 7 % size.workers,
            };
            processes[victim].kill9().await;
            processes[victim].run(&home).await;
        }
        while let Some(caller) = callers.join_next().await {
            caller.unwrap();
        }
        stop.cancel();
        while let Some(approver) = approvers.join_next().await {
            approver.unwrap();
        }

        let ends = seen.ends.lock().unwrap().clone();
        assert_eq!(ends.len(), size.calls);
        let mut ran = BTreeMap::new();
        for number in 0..size.workers {
            let file = folder.path().join(format!("{number}/own/ran"));
            for line in fs::read_to_string(file).unwrap().lines() {
                let number = line.trim_start_matches("ask ").to_owned();
                *ran.entry(format!("chaos-{number}")).or_insert(0) += 1;
            }
        }
        for (call, end) in &ends {
            let times = ran.get(call).copied().unwrap_or(0);
            match end {
                None => assert_eq!(times, 1, "{call} has completed"),
                // It ran when its worker was killed.
                Some(FailureReason::Lost) => assert!(times <= 1, "{call} ran {times} times"),
                Some(other) => panic!("{call} ended as {other:?}"),
            }
        }
        let mut client = PermissionServiceClient::with_interceptor(channels[0].clone(), Shown(CARL, None));
        let open = client.list_prompts(list_all()).await.unwrap().into_inner().prompts;
        assert_eq!(open, [], "nothing is undelivered");
        let accepted = seen.accepted.lock().unwrap().clone();
        for (prompt, (_, replies)) in &accepted {
            assert_eq!(replies.len(), 1, "{prompt}");
        }
        // A call that is lost may have died before it asked.
        let asked: BTreeSet<&String> = accepted.values().map(|(call, _)| call).collect();
        for (call, _) in ends.iter().filter(|(_, end)| end.is_none()) {
            assert!(
                asked.contains(call),
                "{call} has run, and nobody was told that the reply was taken"
            );
        }
        let lost = ends.values().flatten().count();
        println!("{} prompts were decided, {lost} calls lost", accepted.len());
        for process in &processes {
            let log = process.log();
            assert!(!log.contains("panicked"), "{log}");
        }
    });
}
