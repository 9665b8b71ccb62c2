//! Calls and their logs.

use async_trait::async_trait;
use toolgate_contract::cluster::{
    AdoptCallsRequest, AppendEventsRequest, CreateCallRequest, FindNamesakesRequest, GetCallRequest, ListCallsRequest,
    ListSessionsRequest, ReadEventsRequest,
};
use toolgate_model::{CallEvent, CallId, CallRecord, InstanceId, Timestamp};
use toolgate_store::{CallFilter, CallLog, Created, Page, PageRequest, SessionFilter, SessionSummary, StoreError};

use crate::doubts::{Doubtful, Key};
use crate::notes::Riding;
use crate::store::LedgerStore;
use crate::uploads::blocking;
use crate::wire;

impl LedgerStore {
    /// Creates a call, with notes that came before it. Returns up to which notes are stored then, as far as the gateway says so.
    async fn create(
        &self,
        record: &CallRecord,
        events: &[CallEvent],
        riding: Option<&Riding<'_>>,
    ) -> Result<(Created, u64), StoreError> {
        let hold = self.holds.of(&record.origin.workspace).await?;
        let question = CreateCallRequest {
            holding: Some(wire::holding(&hold)),
            record: wire::json("a call", record)?,
            events: wire::json("events", events)?,
            again: self.doubts.take(&Key::Call(record.id.clone())).await,
            first_note: riding.map_or(0, Riding::first),
            notes: riding.map(|riding| riding.json.clone()).unwrap_or_default(),
        };
        let doubt = self
            .doubts
            .begin(Doubtful::Call(question.clone(), Box::new(record.clone())));
        let answer = self.holds.change(question).await;
        doubt.end(&answer);
        let answer = answer?;
        let created = match wire::of_optional("a call", &answer.taken)? {
            Some(taken) => Created::Taken(Box::new(taken)),
            None => {
                self.holds.note(record);
                self.recorded.begin(&record.id, &self.holds);
                self.told.changed(record, events);
                Created::New
            }
        };
        Ok((created, answer.noted))
    }

    /// As [`Self::create`], to a call that there is.
    async fn append_noted(
        &self,
        record: &CallRecord,
        events: &[CallEvent],
        riding: Option<&Riding<'_>>,
    ) -> Result<(Created, u64), StoreError> {
        let hold = self.holds.of(&record.origin.workspace).await?;
        let again = self.doubts.begin_append(&record.id);
        let question = AppendEventsRequest {
            holding: Some(wire::holding(&hold)),
            record: wire::json("a call", record)?,
            events: wire::json("events", events)?,
            again,
            first_note: riding.map_or(0, Riding::first),
            notes: riding.map(|riding| riding.json.clone()).unwrap_or_default(),
        };
        let appended = self.holds.change(question).await;
        self.doubts.end_append(&record.id, again, &appended);
        let noted = appended?.noted;
        self.holds.note(record);
        self.told.changed(record, events);
        Ok((Created::New, noted))
    }

    async fn change(
        &self,
        is_new: bool,
        record: &CallRecord,
        events: &[CallEvent],
        riding: Option<&Riding<'_>>,
    ) -> Result<(Created, u64), StoreError> {
        match is_new {
            true => self.create(record, events, riding).await,
            false => self.append_noted(record, events, riding).await,
        }
    }

    /// Creates a call or appends to one, with the notes that wait, or behind them if they cannot be stored together.
    async fn with_notes(&self, is_new: bool, record: &CallRecord, events: &[CallEvent]) -> Result<Created, StoreError> {
        if let Some(riding) = self.notes.riding(&self.holds, &record.origin.workspace).await? {
            let answer = self.change(is_new, record, events, Some(&riding)).await;
            if let Some(answer) = riding.settle(answer, &self.holds) {
                return answer;
            }
            self.notes.flush(&self.holds).await?;
        }
        let answer = self.change(is_new, record, events, None).await;
        answer.map(|(created, _)| created)
    }
}

fn next(token: String) -> Option<String> {
    Some(token).filter(|token| !token.is_empty())
}

#[async_trait]
impl CallLog for LedgerStore {
    async fn create_call(&self, record: CallRecord, events: Vec<CallEvent>) -> Result<Created, StoreError> {
        self.open_still()?;
        // From now on nobody takes it for one that an earlier run has left.
        let _creates = self.holds.creates(&record.id);
        self.with_notes(true, &record, &events).await
    }

    async fn append(&self, record: CallRecord, events: Vec<CallEvent>) -> Result<(), StoreError> {
        self.open_still()?;
        self.with_notes(false, &record, &events).await.map(drop)
    }

    async fn get(&self, id: &CallId) -> Result<Option<CallRecord>, StoreError> {
        let question = GetCallRequest {
            id: id.to_string(),
            workspaces: self.holds.names(),
        };
        let answer = self.holds.gateways.ask(question).await?;
        wire::of_optional("a call", &answer.record)
    }

    async fn namesakes(&self, id: &CallId) -> Result<Vec<CallId>, StoreError> {
        let question = FindNamesakesRequest {
            id: id.to_string(),
            workspaces: self.holds.names(),
        };
        let answer = self.holds.gateways.ask(question).await?;
        Ok(answer.ids.into_iter().map(CallId::new).collect())
    }

    async fn events(&self, id: &CallId, after: u64, limit: usize) -> Result<Vec<CallEvent>, StoreError> {
        let mut events: Vec<CallEvent> = Vec::new();
        while events.len() < limit {
            let question = ReadEventsRequest {
                id: id.to_string(),
                after: events.last().map_or(after, |last| last.sequence),
                limit: u32::try_from(limit - events.len()).unwrap_or(u32::MAX),
                workspaces: self.holds.names(),
            };
            let answer = self.holds.gateways.ask(question).await?;
            let some: Vec<CallEvent> = wire::of_json("events", &answer.events)?;
            let is_last = !answer.more || some.is_empty();
            events.extend(some);
            if is_last {
                break;
            }
        }
        Ok(events)
    }

    async fn list_calls(&self, filter: &CallFilter, page: &PageRequest) -> Result<Page<CallRecord>, StoreError> {
        let question = ListCallsRequest {
            filter: wire::json("a filter", filter)?,
            workspaces: self.holds.among(&filter.workspaces),
            page: Some(wire::page(page)),
        };
        let answer = self.holds.gateways.ask(question).await?;
        Ok(Page {
            items: wire::of_json("calls", &answer.records)?,
            next: next(answer.next),
        })
    }

    async fn list_sessions(
        &self,
        filter: &SessionFilter,
        page: &PageRequest,
    ) -> Result<Page<SessionSummary>, StoreError> {
        let question = ListSessionsRequest {
            filter: wire::json("a filter", filter)?,
            workspaces: self.holds.among(&filter.workspaces),
            page: Some(wire::page(page)),
        };
        let answer = self.holds.gateways.ask(question).await?;
        Ok(Page {
            items: wire::of_json("sessions", &answer.sessions)?,
            next: next(answer.next),
        })
    }

    async fn adopt_orphans(&self, new_owner: &InstanceId) -> Result<Vec<CallRecord>, StoreError> {
        if *new_owner != self.holds.run {
            return Err(StoreError::Conflict(format!(
                "the run {} cannot take calls over for {new_owner}",
                self.holds.run
            )));
        }
        let (mut holds, mut adopted) = (self.holds.not_adopted(), Vec::new());
        if holds.is_empty() {
            // Whoever asks without a reason gets what there is.
            holds = self.holds.all();
        }
        for hold in &holds {
            let question = AdoptCallsRequest {
                holding: Some(wire::holding(hold)),
            };
            let answer = self.holds.change(question).await?;
            let records: Vec<CallRecord> = wire::of_json("calls", &answer.records)?;
            // Said again, the ledger also names those that this run has made itself.
            let is_own = |id: &CallId| self.holds.is_own(id) || self.doubts.has(&Key::Call(id.clone()));
            adopted.extend(records.into_iter().filter(|record| !is_own(&record.id)));
        }
        adopted.iter().for_each(|record| self.holds.note(record));
        self.holds.adopted(holds);
        Ok(adopted)
    }

    /// Deletes old contents only: the gateways have the calls.
    async fn sweep_calls(&self, before: Timestamp) -> Result<usize, StoreError> {
        let volume = std::sync::Arc::clone(&self.uploads.volume);
        let gone = blocking(move || volume.sweep_blobs(before)).await?;
        if gone > 0 {
            tracing::info!(gone, "deleted contents of files past their retention");
        }
        Ok(0)
    }
}
