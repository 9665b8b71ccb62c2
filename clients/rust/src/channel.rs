//! The channel over which prompts come and replies go, opened again when it breaks.
//!
//! *Invariant:* nothing lives in the connection: after each one that breaks, the service tells again of all open prompts.

use std::fmt;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};
use toolgate_contract::channel_request::Message as Request;
use toolgate_contract::{ChannelOpen, ChannelRequest, ChannelResponse, PromptReply};

use crate::client::Client;
use crate::error::{Error, retry_after};
use crate::retry::{backoff, next_message};

/// Replies that may wait for the network; one person does not type faster, and a program is held back.
const MAX_QUEUED_REPLIES: usize = 16;

/// What the service says, or what became of the connection to it.
#[derive(Debug)]
pub enum ChannelEvent {
    /// The channel is open. Replies whose results have not come have to be sent again: the service recognises a reply by its
    /// id, so it decides nothing twice.
    Opened,
    /// A message of the service.
    Message(Box<ChannelResponse>),
    /// The connection is lost. Asking for the next event opens it again, after a pause.
    Lost(Error),
    /// The service refuses the channel. There are no more events.
    Refused(Error),
}

enum State {
    /// After this pause, the number of the attempt.
    Connect(Duration, u32),
    Open {
        requests: mpsc::Sender<ChannelRequest>,
        responses: Box<Streaming<ChannelResponse>>,
        attempt: u32,
    },
    Over,
}

/// A channel for prompts and replies. It opens itself again for as long as it is asked for events; see
/// [`crate::Approver`] for a handler that is bounded.
pub struct PromptChannel {
    client: Client,
    open: ChannelOpen,
    state: State,
    has_worked: bool,
}

impl fmt::Debug for PromptChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PromptChannel")
            .field("open", &self.open)
            .finish_non_exhaustive()
    }
}

impl PromptChannel {
    /// Makes a channel that is opened when the first event is asked for.
    pub fn new(client: Client, open: ChannelOpen) -> Self {
        Self {
            client,
            open,
            state: State::Connect(Duration::ZERO, 0),
            has_worked: false,
        }
    }

    /// Returns what sends replies over the connection that is open now, if one is. Sending fails when it is lost.
    pub fn sender(&self) -> Option<mpsc::Sender<ChannelRequest>> {
        match &self.state {
            State::Open { requests, .. } => Some(requests.clone()),
            State::Connect(..) | State::Over => None,
        }
    }

    /// Makes a request of a reply.
    pub fn request(reply: PromptReply) -> ChannelRequest {
        ChannelRequest {
            message: Some(Request::Reply(reply)),
        }
    }

    /// Returns the next event; `None` after the service has refused the channel. Waiting may be given up and begun again.
    pub async fn next(&mut self) -> Option<ChannelEvent> {
        match &mut self.state {
            State::Over => None,
            State::Connect(pause, attempt) => {
                let (pause, attempt) = (*pause, *attempt);
                if !pause.is_zero() {
                    tokio::time::sleep(pause).await;
                }
                match self.connect().await {
                    Ok((requests, responses)) => {
                        self.state = State::Open {
                            requests,
                            responses: Box::new(responses),
                            attempt,
                        };
                        Some(ChannelEvent::Opened)
                    }
                    Err(status) => Some(self.lost(status, attempt)),
                }
            }
            State::Open { responses, attempt, .. } => {
                let before = *attempt;
                match next_message(responses).await {
                    Ok(Some(message)) => {
                        *attempt = 0;
                        self.has_worked = true;
                        Some(ChannelEvent::Message(Box::new(message)))
                    }
                    Ok(None) => Some(self.lost(Status::unavailable("the server closed the channel"), before)),
                    Err(status) => Some(self.lost(status, before)),
                }
            }
        }
    }

    fn lost(&mut self, status: Status, attempt: u32) -> ChannelEvent {
        if self.client.may_reopen(&status, self.has_worked) {
            let attempt = attempt.saturating_add(1);
            let pause = backoff(attempt).max(retry_after(&status).unwrap_or_default());
            self.state = State::Connect(pause, attempt);
            ChannelEvent::Lost(status.into())
        } else {
            self.state = State::Over;
            ChannelEvent::Refused(status.into())
        }
    }

    async fn connect(&self) -> Result<(mpsc::Sender<ChannelRequest>, Streaming<ChannelResponse>), Status> {
        let (requests, receiver) = mpsc::channel(MAX_QUEUED_REPLIES);
        let first = ChannelRequest {
            message: Some(Request::Open(self.open.clone())),
        };
        let sent = requests.send(first).await;
        sent.map_err(|_| Status::internal("the channel is closed"))?;
        let mut service = self.client.permission_service();
        let responses = service.channel(ReceiverStream::new(receiver)).await?.into_inner();
        Ok((requests, responses))
    }
}
