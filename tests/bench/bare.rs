//! The bare peer: a tonic server that answers `ExecuteTool` with messages that were recorded from the real service.
//!
//! *Invariant:* the same runtime, transport and messages as the service, and nothing behind them.

use std::path::Path;

use anyhow::{Context as _, Result};
use prost::Message as _;
use tokio::process::Command;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::task::TaskTracker;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};
use toolgate::grpc::proto::tool_service_server::{ToolService, ToolServiceServer};
use toolgate::grpc::proto::*;

use crate::service::Serving;

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
    Serving::start(command, |line| {
        Some(line.trim().to_owned()).filter(|line| line.starts_with("http://"))
    })
    .await
}

/// Serves until it is killed.
pub(crate) async fn serve(messages: &Path) -> Result<()> {
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
        messages,
        tasks: TaskTracker::new(),
    };
    Server::builder()
        .add_service(ToolServiceServer::new(canned))
        .serve_with_incoming(incoming)
        .await?;
    Ok(())
}

struct Canned {
    messages: Vec<ExecuteToolResponse>,
    tasks: TaskTracker,
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
        _request: Request<ExecuteToolRequest>,
    ) -> Result<Response<Self::ExecuteToolStream>, Status> {
        let (sender, receiver) = tokio::sync::mpsc::channel(4);
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

    async fn list_tools(&self, _request: Request<ListToolsRequest>) -> Result<Response<ListToolsResponse>, Status> {
        unmeasured()
    }

    async fn run_tool(&self, _request: Request<RunToolRequest>) -> Result<Response<RunToolResponse>, Status> {
        unmeasured()
    }

    async fn watch_call(&self, _request: Request<WatchCallRequest>) -> Result<Response<Self::WatchCallStream>, Status> {
        unmeasured()
    }

    async fn get_call(&self, _request: Request<GetCallRequest>) -> Result<Response<GetCallResponse>, Status> {
        unmeasured()
    }

    async fn list_calls(&self, _request: Request<ListCallsRequest>) -> Result<Response<ListCallsResponse>, Status> {
        unmeasured()
    }

    async fn send_input(&self, _request: Request<SendInputRequest>) -> Result<Response<SendInputResponse>, Status> {
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
