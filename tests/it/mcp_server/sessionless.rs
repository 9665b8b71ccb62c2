//! A client of the revision without sessions: each request stands for itself, and what a call needs is the answer to it.

use reqwest::StatusCode;
use serde_json::{Map, Value, json};
use toolgate_contract::FailureReason;

use super::client::http;
use crate::support::*;

const VERSION: &str = "2026-07-28";

/// The client, which shows forms.
pub(crate) struct Sessionless {
    url: String,
    token: &'static str,
}

/// What it is told.
#[derive(Debug)]
pub(crate) struct Answer(Value);

impl Sessionless {
    /// Makes a client of `/mcp`; the token is empty if none is wanted.
    pub(crate) fn new(url: String, token: &'static str) -> Self {
        Self { url, token }
    }

    /// Calls a tool, or goes on with a call that waits: with its state, and what the client brings.
    pub(crate) async fn call(&self, tool: &str, input: &Value, goes_on: Option<&(String, Value)>) -> Answer {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": VERSION,
            "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
            "io.modelcontextprotocol/clientInfo": {"name": "sessionless", "version": "1"},
        });
        let mut params = json!({"name": tool, "arguments": input, "_meta": meta});
        if let Some((state, responses)) = goes_on {
            params["requestState"] = json!(state);
            params["inputResponses"] = responses.clone();
        }
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let mut request = http()
            .post(&self.url)
            .header("accept", "application/json, text/event-stream")
            .header("content-type", "application/json")
            .header("mcp-protocol-version", VERSION)
            .header("mcp-method", "tools/call")
            .header("mcp-name", tool);
        if !self.token.is_empty() {
            request = request.bearer_auth(self.token);
        }
        let response = request.body(body.to_string()).send().await.unwrap();
        let (status, text) = (response.status(), response.text().await.unwrap());
        let lines = text.lines().map(|line| line.strip_prefix("data:").unwrap_or(line));
        let mut messages = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let answer = messages.find(|message| message["id"] == 1);
        Answer(answer.unwrap_or_else(|| panic!("HTTP {status}, and no answer: {text}")))
    }
}

impl Answer {
    /// The call waits: its state, and answers that approve what it asks for.
    pub(crate) fn wants(&self) -> (String, Value) {
        let result = self.result();
        assert_eq!(result["resultType"], "input_required", "{result}");
        let requests = result["inputRequests"].as_object().unwrap();
        let approve = |key: &String| {
            let answer = json!({"action": "accept", "content": {"decision": "once"}});
            (key.clone(), answer)
        };
        let answers: Map<String, Value> = requests.keys().map(approve).collect();
        (
            result["requestState"].as_str().unwrap().to_owned(),
            Value::Object(answers),
        )
    }

    pub(crate) fn result(&self) -> &Value {
        assert!(self.0["error"].is_null(), "{self:?}");
        &self.0["result"]
    }

    pub(crate) fn error(&self) -> &str {
        self.0["error"]["message"]
            .as_str()
            .unwrap_or_else(|| panic!("{self:?}"))
    }
}

/// What runs a command.
pub(crate) fn input(command: &str) -> Value {
    json!({"command": command, "description": "Tests"})
}

#[test]
fn a_call_that_waits_ends_with_the_service() {
    test(async {
        let mut server = Server::with(super::asking().env("TOOLGATE_DRAIN_GRACE", "300ms")).await;
        let url = |server: &Server| format!("http://{}/mcp", server.tcp.as_ref().unwrap());
        let client = Sessionless::new(url(&server), "");
        let wanted = input("touch made");
        let waits = client.call("bash", &wanted, None).await.wants();
        let prompts = server.prompts(list_all()).await;
        let [prompt] = &prompts[..] else { panic!("{prompts:?}") };
        server.stop().await;
        server.restart().await;
        // The port is another one, too.
        let client = Sessionless::new(url(&server), "");
        let refused = client.call("bash", &wanted, Some(&waits)).await;
        assert!(
            refused.error().contains("make the request again without it"),
            "{refused:?}"
        );
        let call = server.get(&prompt.call_id).await;
        let ended = failed(&call);
        assert!(
            [FailureReason::Drained, FailureReason::Cancelled].contains(&ended.reason()),
            "{ended:?}"
        );
        eventually("nobody is asked any more", async || {
            server.prompts(list_all()).await.is_empty()
        })
        .await;
        assert!(!server.work().join("made").exists());
        // Made again, it works.
        let waits = client.call("bash", &wanted, None).await.wants();
        let done = client.call("bash", &wanted, Some(&waits)).await;
        assert_eq!(done.result()["isError"], false, "{done:?}");
        assert!(server.work().join("made").exists());
        server.assert_calm();
    });
}

#[test]
fn what_is_no_state_is_refused() {
    test(async {
        let server = Server::with(super::asking()).await;
        let url = format!("http://{}/mcp", server.tcp.as_ref().unwrap());
        let client = Sessionless::new(url.clone(), "");
        for state in ["", "0", "../../etc/passwd", &"x".repeat(10_000)] {
            let made_up = (state.to_owned(), json!({}));
            let refused = client.call("bash", &input("true"), Some(&made_up)).await;
            assert!(refused.error().contains("requestState"), "{refused:?}");
        }
        let other = http().post(&url).header("mcp-protocol-version", VERSION).body("{");
        assert_ne!(other.send().await.unwrap().status(), StatusCode::OK);
        server.assert_calm();
    });
}
