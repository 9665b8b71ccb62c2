//! Calls of an earlier run whose tool comes from a source that is still being connected to.
//!
//! *Invariant:* each of them is taken up when its tool is there, or ends as lost when every source has been heard of or
//! after [`LIMIT`]. If the service stops before that, it is looked after by the next run.

use std::sync::Arc;
use std::time::Duration;

use toolgate_model::CallRecord;
use toolgate_store::StoreError;

use super::admit::offer;
use super::{Engine, lineage};

/// How long a call waits for its tool.
const LIMIT: Duration = Duration::from_secs(60);

impl Engine {
    /// Takes a call up later if its tool may still come; says whether it may.
    pub(super) fn resume_later(self: &Arc<Self>, record: &CallRecord) -> bool {
        let waits = self
            .place(&record.origin.workspace)
            .is_some_and(|place| place.tools.is_connecting());
        if !waits || self.has_tool(record) {
            return false;
        }
        let (engine, record) = (Arc::clone(self), record.clone());
        self.tasks.spawn(async move {
            let id = record.id.clone();
            let closing = engine.closing.clone();
            let ended = closing.run_until_cancelled(engine.resume_or_end(record)).await;
            if let Some(Err(error)) = ended {
                tracing::error!(call = %id, error = &error as &dyn std::error::Error, "a call could not be taken up");
            }
        });
        true
    }

    async fn resume_or_end(self: &Arc<Self>, record: CallRecord) -> Result<(), StoreError> {
        if let Some(place) = self.place(&record.origin.workspace) {
            let mut changes = place.tools.changes();
            let comes = async {
                while !self.has_tool(&record) && place.tools.is_connecting() {
                    // The sender lives as long as the catalog.
                    let _ = changes.changed().await;
                }
            };
            // Too late is as good as never.
            let _ = tokio::time::timeout(LIMIT, comes).await;
        }
        if self.resume(&record).await? {
            return Ok(());
        }
        self.end_as_lost(record).await
    }

    fn has_tool(&self, record: &CallRecord) -> bool {
        self.place(&record.origin.workspace).is_some_and(|place| {
            let rights = self.rights_of(place, &lineage::own(record), &record.ancestors);
            let registry = place.tools.current();
            registry
                .resolve(&record.tool, &offer(place, &record.origin), &rights)
                .is_some()
        })
    }
}
