//! A call that this program has started.
//!
//! *Invariant:* a call that nobody keeps is cancelled when its execution is dropped before its end.

use futures_util::{Stream, stream};
use toolgate_contract::call_event::Event;
use toolgate_contract::{Call, CallEvent};

use crate::client::Client;
use crate::error::Error;
use crate::follow::{Follower, Start};
use crate::request::OnDisconnect;
use crate::result::CallResult;

/// A call that runs, and a cursor over its events. [`Self::next`] and [`Self::result`] move the same cursor.
///
/// Dropping it before the call's end cancels the call, unless [`OnDisconnect::Keep`] was chosen.
#[derive(Debug)]
#[must_use = "dropping an execution cancels its call"]
pub struct Execution {
    client: Client,
    follower: Follower,
    on_disconnect: OnDisconnect,
    first: Option<CallEvent>,
    result: Option<CallResult>,
    is_over: bool,
}

impl Execution {
    pub(crate) async fn start(client: Client, start: Start, on_disconnect: OnDisconnect) -> Result<Self, Error> {
        let follower = Follower::start(client.clone(), start);
        if on_disconnect != OnDisconnect::Keep {
            client.adopt(follower.call_id());
        }
        let mut execution = Self {
            client,
            follower,
            on_disconnect,
            first: None,
            result: None,
            is_over: false,
        };
        match execution.receive().await {
            Ok(event) => execution.first = event,
            Err(error) => {
                // A call that was refused is none.
                execution.is_over = !error.is_transient() && !matches!(error, Error::Closed);
                return Err(error);
            }
        }
        Ok(execution)
    }

    /// Returns the call's id.
    pub fn call_id(&self) -> &str {
        self.follower.call_id()
    }

    /// Returns the next event, the terminal one last, and then `None`. An error means that the events cannot be got, and says
    /// nothing about the call.
    pub async fn next(&mut self) -> Result<Option<CallEvent>, Error> {
        if self.result.is_some() {
            return Ok(None);
        }
        let event = match self.first.take() {
            Some(event) => Some(event),
            None => self.receive().await?,
        };
        let event = event.ok_or(Error::Protocol("end of the call"))?;
        self.result = CallResult::from_event(&event);
        if self.result.is_some() {
            self.is_over = true;
            self.client.release(self.follower.call_id());
        }
        Ok(Some(event))
    }

    async fn receive(&mut self) -> Result<Option<CallEvent>, Error> {
        loop {
            match self.follower.next().await? {
                Some(event) if matches!(event.event, Some(Event::Heartbeat(_))) => {}
                event => return Ok(event),
            }
        }
    }

    /// Returns the events as a [`Stream`].
    pub fn events(&mut self) -> impl Stream<Item = Result<CallEvent, Error>> + '_ {
        stream::unfold(Some(self), async |execution| {
            let execution = execution?;
            match execution.next().await {
                Ok(event) => event.map(|event| (Ok(event), Some(execution))),
                Err(error) => Some((Err(error), None)),
            }
        })
    }

    /// Waits for the end of the call, passing over the events that are left, and returns how it ended.
    pub async fn result(&mut self) -> Result<CallResult, Error> {
        while self.next().await?.is_some() {}
        self.result.clone().ok_or(Error::Protocol("end of the call"))
    }

    /// Cancels the call and returns its record once it has ended. The events go on to its end.
    pub async fn cancel(&self) -> Result<Call, Error> {
        self.client.cancel_call(self.call_id()).await
    }
}

impl Drop for Execution {
    fn drop(&mut self) {
        let call_id = self.follower.call_id().to_owned();
        self.client.release(&call_id);
        if self.is_over || self.on_disconnect == OnDisconnect::Keep || self.client.is_closed() {
            return;
        }
        let (client, was_admitted) = (self.client.clone(), self.follower.is_admitted());
        self.client
            .spawn(async move { client.stop_call(call_id, was_admitted).await });
    }
}
