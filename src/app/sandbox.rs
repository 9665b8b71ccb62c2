//! The sandbox: from its configuration and what the kernel has to what the shell tool confines commands with.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, bail};

use crate::config::Config;
use crate::config::service::{SandboxConfig, SandboxMode, SandboxNetwork, SandboxRule};
use crate::grpc::SandboxFacts;
use crate::process::sandbox::{Kernel, Mode, Places, Sandbox};
use crate::store::local::output_folder;
use crate::tools::bash::{Confine, Confining, NetworkUse};

/// Prepares the sandbox if any command is to be confined.
///
/// # Errors
/// It is required and the kernel lacks something; the text says what.
pub(super) fn prepare(config: &Config, data_dir: &Path, kernel: Kernel) -> anyhow::Result<Option<Arc<Sandbox>>> {
    let rules = &config.sandbox;
    if !rules.is_on() {
        return Ok(None);
    }
    let missing = kernel.lacks();
    if !missing.is_empty() {
        let missing = missing.join(" and ");
        if rules.required {
            bail!("sandbox.required is set, and the kernel lacks {missing}");
        }
        tracing::warn!("the sandbox is not complete: the kernel lacks {missing}");
    }
    let sandbox = Sandbox::new(kernel, places(config, data_dir)).context("cannot prepare the sandbox")?;
    for workspace in &config.workspaces {
        if let Some(hidden) = sandbox.hidden_below(&workspace.directory) {
            tracing::warn!(
                workspace = %workspace.name,
                "confined commands cannot make files in the folders from the workspace's down to {}, which is hidden from \
                 them: keep it elsewhere",
                hidden.display()
            );
        }
    }
    Ok(Some(Arc::new(sandbox)))
}

fn places(config: &Config, data_dir: &Path) -> Places {
    Places {
        hidden: [data_dir.to_path_buf()]
            .into_iter()
            .chain(config.sandbox.hidden.iter().cloned())
            .chain(config.audit.key_file.clone())
            .collect(),
        readable: config.sandbox.readable.clone(),
        writable: config.sandbox.writable.clone(),
    }
}

/// Makes what the shell tool confines commands with.
pub(super) fn confine(config: &Config, data_dir: &Path, sandbox: Arc<Sandbox>) -> Confine {
    let rules = &config.sandbox;
    let names = config.workspaces.iter().map(|workspace| workspace.name.clone());
    let outputs = names.map(|name| (name.clone(), output_folder(data_dir, &name)));
    let agents = rules.agents.iter().map(|(name, rule)| (name.clone(), confining(*rule)));
    Confine::new(sandbox, confining(rules.general), agents.collect(), outputs.collect())
}

fn confining(rule: SandboxRule) -> Confining {
    Confining {
        mode: match rule.mode {
            SandboxMode::Off => None,
            SandboxMode::WorkspaceWrite => Some(Mode::WorkspaceWrite),
            SandboxMode::ReadOnly => Some(Mode::ReadOnly),
        },
        network: match rule.network {
            SandboxNetwork::Ask => NetworkUse::Ask,
            SandboxNetwork::Allow => NetworkUse::Allow,
            SandboxNetwork::Deny => NetworkUse::Deny,
        },
    }
}

/// Returns what clients are told.
pub(super) fn facts(rules: &SandboxConfig, kernel: Kernel) -> SandboxFacts {
    SandboxFacts {
        landlock: kernel.landlock,
        seccomp: kernel.seccomp,
        is_on: rules.is_on(),
        mode: rules.general.mode.as_str(),
        network: rules.general.network.as_str(),
        required: rules.required,
        missing: kernel.lacks(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Environment, RawConfig};

    fn config(required: &str, mode: &str) -> Config {
        let vars = [
            ("HOME", "/nowhere"),
            ("TOOLGATE_SANDBOX_MODE", mode),
            ("TOOLGATE_SANDBOX_REQUIRED", required),
        ];
        let vars = vars.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Config::load(None, RawConfig::default(), &Environment::new(vars, "/nowhere")).unwrap()
    }

    #[test]
    fn what_is_required_and_missing_stops_the_start() {
        let check = |landlock: u32, seccomp: bool, mode: &str, expected: &[&str]| {
            let kernel = Kernel { landlock, seccomp };
            let folder = tempfile::tempdir().unwrap();
            let refused = prepare(&config("true", mode), folder.path(), kernel)
                .err()
                .map(|error| error.to_string());
            let refused = refused.unwrap_or_default();
            assert_eq!(refused.is_empty(), expected.is_empty(), "{refused}");
            for part in expected {
                assert!(refused.contains(part), "{part:?} is not in {refused:?}");
            }
            assert!(prepare(&config("false", mode), folder.path(), kernel).is_ok());
        };
        check(0, true, "workspace-write", &["Landlock", "security modules"]);
        check(
            2,
            true,
            "read-only",
            &["Landlock version 3", "this kernel has version 2"],
        );
        check(7, false, "read-only", &["seccomp"]);
        check(0, false, "workspace-write", &["Landlock", " and ", "seccomp"]);
        check(3, true, "workspace-write", &[]);
        check(0, false, "off", &[]);
    }
}
