//! The part `sandbox` of the configuration, from its words to what is in force.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::layered::{Layered, folder, or_none};
use super::raw::{RawConfig, RawSandboxAgent};
use super::values::{SandboxConfig, SandboxMode, SandboxNetwork, SandboxRule};
use crate::environment::Environment;
use crate::error::ConfigError;

/// The caches of toolchains below the home folder. What lies beside them and is run or read as settings later, such as
/// `.cargo/bin` and `.cargo/config.toml`, is left out.
#[rustfmt::skip]
const CACHES: &[&str] = &[
    ".cache", ".cargo/registry", ".cargo/git", ".cargo/.package-cache", ".cargo/.package-cache-mutate",
    ".cargo/.global-cache", ".npm/_cacache", ".npm/_logs", ".npm/_npx", ".npm/_prebuilds", ".npm/_update-notifier-last-checked",
    ".pnpm-store", ".local/share/pnpm/store", ".yarn/berry/cache", ".bun/install/cache", ".node-gyp", "go/pkg",
    ".m2/repository", ".m2/wrapper", ".gradle/caches", ".gradle/daemon", ".gradle/native", ".gradle/notifications",
    ".gradle/workers", ".gradle/wrapper", ".ivy2/cache", ".sbt/boot", ".coursier", ".nuget/packages", ".hex", ".mix/archives",
    ".pub-cache/hosted", ".gem/specs", ".bundle/cache", ".composer/cache", ".stack/pantry", ".cabal/packages", ".julia/compiled",
    ".conda/pkgs", ".ccache",
];

/// Variables that put a cache elsewhere, and what of that folder is one.
const CACHE_VARIABLES: &[(&str, &str)] = &[
    ("XDG_CACHE_HOME", ""),
    ("CARGO_HOME", "registry"),
    ("CARGO_HOME", "git"),
    ("CARGO_HOME", ".package-cache"),
    ("CARGO_HOME", ".package-cache-mutate"),
    ("CARGO_HOME", ".global-cache"),
    ("CARGO_TARGET_DIR", ""),
    ("GOPATH", "pkg"),
    ("GOMODCACHE", ""),
    ("GOCACHE", ""),
    ("npm_config_cache", ""),
    ("PIP_CACHE_DIR", ""),
    ("UV_CACHE_DIR", ""),
    ("GRADLE_USER_HOME", "caches"),
    ("GRADLE_USER_HOME", "daemon"),
    ("GRADLE_USER_HOME", "wrapper"),
    ("GRADLE_USER_HOME", "native"),
    ("SCCACHE_DIR", ""),
    ("CCACHE_DIR", ""),
];

/// What is code, or makes others run code, when it is in a workspace.
const PROTECTED: &[&str] = &[
    ".opencode",
    "opencode.json",
    "opencode.jsonc",
    ".git/hooks",
    ".git/config",
    ".git/config.worktree",
    ".git/commondir",
];

impl Layered<'_> {
    pub(super) fn sandbox(&mut self) -> Result<SandboxConfig, ConfigError> {
        let general = SandboxRule {
            mode: self.value(
                "sandbox.mode",
                |raw| &raw.sandbox.mode,
                |word, _| mode(word),
                || SandboxMode::Off,
                |mode| mode.as_str().to_owned(),
            )?,
            network: self.value(
                "sandbox.network",
                |raw| &raw.sandbox.network,
                |word, _| network(word),
                || SandboxNetwork::Ask,
                |network| network.as_str().to_owned(),
            )?,
        };
        let required = self.value(
            "sandbox.required",
            |raw| &raw.sandbox.required,
            |value, _| Ok(*value),
            || false,
            bool::to_string,
        )?;
        Ok(SandboxConfig {
            general,
            required,
            writable: self.paths("sandbox.writable", |raw| &raw.sandbox.writable)?,
            readable: self.paths("sandbox.readable", |raw| &raw.sandbox.readable)?,
            hidden: self.paths("sandbox.hidden", |raw| &raw.sandbox.hidden)?,
            caches: self.caches()?,
            protected: self.protected()?,
            sockets: self.paths("sandbox.sockets", |raw| &raw.sandbox.sockets)?,
            agents: self.value(
                "sandbox.agents",
                |raw| &raw.sandbox.agents,
                |agents, _| agents.iter().map(|(name, raw)| agent(name, raw, general)).collect(),
                BTreeMap::new,
                show_agents,
            )?,
        })
    }

    fn caches(&mut self) -> Result<Vec<PathBuf>, ConfigError> {
        let env: &Environment = self.env;
        let parse = |list: &Vec<String>, base: &Path| list.iter().map(|text| folder(env, text, base)).collect();
        // Without a home there are none.
        let usual = || {
            let known = CACHES.iter().filter_map(|name| Some(env.home()?.join(name)));
            known.chain(CACHE_VARIABLES.iter().filter_map(|(name, below)| {
                let folder = env.get(name).filter(|folder| folder.starts_with('/'))?;
                Some(Path::new(folder).join(below))
            }))
        };
        let show = |paths: &Vec<PathBuf>| or_none(paths.iter().map(|path| path.display().to_string()).collect());
        self.value(
            "sandbox.caches",
            |raw| &raw.sandbox.caches,
            parse,
            || usual().collect(),
            show,
        )
    }

    fn protected(&mut self) -> Result<Vec<PathBuf>, ConfigError> {
        let parse = |list: &Vec<String>, _: &Path| list.iter().map(|text| relative(text)).collect();
        let show = |paths: &Vec<PathBuf>| or_none(paths.iter().map(|path| path.display().to_string()).collect());
        let usual = || PROTECTED.iter().map(PathBuf::from).collect();
        self.value("sandbox.protected", |raw| &raw.sandbox.protected, parse, usual, show)
    }

    fn paths(
        &mut self,
        key: &str,
        get: impl Fn(&RawConfig) -> &Option<Vec<String>>,
    ) -> Result<Vec<PathBuf>, ConfigError> {
        let env: &Environment = self.env;
        let parse = |list: &Vec<String>, base: &Path| list.iter().map(|text| folder(env, text, base)).collect();
        self.value(key, get, parse, Vec::new, |paths: &Vec<PathBuf>| {
            let shown: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
            or_none(shown)
        })
    }
}

fn relative(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    let is_plain = !text.is_empty()
        && path
            .components()
            .all(|part| matches!(part, std::path::Component::Normal(_)));
    if is_plain {
        Ok(path)
    } else {
        Err(format!(
            "expected a name or the last part of a path, such as \".git/hooks\", found {text:?}"
        ))
    }
}

/// An agent's name is not checked: agents are of workspaces, and come and go with their configuration.
fn agent(name: &str, raw: &RawSandboxAgent, general: SandboxRule) -> Result<(String, SandboxRule), String> {
    let of_agent = |message: String| format!("agent {name:?}: {message}");
    let rule = SandboxRule {
        mode: raw.mode.as_deref().map_or(Ok(general.mode), mode).map_err(of_agent)?,
        network: raw
            .network
            .as_deref()
            .map_or(Ok(general.network), network)
            .map_err(of_agent)?,
    };
    Ok((name.to_owned(), rule))
}

fn mode(word: &(impl AsRef<str> + ?Sized)) -> Result<SandboxMode, String> {
    match word.as_ref() {
        "off" => Ok(SandboxMode::Off),
        "workspace-write" => Ok(SandboxMode::WorkspaceWrite),
        "read-only" => Ok(SandboxMode::ReadOnly),
        other => Err(format!(
            "expected \"off\", \"workspace-write\" or \"read-only\", found {other:?}"
        )),
    }
}

fn network(word: &(impl AsRef<str> + ?Sized)) -> Result<SandboxNetwork, String> {
    match word.as_ref() {
        "ask" => Ok(SandboxNetwork::Ask),
        "allow" => Ok(SandboxNetwork::Allow),
        "deny" => Ok(SandboxNetwork::Deny),
        other => Err(format!("expected \"ask\", \"allow\" or \"deny\", found {other:?}")),
    }
}

/// Writes agents as the variable has them.
fn show_agents(agents: &BTreeMap<String, SandboxRule>) -> String {
    let one =
        |(name, rule): (&String, &SandboxRule)| format!("{name}={}/{}", rule.mode.as_str(), rule.network.as_str());
    or_none(agents.iter().map(one).collect())
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    fn load(file: &str, vars: &[(&str, &str)]) -> Result<SandboxConfig, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("toolgate.toml");
        std::fs::write(&path, file).unwrap();
        let vars = [("HOME", "/nowhere/u")].iter().chain(vars);
        let vars = vars.map(|&(name, value)| (name.to_owned(), value.to_owned()));
        let config = Config::load(Some(&path), RawConfig::default(), &Environment::new(vars, "/nowhere/w"));
        config.map(|config| config.sandbox).map_err(|error| error.to_string())
    }

    #[test]
    fn files_and_variables() {
        assert!(!load("", &[]).unwrap().is_on());
        let rule = |mode, network| SandboxRule { mode, network };
        let text = "[sandbox]\nmode = \"workspace-write\"\nrequired = true\nhidden = [\"~/.ssh\"]\n\
                    [sandbox.agents.plan]\nmode = \"read-only\"";
        let config = load(
            text,
            &[
                ("TOOLGATE_SANDBOX_NETWORK", "deny"),
                ("TOOLGATE_SANDBOX_WRITABLE", "/a, /b"),
            ],
        )
        .unwrap();
        assert_eq!(config.general, rule(SandboxMode::WorkspaceWrite, SandboxNetwork::Deny));
        assert_eq!(config.agents["plan"], rule(SandboxMode::ReadOnly, SandboxNetwork::Deny));
        assert_eq!(config.hidden, [Path::new("/nowhere/u/.ssh")]);
        assert_eq!(config.writable, [Path::new("/a"), Path::new("/b")]);
        assert!(config.required);
        let agents = [("TOOLGATE_SANDBOX_AGENTS", "build=workspace-write/allow, plan=read-only")];
        let config = load("", &agents).unwrap();
        assert_eq!(
            config.agents["build"],
            rule(SandboxMode::WorkspaceWrite, SandboxNetwork::Allow)
        );
        assert!(config.is_on() && config.general.mode == SandboxMode::Off);
    }

    #[test]
    fn caches_and_protected_names_are_lists_that_can_be_changed() {
        let usual = load("", &[("GOCACHE", "/g"), ("CARGO_HOME", "/c")]).unwrap();
        for path in ["/nowhere/u/.cache", "/nowhere/u/.cargo/registry", "/g", "/c/registry"] {
            assert!(usual.caches.contains(&PathBuf::from(path)), "{path}");
        }
        assert!(
            !usual
                .caches
                .iter()
                .any(|path| path.ends_with(".cargo") || path.ends_with("bin"))
        );
        assert!(usual.protected.contains(&PathBuf::from(".git/hooks")) && usual.sockets.is_empty());
        let text = "[sandbox]\ncaches = []\nprotected = [\"x\"]\nsockets = [\"~/agent\"]";
        let config = load(text, &[]).unwrap();
        assert_eq!((config.caches.len(), config.protected), (0, vec![PathBuf::from("x")]));
        assert_eq!(config.sockets, [Path::new("/nowhere/u/agent")]);
        for wrong in ["", "/a", "../a", "a/.."] {
            let error = load(&format!("[sandbox]\nprotected = [{wrong:?}]"), &[]).unwrap_err();
            assert!(error.contains("sandbox.protected"), "{error}");
        }
    }

    #[test]
    fn unknown_words_are_refused() {
        let check = |file: &str, vars: &[(&str, &str)], expected: &str| {
            let error = load(file, vars).unwrap_err();
            assert!(error.contains(expected), "{expected:?} is not in {error:?}");
        };
        check("[sandbox]\nmode = \"on\"", &[], "sandbox.mode");
        check(
            "[sandbox]\nnetwork = \"some\"",
            &[],
            "expected \"ask\", \"allow\" or \"deny\"",
        );
        check("[sandbox.agents.plan]\nmode = \"x\"", &[], "agent \"plan\"");
        check(
            "[sandbox.agents.plan]\nrequired = true",
            &[],
            "unknown field `required`",
        );
        check("", &[("TOOLGATE_SANDBOX_AGENTS", "plan")], "TOOLGATE_SANDBOX_AGENTS");
        check(
            "",
            &[("TOOLGATE_SANDBOX_REQUIRED", "perhaps")],
            "TOOLGATE_SANDBOX_REQUIRED",
        );
    }
}
