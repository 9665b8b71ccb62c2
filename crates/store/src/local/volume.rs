//! The files of a run that has no database of its own: its outputs, which tools read while they are written, and the contents that a
//! revert needs.
//!
//! *Invariant:* the same folders, files and bounds as those of [`super::LocalStore`], and no database.

use std::collections::HashSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use toolgate_model::{OutputId, Timestamp};

use super::blobs::Blobs;
use super::checkpoint::Files;
use super::error::io;
use super::folders::{Folders, WORKSPACES, create_folder};
use super::output_file::{self, Live};
use super::quota::{Kind, Quota, QuotaLimits};
use super::sweep;
use crate::output::Names;
use crate::{OutputInfo, OutputOwner, OutputRetention, StoreError};

/// The folders of one run. All that it does blocks for a moment.
pub struct Volume {
    folder: PathBuf,
    folders: Folders,
    contents: PathBuf,
    blobs: Blobs,
    quota: Arc<Quota>,
    names: Names,
}

/// The file of an output that this process writes.
pub struct OutputFile(Live);

impl Volume {
    /// Opens a folder, making what is missing.
    ///
    /// # Errors
    /// It cannot be made or used; the text names it.
    pub fn open(data_dir: &Path, limits: QuotaLimits) -> Result<Self, StoreError> {
        let folder = create_folder(data_dir.to_owned())?;
        let folder = fs::canonicalize(&folder).map_err(|error| io("find", &folder, error))?;
        let outputs = create_folder(folder.join(WORKSPACES))?;
        fs::set_permissions(&outputs, Permissions::from_mode(0o700))
            .map_err(|error| io("set the permissions of", &outputs, error))?;
        let contents = create_folder(folder.join("blobs"))?;
        // There is no database to count.
        let files = Arc::new(Files::new(&folder.join("toolgate.db")));
        let quota = Arc::new(Quota::new(limits, outputs, contents.clone(), files));
        Ok(Self {
            folders: Folders::new(folder.clone()),
            blobs: Blobs::new(contents.clone(), Arc::clone(&quota)),
            folder,
            contents,
            quota,
            names: Names::default(),
        })
    }

    /// Returns where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Makes the folder of a workspace's outputs, unless it is there.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn prepare(&self, workspace: &str) -> Result<(), StoreError> {
        self.folders.make(workspace).map(drop)
    }

    /// Names a new output; its file comes into being with the first piece.
    pub fn output(&self, owner: OutputOwner) -> OutputFile {
        let created = Timestamp::now();
        let id = self.names.next(created);
        let path = self.path(&owner, &id);
        OutputFile(Live::new(id, owner, path, created, Arc::clone(&self.quota)))
    }

    /// Returns where the file of an output is, if it is there.
    pub fn find(&self, owner: &OutputOwner, id: &OutputId) -> Option<PathBuf> {
        Some(self.path(owner, id)).filter(|path| crate::output::is_name(id.as_str()) && path.is_file())
    }

    fn path(&self, owner: &OutputOwner, id: &OutputId) -> PathBuf {
        self.folders.outputs_of(&owner.workspace).join(id.as_str())
    }

    /// Deletes files of outputs that `keep` does not keep and that nobody writes. Returns how many went.
    ///
    /// # Errors
    /// The folders cannot be listed.
    pub fn sweep_outputs(
        &self,
        keep: OutputRetention,
        is_busy: impl Fn(&OutputId) -> bool,
    ) -> Result<usize, StoreError> {
        let swept = sweep::sweep_files(&self.folders.all()?, keep, is_busy)?;
        self.quota.recount();
        Ok(swept)
    }

    /// Keeps a content: see [`crate::Changes::put_blob`].
    ///
    /// # Errors
    /// `Full` if there is no space left.
    pub fn put_blob(&self, bytes: &[u8]) -> Result<String, StoreError> {
        self.blobs.put(bytes)
    }

    /// Returns a content.
    ///
    /// # Errors
    /// It cannot be read, or it is damaged.
    pub fn blob(&self, sha256: &str) -> Result<Option<Bytes>, StoreError> {
        self.blobs.get(sha256)
    }

    /// Deletes contents that were put before a moment, whoever refers to them. Returns how many went.
    ///
    /// # Errors
    /// The folder cannot be listed.
    pub fn sweep_blobs(&self, before: Timestamp) -> Result<usize, StoreError> {
        self.blobs.sweep(|prefix| {
            let folder = self.contents.join(prefix);
            let entries = fs::read_dir(&folder).map_err(|error| io("list", &folder, error))?;
            let is_young = |entry: &fs::DirEntry| {
                let modified = entry.metadata().and_then(|metadata| metadata.modified());
                modified.map_or(true, |modified| Timestamp::from(modified) >= before)
            };
            let young = entries.flatten().filter(is_young);
            Ok(young
                .filter_map(|entry| entry.file_name().into_string().ok())
                .collect::<HashSet<_>>())
        })
    }

    /// Says whether the disk has as much free space as it must keep.
    ///
    /// # Errors
    /// It has not.
    pub fn check(&self) -> Result<(), StoreError> {
        self.quota.check_disk()
    }

    /// Returns the bytes that are free on the disk.
    pub fn free_bytes(&self) -> Option<u64> {
        self.quota.free().ok()
    }

    /// Returns what to keep of the outputs so that so many bytes have room; none if that was tried a moment ago.
    pub fn retention(&self, bytes: u64) -> Option<OutputRetention> {
        self.quota.retention(bytes)
    }

    /// Says that bytes of contents or outputs are to be counted anew, because an output has ended.
    pub fn output_ended(&self) {
        self.quota.output_ended();
    }

    /// Deletes the file of an output; it may be gone already.
    ///
    /// # Errors
    /// It cannot be deleted.
    pub fn remove_output(&self, owner: &OutputOwner, id: &OutputId) -> Result<(), StoreError> {
        let path = self.path(owner, id);
        let length = output_file::file_length(&path)?;
        output_file::remove_file(&path)?;
        self.quota.give_back(Kind::Output, length.unwrap_or(0));
        Ok(())
    }
}

impl OutputFile {
    /// Returns the output's id.
    pub fn id(&self) -> &OutputId {
        &self.0.id
    }

    /// Returns to whom it belongs.
    pub fn owner(&self) -> &OutputOwner {
        &self.0.owner
    }

    /// Returns where it is.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Returns when it was begun.
    pub fn created(&self) -> Timestamp {
        self.0.created
    }

    /// Returns the length up to the last whole append.
    pub fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    /// Returns what is known now.
    pub fn info(&self) -> OutputInfo {
        self.0.info()
    }

    /// Creates the file if it is not there yet.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn begin(&self) -> Result<(), StoreError> {
        self.0.begin()
    }

    /// Writes one piece behind the others.
    ///
    /// # Errors
    /// `Full` if there is no space left.
    pub fn append(&self, piece: &[u8]) -> Result<(), StoreError> {
        self.0.append(piece)
    }

    /// Ends the output: nothing is written after this.
    pub fn end(&self) -> OutputInfo {
        self.0.end()
    }

    /// Returns at most `max` bytes from `offset` on; none at the end.
    ///
    /// # Errors
    /// The file is gone, or it cannot be read.
    pub fn read(&self, offset: u64, max: usize) -> Result<Bytes, StoreError> {
        let end = self.bytes();
        if end <= offset {
            return Ok(Bytes::new());
        }
        let read = output_file::read_file(&self.0.path, offset, end, max)?;
        let gone = || StoreError::NotFound(format!("the file of the output {}", self.0.id));
        read.map(Bytes::from).ok_or_else(gone)
    }
}
