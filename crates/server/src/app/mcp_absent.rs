//! What stands for MCP servers in a build without the feature `mcp`: each that is named has failed, and says why.

use std::sync::Arc;
use std::time::Duration;

use toolgate_config::logins::LoginFiles;
use toolgate_config::mcp::McpServerConfig;
use toolgate_engine::WorkspaceRuntime;
use toolgate_model::{InstanceId, Source, SourceState};
use toolgate_process::Programs;
use toolgate_web::Network;

const NOT_BUILT: &str = "this build of Toolgate does not connect to MCP servers (it lacks the Cargo feature \"mcp\")";

/// No servers.
pub(super) struct Servers;

impl Servers {
    pub(super) fn new(_programs: Programs, _network: Network, _instance: InstanceId, _is_nested: bool) -> Self {
        Self
    }

    pub(super) async fn end(&self, _workspace: &str) {}

    pub(super) async fn stop(&self) {}
}

pub(super) fn start(
    _servers: &Servers,
    place: &WorkspaceRuntime,
    (named, _call_limit): (Vec<McpServerConfig>, Option<Duration>),
    _logins: Option<&Arc<LoginFiles>>,
) {
    let names = named.iter().map(|server| server.name.clone());
    place.tools.arrange(Source::Mcp, names);
    for server in named {
        place
            .tools
            .report(Source::Mcp, &server.name, SourceState::Failed, NOT_BUILT);
    }
}
