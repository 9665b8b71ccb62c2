//! What ended calls left running, as far as the engine has to do with it: it is shown with its call, and ends with its
//! call's cancellation and with its session.
//!
//! *Invariant:* knows neither programs nor tools; whoever starts programs answers.

use async_trait::async_trait;
use toolgate_model::{BackgroundProcess, CallId};

/// Who knows what ended calls left running, and can end it; by default nothing is left.
#[async_trait]
pub trait LeftRunning: Send + Sync + 'static {
    /// Returns what a call left running, bounded.
    async fn left_by(&self, _call: &CallId) -> Vec<BackgroundProcess> {
        Vec::new()
    }

    /// Returns the calls that left something running.
    fn calls(&self) -> Vec<CallId> {
        Vec::new()
    }

    /// Ends what a call left running, and returns when it is gone.
    async fn end(&self, _call: &CallId) {}
}

/// Nobody starts programs.
pub(crate) struct NoPrograms;

impl LeftRunning for NoPrograms {}
