//! What operators see of a gateway, and what it bounds.

use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio::time::timeout;
use tonic::codegen::http::Request as HttpRequest;
use tonic::{Code, Request, Status};
use toolgate_contract::*;
use tower::ServiceExt as _;

use super::setup::*;
use crate::support::{collect, eventually, is_output, next_such, test, waiting};
use crate::telemetry::{self, Collector, get, value};

#[test]
fn metrics_follow_what_passes() {
    test(async {
        let mut fleet = Fleet::with("telemetry.admin = \"127.0.0.1:0\"").await;
        let admin = fleet.gateway.admin.clone().unwrap();
        let metrics = async || get(&admin, "/metrics").await.unwrap().1;
        let made = fleet.run(ANNA, "wb", "true").await.unwrap().call_id;
        let request = GetCallRequest { call_id: made };
        for _ in 0..2 {
            fleet.tools(ANNA).get_call(request.clone()).await.unwrap();
        }
        let nobody = GetCallRequest {
            call_id: "nobody".to_owned(),
        };
        fleet.tools(ANNA).get_call(nobody).await.unwrap_err();
        let command = bash("wc", "echo begun; sleep 100");
        let mut stream = fleet.tools(ANNA).execute_tool(command).await.unwrap().into_inner();
        next_such(&mut stream, is_output).await;
        let text = metrics().await;
        let (run, look) = ("toolgate.v1.ToolService/RunTool", "toolgate.v1.ToolService/GetCall");
        for (series, number) in [
            (
                format!("toolgate_gateway_requests_total{{rpc=\"{run}\",outcome=\"passed\"}}"),
                1.0,
            ),
            (
                format!("toolgate_gateway_requests_total{{rpc=\"{look}\",outcome=\"passed\"}}"),
                3.0,
            ),
            (
                format!("toolgate_rpc_seconds_count{{rpc=\"{look}\",code=\"NOT_FOUND\"}}"),
                1.0,
            ),
            (
                "toolgate_streams{rpc=\"toolgate.v1.ToolService/ExecuteTool\"}".to_owned(),
                1.0,
            ),
            ("toolgate_gateway_lookups_total{outcome=\"found\"}".to_owned(), 1.0),
            ("toolgate_gateway_lookups_total{outcome=\"remembered\"}".to_owned(), 1.0),
            ("toolgate_gateway_lookups_total{outcome=\"missing\"}".to_owned(), 1.0),
            ("toolgate_gateway_worker_up{worker=\"c\"}".to_owned(), 1.0),
            ("toolgate_gateway_routing_seconds_count".to_owned(), 5.0),
        ] {
            assert_eq!(value(&text, &series), number, "{series} in\n{text}");
        }
        assert!(
            value(&text, "toolgate_gateway_worker_streams{worker=\"c\"}") >= 1.0,
            "{text}"
        );

        let home = fleet.home();
        fleet.workers[2].kill9().await;
        fleet.run(ANNA, "wc", "true").await.unwrap_err();
        eventually("it is told that the worker is away", async || {
            value(&metrics().await, "toolgate_gateway_worker_up{worker=\"c\"}") == 0.0
        })
        .await;
        fleet.workers[2].run(&home).await;
        collect(stream).await.unwrap();
        let text = metrics().await;
        let gone = format!("toolgate_gateway_requests_total{{rpc=\"{run}\",outcome=\"worker_gone\"}}");
        assert!(value(&text, &gone) >= 1.0, "{text}");
        assert_eq!(
            value(&text, "toolgate_gateway_reattachments_total{outcome=\"attached\"}"),
            1.0,
            "{text}"
        );
        let mut own = telemetry::series(&text);
        own.retain(|name, _| name.starts_with("toolgate_gateway_"));
        let mut listed = telemetry::listed("gateway-metrics.txt");
        // This one has no database.
        let of_fleets = [
            "toolgate_gateway_store_up",
            "toolgate_untold",
            "toolgate_gateway_workers_unbound",
            "toolgate_gateway_sequencer_lag_seconds",
            "toolgate_gateway_leases_expired_total",
            "toolgate_gateway_calls_lost_total",
            "toolgate_gateway_workspaces_created",
        ];
        for name in of_fleets {
            listed.remove(name);
        }
        assert_eq!(own, listed, "what it has, and the list");
        fleet.assert_calm();
    });
}

#[test]
fn one_trace_goes_from_the_client_to_the_tool() {
    test(async {
        let (collector, endpoint) = Collector::start();
        let fleet = Fleet::with_both("", &format!("telemetry.otlp_endpoint = \"{endpoint}\"")).await;
        let trace = "0af7651916cd43dd8448eb211c80319c";
        let mut request = Request::new(bash("wc", "true"));
        let parent = format!("00-{trace}-b7ad6b7169203331-01");
        request.metadata_mut().insert("traceparent", parent.parse().unwrap());
        let stream = fleet.tools(ANNA).execute_tool(request).await.unwrap().into_inner();
        collect(stream).await.unwrap();
        let remote = [0xb7, 0xad, 0x6b, 0x71, 0x69, 0x20, 0x33, 0x31];
        let name = "toolgate.v1.ToolService/ExecuteTool";
        let at_gateway = collector.span(name, &remote).await;
        let at_worker = collector.span(name, &at_gateway.span_id).await;
        let call = collector.span("execute_tool bash", &at_worker.span_id).await;
        let id: String = call.trace_id.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(id, trace);
        assert!(at_gateway.trace_id == call.trace_id && at_worker.trace_id == call.trace_id);
        fleet.assert_calm();
    });
}

#[test]
fn half_a_first_message_is_not_waited_for() {
    test(async {
        let fleet = Fleet::with_both("", "listen.request_timeout = \"2s\"").await;
        for (address, token) in [(&fleet.gateway.address, ANNA), (&fleet.workers[0].address, LOCAL)] {
            let head = format!(
                "POST /toolgate.v1.ToolService/GetCall HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\
                 Content-Type: application/grpc-web+proto\r\nContent-Length: 21\r\n\r\n"
            );
            let mut client = TcpStream::connect(address).await.unwrap();
            client
                .write_all(&[head.as_bytes(), b"\0\0\0\0\x10half"].concat())
                .await
                .unwrap();
            let mut answer = String::new();
            let read = timeout(Duration::from_secs(20), async {
                while !answer.contains("grpc-status") {
                    answer.push(char::from(client.read_u8().await.unwrap()));
                }
            });
            read.await.expect("it is not waited for");
            let mut rest = vec![0; 400];
            let more = timeout(Duration::from_secs(20), client.read(&mut rest))
                .await
                .unwrap()
                .unwrap();
            answer.push_str(&String::from_utf8_lossy(&rest[..more]));
            assert!(
                answer.contains("grpc-status: 4") || answer.contains("grpc-status:4"),
                "{answer}"
            );
            assert!(answer.contains("listen.request_timeout"), "{answer}");
        }
        // What comes at once, and goes on for longer, is none of that.
        let call = fleet.run(ANNA, "wc", "sleep 3; echo done").await.unwrap();
        assert_eq!(crate::support::completed(&call).output, "done\n");
        fleet.assert_calm();
    });
}

#[test]
fn browsers_and_newer_clients_are_told_what_is_here() {
    test(async {
        let fleet = Fleet::start().await;
        let page = crate::ports::client().get(format!("http://{}/", fleet.gateway.address));
        let page = page.send().await.unwrap();
        assert_eq!(page.status(), 404);
        let text = page.text().await.unwrap();
        assert!(text.contains("--console"), "{text}");
        let request = HttpRequest::post("/toolgate.v1.ToolService/NewerThanThis")
            .header("content-type", "application/grpc")
            .header("authorization", format!("Bearer {ANNA}"))
            .body(tonic::body::Body::empty())
            .unwrap();
        let answer = fleet.channel.clone().oneshot(request).await.unwrap();
        let status = Status::from_header_map(answer.headers()).unwrap();
        assert_eq!(status.code(), Code::Unimplemented, "{status:?}");
        assert!(status.message().contains("no such RPC"), "{status:?}");
    });
}

#[test]
fn one_command_answers_the_prompts_of_all_workspaces() {
    test(async {
        let fleet = Fleet::start().await;
        let mut calls = Vec::new();
        for workspace in ["wa", "wb"] {
            let call = fleet.tools(ANNA).execute_tool(bash(workspace, "echo ask")).await;
            let mut call = call.unwrap().into_inner();
            waiting(&mut call).await;
            calls.push(call);
        }
        let mut approve = Command::new(env!("CARGO_BIN_EXE_toolgate"))
            .args(["--json", "approve", "--all", "--server"])
            .arg(format!("http://{}", fleet.gateway.address))
            .env_clear()
            .env("HOME", fleet.home())
            .env("TOOLGATE_TOKEN", CARL)
            .current_dir(fleet.home())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut told = BufReader::new(approve.stdout.take().unwrap()).lines();
        let mut replies = approve.stdin.take().unwrap();
        let mut workspaces = Vec::new();
        while workspaces.len() < 2 {
            let line = told.next_line().await.unwrap().expect("it goes on");
            let message: Value = serde_json::from_str(&line).unwrap();
            let prompt = &message["promptAdded"]["prompt"];
            if prompt.is_null() {
                continue;
            }
            workspaces.push(prompt["workspace"].as_str().unwrap().to_owned());
            let reply = json!({
                "promptId": prompt["promptId"], "inputDigest": prompt["inputDigest"], "decision": "PROMPT_DECISION_ONCE",
            });
            replies.write_all(format!("{reply}\n").as_bytes()).await.unwrap();
        }
        drop(replies);
        workspaces.sort();
        assert_eq!(workspaces, ["wa", "wb"]);
        for call in calls {
            let events = collect(call).await.unwrap();
            let end = events.last().unwrap().event.as_ref();
            assert!(matches!(end, Some(call_event::Event::Completed(_))), "{events:?}");
        }
        let both = approve.wait().await.unwrap();
        assert_eq!(both.code(), Some(0));
        fleet.assert_calm();
    });
}
