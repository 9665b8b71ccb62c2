//! Agents: the built-in ones, what the configuration makes of them, and the rules that each one ends up with
//! (`docs/spec/permission.md` §9).
//!
//! *Invariant:* pure. An agent's rules are, in this order: the defaults, its own built-in rules, the user's global
//! block, its configured block, and a last pair that keeps stored output readable.

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

    /// Returns the agent called `name`.
    pub fn get(&self, name: &str) -> Option<&Arc<Agent>> {
        self.0.iter().find(|agent| agent.name == name)
    }

    /// Returns every agent, hidden ones included.
    pub fn iter(&self) -> impl Iterator<Item = &Agent> {
        self.0.iter().map(AsRef::as_ref)
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
mod tests {
    use toolgate_model::Action;

    use super::*;

    fn agents(global: &[(&str, &str, Action)], blocks: Vec<AgentConfig>) -> Agents {
        let config = AgentsConfig {
            global: list(global),
            agents: blocks,
        };
        let folders = Folders {
            output_dir: Path::new("/data/tool-output"),
            data_dir: Path::new("/data"),
            skills: &[PathBuf::from("/home/s/one"), PathBuf::from("/home/*")],
        };
        Agents::new(&config, folders)
    }

    fn list(rows: &[(&str, &str, Action)]) -> Vec<Rule> {
        rows.iter()
            .map(|&(name, pattern, action)| rule(name, pattern, action))
            .collect()
    }

    fn check(agents: &Agents, name: &str, rows: &[(&str, &str, Action)]) {
        let agent = agents.get(name).expect("the agent exists");
        for &(permission, pattern, expected) in rows {
            let (action, _) = rules::evaluate_in(Path::new("/w"), permission, pattern, &[&agent.rules]);
            assert_eq!(action, expected, "{name}: {permission} {pattern}");
        }
    }

    #[test]
    fn build() {
        let agents = agents(&[], Vec::new());
        check(
            &agents,
            "build",
            &[
                ("bash", "ls", Allow),
                ("doom_loop", "bash", Ask),
                ("external_directory", "/somewhere/*", Ask),
                ("external_directory", "/data/tool-output/*", Allow),
                ("external_directory", "/home/s/one/*", Allow),
                ("external_directory", "/home/s/one/sub/*", Allow),
                ("external_directory", "/home/s/*", Ask),
                ("question", "*", Allow),
                ("plan_enter", "*", Allow),
                ("plan_exit", "*", Deny),
                ("read", "a.txt", Allow),
                ("read", ".env", Ask),
                ("read", "/p/.env.local", Ask),
                ("read", "/p/.env.example", Allow),
            ],
        );
    }

    #[test]
    fn plan() {
        let rows: &[(&str, &str, Action)] = &[
            ("edit", "src/a.ts", Deny),
            ("edit", ".opencode/plans/one.md", Allow),
            ("edit", ".opencode/plans/one.txt", Deny),
            ("edit", "../data/plans/one.md", Allow),
            ("external_directory", "/data/plans/*", Allow),
            ("plan_exit", "*", Allow),
            ("plan_enter", "*", Deny),
            ("bash", "rm -rf x", Allow),
        ];
        check(&agents(&[], Vec::new()), "plan", rows);
        let opened = agents(&[("edit", "*", Allow)], Vec::new());
        check(&opened, "plan", &[("edit", "src/a.ts", Allow)]);
    }

    #[test]
    fn subagents() {
        let agents = agents(&[], Vec::new());
        let general: &[(&str, &str, Action)] = &[
            ("todowrite", "*", Deny),
            ("todoread", "*", Deny),
            ("question", "*", Deny),
            ("bash", "ls", Allow),
        ];
        check(&agents, "general", general);
        let explore: &[(&str, &str, Action)] = &[
            ("grep", "x", Allow),
            ("bash", "ls", Allow),
            ("read", "/p/.env", Allow),
            ("edit", "a", Deny),
            ("task", "general", Deny),
            ("doom_loop", "bash", Deny),
            ("external_directory", "/other/*", Deny),
            ("external_directory", "/data/tool-output/*", Allow),
            ("external_directory", "/home/s/one/*", Allow),
        ];
        check(&agents, "explore", explore);
        check(&agents, "title", &[("bash", "ls", Deny)]);
        assert!(agents.iter().filter(|agent| agent.hidden).count() == 3);
    }

    #[test]
    fn stored_output_stays_readable_unless_that_folder_is_denied() {
        let row: fn(Action) -> [(&'static str, &'static str, Action); 1] =
            |action| [("external_directory", "/data/tool-output/*", action)];
        let denied = agents(&[("external_directory", "*", Deny)], Vec::new());
        check(&denied, "build", &row(Allow));
        check(&denied, "build", &[("external_directory", "/etc/*", Deny)]);
        check(&denied, "build", &[("external_directory", "/home/s/one/*", Deny)]);
        let meant = agents(&[("external_directory", "/data/tool-output/*", Deny)], Vec::new());
        check(&meant, "build", &row(Deny));
    }

    #[test]
    fn configured_agents() {
        let reviewer = AgentConfig {
            name: "reviewer".to_owned(),
            rules: list(&[("edit", "*", Deny)]),
            ..AgentConfig::default()
        };
        let build = AgentConfig {
            name: "build".to_owned(),
            description: Some("mine".to_owned()),
            mode: Some(Mode::All),
            rules: list(&[("bash", "*", Ask)]),
            ..AgentConfig::default()
        };
        let gone = AgentConfig {
            name: "general".to_owned(),
            disable: true,
            ..AgentConfig::default()
        };
        let agents = agents(&[("bash", "*", Deny)], vec![reviewer, build, gone]);
        check(&agents, "reviewer", &[("edit", "a", Deny), ("bash", "x", Deny)]);
        check(&agents, "build", &[("bash", "x", Ask)]);
        assert_eq!(agents.get("reviewer").map(|agent| agent.mode), Some(Mode::All));
        assert_eq!(agents.get("build").map(|agent| agent.mode), Some(Mode::All));
        assert_eq!(
            agents.get("build").and_then(|agent| agent.description.as_deref()),
            Some("mine")
        );
        assert_eq!(agents.get("general"), None);
    }

    #[test]
    fn built_in_agents_have_the_names_that_are_listed() {
        let agents = agents(&[], Vec::new());
        assert!(agents.iter().map(|agent| agent.name.as_str()).eq(BUILT_IN));
    }

    #[test]
    fn tasks() {
        assert!(may_use_task(&list(&[("*", "*", Allow)])));
        assert!(may_use_task(&[]));
        assert!(!may_use_task(&list(&[("*", "*", Deny), ("grep", "*", Allow)])));
        let denied = |rules: &[Rule]| rules::evaluate("task", "x", &[rules]).0 == Deny;
        assert!(denied(&subagent_rules(&list(&[("*", "*", Allow)]), &[])));
        assert!(!denied(&subagent_rules(&list(&[("task", "*", Allow)]), &[])));
        let withheld = subagent_rules(&[], &["webfetch".to_owned()]);
        assert_eq!(withheld.last(), Some(&rule("webfetch", "*", Deny)));
    }
}
