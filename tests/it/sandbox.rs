//! Commands under the sandbox, through the real server and the real kernel: a machine that cannot confine fails these.

use std::fs;
use std::net::{TcpListener, UdpSocket};

use serde_json::{Value, json};
use toolgate_config::Environment;
use toolgate_config::logins::LoginFiles;
use toolgate_contract::*;
use toolgate_model::Login;

use crate::support::*;

/// A server with the sandbox on, and a folder `out` beside its workspace.
async fn server(mode: &str, network: &str, permission: Value) -> Server {
    let setup = Setup::permission(permission)
        .env("TOOLGATE_SANDBOX_MODE", mode)
        .env("TOOLGATE_SANDBOX_REQUIRED", "true")
        .env("TOOLGATE_SANDBOX_NETWORK", network);
    let server = Server::with(setup).await;
    fs::create_dir(server.folder().join("out")).unwrap();
    server
}

fn metadata(completed: &CallCompleted, key: &str) -> Value {
    json_of(completed.metadata.as_ref().expect("a result has metadata"))[key].take()
}

fn asked(prompt: &Prompt) -> &PermissionRequest {
    match &prompt.request {
        Some(prompt::Request::Permission(request)) => request,
        other => panic!("{other:?}"),
    }
}

/// Runs a command, answers its prompts in turn, and returns its result and the prompts.
async fn run_answering(server: &Server, command: &str, answers: &[PromptDecision]) -> (CallCompleted, Vec<Prompt>) {
    let mut stream = server.tools().execute_tool(bash(command)).await.unwrap().into_inner();
    let mut prompts = Vec::new();
    for &decision in answers {
        let prompt = waiting(&mut stream).await;
        let request = ReplyPromptRequest {
            reply: Some(reply(&prompt, decision)),
            name: "tester".to_owned(),
        };
        server.permissions().reply_prompt(request).await.unwrap();
        prompts.push(prompt);
    }
    let events = collect(stream).await.unwrap();
    match end_of(&events) {
        call::Ending::Completed(completed) => (completed, prompts),
        call::Ending::Failed(failed) => panic!("{command}: {failed:?}"),
    }
}

/// Puts a command line where its parser does not see it, so that only the kernel is left to refuse something.
fn hidden(server: &Server, line: &str) -> String {
    let script = format!("script-{}.sh", line.len());
    fs::write(server.work().join(&script), line).unwrap();
    format!("sh ./{script}")
}

#[test]
fn results_and_the_service_say_what_is_enforced() {
    test(async {
        let mut server = server("workspace-write", "deny", json!({})).await;
        let call = server
            .run("bash", json!({"command": "echo x > made", "description": "a"}))
            .await;
        let sandbox = metadata(completed(&call), "sandbox");
        assert_eq!(sandbox["mode"], "workspace-write");
        assert!(
            sandbox["enforced"]["filesystem"]
                .as_str()
                .unwrap()
                .starts_with("landlock "),
            "{sandbox}"
        );
        assert_eq!(sandbox["refused"], json!([]));
        let info = server
            .info()
            .get_server_info(GetServerInfoRequest {})
            .await
            .unwrap()
            .into_inner();
        assert_eq!(info.sandbox(), Sandbox::LandlockSeccomp);
        let told = info.sandbox_info.unwrap();
        assert_eq!(
            (told.mode(), told.network(), told.required),
            (SandboxMode::WorkspaceWrite, PermissionAction::Deny, true)
        );
        assert!(told.missing.is_empty() && told.landlock_version >= 3);
        server.stop().await;

        let server = Server::with(Setup::permission(json!("allow"))).await;
        let call = server.run("bash", json!({"command": "true", "description": "a"})).await;
        assert_eq!(metadata(completed(&call), "sandbox"), json!({"mode": "off"}));
        let info = server
            .info()
            .get_server_info(GetServerInfoRequest {})
            .await
            .unwrap()
            .into_inner();
        assert_eq!(info.sandbox(), Sandbox::None);
        assert_eq!(info.sandbox_info.unwrap().available(), Sandbox::LandlockSeccomp);
    });
}

#[test]
fn a_refusal_of_the_kernel_becomes_a_prompt() {
    test(async {
        let server = server("workspace-write", "deny", json!({})).await;
        let out = server.folder().canonicalize().unwrap().join("out");
        let command = hidden(&server, &format!("echo x >> runs; echo y > {}/made", out.display()));
        let (result, prompts) = run_answering(&server, &command, &[PromptDecision::Once]).await;
        assert_eq!(asked(&prompts[0]).permission, "external_directory");
        assert_eq!(asked(&prompts[0]).patterns, [format!("{}/*", out.display())]);
        assert_eq!(metadata(&result, "exit"), json!(0.0));
        assert_eq!(fs::read_to_string(out.join("made")).unwrap(), "y\n");
        assert_eq!(fs::read_to_string(server.work().join("runs")).unwrap(), "x\nx\n");
        assert_eq!(metadata(&result, "sandbox")["refused"][0]["answer"], "allowed");
        assert!(
            result.output.contains("Permission denied") && result.output.contains("runs again"),
            "{}",
            result.output
        );

        fs::remove_file(out.join("made")).unwrap();
        let (result, _) = run_answering(&server, &command, &[PromptDecision::Reject]).await;
        assert_ne!(metadata(&result, "exit"), json!(0.0));
        assert!(!out.join("made").exists());
        assert_eq!(
            metadata(&result, "sandbox")["refused"][0]["answer"],
            "rejected by the user"
        );
        assert!(
            result.output.contains("The sandbox refused writing to"),
            "{}",
            result.output
        );
    });
}

#[test]
fn rules_answer_for_people() {
    test(async {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().canonicalize().unwrap();
        let rules = json!({"external_directory": {"*": "deny", format!("{}/*", out.display()): "allow"}});
        let server = server("workspace-write", "deny", rules).await;
        let command = hidden(&server, &format!("echo y > {}/made", out.display()));
        let (result, _) = run_answering(&server, &command, &[]).await;
        assert_eq!(metadata(&result, "exit"), json!(0.0));
        let command = hidden(
            &server,
            &format!("echo y > {}/made", server.folder().join("out").display()),
        );
        let (result, _) = run_answering(&server, &command, &[]).await;
        assert_eq!(metadata(&result, "sandbox")["refused"][0]["answer"], "denied by a rule");
    });
}

#[test]
fn words_alone_ask_nothing() {
    test(async {
        let server = server("read-only", "deny", json!({})).await;
        for command in [
            "echo 'Permission denied'; exit 1",
            "echo /nowhere/at/all: Permission denied; exit 1",
            "echo x: Operation not permitted >&2; false",
            "echo x > here",
            &hidden(
                &server,
                &format!("cat {}/toolgate.db", server.folder().join("data").display()),
            ),
            &hidden(&server, "echo x > /proc/sys/kernel/x"),
        ] {
            let (result, _) = run_answering(&server, command, &[]).await;
            assert_ne!(metadata(&result, "exit"), json!(0.0), "{command}");
            assert_eq!(
                metadata(&result, "sandbox")["refused"],
                json!([]),
                "{command}: {}",
                result.output
            );
        }
        assert!(!server.work().join("here").exists());
    });
}

#[test]
fn the_network_is_asked_for_when_it_is_missed() {
    test(async {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let (port, udp_port) = (listener.local_addr().unwrap().port(), udp.local_addr().unwrap().port());
        let connect = format!("python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}))'");
        let send = format!(
            "python3 -c 'import socket as s; s.socket(s.AF_INET, s.SOCK_DGRAM).sendto(b\"x\", (\"127.0.0.1\", {udp_port}))'"
        );
        let bind = "python3 -c 'import socket; socket.create_server((\"127.0.0.1\", 0))'".to_owned();
        let asking = server("workspace-write", "ask", json!({})).await;
        for command in [&connect, &send, &bind] {
            let (result, prompts) = run_answering(&asking, command, &[PromptDecision::Once]).await;
            assert_eq!(asked(&prompts[0]).permission, "network");
            assert_eq!(asked(&prompts[0]).patterns, std::slice::from_ref(command));
            assert_eq!(metadata(&result, "exit"), json!(0.0), "{}", result.output);
            assert_eq!(metadata(&result, "sandbox")["enforced"]["network"], "allowed");
        }
        for (network, works) in [("allow", true), ("deny", false)] {
            let server = server("workspace-write", network, json!({})).await;
            for command in [&connect, &send, &bind] {
                let (result, _) = run_answering(&server, command, &[]).await;
                assert_eq!(
                    metadata(&result, "exit") == json!(0.0),
                    works,
                    "{command}: {}",
                    result.output
                );
            }
        }
    });
}

#[test]
fn agents_have_their_own_sandbox() {
    test(async {
        let setup = Setup::default()
            .env("TOOLGATE_SANDBOX_MODE", "workspace-write")
            .env("TOOLGATE_SANDBOX_AGENTS", "plan=read-only/deny,general=off");
        let server = Server::with(setup).await;
        for (agent, mode, writes) in [
            ("build", "workspace-write", true),
            ("plan", "read-only", false),
            // Nobody configured that every command is allowed.
            ("general", "walls", true),
        ] {
            let mut request = bash("echo x > made && rm made");
            request.context = Some(CallContext {
                agent: agent.to_owned(),
                ..Default::default()
            });
            let events = server.execute(request).await.unwrap();
            let call::Ending::Completed(result) = end_of(&events) else {
                panic!("{agent}");
            };
            assert_eq!(metadata(&result, "sandbox")["mode"], mode);
            assert_eq!(
                metadata(&result, "exit") == json!(0.0),
                writes,
                "{agent}: {}",
                result.output
            );
        }
    });
}

#[test]
fn what_is_left_running_stays_confined_and_its_temporary_folder_stays() {
    test(async {
        let mut server = server("workspace-write", "deny", json!({})).await;
        let out = server.folder().join("out");
        let command = format!(
            "echo $TMPDIR > where; (setsid sh -c 'echo x > $TMPDIR/kept; until test -e go; do sleep 0.01; done; \
             cp $TMPDIR/kept seen; echo x > {}/made; echo done > ended' >/dev/null 2>&1 &)",
            out.display()
        );
        run_answering(&server, &hidden(&server, &command), &[]).await;
        let temporary = fs::read_to_string(server.work().join("where")).unwrap();
        fs::write(server.work().join("go"), "").unwrap();
        eventually("the job has ended", async || server.work().join("ended").exists()).await;
        assert_eq!(fs::read_to_string(server.work().join("seen")).unwrap(), "x\n");
        assert!(!out.join("made").exists());
        let kept = std::path::Path::new(temporary.trim()).join("kept");
        eventually("its temporary files are gone", async || !kept.exists()).await;
        server.stop().await;
        assert!(!kept.parent().unwrap().exists());
    });
}

#[test]
fn a_login_that_is_made_later_is_not_for_a_command_that_runs_already() {
    test(async {
        let server = server("workspace-write", "deny", json!("allow")).await;
        let home = server.folder().join("home");
        let data = home.join(".local/share/toolgate");
        let line = format!(
            "touch begun; until [ -e made ]; do sleep 0.02; done; grep -r '' {} ; find {} -name '*.json' -exec cat {{}} +; echo end",
            data.display(),
            home.display()
        );
        let request = run_request(request(
            "bash",
            json!({"command": hidden(&server, &line), "description": "a"}),
        ));
        let mut tools = server.tools();
        let (call, ()) = tokio::join!(run(&mut tools, request), async {
            eventually("the command runs", async || server.work().join("begun").exists()).await;
            let home = [("HOME".to_owned(), home.display().to_string())];
            let logins = LoginFiles::locate(&Environment::new(home, "/")).unwrap();
            let login = Login {
                token: "the-token".to_owned(),
                refresh: None,
                expires: None,
                client: None,
                issuer: None,
                scopes: Vec::new(),
            };
            logins.store("s", "https://s.example/mcp", &login).unwrap();
            assert!(logins.own_login("s", "https://s.example/mcp").is_some());
            fs::write(server.work().join("made"), "").unwrap();
        });
        let call = call.unwrap();
        let output = &completed(&call).output;
        assert!(
            output.contains("end") && output.contains("Permission denied"),
            "{output}"
        );
        assert!(!output.contains("the-token"), "{output}");
    });
}
