//! Calls that work in a folder of their workspace.

use std::os::unix::fs::symlink;

use super::*;

fn at(directory: &str, request: ExecuteToolRequest) -> ExecuteToolRequest {
    ExecuteToolRequest {
        context: Some(CallContext {
            directory: directory.to_owned(),
            ..request.context.unwrap_or_default()
        }),
        ..request
    }
}

async fn run_at(server: &Server, directory: &str, request: ExecuteToolRequest) -> Result<Call, Status> {
    run(&mut server.tools(), run_request(at(directory, request))).await
}

/// A service with `work/app/src`, and a file of the same name on each level.
async fn levels(config: serde_json::Value) -> Server {
    let server = Server::with(Setup {
        config: Some(config),
        folders: vec!["work/app/src", "outside"],
        ..Setup::default()
    })
    .await;
    for folder in ["", "app", "app/src"] {
        fs::write(server.work().join(folder).join("where"), format!("in [{folder}]\n")).unwrap();
    }
    server
}

#[test]
fn relative_paths_and_commands_begin_there() {
    test(async {
        let mut server = levels(json!({})).await;
        let absolute = server.work().canonicalize().unwrap().join("app/src");
        for (directory, recorded) in [
            ("", ""),
            ("app", "app"),
            ("./app/../app/src/", "app/src"),
            (absolute.to_str().unwrap(), "app/src"),
        ] {
            let expected = format!("in [{recorded}]");
            let shown = run_at(&server, directory, bash("cat where; pwd")).await.unwrap();
            let output = &completed(&shown).output;
            assert!(output.contains(&expected), "{directory}: {output}");
            assert!(output.trim_end().ends_with(recorded), "{directory}: {output}");
            assert_eq!(shown.context.unwrap().directory, recorded);
            let read = run_at(&server, directory, request("read", json!({"filePath": "where"}))).await;
            let output = completed(&read.unwrap()).output.clone();
            assert!(output.contains(&expected), "{directory}: {output}");
            let found = run_at(&server, directory, request("glob", json!({"pattern": "where"}))).await;
            let output = completed(&found.unwrap()).output.clone();
            assert!(
                output.contains(&format!("{recorded}/where")) || recorded.is_empty(),
                "{output}"
            );
        }
        // What is inside is still the whole workspace.
        let above = run_at(&server, "app/src", request("read", json!({"filePath": "../../where"}))).await;
        assert!(completed(&above.unwrap()).output.contains("in []"));
        server.stop().await;
    });
}

#[test]
fn what_is_no_folder_inside_is_refused() {
    test(async {
        let mut server = levels(json!({})).await;
        symlink("../outside", server.work().join("out")).unwrap();
        symlink("app", server.work().join("in")).unwrap();
        let long = "x/".repeat(3000);
        for directory in [
            "..",
            "app/../..",
            "../work2",
            "/",
            "/etc",
            "out",
            "none",
            "where",
            "app\n",
            "app\0",
            &long,
        ] {
            let refusal = run_at(&server, directory, bash("true")).await;
            let status = refusal.expect_err(directory);
            assert_eq!(status.code(), Code::InvalidArgument, "{directory}: {status:?}");
            assert!(status.message().contains("context.directory"), "{status:?}");
        }
        completed(&run_at(&server, "in", bash("true")).await.unwrap());
        let evaluated = EvaluateCallRequest {
            context: Some(CallContext {
                directory: "none".to_owned(),
                ..Default::default()
            }),
            ..crate::evaluated::evaluation_request(bash("true"))
        };
        let refusal = server.tools().evaluate_call(evaluated).await;
        assert_eq!(refusal.unwrap_err().code(), Code::InvalidArgument);
        server.stop().await;
    });
}

#[test]
fn calls_below_a_call_work_where_it_does() {
    test(async {
        let mut server = levels(json!({"experimental": {"batch_tool": true}})).await;
        let calls = json!({"tool_calls": [{"tool": "read", "parameters": {"filePath": "where"}}]});
        let parent = run_at(&server, "app", kept("b", request("batch", calls)))
            .await
            .unwrap();
        completed(&parent);
        let children = ListCallsRequest {
            parent_call_id: "b".to_owned(),
            ..Default::default()
        };
        let children = server.tools().list_calls(children).await.unwrap().into_inner().calls;
        assert_eq!(children[0].context.as_ref().unwrap().directory, "app");
        let child = server.get(&children[0].call_id).await;
        assert!(completed(&child).output.contains("in [app]"), "{child:?}");
        server.stop().await;
    });
}

#[test]
fn a_prompt_says_where_and_rules_stay_relative_to_the_worktree() {
    test(async {
        let rules = json!({"permission": {"bash": "ask", "edit": {"*": "deny", "app/src/*": "allow"}}});
        let mut server = levels(rules).await;
        let write = |path: &str| request("write", json!({"filePath": path, "content": "x"}));
        completed(&run_at(&server, "app/src", write("new")).await.unwrap());
        assert!(server.work().join("app/src/new").exists());
        let denied = run_at(&server, "app", write("new")).await.unwrap();
        assert_eq!(failed(&denied).reason(), FailureReason::Denied);

        let request = at("app", kept("asks", bash("touch made; sleep 0")));
        let mut stream = server.tools().execute_tool(request).await.unwrap().into_inner();
        let prompt = waiting(&mut stream).await;
        assert_eq!(prompt.directory, "app");
        // The folder is swapped for a link while a person thinks: what was approved does not run elsewhere.
        fs::rename(server.work().join("app"), server.work().join("app2")).unwrap();
        symlink("../outside", server.work().join("app")).unwrap();
        let mut approver = Approver::open(server.channel(), "p").await.unwrap();
        assert!(approver.send(reply(&prompt, PromptDecision::Once)).await);
        assert_eq!(approver.result().await.result(), ReplyResult::Accepted);
        let ended = end_of(&collect(stream).await.unwrap());
        assert!(matches!(ended, call::Ending::Failed(_)), "{ended:?}");
        assert!(!server.folder().join("outside/made").exists());
        server.stop().await;
    });
}
