//! Commands that print while the database is away: it has crashed, or it hangs.

use std::time::Duration;

use tokio::time::sleep;
use toolgate_contract::output_service_client::OutputServiceClient;
use toolgate_contract::*;

use super::setup::{Fleet, LEASE};
use crate::gateway::setup::*;
use crate::support::{
    check_log, collect, collect_watch, completed, end_of, eventually, is_output, next_such, output_of, test,
    watch_request,
};

/// How many pieces the command prints, and how many numbers each has. All of them are more than 50 MB.
const PIECES: usize = 100;
const NUMBERS: usize = 65_000;

/// Prints what is more than all that may be held in memory, when it is told to, and counts beside it.
fn script() -> String {
    format!(
        "echo 0\nuntil [ -e go ]; do sleep 0.02; done\nfor piece in $(seq {PIECES}); do\n\
         seq $(((piece - 1) * {NUMBERS} + 1)) $((piece * {NUMBERS})); echo $piece >counted; sleep 0.01\ndone\necho >printed\n"
    )
}

/// Runs the command while the database is away, for so long at least, and then until everything is printed.
async fn prints_on<A>(fleet: &Fleet, least: Duration, away: impl FnOnce() -> A, back: impl AsyncFnOnce(A)) {
    let own = fleet.path("worker-a/own");
    put(&own.join("print"), &script());
    let request = ExecuteToolRequest {
        on_disconnect: OnDisconnect::Keep.into(),
        ..bash("wa", "sh print")
    };
    let mut tools = fleet.tools(0, ANNA).await;
    let mut running = tools.execute_tool(request).await.unwrap().into_inner();
    let mut events = vec![next_such(&mut running, is_output).await];
    let id = events[0].call_id.clone();
    let is_away = away();
    put(&own.join("go"), "");
    let (printed, ()) = tokio::join!(
        async {
            eventually("everything is printed", async || own.join("printed").exists()).await;
            std::fs::read_to_string(own.join("counted")).unwrap()
        },
        // That is how long it is away.
        sleep(least)
    );
    assert_eq!(printed, format!("{PIECES}\n"));
    back(is_away).await;

    let after = events[0].sequence;
    let rest = collect(running).await.unwrap();
    check_log(after, &rest);
    events.extend(rest);
    let call = fleet.get(1, &id).await;
    let call::Ending::Completed(end) = end_of(&events) else {
        panic!("{call:?}");
    };
    let expected: String = (0..=PIECES * NUMBERS).map(|number| format!("{number}\n")).collect();
    assert!(output_of(&events) == expected.as_bytes());

    // The other gateway has the same from the database.
    assert_eq!(*completed(&call.unwrap()), end);
    let mut elsewhere = fleet.tools(1, ANNA).await;
    let watched = elsewhere.watch_call(watch_request(&id, 0, OutputMode::None)).await;
    let watched = collect_watch(watched.unwrap().into_inner()).await.unwrap();
    assert_eq!(watched.last().unwrap().sequence, events.last().unwrap().sequence);
    let output_id = end.truncation.unwrap().output_id;
    let read = ReadOutputRequest { output_id, range: None };
    let mut outputs = OutputServiceClient::with_interceptor(fleet.channel(1).await, Shown(ANNA, None));
    let mut data = Vec::new();
    eventually("the database has all of the output", async || {
        data.clear();
        let Ok(stream) = outputs.read_output(read.clone()).await else {
            return false;
        };
        let mut stream = stream.into_inner();
        while let Ok(Some(part)) = stream.message().await {
            data.extend_from_slice(&part.data);
        }
        data.len() == expected.len()
    })
    .await;
    assert!(data == expected.as_bytes());

    // The worker has its workspace still.
    completed(&fleet.run(1, "wa", "true").await.unwrap());
    let log = fleet.workers[0].log();
    assert!(!log.contains("must stop"), "{log}");
    fleet.assert_calm();
}

#[test]
fn a_command_prints_on_while_the_database_is_down() {
    test(async {
        let fleet = Fleet::start().await;
        let database = &fleet.database;
        let back = async |()| database.resume().await;
        prints_on(&fleet, Duration::from_secs(10), || database.crash(), back).await;
    });
}

#[test]
fn a_command_prints_on_while_the_database_hangs() {
    test(async {
        let fleet = Fleet::start().await;
        let database = &fleet.database;
        let back = async |frozen| drop(frozen);
        prints_on(&fleet, LEASE * 3, || database.freeze(), back).await;
    });
}
