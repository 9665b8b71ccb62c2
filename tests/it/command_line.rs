//! The commands of the program beside services that run: what they end with, and which service they find.

use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tonic::{Code, Request};
use tonic_types::StatusExt as _;
use toolgate_contract::*;

use crate::support::*;

impl Server {
    pub(crate) fn url(&self) -> String {
        match &self.tcp {
            Some(address) => format!("http://{address}"),
            None => format!("unix:{}", self.folder().join("s").display()),
        }
    }
}

#[test]
fn what_cannot_be_understood_is_no_success() {
    test(async {
        let server = Server::with(Setup::default().env("TOOLGATE_TELEMETRY_ADMIN", "127.0.0.1:0")).await;
        let url = server.url();
        let args = ["--server", &url, "call", "frobnicate", "a=1"];
        let (code, out, err) = server.cli(&args).await;
        assert_eq!(code, 8, "{out} {err}");
        assert!(out.contains("invalid"), "the model's text is the result: {out}");
        assert!(err.contains("failed") && !err.contains("completed"), "{err}");
        let (code, ..) = server.cli(&[&["--json"][..], &args].concat()).await;
        assert_eq!(code, 8, "with --json");
        let admin = server.admin.clone().unwrap();
        let metrics = metrics_of(&admin).await;
        let of_invalid = metrics
            .lines()
            .filter(|line| line.contains("finished") && line.contains("tool=\"invalid\""));
        let of_invalid: Vec<&str> = of_invalid.collect();
        assert!(!of_invalid.is_empty(), "{metrics}");
        assert!(
            of_invalid
                .iter()
                .all(|line| line.contains("outcome=\"invalid_arguments\"")),
            "{of_invalid:?}"
        );
    });
}

#[test]
fn what_is_misspelt_on_the_command_line_is_a_usage_error() {
    test(async {
        let server = Server::start().await;
        let url = server.url();
        let check = async |args: &[&str], part: &str| {
            let (code, out, err) = server.cli(args).await;
            assert_eq!(code, 2, "{args:?}: {out} {err}");
            assert!(err.contains(part), "{args:?}: {err}");
        };
        let call = async |args: &[&str], part: &str| check(&[&["--server", &url, "call"], args].concat(), part).await;
        call(
            &["grep", "patern=x"],
            "grep: `patern` is unknown; `pattern` is required",
        )
        .await;
        call(
            &["grep", "pattern=x", "inclde=*"],
            "`inclde` is unknown, did you mean `include`?",
        )
        .await;
        call(&["glob", "pattern=*", "bogus=1"], "it takes ").await;
        call(&["read", "--input", "{not json"], "the input is not a JSON object").await;
        call(&["--agent", "nobody", "read", "filePath=."], "available: build, plan").await;
        call(&["--call-id", "a b", "read", "filePath=."], "call_id").await;

        let nowhere = server.folder().join("nowhere");
        let workspace = format!("a={}", nowhere.display());
        let serve = ["serve", "--no-tcp", "--socket", "s2", "--workspace", &workspace];
        check(&serve, "is not a folder that can be used").await;
        let broken = server.folder().join("broken");
        std::fs::create_dir(&broken).unwrap();
        std::fs::write(broken.join("opencode.json"), r#"{"permission": {"bash": "maybe"}}"#).unwrap();
        let folder = format!("{}/", broken.display());
        let call = ["call", "--workspace", &folder, "read", "filePath=."];
        check(&call, "Configuration is invalid at ").await;
        let (_, _, err) = server.cli(&call).await;
        assert_eq!(err.matches("is invalid at").count(), 1, "it is told once: {err}");
    });
}

#[test]
fn a_misspelt_rule_is_told_by_a_call_that_starts_a_service() {
    test(async {
        let server = Server::start().await;
        let folder = server.folder().join("misspelt");
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("opencode.json"), r#"{"permision": {"bash": "ask"}}"#).unwrap();
        let agents = folder.join(".opencode/agent");
        std::fs::create_dir_all(&agents).unwrap();
        let agent = agents.join("rev.md");
        std::fs::write(&agent, "---\npermission:\n  bsh: ask\n---\nReviews.\n").unwrap();
        let folder = format!("{}/", folder.display());
        let (code, _, err) = server.cli(&["call", "--workspace", &folder, "glob", "pattern=*"]).await;
        assert_eq!(code, 0, "{err}");
        assert!(err.contains("permision") && err.contains("did you mean"), "{err}");
        // It is told which file has it.
        let err = err.replace("\\\"", "\"");
        assert!(err.contains("agent/rev.md: there is no permission \"bsh\""), "{err}");
    });
}

#[test]
fn every_command_finds_the_service_that_runs() {
    test(async {
        let server = Server::with(Setup {
            tcp: true,
            ..Setup::default()
        })
        .await;
        let (code, _, err) = server
            .cli(&[
                "call",
                "--call-id",
                "greet",
                "bash",
                "command=echo hello",
                "description=d",
            ])
            .await;
        assert_eq!(code, 0, "{err}");
        for (args, expected) in [
            (&["health"][..], "SERVING"),
            (&["audit", "head"], ""),
            (&["grants"], "GRANT"),
            (&["output", "greet"], "hello"),
            (&["session", "ses_greet"], "1 call"),
        ] {
            let (code, out, err) = server.cli(args).await;
            assert_eq!(code, 0, "{args:?}: {err}");
            assert!(out.contains(expected), "{args:?}: {out}");
        }
        let (code, _, err) = server.cli(&["session", "nope"]).await;
        assert_eq!(code, 8, "{err}");
        assert!(err.contains("nothing is known of the session nope"), "{err}");
        let (code, _, err) = server.cli(&["health", "--service", "foo"]).await;
        assert_eq!(code, 8, "{err}");
        assert!(err.contains("unknown service foo"), "{err}");
    });
}

async fn metrics_of(admin: &str) -> String {
    let mut stream = tokio::net::TcpStream::connect(admin).await.unwrap();
    let request = format!("GET /metrics HTTP/1.1\r\nhost: {admin}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[test]
fn a_retry_that_the_person_refuses_is_no_success() {
    test(async {
        // The sandbox is in the way of what follows `||`, so the command ends with 0 all the same.
        let server = Server::with(Setup::default().env("TOOLGATE_SANDBOX_MODE", "workspace-write")).await;
        let outside = server.folder().join("outside");
        std::fs::create_dir(&outside).unwrap();
        let command = format!("touch {}/a || true", outside.display());
        let url = server.url();
        let args = [
            "--server",
            &url,
            "call",
            "bash",
            &format!("command={command}"),
            "description=d",
            "--no",
        ];
        let (code, out, err) = server.cli(&args).await;
        assert!(!outside.join("a").exists());
        assert_eq!(code, 3, "{out} {err}");
    });
}

#[test]
fn who_may_not_answer_is_told_and_does_not_wait() {
    test(async {
        let tokens = "alice alice-alice-alice-alice calls.execute,calls.read\n";
        let setup = Setup {
            files: vec![("tokens", tokens.to_owned())],
            tcp: true,
            ..Setup::permission(json!({"bash": "ask"}))
        };
        let server = Server::with(setup.env("TOOLGATE_AUTH_TOKENS_FILE", "tokens")).await;
        let url = server.url();
        for answer in ["--yes", "--no"] {
            let args = [
                "--server",
                &url,
                "call",
                "bash",
                "command=echo x",
                "description=d",
                answer,
            ];
            let mut command = server.command(&args);
            let ends = command.env("TOOLGATE_TOKEN", "alice-alice-alice-alice").output();
            let output = tokio::time::timeout(Duration::from_secs(60), ends).await;
            let output = output.expect("it does not wait for anybody").unwrap();
            let told = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(3), "{told}");
            assert!(
                told.contains("cannot be answered from here") && told.contains("--wait"),
                "{told}"
            );
        }
        let mut command = server.command(&["--server", &url, "calls"]);
        let listed = command.env("TOOLGATE_TOKEN", "alice-alice-alice-alice").output().await;
        let listed = String::from_utf8(listed.unwrap().stdout).unwrap();
        assert_eq!(listed.matches("cancelled").count(), 2, "{listed}");
    });
}

#[test]
fn a_unary_call_says_what_it_waited_for() {
    test(async {
        let server = Server::start().await;
        let same = || run_request(in_session("s", request("read", json!({"filePath": "."}))));
        for _ in 0..2 {
            run(&mut server.tools(), same()).await.unwrap();
        }
        let mut third = Request::new(same());
        third.set_timeout(Duration::from_secs(10));
        let status = server.tools().run_tool(third).await.unwrap_err();
        assert_eq!(status.code(), Code::DeadlineExceeded, "{status:?}");
        assert!(status.message().contains("permission doom_loop"), "{status:?}");
        assert!(status.message().contains("toolgate approve"), "{status:?}");
        let details = status.get_error_details();
        assert_eq!(details.error_info().unwrap().reason, "WAITS_FOR_PERSON");

        // While it waits, its record says so as well.
        let mut waiting = server.tools();
        let waiting = waiting.run_tool(RunToolRequest {
            call_id: "fourth".to_owned(),
            ..same()
        });
        let seen = eventually("the call says what it waits for", async || {
            let listed = server
                .tools()
                .list_calls(ListCallsRequest::default())
                .await
                .unwrap()
                .into_inner();
            listed.calls.iter().any(|call| call.waiting_for.contains("doom_loop"))
        });
        tokio::select! {
            ended = waiting => panic!("{ended:?}"),
            () = seen => {}
        }
        let (_, out, _) = server.cli(&["--server", &server.url(), "calls"]).await;
        assert!(out.contains("doom_loop") || out.contains("cancelled"), "{out}");
    });
}

#[test]
fn a_call_is_made_by_the_service_that_has_the_folder() {
    test(async {
        let server = Server::with(Setup::permission(json!({"bash": "ask"}))).await;
        let mut child = server
            .command(&["call", "bash", "command=echo done", "description=d", "--wait"])
            .spawn()
            .unwrap();
        let mut prompts = Vec::new();
        eventually("the running service has the prompt", async || {
            prompts = server.prompts(list_all()).await;
            !prompts.is_empty() || child.try_wait().unwrap().is_some()
        })
        .await;
        let prompt = prompts.first().expect("the service that runs here was not used");
        let reply = PromptReply {
            input_digest: prompt.input_digest.clone(),
            ..reply(prompt, PromptDecision::Once)
        };
        let request = ReplyPromptRequest {
            reply: Some(reply),
            name: "tester".to_owned(),
        };
        server.permissions().reply_prompt(request).await.unwrap();
        let output = child.wait_with_output().await.unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("done"));

        // Another folder has no service, and so gets one of its own.
        let elsewhere = server.folder().join("elsewhere");
        std::fs::create_dir(&elsewhere).unwrap();
        let mut command = server.command(&["call", "bash", "command=pwd", "description=d", "--yes"]);
        let output = command.current_dir(&elsewhere).output().await.unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("elsewhere"));
        let alone = server
            .cli(&[
                "call",
                "--standalone",
                "bash",
                "command=echo x",
                "description=d",
                "--yes",
            ])
            .await;
        assert_eq!(alone.0, 0, "{alone:?}");
        let listed = server.tools().list_calls(ListCallsRequest::default()).await;
        let listed = listed.unwrap().into_inner().calls;
        assert_eq!(listed.len(), 1, "the others were made elsewhere: {listed:?}");
    });
}

#[test]
fn a_call_that_is_kept_outlives_its_command() {
    test(async {
        let server = Server::with(Setup::permission(json!({"bash": "allow"}))).await;
        use rustix::process::Signal;
        for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
            let id = format!("kept-{}", signal.as_raw());
            let line = [
                "call",
                "--keep",
                "--call-id",
                &id,
                "bash",
                "command=sleep 60",
                "description=d",
            ];
            let child = server.command(&line).spawn().unwrap();
            eventually("the command runs", async || {
                let request = GetCallRequest { call_id: id.clone() };
                let found = server.tools().get_call(request).await;
                found.is_ok_and(|found| found.into_inner().call.unwrap().state() == CallState::Running)
            })
            .await;
            let pid = i32::try_from(child.id().unwrap()).unwrap();
            rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), signal).unwrap();
            let output = child.wait_with_output().await.unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(
                output.status.code() == Some(130) && said.contains("the call continues"),
                "{output:?}"
            );
            assert_eq!(server.get(&id).await.state(), CallState::Running);
            server.cancel(&id).await;
        }
    });
}

/// What an MCP client says first.
pub(crate) fn greeting() -> String {
    let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}});
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    format!("{initialize}\n{initialized}\n")
}

#[test]
fn prompts_of_every_service_of_this_user_are_found() {
    test(async {
        // The server only lends its home; it runs in another folder than the clients.
        let server = Server::with(Setup::permission(json!({"bash": "ask"}))).await;
        let mut clients = Vec::new();
        for name in ["one", "two"] {
            let folder = server.folder().join(name);
            std::fs::create_dir(&folder).unwrap();
            let mut client = server.command(&["mcp", "--workspace", "."]);
            let mut client = client.current_dir(&folder).stdin(Stdio::piped()).spawn().unwrap();
            let mut stdin = client.stdin.take().unwrap();
            let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
                "name": "bash", "arguments": {"command": format!("echo of-{name}"), "description": "d"},
                "_meta": {"progressToken": "p"}}});
            stdin
                .write_all(format!("{}{call}\n", greeting()).as_bytes())
                .await
                .unwrap();
            let lines = BufReader::new(client.stdout.take().unwrap()).lines();
            clients.push((client, stdin, lines));
        }
        for (.., lines) in &mut clients {
            loop {
                let line = lines
                    .next_line()
                    .await
                    .unwrap()
                    .expect("the client is told of progress");
                if line.contains("waits for an approver (toolgate approve)") {
                    break;
                }
            }
        }
        let (code, out, err) = server.cli(&["calls", "--state", "waiting"]).await;
        assert_eq!(code, 0, "{err}");
        assert_eq!(out.matches("permission bash").count(), 2, "{out}");

        let mut approve = server.command(&["approve", "--json"]);
        let mut approve = approve.stdin(Stdio::piped()).spawn().unwrap();
        let mut replies = approve.stdin.take().unwrap();
        let mut messages = BufReader::new(approve.stdout.take().unwrap()).lines();
        let mut replied = 0;
        while replied < 2 {
            let line = messages.next_line().await.unwrap().expect("both prompts are found");
            let message: Value = serde_json::from_str(&line).unwrap();
            let prompt = &message["promptAdded"]["prompt"];
            if let Some(id) = prompt["promptId"].as_str() {
                let digest = &prompt["inputDigest"];
                let reply = json!({"promptId": id, "decision": "PROMPT_DECISION_ONCE", "inputDigest": digest});
                replies.write_all(format!("{reply}\n").as_bytes()).await.unwrap();
                replied += 1;
            }
        }
        drop(replies);
        while messages.next_line().await.unwrap().is_some() {}
        assert!(approve.wait().await.unwrap().success());
        for (index, (client, _, lines)) in clients.iter_mut().enumerate() {
            let name = ["one", "two"][index];
            loop {
                let line = lines.next_line().await.unwrap().expect("the call comes to its end");
                let message: Value = serde_json::from_str(&line).unwrap();
                if message["id"] == 1 {
                    assert!(line.contains(&format!("of-{name}")), "{line}");
                    break;
                }
            }
            // What its client keeps as its log.
            client.start_kill().unwrap();
            let mut log = String::new();
            client.stderr.take().unwrap().read_to_string(&mut log).await.unwrap();
            assert!(log.contains("toolgate approve"), "{log}");
            client.wait().await.unwrap();
        }

        // Killed, they left their entries behind; whoever looks next sweeps them.
        let (code, ..) = server.cli(&["calls"]).await;
        assert_eq!(code, 0);
        let entries = server.folder().join("home/.local/state/toolgate/instances");
        assert_eq!(
            std::fs::read_dir(entries).unwrap().count(),
            1,
            "only the server's own is left"
        );
    });
}

/// What a command prints with `--json`, line by line.
async fn printed(server: &Server, args: &[&str]) -> Vec<Value> {
    let url = server.url();
    let (code, out, err) = server.cli(&[&["--json", "--server", &url][..], args].concat()).await;
    assert_eq!(code, 0, "{args:?}: {err}");
    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A part of each message.
fn each(messages: Vec<Value>, part: &str) -> Vec<Value> {
    messages.into_iter().map(|mut message| message[part].take()).collect()
}

/// The list in the only message.
fn list(mut messages: Vec<Value>, part: &str) -> Vec<Value> {
    assert_eq!(messages.len(), 1, "{messages:?}");
    messages[0][part].as_array_mut().map(std::mem::take).unwrap_or_default()
}

#[test]
fn json_is_what_grpcurl_prints() {
    test(async {
        let server = Server::with(Setup {
            tcp: true,
            ..Setup::permission(json!({"edit": "ask"}))
        })
        .await;
        let address = server.tcp.clone().unwrap();
        let session = ["--session", "s"];
        let call = [
            "call",
            "bash",
            "--call-id",
            "one",
            "command=printf 'a\\377\\n'",
            "description=Prints",
        ];
        printed(&server, &[&call[..], &session].concat()).await;
        let refused = ["call", "write", "filePath=x", "content=y", "--no"];
        let (code, ..) = server
            .cli(&[&["--server", &server.url()][..], &refused, &session].concat())
            .await;
        assert_eq!(code, 3);
        let todos = r#"todos:=[{"content": "c", "status": "pending", "priority": "high"}]"#;
        printed(&server, &[&["call", "todowrite", todos][..], &session].concat()).await;

        let expected = list(grpcurl(&address, "ToolService/ListCalls", json!({})).await, "calls");
        assert_eq!(expected.len(), 3);
        assert_eq!(printed(&server, &["calls"]).await, expected);
        let failed = &expected[1]["failed"];
        assert_eq!(failed["reason"], "FAILURE_REASON_REJECTED", "{failed}");

        let expected = each(
            grpcurl(&address, "ToolService/WatchCall", json!({"callId": "one"})).await,
            "event",
        );
        assert_eq!(printed(&server, &["watch", "one"]).await, expected);
        let output = expected.iter().find_map(|event| event.get("output")).unwrap();
        assert_eq!(output["data"], "Yf8K", "{output}");
        let end = &expected.last().unwrap()["completed"];
        assert_eq!(
            end["metadata"]["exit"].to_string(),
            "0",
            "a whole number has no fraction"
        );

        let expected = list(
            grpcurl(&address, "ToolService/ListTools", json!({"clientKind": "cli"})).await,
            "tools",
        );
        assert!(expected.len() > 5, "{expected:?}");
        assert_eq!(printed(&server, &["tools"]).await, expected);

        let expected = each(
            grpcurl(&address, "SessionService/GetSession", json!({"sessionId": "s"})).await,
            "session",
        );
        assert_eq!(expected[0]["todos"][0]["content"], "c", "{expected:?}");
        assert_eq!(printed(&server, &["session", "s"]).await, expected);

        let outputs = list(
            grpcurl(&address, "OutputService/ListOutputs", json!({"callId": "one"})).await,
            "outputs",
        );
        let read = json!({"outputId": outputs[0]["outputId"]});
        assert_eq!(printed(&server, &["output", "one", "--info"]).await, outputs);
        let expected = grpcurl(&address, "OutputService/ReadOutput", read).await;
        assert_eq!(printed(&server, &["output", "one"]).await, expected);
        let expected = each(grpcurl(&address, "AuditService/GetAuditHead", json!({})).await, "head");
        assert_eq!(printed(&server, &["audit", "head"]).await, expected);
        let data = server.folder().join("data").display().to_string();
        assert_eq!(
            printed(&server, &["audit", "head", "--data-dir", &data]).await,
            expected
        );
    });
}
