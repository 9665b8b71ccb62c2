//! What ended calls left running, as far as the engine has to do with it: it is shown with its call, and ends with its
//! call's cancellation and with its session.
//!
//! *Invariant:* knows neither programs nor tools; whoever starts programs answers.

use std::sync::Arc;

use async_trait::async_trait;
use toolgate_model::{BackgroundProcess, CallId};

/// Who knows what ended calls left running, and can end it.
#[async_trait]
pub trait LeftRunning: Send + Sync + 'static {
    /// Returns what a call left running, bounded.
    async fn left_by(&self, call: &CallId) -> Vec<BackgroundProcess>;

    /// Returns the calls that left something running.
    fn calls(&self) -> Vec<CallId>;

    /// Ends what a call left running, and returns when it is gone.
    async fn end(&self, call: &CallId);
}

/// Who is asked what calls left running, if anybody starts programs at all.
#[derive(Clone, Default)]
pub(crate) struct Background(pub(crate) Option<Arc<dyn LeftRunning>>);

impl Background {
    /// Returns what a call left running.
    pub(crate) async fn left_by(&self, call: &CallId) -> Vec<BackgroundProcess> {
        match &self.0 {
            Some(background) => background.left_by(call).await,
            None => Vec::new(),
        }
    }

    /// Returns the calls that left something running.
    pub(crate) fn calls(&self) -> Vec<CallId> {
        self.0.as_ref().map(|background| background.calls()).unwrap_or_default()
    }

    /// Ends what an ended call left running.
    pub(crate) async fn end(&self, call: &CallId) {
        if let Some(background) = &self.0 {
            background.end(call).await;
        }
    }
}
