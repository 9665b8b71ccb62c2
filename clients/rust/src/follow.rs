//! Follows a call to its terminal event over as many streams as it takes.
//!
//! *Invariant:* no event is skipped or delivered twice; a stream without a terminal event is taken up again after the
//! last sequence number seen, with bounded attempts. Waiting for an event may be given up and begun again.

use std::fmt;
use std::pin::Pin;

use tokio_stream::{Stream, StreamExt as _};
use tonic::Status;
use toolgate_contract::call_event::Event;
use toolgate_contract::{CallEvent, ExecuteToolRequest, OutputMode, RevertCallRequest, WatchCallRequest};

use crate::client::Client;
use crate::error::Error;
use crate::retry::{Patience, next_message};

type EventStream = Pin<Box<dyn Stream<Item = Result<CallEvent, Status>> + Send + Sync>>;

/// A request that starts a call. It names the call, so that starting is idempotent.
#[derive(Clone, Debug)]
pub enum Start {
    /// Executes a tool.
    Execute(Box<ExecuteToolRequest>),
    /// Takes back what a call did.
    Revert(Box<RevertCallRequest>),
}

impl Start {
    /// Returns the id of the call that is started.
    pub fn call_id(&self) -> &str {
        match self {
            Self::Execute(request) => &request.call_id,
            Self::Revert(request) => &request.revert_call_id,
        }
    }

    async fn send(&self, client: &Client) -> Result<EventStream, Status> {
        let mut service = client.tool_service();
        Ok(match self {
            Self::Execute(request) => {
                let stream = service.execute_tool((**request).clone()).await?.into_inner();
                Box::pin(stream.map(|next| next?.event.ok_or_else(no_event)))
            }
            Self::Revert(request) => {
                let stream = service.revert_call((**request).clone()).await?.into_inner();
                Box::pin(stream.map(|next| next?.event.ok_or_else(no_event)))
            }
        })
    }
}

fn no_event() -> Status {
    Status::internal("an event without content")
}

/// A cursor over a call's log. Unlike an [`crate::Execution`] it cancels nothing, and shows heartbeats.
pub struct Follower {
    client: Client,
    /// The request that starts the call, until its first event shows that it was admitted.
    start: Option<Start>,
    call_id: String,
    last_sequence: i64,
    output: i32,
    stream: Option<EventStream>,
    patience: Patience,
}

impl fmt::Debug for Follower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Follower")
            .field("call_id", &self.call_id)
            .field("last_sequence", &self.last_sequence)
            .finish_non_exhaustive()
    }
}

/// What follows from one message of a stream.
enum Next {
    Deliver(Box<CallEvent>),
    Skip,
    Lost(Status),
    /// The stream ended in good order.
    End,
}

impl Client {
    /// Watches any call from the event after the number `after` on; 0 for all of them.
    pub fn watch(&self, call_id: impl Into<String>, after: i64) -> Follower {
        Follower::watch(self.clone(), call_id, after, OutputMode::Full)
    }
}

impl Follower {
    /// Starts a call when the first event is asked for.
    pub fn start(client: Client, start: Start) -> Self {
        let output = match &start {
            Start::Execute(request) => request.output(),
            Start::Revert(_) => OutputMode::Full,
        };
        let call_id = start.call_id().to_owned();
        Self {
            start: Some(start),
            ..Self::watch(client, call_id, 0, output)
        }
    }

    /// Watches a call from the event after `after` on.
    pub fn watch(client: Client, call_id: impl Into<String>, after: i64, output: OutputMode) -> Self {
        Self {
            patience: client.patience(),
            client,
            start: None,
            call_id: call_id.into(),
            last_sequence: after,
            output: output.into(),
            stream: None,
        }
    }

    /// Returns the call's id.
    pub fn call_id(&self) -> &str {
        &self.call_id
    }

    /// Returns whether the service is known to have the call.
    pub(crate) fn is_admitted(&self) -> bool {
        self.start.is_none()
    }

    /// Returns the next event, heartbeats included; `None` if the log had ended before the event that is due. After a
    /// terminal event, do not ask again.
    pub async fn next(&mut self) -> Result<Option<CallEvent>, Error> {
        loop {
            let status = match self.receive().await? {
                Next::Deliver(event) => return Ok(Some(*event)),
                Next::Skip => continue,
                Next::Lost(status) => status,
                Next::End => {
                    self.stream = None;
                    if self.start.is_none() && self.has_ended().await? {
                        return Ok(None);
                    }
                    Status::unavailable("the stream ended before the call did")
                }
            };
            self.retry(status).await?;
        }
    }

    async fn receive(&mut self) -> Result<Next, Error> {
        let client = self.client.clone();
        client
            .unless_closed(async {
                let stream = match &mut self.stream {
                    Some(stream) => stream,
                    None => match self.connect().await {
                        Ok(stream) => self.stream.insert(stream),
                        Err(status) => return Ok(Next::Lost(status)),
                    },
                };
                Ok(match next_message(stream).await {
                    Ok(Some(event)) => self.accept(event),
                    Ok(None) => Next::End,
                    Err(status) => Next::Lost(status),
                })
            })
            .await
    }

    /// Remembers how far the log was read. An event that leaves a hole ends the stream: the next one begins where this one
    /// should have gone on.
    fn accept(&mut self, mut event: CallEvent) -> Next {
        let is_heartbeat = matches!(event.event, Some(Event::Heartbeat(_))) || event.sequence == 0;
        if !is_heartbeat {
            if event.sequence <= self.last_sequence {
                return Next::Skip;
            }
            let due = self.last_sequence + 1;
            match &mut event.event {
                Some(Event::Gap(gap)) if gap.first_sequence <= due => gap.first_sequence = due,
                _ if event.sequence == due => {}
                _ => return Next::Lost(Status::unavailable("events are missing in the stream")),
            }
            self.last_sequence = event.sequence;
        }
        self.start = None;
        self.patience.succeeded();
        Next::Deliver(Box::new(event))
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
        let stream = self.client.tool_service().watch_call(request).await?.into_inner();
        Ok(Box::pin(stream.map(|next| next?.event.ok_or_else(no_event))))
    }

    /// Returns whether there is nothing left in the log.
    async fn has_ended(&self) -> Result<bool, Error> {
        let call = self.client.get_call(&self.call_id).await?;
        Ok(call.ending.is_some() && self.last_sequence >= call.last_sequence)
    }

    /// Waits before the next attempt, or gives up.
    async fn retry(&mut self, status: Status) -> Result<(), Error> {
        self.stream = None;
        if !self.client.may_reopen(&status, self.patience.has_worked()) {
            return Err(status.into());
        }
        let Some(pause) = self.patience.pause(&status) else {
            return Err(if self.is_admitted() {
                Error::Lost {
                    call_id: self.call_id.clone(),
                    attempts: self.patience.attempts(),
                    status: Box::new(status),
                }
            } else {
                status.into()
            });
        };
        let why = status.message();
        tracing::info!(call = %self.call_id, why, "the stream of the call broke off; taking it up again");
        let client = self.client.clone();
        client
            .unless_closed(async {
                tokio::time::sleep(pause).await;
                Ok(())
            })
            .await
    }
}

#[cfg(test)]
mod tests {
    use toolgate_contract::CallGap;

    use super::*;

    #[tokio::test]
    async fn events_are_delivered_once_and_in_order() {
        let client = Client::builder("").connect_lazy().unwrap();
        let mut follower = Follower::watch(client, "c", 2, OutputMode::Full);
        let event = |sequence| CallEvent {
            sequence,
            ..CallEvent::default()
        };
        let gap = CallEvent {
            event: Some(Event::Gap(CallGap {
                first_sequence: 4,
                last_sequence: 7,
                ..CallGap::default()
            })),
            ..event(7)
        };
        let events = [
            event(1),
            event(3),
            event(0),
            event(3),
            event(4),
            event(6),
            gap,
            event(8),
        ];
        let outcomes: Vec<_> = events
            .into_iter()
            .map(|event| match follower.accept(event) {
                Next::Deliver(event) => event.sequence,
                Next::Skip => -1,
                Next::Lost(_) | Next::End => -2,
            })
            .collect();
        assert_eq!(outcomes, [-1, 3, 0, -1, 4, -2, 7, 8]);
        assert_eq!(follower.last_sequence, 8);
    }
}
