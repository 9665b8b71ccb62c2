//! Limits on what comes: requests per second, streams, messages, inputs, prompts.

use reqwest::StatusCode;
use serde_json::json;
use tonic_health::pb::HealthCheckRequest;

use super::*;

fn measured<const N: usize>(limits: [(&'static str, &str); N]) -> Setup {
    limited(limits).env("TOOLGATE_TELEMETRY_ADMIN", "127.0.0.1:0")
}

#[test]
fn whoever_asks_too_often_is_told_when_to_come_back() {
    test(async {
        let setup = Setup {
            tcp: true,
            ..measured([("max_requests_per_second", "2"), ("max_request_burst", "5")])
        };
        let server = Server::with(setup).await;
        let ask = async || server.info().get_server_info(GetServerInfoRequest {}).await;
        let mut results = Vec::new();
        for _ in 0..8 {
            results.push(ask().await);
        }
        let refusal = results
            .into_iter()
            .find(Result::is_err)
            .expect("eight are more than five");
        let details = refused_by(refusal, "TOO_MANY_REQUESTS", "max_requests_per_second", "2");
        let wait = details.retry_info().unwrap().retry_delay.unwrap();
        assert!(!wait.is_zero() && wait.as_millis() <= 500, "{wait:?}");
        assert!(refusals(&server, "max_requests_per_second").await > 0);
        // Probes are answered all the same.
        for _ in 0..10 {
            server.health().check(HealthCheckRequest::default()).await.unwrap();
        }
        let client = http();
        let url = format!("http://{}/mcp", server.tcp.as_ref().unwrap());
        let mut status = StatusCode::OK;
        for _ in 0..8 {
            let response = client.post(&url).body("{}").send().await.unwrap();
            status = response.status();
            if status == StatusCode::TOO_MANY_REQUESTS {
                assert_eq!(response.headers()["retry-after"], "1");
                assert!(
                    response
                        .text()
                        .await
                        .unwrap()
                        .contains("limits.max_requests_per_second")
                );
                break;
            }
        }
        assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
        eventually("there is room again", async || ask().await.is_ok()).await;
    });
}

#[test]
fn streams_are_counted_while_they_are_open() {
    test(async {
        for key in ["max_streams", "max_streams_per_principal"] {
            let server = Server::with(measured([(key, "2")])).await;
            let watch = async || server.sessions().watch_events(WatchEventsRequest::default()).await;
            let first = watch().await.unwrap();
            let _second = watch().await.unwrap();
            let details = refused_by(watch().await.map(drop), "TOO_MANY_STREAMS", key, "2");
            assert!(details.retry_info().unwrap().retry_delay.is_some());
            assert_eq!(refusals(&server, key).await, 1);
            // What is no stream goes on.
            server
                .run("bash", json!({"command": "true", "description": "a test"}))
                .await;
            drop(first);
            eventually("there is room again", async || watch().await.is_ok()).await;
        }
    });
}

#[test]
fn more_streams_than_a_connection_carries_wait_in_the_client() {
    test(async {
        let server = Server::with(limited([("max_streams_per_connection", "2")])).await;
        let watch = async || server.sessions().watch_events(WatchEventsRequest::default()).await;
        let first = watch().await.unwrap();
        let _second = watch().await.unwrap();
        let mut info = server.info();
        let third = tokio::spawn(async move { info.get_server_info(GetServerInfoRequest {}).await.map(drop) });
        let other = server.connect().await;
        let mut tools = tools(other);
        tools.list_tools(ListToolsRequest::default()).await.unwrap();
        assert!(!third.is_finished());
        drop(first);
        third.await.unwrap().unwrap();
    });
}

#[test]
fn messages_and_inputs_have_their_sizes() {
    test(async {
        let limits = [("max_input_bytes", "4KiB"), ("max_message_bytes", "64KiB")];
        let server = Server::with(measured(limits)).await;
        let info = server.info().get_server_info(GetServerInfoRequest {}).await.unwrap();
        let told = info.into_inner().limits.unwrap();
        assert_eq!((told.max_input_bytes, told.max_message_bytes), (4 << 10, 64 << 10));
        let sized = |bytes: usize| bash(&format!("true {}", "x".repeat(bytes)));
        let large = server.execute(sized(5 << 10)).await;
        let details = refused_by(large, "INPUT_TOO_LARGE", "max_input_bytes", "4096");
        assert!(details.retry_info().is_none(), "it stays too large");
        assert_eq!(refusals(&server, "max_input_bytes").await, 1);
        // The transport has no words of ours.
        let status = server.execute(sized(70 << 10)).await.unwrap_err();
        assert_eq!(status.code(), Code::OutOfRange, "{status:?}");
        assert!(status.message().contains("message length too large"), "{status:?}");
        server.execute(sized(3 << 10)).await.unwrap();
    });
}

#[test]
fn a_call_that_would_ask_too_much_ends() {
    test(async {
        for key in ["max_open_prompts", "max_open_prompts_per_session"] {
            let setup = Setup::permission(json!({ "bash": "ask" })).env("TOOLGATE_TELEMETRY_ADMIN", "127.0.0.1:0");
            let server = Server::with(with(setup, (key, "1"))).await;
            let asks = |id: &str| in_session("s", kept(id, bash(&format!("echo {id}"))));
            let mut first = server.tools().execute_tool(asks("first")).await.unwrap().into_inner();
            let prompt = waiting(&mut first).await;
            let call = run(&mut server.tools(), run_request(asks("second"))).await.unwrap();
            let end = failed(&call);
            assert_eq!(end.reason(), FailureReason::Quota);
            let text = format!("1 prompts are waiting for one already, which is as many as limits.{key} allows");
            assert!(end.error.contains(&text), "{}", end.error);
            assert_eq!(refusals(&server, key).await, 1);
            let question = json!({"questions": [{
                "header": "h", "question": "q?", "options": [{"label": "a", "description": "d"}],
            }]});
            let asked = in_session("s", request("question", question));
            let call = run(&mut server.tools(), run_request(asked)).await.unwrap();
            assert_eq!(failed(&call).reason(), FailureReason::Quota, "{call:?}");

            let once = ReplyPromptRequest {
                reply: Some(reply(&prompt, PromptDecision::Once)),
                name: String::new(),
            };
            server.permissions().reply_prompt(once).await.unwrap();
            collect(first).await.unwrap();
            let mut third = server.tools().execute_tool(asks("third")).await.unwrap().into_inner();
            waiting(&mut third).await;
        }
    });
}
