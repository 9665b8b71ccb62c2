//! The bare peer: a tonic server that answers `ExecuteTool` with messages that were recorded from the real service, after it has read
//! the file that they are about, or runs a command as simply as it can be done; and `GetCall` with the call of those messages. What
//! takes it longer than its target takes every service longer.
//!
//! *Invariant:* the same runtime, transport and messages as the service, and nothing behind them.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result};
use bytes::BytesMut;
use prost::Message as _;
use tokio::io::AsyncReadExt as _;
use tokio::process::Command;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::task::TaskTracker;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};
use toolgate_contract::call_event::Event;
use toolgate_contract::execute_tool_request::Arguments;
use toolgate_contract::tool_service_server::{ToolService, ToolServiceServer};
use toolgate_contract::*;

use crate::service::{SHELL, Serving, Token};

/// The tool that runs a command, and the one that reads a file.
pub(crate) const BASH: &str = "bash";
const READ: &str = "read";

/// What is read at once, and what lies in a pipe: as the service has them for a flood.
const READ_BYTES: usize = 512 * 1024;
const PIPE_BYTES: usize = 1024 * 1024;

/// The most that one event has, by the contract.
const EVENT_BYTES: usize = 64 * 1024;

/// Starts the peer, in a process of its own, with the messages that it is to answer with.
pub(crate) async fn start(messages: &[ExecuteToolResponse], folder: &Path) -> Result<Serving> {
    let mut encoded = Vec::new();
    for message in messages {
        message.encode_length_delimited(&mut encoded)?;
    }
    let file = folder.join("messages");
    std::fs::write(&file, encoded)?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("--bare-stream").arg(file);
    Serving::start(command, Token::default(), |line| {
        Some(line.trim().to_owned()).filter(|line| line.starts_with("http://"))
    })
    .await
}

/// Serves until it is killed.
pub(crate) async fn serve(messages: &Path) -> Result<()> {
    let folder = messages.parent().context("a file in a folder")?.to_owned();
    let encoded = std::fs::read(messages).context("reading the messages")?;
    let mut rest = encoded.as_slice();
    let mut messages = Vec::new();
    while !rest.is_empty() {
        messages.push(ExecuteToolResponse::decode_length_delimited(&mut rest)?);
    }
    let incoming = TcpIncoming::bind("127.0.0.1:0".parse()?)
        .map_err(|error| anyhow::anyhow!("binding: {error}"))?
        .with_nodelay(Some(true));
    println!("http://{}", incoming.local_addr()?);
    let canned = Canned {
        call: call_of(&messages),
        messages,
        folder,
        tasks: TaskTracker::new(),
    };
    Server::builder()
        .add_service(ToolServiceServer::new(canned))
        .serve_with_incoming(incoming)
        .await?;
    Ok(())
}

/// Returns a record with the end of a call.
fn call_of(messages: &[ExecuteToolResponse]) -> Option<Call> {
    let last = messages.last()?.event.clone()?;
    let Event::Completed(completed) = last.event? else {
        return None;
    };
    Some(Call {
        call_id: last.call_id,
        state: CallState::Completed.into(),
        ending: Some(call::Ending::Completed(completed)),
        ..Call::default()
    })
}

struct Canned {
    messages: Vec<ExecuteToolResponse>,
    /// The call that they are of, as far as they tell of it.
    call: Option<Call>,
    /// Where commands run and their output is kept.
    folder: PathBuf,
    tasks: TaskTracker,
}

type Events = mpsc::Sender<Result<ExecuteToolResponse, Status>>;

async fn tell(events: &Events, event: Event) -> Result<()> {
    let event = CallEvent {
        event: Some(event),
        ..CallEvent::default()
    };
    let response = ExecuteToolResponse { event: Some(event) };
    events.send(Ok(response)).await.context("nobody reads")
}

/// Runs a command, keeps what it prints in a file, and streams it.
async fn run(command: &str, folder: &Path, events: &Events) -> Result<()> {
    let mut child = Command::new(SHELL)
        .args(["-c", command])
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let mut stdout = child.stdout.take().context("a program without output")?;
    rustix::pipe::fcntl_setpipe_size(&stdout, PIPE_BYTES)?;
    let path = folder.join("kept");
    let mut kept = None;
    loop {
        let mut bytes = BytesMut::with_capacity(READ_BYTES);
        if stdout.read_buf(&mut bytes).await? == 0 {
            break;
        }
        let file = match &mut kept {
            Some(file) => file,
            None => kept.insert(File::create(&path)?),
        };
        tokio::task::block_in_place(|| file.write_all(&bytes))?;
        let mut bytes = bytes.freeze();
        while !bytes.is_empty() {
            let data = bytes.split_to(bytes.len().min(EVENT_BYTES));
            let output = CallOutput {
                data,
                ..CallOutput::default()
            };
            tell(events, Event::Output(output)).await?;
        }
    }
    child.wait().await?;
    if kept.is_some() {
        std::fs::remove_file(path)?;
    }
    tell(events, Event::Completed(CallCompleted::default())).await
}

fn unmeasured<T>() -> Result<Response<T>, Status> {
    Err(Status::unimplemented("the bare peer only executes"))
}

#[tonic::async_trait]
impl ToolService for Canned {
    type ExecuteToolStream = ReceiverStream<Result<ExecuteToolResponse, Status>>;

    /// As every guide to tonic does it: a task that sends into a channel.
    async fn execute_tool(
        &self,
        request: Request<ExecuteToolRequest>,
    ) -> Result<Response<Self::ExecuteToolStream>, Status> {
        let (sender, receiver) = mpsc::channel(4);
        let request = request.into_inner();
        let Some(Arguments::InputJson(input)) = &request.arguments else {
            return Err(Status::invalid_argument("the input is JSON"));
        };
        let input: serde_json::Value =
            serde_json::from_str(input).map_err(|error| Status::invalid_argument(error.to_string()))?;
        let text = |field: &str| input[field].as_str().unwrap_or_default().to_owned();
        if request.tool == READ {
            // In place: it is in memory.
            let read = std::fs::read(self.folder.join(text("filePath")));
            std::hint::black_box(read.map_err(|error| Status::not_found(error.to_string()))?);
        }
        if request.tool == BASH {
            let command = text("command");
            let folder = self.folder.clone();
            self.tasks.spawn(async move {
                if let Err(error) = run(&command, &folder, &sender).await {
                    // Fails when nobody reads any more.
                    let _ = sender.send(Err(Status::internal(format!("{error:#}")))).await;
                }
            });
            return Ok(Response::new(ReceiverStream::new(receiver)));
        }
        let messages = self.messages.clone();
        self.tasks.spawn(async move {
            for message in messages {
                if sender.send(Ok(message)).await.is_err() {
                    return;
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    type WatchCallStream = ReceiverStream<Result<WatchCallResponse, Status>>;

    async fn evaluate_call(
        &self,
        _request: Request<EvaluateCallRequest>,
    ) -> Result<Response<EvaluateCallResponse>, Status> {
        unmeasured()
    }

    async fn list_tools(&self, _request: Request<ListToolsRequest>) -> Result<Response<ListToolsResponse>, Status> {
        unmeasured()
    }

    async fn run_tool(&self, _request: Request<RunToolRequest>) -> Result<Response<RunToolResponse>, Status> {
        unmeasured()
    }

    async fn watch_call(&self, _request: Request<WatchCallRequest>) -> Result<Response<Self::WatchCallStream>, Status> {
        unmeasured()
    }

    async fn get_call(&self, request: Request<GetCallRequest>) -> Result<Response<GetCallResponse>, Status> {
        let id = request.into_inner().call_id;
        match &self.call {
            Some(call) if call.call_id == id => Ok(Response::new(GetCallResponse {
                call: Some(call.clone()),
            })),
            Some(_) | None => Err(Status::not_found(format!("there is no call {id}"))),
        }
    }

    async fn list_calls(&self, _request: Request<ListCallsRequest>) -> Result<Response<ListCallsResponse>, Status> {
        unmeasured()
    }

    async fn send_input(&self, _request: Request<SendInputRequest>) -> Result<Response<SendInputResponse>, Status> {
        unmeasured()
    }

    async fn resize_terminal(
        &self,
        _request: Request<ResizeTerminalRequest>,
    ) -> Result<Response<ResizeTerminalResponse>, Status> {
        unmeasured()
    }

    async fn get_terminal(
        &self,
        _request: Request<GetTerminalRequest>,
    ) -> Result<Response<GetTerminalResponse>, Status> {
        unmeasured()
    }

    async fn signal_call(&self, _request: Request<SignalCallRequest>) -> Result<Response<SignalCallResponse>, Status> {
        unmeasured()
    }

    type RevertCallStream = ReceiverStream<Result<RevertCallResponse, Status>>;

    async fn revert_call(
        &self,
        _request: Request<RevertCallRequest>,
    ) -> Result<Response<Self::RevertCallStream>, Status> {
        unmeasured()
    }

    async fn cancel_call(&self, _request: Request<CancelCallRequest>) -> Result<Response<CancelCallResponse>, Status> {
        unmeasured()
    }
}
