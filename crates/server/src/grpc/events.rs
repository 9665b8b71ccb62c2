//! A call's log on the wire: a cursor's items as `CallEvent` messages.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use tokio::time::Instant;
use tokio_stream::Stream;
use tonic::Status;
use tonic::metadata::MetadataMap;
use toolgate_contract::{self as proto, call_event::Event};
use toolgate_engine::prompts::inbox::Inbox;
use toolgate_engine::{Cursor, Item};
use toolgate_model::{CallId, EventKind, Queued, Timestamp};

use super::convert::{self, duration, int, int32, timestamp};
use super::status;
use crate::grpc::convert::{FromCore as _, IntoProto as _};

/// A response stream.
pub(crate) type ResponseStream<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

struct Reader<K> {
    id: CallId,
    cursor: Cursor,
    inbox: Arc<Inbox>,
    /// Dropped with the stream: that is how a lost client is noticed.
    _attached: K,
    deadline: Option<Instant>,
}

impl<K> Reader<K> {
    async fn next(&mut self) -> Result<Option<proto::CallEvent>, Status> {
        let next = self.cursor.next();
        let item = match self.deadline {
            Some(deadline) => match tokio::time::timeout_at(deadline, next).await {
                Ok(item) => item,
                Err(_) => return Err(status::deadline()),
            },
            None => next.await,
        };
        let item = item.map_err(status::watch)?;
        Ok(item.map(|item| to_event(&self.id, item, &self.cursor, &self.inbox)))
    }
}

/// Returns when the client stops waiting, as its `grpc-timeout` says. The transport ends only the wait for the first
/// message by it.
pub(crate) fn deadline(metadata: &MetadataMap) -> Option<Instant> {
    let text = metadata.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let count: u64 = digits.parse().ok()?;
    let wait = match unit {
        "H" => Duration::from_secs(count.checked_mul(3600)?),
        "M" => Duration::from_secs(count.checked_mul(60)?),
        "S" => Duration::from_secs(count),
        "m" => Duration::from_millis(count),
        "u" => Duration::from_micros(count),
        "n" => Duration::from_nanos(count),
        _ => return None,
    };
    Instant::now().checked_add(wait)
}

/// Streams what a cursor delivers, each event wrapped by `wrap`, until `deadline`. The stream keeps `attached`.
pub(crate) fn stream_events<T: Send + 'static, K: Send + 'static>(
    id: CallId,
    cursor: Cursor,
    inbox: Arc<Inbox>,
    attached: K,
    deadline: Option<Instant>,
    wrap: fn(proto::CallEvent) -> T,
) -> ResponseStream<T> {
    let reader = Reader {
        id,
        cursor,
        inbox,
        _attached: attached,
        deadline,
    };
    Box::pin(stream::try_unfold(reader, move |mut reader| async move {
        Ok(reader.next().await?.map(|event| (wrap(event), reader)))
    }))
}

fn to_event(id: &CallId, item: Item, cursor: &Cursor, inbox: &Inbox) -> proto::CallEvent {
    let (sequence, time, event) = match item {
        Item::Event(event, data) => {
            let kind = to_kind(&event.kind, data, cursor, inbox);
            (event.sequence, event.time, kind)
        }
        Item::Gap {
            first,
            last,
            bytes,
            time,
        } => {
            let gap = proto::CallGap {
                first_sequence: int(first),
                last_sequence: int(last),
                output_bytes: int(bytes),
            };
            (last, time, Event::Gap(gap))
        }
        Item::Heartbeat {
            last,
            state,
            elapsed,
            draining,
        } => {
            let heartbeat = proto::CallHeartbeat {
                last_sequence: int(last),
                state: proto::CallState::from_core(state).into(),
                elapsed: Some(duration(elapsed)),
                draining,
            };
            (0, Timestamp::now(), Event::Heartbeat(heartbeat))
        }
    };
    proto::CallEvent {
        call_id: id.to_string(),
        sequence: int(sequence),
        event_time: Some(timestamp(time)),
        event: Some(event),
    }
}

fn to_kind(kind: &EventKind, data: Bytes, cursor: &Cursor, inbox: &Inbox) -> Event {
    match kind.clone() {
        EventKind::Pending {
            tool,
            requested_tool,
            title,
            summary,
            queued,
        } => Event::Pending(proto::CallPending {
            tool,
            requested_tool,
            title,
            summary,
            queued: queued.map(|Queued { limit, ahead }| proto::CallQueued {
                limit,
                ahead: i32::try_from(ahead).unwrap_or(i32::MAX),
            }),
        }),
        EventKind::Running {
            input_json,
            input_digest,
            title,
        } => Event::Running(proto::CallRunning {
            input_json,
            input_digest,
            title,
        }),
        EventKind::Metadata { title, patch } => Event::Metadata(proto::CallMetadata {
            title,
            metadata: Some(convert::to_struct(patch)),
        }),
        EventKind::Output {
            output,
            offset,
            length: _,
        } => Event::Output(proto::CallOutput {
            output_id: output.to_string(),
            offset: int(offset),
            data,
        }),
        EventKind::Waiting { prompt } => {
            let approvers = int32(inbox.approvers_for(&prompt));
            Event::Waiting(proto::CallWaiting {
                prompt: Some((*prompt).into_proto()),
                approvers,
            })
        }
        EventKind::Resumed { prompt, decision } => Event::Resumed(proto::CallResumed {
            prompt_id: prompt.to_string(),
            state: convert::outcome_state(&decision.outcome).into(),
            resolution: Some((*decision).into_proto()),
        }),
        EventKind::Child { call, tool } => Event::Child(proto::CallChild {
            call_id: call.to_string(),
            tool,
        }),
        EventKind::Listening { ports } => Event::Listening(proto::CallListening {
            ports: ports.into_iter().map(proto::ListeningPort::from_core).collect(),
        }),
        EventKind::Warning { kind, text } => {
            let kind = proto::WarningKind::from_core(kind).into();
            Event::Warning(proto::CallWarning { kind, text })
        }
        EventKind::Ended(ending) => match convert::to_end(*ending, cursor.is_invalid()) {
            convert::End::Completed(completed) => Event::Completed(completed),
            convert::End::Failed(failed) => Event::Failed(failed),
        },
    }
}
