//! Results that arrive after a call's end: they are added to its log as metadata.
//!
//! *Invariant:* the end of a call waits for nothing here, and stays its one end. Bounded in calls, in time and in events;
//! a service that stops drops what has not come.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt as _, StreamExt as _};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use toolgate_model::redact::Redactor;
use toolgate_model::{CallId, EventKind, JsonMap};
use toolgate_store::{Store, StoreError};

use super::event::{apply, merge};

/// Calls that are listened to at once; those that end beyond that hear of nothing more.
const MOST_CALLS: usize = 256;

/// How long a call is listened to.
const LIMIT: Duration = Duration::from_secs(60);

/// How many events are added to one call.
const MOST_EVENTS: usize = 8;

/// Listens to what the tools of ended calls have left.
pub(crate) struct LateMetadata {
    store: Arc<dyn Store>,
    redactor: Redactor,
    /// Ended calls that are listened to take one each.
    slots: Semaphore,
    /// Ends the listening.
    stopped: CancellationToken,
}

impl LateMetadata {
    pub(crate) fn new(store: Arc<dyn Store>, redactor: Redactor) -> Self {
        Self {
            store,
            redactor,
            slots: Semaphore::new(MOST_CALLS),
            stopped: CancellationToken::new(),
        }
    }

    /// Listens to nothing any more, because the service stops.
    pub(crate) fn stop(&self) {
        self.stopped.cancel();
    }

    /// Listens to what the tool of an ended call has left.
    pub(crate) async fn listen(&self, call: &CallId, mut patches: toolgate_tool::LateMetadata) {
        let Ok(_slot) = self.slots.try_acquire() else {
            tracing::debug!(call = %call, "too many ended calls are listened to");
            return;
        };
        let deadline = Instant::now() + LIMIT;
        for _ in 0..MOST_EVENTS {
            let next = AssertUnwindSafe(patches.next()).catch_unwind();
            let patch = match self.stopped.run_until_cancelled(timeout_at(deadline, next)).await {
                Some(Ok(Ok(Some(patch)))) => patch,
                Some(Ok(Err(_))) => {
                    tracing::error!(call = %call, "what an ended call left panicked");
                    return;
                }
                Some(Ok(Ok(None)) | Err(_)) | None => return,
            };
            if let Err(error) = self.add(call, patch).await {
                let error = &error as &dyn std::error::Error;
                tracing::error!(call = %call, error, "metadata could not be added to an ended call");
                return;
            }
        }
    }

    /// Adds metadata to an ended call. One that is not stored any more, or not yet, is left alone.
    async fn add(&self, id: &CallId, mut patch: JsonMap) -> Result<(), StoreError> {
        self.redactor.map(&mut patch);
        let Some(mut record) = self.store.get(id).await? else {
            return Ok(());
        };
        let Some(ending) = &mut record.ending else {
            return Ok(());
        };
        merge(&mut ending.metadata, patch.clone());
        let metadata = EventKind::Metadata { title: None, patch };
        let events = apply(&mut record, vec![metadata]);
        self.store.append(record, events).await
    }
}
