//! Changes of files, and the contents that they refer to.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use bytes::Bytes;
use toolgate_model::{CallId, FileChange, FileVersion, InstanceId, Timestamp};
use toolgate_store::{Store, StoreError};

use super::{Fixture, create, end, hostile, record};

const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

async fn put(store: &dyn Store, text: &str) -> FileVersion {
    let sha256 = store.put_blob(Bytes::from(text.to_owned())).await.unwrap();
    FileVersion {
        sha256,
        bytes: text.len() as u64,
        mode: Some(0o644),
    }
}

fn change(path: &str, before: Option<FileVersion>, after: Option<FileVersion>) -> FileChange {
    FileChange {
        path: PathBuf::from(path),
        shown: PathBuf::from(format!("/shown{path}")),
        before,
        after,
    }
}

pub(crate) async fn contents_are_kept(fixture: &dyn Fixture) {
    let store = fixture.open(&InstanceId::generate()).await;
    let elsewhere = fixture.open(&InstanceId::generate()).await;
    for bytes in [&b""[..], b"text", b"\xff\0\n", &[7; 1_000_000]] {
        let bytes = Bytes::copy_from_slice(bytes);
        let sha256 = store.put_blob(bytes.clone()).await.unwrap();
        assert_eq!(elsewhere.put_blob(bytes.clone()).await.unwrap(), sha256);
        assert_eq!(elsewhere.blob(&sha256).await.unwrap(), Some(bytes));
    }
    assert_eq!(store.put_blob(Bytes::new()).await.unwrap(), EMPTY);
    let upper = EMPTY.to_uppercase();
    let unknown = "0".repeat(64);
    let escape = format!("../{}", "a".repeat(61));
    for name in ["", "e3", &upper, &unknown, &escape, "/etc/passwd"] {
        assert_eq!(store.blob(name).await.unwrap(), None, "{name:?}");
    }
    for name in hostile() {
        assert_eq!(store.blob(&name).await.unwrap(), None, "{name:?}");
    }
}

pub(crate) async fn changes_are_kept_in_order(fixture: &dyn Fixture) {
    let instance = InstanceId::generate();
    let store = fixture.open(&instance).await;
    let call = create(&*store, record("c", &instance)).await.id;
    assert_eq!(store.changes(&call).await.unwrap(), []);
    let (one, two) = (put(&*store, "one").await, put(&*store, "two").await);
    let no_mode = FileVersion {
        mode: None,
        ..two.clone()
    };
    let mut odd = change("/w", Some(one.clone()), None);
    odd.path = PathBuf::from(OsString::from_vec(b"/w/\xff\n'".to_vec()));
    let first = vec![
        change("/w/b", None, Some(no_mode)),
        change("/w/a", Some(one), Some(two)),
    ];
    store.record_changes(&call, first.clone()).await.unwrap();
    store.record_changes(&call, vec![odd.clone()]).await.unwrap();
    store.record_changes(&call, Vec::new()).await.unwrap();
    let expected = [first, vec![odd]].concat();
    assert_eq!(store.changes(&call).await.unwrap(), expected);

    fixture.stop(&instance).await;
    let store = fixture.open(&InstanceId::generate()).await;
    assert_eq!(store.changes(&call).await.unwrap(), expected);
    let unknown = CallId::from("unknown");
    assert_eq!(store.changes(&unknown).await.unwrap(), []);
    let refused = store.record_changes(&unknown, expected).await;
    assert!(matches!(refused, Err(StoreError::NotFound(_))), "{refused:?}");
}

pub(crate) async fn changes_go_with_their_call(fixture: &dyn Fixture) {
    let instance = InstanceId::generate();
    let store = fixture.open(&instance).await;
    let shared = put(&*store, "shared").await;
    let mut calls = Vec::new();
    for (id, ended) in [("old", 1_000), ("new", 3_000)] {
        let mut call = create(&*store, record(id, &instance)).await;
        let changes = vec![change("/w/a", None, Some(shared.clone()))];
        store.record_changes(&call.id, changes).await.unwrap();
        let events = end(&mut call, Timestamp(ended));
        store.append(call.clone(), events).await.unwrap();
        calls.push(call.id);
    }
    assert_eq!(store.sweep_calls(Timestamp(2_000)).await.unwrap(), 1);
    assert_eq!(store.changes(&calls[0]).await.unwrap(), []);
    assert_eq!(store.changes(&calls[1]).await.unwrap().len(), 1);
    assert_eq!(
        store.blob(&shared.sha256).await.unwrap(),
        Some(Bytes::from_static(b"shared"))
    );
    // The id may come again, without the changes of its predecessor.
    create(&*store, record("old", &instance)).await;
    assert_eq!(store.changes(&calls[0]).await.unwrap(), []);
}
