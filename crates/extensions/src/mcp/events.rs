//! Streams of events of a server, bounded.
//!
//! *Invariant:* no event is kept beyond [`MAX_EVENT`] bytes, whatever the server sends.

use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt as _};
use reqwest::Response;
use sse_stream::{Sse, SseStream};

use super::dispatcher::with_causes;

/// Bytes of the largest message that is taken.
pub(super) const MAX_EVENT: usize = 16 << 20;

/// Says of a message that it is larger.
pub(super) fn too_large() -> String {
    format!("The server sent a message of more than {} MiB", MAX_EVENT >> 20)
}

/// Why there are no more events.
#[derive(Debug, thiserror::Error)]
pub(super) enum EventsError {
    #[error("{}", too_large())]
    TooLarge,
    #[error("Connection closed: {0}")]
    Broken(String),
}

/// Events as they come. The last may be an error.
pub(super) type Events = BoxStream<'static, Result<Sse, EventsError>>;

/// Reads the events of a response.
pub(super) fn read(response: Response) -> Events {
    read_bytes(response.bytes_stream())
}

fn read_bytes(bytes: impl Stream<Item = reqwest::Result<Bytes>> + Send + 'static) -> Events {
    let mut size = EventSize::default();
    let bounded = bytes.map(move |chunk| {
        let chunk = chunk.map_err(|error| EventsError::Broken(with_causes(&error)))?;
        size.grow(&chunk).then_some(chunk).ok_or(EventsError::TooLarge)
    });
    let events = SseStream::from_bytes_stream(bounded.boxed()).map(|event| event.map_err(EventsError::from));
    // The reader of events goes on after an error; nothing may come then.
    events
        .scan(false, |is_over, event| {
            let goes_on = !std::mem::replace(is_over, event.is_err());
            std::future::ready(goes_on.then_some(event))
        })
        .boxed()
}

impl From<sse_stream::Error> for EventsError {
    fn from(error: sse_stream::Error) -> Self {
        let sse_stream::Error::Body(error) = error else {
            return Self::Broken(with_causes(&error));
        };
        error
            .downcast()
            .map_or_else(|error| Self::Broken(with_causes(&*error)), |error| *error)
    }
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
    /// Returns whether the event is still small enough.
    fn grow(&mut self, chunk: &[u8]) -> bool {
        for byte in chunk {
            let is_second_half = *byte == b'\n' && self.was_return;
            self.was_return = *byte == b'\r';
            match byte {
                b'\r' | b'\n' if is_second_half => {}
                b'\r' | b'\n' => {
                    if self.line == 0 {
                        self.event = 0;
                    }
                    self.line = 0;
                }
                _ => {
                    self.line += 1;
                    self.event += 1;
                }
            }
            if self.event > MAX_EVENT {
                return false;
            }
        }
        true
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
    async fn events_end_with_one_that_is_too_large() {
        let chunk = Bytes::from(vec![b'x'; 1 << 20]);
        let first = futures_util::stream::iter([Ok(Bytes::from_static(b"data: a\n\n"))]);
        let mut events = read_bytes(first.chain(futures_util::stream::repeat_with(move || Ok(chunk.clone()))));
        assert_eq!(events.next().await.unwrap().unwrap().data.as_deref(), Some("a"));
        assert!(matches!(events.next().await, Some(Err(EventsError::TooLarge))));
        assert!(events.next().await.is_none());
    }
}
