//! What ended calls left running, as far as the engine has to do with it: it is shown with its call, and ends with its
//! call's cancellation and with its session.
//!
//! *Invariant:* knows neither programs nor tools; whoever starts programs answers.

use async_trait::async_trait;
use toolgate_model::{BackgroundProcess, CallId, SessionKey};
use toolgate_store::StoreError;

use super::Engine;

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

impl Engine {
    /// Returns what a call left running.
    pub async fn left_by(&self, call: &CallId) -> Vec<BackgroundProcess> {
        match &self.background {
            Some(background) => background.left_by(call).await,
            None => Vec::new(),
        }
    }

    /// Ends what an ended call left running.
    pub(super) async fn end_left_by(&self, call: &CallId) {
        if let Some(background) = &self.background {
            background.end(call).await;
        }
    }

    /// Ends what the ended calls of a session left running.
    pub(super) async fn end_left_in(&self, session: &SessionKey) -> Result<(), StoreError> {
        let calls = self.background.as_ref().map(|background| background.calls());
        for call in calls.unwrap_or_default() {
            let record = self.get(&call).await?;
            if record.is_some_and(|record| record.origin.is_of(session)) {
                self.end_left_by(&call).await;
            }
        }
        Ok(())
    }
}
