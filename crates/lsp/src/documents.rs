//! The files that a server has been told of: opened once, then told anew whenever they are looked at.
//!
//! *Invariant:* a server hears of a file's versions in order, whoever tells it: the file is read and the server told under one
//! lock. No more than [`MAX_OPEN`] files are open at a server, and none is larger than [`MAX_BYTES`].

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;
use toolgate_fs::document::text_of;
use toolgate_fs::path::file_url;
use toolgate_fs::{FileError, ResolvedPath};

use super::client::Client;
use super::diagnostic::Diagnostic;
use super::language;
use super::reports::ReportMark;

/// Bytes of the largest file that servers are told of.
pub const MAX_BYTES: u64 = 4 << 20;

/// Files that are open at a server at once; the one that was not looked at for longest is closed.
const MAX_OPEN: usize = 256;

/// How long a server's findings are waited for.
pub const MAX_WAIT: Duration = Duration::from_secs(3);

/// The open files of one server.
#[derive(Debug, Default)]
pub(super) struct Documents(HashMap<PathBuf, Open>);

#[derive(Debug)]
struct Open {
    version: i64,
    /// What the text is known by: its length and hash.
    digest: (usize, u64),
    used: Instant,
}

/// A file that a server knows as it is.
#[derive(Clone, Debug)]
pub struct Document {
    /// Its text, as the server knows it.
    pub text: Arc<str>,
    /// Whether the server has been told of another text than before.
    pub is_new: bool,
    path: PathBuf,
    version: i64,
    mark: ReportMark,
}

/// What became of a file since the server was last told of it.
const CREATED: u8 = 1;
const CHANGED: u8 = 2;
const DELETED: u8 = 3;

impl Client {
    /// Tells the server what a file holds now, and returns without waiting for it; none if there is no file.
    ///
    /// # Errors
    /// The file cannot be read, or is larger than [`MAX_BYTES`].
    pub async fn open(&self, path: &ResolvedPath) -> Result<Option<Document>, FileError> {
        let mut documents = self.documents.lock().await;
        let _using = self.begin_use();
        let wanted = path.clone();
        let read = tokio::task::spawn_blocking(move || text_of(&wanted, MAX_BYTES)).await;
        let Some(text) = read.map_err(FileError::Interrupted)?? else {
            self.close(&mut documents, path.display_path());
            return Ok(None);
        };
        let mark = self.reports.mark();
        Ok(Some(self.tell(&mut documents, path.display_path(), text.into(), mark)))
    }

    fn tell(&self, documents: &mut Documents, path: &Path, text: Arc<str>, mark: ReportMark) -> Document {
        let uri = file_url(path);
        let known = documents.0.get_mut(path);
        let is_known = known.is_some();
        let kind = if is_known { CHANGED } else { CREATED };
        let changes = json!({"changes": [{"uri": uri, "type": kind}]});
        self.notify("workspace/didChangeWatchedFiles", changes);
        let digest = digest_of(&text);
        let (version, is_new) = match known {
            Some(open) => {
                let is_new = open.digest != digest;
                open.version += 1;
                open.digest = digest;
                open.used = Instant::now();
                let document = json!({"uri": uri, "version": open.version});
                let params = json!({"textDocument": document, "contentChanges": [{"text": &*text}]});
                self.notify("textDocument/didChange", params);
                (open.version, is_new)
            }
            None => {
                self.make_room(documents);
                let document = json!({
                    "uri": uri,
                    "languageId": language::id_of(path),
                    "version": 0,
                    "text": &*text,
                });
                self.notify("textDocument/didOpen", json!({"textDocument": document}));
                let open = Open {
                    version: 0,
                    digest,
                    used: Instant::now(),
                };
                documents.0.insert(path.to_path_buf(), open);
                (0, true)
            }
        };
        Document {
            text,
            is_new,
            path: path.to_path_buf(),
            version,
            mark,
        }
    }

    fn make_room(&self, documents: &mut Documents) {
        if documents.0.len() < MAX_OPEN {
            return;
        }
        let oldest = documents.0.iter().min_by_key(|(_, open)| open.used);
        if let Some(oldest) = oldest.map(|(path, _)| path.clone()) {
            documents.0.remove(&oldest);
            let document = json!({"uri": file_url(&oldest)});
            self.notify("textDocument/didClose", json!({"textDocument": document}));
        }
    }

    /// Tells the server that a file is gone, if it knows it.
    fn close(&self, documents: &mut Documents, path: &Path) {
        if documents.0.remove(path).is_none() {
            return;
        }
        let uri = file_url(path);
        let changes = json!({"changes": [{"uri": uri, "type": DELETED}]});
        self.notify("workspace/didChangeWatchedFiles", changes);
        self.notify("textDocument/didClose", json!({"textDocument": {"uri": uri}}));
        self.reports.forget(path);
    }

    /// Waits until the server has had its say about what it was told, but not for longer than `limit` nor [`MAX_WAIT`].
    /// Returns what it found; none if it has said nothing.
    pub async fn findings(&self, document: &Document, limit: Duration) -> Option<Arc<[Diagnostic]>> {
        let _using = self.begin_use();
        let until = Instant::now() + limit.min(MAX_WAIT);
        let settled = self
            .reports
            .settled(&document.path, document.mark, document.version, until);
        tokio::select! {
            found = settled => found,
            () = self.ended() => None,
        }
    }

    /// Returns what the server last reported of a file.
    pub fn reported(&self, path: &Path) -> Arc<[Diagnostic]> {
        self.reports.found_in(path)
    }
}

fn digest_of(text: &str) -> (usize, u64) {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    (text.len(), hasher.finish())
}
