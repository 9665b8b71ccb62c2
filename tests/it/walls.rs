//! Commands that rules allow, held to what they were judged as: through the real server and the real kernel.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use toolgate_contract::*;

use crate::support::*;

mod builds;

/// Allows these commands and asks for all others.
fn rules(allowed: &[&str]) -> Value {
    let mut bash: serde_json::Map<String, Value> = [("*".to_owned(), json!("ask"))].into_iter().collect();
    bash.extend(allowed.iter().map(|pattern| ((*pattern).to_owned(), json!("allow"))));
    json!({ "bash": bash })
}

/// A server on which nobody answers, with a folder `out` beside its workspace and something in the home folder.
async fn server(permission: Value) -> Server {
    with(Setup::permission(permission).env("TOOLGATE_PERMISSION_UNATTENDED", "refuse")).await
}

async fn with(setup: Setup) -> Server {
    let server = Server::with(setup).await;
    for (name, text) in [
        ("out/theirs", "theirs"),
        ("home/.ssh/id", "secret"),
        ("home/.gitconfig", "[user]\n"),
    ] {
        let path = server.folder().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    server
}

/// What a command led to.
struct Ran {
    exit: Value,
    sandbox: Value,
    output: String,
}

impl Ran {
    fn is_well(&self) -> bool {
        self.exit == json!(0.0)
    }

    fn of(completed: &CallCompleted) -> Self {
        let mut metadata = json_of(completed.metadata.as_ref().unwrap());
        Self {
            exit: metadata["exit"].take(),
            sandbox: metadata["sandbox"].take(),
            output: completed.output.clone(),
        }
    }
}

/// Runs a command that nobody is asked about before.
async fn run(server: &Server, command: &str) -> Ran {
    let call = server
        .run(
            "bash",
            json!({"command": command, "description": "a", "timeout": 120_000}),
        )
        .await;
    Ran::of(completed(&call))
}

/// Runs a command that asks; each question gets the same answer. Returns the questions' permissions and patterns too.
async fn run_answering(server: &Server, command: &str, decision: PromptDecision, times: usize) -> (Ran, Vec<String>) {
    let mut stream = server.tools().execute_tool(bash(command)).await.unwrap().into_inner();
    let mut asked = Vec::new();
    for _ in 0..times {
        let prompt = waiting(&mut stream).await;
        let Some(prompt::Request::Permission(request)) = &prompt.request else {
            panic!("{prompt:?}")
        };
        asked.push(format!("{} {}", request.permission, request.patterns.join(" ")));
        let request = ReplyPromptRequest {
            reply: Some(reply(&prompt, decision)),
            name: "tester".to_owned(),
        };
        server.permissions().reply_prompt(request).await.unwrap();
    }
    let events = collect(stream).await.unwrap();
    match end_of(&events) {
        call::Ending::Completed(completed) => (Ran::of(&completed), asked),
        call::Ending::Failed(failed) => panic!("{command}: {failed:?}"),
    }
}

/// Puts a line where its judge does not see it.
fn script(server: &Server, line: &str) -> String {
    let name = format!("script-{}.sh", line.len());
    fs::write(server.work().join(&name), line).unwrap();
    format!("sh ./{name}")
}

#[test]
fn an_allowed_command_gets_what_it_was_judged_as() {
    test(async {
        let server = server(rules(&["sh *", "echo *", "sort *", "python3 *"])).await;
        let folder = server.folder().canonicalize().unwrap();
        let out = folder.join("out");
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        for line in [
            format!("echo x > {}/new", out.display()),
            format!("cat {}/theirs", out.display()),
            "cat ~/.ssh/id".to_owned(),
            "ls ~".to_owned(),
            "echo x > ~/.bashrc".to_owned(),
            "mkdir -p .opencode/tool".to_owned(),
            "echo {} > opencode.json".to_owned(),
            "mkdir -p .git/hooks".to_owned(),
            "cat /proc/$PPID/environ".to_owned(),
            format!("bash -c 'echo x > /dev/tcp/127.0.0.1/{port}'"),
            format!(
                "python3 -c 'import socket as s; s.socket(s.AF_UNIX).connect(\"{}/s\")'",
                folder.display()
            ),
            "kill -0 $PPID".to_owned(),
            "prlimit --pid $PPID --cpu=1:1".to_owned(),
        ] {
            let ran = run(&server, &script(&server, &line)).await;
            assert!(!ran.is_well(), "{line}: {}", ran.output);
            assert_eq!(
                (&ran.sandbox["mode"], &ran.sandbox["walls"]),
                (&json!("walls"), &json!(true)),
                "{line}"
            );
            assert!(!ran.output.contains("secret\n"), "{line}: {}", ran.output);
        }
        assert_eq!(fs::read_dir(&out).unwrap().count(), 1);
        assert!(!server.work().join(".opencode").exists() && !server.work().join("opencode.json").exists());
        let line = script(&server, "cat c; git config user.name; echo x > $TMPDIR/x");
        let ran = run(&server, &format!("echo a > b && sort b -o c && {line}")).await;
        assert!(ran.is_well(), "{}", ran.output);
        assert_eq!(ran.sandbox["enforced"]["protected"], "gate");
        assert_eq!(ran.sandbox["refused"], json!([]));
    });
}

#[test]
fn a_refusal_says_what_was_refused() {
    test(async {
        let server = server(rules(&["sh *"])).await;
        let work = server.work().canonicalize().unwrap();
        for (line, kind, path) in [
            (
                "cat ~/.ssh/id".to_owned(),
                "read",
                server.folder().canonicalize().unwrap().join("home/.ssh/id"),
            ),
            ("mkdir .opencode".to_owned(), "protected", work.join(".opencode")),
        ] {
            let ran = run(&server, &script(&server, &line)).await;
            let refused = &ran.sandbox["refused"][0];
            assert_eq!(
                (&refused["kind"], &refused["path"]),
                (&json!(kind), &json!(path)),
                "{}",
                ran.sandbox
            );
            assert_eq!(refused["answer"], "nobody is there to allow it");
            assert!(ran.output.contains("The sandbox refused"), "{}", ran.output);
        }
    });
}

#[test]
fn what_a_person_approved_runs_as_approved() {
    test(async {
        let server = with(Setup::permission(rules(&["cat *"]))).await;
        let out = server.folder().canonicalize().unwrap().join("out");
        let line = script(&server, &format!("echo x > {}/new && cat ~/.ssh/id", out.display()));
        let (ran, _) = run_answering(&server, &line, PromptDecision::Once, 1).await;
        assert!(ran.is_well() && out.join("new").exists(), "{}", ran.output);
        assert_eq!(ran.sandbox, json!({"mode": "off"}));
        // A standing grant is no approval of this call.
        fs::remove_file(out.join("new")).unwrap();
        let (_, _) = run_answering(&server, "sh ./x.sh", PromptDecision::Always, 1).await;
        fs::write(server.work().join("x.sh"), format!("echo x > {}/new", out.display())).unwrap();
        let (ran, asked) = run_answering(&server, "sh ./x.sh", PromptDecision::Reject, 1).await;
        assert!(!ran.is_well() && !out.join("new").exists(), "{}", ran.output);
        assert_eq!(asked, [format!("external_directory {}/*", out.display())]);
        assert_eq!(ran.sandbox["walls"], true);
    });
}

#[test]
fn a_refusal_becomes_a_question_and_a_second_run() {
    test(async {
        let server = with(Setup::permission(rules(&["sh *"]))).await;
        let folder = server.folder().canonicalize().unwrap();
        let line = script(&server, "cat ~/.ssh/id");
        let (ran, asked) = run_answering(&server, &line, PromptDecision::Once, 1).await;
        assert!(ran.is_well() && ran.output.contains("secret"), "{}", ran.output);
        assert_eq!(asked, [format!("external_directory {}/home/.ssh/id", folder.display())]);
        let line = script(&server, "mkdir -p .opencode/tool && echo x > .opencode/tool/y.md");
        let (ran, asked) = run_answering(&server, &line, PromptDecision::Once, 1).await;
        assert!(ran.is_well(), "{}", ran.output);
        assert_eq!(asked, ["edit .opencode"]);
        assert!(server.work().join(".opencode/tool/y.md").exists());
    });
}

#[test]
fn rules_for_everything_open_nothing_that_is_protected() {
    test(async {
        let setup = Setup::permission(json!("allow"))
            .env("TOOLGATE_SANDBOX_MODE", "workspace-write")
            .env("TOOLGATE_PERMISSION_UNATTENDED", "refuse");
        let server = with(setup).await;
        let ran = run(&server, "mkdir -p .opencode/tool && echo x > .opencode/tool/z.sh").await;
        assert!(
            !ran.is_well() && !server.work().join(".opencode").exists(),
            "{}",
            ran.output
        );
        assert_eq!(
            (&ran.sandbox["mode"], &ran.sandbox["walls"]),
            (&json!("workspace-write"), &json!(false))
        );
        let ran = run(&server, "cp /bin/true s && chmod 4755 s").await;
        assert!(!ran.is_well(), "{}", ran.output);
    });
}

#[test]
fn walls_stand_unless_somebody_configured_that_there_are_none() {
    test(async {
        for (permission, walls) in [
            (json!({}), true),
            (json!("allow"), false),
            (json!({"bash": "allow"}), false),
            (json!({"bash": {"*": "allow"}}), false),
            (json!({"bash": "allow", "webfetch": "deny"}), false),
            (json!({"bash": "allow", "edit": {"*.env": "deny"}}), true),
            (json!({"bash": "allow", "external_directory": "ask"}), true),
            (json!({"bash": {"*": "allow", "rm *": "deny"}}), true),
            (json!({"bash": {"echo *": "allow"}}), true),
            (json!({"edit": "allow"}), true),
            (
                json!({"*": "ask", "bash": "allow", "edit": "allow", "external_directory": "allow"}),
                false,
            ),
        ] {
            let server = server(permission.clone()).await;
            let ran = run(&server, "echo x").await;
            let mode = if walls { "walls" } else { "off" };
            assert_eq!(ran.sandbox["mode"], mode, "{permission}");
        }
        // Built-in agents that may not edit.
        let server = server(json!({"bash": "allow"})).await;
        for (agent, mode) in [("plan", "walls"), ("explore", "walls"), ("build", "off")] {
            let mut request = bash("echo x");
            request.context = Some(CallContext {
                agent: agent.to_owned(),
                ..Default::default()
            });
            let events = server.execute(request).await.unwrap();
            let call::Ending::Completed(result) = end_of(&events) else {
                panic!("{agent}")
            };
            assert_eq!(Ran::of(&result).sandbox["mode"], mode, "{agent}");
        }
    });
}

#[test]
fn the_network_is_for_what_is_known_to_use_it() {
    test(async {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let allowed = ["sh *", "curl *", "echo *", "bash *"];
        let reaching = format!("bash -c 'echo x > /dev/tcp/127.0.0.1/{port}'");
        for (setup, works) in [
            (rules(&allowed), false),
            (json!({"bash": rules(&allowed)["bash"], "network": "allow"}), true),
        ] {
            let server = server(setup).await;
            let ran = run(&server, &script(&server, &reaching)).await;
            assert_eq!(ran.is_well(), works, "{}", ran.output);
        }
        let server = server(rules(&allowed)).await;
        let ran = run(&server, &format!("curl --version; {}", script(&server, &reaching))).await;
        assert_eq!(ran.sandbox["enforced"]["network"], "allowed", "{}", ran.output);
    });
}

#[test]
fn background_commands_are_within_the_walls_too() {
    test(async {
        let server = server(rules(&["sh *"])).await;
        let out = server.folder().canonicalize().unwrap().join("out");
        let line = script(
            &server,
            &format!("echo x > {}/new; mkdir .opencode; echo > ended", out.display()),
        );
        let input = json!({"command": line, "description": "a", "background": true});
        let call = server.run("bash", input).await;
        completed(&call);
        eventually("it has ended", async || server.work().join("ended").exists()).await;
        assert!(!out.join("new").exists() && !server.work().join(".opencode").exists());
    });
}

#[test]
fn the_files_with_secrets_that_the_configuration_names_are_hidden() {
    test(async {
        let keys = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = keys.path().join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            path.display().to_string()
        };
        let key = "k".repeat(64);
        let setup = Setup::permission(json!("allow"))
            .env("TOOLGATE_SANDBOX_MODE", "workspace-write")
            .env("TOOLGATE_SEARCH_KEY_FILE", &file("search", &key))
            .env("TOOLGATE_REDACT_FILES", &file("redact", "something-long-and-secret"))
            .env("TOOLGATE_AUDIT_KEY_FILE", &file("audit", &key))
            .env(
                "TOOLGATE_SANDBOX_HIDDEN",
                &keys.path().join("later").display().to_string(),
            );
        let server = Server::with(setup).await;
        file("later", "later");
        file("other", "other");
        for name in ["search", "redact", "audit", "later"] {
            let ran = run(&server, &format!("cat {}/{name}", keys.path().display())).await;
            assert!(!ran.is_well(), "{name}: {}", ran.output);
        }
        assert!(
            run(&server, &format!("cat {}/other", keys.path().display()))
                .await
                .is_well()
        );
        let ran = run(&server, &format!("cat {}/data/toolgate.db", server.folder().display())).await;
        assert!(!ran.is_well(), "{}", ran.output);
    });
}
