//! Streams of events: cut at any byte and taken up again, slow, late, many at once, in every output mode.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;
use tonic::{Code, Status};
use toolgate_contract::call_event::Event;
use toolgate_contract::*;
use toolgate_engine::{Item, OutputMode as Mode};
use toolgate_model::{CallId, OnDisconnect};
use toolgate_store::Upkeep as _;

use crate::support::*;

/// About 3 MB in bursts, so that streams are cut while it runs.
const BURSTS: &str = "for i in 1 2 3 4 5 6 7 8; do seq -f \"$i line %.0f\" 1 25000; sleep 0.03; done";

fn bursts() -> Vec<u8> {
    let mut expected = String::new();
    for burst in 1..=8 {
        for line in 1..=25_000 {
            expected.push_str(&format!("{burst} line {line}\n"));
        }
    }
    expected.into_bytes()
}

/// Reads a call over connections that are cut after random numbers of bytes.
async fn read_in_pieces(server: String, request: ExecuteToolRequest, mut random: Random) -> (Vec<CallEvent>, usize) {
    let mut events: Vec<CallEvent> = Vec::new();
    for cuts in 0..2000 {
        let budget = 1 + random.below(300_000) as usize;
        // A cut during the handshake, the request or the stream: all are the same to this client.
        let _: Result<(), Status> = piece(&server, budget, &request, &mut events).await;
        if events.last().is_some_and(is_terminal) {
            return (events, cuts);
        }
    }
    panic!("no end after 2000 connections");
}

async fn piece(
    server: &str,
    budget: usize,
    request: &ExecuteToolRequest,
    events: &mut Vec<CallEvent>,
) -> Result<(), Status> {
    let proxy = Proxy::cutting_after(server, budget).await;
    let lost = |_| Status::unavailable("cut");
    let channel = connect_tcp(&proxy.address.to_string()).await.map_err(lost)?;
    let mut tools = tools(channel);
    match events.last() {
        None => {
            let mut stream = tools.execute_tool(request.clone()).await?.into_inner();
            while let Some(response) = stream.message().await? {
                events.extend(response.event.filter(|event| event.sequence != 0));
            }
        }
        Some(last) => {
            let request = watch_request(&request.call_id, last.sequence, OutputMode::Full);
            let mut stream = tools.watch_call(request).await?.into_inner();
            while let Some(response) = stream.message().await? {
                events.extend(response.event.filter(|event| event.sequence != 0));
            }
        }
    }
    Ok(())
}

#[test]
fn events_that_are_not_kept_any_more_are_not_passed_over() {
    test(async {
        let mut server = Server::start().await;
        for _ in 0..3 {
            server.run("bash", json!({"command": "true", "description": "d"})).await;
        }
        server.stop().await;
        let database = server.folder().join("data/toolgate.db");
        let database = rusqlite::Connection::open(database).unwrap();
        database.execute("DELETE FROM journal WHERE number <= 4", []).unwrap();
        drop(database);
        server.restart().await;
        let watch = |after| {
            let request = WatchEventsRequest {
                workspace: "-".to_owned(),
                after_sequence: Some(after),
                ..WatchEventsRequest::default()
            };
            let mut sessions = server.sessions();
            async move {
                sessions
                    .watch_events(request)
                    .await
                    .unwrap()
                    .into_inner()
                    .message()
                    .await
            }
        };
        for after in [1, 3] {
            refused(watch(after).await, Code::OutOfRange, "CURSOR_TOO_OLD");
        }
        for after in [0, 4] {
            assert_eq!(
                watch(after).await.unwrap().unwrap().event.unwrap().sequence,
                5,
                "after {after}"
            );
        }
    });
}

#[test]
fn cut_streams_are_rebuilt() {
    test(async {
        let mut random = Random::new(1);
        let mut server = Server::with(Setup::tcp()).await;
        let address = server.tcp.clone().unwrap();
        let request = kept("cut", bash(BURSTS));
        let mut readers = JoinSet::new();
        for _ in 0..4 {
            readers.spawn(read_in_pieces(address.clone(), request.clone(), random.fork()));
        }
        let expected = bursts();
        let whole = server.execute(request).await.unwrap();
        check_log(0, &whole);
        assert!(output_of(&whole) == expected, "the uncut reader has every byte");
        let mut cuts = 0;
        while let Some(read) = readers.join_next().await {
            let (events, cut) = read.unwrap();
            cuts += cut;
            check_log(0, &events);
            assert!(output_of(&events) == expected, "a cut reader has every byte");
            assert_eq!(end_of(&events), end_of(&whole));
        }
        assert!(cuts > 20, "only {cuts} cuts");
        for _ in 0..10 {
            let after = random.below(whole.len() as u64) as i64;
            let late = server.watch("cut", after).await.unwrap();
            assert_eq!(late, whole[after as usize..], "a reader from {after}");
        }
        server.stop().await;
    });
}

#[test]
fn modes_account_for_what_they_leave_out() {
    test(async {
        let server = Server::start().await;
        let mut readers = JoinSet::new();
        server.tools().execute_tool(kept("modes", bash(BURSTS))).await.unwrap();
        for mode in [OutputMode::Tail, OutputMode::None] {
            for late in [false, true] {
                let mut tools = tools(server.connect().await);
                if late {
                    server.watch("modes", 0).await.unwrap();
                }
                readers.spawn(async move {
                    let stream = tools.watch_call(watch_request("modes", 0, mode)).await.unwrap();
                    (mode, collect_watch(stream.into_inner()).await.unwrap())
                });
            }
        }
        let whole = server.watch("modes", 0).await.unwrap();
        let expected = output_of(&whole);
        while let Some(read) = readers.join_next().await {
            let (mode, events) = read.unwrap();
            let (mut next, mut bytes) = (1, 0_usize);
            for event in events.iter().filter(|event| event.sequence != 0) {
                match event.event.as_ref().unwrap() {
                    Event::Gap(gap) => {
                        assert_eq!(gap.first_sequence, next, "{mode:?}");
                        assert_eq!(gap.last_sequence, event.sequence);
                        bytes += gap.output_bytes as usize;
                    }
                    other => {
                        assert_eq!(event.sequence, next, "{mode:?}");
                        if let Event::Output(output) = other {
                            assert_eq!(mode, OutputMode::Tail);
                            assert_eq!(output.offset as usize, bytes);
                            assert!(expected[bytes..].starts_with(&output.data));
                            bytes += output.data.len();
                        }
                    }
                }
                next = event.sequence + 1;
            }
            assert_eq!(bytes, expected.len(), "{mode:?}");
            assert_eq!(end_of(&events), end_of(&whole));
        }
        let mut tools = server.tools();
        let tail = tools
            .watch_call(watch_request("modes", 0, OutputMode::Tail))
            .await
            .unwrap();
        let tail = collect_watch(tail.into_inner()).await.unwrap();
        let last: usize = tail
            .iter()
            .map(|event| match &event.event {
                Some(Event::Output(output)) => output.data.len(),
                _ => 0,
            })
            .sum();
        assert!((1..=192 * 1024).contains(&last), "{last} bytes of tail");
    });
}

#[test]
fn a_stalled_reader_holds_nobody_up() {
    test(async {
        let server = Server::start().await;
        let request = kept("big", bash("yes 0123456789abcde | head -c 24000000"));
        let mut stalled = tools(server.connect().await)
            .execute_tool(request.clone())
            .await
            .unwrap()
            .into_inner();
        let events = server.execute(request).await.unwrap();
        check_log(0, &events);
        let expected = output_of(&events);
        assert_eq!(expected.len(), 24_000_000);
        let mut late = Vec::new();
        while let Some(response) = stalled.message().await.unwrap() {
            late.extend(response.event);
        }
        check_log(0, &late);
        assert!(output_of(&late) == expected);
    });
}

#[test]
fn characters_are_not_split() {
    test(async {
        let server = Server::start().await;
        // 3 bytes each, after an offset that no power of two shares.
        let events = server
            .execute(bash("printf x; yes '€€€€€€€' | head -c 3300000"))
            .await
            .unwrap();
        let mut pieces = 0;
        for event in &events {
            if let Some(Event::Output(output)) = &event.event {
                assert!(output.data.len() <= 64 * 1024);
                // `head` itself cuts the last character.
                let is_last = output.offset as usize + output.data.len() == 3_300_001;
                assert!(
                    is_last || std::str::from_utf8(&output.data).is_ok(),
                    "at {}",
                    output.offset
                );
                pieces += 1;
            }
        }
        assert!(pieces > 40);
    });
}

#[test]
fn silence_is_broken_by_heartbeats() {
    test(async {
        let inside = Inside::new();
        let started = inside
            .engine
            .start(Inside::call("c", OnDisconnect::Keep))
            .await
            .unwrap();
        let heartbeat = Duration::from_millis(50);
        let mut cursor = inside
            .engine
            .watch(&started.id, 0, Mode::Full, heartbeat)
            .await
            .unwrap();
        let mut last = 0;
        let mut beats = 0;
        while beats < 3 {
            match cursor.next().await.unwrap().unwrap() {
                Item::Event(event, _) => last = event.sequence,
                Item::Heartbeat { last: told, .. } => {
                    assert_eq!(told, last);
                    beats += 1;
                }
                Item::Gap { .. } => panic!("nothing is left out"),
            }
        }
        inside.gate.close();
        while cursor.next().await.unwrap().is_some() {}
    });
}

#[test]
fn a_reader_without_output_hears_of_it_in_time() {
    test(async {
        let inside = Inside::new();
        let started = inside
            .engine
            .start(Inside::call("c", OnDisconnect::Keep))
            .await
            .unwrap();
        let gate = inside.gate.clone();
        let mut feeding = JoinSet::new();
        // Output without a pause, faster than the heartbeat, until the reader has heard enough.
        feeding.spawn(async move {
            loop {
                gate.add_permits(1);
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        let heartbeat = Duration::from_millis(100);
        let mut cursor = inside
            .engine
            .watch(&started.id, 0, Mode::None, heartbeat)
            .await
            .unwrap();
        let (mut next, mut gaps) = (1, 0);
        while gaps < 3 {
            match cursor.next().await.unwrap().unwrap() {
                Item::Event(event, _) => {
                    assert_eq!(event.sequence, next);
                    next += 1;
                }
                Item::Gap { first, last, bytes, .. } => {
                    assert_eq!(first, next);
                    assert!(bytes > 0);
                    next = last + 1;
                    gaps += 1;
                }
                Item::Heartbeat { last, .. } => assert_eq!(last, next - 1, "a heartbeat hides nothing"),
            }
        }
        feeding.shutdown().await;
        inside.gate.close();
        while cursor.next().await.unwrap().is_some() {}
    });
}

#[test]
fn a_client_lost_while_it_is_admitted_leaves_nothing() {
    test(async {
        let inside = Inside::new();
        for (index, polls) in (0..6).enumerate() {
            let id = format!("c{index}");
            let mut start = Box::pin(inside.engine.start(Inside::call(&id, OnDisconnect::Cancel)));
            for _ in 0..=polls {
                if futures_util::poll!(&mut start).is_ready() {
                    break;
                }
                tokio::task::yield_now().await;
            }
            drop(start);
        }
        // Admissions that go on without their client are waited for, and what they admit is stopped for its loss.
        inside.engine.drain(Duration::from_secs(30)).await;
        assert_eq!(inside.engine.calls().count(), 0);
        for index in 0..6 {
            let id = CallId::from(format!("c{index}").as_str());
            let record = inside.engine.get(&id).await.unwrap();
            assert!(record.is_none_or(|record| record.state.is_terminal()), "{id}");
        }
        let store = Arc::clone(&inside.store);
        store.close().await.unwrap();
    });
}

#[test]
fn starting_an_ended_call_again_shows_it_to_everybody() {
    test(async {
        let server = Server::start().await;
        let request = kept("again", bash("echo once >> count; echo done"));
        let first = server.execute(request.clone()).await.unwrap();
        let mut clients = JoinSet::new();
        for index in 0..24 {
            let (channel, request) = (server.connect().await, request.clone());
            clients.spawn(async move {
                let mut tools = tools(channel);
                if index % 3 == 0 {
                    collect_watch(
                        tools
                            .watch_call(watch_request("again", 0, OutputMode::Full))
                            .await?
                            .into_inner(),
                    )
                    .await
                } else {
                    collect(tools.execute_tool(request).await?.into_inner()).await
                }
            });
        }
        while let Some(events) = clients.join_next().await {
            assert_eq!(events.unwrap().unwrap(), first);
        }
        assert_eq!(std::fs::read_to_string(server.work().join("count")).unwrap(), "once\n");
    });
}
