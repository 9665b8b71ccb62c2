//! Files: looked at, changed and watched by the library, also over connections that break.

use std::io::Cursor;

use serde_json::json;
use tokio_stream::StreamExt as _;
use toolgate_client::{Client, FileEvent};
use toolgate_contract::*;
use toolgate_fs::marks::sha256;

use super::{connected, refused_for};
use crate::support::*;

#[test]
fn files_are_written_shown_moved_and_deleted() {
    test(async {
        let mut server = Server::start().await;
        let client = connected(&server).await;
        let files = client.files();
        let written = files.write("a/b.txt", "hello").mode(0o600).run().await.unwrap();
        let file = written.file.unwrap();
        assert_eq!((file.sha256.as_str(), file.mode), (sha256(b"hello").as_str(), 0o600));
        assert_eq!(server.get(&written.call_id).await.tool, "files");

        let reader = files.read("a/b.txt").with_sha256();
        assert_eq!(reader.read_to_end().await.unwrap(), b"hello");
        let mut part = files.read_range("a/b.txt", 1, 3);
        assert_eq!(part.info().await.unwrap().size_bytes, 5);
        let pieces: Vec<_> = part.pieces().collect().await;
        assert_eq!(pieces.len(), 1);
        assert_eq!(pieces[0].as_ref().unwrap(), "ell");
        assert_eq!(files.stat("a").await.unwrap().kind(), FileKind::Folder);
        assert_eq!(files.stat_with_sha256("a/b.txt").await.unwrap().sha256, file.sha256);

        refused_for(files.write("a/b.txt", "x").if_absent().run().await, "ALREADY_THERE");
        let stale = files.write("a/b.txt", "x").if_sha256(sha256(b"other"));
        let error = refused_for(stale.run().await, "CONTENT_DIFFERS");
        let call = server.get(&error.metadata()["call_id"]).await;
        assert_eq!(call.state(), CallState::Failed);
        refused_for(files.stat("nothing").await, "NOT_FOUND");
        refused_for(files.stat("../secret").await, "OUTSIDE_WORKSPACE");
        refused_for(files.read("a").read_to_end().await, "IS_FOLDER");

        assert!(files.create_folder("c").run().await.unwrap().file.is_some());
        files
            .move_to("a/b.txt", "c/d.txt")
            .if_sha256(&file.sha256)
            .run()
            .await
            .unwrap();
        let paths = async |listed: Result<Vec<FileInfo>, _>| {
            listed.unwrap().into_iter().map(|file| file.path).collect::<Vec<_>>()
        };
        assert_eq!(paths(files.list("").await).await, ["a", "c"]);
        assert_eq!(paths(files.list_recursive("").await).await, ["a", "c", "c/d.txt"]);
        refused_for(files.delete("c").run().await, "IS_FOLDER");
        files.delete("c").recursive().run().await.unwrap();
        files.delete("a").recursive().run().await.unwrap();
        assert_eq!(paths(files.list("").await).await, Vec::<String>::new());
        server.stop().await;
    });
}

#[test]
fn a_list_has_all_pages() {
    test(async {
        let server = Server::start().await;
        for number in 0..25 {
            std::fs::write(server.work().join(format!("{number:02}")), "").unwrap();
        }
        let request = ListFilesRequest {
            page_size: 10,
            ..ListFilesRequest::default()
        };
        let listed = connected(&server).await.files().list_request(request).await.unwrap();
        let names: Vec<_> = listed.into_iter().map(|file| file.path).collect();
        assert_eq!(names, (0..25).map(|number| format!("{number:02}")).collect::<Vec<_>>());
    });
}

#[test]
fn a_change_that_is_sent_again_is_made_once() {
    test(async {
        let server = Server::start().await;
        let files = connected(&server).await.files();
        let first = files.write("a", "one").if_absent().call_id("mine").run().await.unwrap();
        assert_eq!(first.call_id, "mine");
        let again = files.write("a", "one").if_absent().call_id("mine").run().await.unwrap();
        assert_eq!(again.call_id, "mine");
        refused_for(files.write("a", "two").call_id("mine").run().await, "CALL_ID_TAKEN");
        let calls = server.tools().list_calls(ListCallsRequest::default()).await.unwrap();
        assert_eq!(calls.into_inner().calls.len(), 1);
    });
}

#[test]
fn a_content_that_cannot_be_read_is_not_written() {
    test(async {
        let server = Server::start().await;
        let files = connected(&server).await.files();
        std::fs::create_dir(server.folder().join("folder")).unwrap();
        let upload = files.upload_file("a", server.folder().join("folder")).await.unwrap();
        let error = upload.run().await.unwrap_err();
        assert!(matches!(error, toolgate_client::Error::Content(_)), "{error:?}");
        refused_for(files.stat("a").await, "NOT_FOUND");
        let missing = files.upload_file("a", server.folder().join("missing")).await;
        assert!(matches!(missing, Err(toolgate_client::Error::Read { .. })));
    });
}

#[test]
fn folders_go_as_archives() {
    test(async {
        let server = Server::start().await;
        let files = connected(&server).await.files();
        for (path, content) in [("from/a", "one"), ("from/b/c", "two"), ("from/.gitignore", "ignored\n")] {
            files.write(path, content).run().await.unwrap();
        }
        std::fs::create_dir(server.work().join(".git")).unwrap();
        files.write("from/ignored", "x").run().await.unwrap();
        let mut archive = Vec::new();
        let end = files.download_archive("from").write_to(&mut archive).await.unwrap();
        assert_eq!((end.entries, end.omitted_paths.len()), (4, 0));
        let upload = files.upload_archive("to", Cursor::new(archive.clone()));
        upload.if_absent().run().await.unwrap();
        assert_eq!(files.read("to/b/c").read_to_end().await.unwrap(), b"two");
        refused_for(files.stat("to/ignored").await, "NOT_FOUND");
        let upload = files.upload_archive("to", Cursor::new(archive));
        refused_for(upload.if_absent().run().await, "ALREADY_THERE");
        let bad = files.upload_archive("to", Cursor::new("no archive".repeat(200)));
        refused_for(bad.run().await, "BAD_ARCHIVE");
        let all = files.download_archive("from").include_ignored();
        assert_eq!(all.write_to(tokio::io::sink()).await.unwrap().entries, 5);
        refused_for(
            files.download_archive("from/a").write_to(tokio::io::sink()).await,
            "NOT_A_FOLDER",
        );
    });
}

/// A client whose connections break all the time.
async fn shaken(server: &Server, seed: u64) -> (Client, Shaky) {
    let proxy = Shaky::before(server.tcp.as_ref().unwrap(), Random::new(seed)).await;
    let client = Client::builder(&format!("http://{}", proxy.address));
    (client.connect_lazy().unwrap(), proxy)
}

#[test]
fn contents_cross_connections_that_break() {
    test(async {
        let server = Server::with(Setup::tcp()).await;
        let (client, proxy) = shaken(&server, 7).await;
        let files = client.files();
        let content: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect();
        std::fs::write(server.work().join("large"), &content).unwrap();
        assert!(files.read("large").read_to_end().await.unwrap() == content);
        assert!(proxy.cuts() > 0, "no connection was cut");
        for round in 0..10 {
            let path = format!("copy{round}");
            loop {
                let upload = files.upload(&path, Cursor::new(content[..2_000_000 + round].to_vec()));
                match upload.if_absent().run().await {
                    Ok(_) => break,
                    // Cut in the middle of its call, which the service then cancels: nothing was written.
                    Err(error) if error.reason().as_deref() == Some("CANCELLED") => {}
                    Err(error) => panic!("{error:?}"),
                }
            }
            let found = std::fs::read(server.work().join(&path)).unwrap();
            assert!(found == content[..2_000_000 + round], "{path}");
        }
        let request = ListCallsRequest {
            states: vec![CallState::Completed.into()],
            ..ListCallsRequest::default()
        };
        let calls = server.tools().list_calls(request).await.unwrap().into_inner().calls;
        assert_eq!(calls.len(), 10, "each was written once");
    });
}

#[test]
fn a_file_that_changes_between_two_connections_is_not_pieced_together() {
    test(async {
        let server = Server::with(Setup::tcp()).await;
        let path = server.work().join("large");
        std::fs::write(&path, vec![b'a'; 8 << 20]).unwrap();
        let proxy = Shaky::before(server.tcp.as_ref().unwrap(), Random::new(3)).await;
        let client = Client::builder(&format!("http://{}", proxy.address))
            .connect_lazy()
            .unwrap();
        let mut reader = client.files().read("large");
        assert!(reader.next().await.unwrap().is_some());
        std::fs::write(&path, vec![b'b'; 9 << 20]).unwrap();
        let error = loop {
            match reader.next().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("it is read to its end"),
                Err(error) => break error,
            }
        };
        refused_for(Err::<(), _>(error), "FILE_CHANGED");
    });
}

/// Collects events until a path is told of.
async fn until(watcher: &mut toolgate_client::FileWatcher, path: &str) {
    loop {
        match watcher.next().await.unwrap() {
            FileEvent::Changed(changed) if changed.files.iter().any(|file| file.path == path) => return,
            FileEvent::Changed(_) => {}
            other => panic!("{other:?} instead of {path}"),
        }
    }
}

#[test]
fn a_watcher_misses_nothing_over_connections_that_break() {
    test(async {
        let server = Server::with(Setup::tcp()).await;
        let (client, proxy) = shaken(&server, 11).await;
        let mut watcher = client.files().watch("");
        let first = watcher.next().await.unwrap();
        assert_eq!(first, FileEvent::Watched(FilesWatched { partial: false }));
        let mut round = 0;
        while proxy.cuts() < 5 {
            let name = format!("f{round}");
            std::fs::write(server.work().join(&name), "").unwrap();
            until(&mut watcher, &name).await;
            round += 1;
        }
        // Another watcher goes on where this one is.
        let cursor = watcher.cursor().to_owned();
        std::fs::write(server.work().join("later"), "").unwrap();
        until(&mut client.files().watch_from("", cursor), "later").await;
    });
}

#[test]
fn a_watcher_says_when_its_cursor_is_too_old_and_begins_anew() {
    test(async {
        let mut server = Server::with(Setup::tcp()).await;
        let client = connected(&server).await;
        let mut watcher = client.files().watch("");
        watcher.next().await.unwrap();
        let cursor = watcher.cursor().to_owned();
        server.stop().await;
        server.restart().await;
        // Another run of the service knows nothing of what happened before.
        let mut watcher = connected(&server).await.files().watch_from("", cursor);
        assert_eq!(watcher.next().await.unwrap(), FileEvent::CursorTooOld);
        let next = watcher.next().await.unwrap();
        assert!(matches!(next, FileEvent::Watched(_)), "{next:?}");
        std::fs::write(server.work().join("new"), "").unwrap();
        until(&mut watcher, "new").await;
    });
}

#[test]
fn what_is_asked_is_refused_at_once_or_waits() {
    test(async {
        let server = Server::with(Setup::permission(
            json!({"edit": "ask", "read": {"secret": "deny", "shy": "ask"}}),
        ))
        .await;
        for name in ["secret", "shy"] {
            std::fs::write(server.work().join(name), "x").unwrap();
        }
        let files = connected(&server).await.files();
        refused_for(files.read("secret").read_to_end().await, "DENIED_BY_RULE");
        refused_for(files.read("shy").read_to_end().await, "PERMISSION_NEEDED");
        refused_for(files.write("a", "x").run().await, "PERMISSION_NEEDED");
        let write = files.write("a", "x").wait_for_approval(None).run();
        let approve = async {
            let mut approver = Approver::open(server.channel(), "ann").await.unwrap();
            let prompt = approver.added().await;
            assert!(approver.send(reply(&prompt, PromptDecision::Once)).await);
            std::future::pending().await
        };
        tokio::select! {
            written = write => assert!(written.is_ok(), "{written:?}"),
            () = approve => {}
        }
        let limit = Some(std::time::Duration::from_millis(100));
        let late = files.write("b", "x").wait_for_approval(limit).run().await;
        refused_for(late, "PERMISSION_NEEDED");
    });
}
