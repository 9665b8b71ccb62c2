//! The workspaces that were opened while a worker ran: a file in its folder, as they are folders of the worker.
//!
//! *Invariant:* the file has one whole list or another: it is written under another name and renamed.

#![allow(clippy::disallowed_methods)] // the folder is the worker's own

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;
use toolgate_model::Timestamp;
use toolgate_store::audit::Fact;
use toolgate_store::codec::failed;
use toolgate_store::{Audit as _, OpenedWorkspace, StoreError, Workspaces};

use crate::store::LedgerStore;
use crate::uploads::blocking;

const FILE: &str = "workspaces.json";

#[derive(Serialize, Deserialize)]
struct Entry {
    name: String,
    directory: String,
    by: String,
    time: Timestamp,
}

/// The file.
pub(crate) struct Kept {
    path: PathBuf,
    /// Held while the list is changed.
    changing: Mutex<()>,
}

impl Kept {
    pub(crate) fn new(folder: &Path) -> Self {
        Self {
            path: folder.join(FILE),
            changing: Mutex::default(),
        }
    }

    /// Returns the list, in the order in which the workspaces were opened.
    pub(crate) async fn read(&self) -> Result<Vec<OpenedWorkspace>, StoreError> {
        let path = self.path.clone();
        let mut all = blocking(move || read(&path)).await?;
        all.sort_by(|one, other| (one.time, &one.name).cmp(&(other.time, &other.name)));
        let opened = |entry: Entry| OpenedWorkspace {
            name: entry.name,
            directory: entry.directory,
            by: entry.by,
            time: entry.time,
        };
        Ok(all.into_iter().map(opened).collect())
    }

    /// Changes the list.
    async fn change<T: Send + 'static>(
        &self,
        change: impl FnOnce(&mut Vec<Entry>) -> T + Send + 'static,
    ) -> Result<T, StoreError> {
        let _changing = self.changing.lock().await;
        let path = self.path.clone();
        blocking(move || {
            let mut all = read(&path)?;
            let result = change(&mut all);
            write(&path, &all)?;
            Ok(result)
        })
        .await
    }
}

fn read(path: &Path) -> Result<Vec<Entry>, StoreError> {
    let doing = || format!("read {}", path.display());
    match fs::read(path) {
        Ok(text) => serde_json::from_slice(&text).map_err(|error| failed(doing(), error)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(failed(doing(), error)),
    }
}

fn write(path: &Path, all: &[Entry]) -> Result<(), StoreError> {
    let doing = || format!("write {}", path.display());
    let text = serde_json::to_vec(all).map_err(|error| failed(doing(), error))?;
    let folder = path.parent().unwrap_or(path);
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(|error| failed(doing(), error))?;
    file.write_all(&text)
        .and_then(|()| file.as_file().sync_all())
        .map_err(|error| failed(doing(), error))?;
    file.persist(path)
        .map(drop)
        .map_err(|error| failed(doing(), error.error))
}

#[async_trait]
impl Workspaces for LedgerStore {
    async fn keep_workspace(&self, opened: OpenedWorkspace) -> Result<(), StoreError> {
        let volume = std::sync::Arc::clone(&self.uploads.volume);
        let name = opened.name.clone();
        blocking(move || volume.prepare(&name)).await?;
        // What is opened here is this run's from now on, or it is not opened.
        self.holds.of(&opened.name).await?;
        let told = Fact::workspace_opened(&opened.name, &opened.directory, &opened.by);
        let entry = Entry {
            name: opened.name,
            directory: opened.directory,
            by: opened.by,
            time: opened.time,
        };
        let keep = move |all: &mut Vec<Entry>| {
            all.retain(|one| one.name != entry.name);
            all.push(entry);
        };
        self.kept.change(keep).await?;
        self.audit(told);
        self.flush().await
    }

    async fn drop_workspace(&self, name: &str, by: &str) -> Result<bool, StoreError> {
        let wanted = name.to_owned();
        let forget = move |all: &mut Vec<Entry>| {
            let before = all.len();
            all.retain(|one| one.name != wanted);
            all.len() < before
        };
        let gone = self.kept.change(forget).await?;
        if gone {
            self.audit(Fact::workspace_closed(name, by));
            self.flush().await?;
        }
        Ok(gone)
    }

    async fn workspaces(&self) -> Result<Vec<OpenedWorkspace>, StoreError> {
        self.kept.read().await
    }
}
