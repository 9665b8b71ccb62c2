//! `toolgate acp`: the prompts of Toolgate in an editor, whatever agent it has.
//!
//! Real agents and the protocol's own SDK are in the suite of other programs; here is an agent that does what a test says, and an
//! editor that sees every message. `faults` has sides that do not do what they should.

mod faults;

use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;
use toolgate_contract::{ListPromptsRequest, PromptState};

use crate::support::{Server, Setup, list_all, request, test, waiting};

const PROGRAM: &str = env!("CARGO_BIN_EXE_toolgate");

const LIMIT: Duration = Duration::from_secs(60);

/// An editor with a project, and a home of its own.
struct Editor {
    home: Arc<tempfile::TempDir>,
    project: PathBuf,
    program: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
    version: u64,
    requests: u64,
}

impl Editor {
    async fn start(version: u64, how: &[&str]) -> Self {
        let home = Arc::new(tempfile::tempdir().unwrap());
        let project = home.path().join("project");
        std::fs::create_dir(&project).unwrap();
        let rules = json!({"permission": {"bash": "ask", "edit": "ask"}});
        std::fs::write(project.join("opencode.json"), rules.to_string()).unwrap();
        Self::at((home, &project), version, &[], how).await
    }

    /// Starts one with this home and project, and `toolgate acp` with these options.
    async fn at(place: (Arc<tempfile::TempDir>, &Path), version: u64, options: &[&str], how: &[&str]) -> Self {
        Self::with(place, version, options, how, &[]).await
    }

    /// As [`Self::at`], with these variables.
    async fn with(
        (home, project): (Arc<tempfile::TempDir>, &Path),
        version: u64,
        options: &[&str],
        how: &[&str],
        variables: &[(&str, &str)],
    ) -> Self {
        let agent = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/acp/agent.py");
        let mut program = Command::new(PROGRAM);
        program
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", home.path())
            .env("USER", "ada")
            .envs(variables.iter().copied())
            .current_dir(home.path())
            .arg("acp")
            .args(options)
            .args(["--", "python3", agent])
            .args(how)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let mut program = program.spawn().unwrap();
        let mut editor = Self {
            home,
            project: project.to_owned(),
            input: program.stdin.take(),
            output: BufReader::new(program.stdout.take().unwrap()).lines(),
            program,
            version,
            requests: 0,
        };
        let begun = editor.does("initialize", json!({"protocolVersion": version})).await;
        assert_eq!(begun["protocolVersion"], version, "{begun}");
        editor
    }

    fn project(&self) -> PathBuf {
        self.project.clone()
    }

    async fn send(&mut self, message: &str) {
        let input = self.input.as_mut().unwrap();
        let sending = async {
            input.write_all(format!("{message}\n").as_bytes()).await.unwrap();
            input.flush().await.unwrap();
        };
        timeout(LIMIT, sending).await.expect("it does not read");
    }

    /// Sends a request; returns its id.
    async fn asks(&mut self, method: &str, params: Value) -> u64 {
        self.requests += 1;
        let request = json!({"jsonrpc": "2.0", "id": self.requests, "method": method, "params": params});
        self.send(&request.to_string()).await;
        self.requests
    }

    /// Returns the next message.
    async fn next(&mut self) -> Value {
        let line = timeout(LIMIT, self.output.next_line()).await.expect("nothing comes");
        serde_json::from_str(&line.unwrap().expect("the program has ended")).unwrap()
    }

    /// Returns the next message that is this, with all before it.
    async fn until(&mut self, wanted: impl Fn(&Value) -> bool) -> (Value, Vec<Value>) {
        let mut before = Vec::new();
        loop {
            let message = self.next().await;
            if wanted(&message) {
                return (message, before);
            }
            before.push(message);
        }
    }

    /// Sends a request and waits for its result.
    async fn does(&mut self, method: &str, params: Value) -> Value {
        let id = self.asks(method, params).await;
        let (answer, _) = self.until(|message| message["id"] == id).await;
        assert!(answer["error"].is_null(), "{method}: {answer}");
        answer["result"].clone()
    }

    async fn opens(&mut self) -> String {
        let opened = self
            .does("session/new", json!({"cwd": self.project(), "mcpServers": []}))
            .await;
        opened["sessionId"].as_str().unwrap().to_owned()
    }

    /// Has the agent call a tool; returns the id of the request.
    async fn prompts(&mut self, session: &str, tool: &str, arguments: Value) -> u64 {
        let call = json!({"name": tool, "arguments": arguments}).to_string();
        let prompt = json!({"sessionId": session, "prompt": [{"type": "text", "text": call}]});
        self.asks("session/prompt", prompt).await
    }

    /// Waits for what the user is asked; returns the id and what is shown of it.
    async fn asked(&mut self) -> (Value, Value) {
        let (request, before) = self
            .until(|message| message["method"] == "session/request_permission")
            .await;
        let announced = before
            .iter()
            .any(|one| one["params"]["update"]["sessionUpdate"] == "tool_call");
        assert_eq!(announced, self.version == 1, "{before:?}");
        (request["id"].clone(), request["params"].clone())
    }

    async fn chooses(&mut self, id: &Value, option: &str) {
        let outcome = json!({"outcome": "selected", "optionId": option});
        let answer = json!({"jsonrpc": "2.0", "id": id, "result": {"outcome": outcome}});
        self.send(&answer.to_string()).await;
    }

    /// Waits for the end of a turn; returns what the tool has said, and what was told before.
    async fn result(&mut self, turn: u64) -> (Value, Vec<Value>) {
        let (_, before) = self.until(|message| message["id"] == turn).await;
        let said = before
            .iter()
            .find(|one| one["params"]["update"]["sessionUpdate"] == "agent_message_chunk");
        let text = said.and_then(|said| said["params"]["update"]["content"]["text"].as_str());
        (
            serde_json::from_str(text.expect("the agent says something")).unwrap(),
            before,
        )
    }

    /// Closes its side; returns how the program ended and what it complained of.
    async fn leaves(mut self) -> (ExitStatus, String) {
        drop(self.input.take());
        self.ended().await
    }

    async fn ended(&mut self) -> (ExitStatus, String) {
        let ended = timeout(LIMIT, self.program.wait())
            .await
            .expect("it does not end")
            .unwrap();
        let mut complaints = String::new();
        // A program that is left would hold it open.
        let mut errors = self.program.stderr.take().unwrap();
        timeout(LIMIT, errors.read_to_string(&mut complaints))
            .await
            .expect("somebody is left")
            .unwrap();
        (ended, complaints)
    }
}

fn ends_of(messages: &[Value]) -> Vec<&str> {
    let updates = messages.iter().map(|message| &message["params"]["update"]);
    let ends = updates.filter(|update| update["sessionUpdate"] == "tool_call_update");
    ends.filter_map(|update| update["status"].as_str()).collect()
}

fn bash(command: &str) -> Value {
    json!({"command": command, "description": "Tests"})
}

#[test]
fn a_change_is_shown_as_a_diff_and_made_when_it_is_allowed() {
    test(async {
        let mut editor = Editor::start(1, &[]).await;
        let session = editor.opens().await;
        let file = editor.project().join("new.txt");
        let turn = editor
            .prompts(&session, "write", json!({"filePath": file, "content": "hello\n"}))
            .await;
        let (id, shown) = editor.asked().await;
        assert_eq!(shown["sessionId"], session.as_str());
        let call = &shown["toolCall"];
        let diff = json!({"type": "diff", "path": file, "oldText": null, "newText": "hello\n"});
        assert_eq!((&call["kind"], &call["content"][0]), (&json!("edit"), &diff));
        let kinds: Vec<&str> = shown["options"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|one| one["kind"].as_str())
            .collect();
        assert_eq!(kinds, ["allow_once", "allow_always", "allow_always", "reject_once"]);
        assert!(!file.exists());
        editor.chooses(&id, "session").await;
        let (result, told) = editor.result(turn).await;
        assert_eq!(
            (ends_of(&told), result["result"]["isError"].as_bool()),
            (vec!["completed"], Some(false)),
            "{result}"
        );
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "hello\n");

        // Allowed for the session, it is not asked about again.
        let again = editor
            .prompts(
                &session,
                "write",
                json!({"filePath": editor.project().join("b"), "content": "b"}),
            )
            .await;
        let (_, told) = editor.result(again).await;
        assert!(
            told.iter().all(|one| one["method"] != "session/request_permission"),
            "{told:?}"
        );
        // In another one it is, and there only.
        let other = editor.opens().await;
        let turn = editor
            .prompts(
                &other,
                "write",
                json!({"filePath": editor.project().join("c"), "content": "c"}),
            )
            .await;
        let (id, shown) = editor.asked().await;
        assert_eq!(shown["sessionId"], other.as_str());
        editor.chooses(&id, "reject").await;
        let (result, told) = editor.result(turn).await;
        assert_eq!(
            (ends_of(&told), result["result"]["isError"].as_bool()),
            (vec!["failed"], Some(true)),
            "{result}"
        );
        let (ended, complaints) = editor.leaves().await;
        assert!(ended.success(), "{ended}: {complaints}");
    });
}

#[test]
fn what_others_settle_is_taken_back() {
    test(async {
        let mut editor = Editor::start(1, &[]).await;
        let session = editor.opens().await;
        let turn = editor.prompts(&session, "bash", bash("echo one >one.txt")).await;
        let (id, shown) = editor.asked().await;
        let text = shown["toolCall"]["content"][0]["content"]["text"].as_str().unwrap();
        assert!(text.contains("echo one >one.txt"), "{text}");

        // Whoever approves finds the service that the agent has started.
        let mut approver = Command::new(PROGRAM)
            .env_clear()
            .env("HOME", editor.home.path())
            .args(["approve", "--json"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut told = BufReader::new(approver.stdout.take().unwrap()).lines();
        let prompt = loop {
            let line = timeout(LIMIT, told.next_line()).await.unwrap().unwrap().unwrap();
            let message: Value = serde_json::from_str(&line).unwrap();
            if let Some(added) = message.get("promptAdded") {
                break added["prompt"].clone();
            }
        };
        let reply = json!({
            "promptId": prompt["promptId"], "inputDigest": prompt["inputDigest"], "decision": "PROMPT_DECISION_ONCE",
        });
        let mut input = approver.stdin.take().unwrap();
        input.write_all(format!("{reply}\n").as_bytes()).await.unwrap();
        let (_, told) = editor.result(turn).await;
        let taken_back = told
            .iter()
            .any(|one| one["method"] == "$/cancel_request" && one["params"]["requestId"] == id);
        assert!(taken_back, "{told:?}");
        assert!(editor.project().join("one.txt").exists());
        // Too late it is for nobody, and the agent does not see it.
        editor.chooses(&id, "reject").await;

        // The editor cancels what the agent would leave running, and what waits.
        for _ in 0..2 {
            let turn = editor.prompts(&session, "bash", bash("sleep 1000")).await;
            let (id, _) = editor.asked().await;
            let cancel = json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}});
            editor.send(&cancel.to_string()).await;
            let answer = json!({"jsonrpc": "2.0", "id": id, "result": {"outcome": {"outcome": "cancelled"}}});
            editor.send(&answer.to_string()).await;
            let (result, _) = editor.result(turn).await;
            assert!(result.to_string().contains("cancel"), "{result}");
        }
        let (ended, complaints) = editor.leaves().await;
        assert!(ended.success(), "{ended}: {complaints}");
    });
}

#[test]
fn the_second_version_is_spoken_where_it_was_agreed_on() {
    test(async {
        let mut editor = Editor::start(2, &[]).await;
        let session = editor.opens().await;
        let file = editor.project().join("new.txt");
        let turn = editor
            .prompts(&session, "write", json!({"filePath": file, "content": "hello\n"}))
            .await;
        let (id, shown) = editor.asked().await;
        let diff = &shown["subject"]["toolCall"]["content"][0];
        assert_eq!(
            diff["changes"],
            json!([{"operation": "modify", "path": file}]),
            "{shown}"
        );
        assert!(
            diff["patch"]["text"].as_str().unwrap().ends_with("@@\n+hello\n"),
            "{diff}"
        );
        assert!(shown["title"].as_str().unwrap().starts_with("edit: "), "{shown}");
        // Dismissed is refused.
        let answer = json!({"jsonrpc": "2.0", "id": id, "result": {"outcome": {"outcome": "cancelled"}}});
        editor.send(&answer.to_string()).await;
        let (result, told) = editor.result(turn).await;
        assert_eq!(
            (ends_of(&told), result["result"]["isError"].as_bool()),
            (vec!["failed"], Some(true)),
            "{result}"
        );
        let (ended, _) = editor.leaves().await;
        assert!(ended.success());
    });
}

#[test]
fn what_it_does_not_know_passes_and_it_ends_as_the_agent_does() {
    test(async {
        let mut editor = Editor::start(1, &[]).await;
        editor.requests += 1;
        let odd = r#"{"method":"x/echo","id":2,  "params": {"b":1.50,"a":[1e2,"\u00e4"]}, "jsonrpc":"2.0","more":{}}"#;
        editor.send(odd).await;
        assert_eq!(editor.next().await["result"], format!("{odd}\n"));
        editor.send("no message").await;
        let agent = editor.does("x/babble", json!({})).await;
        editor.asks("x/exit", json!(7)).await;
        let (ended, complaints) = editor.ended().await;
        assert_eq!(ended.code(), Some(7));
        for told in [
            "the editor sent something that is not a message: no message",
            "the agent sent something that is not a message: Listening on",
        ] {
            assert!(complaints.contains(told), "{complaints}");
        }
        assert!(
            agent
                .as_i64()
                .is_some_and(|pid| !PathBuf::from(format!("/proc/{pid}")).exists())
        );

        // One that does not end is ended, by the signal that it cannot ignore.
        let mut editor = Editor::start(1, &["deaf"]).await;
        let agent = editor.does("x/babble", json!({})).await;
        let (ended, _) = editor.leaves().await;
        assert_eq!(ended.code(), Some(128 + 9));
        assert!(
            agent
                .as_i64()
                .is_some_and(|pid| !PathBuf::from(format!("/proc/{pid}")).exists())
        );

        let missing = Command::new(PROGRAM)
            .args(["acp", "--", "/no/such/agent"])
            .output()
            .await
            .unwrap();
        let told = String::from_utf8(missing.stderr).unwrap();
        assert_eq!(
            (
                missing.status.code(),
                told.contains("cannot start the agent /no/such/agent")
            ),
            (Some(2), true),
            "{told}"
        );
    });
}

#[test]
fn what_the_environment_says_of_calls_counts_whatever_the_agent_hands_on() {
    test(async {
        let home = Arc::new(tempfile::tempdir().unwrap());
        let project = home.path().join("project");
        std::fs::create_dir(&project).unwrap();
        let rules = [
            ("OPENCODE_PERMISSION", r#"{"bash": "deny"}"#),
            ("OPENCODE_CONFIG_CONTENT", "{}"),
        ];
        let mut editor = Editor::with((home, &project), 1, &[], &[], &rules).await;
        let session = editor.opens().await;
        let mark = project.join("mark");
        let command = format!("touch {}", mark.display());
        let turn = editor.prompts(&session, "bash", bash(&command)).await;
        let (result, _) = editor.result(turn).await;
        assert_ne!(result["result"]["isError"], false, "{result}");
        assert!(!mark.exists(), "{result}");
        // What may hold secrets goes to no agent.
        let sent = editor.does("x/opened", json!({})).await;
        assert!(!sent.as_str().unwrap().contains("OPENCODE_CONFIG_CONTENT"), "{sent}");
        let (ended, complaints) = editor.leaves().await;
        assert!(ended.success(), "{ended}: {complaints}");
    });
}

#[test]
fn prompts_of_a_running_service_are_shown() {
    test(async {
        let server = Server::with(Setup::permission(json!({"edit": "ask"}))).await;
        let url = format!("unix:{}", server.folder().join("s").display());
        let home = Arc::new(tempfile::tempdir().unwrap());
        let project = server.work().canonicalize().unwrap();
        let mut editor = Editor::at((home, &project), 1, &["--server", &url, "--name", "grace"], &[]).await;
        let session = editor.opens().await;
        let file = project.join("new.txt");
        let input = json!({"filePath": file, "content": "hello\n"});
        let turn = editor.prompts(&session, "write", input).await;
        let (id, shown) = editor.asked().await;
        assert_eq!(shown["sessionId"], session.as_str());
        assert!(!file.exists());
        // What another one asks is none of this session's business.
        let request = request("write", json!({"filePath": project.join("other"), "content": ""}));
        let mut stranger = server.tools().execute_tool(request).await.unwrap().into_inner();
        let of_stranger = waiting(&mut stranger).await;
        editor.chooses(&id, "once").await;
        let (result, told) = editor.result(turn).await;
        assert_eq!(result["result"]["isError"], false, "{result}");
        assert!(
            told.iter().all(|one| one["method"] != "session/request_permission"),
            "{told:?}"
        );
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "hello\n");
        let resolved = ListPromptsRequest {
            states: vec![PromptState::Resolved.into()],
            ..list_all()
        };
        let resolved = server.prompts(resolved).await;
        let [mine] = resolved.as_slice() else {
            panic!("{resolved:?}");
        };
        assert_ne!(mine.prompt_id, of_stranger.prompt_id);
        assert!(mine.session_id.starts_with("acp-"), "{mine:?}");
        assert_eq!(mine.resolution.as_ref().unwrap().resolved_by, "grace");
        let (ended, complaints) = editor.leaves().await;
        assert!(ended.success(), "{ended}: {complaints}");
        server.assert_calm();
    });
}
