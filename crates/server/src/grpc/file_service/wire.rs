//! Entries of folders as the contract has them.

use std::path::Path;

use toolgate_contract as proto;
use toolgate_fs::tree::{Entry, EntryKind, Facts};

use crate::grpc::convert::int;

/// Makes the entry at a path; `path` is what it is called.
pub(super) fn file(path: String, facts: &Facts) -> proto::FileInfo {
    let kind = match facts.kind {
        EntryKind::File => proto::FileKind::File,
        EntryKind::Folder => proto::FileKind::Folder,
        EntryKind::Link => proto::FileKind::Link,
        EntryKind::Other => proto::FileKind::Other,
    };
    proto::FileInfo {
        path,
        kind: kind.into(),
        size_bytes: int(facts.size),
        mode: facts.mode,
        modify_time: Some(prost_types::Timestamp {
            seconds: facts.modified.seconds,
            nanos: i32::try_from(facts.modified.nanos).unwrap_or_default(),
        }),
        ..proto::FileInfo::default()
    }
}

/// Makes an entry of a tree; `path` is what it is called.
pub(super) fn entry(path: String, entry: &Entry) -> proto::FileInfo {
    proto::FileInfo {
        link_target: target(entry.link.as_deref()),
        path_is_lossy: entry.relative.to_str().is_none(),
        unreadable: entry.closed,
        ..file(path, &entry.facts)
    }
}

/// Returns where a link leads, as text.
pub(super) fn target(link: Option<&Path>) -> String {
    link.map(|link| link.to_string_lossy().into_owned()).unwrap_or_default()
}
