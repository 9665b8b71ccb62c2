//! A host at work, over as many streams as it takes.
//!
//! *Invariant:* no invocation is run twice. One that the service does not send again after a lost connection has ended,
//! and its function is dropped.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::{AbortHandle, BoxFuture, FutureExt as _, abortable};
use futures_util::stream::FuturesUnordered;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};
use toolgate_contract::host_event::Event;
use toolgate_contract::host_report::Report;
use toolgate_contract::{
    HostEvent, HostFailed, HostHook, HostHookResult, HostRequest, HostResponse, HostWelcome, host_request,
};

use crate::client::Client;
use crate::error::{BoxError, Error, reason};
use crate::host::{HookEvent, HookFunction, Host, Subagent};
use crate::invocation::{Invocation, InvocationState, ReportStream, Reports, request};
use crate::retry::{Patience, STALL_TIMEOUT, next_message};
use crate::tool::ToolFuture;

/// How long the service may take to notice that a host leaves.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(2);

/// Reports that may wait for the network.
const MAX_QUEUED_REPORTS: usize = 16;

/// How long a last report is kept: a connection that had lost it would have been found broken.
const LAST_REPORT_AGE: Duration = Duration::from_secs(2 * STALL_TIMEOUT.as_secs());

/// An invocation that runs, or whose end may not have arrived.
struct Running {
    state: Arc<InvocationState>,
    function: AbortHandle,
}

/// Functions, and reports that are sent again.
type Work = FuturesUnordered<BoxFuture<'static, ()>>;

pub(crate) struct Hosting {
    host: Host,
    reports: Arc<Reports>,
    invocations: HashMap<String, Running>,
    work: Work,
    /// How many streams there were.
    streams: u64,
}

/// A stream whose end tells the service that the host leaves.
struct HostStream {
    client: Client,
    requests: Option<mpsc::Sender<HostRequest>>,
    responses: Option<Streaming<HostResponse>>,
    reports: Arc<Reports>,
}

impl Drop for HostStream {
    fn drop(&mut self) {
        self.reports.set_stream(None);
        // The service takes the tools back at once when the stream ends in good order, which takes a round trip.
        drop(self.requests.take());
        if let Some(mut responses) = self.responses.take() {
            self.client.spawn(async move {
                let leave = async { while let Ok(Some(_)) = responses.message().await {} };
                let _ = tokio::time::timeout(LEAVE_TIMEOUT, leave).await;
            });
        }
    }
}

/// Why a stream has ended.
enum End {
    Lost(Status),
    Failed(Error),
}

impl From<Status> for End {
    fn from(status: Status) -> Self {
        Self::Lost(status)
    }
}

impl Hosting {
    pub(crate) fn new(host: Host) -> Self {
        Self {
            host,
            reports: Arc::new(Reports::new()),
            invocations: HashMap::new(),
            work: Work::new(),
            streams: 0,
        }
    }

    /// Serves one stream after the other, and returns why there is none any more.
    pub(crate) async fn serve(&mut self) -> Error {
        let mut patience = self.host.client.patience();
        loop {
            let status = match self.serve_stream(&mut patience).await {
                End::Lost(status) => status,
                End::Failed(error) => return error,
            };
            let is_replaced = reason(&status).is_some_and(|reason| reason == "REPLACED");
            let may_pass = !is_replaced && self.host.client.may_reopen(&status, patience.has_worked());
            let Some(pause) = patience.pause(&status).filter(|_| may_pass) else {
                return status.into();
            };
            let until = tokio::time::Instant::now() + pause;
            while self.work_until(until).await {}
        }
    }

    /// Lets functions go on until a moment; returns whether it has not come.
    async fn work_until(&mut self, moment: tokio::time::Instant) -> bool {
        tokio::select! {
            () = tokio::time::sleep_until(moment) => false,
            Some(()) = self.work.next() => true,
        }
    }

    async fn serve_stream(&mut self, patience: &mut Patience) -> End {
        let mut stream = match self.open().await {
            Ok(stream) => stream,
            Err(status) => return End::Lost(status),
        };
        // Whether invocations that are not sent again are to be dropped with the next event.
        let mut is_sweep_due = false;
        loop {
            let event = tokio::select! {
                event = receive(&mut stream) => event,
                Some(()) = self.work.next() => continue,
            };
            let event = match event {
                Ok(event) => event,
                Err(status) => {
                    stream.responses = None;
                    return End::Lost(status);
                }
            };
            patience.succeeded();
            let Some(event) = event.event else { continue };
            if let Event::Welcome(welcome) = event {
                is_sweep_due = welcome.resumed;
                if let Err(error) = self.welcomed(&stream, welcome) {
                    return End::Failed(error);
                }
                continue;
            }
            if is_sweep_due && !is_resent(&event) {
                self.keep_only_resent();
                is_sweep_due = false;
            }
            self.handle(event);
        }
    }

    async fn open(&mut self) -> Result<HostStream, Status> {
        let (requests, receiver) = mpsc::channel(MAX_QUEUED_REPORTS);
        let hello = HostRequest {
            message: Some(host_request::Message::Hello(self.host.hello.clone())),
        };
        let sent = requests.send(hello).await;
        sent.map_err(|_| Status::internal("the stream is closed"))?;
        let mut service = self.host.client.host_service();
        let mut opening = std::pin::pin!(service.host(ReceiverStream::new(receiver)));
        let responses = loop {
            tokio::select! {
                opened = &mut opening => break opened?.into_inner(),
                Some(()) = self.work.next() => {}
            }
        };
        self.streams += 1;
        Ok(HostStream {
            client: self.host.client.clone(),
            requests: Some(requests),
            responses: Some(responses),
            reports: Arc::clone(&self.reports),
        })
    }

    fn welcomed(&mut self, stream: &HostStream, welcome: HostWelcome) -> Result<(), Error> {
        if !welcome.refused.is_empty() && self.host.on_ready.is_none() {
            return Err(Error::Refused(welcome.refused));
        }
        self.host.hello.token.clone_from(&welcome.token);
        if !welcome.resumed {
            self.invocations
                .drain()
                .for_each(|(_, running)| running.function.abort());
        }
        self.reports
            .set_stream(stream.requests.clone().map(|requests| ReportStream {
                number: self.streams,
                requests,
            }));
        if let Some(on_ready) = &mut self.host.on_ready {
            on_ready(&welcome);
        }
        Ok(())
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Invoke(invoke) => {
                let call = self.invocation(&invoke.invocation_id, &invoke.call_id, invoke.context, invoke.tool);
                let tool = self.host.tools.get(&call.tool).cloned();
                let call = Invocation {
                    input_json: invoke.input_json,
                    ..call
                };
                self.begin(call, move |call| match tool {
                    Some(tool) => complete((tool.run)(call)),
                    None => failed(format!("this host does not have the tool {}", call.tool).into()),
                });
            }
            Event::RunSubagent(run) => {
                let context = run.context.clone();
                let call = self.invocation(&run.invocation_id, &run.call_id, context, "task".to_owned());
                let function = self.host.subagent.clone();
                self.begin(call, move |invocation| match function {
                    Some(function) => complete(function(Subagent {
                        invocation,
                        request: run,
                    })),
                    None => failed("this host runs no subagents".into()),
                });
            }
            Event::Hook(hook) => {
                let call = self.invocation(&hook.invocation_id, "", None, String::new());
                let function = self.host.hooks.get(&hook.point).cloned();
                self.begin(call, move |_| match function {
                    Some(function) => run_hook(function, hook).boxed(),
                    None => failed(format!("this host does not have the hook {}", hook.point).into()),
                });
            }
            Event::Cancel(cancel) => {
                if let Some(running) = self.invocations.remove(&cancel.invocation_id) {
                    running.function.abort();
                }
            }
            Event::AskResult(result) => {
                if let Some(running) = self.invocations.get(&result.invocation_id) {
                    running.state.answered(result);
                }
            }
            Event::Heartbeat(_) => self
                .invocations
                .retain(|_, running| !running.state.is_over(LAST_REPORT_AGE)),
            Event::Welcome(_) => {}
        }
    }

    /// Makes an invocation without an input.
    fn invocation(
        &self,
        id: &str,
        call_id: &str,
        context: Option<toolgate_contract::CallContext>,
        tool: String,
    ) -> Invocation {
        Invocation {
            id: id.to_owned(),
            call_id: call_id.to_owned(),
            context: context.unwrap_or_default(),
            tool,
            input_json: String::new(),
            state: Arc::new(InvocationState::new(
                id.to_owned(),
                self.streams,
                Arc::clone(&self.reports),
            )),
        }
    }

    /// Runs an invocation that is new, and takes up one that runs.
    fn begin(&mut self, call: Invocation, run: impl FnOnce(Invocation) -> BoxFuture<'static, Report>) {
        if let Some(running) = self.invocations.get(&call.id) {
            let reports = running.state.resume(self.streams);
            if let Some(stream) = self.reports.stream() {
                self.work.push(
                    async move {
                        for report in reports {
                            // What does not arrive is sent on the next stream.
                            let _ = stream.requests.send(request(report)).await;
                        }
                    }
                    .boxed(),
                );
            }
            return;
        }
        let (id, state) = (call.id.clone(), Arc::clone(&call.state));
        let function = run(call);
        let (complete, abort) = abortable({
            let state = Arc::clone(&state);
            async move {
                let report = function.await;
                let report = state.finish(report);
                state.send(report).await;
            }
        });
        self.work.push(complete.map(drop).boxed());
        self.invocations.insert(id, Running { state, function: abort });
    }

    /// Drops the invocations that ended while there was no stream.
    fn keep_only_resent(&mut self) {
        let current = self.streams;
        self.invocations.retain(|_, running| {
            let is_resent = running.state.stream() == current;
            if !is_resent {
                running.function.abort();
            }
            is_resent
        });
    }
}

async fn receive(stream: &mut HostStream) -> Result<HostEvent, Status> {
    let Some(responses) = &mut stream.responses else {
        return Err(Status::internal("the stream is closed"));
    };
    match next_message(responses).await? {
        Some(response) => Ok(response.event.unwrap_or_default()),
        None => Err(Status::unavailable("the server closed the stream")),
    }
}

/// Returns whether an event is among those with which a stream that is taken up again begins.
fn is_resent(event: &Event) -> bool {
    match event {
        Event::Invoke(invoke) => invoke.resent,
        Event::RunSubagent(run) => run.resent,
        Event::Hook(hook) => hook.resent,
        Event::AskResult(_) => true,
        Event::Welcome(_) | Event::Cancel(_) | Event::Heartbeat(_) => false,
    }
}

/// Makes the last report of what a function returns.
fn complete(function: ToolFuture) -> BoxFuture<'static, Report> {
    let report = async move {
        match function.await {
            Ok(result) => Report::Completed(result.into_wire()),
            Err(error) => failure(&error),
        }
    };
    report.boxed()
}

fn failed(error: BoxError) -> BoxFuture<'static, Report> {
    async move { failure(&error) }.boxed()
}

fn failure(error: &BoxError) -> Report {
    Report::Failed(HostFailed {
        error: error.to_string(),
    })
}

fn json_or_null(text: &str) -> Result<Value, serde_json::Error> {
    match text {
        "" => Ok(Value::Null),
        text => serde_json::from_str(text),
    }
}

async fn run_hook(function: HookFunction, hook: HostHook) -> Report {
    let changed = async {
        let event = HookEvent {
            point: hook.point.clone(),
            input: json_or_null(&hook.input_json)?,
            output: json_or_null(&hook.output_json)?,
        };
        function(event).await
    };
    match changed.await {
        Ok(changed) => Report::HookResult(HostHookResult {
            output_json: changed.map_or(hook.output_json, |changed| changed.to_string()),
        }),
        Err(error) => failure(&error),
    }
}
