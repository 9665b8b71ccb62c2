//! Which workspaces were created, and what is to become of each: a file in the data folder, as they are folders of this machine.
//!
//! *Invariant:* the file has one whole list or another: it is written under another name and renamed. What is in memory is what is
//! in the file.

#![allow(clippy::disallowed_methods)] // the data folder is the service's own

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use async_trait::async_trait;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use toolgate_model::{Timestamp, WorkspaceSource};

use crate::provision::{Placements, Wanted};

const FILE: &str = "created_workspaces.json";

/// How far a created workspace is, and so what is to be done for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Stage {
    /// It is being made.
    Creating,
    /// It is open, or was when the service stopped.
    Ready,
    /// It is suspended.
    Suspended,
    /// It could not be made, for this reason.
    Failed(String),
    /// It is being deleted.
    Deleting,
}

/// A workspace that was created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) name: String,
    pub(super) source: WorkspaceSource,
    /// The principal, or empty without authentication.
    pub(super) by: String,
    pub(super) time: Timestamp,
    pub(super) stage: Stage,
    /// The id of the request for the place, which stays the same when it is tried again.
    pub(super) request: String,
    /// The root below which its folder was placed. Noted before that is done.
    #[serde(default)]
    pub(super) placed: Option<PathBuf>,
}

impl Record {
    /// Returns where its folder is, or will be below the root that holds now.
    pub(super) fn folder(&self, root: &Path) -> PathBuf {
        self.placed.as_deref().unwrap_or(root).join(&self.name)
    }

    /// Returns what is asked of a provisioner.
    pub(super) fn wanted(&self) -> Wanted {
        Wanted {
            workspace: self.name.clone(),
            source: self.source.clone(),
            by: self.by.clone(),
            request: self.request.clone(),
        }
    }
}

/// The file.
pub(super) struct Records {
    path: PathBuf,
    /// By name. Never held across an await.
    all: Mutex<BTreeMap<String, Record>>,
    /// Held while the list is changed.
    changing: tokio::sync::Mutex<()>,
}

impl Records {
    /// Reads the file. Folders of which earlier releases have not said where they are, are below `root`. Blocking.
    ///
    /// # Errors
    /// It cannot be read.
    pub(super) fn open(data_dir: &Path, root: &Path) -> anyhow::Result<Self> {
        let path = data_dir.join(FILE);
        let all: Vec<Record> = match fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text).with_context(|| format!("cannot read {}", path.display()))?,
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        let all = all.into_iter().map(|mut record| {
            if matches!(record.stage, Stage::Ready | Stage::Suspended) {
                record.placed.get_or_insert_with(|| root.to_path_buf());
            }
            (record.name.clone(), record)
        });
        Ok(Self {
            path,
            all: Mutex::new(all.collect()),
            changing: tokio::sync::Mutex::default(),
        })
    }

    /// Returns all, by name.
    pub(super) fn all(&self) -> Vec<Record> {
        self.all.lock().values().cloned().collect()
    }

    /// Returns the one of a name.
    pub(super) fn get(&self, name: &str) -> Option<Record> {
        self.all.lock().get(name).cloned()
    }

    /// Keeps a record, in the place of that of the same name.
    ///
    /// # Errors
    /// It could not be written; nothing is changed.
    pub(super) async fn keep(&self, record: Record) -> io::Result<()> {
        self.change(|all| {
            all.insert(record.name.clone(), record);
        })
        .await
    }

    /// Changes what of a record may change beside others; returns it as it is then, if there is one.
    ///
    /// # Errors
    /// It could not be written; nothing is changed.
    pub(super) async fn update(&self, name: &str, update: impl FnOnce(&mut Record)) -> io::Result<Option<Record>> {
        self.change(|all| {
            all.get_mut(name).map(|record| {
                update(record);
                record.clone()
            })
        })
        .await
    }

    /// Forgets the record of a name.
    ///
    /// # Errors
    /// It could not be written; nothing is changed.
    pub(super) async fn forget(&self, name: &str) -> io::Result<()> {
        self.change(|all| {
            all.remove(name);
        })
        .await
    }

    async fn change<T>(&self, change: impl FnOnce(&mut BTreeMap<String, Record>) -> T) -> io::Result<T> {
        let _changing = self.changing.lock().await;
        let mut all = self.all.lock().clone();
        let changed = change(&mut all);
        let list: Vec<&Record> = all.values().collect();
        let (path, text) = (self.path.clone(), serde_json::to_vec(&list)?);
        tokio::task::spawn_blocking(move || write(&path, &text)).await??;
        *self.all.lock() = all;
        Ok(changed)
    }
}

#[async_trait]
impl Placements for Records {
    fn placed(&self, wanted: &Wanted) -> Option<PathBuf> {
        let record = self.get(&wanted.workspace)?;
        record.placed.filter(|_| record.request == wanted.request)
    }

    async fn note(&self, wanted: &Wanted, root: Option<PathBuf>) -> io::Result<()> {
        let noted = self.update(&wanted.workspace, |record| {
            if record.request == wanted.request {
                record.placed = root;
            }
        });
        noted.await.map(drop)
    }
}

fn write(path: &Path, text: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(path);
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(text)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    // Without it the name may still be that of the file before after a loss of power.
    fs::File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_kept_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let records = Records::open(folder.path(), Path::new("/root")).unwrap();
        let record = |name: &str, stage: Stage| Record {
            name: name.to_owned(),
            source: WorkspaceSource::Template("web".to_owned()),
            by: "token:anna".to_owned(),
            time: Timestamp(7),
            stage,
            request: "r".to_owned(),
            placed: None,
        };
        records.keep(record("a", Stage::Creating)).await.unwrap();
        records.keep(record("b/c", Stage::Suspended)).await.unwrap();
        records
            .keep(record("a", Stage::Failed("why".to_owned())))
            .await
            .unwrap();
        let root = Path::new("/root");
        let wanted = record("a", Stage::Creating).wanted();
        records.note(&wanted, Some(root.to_path_buf())).await.unwrap();
        let other = Wanted {
            request: "other".to_owned(),
            ..wanted.clone()
        };
        records.note(&other, None).await.unwrap();
        assert_eq!(
            (records.placed(&wanted), records.placed(&other)),
            (Some(root.into()), None)
        );
        let again = Records::open(folder.path(), root).unwrap();
        assert_eq!(again.get("a"), records.get("a"));
        // An earlier release did not say where it is.
        assert_eq!(again.get("b/c").unwrap().placed.as_deref(), Some(root));
        assert_eq!(again.get("a").unwrap().stage, Stage::Failed("why".to_owned()));
        again.forget("a").await.unwrap();
        assert_eq!(Records::open(folder.path(), root).unwrap().all().len(), 1);
        std::fs::write(folder.path().join(FILE), "{").unwrap();
        assert!(Records::open(folder.path(), root).is_err());
    }
}
