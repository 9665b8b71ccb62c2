//! Connections that only read, lent to blocking threads.
//!
//! *Invariant:* in WAL mode a reader never waits for the writer, so nothing here holds a transaction open between two uses.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use tokio::sync::Semaphore;

use super::error::failed;
use super::schema;
use crate::store::StoreError;

const CONNECTIONS: usize = 4;

/// A few connections, opened when they are first needed.
pub(super) struct Readers {
    path: PathBuf,
    /// The connections that nobody uses now.
    idle: Mutex<Vec<Connection>>,
    permits: Arc<Semaphore>,
}

impl Readers {
    pub(super) fn new(path: PathBuf) -> Self {
        Self {
            path,
            idle: Mutex::default(),
            permits: Arc::new(Semaphore::new(CONNECTIONS)),
        }
    }

    /// Runs `work` with a connection, on a thread that may block.
    pub(super) async fn read<T, F>(self: &Arc<Self>, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        let permit = Arc::clone(&self.permits)
            .acquire_owned()
            .await
            .map_err(|_| failed("read from the store", "the store is closed"))?;
        let readers = Arc::clone(self);
        blocking(move || {
            let _permit = permit;
            let lent = readers.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let db = match lent {
                Some(db) => db,
                None => schema::open_reader(&readers.path)?,
            };
            let result = work(&db);
            readers.idle.lock().unwrap_or_else(PoisonError::into_inner).push(db);
            result
        })
        .await
    }

    /// Refuses later reads and closes what is idle.
    pub(super) fn close(&self) {
        self.permits.close();
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// Runs `work` on a thread that may block and waits for it.
pub(super) async fn blocking<T, F>(work: F) -> Result<T, StoreError>
where
    T: Send + 'static,
    F: FnOnce() -> Result<T, StoreError> + Send + 'static,
{
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(failed("work for the store", error)),
    }
}
