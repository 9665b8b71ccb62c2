//! The sandbox: from its configuration and what the kernel has to what the shell tool confines commands with.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use toolgate_config::logins::LoginFiles;
use toolgate_config::service::{SandboxConfig, SandboxMode, SandboxNetwork, SandboxRule};
use toolgate_config::{Config, Environment};
use toolgate_process::sandbox::{Kernel, Mode, Places, Sandbox};
use toolgate_store::local::output_folder;
use toolgate_tools::bash::{Confine, Confining, NetworkUse};

use crate::grpc::SandboxFacts;

/// Folders of the system, which commands may read within walls. What else is below `/run` and `/var` is other programs'.
#[rustfmt::skip]
const SYSTEM: &[&str] = &[
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/proc", "/sys", "/nix", "/gnu", "/snap",
    "/run/current-system", "/run/wrappers", "/run/opengl-driver", "/run/systemd/resolve", "/run/resolvconf",
    "/run/NetworkManager", "/var/lib", "/var/cache", "/var/db", "/home/linuxbrew",
];

/// What lies in these folders and is nobody's but the system's: a service that runs as root could read it.
const SECRETS: &[&str] = &[
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/ssl/private",
];

/// What they may read of the home folder beside the caches: tools and their settings, though a few of these may hold a
/// token of a registry (`.npmrc`, `.m2/settings.xml`): tools fail without them, and `sandbox.hidden` takes them away.
#[rustfmt::skip]
const OF_HOME: &[&str] = &[
    ".gitconfig", ".config/git", ".gitignore", ".gitignore_global", ".gitattributes", ".npmrc", ".yarnrc", ".yarnrc.yml",
    ".bunfig.toml", ".config/pip", ".pip/pip.conf", ".config/uv", ".config/pnpm", ".config/go", ".config/NuGet",
    ".config/pypoetry", ".profile", ".bashrc", ".bash_profile", ".editorconfig", ".inputrc", ".wgetrc", ".curlrc",
    ".rustup", ".cargo/bin", ".cargo/env", ".cargo/config", ".cargo/config.toml", ".cargo/.crates.toml",
    ".cargo/.crates2.json", ".pyenv", ".rbenv", ".nvm", ".nodenv", ".volta", ".fnm", ".asdf", ".mise", ".sdkman", ".jenv",
    ".goenv", ".tfenv", ".deno", ".bun", ".local/bin", ".local/lib", ".local/share/mise", ".local/share/fnm",
    ".local/share/uv", ".local/share/pnpm", ".local/share/pypoetry", ".local/share/pipx", ".local/pipx", ".local/share/rtx",
    ".npm-global", ".node_modules", ".npm/_cacache", "go/bin", "bin", "sdk", ".m2/settings.xml", ".m2/wrapper",
    ".mavenrc", ".gradle", ".jdks", ".dotnet", ".nuget", ".gem", ".bundle", ".composer", ".pub-cache", ".mix", ".hex",
    ".elan", ".ghcup", ".stack", ".cabal", ".opam", ".juliaup", ".julia", ".conda", "miniconda3", "anaconda3", ".linuxbrew",
    ".foundry", ".krew",
];

/// Folders of tools that bring several versions of a program.
const TOOLS: &[&str] = &[
    ".pyenv",
    ".rbenv",
    ".nvm",
    ".nodenv",
    ".volta",
    ".fnm",
    ".asdf",
    ".mise",
    ".sdkman",
    ".jenv",
    ".goenv",
    ".tfenv",
    ".deno",
    ".bun",
    ".rustup",
    ".juliaup",
    ".ghcup",
    ".elan",
    ".dotnet",
    ".linuxbrew",
];

/// Variables that name the folder of a tool.
#[rustfmt::skip]
const TOOL_VARIABLES: &[&str] = &[
    "CARGO_HOME", "RUSTUP_HOME", "GOROOT", "GOPATH", "JAVA_HOME", "MAVEN_HOME", "GRADLE_HOME", "GRADLE_USER_HOME", "NVM_DIR",
    "NODE_PATH", "PYENV_ROOT", "RBENV_ROOT", "VIRTUAL_ENV", "CONDA_PREFIX", "VOLTA_HOME", "BUN_INSTALL", "DENO_DIR",
    "DOTNET_ROOT", "ANDROID_HOME", "ANDROID_SDK_ROOT", "PNPM_HOME", "SDKMAN_DIR", "ASDF_DIR", "ASDF_DATA_DIR",
    "LD_LIBRARY_PATH", "PYTHONHOME", "CMAKE_PREFIX_PATH", "PKG_CONFIG_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "CARGO_TARGET_DIR",
];

/// Prepares the sandbox: even if none is configured, commands that nobody approved may be held within walls.
///
/// # Errors
/// It is required and the kernel lacks something; the text says what.
pub(super) fn prepare(
    config: &Config,
    environment: &Environment,
    data_dir: &Path,
    kernel: Kernel,
) -> anyhow::Result<Arc<Sandbox>> {
    let rules = &config.sandbox;
    let missing = kernel.lacks();
    if !missing.is_empty() {
        let missing = missing.join(" and ");
        if rules.required {
            bail!("sandbox.required is set, and the kernel lacks {missing}");
        }
        tracing::warn!(
            "the sandbox is not complete, and commands that rules allow are not held to what they were judged as: the \
             kernel lacks {missing}"
        );
    }
    if let Some(Err(error)) = LoginFiles::locate(environment).map(|logins| logins.prepare()) {
        // Where there can be no folder there are no logins, as a rule, and no use in a warning.
        tracing::info!(%error, "the folder of the logins at MCP servers cannot be prepared");
    }
    let sandbox = Sandbox::new(kernel, places(config, environment, data_dir)).context("cannot prepare the sandbox")?;
    Ok(Arc::new(sandbox))
}

/// Says what confined commands cannot do in a folder.
pub(super) fn warn_of_hidden(sandbox: &Sandbox, workspace: &str, directory: &Path) {
    if let Some(hidden) = sandbox.hidden_below(directory) {
        tracing::warn!(
            workspace,
            "confined commands cannot use files that they make in the folders from the workspace's down to {}, which is \
             hidden from them: keep it elsewhere",
            hidden.display()
        );
    }
}

fn places(config: &Config, environment: &Environment, data_dir: &Path) -> Places {
    let logins = LoginFiles::locate(environment).map(|logins| logins.hidden().map(Path::to_path_buf));
    Places {
        hidden: [data_dir.to_path_buf()]
            .into_iter()
            .chain(SECRETS.iter().map(PathBuf::from))
            .chain(environment.home().map(|home| home.join(".config/git/credentials")))
            .chain(environment.instance_folders())
            .chain(config.sandbox.hidden.iter().cloned())
            .chain(config.private_files.iter().cloned())
            .chain(config.listen.unix.clone())
            .chain(logins.into_iter().flatten())
            .collect(),
        readable: config.sandbox.readable.clone(),
        writable: config.sandbox.writable.clone(),
        common: common(environment),
        caches: config.sandbox.caches.clone(),
        protected: config.sandbox.protected.clone(),
        sockets: config.sandbox.sockets.clone(),
    }
}

/// Returns what commands may read within walls whatever the workspace is.
fn common(environment: &Environment) -> Vec<PathBuf> {
    let home = environment.home();
    // A folder around the home would open all of it.
    let lists = TOOL_VARIABLES
        .iter()
        .chain(&["PATH"])
        .filter_map(|name| environment.get(name));
    let named: Vec<PathBuf> = lists
        .flat_map(std::env::split_paths)
        .filter(|path| path.is_absolute() && path.parent().is_some() && home.is_none_or(|home| !home.starts_with(path)))
        .collect();
    // A program's own files are beside its folder, as a rule.
    let beside = named
        .iter()
        .filter(|path| path.ends_with("bin"))
        .filter_map(|path| path.parent());
    let beside: Vec<PathBuf> = beside
        .flat_map(|above| ["lib", "lib64", "libexec", "share"].map(|name| above.join(name)))
        .collect();
    // What a tool's own folder of programs starts is elsewhere in the folder of the tool, whosever home that is in.
    let around: Vec<PathBuf> = named
        .iter()
        .filter_map(|path| {
            path.ancestors()
                .find(|path| {
                    path.file_name()
                        .is_some_and(|name| TOOLS.iter().any(|tool| name == *tool))
                })
                .map(Path::to_path_buf)
        })
        .collect();
    let system = SYSTEM.iter().map(PathBuf::from);
    let of_home = OF_HOME.iter().filter_map(|name| Some(home?.join(name)));
    system.chain(of_home).chain(named).chain(beside).chain(around).collect()
}

/// Makes what the shell tool confines commands with.
pub(super) fn confine(config: &Config, data_dir: &Path, sandbox: Arc<Sandbox>) -> Confine {
    let rules = &config.sandbox;
    let data_dir = data_dir.to_path_buf();
    let outputs = move |workspace: &str| output_folder(&data_dir, workspace);
    let agents = rules.rules().map(|(name, rule)| (name.to_owned(), confining(rule)));
    Confine::new(sandbox, confining(rules.general()), agents.collect(), outputs)
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
        mode: rules.mode,
        network: rules.network,
        required: rules.required,
        missing: kernel.lacks(),
    }
}

#[cfg(test)]
mod tests {
    use toolgate_config::RawConfig;

    use super::*;

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
            let kernel = Kernel {
                landlock,
                seccomp,
                notify: true,
            };
            let environment = Environment::new([("HOME".to_owned(), "/nowhere".to_owned())], "/nowhere");
            let folder = tempfile::tempdir().unwrap();
            let refused = prepare(&config("true", mode), &environment, folder.path(), kernel)
                .err()
                .map(|error| error.to_string());
            let refused = refused.unwrap_or_default();
            assert_eq!(refused.is_empty(), expected.is_empty(), "{refused}");
            for part in expected {
                assert!(refused.contains(part), "{part:?} is not in {refused:?}");
            }
            assert!(prepare(&config("false", mode), &environment, folder.path(), kernel).is_ok());
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
        check(0, false, "off", &["Landlock", " and ", "seccomp"]);
    }
}
