//! Workers and tables of other releases: which of them a gateway takes, what it says to the others, and what goes on while they are exchanged.
//!
//! With the variable `TOOLGATE_EARLIER` workers, or gateways where the tables are later ones, run another program: that of a release
//! before. Without it they run this one.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use rustix::process::Signal;
use toolgate_contract::cluster::cluster_service_client::ClusterServiceClient;
use toolgate_contract::cluster::{ListWorkersRequest, WorkerState};
use toolgate_contract::output_service_client::OutputServiceClient;
use toolgate_contract::*;

use super::many::plan;
use super::setup::{Fleet, Plan};
use super::simulated::Crowd;
use crate::gateway::setup::*;
use crate::support::{collect, collect_watch, completed, end_of, eventually, failed, test, waiting, watch_request};

/// The tables of the first release.
const FIRST: &str = include_str!("../../../crates/postgres/migrations/0001.sql");

/// What a release after this one may add to the tables.
const LATER: &str = "BEGIN;
    ALTER TABLE instances ADD COLUMN of_later text;
    ALTER TABLE workspaces ADD COLUMN of_later bigint NOT NULL DEFAULT 0;
    ALTER TABLE calls ADD COLUMN of_later text;
    ALTER TABLE events ADD COLUMN of_later bigint;
    ALTER TABLE prompts ADD COLUMN of_later boolean NOT NULL DEFAULT false;
    ALTER TABLE grants ADD COLUMN of_later text;
    ALTER TABLE outbox ADD COLUMN of_later text;
    ALTER TABLE outputs ADD COLUMN of_later text;
    ALTER TABLE output_parts ADD COLUMN of_later text;
    CREATE TABLE of_later (id bigint PRIMARY KEY);
    INSERT INTO migrations VALUES (1000, now());
    COMMIT";

fn earlier() -> Option<PathBuf> {
    std::env::var_os("TOOLGATE_EARLIER").map(PathBuf::from)
}

/// Returns the version that is so many minor versions before this one, or behind it if that is negative.
fn version(before: i64) -> String {
    let mut own = env!("CARGO_PKG_VERSION")
        .split('.')
        .map(|part| part.parse::<i64>().unwrap());
    let (major, minor) = (own.next().unwrap(), own.next().unwrap());
    format!("{major}.{}.7", minor - before)
}

#[test]
fn a_gateway_takes_workers_of_releases_before_it_and_says_why_it_takes_no_others() {
    test(async {
        let fleet = Fleet::start().await;
        let older = version(1);
        let crowd = Crowd::start(&plan(&fleet, 3, &older)).await;
        eventually("older ones are let in", async || {
            crowd.facts.registered.load(Ordering::Relaxed) == 3 * fleet.gateways.len()
        })
        .await;
        eventually("they are used", async || {
            let mut cluster = ClusterServiceClient::with_interceptor(fleet.channel(0).await, Shown(ANNA, None));
            let listed = cluster
                .list_workers(ListWorkersRequest {})
                .await
                .unwrap()
                .into_inner()
                .workers;
            let old = listed
                .iter()
                .filter(|one| one.version == older && one.state() == WorkerState::Ready);
            old.count() == 3
        })
        .await;
        crowd.stop().await;
        for (refused, said) in [
            (version(-1), "upgrade the gateways first"),
            ("99.0.0".to_owned(), "upgrade the gateways first"),
            ("of yesterday".to_owned(), "of yesterday"),
        ] {
            let crowd = Crowd::start(&plan(&fleet, 1, &refused)).await;
            eventually("it is refused, and told why", async || {
                let why = crowd.facts.why.lock().unwrap().keys().cloned().collect::<String>();
                why.contains("the gateway has version") && (why.contains(said) || why.contains(&refused))
            })
            .await;
            assert_eq!(crowd.facts.registered.load(Ordering::Relaxed), 0);
            crowd.stop().await;
        }
        fleet.assert_calm();
    });
}

#[test]
fn a_worker_of_an_earlier_release_works_under_later_gateways_and_is_exchanged() {
    test(async {
        let plan = Plan {
            worker: earlier(),
            settings: "drain_grace = \"3s\"",
            ..Plan::default()
        };
        let mut fleet = Fleet::of(plan).await;
        // A call and all of its output.
        let made = fleet.run(0, "wa", "seq 30000").await.unwrap();
        let output_id = completed(&made).truncation.as_ref().unwrap().output_id.clone();
        let mut outputs = OutputServiceClient::with_interceptor(fleet.channel(1).await, Shown(ANNA, None));
        let read = ReadOutputRequest { output_id, range: None };
        let mut stream = outputs.read_output(read).await.unwrap().into_inner();
        let mut data = Vec::new();
        while let Some(part) = stream.message().await.unwrap() {
            data.extend_from_slice(&part.data);
        }
        let expected: String = (1..=30_000).map(|number| format!("{number}\n")).collect();
        assert!(String::from_utf8(data).unwrap() == expected);
        // A question, answered at another gateway.
        let mut tools = fleet.tools(0, ANNA).await;
        let mut asking = tools.execute_tool(bash("wa", "echo ask 1")).await.unwrap().into_inner();
        let prompt = waiting(&mut asking).await;
        assert_eq!(fleet.allow(1, &prompt).await.unwrap().result(), ReplyResult::Accepted);
        let events = collect(asking).await.unwrap();
        assert!(matches!(end_of(&events), call::Ending::Completed(_)), "{events:?}");
        // A command that outlasts its gateway, and a call that waits meanwhile.
        let (running, begun) = fleet.begin(0, "wb").await;
        let mut asking = fleet
            .tools(1, ANNA)
            .await
            .execute_tool(bash("wa", "echo ask 2 >>answered"))
            .await;
        let waits = waiting(asking.as_mut().unwrap().get_mut()).await;
        assert_eq!(fleet.gateways[0].signal(Signal::TERM).await, Some(0));
        let home = fleet.home();
        fleet.gateways[0].run(&home).await;
        fleet.ready().await;
        drop(running);
        let cancel = CancelCallRequest {
            call_id: begun.call_id.clone(),
        };
        let mut tools = fleet.tools(0, ANNA).await;
        tools.cancel_call(cancel).await.unwrap();
        let watched = tools
            .watch_call(watch_request(&begun.call_id, begun.sequence, OutputMode::None))
            .await;
        let watched = collect_watch(watched.unwrap().into_inner()).await.unwrap();
        assert!(!watched.is_empty());
        failed(&fleet.get(1, &begun.call_id).await.unwrap());
        // The worker is exchanged for one of this release, and goes on with what waited.
        fleet.workers[0].signal(Signal::TERM).await;
        fleet.workers[0].program = PROGRAM.into();
        fleet.workers[0].run(&home).await;
        fleet.ready().await;
        assert_eq!(fleet.allow(0, &waits).await.unwrap().result(), ReplyResult::Accepted);
        eventually("what waited has ended", async || {
            fleet
                .get(1, &waits.call_id)
                .await
                .is_ok_and(|call| call.state() == CallState::Completed)
        })
        .await;
        assert_eq!(
            fs::read_to_string(fleet.path("worker-a/own/answered")).unwrap(),
            "ask 2\n"
        );
        fleet.assert_calm();
    });
}

#[test]
fn a_gateway_that_may_not_change_the_tables_says_that_they_are_those_of_an_earlier_release() {
    test(async {
        let plan = Plan::default();
        let fleet = Fleet::empty(0).await;
        let versions = "CREATE TABLE migrations (version bigint PRIMARY KEY, applied timestamptz NOT NULL);
                        INSERT INTO migrations VALUES (1, now());";
        fleet
            .database
            .run("fleet", &format!("BEGIN; {FIRST}; {versions} COMMIT"))
            .await;
        let place = fleet.configure_gateway("gateway-0", &plan);
        let text = fs::read_to_string(place.join("toolgate.toml")).unwrap();
        put(
            &place.join("toolgate.toml"),
            &text.replace("migrate = \"start\"", "migrate = \"never\""),
        );
        let mut gateway = Process::at(&free_address().to_string(), place.clone(), "gateway");
        gateway.spawn(&fleet.home());
        assert_ne!(gateway.ended().await, Some(0));
        let log = gateway.log();
        assert!(log.contains("toolgate store migrate"), "{log}");
        let migrated = super::commands::toolgate(&place, &["store", "migrate"]).await;
        assert!(migrated.status.success(), "{}", super::commands::text(&migrated));
        gateway.run(&fleet.home()).await;
        assert_eq!(gateway.signal(Signal::TERM).await, Some(0));
    });
}

#[test]
fn gateways_of_an_earlier_release_go_on_with_later_tables() {
    test(async {
        let mut fleet = Fleet::start().await;
        let made = fleet.run(0, "wa", "seq 3000").await.unwrap();
        let asking = ExecuteToolRequest {
            on_disconnect: OnDisconnect::Keep.into(),
            ..bash("wa", "echo ask 1")
        };
        let mut tools = fleet.tools(1, ANNA).await;
        let mut asking = tools.execute_tool(asking).await.unwrap().into_inner();
        let prompt = waiting(&mut asking).await;
        fleet.database.run("fleet", LATER).await;
        let home = fleet.home();
        for gateway in 0..2 {
            assert_eq!(fleet.gateways[gateway].signal(Signal::TERM).await, Some(0));
            if let Some(program) = earlier() {
                fleet.gateways[gateway].program = program;
            }
            fleet.gateways[gateway].run(&home).await;
            fleet.ready().await;
            for (one, other) in [(0, 1), (1, 0)] {
                let command = format!("seq {gateway}{one}00");
                let ran = fleet.run(one, "wb", &command).await.unwrap();
                let found = fleet.get(other, &ran.call_id).await.unwrap();
                assert_eq!(completed(&found).output, completed(&ran).output);
            }
        }
        assert_eq!(completed(&fleet.get(0, &made.call_id).await.unwrap()), completed(&made));
        assert_eq!(fleet.allow(0, &prompt).await.unwrap().result(), ReplyResult::Accepted);
        eventually("what was asked before goes on", async || {
            let call = fleet.get(1, &prompt.call_id).await;
            call.is_ok_and(|call| call.state() == CallState::Completed)
        })
        .await;
        // What a dead worker leaves is ended.
        let (running, _) = fleet.begin(0, "wb").await;
        fleet.workers[1].kill9().await;
        let events = collect(running).await.unwrap();
        assert!(matches!(end_of(&events), call::Ending::Failed(failed) if failed.reason() == FailureReason::Lost));
        fleet.assert_calm();
    });
}
