//! Which custom tools and plugins of a workspace are run, as its configuration says.
//!
//! *Invariant:* wiring only.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use toolgate_config::service::SandboxConfig;
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
        cache: cache
            .map(|cache| cache.join("opencode"))
            .filter(|cache| !may_be_written(cache, &config.sandbox, workspace.directory())),
        world,
        home: data_dir.join("javascript"),
        runtime: config.javascript_runtime.clone(),
    }
}

/// Says whether commands may write below a folder, or put another one in its place, without being asked about: what lies there
/// is no code for the service, which is not confined as they are.
fn may_be_written(folder: &Path, sandbox: &SandboxConfig, workspace: &Path) -> bool {
    let folders = [folder.to_path_buf(), real(folder)];
    let written = sandbox.caches.iter().chain(&sandbox.writable).map(PathBuf::as_path);
    let mut written = written.chain([workspace, Path::new("/dev/shm")]);
    written.any(|written| {
        let mut names = [written.to_path_buf(), real(written)].into_iter();
        names.any(|written| {
            let touches = |folder: &PathBuf| folder.starts_with(&written) || written.starts_with(folder);
            folders.iter().any(touches)
        })
    })
}

/// Returns a path with its links followed as far as it exists.
fn real(path: &Path) -> PathBuf {
    let mut above = path.ancestors();
    let found = above.find_map(|there| Some(there.canonicalize().ok()?.join(path.strip_prefix(there).ok()?)));
    found.unwrap_or_else(|| path.to_path_buf())
}

#[cfg(test)]
mod tests {
    use toolgate_config::Environment;
    use toolgate_config::service::RawConfig;

    use super::*;

    #[test]
    fn what_commands_may_write_is_no_code() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        std::fs::create_dir_all(top.join("cache/opencode")).unwrap();
        std::fs::create_dir_all(top.join("w")).unwrap();
        std::os::unix::fs::symlink("cache", top.join("link")).unwrap();
        let check = |folder: &str, caches: &[&str], writable: &[&str], expected: bool| {
            let absolute = |paths: &[&str]| paths.iter().map(|path| top.join(path)).collect::<Vec<_>>();
            let home = ("HOME".to_owned(), top.display().to_string());
            let environment = Environment::new([home], &top);
            let config = Config::load(None, RawConfig::default(), &environment).unwrap();
            let mut sandbox = config.sandbox;
            (sandbox.caches, sandbox.writable) = (absolute(caches), absolute(writable));
            let found = may_be_written(&top.join(folder), &sandbox, &top.join("w"));
            assert_eq!(found, expected, "{folder} {caches:?} {writable:?}");
        };
        check("cache/opencode", &[], &[], false);
        check("cache/opencode", &["cache"], &[], true);
        check("cache/opencode", &[], &["cache"], true);
        check("cache/opencode", &["cache/pip"], &["cache/opencode2"], false);
        check("cache/opencode", &["cache/opencode/packages"], &[], true);
        check("cache/opencode", &["link"], &[], true);
        check("link/opencode", &["cache"], &[], true);
        check("link/opencode", &["link"], &[], true);
        check("absent/opencode", &["absent"], &[], true);
        check("link/new", &["cache"], &[], true);
        check("w/.cache/opencode", &[], &[], true);
    }
}
