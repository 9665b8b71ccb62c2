//! The connection to a service.
//!
//! *Invariant:* every RPC goes over one channel with the same credentials; a connection that breaks is made anew by the
//! next RPC.

use std::collections::HashSet;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Response, Status};
use toolgate_contract::audit_service_client::AuditServiceClient;
use toolgate_contract::file_service_client::FileServiceClient;
use toolgate_contract::host_service_client::HostServiceClient;
use toolgate_contract::info_service_client::InfoServiceClient;
use toolgate_contract::mcp_service_client::McpServiceClient;
use toolgate_contract::output_service_client::OutputServiceClient;
use toolgate_contract::permission_service_client::PermissionServiceClient;
use toolgate_contract::port_service_client::PortServiceClient;
use toolgate_contract::session_service_client::SessionServiceClient;
use toolgate_contract::tool_service_client::ToolServiceClient;
use toolgate_contract::workspace_service_client::WorkspaceServiceClient;
use toolgate_contract::{
    Call, CallContext, CancelCallRequest, GetCallRequest, GetServerInfoRequest, GetServerInfoResponse,
};

use crate::context::context_setters;
use crate::credentials::{Bearer, Credentials};
use crate::error::{Error, innermost, is_transient, reason};
use crate::retry::{Patience, RetryLimits, backoff};
use crate::target::{self, DEFAULT_TARGET};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(20);
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 4 << 20;
/// An event of output fits into one frame.
const FRAME: u32 = 1 << 17;
/// A result carries whole files; the server's own limit is below this.
const MAX_MESSAGE: usize = 64 << 20;
/// How long a call that is abandoned may take to be cancelled.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a call that nobody has heard of may be on its way to the service.
const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(2);

/// The channel of a client, for generated clients that the library does not make itself.
pub type AuthorizedChannel = InterceptedService<Channel, Bearer>;

/// A connection to a service. It is cheap to clone, and all clones share the connection.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    channel: Channel,
    bearer: Bearer,
    context: CallContext,
    limits: RetryLimits,
    rpc_timeout: Duration,
    /// Ends when the client is closed.
    life: CancellationToken,
    /// What goes on when its owner is gone: cancelling calls, leaving streams.
    tasks: TaskTracker,
    /// The calls that end with the client.
    live: Mutex<HashSet<String>>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("context", &self.inner.context)
            .finish_non_exhaustive()
    }
}

/// How a client is made.
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it connects"]
pub struct ClientBuilder {
    target: String,
    credentials: Option<Credentials>,
    context: CallContext,
    limits: RetryLimits,
    rpc_timeout: Duration,
}

/// Calls an RPC that may be repeated: `unary!(client, tool_service.get_call, request)`.
macro_rules! unary {
    ($client:expr, $service:ident.$rpc:ident, $request:expr) => {{
        let client = $client;
        client.unary($request, |request| {
            let mut service = client.$service();
            async move { service.$rpc(request).await }
        })
    }};
}
pub(crate) use unary;

/// Calls an RPC that lists something, for all its pages: `list!(client, tool_service.list_calls, request, calls)`.
macro_rules! list {
    ($client:expr, $service:ident.$rpc:ident, $request:expr, $items:ident) => {{
        let (client, mut request) = ($client, $request);
        let mut items = Vec::new();
        loop {
            let page = $crate::client::unary!(client, $service.$rpc, request.clone()).await?;
            items.extend(page.$items);
            if page.next_page_token.is_empty() {
                break items;
            }
            request.page_token = page.next_page_token;
        }
    }};
}
pub(crate) use list;

macro_rules! generated_clients {
    ($($(#[$doc:meta])* $function:ident: $client:ident;)*) => {
        $(
            $(#[$doc])*
            pub fn $function(&self) -> $client<AuthorizedChannel> {
                $client::new(self.channel())
                    .max_decoding_message_size(MAX_MESSAGE)
                    .max_encoding_message_size(MAX_MESSAGE)
            }
        )*
    };
}

impl Client {
    /// Connects to the service at `unix:/PATH`, `http://HOST:PORT`, `https://HOST:PORT` or `HOST:PORT`, which is plain text
    /// on this machine and TLS elsewhere. An empty target stands for the variable `TOOLGATE_SERVER`, or else for
    /// [`DEFAULT_TARGET`]. Credentials are those of [`Credentials::from_env`].
    pub async fn connect(target: &str) -> Result<Self, Error> {
        Self::builder(target).connect().await
    }

    /// Begins a client with other credentials, or with a context for its calls.
    pub fn builder(target: &str) -> ClientBuilder {
        ClientBuilder {
            target: target.to_owned(),
            credentials: None,
            context: CallContext {
                client_name: concat!("toolgate-rust/", env!("CARGO_PKG_VERSION")).to_owned(),
                client_ids: vec![new_id()],
                ..CallContext::default()
            },
            limits: RetryLimits::default(),
            rpc_timeout: Duration::from_secs(60),
        }
    }

    /// Cancels the calls that nobody keeps (see [`crate::OnDisconnect`]), and ends all streams. Clones are closed as well.
    pub async fn close(&self) {
        let live: Vec<String> = self.inner.live.lock().drain().collect();
        futures_util::future::join_all(live.into_iter().map(|call_id| self.stop_call(call_id, true))).await;
        self.inner.life.cancel();
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
    }

    /// Returns the channel with the client's credentials, for generated clients of other services.
    pub fn channel(&self) -> AuthorizedChannel {
        InterceptedService::new(self.inner.channel.clone(), self.inner.bearer.clone())
    }

    generated_clients! {
        /// Returns the generated client for tools and calls.
        tool_service: ToolServiceClient;
        /// Returns the generated client for prompts and grants.
        permission_service: PermissionServiceClient;
        /// Returns the generated client for stored outputs.
        output_service: OutputServiceClient;
        /// Returns the generated client for sessions and events.
        session_service: SessionServiceClient;
        /// Returns the generated client for tools that programs lend.
        host_service: HostServiceClient;
        /// Returns the generated client for the audit.
        audit_service: AuditServiceClient;
        /// Returns the generated client for the server's version, limits and workspaces.
        info_service: InfoServiceClient;
        /// Returns the generated client for opening, closing and listing workspaces.
        workspace_service: WorkspaceServiceClient;
        /// Returns the generated client for the files of workspaces.
        file_service: FileServiceClient;
        /// Returns the generated client for what programs listen on.
        port_service: PortServiceClient;
        /// Returns the generated client for resources and prompts of MCP servers.
        mcp_service: McpServiceClient;
    }

    /// Returns the version, limits and workspaces of the service.
    pub async fn server_info(&self) -> Result<GetServerInfoResponse, Error> {
        unary!(self, info_service.get_server_info, GetServerInfoRequest {}).await
    }

    /// Returns the record of a call.
    pub async fn get_call(&self, call_id: impl Into<String>) -> Result<Call, Error> {
        let call_id = call_id.into();
        let response = unary!(self, tool_service.get_call, GetCallRequest { call_id }).await?;
        response.call.ok_or(Error::Protocol("call"))
    }

    /// Cancels a call and returns its record once it has ended. Its programs are gone then.
    pub async fn cancel_call(&self, call_id: impl Into<String>) -> Result<Call, Error> {
        let call_id = call_id.into();
        let response = self
            .retry(CancelCallRequest { call_id }, None, |request| {
                let mut service = self.tool_service();
                async move { service.cancel_call(request).await }
            })
            .await?;
        response.call.ok_or(Error::Protocol("call"))
    }

    /// Returns in whose name calls are made unless a call says otherwise.
    pub(crate) fn context(&self) -> &CallContext {
        &self.inner.context
    }

    pub(crate) fn patience(&self) -> Patience {
        Patience::new(&self.inner.limits)
    }

    /// Returns whether a failed RPC is worth another attempt.
    pub(crate) fn may_pass(&self, status: &Status) -> bool {
        is_transient(status) && (status.code() != Code::ResourceExhausted || self.inner.limits.waits_when_busy)
    }

    /// Returns whether a stream that was lost is worth another attempt. One that has worked until its credentials expired is,
    /// if others can be shown.
    pub(crate) fn may_reopen(&self, status: &Status, has_worked: bool) -> bool {
        let is_expired = reason(status).is_some_and(|reason| reason == "CREDENTIALS_EXPIRED");
        self.may_pass(status) || (is_expired && has_worked && self.inner.bearer.renews())
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.inner.life.is_cancelled()
    }

    /// Waits for something, unless the client is closed before.
    pub(crate) async fn unless_closed<T>(&self, future: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        tokio::select! {
            biased;
            () = self.inner.life.cancelled() => Err(Error::Closed),
            result = future => result,
        }
    }

    /// Goes on with something when its owner is gone. Closing the client waits for it.
    pub(crate) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        // Without a runtime there is nobody to do it; the service notices the lost connection.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            self.inner.tasks.spawn_on(future, &runtime);
        }
    }

    /// Makes a call end with the client.
    pub(crate) fn adopt(&self, call_id: &str) {
        self.inner.live.lock().insert(call_id.to_owned());
    }

    /// Says that a call has ended, or that it does not end with the client.
    pub(crate) fn release(&self, call_id: &str) {
        self.inner.live.lock().remove(call_id);
    }

    /// Cancels a call that nobody waits for any more. One that the service does not know may still be on its way there.
    pub(crate) async fn stop_call(&self, call_id: String, was_admitted: bool) {
        let limit = if was_admitted { CANCEL_TIMEOUT } else { ARRIVAL_TIMEOUT };
        let cancel = async {
            let mut attempt = 0;
            while let Err(error) = self.cancel_call(call_id.clone()).await {
                if error.code() != Code::NotFound || was_admitted {
                    tracing::debug!(call = %call_id, %error, "the call cannot be cancelled");
                    break;
                }
                attempt += 1;
                tokio::time::sleep(backoff(attempt)).await;
            }
        };
        let _ = tokio::time::timeout(limit, cancel).await;
    }

    /// Does a unary RPC that may be repeated, within the client's deadline.
    pub(crate) async fn unary<Q: Clone, A, F>(&self, request: Q, rpc: impl Fn(Request<Q>) -> F) -> Result<A, Error>
    where
        F: Future<Output = Result<Response<A>, Status>>,
    {
        self.retry(request, Some(self.inner.rpc_timeout), rpc).await
    }

    /// Does an RPC that may be repeated, within a deadline for each attempt if there is one.
    pub(crate) async fn retry<Q: Clone, A, F>(
        &self,
        request: Q,
        limit: Option<Duration>,
        rpc: impl Fn(Request<Q>) -> F,
    ) -> Result<A, Error>
    where
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let mut patience = self.patience();
        loop {
            let mut attempt = Request::new(request.clone());
            if let Some(limit) = limit {
                attempt.set_timeout(limit);
            }
            let rpc = rpc(attempt);
            let status = match self.unless_closed(async { Ok(rpc.await) }).await? {
                Ok(response) => return Ok(response.into_inner()),
                Err(status) => status,
            };
            let may_pass = self.may_pass(&status) && !matches!(status.code(), Code::Aborted | Code::DeadlineExceeded);
            match patience.pause(&status).filter(|_| may_pass) {
                Some(pause) => tokio::time::sleep(pause).await,
                None => return Err(status.into()),
            }
        }
    }
}

impl ClientBuilder {
    context_setters!(context);

    /// Shows these credentials, instead of those of [`Credentials::from_env`].
    pub fn credentials(mut self, credentials: Credentials) -> Self {
        self.credentials = Some(credentials);
        self
    }

    /// Sets the deadline of unary RPCs; a minute by default.
    pub fn rpc_timeout(mut self, limit: Duration) -> Self {
        self.rpc_timeout = limit;
        self
    }

    /// Sets for how long an RPC that may be repeated is tried before its first success; 15 seconds by default.
    pub fn retry_timeout(mut self, limit: Duration) -> Self {
        self.limits.first = limit;
        self
    }

    /// Sets for how long a stream that has worked is opened again without success; 2 minutes by default.
    pub fn reconnect_timeout(mut self, limit: Duration) -> Self {
        self.limits.again = limit;
        self
    }

    /// Bounds the number of attempts in a row as well; only time bounds them by default.
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.limits.attempts = attempts;
        self
    }

    /// Sets for how long a gateway is tried again that says that its database is away (`STORE_UNAVAILABLE`), where that is to be shorter
    /// than for other reasons.
    pub fn store_timeout(mut self, limit: Duration) -> Self {
        self.limits.store = Some(limit);
        self
    }

    /// Sets whether an RPC that the service refuses because it is too busy is tried again after the delay that the service
    /// asks for; true by default.
    pub fn wait_when_busy(mut self, waits: bool) -> Self {
        self.limits.waits_when_busy = waits;
        self
    }

    /// Connects, and fails if nothing answers.
    pub async fn connect(self) -> Result<Client, Error> {
        let (endpoint, bearer, address) = self.prepare()?;
        let channel = endpoint.connect().await.map_err(|error| Error::Unreachable {
            address,
            cause: innermost(&error),
        })?;
        Ok(self.client(channel, bearer))
    }

    /// Makes a client that connects with its first RPC. It must be called within a Tokio runtime.
    pub fn connect_lazy(self) -> Result<Client, Error> {
        let (endpoint, bearer, _) = self.prepare()?;
        Ok(self.client(endpoint.connect_lazy(), bearer))
    }

    fn prepare(&self) -> Result<(Endpoint, Bearer, String), Error> {
        let mut address = self.target.clone();
        if address.is_empty() {
            address = std::env::var("TOOLGATE_SERVER").unwrap_or_default();
        }
        if address.is_empty() {
            DEFAULT_TARGET.clone_into(&mut address);
        }
        let target = target::parse(&address)?;
        let credentials = match &self.credentials {
            Some(credentials) => credentials.clone(),
            None => Credentials::from_env()?,
        };
        let mut endpoint = target.endpoint;
        if target.is_encrypted {
            endpoint = credentials.encrypt(endpoint)?;
        }
        let endpoint = endpoint
            .connect_timeout(CONNECT_TIMEOUT)
            .http2_keep_alive_interval(KEEP_ALIVE_INTERVAL)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_frame_size(FRAME)
            .tcp_nodelay(true);
        Ok((endpoint, credentials.bearer()?, address))
    }

    fn client(self, channel: Channel, bearer: Bearer) -> Client {
        Client {
            inner: Arc::new(Inner {
                channel,
                bearer,
                context: self.context,
                limits: self.limits,
                rpc_timeout: self.rpc_timeout,
                life: CancellationToken::new(),
                tasks: TaskTracker::new(),
                live: Mutex::default(),
            }),
        }
    }
}

/// Makes an id that sorts by the time of its making.
pub(crate) fn new_id() -> String {
    uuid::Uuid::now_v7().to_string()
}
