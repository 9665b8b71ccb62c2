//! `process.v1.ProcessService`: commands by gRPC. `Execute` is a call of `bash`; `Start` is one of `background`, and its stream is
//! that of the call's output.
//!
//! *Invariant:* a process is known as long as its stream is there, and only to whoever has started it.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use parking_lot::Mutex;
use prost::Message;
use serde_json::json;
use tokio::time::Instant;
use tonic::body::Body;
use tonic::codegen::http;
use tonic::server::Grpc;
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;
use toolgate_contract::execute_tool_request::Arguments;
use toolgate_contract::tool_service_server::ToolService as _;
use toolgate_contract::{
    CallCompleted, CallEvent, CallFailed, CallOutcome, CancelCallRequest, ErrorReason, ExecuteToolRequest,
    ExecuteToolResponse, FailureReason, ResizeTerminalRequest, SendInputRequest, SignalCallRequest, TerminalSize,
    call_event,
};
use tower::{Service, service_fn};

use super::asked::Asked;
use super::commands::{self, Command};
use super::messages::*;
use crate::grpc::arrival::Arrival;
use crate::grpc::events::ResponseStream;
use crate::grpc::sandbox_paths::PROCESS;
use crate::grpc::shared::Shared;
use crate::grpc::status::{self, bad_field};
use crate::grpc::tool_service::Tools;

const TOOL: &str = "background";

/// How long a command may run whose client sets no deadline: it is cancelled when that goes away.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// What a terminal has whose client names no size.
const COLUMNS: u32 = 80;
const ROWS: u32 = 24;

/// The exit code of a program that was killed, as in a shell.
const KILLED: i32 = 128 + 9;

/// The service, behind its gate.
#[derive(Clone)]
pub(super) struct Processes {
    shared: Arc<Shared>,
    running: Arc<Running>,
}

/// The processes whose streams are open.
struct Running {
    /// Begins anywhere: a client that does not notice that the service was started anew names no other process by its number.
    last: AtomicI32,
    by_id: Mutex<HashMap<i32, Arc<Process>>>,
}

struct Process {
    id: i32,
    call: String,
    /// The principal that has started it, and where.
    owner: String,
    workspace: String,
    /// Bytes of input that were sent; held while more is sent, so that pieces keep their order.
    sent: tokio::sync::Mutex<i64>,
    is_killed: AtomicBool,
}

impl Processes {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let [a, b, c, d, ..] = uuid::Uuid::new_v4().into_bytes();
        let running = Arc::new(Running {
            // Positive, and far from where they end.
            last: AtomicI32::new(i32::from_be_bytes([a & 0x3f, b, c, d])),
            by_id: Mutex::default(),
        });
        Self { shared, running }
    }

    async fn serve(self, request: http::Request<Body>) -> http::Response<Body> {
        let limit = self.shared.max_message_bytes;
        let method = request.uri().path().strip_prefix(PROCESS).unwrap_or_default();
        match method {
            "Execute" => unary(limit, request, move |request| self.clone().execute(request)).await,
            "WriteStdin" => unary(limit, request, move |request| self.clone().write(request)).await,
            "SendSignal" => unary(limit, request, move |request| self.clone().signal(request)).await,
            "ResizeTTY" => unary(limit, request, move |request| self.clone().resize(request)).await,
            "Start" => {
                let codec = ProstCodec::<StartResponse, StartRequest>::default();
                let start = service_fn(move |request| self.clone().start(request));
                let mut grpc = Grpc::new(codec).max_decoding_message_size(limit);
                grpc.server_streaming(start, request).await
            }
            _ => Status::unimplemented(format!("process.v1.ProcessService has no {method:?}")).into_http(),
        }
    }

    async fn execute(self, request: Request<ExecuteRequest>) -> Result<Response<ExecuteResponse>, Status> {
        let mut asked = Asked::of_grpc(&request)?;
        let mut command = command(&mut asked, request.into_inner().config)?;
        let left = |deadline: Instant| deadline.saturating_duration_since(Instant::now());
        command.timeout = Some(asked.deadline.map_or(LONGEST, left));
        let ran = commands::run(&self.shared, &asked, &command).await?;
        Ok(Response::new(ExecuteResponse {
            exit_code: ran.exit_code,
            stdout: ran.output,
            stderr: ran.note.into(),
        }))
    }

    async fn start(self, request: Request<StartRequest>) -> Result<Response<ResponseStream<StartResponse>>, Status> {
        let mut asked = Asked::of_grpc(&request)?;
        let place = asked.caller.place(&self.shared.engine, &asked.context().workspace)?;
        let workspace = place.workspace.name().to_owned();
        drop(place);
        let (metadata, extensions, request) = request.into_parts();
        let mut input = command(&mut asked, request.config)?.input();
        if let Some(Terminal { cols, rows }) = request.pty {
            let or = |given: u32, default: u32| if given == 0 { default } else { given };
            input["terminal"] = json!({"columns": or(cols, COLUMNS), "rows": or(rows, ROWS)});
        }
        let mut wanted = asked.to(ExecuteToolRequest {
            context: Some(asked.context()),
            tool: TOOL.to_owned(),
            arguments: Some(Arguments::InputJson(input.to_string())),
            ..ExecuteToolRequest::default()
        });
        if let Some(timeout) = metadata.get("grpc-timeout") {
            wanted.metadata_mut().insert("grpc-timeout", timeout.clone());
        }
        if let Some(arrival) = extensions.get::<Arrival>() {
            wanted.extensions_mut().insert(arrival.clone());
        }
        let mut events = Tools(self.shared.clone()).execute_tool(wanted).await?.into_inner();
        let first = events.next().await.transpose()?.and_then(|first| first.event);
        let call = first.map(|first| first.call_id).unwrap_or_default();
        let process = self.running.add(call, asked.caller.principal().id(), workspace);
        let init = Event::Init(Init { process_id: process.id });
        let following = Following {
            events,
            known: Known {
                running: self.running.clone(),
                process,
            },
            is_over: false,
        };
        let rest = stream::unfold(following, async |mut following| {
            let event = following.next().await?;
            Some((event, following))
        });
        let all = stream::iter([Ok(init)]).chain(rest);
        let all = all.map(|event| event.map(|event| StartResponse { event: Some(event) }));
        Ok(Response::new(all.boxed()))
    }

    async fn write(self, request: Request<WriteStdinRequest>) -> Result<Response<Nothing>, Status> {
        let asked = Asked::of_grpc(&request)?;
        let request = request.into_inner();
        let process = self.running.find(request.process_id, &asked)?;
        let (data, close) = match request.payload {
            Some(Payload::Input(data)) => (data, false),
            Some(Payload::Eof(_)) => (Bytes::new(), true),
            None => return Err(bad_field("payload", "send input, or say that none follows")),
        };
        let mut sent = process.sent.lock().await;
        let input = SendInputRequest {
            call_id: process.call.clone(),
            offset: *sent,
            data,
            close,
        };
        let taken = Tools(self.shared.clone()).send_input(asked.to(input)).await?;
        *sent = taken.into_inner().next_offset;
        Ok(Response::new(Nothing {}))
    }

    async fn signal(self, request: Request<SendSignalRequest>) -> Result<Response<Nothing>, Status> {
        use toolgate_contract::Signal as Sent;
        let asked = Asked::of_grpc(&request)?;
        let request = request.into_inner();
        let process = self.running.find(request.process_id, &asked)?;
        let tools = Tools(self.shared.clone());
        let signal = match request.signal() {
            Signal::Int => Sent::Int,
            Signal::Term => Sent::Term,
            Signal::Kill => {
                process.is_killed.store(true, Ordering::Relaxed);
                let call_id = process.call.clone();
                tools.cancel_call(asked.to(CancelCallRequest { call_id })).await?;
                return Ok(Response::new(Nothing {}));
            }
            Signal::Unspecified => return Err(bad_field("signal", "expected SIGINT, SIGKILL or SIGTERM")),
        };
        let signal = SignalCallRequest {
            call_id: process.call.clone(),
            signal: signal.into(),
        };
        tools.signal_call(asked.to(signal)).await?;
        Ok(Response::new(Nothing {}))
    }

    async fn resize(self, request: Request<ResizeTtyRequest>) -> Result<Response<Nothing>, Status> {
        let asked = Asked::of_grpc(&request)?;
        let request = request.into_inner();
        let process = self.running.find(request.process_id, &asked)?;
        let number = |number: u32| i32::try_from(number).unwrap_or(i32::MAX);
        let size = ResizeTerminalRequest {
            call_id: process.call.clone(),
            size: Some(TerminalSize {
                columns: number(request.cols),
                rows: number(request.rows),
            }),
        };
        Tools(self.shared.clone()).resize_terminal(asked.to(size)).await?;
        Ok(Response::new(Nothing {}))
    }
}

impl Running {
    fn add(&self, call: String, owner: String, workspace: String) -> Arc<Process> {
        let process = Arc::new(Process {
            id: self.last.fetch_add(1, Ordering::Relaxed).wrapping_add(1),
            call,
            owner,
            workspace,
            sent: tokio::sync::Mutex::default(),
            is_killed: AtomicBool::default(),
        });
        self.by_id.lock().insert(process.id, process.clone());
        process
    }

    /// Finds a process that a caller has started, in the workspace that the request names, if it names one.
    fn find(&self, id: i32, asked: &Asked) -> Result<Arc<Process>, Status> {
        let found = self.by_id.lock().get(&id).cloned();
        let named = asked.context().workspace;
        let is_there = |process: &Process| named.is_empty() || process.workspace == named;
        let own = found.filter(|process| process.owner == asked.caller.principal().id() && is_there(process));
        own.ok_or_else(|| status::not_found("process", &id.to_string()))
    }
}

/// A process that can be named while this is kept.
struct Known {
    running: Arc<Running>,
    process: Arc<Process>,
}

impl Drop for Known {
    fn drop(&mut self) {
        self.running.by_id.lock().remove(&self.process.id);
    }
}

/// The stream of a process. Dropped, it cancels the call, as the stream of a call does.
struct Following {
    events: ResponseStream<ExecuteToolResponse>,
    known: Known,
    is_over: bool,
}

impl Following {
    /// Returns what happens next that a client of sandboxd knows of; none at the end.
    async fn next(&mut self) -> Option<Result<Event, Status>> {
        while !self.is_over {
            let event = match self.events.next().await? {
                Ok(event) => self.told(event.event.unwrap_or_default()),
                Err(status) => Some(Err(status)),
            };
            if let Some(event) = event {
                self.is_over = !matches!(event, Ok(Event::Stdout(_)));
                return Some(event);
            }
        }
        None
    }

    fn told(&self, event: CallEvent) -> Option<Result<Event, Status>> {
        use call_event::Event as Happened;
        match event.event? {
            Happened::Output(output) => Some(Ok(Event::Stdout(output.data))),
            Happened::Completed(completed) => Some(ended(&completed)),
            Happened::Failed(failed) => Some(self.failed(&failed)),
            Happened::Gap(gap) if gap.output_bytes > 0 => Some(Err(status::missed_changes())),
            Happened::Gap(_)
            | Happened::Pending(_)
            | Happened::Running(_)
            | Happened::Metadata(_)
            | Happened::Waiting(_)
            | Happened::Resumed(_)
            | Happened::Warning(_)
            | Happened::Heartbeat(_)
            | Happened::Child(_)
            | Happened::Listening(_) => None,
        }
    }

    fn failed(&self, failed: &CallFailed) -> Result<Event, Status> {
        let process = &self.known.process;
        match failed.reason() == FailureReason::Cancelled && process.is_killed.load(Ordering::Relaxed) {
            true => Ok(Event::Exit(Exit { exit_code: KILLED })),
            false => Err(status::failed_call(&process.call, failed)),
        }
    }
}

fn ended(completed: &CallCompleted) -> Result<Event, Status> {
    if completed.outcome() == CallOutcome::Invalid {
        let problem = format!("a rule denies the tool {TOOL} for this agent");
        return Err(status::refused(ErrorReason::DeniedByRule, problem));
    }
    let exit_code = commands::exit_code(&commands::result_of(completed));
    Ok(Event::Exit(Exit { exit_code }))
}

/// Returns what is to be run. Its variables are those of who asks.
fn command(asked: &mut Asked, config: Option<ProcessConfig>) -> Result<Command, Status> {
    let config = config.unwrap_or_default();
    asked.set_environment(config.env_vars);
    Ok(Command {
        line: line(&config.command)?,
        directory: config.cwd,
        timeout: None,
    })
}

/// Returns the command line of a program with its arguments. What a shell is to run is that itself, so that rules and people see the
/// commands in it.
fn line(words: &[String]) -> Result<String, Status> {
    match words {
        [] => Err(bad_field("config.command", "say what to run")),
        [shell, flag, line] if ["sh", "/bin/sh"].contains(&shell.as_str()) && flag == "-c" => Ok(line.clone()),
        words => shlex::try_join(words.iter().map(String::as_str))
            .map_err(|_| bad_field("config.command", "contains a zero byte")),
    }
}

async fn unary<Q, A, F>(
    limit: usize,
    request: http::Request<Body>,
    work: impl FnMut(Request<Q>) -> F + Send,
) -> http::Response<Body>
where
    Q: Message + Default + 'static,
    A: Message + Default + 'static,
    F: Future<Output = Result<Response<A>, Status>> + Send,
{
    let mut grpc = Grpc::new(ProstCodec::<A, Q>::default()).max_decoding_message_size(limit);
    grpc.unary(service_fn(work), request).await
}

impl Service<http::Request<Body>> for Processes {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<http::Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let processes = self.clone();
        Box::pin(async move { Ok(processes.serve(request).await) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_see_what_a_shell_is_to_run() {
        let check = |words: &[&str], expected: Option<&str>| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            assert_eq!(line(&words).ok().as_deref(), expected, "{words:?}");
        };
        check(&["/bin/sh", "-c", "rm -rf x && ls"], Some("rm -rf x && ls"));
        check(&["ls", "-la"], Some("ls -la"));
        check(&["echo", "a b", "$HOME"], Some("echo 'a b' '$HOME'"));
        check(&["sh", "-c", "ls", "x"], Some("sh -c ls x"));
        check(&["bash", "-c", "ls"], Some("bash -c ls"));
        check(&["a\0b"], None);
        check(&[], None);
    }
}
