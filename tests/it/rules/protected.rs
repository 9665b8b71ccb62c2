//! Where rules are read from, no command writes and no edit goes unasked, whatever the files are called.

use super::*;

/// Lets programs run whose effects nobody judged, asks for all others, and lets files be changed.
const RULES: &str = r#"{"plugin": ["./p.js"], "permission": {"bash": {"*": "ask", "sh *": "allow"}, "edit": "allow"}}"#;

async fn server() -> Server {
    let setup = Setup {
        folders: vec!["work/team/shared"],
        files: vec![
            ("work/team/rules.json", RULES.to_owned()),
            ("work/team/shared/word.txt", "ask".to_owned()),
            (
                "work/team/shared/linked.json",
                r#"{"permission": {"webfetch": "{file:word.txt}"}}"#.to_owned(),
            ),
        ],
        ..Setup::default()
    };
    let setup = setup
        .env("OPENCODE_CONFIG", "work/team/rules.json")
        .env("OPENCODE_CONFIG_DIR", "work/team/later")
        .env("TOOLGATE_PERMISSION_UNATTENDED", "refuse");
    let mut server = Server::with(setup).await;
    let linked = server.work().join("opencode.json");
    std::os::unix::fs::symlink("team/shared/linked.json", linked).unwrap();
    server.stop().await;
    server.restart().await;
    server
}

#[test]
fn commands_cannot_write_where_rules_are_read_from() {
    test(async {
        let server = server().await;
        let work = server.work();
        let all = || {
            let read = |name: &str| fs::read_to_string(work.join(name)).unwrap();
            ["team/rules.json", "team/shared/word.txt", "team/shared/linked.json"].map(read)
        };
        let before = all();
        for (number, line) in [
            "echo '{}' > team/rules.json",
            "echo allow > team/shared/word.txt",
            "echo '{}' > team/shared/linked.json",
            "echo x > team/p.js",
            "echo '{}' > opencode.json",
            "rm opencode.json",
            "mv team t",
            "rm team/rules.json",
            "mkdir team/later",
            "mkdir -p team/later/agent && echo x > team/later/agent/build.md",
            "mkdir x; mv x team/later",
            "mkdir -p .opencode/agent && echo x > .opencode/agent/build.md",
            "echo x > y; mv y .opencode",
        ]
        .into_iter()
        .enumerate()
        {
            let script = format!("s{number}.sh");
            fs::write(work.join(&script), line).unwrap();
            let call = server
                .run("bash", json!({"command": format!("sh ./{script}"), "description": "d"}))
                .await;
            let metadata = json_of(completed(&call).metadata.as_ref().unwrap());
            assert_ne!(metadata["exit"], json!(0.0), "{line}: {metadata}");
            assert_eq!(all(), before, "{line}");
            assert!(
                !work.join("team/later").exists() && !work.join(".opencode").exists(),
                "{line}"
            );
        }
        fs::write(work.join("fine.sh"), "echo x > team/other && echo y > team/shared/new").unwrap();
        let call = server
            .run("bash", json!({"command": "sh ./fine.sh", "description": "d"}))
            .await;
        let metadata = json_of(completed(&call).metadata.as_ref().unwrap());
        assert_eq!(metadata["exit"], json!(0.0), "{metadata}");
    });
}

#[test]
fn edits_of_where_rules_are_read_from_are_asked_for() {
    test(async {
        let server = server().await;
        let asked = async |path: &str| {
            let write = request("write", json!({"filePath": path, "content": "{}"}));
            evaluated(&server, write).await.unwrap().action()
        };
        for path in [
            "team/rules.json",
            "team/shared/word.txt",
            "team/shared/linked.json",
            "team/p.js",
            "opencode.json",
            "team/later/opencode.json",
            "team/later/agent/build.md",
            ".opencode/agent/build.md",
        ] {
            assert_eq!(asked(path).await, PermissionAction::Ask, "{path}");
        }
        assert_eq!(asked("team/other.json").await, PermissionAction::Allow);

        // What comes to be named while the service runs is as safe.
        let rules = server.work().join("team/rules.json");
        assert_eq!(asked("more.txt").await, PermissionAction::Allow);
        fs::write(server.work().join("more.txt"), "ask").unwrap();
        let more = r#", "webfetch": "{file:../more.txt}"}}"#;
        fs::write(rules, RULES.replace("}}", more)).unwrap();
        eventually("the file is safe", async || {
            asked("more.txt").await == PermissionAction::Ask
        })
        .await;
    });
}
