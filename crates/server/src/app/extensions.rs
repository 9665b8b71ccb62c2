//! Which custom tools and plugins of a workspace are run, as its configuration says.
//!
//! *Invariant:* wiring only.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use toolgate_config::{Config, ToolsConfig};
use toolgate_engine::WorkspaceRuntime;
pub(super) use toolgate_extensions::javascript::Extensions;
use toolgate_extensions::javascript::Settings;
use toolgate_process::Programs;

use super::plugins::Plugins;

/// Says what of a workspace's configuration is code, and what of that is run.
pub(super) fn settings(
    config: &Config,
    place: &WorkspaceRuntime,
    tools: &ToolsConfig,
    programs: &Programs,
    data_dir: &Path,
    (world, cache): (Arc<Plugins>, Option<&Path>),
) -> Settings {
    let (workspace, trusted) = (&place.workspace, place.trusted);
    let plugins = |trusted: bool| match tools.code("plugin", trusted) {
        Some(Value::Array(entries)) => entries,
        Some(_) | None => Vec::new(),
    };
    let (all, may_run) = (plugins(true), plugins(trusted));
    let mut directories = tools.code_directories(trusted);
    let own = workspace.directory().join(".opencode");
    if trusted && !directories.contains(&own) {
        // It may be made while the service runs.
        directories.push(own);
    }
    let untrusted = tools.project_directories().iter();
    Settings {
        workspace: workspace.clone(),
        programs: programs.clone(),
        untrusted_directories: untrusted
            .filter(|folder| !directories.contains(folder))
            .cloned()
            .collect(),
        directories,
        // What stands in the user's own configuration must not be answered by a project that is not trusted.
        plugin_base: trusted.then(|| workspace.directory().to_path_buf()),
        untrusted_plugins: all.into_iter().filter(|entry| !may_run.contains(entry)).collect(),
        plugins: may_run,
        pure: tools.flags.pure,
        config: Value::Object(tools.merged.clone()),
        cache: cache.map(|cache| cache.join("opencode")),
        world,
        home: data_dir.join("javascript"),
        runtime: config.javascript_runtime.clone(),
    }
}
