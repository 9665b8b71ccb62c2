//! Streams of events of a server, bounded.
//!
//! *Invariant:* no event is kept beyond [`MAX_EVENT`] bytes, whatever the server sends.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use rmcp::model::RequestId;
use rmcp::transport::common::client_side_sse::BoxedSseResponse;
use sse_stream::{Sse, SseStream};

use super::signals::{Disconnect, ServerSignals};
use super::wire;

/// Bytes of the largest message that is taken.
pub(super) const MAX_EVENT: usize = 16 << 20;

/// Says of a message that it is larger.
pub(super) fn too_large() -> String {
    format!("The server sent a message of more than {} MiB", MAX_EVENT >> 20)
}

#[derive(Debug, thiserror::Error)]
enum EventsError {
    #[error("{}", too_large())]
    TooLarge,
    #[error(transparent)]
    Broken(reqwest::Error),
}

/// Reads events whose data are messages, in the answer to a request if it has an id. A message that is too large is a
/// failure of that request, and otherwise the end of the connection.
pub(super) fn messages(
    bytes: impl Stream<Item = reqwest::Result<Bytes>> + Send + 'static,
    id: Option<RequestId>,
    signals: Arc<ServerSignals>,
) -> BoxedSseResponse {
    let lost = Arc::clone(&signals);
    let events = SseStream::from_bytes_stream(bounded(bytes));
    // Every message costs memory until it is dealt with: a server that is given up is not read further.
    let events = events.take_while(move |_| std::future::ready(lost.loss().is_none()));
    let events = events.map(move |event| match event {
        Ok(mut event) => {
            if let Some(data) = event.data.take() {
                let wrapped = wire::wrap(data);
                if wrapped.is_request {
                    signals.asked();
                }
                event.data = Some(wrapped.text);
            }
            Ok(event)
        }
        Err(sse_stream::Error::Body(error)) if is_too_large(&*error) => match &id {
            Some(id) => {
                let failure = wire::failure(id.clone(), &too_large());
                Ok(Sse::default().data(serde_json::to_string(&failure).unwrap_or_default()))
            }
            None => {
                signals.lose(Disconnect::Failed(too_large()));
                Err(sse_stream::Error::Body(error))
            }
        },
        Err(error) => Err(error),
    });
    events.boxed()
}

/// Reads events as they are.
pub(super) fn plain(bytes: impl Stream<Item = reqwest::Result<Bytes>> + Send + 'static) -> BoxedSseResponse {
    SseStream::from_bytes_stream(bounded(bytes)).boxed()
}

fn is_too_large(error: &(dyn std::error::Error + 'static)) -> bool {
    matches!(error.downcast_ref(), Some(EventsError::TooLarge))
}

/// Ends a stream of events with an error where an event is too large.
fn bounded(
    bytes: impl Stream<Item = reqwest::Result<Bytes>> + Send + 'static,
) -> impl Stream<Item = Result<Bytes, EventsError>> + Send + 'static {
    let mut size = EventSize::default();
    let bytes = bytes.map(move |chunk| {
        let chunk = chunk.map_err(EventsError::Broken)?;
        match size.grow(&chunk) {
            true => Ok(chunk),
            false => Err(EventsError::TooLarge),
        }
    });
    // The reader of events goes on after an error; nothing may come then.
    bytes
        .scan(false, |is_over, chunk| {
            let goes_on = !std::mem::replace(is_over, chunk.is_err());
            std::future::ready(goes_on.then_some(chunk))
        })
        .boxed()
}

/// Counts the bytes of an event, which ends with an empty line.
#[derive(Default)]
struct EventSize {
    event: usize,
    line: usize,
    /// A line feed after it belongs to the same end of a line.
    was_return: bool,
}

impl EventSize {
    /// Says whether the event is still small enough.
    fn grow(&mut self, chunk: &[u8]) -> bool {
        let mut rest = chunk;
        while let Some(end) = memchr::memchr2(b'\r', b'\n', rest) {
            self.line += end;
            self.event += end;
            let is_return = rest[end] == b'\r';
            let is_pair = rest[end] == b'\n' && self.was_return && end == 0;
            if !is_pair {
                if self.line == 0 {
                    self.event = 0;
                }
                self.line = 0;
            }
            self.was_return = is_return;
            rest = &rest[end + 1..];
            if self.event > MAX_EVENT {
                return false;
            }
        }
        self.was_return &= rest.is_empty();
        self.line += rest.len();
        self.event += rest.len();
        self.event <= MAX_EVENT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_ends_with_an_empty_line() {
        let check = |chunks: &[&str], expected: usize| {
            let mut size = EventSize::default();
            for chunk in chunks {
                assert!(size.grow(chunk.as_bytes()));
            }
            assert_eq!(size.event, expected, "{chunks:?}");
        };
        check(&["data: a\n\n"], 0);
        check(&["data: a\n", "\n", "da"], 2);
        check(&["data: a\r\n\r\n"], 0);
        check(&["data: a\r", "\n\r", "\nx"], 1);
        check(&["data: a\r\r"], 0);
        check(&["data: a\ndata: b\n"], 14);
        check(&["data: a\r\ndata: b"], 14);
        check(&[":\n\n:\n\n"], 0);
    }

    #[tokio::test]
    async fn a_large_event_is_a_failure_of_its_request() {
        let signals = Arc::<ServerSignals>::default();
        let chunk = Bytes::from(vec![b'x'; 1 << 20]);
        let endless = || {
            futures_util::stream::repeat_with({
                let chunk = chunk.clone();
                move || Ok(chunk.clone())
            })
        };
        let mut events = messages(endless(), Some(RequestId::Number(5)), signals.clone());
        let told = events.next().await.unwrap().unwrap().data.unwrap();
        assert!(told.contains("more than 16 MiB") && told.contains("\"id\":5"), "{told}");
        assert!(events.next().await.is_none());
        assert_eq!(signals.loss(), None);
        let mut events = messages(endless(), None, signals.clone());
        assert!(events.next().await.unwrap().is_err());
        assert_eq!(signals.loss(), Some(Disconnect::Failed(too_large())));
    }
}
