//! Files of rules that change while the service runs, in every place and in every way.

use std::os::unix::fs::symlink;
use std::path::Path;

use super::*;
use crate::telemetry;

/// Rules that say this of a command.
fn saying(action: &str) -> String {
    json!({"permission": {"bash": {"make": action}}}).to_string()
}

/// Puts a file in the place of another one, as editors do.
fn replace(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let new = path.with_extension("new");
    fs::write(&new, text).unwrap();
    fs::rename(new, path).unwrap();
}

/// Puts a link in the place of what is there.
fn link(to: &Path, at: &Path) {
    let new = at.with_extension("link");
    symlink(to, &new).unwrap();
    fs::rename(new, at).unwrap();
}

async fn agents(server: &Server) -> Vec<String> {
    let agents = info(server).await.workspaces.remove(0).agents;
    agents.into_iter().map(|agent| agent.name).collect()
}

/// What the rules of an agent say of a command.
async fn action_of(server: &Server, agent: &str) -> PermissionAction {
    let request = ExecuteToolRequest {
        context: Some(CallContext {
            agent: agent.to_owned(),
            ..CallContext::default()
        }),
        ..bash("make")
    };
    evaluated(server, request).await.unwrap().action()
}

async fn is_edit_denied(server: &Server) -> bool {
    evaluated(server, request_of_write()).await.unwrap().action() == PermissionAction::Deny
}

#[test]
fn every_place_counts_and_every_way_to_change_it() {
    test(async {
        let mut server = Server::start().await;
        let of_user = server.folder().join("home/.config/opencode/opencode.json");
        let of_project = server.work().join(".opencode/opencode.json");
        // Files that come, in folders that come.
        fs::write(&of_user, saying("ask")).unwrap();
        becomes(&server, PermissionAction::Ask).await;
        replace(&of_project, &saying("deny"));
        becomes(&server, PermissionAction::Deny).await;
        replace(&of_project, &saying("allow"));
        becomes(&server, PermissionAction::Allow).await;
        fs::write(&of_project, saying("ask")).unwrap();
        becomes(&server, PermissionAction::Ask).await;
        // Links, where they lead, and what is there.
        for (name, says) in [("a.json", "deny"), ("b.json", "allow")] {
            fs::write(server.folder().join(name), saying(says)).unwrap();
        }
        link(&server.folder().join("a.json"), &of_project);
        becomes(&server, PermissionAction::Deny).await;
        link(&server.folder().join("b.json"), &of_project);
        becomes(&server, PermissionAction::Allow).await;
        replace(&server.folder().join("b.json"), &saying("deny"));
        becomes(&server, PermissionAction::Deny).await;
        // A folder that goes and comes back.
        let (here, away) = (server.work().join(".opencode"), server.folder().join("away"));
        fs::rename(&here, &away).unwrap();
        warned(&server, "is gone or empty: its rules stay in force").await;
        assert_eq!(action(&server).await, PermissionAction::Deny);
        fs::rename(&away, &here).unwrap();
        not_warned(&server, "is gone").await;
        assert_eq!(action(&server).await, PermissionAction::Deny);
        server.stop().await;
    });
}

#[test]
fn what_is_gone_stays_and_what_else_changes_counts() {
    test(async {
        let server = Server::with(Setup {
            files: vec![(
                "work/opencode.json",
                r#"{"permission": {"edit": {"*.txt": "deny"}}}"#.to_owned(),
            )],
            folders: vec!["work"],
            ..Setup::permission(json!({"bash": {"make": "allow"}}))
        })
        .await;
        let of_user = server.folder().join("home/.config/opencode/opencode.json");
        let of_project = server.work().join("opencode.json");
        assert!(is_edit_denied(&server).await);
        fs::remove_file(&of_project).unwrap();
        warned(&server, "opencode.json is gone").await;
        assert!(is_edit_denied(&server).await);
        replace(&of_user, &saying("deny"));
        becomes(&server, PermissionAction::Deny).await;
        assert!(is_edit_denied(&server).await && is_warned(&server, "opencode.json is gone").await);
        // Who wants its rules gone says so.
        replace(&of_project, "{}");
        eventually("edits are allowed", async || !is_edit_denied(&server).await).await;
        not_warned(&server, "is gone").await;
        assert_eq!(action(&server).await, PermissionAction::Deny);

        // An agent of its own goes with its file, but not what holds a built-in one back.
        let folder = server.work().join(".opencode/agent");
        for name in ["review.md", "plan.md"] {
            replace(
                &folder.join(name),
                "---\npermission:\n  bash:\n    make: deny\n---\nText.",
            );
        }
        eventually("the agents are read", async || {
            agents(&server).await.contains(&"review".to_owned())
                && action_of(&server, "plan").await == PermissionAction::Deny
        })
        .await;
        replace(&of_user, &saying("allow"));
        becomes(&server, PermissionAction::Allow).await;
        fs::rename(folder.join("review.md"), folder.join("critic.md")).unwrap();
        eventually("the agent is renamed", async || {
            let agents = agents(&server).await;
            agents.contains(&"critic".to_owned()) && !agents.contains(&"review".to_owned())
        })
        .await;
        assert!(!is_warned(&server, "is gone").await);
        fs::remove_dir_all(&folder).unwrap();
        warned(&server, "plan.md is gone").await;
        assert_eq!(action_of(&server, "plan").await, PermissionAction::Deny);
        assert!(!agents(&server).await.contains(&"critic".to_owned()));
    });
}

#[test]
fn half_of_a_file_never_counts() {
    test(async {
        let whole = "---\npermission:\n  bash:\n    make: deny\n---\nYou review.";
        let mut server = Server::with(Setup {
            folders: vec!["work/.opencode/agent"],
            files: vec![("work/.opencode/agent/review.md", whole.to_owned())],
            ..Setup::default()
        })
        .await;
        let rules = server.work().join("opencode.json");
        let agent = server.work().join(".opencode/agent/review.md");
        fs::write(&rules, saying("deny")).unwrap();
        becomes(&server, PermissionAction::Deny).await;
        // Many more changes than are looked at; each is seen at any moment.
        for round in 0..150 {
            let part = if round % 2 == 0 {
                ""
            } else {
                "---\npermission:\n  bash:\n    make: deny\n"
            };
            fs::write(&agent, part).unwrap();
            let part = [
                String::new(),
                "// Ours.\n".to_owned(),
                "{\"permission\": {".to_owned(),
                saying("deny"),
            ];
            fs::write(&rules, &part[round % part.len()]).unwrap();
            assert_eq!(action_of(&server, "review").await, PermissionAction::Deny, "{round}");
            assert_eq!(action(&server).await, PermissionAction::Deny, "{round}");
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            if round % 10 == 0 {
                fs::write(&agent, whole).unwrap();
            }
        }
        fs::write(&agent, whole).unwrap();
        fs::write(&rules, saying("ask")).unwrap();
        becomes(&server, PermissionAction::Ask).await;
        assert_eq!(action_of(&server, "review").await, PermissionAction::Deny);
        // What stays so is meant so, and told.
        fs::write(&agent, "---\npermission:\n  bash:\n    make: deny\n").unwrap();
        warned(&server, "review.md: its first lines say nothing of the agent").await;
        assert_eq!(action_of(&server, "review").await, PermissionAction::Ask);
        server.stop().await;
    });
}

#[test]
fn a_prompt_is_judged_by_what_was_in_force_when_it_was_asked() {
    test(async {
        let server = Server::with(Setup::permission(json!({"bash": {"*": "ask"}}))).await;
        let rules = server.work().join("opencode.json");
        let asking = kept("asking", bash("make --version"));
        let mut stream = server.tools().execute_tool(asking).await.unwrap().into_inner();
        let prompt = waiting(&mut stream).await;
        replace(&rules, r#"{"permission": {"bash": {"make": "deny"}}}"#);
        becomes(&server, PermissionAction::Deny).await;
        let call = server.run("bash", json!({"command": "make", "description": "d"})).await;
        assert_eq!(failed(&call).reason(), FailureReason::Denied);
        // What allows everything answers no question that was asked before.
        replace(&rules, r#"{"permission": {"bash": {"*": "allow"}}}"#);
        becomes(&server, PermissionAction::Allow).await;
        let open = server.prompts(list_all()).await;
        assert_eq!(open.len(), 1, "{open:?}");
        assert_eq!(open[0].prompt_id, prompt.prompt_id);
        let request = ReplyPromptRequest {
            reply: Some(reply(&prompt, PromptDecision::Once)),
            name: "tester".to_owned(),
        };
        server.permissions().reply_prompt(request).await.unwrap();
        let ending = end_of(&collect(stream).await.unwrap());
        assert!(matches!(ending, call::Ending::Completed(_)), "{ending:?}");
    });
}

#[test]
fn workspaces_have_rules_of_their_own() {
    test(async {
        let server = Server::with(Setup {
            more: vec!["other"],
            ..Setup::default()
        })
        .await;
        let action_in = async |name: &str| {
            let request = in_workspace(name, bash("make"));
            evaluated(&server, request).await.unwrap().action()
        };
        replace(&server.folder().join("other/opencode.json"), &saying("deny"));
        eventually("the other one's rules are read", async || {
            action_in("other").await == PermissionAction::Deny
        })
        .await;
        assert_eq!(action(&server).await, PermissionAction::Allow);
        fs::write(server.folder().join("other/opencode.json"), "{").unwrap();
        eventually("it is told where it is broken", async || {
            let told = info(&server).await;
            told.workspaces[1]
                .warnings
                .iter()
                .any(|text| text.contains("stay in force"))
        })
        .await;
        assert!(info(&server).await.workspaces[0].warnings.is_empty());
        assert_eq!(action_in("other").await, PermissionAction::Deny);
        // Those of the user are everybody's.
        let of_user = server.folder().join("home/.config/opencode/opencode.json");
        replace(&of_user, &saying("ask"));
        becomes(&server, PermissionAction::Ask).await;
        assert_eq!(action_in("other").await, PermissionAction::Deny);
        replace(&server.folder().join("other/opencode.json"), "{}");
        eventually("the other one asks, too", async || {
            action_in("other").await == PermissionAction::Ask
        })
        .await;
    });
}

/// Whoever shows what is wrong hears of it as soon as it is, and whoever counts it sees it.
#[test]
fn watchers_are_told_of_a_broken_file() {
    test(async {
        let server = Server::with(Setup::default().env("TOOLGATE_TELEMETRY_ADMIN", "127.0.0.1:0")).await;
        let problems = async || {
            let (_, text) = telemetry::get(server.admin.as_deref().unwrap(), "/metrics")
                .await
                .unwrap();
            telemetry::value(&text, "toolgate_configuration_problems")
        };
        assert_eq!(problems().await, 0.0);
        let request = WatchEventsRequest {
            after_sequence: Some(0),
            ..WatchEventsRequest::default()
        };
        let mut events = server.sessions().watch_events(request).await.unwrap().into_inner();
        fs::write(server.work().join("opencode.json"), "{").unwrap();
        loop {
            let response = events.message().await.unwrap().expect("the stream goes on");
            if let Some(event::Event::WorkspaceChanged(changed)) = response.event.unwrap().event {
                assert_eq!(changed.change(), WorkspaceChange::Changed);
                break;
            }
        }
        assert!(is_warned(&server, "stay in force").await);
        assert_eq!(problems().await, 1.0);
        // It takes calls all the same.
        let (code, out, err) = server.cli(&["health"]).await;
        assert_eq!((code, out.trim()), (0, "SERVING"), "{err}");
        assert!(err.contains("default: ") && err.contains("stay in force"), "{err}");
        let (code, out, _) = server.cli(&["health", "--json"]).await;
        let told: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!(
            (code, &told["warnings"][0]["workspace"]),
            (0, &json!("default")),
            "{out}"
        );
        fs::write(server.work().join("opencode.json"), "{}").unwrap();
        not_warned(&server, "stay in force").await;
        assert_eq!(problems().await, 0.0);
        let (code, out, err) = server.cli(&["health"]).await;
        assert_eq!((code, out.trim(), &*err), (0, "SERVING", ""));
    });
}
