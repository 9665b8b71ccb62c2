//! The language servers of the workspaces, wired to their tools and to what clients are told of them.
//!
//! *Invariant:* wiring only.

use std::path::PathBuf;
use std::sync::Arc;

use toolgate_config::{Environment, ToolsConfig};
use toolgate_fs::Workspace;
use toolgate_lsp::{LanguageServers, ServerPool, Settings};

use crate::grpc::{LanguageServerFacts, Languages};

/// Whether this build starts language servers.
pub(super) const IS_BUILT: bool = cfg!(feature = "lsp");

/// Returns the servers of a workspace; none is started.
pub(super) fn servers(
    fleet: &ServerPool,
    workspace: &Arc<Workspace>,
    trusted: bool,
    tools: &ToolsConfig,
    environment: &Environment,
) -> LanguageServers {
    fleet.workspace(Settings {
        workspace: workspace.clone(),
        trusted,
        servers: if IS_BUILT {
            tools.language_servers(trusted)
        } else {
            Vec::new()
        },
        virtual_env: environment.get("VIRTUAL_ENV").map(PathBuf::from),
    })
}

/// What clients are told.
pub(super) struct Known(pub(super) Arc<ServerPool>);

impl Languages for Known {
    fn servers(&self, workspace: &str) -> Vec<LanguageServerFacts> {
        let found = self.0.find(workspace).map(|servers| servers.survey());
        found
            .into_iter()
            .flatten()
            .map(|surveyed| LanguageServerFacts {
                id: surveyed.server,
                program: surveyed.program,
                running: surveyed.running,
            })
            .collect()
    }
}
