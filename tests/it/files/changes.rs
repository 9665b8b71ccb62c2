//! What front ends do to files.

use tokio_stream::iter;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;
use toolgate_fs::marks::sha256;

use super::*;

fn write(path: &str, content: &[u8]) -> WriteFileRequest {
    WriteFileRequest {
        target: Some(WriteTarget {
            path: path.to_owned(),
            ..WriteTarget::default()
        }),
        content: content.to_vec().into(),
        ..WriteFileRequest::default()
    }
}

fn moved(path: &str, new_path: &str) -> MoveFileRequest {
    MoveFileRequest {
        path: path.to_owned(),
        new_path: new_path.to_owned(),
        ..MoveFileRequest::default()
    }
}

fn delete(path: &str, recursive: bool) -> DeleteFileRequest {
    DeleteFileRequest {
        path: path.to_owned(),
        recursive,
        ..DeleteFileRequest::default()
    }
}

fn folder(path: &str) -> CreateFolderRequest {
    CreateFolderRequest {
        path: path.to_owned(),
        ..CreateFolderRequest::default()
    }
}

impl Place {
    async fn write_file(&self, request: WriteFileRequest) -> Result<WriteFileResponse, Status> {
        Ok(self.client().write_file(request).await?.into_inner())
    }

    async fn revert(&self, call: &str) {
        let request = RevertCallRequest {
            call_id: call.to_owned(),
            ..RevertCallRequest::default()
        };
        let mut events = self.server.tools().revert_call(request).await.unwrap().into_inner();
        let mut last = None;
        while let Some(event) = events.message().await.unwrap() {
            last = event.event.and_then(|event| event.event);
        }
        assert!(matches!(last, Some(call_event::Event::Completed(_))), "{last:?}");
    }

    /// Says how many contents wait in the data directory.
    fn waiting(&self) -> usize {
        let folder = self.server.folder().join("data/uploads");
        folder.read_dir().map_or(0, Iterator::count)
    }
}

#[test]
fn a_file_is_written_and_taken_back() {
    test(async {
        let place = Place::new().await;
        let written = place.write_file(write("new/a.bin", b"\0one")).await.unwrap();
        let file = written.file.unwrap();
        assert_eq!(
            (file.path.as_str(), file.sha256.as_str()),
            ("new/a.bin", sha256(b"\0one").as_str())
        );
        let call = place.server.get(&written.call_id).await;
        assert_eq!(
            (call.tool.as_str(), call.summary.as_str(), call.changes.len()),
            ("files", "write new/a.bin", 1)
        );
        assert!(!call.input_json.contains("one"), "the content is not part of the input");
        assert_eq!(place.waiting(), 0);

        let known = WriteFileRequest {
            target: Some(WriteTarget {
                path: "new/a.bin".to_owned(),
                if_sha256: file.sha256.clone(),
                mode: Some(0o755),
                ..WriteTarget::default()
            }),
            ..write("", b"two")
        };
        let second = place.write_file(known.clone()).await.unwrap();
        assert_eq!(
            (place.text("new/a.bin").as_str(), second.file.unwrap().mode),
            ("two", 0o755)
        );
        let status = place.write_file(known).await.unwrap_err();
        let call_id = status.get_error_details().error_info().unwrap().metadata["call_id"].clone();
        assert_eq!(place.server.get(&call_id).await.state(), CallState::Failed);
        refused(Err::<(), _>(status), Code::FailedPrecondition, "CONTENT_DIFFERS");
        let absent = WriteFileRequest {
            target: Some(WriteTarget {
                path: "new/a.bin".to_owned(),
                if_absent: true,
                ..WriteTarget::default()
            }),
            ..write("", b"three")
        };
        refused(place.write_file(absent).await, Code::AlreadyExists, "ALREADY_THERE");
        place.revert(&second.call_id).await;
        assert_eq!(place.text("new/a.bin"), "\0one");
        place.revert(&written.call_id).await;
        assert!(!place.is_there("new/a.bin"));
    });
}

#[test]
fn a_file_comes_in_pieces() {
    test(async {
        let place = Place::new().await;
        let content: Vec<u8> = (0..3_000_000_u32)
            .map(|index| u8::try_from(index % 251).unwrap())
            .collect();
        let first = UploadFileRequest {
            target: write("big", b"").target,
            ..UploadFileRequest::default()
        };
        let pieces = content.chunks(100_000).map(|piece| UploadFileRequest {
            content: piece.to_vec().into(),
            ..UploadFileRequest::default()
        });
        let stream: Vec<_> = [first.clone()].into_iter().chain(pieces).collect();
        let written = place.client().upload_file(iter(stream)).await.unwrap().into_inner();
        assert_eq!(written.file.unwrap().sha256, sha256(&content));
        assert_eq!(std::fs::read(place.server.work().join("big")).unwrap(), content);
        let headless = UploadFileRequest::default();
        refused(
            place.client().upload_file(iter([headless])).await,
            Code::InvalidArgument,
            "INVALID_FIELD",
        );
        let twice = place.client().upload_file(iter([first.clone(), first])).await;
        refused(twice, Code::InvalidArgument, "INVALID_FIELD");
        assert_eq!(place.waiting(), 0, "what was given up leaves nothing");
    });
}

#[test]
fn a_rule_that_denies_all_changes_is_told() {
    test(async {
        let place = Place::ruled(json!({"edit": "deny"})).await;
        let written = place.client().write_file(write("a", b"x")).await;
        refused(written, Code::PermissionDenied, "DENIED_BY_RULE");
        assert!(!place.is_there("a"));
    });
}

#[test]
fn the_same_request_is_made_once() {
    test(async {
        let place = Place::new().await;
        let request = |content: &[u8]| WriteFileRequest {
            call: Some(CallOptions {
                call_id: "once".to_owned(),
                ..CallOptions::default()
            }),
            ..write("a", content)
        };
        place.write_file(request(b"one")).await.unwrap();
        place.write("a", "meanwhile");
        assert_eq!(place.write_file(request(b"one")).await.unwrap().call_id, "once");
        assert_eq!(place.text("a"), "meanwhile");
        refused(
            place.write_file(request(b"other")).await,
            Code::AlreadyExists,
            "CALL_ID_TAKEN",
        );
    });
}

#[test]
fn folders_are_made_moved_and_deleted() {
    test(async {
        let place = Place::new().await;
        let made = place.client().create_folder(folder("a/b")).await.unwrap().into_inner();
        assert_eq!(made.file.unwrap().kind(), FileKind::Folder);
        place.client().create_folder(folder("a/b")).await.unwrap();
        place.write("a/b/c", "c");
        refused(
            place.client().create_folder(folder("a/b/c")).await,
            Code::FailedPrecondition,
            "NOT_A_FOLDER",
        );
        let first = place.client().move_file(moved("a", "x/y")).await.unwrap().into_inner();
        assert_eq!((place.text("x/y/b/c").as_str(), place.is_there("a")), ("c", false));
        place.write("z", "z");
        refused(
            place.client().move_file(moved("z", "x/y/b/c")).await,
            Code::AlreadyExists,
            "ALREADY_THERE",
        );
        refused(
            place.client().move_file(moved("x", "x/in")).await,
            Code::AlreadyExists,
            "ALREADY_THERE",
        );
        refused(
            place.client().move_file(moved("none", "n")).await,
            Code::NotFound,
            "NOT_FOUND",
        );
        place.revert(&first.call_id).await;
        assert_eq!(place.text("a/b/c"), "c");
        refused(
            place.client().delete_file(delete("a", false)).await,
            Code::FailedPrecondition,
            "IS_FOLDER",
        );
        let gone = place
            .client()
            .delete_file(delete("a", true))
            .await
            .unwrap()
            .into_inner();
        assert!(!place.is_there("a"));
        place.revert(&gone.call_id).await;
        assert_eq!(place.text("a/b/c"), "c");
        refused(
            place.client().delete_file(delete("none", true)).await,
            Code::NotFound,
            "NOT_FOUND",
        );
        let wrong = DeleteFileRequest {
            if_sha256: sha256(b"other"),
            ..delete("z", false)
        };
        refused(
            place.client().delete_file(wrong).await,
            Code::FailedPrecondition,
            "CONTENT_DIFFERS",
        );
        let strange = DeleteFileRequest {
            if_sha256: "abc".to_owned(),
            ..delete("z", false)
        };
        refused(
            place.client().delete_file(strange).await,
            Code::InvalidArgument,
            "INVALID_FIELD",
        );
        assert!(place.is_there("z"));
    });
}

#[test]
fn nothing_is_changed_that_lies_outside() {
    test(async {
        let place = Place::new().await;
        tempt(&place);
        let denied = Code::PermissionDenied;
        for path in [
            "../new",
            "/tmp/toolgate-new",
            "link/new",
            "file",
            "link/secret",
            "a/../../new",
        ] {
            refused(place.write_file(write(path, b"x")).await, denied, "OUTSIDE_WORKSPACE");
            refused(
                place.client().create_folder(folder(path)).await,
                denied,
                "OUTSIDE_WORKSPACE",
            );
            refused(
                place.client().move_file(moved("a", path)).await,
                denied,
                "OUTSIDE_WORKSPACE",
            );
        }
        for path in ["../secret", "link/secret", "..", "../beside"] {
            refused(
                place.client().delete_file(delete(path, true)).await,
                denied,
                "OUTSIDE_WORKSPACE",
            );
            refused(
                place.client().move_file(moved(path, "here")).await,
                denied,
                "OUTSIDE_WORKSPACE",
            );
        }
        for path in [".", "a/.."] {
            let own = place.client().delete_file(delete(path, true)).await;
            refused(own, Code::FailedPrecondition, "WORKSPACE_FOLDER");
            let own = place.client().move_file(moved(path, "here")).await;
            refused(own, Code::FailedPrecondition, "WORKSPACE_FOLDER");
        }
        refused(
            place.client().delete_file(delete("", true)).await,
            Code::InvalidArgument,
            "INVALID_FIELD",
        );
        place.pipe("pipe");
        let failed = Code::FailedPrecondition;
        refused(place.write_file(write("pipe", b"x")).await, failed, "NOT_A_FILE");
        refused(
            place.client().delete_file(delete("pipe", false)).await,
            failed,
            "NOT_A_FILE",
        );
        // Of a link only the link goes.
        place.client().delete_file(delete("link", false)).await.unwrap();
        assert!(!place.is_there("link"));
        let beside = place.server.folder().join("beside");
        assert_eq!(std::fs::read_to_string(beside.join("secret")).unwrap(), "secret");
        assert_eq!(beside.read_dir().unwrap().count(), 1);
    });
}

#[test]
fn rules_and_people_decide_what_is_changed() {
    test(async {
        let rules =
            json!({"edit": {"*": "ask", "mine*": "allow", "kept*": "deny"}, "read": {"*": "allow", "*.env": "ask"}});
        let place = Place::ruled(rules).await;
        place.write("mine.env", "secret");
        refused(
            place.write_file(write("kept.txt", b"x")).await,
            Code::PermissionDenied,
            "DENIED_BY_RULE",
        );
        place.write_file(write("mine.txt", b"x")).await.unwrap();
        refused(
            place.client().move_file(moved("mine.txt", "kept.txt")).await,
            Code::PermissionDenied,
            "DENIED_BY_RULE",
        );
        // By another name it could be read.
        refused(
            place.client().move_file(moved("mine.env", "mine.txt2")).await,
            Code::PermissionDenied,
            "PERMISSION_NEEDED",
        );
        refused(
            place.write_file(write("asked.txt", b"x")).await,
            Code::PermissionDenied,
            "PERMISSION_NEEDED",
        );
        assert!(!place.is_there("asked.txt") && !place.is_there("kept.txt") && place.is_there("mine.env"));
        assert_eq!(place.waiting(), 0);

        let mut approver = Approver::open(place.server.connect().await, "ann").await.unwrap();
        let waits = WriteFileRequest {
            call: Some(CallOptions {
                unattended: Unattended::Wait.into(),
                ..CallOptions::default()
            }),
            ..write("asked.txt", b"new\n")
        };
        let (written, _) = tokio::join!(place.write_file(waits), async {
            let prompt = approver.added().await;
            let Some(prompt::Request::Permission(permission)) = &prompt.request else {
                panic!("{prompt:?}")
            };
            assert_eq!(
                (permission.permission.as_str(), &permission.patterns[..]),
                ("edit", &["asked.txt".to_owned()][..])
            );
            let shown = permission.metadata.as_ref().unwrap().fields["sha256"].clone();
            assert_eq!(
                shown.kind,
                Some(prost_types::value::Kind::StringValue(sha256(b"new\n")))
            );
            assert!(approver.send(reply(&prompt, PromptDecision::Once)).await);
        });
        written.unwrap();
        assert_eq!(place.text("asked.txt"), "new\n");
    });
}
