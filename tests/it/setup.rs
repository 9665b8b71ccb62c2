//! `toolgate setup`: the files of the clients, as they are found and as they are left.
//!
//! The clients themselves read them in the suite of other programs; here is what holds for all of them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_toolgate");

/// Each client, its file for a user and for a project, and the table of servers in it.
const CLIENTS: [(&str, &str, &str, &str); 7] = [
    ("claude-code", ".claude.json", ".mcp.json", "mcpServers"),
    ("codex", ".codex/config.toml", ".codex/config.toml", "mcp_servers"),
    ("opencode", ".config/opencode/opencode.json", "opencode.json", "mcp"),
    ("cursor", ".cursor/mcp.json", ".cursor/mcp.json", "mcpServers"),
    ("vscode", ".config/Code/User/mcp.json", ".vscode/mcp.json", "servers"),
    (
        "zed",
        ".config/zed/settings.json",
        ".zed/settings.json",
        "context_servers",
    ),
    ("gemini", ".gemini/settings.json", ".gemini/settings.json", "mcpServers"),
];

/// A person with an empty home, in a project.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("project")).unwrap();
        Self(folder)
    }

    fn path(&self, file: &str) -> PathBuf {
        self.0.path().join(file)
    }

    fn project(&self, file: &str) -> PathBuf {
        self.path("project").join(file)
    }

    fn setup(&self, args: &[&str]) -> Output {
        Command::new(PROGRAM)
            .env_clear()
            .env("HOME", self.0.path())
            .current_dir(self.path("project"))
            .arg("setup")
            .args(args)
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    /// Runs it to success; returns what it said.
    fn does(&self, args: &[&str]) -> String {
        let output = self.setup(args);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{args:?}: {said}");
        said
    }
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn parsed(path: &Path) -> Value {
    let text = read(path);
    if path.extension().is_some_and(|ending| ending == "toml") {
        return toml::from_str(&text).unwrap();
    }
    serde_json::from_str(&text).unwrap()
}

#[test]
fn an_entry_comes_and_goes_in_the_file_of_every_client() {
    for (client, user, project, table) in CLIENTS {
        let home = Home::new();
        for (file, scope, program) in [
            (home.path(user), None, PROGRAM),
            (home.project(project), Some("--project"), "toolgate"),
        ] {
            let with = |more: &[&'static str]| [&[client][..], scope.as_slice(), more].concat();
            home.does(&with(&["--yes", "--agent", "plan"]));
            let entry = parsed(&file)[table]["toolgate"].clone();
            let line = match entry["command"].as_array() {
                Some(words) => words.clone(),
                None => [&[entry["command"].clone()][..], entry["args"].as_array().unwrap()].concat(),
            };
            let starts: Vec<&str> = line.iter().map(|word| word.as_str().unwrap()).collect();
            assert_eq!(starts[..2], [program, "mcp"], "{client}: {entry}");
            assert_eq!(starts[starts.len() - 2..], ["--agent", "plan"], "{client}: {entry}");

            let before = read(&file);
            assert!(
                home.does(&with(&["--yes", "--agent", "plan"])).contains("already"),
                "{client}"
            );
            assert_eq!(read(&file), before, "{client}");
            home.does(&with(&["--yes"]));
            assert!(!read(&file).contains("plan"), "{client}: it is brought up to date");
            home.does(&with(&["--yes", "--remove"]));
            assert!(!read(&file).contains("toolgate"), "{client}: {}", read(&file));
            assert!(home.does(&with(&["--remove"])).contains("no such entry"), "{client}");
        }
    }
}

#[test]
fn nothing_is_written_that_nobody_agreed_to() {
    let home = Home::new();
    let output = home.setup(&["codex"]);
    assert_eq!(output.status.code(), Some(2));
    let (shown, said) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(
        shown.contains("@@ mcp_servers.toolgate @@\n") && shown.contains("+args = [\"mcp\"]"),
        "{shown}"
    );
    assert!(said.contains("--yes"), "{said}");
    assert!(!home.path(".codex").exists());
    let printed = home.setup(&["--json", "codex", "--yes"]).stdout;
    let printed: Value = serde_json::from_slice(&printed).unwrap();
    assert_eq!(printed["written"], true, "{printed}");
    assert!(
        printed["file"].as_str().unwrap().ends_with(".codex/config.toml"),
        "{printed}"
    );
}

#[test]
fn a_file_that_cannot_be_understood_is_left_alone() {
    for (client, user, _, table) in CLIENTS {
        let home = Home::new();
        let file = home.path(user);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        for broken in ["{\"a\": ", "= 1", "[[["] {
            std::fs::write(&file, broken).unwrap();
            let output = home.setup(&[client, "--yes"]);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(2), "{client}: {said}");
            assert!(said.contains("not touched") && said.contains(table), "{client}: {said}");
            assert_eq!(read(&file), broken);
        }
    }
}

#[test]
fn what_is_there_stays_as_it_is() {
    let home = Home::new();
    let file = home.path("dotfiles.json");
    let text = "{\n  // mine\n  \"theme\": \"dark\",\n  \"context_servers\": {\n    \"other\": { \"command\": \"x\" }, // that one\n  },\n}\n";
    std::fs::write(&file, text).unwrap();
    std::fs::create_dir_all(home.path(".config/zed")).unwrap();
    let link = home.path(".config/zed/settings.json");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    home.does(&["zed", "--yes"]);
    let with = read(&file);
    for line in text.lines() {
        assert!(with.contains(line), "{line:?} is not in {with}");
    }
    assert!(link.symlink_metadata().unwrap().is_symlink());
    home.does(&["zed", "--yes", "--remove"]);
    assert_eq!(read(&file), text);
}

#[test]
fn a_project_cannot_lead_out_of_itself() {
    use std::os::unix::fs::symlink;
    for (client, _, project, _) in CLIENTS {
        let home = Home::new();
        let target = home.path("mine");
        std::fs::write(&target, "").unwrap();
        let link = home.project(project);
        std::fs::create_dir_all(link.parent().unwrap()).unwrap();
        symlink(&target, &link).unwrap();
        let output = home.setup(&[client, "--project", "--yes"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{client}: {said}");
        assert!(said.contains("out of the project"), "{client}: {said}");
        assert_eq!(read(&target), "", "{client}");
        std::fs::remove_file(&target).unwrap();
        let output = home.setup(&[client, "--project", "--yes"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("does not exist"), "{client}: {said}");
        assert!(link.is_symlink() && !target.exists(), "{client}");
    }
}

#[test]
fn what_the_user_added_to_the_entry_stays() {
    for (client, user, _, table) in CLIENTS {
        let home = Home::new();
        home.does(&[client, "--yes", "--agent", "plan"]);
        let file = home.path(user);
        let text = if client == "codex" {
            read(&file) + "timeout = 9\n[mcp_servers.toolgate.env]\nTOKEN = \"secret\"\n"
        } else {
            let mut settings = parsed(&file);
            let entry = settings[table]["toolgate"].as_object_mut().unwrap();
            entry.insert("timeout".to_owned(), json!(9));
            entry.insert("env".to_owned(), json!({"TOKEN": "secret"}));
            settings.to_string()
        };
        std::fs::write(&file, text).unwrap();
        let before = read(&file);
        home.does(&[client, "--yes", "--agent", "plan"]);
        assert_eq!(read(&file), before, "{client}: what is Toolgate's is there already");
        home.does(&[client, "--yes", "--agent", "build"]);
        let settings = parsed(&file);
        let entry = &settings[table]["toolgate"];
        assert_eq!(entry["timeout"], 9, "{client}: {entry}");
        assert_eq!(entry["env"], json!({"TOKEN": "secret"}), "{client}: {entry}");
        assert!(
            entry.to_string().contains("build") && !entry.to_string().contains("plan"),
            "{client}: {entry}"
        );
    }
}

#[test]
fn secrets_in_the_file_are_not_shown() {
    for (client, user, _, table) in CLIENTS {
        let home = Home::new();
        let file = home.path(user);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        let other = json!({"command": "x", "env": {"TOKEN": "secret"}});
        let mine = json!({"command": "old", "env": {"TOKEN": "secret"}});
        let text = if client == "codex" {
            "mcp_servers = { other = { command = \"x\", env = { TOKEN = \"secret\" } }, toolgate = { command = \"old\", env = { TOKEN = \"secret\" } } }\n".to_owned()
        } else {
            json!({table: {"other": other, "toolgate": mine}}).to_string()
        };
        std::fs::write(&file, text).unwrap();
        for args in [&["--json"][..], &[], &["--yes"], &["--yes", "--json", "--remove"]] {
            let output = home.setup(&[&[client][..], args].concat());
            let said = [output.stdout, output.stderr].concat();
            let said = String::from_utf8_lossy(&said);
            assert!(said.contains("toolgate @@"), "{client} {args:?}: {said}");
            assert!(!said.contains("secret"), "{client} {args:?}: {said}");
        }
        assert!(read(&file).contains("secret"), "{client}: it was there");
    }
}

#[test]
fn an_entry_with_an_address_is_left_alone() {
    let home = Home::new();
    let file = home.path(".cursor/mcp.json");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    let text = "{\"mcpServers\": {\"toolgate\": {\"url\": \"https://tools.example/mcp\"}}}\n";
    std::fs::write(&file, text).unwrap();
    let output = home.setup(&["cursor", "--yes"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("--remove") && said.contains("--name"), "{said}");
    assert_eq!(read(&file), text);
    home.does(&["cursor", "--yes", "--name", "local"]);
    assert_eq!(
        parsed(&file)["mcpServers"]["toolgate"]["url"],
        "https://tools.example/mcp"
    );
}

#[test]
fn what_reaches_a_server_is_written_down_but_for_its_token() {
    let home = Home::new();
    let server = ["--server", "https://tools.example"];
    home.does(
        &[
            &["gemini", "--yes", "--workspace", "shop", "--token-file", "token"][..],
            &server,
        ]
        .concat(),
    );
    let entry = parsed(&home.path(".gemini/settings.json"))["mcpServers"]["toolgate"].clone();
    let token = home.project("token").display().to_string();
    let expected = [
        "mcp",
        "--server",
        "https://tools.example",
        "--token-file",
        &token,
        "--workspace",
        "shop",
    ];
    assert_eq!(entry["args"], json!(expected));
    let refused = home.setup(&[&["gemini", "--yes", "--token", "secret"][..], &server].concat());
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--token-file"));
    // A folder has another name where the client starts it.
    home.does(&["cursor", "--yes", "--workspace", "."]);
    let entry = parsed(&home.path(".cursor/mcp.json"))["mcpServers"]["toolgate"].clone();
    let here = home.path("project").canonicalize().unwrap();
    assert_eq!(entry["args"], json!(["mcp", "--workspace", here]));
}

#[test]
fn the_toolgate_that_opencode_starts_does_not_start_itself() {
    let home = Home::new();
    home.does(&["opencode", "--yes"]);
    let file = home.path(".config/opencode/opencode.json");
    let mut settings = parsed(&file);
    let entry = &mut settings["mcp"]["toolgate"];
    let variable = "OPENCODE_CONFIG_CONTENT";
    let off = entry["environment"][variable].as_str().unwrap().to_owned();
    // In the place of the entry's program, one that leaves a trace.
    let trace = home.path("trace");
    entry["command"] = json!(["/bin/sh", "-c", format!("touch '{}'", trace.display())]);
    std::fs::write(&file, settings.to_string()).unwrap();
    let lists_tools = |content: Option<&str>| {
        let output = Command::new(PROGRAM)
            .env_clear()
            .env("HOME", home.0.path())
            .env("PATH", "/usr/bin:/bin")
            .envs(content.map(|content| (variable, content)))
            .current_dir(home.path("project"))
            .arg("tools")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        trace.exists()
    };
    assert!(!lists_tools(Some(&off)), "it was started as the entry says");
    assert!(lists_tools(None), "without the entry's environment it would be");
}
