//! The service on the wire: gRPC, gRPC-Web, health, reflection, MCP, what SDKs of agent-sandbox speak, and the console on one port.
//!
//! *Invariant:* the rim. Core types are converted here and nowhere else; nothing here knows a tool, a program or a file.

mod agent_sandbox;
mod answers;
pub mod arrival;
mod audit_service;
pub mod auth;
mod authority;
pub mod body;
mod closing;
mod coalesce;
pub(crate) mod console;
pub(crate) mod convert;
mod delegate;
mod described;
mod door;
mod events;
mod file_service;
mod first_message;
mod hold;
mod host_service;
mod info_service;
pub mod limits;
#[cfg(feature = "mcp")]
mod mcp;
#[cfg(not(feature = "mcp"))]
#[path = "mcp_absent.rs"]
mod mcp;
#[cfg(feature = "mcp")]
mod mcp_service;
mod measure;
mod origins;
mod output_service;
mod permission_service;
mod port_service;
mod ports;
mod protected_resource;
mod reflection;
mod rpc_call;
mod sandbox_paths;
mod session_service;
mod shared;
pub mod status;
mod takeover;
mod tool_service;
mod values;
mod watches;
mod workspace_service;
mod workspaces;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use tokio::net::{TcpListener, UnixListener};
use tokio_stream::wrappers::UnixListenerStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::body::Body;
use tonic::codegen::http::header::HeaderName;
use tonic::codegen::http::{Method, Request, Response};
use tonic::service::{AxumBody, Routes};
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic_health::ServingStatus;
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_health::server::HealthReporter;
use toolgate_config::Config;
use toolgate_contract::audit_service_server::AuditServiceServer;
use toolgate_contract::file_service_server::FileServiceServer;
use toolgate_contract::host_service_server::HostServiceServer;
use toolgate_contract::info_service_server::InfoServiceServer;
#[cfg(feature = "mcp")]
use toolgate_contract::mcp_service_server::McpServiceServer;
use toolgate_contract::output_service_server::OutputServiceServer;
use toolgate_contract::permission_service_server::PermissionServiceServer;
use toolgate_contract::port_service_server::PortServiceServer;
use toolgate_contract::session_service_server::SessionServiceServer;
use toolgate_contract::tool_service_server::ToolServiceServer;
use toolgate_contract::workspace_service_server::WorkspaceServiceServer;
use toolgate_telemetry::Telemetry;
use tower::util::option_layer;
use tower::{Layer as _, Service, ServiceExt as _};
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer};
use tower_http::validate_request::ValidateRequestHeaderLayer;

use self::arrival::{Tracer, Untraced, traced};
pub use self::audit_service::audit_head;
use self::auth::{Authenticator, GateLayer, Tls};
use self::authority::AnyAuthority;
pub use self::closing::Closing;
use self::coalesce::CoalescingWriter;
use self::console::ConsoleLayer;
use self::door::DoorLayer;
use self::first_message::FirstMessageLayer;
use self::limits::Traffic;
use self::mcp::McpDoor;
use self::measure::MeasureLayer;
use self::origins::OnlyOrigins;
use self::protected_resource::{PointerLayer, ProtectedResource};
pub use self::session_service::EVENTS_BEGIN;
pub use self::shared::{HEARTBEAT, LanguageServerFacts, Languages, SandboxFacts, Shared};
pub use self::watches::Watches;
pub use self::workspaces::{CloseError, CreatedError, OpenError, WantedCreation, WantedWorkspace, Workspaces};

/// What a gateway needs to pass on what does not speak the contract: MCP clients, SDKs of agent-sandbox, and opened ports.
pub mod doors {
    pub use super::agent_sandbox::failing as agent_sandbox_failing;
    pub use super::answers::{plain, refused};
    pub use super::mcp::{PATH as MCP_PATH, SESSION as MCP_SESSION, named};
    pub use super::ports::{OF_ADDRESS, PATH as PORTS_PATH, Upgrade, end_to_end, guarded, parts_of};
    pub use super::sandbox_paths::{as_rpc as agent_sandbox_rpc, is_for as is_agent_sandbox};
}

/// What a gateway needs that keeps track of created workspaces itself.
pub mod created {
    pub use super::convert::{shown_source, wait, workspace_source};
    pub use toolgate_engine::Held;
}

/// Flow-control windows: over a distance one window travels per round trip.
const STREAM_WINDOW_BYTES: u32 = 1024 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 4 * 1024 * 1024;

/// Bytes of the headers of one request.
const MAX_HEADERS_BYTES: u32 = 64 * 1024;

/// A peer that does not answer a ping in this time is gone, and its calls with it.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(30);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);

/// Where a server listens.
pub enum Listener {
    /// TCP, with `TCP_NODELAY`.
    Tcp(TcpIncoming),
    /// TCP, encrypted.
    Tls(TcpListener, Arc<Tls>),
    /// A Unix socket.
    Unix(UnixListener),
}

/// Why a server ended early.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The connections.
    #[error("the gRPC server failed")]
    Transport(#[from] tonic::transport::Error),
    /// The signal that asks to read files again.
    #[error("cannot listen to SIGHUP")]
    Signal(#[from] std::io::Error),
}

/// Everything that is served, and the switch of its health.
#[derive(Clone)]
pub struct Services {
    routes: Routes,
    /// None where SDKs of agent-sandbox are not served.
    agent_sandbox: Option<agent_sandbox::Doors>,
    /// None in a build without it.
    mcp: Option<DoorLayer>,
    /// None where no signed tokens are taken.
    protected_resource: Option<ProtectedResource>,
    ports: DoorLayer,
    /// What is behind the door for MCP clients; none where no calls are run.
    mcp_sessions: Option<McpDoor>,
    /// What goes on beside the streams.
    tunnels: TaskTracker,
    measure: MeasureLayer,
    health: HealthReporter,
    origins: Arc<[String]>,
    console: bool,
    authenticator: Arc<Authenticator>,
    tracer: Arc<dyn Tracer>,
    traffic: Arc<Traffic>,
    /// How long a request may take to bring its first message.
    patience: Duration,
    /// RPCs under way on one connection.
    streams_per_connection: u32,
}

/// Tells health clients whether the store of a gateway is there, under a name of its own: what is served does not change by that.
#[derive(Clone)]
pub struct StoreHealth(HealthReporter);

impl StoreHealth {
    /// What health clients ask for.
    const NAME: &str = "toolgate.store";

    /// Tells it.
    pub(crate) async fn report(&self, is_there: bool) {
        let status = match is_there {
            true => ServingStatus::Serving,
            false => ServingStatus::NotServing,
        };
        self.0.set_service_status(Self::NAME, status).await;
    }
}

impl Services {
    /// Makes the services.
    pub async fn new(shared: Arc<Shared>) -> Self {
        let (health, health_service) = tonic_health::server::health_reporter();
        let mcp = McpDoor::new(shared.clone());
        let services = Self {
            origins: shared.origins.clone(),
            console: shared.console,
            authenticator: shared.authenticator.clone(),
            traffic: shared.traffic.clone(),
            streams_per_connection: shared.traffic.limits().streams_per_connection,
            tracer: Arc::new(Untraced),
            patience: first_message::DEFAULT,
            agent_sandbox: shared.agent_sandbox.then(|| agent_sandbox::Doors::new(&shared)),
            mcp: mcp.layer(),
            protected_resource: ProtectedResource::of(&shared.authenticator),
            mcp_sessions: Some(mcp),
            ports: ports::layer(ports::Ports(shared.clone())),
            tunnels: shared.tunnels.clone(),
            measure: MeasureLayer::new(&shared.telemetry),
            routes: routes(shared, health_service),
            health,
        };
        services.report(ServingStatus::Serving).await;
        services
    }

    /// Makes what has the same doors, and passes requests on to another service: those of the contract and of MCP clients and SDKs each
    /// with its [`auth::OnBehalf`], those for opened ports from whoever knows their secrets.
    pub async fn passing_on<S>(
        config: &Config,
        (authenticator, traffic, tunnels): (Arc<Authenticator>, Arc<Traffic>, TaskTracker),
        telemetry: &Telemetry,
        behind: S,
    ) -> Self
    where
        S: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + Clone + Send + Sync + 'static,
        S::Future: Send + 'static,
    {
        let (health, health_service) = tonic_health::server::health_reporter();
        let gate = GateLayer::refusing(authenticator.clone(), traffic.clone(), answers::refused);
        let mcp = DoorLayer::new(|path| path == mcp::PATH, gate.layer(behind.clone()));
        let ports = ports::layer(behind.clone());
        let agent_sandbox = config.listen.agent_sandbox;
        let agent_sandbox =
            agent_sandbox.then(|| agent_sandbox::Doors::to((authenticator.clone(), traffic.clone()), behind.clone()));
        let contract = behind.map_request(|request: Request<AxumBody>| request.map(Body::new));
        let routes = standard(health_service).into_axum_router().fallback_service(contract);
        let services = Self {
            origins: config.listen.origins.clone().into(),
            console: config.console,
            protected_resource: ProtectedResource::of(&authenticator),
            authenticator,
            streams_per_connection: traffic.limits().streams_per_connection,
            traffic,
            tracer: Arc::new(Untraced),
            patience: first_message::DEFAULT,
            agent_sandbox,
            mcp: Some(mcp),
            mcp_sessions: None,
            ports,
            tunnels,
            measure: MeasureLayer::new(telemetry),
            routes: Routes::from(routes).prepare(),
            health,
        };
        services.report(ServingStatus::Serving).await;
        services
    }

    /// Sets who finds out who is behind a connection. Without, nobody does, as befits a service that starts no program.
    #[must_use]
    pub fn tracing(self, tracer: Arc<dyn Tracer>) -> Self {
        Self { tracer, ..self }
    }

    /// Sets how long a request may take to bring its first message.
    #[must_use]
    pub fn waiting(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// Has a connection carry at least so many RPCs at once.
    #[must_use]
    pub(crate) fn carrying(self, least: u32) -> Self {
        Self {
            streams_per_connection: self.streams_per_connection.max(least),
            ..self
        }
    }

    /// Returns who tells health clients of the store, which is there now.
    pub async fn store_health(&self) -> StoreHealth {
        let health = StoreHealth(self.health.clone());
        health.report(true).await;
        health
    }

    /// Tells every health client that no more calls are taken.
    pub async fn stop_serving(&self) {
        self.report(ServingStatus::NotServing).await;
    }

    async fn report(&self, status: ServingStatus) {
        let names = [
            "",
            <ToolServiceServer<tool_service::Tools> as tonic::server::NamedService>::NAME,
            <PermissionServiceServer<permission_service::Permissions> as tonic::server::NamedService>::NAME,
            <OutputServiceServer<output_service::StoredOutputs> as tonic::server::NamedService>::NAME,
            <SessionServiceServer<session_service::Sessions> as tonic::server::NamedService>::NAME,
            <AuditServiceServer<audit_service::Audits> as tonic::server::NamedService>::NAME,
            <FileServiceServer<file_service::WorkspaceFiles> as tonic::server::NamedService>::NAME,
            <PortServiceServer<port_service::Ports> as tonic::server::NamedService>::NAME,
            #[cfg(feature = "mcp")]
            <McpServiceServer<mcp_service::McpServers> as tonic::server::NamedService>::NAME,
            <HostServiceServer<host_service::HostedTools> as tonic::server::NamedService>::NAME,
            <InfoServiceServer<info_service::Info> as tonic::server::NamedService>::NAME,
            <WorkspaceServiceServer<workspace_service::OpenWorkspaces> as tonic::server::NamedService>::NAME,
        ];
        for name in names {
            self.health.set_service_status(name, status).await;
        }
    }

    /// Serves until `shutdown`, then finishes the streams that are open.
    ///
    /// # Errors
    /// The listener failed.
    pub async fn serve(self, listener: Listener, shutdown: CancellationToken) -> Result<(), ServeError> {
        let only_origins = ValidateRequestHeaderLayer::custom(OnlyOrigins(self.origins.clone()));
        let (tracer, open) = (self.tracer, !self.authenticator.is_configured());
        let agent_sandbox = self.agent_sandbox.map(|doors| doors.waiting(self.patience));
        let agent_sandbox = agent_sandbox.map(|doors| (doors.http, doors.process)).unzip();
        let described = self.protected_resource.filter(|_| self.mcp.is_some());
        let (protected_resource, mcp) = match (described, self.mcp) {
            (Some(resource), Some(door)) => (Some(resource.door()), Some(door.through(PointerLayer))),
            (_, door) => (None, door),
        };
        let router = server(self.streams_per_connection)
            // Before the check of origins: the pages of a port have none, and are kept from all that is behind it.
            .layer(self.ports)
            .layer(only_origins)
            .layer(cors(&self.origins))
            // Before the console, which answers whatever is read without being gRPC.
            .layer(option_layer(agent_sandbox.0))
            .layer(option_layer(agent_sandbox.1))
            .layer(option_layer(protected_resource))
            // Before gRPC-Web, which takes whatever comes over HTTP/1.1 for its own.
            .layer(ConsoleLayer::new(self.console))
            .layer(option_layer(mcp))
            .layer(tonic_web::GrpcWebLayer::new())
            .layer(self.measure)
            .layer(GateLayer::new(self.authenticator, self.traffic))
            .layer(FirstMessageLayer(self.patience))
            .add_routes(self.routes);
        let signal = shutdown.cancelled_owned();
        match listener {
            Listener::Tcp(incoming) => {
                let incoming = traced(incoming, tracer, open).map_ok(CoalescingWriter::new);
                router.serve_with_incoming_shutdown(incoming, signal).await?;
            }
            Listener::Tls(listener, tls) => {
                let incoming = Box::pin(auth::incoming(listener, tls));
                let incoming = traced(incoming, tracer, open).map_ok(CoalescingWriter::new);
                router.serve_with_incoming_shutdown(incoming, signal).await?;
            }
            Listener::Unix(listener) => {
                let incoming = UnixListenerStream::new(listener);
                let incoming = traced(incoming, tracer, open)
                    .map_ok(AnyAuthority::new)
                    .map_ok(CoalescingWriter::new);
                router.serve_with_incoming_shutdown(incoming, signal).await?;
            }
        }
        if let Some(mcp) = self.mcp_sessions {
            mcp.finish().await;
        }
        self.tunnels.close();
        self.tunnels.wait().await;
        Ok(())
    }
}

fn server(streams_per_connection: u32) -> Server {
    Server::builder()
        .max_concurrent_streams(streams_per_connection)
        .accept_http1(true)
        // A gateway names all workspaces that its caller may see.
        .http2_max_header_list_size(MAX_HEADERS_BYTES)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
        .tcp_keepalive(Some(Duration::from_secs(60)))
}

/// Answers the preflight requests of web pages from the configured origins.
fn cors(origins: &[String]) -> CorsLayer {
    let grpc = ["grpc-status", "grpc-message", "grpc-status-details-bin"].map(HeaderName::from_static);
    let allowed = origins.iter().filter_map(|origin| origin.parse().ok());
    CorsLayer::new()
        .allow_origin(AllowOrigin::list(allowed))
        // gRPC-Web only posts; MCP listens with GET and ends its session with DELETE.
        .allow_methods([Method::POST, Method::GET, Method::DELETE])
        // Listed by name, since the star does not stand for `authorization`.
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers(grpc.into_iter().chain([mcp::SESSION]).collect::<Vec<_>>())
}

/// Makes the routes of what every gRPC service has.
fn standard(health: HealthServer<impl Health>) -> Routes {
    reflection::add(Routes::default().add_service(health))
}

/// Makes the routes of what is answered from a store alone.
pub(crate) fn stored_routes(shared: Arc<Shared>) -> Routes {
    let limit = shared.max_message_bytes;
    Routes::default()
        .add_service(ToolServiceServer::new(tool_service::Tools(shared.clone())).max_decoding_message_size(limit))
        .add_service(PermissionServiceServer::new(permission_service::Permissions(
            shared.clone(),
        )))
        .add_service(OutputServiceServer::new(output_service::StoredOutputs(shared.clone())))
        .add_service(SessionServiceServer::new(session_service::Sessions(shared.clone())))
        .add_service(AuditServiceServer::new(audit_service::Audits(shared.clone())))
        .add_service(InfoServiceServer::new(info_service::Info(shared)))
        .prepare()
}

fn routes(shared: Arc<Shared>, health: HealthServer<impl Health>) -> Routes {
    let limit = shared.max_message_bytes;
    let routes = standard(health)
        .add_service(ToolServiceServer::new(tool_service::Tools(shared.clone())).max_decoding_message_size(limit))
        .add_service(HostServiceServer::new(host_service::HostedTools(shared.clone())).max_decoding_message_size(limit))
        .add_service(PermissionServiceServer::new(permission_service::Permissions(
            shared.clone(),
        )))
        .add_service(
            FileServiceServer::new(file_service::WorkspaceFiles(shared.clone())).max_decoding_message_size(limit),
        )
        .add_service(PortServiceServer::new(port_service::Ports(shared.clone())))
        .add_service(OutputServiceServer::new(output_service::StoredOutputs(shared.clone())))
        .add_service(SessionServiceServer::new(session_service::Sessions(shared.clone())))
        .add_service(AuditServiceServer::new(audit_service::Audits(shared.clone())))
        .add_service(WorkspaceServiceServer::new(workspace_service::OpenWorkspaces(
            shared.clone(),
        )))
        .add_service(InfoServiceServer::new(info_service::Info(shared.clone())));
    #[cfg(feature = "mcp")]
    let routes = routes.add_service(McpServiceServer::new(mcp_service::McpServers(shared)));
    routes.prepare()
}
