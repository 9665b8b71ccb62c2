//! What a service says of itself first: where it works, by which rules, for whom.
//!
//! *Invariant:* told from the configuration as it was at the start; nothing is asked of the service.

use std::path::Path;

use toolgate_config::service::{ClusterRole, LocalUsers, SandboxMode, SandboxNetwork};
use toolgate_config::{Config, Environment, ToolsConfig};
use toolgate_model::{Action, Rule};
use toolgate_permission::agents::{Agents, Folders};
use toolgate_process::sandbox::Kernel;

use super::folder;
use super::service::read_workspace;
use super::terminal::{Look, Terminal, short, visible};

/// So many workspaces are told of, and so many characters of the rules of each.
const WORKSPACES: usize = 8;
const RULES: usize = 160;

/// So many rules are told of each permission.
const PATTERNS: usize = 3;

/// What is asked about without a rule, in few words; docs/reference/permissions.md has all of it.
const BUILT_IN: &str = "ask about .env files, paths outside the workspace, repeated calls and rule files";

/// Where the values begin.
const COLUMN: usize = 12;

/// A fact, and whether it is one to be seen.
struct Fact {
    what: &'static str,
    text: String,
    stands_out: bool,
}

/// The facts.
pub(super) struct Greeting(Vec<Fact>);

impl Greeting {
    /// Gathers them.
    pub(super) fn of(config: &Config, environment: &Environment) -> Self {
        let mut facts = Vec::new();
        // Of workspaces that come later it is not known.
        let mut has_walls = config.workspaces.is_empty();
        let mut add = |what, text: String, stands_out| facts.push(Fact { what, text, stands_out });
        for workspace in config.workspaces.iter().take(WORKSPACES) {
            let trusted = if workspace.trust { ", whose code is trusted" } else { "" };
            let folder = folder::shown(&workspace.directory);
            add("workspace", format!("{} = {folder}{trusted}", workspace.name), false);
            // One that cannot be used has stopped the start.
            if let Ok((_, tools)) = read_workspace(&workspace.name, &workspace.directory, environment) {
                let (text, stands_out) = rules(&tools);
                add("rules", text, stands_out);
                has_walls |= confines(&tools);
            }
        }
        let more = config.workspaces.len().saturating_sub(WORKSPACES);
        if more > 0 {
            add("workspace", format!("and {more} more"), false);
        }
        if config.cluster.role != ClusterRole::Worker {
            let (text, stands_out) = callers(config);
            add("who", text, stands_out);
        }
        let (text, stands_out) = sandbox(config, has_walls, &Kernel::probe().lacks());
        add("sandbox", text, stands_out);
        if !config.console {
            add("console", "off; --console serves it".to_owned(), false);
        }
        Self(facts)
    }

    /// Tells them.
    pub(super) fn show(&self, terminal: &Terminal) {
        for Fact { what, text, stands_out } in &self.0 {
            let text = visible(text);
            let text = if *stands_out {
                terminal.err.text(Look::Yellow, &text)
            } else {
                text.into_owned()
            };
            if terminal.logs_messages {
                terminal.inform(&format!("{what}: {text}"));
            } else {
                terminal.inform(&format!("{what:COLUMN$}{text}"));
            }
        }
    }
}

/// Says what the rules of a workspace are, and whether that is something to be seen.
fn rules(tools: &ToolsConfig) -> (String, bool) {
    let global = &tools.agents.global;
    let of_agents = || tools.agents.agents.iter().flat_map(|agent| &agent.rules);
    if global.is_empty() && of_agents().next().is_none() {
        let text = format!("only the built-in ones, which {BUILT_IN}; `toolgate init` adds more");
        return (text, true);
    }
    let restricts = |rule: &Rule| rule.action != Action::Allow;
    if !global.iter().chain(of_agents()).any(restricts) {
        let allows_all = |rule: &Rule| rule.permission == "*" && rule.pattern == "*";
        if global.iter().any(allows_all) {
            return ("the rules allow everything: nobody is asked".to_owned(), true);
        }
        let text = format!("nothing is asked or denied by your rules; the built-in ones {BUILT_IN}");
        return (text, true);
    }
    let mut text = in_words(global);
    let agents: Vec<&str> = tools
        .agents
        .agents
        .iter()
        .filter(|agent| !agent.rules.is_empty())
        .map(|agent| agent.name.as_str())
        .collect();
    if !agents.is_empty() {
        text += if text.is_empty() { "" } else { "; " };
        text += &format!("others for {}", agents.join(", "));
    }
    (text, false)
}

/// Writes rules in their order: `bash ask, echo * allow; edit ask`. Of many for one permission the first are told.
fn in_words(rules: &[Rule]) -> String {
    let groups = rules.chunk_by(|one, next| one.permission == next.permission);
    let parts = groups.map(|group| {
        let shown: Vec<String> = group.iter().take(PATTERNS).map(verdict).collect();
        let more = match group.len().saturating_sub(PATTERNS) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let permission = group.first().map_or("", |rule| rule.permission.as_str());
        format!("{permission} {}{more}", shown.join(", "))
    });
    short(&parts.collect::<Vec<_>>().join("; "), RULES)
}

fn verdict(rule: &Rule) -> String {
    let action = match rule.action {
        Action::Allow => "allow",
        Action::Ask => "ask",
        Action::Deny => "deny",
    };
    match rule.pattern.as_str() {
        "*" => action.to_owned(),
        pattern => format!("{pattern} {action}"),
    }
}

/// Says who may connect.
fn callers(config: &Config) -> (String, bool) {
    let at = if config.listen.is_local() {
        "on this machine"
    } else {
        "from other machines as well"
    };
    let auth = &config.auth;
    let mut ways = Vec::new();
    ways.extend(auth.tokens_file.is_some().then_some("a token of auth.tokens_file"));
    ways.extend(auth.jwt.is_some().then_some("a signed token"));
    ways.extend((!auth.certificates.is_empty()).then_some("a certificate"));
    if let Some(unix) = &auth.unix {
        let ways = if ways.is_empty() {
            String::new()
        } else {
            format!("; anyone with {}", ways.join(" or "))
        };
        return (
            format!("you, and the group {} through the socket{ways}, {at}", unix.group),
            false,
        );
    }
    if !ways.is_empty() {
        return (format!("anyone with {}, {at}", ways.join(" or ")), false);
    }
    match config.listen.local_users {
        LocalUsers::Any if config.listen.tcp.is_some() => {
            (format!("anyone who can reach it, {at}, without authentication"), true)
        }
        LocalUsers::Any | LocalUsers::Same => (format!("you alone, {at}"), false),
    }
}

/// Says whether commands that no person approved are confined to what they were judged as, for the agent that is taken where none is
/// named.
fn confines(tools: &ToolsConfig) -> bool {
    let nowhere = Path::new("/");
    let folders = Folders {
        output_dir: nowhere,
        data_dir: nowhere,
        skills: &[],
    };
    Agents::new(&tools.agents, folders)
        .get("build")
        .is_none_or(|agent| agent.has_walls)
}

/// Says what commands are confined to.
fn sandbox(config: &Config, has_walls: bool, lacks: &[String]) -> (String, bool) {
    let network = match config.sandbox.network {
        SandboxNetwork::Ask => "ask for the network",
        SandboxNetwork::Allow => "may use the network",
        SandboxNetwork::Deny => "have no network",
    };
    let text = match config.sandbox.mode {
        SandboxMode::Off if has_walls => {
            "off for commands that a person approves; others are confined to what the rules judged".to_owned()
        }
        SandboxMode::Off => "off: commands may do whatever you may".to_owned(),
        SandboxMode::WorkspaceWrite => format!("commands write in the workspace only, and {network}"),
        SandboxMode::ReadOnly => format!("commands write nothing, and {network}"),
    };
    match lacks {
        [] => (text, false),
        lacks => (format!("not complete: the kernel lacks {}", lacks.join(" and ")), true),
    }
}

#[cfg(test)]
mod tests {
    use toolgate_config::RawConfig;

    use super::*;

    fn tools(config: &str) -> ToolsConfig {
        let vars = [("OPENCODE_CONFIG_CONTENT".to_owned(), config.to_owned())];
        let folder = tempfile::tempdir().unwrap();
        let environment = Environment::new(vars, folder.path()).with_system_dir(folder.path());
        ToolsConfig::load(folder.path(), folder.path(), &environment).unwrap()
    }

    #[test]
    fn rules_are_told_in_their_order() {
        let check = |config: &str, expected: &str, stands_out: bool| {
            let told = rules(&tools(config));
            assert!(told.0.starts_with(expected), "{}", told.0);
            assert_eq!(told.1, stands_out, "{config}");
        };
        check("{}", "only the built-in ones, which ask about .env files", true);
        check(
            r#"{"permission": {"bash": "allow"}}"#,
            "nothing is asked or denied by your rules; the built-in ones ask about .env files",
            true,
        );
        check(r#"{"permission": "allow"}"#, "the rules allow everything", true);
        check(r#"{"permission": {"bash": "ask"}}"#, "bash ask", false);
        check(
            r#"{"permission": {"bash": {"*": "ask", "echo *": "allow", "rm *": "deny"}, "edit": "ask"}}"#,
            "bash ask, echo * allow, rm * deny; edit ask",
            false,
        );
        check(
            r#"{"agent": {"plan": {"permission": {"bash": "deny"}}}}"#,
            "others for plan",
            false,
        );
    }

    #[test]
    fn it_is_told_who_may_connect() {
        let check = |vars: &[(&str, &str)], expected: &str, stands_out: bool| {
            let home = [("HOME", "/nowhere")];
            let vars = home
                .iter()
                .chain(vars)
                .map(|&(name, value)| (name.to_owned(), value.to_owned()));
            let environment = Environment::new(vars, Path::new("/nowhere"));
            let config = Config::load(None, RawConfig::default(), &environment).unwrap();
            assert_eq!(callers(&config), (expected.to_owned(), stands_out));
        };
        check(&[], "you alone, on this machine", false);
        let any = "anyone who can reach it, on this machine, without authentication";
        check(&[("TOOLGATE_LISTEN_LOCAL_USERS", "any")], any, true);
    }
}
