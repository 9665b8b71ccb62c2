//! A store whose appends are held, fail, or pass, as a test wants it; all else is the embedded store.

use std::collections::BTreeSet;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;
use toolgate_model::{
    Approval, CallEvent, CallId, CallRecord, Facts, FileChange, Grant, GrantId, InstanceId, OutputId, Prompt, PromptId,
    ServiceEvent, SessionKey, Timestamp,
};
use toolgate_store::audit::Fact;
use toolgate_store::local::LocalStore;
use toolgate_store::*;

/// What becomes of appends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gate {
    Open,
    /// They wait for another state.
    Held,
    /// They are refused.
    Away,
}

pub(super) struct GatedStore {
    pub(super) store: LocalStore,
    gate: watch::Sender<Gate>,
    /// The events of each append that was begun.
    pub(super) begun: Mutex<Vec<Vec<CallEvent>>>,
}

impl GatedStore {
    pub(super) fn new(store: LocalStore) -> Self {
        Self {
            store,
            gate: watch::Sender::new(Gate::Open),
            begun: Mutex::default(),
        }
    }

    pub(super) fn set(&self, gate: Gate) {
        self.gate.send_replace(gate);
    }

    async fn pass(&self, events: &[CallEvent]) -> Result<(), StoreError> {
        self.begun.lock().push(events.to_vec());
        let mut gate = self.gate.subscribe();
        let gate = *gate.wait_for(|gate| *gate != Gate::Held).await.expect("it is there");
        match gate {
            Gate::Open | Gate::Held => Ok(()),
            Gate::Away => Err(StoreError::Unavailable("the gate is closed".to_owned())),
        }
    }
}

/// Passes methods on.
macro_rules! passes {
    ($($trait:ident { $(async $name:ident($($arg:ident: $type:ty),*) -> $answer:ty;)* $(fn $plain:ident($($given:ident: $of:ty),*) $(-> $back:ty)?;)* })+) => {
        $(
            #[async_trait]
            impl $trait for GatedStore {
                $(
                    async fn $name(&self, $($arg: $type),*) -> Result<$answer, StoreError> {
                        self.store.$name($($arg),*).await
                    }
                )*
                $(
                    fn $plain(&self, $($given: $of),*) $(-> $back)? {
                        self.store.$plain($($given),*)
                    }
                )*
            }
        )+
    };
}

#[async_trait]
impl CallLog for GatedStore {
    async fn append(&self, record: CallRecord, events: Vec<CallEvent>) -> Result<(), StoreError> {
        self.pass(&events).await?;
        self.store.append(record, events).await
    }

    async fn create_call(&self, record: CallRecord, events: Vec<CallEvent>) -> Result<Created, StoreError> {
        self.pass(&events).await?;
        self.store.create_call(record, events).await
    }

    async fn get(&self, id: &CallId) -> Result<Option<CallRecord>, StoreError> {
        self.store.get(id).await
    }

    async fn namesakes(&self, id: &CallId) -> Result<Vec<CallId>, StoreError> {
        self.store.namesakes(id).await
    }

    async fn events(&self, id: &CallId, after: u64, limit: usize) -> Result<Vec<CallEvent>, StoreError> {
        self.store.events(id, after, limit).await
    }

    async fn list_calls(&self, filter: &CallFilter, page: &PageRequest) -> Result<Page<CallRecord>, StoreError> {
        self.store.list_calls(filter, page).await
    }

    async fn list_sessions(&self, by: &SessionFilter, page: &PageRequest) -> Result<Page<SessionSummary>, StoreError> {
        self.store.list_sessions(by, page).await
    }

    async fn adopt_orphans(&self, new_owner: &InstanceId) -> Result<Vec<CallRecord>, StoreError> {
        self.store.adopt_orphans(new_owner).await
    }

    async fn sweep_calls(&self, before: Timestamp) -> Result<usize, StoreError> {
        self.store.sweep_calls(before).await
    }
}

passes! {
    Outputs {
        async create_output(owner: OutputOwner) -> Box<dyn OutputWriter>;
        async look(id: &OutputId) -> Option<OutputInfo>;
        async stat(id: &OutputId) -> Option<OutputInfo>;
        async read(id: &OutputId, offset: u64, max: usize) -> Bytes;
        async list_outputs(filter: &OutputFilter, page: &PageRequest) -> Page<OutputInfo>;
        async delete(id: &OutputId) -> bool;
        async sweep_outputs(keep: OutputRetention) -> usize;
    }
    Prompts {
        async open(prompt: Prompt, asker: Option<Value>, judged_by: Option<BTreeSet<GrantId>>) -> Vec<Grant>;
        async replace_asker(id: &PromptId, asker: Option<Value>) -> ();
        async prompt(id: &PromptId) -> Option<Prompt>;
        async asked(id: &PromptId) -> Option<AskedPrompt>;
        async asked_in(session: &SessionKey) -> Vec<AskedPrompt>;
        async open_prompts() -> Vec<(PromptId, u64)>;
        async prompts(filter: &PromptFilter, limit: usize) -> Vec<Prompt>;
        async approve(id: &PromptId, approval: Approval) -> Option<Prompt>;
        async settle(
            first: Settlement, also: Vec<Settlement>, grants: Vec<Grant>, beside: Option<BTreeSet<PromptId>>
        ) -> Settled;
        async use_grants(ids: &[GrantId], now: Timestamp) -> Vec<GrantId>;
        async grants(owner: &InstanceId) -> Vec<Grant>;
        async grant(id: &GrantId) -> Option<Grant>;
        async revoke(id: &GrantId, by: &str) -> Option<Grant>;
    }
    SessionFacts {
        async fact(session: &SessionKey, key: &str) -> Option<Value>;
        async facts(session: &SessionKey) -> Facts;
        async forget(session: &SessionKey) -> usize;
        fn remember(session: &SessionKey, key: &str, value: Value);
    }
    Journal {
        async since(after: u64, limit: usize) -> Vec<(u64, ServiceEvent)>;
        async last() -> watch::Receiver<u64>;
        async sweep_journal(before: Timestamp) -> usize;
        fn record(event: ServiceEvent);
    }
    Changes {
        async put_blob(bytes: Bytes) -> String;
        async blob(sha256: &str) -> Option<Bytes>;
        async record_changes(call: &CallId, changes: Vec<FileChange>) -> ();
        async changes(call: &CallId) -> Vec<FileChange>;
    }
    Audit {
        async audit_end() -> AuditEnd;
        async audit_lines(from: u64, limit: usize) -> Vec<AuditLine>;
        async audit_since(time: Timestamp) -> u64;
        async sweep_audit(before: Timestamp) -> usize;
        fn audit(fact: Fact);
    }
    Workspaces {
        async keep_workspace(opened: OpenedWorkspace) -> ();
        async drop_workspace(name: &str, by: &str) -> bool;
        async workspaces() -> Vec<OpenedWorkspace>;
    }
}

#[async_trait]
impl Upkeep for GatedStore {
    fn prepare_workspace(&self, name: &str) -> Result<(), StoreError> {
        self.store.prepare_workspace(name)
    }

    async fn check(&self) -> Result<(), StoreError> {
        self.store.check().await
    }

    async fn free_bytes(&self) -> Option<u64> {
        self.store.free_bytes().await
    }

    fn has_dead_runs(&self) -> bool {
        self.store.has_dead_runs()
    }

    fn forget_dead_runs(&self) -> Result<(), StoreError> {
        self.store.forget_dead_runs()
    }

    /// As where there are gateways: nothing is shown that is not stored.
    fn tells_others(&self) -> bool {
        true
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.store.close().await
    }
}
