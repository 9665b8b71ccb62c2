//! Workspaces that come and go, and what calls in them would ask.

use serde_json::json;
use toolgate_contract::*;

use super::{connected, refused_for};
use crate::support::*;

#[test]
fn workspaces_are_opened_listed_and_closed() {
    test(async {
        let setup = Setup {
            folders: vec!["roots/one"],
            ..Setup::default()
        };
        let mut server = Server::with(setup.env("TOOLGATE_WORKSPACE_ROOTS", "roots")).await;
        let client = connected(&server).await;
        let roots = server.folder().canonicalize().unwrap().join("roots");
        let request = OpenWorkspaceRequest {
            workspace: "one".to_owned(),
            directory: roots.join("one").display().to_string(),
            create: false,
        };
        assert!(client.open_workspace(request.clone()).await.unwrap().opened);
        assert!(!client.open_workspace(request.clone()).await.unwrap().opened);
        let other = OpenWorkspaceRequest {
            workspace: "two".to_owned(),
            ..request
        };
        refused_for(client.open_workspace(other).await, "WORKSPACES_OVERLAP");
        assert_eq!(client.get_workspace("one").await.unwrap().name, "one");
        assert_eq!(client.get_workspace("").await.unwrap().name, "default");
        // More than a page.
        for number in 0..60 {
            let request = OpenWorkspaceRequest {
                workspace: format!("w{number:02}"),
                directory: roots.join(format!("w{number:02}")).display().to_string(),
                create: true,
            };
            client.open_workspace(request).await.unwrap();
        }
        let listed = client.list_workspaces().await.unwrap();
        assert_eq!(listed.workspaces.len(), 62);
        assert_eq!(listed.roots, [roots.display().to_string()]);

        let one = client.files().workspace("one");
        one.write("here", "x").run().await.unwrap();
        assert!(roots.join("one/here").exists());
        assert_eq!(client.close_workspace("one").await.unwrap().cancelled_calls, 0);
        refused_for(client.get_workspace("one").await, "NOT_FOUND");
        refused_for(client.close_workspace("default").await, "WORKSPACE_CONFIGURED");
        server.stop().await;
    });
}

#[test]
fn what_a_call_would_ask_is_told() {
    test(async {
        let server = Server::with(Setup::permission(json!({"bash": {"rm *": "ask", "sudo *": "deny"}}))).await;
        let client = connected(&server).await;
        for (command, expected) in [
            ("true", PermissionAction::Allow),
            ("rm x", PermissionAction::Ask),
            ("sudo x", PermissionAction::Deny),
        ] {
            let input = json!({"command": command, "description": "a test"});
            let evaluation = client.evaluate("bash", input).run().await.unwrap();
            assert_eq!(evaluation.action(), expected, "{command}");
            assert!(evaluation.complete && evaluation.requests.len() == 1, "{evaluation:?}");
        }
        let plan = client
            .evaluate("write", json!({"filePath": "a", "content": "x"}))
            .agent("plan");
        assert_ne!(plan.run().await.unwrap().action(), PermissionAction::Allow);
        let calls = server.tools().list_calls(ListCallsRequest::default()).await.unwrap();
        assert!(calls.into_inner().calls.is_empty(), "nothing was made");
    });
}
