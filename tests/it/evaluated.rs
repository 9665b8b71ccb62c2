//! What a call would ask, told without making it: the same that it asks when it is made.

use std::collections::BTreeSet;
use std::fs;

use serde_json::{Value, json};
use tonic::{Code, Status};
use toolgate_contract::call::Ending;
use toolgate_contract::*;

use crate::support::*;

const CALLS: u64 = 2_000;

/// So many of the calls are made under the same rules.
const CALLS_PER_RULES: u64 = 250;

pub(crate) fn evaluation_request(request: ExecuteToolRequest) -> EvaluateCallRequest {
    use evaluate_call_request::Arguments as Evaluated;
    use execute_tool_request::Arguments;
    EvaluateCallRequest {
        context: request.context,
        tool: request.tool,
        arguments: request.arguments.map(|arguments| match arguments {
            Arguments::InputJson(text) => Evaluated::InputJson(text),
            Arguments::Input(fields) => Evaluated::Input(fields),
        }),
    }
}

pub(crate) async fn evaluated(server: &Server, request: ExecuteToolRequest) -> Result<CallEvaluation, Status> {
    let response = server.tools().evaluate_call(evaluation_request(request)).await?;
    Ok(response.into_inner().evaluation.unwrap())
}

/// Lets everything pass that is asked.
async fn approve_all(server: &Server) -> tokio::task::JoinHandle<()> {
    let mut approver = Approver::open(server.channel(), "anybody").await.unwrap();
    tokio::spawn(async move {
        loop {
            let prompt = approver.added().await;
            let decision = match prompt.request {
                Some(prompt::Request::Permission(_)) => PromptDecision::Once,
                Some(prompt::Request::Questions(_)) | None => PromptDecision::Answer,
            };
            if !approver.send(reply(&prompt, decision)).await {
                return;
            }
        }
    })
}

/// The prompts that a call left behind, in their order.
async fn prompts_of(server: &Server, call: &str) -> Vec<Prompt> {
    let states = [PromptState::Resolved, PromptState::Expired, PromptState::Withdrawn];
    let which = ListPromptsRequest {
        call_id: call.to_owned(),
        states: states.map(i32::from).to_vec(),
        ..Default::default()
    };
    server.prompts(which).await
}

/// A permission with what it is for; what is asked for the same permission in a row is one.
type Asked = Vec<(String, BTreeSet<String>)>;

fn merged<'a>(requests: impl Iterator<Item = Option<&'a PermissionRequest>>) -> Asked {
    let mut asked = Asked::new();
    for request in requests {
        let (permission, patterns) = match request {
            Some(request) => (request.permission.as_str(), request.patterns.as_slice()),
            None => ("questions", &[][..]),
        };
        match asked.last_mut() {
            Some((last, known)) if last == permission => known.extend(patterns.iter().cloned()),
            Some(_) | None => asked.push((permission.to_owned(), patterns.iter().cloned().collect())),
        }
    }
    asked
}

pub(crate) fn permission_of(request: &EvaluatedRequest) -> Option<&PermissionRequest> {
    match request.request.as_ref().unwrap() {
        evaluated_request::Request::Permission(permission) => Some(permission),
        evaluated_request::Request::Questions(_) => None,
    }
}

fn prompted(prompt: &Prompt) -> Option<&PermissionRequest> {
    match prompt.request.as_ref().unwrap() {
        prompt::Request::Permission(permission) => Some(permission),
        prompt::Request::Questions(_) => None,
    }
}

/// Compares what was foretold with what came; says what differs.
fn difference(foretold: &CallEvaluation, call: &Call, prompts: &[Prompt]) -> Option<String> {
    let error = match call.ending.as_ref().unwrap() {
        Ending::Failed(failed) => Some((failed.reason(), failed.error.as_str())),
        Ending::Completed(_) => None,
    };
    if !foretold.complete {
        return Some("the tool is one that can be foreseen".to_owned());
    }
    if foretold.tool != call.tool || foretold.input_digest != call.input_digest {
        return Some("it is another tool or another input".to_owned());
    }
    if foretold
        .requests
        .iter()
        .any(|request| request.action() == PermissionAction::Deny)
    {
        let is_denied = error.is_some_and(|(reason, _)| reason == FailureReason::Denied);
        return (!is_denied || !prompts.is_empty()).then(|| "it is not denied before the first prompt".to_owned());
    }
    let asking = || {
        foretold
            .requests
            .iter()
            .filter(|request| request.action() == PermissionAction::Ask)
    };
    let (expected, got) = (
        merged(asking().map(permission_of)),
        merged(prompts.iter().map(prompted)),
    );
    if let Some(problem) = Some(&foretold.problem).filter(|problem| !problem.is_empty()) {
        let is_same = error.is_some_and(|(_, text)| text == problem) && expected == got;
        return (!is_same).then(|| "it fails in another way".to_owned());
    }
    // A command is asked about again when the walls were in its way.
    let begins = match call.tool.as_str() {
        "bash" => got.len() >= expected.len() && got[..expected.len()] == expected,
        _ => got == expected,
    };
    let failed = error.is_some_and(|(reason, _)| reason == FailureReason::ToolError);
    let is_cut = failed && expected.len() > got.len() && expected[..got.len()] == got;
    if !(begins || is_cut) {
        return Some(format!("it asks otherwise: {expected:?}, and then {got:?}"));
    }
    for (request, prompt) in asking().zip(prompts).filter(|(request, _)| !request.announced) {
        if permission_of(request) != prompted(prompt) {
            return Some(format!(
                "a prompt shows something else: {request:?}, and then {prompt:?}"
            ));
        }
    }
    None
}

/// Rules for everything that the calls may touch.
fn rules(random: &mut Random) -> Value {
    let actions = ["allow", "ask", "deny"];
    let mut rules = json!({"*": *random.pick(&["allow", "ask"])});
    for permission in [
        "read",
        "edit",
        "list",
        "glob",
        "grep",
        "bash",
        "webfetch",
        "external_directory",
        "todowrite",
    ] {
        rules[permission] = match random.below(4) {
            0 => continue,
            1 => json!(*random.pick(&actions)),
            _ => {
                let patterns = match permission {
                    "webfetch" | "todowrite" => continue,
                    "bash" => ["*", "cat *", "echo *"],
                    "external_directory" => ["*", "/proc/nowhere/*", "/usr/*"],
                    "grep" | "glob" => ["*", "o*", "*.rs"],
                    _ => ["*", "src/*", "*.txt"],
                };
                let chosen = patterns.map(|pattern| (pattern.to_owned(), json!(*random.pick(&actions))));
                Value::Object(chosen.into_iter().collect())
            }
        };
    }
    rules
}

/// A call of some tool, sensible or not.
fn any_call(random: &mut Random, outside: &str) -> ExecuteToolRequest {
    let aside = format!("{outside}/o.txt");
    let paths = [
        "a.txt",
        "src/b.rs",
        "src",
        "missing.txt",
        "src/.git/hooks/x",
        "Makefile",
        &aside,
        outside,
        "/proc/nowhere/x",
    ];
    let path = (*random.pick(&paths)).to_owned();
    let text = (*random.pick(&["one", "two", "three", "none of it"])).to_owned();
    let other = (*random.pick(&["one", "four", ""])).to_owned();
    let (tool, input) = match random.below(14) {
        0 => ("read", json!({"filePath": path})),
        1 => ("list", json!({"path": path})),
        2 => (
            "glob",
            json!({"pattern": *random.pick(&["*", "*.rs", "["]), "path": path}),
        ),
        3 => (
            "grep",
            json!({"pattern": *random.pick(&["one", "o(", "t.o"]), "path": path}),
        ),
        4 | 5 => ("edit", json!({"filePath": path, "oldString": text, "newString": other})),
        6 => ("write", json!({"filePath": path, "content": text})),
        7 => (
            "multiedit",
            json!({"filePath": path, "edits": [{"oldString": text, "newString": other}]}),
        ),
        8 | 9 => {
            let command = match random.below(6) {
                0 => format!("cat {path}"),
                1 => format!("echo x; cat {path}"),
                2 => format!("cd {path}"),
                3 => format!("eval cat {path}"),
                4 => format!("cat <<< $(echo {text}"),
                _ => "seq 3 | wc -l".to_owned(),
            };
            ("bash", json!({"command": command, "description": "looks"}))
        }
        10 => (
            "webfetch",
            json!({"url": *random.pick(&["http://127.0.0.1:1/", "ftp://x", "nonsense"]), "format": "text"}),
        ),
        11 => (
            "todowrite",
            json!({"todos": [{"content": text, "status": "pending", "priority": "low", "id": "1"}]}),
        ),
        12 => (
            "question",
            json!({"questions": [{"question": text, "header": "x", "options": []}]}),
        ),
        _ => return misshapen(random),
    };
    request(tool, input)
}

/// A call that is not understood, or whose input does not fit.
fn misshapen(random: &mut Random) -> ExecuteToolRequest {
    let text = |tool: &str, text: &str| ExecuteToolRequest {
        arguments: Some(execute_tool_request::Arguments::InputJson(text.to_owned())),
        ..request(tool, json!({}))
    };
    match random.below(4) {
        0 => request("frobnicate", json!({})),
        1 => text("read", "{\"filePath\": "),
        2 => request("edit", json!({"filePath": 3})),
        _ => request("ReAd", json!({"filePath": "a.txt"})),
    }
}

#[test]
fn what_is_foretold_is_what_is_asked() {
    test(async {
        let mut random = Random::new(20);
        for _ in 0..CALLS / CALLS_PER_RULES {
            let rules = rules(&mut random);
            let server = Server::with(Setup {
                more: vec!["outside"],
                ..Setup::permission(rules.clone())
            })
            .await;
            let outside = server.folder().join("outside");
            fs::create_dir_all(server.work().join("src")).unwrap();
            for path in ["work/a.txt", "work/src/b.rs", "work/Makefile", "outside/o.txt"] {
                fs::write(server.folder().join(path), "one\ntwo\nthree\n").unwrap();
            }
            let approving = approve_all(&server).await;
            for _ in 0..CALLS_PER_RULES {
                let request = any_call(&mut random, outside.to_str().unwrap());
                let foretold = evaluated(&server, request.clone()).await.unwrap();
                let call = run(&mut server.tools(), run_request(request.clone())).await.unwrap();
                let prompts = prompts_of(&server, &call.call_id).await;
                if let Some(difference) = difference(&foretold, &call, &prompts) {
                    panic!(
                        "{difference}\nrules: {rules}\n{request:?}\nforetold: {foretold:?}\nended: {:?}\n{prompts:?}",
                        call.ending
                    );
                }
            }
            approving.abort();
        }
    });
}

#[test]
fn nobody_is_asked_for_what_a_later_rule_denies() {
    test(async {
        let server = Server::with(Setup {
            more: vec!["outside"],
            ..Setup::permission(json!({
                "external_directory": "ask",
                "bash": {"*": "ask", "rm *": "deny"},
                "edit": "deny",
            }))
        })
        .await;
        let aside = server.folder().join("outside/x");
        fs::write(&aside, "x\n").unwrap();
        let aside = aside.to_str().unwrap();
        for (tool, input, relevant) in [
            (
                "bash",
                json!({"command": format!("cat {aside}; rm {aside}"), "description": "x"}),
                "rm *",
            ),
            (
                "bash",
                json!({"command": "rm y", "workdir": server.folder().join("outside"), "description": "x"}),
                "rm *",
            ),
        ] {
            let foretold = evaluated(&server, request(tool, input.clone())).await.unwrap();
            assert_eq!(foretold.action(), PermissionAction::Deny);
            let call = server.run(tool, input).await;
            let Some(Ending::Failed(failed)) = &call.ending else {
                panic!("{call:?}")
            };
            assert_eq!(failed.reason(), FailureReason::Denied);
            assert!(failed.error.contains(relevant), "{}", failed.error);
            assert!(prompts_of(&server, &call.call_id).await.is_empty());
        }
        // The first prompt says what comes after it.
        let command = json!({"command": format!("cat {aside}"), "description": "reads"});
        let mut stream = server
            .tools()
            .execute_tool(request("bash", command))
            .await
            .unwrap()
            .into_inner();
        let prompt = waiting(&mut stream).await;
        let first = prompted(&prompt).unwrap();
        assert_eq!(first.permission, "external_directory");
        let ahead: Vec<_> = first
            .ahead
            .iter()
            .map(|ahead| (&*ahead.permission, ahead.patterns.clone()))
            .collect();
        assert_eq!(ahead, [("bash", vec![format!("cat {aside}")])]);
    });
}

#[test]
fn nothing_is_done_and_nothing_is_given_away() {
    test(async {
        let server = Server::with(Setup {
            config: Some(json!({
                "permission": {"external_directory": "ask", "edit": "allow", "bash": "allow", "read": "allow"},
                "experimental": {"batch_tool": true},
            })),
            more: vec!["outside"],
            ..Setup::default()
        })
        .await;
        let secret = server.folder().join("outside/secret.txt");
        fs::write(&secret, "the key is 7\n").unwrap();
        fs::write(server.work().join("a.txt"), "one\n").unwrap();

        // What allows everything would run: it does not here.
        let touches = evaluated(&server, bash("touch made; printf out")).await.unwrap();
        assert_eq!((touches.action(), touches.complete), (PermissionAction::Allow, true));
        let writes = evaluated(&server, request("write", json!({"filePath": "made", "content": "x"})))
            .await
            .unwrap();
        assert_eq!(writes.action(), PermissionAction::Allow);
        let diff = permission_of(&writes.requests[0]).unwrap().metadata.clone().unwrap();
        assert!(format!("{diff:?}").contains("+x"), "the diff is shown: {diff:?}");
        assert!(!server.work().join("made").exists());

        // Behind a question nothing is looked at: whether the text is there would be an answer.
        let edit = |old: &str| request("edit", json!({"filePath": secret, "oldString": old, "newString": "y"}));
        let [there, not_there] = ["the key is 7", "the key is 8"].map(edit);
        let [there, not_there] = [
            evaluated(&server, there).await.unwrap(),
            evaluated(&server, not_there).await.unwrap(),
        ];
        assert_eq!(there.requests, not_there.requests);
        assert_eq!((there.problem, not_there.problem), (String::new(), String::new()));
        assert_eq!(
            there.requests.iter().map(|one| one.announced).collect::<Vec<_>>(),
            [false, true]
        );

        // What it would make is told as well.
        let members = json!({"tool_calls": [
            {"tool": "read", "parameters": {"filePath": "a.txt"}},
            {"tool": "read", "parameters": {"filePath": secret}},
            {"tool": "bash", "parameters": {"command": "touch made", "description": "x"}},
        ]});
        let batch = evaluated(&server, request("batch", members)).await.unwrap();
        let actions: Vec<_> = batch.children.iter().map(CallEvaluation::action).collect();
        assert_eq!(
            actions,
            [PermissionAction::Allow, PermissionAction::Ask, PermissionAction::Allow]
        );
        assert_eq!(batch.action(), PermissionAction::Ask);
        let later = json!({"command": "touch made", "description": "x", "background": true});
        let later = evaluated(&server, request("bash", later)).await.unwrap();
        assert_eq!((&*later.children[0].tool, &*later.problem), ("background", ""));
        assert!(!server.work().join("made").exists());

        // A tool of a host decides for itself.
        let _host = LendingHost::open(server.channel(), hello("h", &["own"])).await.unwrap();
        let own = evaluated(&server, request("own", json!({"text": "x"}))).await.unwrap();
        assert_eq!((own.complete, own.action()), (false, PermissionAction::Ask), "{own:?}");

        let calls = server.tools().list_calls(ListCallsRequest::default()).await.unwrap();
        assert!(calls.into_inner().calls.is_empty(), "nothing is recorded");
        let prompts = ListPromptsRequest {
            filter: Some(everybody()),
            ..Default::default()
        };
        assert!(server.prompts(prompts).await.is_empty());

        let elsewhere = |workspace: &str, agent: &str| ExecuteToolRequest {
            context: Some(CallContext {
                workspace: workspace.to_owned(),
                agent: agent.to_owned(),
                ..CallContext::default()
            }),
            ..bash("true")
        };
        for (request, code, reason) in [
            (elsewhere("nowhere", ""), Code::NotFound, "NOT_FOUND"),
            (elsewhere("", "nobody"), Code::InvalidArgument, "INVALID_FIELD"),
            (request("", json!({})), Code::InvalidArgument, "INVALID_FIELD"),
        ] {
            refused(evaluated(&server, request).await.map(drop), code, reason);
        }
    });
}
