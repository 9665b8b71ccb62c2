//! Opening the data directory: folders, locks, the schema, and what an earlier run left unfinished.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use toolgate_model::{Durability, InstanceId};

use super::blobs::Blobs;
use super::checkpoint::Files;
use super::error::io;
use super::folders::{Folders, WORKSPACES, create_folder};
use super::follower::{Follower, end_of_journal};
use super::instances::Instances;
use super::quota::{Quota, QuotaLimits};
use super::readers::Readers;
use super::sequencer::Sequencer;
use super::spool::Spool;
use super::store::LocalStore;
use super::writer::Writer;
use super::{output_recovery, schema};
use crate::StoreError;
use crate::audit::Recorder;

/// How a data directory is used.
#[derive(Default)]
pub struct StoreOptions {
    /// How much of the disk it may take.
    pub limits: QuotaLimits,
    /// What keeps the audit.
    pub recorder: Recorder,
    /// What a change must survive before it counts as made. Contents of files that a revert needs, and what is shown of a
    /// call that has not ended, may be lost with the power all the same.
    pub durability: Durability,
}

impl LocalStore {
    /// Opens a data directory, making what is missing, for one run of the service. Blocks for some milliseconds.
    ///
    /// # Errors
    /// The directory cannot be made or written, a newer version of the service wrote the database, it is damaged, or an
    /// instance of the same id is running. Each names the path.
    pub fn open(data_dir: &Path, instance: InstanceId) -> Result<Self, StoreError> {
        Self::open_with(data_dir, instance, StoreOptions::default())
    }

    /// As [`Self::open`], as a service wants it.
    ///
    /// # Errors
    /// As [`Self::open`]; and the audit has been kept with a key, and there is none.
    pub fn open_with(data_dir: &Path, instance: InstanceId, options: StoreOptions) -> Result<Self, StoreError> {
        let StoreOptions {
            limits,
            recorder,
            durability,
        } = options;
        let data_dir = create_folder(data_dir.to_owned())?;
        let data_dir = fs::canonicalize(&data_dir).map_err(|error| io("find", &data_dir, error))?;
        let instances = Arc::new(Instances::new(create_folder(data_dir.join("instances"))?));
        let outputs = create_folder(data_dir.join(WORKSPACES))?;
        fs::set_permissions(&outputs, Permissions::from_mode(0o700))
            .map_err(|error| io("set the permissions of", &outputs, error))?;
        let folders = Folders::new(data_dir.clone());
        let contents = create_folder(data_dir.join("blobs"))?;
        let database = data_dir.join("toolgate.db");
        let files = Arc::new(Files::new(&database));
        let quota = Arc::new(Quota::new(limits, outputs.clone(), contents.clone(), files.clone()));
        let blobs = Arc::new(Blobs::new(contents, Arc::clone(&quota)));

        let opening = instances.lock_folder()?;
        let held = instances.hold(&instance)?;
        instances.tidy();
        let db = schema::open_writer(&database, durability)?;
        let follower = Arc::new(Follower::new(database.clone(), end_of_journal(&db)?));
        let sequencer = Sequencer::new(&db, recorder, follower.clone(), &instance)?;
        let spool = Arc::new(Spool::new(
            folders,
            instance,
            Arc::clone(&instances),
            quota.clone(),
            durability,
        ));
        output_recovery::move_apart(&db, &spool, &data_dir)?;
        output_recovery::recover(&db, &spool)?;
        let readers = Arc::new(Readers::new(database));
        let writer = Arc::new(Writer::start(db, files, readers.clone(), sequencer, held)?);
        drop(opening);
        Ok(Self {
            writer,
            readers,
            instances,
            spool,
            blobs,
            overlay: Arc::default(),
            quota,
            follower,
        })
    }
}
