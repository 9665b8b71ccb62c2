//! What cases say about MCP servers: the configuration of fake ones, their state, and the calls that reached them.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep};
use toolgate_contract::{GetServerInfoRequest, GetServerInfoResponse, ToolSource, ToolSourceState};

use crate::connection::Connection;
use crate::fake_mcp;
use crate::workspace::merge;

/// How long servers may take until they are ready or have failed.
const LIMIT: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(20);

/// Writes what fake servers do below a folder, and returns the part `mcp` of the configuration.
pub(crate) fn configuration(servers: &Map<String, Value>, folder: &Path) -> Result<Map<String, Value>> {
    fs::create_dir_all(folder).context("the folder of the fake servers")?;
    let program = std::env::current_exe()?;
    let mut part = Map::new();
    for (index, (name, server)) in servers.iter().enumerate() {
        let case = folder.join(format!("{index}.json"));
        fs::write(&case, server.to_string())?;
        let command = json!([program, fake_mcp::COMMAND, name, case, folder.join("calls")]);
        let mut entry = Map::from_iter([("type".to_owned(), json!("local")), ("command".to_owned(), command)]);
        if let Some(Value::Object(config)) = server.get("config") {
            merge(&mut entry, config);
        }
        part.insert(name.clone(), Value::Object(entry));
    }
    Ok(Map::from_iter([("mcp".to_owned(), Value::Object(part))]))
}

/// Returns the calls that have reached fake servers.
pub(crate) fn calls(folder: &Path) -> Result<Vec<Value>> {
    let text = fs::read_to_string(folder.join("calls")).unwrap_or_default();
    let calls = text.lines().map(serde_json::from_str).collect::<Result<_, _>>();
    calls.context("the calls of the fake servers")
}

/// Returns the state of each server, once none is being connected to.
pub(crate) async fn states(connection: &Connection) -> Result<Value> {
    let started = Instant::now();
    loop {
        let method = "toolgate.v1.InfoService/GetServerInfo";
        let info: GetServerInfoResponse = connection.unary(method, GetServerInfoRequest {}).await?;
        let workspace = info.workspaces.first().context("a service without a workspace")?;
        let sources = workspace
            .tool_sources
            .iter()
            .filter(|source| source.source() == ToolSource::Mcp);
        let states = sources.map(|source| Ok((source.name.clone(), json!({"status": word(source.state())?}))));
        let states = states.collect::<Result<Map<_, _>>>()?;
        let connecting = states.values().any(|state| state["status"] == "connecting");
        if !connecting {
            return Ok(Value::Object(states));
        }
        if started.elapsed() > LIMIT {
            bail!("servers are still being connected to: {states:?}");
        }
        sleep(PAUSE).await;
    }
}

fn word(state: ToolSourceState) -> Result<&'static str> {
    Ok(match state {
        ToolSourceState::Unspecified => bail!("a source without a state"),
        ToolSourceState::Connecting => "connecting",
        ToolSourceState::Ready => "connected",
        ToolSourceState::Disabled => "disabled",
        ToolSourceState::Failed => "failed",
        ToolSourceState::NeedsAuth => "needs_auth",
        ToolSourceState::NeedsClientRegistration => "needs_client_registration",
        ToolSourceState::Untrusted => "untrusted",
    })
}
