//! The logs of calls: who writes them, what is kept of them in memory, and who reads them.
//!
//! *Invariant:* knows nothing of tools, prompts and workspaces. An event is stored first and shown second.

pub(crate) mod appends;
pub(crate) mod batch;
pub(crate) mod cursor;
pub(crate) mod event;
pub(crate) mod late_metadata;
pub(crate) mod ring;
#[cfg(test)]
mod tests;
pub(crate) mod writer;

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use toolgate_model::redact::Redactor;
use toolgate_model::{CallId, CallRecord, ListeningPort};
use toolgate_store::{CallFilter, Page, PageRequest, Store, StoreError};
use toolgate_telemetry::Metrics;

use self::cursor::{Cursor, WatchError, WatchOptions};
use self::late_metadata::LateMetadata;
use self::ring::{Ring, RingMemory};
use self::writer::LogWriter;
use crate::live::LiveCall;

/// The logs of all calls.
pub(crate) struct CallLog {
    store: Arc<dyn Store>,
    redactor: Redactor,
    metrics: Arc<Metrics>,
    max_output_bytes: u64,
    /// What all calls keep of their recent logs.
    memory: Arc<RingMemory>,
    /// Ends the attempts to store what the store does not take.
    closing: CancellationToken,
    /// What calls hear of after their end.
    pub(crate) late: LateMetadata,
}

impl CallLog {
    pub(crate) fn new(store: Arc<dyn Store>, redactor: Redactor, metrics: Arc<Metrics>, max_output_bytes: u64) -> Self {
        Self {
            late: LateMetadata::new(store.clone(), redactor.clone()),
            store,
            redactor,
            metrics,
            max_output_bytes,
            memory: Arc::default(),
            closing: CancellationToken::new(),
        }
    }

    /// Makes the memory of a call's recent log.
    pub(crate) fn ring(&self) -> Ring {
        Ring::new(self.memory.clone())
    }

    /// Makes the writer of a call's log.
    pub(crate) fn writer(self: &Arc<Self>, live: Arc<LiveCall>, record: CallRecord) -> LogWriter {
        LogWriter::new(self.clone(), live, record)
    }

    /// Watches the log of a call, which may run here.
    pub(crate) async fn watch(
        &self,
        id: &CallId,
        live: Option<Arc<LiveCall>>,
        options: WatchOptions,
    ) -> Result<Cursor, WatchError> {
        Cursor::open(&self.store, id, live, options).await
    }

    /// Returns what is cancelled when the service gives up storing what the store does not take.
    pub(crate) fn closing(&self) -> &CancellationToken {
        &self.closing
    }

    /// Takes secrets out of what of a record is shown. Stored, the input is what runs, also after a restart.
    pub(crate) fn redacted(&self, mut record: CallRecord) -> CallRecord {
        self.redactor.string(&mut record.input_json);
        for value in record.origin.environment.values_mut() {
            self.redactor.string(value);
        }
        record
    }

    /// Lists calls as they are shown, newest first.
    pub(crate) async fn list(&self, filter: &CallFilter, page: &PageRequest) -> Result<Page<CallRecord>, StoreError> {
        let mut page = self.store.list_calls(filter, page).await?;
        page.items = page.items.into_iter().map(|record| self.redacted(record)).collect();
        Ok(page)
    }

    /// Takes the secrets out of what is told of programs that listen.
    pub(crate) fn redact_ports(&self, ports: &mut [ListeningPort]) {
        for port in ports {
            self.redactor.string(&mut port.command);
        }
    }
}
