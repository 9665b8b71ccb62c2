//! One execution of a lent function.
//!
//! *Invariant:* reports keep their order, and wait while there is no connection: a function does not run ahead of it.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::sync::{mpsc, oneshot, watch};
use toolgate_contract::host_report::Report;
use toolgate_contract::json::struct_from_json;
use toolgate_contract::{
    CallContext, HostAsk, HostAskResult, HostOutput, HostProgress, HostReport, HostRequest, host_request,
};

use crate::client::new_id;
use crate::error::Error;

/// Keeps a report of output well below the largest message that a service takes.
const MAX_OUTPUT_REPORT: usize = 1 << 20;

/// A stream that reports go to, and its number.
#[derive(Clone)]
pub(crate) struct ReportStream {
    pub(crate) number: u64,
    pub(crate) requests: mpsc::Sender<HostRequest>,
}

/// What the host and its invocations share.
pub(crate) struct Reports {
    /// The stream on which the service has welcomed the host last.
    stream: Mutex<Option<ReportStream>>,
    /// Counts the changes for which reports may wait.
    changes: watch::Sender<u64>,
}

impl Reports {
    pub(crate) fn new() -> Self {
        Self {
            stream: Mutex::default(),
            changes: watch::Sender::new(0),
        }
    }

    pub(crate) fn stream(&self) -> Option<ReportStream> {
        self.stream.lock().clone()
    }

    pub(crate) fn set_stream(&self, stream: Option<ReportStream>) {
        *self.stream.lock() = stream;
        self.announce();
    }

    fn announce(&self) {
        self.changes.send_modify(|changes| *changes += 1);
    }
}

struct PendingAsk {
    request: HostReport,
    answer: Option<oneshot::Sender<HostAskResult>>,
}

/// What outlives the streams of one invocation.
pub(crate) struct InvocationState {
    id: String,
    reports: Arc<Reports>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// The number of the stream that brought the invocation last.
    stream: u64,
    /// The answers that are waited for, by the ids of the requests.
    asks: HashMap<String, PendingAsk>,
    /// The last report, and when it was made.
    last: Option<(HostReport, Instant)>,
}

impl InvocationState {
    pub(crate) fn new(id: String, stream: u64, reports: Arc<Reports>) -> Self {
        Self {
            id,
            reports,
            inner: Mutex::new(Inner {
                stream,
                ..Inner::default()
            }),
        }
    }

    /// Takes the invocation up on another stream, and returns what that has to hear again: the requests without an answer,
    /// and the end. The service knows both by their ids.
    pub(crate) fn resume(&self, stream: u64) -> Vec<HostReport> {
        let mut inner = self.inner.lock();
        inner.stream = stream;
        let asks = inner.asks.values().map(|ask| ask.request.clone());
        let reports = asks
            .chain(inner.last.iter().map(|(report, _)| report.clone()))
            .collect();
        drop(inner);
        self.reports.announce();
        reports
    }

    /// Returns the number of the stream that brought it last.
    pub(crate) fn stream(&self) -> u64 {
        self.inner.lock().stream
    }

    pub(crate) fn answered(&self, result: HostAskResult) {
        let answer = self
            .inner
            .lock()
            .asks
            .get_mut(&result.ask_id)
            .and_then(|ask| ask.answer.take());
        if let Some(answer) = answer {
            // The function may have stopped waiting.
            let _ = answer.send(result);
        }
    }

    /// Makes the last report, which is kept until it has surely arrived.
    pub(crate) fn finish(&self, report: Report) -> HostReport {
        let report = self.report(report);
        self.inner.lock().last = Some((report.clone(), Instant::now()));
        report
    }

    /// Returns whether its end was reported so long ago that it has arrived.
    pub(crate) fn is_over(&self, age: Duration) -> bool {
        self.inner
            .lock()
            .last
            .as_ref()
            .is_some_and(|(_, since)| since.elapsed() > age)
    }

    fn report(&self, report: Report) -> HostReport {
        HostReport {
            invocation_id: self.id.clone(),
            report: Some(report),
        }
    }

    /// Sends a report on the stream that knows the invocation, and waits for that while there is none.
    pub(crate) async fn send(&self, report: HostReport) {
        let mut changes = self.reports.changes.subscribe();
        loop {
            let stream = self.reports.stream().filter(|stream| stream.number == self.stream());
            if let Some(stream) = stream
                && stream.requests.send(request(report.clone())).await.is_ok()
            {
                return;
            }
            if changes.changed().await.is_err() {
                // The host is gone, and this with it.
                return std::future::pending().await;
            }
        }
    }
}

/// Makes a request of a report.
pub(crate) fn request(report: HostReport) -> HostRequest {
    HostRequest {
        message: Some(host_request::Message::Report(report)),
    }
}

/// A permission to ask for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ask {
    /// The permission; any name may be asked for.
    pub permission: String,
    /// What the function is about to touch; none for `*`.
    pub patterns: Vec<String>,
    /// What the reply `always` allows from then on.
    pub always: Vec<String>,
    /// A short line for the person.
    pub title: String,
    /// What the person should see.
    pub metadata: Map<String, Value>,
}

/// One execution of a lent function.
#[derive(Clone)]
pub struct Invocation {
    /// Names the invocation.
    pub id: String,
    /// The call.
    pub call_id: String,
    /// In whose name it was made.
    pub context: CallContext,
    /// The tool.
    pub tool: String,
    /// The frozen input.
    pub input_json: String,
    pub(crate) state: Arc<InvocationState>,
}

impl fmt::Debug for Invocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Invocation")
            .field("id", &self.id)
            .field("call_id", &self.call_id)
            .field("tool", &self.tool)
            .finish_non_exhaustive()
    }
}

impl Invocation {
    /// Reports a new title, unless it is empty, and a patch of the metadata: absent keys stay, `null` clears a key. While
    /// there is no connection it waits.
    pub async fn progress(&self, title: &str, metadata: &Map<String, Value>) {
        let progress = HostProgress {
            title: (!title.is_empty()).then(|| title.to_owned()),
            metadata: Some(struct_from_json(metadata.clone())),
        };
        self.state.send(self.state.report(Report::Progress(progress))).await;
    }

    /// Reports more of the output, which is shown as it comes. While there is no connection it waits.
    pub async fn write(&self, data: impl Into<Bytes>) {
        let mut data = data.into();
        while !data.is_empty() {
            let piece = data.split_to(data.len().min(MAX_OUTPUT_REPORT));
            let report = Report::Output(HostOutput { data: piece });
            self.state.send(self.state.report(report)).await;
        }
    }

    /// Asks for a permission in the name of the call: by the rules of its agent, and then by a person. A refusal is
    /// [`Error::Denied`].
    pub async fn ask(&self, ask: Ask) -> Result<(), Error> {
        let ask_id = new_id();
        let request = self.state.report(Report::Ask(HostAsk {
            ask_id: ask_id.clone(),
            permission: ask.permission,
            patterns: ask.patterns,
            always: ask.always,
            title: ask.title,
            metadata: Some(struct_from_json(ask.metadata)),
        }));
        let (answer, answered) = oneshot::channel();
        let pending = PendingAsk {
            request: request.clone(),
            answer: Some(answer),
        };
        self.state.inner.lock().asks.insert(ask_id.clone(), pending);
        let _forget = Forget {
            state: &self.state,
            ask_id,
        };
        self.state.send(request).await;
        let answer = answered.await.map_err(|_| Error::InvocationEnded)?;
        if answer.allowed {
            Ok(())
        } else {
            Err(Error::Denied(answer.error))
        }
    }
}

/// Takes a request back when nobody waits for its answer any more.
struct Forget<'a> {
    state: &'a InvocationState,
    ask_id: String,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.state.inner.lock().asks.remove(&self.ask_id);
    }
}
