//! Hundreds of workers, which are tasks of the test, at one gateway that dies: all come back, each once, and what they ask is neither lost nor
//! there twice. And while they do nothing, the gateway keeps no connection to any.

use std::collections::BTreeSet;
use std::fs;
use std::sync::atomic::Ordering;

use toolgate_contract::cluster::cluster_service_client::ClusterServiceClient;
use toolgate_contract::cluster::{CreateCallRequest, ListWorkersRequest, OpenPromptRequest, WorkerState};
use toolgate_contract::{ListPromptsRequest, ReplyResult};
use toolgate_model::{CallState, InstanceId, Timestamp};

use super::setup::{CROWD, Fleet, Plan as FleetPlan};
use super::simulated::{Crowd, Plan, Worker, shown};
use crate::gateway::setup::*;
use crate::store::{grow, prompt, record};
use crate::support::{completed, connect_tcp, eventually, everybody, test};

/// More than a gateway asks in turns: to those that have nothing to say it keeps no connection.
const WORKERS: usize = 600;
const ASKING: usize = 30;

/// So many share a connection here, so that a system which permits few files can run this.
const ON_A_LINE: usize = 4;

/// Files that a gateway has open beside its connections with workers: those to its database, of clients, and what it asks at the moment.
const OTHER_FILES: usize = 150;

/// Returns what is made of simulated workers in tests.
pub(super) fn plan(fleet: &Fleet, workers: usize, version: &str) -> Plan {
    Plan {
        workers,
        gateways: fleet
            .gateways
            .iter()
            .map(|one| format!("http://{}", one.address))
            .collect(),
        version: version.to_owned(),
        on_a_line: ON_A_LINE,
        token: |_| CROWD.to_owned(),
        workspace: |number| format!("crowd/w{number}"),
    }
}

/// Has a worker ask a person, as it does when one of its calls must.
async fn ask(crowd: &Crowd, worker: &Worker, gateway: usize) -> String {
    let run = InstanceId::new(worker.run.clone());
    let mut call = record(&format!("call-{}", worker.number), &run);
    call.origin.workspace.clone_from(&worker.workspace);
    call.created = Timestamp::now();
    let events = grow(&mut call, 1);
    // Simulated workers renew no lease: what only waits for a person stays, however long the test takes until it answers.
    call.state = CallState::Waiting;
    crowd.bind_again(worker, gateway).await.unwrap();
    worker.works();
    eventually("it hears of changes", async || worker.follows()).await;
    let mut ledger = crowd.ledger(worker, gateway);
    let asked = CreateCallRequest {
        holding: worker.holding(),
        record: serde_json::to_vec(&call).unwrap(),
        events: serde_json::to_vec(&events).unwrap(),
        ..CreateCallRequest::default()
    };
    ledger.create_call(shown(worker, asked)).await.unwrap();
    let mut opened = prompt(&format!("prompt-{}", worker.number), call.id.as_str(), &run);
    opened.workspace.clone_from(&worker.workspace);
    opened.created = Timestamp::now();
    let asked = OpenPromptRequest {
        holding: worker.holding(),
        prompt: serde_json::to_vec(&opened).unwrap(),
        ..OpenPromptRequest::default()
    };
    ledger.open_prompt(shown(worker, asked)).await.unwrap();
    opened.id.to_string()
}

/// Waits until a gateway has every worker once, and can use it.
async fn all_are_listed(fleet: &Fleet, expected: usize) {
    eventually("all workers are at the gateway", async || {
        let Ok(channel) = connect_tcp(&fleet.gateways[0].address).await else {
            return false;
        };
        let mut cluster = ClusterServiceClient::with_interceptor(channel, Shown(ANNA, None));
        let Ok(listed) = cluster.list_workers(ListWorkersRequest {}).await else {
            return false;
        };
        let workers = listed.into_inner().workers;
        let names: BTreeSet<&String> = workers.iter().map(|worker| &worker.name).collect();
        assert_eq!(names.len(), workers.len(), "none twice");
        let workspaces: BTreeSet<&String> = workers.iter().flat_map(|worker| &worker.workspaces).collect();
        let are_ready = workers.iter().all(|worker| worker.state() == WorkerState::Ready);
        are_ready && names.len() == expected && workspaces.len() == expected
    })
    .await;
}

#[test]
fn all_workers_of_a_gateway_that_died_come_back_once() {
    test(async {
        let mut fleet = Fleet::of(FleetPlan {
            gateways: vec![super::clock::Clock::Right],
            workers: vec![super::clock::Clock::Right],
            ..FleetPlan::default()
        })
        .await;
        let crowd = Crowd::start(&plan(&fleet, WORKERS, env!("CARGO_PKG_VERSION"))).await;
        let facts = crowd.facts.clone();
        let are_there = || {
            let counts = [&facts.registered, &facts.bound];
            counts.iter().all(|count| count.load(Ordering::Relaxed) == WORKERS)
        };
        eventually("all have come", async || are_there()).await;
        all_are_listed(&fleet, WORKERS + 1).await;

        fleet.gateways[0].kill9().await;
        eventually("all have noticed", async || {
            facts.registered.load(Ordering::Relaxed) == 0
        })
        .await;
        let home = fleet.home();
        fleet.gateways[0].run(&home).await;
        eventually("all are back", async || are_there()).await;
        all_are_listed(&fleet, WORKERS + 1).await;
        completed(&fleet.run(0, "wa", "true").await.unwrap());
        let connections = WORKERS / ON_A_LINE;
        eventually("the gateway has no connections but theirs", async || {
            let files = fs::read_dir(format!("/proc/{}/fd", fleet.gateways[0].pid()))
                .unwrap()
                .count();
            (connections..connections + OTHER_FILES).contains(&files)
        })
        .await;

        // What some of them ask is there once, and what becomes of it is told to them, and to nobody else.
        let mut asked = BTreeSet::new();
        for worker in &crowd.workers[..ASKING] {
            asked.insert(ask(&crowd, worker, 0).await);
        }
        let list = ListPromptsRequest {
            filter: Some(everybody()),
            ..ListPromptsRequest::default()
        };
        let open = fleet
            .prompts(0, CARL)
            .await
            .list_prompts(list)
            .await
            .unwrap()
            .into_inner()
            .prompts;
        let ids: BTreeSet<String> = open.iter().map(|prompt| prompt.prompt_id.clone()).collect();
        assert_eq!((open.len(), &ids), (ASKING, &asked));
        let told = |worker: &Worker| worker.changes.load(Ordering::Relaxed);
        eventually("those who ask are told", async || {
            crowd.workers[..ASKING].iter().all(|worker| told(worker) > 0)
        })
        .await;
        let before: Vec<usize> = crowd.workers.iter().map(|worker| told(worker)).collect();
        for prompt in &open {
            assert_eq!(fleet.allow(0, prompt).await.unwrap().result(), ReplyResult::Accepted);
        }
        eventually("those who were answered are told", async || {
            let pairs = crowd.workers[..ASKING].iter().zip(&before);
            pairs.into_iter().all(|(worker, before)| told(worker) > *before)
        })
        .await;
        let others: Vec<usize> = crowd.workers[ASKING..].iter().map(|worker| told(worker)).collect();
        assert_eq!(others, before[ASKING..], "and nobody else");
        crowd.stop().await;
        fleet.assert_calm();
    });
}
