//! What stands for custom tools and plugins in a build without the feature `javascript`: none is run, and the log says so.

use std::path::Path;
use std::sync::Arc;

use toolgate_config::{Config, ToolsConfig};
use toolgate_engine::WorkspaceRuntime;
use toolgate_process::Programs;
use toolgate_tool::Catalog;

use super::plugins::Plugins;

/// What none is made from.
pub(super) struct Settings(());

/// No custom tools and plugins.
#[derive(Default)]
pub(super) struct Extensions(());

impl Extensions {
    pub(super) fn watch(&self, _settings: Settings, _catalog: Arc<Catalog>) {}

    pub(super) async fn end(&self, _workspace: &str) {}

    pub(super) async fn close(&self) {}
}

pub(super) fn settings(
    _config: &Config,
    place: &WorkspaceRuntime,
    tools: &ToolsConfig,
    _programs: &Programs,
    _data_dir: &Path,
    _plugins: (Arc<Plugins>, Option<&Path>),
) -> Settings {
    if tools.code("plugin", true).is_some() || !tools.code_directories(true).is_empty() {
        tracing::warn!(
            workspace = place.workspace.name(),
            "this build of Toolgate runs no custom tools and plugins (it lacks the Cargo feature \"javascript\")"
        );
    }
    Settings(())
}
