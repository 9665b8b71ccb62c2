//! Rules that are not what they seem: misspelt, changed while the service runs, or broken.

use std::fs;

use serde_json::json;
use tonic::Code;
use toolgate_contract::*;

use crate::evaluated::evaluated;
use crate::support::*;

async fn info(server: &Server) -> GetServerInfoResponse {
    let response = server.info().get_server_info(GetServerInfoRequest {}).await.unwrap();
    response.into_inner()
}

async fn warned(server: &Server, part: &str) {
    eventually(&format!("a warning with {part:?}"), async || {
        let info = info(server).await;
        info.workspaces[0].warnings.iter().any(|warning| warning.contains(part))
    })
    .await;
}

fn in_workspace(name: &str, request: ExecuteToolRequest) -> ExecuteToolRequest {
    ExecuteToolRequest {
        context: Some(CallContext {
            workspace: name.to_owned(),
            ..CallContext::default()
        }),
        ..request
    }
}

/// What a rule that may change says of a command, evaluated.
async fn action(server: &Server) -> PermissionAction {
    evaluated(server, bash("make")).await.unwrap().action()
}

async fn becomes(server: &Server, expected: PermissionAction) {
    eventually(&format!("a command is {expected:?}"), async || {
        action(server).await == expected
    })
    .await;
}

#[test]
fn misspelt_rules_are_told_wherever_a_person_looks() {
    test(async {
        let setup = Setup {
            config: Some(json!({
                "permision": {"bash": "deny"},
                "permission": {"bahs": "deny"},
                "agent": {"biuld": {"permission": {"edit": "deny"}}, "plan": {"permision": {"edit": "deny"}}},
            })),
            ..Setup::default()
        };
        let server = Server::with(setup.env("TOOLGATE_PERMISSION_UNATENDED", "refuse")).await;
        let of_workspace = [
            "\"permision\" is not known and has no effect; did you mean \"permission\"?",
            "there is no permission \"bahs\", unless an added tool has that name: did you mean \"bash\"?",
            "the agent \"biuld\" is a new one; did you mean \"build\"?",
            "\"agent.plan.permision\" is not known here; did you mean \"permission\"?",
        ];
        let of_service = "TOOLGATE_PERMISSION_UNATENDED is not known and has no effect; did you mean \
                          TOOLGATE_PERMISSION_UNATTENDED?";
        let info = info(&server).await;
        assert!(info.warnings[0].contains(of_service), "{:?}", info.warnings);
        let told = &info.workspaces[0].warnings;
        let mut shown = server.command(&["config"]);
        let shown = shown
            .env("TOOLGATE_PERMISSION_UNATENDED", "refuse")
            .output()
            .await
            .unwrap();
        let shown = String::from_utf8(shown.stdout).unwrap();
        for part in of_workspace {
            assert!(told.iter().any(|warning| warning.contains(part)), "{part}: {told:?}");
            assert!(shown.contains(part), "{part}: {shown}");
            let logged = server.log().replace("\\\"", "\"");
            assert!(logged.contains(part), "{part}: {logged}");
        }
        assert!(shown.contains(of_service), "{shown}");
        assert!(server.log().contains(of_service), "{}", server.log());
    });
}

#[test]
fn a_changed_rule_file_is_in_force_at_once_and_as_a_whole() {
    test(async {
        let mut server = Server::start().await;
        assert_eq!(action(&server).await, PermissionAction::Allow);
        let rules = server.work().join("opencode.json");
        let write = |text: &str| fs::write(&rules, text).unwrap();

        write(r#"{"permission": {"bash": {"make": "deny"}}}"#);
        becomes(&server, PermissionAction::Deny).await;
        let call = server.run("bash", json!({"command": "make", "description": "d"})).await;
        assert_eq!(failed(&call).reason(), FailureReason::Denied);

        // A broken file changes nothing, and says so.
        write(r#"{"permission": {"bash": "alow"}}"#);
        warned(&server, "the rules from before stay in force").await;
        warned(&server, "permission.bash").await;
        assert_eq!(action(&server).await, PermissionAction::Deny);
        assert!(server.log().contains("the rules from before stay in force"));
        write("");
        warned(&server, "stay in force").await;
        assert_eq!(action(&server).await, PermissionAction::Deny);

        write(r#"{"permission": {"bash": "ask"}}"#);
        becomes(&server, PermissionAction::Ask).await;
        assert!(info(&server).await.workspaces[0].warnings.is_empty());

        // Nor does one that is gone: nobody said that everything is allowed.
        fs::remove_file(&rules).unwrap();
        warned(&server, "is gone: its rules stay in force").await;
        assert_eq!(action(&server).await, PermissionAction::Ask);
        write(r#"{"lsp": {"s": {"command": ["true"], "extensions": [".x"]}}}"#);
        becomes(&server, PermissionAction::Allow).await;
        warned(
            &server,
            "what has changed in lsp takes effect when the service is started again",
        )
        .await;

        // Agents come with files of their own.
        fs::create_dir_all(server.work().join(".opencode/agent")).unwrap();
        let agent = "---\npermission:\n  bash: deny\n---\nYou review.";
        fs::write(server.work().join(".opencode/agent/review.md"), agent).unwrap();
        eventually("there is a new agent", async || {
            let info = info(&server).await;
            info.workspaces[0].agents.iter().any(|agent| agent.name == "review")
        })
        .await;
        server.stop().await;
    });
}

#[test]
fn a_broken_workspace_refuses_its_calls_and_no_others() {
    test(async {
        let broken = r#"{"permission": {"bash": "alow"}}"#.to_owned();
        let mut server = Server::with(Setup {
            more: vec!["other"],
            files: vec![("other/opencode.json", broken)],
            ..Setup::default()
        })
        .await;
        let request = || bash("echo fine");
        let call = run(&mut server.tools(), run_request(request())).await.unwrap();
        assert!(completed(&call).output.contains("fine"));

        let refusal = run(&mut server.tools(), run_request(in_workspace("other", request()))).await;
        let status = refusal.as_ref().unwrap_err().message().to_owned();
        assert!(
            status.contains("opencode.json") && status.contains("permission.bash"),
            "{status}"
        );
        refused(refusal, Code::FailedPrecondition, "WORKSPACE_BROKEN");
        let of_other = ListToolsRequest {
            workspace: "other".to_owned(),
            ..Default::default()
        };
        refused(
            server.tools().list_tools(of_other).await,
            Code::FailedPrecondition,
            "WORKSPACE_BROKEN",
        );
        let told = info(&server).await;
        assert!(told.workspaces[1].problem.contains("permission.bash"), "{told:?}");
        assert_eq!(told.workspaces[0].problem, "");

        // Mended, it works without a restart.
        let mended = server.folder().join("other/opencode.json");
        fs::write(mended, r#"{"permission": {"edit": {"*.txt": "deny"}}}"#).unwrap();
        eventually("the workspace takes calls", async || {
            run(&mut server.tools(), run_request(in_workspace("other", request())))
                .await
                .is_ok()
        })
        .await;
        let write = request_of_write();
        let call = run(&mut server.tools(), run_request(in_workspace("other", write)))
            .await
            .unwrap();
        assert_eq!(failed(&call).reason(), FailureReason::Denied);
        server.stop().await;
    });
}

fn request_of_write() -> ExecuteToolRequest {
    request("write", json!({"filePath": "a.txt", "content": "x"}))
}
