//! `port`: keeps a port of another call's program open for a person at a front end. PortService makes these calls; models are
//! not told of the tool.
//!
//! *Invariant:* nothing is opened before it was allowed, and nothing but ports of calls of the same workspace. The tool does not
//! come back by itself after a restart, since what it led to is gone.

use std::num::NonZeroU16;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_model::{Ask, CallId, Effect, ListeningPort, OutputText, ToolOutput, json_map};
use toolgate_process::{CallPort, Programs};
use toolgate_tool::{About, Offer, Outline, Properties, ToolContext, ToolError, TypedTool};

use crate::ports::{OpenPorts, as_port};

/// How often it is looked whether anything of the call still runs.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long connections may go on when all programs of the call have ended: what these sent last may not have been read yet.
const LINGER: Duration = Duration::from_secs(5);

/// The tool.
#[derive(Clone)]
pub struct Port {
    programs: Programs,
    ports: OpenPorts,
}

impl Port {
    /// Makes it; what it opens is in `ports`.
    pub fn new(programs: Programs, ports: OpenPorts) -> Self {
        Self { programs, ports }
    }
}

/// Its arguments.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct Input {
    /// The id of the call whose program listens
    pub call: String,
    /// The TCP port that it listens on
    pub port: NonZeroU16,
}

#[async_trait]
impl TypedTool for Port {
    type Input = Input;

    const ABOUT: About = About {
        name: "port",
        effects: &[Effect::Network],
        permissions: &["port"],
        advertised: false,
        properties: Properties {
            foreseeable: true,
            for_people: true,
            ..Properties::NONE
        },
        example: r#"{"call": "0198b1de-4a3c-7d1f-9a55-0c9a6a1d1b6e", "port": 3000}"#,
    };

    fn description(&self, _offer: &Offer<'_>) -> String {
        include_str!("port.md").trim_end().to_owned()
    }

    fn outline(&self, input: &Value) -> Outline {
        Outline::of(input, &["port", "call"])
    }

    async fn run(&self, input: Input, ctx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let number = input.port.get();
        let target = ctx.program.call_to_reach(&CallId::new(input.call)).await?;
        let port = CallPort::new(self.programs.clone(), target.as_str(), number);
        let listening = find(&port, &target, number, ctx).await?;
        ctx.permission.ask(ask(&target, &listening)).await?;
        // It may have taken long to be allowed.
        find(&port, &target, number, ctx).await?;
        if ctx.cancelled.is_cancelled() {
            return Err(ToolError::Cancelled);
        }
        let owner = ctx.origin.requester.clone();
        let opened = self.ports.open(ctx.call.clone(), owner, port.clone(), number);
        tokio::select! {
            () = ctx.cancelled.cancelled() => {}
            () = ended(&port) => {
                tokio::select! {
                    () = ctx.cancelled.cancelled() => {}
                    () = tokio::time::sleep(LINGER) => {}
                    () = opened.is_idle() => {}
                }
            }
        }
        let closed = opened.close().await;
        let traffic = closed.traffic();
        let [connections, sent, received] =
            [&traffic.connections, &traffic.sent, &traffic.received].map(|count| count.load(Ordering::Relaxed));
        Ok(ToolOutput {
            title: format!("Port {number}"),
            output: OutputText::Text(format!(
                "Port {number} of the call {target} was open. Connections: {connections}. Bytes to the program: {sent}. \
                 Bytes from the program: {received}."
            )),
            metadata: json_map([
                ("call", json!(target.name())),
                ("port", json!(number)),
                ("connections", json!(connections)),
                ("bytesSent", json!(sent)),
                ("bytesReceived", json!(received)),
            ]),
            attachments: Vec::new(),
            result: None,
        })
    }
}

/// Returns what listens there.
async fn find(port: &CallPort, target: &CallId, number: u16, ctx: &ToolContext) -> Result<ListeningPort, ToolError> {
    if let Some(listening) = port.listening().await {
        return Ok(as_port(listening));
    }
    let metadata = json_map([("problem", json!("NOT_LISTENING"))]);
    ctx.output.progress(None, metadata).await;
    Err(ToolError::failed(format!(
        "No program of the call {target} listens on port {number} at an address of this machine that is reached from here, or \
         programs of others listen there as well."
    )))
}

/// Returns what is asked before a port is opened.
fn ask(target: &CallId, listening: &ListeningPort) -> Ask {
    let number = listening.port.to_string();
    Ask {
        title: format!("Connect to port {number} of: {}", listening.command),
        always: vec![number.clone()],
        metadata: json_map([
            ("call", json!(target.name())),
            ("port", json!(listening.port)),
            ("address", json!(listening.address)),
            ("pid", json!(listening.pid)),
            ("command", json!(listening.command)),
        ]),
        ..Ask::new("port", vec![number])
    }
}

/// Waits until nothing of the call runs any more.
async fn ended(port: &CallPort) {
    while port.is_of_running_call() {
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
