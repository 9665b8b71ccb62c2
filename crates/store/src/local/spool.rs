//! The folders that outputs are written to, and which of them this process is writing.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use toolgate_model::{Durability, InstanceId, OutputId};

use super::folders::Folders;
use super::instances::Instances;
use super::output_file::{self, Live};
use super::output_rows::Stored;
use super::quota::Quota;
use crate::output::Names;
use crate::{OutputInfo, OutputOwner, StoreError};

/// The spool folders of one run of the service.
pub(super) struct Spool {
    folders: Folders,
    pub(super) instance: InstanceId,
    pub(super) instances: Arc<Instances>,
    pub(super) quota: Arc<Quota>,
    pub(super) names: Names,
    pub(super) durability: Durability,
    /// What this process writes, and what it completed but has not committed.
    live: Mutex<HashMap<OutputId, Arc<Live>>>,
}

impl Spool {
    pub(super) fn new(
        folders: Folders,
        instance: InstanceId,
        instances: Arc<Instances>,
        quota: Arc<Quota>,
        durability: Durability,
    ) -> Self {
        Self {
            folders,
            instance,
            instances,
            quota,
            names: Names::default(),
            durability,
            live: Mutex::default(),
        }
    }

    pub(super) fn all_live(&self) -> MutexGuard<'_, HashMap<OutputId, Arc<Live>>> {
        self.live.lock()
    }

    pub(super) fn live(&self, id: &OutputId) -> Option<Arc<Live>> {
        self.all_live().get(id).cloned()
    }

    pub(super) fn forget_live(&self, id: &OutputId) {
        self.all_live().remove(id);
        self.quota.output_ended();
    }

    pub(super) fn path(&self, owner: &OutputOwner, id: &OutputId) -> PathBuf {
        self.folders.outputs_of(&owner.workspace).join(id.as_str())
    }

    /// Waits until an output that is not written any more is as durable as it has to be. Blocks.
    pub(super) fn secure(&self, live: &Live) -> Result<(), StoreError> {
        match self.durability {
            Durability::Process => Ok(()),
            Durability::Power => output_file::sync(&live.path),
        }
    }

    /// Makes the folder of a workspace's outputs, unless it is there.
    pub(super) fn make_folder(&self, workspace: &str) -> Result<PathBuf, StoreError> {
        self.folders.make(workspace)
    }

    /// Returns the folders that there are.
    pub(super) fn folders(&self) -> Result<Vec<PathBuf>, StoreError> {
        self.folders.all()
    }

    /// Says whether a run that lives is still writing this output.
    pub(super) fn is_being_written(&self, stored: &Stored) -> bool {
        !stored.complete && (stored.instance == self.instance.as_str() || self.instances.is_alive(&stored.instance))
    }

    /// Says whether another run that lives is writing this output.
    pub(super) fn is_written_elsewhere(&self, stored: &Stored) -> bool {
        !stored.complete && stored.instance != self.instance.as_str() && self.instances.is_alive(&stored.instance)
    }

    /// Completes a stored row by what its file says; nothing if the file is gone. Blocks.
    pub(super) fn info(&self, stored: Stored) -> Result<Option<OutputInfo>, StoreError> {
        let path = self.path(&stored.owner, &stored.id);
        let length = output_file::file_length(&path)?;
        Ok(length.map(|length| OutputInfo {
            id: stored.id,
            owner: stored.owner,
            path: path.display().to_string(),
            bytes: stored.bytes.unwrap_or(length),
            lines: stored.lines.unwrap_or(0),
            sha256: stored.sha256.unwrap_or_default(),
            complete: stored.complete,
            cut: false,
            created: stored.created,
        }))
    }
}
