//! Follows a call to its terminal event over as many streams as it takes.
//!
//! *Invariant:* no event is skipped or delivered twice; a stream without a terminal event is taken up again after the
//! last sequence number seen, with bounded attempts. Waiting for an event may be given up and begun again.

use std::time::Duration;

use tokio_stream::{Stream, StreamExt as _};
use tonic::{Code, Status};
use toolgate_contract::{
    CallEvent, ExecuteToolRequest, ExecuteToolResponse, OutputMode, RevertCallRequest, RevertCallResponse,
    WatchCallRequest, WatchCallResponse,
};

use super::client::Client;
use super::exit::{Failure, is_lost_connection};

const MAX_ATTEMPTS: u32 = 8;
const MAX_BACKOFF: Duration = Duration::from_secs(5);

type EventStream = std::pin::Pin<Box<dyn Stream<Item = Result<CallEvent, Status>> + Send>>;

/// A request that starts a call. It names the call, so that starting is idempotent.
#[derive(Clone, Debug)]
pub(super) enum Start {
    /// Executes a tool.
    Execute(Box<ExecuteToolRequest>),
    /// Takes back what a call did.
    Revert(Box<RevertCallRequest>),
}

impl Start {
    /// Returns the id of the call that is started.
    pub(super) fn call_id(&self) -> &str {
        match self {
            Self::Execute(request) => &request.call_id,
            Self::Revert(request) => &request.revert_call_id,
        }
    }

    async fn send(&self, client: &Client) -> Result<EventStream, Status> {
        Ok(match self {
            Self::Execute(request) => {
                let stream = client.tools().execute_tool((**request).clone()).await?.into_inner();
                let event = |next: Result<ExecuteToolResponse, Status>| next?.event.ok_or_else(no_event);
                Box::pin(stream.map(event))
            }
            Self::Revert(request) => {
                let stream = client.tools().revert_call((**request).clone()).await?.into_inner();
                let event = |next: Result<RevertCallResponse, Status>| next?.event.ok_or_else(no_event);
                Box::pin(stream.map(event))
            }
        })
    }
}

fn no_event() -> Status {
    Status::internal("an event without content")
}

/// A cursor over a call's log.
pub(super) struct Follower {
    client: Client,
    /// The request that starts the call, until its first event shows that it was admitted.
    start: Option<Start>,
    call_id: String,
    last_sequence: i64,
    output: i32,
    stream: Option<EventStream>,
    attempts: u32,
}

impl Follower {
    /// Starts a call when the first event is asked for.
    pub(super) fn start(client: Client, start: Start) -> Self {
        let output = match &start {
            Start::Execute(request) => request.output,
            Start::Revert(_) => OutputMode::Full.into(),
        };
        let call_id = start.call_id().to_owned();
        Self {
            start: Some(start),
            ..Self::watch(client, call_id, 0, output)
        }
    }

    /// Watches a call from the event after `after` on.
    pub(super) fn watch(client: Client, call_id: String, after: i64, output: i32) -> Self {
        Self {
            client,
            start: None,
            call_id,
            last_sequence: after,
            output,
            stream: None,
            attempts: 0,
        }
    }

    /// Returns the next event; after a terminal one, do not ask again.
    pub(super) async fn next(&mut self) -> Result<CallEvent, Failure> {
        loop {
            let status = match &mut self.stream {
                None => match self.connect().await {
                    Ok(stream) => {
                        self.stream = Some(stream);
                        continue;
                    }
                    Err(status) => status,
                },
                Some(stream) => match stream.next().await {
                    Some(Ok(event)) => {
                        if self.accept(&event) {
                            return Ok(event);
                        }
                        continue;
                    }
                    Some(Err(status)) => status,
                    None => Status::unavailable("the stream ended before the call did"),
                },
            };
            self.retry(status).await?;
        }
    }

    /// Notes how far the log was read; says whether the event is new.
    fn accept(&mut self, event: &CallEvent) -> bool {
        let is_new = event.sequence == 0 || event.sequence > self.last_sequence;
        self.start = None;
        if is_new {
            self.attempts = 0;
        }
        self.last_sequence = self.last_sequence.max(event.sequence);
        is_new
    }

    async fn connect(&self) -> Result<EventStream, Status> {
        if let Some(start) = &self.start {
            return start.send(&self.client).await;
        }
        let request = WatchCallRequest {
            call_id: self.call_id.clone(),
            after_sequence: self.last_sequence,
            output: self.output,
        };
        let stream = self.client.tools().watch_call(request).await?.into_inner();
        let event = |next: Result<WatchCallResponse, Status>| next?.event.ok_or_else(no_event);
        Ok(Box::pin(stream.map(event)))
    }

    /// Waits before the next attempt, or gives up.
    async fn retry(&mut self, status: Status) -> Result<(), Failure> {
        self.stream = None;
        // A server that did not admit the call has said why; only a lost connection is worth another attempt.
        let refused = self.start.is_some() && !matches!(status.code(), Code::Unavailable | Code::Unknown);
        if refused || !is_lost_connection(&status) {
            return Err(status.into());
        }
        self.attempts += 1;
        if self.attempts > MAX_ATTEMPTS {
            return Err(match self.start {
                Some(_) => status.into(),
                None => Failure::Lost {
                    call: self.call_id.clone(),
                    attempts: MAX_ATTEMPTS,
                },
            });
        }
        tracing::warn!(call = %self.call_id, attempt = self.attempts, %status, "taking the stream up again");
        tokio::time::sleep(backoff(self.attempts)).await;
        Ok(())
    }
}

/// Returns how long to wait before an attempt, the first being 1.
pub(super) fn backoff(attempt: u32) -> Duration {
    let doubled = Duration::from_millis(100).saturating_mul(2u32.saturating_pow(attempt.min(16)));
    doubled.min(MAX_BACKOFF)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_and_are_bounded() {
        let waits: Vec<_> = (1..=MAX_ATTEMPTS).map(backoff).collect();
        assert!(waits.is_sorted());
        assert_eq!(waits[0], Duration::from_millis(200));
        assert_eq!(backoff(u32::MAX), MAX_BACKOFF);
    }

    #[tokio::test]
    async fn events_are_delivered_once() {
        let client = Client::disconnected();
        let mut follower = Follower::watch(client, "c".to_owned(), 2, 0);
        let event = |sequence| CallEvent {
            sequence,
            ..CallEvent::default()
        };
        let accepted: Vec<_> = [1, 2, 3, 0, 3, 4]
            .map(|sequence| follower.accept(&event(sequence)))
            .into();
        assert_eq!(accepted, [false, false, true, true, false, true]);
        assert_eq!(follower.last_sequence, 4);
    }
}
