//! One run's view of a data directory: what the parts of the store are, and what concerns all of them.

use std::sync::Arc;

use async_trait::async_trait;
use toolgate_telemetry::Metrics;

use super::blobs::Blobs;
use super::error::Doing as _;
use super::follower::Follower;
use super::instances::Instances;
use super::quota::Quota;
use super::readers::{Readers, blocking};
use super::spool::Spool;
use super::writer::Writer;
use crate::overlay::Overlay;
use crate::{StoreError, Upkeep};

/// One run's view of a data directory.
///
/// Dropping it writes what is queued and gives up the instance's lock a moment later; [`Upkeep::close`] waits for that.
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
    /// Counts and times from now on what is written and what is refused.
    pub fn measure(&self, metrics: &Arc<Metrics>) {
        self.writer.measure(metrics);
        self.quota.measure(metrics);
    }
}

#[async_trait]
impl Upkeep for LocalStore {
    fn prepare_workspace(&self, name: &str) -> Result<(), StoreError> {
        self.spool.make_folder(name).map(drop)
    }

    async fn check(&self) -> Result<(), StoreError> {
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

    async fn free_bytes(&self) -> Option<u64> {
        let space = Arc::clone(&self.quota);
        blocking(move || space.free()).await.ok()
    }

    fn has_dead_runs(&self) -> bool {
        self.instances.has_dead()
    }

    fn forget_dead_runs(&self) -> Result<(), StoreError> {
        let _opening = self.instances.lock_folder()?;
        self.instances.tidy();
        Ok(())
    }

    async fn close(&self) -> Result<(), StoreError> {
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
