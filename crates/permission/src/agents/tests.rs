//! What becomes of agents: built in, configured, and after plugins.

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
fn plugins_take_away_only() {
    let folders = Folders {
        output_dir: Path::new("/data/tool-output"),
        data_dir: Path::new("/data"),
        skills: &[],
    };
    let block = |name: &str, disable: bool, rules: &[(&str, &str, Action)]| AgentConfig {
        name: name.to_owned(),
        disable,
        rules: list(rules),
        ..AgentConfig::default()
    };
    let written = AgentsConfig {
        global: list(&[("bash", "*", Ask), ("edit", "*.lock", Deny)]),
        agents: vec![block("general", true, &[])],
    };
    let left = AgentsConfig {
        global: list(&[("bash", "*", Allow), ("edit", "*", Allow), ("webfetch", "*", Deny)]),
        agents: vec![
            block("general", false, &[]),
            block(
                "own",
                false,
                &[("*", "*", Deny), ("bash", "*", Allow), ("question", "*", Allow)],
            ),
        ],
    };
    let agents = Agents::after_plugins(&left, &written, folders);
    let check = |name: &str, permission: &str, pattern: &str, expected: [Action; 2]| {
        let agent = agents.get(name).expect("the agent exists");
        let one = |rules| rules::evaluate_in(Path::new("/w"), permission, pattern, &[rules]).0;
        assert_eq!(
            agent.layers().map(one).collect::<Vec<_>>(),
            expected,
            "{name}: {permission}"
        );
    };
    check("build", "bash", "ls", [Allow, Ask]);
    check("build", "edit", "a.lock", [Allow, Deny]);
    check("build", "webfetch", "https://a", [Deny, Allow]);
    check("own", "bash", "ls", [Allow, Ask]);
    check("own", "read", "a", [Deny, Allow]);
    check("own", "question", "*", [Allow, Allow]);
    check("own", "external_directory", "/etc/*", [Deny, Ask]);
    assert_eq!(agents.get("general"), None, "what is switched off stays so");
    let same = Agents::after_plugins(&written, &written, folders);
    assert_eq!(
        same,
        Agents::new(&written, folders),
        "without a change there is no second layer"
    );
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
