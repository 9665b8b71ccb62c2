//! What is known of other processes that share the store, for a process that runs no calls itself.
//!
//! *Invariant:* it is asked about what is shown only; nothing is decided by it.

use toolgate_model::InstanceId;

/// Knows other processes that share the store.
pub trait Elsewhere: Send + Sync + 'static {
    /// Says whether they run the calls, and this process none.
    fn runs_calls(&self) -> bool {
        true
    }

    /// Says whether a workspace is open in one of them.
    fn is_open(&self, workspace: &str) -> bool;

    /// Returns the runs that are known.
    fn runs(&self) -> Vec<InstanceId>;
}

/// There are none.
pub(crate) struct Nowhere;

impl Elsewhere for Nowhere {
    fn runs_calls(&self) -> bool {
        false
    }

    fn is_open(&self, _: &str) -> bool {
        false
    }

    fn runs(&self) -> Vec<InstanceId> {
        Vec::new()
    }
}
