//! Events of all workers as one stream, which can be taken up again.
//!
//! Each worker numbers its own events. The numbers of this stream are its own; the token that each message comes with says how far it
//! was read at each worker by name, and so is good at every gateway, and while workers come and go.
//!
//! *Invariant:* what a token says was sent was sent, in this order for each worker, and nothing else of it. What cannot be read is refused.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::Response;
use tonic::metadata::MetadataMap;
use toolgate_contract::*;
use toolgate_server::grpc::auth::OnBehalf;
use toolgate_server::grpc::{EVENTS_BEGIN, status};

use crate::follow::{self, Followed, Follower, of_all};
use crate::parts::Parts;
use crate::streams::SNAPSHOT_PATIENCE;
use crate::wire::{framed, streaming};

/// What the first letter of a token says: how to read the rest.
const VERSION: char = '1';

/// Bytes of the longest token: of some ten thousand workers.
const MAX_TOKEN_BYTES: usize = 1024 * 1024;

/// How far a stream was read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Position {
    /// The number of the last event.
    #[serde(rename = "n")]
    number: i64,
    /// Whether it began with all that is kept: then it does so, too, at workers that it was not read at yet.
    #[serde(rename = "a")]
    all: bool,
    /// The last number of each worker.
    #[serde(rename = "w")]
    workers: BTreeMap<String, i64>,
}

impl Position {
    /// Returns where a stream begins.
    fn of(question: &WatchEventsRequest) -> Result<Self, Status> {
        if question.resume_token.is_empty() {
            return match question.after_sequence {
                None => Ok(Self::default()),
                Some(0) => Ok(Self {
                    all: true,
                    ..Self::default()
                }),
                Some(_) => Err(status::cursor_too_old(
                    "a stream over the workspaces of several workers is taken up again by its resume_token, not by a number",
                )),
            };
        }
        if question.after_sequence.is_some() {
            return Err(status::bad_field(
                "resume_token",
                "it takes the place of after_sequence: leave one out",
            ));
        }
        Self::read(&question.resume_token)
            .ok_or_else(|| status::bad_field("resume_token", "it is no token of this stream"))
    }

    fn read(token: &str) -> Option<Self> {
        if token.len() > MAX_TOKEN_BYTES {
            return None;
        }
        let json = URL_SAFE_NO_PAD.decode(token.strip_prefix(VERSION)?).ok()?;
        let read: Self = serde_json::from_slice(&json).ok()?;
        let are_counts = read.workers.values().chain([&read.number]).all(|number| *number >= 0);
        are_counts.then_some(read)
    }

    fn token(&self) -> String {
        let json = serde_json::to_vec(self).expect("texts and numbers are JSON");
        format!("{VERSION}{}", URL_SAFE_NO_PAD.encode(json))
    }

    /// Returns after which number the events of a worker are wanted; none for those from now on.
    fn at(&self, worker: &str) -> Option<i64> {
        self.workers.get(worker).copied().or(self.all.then_some(0))
    }
}

/// The events of one worker.
struct WorkersEvents {
    question: WatchEventsRequest,
    position: Arc<Mutex<Position>>,
    /// Dropped when the stream is open, or cannot be opened yet.
    opening: Option<mpsc::Sender<()>>,
}

impl Followed for WorkersEvents {
    /// The worker, and what happened there.
    type Told = (String, Event);

    async fn once(&mut self, by: &Follower<Self::Told>) -> Result<(), Status> {
        let opening = self.opening.take();
        let path = "/toolgate.v1.SessionService/WatchEvents";
        let asked = stream::iter([self.question.clone()]);
        let entry = by.caller.entry();
        let (answer, _kept) = by.worker.open::<_, WatchEventsResponse>(path, asked, &entry).await?;
        // Nothing was read yet; from here the next stream goes on, this client's or another one's.
        let begin = self.question.after_sequence.or_else(|| begin_of(answer.metadata()));
        self.question.after_sequence = begin;
        if let Some(begin) = begin {
            let mut position = self.position.lock();
            position.workers.entry(by.worker.name.clone()).or_insert(begin);
        }
        drop(opening);
        let mut stream = answer.into_inner();
        while let Some(message) = stream.next().await {
            let Some(mut event) = message?.event else { continue };
            // From here it goes on if the connection breaks.
            self.question.after_sequence = Some(event.sequence);
            if let Some(event::Event::Heartbeat(heartbeat)) = &mut event.event {
                // That a worker stops is not that the gateway does.
                heartbeat.draining = false;
            } else if !by.parts.registry.counts(&by.worker, &event.workspace) {
                continue;
            }
            if !by.tell((by.worker.name.clone(), event)).await {
                return Ok(());
            }
        }
        Err(follow::closed())
    }
}

/// Returns the number after which a stream begins that was asked for from now on.
fn begin_of(metadata: &MetadataMap) -> Option<i64> {
    let begin = metadata.get(EVENTS_BEGIN)?.to_str().ok()?;
    begin.parse().ok().filter(|begin| *begin >= 0)
}

/// Watches the events of all workers.
pub(crate) async fn watch(
    parts: Arc<Parts>,
    caller: OnBehalf,
    question: WatchEventsRequest,
) -> Result<Response<Body>, Status> {
    let begin = Position::of(&question)?;
    let position = Arc::new(Mutex::new(begin));
    let (opening, mut opened) = mpsc::channel::<()>(1);
    // One for each that is there now: nobody waits for those that come later.
    let mut opening = vec![opening; parts.registry.workers_for(&caller).len()];
    let shared = position.clone();
    let (receiver, tasks) = of_all(&parts, &caller, move |worker| WorkersEvents {
        question: WatchEventsRequest {
            after_sequence: shared.lock().at(&worker.name),
            resume_token: String::new(),
            ..question.clone()
        },
        position: shared.clone(),
        opening: opening.pop(),
    });
    // A client that has an answer may rely on hearing of what happens from then on. It is closed when all have been tried.
    let _ = timeout(SNAPSHOT_PATIENCE, opened.recv()).await;
    let closing = parts.closing.turn();
    let events = stream::try_unfold((receiver, tasks), move |(mut receiver, tasks)| {
        let (closing, position) = (closing.clone(), position.clone());
        async move {
            let Some(heard) = closing.run_until_cancelled(receiver.recv()).await else {
                return Err(status::draining());
            };
            let (_, (worker, mut event)): (usize, (String, Event)) =
                heard.unwrap_or_else(|| Err(status::draining()))?;
            let resume_token = {
                let mut position = position.lock();
                position.number += i64::from(!matches!(event.event, Some(event::Event::Heartbeat(_))));
                position.workers.insert(worker, event.sequence.max(0));
                event.sequence = position.number;
                position.token()
            };
            let message: Bytes = framed(&WatchEventsResponse {
                event: Some(event),
                resume_token,
            });
            Ok(Some((message, (receiver, tasks))))
        }
    });
    Ok(streaming(events))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_stream_goes_on_where_it_was_left() {
        let position = Position {
            number: 7,
            all: false,
            workers: [("a".to_owned(), 3), ("b".to_owned(), 0)].into(),
        };
        let resumed = WatchEventsRequest {
            resume_token: position.token(),
            ..WatchEventsRequest::default()
        };
        let read = Position::of(&resumed).unwrap();
        assert_eq!(read, position);
        assert_eq!((read.at("a"), read.at("b"), read.at("c")), (Some(3), Some(0), None));
        let after = |after_sequence| WatchEventsRequest {
            after_sequence,
            ..WatchEventsRequest::default()
        };
        assert_eq!(Position::of(&after(None)).unwrap().at("a"), None);
        assert_eq!(Position::of(&after(Some(0))).unwrap().at("a"), Some(0));
        assert!(Position::of(&after(Some(1))).is_err());
        assert!(
            Position::of(&WatchEventsRequest {
                after_sequence: Some(0),
                ..resumed
            })
            .is_err()
        );
        for wrong in ["x", "1", "1?", "1e30", "2e30"] {
            assert!(Position::read(wrong).is_none(), "{wrong}");
        }
        assert!(Position::read(&format!("1{}", "A".repeat(MAX_TOKEN_BYTES))).is_none());
        let negative = Position { number: -1, ..position };
        assert!(Position::read(&negative.token()).is_none());
    }

    proptest! {
        #[test]
        fn no_token_panics(text in "1?[A-Za-z0-9_-]{0,60}") {
            let _ = Position::read(&text);
        }
    }
}
