//! MCP servers: real ones, faulty ones, and what the service promises about them.

mod by_itself;
mod claims;
mod coming;
mod faulty;
mod follow;
mod hostile;
mod itself;
mod life;
mod login;
mod odd;
mod offers;
mod real;
mod remote;
mod resources;
mod signing_in;
mod web;

use serde_json::{Map, Value, json};
use toolgate_contract::*;

use crate::support::*;

/// What a server that is a program is configured with; `how` is what `server.py` is to do.
fn faulty_server(how: &str) -> Value {
    local(&["python3", SCRIPT, how])
}

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/mcp/server.py");

fn local(command: &[&str]) -> Value {
    json!({"type": "local", "command": command})
}

/// A service with these servers; everything is allowed.
async fn service(servers: &[(&str, Value)]) -> Server {
    let servers: Map<String, Value> = servers
        .iter()
        .map(|(name, entry)| ((*name).to_owned(), entry.clone()))
        .collect();
    let config = Some(json!({ "mcp": servers }));
    Server::with(Setup {
        config,
        ..Setup::default()
    })
    .await
}

/// Returns how a server is, and what is wrong with it.
async fn source(server: &Server, name: &str) -> (ToolSourceState, String) {
    let info = server
        .info()
        .get_server_info(GetServerInfoRequest {})
        .await
        .unwrap()
        .into_inner();
    let sources = &info.workspaces[0].tool_sources;
    let found = sources
        .iter()
        .find(|source| source.source() == ToolSource::Mcp && source.name == name);
    let found = found.unwrap_or_else(|| panic!("no {name} in {sources:?}"));
    (found.state(), found.problem.clone())
}

async fn ready(server: &Server, name: &str) {
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(60);
    loop {
        let (state, problem) = source(server, name).await;
        if state == ToolSourceState::Ready {
            return;
        }
        assert!(tokio::time::Instant::now() < deadline, "{name} is not ready: {problem}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

async fn names(server: &Server) -> Vec<String> {
    let listed = server
        .tools()
        .list_tools(ListToolsRequest::default())
        .await
        .unwrap()
        .into_inner();
    listed.tools.into_iter().map(|tool| tool.name).collect()
}

fn npm(server: &str) -> String {
    installed(&format!(
        "npm/node_modules/@modelcontextprotocol/{server}/dist/index.js"
    ))
}
