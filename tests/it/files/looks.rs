//! What front ends see of files.

use tokio_stream::StreamExt as _;
use tonic::{Code, Status};
use toolgate_fs::marks::sha256;

use super::*;

fn stat(path: &str) -> StatFileRequest {
    StatFileRequest {
        path: path.to_owned(),
        with_sha256: true,
        ..StatFileRequest::default()
    }
}

fn read(path: &str) -> ReadFileRequest {
    ReadFileRequest {
        path: path.to_owned(),
        with_sha256: true,
        ..ReadFileRequest::default()
    }
}

fn list(path: &str, depth: i32) -> ListFilesRequest {
    ListFilesRequest {
        path: path.to_owned(),
        depth,
        ..ListFilesRequest::default()
    }
}

impl Place {
    async fn stat(&self, path: &str) -> Result<FileInfo, Status> {
        let response = self.client().stat_file(stat(path)).await?;
        Ok(response.into_inner().file.unwrap())
    }

    async fn read(&self, request: ReadFileRequest) -> Result<(FileInfo, Vec<u8>), Status> {
        let mut stream = self.client().read_file(request).await?.into_inner();
        let first = stream.next().await.unwrap()?;
        let mut offset = first.offset;
        let mut content = Vec::new();
        while let Some(piece) = stream.next().await {
            let piece = piece?;
            assert!(piece.file.is_none() && piece.offset == offset && piece.data.len() <= 64 << 10);
            offset += i64::try_from(piece.data.len()).unwrap();
            content.extend_from_slice(&piece.data);
        }
        Ok((first.file.unwrap(), content))
    }

    async fn names(&self, request: ListFilesRequest) -> Result<Vec<String>, Status> {
        let (mut names, mut request) = (Vec::new(), request);
        for _ in 0..100 {
            let page = self.client().list_files(request.clone()).await?.into_inner();
            names.extend(page.files.into_iter().map(|file| file.path));
            request.page_token = page.next_page_token;
            if request.page_token.is_empty() {
                return Ok(names);
            }
        }
        panic!("there is no end: {names:?}");
    }
}

#[test]
fn a_file_is_shown_as_it_is() {
    test(async {
        let place = Place::new().await;
        let content: Vec<u8> = (0..200_000_u32).flat_map(u32::to_le_bytes).collect();
        place.write("deep/a.bin", &content);
        place.link("link", "deep/a.bin");
        let file = place.stat("deep/a.bin").await.unwrap();
        assert_eq!(
            (file.path.as_str(), file.kind(), file.size_bytes),
            ("deep/a.bin", FileKind::File, 800_000)
        );
        assert_eq!(
            (file.sha256.as_str(), file.mode & 0o600),
            (sha256(&content).as_str(), 0o600)
        );
        let absolute = place.server.work().canonicalize().unwrap().join("deep/a.bin");
        for path in ["./deep/../deep/a.bin", absolute.to_str().unwrap()] {
            assert_eq!(place.stat(path).await.unwrap(), file);
        }
        let link = place.stat("link").await.unwrap();
        assert_eq!(
            (link.link_target.as_str(), link.kind(), &link.sha256),
            ("deep/a.bin", FileKind::File, &file.sha256)
        );
        let folder = place.stat("").await.unwrap();
        assert_eq!((folder.path.as_str(), folder.kind()), (".", FileKind::Folder));

        assert_eq!(place.read(read("deep/a.bin")).await.unwrap(), (file, content.clone()));
        let ranged = |offset, limit| ReadFileRequest {
            range: Some(ByteRange { offset, limit }),
            ..read("link")
        };
        assert_eq!(place.read(ranged(70_001, 5)).await.unwrap().1, content[70_001..70_006]);
        assert_eq!(place.read(ranged(799_990, 0)).await.unwrap().1, content[799_990..]);
        assert!(place.read(ranged(800_000, 0)).await.unwrap().1.is_empty());
        refused(place.read(ranged(-1, 0)).await, Code::InvalidArgument, "INVALID_FIELD");
        refused(place.stat("none").await, Code::NotFound, "NOT_FOUND");
        refused(place.stat("deep/a.bin/below").await, Code::NotFound, "NOT_FOUND");
        refused(place.read(read("deep")).await, Code::FailedPrecondition, "IS_FOLDER");
        let elsewhere = StatFileRequest {
            context: Some(CallContext {
                workspace: "elsewhere".to_owned(),
                ..CallContext::default()
            }),
            ..stat("link")
        };
        refused(place.client().stat_file(elsewhere).await, Code::NotFound, "NOT_FOUND");
    });
}

#[test]
fn nothing_is_shown_that_lies_outside() {
    test(async {
        let place = Place::new().await;
        tempt(&place);
        for path in OUTSIDE {
            refused(place.stat(path).await, Code::PermissionDenied, "OUTSIDE_WORKSPACE");
            refused(
                place.read(read(path)).await,
                Code::PermissionDenied,
                "OUTSIDE_WORKSPACE",
            );
            refused(
                place.names(list(path, 9)).await,
                Code::PermissionDenied,
                "OUTSIDE_WORKSPACE",
            );
        }
        refused(place.stat("a\0b").await, Code::InvalidArgument, "INVALID_FIELD");
        refused(
            place.stat(&"a/".repeat(3000)).await,
            Code::InvalidArgument,
            "INVALID_FIELD",
        );
        // A link is listed as one, and not entered.
        assert_eq!(place.names(list("", 9)).await.unwrap(), ["a", "a/b", "file", "link"]);
        place.link("circle", "circle");
        assert!(place.stat("circle").await.is_err());
    });
}

#[test]
fn pipes_and_devices_are_not_waited_for() {
    test(async {
        let place = Place::new().await;
        place.pipe("pipe");
        let _socket = std::os::unix::net::UnixListener::bind(place.server.work().join("socket")).unwrap();
        for path in ["pipe", "socket"] {
            assert_eq!(place.stat(path).await.unwrap().kind(), FileKind::Other);
            refused(place.read(read(path)).await, Code::FailedPrecondition, "NOT_A_FILE");
            refused(
                place.names(list(path, 1)).await,
                Code::FailedPrecondition,
                "NOT_A_FOLDER",
            );
        }
        assert_eq!(place.names(list("", 1)).await.unwrap(), ["pipe", "socket"]);
    });
}

#[test]
fn a_tree_is_shown_page_by_page() {
    test(async {
        let place = Place::new().await;
        for index in 0..25 {
            place.write(&format!("many/{index:02}"), "");
        }
        place.write(".git/config", "");
        place.write(".gitignore", "out/\n");
        place.write("out/x", "");
        let all = place.names(list("", 2)).await.unwrap();
        assert_eq!(
            (all.len(), all[0].as_str(), all[1].as_str(), all[26].as_str()),
            (27, ".gitignore", "many", "many/24")
        );
        let small = ListFilesRequest {
            page_size: 4,
            ..list("", 2)
        };
        assert_eq!(place.names(small).await.unwrap(), all);
        assert_eq!(place.names(list("", 0)).await.unwrap(), [".gitignore", "many"]);
        let ignored = ListFilesRequest {
            include_ignored: true,
            ..list("", 2)
        };
        let more = place.names(ignored).await.unwrap();
        assert!(
            [".git/config", "out/x"]
                .iter()
                .all(|path| more.iter().any(|one| one == path)),
            "{more:?}"
        );
        use std::os::unix::ffi::OsStrExt as _;
        let odd = std::ffi::OsStr::from_bytes(b"many/\xff");
        std::fs::write(place.server.work().join(odd), "").unwrap();
        let page = place.client().list_files(list("many", 1)).await.unwrap().into_inner();
        let last = page.files.last().unwrap();
        assert_eq!((last.path.as_str(), last.path_is_lossy), ("many/\u{fffd}", true));
        for bad in [
            ListFilesRequest {
                page_size: -1,
                ..list("", 1)
            },
            ListFilesRequest {
                page_token: "*".to_owned(),
                ..list("", 1)
            },
            list("", -1),
        ] {
            refused(place.names(bad).await, Code::InvalidArgument, "INVALID_FIELD");
        }
        refused(place.names(list("none", 1)).await, Code::NotFound, "NOT_FOUND");
        refused(
            place.names(list(".gitignore", 1)).await,
            Code::FailedPrecondition,
            "NOT_A_FOLDER",
        );
    });
}

#[test]
fn rules_decide_what_is_shown() {
    test(async {
        let rules = json!({"read": {"*": "allow", "*.env": "ask", "private*": "deny"}, "list": {"*": "allow", "*closed": "deny"}});
        let place = Place::ruled(rules).await;
        place.write("private/key", "k");
        place.write("a.env", "e");
        place.write("closed/x", "x");
        place.link("alias", "private/key");
        for path in ["private", "private/key", "alias"] {
            refused(place.stat(path).await, Code::PermissionDenied, "DENIED_BY_RULE");
        }
        refused(
            place.read(read("private/key")).await,
            Code::PermissionDenied,
            "DENIED_BY_RULE",
        );
        refused(
            place.read(read("a.env")).await,
            Code::PermissionDenied,
            "PERMISSION_NEEDED",
        );
        refused(
            place.names(list("closed", 1)).await,
            Code::PermissionDenied,
            "DENIED_BY_RULE",
        );
        let names = place.names(list("", 3)).await.unwrap();
        assert_eq!(names, ["a.env", "alias", "closed", "closed/x"]);
        let nobody = StatFileRequest {
            context: Some(CallContext {
                agent: "nobody".to_owned(),
                ..CallContext::default()
            }),
            ..stat("a.env")
        };
        refused(
            place.client().stat_file(nobody).await,
            Code::InvalidArgument,
            "INVALID_FIELD",
        );
    });
}

#[test]
fn a_standing_approval_shows_what_a_person_was_asked_about_and_the_audit_has_it() {
    test(async {
        let place = Place::ruled(json!({"read": {"*": "allow", "*.env": "ask"}})).await;
        place.write("a.env", "secret");
        refused(
            place.read(read("a.env")).await,
            Code::PermissionDenied,
            "PERMISSION_NEEDED",
        );
        let mut approver = Approver::open(place.server.connect().await, "ann").await.unwrap();
        let (_, ()) = tokio::join!(
            place.server.execute(request("read", json!({"filePath": "a.env"}))),
            async {
                let prompt = approver.added().await;
                assert!(approver.send(reply(&prompt, PromptDecision::Always)).await);
            }
        );
        assert_eq!(place.read(read("a.env")).await.unwrap().1, b"secret");

        // What is not decided by a person is recorded a moment later.
        let expected = [(json!("refused"), false), (json!("allowed"), true)];
        eventually("both are recorded", async || audited(&place).await == expected).await;
    });
}

/// Returns what the audit says of files that were looked at: what was decided, and whether by standing approvals.
async fn audited(place: &Place) -> Vec<(Value, bool)> {
    let mut client = audit_service_client::AuditServiceClient::new(place.server.channel());
    let mut parts = client
        .export_audit(ExportAuditRequest::default())
        .await
        .unwrap()
        .into_inner();
    let mut looked = Vec::new();
    while let Some(part) = parts.message().await.unwrap() {
        for record in part.records {
            let record: Value = serde_json::from_str(&record).unwrap();
            if record["tool"] == "files" {
                assert_eq!(record["patterns"], json!(["a.env"]));
                looked.push((record["kind"].clone(), record["grants"].is_array()));
            }
        }
    }
    looked
}
