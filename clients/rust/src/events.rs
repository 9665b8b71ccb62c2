//! What happens in the workspaces.
//!
//! *Invariant:* the stream is not taken up again when it is lost: who wants that passes the last sequence number.

use std::fmt;

use tonic::{Status, Streaming};
use toolgate_contract::event::Event as Kind;
use toolgate_contract::{Event, WatchEventsRequest, WatchEventsResponse};

use crate::client::Client;
use crate::error::Error;
use crate::retry::next_message;

/// Events of the service: calls change their state, files are edited, prompts come and go.
pub struct Events {
    client: Client,
    stream: Streaming<WatchEventsResponse>,
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}

impl Client {
    /// Watches what happens in the workspaces. Nothing that happens after this has returned is missed. The stream is not
    /// taken up again when it is lost: pass the last event's number as `after_sequence` for that.
    pub async fn watch_events(&self, request: WatchEventsRequest) -> Result<Events, Error> {
        let mut service = self.session_service();
        let stream = self
            .unless_closed(async { Ok(service.watch_events(request).await?.into_inner()) })
            .await?;
        Ok(Events {
            client: self.clone(),
            stream,
        })
    }
}

impl Events {
    /// Returns the next event, without heartbeats.
    pub async fn next(&mut self) -> Result<Event, Error> {
        let client = self.client.clone();
        client
            .unless_closed(async {
                loop {
                    let response = next_message(&mut self.stream).await?;
                    let response = response.ok_or_else(|| Status::unavailable("the stream ended"))?;
                    match response.event {
                        Some(event) if !matches!(event.event, Some(Kind::Heartbeat(_))) => return Ok(event),
                        Some(_) | None => {}
                    }
                }
            })
            .await
    }
}
