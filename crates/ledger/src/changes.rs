//! What calls changed in files. The contents stay on the volume of the worker: to take a change back needs that volume anyway.
//!
//! *Invariant:* the changes of a call are numbered: those of which no answer came are sent again with their numbers, before others.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use toolgate_contract::cluster::{ListChangesRequest, RecordChangesRequest};
use toolgate_model::{CallId, FileChange};
use toolgate_store::{CallLog, Changes, StoreError};

use crate::holds::Holds;
use crate::store::LedgerStore;
use crate::uploads::blocking;
use crate::wire;

/// Calls of which it is remembered how many changes are stored, before those that have ended are forgotten.
const REMEMBERED: usize = 1024;

/// What is known of the changes of one call.
#[derive(Default)]
pub(crate) struct Recorded {
    /// How many are stored for certain; none if that is not known.
    before: Option<u64>,
    /// Those behind them of which no answer came.
    unsure: Vec<FileChange>,
}

/// What is known of the changes of calls.
#[derive(Default)]
pub(crate) struct AllRecorded(Mutex<HashMap<CallId, Arc<tokio::sync::Mutex<Recorded>>>>);

impl AllRecorded {
    /// Takes note that a call is new, so that nothing is stored of it.
    pub(crate) fn begin(&self, call: &CallId, holds: &Holds) {
        let one = self.of(call, holds);
        if let Ok(mut one) = one.try_lock() {
            one.before = Some(0);
        }
    }

    fn of(&self, call: &CallId, holds: &Holds) -> Arc<tokio::sync::Mutex<Recorded>> {
        let mut all = self.0.lock();
        if all.len() > REMEMBERED {
            all.retain(|call, one| Arc::strong_count(one) > 1 || holds.workspace_of(call).is_some());
        }
        Arc::clone(all.entry(call.clone()).or_default())
    }
}

#[async_trait]
impl Changes for LedgerStore {
    async fn put_blob(&self, bytes: Bytes) -> Result<String, StoreError> {
        let volume = Arc::clone(&self.uploads.volume);
        blocking(move || volume.put_blob(&bytes)).await
    }

    async fn blob(&self, sha256: &str) -> Result<Option<Bytes>, StoreError> {
        let (volume, sha256) = (Arc::clone(&self.uploads.volume), sha256.to_owned());
        blocking(move || volume.blob(&sha256)).await
    }

    async fn record_changes(&self, call: &CallId, changes: Vec<FileChange>) -> Result<(), StoreError> {
        let workspace = match self.holds.workspace_of(call) {
            Some(workspace) => workspace,
            None => {
                let record = self.get(call).await?;
                let missing = || StoreError::NotFound(format!("call {call}"));
                record.ok_or_else(missing)?.origin.workspace
            }
        };
        let hold = self.holds.of(&workspace).await?;
        let recorded = self.recorded.of(call, &self.holds);
        let mut recorded = recorded.lock().await;
        let before = match recorded.before {
            Some(before) => before,
            None => self.changes(call).await?.len() as u64,
        };
        recorded.before = Some(before);
        // The caller may have been told that they are not stored, and say them again.
        if changes.is_empty() || !recorded.unsure.ends_with(&changes) {
            recorded.unsure.extend(changes);
        }
        let question = RecordChangesRequest {
            holding: Some(wire::holding(&hold)),
            call: call.to_string(),
            changes: recorded.unsure.iter().cloned().map(wire::change).collect(),
            before: Some(before),
        };
        match self.holds.change(question).await {
            Ok(_) => {
                recorded.before = Some(before + recorded.unsure.len() as u64);
                recorded.unsure.clear();
                Ok(())
            }
            Err(error @ StoreError::Unavailable(_)) => Err(error),
            Err(error) => {
                *recorded = Recorded::default();
                Err(error)
            }
        }
    }

    async fn changes(&self, call: &CallId) -> Result<Vec<FileChange>, StoreError> {
        let question = ListChangesRequest {
            call: call.to_string(),
            workspaces: self.holds.names(),
        };
        let answer = self.holds.gateways.ask(question).await?;
        Ok(answer.changes.into_iter().map(wire::of_change).collect())
    }
}
