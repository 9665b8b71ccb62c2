//! Facts of sessions; what the journal and the audit are told. Neither of the two is read by a worker.

use async_trait::async_trait;
use serde_json::Value;
use tokio::sync::watch;
use toolgate_contract::cluster::{ForgetSessionRequest, GetFactsRequest};
use toolgate_model::{Facts, ServiceEvent, SessionKey, Timestamp};
use toolgate_store::audit::Fact;
use toolgate_store::codec::failed;
use toolgate_store::ledger::Note;
use toolgate_store::{Audit, AuditEnd, AuditLine, Journal, SessionFacts, StoreError};

use crate::store::LedgerStore;
use crate::wire;

fn not_here(what: &str) -> StoreError {
    failed(format!("read {what}"), "the gateways keep it: ask one of them")
}

impl LedgerStore {
    async fn stored_facts(&self, session: &SessionKey, key: Option<&str>) -> Result<Facts, StoreError> {
        let question = GetFactsRequest {
            workspace: session.workspace.clone(),
            session: session.session.to_string(),
            key: key.map(str::to_owned),
        };
        let answer = self.holds.gateways.ask(question).await?;
        wire::of_json("facts", &answer.facts)
    }
}

#[async_trait]
impl SessionFacts for LedgerStore {
    async fn fact(&self, session: &SessionKey, key: &str) -> Result<Option<Value>, StoreError> {
        if let Some(queued) = self.notes.overlay.get(session, key) {
            return Ok(Some(queued));
        }
        Ok(self.stored_facts(session, Some(key)).await?.remove(key))
    }

    async fn facts(&self, session: &SessionKey) -> Result<Facts, StoreError> {
        // First, so that none is missed that is stored meanwhile.
        let queued = self.notes.overlay.session(session);
        let mut facts = self.stored_facts(session, None).await?;
        facts.extend(queued);
        Ok(facts)
    }

    fn remember(&self, session: &SessionKey, key: &str, value: Value) {
        self.notes.remember(session, key, value);
    }

    async fn forget(&self, session: &SessionKey) -> Result<usize, StoreError> {
        self.flush().await?;
        let hold = self.holds.of(&session.workspace).await?;
        let question = ForgetSessionRequest {
            holding: Some(wire::holding(&hold)),
            session: session.session.to_string(),
        };
        let answer = self.holds.change(question).await?;
        Ok(usize::try_from(answer.facts).unwrap_or(usize::MAX))
    }
}

#[async_trait]
impl Journal for LedgerStore {
    fn record(&self, event: ServiceEvent) {
        self.told.noted(&event);
        self.notes.add(&event.workspace.clone(), Note::Event(event));
    }

    async fn since(&self, _: u64, _: usize) -> Result<Vec<(u64, ServiceEvent)>, StoreError> {
        Err(not_here("the journal"))
    }

    async fn last(&self) -> Result<watch::Receiver<u64>, StoreError> {
        Err(not_here("the journal"))
    }

    /// Does nothing: the gateways keep the journal.
    async fn sweep_journal(&self, _: Timestamp) -> Result<usize, StoreError> {
        Ok(0)
    }
}

#[async_trait]
impl Audit for LedgerStore {
    fn audit(&self, fact: Fact) {
        self.notes.add(&fact.workspace.clone(), Note::Audit(Box::new(fact)));
    }

    async fn audit_end(&self) -> Result<AuditEnd, StoreError> {
        Err(not_here("the audit"))
    }

    async fn audit_lines(&self, _: u64, _: usize) -> Result<Vec<AuditLine>, StoreError> {
        Err(not_here("the audit"))
    }

    async fn audit_since(&self, _: Timestamp) -> Result<u64, StoreError> {
        Err(not_here("the audit"))
    }

    /// Does nothing: the gateways keep the audit.
    async fn sweep_audit(&self, _: Timestamp) -> Result<usize, StoreError> {
        Ok(0)
    }
}
