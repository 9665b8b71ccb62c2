//! Streams of calls that go on after the connection to the worker broke: the gateway watches the call again, from the last event that
//! the client has.
//!
//! Several who watch the same call share the stream of its worker, once each has read as far as that.
//!
//! *Invariant:* a client gets whole messages only, each once. If the worker stays away, or the gateway stops, the stream ends as such,
//! never as an end of the call.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::stream;
use http_body_util::BodyExt as _;
use prost::Message as _;
use tokio::time::{Instant, sleep};
use tonic::body::Body;
use tonic::codegen::http::header::{CONTENT_TYPE, HeaderValue, TE};
use tonic::codegen::http::{Request, Response};
use tonic::{Code, Status};
use toolgate_contract::{
    CallEvent, ExecuteToolRequest, GetCallRequest, OutputMode, RevertCallRequest, RunToolRequest, WatchCallRequest,
    WatchCallResponse, call_event,
};
use toolgate_server::app::store_front::{Named, StoreFront};
use toolgate_server::grpc::Closing;
use toolgate_server::grpc::auth::OnBehalf;
use toolgate_server::grpc::status;
use toolgate_telemetry::Metrics;

use crate::shared::{Next, Reader, Shared, Watching};
use crate::wire::{framed, gone, streaming, whole_frames};
use crate::worker::Worker;

/// The RPC that makes a call.
pub(crate) const EXECUTE: &str = "/toolgate.v1.ToolService/ExecuteTool";
const WATCH: &str = "/toolgate.v1.ToolService/WatchCall";
/// The RPC that makes a call and returns its end.
const RUN: &str = "/toolgate.v1.ToolService/RunTool";
const GET: &str = "/toolgate.v1.ToolService/GetCall";
const REVERT: &str = "/toolgate.v1.ToolService/RevertCall";

/// Bytes of a message that has not come whole: more than any event has.
const MAX_PART_BYTES: usize = 256 * 1024 * 1024;
/// How long a connection to a worker may be broken before its calls are followed in the store.
const BREAK: Duration = Duration::from_secs(1);
/// How long a worker may stay away.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long to wait before a worker is tried again: at first, and at most.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));

/// A call whose stream is open, and how far it was read.
pub(crate) struct Call {
    /// Where to go on; without an id as long as that is not known.
    watch: WatchCallRequest,
}

impl Call {
    /// Returns the call that a request is about, if its answer is a stream of one.
    pub(crate) fn of(path: &str, first: &[u8]) -> Option<Self> {
        let watch = match path {
            EXECUTE => {
                let request = ExecuteToolRequest::decode(first).ok()?;
                WatchCallRequest {
                    output: request.output,
                    call_id: request.call_id,
                    after_sequence: 0,
                }
            }
            WATCH => WatchCallRequest::decode(first).ok()?,
            REVERT => WatchCallRequest {
                call_id: RevertCallRequest::decode(first).ok()?.revert_call_id,
                ..WatchCallRequest::default()
            },
            _ => return None,
        };
        Some(Self { watch })
    }

    /// Says whether all who watch the call like this are told the same.
    fn may_be_shared(&self, path: &str) -> bool {
        let all_output = [OutputMode::Unspecified, OutputMode::Full].contains(&self.watch.output());
        path == WATCH && all_output
    }

    /// Returns how far a message brings whoever has read as far as this.
    fn position(before: i64, message: &Bytes) -> i64 {
        let mut call = Self {
            watch: WatchCallRequest {
                after_sequence: before,
                ..WatchCallRequest::default()
            },
        };
        call.read(message);
        call.watch.after_sequence
    }

    /// Notes the last message that was handed on. All three RPCs have the event in the same field.
    fn read(&mut self, message: &[u8]) {
        let Ok(WatchCallResponse { event: Some(event) }) = WatchCallResponse::decode(message) else {
            return;
        };
        let CallEvent {
            call_id,
            sequence,
            event,
            ..
        } = event;
        if !call_id.is_empty() {
            self.watch.call_id = call_id;
        }
        self.watch.after_sequence = match event {
            Some(call_event::Event::Heartbeat(heartbeat)) => heartbeat.last_sequence,
            Some(call_event::Event::Gap(gap)) => gap.last_sequence.max(sequence),
            Some(_) | None => sequence,
        }
        .max(self.watch.after_sequence);
    }
}

/// Keeps the stream of a call going.
pub(crate) fn kept(
    response: Response<Body>,
    call: Option<Call>,
    (worker, caller): (Arc<Worker>, OnBehalf),
    (metrics, store): (&Arc<Metrics>, Option<&StoreFront>),
    (path, shared, closing): (&str, &Shared, &Closing),
) -> Result<Response<Body>, Status> {
    let Some(call) = call.filter(|_| !response.headers().contains_key("grpc-status")) else {
        return Ok(response);
    };
    let (head, body) = response.into_parts();
    let may_be_shared = call.may_be_shared(path);
    let following = Following {
        watching: may_be_shared.then(|| shared.watch(&worker.name, &call.watch.call_id)),
        call,
        worker,
        caller,
        source: Source::Own(body),
        read: BytesMut::new(),
        last: None,
        lost: None,
        metrics: metrics.clone(),
        store: store.cloned(),
    };
    let begin = (following, closing.last_turn(), closing.clone());
    let mut kept = streaming(stream::try_unfold(begin, |(mut following, over, closing)| async {
        match over.run_until_cancelled(following.next()).await {
            Some(next) => Ok(next?.map(|frames| (frames, (following, over, closing)))),
            None => {
                // To the worker the client is still there: it goes on at another gateway, as it does when the connection breaks.
                closing.keep(following);
                Err(status::draining())
            }
        }
    }));
    *kept.headers_mut() = head.headers;
    Ok(kept)
}

/// Goes on with a call that is run to its end, of which the connection to the worker broke: watches it to its end, wherever that comes
/// from, and then returns its record from the store. None if no such call was made.
pub(crate) async fn run_on(
    first: &[u8],
    (worker, caller): (&Arc<Worker>, &OnBehalf),
    (metrics, store): (&Arc<Metrics>, Option<&StoreFront>),
) -> Option<Result<Response<Body>, Status>> {
    let store = store?;
    let call_id = RunToolRequest::decode(first).ok()?.call_id;
    if call_id.is_empty() || store.find(caller, Named::Call(&call_id)).await.is_err() {
        return None;
    }
    let watch = WatchCallRequest {
        call_id: call_id.clone(),
        ..WatchCallRequest::default()
    };
    let mut following = Following {
        call: Call { watch },
        worker: worker.clone(),
        caller: caller.clone(),
        watching: None,
        source: Source::None,
        read: BytesMut::new(),
        last: None,
        lost: Some((Instant::now(), PAUSES.0)),
        metrics: metrics.clone(),
        store: Some(store.clone()),
    };
    loop {
        match following.next().await {
            Ok(Some(_)) => {}
            Ok(None) => break,
            Err(status) => return Some(Err(status)),
        }
    }
    // Both answers have the record in the same field.
    Some(match question(GET, &GetCallRequest { call_id }) {
        Ok(question) => Ok(store.answer_for(caller, question).await),
        Err(status) => Err(status),
    })
}

/// Says whether the answer to [`RUN`] is only that the worker is not there.
pub(crate) fn has_lost_run(path: &str, answer: &Result<Response<Body>, Status>) -> bool {
    path == RUN
        && match answer {
            Ok(answer) => Status::from_header_map(answer.headers()).is_some_and(|status| is_passing(&status)),
            Err(status) => is_passing(status),
        }
}

fn question(path: &'static str, message: &impl prost::Message) -> Result<Request<Body>, Status> {
    let request = Request::post(path)
        .header(CONTENT_TYPE, HeaderValue::from_static("application/grpc"))
        .header(TE, HeaderValue::from_static("trailers"))
        .body(Body::new(http_body_util::Full::new(framed(message))));
    request.map_err(|error| Status::internal(error.to_string()))
}

/// Where messages come from.
enum Source {
    /// From nowhere, while the worker is away.
    None,
    Own(Body),
    /// One that others read, too.
    Shared(Reader),
}

struct Following {
    call: Call,
    worker: Arc<Worker>,
    caller: OnBehalf,
    /// None if its stream cannot be shared, or not any more.
    watching: Option<Watching>,
    source: Source,
    /// What of a message has come.
    read: BytesMut,
    /// The last message, which is looked at only if the connection breaks.
    last: Option<Bytes>,
    /// Since when the worker is away, and how long to wait before the next attempt.
    lost: Option<(Instant, Duration)>,
    metrics: Arc<Metrics>,
    /// What goes on when the worker does not.
    store: Option<StoreFront>,
}

impl Following {
    /// Returns the next messages, none at the end of the stream.
    async fn next(&mut self) -> Result<Option<Bytes>, Status> {
        loop {
            let body = match &mut self.source {
                Source::Own(body) => body,
                Source::Shared(reader) => {
                    match reader.next(self.call.watch.after_sequence).await {
                        Next::Frames(frames, last) => {
                            (self.call.watch.after_sequence, self.lost) = (last, None);
                            return Ok(Some(frames));
                        }
                        Next::Ended(status) if status.code() == Code::Ok => return Ok(None),
                        Next::Ended(status) if !is_passing(&status) => return Err(status),
                        Next::Ended(_) | Next::Broken => self.lose(),
                        Next::Behind => {
                            // It was not lost, and need not wait.
                            (self.watching, self.source) = (None, Source::None);
                            self.lost = Some((Instant::now(), Duration::ZERO));
                        }
                    }
                    continue;
                }
                Source::None => {
                    self.attach().await?;
                    continue;
                }
            };
            match body.frame().await {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => {
                        self.read.extend_from_slice(&data);
                        if let Some((frames, last)) = whole_frames(&mut self.read) {
                            (self.last, self.lost) = (Some(last), None);
                            self.share();
                            return Ok(Some(frames));
                        }
                        if self.read.len() > MAX_PART_BYTES {
                            return Err(Status::out_of_range("a message of the worker is too large"));
                        }
                    }
                    Err(frame) => {
                        let trailers = frame.into_trailers().unwrap_or_default();
                        let status = Status::from_header_map(&trailers).unwrap_or_else(|| gone(&self.worker.name));
                        if status.code() == Code::Ok {
                            return Ok(None);
                        }
                        // Lost on the way, or the worker stops: it may be back soon.
                        if !is_passing(&status) {
                            return Err(status);
                        }
                        self.lose();
                    }
                },
                Some(Err(_)) | None => self.lose(),
            }
        }
    }

    /// Goes on with the stream that others read, if there are such and no part of a message has come.
    fn share(&mut self) {
        let Some(watching) = self
            .watching
            .as_ref()
            .filter(|one| one.is_shared() && self.read.is_empty())
        else {
            return;
        };
        if let Some(last) = self.last.take() {
            self.call.read(&last);
        }
        let Ok(question) = self.question() else { return };
        let (worker, entry) = (self.worker.clone(), self.caller.entry());
        let open = async move {
            let answer = worker.pass(question, &entry).await?;
            match Status::from_header_map(answer.headers()) {
                None => Ok(answer.into_body()),
                Some(status) => Err(status),
            }
        };
        if let Some(reader) = watching.join(self.call.watch.after_sequence, Call::position, open) {
            self.source = Source::Shared(reader);
        }
    }

    fn lose(&mut self) {
        (self.source, self.read) = (Source::None, BytesMut::new());
        if let Some(last) = self.last.take() {
            self.call.read(&last);
        }
        self.lost.get_or_insert_with(|| (Instant::now(), PAUSES.0));
    }

    async fn attach(&mut self) -> Result<(), Status> {
        let (since, pause) = self.lost.unwrap_or_else(|| (Instant::now(), PAUSES.0));
        // Without an id it is not known which call to go on with.
        if since.elapsed() > PATIENCE || self.call.watch.call_id.is_empty() {
            self.metrics.gateway_reattached("worker_gone");
            return Err(gone(&self.worker.name));
        }
        sleep(pause).await;
        self.lost = Some((since, (pause * 2).clamp(PAUSES.0, PAUSES.1)));
        if self.go_on_from_store(since).await? {
            return Ok(());
        }
        let answer = self.worker.pass(self.question()?, &self.caller.entry()).await;
        self.take(answer, (!pause.is_zero()).then_some("attached"))
    }

    fn question(&self) -> Result<Request<Body>, Status> {
        question(WATCH, &self.call.watch)
    }

    /// Goes on with an answer, which is counted like this if the worker was away, or says why that cannot be.
    fn take(&mut self, answer: Result<Response<Body>, Status>, how: Option<&'static str>) -> Result<(), Status> {
        let status = match answer {
            Ok(response) => match Status::from_header_map(response.headers()) {
                None => {
                    if let Some(how) = how {
                        self.metrics.gateway_reattached(how);
                    }
                    self.source = Source::Own(response.into_body());
                    return Ok(());
                }
                Some(status) => status,
            },
            Err(status) => status,
        };
        if is_passing(&status) {
            return Ok(());
        }
        self.metrics.gateway_reattached("refused");
        Err(status)
    }

    /// Goes on from the store if the call has ended, or if its worker has been away for longer than a break of the connection is. Says
    /// whether it was tried.
    async fn go_on_from_store(&mut self, since: Instant) -> Result<bool, Status> {
        let Some(store) = self.store.clone() else {
            return Ok(false);
        };
        if store.is_draining() {
            return Err(status::draining());
        }
        // Not how long the store takes: a worker that is there knows more.
        let is_away = since.elapsed() >= BREAK;
        let found = store.find(&self.caller, Named::Call(&self.call.watch.call_id)).await;
        let has_ended = found.is_ok_and(|found| !found.goes_on);
        if !has_ended && !is_away {
            return Ok(false);
        }
        let answer = store.answer_for(&self.caller, self.question()?).await;
        self.take(Ok(answer), Some("stored"))?;
        // The worker's stream is no more, or ends.
        self.watching = None;
        Ok(true)
    }
}

/// Says whether an answer is about the worker, which may be back soon. One that starts does not know the gateway yet.
pub(crate) fn is_passing(status: &Status) -> bool {
    [Code::Unavailable, Code::Unauthenticated].contains(&status.code())
}
