//! Rules that are not what they seem: misspelt, changed while the service runs, or broken.

mod changes;
mod protected;

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::json;
use tonic::Code;
use toolgate_contract::*;

use crate::evaluated::evaluated;
use crate::support::*;

async fn info(server: &Server) -> GetServerInfoResponse {
    let response = server.info().get_server_info(GetServerInfoRequest {}).await.unwrap();
    response.into_inner()
}

async fn is_warned(server: &Server, part: &str) -> bool {
    let info = info(server).await;
    info.workspaces[0].warnings.iter().any(|warning| warning.contains(part))
}

async fn warned(server: &Server, part: &str) {
    eventually(&format!("a warning with {part:?}"), async || {
        is_warned(server, part).await
    })
    .await;
}

async fn not_warned(server: &Server, part: &str) {
    eventually(&format!("no warning with {part:?}"), async || {
        !is_warned(server, part).await
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
fn what_an_added_tool_is_called_is_no_mistake() {
    test(async {
        let config = json!({"permission": {"bahs": "ask", "deploy": "deny", "grep": "ask", "crm_*": "ask"}});
        let server = Server::with(Setup {
            config: Some(config),
            ..Setup::default()
        })
        .await;
        let odd = [
            "there is no permission \"bahs\"",
            "there is no permission \"deploy\"",
            "\"crm_*\": the rule has no effect",
        ];
        for part in odd {
            warned(&server, part).await;
        }
        assert!(!is_warned(&server, "grep").await);
        // The same without a service, which cannot know of front ends.
        let shown = server.command(&["config"]).output().await.unwrap();
        let shown = String::from_utf8(shown.stdout).unwrap();
        for part in odd {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        let host = LendingHost::open(server.channel(), hello("app", &["bahs", "crm_find"]))
            .await
            .unwrap();
        not_warned(&server, "bahs").await;
        not_warned(&server, "crm_*").await;
        assert!(is_warned(&server, "\"deploy\"").await);
        drop(host);
        warned(&server, "\"bahs\"").await;
    });
}

#[test]
fn what_holds_nothing_back_here_is_told() {
    test(async {
        let config = json!({
            "default_agent": "plan",
            "deny": ["bash"],
            "mcp": {"s": {"type": "remote", "url": "http://127.0.0.1:9/", "enabled": false, "excludeTools": ["x"]}},
            "disabled_providers": ["a"],
            "share": "disabled",
        });
        let server = Server::with(Setup {
            config: Some(config),
            ..Setup::default()
        })
        .await;
        let told = info(&server).await.workspaces.remove(0).warnings;
        assert_eq!(told.len(), 3, "{told:?}");
        for part in [
            "\"default_agent\" has no effect here",
            "\"deny\" is not known and has no effect; did you mean \"permission\"?",
            "\"mcp.s.excludeTools\" is not known here and holds nothing back",
        ] {
            assert!(told.iter().any(|warning| warning.contains(part)), "{part}: {told:?}");
        }
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
        warned(&server, "is gone or empty: its rules stay in force").await;
        assert_eq!(action(&server).await, PermissionAction::Deny);

        write(r#"{"permission": {"bash": "ask"}}"#);
        becomes(&server, PermissionAction::Ask).await;
        assert!(info(&server).await.workspaces[0].warnings.is_empty());

        // Nor does one that is gone: nobody said that everything is allowed.
        fs::remove_file(&rules).unwrap();
        warned(&server, "is gone or empty: its rules stay in force").await;
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

#[test]
fn a_search_shows_no_line_of_a_file_that_may_not_be_read() {
    test(async {
        let grep = |path: &str| request("grep", json!({"pattern": "needle", "path": path}));
        let by_default = PermissionAction::Ask;
        for (rules, expected) in [
            (json!({"read": {"*": "allow", "*.env": "deny"}}), PermissionAction::Deny),
            (json!({"read": {"*": "ask", "*.env": "deny"}}), PermissionAction::Deny),
            (json!({"webfetch": "ask"}), by_default),
            (json!({"*": "ask", "grep": "allow"}), PermissionAction::Allow),
            (json!({"*": "deny", "grep": "allow"}), PermissionAction::Allow),
        ] {
            let server = Server::with(Setup::permission(rules.clone())).await;
            for name in ["a.txt", ".env"] {
                fs::write(server.work().join(name), "a needle\n").unwrap();
            }
            symlink(".env", server.work().join("c.txt")).unwrap();
            let is_held_back = expected != PermissionAction::Allow;
            let found = server.run("grep", json!({"pattern": "needle"})).await;
            let found = &completed(&found).output;
            for (name, is_shown) in [
                ("a.txt", true),
                (".env", !is_held_back),
                ("c.txt", !is_held_back),
                ("were left out", is_held_back),
            ] {
                assert_eq!(found.contains(name), is_shown, "{rules}: {name}: {found}");
            }
            for name in [".env", "c.txt"] {
                let foretold = evaluated(&server, grep(name)).await.unwrap();
                assert_eq!(foretold.action(), expected, "{rules}: {name}");
                // Who is asked decides; nobody is here.
                if expected == by_default {
                    continue;
                }
                let call = run(&mut server.tools(), run_request(grep(name))).await.unwrap();
                match &call.ending {
                    Some(call::Ending::Failed(end)) if is_held_back => {
                        assert_eq!(end.reason(), FailureReason::Denied, "{rules}: {call:?}");
                    }
                    Some(call::Ending::Completed(end)) if !is_held_back => assert!(end.output.contains("a needle")),
                    other => panic!("{rules}: {name}: {other:?}"),
                }
            }
        }
    });
}
