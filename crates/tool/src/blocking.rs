//! Work that may block, where it holds up nobody.

use super::ToolError;

/// Does work that may block on a thread for such work.
///
/// # Errors
/// [`ToolError::Internal`] only: the work panicked, or the runtime shuts down.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, ToolError> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| ToolError::Internal(error.into()))
}
