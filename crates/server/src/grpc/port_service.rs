//! `PortService`: opens ports that programs of calls listen on, and connects to them.
//!
//! *Invariant:* a port is opened by a call of the tool `port`, and connected to by whoever has opened it. A connection ends with
//! its port, and with the stream that it belongs to.

use std::io;
use std::sync::Arc;

use bytes::{BufMut as _, Bytes, BytesMut};
use futures_util::stream;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio::sync::oneshot;
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::{Request, Response, Status, Streaming};
use toolgate_contract::port_service_server::PortService;
use toolgate_contract::*;
use toolgate_tools::ports::{ConnectError, Connection, OpenPort};

use super::auth::Caller;
use super::convert;
use super::events::{ResponseStream, deadline};
use super::limits::PORTS_PATH;
use super::rpc_call::RpcCall;
use super::status::bad_field;
use super::{Shared, status};

/// The tool that keeps a port open.
const TOOL: &str = "port";

/// The most bytes of a message of a client, and of one of the service.
const MAX_SENT: usize = 1024 * 1024;
const PIECE: usize = 64 * 1024;

/// The service.
pub(crate) struct Ports(pub(crate) Arc<Shared>);

#[tonic::async_trait]
impl PortService for Ports {
    async fn open_port(&self, request: Request<OpenPortRequest>) -> Result<Response<OpenPortResponse>, Status> {
        let deadline = deadline(request.metadata());
        let (caller, request) = Caller::of_request(request)?;
        let port = u16::try_from(request.port).ok().filter(|port| *port > 0);
        let port = port.ok_or_else(|| bad_field("port", "not from 1 to 65535"))?;
        let (target, options) = self.target(&caller, &request.call_id, request.call).await?;
        let call = RpcCall::new(&self.0, &caller, TOOL, Some(options), deadline)?;
        let ports = self.0.ports.clone();
        let opened = call.make_until(json!({"call": target, "port": port}), |id| async move {
            ports.opened_by(&id).await
        });
        let (call_id, opened) = opened.await?;
        let opened = opened.ok_or_else(|| status::connect(ConnectError::Closed, &call_id))?;
        if opened.owner != caller.principal().id() {
            return Err(status::id_taken(
                &call_id,
                format!("the call id {call_id} belongs to another request"),
            ));
        }
        Ok(Response::new(OpenPortResponse {
            call_id,
            http_path: format!("{PORTS_PATH}{}/", opened.secret()),
        }))
    }

    type ConnectPortStream = ResponseStream<ConnectPortResponse>;

    async fn connect_port(
        &self,
        request: Request<Streaming<ConnectPortRequest>>,
    ) -> Result<Response<Self::ConnectPortStream>, Status> {
        let (caller, mut messages) = Caller::of_request(request)?;
        let first = messages.message().await?.unwrap_or_default();
        let port = self.opened(&caller, &first.call_id).await?;
        check_size(&first.data)?;
        let connection = port.connect().await;
        let connection = connection.map_err(|error| status::connect(error, &first.call_id))?;
        Ok(Response::new(self.carry(port, connection, first.data, messages)))
    }
}

impl Ports {
    /// Returns the name of the call to reach, and how the call that reaches it is made: in the same workspace.
    async fn target(
        &self,
        caller: &Caller,
        id: &str,
        options: Option<CallStart>,
    ) -> Result<(String, CallStart), Status> {
        let target = convert::known_call_id("call_id", id)?;
        let target = self.0.call(caller, &target).await?;
        let record = self.0.engine.get(&target).await.map_err(status::store)?;
        let record = record.ok_or_else(|| status::not_found("call", target.name()))?;
        let mut options = options.unwrap_or_default();
        let context = options.context.get_or_insert_default();
        if context.workspace.is_empty() {
            context.workspace.clone_from(&record.origin.workspace);
        }
        if context.workspace != record.origin.workspace {
            let named = &context.workspace;
            // A workspace that is not there is what is wrong, if it is not.
            caller.place(&self.0.engine, named)?;
            return Err(status::not_found(
                "call",
                &format!("{} in the workspace {named}", target.name()),
            ));
        }
        if !record.state.is_terminal() && record.owner != *self.0.engine.calls().instance() {
            let problem = format!(
                "another instance of the service ({}) runs the call {}",
                record.owner,
                target.name()
            );
            return Err(status::precondition(ErrorReason::OtherInstance, target.name(), problem));
        }
        Ok((target.name().to_owned(), options))
    }

    /// Returns a port that the caller has opened.
    async fn opened(&self, caller: &Caller, id: &str) -> Result<Arc<OpenPort>, Status> {
        if id.is_empty() {
            return Err(bad_field("call_id", "the first message names the opened port"));
        }
        let id = convert::known_call_id("call_id", id)?;
        let missing = || status::not_found("opened port", id.name());
        let call = self.0.call(caller, &id).await.map_err(|_| missing())?;
        let owner = caller.principal().id();
        if let Some(port) = self.0.ports.of_call(&call) {
            return Some(port).filter(|port| port.owner == owner).ok_or_else(missing);
        }
        let record = self.0.engine.get(&call).await.map_err(status::store)?;
        let is_own = record.is_some_and(|record| record.tool == TOOL && record.origin.requester == owner);
        Err(match is_own {
            true => status::connect(ConnectError::Closed, call.name()),
            false => missing(),
        })
    }

    /// Carries bytes both ways until the program has closed its side.
    fn carry(
        &self,
        port: Arc<OpenPort>,
        connection: Connection,
        first: Bytes,
        messages: Streaming<ConnectPortRequest>,
    ) -> ResponseStream<ConnectPortResponse> {
        let (reads, writes) = tokio::io::split(connection);
        let (fault, faulty) = oneshot::channel();
        let gone = CancellationToken::new();
        let sending = gone.clone().run_until_cancelled_owned(async move {
            if let Err(status) = send(writes, first, messages).await {
                // The stream may be over.
                let _ = fault.send(status);
            }
        });
        // In a task of its own: it goes on while the client does not read.
        self.0.tunnels.spawn(sending);
        let receiver = Receiver {
            shared: self.0.clone(),
            port,
            reads,
            faulty: Some(faulty),
            buffer: BytesMut::new(),
            _gone: gone.drop_guard(),
        };
        Box::pin(stream::unfold(Some((receiver, true)), |state| async move {
            let (mut receiver, is_first) = state?;
            if is_first {
                return Some((Ok(ConnectPortResponse::default()), Some((receiver, false))));
            }
            match receiver.next().await {
                Ok(data) if data.is_empty() => None,
                Ok(data) => Some((Ok(ConnectPortResponse { data }), Some((receiver, false)))),
                Err(status) => Some((Err(status), None)),
            }
        }))
    }
}

fn check_size(data: &Bytes) -> Result<(), Status> {
    if data.len() > MAX_SENT {
        return Err(bad_field("data", format!("more than {MAX_SENT} bytes")));
    }
    Ok(())
}

/// Hands the program what the client sends, and then the end of it.
async fn send(
    mut writes: WriteHalf<Connection>,
    first: Bytes,
    mut messages: Streaming<ConnectPortRequest>,
) -> Result<(), Status> {
    let mut next = Some(first);
    while let Some(data) = next {
        if writes.write_all(&data).await.is_err() {
            // What the program still says comes first, and then how it has closed the connection.
            return Ok(());
        }
        next = match messages.message().await? {
            Some(message) if !message.call_id.is_empty() => {
                return Err(bad_field("call_id", "only the first message names the port"));
            }
            Some(message) => {
                check_size(&message.data)?;
                Some(message.data)
            }
            None => None,
        };
    }
    let _ = writes.shutdown().await;
    Ok(())
}

/// The way from the program to the client.
struct Receiver {
    shared: Arc<Shared>,
    port: Arc<OpenPort>,
    reads: ReadHalf<Connection>,
    /// What is wrong with what the client sends; none when nothing comes any more.
    faulty: Option<oneshot::Receiver<Status>>,
    buffer: BytesMut,
    /// Ends the other way, too.
    _gone: DropGuard,
}

impl Receiver {
    /// Returns what comes next; nothing at the end.
    async fn next(&mut self) -> Result<Bytes, Status> {
        loop {
            self.buffer.reserve(PIECE);
            let fault = async {
                match &mut self.faulty {
                    Some(faulty) => faulty.await,
                    None => std::future::pending().await,
                }
            };
            let mut room = (&mut self.buffer).limit(PIECE);
            tokio::select! {
                fault = fault => match fault {
                    Ok(status) => return Err(status),
                    Err(_) => self.faulty = None,
                },
                read = self.reads.read_buf(&mut room) => return match read {
                    Ok(_) => Ok(self.buffer.split().freeze()),
                    Err(error) => Err(self.broken(&error)),
                },
            }
        }
    }

    fn broken(&self, error: &io::Error) -> Status {
        match self.port.closed().is_cancelled() {
            true if self.shared.engine.calls().is_draining() => status::draining(),
            true => status::connect(ConnectError::Closed, self.port.call.name()),
            false => status::connection_lost(error),
        }
    }
}
