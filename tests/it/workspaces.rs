//! Workspaces that are opened and closed while the service runs.

mod attacks;
mod closing;
mod created;
mod directory;
mod restored;

use std::fs;
use std::path::PathBuf;

use serde_json::json;
use tonic::transport::Channel;
use tonic::{Code, Status};
use toolgate_contract::event::Event as Kind;
use toolgate_contract::workspace_service_client::WorkspaceServiceClient;
use toolgate_contract::*;

use crate::support::*;

/// A service that allows workspaces below `roots`, in which there are these folders.
async fn service(folders: &[&'static str]) -> Server {
    Server::with(setup(folders)).await
}

fn setup(folders: &[&'static str]) -> Setup {
    let setup = Setup {
        folders: folders.to_vec(),
        ..Setup::default()
    };
    setup.env("TOOLGATE_WORKSPACE_ROOTS", "roots")
}

#[test]
fn a_name_with_parts_is_a_name_to_commands() {
    test(async {
        let server = Server::with(Setup {
            more: vec!["acme/web-17", "acme/web-18"],
            ..Setup::default()
        })
        .await;
        let run = ["bash", "command=pwd", "description=d", "--yes"];
        let (code, out, err) = server
            .cli(&[&["call", "--workspace", "acme/web-17"], &run[..]].concat())
            .await;
        assert!(code == 0 && out.contains("/acme/web-17"), "{out}{err}");
        let socket = format!("unix:{}", server.folder().join("s").display());
        let calls = async |workspace: &str| {
            server
                .cli(&["--server", &socket, "--json", "calls", "--workspace", workspace])
                .await
        };
        for (workspace, count) in [
            ("acme/web-17", 1),
            ("acme/web-18", 0),
            ("acme/*", 1),
            ("beta/*", 0),
            ("default", 0),
        ] {
            let (code, out, err) = calls(workspace).await;
            assert_eq!((code, out.lines().count()), (0, count), "{workspace}: {out}{err}");
        }
        let (code, _, err) = calls("acme/web-19").await;
        assert!(code != 0 && err.contains("there is no workspace acme/web-19"), "{err}");
        let (code, _, err) = calls("acme*/*").await;
        assert!(code != 0 && err.contains("PREFIX/*"), "{err}");
        // What is there is a path, and the folder of no workspace of the service.
        fs::create_dir_all(server.work().join("acme/web-17")).unwrap();
        let (code, out, err) = server
            .cli(&[&["call", "--workspace", "acme/web-17"], &run[..]].concat())
            .await;
        let there = real(&server, "work/acme/web-17").display().to_string();
        assert!(code == 0 && out.contains(&there), "{out}{err}");
        assert_eq!(
            calls("acme/*").await.1.lines().count(),
            1,
            "a service of its own ran it"
        );
        // With a server that is named the name is one of its workspaces all the same.
        let (code, out, _) = calls("acme/web-17").await;
        assert_eq!((code, out.lines().count()), (0, 1), "{out}");
    });
}

#[test]
fn a_command_in_a_folder_that_was_opened_is_run_by_the_service_that_has_it() {
    test(async {
        let server = service(&["roots/one", "roots/two"]).await;
        let request = OpenWorkspaceRequest {
            workspace: "one".to_owned(),
            directory: real(&server, "roots/one").to_string_lossy().into_owned(),
            create: false,
        };
        workspaces(&server).open_workspace(request).await.unwrap();
        let by_name = server.cli(&[
            "call",
            "--workspace",
            "one",
            "bash",
            "command=pwd",
            "description=d",
            "--yes",
        ]);
        let (code, out, err) = by_name.await;
        assert!(code == 0 && out.contains("roots/one"), "{out}{err}");
        for folder in ["one", "two"] {
            let mut command = server.command(&["call", "bash", "command=pwd", "description=d", "--yes"]);
            let output = command
                .current_dir(real(&server, "roots").join(folder))
                .output()
                .await
                .unwrap();
            assert_eq!(output.status.code(), Some(0), "{output:?}");
            assert!(String::from_utf8_lossy(&output.stdout).contains(folder), "{output:?}");
        }
        let request = ListCallsRequest {
            workspace: "-".to_owned(),
            ..ListCallsRequest::default()
        };
        let calls = server.tools().list_calls(request).await.unwrap().into_inner().calls;
        let workspaces: Vec<_> = calls
            .iter()
            .map(|call| &*call.context.as_ref().unwrap().workspace)
            .collect();
        assert_eq!(
            workspaces, ["one"; 2],
            "the folder that was not opened got a service of its own"
        );
    });
}

fn workspaces(server: &Server) -> WorkspaceServiceClient<Channel> {
    WorkspaceServiceClient::new(server.channel())
}

/// The folder of that name below the server's, links followed.
fn real(server: &Server, name: &str) -> PathBuf {
    server.folder().canonicalize().unwrap().join(name)
}

fn wanted(server: &Server, name: &str, folder: &str) -> OpenWorkspaceRequest {
    OpenWorkspaceRequest {
        workspace: name.to_owned(),
        directory: real(server, folder).display().to_string(),
        create: false,
    }
}

async fn open_with(server: &Server, request: OpenWorkspaceRequest) -> Result<OpenWorkspaceResponse, Status> {
    Ok(workspaces(server).open_workspace(request).await?.into_inner())
}

async fn open(server: &Server, name: &str, folder: &str) -> WorkspaceInfo {
    let opened = open_with(server, wanted(server, name, folder)).await.unwrap();
    assert!(opened.opened, "{opened:?}");
    opened.workspace.unwrap()
}

async fn close(server: &Server, name: &str) -> Result<CloseWorkspaceResponse, Status> {
    let request = CloseWorkspaceRequest {
        workspace: name.to_owned(),
    };
    Ok(workspaces(server).close_workspace(request).await?.into_inner())
}

async fn get(server: &Server, name: &str) -> Result<WorkspaceInfo, Status> {
    let request = GetWorkspaceRequest {
        workspace: name.to_owned(),
    };
    let response = workspaces(server).get_workspace(request).await?.into_inner();
    Ok(response.workspace.unwrap())
}

/// Returns the names of all workspaces, read in pages.
async fn names(server: &Server, page_size: i32) -> Vec<String> {
    let mut request = ListWorkspacesRequest {
        page_size,
        ..Default::default()
    };
    let mut names = Vec::new();
    for _ in 0..100 {
        let page = workspaces(server).list_workspaces(request.clone()).await.unwrap();
        let page = page.into_inner();
        names.extend(page.workspaces.into_iter().map(|one| one.name));
        if page.next_page_token.is_empty() {
            return names;
        }
        request.page_token = page.next_page_token;
    }
    panic!("the pages have no end: {names:?}");
}

fn within(name: &str, request: ExecuteToolRequest) -> ExecuteToolRequest {
    ExecuteToolRequest {
        context: Some(CallContext {
            workspace: name.to_owned(),
            ..request.context.unwrap_or_default()
        }),
        ..request
    }
}

async fn call(server: &Server, name: &str, request: ExecuteToolRequest) -> Result<Call, Status> {
    run(&mut server.tools(), run_request(within(name, request))).await
}

#[test]
fn a_folder_is_opened_with_its_own_rules_which_are_read_again() {
    test(async {
        let mut server = service(&["roots/one", "roots/two"]).await;
        let rules = server.folder().join("roots/one/opencode.json");
        fs::write(&rules, r#"{"permission": {"bash": {"rm *": "deny"}}}"#).unwrap();
        let info = open(&server, "one", "roots/one").await;
        assert_eq!((info.name.as_str(), info.problem.as_str()), ("one", ""));
        assert_eq!(info.directory, real(&server, "roots/one").display().to_string());
        assert!(info.open_time.is_some() && !info.trusted && !info.agents.is_empty());
        open(&server, "two", "roots/two").await;

        let told = call(&server, "one", bash("pwd")).await.unwrap();
        assert!(completed(&told).output.contains(&info.directory));
        let denied = call(&server, "one", bash("rm x")).await.unwrap();
        assert_eq!(failed(&denied).reason(), FailureReason::Denied);
        let allowed = call(&server, "two", bash("rm -f x")).await.unwrap();
        completed(&allowed);

        // The same again is what is open; under another name, or with another folder, it is not.
        let again = open_with(&server, wanted(&server, "one", "roots/one")).await.unwrap();
        assert!(!again.opened && again.workspace.unwrap().open_time == info.open_time);
        let other = open_with(&server, wanted(&server, "one", "roots/two")).await;
        refused(other, Code::AlreadyExists, "WORKSPACE_NAME_TAKEN");
        let other = open_with(&server, wanted(&server, "default", "roots/two")).await;
        refused(other, Code::AlreadyExists, "WORKSPACE_NAME_TAKEN");
        let other = open_with(&server, wanted(&server, "three", "roots/two")).await;
        refused(other, Code::FailedPrecondition, "WORKSPACES_OVERLAP");

        fs::write(&rules, r#"{"permission": {"bash": {"pwd": "deny"}}}"#).unwrap();
        eventually("the rules are read again", async || {
            let told = call(&server, "one", bash("pwd")).await.unwrap();
            matches!(told.ending, Some(call::Ending::Failed(_)))
        })
        .await;
        server.stop().await;
    });
}

#[test]
fn a_folder_is_made_only_if_that_is_wanted() {
    test(async {
        let mut server = service(&["roots"]).await;
        let request = wanted(&server, "new", "roots/deep/new");
        refused(
            open_with(&server, request.clone()).await,
            Code::NotFound,
            "FOLDER_MISSING",
        );
        assert!(!server.folder().join("roots/deep").exists());
        let request = OpenWorkspaceRequest {
            create: true,
            ..request
        };
        assert!(open_with(&server, request).await.unwrap().opened);
        let told = call(&server, "new", bash("echo x > made")).await.unwrap();
        completed(&told);
        assert!(server.folder().join("roots/deep/new/made").exists());
        server.stop().await;
    });
}

#[test]
fn without_roots_the_workspaces_are_fixed() {
    test(async {
        let mut server = Server::start().await;
        fs::create_dir(server.folder().join("x")).unwrap();
        let refusal = open_with(&server, wanted(&server, "x", "x")).await;
        let status = refusal.as_ref().unwrap_err().message().to_owned();
        assert!(status.contains("workspace_roots"), "{status}");
        refused(refusal, Code::FailedPrecondition, "WORKSPACES_FIXED");
        // What is configured is listed, can be had again, and stays.
        assert_eq!(names(&server, 0).await, ["default"]);
        let same = open_with(&server, wanted(&server, "default", "work")).await.unwrap();
        assert!(!same.opened && same.workspace.unwrap().open_time.is_none());
        refused(
            close(&server, "default").await,
            Code::FailedPrecondition,
            "WORKSPACE_CONFIGURED",
        );
        refused(close(&server, "none").await, Code::NotFound, "NOT_FOUND");
        refused(close(&server, "").await, Code::NotFound, "NOT_FOUND");
        server.stop().await;
    });
}

#[test]
fn a_broken_one_is_there_and_refuses_its_calls_alone() {
    test(async {
        let mut server = service(&["roots/bad", "roots/good"]).await;
        let rules = server.folder().join("roots/bad/opencode.json");
        fs::write(&rules, r#"{"permission": {"bash": "alow"}}"#).unwrap();
        let bad = open(&server, "bad", "roots/bad").await;
        assert!(bad.problem.contains("permission.bash"), "{bad:?}");
        open(&server, "good", "roots/good").await;
        let refusal = call(&server, "bad", bash("true")).await;
        refused(refusal, Code::FailedPrecondition, "WORKSPACE_BROKEN");
        completed(&call(&server, "good", bash("true")).await.unwrap());
        assert!(get(&server, "bad").await.unwrap().problem.contains("permission.bash"));
        assert_eq!(get(&server, "good").await.unwrap().problem, "");

        // Mended, it works: by itself, and at once if it is opened again.
        fs::write(&rules, "{}").unwrap();
        let again = open_with(&server, wanted(&server, "bad", "roots/bad")).await.unwrap();
        assert_eq!(again.workspace.unwrap().problem, "");
        completed(&call(&server, "bad", bash("true")).await.unwrap());
        server.stop().await;
    });
}

#[test]
fn code_of_a_project_runs_only_below_a_trusted_root() {
    test(async {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/mcp/server.py");
        let config = "[[workspace_roots]]\ndirectory = \"roots\"\n\n[[workspace_roots]]\ndirectory = \"trusted\"\ntrust = true\n";
        let setup = Setup {
            folders: vec!["roots/p", "trusted/p"],
            files: vec![("toolgate.toml", config.to_owned())],
            ..Setup::default()
        };
        let mut server = Server::with(setup.env("TOOLGATE_CONFIG", "toolgate.toml")).await;
        for folder in ["roots/p", "trusted/p"] {
            let marker = server.folder().join(folder).join("ran");
            let run = format!("touch {} && exec python3 {script} plain", marker.display());
            let project = json!({"mcp": {"own": {"type": "local", "command": ["sh", "-c", run]}}});
            fs::write(server.folder().join(folder).join("opencode.json"), project.to_string()).unwrap();
        }
        let info = open(&server, "plain", "roots/p").await;
        assert!(!info.trusted);
        assert_eq!(info.tool_sources[0].state(), ToolSourceState::Untrusted, "{info:?}");
        assert!(open(&server, "mine", "trusted/p").await.trusted);
        eventually("the trusted server runs", async || {
            let info = get(&server, "mine").await.unwrap();
            server.folder().join("trusted/p/ran").exists()
                && info
                    .tool_sources
                    .iter()
                    .any(|source| source.state() == ToolSourceState::Ready)
        })
        .await;
        assert!(!server.folder().join("roots/p/ran").exists());
        // When it is closed, its server is gone.
        assert!(!processes(script).is_empty());
        close(&server, "mine").await.unwrap();
        assert_eq!(processes(script), Vec::<u32>::new());
        server.stop().await;
    });
}

#[test]
fn what_was_open_is_open_after_a_restart() {
    test(async {
        let mut server = service(&["roots/stays", "roots/goes", "roots/closed", "roots/bad"]).await;
        fs::write(server.folder().join("roots/bad/opencode.json"), "{").unwrap();
        for name in ["stays", "goes", "closed", "bad"] {
            open(&server, name, &format!("roots/{name}")).await;
        }
        let before = call(&server, "stays", bash("echo before")).await.unwrap();
        close(&server, "closed").await.unwrap();
        server.kill9().await;
        fs::rename(server.folder().join("roots/goes"), server.folder().join("roots/gone")).unwrap();
        server.restart().await;
        assert_eq!(names(&server, 0).await, ["bad", "default", "goes", "stays"]);
        let stays = get(&server, "stays").await.unwrap();
        assert!(stays.problem.is_empty() && stays.open_time.is_some(), "{stays:?}");
        completed(&call(&server, "stays", bash("true")).await.unwrap());
        assert_eq!(server.get(&before.call_id).await.call_id, before.call_id);
        for (name, problem) in [("goes", "does not exist"), ("bad", "opencode.json")] {
            let found = get(&server, name).await.unwrap().problem;
            assert!(found.contains(problem), "{name}: {found}");
            let refusal = call(&server, name, bash("true")).await;
            refused(refusal, Code::FailedPrecondition, "WORKSPACE_BROKEN");
        }
        // Back again, it is opened again.
        fs::rename(server.folder().join("roots/gone"), server.folder().join("roots/goes")).unwrap();
        open(&server, "goes", "roots/goes").await;
        completed(&call(&server, "goes", bash("true")).await.unwrap());
        server.stop().await;
    });
}

#[test]
fn who_watches_is_told() {
    test(async {
        let mut server = service(&["roots/one"]).await;
        let all = WatchEventsRequest {
            workspace: "-".to_owned(),
            after_sequence: Some(0),
            ..Default::default()
        };
        let mut events = server.sessions().watch_events(all).await.unwrap().into_inner();
        open(&server, "one", "roots/one").await;
        fs::write(
            server.folder().join("roots/one/opencode.json"),
            r#"{"permission": {"bash": "deny"}}"#,
        )
        .unwrap();
        let mut seen = Vec::new();
        while seen.len() < 3 {
            let event = events.message().await.unwrap().unwrap().event.unwrap();
            if let Some(Kind::WorkspaceChanged(changed)) = event.event {
                assert_eq!(event.workspace, "one");
                seen.push(changed.change());
                if seen.len() == 2 {
                    close(&server, "one").await.unwrap();
                }
            }
        }
        let expected = [
            WorkspaceChange::Opened,
            WorkspaceChange::Changed,
            WorkspaceChange::Closed,
        ];
        assert_eq!(seen, expected);
        server.stop().await;
    });
}
