//! What becomes of telling servers of a file: what they have made of it, once they have had their say.
//!
//! *Invariant:* only reads what a task of the pool publishes.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use super::diagnostic::Diagnostic;

/// What becomes of telling the servers of a file.
#[derive(Clone, Debug)]
pub struct Refresh(pub(super) watch::Receiver<Option<Seen>>);

/// What the servers for a file have made of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// How many were told of it.
    pub(super) servers: usize,
    /// Whether one of them has reported of it since.
    pub(super) answered: bool,
    pub(super) found: Arc<[Diagnostic]>,
}

impl Refresh {
    /// Returns what the servers have found in the file, once they have had their say; none if that is not within `limit`.
    pub async fn diagnostics(&mut self, limit: Duration) -> Option<Arc<[Diagnostic]>> {
        let found = timeout(limit, self.0.wait_for(Option::is_some)).await.ok()?;
        // The service stops, if that is an error.
        found.ok()?.as_ref().map(|seen| Arc::clone(&seen.found))
    }

    /// Returns what the servers have found in the file, when they have had their say: at the latest 3 s after they have
    /// started.
    pub async fn finished(&mut self) -> Arc<[Diagnostic]> {
        self.seen().await.found
    }

    /// Returns what the servers have made of the file, when they have had their say.
    pub(super) async fn seen(&mut self) -> Seen {
        let seen = self.0.wait_for(Option::is_some).await;
        // The service stops, if that is an error.
        seen.ok().and_then(|seen| seen.clone()).unwrap_or_default()
    }
}
