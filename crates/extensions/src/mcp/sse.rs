//! A server that is reached by the protocol's first kind of HTTP: one stream of events to the client, which begins with
//! the address for messages to the server.
//!
//! *Invariant:* the address for messages is at the server that was configured: headers and tokens go nowhere else. Events
//! are bounded.

use std::io;

use futures_util::StreamExt as _;
use reqwest::Url;
use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::common::client_side_sse::BoxedSseResponse;

use super::dialogue::Dialogue;
use super::events;
use super::http::Endpoint;
use super::signals::chain;

/// The two directions of a server.
pub(super) struct Sse {
    endpoint: Endpoint,
    messages_to: Url,
    events: BoxedSseResponse,
    dialogue: Dialogue,
}

impl Sse {
    /// Opens the stream of events and waits for the address.
    ///
    /// # Errors
    /// What is there is no such server; the text says why.
    pub(super) async fn open(endpoint: Endpoint) -> Result<Self, String> {
        let stream = endpoint.events(&[], &endpoint.headers).await;
        let stream = stream.map_err(|error| chain(&error))?;
        let mut events = events::plain(stream.bytes_stream());
        let messages_to = loop {
            let event = events.next().await.ok_or("the stream of events ended at once")?;
            let event = event.map_err(|error| chain(&error))?;
            if event.event.as_deref() == Some("endpoint") {
                break address(&endpoint.url, event.data.as_deref().unwrap_or_default())?;
            }
        };
        Ok(Self {
            dialogue: Dialogue::new(endpoint.signals.clone()),
            endpoint,
            messages_to,
            events,
        })
    }
}

/// Returns the address for messages, which a server gives relative to its own.
fn address(server: &str, written: &str) -> Result<Url, String> {
    let server = Url::parse(server).map_err(|error| error.to_string())?;
    let address = server.join(written.trim()).map_err(|error| error.to_string())?;
    if address.origin() == server.origin() {
        Ok(address)
    } else {
        Err("the server sends the client to another server".to_owned())
    }
}

impl Transport<RoleClient> for Sse {
    type Error = io::Error;

    fn send(&mut self, message: ClientJsonRpcMessage) -> impl Future<Output = io::Result<()>> + Send + 'static {
        self.dialogue.say(&message);
        let (endpoint, url) = (self.endpoint.clone(), self.messages_to.clone());
        async move {
            let make = || endpoint.client.post(url.clone()).json(&message);
            let answer = endpoint.send(&endpoint.headers, make).await.map_err(io::Error::other)?;
            match answer.status() {
                status if status.is_success() => Ok(()),
                status => Err(io::Error::other(format!("HTTP {status}"))),
            }
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            if self.endpoint.signals.loss().is_some() {
                return None;
            }
            let event = match self.events.next().await? {
                Ok(event) => event,
                Err(error) => {
                    self.endpoint
                        .signals
                        .report_problem(format!("Connection closed: {}", chain(&error)));
                    return None;
                }
            };
            if event.event.as_deref().is_some_and(|kind| kind != "message") {
                continue;
            }
            match self.dialogue.hear(event.data.unwrap_or_default().as_bytes()) {
                Ok(None) => {}
                Ok(message) => return message,
                Err(problem) => tracing::debug!(problem, "not a message"),
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.events = futures_util::stream::empty().boxed();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_stays_at_the_server() {
        let check = |written: &str, expected: Option<&str>| {
            let found = address("http://127.0.0.1:3001/sse", written).ok();
            assert_eq!(found.as_ref().map(Url::as_str), expected, "{written}");
        };
        check(
            "/message?sessionId=1",
            Some("http://127.0.0.1:3001/message?sessionId=1"),
        );
        check("m", Some("http://127.0.0.1:3001/m"));
        check("http://127.0.0.1:3001/x", Some("http://127.0.0.1:3001/x"));
        check("http://127.0.0.1:3002/x", None);
        check("//other/x", None);
        check("https://127.0.0.1:3001/x", None);
    }
}
