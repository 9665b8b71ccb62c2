//! `toolgate files` as people and scripts use it.

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::time::timeout;
use toolgate_contract::*;
use toolgate_fs::marks::sha256;

use crate::support::*;

impl Server {
    /// Runs a command about files, and returns what it prints if it ends as expected.
    async fn files(&self, args: &[&str], code: i32) -> String {
        let url = self.url();
        let (ended, out, err) = self.cli(&[&["--server", &url, "files"], args].concat()).await;
        assert_eq!(ended, code, "{args:?}: {out} {err}");
        if code == 0 { out } else { err }
    }

    /// Runs one that reads this from its standard input.
    async fn files_with_input(&self, args: &[&str], input: &[u8]) -> i32 {
        let url = self.url();
        let mut command = self.command(&[&["--server", &url, "files"], args].concat());
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input).await.unwrap();
        let output = timeout(Duration::from_secs(60), child.wait_with_output())
            .await
            .unwrap()
            .unwrap();
        output.status.code().unwrap()
    }
}

#[test]
fn files_are_listed_shown_and_changed() {
    test(async {
        let server = Server::start().await;
        fs::create_dir(server.work().join(".git")).unwrap();
        fs::write(server.work().join(".gitignore"), "ignored\n").unwrap();
        fs::write(server.work().join("ignored"), "").unwrap();
        assert_eq!(server.files(&["ls"], 0).await, ".gitignore\n");
        assert!(server.files(&["ls", "-a"], 0).await.contains("ignored\n"));
        assert_eq!(
            server
                .files_with_input(&["put", "-", "a/b.txt", "--mode", "640"], b"hello\n")
                .await,
            0
        );
        assert_eq!(
            server.files(&["cat", "a/b.txt", ".gitignore"], 0).await,
            "hello\nignored\n"
        );
        assert_eq!(server.files(&["cat", "a/b.txt", "--bytes", "1:3"], 0).await, "ell");
        let stat = server.files(&["stat", "a/b.txt", "--sha256"], 0).await;
        for part in [
            "path      a/b.txt",
            "kind      file",
            "mode      0640",
            &sha256(b"hello\n"),
        ] {
            assert!(stat.contains(part), "{part}: {stat}");
        }
        let long = server.files(&["ls", "-l", "a"], 0).await;
        assert!(long.contains("-rw-r-----  6 "), "{long}");
        assert_eq!(server.files(&["ls", "a/b.txt"], 0).await, "a/b.txt\n");

        server.files(&["mkdir", "x/y"], 0).await;
        server.files(&["mv", "a/b.txt", "x"], 0).await;
        server.files(&["mv", "x/b.txt", "x/c.txt"], 0).await;
        assert_eq!(server.files(&["ls", "-R", "x"], 0).await, "x/c.txt\nx/y\n");
        assert!(server.files(&["rm", "x"], 1).await.contains("is a folder"));
        server.files(&["rm", "x/c.txt", "x/y", "-r"], 0).await;
        assert_eq!(server.files(&["ls", "x"], 0).await, "");

        assert!(
            server
                .files(&["stat", "none"], 8)
                .await
                .contains("there is no file none")
        );
        assert!(
            server
                .files(&["cat", "../secret"], 3)
                .await
                .contains("leads out of the workspace")
        );
        server.files(&["put", "missing"], 2).await;
        server.files(&["ls", "--agent", "nobody"], 2).await;
    });
}

#[test]
fn files_and_folders_are_copied_both_ways() {
    test(async {
        let server = Server::start().await;
        let outside = server.folder().join("outside");
        fs::create_dir_all(outside.join("tree/sub")).unwrap();
        fs::write(outside.join("tree/one"), "1").unwrap();
        fs::write(outside.join("tree/sub/two"), "2").unwrap();
        std::os::unix::fs::symlink("one", outside.join("tree/link")).unwrap();
        let place = |name: &str| outside.join(name).display().to_string();

        // A folder that is there is copied into, as `cp` does.
        server.files(&["put", &place("tree/one")], 0).await;
        server.files(&["put", &place("tree"), "copied"], 0).await;
        server.files(&["put", &place("tree"), "copied"], 0).await;
        let listed = server.files(&["ls", "-R"], 0).await;
        let expected = "copied\ncopied/link\ncopied/one\ncopied/sub\ncopied/sub/two\ncopied/tree\ncopied/tree/link\n\
                        copied/tree/one\ncopied/tree/sub\ncopied/tree/sub/two\none\n";
        assert_eq!(listed, expected);
        let file = fs::symlink_metadata(server.work().join("copied/link")).unwrap();
        assert!(file.is_file(), "what a link leads to is copied");
        let again = server
            .files(&["put", &place("tree/one"), "one", "--if-absent"], 1)
            .await;
        assert!(again.contains("already exists"), "{again}");
        server
            .files(
                &["put", &place("tree/sub/two"), "one", "--if-sha256", &sha256(b"other")],
                1,
            )
            .await;
        server
            .files(&["put", &place("tree/sub/two"), "one", "--if-sha256", &sha256(b"1")], 0)
            .await;
        assert_eq!(server.files(&["cat", "one"], 0).await, "2");

        server.files(&["get", "copied/sub/two", &place("two")], 0).await;
        assert_eq!(fs::read_to_string(outside.join("two")).unwrap(), "2");
        server
            .files(&["get", "copied/sub/two", &outside.display().to_string()], 0)
            .await;
        server.files(&["get", "copied/tree", &place("back")], 0).await;
        assert_eq!(fs::read_to_string(outside.join("back/sub/two")).unwrap(), "2");
        assert_eq!(server.files(&["get", "one", "-"], 0).await, "2");
        server.files(&["get", "."], 2).await;
        server.files(&["get", "none", &place("none")], 8).await;
        assert!(!outside.join("none").exists());

        // An archive goes through standard output and input.
        let archive = server
            .command(&["--server", &server.url(), "files", "get", "copied", "-"])
            .output()
            .await
            .unwrap();
        assert_eq!(archive.status.code(), Some(0));
        assert_eq!(
            server
                .files_with_input(&["put", "-", "unpacked", "--archive"], &archive.stdout)
                .await,
            0
        );
        assert_eq!(server.files(&["cat", "unpacked/sub/two"], 0).await, "2");
        assert_eq!(
            server
                .files_with_input(&["put", "-", "unpacked", "--archive"], b"none")
                .await,
            1
        );
        assert_eq!(server.files_with_input(&["put", "-"], b"x").await, 2);
    });
}

#[test]
fn what_an_archive_leaves_out_is_named() {
    test(async {
        let server = Server::with(Setup::permission(json!({"read": {"shy": "ask"}}))).await;
        fs::create_dir(server.work().join("tree")).unwrap();
        for name in ["tree/open", "shy"] {
            fs::write(server.work().join(name), "x").unwrap();
        }
        fs::rename(server.work().join("shy"), server.work().join("tree/.env")).unwrap();
        let copy = server.folder().join("copy").display().to_string();
        let err = server.files(&["get", "tree", &copy], 1).await;
        assert!(err.contains("left out: tree/.env"), "{err}");
        assert!(server.folder().join("copy/open").exists());
    });
}

#[test]
fn json_is_messages_of_the_contract() {
    test(async {
        let server = Server::start().await;
        let json = async |args: &[&str]| -> Vec<Value> {
            let out = server.files(&[&["--json"], args].concat(), 0).await;
            out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
        };
        fs::write(server.folder().join("f"), "hello").unwrap();
        let local = server.folder().join("f").display().to_string();
        let put = json(&["put", &local, "a"]).await;
        assert_eq!(
            (&put[0]["file"]["path"], &put[0]["file"]["sizeBytes"]),
            (&json!("a"), &json!("5"))
        );
        assert_eq!(server.get(put[0]["callId"].as_str().unwrap()).await.summary, "write a");
        assert_eq!(json(&["ls"]).await[0]["kind"], "FILE_KIND_FILE");
        assert_eq!(json(&["stat", "a", "--sha256"]).await[0]["sha256"], sha256(b"hello"));
        let cat = json(&["cat", "a", "--bytes", "1:3"]).await;
        assert_eq!(cat[0]["file"]["path"], "a");
        assert_eq!((&cat[1]["offset"], &cat[1]["data"]), (&json!("1"), &json!("ZWxs")));
        assert!(json(&["rm", "a"]).await[0]["callId"].is_string());
    });
}

#[test]
fn a_change_is_asked_about_in_the_terminal() {
    test(async {
        let server = Server::with(Setup::permission(json!({"edit": {"a*": "ask", "no": "deny"}}))).await;
        let url = server.url();
        let local = server.folder().join("f");
        fs::write(&local, "hello").unwrap();
        let local = local.display().to_string();
        let put = ["--server", &url, "files", "put", &local];
        let mut person = Pty::start(&[&put[..], &["a1"]].concat());
        person.shows("files asks for permission: edit").await;
        person.shows("+hello").await;
        person.shows("[o]nce").await;
        person.press('o').await;
        assert_eq!(person.ended().await, 0);
        assert_eq!(fs::read_to_string(server.work().join("a1")).unwrap(), "hello");

        let mut person = Pty::start(&[&put[..], &["a2"]].concat());
        person.shows("[o]nce").await;
        person.press('r').await;
        assert_eq!(person.ended().await, 3);

        // Leaving takes the question with it.
        let mut person = Pty::start(&[&put[..], &["a3"]].concat());
        person.shows("[o]nce").await;
        person.signal(rustix::process::Signal::INT);
        assert_eq!(person.ended().await, 130);
        eventually("nothing is asked any more", async || {
            server.prompts(list_all()).await.is_empty()
        })
        .await;

        // Without a terminal.
        assert!(
            server
                .files(&["put", &local, "a4"], 3)
                .await
                .contains("no terminal to ask on")
        );
        server.files(&["put", &local, "a4", "--no"], 3).await;
        server.files(&["put", &local, "no", "--yes"], 3).await;
        server.files(&["put", &local, "a4", "--yes"], 0).await;
        server.files(&["mv", "a4", "a5", "--yes"], 0).await;
        server.files(&["rm", "a5", "--yes"], 0).await;
        let listed = server.files(&["ls"], 0).await;
        assert_eq!(listed, "a1\n");

        // Left to somebody else.
        let mut approver = Approver::open(server.channel(), "ann").await.unwrap();
        let approve = async {
            let prompt = approver.added().await;
            assert!(approver.send(reply(&prompt, PromptDecision::Once)).await);
            std::future::pending().await
        };
        let left = ["put", &local, "a6", "--wait"];
        tokio::select! {
            _ = server.files(&left, 0) => {}
            () = approve => {}
        }
    });
}

#[test]
fn who_may_not_answer_can_do_what_is_not_asked_about() {
    test(async {
        let tokens = "alice alice-alice-alice-alice calls.execute,calls.read,files.read,files.write\n";
        let setup = Setup {
            files: vec![("tokens", tokens.to_owned())],
            tcp: true,
            ..Setup::permission(json!({"edit": {"a": "ask"}}))
        };
        let server = Server::with(setup.env("TOOLGATE_AUTH_TOKENS_FILE", "tokens")).await;
        let url = server.url();
        let run = async |args: &[&str]| {
            let mut command = server.command(&[&["--server", &url, "files"], args].concat());
            let output = command.env("TOOLGATE_TOKEN", "alice-alice-alice-alice").output();
            let output = timeout(Duration::from_secs(60), output)
                .await
                .expect("it does not wait")
                .unwrap();
            (output.status.code(), String::from_utf8(output.stderr).unwrap())
        };
        assert_eq!(run(&["mkdir", "b"]).await, (Some(0), String::new()));
        let (code, told) = run(&["mkdir", "a", "--yes"]).await;
        assert_eq!(code, Some(3), "{told}");
    });
}

#[test]
fn changes_are_told_until_an_interrupt() {
    test(async {
        let server = Server::start().await;
        fs::create_dir(server.work().join("in")).unwrap();
        let url = server.url();
        let mut child = server
            .command(&["--server", &url, "files", "watch", "in"])
            .spawn()
            .unwrap();
        let mut notes = BufReader::new(child.stderr.take().unwrap()).lines();
        assert_eq!(notes.next_line().await.unwrap().as_deref(), Some("watching"));
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        fs::write(server.work().join("out"), "").unwrap();
        fs::write(server.work().join("in/a"), "").unwrap();
        assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("changed in/a"));
        fs::remove_file(server.work().join("in/a")).unwrap();
        assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("gone    in/a"));
        let pid = rustix::process::Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        assert_eq!(child.wait().await.unwrap().code(), Some(130));
    });
}

#[test]
fn a_folder_without_a_service_gets_one_for_the_command() {
    test(async {
        let server = Server::start().await;
        let elsewhere = server.folder().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        fs::write(elsewhere.join("here"), "").unwrap();
        let output = server
            .command(&["files", "ls"])
            .current_dir(&elsewhere)
            .output()
            .await
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "here\n", "{output:?}");
        // The folder of the service that runs is that service's.
        let output = server.command(&["files", "mkdir", "made"]).output().await.unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let calls = server.tools().list_calls(ListCallsRequest::default()).await.unwrap();
        assert_eq!(calls.into_inner().calls.len(), 1);
        let wait = ["files", "mkdir", "made", "--wait"];
        let output = server.command(&wait).current_dir(&elsewhere).output().await.unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
    });
}
