//! Where rules are read from, no command writes and no edit goes unasked, whatever the files are called.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

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
                r#"{"permission": {"webfetch": "{file:team/shared/word.txt}"}}"#.to_owned(),
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

/// What the rules say of a file that is written anew, after it was read.
async fn asked(server: &Server, path: PathBuf) -> PermissionAction {
    // The same call again and again would be asked about.
    static READS: AtomicU32 = AtomicU32::new(1);
    let of_session = |tool: &str, input: Value| ExecuteToolRequest {
        context: Some(CallContext {
            session_id: "ses_rules".to_owned(),
            ..CallContext::default()
        }),
        ..request(tool, input)
    };
    let read = json!({"filePath": path, "limit": READS.fetch_add(1, Ordering::Relaxed)});
    run(&mut server.tools(), run_request(of_session("read", read)))
        .await
        .unwrap();
    let write = of_session("write", json!({"filePath": path, "content": "{}"}));
    evaluated(server, write).await.unwrap().action()
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

/// Who may change the rules takes away what is asked without any, and the walls.
#[test]
fn nobody_makes_rules_unasked_where_commands_are_confined() {
    test(async {
        let server = Server::start().await;
        let work = server.work();
        let asked = async |path: &str| asked(&server, work.join(path)).await;
        let of_rules = [
            "opencode.json",
            "OpenCode.jsonc",
            "sub/opencode.json",
            ".opencode/opencode.json",
            ".opencode/agent/build.md",
        ];
        for path in of_rules {
            assert_eq!(asked(path).await, PermissionAction::Ask, "{path}");
        }
        for path in ["Makefile", ".opencode/plans/x.md", "src/a.rs"] {
            assert_eq!(asked(path).await, PermissionAction::Allow, "{path}");
        }
        // Where every command may run, it may change them as well.
        let rules = server.work().join("opencode.json");
        fs::write(&rules, r#"{"permission": {"bash": "allow"}}"#).unwrap();
        eventually("rules are changed unasked", async || {
            asked("opencode.json").await == PermissionAction::Allow
        })
        .await;
        fs::write(&rules, r#"{"permission": {"webfetch": "deny"}}"#).unwrap();
        eventually("rules are asked for", async || {
            asked("opencode.json").await == PermissionAction::Ask
        })
        .await;
    });
}

/// The user's own files, in a folder that may be written.
#[test]
fn rules_outside_are_as_safe_as_those_inside() {
    test(async {
        let rules = json!({
            "bash": {"*": "ask", "cp *": "allow", "mv *": "allow"},
            "edit": "allow",
            "external_directory": "allow",
        });
        let setup = Setup::permission(rules).env("TOOLGATE_PERMISSION_UNATTENDED", "refuse");
        let server = Server::with(setup).await;
        let settings = server.folder().join("home/.config");
        let file = settings.join("opencode/opencode.json");
        let before = fs::read_to_string(&file).unwrap();
        fs::write(server.work().join("x"), r#"{"permission": "allow"}"#).unwrap();
        let run = async |line: String| server.run("bash", json!({"command": line, "description": "d"})).await;
        let shown = settings.display();
        for line in [
            format!("cp x {shown}/opencode/opencode.json"),
            format!("cp x {shown}/opencode/opencode.jsonc"),
            format!("mv {shown}/opencode {shown}/other"),
        ] {
            let call = run(line.clone()).await;
            assert!(!is_done(&call), "{line}: {call:?}");
            assert_eq!(fs::read_to_string(&file).unwrap(), before, "{line}");
            assert!(!settings.join("opencode/opencode.jsonc").exists(), "{line}");
        }
        let call = run(format!("cp x {shown}/beside")).await;
        assert!(is_done(&call) && settings.join("beside").exists(), "{call:?}");

        let asked = async |path: &str| asked(&server, settings.join(path)).await;
        assert_eq!(asked("opencode/agent/build.md").await, PermissionAction::Ask);
        assert_eq!(asked("opencode/notes.md").await, PermissionAction::Allow);
    });
}

/// Says whether a command ran and had its way.
fn is_done(call: &Call) -> bool {
    let Some(call::Ending::Completed(completed)) = &call.ending else {
        return false;
    };
    json_of(completed.metadata.as_ref().unwrap())["exit"] == json!(0.0)
}

#[test]
fn edits_of_where_rules_are_read_from_are_asked_for() {
    test(async {
        let server = server().await;
        let work = server.work();
        let asked = async |path: &str| asked(&server, work.join(path)).await;
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
