//! The part `sandbox` of the configuration: its lists, and what differs for agents.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::keys::SandboxConfig;
use super::kinds::{Context, Kind, Shape, meaning, or_none, pairs, table};
use super::values::{RawSandboxAgent, SandboxMode, SandboxNetwork, SandboxRule};
use crate::environment::Environment;

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
#[rustfmt::skip]
const CACHE_VARIABLES: &[(&str, &str)] = &[
    ("XDG_CACHE_HOME", ""), ("CARGO_HOME", "registry"), ("CARGO_HOME", "git"), ("CARGO_HOME", ".package-cache"),
    ("CARGO_HOME", ".package-cache-mutate"), ("CARGO_HOME", ".global-cache"), ("CARGO_TARGET_DIR", ""),
    ("GOPATH", "pkg"), ("GOMODCACHE", ""), ("GOCACHE", ""), ("npm_config_cache", ""), ("PIP_CACHE_DIR", ""),
    ("UV_CACHE_DIR", ""), ("GRADLE_USER_HOME", "caches"), ("GRADLE_USER_HOME", "daemon"),
    ("GRADLE_USER_HOME", "wrapper"), ("GRADLE_USER_HOME", "native"), ("SCCACHE_DIR", ""), ("CCACHE_DIR", ""),
];

/// What is code, or makes others run code, when it is in a workspace.
#[rustfmt::skip]
pub(super) const PROTECTED: &[&str] = &[
    ".opencode", "opencode.json", "opencode.jsonc", ".git/hooks", ".git/config", ".git/config.worktree", ".git/commondir",
];

/// Returns the caches that are there by default; without a home there are none in it.
pub(super) fn caches(env: &Environment) -> Vec<PathBuf> {
    let known = CACHES.iter().filter_map(|name| Some(env.home()?.join(name)));
    let named = CACHE_VARIABLES.iter().filter_map(|(name, below)| {
        let folder = env.get(name).filter(|folder| folder.starts_with('/'))?;
        Some(Path::new(folder).join(below))
    });
    known.chain(named).collect()
}

impl RawSandboxAgent {
    fn rule(&self, general: SandboxRule) -> Result<SandboxRule, String> {
        let (mode, network) = (self.mode.as_deref(), self.network.as_deref());
        Ok(SandboxRule {
            mode: mode.map_or(Ok(general.mode), |word| meaning(word, SandboxMode::WORDS))?,
            network: network.map_or(Ok(general.network), |word| meaning(word, SandboxNetwork::WORDS))?,
        })
    }
}

/// What differs for agents. Their names are not checked: agents are of workspaces, and come and go with their configuration.
/// A variable has `plan=read-only,build=workspace-write/allow`: for each agent its mode and, after a slash, its network.
pub(super) fn agents() -> Kind<BTreeMap<String, RawSandboxAgent>, BTreeMap<String, RawSandboxAgent>> {
    let (mode, network) = (SandboxMode::Off, SandboxNetwork::Ask);
    let parse = move |agents: BTreeMap<String, RawSandboxAgent>, _: &Context<'_>| {
        for (name, agent) in &agents {
            let rule = agent.rule(SandboxRule { mode, network });
            rule.map_err(|message| format!("agent {name:?}: {message}"))?;
        }
        Ok(agents)
    };
    // What they are in force depends on the rule of all others: see `show_agents`.
    Kind::new(Shape::Tables, parse, |_| String::new()).with_variable(|text| {
        let entry = |agent: &str, rule: &str| {
            let rule = match rule.split_once('/') {
                Some((mode, network)) => table([("mode", mode.trim()), ("network", network.trim())]),
                None => table([("mode", rule)]),
            };
            (agent.to_owned(), toml::Value::from(rule))
        };
        pairs::<_, toml::Table>(text, "agent=mode or agent=mode/network", entry).map(toml::Value::from)
    })
}

impl SandboxConfig {
    /// Returns whether any program is confined.
    pub fn is_on(&self) -> bool {
        let mut rules = self.rules().map(|(_, rule)| rule).chain([self.general()]);
        rules.any(|rule| rule.mode != SandboxMode::Off)
    }

    /// Returns how the programs of agents are confined that have no rule of their own.
    pub fn general(&self) -> SandboxRule {
        let (mode, network) = (self.mode, self.network);
        SandboxRule { mode, network }
    }

    /// Returns the agents that have a rule of their own.
    pub fn rules(&self) -> impl Iterator<Item = (&str, SandboxRule)> {
        let rule = |agent: &RawSandboxAgent| agent.rule(self.general()).unwrap_or(self.general());
        self.agents
            .iter()
            .map(move |(name, agent)| (name.as_str(), rule(agent)))
    }

    /// Writes the agents as the variable has them.
    pub(super) fn show_agents(&self) -> String {
        let one =
            |(name, rule): (&str, SandboxRule)| format!("{name}={}/{}", rule.mode.as_str(), rule.network.as_str());
        or_none(self.rules().map(one).collect::<Vec<_>>().join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Config, RawConfig};
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

    fn agent(config: &SandboxConfig, name: &str) -> SandboxRule {
        config.rules().find(|(agent, _)| *agent == name).unwrap().1
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
        assert_eq!(
            config.general(),
            rule(SandboxMode::WorkspaceWrite, SandboxNetwork::Deny)
        );
        assert_eq!(
            agent(&config, "plan"),
            rule(SandboxMode::ReadOnly, SandboxNetwork::Deny)
        );
        assert_eq!(config.hidden, [Path::new("/nowhere/u/.ssh")]);
        assert_eq!(config.writable, [Path::new("/a"), Path::new("/b")]);
        assert!(config.required);
        let agents = [("TOOLGATE_SANDBOX_AGENTS", "build=workspace-write/allow, plan=read-only")];
        let config = load("", &agents).unwrap();
        assert_eq!(
            agent(&config, "build"),
            rule(SandboxMode::WorkspaceWrite, SandboxNetwork::Allow)
        );
        assert!(config.is_on() && config.general().mode == SandboxMode::Off);
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
