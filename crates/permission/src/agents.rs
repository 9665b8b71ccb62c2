//! Agents: the built-in ones, what the configuration makes of them, and the rules that each one ends up with
//! (`docs/spec/permission.md` §9).
//!
//! *Invariant:* pure. An agent's rules are, in this order: the defaults, its own built-in rules, the user's global
//! block, its configured block, and a last pair that keeps stored output readable. What plugins say of rules takes away only.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use toolgate_model::Action::{Allow, Ask, Deny};
use toolgate_model::Rule;

use super::rules::{self, rule};
use super::wildcard;

/// Where an agent may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// A person talks to it.
    Primary,
    /// Other agents give it tasks.
    Subagent,
    /// Both.
    All,
}

impl Mode {
    /// Returns the mode that configuration calls `word`.
    pub fn from_word(word: &str) -> Option<Self> {
        match word {
            "primary" => Some(Self::Primary),
            "subagent" => Some(Self::Subagent),
            "all" => Some(Self::All),
            _ => None,
        }
    }

    /// Returns configuration's word for the mode.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Subagent => "subagent",
            Self::All => "all",
        }
    }
}

/// What configuration says about agents, checked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgentsConfig {
    /// The rules of the global `permission` block.
    pub global: Vec<Rule>,
    /// One block per named agent, in the order of the configuration.
    pub agents: Vec<AgentConfig>,
}

/// What configuration says about one agent; what is absent stays as it is built in.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgentConfig {
    /// Which agent.
    pub name: String,
    /// When to use it, for other agents.
    pub description: Option<String>,
    /// Where it may be used.
    pub mode: Option<Mode>,
    /// Whether it is left out of lists.
    pub hidden: Option<bool>,
    /// Whether it does not exist at all.
    pub disable: bool,
    /// The model that it prefers, `provider/model`.
    pub model: Option<String>,
    /// Its system prompt, for whoever runs the model.
    pub prompt: Option<String>,
    /// The rules of its own `permission` block.
    pub rules: Vec<Rule>,
}

/// One agent, complete.
#[derive(Clone, Debug, PartialEq)]
pub struct Agent {
    /// Its name.
    pub name: String,
    /// When to use it, for other agents.
    pub description: Option<String>,
    /// Where it may be used.
    pub mode: Mode,
    /// Whether it is left out of lists.
    pub hidden: bool,
    /// The model that it prefers, `provider/model`.
    pub model: Option<String>,
    /// Its system prompt, for whoever runs the model.
    pub prompt: Option<String>,
    /// All its rules, weakest first.
    pub rules: Vec<Rule>,
    /// Rules that hold as well, where plugins have changed its own: it may at most what both allow.
    pub at_most: Option<Vec<Rule>>,
    /// Whether commands that no person approved are held to what their judged parts need: unless somebody configured that
    /// every command is allowed, and nothing asks for or denies a command, an edit or a folder outside.
    pub has_walls: bool,
}

/// The folders that built-in rules speak of, absolute.
#[derive(Clone, Copy, Debug)]
pub struct Folders<'a> {
    /// Where stored outputs are, which every agent may read.
    pub output_dir: &'a Path,
    /// The workspace's folder in the data directory; plans outside a repository are written below it.
    pub data_dir: &'a Path,
    /// The folders of skills outside the workspace: what a skill speaks of may be read.
    pub skills: &'a [PathBuf],
}

/// The agents of one workspace, built-in ones first, then in the order of the configuration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Agents(Vec<Arc<Agent>>);

impl Agents {
    /// Makes the agents that a configuration leads to.
    pub fn new(config: &AgentsConfig, folders: Folders<'_>) -> Self {
        let readable = stored_output(folders.output_dir);
        let outside = [readable.clone(), of_skills(folders.skills)].concat();
        let built_in = built_in(folders, &outside);
        let own_rules: BTreeMap<String, Vec<Rule>> = built_in
            .iter()
            .map(|agent| (agent.name.clone(), agent.rules.clone()))
            .collect();
        let mut configured: BTreeMap<&str, Vec<Rule>> = BTreeMap::new();
        let mut agents: Vec<Agent> = built_in
            .into_iter()
            .map(|own| Agent {
                has_walls: has_walls(&config.global, &own.rules),
                rules: [defaults(&outside), own.rules, config.global.clone()].concat(),
                ..own
            })
            .collect();
        for block in &config.agents {
            let known = agents.iter().position(|agent| agent.name == block.name);
            if block.disable {
                if let Some(index) = known {
                    agents.remove(index);
                }
                continue;
            }
            let index = known.unwrap_or_else(|| {
                let rules = [defaults(&outside), config.global.clone()].concat();
                agents.push(agent(&block.name, Mode::All, None, rules));
                agents.len() - 1
            });
            let own = own_rules.get(&block.name).map_or(&[][..], Vec::as_slice);
            let configured = configured.entry(&block.name).or_insert_with(|| config.global.clone());
            configured.extend(block.rules.iter().cloned());
            agents[index].has_walls = has_walls(configured, own);
            apply(&mut agents[index], block);
        }
        for agent in &mut agents {
            keep_readable(&mut agent.rules, &readable);
        }
        Self(agents.into_iter().map(Arc::new).collect())
    }

    /// Makes the agents that a configuration leads to which plugins have changed; `written` is what people have written. An
    /// agent may at most what it may by that alone, and one that only plugins know what a new one may: they are programs, and
    /// nobody has read what they say of rules. One that is switched off stays so.
    pub fn after_plugins(config: &AgentsConfig, written: &AgentsConfig, folders: Folders<'_>) -> Self {
        let before = Self::new(written, folders);
        let is_off = |name: &str| written.agents.iter().any(|block| block.disable && block.name == name);
        let agents = Self::new(config, folders).0.into_iter();
        let bounded = agents.filter(|agent| !is_off(&agent.name)).map(|agent| {
            let (bound, has_walls) = match before.get(&agent.name) {
                Some(known) => (known.rules.clone(), known.has_walls),
                None => (new_rules(written, folders), has_walls(&written.global, &[])),
            };
            Arc::new(Agent {
                has_walls: agent.has_walls || has_walls,
                at_most: (bound != agent.rules).then_some(bound),
                ..Agent::clone(&agent)
            })
        });
        Self(bounded.collect())
    }

    /// Returns the agent called `name`.
    pub fn get(&self, name: &str) -> Option<&Arc<Agent>> {
        self.0.iter().find(|agent| agent.name == name)
    }

    /// Returns every agent, hidden ones included.
    pub fn iter(&self) -> impl Iterator<Item = &Agent> {
        self.0.iter().map(AsRef::as_ref)
    }
}

impl Agent {
    /// Returns all its rulesets. Each of them holds.
    pub fn layers(&self) -> impl Iterator<Item = &[Rule]> {
        std::iter::once(&*self.rules).chain(self.at_most.as_deref())
    }
}

/// Says whether an agent with these rules may give tasks to others; the hint of a truncated output depends on it.
pub fn may_use_task(rules: &[Rule]) -> bool {
    rules::evaluate("task", "*", &[rules]).0 != Deny
}

/// Returns the rule that denies everything.
pub fn deny_all() -> Rule {
    rule("*", "*", Deny)
}

/// Returns the rules that a task adds to those of the subagent it runs: no todos, no further tasks unless one of the
/// agent's rules is about tasks by name, and none of the tools kept for primary agents.
pub fn subagent_rules(agent_rules: &[Rule], primary_tools: &[String]) -> Vec<Rule> {
    let mut added = vec![rule("todowrite", "*", Deny), rule("todoread", "*", Deny)];
    if !agent_rules.iter().any(|rule| rule.permission == "task") {
        added.push(rule("task", "*", Deny));
    }
    added.extend(primary_tools.iter().map(|tool| rule(tool, "*", Deny)));
    added
}

/// Says whether commands need walls: the built-in defaults do not count, since nobody said them, and so nobody said
/// either that there is to be nothing in the way.
fn has_walls(configured: &[Rule], own: &[Rule]) -> bool {
    let restricts = |permission: &str, rules: &[Rule]| -> Option<bool> {
        rules.iter().rev().find_map(|rule| {
            if !wildcard::matches(permission, &rule.permission) {
                return None;
            }
            let is_for_everything = !rule.pattern.is_empty() && rule.pattern.bytes().all(|byte| byte == b'*');
            match rule.action {
                Allow => is_for_everything.then_some(false),
                Ask | Deny => Some(true),
            }
        })
    };
    restricts("bash", configured) != Some(false)
        || ["edit", "external_directory"].into_iter().any(|permission| {
            restricts(permission, configured)
                .or_else(|| restricts(permission, own))
                .unwrap_or(false)
        })
}

/// Returns what an agent may that only plugins know: what any new one may, and what asks people and does nothing else.
fn new_rules(written: &AgentsConfig, folders: Folders<'_>) -> Vec<Rule> {
    let readable = stored_output(folders.output_dir);
    let outside = [readable.clone(), of_skills(folders.skills)].concat();
    let asking = ["question", "plan_enter", "plan_exit"].map(|name| rule(name, "*", Allow));
    let mut rules = [defaults(&outside), asking.to_vec(), written.global.clone()].concat();
    keep_readable(&mut rules, &readable);
    rules
}

fn apply(agent: &mut Agent, block: &AgentConfig) {
    if let Some(mode) = block.mode {
        agent.mode = mode;
    }
    if let Some(hidden) = block.hidden {
        agent.hidden = hidden;
    }
    for (ours, theirs) in [
        (&mut agent.description, &block.description),
        (&mut agent.model, &block.model),
        (&mut agent.prompt, &block.prompt),
    ] {
        if theirs.is_some() {
            ours.clone_from(theirs);
        }
    }
    agent.rules.extend(block.rules.iter().cloned());
}

/// Even a user's `"external_directory": "deny"` leaves stored output readable; only a deny of that very folder is
/// taken to mean it.
fn keep_readable(rules: &mut Vec<Rule>, readable: &[Rule]) {
    let is_denied = rules.iter().any(|rule| {
        rule.permission == "external_directory"
            && rule.action == Deny
            && readable.iter().any(|ours| ours.pattern == rule.pattern)
    });
    if !is_denied {
        rules.extend(readable.iter().cloned());
    }
}

fn stored_output(output_dir: &Path) -> Vec<Rule> {
    let folder = output_dir.to_string_lossy();
    vec![
        rule("external_directory", &folder, Allow),
        rule("external_directory", &format!("{folder}/*"), Allow),
    ]
}

fn of_skills(folders: &[PathBuf]) -> Vec<Rule> {
    let folders = folders.iter().map(|folder| folder.to_string_lossy());
    // A pattern cannot name such a folder alone.
    let folders = folders.filter(|folder| !folder.contains(['*', '?']));
    folders
        .map(|folder| rule("external_directory", &format!("{folder}/*"), Allow))
        .collect()
}

fn defaults(outside: &[Rule]) -> Vec<Rule> {
    let mut rules = vec![
        rule("*", "*", Allow),
        rule("doom_loop", "*", Ask),
        rule("external_directory", "*", Ask),
        // Asked only where programs run without the network until somebody allows it.
        rule("network", "*", Ask),
    ];
    rules.extend(outside.iter().cloned());
    rules.extend([
        rule("question", "*", Deny),
        rule("plan_enter", "*", Deny),
        rule("plan_exit", "*", Deny),
        rule("read", "*", Allow),
        rule("read", "*.env", Ask),
        rule("read", "*.env.*", Ask),
        rule("read", "*.env.example", Allow),
    ]);
    rules
}

/// The names of the agents that are built in.
pub const BUILT_IN: [&str; 7] = ["build", "plan", "general", "explore", "compaction", "title", "summary"];

/// The built-in agents with nothing but their own rules.
fn built_in(folders: Folders<'_>, outside: &[Rule]) -> Vec<Agent> {
    let mut agents = vec![
        agent(
            "build",
            Mode::Primary,
            Some("Does the work: uses every tool that its permissions allow."),
            vec![rule("question", "*", Allow), rule("plan_enter", "*", Allow)],
        ),
        agent(
            "plan",
            Mode::Primary,
            Some("Reads and plans; edits nothing but its plan files."),
            plan_rules(folders.data_dir),
        ),
        agent(
            "general",
            Mode::Subagent,
            Some(
                "General-purpose agent: researches open questions and carries out tasks of several steps; several of \
                 them can run at once.",
            ),
            vec![rule("todoread", "*", Deny), rule("todowrite", "*", Deny)],
        ),
        agent(
            "explore",
            Mode::Subagent,
            Some(
                "Fast agent specialized for exploring codebases. Finds files by name pattern, code by keyword, and \
                 answers about how things work. Say how thorough it should be: \"quick\", \"medium\" or \"very thorough\".",
            ),
            explore_rules(outside),
        ),
    ];
    agents.extend(["compaction", "title", "summary"].map(|name| Agent {
        hidden: true,
        ..agent(name, Mode::Primary, None, vec![rule("*", "*", Deny)])
    }));
    agents
}

fn agent(name: &str, mode: Mode, description: Option<&str>, rules: Vec<Rule>) -> Agent {
    Agent {
        name: name.to_owned(),
        description: description.map(str::to_owned),
        mode,
        hidden: false,
        model: None,
        prompt: None,
        rules,
        at_most: None,
        has_walls: true,
    }
}

/// The plans of the data directory are named absolutely: such a rule matches paths relative to any worktree
/// (see [`rules::evaluate_in`]).
fn plan_rules(data_dir: &Path) -> Vec<Rule> {
    let plans = data_dir.join("plans");
    let plans = plans.to_string_lossy();
    vec![
        rule("question", "*", Allow),
        rule("plan_exit", "*", Allow),
        rule("external_directory", &format!("{plans}/*"), Allow),
        rule("edit", "*", Deny),
        rule("edit", ".opencode/plans/*.md", Allow),
        rule("edit", &format!("{plans}/*.md"), Allow),
    ]
}

fn explore_rules(outside: &[Rule]) -> Vec<Rule> {
    let mut rules = vec![rule("*", "*", Deny)];
    let allowed = [
        "grep",
        "glob",
        "list",
        "bash",
        "webfetch",
        "websearch",
        "codesearch",
        "read",
    ];
    rules.extend(allowed.map(|permission| rule(permission, "*", Allow)));
    rules.extend(outside.iter().cloned());
    rules
}

#[cfg(test)]
mod tests;
