//! One run's view of a data directory: what the parts of the store are, and what concerns all of them.

use std::sync::Arc;

use toolgate_telemetry::Metrics;

use super::blobs::Blobs;
use super::error::Doing as _;
use super::follower::Follower;
use super::instances::Instances;
use super::overlay::Overlay;
use super::quota::Quota;
use super::readers::{Readers, blocking};
use super::spool::Spool;
use super::writer::Writer;
use crate::StoreError;

/// One run's view of a data directory.
///
/// Dropping it writes what is queued and gives up the instance's lock a moment later; [`LocalStore::close`] waits for that.
pub struct LocalStore {
    pub(super) writer: Arc<Writer>,
    pub(super) readers: Arc<Readers>,
    pub(super) instances: Arc<Instances>,
    pub(super) spool: Arc<Spool>,
    pub(super) blobs: Arc<Blobs>,
    pub(super) overlay: Arc<Overlay>,
    pub(super) quota: Arc<Quota>,
    pub(super) follower: Arc<Follower>,
}

impl LocalStore {
    /// Makes the folders of these workspaces' outputs, so that they are there before anything is stored.
    ///
    /// # Errors
    /// A folder cannot be made.
    pub fn prepare_outputs<'n>(&self, workspaces: impl IntoIterator<Item = &'n str>) -> Result<(), StoreError> {
        workspaces
            .into_iter()
            .try_for_each(|workspace| self.spool.make_folder(workspace).map(drop))
    }

    /// Says whether another run on the same data directory has died since, and nobody has looked after what it left. Blocks
    /// for as long as it takes to look at a few files.
    pub fn has_dead_runs(&self) -> bool {
        self.instances.has_dead()
    }

    /// Forgets the runs that have died, once what they left has been looked after.
    ///
    /// # Errors
    /// Another process has been opening the data directory for too long.
    pub fn forget_dead_runs(&self) -> Result<(), StoreError> {
        let _opening = self.instances.lock_folder()?;
        self.instances.tidy();
        Ok(())
    }

    /// Counts and times from now on what is written and what is refused.
    pub fn measure(&self, metrics: &Arc<Metrics>) {
        self.writer.measure(metrics);
        self.quota.measure(metrics);
    }

    /// Returns the bytes that are free where outputs are kept; none if that cannot be told.
    pub async fn free_bytes(&self) -> Option<u64> {
        let space = Arc::clone(&self.quota);
        blocking(move || space.free()).await.ok()
    }

    /// Writes something that changes nothing, and looks whether there is room on the disk.
    ///
    /// # Errors
    /// The store cannot be written, or the disk is full.
    pub async fn check(&self) -> Result<(), StoreError> {
        self.writer
            .write(|db| {
                let doing = "see whether the database can be written";
                let version: i64 = db
                    .query_row("PRAGMA user_version", [], |row| row.get(0))
                    .doing(db, doing)?;
                db.pragma_update(None, "user_version", version).doing(db, doing)
            })
            .await?;
        let space = Arc::clone(&self.quota);
        blocking(move || space.check_disk()).await
    }

    /// Waits until everything queued is written, then gives up the database and the instance's lock. What comes later
    /// fails.
    ///
    /// # Errors
    /// The thread that writes did not end as it should.
    pub async fn close(&self) -> Result<(), StoreError> {
        self.readers.close();
        self.follower.close();
        self.writer.close();
        let (writer, follower) = (Arc::clone(&self.writer), Arc::clone(&self.follower));
        blocking(move || {
            // Whoever closes the database last puts its log away, and that is to be the writer.
            follower.join();
            writer.join()
        })
        .await
    }
}

impl Drop for LocalStore {
    fn drop(&mut self) {
        self.follower.close();
        self.writer.close();
    }
}
