//! The embedded store: SQLite in WAL mode and spool files in the data directory.
//!
//! ```text
//! toolgate.db           calls, events, prompts, grants, facts, journal, rows of outputs, changes, the audit
//! blobs/<aa>/<sha256>   contents of files before and after a change, named by their digest
//! workspaces/<workspace>/tool-output/    one file for each output, readable by the owner only
//! instances/<id>.lock   locked while that run of the service lives
//! ```
//!
//! *Invariant:* several processes may share one data directory. What two of them may both want to change is decided in
//! one transaction of the database; who lives is decided by the kernel's file locks, never by time.
//!
//! All writing goes through one thread (`writer`), reading through a few connections on blocking threads
//! (`readers`). A commit does not wait for the disk: it outlives the process, not the machine's power.

#![allow(clippy::disallowed_methods)] // the data directory is the store's own

mod audit;
mod blobs;
mod calls;
mod changes;
mod error;
mod facts;
mod folders;
mod instances;
mod journal;
mod outputs;
mod prompts;
mod query;
mod queue;
mod readers;
mod schema;
mod space;
mod spool;
mod sweep;
mod write_back;
mod writer;

use std::fs::{self, DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::Connection;
pub use space::SpaceLimits;
use tokio::sync::watch;
use toolgate_model::InstanceId;
use toolgate_telemetry::Metrics;

pub use self::audit::AuditFile;
use self::blobs::Blobs;
use self::error::{Doing as _, io};
use self::facts::Overlay;
use self::folders::Folders;
pub use self::folders::{output_folder, workspace_folder};
use self::instances::Instances;
use self::outputs::Spool;
use self::readers::{Readers, blocking};
use self::space::Space;
use self::write_back::Files;
use self::writer::Writer;
use crate::StoreError;
use crate::audit::Recorder;

/// One run's view of a data directory.
///
/// Dropping it writes what is queued and gives up the instance's lock a moment later; [`LocalStore::close`] waits for that.
pub struct LocalStore {
    writer: Arc<Writer>,
    recorder: Arc<Recorder>,
    readers: Arc<Readers>,
    instances: Arc<Instances>,
    spool: Arc<Spool>,
    blobs: Arc<Blobs>,
    overlay: Arc<Overlay>,
    space: Arc<Space>,
    last: Arc<watch::Sender<u64>>,
}

impl LocalStore {
    /// Opens a data directory, making what is missing, for one run of the service. Blocks for some milliseconds.
    ///
    /// # Errors
    /// The directory cannot be made or written, a newer version of the service wrote the database, it is damaged, or an
    /// instance of the same id is running. Each names the path.
    pub fn open(data_dir: &Path, instance: InstanceId) -> Result<Self, StoreError> {
        Self::open_with(data_dir, instance, SpaceLimits::UNLIMITED, Recorder::default())
    }

    /// As [`Self::open`], for a service that may take only so much of the disk, with what keeps the audit.
    ///
    /// # Errors
    /// As [`Self::open`]; and the audit has been kept with a key, and there is none.
    pub fn open_with(
        data_dir: &Path,
        instance: InstanceId,
        limits: SpaceLimits,
        recorder: Recorder,
    ) -> Result<Self, StoreError> {
        let data_dir = folder(data_dir.to_owned())?;
        let data_dir = fs::canonicalize(&data_dir).map_err(|error| io("find", &data_dir, error))?;
        let instances = Arc::new(Instances::new(folder(data_dir.join("instances"))?));
        let outputs = folder(data_dir.join(folders::WORKSPACES))?;
        fs::set_permissions(&outputs, Permissions::from_mode(0o700))
            .map_err(|error| io("set the permissions of", &outputs, error))?;
        let folders = Folders::new(data_dir.clone());
        let contents = folder(data_dir.join("blobs"))?;
        let database = data_dir.join("toolgate.db");
        let files = Arc::new(Files::new(&database));
        let space = Arc::new(Space::new(limits, outputs.clone(), contents.clone(), files.clone()));
        let blobs = Arc::new(Blobs::new(contents, Arc::clone(&space)));

        let opening = instances.lock_folder()?;
        let held = instances.hold(&instance)?;
        instances.tidy();
        let db = schema::open_writer(&database)?;
        audit::begin(&db, &recorder, &instance)?;
        let spool = Arc::new(Spool::new(folders, instance, Arc::clone(&instances), space.clone()));
        outputs::move_apart(&db, &spool, &data_dir)?;
        outputs::recover(&db, &spool)?;
        let last = Arc::new(watch::Sender::new(journal::last(&db)?));
        let readers = Arc::new(Readers::new(database));
        let writer = Arc::new(Writer::start(db, files, readers.clone(), held)?);
        drop(opening);
        Ok(Self {
            writer,
            recorder: Arc::new(recorder),
            readers,
            instances,
            spool,
            blobs,
            overlay: Arc::default(),
            space,
            last,
        })
    }

    /// Makes the folders of these workspaces' outputs, so that they are there before anything is stored.
    ///
    /// # Errors
    /// A folder cannot be made.
    pub fn prepare_outputs<'n>(&self, workspaces: impl IntoIterator<Item = &'n str>) -> Result<(), StoreError> {
        workspaces
            .into_iter()
            .try_for_each(|workspace| self.spool.make_folder(workspace).map(drop))
    }

    /// Counts and times from now on what is written and what is refused.
    pub fn measure(&self, metrics: &Arc<Metrics>) {
        self.writer.measure(metrics);
        self.space.measure(metrics);
    }

    /// Returns the bytes that are free where outputs are kept; none if that cannot be told.
    pub async fn free_bytes(&self) -> Option<u64> {
        let space = Arc::clone(&self.space);
        blocking(move || space.free()).await.ok()
    }

    /// Writes something that changes nothing, and looks whether there is room on the disk.
    ///
    /// # Errors
    /// The store cannot be written, or the disk is full.
    pub async fn check(&self) -> Result<(), StoreError> {
        let writing = |db: &Connection| {
            let doing = "see whether the database can be written";
            let version: i64 = db
                .query_row("PRAGMA user_version", [], |row| row.get(0))
                .doing(db, doing)?;
            db.pragma_update(None, "user_version", version).doing(db, doing)
        };
        self.writer.ask(writing).await?;
        let space = Arc::clone(&self.space);
        blocking(move || space.check_disk()).await
    }

    /// Waits until everything queued is written, then gives up the database and the instance's lock. What comes later
    /// fails.
    ///
    /// # Errors
    /// The thread that writes did not end as it should.
    pub async fn close(&self) -> Result<(), StoreError> {
        self.readers.close();
        self.writer.close();
        let writer = Arc::clone(&self.writer);
        blocking(move || writer.join()).await
    }
}

impl Drop for LocalStore {
    fn drop(&mut self) {
        self.writer.close();
    }
}

/// Makes a folder for the owner only, unless it is there.
fn folder(path: PathBuf) -> Result<PathBuf, StoreError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(&path);
    made.map_err(|error| io("create the folder", &path, error))?;
    Ok(path)
}
