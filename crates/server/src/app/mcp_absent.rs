//! What stands for MCP servers in a build without the feature `mcp`: each that is named has failed, and says why.

use std::sync::Arc;
use std::time::Duration;

use toolgate_config::Environment;
use toolgate_config::mcp::McpServerConfig;
use toolgate_engine::WorkspaceRuntime;
use toolgate_model::{InstanceId, Source, SourceState};
use toolgate_process::Programs;
use toolgate_tool::{Catalog, Tool};
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

/// Makes no tools.
pub(super) fn resource_tools(_servers: &Arc<Servers>, _workspace: &str) -> Vec<Arc<dyn Tool>> {
    Vec::new()
}

/// The servers of one workspace that are named.
pub(super) struct Configured {
    catalog: Arc<Catalog>,
    named: Vec<McpServerConfig>,
}

impl Configured {
    pub(super) fn start(
        _servers: &Arc<Servers>,
        place: &WorkspaceRuntime,
        named: (Vec<McpServerConfig>, Option<Duration>),
        _environment: &Environment,
    ) -> Self {
        let mut configured = Self {
            catalog: Arc::clone(&place.tools),
            named: Vec::new(),
        };
        configured.apply(named);
        configured
    }

    pub(super) fn apply(&mut self, (named, _call_limit): (Vec<McpServerConfig>, Option<Duration>)) -> Vec<String> {
        let (before, catalog) = (std::mem::take(&mut self.named), &self.catalog);
        for server in &before {
            catalog.remove(Source::Mcp, &server.name);
        }
        catalog.arrange(Source::Mcp, named.iter().map(|server| server.name.clone()));
        for server in &named {
            catalog.report(Source::Mcp, &server.name, SourceState::Failed, NOT_BUILT);
        }
        self.named = named;
        Vec::new()
    }
}
