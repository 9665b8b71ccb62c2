//! Gateways and workers whose clocks are off by an hour: nobody compares two clocks, and who signs for a bucket is told what is wrong.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::task::{JoinHandle, JoinSet};
use tokio::time::sleep;
use tonic::{Code, Status};
use toolgate_contract::output_service_client::OutputServiceClient;
use toolgate_contract::*;

use super::clock::Clock;
use super::s3::S3;
use super::setup::{Fleet, LEASE, Plan};
use crate::gateway::setup::*;
use crate::support::{self, collect, completed, eventually, failed, list_all, run_request, test};

/// How far two times of one clock may be apart that are told of one thing.
const SLACK: i64 = 120;

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64
}

/// A worker whose clock is ahead, one whose clock is behind, and gateways the other way round.
async fn fleet() -> Fleet {
    Fleet::of(Plan {
        gateways: vec![Clock::Behind, Clock::Ahead],
        workers: vec![Clock::Ahead, Clock::Behind],
        bucket: None,
        ..Plan::default()
    })
    .await
}

/// A command that is asked about, which waits for so long.
fn asking(id: &str, workspace: &str, wait: Duration) -> RunToolRequest {
    let request = ExecuteToolRequest {
        call_id: id.to_owned(),
        on_disconnect: OnDisconnect::Keep.into(),
        ..bash(workspace, &format!("echo ask {id}"))
    };
    RunToolRequest {
        wait_timeout: Some(wait.try_into().unwrap()),
        ..run_request(request)
    }
}

/// Makes a call of its own accord.
async fn start(fleet: &Fleet, gateway: usize, request: RunToolRequest) -> JoinHandle<Result<Call, Status>> {
    let mut tools = fleet.tools(gateway, ANNA).await;
    tokio::spawn(async move { Ok(tools.run_tool(request).await?.into_inner().call.unwrap()) })
}

/// Waits until it is stored that a call waits.
async fn waiting(fleet: &Fleet, call: &str) {
    eventually(&format!("{call} waits"), async || {
        let found = fleet.get(0, call).await;
        found.is_ok_and(|call| call.state() == CallState::Waiting)
    })
    .await;
}

/// Returns the one prompt of a call in a state, once there is one.
async fn prompt_of(fleet: &Fleet, gateway: usize, call: &str, state: PromptState) -> Prompt {
    let mut prompts = fleet.prompts(gateway, CARL).await;
    let request = ListPromptsRequest {
        call_id: call.to_owned(),
        states: vec![state.into()],
        ..list_all()
    };
    let mut found = None;
    eventually(&format!("the prompt of {call} is {state:?}"), async || {
        let listed = prompts.list_prompts(request.clone()).await.unwrap().into_inner();
        found = listed.prompts.into_iter().next();
        found.is_some()
    })
    .await;
    found.unwrap()
}

#[test]
fn calls_run_and_are_listed_whatever_the_clocks_say() {
    test(async {
        let mut fleet = fleet().await;
        let mut made = Vec::new();
        for (worker, offset) in [("wa", Clock::Ahead.offset()), ("wb", Clock::Behind.offset())] {
            for gateway in 0..2 {
                let call = fleet.run(gateway, worker, "echo here").await.unwrap();
                assert_eq!(completed(&call).output, "here\n");
                let created = call.create_time.unwrap().seconds;
                assert!((created - now() - offset).abs() < SLACK, "{created}: {call:?}");
                made.push(call);
            }
        }
        // Each list has each call once, page by page, and the same at both gateways.
        let pages = async |gateway: usize, filter: ListCallsRequest| {
            let (mut tools, mut found, mut page) = (fleet.tools(gateway, ANNA).await, Vec::new(), String::new());
            loop {
                let request = ListCallsRequest {
                    workspace: "-".to_owned(),
                    page_size: 1,
                    page_token: page,
                    ..filter.clone()
                };
                let listed = tools.list_calls(request).await.unwrap().into_inner();
                found.extend(listed.calls.into_iter().map(|call| call.call_id));
                page = listed.next_page_token;
                if page.is_empty() {
                    return found;
                }
            }
        };
        let all = pages(0, ListCallsRequest::default()).await;
        assert_eq!(all, pages(1, ListCallsRequest::default()).await);
        let mut expected: Vec<&str> = made.iter().map(|call| call.call_id.as_str()).collect();
        let mut found: Vec<&str> = all.iter().map(String::as_str).collect();
        expected.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, expected);
        // A time that a call has told finds that call, at whatever gateway.
        for call in &made {
            for gateway in 0..2 {
                let from = ListCallsRequest {
                    from_time: call.create_time,
                    ..ListCallsRequest::default()
                };
                assert!(pages(gateway, from).await.contains(&call.call_id));
                let until = ListCallsRequest {
                    until_time: call.create_time,
                    ..ListCallsRequest::default()
                };
                assert!(!pages(gateway, until).await.contains(&call.call_id));
            }
        }
        // A worker that lives is not taken for dead, and a dead one is soon.
        let mut running = JoinSet::new();
        for (gateway, worker) in [(0, "wa"), (1, "wb")] {
            let command = format!("sleep {}", LEASE.as_secs() * 2 + 1);
            let request = run_request(bash(worker, &command));
            let call = start(&fleet, gateway, request).await;
            running.spawn(call);
        }
        while let Some(call) = running.join_next().await {
            let call = call.unwrap().unwrap();
            let logs = || fleet.gateways.iter().chain(&fleet.workers).map(Process::log);
            completed(&call.unwrap_or_else(|status| panic!("{status}: {:#?}", logs().collect::<Vec<_>>())));
        }
        for worker in 0..2 {
            let place = format!("w{}", fleet.names()[worker]);
            let (running, begun) = fleet.begin(0, &place).await;
            fleet.workers[worker].kill9().await;
            let killed = Instant::now();
            collect(running).await.unwrap();
            let took = killed.elapsed();
            let call = fleet.get(0, &begun.call_id).await.unwrap();
            assert_eq!(failed(&call).reason(), FailureReason::Lost);
            assert!(took < LEASE * 5, "{took:?}");
            // It does not end before it has begun.
            let times = [call.create_time, call.start_time, call.end_time];
            let times = times.map(|time| time.map(|time| (time.seconds, time.nanos)));
            assert!(times.is_sorted() && times[2].is_some(), "{times:?}");
        }
        fleet.assert_calm();
    });
}

#[test]
fn prompts_wait_for_as_long_as_they_should() {
    test(async {
        let mut fleet = fleet().await;
        let ways = [(0, "wa"), (1, "wa"), (0, "wb"), (1, "wb")];
        // Nobody answers.
        let wait = Duration::from_secs(2);
        let mut calls = Vec::new();
        for (gateway, place) in ways {
            let request = asking(&format!("unanswered-{gateway}-{place}"), place, wait);
            calls.push((start(&fleet, gateway, request).await, Instant::now()));
        }
        for (call, begun) in calls {
            let call = call.await.unwrap().unwrap();
            assert_eq!(failed(&call).reason(), FailureReason::PromptExpired);
            assert!(begun.elapsed() >= wait, "{:?}", begun.elapsed());
        }
        // Somebody answers in time, at the other gateway.
        let long = Duration::from_secs(240);
        for (gateway, place) in ways {
            let id = format!("answered-{gateway}-{place}");
            let call = start(&fleet, gateway, asking(&id, place, long)).await;
            let prompt = prompt_of(&fleet, 1 - gateway, &id, PromptState::Open).await;
            let taken = fleet.allow(1 - gateway, &prompt).await.unwrap();
            assert_eq!(taken.result(), ReplyResult::Accepted, "{taken:?}");
            completed(&call.await.unwrap().unwrap());
        }
        // Nobody is there any more to end it: too late is too late.
        let wait = Duration::from_secs(6);
        for (worker, place, gateway) in [(0, "wa", 0), (1, "wb", 1)] {
            let id = format!("left-{place}");
            let _call = start(&fleet, gateway, asking(&id, place, wait)).await;
            let prompt = prompt_of(&fleet, gateway, &id, PromptState::Open).await;
            waiting(&fleet, &id).await;
            fleet.workers[worker].kill9().await;
            sleep(wait).await;
            let late = fleet.allow(gateway, &prompt).await.unwrap();
            assert_eq!(late.result(), ReplyResult::Expired, "{late:?}");
        }
        fleet.assert_calm();
    });
}

#[test]
fn the_next_run_of_a_worker_goes_on_with_what_is_left_of_the_time() {
    test(async {
        let mut fleet = fleet().await;
        let (short, long) = (Duration::from_secs(8), Duration::from_secs(240));
        // The next run believes in a time two hours later, or earlier.
        for (worker, place, next) in [(0, "wa", Clock::Behind), (1, "wb", Clock::Ahead)] {
            let (ends, waits) = (format!("ends-{place}"), format!("waits-{place}"));
            let begun = Instant::now();
            let _ends = start(&fleet, 0, asking(&ends, place, short)).await;
            let _waits = start(&fleet, 0, asking(&waits, place, long)).await;
            prompt_of(&fleet, 0, &ends, PromptState::Open).await;
            prompt_of(&fleet, 0, &waits, PromptState::Open).await;
            waiting(&fleet, &ends).await;
            waiting(&fleet, &waits).await;
            fleet.workers[worker].kill9().await;
            let (home, library) = (fleet.home(), fleet.library(next));
            fleet.workers[worker].library = library;
            fleet.workers[worker].run(&home).await;
            prompt_of(&fleet, 1, &ends, PromptState::Expired).await;
            let waited = begun.elapsed();
            assert!(waited > short, "{waited:?}");
            let prompt = prompt_of(&fleet, 1, &waits, PromptState::Open).await;
            let taken = fleet.allow(1, &prompt).await.unwrap();
            assert_eq!(taken.result(), ReplyResult::Accepted, "{taken:?}");
            eventually("the call has gone on", async || {
                let call = fleet.get(1, &waits).await.unwrap();
                call.ending.is_some() && completed(&call).output.contains(&waits)
            })
            .await;
        }
        fleet.assert_calm();
    });
}

#[test]
fn a_grant_ends_by_the_clock_of_the_database() {
    test(async {
        let fleet = fleet().await;
        // The first gateway is behind, and takes any moment for one to come.
        let allowed = async |place: &str, command: &str, seconds: i64| {
            let id = format!("first-{place}-{seconds}");
            let request = ExecuteToolRequest {
                call_id: id.clone(),
                on_disconnect: OnDisconnect::Keep.into(),
                ..bash(place, command)
            };
            let call = start(&fleet, 0, run_request(request)).await;
            let prompt = prompt_of(&fleet, 0, &id, PromptState::Open).await;
            let scope = GrantScope {
                reach: GrantReach::Workspace.into(),
                expire_time: Some(prost_types::Timestamp {
                    seconds: now() + seconds,
                    nanos: 0,
                }),
                ..GrantScope::default()
            };
            let reply = ReplyPromptRequest {
                reply: Some(PromptReply {
                    scope: Some(scope),
                    ..support::reply(&prompt, PromptDecision::Always)
                }),
                ..ReplyPromptRequest::default()
            };
            let taken = fleet.prompts(0, CARL).await.reply_prompt(reply).await.unwrap();
            let taken = taken.into_inner().result.unwrap();
            assert_eq!(taken.result(), ReplyResult::Accepted, "{taken:?}");
            completed(&call.await.unwrap().unwrap());
        };
        // The clock of the first worker says that they are over, that of the second that none is.
        for place in ["wa", "wb"] {
            allowed(place, "echo ask once >once", -1_800).await;
            let id = format!("again-{place}");
            let request = ExecuteToolRequest {
                call_id: id.clone(),
                on_disconnect: OnDisconnect::Keep.into(),
                ..bash(place, "echo ask once >once")
            };
            let call = start(&fleet, 1, run_request(request)).await;
            let prompt = prompt_of(&fleet, 1, &id, PromptState::Open).await;
            fleet.allow(1, &prompt).await.unwrap();
            completed(&call.await.unwrap().unwrap());
            allowed(place, "echo ask me", 1_800).await;
            for gateway in 0..2 {
                let again = fleet.run(gateway, place, "echo ask me").await.unwrap();
                assert_eq!(completed(&again).output, "ask me\n", "{place}");
            }
        }
        fleet.assert_calm();
    });
}

/// Reads an output as far as it can be read.
async fn read(fleet: &Fleet, output: &str) -> Result<Vec<u8>, Status> {
    let mut outputs = OutputServiceClient::with_interceptor(fleet.channel(0).await, Shown(ANNA, None));
    let request = ReadOutputRequest {
        output_id: output.to_owned(),
        range: None,
    };
    let (mut stream, mut data) = (outputs.read_output(request).await?.into_inner(), Vec::new());
    while let Some(part) = stream.message().await? {
        data.extend_from_slice(&part.data);
    }
    Ok(data)
}

/// Starts the gateway again with another clock.
async fn with_clock(fleet: &mut Fleet, clock: Clock) {
    let (home, library) = (fleet.home(), fleet.library(clock));
    fleet.gateways[0].kill9().await;
    fleet.gateways[0].library = library;
    fleet.gateways[0].run(&home).await;
    fleet.ready().await;
}

#[test]
fn a_bucket_with_another_time_loses_nothing() {
    test(async {
        let s3 = S3::start(false).await;
        let mut fleet = Fleet::of(Plan {
            gateways: vec![Clock::Behind],
            workers: vec![Clock::Right],
            bucket: Some(s3.endpoint(None)),
            ..Plan::default()
        })
        .await;
        let call = fleet.run(0, "wa", "seq 3000000").await.unwrap();
        let told = completed(&call).truncation.clone().unwrap();
        let expected: String = (1..=3_000_000).map(|number| format!("{number}\n")).collect();
        assert_eq!(told.total_bytes, expected.len() as i64);
        // It is all in the database, and the log says why.
        let mut all = Vec::new();
        // The call has ended, and some of it may still be on its way.
        eventually("it can all be read", async || {
            all = read(&fleet, &told.output_id).await.unwrap();
            all.len() == expected.len()
        })
        .await;
        assert!(all == expected.as_bytes());
        eventually("it is said what is wrong", async || {
            fleet.gateways[0].log().contains("set this machine's clock")
        })
        .await;
        // The worker knows only that it was refused, if it is let finish.
        let log = fleet.workers[0].log();
        assert!(log.contains("cannot be put into the bucket"), "{log}");
        assert_eq!(s3.names("fleet"), Vec::<String>::new());
        // With the right time it goes where it belongs.
        with_clock(&mut fleet, Clock::Right).await;
        // Nobody else is at it any more.
        let over = "UPDATE objects SET due = due - interval '2 minutes' WHERE due IS NOT NULL";
        fleet.database.run("fleet", over).await;
        eventually("it is in the bucket", async || s3.names("fleet").len() >= 3).await;
        assert!(read(&fleet, &told.output_id).await.unwrap() == expected.as_bytes());
        // Who is wrong about the time cannot read it there, and says so.
        with_clock(&mut fleet, Clock::Ahead).await;
        let refused = read(&fleet, &told.output_id).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unavailable, "{refused:?}");
        assert!(refused.message().contains("clock"), "{refused:?}");
        fleet.assert_calm();
    });
}
