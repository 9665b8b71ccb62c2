//! `toolgate approve` as people use it: programs at terminals of their own, all on one server. Here line by line; `screen` is the
//! full screen, and `lines` is what programs do with `--json`.

mod lines;
mod screen;

use std::fs;
use std::process::Command;

use serde_json::json;
use tonic::Streaming;
use toolgate_contract::*;

use crate::support::*;

fn asks() -> Setup {
    Setup::permission(json!({ "bash": { "*": "ask", "ls *": "allow" }, "edit": "ask" }))
}

fn approver(server: &Server, name: &str) -> Pty {
    let url = format!("unix:{}", server.folder().join("s").display());
    Pty::start(&["approve", "--plain", "--server", &url, "--name", name])
}

/// Starts a call in a session of its own and returns its prompt.
async fn ask(server: &Server, id: &str, request: ExecuteToolRequest) -> (Streaming<ExecuteToolResponse>, Prompt) {
    let request = in_session(&format!("s-{id}"), kept(id, request));
    let mut stream = server.tools().execute_tool(request).await.unwrap().into_inner();
    let prompt = waiting(&mut stream).await;
    (stream, prompt)
}

/// How a prompt was decided, and by whom.
async fn decided(server: &Server, prompt: &Prompt) -> (PromptDecision, String) {
    let mut resolution = None;
    eventually("the prompt is decided", async || {
        let request = GetPromptRequest {
            prompt_id: prompt.prompt_id.clone(),
        };
        let response = server.permissions().get_prompt(request).await.unwrap();
        resolution = response.into_inner().prompt.unwrap().resolution;
        resolution.is_some()
    })
    .await;
    let resolution = resolution.unwrap();
    (resolution.decision(), resolution.resolved_by)
}

async fn grants(server: &Server) -> Vec<Grant> {
    let request = ListGrantsRequest::default();
    let response = server.permissions().list_grants(request).await.unwrap();
    response.into_inner().grants
}

fn ran(server: &Server) -> Vec<String> {
    let text = fs::read_to_string(server.work().join("ran")).unwrap_or_default();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn two_people_answer_and_each_prompt_has_one_decision() {
    test(async {
        let server = Server::with(asks()).await;
        let (mut ann, mut bob) = (approver(&server, "ann"), approver(&server, "bob"));
        ann.shows("connected as ann").await;
        bob.shows("connected as bob").await;
        for round in 0..9 {
            let id = format!("c{round}");
            let (stream, prompt) = ask(&server, &id, bash(&format!("echo {id} >> ran"))).await;
            for terminal in [&mut ann, &mut bob] {
                terminal.shows(&format!("echo {id} >> ran")).await;
                terminal.shows("[o]nce").await;
                eventually("it waits for a key", async || terminal.waits_for_key()).await;
            }
            match round % 3 {
                0 => ann.press_now('o'),
                1 => bob.press_now('r'),
                _ => {
                    ann.press_now('o');
                    bob.press_now('r');
                }
            }
            let (decision, by) = decided(&server, &prompt).await;
            let (word, other) = match (decision, by.as_str()) {
                (PromptDecision::Once, "ann") => ("allowed once", &mut bob),
                (PromptDecision::Reject, "bob") => ("rejected", &mut ann),
                other => panic!("{other:?}"),
            };
            other.shows(&format!("{word} by {by}")).await;
            let end = end_of(&collect(stream).await.unwrap());
            let allowed = matches!(end, call::Ending::Completed(_));
            assert_eq!(allowed, decision == PromptDecision::Once, "{end:?}");
            assert_eq!(ran(&server).contains(&id), allowed);
        }
    });
}

#[test]
fn a_crowd_of_prompts_and_a_server_that_dies() {
    const PROMPTS: usize = 30;
    test(async {
        let mut server = Server::with(asks()).await;
        let mut terminals = [approver(&server, "ann"), approver(&server, "bob")];
        for (terminal, name) in terminals.iter_mut().zip(["ann", "bob"]) {
            terminal.shows(&format!("connected as {name}")).await;
        }
        let (mut prompts, mut names) = (Vec::new(), Vec::new());
        for number in 0..PROMPTS {
            let id = format!("c{number:02}");
            let (_, prompt) = ask(&server, &id, bash(&format!("echo {id} >> ran"))).await;
            prompts.push(prompt);
            names.push(id);
        }
        server.kill9().await;
        for terminal in &mut terminals {
            terminal.shows("lost the connection").await;
        }
        server.restart().await;
        for (terminal, name) in terminals.iter_mut().zip(["ann", "bob"]) {
            // Nobody had to do anything for it, and what waited is asked again.
            terminal.shows(&format!("connected again as {name}")).await;
            terminal.shows("bash asks for permission").await;
        }
        eventually("everything has run", async || {
            for terminal in &mut terminals {
                if terminal.waits_for_key() {
                    terminal.press_now('o');
                }
            }
            ran(&server).len() >= PROMPTS
        })
        .await;
        assert_eq!(ran(&server), names, "each once");
        let mut counts = [0, 0];
        for prompt in &prompts {
            let (decision, by) = decided(&server, prompt).await;
            assert_eq!(decision, PromptDecision::Once);
            counts[usize::from(by == "bob")] += 1;
        }
        for (terminal, count) in terminals.iter().zip(counts) {
            let mut screen = String::new();
            // Of the keys that were pressed, those count that decided; of the others the terminal has said so.
            eventually("keys and decisions agree", async || {
                screen = terminal.screen();
                // A key that was pressed between two questions is shown before it, and thrown away.
                let pressed = screen.matches("  allowed once\n").count();
                pressed
                    == count
                        + screen
                            .matches("was not accepted: already resolved (allowed once by")
                            .count()
            })
            .await;
        }
    });
}

#[test]
fn several_services_say_together_that_nothing_is_open() {
    test(async {
        let first = Server::with(asks()).await;
        let home = first.folder().join("home").display().to_string();
        let second = Server::with(asks().env("HOME", &home)).await;
        let start = |name: &str| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_toolgate"));
            command.args(["approve", "--plain", "--name", name]);
            command.env_clear().env("HOME", &home);
            Pty::of(command)
        };
        let both_connected = async |terminal: &Pty| {
            eventually("both services have let it in", async || {
                terminal.screen().matches("connected as ").count() == 2
            })
            .await;
        };
        let (_one, prompt) = ask(&first, "one", bash("echo one >> ran")).await;
        let mut ann = start("ann");
        both_connected(&ann).await;
        ann.shows("[o]nce").await;
        assert!(!ann.screen().contains("no open prompts"), "{}", ann.screen());
        ann.press('o').await;
        assert_eq!(decided(&first, &prompt).await.0, PromptDecision::Once);
        drop(ann);

        let mut bob = start("bob");
        both_connected(&bob).await;
        bob.shows("no open prompts").await;
        let (_two, _) = ask(&second, "two", bash("echo two >> ran")).await;
        bob.shows("[o]nce").await;
        assert_eq!(bob.screen().matches("no open prompts").count(), 1, "{}", bob.screen());
    });
}

#[test]
fn everything_is_shown_and_every_key_does_what_it_says() {
    test(async {
        let server = Server::with(asks()).await;
        let mut ann = approver(&server, "ann");
        ann.shows("no open prompts").await;

        let (stream, _) = ask(&server, "parts", bash("ls x; git push origin")).await;
        ann.shows("$ \x1b[36mls x; git push origin\x1b[0m").await;
        ann.shows("\x1b[32mallowed\x1b[0m ls x").await;
        ann.shows("\x1b[33masks   \x1b[0m git push origin").await;
        ann.shows("always would allow").await;
        ann.shows("git push *").await;
        ann.press('?').await;
        ann.shows("write another input").await;
        ann.press('e').await;
        ann.shows("Which command should run instead?").await;
        ann.writes("echo person >> ran\n").await;
        ann.shows("allowed with another input").await;
        collect(stream).await.unwrap();
        assert_eq!(ran(&server), ["person"]);

        fs::write(server.work().join("f"), "one\ntwo\n").unwrap();
        let read = in_session("s-edit", request("read", json!({ "filePath": "f" })));
        server.execute(read).await.unwrap();
        let edit = json!({ "filePath": "f", "oldString": "two", "newString": "three" });
        let (stream, _) = ask(&server, "edit", request("edit", edit)).await;
        ann.shows("\x1b[31m-two\x1b[0m").await;
        ann.shows("\x1b[32m+three\x1b[0m").await;
        ann.press('m').await;
        ann.shows("What should the model be told?").await;
        ann.writes("never").await;
        ann.shows("never").await;
        ann.writes("\u{1b}").await;
        ann.shows("Nothing was sent").await;
        ann.press('m').await;
        ann.shows("What should the model be told?").await;
        // An arrow is not Escape, and what is wrong is taken away again.
        ann.writes("use five\u{1b}[D\u{17}four\n").await;
        match end_of(&collect(stream).await.unwrap()) {
            call::Ending::Failed(failed) => assert!(failed.error.contains("use four"), "{}", failed.error),
            other => panic!("{other:?}"),
        }

        for (key, line, reach, uses, ends) in [
            ('a', None, GrantReach::Run, 0, false),
            ('s', None, GrantReach::Session, 0, false),
            ('f', None, GrantReach::Workspace, 0, false),
            ('t', Some("30m"), GrantReach::Workspace, 0, true),
            ('n', Some("3"), GrantReach::Workspace, 3, false),
        ] {
            let (stream, prompt) = ask(&server, &key.to_string(), bash(&format!("printf {key}"))).await;
            ann.shows(&format!("printf {key}")).await;
            ann.press(key).await;
            if key == 'f' {
                ann.shows("For good means").await;
                ann.press('o').await;
                ann.shows("Nothing was sent").await;
                ann.press('f').await;
                ann.shows("For good means").await;
                ann.press('y').await;
            }
            if let Some(line) = line {
                ann.shows("(").await;
                ann.writes("nonsense\n").await;
                ann.shows("`nonsense` is not a ").await;
                ann.shows("(").await;
                ann.writes(&format!("{line}\n")).await;
            }
            collect(stream).await.unwrap();
            let made = grants(&server).await;
            let [grant] = made.as_slice() else { panic!("{made:?}") };
            let scope = grant.scope.unwrap();
            assert_eq!(
                (scope.reach(), scope.max_uses, scope.expire_time.is_some()),
                (reach, uses, ends),
                "{key}"
            );
            assert_eq!(
                (&grant.prompt_id, grant.pattern.as_str()),
                (&prompt.prompt_id, "printf *")
            );
            let revoke = RevokeGrantRequest {
                grant_id: grant.grant_id.clone(),
            };
            server.permissions().revoke_grant(revoke).await.unwrap();
        }

        let question = json!({"questions": [{"header": "Indent", "question": "Tabs or spaces?",
            "options": [{"label": "tabs", "description": ""}, {"label": "spaces", "description": ""}]}]});
        let (stream, prompt) = ask(&server, "question", request("question", question)).await;
        ann.shows("Tabs or spaces?").await;
        ann.shows("Enter for none").await;
        ann.writes("2\n").await;
        assert_eq!(decided(&server, &prompt).await.0, PromptDecision::Answer);
        match end_of(&collect(stream).await.unwrap()) {
            call::Ending::Completed(completed) => assert!(completed.output.contains("spaces"), "{}", completed.output),
            other => panic!("{other:?}"),
        }
    });
}
