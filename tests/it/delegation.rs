//! Calls on behalf of others: whatever their own agent may do, they may no more than those above them.

use serde_json::json;

use toolgate::grpc::proto::*;

use crate::support::*;

fn setup() -> Setup {
    Setup {
        config: Some(json!({
            "permission": { "bash": "allow" },
            "agent": {
                "careful": { "mode": "all", "permission": { "bash": { "*": "ask", "rm *": "deny" } } },
                "reader": { "mode": "all", "permission": { "edit": "deny" } },
            },
        })),
        ..Setup::default()
    }
}

fn by(agent: &str, parent: &str, id: &str, request: ExecuteToolRequest) -> ExecuteToolRequest {
    ExecuteToolRequest {
        context: Some(CallContext {
            session_id: "s".to_owned(),
            agent: agent.to_owned(),
            parent_call_id: parent.to_owned(),
            ..CallContext::default()
        }),
        ..kept(id, request)
    }
}

async fn end(server: &Server, request: ExecuteToolRequest) -> call::Ending {
    end_of(&server.execute(request).await.unwrap())
}

async fn waits(server: &Server, request: ExecuteToolRequest) -> Prompt {
    let mut stream = server.tools().execute_tool(request).await.unwrap().into_inner();
    waiting(&mut stream).await
}

fn denied(ending: call::Ending) {
    match ending {
        call::Ending::Failed(failed) => assert_eq!(failed.reason(), FailureReason::Denied),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_child_has_its_parents_limits() {
    test(async {
        let mut server = Server::with(setup()).await;
        let glob = || request("glob", json!({ "pattern": "*" }));
        end(&server, by("careful", "", "careful", glob())).await;
        end(&server, by("reader", "", "reader", glob())).await;
        let free = end(&server, by("build", "", "free", bash("true"))).await;
        assert!(matches!(free, call::Ending::Completed(_)));

        denied(end(&server, by("build", "careful", "rm", bash("rm x"))).await);
        // One step further down nothing is forgotten, whoever stands between.
        end(&server, by("build", "careful", "middle", glob())).await;
        denied(end(&server, by("build", "middle", "rm2", bash("rm x"))).await);
        let asked = waits(&server, by("build", "middle", "asks", bash("echo x >> ran"))).await;

        server.kill9().await;
        server.restart().await;
        assert_eq!(server.get("asks").await.state(), CallState::Waiting);
        let answer = ReplyPromptRequest {
            reply: Some(reply(&asked.prompt_id, PromptDecision::Once)),
            name: String::new(),
        };
        server.permissions().reply_prompt(answer).await.unwrap();
        let log = server.watch("asks", 0).await.unwrap();
        assert!(matches!(end_of(&log), call::Ending::Completed(_)));
        // Below a dead run's calls, too.
        denied(end(&server, by("build", "asks", "rm3", bash("rm x"))).await);

        let write = || request("write", json!({ "filePath": "x", "content": "y" }));
        match end(&server, by("build", "reader", "hidden", write())).await {
            call::Ending::Completed(completed) => {
                assert!(completed.output.contains("unavailable tool"), "{}", completed.output);
            }
            other => panic!("{other:?}"),
        }
        assert!(!server.work().join("x").exists());
    });
}
