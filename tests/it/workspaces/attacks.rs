//! What somebody may try who is allowed to open workspaces, and who is not.

use std::os::unix::fs::symlink;

use super::*;

async fn tries(server: &Server, name: &str, directory: impl Into<String>) -> Result<OpenWorkspaceResponse, Status> {
    let request = OpenWorkspaceRequest {
        workspace: name.to_owned(),
        directory: directory.into(),
        create: true,
    };
    open_with(server, request).await
}

#[test]
fn odd_names_are_refused() {
    test(async {
        let mut server = service(&["roots/x"]).await;
        let folder = real(&server, "roots/x").display().to_string();
        let long = "x".repeat(129);
        for name in [
            "",
            "-",
            ".",
            "..",
            "*",
            "/a",
            "a/",
            "a//b",
            "a/../b",
            "a/./b",
            "a/-",
            "a/*",
            "../x",
            "a\n",
            "a\u{1b}[2J",
            "a\0",
            "a b",
            "ä",
            "a~b",
            "a%2fb",
            &long,
        ] {
            let refusal = tries(&server, name, folder.clone()).await;
            refused(refusal, Code::InvalidArgument, "INVALID_FIELD");
        }
        assert_eq!(names(&server, 0).await, ["default"]);
        assert!(
            open_with(&server, wanted(&server, &format!("a/{}", "x".repeat(126)), "roots/x"))
                .await
                .is_ok()
        );
        server.stop().await;
    });
}

#[test]
fn folders_elsewhere_are_refused_however_they_are_written() {
    test(async {
        let mut server = service(&["roots/x", "outside/y", "roots2/z"]).await;
        let base = real(&server, "");
        symlink("../outside", base.join("roots/out")).unwrap();
        symlink("/", base.join("roots/all")).unwrap();
        fs::write(base.join("roots/file"), "").unwrap();
        let path = |name: &str| base.join(name).display().to_string();
        for outside in [
            "roots",
            "outside/y",
            "roots2/z",
            "roots/out/y",
            "roots/out/new",
            "roots/all/etc",
            "none/x",
        ] {
            let refusal = tries(&server, "w", path(outside)).await;
            refused(refusal, Code::PermissionDenied, "OUTSIDE_ROOTS");
        }
        for outside in ["/", "/etc", "/proc/self/root"] {
            refused(
                tries(&server, "w", outside).await,
                Code::PermissionDenied,
                "OUTSIDE_ROOTS",
            );
        }
        let bad = [
            path("roots/../outside/y"),
            path("roots/x/.."),
            path("roots/x\n"),
            path("roots/x\u{7f}"),
            path("roots/file"),
            path("roots/file/x"),
            "roots/x".to_owned(),
            ".".to_owned(),
            String::new(),
            format!("{}/{}", path("roots"), "x/".repeat(2000)),
        ];
        for bad in bad {
            refused(tries(&server, "w", bad).await, Code::InvalidArgument, "INVALID_FIELD");
        }
        assert!(!base.join("outside/new").exists() && !base.join("none").exists());
        assert_eq!(names(&server, 0).await, ["default"]);
        server.stop().await;
    });
}

#[test]
fn a_root_may_be_a_link() {
    test(async {
        let setup = Setup {
            folders: vec!["real/x"],
            ..Setup::default()
        };
        let setup = setup.env("TOOLGATE_WORKSPACE_ROOTS", "roots");
        let mut server = Server::with(setup).await;
        symlink("real", server.folder().join("roots")).unwrap();
        let info = tries(&server, "x", server.folder().join("roots/x").display().to_string()).await;
        let info = info.unwrap().workspace.unwrap();
        assert_eq!(info.directory, real(&server, "real/x").display().to_string());
        server.stop().await;
    });
}

#[test]
fn the_services_own_files_are_in_no_workspace() {
    test(async {
        let roots = std::env::temp_dir().canonicalize().unwrap();
        let setup = Setup {
            folders: vec!["roots/keys", "roots/free"],
            files: vec![("roots/keys/secrets", "hunter2-hunter2\n".to_owned())],
            ..Setup::default()
        };
        let setup = setup
            .env("TOOLGATE_WORKSPACE_ROOTS", roots.to_str().unwrap())
            .env("TOOLGATE_REDACT_FILES", "roots/keys/secrets");
        let mut server = Server::with(setup).await;
        let path = |name: &str| real(&server, name).display().to_string();
        for reserved in ["data", "data/workspaces", "data/new", "roots/keys"] {
            let refusal = tries(&server, "w", path(reserved)).await;
            refused(refusal, Code::PermissionDenied, "FOLDER_RESERVED");
        }
        let around = real(&server, "").display().to_string();
        refused(
            tries(&server, "w", around.trim_end_matches('/')).await,
            Code::PermissionDenied,
            "FOLDER_RESERVED",
        );
        assert!(!server.folder().join("data/new").exists());
        // What overlaps with another workspace is refused, too, in both directions.
        for overlapping in ["work", "work/new"] {
            refused(
                tries(&server, "w", path(overlapping)).await,
                Code::FailedPrecondition,
                "WORKSPACES_OVERLAP",
            );
        }
        tries(&server, "w", path("roots/free")).await.unwrap();
        refused(
            tries(&server, "v", path("roots/free/below")).await,
            Code::FailedPrecondition,
            "WORKSPACES_OVERLAP",
        );
        server.stop().await;
    });
}

#[test]
fn a_checkout_counts_as_a_whole_and_ends_below_the_root() {
    test(async {
        let mut server = service(&[
            "roots/.git",
            "roots/repo/.git",
            "roots/repo/a",
            "roots/repo/b",
            "roots/plain",
        ])
        .await;
        let a = open(&server, "a", "roots/repo/a").await;
        assert_eq!(a.worktree, real(&server, "roots/repo").display().to_string());
        for folder in ["roots/repo/b", "roots/repo"] {
            refused(
                open_with(&server, wanted(&server, "b", folder)).await,
                Code::FailedPrecondition,
                "WORKSPACES_OVERLAP",
            );
        }
        // That the root is a checkout does not make all of it one workspace.
        let plain = open(&server, "plain", "roots/plain").await;
        assert_eq!(plain.worktree, plain.directory);
        server.stop().await;
    });
}

#[test]
fn a_folder_that_is_swapped_for_a_link_takes_no_calls() {
    test(async {
        let mut server = service(&["roots/x", "outside"]).await;
        open(&server, "x", "roots/x").await;
        completed(&call(&server, "x", bash("true")).await.unwrap());
        fs::rename(server.folder().join("roots/x"), server.folder().join("roots/y")).unwrap();
        symlink("../outside", server.folder().join("roots/x")).unwrap();
        for request in [
            bash("touch made"),
            request("write", json!({"filePath": "made", "content": "x"})),
        ] {
            let refusal = call(&server, "x", request).await;
            refused(refusal, Code::FailedPrecondition, "WORKSPACE_BROKEN");
        }
        assert!(!server.folder().join("outside/made").exists());
        assert!(get(&server, "x").await.unwrap().problem.contains("link"));
        // Nor is it opened again like that, now or after a restart.
        let refusal = open_with(&server, wanted(&server, "x", "roots/x")).await;
        refused(refusal, Code::PermissionDenied, "OUTSIDE_ROOTS");
        server.stop().await;
        server.restart().await;
        assert!(get(&server, "x").await.unwrap().problem.contains("not below"));
        assert!(close(&server, "x").await.is_ok());
        server.stop().await;
    });
}

#[test]
fn ten_thousand_opens_leave_few_workspaces() {
    test(async {
        let setup = setup(&["roots/same"]).env("TOOLGATE_LIMITS_MAX_WORKSPACES", "4");
        let mut server = Server::with(setup).await;
        let info = server.info().get_server_info(GetServerInfoRequest {}).await.unwrap();
        let info = info.into_inner();
        assert_eq!(info.limits.unwrap().max_workspaces, 4);
        assert!(info.features.contains(&Feature::OpenWorkspaces.into()));
        open(&server, "same", "roots/same").await;
        let (same, mut opened, mut full) = (wanted(&server, "same", "roots/same"), 0, 0);
        for batch in 0..100 {
            let tries = (0..100).map(|index| {
                let (mut client, number) = (workspaces(&server), batch * 100 + index);
                let mut request = same.clone();
                if number % 2 == 0 {
                    request.workspace = format!("w{number}");
                    request.directory = real(&server, &format!("roots/w{number}")).display().to_string();
                    request.create = true;
                }
                async move { client.open_workspace(request).await }
            });
            for outcome in futures_util::future::join_all(tries).await {
                match outcome {
                    Ok(response) => opened += usize::from(response.into_inner().opened),
                    Err(status) => {
                        refused::<()>(Err(status), Code::ResourceExhausted, "TOO_MANY_WORKSPACES");
                        full += 1;
                    }
                }
            }
        }
        // Two beside the default one and the one above.
        assert_eq!((opened, full), (2, 4998));
        assert_eq!(fs::read_dir(server.folder().join("roots")).unwrap().count(), 3);
        assert_eq!(names(&server, 1).await.len(), 4);
        // One goes, another one comes.
        close(&server, "same").await.unwrap();
        open(&server, "same", "roots/same").await;
        completed(&call(&server, "same", bash("true")).await.unwrap());
        server.stop().await;
    });
}

#[test]
fn the_process_of_a_call_opens_nothing() {
    test(async {
        let mut setup = setup(&["roots/x"]);
        setup.config = Some(json!({"permission": {"*": "allow"}}));
        let mut server = Server::with(setup).await;
        let (program, folder) = (env!("CARGO_BIN_EXE_toolgate"), real(&server, "roots/x"));
        let command = format!(
            "{program} --server unix:{} workspaces open x {}",
            server.folder().join("s").display(),
            folder.display()
        );
        let tried = call(&server, "", bash(&command)).await.unwrap();
        let output = &completed(&tried).output;
        assert!(output.contains("workspaces.manage"), "{output}");
        assert_eq!(names(&server, 0).await, ["default"]);
        server.stop().await;
    });
}
