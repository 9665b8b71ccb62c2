//! Where work that may block is done.
//!
//! *Invariant:* nothing of the runtime's own threads waits for a disk.

use super::error::FileError;

/// Runs file work where it may block.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, FileError> + Send + 'static,
) -> Result<T, FileError> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(FileError::Interrupted)?
}
