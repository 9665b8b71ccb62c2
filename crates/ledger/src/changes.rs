//! What calls changed in files. The contents stay on the volume of the worker: to take a change back needs that volume anyway.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::time::{Instant, sleep};
use toolgate_contract::cluster::{ListChangesRequest, RecordChangesRequest};
use toolgate_model::{CallId, FileChange};
use toolgate_store::{CallLog, Changes, StoreError};

use crate::gateways::PATIENCE;
use crate::store::LedgerStore;
use crate::uploads::blocking;
use crate::wire;

/// How long to wait before changes are sent again that have not arrived.
const PAUSE: Duration = Duration::from_millis(100);

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
        let question = RecordChangesRequest {
            holding: Some(wire::holding(&hold)),
            call: call.to_string(),
            changes: changes.iter().cloned().map(wire::change).collect(),
        };
        let begun = Instant::now();
        loop {
            let sent = self.holds.gateways.ask_for(Duration::ZERO, question.clone()).await;
            let lost = match self.holds.heed(sent) {
                Err(StoreError::Unavailable(why)) => why,
                other => return other.map(drop),
            };
            // There is no saying it again: whether it is stored is looked up.
            match self.changes(call).await {
                Ok(stored) if stored.ends_with(&changes) => return Ok(()),
                Ok(_) if begun.elapsed() < PATIENCE => sleep(PAUSE).await,
                Ok(_) => return Err(StoreError::Unavailable(lost)),
                Err(error) => return Err(error),
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
