//! What people are told when something is away, is not let in, or does not fit: in good time, in words that fit, and not too often.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use toolgate_contract::session_service_client::SessionServiceClient;
use toolgate_contract::*;

use super::setup::{Fleet, Plan, token_of};
use crate::gateway::setup::*;
use crate::support::{self, collect, completed, eventually, failed, refused, test, waiting};
use crate::telemetry;

/// Much longer than the answer of a store takes, and much shorter than what is tried again.
const SOON: Duration = Duration::from_secs(8);

#[test]
fn a_call_whose_workspace_is_another_folder_says_so() {
    test(async {
        let mut fleet = Fleet::start().await;
        let mut tools = fleet.tools(0, ANNA).await;
        let asking = tools.execute_tool(bash("wa", "echo ask 1 >answered")).await;
        let mut asking = asking.unwrap().into_inner();
        let prompt = waiting(&mut asking).await;
        fleet.workers[0].kill9().await;
        // The same name, and another folder.
        let place = fleet.path("worker-a");
        fs::create_dir(place.join("other")).unwrap();
        put(&place.join("other/opencode.json"), RULES);
        let text = fs::read_to_string(place.join("toolgate.toml")).unwrap();
        put(&place.join("toolgate.toml"), &text.replace("\"own\"", "\"other\""));
        let home = fleet.home();
        fleet.workers[0].run(&home).await;
        collect(asking).await.unwrap();
        let call = fleet.get(1, &prompt.call_id).await.unwrap();
        let end = failed(&call);
        assert_eq!(end.reason(), FailureReason::Lost);
        let told = &end.error;
        for said in [
            "waited for a person",
            "It has done nothing",
            "/other instead of ",
            "Repeat the call",
        ] {
            assert!(told.contains(said), "{told}");
        }
        let request = GetPromptRequest {
            prompt_id: prompt.prompt_id.clone(),
        };
        let mut prompts = fleet.prompts(1, CARL).await;
        let ended = prompts.get_prompt(request).await.unwrap().into_inner().prompt.unwrap();
        assert_eq!(ended.state(), PromptState::Withdrawn);
        assert!(
            format!("{ended:?}").contains("its workspace is another folder now"),
            "{ended:?}"
        );
        fleet.assert_calm();
    });
}

#[test]
fn a_gateway_without_its_database_serves_and_says_so() {
    test(async {
        let fleet = Fleet::start().await;
        let mut health = HealthClient::new(fleet.channel(0).await);
        let mut status = async |service: &str| {
            let service = service.to_owned();
            let answer = health.check(HealthCheckRequest { service }).await;
            answer.unwrap().into_inner().status()
        };
        assert_eq!(status("toolgate.store").await, ServingStatus::Serving);
        let admin = fleet.gateways[0].admin.clone().unwrap();
        let get = async |path: &str| telemetry::get(&admin, path).await.unwrap();
        let up = async || telemetry::value(&get("/metrics").await.1, "toolgate_gateway_store_up");
        assert_eq!((get("/readyz/store").await.0, up().await), (200, 1.0));
        fleet.database.crash();
        eventually("it says that the database is away", async || {
            status("toolgate.store").await == ServingStatus::NotServing
        })
        .await;
        assert_eq!(status("").await, ServingStatus::Serving);
        assert_eq!(status("toolgate.v1.ToolService").await, ServingStatus::Serving);
        assert_eq!(get("/readyz").await, (200, "ready\n".to_owned()));
        let (code, text) = get("/readyz/store").await;
        assert!(
            code == 503 && text.starts_with("the database has been away for "),
            "{code} {text}"
        );
        assert_eq!(up().await, 0.0);
        // Many are refused, and that is no reason to say it many times.
        for _ in 0..20 {
            refused(fleet.get(0, "0").await, Code::Unavailable, "STORE_UNAVAILABLE");
        }
        fleet.database.resume().await;
        eventually("it says that the database is back", async || {
            status("toolgate.store").await == ServingStatus::Serving
        })
        .await;
        assert_eq!((get("/readyz/store").await.0, up().await), (200, 1.0));
        let log = fleet.gateways[0].log();
        assert_eq!(log.matches("the database is away").count(), 1, "{log}");
        assert_eq!(log.matches("the database is back").count(), 1, "{log}");
        let troubles = log
            .lines()
            .filter(|line| line.contains("ERROR") || line.contains("WARN"));
        assert!(troubles.count() < 20, "{log}");
        fleet.assert_calm();
    });
}

#[test]
fn what_the_store_knows_needs_no_worker() {
    test(async {
        let mut fleet = Fleet::start().await;
        let ended = fleet.run(0, "wa", "true").await.unwrap();
        let (running, begun) = fleet.begin(0, "wa").await;
        fleet.workers[0].kill9().await;
        let lost = collect(running).await.unwrap();
        assert!(!lost.is_empty());
        let before = Instant::now();
        // Nobody ever had it, so nobody who is away can have it.
        refused(fleet.run(1, "nowhere", "true").await, Code::NotFound, "NOT_FOUND");
        // Its worker is away.
        refused(fleet.run(1, "wa", "true").await, Code::Unavailable, "WORKER_GONE");
        for id in [&ended.call_id, &begun.call_id] {
            let found = fleet.get(1, id).await.unwrap();
            let request = CancelCallRequest { call_id: id.clone() };
            let cancelled = fleet.tools(1, ANNA).await.cancel_call(request).await.unwrap();
            assert_eq!(cancelled.into_inner().call.unwrap().ending, found.ending);
        }
        assert!(before.elapsed() < SOON, "{:?}", before.elapsed());
        fleet.assert_calm();
    });
}

#[test]
fn what_is_answered_while_its_worker_is_away_waits_for_nobody() {
    test(async {
        let mut fleet = Fleet::start().await;
        let mut tools = fleet.tools(0, ANNA).await;
        let asking = tools.execute_tool(bash("wa", "echo ask 1")).await;
        let mut asking = asking.unwrap().into_inner();
        let prompt = waiting(&mut asking).await;
        let waits_for = async |fleet: &Fleet| fleet.get(1, &prompt.call_id).await.unwrap().waiting_for;
        assert!(waits_for(&fleet).await.starts_with("permission bash"));
        let waiting_calls = async |fleet: &Fleet, gateway: usize| {
            let mut sessions = SessionServiceClient::with_interceptor(fleet.channel(gateway).await, Shown(ANNA, None));
            let request = ListSessionsRequest {
                workspace: "wa".to_owned(),
                ..ListSessionsRequest::default()
            };
            let listed = sessions.list_sessions(request).await.unwrap().into_inner().sessions;
            let counts: Vec<_> = listed
                .iter()
                .map(|one| (one.unfinished_calls, one.waiting_calls))
                .collect();
            counts
        };
        assert_eq!(waiting_calls(&fleet, 1).await, [(1, 1)]);
        fleet.workers[0].kill9().await;
        fleet.allow(1, &prompt).await.unwrap();
        eventually("the call is read from the store", async || {
            waits_for(&fleet).await == "its worker to go on: the prompt is settled"
        })
        .await;
        let open = ListPromptsRequest {
            filter: Some(support::everybody()),
            ..ListPromptsRequest::default()
        };
        for gateway in 0..2 {
            let mut prompts = fleet.prompts(gateway, CARL).await;
            let listed = prompts.list_prompts(open.clone()).await.unwrap().into_inner().prompts;
            let is_open = |one: &&Prompt| one.state() == PromptState::Open;
            assert_eq!(listed.iter().filter(is_open).count(), 0, "{listed:?}");
            assert_eq!(
                waiting_calls(&fleet, gateway).await,
                [(1, 0)],
                "it waits for its worker"
            );
        }
        let home = fleet.home();
        fleet.workers[0].run(&home).await;
        collect(asking).await.unwrap();
        completed(&fleet.get(1, &prompt.call_id).await.unwrap());
        fleet.assert_calm();
    });
}

#[test]
fn a_call_that_is_run_to_its_end_ends_with_its_worker_and_not_before() {
    test(async {
        let mut fleet = Fleet::start().await;
        let request = RunToolRequest {
            call_id: "run".to_owned(),
            ..support::run_request(bash("wa", "echo >begun; sleep 100"))
        };
        let id = request.call_id.clone();
        let mut tools = fleet.tools(0, ANNA).await;
        let run = tokio::spawn(async move { tools.run_tool(request).await });
        eventually("the command runs", async || fleet.path("worker-a/own/begun").exists()).await;
        fleet.workers[0].kill9().await;
        let call = run.await.unwrap().unwrap().into_inner().call.unwrap();
        assert_eq!(failed(&call).reason(), FailureReason::Lost);
        assert_eq!(call, fleet.get(1, &id).await.unwrap());
        fleet.assert_calm();
    });
}

#[test]
fn a_call_that_is_run_to_its_end_goes_on_in_the_next_run_of_its_worker() {
    test(async {
        let mut fleet = Fleet::start().await;
        let request = RunToolRequest {
            call_id: "run".to_owned(),
            ..support::run_request(bash("wa", "echo ask 1"))
        };
        let mut tools = fleet.tools(0, ANNA).await;
        let run = tokio::spawn(async move { tools.run_tool(request).await });
        let list = ListPromptsRequest {
            filter: Some(support::everybody()),
            ..ListPromptsRequest::default()
        };
        let (mut prompts, mut prompt) = (fleet.prompts(1, CARL).await, None);
        eventually("it asks", async || {
            let listed = prompts.list_prompts(list.clone()).await.unwrap().into_inner().prompts;
            let call = fleet.get(1, "run").await;
            prompt = listed.into_iter().next();
            prompt.is_some() && call.is_ok_and(|call| call.state() == CallState::Waiting)
        })
        .await;
        fleet.workers[0].kill9().await;
        fleet.allow(1, &prompt.unwrap()).await.unwrap();
        let home = fleet.home();
        fleet.workers[0].run(&home).await;
        let call = run.await.unwrap().unwrap().into_inner().call.unwrap();
        assert_eq!(completed(&call).output, "ask 1\n");
        fleet.assert_calm();
    });
}

#[test]
fn a_worker_that_is_not_let_in_says_why_and_ends() {
    test(async {
        let mut fleet = Fleet::start().await;
        let identity = fleet.path("worker-a/identity");
        let home = fleet.home();
        let end = async |fleet: &mut Fleet, token: &str, expected: &str| {
            put(&identity, token);
            let (before, begun) = (fleet.workers[0].log().len(), Instant::now());
            fleet.workers[0].spawn(&home);
            let code = fleet.workers[0].ended().await;
            let log = fleet.workers[0].log()[before..].to_owned();
            assert_eq!(code, Some(2), "{log}");
            assert!(begun.elapsed() < Duration::from_secs(30), "{log}");
            for said in [
                expected,
                "no gateway lets this worker in",
                "worker-a/identity (cluster.identity)",
            ] {
                assert!(log.contains(said), "{said}: {log}");
            }
            assert!(!log.contains(token), "{log}");
            assert!(log.lines().count() < 10, "{log}");
        };
        fleet.workers[0].kill9().await;
        end(&mut fleet, "nobody-knows-this-token-of-nobody", "token").await;
        // One of somebody else, and of a worker that may not have the workspace.
        end(&mut fleet, ANNA, "name it in auth.workers").await;
        end(&mut fleet, &token_of("b"), "may not have the workspace wa").await;
        put(&identity, &token_of("a"));
        fleet.workers[0].run(&home).await;
        fleet.ready().await;
        completed(&fleet.run(0, "wa", "true").await.unwrap());
        // Exchanged while it runs, it is tried again until the gateways know it.
        put(&identity, "nobody-knows-this-token-of-nobody");
        refused(fleet.run(0, "wa", "true").await, Code::Unavailable, "STORE_UNAVAILABLE");
        put(&identity, &token_of("a"));
        completed(&fleet.run(0, "wa", "true").await.unwrap());
        fleet.assert_calm();
    });
}

#[test]
fn gateways_with_different_leases_are_told_of() {
    test(async {
        let mut fleet = Fleet::start().await;
        let log = fleet.gateways[1].log();
        assert!(!log.contains("something else in its configuration"), "{log}");
        let place = fleet.path("gateway-1");
        let text = fs::read_to_string(place.join("toolgate.toml")).unwrap();
        put(
            &place.join("toolgate.toml"),
            &text.replace("lease = \"3s\"", "lease = \"7s\""),
        );
        fleet.gateways[1].kill9().await;
        let home = fleet.home();
        fleet.gateways[1].run(&home).await;
        let log = fleet.gateways[1].log();
        let told: Vec<&str> = log
            .lines()
            .filter(|line| line.contains("something else in its configuration"))
            .collect();
        let [told] = told[..] else { panic!("{log}") };
        for said in ["cluster.lease", "7 s", "3 s"] {
            assert!(told.contains(said), "{told}");
        }
        fleet.assert_calm();
    });
}

#[test]
fn a_worker_that_stops_is_not_missed() {
    test(async {
        let (mut fleet, lines) = Fleet::with_lines(Plan::default()).await;
        for (gateway, workspace) in [(0, "wa"), (1, "wb")] {
            completed(&fleet.run(gateway, workspace, "true").await.unwrap());
        }
        // Gateways have thousands of workers, so what each keeps open counts. The last line of each worker is the one to it.
        eventually("each worker has one connection to each gateway", async || {
            lines
                .chunks(3)
                .all(|of_one| of_one[..2].iter().all(|line| line.open() == 1))
        })
        .await;
        // It says that it stops, although nothing runs there that would take time.
        assert_eq!(fleet.workers[0].signal(Signal::TERM).await, Some(0));
        fleet.workers[1].kill9().await;
        for gateway in 0..2 {
            let admin = fleet.gateways[gateway].admin.clone().unwrap();
            let up = async |worker: &str| {
                let text = telemetry::get(&admin, "/metrics").await.unwrap().1;
                let series = format!("toolgate_gateway_worker_up{{worker=\"{worker}\"}}");
                text.contains(&series).then(|| telemetry::value(&text, &series))
            };
            eventually("the one that has died is missed", async || up("b").await == Some(0.0)).await;
            eventually("the other one is not", async || up("a").await.is_none()).await;
            assert_eq!(up("b").await, Some(0.0));
        }
        fleet.assert_calm();
    });
}
