//! Folders as archives, in both directions.

use tokio_stream::iter;
use tonic::{Code, Status};
use toolgate_fs::archive::{self, END, padding};
use toolgate_fs::newest::Modified;
use toolgate_fs::tree::{Entry, EntryKind, Facts};

use super::*;

fn download(path: &str) -> DownloadArchiveRequest {
    DownloadArchiveRequest {
        path: path.to_owned(),
        ..DownloadArchiveRequest::default()
    }
}

/// Makes an archive of names, kinds and contents.
fn tar(entries: &[(&str, EntryKind, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, kind, content) in entries {
        let entry = Entry {
            relative: name.into(),
            facts: Facts {
                kind: *kind,
                size: content.len() as u64,
                mode: 0o755,
                modified: Modified { seconds: 0, nanos: 0 },
            },
            link: (*kind == EntryKind::Link).then(|| "/etc".into()),
            closed: false,
        };
        bytes.extend(archive::header(&entry, content.len() as u64).unwrap());
        bytes.extend_from_slice(content);
        bytes.resize(bytes.len() + usize::try_from(padding(content.len() as u64)).unwrap(), 0);
    }
    bytes.extend(END);
    bytes
}

impl Place {
    async fn download(&self, request: DownloadArchiveRequest) -> Result<(Vec<u8>, ArchiveEnd), Status> {
        let mut stream = self.client().download_archive(request).await?.into_inner();
        let mut bytes = Vec::new();
        while let Some(next) = stream.message().await? {
            if let Some(end) = next.end {
                assert!(stream.message().await?.is_none());
                return Ok((bytes, end));
            }
            assert!(next.data.len() <= 64 << 10);
            bytes.extend_from_slice(&next.data);
        }
        panic!("the archive has no end");
    }

    async fn upload(&self, path: &str, bytes: &[u8]) -> Result<String, Status> {
        let first = UploadArchiveRequest {
            target: Some(ArchiveTarget {
                path: path.to_owned(),
                if_absent: false,
            }),
            ..UploadArchiveRequest::default()
        };
        let pieces = bytes.chunks(10_000).map(|piece| UploadArchiveRequest {
            data: piece.to_vec().into(),
            ..UploadArchiveRequest::default()
        });
        let stream: Vec<_> = [first].into_iter().chain(pieces).collect();
        let response = self.client().upload_archive(iter(stream)).await?;
        Ok(response.into_inner().call_id)
    }
}

#[test]
fn a_folder_goes_out_and_comes_in() {
    test(async {
        let rules = json!({"read": {"*": "allow", "*.env": "ask", "*.key": "deny"}});
        let place = Place::ruled(rules).await;
        let large = vec![7_u8; 200_000];
        place.write("src/large", &large);
        place.write("src/deep/empty", "");
        place.write("src/a.env", "secret");
        place.write("src/b.key", "secret");
        place.pipe("src/pipe");
        let (bytes, end) = place.download(download("src")).await.unwrap();
        assert_eq!(
            (end.entries, &end.omitted_paths[..]),
            (3, &["src/a.env".to_owned(), "src/pipe".to_owned()][..])
        );
        assert!(!String::from_utf8_lossy(&bytes).contains("secret"));
        let call = place.upload("copy", &bytes).await.unwrap();
        assert_eq!(std::fs::read(place.server.work().join("copy/large")).unwrap(), large);
        assert!(place.is_there("copy/deep/empty"));
        assert_eq!(place.server.get(&call).await.changes.len(), 2);
        // The links of a folder go out as such.
        place.link("src/link", "/etc");
        let (bytes, end) = place.download(download("src")).await.unwrap();
        assert_eq!(end.entries, 4);
        refused(
            place.upload("other", &bytes).await,
            Code::FailedPrecondition,
            "BAD_ARCHIVE",
        );
        assert!(!place.is_there("other"));
    });
}

#[test]
fn what_does_not_belong_in_a_folder_stays_out() {
    test(async {
        let place = Place::new().await;
        tempt(&place);
        let file = EntryKind::File;
        for name in OUTSIDE {
            refused(
                place.download(download(name)).await,
                Code::PermissionDenied,
                "OUTSIDE_WORKSPACE",
            );
        }
        refused(
            place.upload("link", &tar(&[("x", file, b"x")])).await,
            Code::PermissionDenied,
            "OUTSIDE_WORKSPACE",
        );
        // A link inside of the folder that the archive comes to.
        place.link("a/out", "../../beside");
        place.write("other/x", "x");
        place.link("a/in", "../other");
        for name in ["out/x", "in/x"] {
            let sent = tar(&[("first", file, b"1"), (name, file, b"x")]);
            refused(
                place.upload("a", &sent).await,
                Code::PermissionDenied,
                "OUTSIDE_WORKSPACE",
            );
        }
        let bad = Code::FailedPrecondition;
        refused(
            place.upload("a", b"no archive, but long enough to be one").await,
            bad,
            "BAD_ARCHIVE",
        );
        let linked = tar(&[("first", file, b"1"), ("l", EntryKind::Link, b"")]);
        refused(place.upload("a", &linked).await, bad, "BAD_ARCHIVE");
        let twice = tar(&[("first", file, b"1"), ("first", file, b"2")]);
        refused(place.upload("a", &twice).await, bad, "BAD_ARCHIVE");
        let names: Vec<String> = (0..2001).map(|index| index.to_string()).collect();
        let many: Vec<_> = names.iter().map(|name| (name.as_str(), file, &b""[..])).collect();
        refused(place.upload("a", &tar(&many)).await, bad, "FILE_TOO_LARGE");
        assert!(!place.is_there("a/first") && !place.is_there("a/0"));
        // One that cannot be written keeps the others out.
        place.write("a/dir/x", "");
        let sent = tar(&[("first", file, b"1"), ("dir", file, b"2")]);
        refused(place.upload("a", &sent).await, bad, "IS_FOLDER");
        assert!(!place.is_there("a/first"));
        place.write("k/old", "old");
        place.write("k/plain", "a file");
        let sent = tar(&[("old", file, b"new"), ("plain", EntryKind::Folder, b"")]);
        refused(place.upload("k", &sent).await, bad, "NOT_A_FOLDER");
        assert_eq!(std::fs::read(place.server.work().join("k/old")).unwrap(), b"old");
    });
}

#[test]
fn rules_decide_what_an_archive_writes() {
    test(async {
        let place = Place::ruled(json!({"edit": {"*": "allow", "in/kept*": "deny"}})).await;
        let sent = tar(&[("free", EntryKind::File, b"1"), ("kept", EntryKind::File, b"2")]);
        refused(
            place.upload("in", &sent).await,
            Code::PermissionDenied,
            "DENIED_BY_RULE",
        );
        assert!(!place.is_there("in"));
        place.upload("out", &sent).await.unwrap();
        assert_eq!(place.text("out/kept"), "2");
    });
}
