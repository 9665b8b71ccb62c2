//! Between prompt and reply: a person puts another input in the place of the call's, or the world becomes another one.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};
use tonic::{Status, Streaming};
use toolgate_contract::call_event::Event;
use toolgate_contract::*;

use crate::support::*;

fn asks() -> Setup {
    Setup::permission(json!({ "bash": { "*": "ask", "rm *": "deny" }, "edit": "ask" }))
}

async fn ask(server: &Server, id: &str, request: ExecuteToolRequest) -> (Streaming<ExecuteToolResponse>, Prompt) {
    let request = in_session("s", kept(id, request));
    let mut stream = server.tools().execute_tool(request).await.unwrap().into_inner();
    let prompt = waiting(&mut stream).await;
    (stream, prompt)
}

async fn try_answer(server: &Server, reply: PromptReply) -> Result<PromptReplyResult, Status> {
    let request = ReplyPromptRequest {
        reply: Some(reply),
        name: "ann".to_owned(),
    };
    Ok(server
        .permissions()
        .reply_prompt(request)
        .await?
        .into_inner()
        .result
        .unwrap())
}

fn instead(prompt: &Prompt, input_json: &str) -> PromptReply {
    PromptReply {
        input_json: input_json.to_owned(),
        input_digest: prompt.input_digest.clone(),
        ..reply(prompt, PromptDecision::Instead)
    }
}

fn command(text: &str) -> String {
    json!({ "command": text, "description": "edited" }).to_string()
}

fn ran(server: &Server) -> String {
    fs::read_to_string(server.work().join("ran")).unwrap_or_default()
}

#[test]
fn what_was_written_instead_runs() {
    test(async {
        let server = Server::with(asks()).await;
        let (stream, prompt) = ask(&server, "c", bash("echo model >> ran")).await;
        assert!(prompt.editable);
        let shown: Value = serde_json::from_str(&prompt.input_json).unwrap();
        assert_eq!(shown["command"], "echo model >> ran");
        for wrong in [r#"{"command": 5}"#, r#"{"command": "ls""#, "", "[]"] {
            let refusal = try_answer(&server, instead(&prompt, wrong)).await.unwrap();
            assert_eq!(refusal.result(), ReplyResult::Invalid, "{refusal:?}");
        }
        let misplaced = PromptReply {
            decision: PromptDecision::Once.into(),
            ..instead(&prompt, &command("true"))
        };
        assert_eq!(
            try_answer(&server, misplaced).await.unwrap().result(),
            ReplyResult::Invalid
        );
        // Its own commands would be asked for as well: whoever wrote them has answered that.
        let edit = instead(&prompt, &command("echo person >> ran && printf done"));
        assert_eq!(
            try_answer(&server, edit.clone()).await.unwrap().result(),
            ReplyResult::Accepted
        );
        collect(stream).await.unwrap();
        let log = server.watch("c", 0).await.unwrap();
        check_log(0, &log);
        let call::Ending::Completed(completed) = end_of(&log) else {
            panic!("{:?}", log.last())
        };
        assert!(completed.output.starts_with("done"), "{}", completed.output);
        assert!(
            completed.output.contains("echo person"),
            "the model is told: {}",
            completed.output
        );
        assert_eq!(ran(&server), "person\n");
        let resumed = log.iter().find_map(|event| match &event.event {
            Some(Event::Resumed(resumed)) => resumed.resolution.clone(),
            _ => None,
        });
        let resolution = resumed.unwrap();
        let record = server.get("c").await;
        assert_eq!(resolution.decision(), PromptDecision::Instead);
        assert_eq!(
            (&resolution.input_json, &resolution.input_digest),
            (&record.input_json, &record.input_digest)
        );
        assert_eq!(
            (&record.original_input_json, &record.original_input_digest),
            (&prompt.input_json, &prompt.input_digest)
        );
        assert_ne!(record.input_digest, prompt.input_digest);
        let late = try_answer(&server, edit).await.unwrap();
        assert_eq!(late.result(), ReplyResult::AlreadyResolved);
    });
}

#[test]
fn rules_hold_for_what_was_written_instead() {
    test(async {
        let server = Server::with(asks()).await;
        fs::write(server.work().join("kept"), "x").unwrap();
        let (stream, prompt) = ask(&server, "c", bash("echo x")).await;
        try_answer(&server, instead(&prompt, &command("true && rm kept")))
            .await
            .unwrap();
        match end_of(&collect(stream).await.unwrap()) {
            call::Ending::Failed(failed) => assert_eq!(failed.reason(), FailureReason::Denied),
            other => panic!("{other:?}"),
        }
        assert!(server.work().join("kept").exists());
        let patch = "*** Begin Patch\n*** Add File: new\n+x\n*** End Patch";
        let (_, prompt) = ask(&server, "p", request("apply_patch", json!({ "patchText": patch }))).await;
        assert!(!prompt.editable && prompt.input_json.is_empty());
        let refusal = try_answer(&server, instead(&prompt, "{}")).await.unwrap();
        assert_eq!(refusal.result(), ReplyResult::Invalid, "{refusal:?}");
        let (stream, prompt) = ask(
            &server,
            "w",
            request("write", json!({ "filePath": "f", "content": "a" })),
        )
        .await;
        let written = json!({ "filePath": "f", "content": "b" }).to_string();
        try_answer(&server, instead(&prompt, &written)).await.unwrap();
        assert!(matches!(
            end_of(&collect(stream).await.unwrap()),
            call::Ending::Completed(_)
        ));
        assert_eq!(fs::read_to_string(server.work().join("f")).unwrap(), "b");
    });
}

#[test]
fn an_edit_survives_the_server() {
    test(async {
        let mut server = Server::with(asks()).await;
        let (_, prompt) = ask(&server, "c", bash("echo model >> ran")).await;
        server.kill9().await;
        server.restart().await;
        try_answer(&server, instead(&prompt, &command("echo person >> ran")))
            .await
            .unwrap();
        let log = server.watch("c", 0).await.unwrap();
        check_log(0, &log);
        assert!(matches!(end_of(&log), call::Ending::Completed(_)), "{:?}", log.last());
        assert_eq!(ran(&server), "person\n");
        // Right after the reply: what was decided may run or be lost, but what the model wrote never runs.
        let mut edited = 0;
        for round in 0..4 {
            let id = format!("k{round}");
            let (_, prompt) = ask(&server, &id, bash("echo model >> ran")).await;
            try_answer(&server, instead(&prompt, &command("echo person >> ran")))
                .await
                .unwrap();
            server.kill9().await;
            server.restart().await;
            edited += match end_of(&server.watch(&id, 0).await.unwrap()) {
                call::Ending::Completed(_) => 1,
                call::Ending::Failed(failed) => {
                    assert_eq!(failed.reason(), FailureReason::Lost);
                    0
                }
            };
        }
        let lines = ran(&server).lines().filter(|line| *line == "person").count();
        assert!((1 + edited..=5).contains(&lines), "{lines} {edited}");
        assert!(!ran(&server).contains("model"));
    });
}

/// Has a call ask, changes the world, allows the call, and expects that it fails.
async fn overtaken(server: &Server, id: &str, request: ExecuteToolRequest, change: impl FnOnce()) {
    let (stream, prompt) = ask(server, id, request).await;
    change();
    try_answer(server, reply(&prompt, PromptDecision::Once)).await.unwrap();
    match end_of(&collect(stream).await.unwrap()) {
        call::Ending::Failed(failed) => assert_eq!(failed.reason(), FailureReason::ToolError, "{id}: {}", failed.error),
        other => panic!("{id}: {other:?}"),
    }
}

#[test]
fn a_world_that_changed_meanwhile_is_refused() {
    test(async {
        let server = Server::with(asks()).await;
        let at = |name: &str| server.work().join(name);
        let put = |name: &str, text: &str| fs::write(at(name), text).unwrap();
        let text = |name: &str| fs::read_to_string(at(name)).unwrap();
        let edit = |name: &str| request("edit", json!({ "filePath": name, "oldString": "a", "newString": "b" }));
        let write = |name: &str| request("write", json!({ "filePath": name, "content": "b" }));
        let patch = |name: &str| {
            let patch = format!("*** Begin Patch\n*** Update File: {name}\n@@\n-a\n+b\n*** End Patch");
            request("apply_patch", json!({ "patchText": patch }))
        };
        let read = async |name: &str| {
            let read = in_session("s", request("read", json!({ "filePath": name })));
            server.execute(read).await.unwrap();
        };
        type Make<'a> = &'a dyn Fn(&str) -> ExecuteToolRequest;
        for (tool, make) in [("edit", &edit as Make<'_>), ("write", &write), ("patch", &patch)] {
            let (file, link, other) = (format!("{tool}-file"), format!("{tool}-link"), format!("{tool}-other"));
            put(&file, "a\n");
            read(&file).await;
            overtaken(&server, &format!("{tool}1"), make(&file), || put(&file, "a\ntheirs\n")).await;
            assert_eq!(text(&file), "a\ntheirs\n");

            put(&file, "a\n");
            put(&other, "a\n");
            symlink(&file, at(&link)).unwrap();
            read(&file).await;
            read(&link).await;
            overtaken(&server, &format!("{tool}2"), make(&link), || {
                fs::remove_file(at(&link)).unwrap();
                symlink(&other, at(&link)).unwrap();
            })
            .await;
            assert_eq!((text(&file), text(&other)), ("a\n".to_owned(), "a\n".to_owned()));
        }
        for (id, to_link) in [("folder", false), ("link", true)] {
            fs::create_dir(at(id)).unwrap();
            let input = json!({ "command": "touch here", "description": "d", "workdir": id });
            overtaken(&server, id, request("bash", input), || {
                let away = at(&format!("{id}-away"));
                fs::rename(at(id), &away).unwrap();
                match to_link {
                    true => symlink(&away, at(id)).unwrap(),
                    false => fs::create_dir(at(id)).unwrap(),
                }
            })
            .await;
            assert!(!at(id).join("here").exists());
        }
    });
}
