//! A server that is reached by the protocol's first kind of HTTP: one stream of events to the client, which begins with
//! the address for messages to the server.
//!
//! *Invariant:* the address for messages is at the server that was configured: headers and tokens go nowhere else. Events
//! are bounded.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::StreamExt as _;
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{Method, Url};

use super::client::{Link, Outlet};
use super::dispatcher::{Disconnect, Dispatcher, Queue};
use super::endpoint::Endpoint;
use super::events::{self, Events};
use super::http;
use super::message::Outgoing;

/// The way of messages to a server.
struct Sse {
    endpoint: Endpoint,
    messages_to: Url,
}

/// Opens the stream of events and waits for the address.
///
/// # Errors
/// What is there is no such server; the text says why.
pub(super) async fn open(endpoint: Endpoint, queue: Queue) -> Result<Link, String> {
    let request = endpoint.request(Method::GET).header(ACCEPT, "text/event-stream");
    let response = http::check_events(endpoint.send(request).await?).await?;
    let mut events = events::read(response);
    let messages_to = loop {
        let event = events.next().await.ok_or("the stream of events ended at once")?;
        let event = event.map_err(|error| error.to_string())?;
        if event.event.as_deref() == Some("endpoint") {
            break message_address(&endpoint.url, event.data.as_deref().unwrap_or_default())?;
        }
    };
    let dispatcher = Arc::clone(&endpoint.dispatcher);
    let outlet = Arc::new(Sse { endpoint, messages_to });
    dispatcher.spawn(read(events, Arc::clone(&dispatcher)));
    dispatcher.spawn(http::send_queued(Arc::clone(&outlet), queue));
    Ok(Link { dispatcher, outlet })
}

/// Returns the address for messages, which a server gives relative to its own.
fn message_address(server: &Url, written: &str) -> Result<Url, String> {
    let address = server.join(written.trim()).map_err(|error| error.to_string())?;
    if address.origin() == server.origin() {
        Ok(address)
    } else {
        Err("the server sends the client to another server".to_owned())
    }
}

async fn read(mut events: Events, dispatcher: Arc<Dispatcher>) {
    while let Some(event) = events.next().await {
        let event = match event {
            Ok(event) => event,
            Err(error) => return dispatcher.lose(Disconnect::Failed(error.to_string())),
        };
        let is_message = event.event.as_deref().is_none_or(|kind| kind == "message");
        if is_message && let Err(problem) = dispatcher.receive(event.data.unwrap_or_default().as_bytes()) {
            tracing::debug!(problem, "not a message");
        }
    }
    dispatcher.lose(Disconnect::closed());
}

#[async_trait]
impl Outlet for Sse {
    async fn send(self: Arc<Self>, message: &Outgoing) -> Result<(), String> {
        let request = self.endpoint.request_to(Method::POST, self.messages_to.clone());
        let request = request
            .header(CONTENT_TYPE, "application/json")
            .body(message.text.clone());
        match self.endpoint.send(request).await?.status() {
            status if status.is_success() => Ok(()),
            status => Err(format!("HTTP {status}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_stays_at_the_server() {
        let server = Url::parse("http://127.0.0.1:3001/sse").unwrap();
        let check = |written: &str, expected: Option<&str>| {
            let found = message_address(&server, written).ok();
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
