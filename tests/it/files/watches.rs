//! What front ends are told of files.

use std::collections::BTreeSet;

use tonic::{Code, Status, Streaming};
use toolgate_contract::watch_files_response::News;

use super::*;

fn watch(path: &str, cursor: &str) -> WatchFilesRequest {
    WatchFilesRequest {
        path: path.to_owned(),
        cursor: cursor.to_owned(),
        ..WatchFilesRequest::default()
    }
}

struct Watched {
    stream: Streaming<WatchFilesResponse>,
    cursor: String,
}

impl Place {
    async fn watch(&self, path: &str, cursor: &str) -> Result<Watched, Status> {
        let mut stream = self.client().watch_files(watch(path, cursor)).await?.into_inner();
        let first = stream.message().await?.unwrap();
        assert!(
            matches!(first.news, Some(News::Watched(FilesWatched { partial: false }))),
            "{first:?}"
        );
        let cursor = first.cursor;
        Ok(Watched { stream, cursor })
    }
}

impl Watched {
    /// Collects what is there and what is gone until a path is told.
    async fn until(&mut self, path: &str) -> (BTreeSet<String>, BTreeSet<String>) {
        let (mut there, mut gone) = (BTreeSet::new(), BTreeSet::new());
        while !there.contains(path) && !gone.contains(path) {
            let next = self.stream.message().await.unwrap().unwrap();
            self.cursor = next.cursor;
            match next.news {
                Some(News::Changed(changed)) => {
                    there.extend(changed.files.into_iter().map(|file| file.path));
                    gone.extend(changed.gone_paths);
                }
                Some(News::Heartbeat(_)) => {}
                other => panic!("{other:?}"),
            }
        }
        (there, gone)
    }
}

#[test]
fn what_happens_is_told_and_a_lost_stream_goes_on() {
    test(async {
        let place = Place::new().await;
        place.write("src/old", "old");
        let mut all = place.watch("", "").await.unwrap();
        let mut below = place.watch("src/deep", "").await;
        refused(
            below.as_mut().map(|_| ()).map_err(|status| status.clone()),
            Code::NotFound,
            "NOT_FOUND",
        );
        place.write("src/deep/new", "new");
        assert!(all.until("src/deep/new").await.0.contains("src/deep"));
        let cursor = all.cursor.clone();
        drop(all);
        std::fs::remove_file(place.server.work().join("src/old")).unwrap();
        place.write("later", "");
        let mut again = place.watch("", &cursor).await.unwrap();
        let (there, gone) = again.until("later").await;
        assert!(
            gone.contains("src/old") || again.until("src/old").await.1.contains("src/old"),
            "{there:?} {gone:?}"
        );
        // Only what lies in the folder is told of it.
        let mut below = place.watch("src", &cursor).await.unwrap();
        place.write("src/last", "");
        let (there, gone) = below.until("src/last").await;
        assert!(
            gone.contains("src/old") && !there.contains("later"),
            "{there:?} {gone:?}"
        );
        // What a tool does is told as well.
        place
            .server
            .run("write", json!({"filePath": "by-tool", "content": "x"}))
            .await;
        again.until("by-tool").await;
    });
}

#[test]
fn a_cursor_of_another_time_is_too_old() {
    test(async {
        let mut place = Place::new().await;
        let first = place.watch("", "").await.unwrap();
        let cursor = first.cursor.clone();
        drop(first);
        refused(
            place.watch("", "nonsense").await.map(|_| ()),
            Code::InvalidArgument,
            "INVALID_FIELD",
        );
        refused(
            place.watch("", &format!("{cursor}9")).await.map(|_| ()),
            Code::OutOfRange,
            "CURSOR_TOO_OLD",
        );
        place.server.kill9().await;
        place.server.restart().await;
        place.client = FileServiceClient::new(place.server.channel());
        refused(
            place.watch("", &cursor).await.map(|_| ()),
            Code::OutOfRange,
            "CURSOR_TOO_OLD",
        );
    });
}

#[test]
fn what_may_not_be_seen_is_not_told() {
    test(async {
        let place = Place::ruled(json!({"read": {"*": "allow", "private*": "deny"}})).await;
        tempt(&place);
        place.write("private/key", "");
        place.write(".gitignore", "out/\n");
        std::fs::create_dir(place.server.work().join(".git")).unwrap();
        std::fs::create_dir(place.server.work().join("out")).unwrap();
        for path in OUTSIDE {
            refused(
                place.watch(path, "").await.map(|_| ()),
                Code::PermissionDenied,
                "OUTSIDE_WORKSPACE",
            );
        }
        refused(
            place.watch("private", "").await.map(|_| ()),
            Code::PermissionDenied,
            "DENIED_BY_RULE",
        );
        let mut watched = place.watch("", "").await.unwrap();
        for path in ["private/key", "out/x", ".git/x", "link/secret", "seen"] {
            place.write(path, "new");
        }
        let (there, gone) = watched.until("seen").await;
        assert_eq!((there, gone), (BTreeSet::from(["seen".to_owned()]), BTreeSet::new()));
    });
}

#[test]
fn other_ignore_rules_mean_to_look_again() {
    test(async {
        let place = Place::new().await;
        std::fs::create_dir(place.server.work().join(".git")).unwrap();
        let mut watched = place.watch("", "").await.unwrap();
        place.write(".gitignore", "out/\n");
        let next = watched.stream.message().await.unwrap().unwrap();
        assert!(matches!(next.news, Some(News::Missed(_))), "{next:?}");
    });
}
