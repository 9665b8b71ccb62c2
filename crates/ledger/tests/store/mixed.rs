//! A worker's store, with what only gateways do done by the store of its gateway: settling, reading the audit and the journal, sweeping.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::sync::watch::Receiver;
use toolgate_ledger::LedgerStore;
use toolgate_model::*;
use toolgate_postgres::PostgresStore;
use toolgate_store::audit::Fact;
use toolgate_store::*;

pub(crate) struct Mixed {
    pub(crate) worker: Arc<LedgerStore>,
    pub(crate) gateway: Arc<PostgresStore>,
    pub(crate) run: InstanceId,
}

impl Mixed {
    fn is_own(&self, run: &InstanceId) -> bool {
        *run == self.run
    }
}

/// Where the file of an output is differs from side to side.
fn without_place(info: OutputInfo) -> OutputInfo {
    OutputInfo {
        path: String::new(),
        ..info
    }
}

/// A writer whose pieces are waited for until the gateway has them.
struct Arriving {
    writer: Box<dyn OutputWriter>,
    gateway: Arc<PostgresStore>,
    bytes: u64,
}

#[async_trait]
impl OutputWriter for Arriving {
    fn id(&self) -> &OutputId {
        self.writer.id()
    }

    fn path(&self) -> &str {
        ""
    }

    async fn append(&mut self, bytes: Bytes) -> Result<(), StoreError> {
        self.bytes += bytes.len() as u64;
        self.writer.append(bytes).await?;
        let begun = Instant::now();
        while self.bytes > 0
            && self
                .gateway
                .look(self.id())
                .await?
                .is_none_or(|info| info.bytes < self.bytes)
        {
            assert!(begun.elapsed() < Duration::from_secs(30), "the bytes do not arrive");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    async fn finish(self: Box<Self>) -> Result<OutputInfo, StoreError> {
        let Self { writer, gateway, .. } = *self;
        let id = writer.id().clone();
        let info = writer.finish().await?;
        // What is late goes on behind that.
        let begun = Instant::now();
        while gateway.look(&id).await?.is_none_or(|info| !info.complete) {
            assert!(begun.elapsed() < Duration::from_secs(30), "the end does not arrive");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(without_place(info))
    }
}

#[async_trait]
impl CallLog for Mixed {
    async fn create_call(&self, record: CallRecord, events: Vec<CallEvent>) -> Result<Created, StoreError> {
        match self.is_own(&record.owner) {
            true => self.worker.create_call(record, events).await,
            false => {
                self.worker.flush().await?;
                self.gateway.create_call(record, events).await
            }
        }
    }

    async fn append(&self, record: CallRecord, events: Vec<CallEvent>) -> Result<(), StoreError> {
        match self.is_own(&record.owner) {
            true => self.worker.append(record, events).await,
            false => self.gateway.append(record, events).await,
        }
    }

    async fn get(&self, id: &CallId) -> Result<Option<CallRecord>, StoreError> {
        self.worker.get(id).await
    }

    async fn namesakes(&self, id: &CallId) -> Result<Vec<CallId>, StoreError> {
        self.worker.namesakes(id).await
    }

    async fn events(&self, id: &CallId, after: u64, limit: usize) -> Result<Vec<CallEvent>, StoreError> {
        self.worker.events(id, after, limit).await
    }

    async fn list_calls(&self, filter: &CallFilter, page: &PageRequest) -> Result<Page<CallRecord>, StoreError> {
        self.worker.list_calls(filter, page).await
    }

    async fn list_sessions(
        &self,
        filter: &SessionFilter,
        page: &PageRequest,
    ) -> Result<Page<SessionSummary>, StoreError> {
        self.worker.list_sessions(filter, page).await
    }

    async fn adopt_orphans(&self, new_owner: &InstanceId) -> Result<Vec<CallRecord>, StoreError> {
        self.worker.adopt_orphans(new_owner).await
    }

    async fn sweep_calls(&self, before: Timestamp) -> Result<usize, StoreError> {
        self.worker.sweep_calls(before).await.unwrap();
        self.gateway.sweep_calls(before).await
    }
}

#[async_trait]
impl Outputs for Mixed {
    async fn create_output(&self, owner: OutputOwner) -> Result<Box<dyn OutputWriter>, StoreError> {
        Ok(Box::new(Arriving {
            writer: self.worker.create_output(owner).await?,
            gateway: self.gateway.clone(),
            bytes: 0,
        }))
    }

    async fn look(&self, id: &OutputId) -> Result<Option<OutputInfo>, StoreError> {
        Ok(self.worker.look(id).await?.map(without_place))
    }

    async fn stat(&self, id: &OutputId) -> Result<Option<OutputInfo>, StoreError> {
        Ok(self.worker.stat(id).await?.map(without_place))
    }

    async fn read(&self, id: &OutputId, offset: u64, max: usize) -> Result<Bytes, StoreError> {
        self.worker.read(id, offset, max).await
    }

    async fn list_outputs(&self, filter: &OutputFilter, page: &PageRequest) -> Result<Page<OutputInfo>, StoreError> {
        let Page { items, next } = self.worker.list_outputs(filter, page).await?;
        let items = items.into_iter().map(without_place).collect();
        Ok(Page { items, next })
    }

    async fn delete(&self, id: &OutputId) -> Result<bool, StoreError> {
        match self.worker.delete(id).await {
            Err(StoreError::Failed { .. }) => self.gateway.delete(id).await,
            other => other,
        }
    }

    async fn sweep_outputs(&self, keep: OutputRetention) -> Result<usize, StoreError> {
        self.worker.sweep_outputs(keep).await.unwrap();
        self.gateway.sweep_outputs(keep).await
    }
}

#[async_trait]
impl Prompts for Mixed {
    async fn open(
        &self,
        prompt: Prompt,
        asker: Option<Value>,
        judged_by: Option<BTreeSet<GrantId>>,
    ) -> Result<Vec<Grant>, StoreError> {
        if !self.is_own(&prompt.owner) {
            return self.gateway.open(prompt, asker, judged_by).await;
        }
        match self.worker.open(prompt.clone(), asker.clone(), judged_by.clone()).await {
            // A worker asks for its calls only.
            Err(StoreError::NotFound(_)) => self.gateway.open(prompt, asker, judged_by).await,
            other => other,
        }
    }

    async fn replace_asker(&self, id: &PromptId, asker: Option<Value>) -> Result<(), StoreError> {
        self.worker.replace_asker(id, asker).await
    }

    async fn prompt(&self, id: &PromptId) -> Result<Option<Prompt>, StoreError> {
        self.worker.prompt(id).await
    }

    async fn asked(&self, id: &PromptId) -> Result<Option<AskedPrompt>, StoreError> {
        self.worker.asked(id).await
    }

    async fn asked_in(&self, session: &SessionKey) -> Result<Vec<AskedPrompt>, StoreError> {
        self.worker.asked_in(session).await
    }

    async fn open_prompts(&self) -> Result<Vec<(PromptId, u64)>, StoreError> {
        self.worker.open_prompts().await
    }

    async fn prompts(&self, filter: &PromptFilter, limit: usize) -> Result<Vec<Prompt>, StoreError> {
        self.worker.prompts(filter, limit).await
    }

    async fn approve(&self, id: &PromptId, approval: Approval) -> Result<Option<Prompt>, StoreError> {
        let refused = self.worker.approve(id, approval.clone()).await;
        assert!(matches!(refused, Err(StoreError::Conflict(_))), "{refused:?}");
        self.gateway.approve(id, approval).await
    }

    async fn settle(
        &self,
        first: Settlement,
        also: Vec<Settlement>,
        grants: Vec<Grant>,
        beside: Option<BTreeSet<PromptId>>,
    ) -> Result<Settled, StoreError> {
        let settled = self
            .worker
            .settle(first.clone(), also.clone(), grants.clone(), beside.clone());
        match settled.await {
            Err(StoreError::Conflict(_)) => self.gateway.settle(first, also, grants, beside).await,
            other => other,
        }
    }

    async fn use_grants(&self, ids: &[GrantId], now: Timestamp) -> Result<Vec<GrantId>, StoreError> {
        // The clock of a worker is not believed.
        match now.after(Duration::from_secs(60)) < Timestamp::now() {
            true => self.gateway.use_grants(ids, now).await,
            false => self.worker.use_grants(ids, now).await,
        }
    }

    async fn grants(&self, owner: &InstanceId) -> Result<Vec<Grant>, StoreError> {
        self.worker.grants(owner).await
    }

    async fn grant(&self, id: &GrantId) -> Result<Option<Grant>, StoreError> {
        self.worker.grant(id).await
    }

    async fn revoke(&self, id: &GrantId, by: &str) -> Result<Option<Grant>, StoreError> {
        // The audit says of a worker's that it was told by one.
        self.gateway.revoke(id, by).await
    }

    fn changed_elsewhere(&self) -> Option<Arc<Notify>> {
        self.worker.changed_elsewhere()
    }
}

#[async_trait]
impl SessionFacts for Mixed {
    async fn fact(&self, session: &SessionKey, key: &str) -> Result<Option<Value>, StoreError> {
        self.worker.fact(session, key).await
    }

    async fn facts(&self, session: &SessionKey) -> Result<Facts, StoreError> {
        self.worker.facts(session).await
    }

    fn remember(&self, session: &SessionKey, key: &str, value: Value) {
        self.worker.remember(session, key, value);
    }

    async fn forget(&self, session: &SessionKey) -> Result<usize, StoreError> {
        self.worker.forget(session).await
    }
}

#[async_trait]
impl Journal for Mixed {
    fn record(&self, event: ServiceEvent) {
        self.worker.record(event);
    }

    async fn since(&self, after: u64, limit: usize) -> Result<Vec<(u64, ServiceEvent)>, StoreError> {
        self.gateway.since(after, limit).await
    }

    async fn last(&self) -> Result<Receiver<u64>, StoreError> {
        self.gateway.last().await
    }

    async fn sweep_journal(&self, before: Timestamp) -> Result<usize, StoreError> {
        self.worker.flush().await?;
        self.gateway.sweep_journal(before).await
    }
}

#[async_trait]
impl Changes for Mixed {
    async fn put_blob(&self, bytes: Bytes) -> Result<String, StoreError> {
        self.worker.put_blob(bytes).await
    }

    async fn blob(&self, sha256: &str) -> Result<Option<Bytes>, StoreError> {
        self.worker.blob(sha256).await
    }

    async fn record_changes(&self, call: &CallId, changes: Vec<FileChange>) -> Result<(), StoreError> {
        self.worker.record_changes(call, changes).await
    }

    async fn changes(&self, call: &CallId) -> Result<Vec<FileChange>, StoreError> {
        self.worker.changes(call).await
    }
}

#[async_trait]
impl Audit for Mixed {
    fn audit(&self, fact: Fact) {
        self.worker.audit(fact);
    }

    async fn audit_end(&self) -> Result<AuditEnd, StoreError> {
        self.gateway.audit_end().await
    }

    async fn audit_lines(&self, from: u64, limit: usize) -> Result<Vec<AuditLine>, StoreError> {
        self.worker.flush().await?;
        self.gateway.audit_lines(from, limit).await
    }

    async fn audit_since(&self, time: Timestamp) -> Result<u64, StoreError> {
        self.gateway.audit_since(time).await
    }

    async fn sweep_audit(&self, before: Timestamp) -> Result<usize, StoreError> {
        self.gateway.sweep_audit(before).await
    }
}

#[async_trait]
impl Workspaces for Mixed {
    async fn keep_workspace(&self, opened: OpenedWorkspace) -> Result<(), StoreError> {
        self.gateway.keep_workspace(opened).await
    }

    async fn drop_workspace(&self, name: &str, by: &str) -> Result<bool, StoreError> {
        self.gateway.drop_workspace(name, by).await
    }

    async fn workspaces(&self) -> Result<Vec<OpenedWorkspace>, StoreError> {
        self.gateway.workspaces().await
    }
}

#[async_trait]
impl Upkeep for Mixed {
    fn prepare_workspace(&self, name: &str) -> Result<(), StoreError> {
        self.worker.prepare_workspace(name)
    }

    async fn check(&self) -> Result<(), StoreError> {
        self.worker.check().await
    }

    async fn free_bytes(&self) -> Option<u64> {
        self.worker.free_bytes().await
    }

    fn has_dead_runs(&self) -> bool {
        self.worker.has_dead_runs()
    }

    fn forget_dead_runs(&self) -> Result<(), StoreError> {
        self.worker.forget_dead_runs()
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.worker.close().await
    }
}
