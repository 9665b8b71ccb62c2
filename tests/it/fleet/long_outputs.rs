//! Outputs of up to a GB whose worker is killed while they grow: what is kept of them is exact, and nobody takes it for all.
//!
//! *Invariant:* when a worker is killed follows from a seed, which is printed: `TOOLGATE_OUTPUT_SEED` gives it back.

use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;
use toolgate_contract::call_event::Event;
use toolgate_contract::output_service_client::OutputServiceClient;
use toolgate_contract::*;

use super::dice::{Dice, seed};
use super::s3::S3;
use super::setup::{Fleet, Plan};
use crate::gateway::setup::*;
use crate::support::{collect, eventually, failed, is_terminal, test_within, watch_request};

/// How many numbers are written at most, and how often the worker is killed: about 200 MB, or, with the variable `TOOLGATE_CHAOS`,
/// a GB, which is a little less than a call may write by default.
fn size() -> (u64, usize) {
    match std::env::var_os("TOOLGATE_CHAOS") {
        None => (23_500_000, 2),
        Some(_) => (112_000_000, 5),
    }
}

/// How many bytes the numbers up to one take, each with its line feed.
fn length(numbers: u64) -> u64 {
    let (mut bytes, mut from) = (0, 1);
    for digits in 1.. {
        let until = (from * 10).min(numbers + 1);
        if from >= until {
            break;
        }
        bytes += (until - from) * (digits + 1);
        from *= 10;
    }
    bytes
}

/// The stream of numbers, compared piece by piece.
struct Numbers {
    /// The next line, from back to front.
    line: Vec<u8>,
    rest: Vec<u8>,
    seen: u64,
}

impl Default for Numbers {
    fn default() -> Self {
        Self {
            line: b"\n1".to_vec(),
            rest: Vec::new(),
            seen: 0,
        }
    }
}

impl Numbers {
    /// Adds a line. It is counted in the text: to write millions of numbers takes a test that is not optimised too long.
    fn grow(&mut self) {
        self.rest.extend(self.line.iter().rev());
        for digit in &mut self.line[1..] {
            if *digit < b'9' {
                *digit += 1;
                return;
            }
            *digit = b'0';
        }
        self.line.push(b'1');
    }

    fn compare(&mut self, piece: &[u8]) {
        while self.rest.len() < piece.len() {
            self.grow();
        }
        assert!(self.rest[..piece.len()] == *piece, "at {}", self.seen);
        self.rest.drain(..piece.len());
        self.seen += piece.len() as u64;
    }
}

async fn outputs(fleet: &Fleet, gateway: usize) -> OutputServiceClient<Authorized> {
    OutputServiceClient::with_interceptor(fleet.channel(gateway).await, Shown(ANNA, None))
}

/// Returns what a gateway knows of the output of a call, if there is one.
async fn output_of(outputs: &mut OutputServiceClient<Authorized>, call: &str) -> Option<Output> {
    let request = ListOutputsRequest {
        workspace: "-".to_owned(),
        call_id: call.to_owned(),
        ..ListOutputsRequest::default()
    };
    let listed = outputs.list_outputs(request).await.unwrap().into_inner();
    listed.outputs.into_iter().next()
}

/// Reads an output at a gateway, compares it, and returns how long it is.
async fn check(outputs: &mut OutputServiceClient<Authorized>, output: &Output) -> u64 {
    let request = ReadOutputRequest {
        output_id: output.output_id.clone(),
        range: None,
    };
    let (mut stream, mut numbers) = (
        outputs.read_output(request).await.unwrap().into_inner(),
        Numbers::default(),
    );
    while let Some(part) = stream.message().await.unwrap() {
        assert_eq!(part.offset as u64, numbers.seen);
        numbers.compare(&part.data);
    }
    numbers.seen
}

async fn killed_while_it_writes(fleet: &mut Fleet, round: usize, numbers: u64, dice: &mut Dice) {
    let (whole, id) = (length(numbers), format!("long-{round}"));
    let from = dice.roll(whole as usize * 9 / 10) as u64;
    let later = dice.moment(Duration::ZERO, Duration::from_millis(300));
    let input = json!({"command": format!("seq {numbers}; sleep 600"), "description": "Counts", "timeout": 600_000});
    let request = ExecuteToolRequest {
        call_id: id.clone(),
        output: OutputMode::None.into(),
        arguments: Some(execute_tool_request::Arguments::InputJson(input.to_string())),
        ..bash("wa", "")
    };
    let mut tools = fleet.tools(0, ANNA).await;
    let running = tools.execute_tool(request).await.unwrap().into_inner();
    let events = tokio::spawn(collect(running));
    let mut seen = outputs(fleet, 1).await;
    let mut bytes = 0;
    // It may take its time, as long as there is more each time.
    while bytes <= from {
        eventually("the output has grown", async || {
            let before = bytes;
            bytes = output_of(&mut seen, &id)
                .await
                .map_or(0, |output| output.total_bytes as u64);
            bytes > before
        })
        .await;
    }
    sleep(later).await;
    fleet.workers[0].kill9().await;
    let events = events.await.unwrap().unwrap();
    assert_eq!(events.iter().filter(|event| is_terminal(event)).count(), 1);
    let call = fleet.get(1, &id).await.unwrap();
    assert_eq!(failed(&call).reason(), FailureReason::Lost);
    let (one, other) = (dice.roll(2), dice.roll(2));
    let mut reader = outputs(fleet, one).await;
    let output = output_of(&mut reader, &id).await.unwrap();
    assert!(!output.complete, "its writer died");
    let kept = check(&mut reader, &output).await;
    println!("round {round}: killed at {bytes} of {whole}, {kept} are kept");
    assert_eq!(kept, output.total_bytes as u64);
    assert!((bytes..=whole).contains(&kept), "{kept}");
    let lost = lost_bytes(&call);
    assert!(kept + lost <= whole, "{kept} {lost}");
    check_log_of(fleet, other, &id, (kept, lost)).await;
    // The next run adds nothing, and takes nothing away.
    let home = fleet.home();
    fleet.workers[0].run(&home).await;
    fleet.ready().await;
    let found = output_of(&mut reader, &id).await.unwrap();
    assert_eq!(found.total_bytes, output.total_bytes);
}

/// Returns how much of its output a call that was lost says to be lost.
fn lost_bytes(call: &Call) -> u64 {
    let end = failed(call);
    let metadata = end.metadata.as_ref().unwrap();
    let Some(value) = metadata.fields.get("lost_output_bytes") else {
        assert!(!end.error.contains("bytes or more are lost"), "{}", end.error);
        return 0;
    };
    let Some(prost_types::value::Kind::NumberValue(bytes)) = value.kind else {
        panic!("{value:?}");
    };
    assert!(
        end.error.contains(&format!("the last {bytes} bytes or more are lost")),
        "{}",
        end.error
    );
    bytes as u64
}

/// Watches a call that was lost: its log has what is kept of the output, and then tells of more, of which it has nothing.
async fn check_log_of(fleet: &Fleet, gateway: usize, call: &str, (kept, lost): (u64, u64)) {
    let mut tools = fleet.tools(gateway, ANNA).await;
    let watched = tools.watch_call(watch_request(call, 0, OutputMode::Full)).await;
    let (mut watched, mut numbers, mut last) = (watched.unwrap().into_inner(), Numbers::default(), 0);
    // Whether events were left out, and how many bytes of them the gateways have.
    let (mut is_cut, mut left_out) = (false, 0);
    while let Some(response) = watched.message().await.unwrap() {
        let Some(event) = response.event.filter(|event| event.sequence > 0) else {
            continue;
        };
        match event.event.unwrap() {
            Event::Output(output) => {
                let expected = (false, last + 1);
                assert_eq!((is_cut, event.sequence), expected, "what is missing is behind the rest");
                numbers.compare(&output.data);
            }
            Event::Gap(gap) => {
                assert_eq!(gap.first_sequence, last + 1);
                is_cut = true;
                left_out += gap.output_bytes as u64;
            }
            _ => assert_eq!(event.sequence, last + 1),
        }
        last = event.sequence;
    }
    println!(
        "its log has {} of them, {left_out} are beside it, and {lost} are lost",
        numbers.seen
    );
    assert_eq!(is_cut, lost > 0);
    assert!(numbers.seen + left_out <= kept);
    // The last event before may be kept in part.
    assert!(!is_cut || numbers.seen + left_out == kept && left_out < (64 << 10));
}

#[test]
fn what_is_kept_of_a_long_output_is_exact_and_no_more() {
    test_within(Duration::from_secs(1_800), async {
        let mut dice = Dice(seed("TOOLGATE_OUTPUT_SEED"));
        let (numbers, kills) = size();
        let s3 = S3::start(false).await;
        let plan = Plan {
            bucket: Some(s3.endpoint(None)),
            ..Plan::default()
        };
        let mut fleet = Fleet::of(plan).await;
        for round in 0..kills {
            killed_while_it_writes(&mut fleet, round, numbers, &mut dice).await;
        }
        assert!(s3.names("fleet").len() > 2, "parts are in the bucket");
        fleet.assert_calm();
    });
}
