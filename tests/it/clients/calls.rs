//! Calls: the same output over connections that break, cancellation, and the death of the server.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use serde_json::json;
use tokio::time::timeout;
use toolgate_contract::call_event::Event;
use toolgate_contract::{
    Call, CallEvent, CallState, ExecuteToolRequest, FailureReason, GetCallRequest, GetCallResponse, ListCallsRequest,
    ListToolsRequest, call, execute_tool_request::Arguments,
};

use super::driver::{DriverError, pack, unpack};
use super::{Client, collect, for_each_language};
use crate::support::*;

for_each_language!(
    output_is_whole_over_connections_that_break,
    what_is_cancelled_leaves_no_program,
    a_killed_server_means_a_lost_call,
    errors_of_the_service_keep_their_code_and_reason,
    a_failed_call_is_a_result,
    a_wrong_token_is_refused,
);

/// Executions over the connections that break, and how many at once.
const EXECUTIONS: usize = 100;
const AT_ONCE: usize = 10;

async fn output_is_whole_over_connections_that_break(language: &str) {
    let server = Server::with(Setup::tcp()).await;
    let address = server.tcp.clone().unwrap();
    let random = Random::new(8);
    let shaky = Shaky::before(&address, random).await;
    let client = Client::to(language, &format!("http://{}", shaky.address)).await;
    let script = r#"for i in $(seq 1 20); do printf "$1 %s: %02000d\n" "$i" "$i"; sleep 0.02; done"#;
    for begin in (0..EXECUTIONS).step_by(AT_ONCE) {
        let mut running = Vec::new();
        for number in begin..begin + AT_ONCE {
            let request = kept(&format!("call-{number}"), bash(&format!("set -- {number}; {script}")));
            running.push((number, client.execute(&request)));
        }
        for (number, mut reports) in running {
            let (events, ending) = collect(&mut reports).await;
            check_log(0, &events);
            let expected: String = (1..=20).map(|i| format!("{number} {i}: {i:02000}\n")).collect();
            assert!(
                output_of(&events) == expected.as_bytes(),
                "{language}: the output of call {number}"
            );
            assert_eq!(end_of(&events), ending, "{language}: call {number}");
            assert!(matches!(ending, call::Ending::Completed(_)), "{language}: {ending:?}");
        }
    }
    assert!(shaky.cuts() > 10, "only {} connections were cut", shaky.cuts());
    let all = ListCallsRequest {
        page_size: 500,
        ..ListCallsRequest::default()
    };
    let begun = server.tools().list_calls(all).await.unwrap().into_inner().calls;
    assert_eq!(begun.len(), EXECUTIONS, "{language}: no call was made twice");
}

async fn what_is_cancelled_leaves_no_program(language: &str) {
    let server = Server::start().await;
    let client = Client::of(language, &server).await;
    for (seconds, way) in [("86420", "cancel"), ("86421", "interrupt")] {
        let command = format!("echo begun; sleep {seconds}.{}", language.len());
        let request = ExecuteToolRequest {
            call_id: way.to_owned(),
            ..bash(&command)
        };
        let mut reports = client.execute(&request);
        loop {
            let report = reports.next().await.unwrap().unwrap();
            let event: CallEvent = unpack(&report["event"]).unwrap();
            if event.event.as_ref().is_some_and(is_output) {
                break;
            }
        }
        client.ask(way, json!({"execution": reports.id})).await.unwrap();
        match reports.done().await {
            Ok(done) => {
                let call: Call = unpack(&done["call"]).unwrap();
                assert_eq!(failed(&call).reason(), FailureReason::Cancelled, "{language}: {way}");
            }
            Err(error) => {
                let error: &DriverError = error.downcast_ref().unwrap();
                assert_eq!(
                    (way, error.code.as_str()),
                    ("interrupt", "CANCELLED"),
                    "{language}: {error}"
                );
            }
        }
        eventually("the call is cancelled", async || {
            let call = server.get(way).await;
            call.state() == CallState::Failed && failed(&call).reason() == FailureReason::Cancelled
        })
        .await;
        gone(&command).await;
    }
}

async fn a_killed_server_means_a_lost_call(language: &str) {
    let mut server = Server::start().await;
    let client = Client::of(language, &server).await;
    let mut reports = client.execute(&kept("doomed", bash("echo begun; sleep 97531")));
    let mut seen = Vec::new();
    loop {
        let report = reports.next().await.unwrap().unwrap();
        let event: CallEvent = unpack(&report["event"]).unwrap();
        let is_begun = event.event.as_ref().is_some_and(is_output);
        seen.push(event);
        if is_begun {
            break;
        }
    }
    server.kill9().await;
    server.restart().await;
    let (events, ending) = collect(&mut reports).await;
    seen.extend(events);
    check_log(0, &seen);
    match ending {
        call::Ending::Failed(failed) => assert_eq!(failed.reason(), FailureReason::Lost, "{language}"),
        call::Ending::Completed(_) => panic!("{language}: it was lost"),
    }
    assert_eq!(output_of(&seen), b"begun\n", "{language}");
}

async fn errors_of_the_service_keep_their_code_and_reason(language: &str) {
    let server = Server::start().await;
    let client = Client::of(language, &server).await;
    let request = GetCallRequest {
        call_id: "nobody-made-it".to_owned(),
    };
    let method = "toolgate.v1.ToolService/GetCall";
    let error = client
        .ask("unary", json!({"method": method, "request": pack(&request)}))
        .await;
    let expected = server.tools().get_call(request).await.unwrap_err();
    let info = tonic_types::StatusExt::get_details_error_info(&expected).unwrap();
    let error = error.unwrap_err();
    let error: &DriverError = error.downcast_ref().unwrap();
    assert_eq!(
        (error.code.as_str(), error.reason.as_str()),
        ("NOT_FOUND", info.reason.as_str()),
        "{language}"
    );
    assert!(error.message.contains(expected.message()), "{language}: {error}");

    let mut nameless = bash("true");
    nameless.tool.clear();
    let error = client.execute(&nameless).done().await.unwrap_err();
    let error: &DriverError = error.downcast_ref().unwrap();
    assert_eq!(error.code, "INVALID_ARGUMENT", "{language}: {error}");
}

async fn a_failed_call_is_a_result(language: &str) {
    let server = Server::with(Setup::permission(json!({"bash": {"*": "allow", "touch *": "deny"}}))).await;
    let client = Client::of(language, &server).await;
    let (events, ending) = collect(&mut client.execute(&kept("denied", bash("touch a")))).await;
    assert_eq!(end_of(&events), ending);
    let call::Ending::Failed(failed) = ending else {
        panic!("{language}: a denied call has no result");
    };
    assert_eq!(failed.reason(), FailureReason::Denied, "{language}");
    let raw = ExecuteToolRequest {
        arguments: Some(Arguments::InputJson(
            "{\"command\": \"echo é\", \"description\": \"d\", }".to_owned(),
        )),
        ..kept("malformed", bash(""))
    };
    let (events, _) = collect(&mut client.execute(&raw)).await;
    let Some(Event::Pending(pending)) = &events[0].event else {
        panic!("{language}: {events:?}");
    };
    assert_eq!(
        pending.tool, "invalid",
        "{language}: the text reaches the service as it was written"
    );
    let malformed = ExecuteToolRequest {
        call_id: "malformed-again".to_owned(),
        ..raw.clone()
    };
    let unknown = ExecuteToolRequest {
        tool: "no_such_tool".to_owned(),
        ..kept("unknown", bash("true"))
    };
    let cases = [(kept("done", bash("true")), true), (malformed, false), (unknown, false)];
    for (request, expected) in cases {
        let done = client.execute(&request).done().await.unwrap();
        assert_eq!(done["ok"], json!(expected), "{language}: {}", request.call_id);
        // The record keeps what the model reads.
        let call: Call = unpack(&done["call"]).unwrap();
        assert!(
            matches!(call.ending, Some(call::Ending::Completed(_))),
            "{language}: {call:?}"
        );
    }
    let request = GetCallRequest {
        call_id: "denied".to_owned(),
    };
    let command = json!({"method": "toolgate.v1.ToolService/GetCall", "request": pack(&request)});
    let got: GetCallResponse = unpack(&client.ask("unary", command).await.unwrap()["response"]).unwrap();
    assert_eq!(
        got.call.unwrap().ending,
        Some(call::Ending::Failed(failed)),
        "{language}"
    );
}

async fn a_wrong_token_is_refused(language: &str) {
    let folder = tempfile::TempDir::new().unwrap();
    let file = folder.path().join("tokens");
    fs::write(&file, "alice alice-alice-alice-alice *\n").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let setup = Setup::tcp().env("TOOLGATE_AUTH_TOKENS_FILE", file.to_str().unwrap());
    let server = Server::with(setup).await;
    let client = Client::of(language, &server).await;
    let target = super::target(&server);
    let both = [
        ("right", "alice-alice-alice-alice"),
        ("wrong", "bob-bob-bob-bob-bob-bob-bob"),
    ];
    for (name, token) in both {
        let command = json!({"client": name, "target": target, "token": token});
        client.driver.ask("connect", command).await.unwrap();
        let request = ListToolsRequest::default();
        let listed = client
            .driver
            .ask("tools", json!({"client": name, "request": pack(&request)}));
        let listed = timeout(Duration::from_secs(20), listed)
            .await
            .expect("a refusal is not tried again");
        match listed {
            Ok(_) => assert_eq!(name, "right", "{language}"),
            Err(error) => {
                let error: &DriverError = error.downcast_ref().unwrap();
                assert_eq!(
                    (name, error.code.as_str()),
                    ("wrong", "UNAUTHENTICATED"),
                    "{language}: {error}"
                );
            }
        }
    }
}
