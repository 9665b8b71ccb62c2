//! Created workspaces after a restart of the service, and when something else is in their places.

use std::os::unix::fs::symlink;

use super::created::{CONFIG, create, delete, resume, setup_with, state, suspend, template};
use super::*;

/// Changes the records of created workspaces of a service that does not run.
fn edit_records(server: &Server, from: &str, to: &str) {
    let path = server.folder().join("data/created_workspaces.json");
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{text}");
    fs::write(path, text.replace(from, to)).unwrap();
}

fn asking() -> Setup {
    Setup {
        config: Some(json!({"permission": {"bash": {"*": "allow", "make *": "ask"}}})),
        ..setup_with(CONFIG)
    }
}

/// Begins a call that waits for a person.
async fn ask(server: &Server, name: &str, id: &str) {
    let request = within(name, kept(id, bash("make it || echo made")));
    let mut stream = server.tools().execute_tool(request).await.unwrap().into_inner();
    waiting(&mut stream).await;
}

#[test]
fn calls_of_all_workspaces_wait_on_after_a_restart() {
    test(async {
        let mut setup = asking().env("TOOLGATE_WORKSPACE_ROOTS", "roots");
        setup.folders.push("roots/opened");
        let mut server = Server::with(setup).await;
        // The first is opened before the others by the next run.
        for name in ["a", "b"] {
            create(&server, name, template("web")).await.unwrap();
        }
        open(&server, "opened", "roots/opened").await;
        let all = ["a", "b", "opened"];
        for name in all {
            ask(&server, name, name).await;
        }
        server.kill9().await;
        server.restart().await;
        for name in all {
            assert_eq!(server.get(name).await.state(), CallState::Waiting, "{name}");
        }

        // What waited in one that was being deleted ends, and does not go on in the next one of its name.
        server.kill9().await;
        edit_records(&server, "\"stage\":\"ready\"", "\"stage\":\"deleting\"");
        server.restart().await;
        for name in ["a", "b"] {
            eventually("it is deleted", async || get(&server, name).await.is_err()).await;
            assert_eq!(failed(&server.get(name).await).reason(), FailureReason::Lost);
            assert!(!server.folder().join("made").join(name).exists());
        }
        create(&server, "a", template("web")).await.unwrap();
        assert_eq!(server.get("opened").await.state(), CallState::Waiting);
        server.stop().await;
    });
}

#[test]
fn an_old_record_says_nothing_of_another_workspace_of_its_name() {
    test(async {
        let mut server = Server::with(setup_with(CONFIG)).await;
        create(&server, "one", template("web")).await.unwrap();
        server.stop().await;
        edit_records(&server, "\"name\":\"one\"", "\"name\":\"default\"");
        server.restart().await;
        let (code, reason) = (Code::FailedPrecondition, "WORKSPACE_NOT_CREATED");
        refused(suspend(&server, "default").await, code, reason);
        refused(resume(&server, "default").await, code, reason);
        refused(delete(&server, "default").await, code, reason);
        let again = create(&server, "default", template("web")).await;
        refused(again, Code::AlreadyExists, "WORKSPACE_NAME_TAKEN");
        completed(&call(&server, "default", bash("true")).await.unwrap());
        server.stop().await;
    });
}

#[test]
fn a_link_to_the_root_does_not_make_room_in_a_suspended_workspace() {
    test(async {
        let mut server = Server::with(setup_with(CONFIG)).await;
        server.stop().await;
        let made = server.folder().join("made");
        fs::rename(&made, server.folder().join("elsewhere")).unwrap();
        symlink("elsewhere", &made).unwrap();
        server.restart().await;
        create(&server, "a", template("web")).await.unwrap();
        suspend(&server, "a").await.unwrap();
        let inside = create(&server, "a/b", template("web")).await;
        refused(inside, Code::FailedPrecondition, "WORKSPACES_OVERLAP");
        assert_eq!(resume(&server, "a").await.unwrap().state(), WorkspaceState::Ready);
        server.stop().await;
    });
}

#[test]
fn a_folder_that_was_not_made_here_is_neither_opened_nor_removed() {
    test(async {
        let mut server = Server::with(setup_with(CONFIG)).await;
        symlink("/etc/passwd", server.folder().join("templates/empty/out")).unwrap();
        let bad = create(&server, "bad", template("empty")).await.unwrap();
        assert_eq!(bad.workspace.unwrap().state(), WorkspaceState::Failed);
        let foreign = |path: &str| {
            let folder = server.folder().join(path);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("file"), "").unwrap();
            folder.join("file")
        };
        let (at_bad, at_one) = (foreign("made/bad"), foreign("other/one"));
        let again = create(&server, "bad", template("empty")).await;
        refused(again, Code::AlreadyExists, "WORKSPACE_NAME_TAKEN");
        delete(&server, "bad").await.unwrap();
        assert!(at_bad.exists());

        // What failed after its folder was in place can be tried again.
        create(&server, "one", template("web")).await.unwrap();
        server.stop().await;
        edit_records(&server, "\"stage\":\"ready\"", "\"stage\":{\"failed\":\"why\"}");
        server.restart().await;
        assert_eq!(state(&server, "one").await, WorkspaceState::Failed);
        let again = create(&server, "one", template("web")).await.unwrap();
        assert_eq!(again.workspace.unwrap().state(), WorkspaceState::Ready);

        // Below another root are other folders.
        server.stop().await;
        let config = CONFIG.replace("\"made\"", "\"other\"");
        fs::write(server.folder().join("toolgate.toml"), config).unwrap();
        server.restart().await;
        let one = get(&server, "one").await.unwrap();
        assert!(
            one.state() == WorkspaceState::Failed && one.problem.contains("created_workspaces.directory is"),
            "{one:?}"
        );
        refused(
            call(&server, "one", bash("true")).await,
            Code::FailedPrecondition,
            "WORKSPACE_BROKEN",
        );
        delete(&server, "one").await.unwrap();
        assert!(at_one.exists() && server.folder().join("made/one/src/main").exists());
        server.stop().await;
    });
}

#[test]
fn one_that_cannot_be_resumed_says_so_until_it_can() {
    test(async {
        let mut server = Server::with(asking()).await;
        create(&server, "one", template("web")).await.unwrap();
        ask(&server, "one", "asks").await;
        suspend(&server, "one").await.unwrap();
        let (made, away) = (server.folder().join("made/one"), server.folder().join("away"));
        fs::rename(&made, &away).unwrap();
        for _ in 0..2 {
            let refusal = call(&server, "one", bash("true")).await;
            refused(refusal, Code::FailedPrecondition, "WORKSPACE_BROKEN");
        }
        assert_eq!(state(&server, "one").await, WorkspaceState::Failed);
        assert_eq!(server.get("asks").await.state(), CallState::Waiting);
        fs::rename(&away, &made).unwrap();
        assert_eq!(resume(&server, "one").await.unwrap().state(), WorkspaceState::Ready);
        completed(&call(&server, "one", bash("true")).await.unwrap());
        assert_eq!(server.get("asks").await.state(), CallState::Waiting);
        server.stop().await;
    });
}
