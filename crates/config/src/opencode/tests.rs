//! Which files the tools are configured by, how they are merged, and what is refused in them.

use serde_json::json;
use toolgate_model::Action;

use super::*;

/// A machine of its own: a repository `w`, a home `home`, and `etc`.
struct Machine {
    folder: tempfile::TempDir,
    vars: Vec<(String, String)>,
}

impl Machine {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        for name in ["w/.git", "home", "etc"] {
            std::fs::create_dir_all(folder.path().join(name)).expect("the folder is ours");
        }
        let home = folder.path().join("home").display().to_string();
        let machine = Self {
            folder,
            vars: vec![("HOME".to_owned(), home)],
        };
        for (name, text) in files {
            let path = machine.path(name);
            std::fs::create_dir_all(path.parent().expect("it has a folder")).expect("the folder is ours");
            std::fs::write(path, text).expect("the folder is ours");
        }
        machine
    }

    fn var(mut self, name: &str, value: impl Into<String>) -> Self {
        self.vars.push((name.to_owned(), value.into()));
        self
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn load(&self, cwd: &str) -> Result<ToolsConfig, ConfigError> {
        let env = Environment::new(self.vars.clone(), self.path("w")).with_system_dir(self.path("etc"));
        ToolsConfig::load(&self.path(cwd), &self.path("w"), &env)
    }

    fn check(&self, cwd: &str, expected: &[(&str, Value)]) -> ToolsConfig {
        let config = self.load(cwd).expect("the configuration is valid");
        let merged = Value::Object(config.merged.clone());
        for (pointer, value) in expected {
            // As text, because the order of keys matters.
            let found = merged.pointer(pointer).map(Value::to_string);
            assert_eq!(
                found.as_deref(),
                Some(value.to_string().as_str()),
                "{pointer} in {merged}"
            );
        }
        config
    }
}

#[test]
fn nothing_at_all() {
    let config = Machine::new(&[]).check("w", &[]);
    assert!(config.merged.is_empty() && config.warnings.is_empty() && config.directories.is_empty());
}

#[test]
fn words_and_old_tools_become_permissions() {
    Machine::new(&[("w/opencode.json", r#"{"permission": "ask"}"#)])
        .check("w", &[("/permission", json!({"*": "ask"}))]);
    let text = r#"{"tools":{"write":false,"bash":false,"foo_*":false,"patch":true},"permission":{"bash":"ask"}}"#;
    let config = Machine::new(&[("w/opencode.json", text)]).check(
        "w",
        &[("/permission", json!({"edit": "allow", "bash": "ask", "foo_*": "deny"}))],
    );
    let order: Vec<&str> = config
        .agents
        .global
        .iter()
        .map(|rule| rule.permission.as_str())
        .collect();
    assert_eq!(order, ["edit", "bash", "foo_*"]);
}

#[test]
fn comments_and_substitution() {
    let machine = Machine::new(&[
        (
            "w/opencode.json",
            "{\n// a comment\n\"username\": \"{env:MY_USER}-{env:NOT_SET}\", /* b */\n\"instructions\":[\"{file:sub/t.txt}\"],\n}",
        ),
        ("w/sub/t.txt", "  multi\nline \"q\" \\ end \n"),
    ]);
    machine.var("MY_USER", "bob").check(
        "w",
        &[
            ("/username", json!("bob-")),
            ("/instructions", json!(["multi\nline \"q\" \\ end"])),
        ],
    );
}

#[test]
fn the_project_beats_the_home() {
    Machine::new(&[
        ("home/.config/opencode/config.json", r#"{"username": "c", "share": "c", "theme": "c"}"#),
        (
            "home/.config/opencode/opencode.json",
            r#"{"permission": {"bash": "allow", "edit": "ask"}, "instructions": ["g", "both"], "share": "j", "theme": "j"}"#,
        ),
        ("home/.config/opencode/opencode.jsonc", r#"{"theme": "jc"}"#),
        (
            "w/opencode.json",
            r#"{"permission": {"bash": "deny"}, "instructions": ["both", "p"]}"#,
        ),
    ])
    .check(
        "w",
        &[
            ("/permission", json!({"bash": "deny", "edit": "ask"})),
            ("/instructions", json!(["g", "both", "p"])),
            ("/username", json!("c")),
            ("/share", json!("j")),
            ("/theme", json!("jc")),
        ],
    );
}

#[test]
fn inner_beats_outer_and_dot_folders_beat_files() {
    let machine = Machine::new(&[
        (
            "w/opencode.json",
            r#"{"username": "root", "share": "auto", "snapshot": false}"#,
        ),
        ("w/opencode.jsonc", r#"{"snapshot": true}"#),
        ("w/a/b/opencode.json", r#"{"username": "leaf", "share": "manual"}"#),
        (
            "w/.opencode/opencode.json",
            r#"{"username": "outer", "theme": "outer"}"#,
        ),
        ("w/a/b/.opencode/opencode.json", r#"{"username": "dot"}"#),
        ("home/.opencode/opencode.json", r#"{"theme": "home"}"#),
        ("opencode.json", r#"{"outside": 1}"#),
    ]);
    let config = machine.check(
        "w/a/b",
        &[
            ("/username", json!("dot")),
            ("/share", json!("manual")),
            ("/snapshot", json!(true)),
            ("/theme", json!("home")),
        ],
    );
    assert_eq!(
        config.directories,
        ["w/.opencode", "w/a/b/.opencode", "home/.opencode"].map(|name| machine.path(name))
    );
    assert_eq!(config.part("outside"), None);
}

#[test]
fn outside_a_repository_the_search_goes_on() {
    let machine = Machine::new(&[
        ("opencode.json", r#"{"username": "above"}"#),
        ("w/opencode.json", r#"{"share": "auto"}"#),
    ]);
    std::fs::remove_dir(machine.path("w/.git")).expect("the folder is ours");
    machine.check("w", &[("/username", json!("above")), ("/share", json!("auto"))]);
}

#[test]
fn variables_and_the_machine() {
    let machine = Machine::new(&[
        (
            "w/opencode.json",
            r#"{"username": "proj", "share": "manual", "permission": {"edit": "allow", "bash": "ask"}}"#,
        ),
        ("w/x/custom.json", r#"{"username": "custom", "snapshot": false}"#),
        ("dir/opencode.json", r#"{"theme": "dir"}"#),
        ("dir/agent/a.md", "---\nmode: subagent\n---\nx"),
        (
            "etc/opencode/opencode.json",
            r#"{"theme": "etc", "permission": {"edit": "ask"}}"#,
        ),
    ]);
    let dir = machine.path("dir").display().to_string();
    machine
        .var("OPENCODE_CONFIG", "x/custom.json")
        .var("OPENCODE_CONFIG_DIR", dir)
        .var(
            "OPENCODE_CONFIG_CONTENT",
            r#"{"share": "disabled", "theme": "content"}"#,
        )
        .var("OPENCODE_PERMISSION", r#"{"bash": {"rm *": "deny"}, "edit": "deny"}"#)
        .check(
            "w",
            &[
                ("/username", json!("proj")),
                ("/snapshot", json!(false)),
                ("/share", json!("disabled")),
                ("/theme", json!("etc")),
                ("/permission", json!({"edit": "deny", "bash": {"rm *": "deny"}})),
                ("/agent/a", json!({"mode": "subagent", "prompt": "x"})),
            ],
        );
}

#[test]
fn the_project_can_be_left_out() {
    let machine = Machine::new(&[
        ("w/opencode.json", r#"{"username": "proj"}"#),
        ("w/.opencode/opencode.json", r#"{"username": "dot"}"#),
        ("home/.opencode/opencode.json", r#"{"share": "home"}"#),
    ]);
    let config = machine
        .var("OPENCODE_DISABLE_PROJECT_CONFIG", "1")
        .check("w", &[("/share", json!("home"))]);
    assert_eq!(config.part("username"), None);
    assert!(config.flags.disable_project_config);
}

#[test]
fn agent_files() {
    let config = Machine::new(&[
        (
            "w/.opencode/agent/rev.md",
            "---\ndescription: Rev\nmode: subagent\ntools:\n  write: false\npermission:\n  webfetch: deny\ncustomopt: 5\nmaxSteps: 3\n---\nYou review.\n",
        ),
        ("w/.opencode/agents/team/deep.md", "---\ndescription: Deep\n---\nd"),
        ("home/.config/opencode/mode/lead.md", "---\npermission: ask\n---\n"),
        ("w/opencode.json", r#"{"agent": {"rev": {"permission": {"bash": "ask"}, "model": "p/m"}, "general": {"disable": true}}}"#),
    ])
    .check(
        "w",
        &[
            ("/agent/rev/description", json!("Rev")),
            ("/agent/rev/mode", json!("subagent")),
            ("/agent/rev/prompt", json!("You review.")),
            ("/agent/rev/permission", json!({"bash": "ask", "edit": "deny", "webfetch": "deny"})),
            ("/agent/rev/options/customopt", json!(5)),
            ("/agent/rev/steps", json!(3)),
            ("/agent/team~1deep/description", json!("Deep")),
            ("/agent/lead", json!({"permission": {"*": "ask"}, "prompt": "", "mode": "primary"})),
        ],
    );
    let rev = config
        .agents
        .agents
        .iter()
        .find(|agent| agent.name == "rev")
        .expect("it is configured");
    assert_eq!(rev.mode, Some(Mode::Subagent));
    assert_eq!(rev.model.as_deref(), Some("p/m"));
    assert_eq!(rev.rules.last(), Some(&rules::rule("webfetch", "*", Action::Deny)));
    assert!(
        config
            .agents
            .agents
            .iter()
            .any(|agent| agent.name == "general" && agent.disable)
    );
}

#[test]
fn parts() {
    let text = r#"{"experimental": {"batch_tool": true, "primary_tools": ["bash"], "continue_loop_on_deny": true, "mcp_timeout": 500},
        "tool_output": {"max_lines": 10}, "permission": {"read": {"~/x": "deny"}}, "permissions": {}, "plugin": ["./p.js", "pkg", "./p.js"]}"#;
    let machine = Machine::new(&[("w/.opencode/opencode.json", text)]);
    let config = machine.check("w", &[]);
    assert_eq!(
        config.experimental,
        Experimental {
            batch_tool: true,
            primary_tools: vec!["bash".to_owned()],
            continue_loop_on_deny: true,
            mcp_timeout: Some(Duration::from_millis(500)),
        }
    );
    assert_eq!(
        (config.tool_output.max_lines, config.tool_output.max_bytes),
        (Some(10), None)
    );
    assert_eq!(
        config.agents.global[0].pattern,
        machine.path("home/x").display().to_string()
    );
    assert!(
        config
            .warnings
            .iter()
            .any(|warning| warning.contains("\"permissions\"")),
        "{:?}",
        config.warnings
    );
    let plugin = format!("file://{}", machine.path("w/.opencode/p.js").display());
    assert_eq!(config.part("plugin"), Some(&json!([plugin, "pkg"])));
}

#[test]
fn packages_of_providers_and_models() {
    let home =
        r#"{"provider": {"a": {"npm": "p1", "models": {"m/x": {"provider": {"npm": "p2"}}, "n": {}}}, "b": {}}}"#;
    let config = Machine::new(&[
        ("home/.config/opencode/opencode.json", home),
        (
            "w/opencode.json",
            r#"{"provider": {"a": {"npm": "p3"}, "c": {"models": {"m": {"provider": {}}}}}}"#,
        ),
    ])
    .check("w", &[]);
    let packages: Vec<(&str, &str)> = config
        .packages
        .iter()
        .map(|(key, package)| (&**key, &**package))
        .collect();
    assert_eq!(packages, [("a", "p3"), ("a/m/x", "p2")]);
    assert!(config.warnings.is_empty(), "{:?}", config.warnings);
    for wrong in [
        r#"{"provider": []}"#,
        r#"{"provider": {"a": {"npm": 5}}}"#,
        r#"{"provider": {"a": {"models": {"m": {"provider": {"npm": null}}}}}}"#,
    ] {
        assert!(
            Machine::new(&[("w/opencode.json", wrong)]).load("w").is_err(),
            "{wrong}"
        );
    }
}

#[test]
fn every_value_has_an_origin() {
    let machine = Machine::new(&[
        (
            "home/.config/opencode/opencode.json",
            r#"{"permission": {"bash": "allow", "edit": "ask"}, "instructions": ["g"]}"#,
        ),
        (
            "w/opencode.json",
            r#"{"permission": {"bash": "deny"}, "instructions": ["p"], "tools": {"read": false}, "mcp": {}}"#,
        ),
    ]);
    let config = machine.check("w", &[]);
    let (home, project) = (
        machine.path("home/.config/opencode/opencode.json"),
        machine.path("w/opencode.json"),
    );
    let (home, project) = (home.display().to_string(), project.display().to_string());
    let found: Vec<(String, Vec<String>)> = config
        .explain()
        .into_iter()
        .map(|leaf| (leaf.pointer, leaf.origins.iter().map(ToString::to_string).collect()))
        .collect();
    let expected = [
        ("/permission/read", vec!["the old key \"tools\"".to_owned()]),
        ("/permission/bash", vec![project.clone()]),
        ("/permission/edit", vec![home.clone()]),
        ("/instructions", vec![home, project.clone()]),
        ("/tools/read", vec![project.clone()]),
        ("/mcp", vec![project]),
    ];
    assert_eq!(found, expected.map(|(pointer, origins)| (pointer.to_owned(), origins)));
}

#[test]
fn errors_name_file_line_key_and_expectation() {
    let cases: &[(&str, &str, &[&str])] = &[
        (
            "w/opencode.json",
            "{\n\n  \"permission\": {\n    \"bash\": \"maybe\"}}",
            &[
                "Configuration is invalid at ",
                "w/opencode.json",
                "line 4, column 5: permission.bash: expected \"allow\", \"ask\" or \"deny\", found \"maybe\"",
            ],
        ),
        (
            "w/opencode.json",
            "{\"permission\" 1}",
            &["w/opencode.json", "line 1, column 15"],
        ),
        ("w/opencode.json", "[]", &["expected an object"]),
        (
            "w/opencode.json",
            r#"{"username": "{file:nope.txt}"}"#,
            &[
                "bad file reference: \"{file:nope.txt}\" /",
                "nope.txt does not exist",
                "line 1, column 15",
            ],
        ),
        (
            "w/.opencode/agent/a.md",
            "---\ndescription: x\nmode: both\n---\n",
            &["agent/a.md", "line 3, column 1: agent.a.mode: expected \"subagent\""],
        ),
        (
            "w/.opencode/agent/a.md",
            "---\nmode: [\n---\n",
            &["agent/a.md", "not YAML"],
        ),
        (
            "home/.config/opencode/opencode.json",
            r#"{"agent": {"a": {"permission": {"bash": {"x": 1}}}}}"#,
            &["agent.a.permission.bash.x"],
        ),
    ];
    for (file, text, parts) in cases {
        let error = Machine::new(&[(file, text)])
            .load("w")
            .expect_err("it is invalid")
            .to_string();
        for part in *parts {
            assert!(error.contains(part), "{part:?} is not in {error:?}");
        }
    }
}

#[test]
fn bad_variables() {
    let config = Machine::new(&[])
        .var("OPENCODE_PERMISSION", "{not json")
        .check("w", &[]);
    assert!(
        config
            .warnings
            .iter()
            .any(|warning| warning.contains("OPENCODE_PERMISSION"))
    );
    let config = Machine::new(&[]).var("OPENCODE_CONFIG", "nowhere.json").check("w", &[]);
    assert!(config.warnings.iter().any(|warning| warning.contains("nowhere.json")));
    for (name, value) in [
        ("OPENCODE_PERMISSION", "{\"bash\": 1}"),
        ("OPENCODE_CONFIG_CONTENT", "{"),
    ] {
        let error = Machine::new(&[]).var(name, value).load("w").expect_err("it is invalid");
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[test]
fn errors_show_no_secrets() {
    let machine = Machine::new(&[("w/opencode.json", "{\"username\": \"{env:TOKEN}\" \"x\"}")]);
    let error = machine
        .var("TOKEN", "hush")
        .load("w")
        .expect_err("it is invalid")
        .to_string();
    assert!(error.contains("{env:TOKEN}") && !error.contains("hush"), "{error}");
}

#[test]
fn syntax_errors_show_the_line() {
    let error = Machine::new(&[("w/opencode.json", "{\n  \"a\" 1\n}")])
        .load("w")
        .expect_err("it is invalid");
    assert!(error.to_string().ends_with("\n      \"a\" 1\n          ^"), "{error}");
}

#[test]
fn code_of_the_project_needs_trust() {
    let config = Machine::new(&[
        ("home/.config/opencode/opencode.json", r#"{"mcp": {"own": {"type": "local", "command": ["a"]}}, "plugin": ["p"]}"#),
        (
            "w/opencode.json",
            r#"{"mcp": {"theirs": {"type": "local", "command": ["b"]}, "own": {"type": "local", "command": ["evil"]}}, "plugin": ["q"]}"#,
        ),
        ("w/.opencode/tool/x.js", ""),
        ("home/.opencode/tool/y.js", ""),
    ])
    .check("w", &[("/mcp/own/command", json!(["evil"]))]);
    assert_eq!(
        config.code("mcp", false),
        Some(json!({"own": {"type": "local", "command": ["a"]}}))
    );
    assert_eq!(config.code("plugin", false), Some(json!(["p"])));
    assert_eq!(config.code("plugin", true), Some(json!(["p", "q"])));
    assert!(config.code("mcp", true).is_some_and(|mcp| mcp["theirs"].is_object()));
    let names = |trusted: bool| {
        let folders = config.code_directories(trusted);
        let name = |folder: &PathBuf| folder.parent().and_then(Path::file_name).map(|name| name.to_owned());
        folders
            .iter()
            .filter_map(name)
            .map(|name| name.to_string_lossy().into_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(false), [".config", "home"]);
    assert_eq!(names(true), [".config", "w", "home"]);
}

#[test]
fn what_files_said_that_are_gone_stays_where_it_was() {
    let machine = Machine::new(&[
        (
            "home/.config/opencode/opencode.json",
            r#"{"permission": {"bash": "allow"}}"#,
        ),
        (
            "w/opencode.json",
            r#"{"permission": {"bash": "deny", "edit": "deny"}, "mcp": {"s": {"enabled": false}, "t": {"type": "local", "command": ["x"]}},
                "subagent_depth": 0, "experimental": {"primary_tools": ["bash"], "mcp_timeout": 5}, "username": "x"}"#,
        ),
        ("w/.opencode/opencode.json", r#"{"permission": {"edit": "ask"}}"#),
        ("w/.opencode/agent/mine.md", "---\npermission:\n  bash: deny\n---\n"),
        ("w/.opencode/agent/plan.md", "---\npermission:\n  bash: deny\n---\n"),
    ]);
    let env = Environment::new(machine.vars.clone(), machine.path("w")).with_system_dir(machine.path("etc"));
    let again = |before: &ToolsConfig| {
        let (directory, mut seen) = (machine.path("w"), Seen::default());
        ToolsConfig::load_again(&directory, &directory, &env, &mut seen, before).expect("it is valid")
    };
    let remove = |name: &str| std::fs::remove_file(machine.path(name)).expect("it is there");
    let before = machine.check("w", &[]);
    let (same, kept) = again(&before);
    assert_eq!((&same.merged, kept.len()), (&before.merged, 0));

    remove("w/opencode.json");
    let (tools, kept) = again(&before);
    assert_eq!(kept, [machine.path("w/opencode.json")]);
    // As strong as it was: not stronger than what is inside of it.
    assert_eq!(tools.merged["permission"], json!({"bash": "deny", "edit": "ask"}));
    // What else held something back stays with them, and nothing else does.
    assert_eq!(tools.merged["mcp"], json!({"s": {"enabled": false}}));
    assert_eq!(tools.merged["experimental"], json!({"primary_tools": ["bash"]}));
    assert_eq!(
        (tools.subagent_depth, tools.merged.contains_key("username")),
        (0, false)
    );
    // And so it goes on, whatever else changes.
    std::fs::write(machine.path("w/.opencode/opencode.json"), "{}").expect("the folder is ours");
    remove("w/.opencode/agent/mine.md");
    remove("w/.opencode/agent/plan.md");
    let (tools, kept) = again(&tools);
    assert_eq!(
        kept,
        ["w/opencode.json", "w/.opencode/agent/plan.md"].map(|name| machine.path(name))
    );
    assert_eq!(tools.merged["permission"], json!({"bash": "deny", "edit": "deny"}));
    let agents: Vec<&str> = tools.agents.agents.iter().map(|agent| agent.name.as_str()).collect();
    assert_eq!(agents, ["plan"]);
    std::fs::write(machine.path("w/opencode.json"), "{}").expect("the folder is ours");
    let (tools, kept) = again(&tools);
    assert_eq!(
        (tools.merged["permission"].clone(), kept.len()),
        (json!({"bash": "allow"}), 1)
    );
}

#[test]
fn what_a_link_leads_to_is_looked_for_before_it_is_there() {
    let machine = Machine::new(&[("w/.opencode/agent/x.txt", "")]);
    std::os::unix::fs::symlink(machine.path("w/later"), machine.path("w/.opencode/agent/team")).expect("it is ours");
    let env = Environment::new(machine.vars.clone(), machine.path("w")).with_system_dir(machine.path("etc"));
    let (directory, mut seen) = (machine.path("w"), Seen::default());
    ToolsConfig::load_and_note(&directory, &directory, &env, &mut seen).expect("it is valid");
    let before = seen.stamps();
    assert!(seen.paths().any(|path| path.ends_with(".opencode/agent/team")));
    std::fs::create_dir(machine.path("w/later")).expect("it is ours");
    assert_ne!(seen.stamps(), before);
}

#[test]
fn an_agent_file_that_moves_takes_its_rules_with_it() {
    let machine = Machine::new(&[("w/.opencode/agent/mine.md", "---\npermission:\n  bash: deny\n---\n")]);
    let env = Environment::new(machine.vars.clone(), machine.path("w")).with_system_dir(machine.path("etc"));
    let before = machine.check("w", &[("/agent/mine/permission", json!({"bash": "deny"}))]);
    std::fs::rename(machine.path("w/.opencode/agent"), machine.path("w/.opencode/agents")).expect("it is there");
    let file = machine.path("w/.opencode/agents/mine.md");
    std::fs::write(file, "---\npermission:\n  edit: ask\n---\n").expect("the folder is ours");
    let (directory, mut seen) = (machine.path("w"), Seen::default());
    let again = ToolsConfig::load_again(&directory, &directory, &env, &mut seen, &before);
    let (tools, kept) = again.expect("it is valid");
    assert_eq!(tools.merged["agent"]["mine"]["permission"], json!({"edit": "ask"}));
    assert!(kept.is_empty(), "{kept:?}");
}

#[test]
fn what_is_odd_without_a_service_depends_on_what_may_bring_tools() {
    let rules = ("w/opencode.json", r#"{"permission": {"bahs": "ask", "deploy": "ask"}}"#);
    let check = |more: (&str, &str), expected: usize| {
        let machine = Machine::new(&[rules, more]);
        let tools = machine.check("w", &[]);
        assert_eq!(tools.warnings_alone().len(), expected, "{:?}", tools.warnings_alone());
    };
    check(("w/x", ""), 2);
    check(("w/.opencode/tool/deploy.ts", ""), 1);
    check(("home/.config/opencode/opencode.json", r#"{"plugin": ["p"]}"#), 1);
    check(
        (
            "w/opencode.jsonc",
            r#"{"mcp": {"s": {"type": "local", "command": ["x"]}}}"#,
        ),
        1,
    );
}

#[test]
fn agent_files_that_are_not_whole_are_told() {
    let tools = Machine::new(&[
        ("w/.opencode/agent/a.md", "---\npermission:\n  bash: deny\n"),
        ("w/.opencode/agent/b.md", ""),
        ("w/.opencode/agent/c.md", "---\n---\ntext"),
    ])
    .check("w", &[]);
    assert_eq!(tools.unfinished.len(), 2, "{:?}", tools.unfinished);
    assert_eq!(tools.warnings.len(), 1, "{:?}", tools.warnings);
    assert!(
        tools.warnings[0].contains("a.md: its first lines say nothing"),
        "{:?}",
        tools.warnings
    );
}
