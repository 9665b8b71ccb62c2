//! Why a call cannot be reached while it runs.
//!
//! *Invariant:* plain data.

use toolgate_model::{CallId, InstanceId};
use toolgate_store::StoreError;

/// Why a call does not run here.
#[derive(Debug, thiserror::Error)]
pub enum NotRunning {
    /// No such call.
    #[error("there is no call {0}")]
    NotFound(CallId),
    /// The call has ended.
    #[error("the call {0} has ended")]
    Ended(CallId),
    /// Another instance of the service runs the call.
    #[error("another instance of the service ({owner}) runs the call {call}")]
    Elsewhere {
        /// The call.
        call: CallId,
        /// Who runs it.
        owner: InstanceId,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}
