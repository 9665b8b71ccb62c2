//! The same work by servers of MCP: a read of 2 KB over standard streams and over HTTP.
//!
//! *Invariant:* each peer is a process of its own with one client, which waits for a result before it asks again. Those of `rmcp` do
//! nothing but read the file; the official one for files is that of the registry of npm, as `tests/setup/tools.sh` installs it.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use axum::Router;
use axum::serve::ListenerExt as _;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, JsonObject, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RunningService};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpClientTransport, StreamableHttpServerConfig, StreamableHttpService, stdio_pipes};
use rmcp::{ClientHandler, ErrorData, RoleClient, RoleServer, ServerHandler, ServiceExt as _};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};

use crate::Plan;
use crate::calls::{FILES, SESSION, write_files};
use crate::cost::Meter;
use crate::measure::{in_turns, turns};
use crate::service::{Service, Serving, Token, execute, folder, request};
use crate::table::Row;

/// How a peer is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Way {
    Stdio,
    Http,
}

/// The server of the registry of npm.
const FILE_SYSTEM: &str = "tools/npm/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js";

/// A server that can read the files of its folder.
struct Reader;

impl ServerHandler for Reader {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("reader", "1"))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let mut schema = JsonObject::new();
        schema.insert("type".to_owned(), json!("object"));
        schema.insert("properties".to_owned(), json!({"path": {"type": "string"}}));
        Ok(ListToolsResult::with_all_items(vec![Tool::new(
            "read",
            "Reads a file",
            Arc::new(schema),
        )]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        let path = arguments.get("path").and_then(Value::as_str).unwrap_or_default();
        let text = std::fs::read_to_string(path).map_err(|error| ErrorData::invalid_params(error.to_string(), None))?;
        Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into())
    }
}

/// Serves the current folder until nobody is there any more, or until it is killed.
pub(crate) async fn serve(way: Way) -> Result<()> {
    match way {
        Way::Stdio => {
            Reader.serve(stdio_pipes()).await?.waiting().await?;
        }
        Way::Http => {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            println!("http://{}/mcp", listener.local_addr()?);
            let manager = Arc::new(LocalSessionManager::default());
            let service = StreamableHttpService::new(|| Ok(Reader), manager, StreamableHttpServerConfig::default());
            // Else an answer waits for the acknowledgement of its beginning, which would be all that is measured.
            let listener = listener.tap_io(|stream| {
                let _ = stream.set_nodelay(true);
            });
            axum::serve(listener, Router::new().nest_service("/mcp", service)).await?;
        }
    }
    Ok(())
}

/// A client that asks for nothing but results.
struct Asker;

impl ClientHandler for Asker {}

type Client = RunningService<RoleClient, Asker>;

/// Asks for a file, and returns how long that took.
async fn ask(client: &Client, tool: &'static str, argument: &str, path: &Path) -> Result<Duration> {
    let mut arguments = JsonObject::new();
    arguments.insert(argument.to_owned(), json!(path));
    let params = CallToolRequestParams::new(tool).with_arguments(arguments);
    let begin = Instant::now();
    let result = client.call_tool(params).await?;
    let time = begin.elapsed();
    let text = result.content.first().and_then(|content| content.as_text());
    let text = &text.context("a result without a text")?.text;
    ensure!(text.contains("xxxxxxxx"), "the result is {text}");
    Ok(time)
}

async fn over_http(address: &str) -> Result<Client> {
    // An error says that there is one already.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let http = reqwest::Client::builder().no_proxy().build()?;
    let config = StreamableHttpClientTransportConfig::with_uri(address.to_owned());
    let transport = StreamableHttpClientTransport::with_client(http, config);
    Asker.serve(transport).await.context("connecting to an MCP server")
}

/// Starts a program that speaks on its standard streams.
async fn over_streams(mut command: Command) -> Result<(Child, Client)> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .context("starting an MCP server")?;
    let streams = child.stdout.take().zip(child.stdin.take());
    let client = Asker.serve(streams.context("a program without streams")?);
    let client = client.await.context("connecting to an MCP server")?;
    Ok((child, client))
}

fn own(way: &str, folder: &Path) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--mcp-server", way]).current_dir(folder);
    Ok(command)
}

/// A call of Toolgate beside the same work by one peer.
struct Comparison<'a> {
    service: &'a Service,
    /// The peer's process.
    peer: u32,
    rounds: usize,
    what: &'a str,
    floor: &'a str,
}

impl Comparison<'_> {
    async fn row(
        self,
        ours: impl AsyncFnMut(usize) -> Result<Duration>,
        theirs: impl AsyncFnMut(usize) -> Result<Duration>,
    ) -> Result<Row> {
        let meters = (Meter::start(self.service.pid()?, None)?, Meter::start(self.peer, None)?);
        let (ours, floor) = in_turns(self.rounds, ours, theirs).await?;
        let calls = turns(self.rounds);
        let row = Row::ratio(self.what, &ours, (self.floor, &floor), None);
        Ok(row.costing(meters.0.each_of(calls)?, Some(meters.1.each_of(calls)?)))
    }
}

/// Measures beside the servers of `rmcp`.
pub(crate) async fn peers(plan: Plan) -> Result<Vec<Row>> {
    let workspace = folder()?;
    write_files(workspace.path())?;
    let path = |round: usize| workspace.path().join(FILES[round % 2]);
    let service = Service::start(workspace.path()).await?;
    let mut client = service.tools().await?;
    let mut grpc = async |round: usize| {
        let read = request(SESSION, "read", json!({"filePath": path(round)}));
        execute(&mut client, read).await.map(|(time, ..)| time)
    };
    let rounds = plan.samples(2000, 200);
    let compare = |peer: Option<u32>, what: &'static str, floor: &'static str| {
        anyhow::Ok(Comparison {
            service: &service,
            peer: peer.context("the peer has ended")?,
            rounds,
            what,
            floor,
        })
    };
    let (child, streams) = over_streams(own("stdio", workspace.path())?).await?;
    let what = "read of 2 KB over gRPC, beside an MCP server over stdio";
    let by_streams = compare(child.id(), what, "rmcp, stdio")?
        .row(&mut grpc, async |round| {
            ask(&streams, "read", "path", &path(round)).await
        })
        .await?;
    streams.cancel().await?;

    let server = Serving::start(own("http", workspace.path())?, Token::default(), |line| {
        Some(line.trim().to_owned()).filter(|line| line.starts_with("http://"))
    })
    .await?;
    let http = over_http(server.address()).await?;
    let own_http = over_http(&format!("{}/mcp", service.serving().address())).await?;
    let theirs = async |round| ask(&http, "read", "path", &path(round)).await;
    let what = "read of 2 KB over gRPC, beside an MCP server over HTTP";
    let by_http = compare(server.pid().ok(), what, "rmcp, HTTP")?
        .row(&mut grpc, theirs)
        .await?;
    let what = "read of 2 KB over MCP, beside an MCP server over HTTP";
    let both_mcp = compare(server.pid().ok(), what, "rmcp, HTTP")?
        .row(
            async |round| ask(&own_http, "read", "filePath", &path(round)).await,
            theirs,
        )
        .await?;
    http.cancel().await?;
    own_http.cancel().await?;
    service.stop().await?;
    Ok(vec![by_streams, by_http, both_mcp])
}

/// Measures beside the official server for files, which is written in TypeScript.
pub(crate) async fn file_system(plan: Plan) -> Result<Vec<Row>> {
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("..");
    let script = target.join(FILE_SYSTEM);
    ensure!(
        script.exists(),
        "target/{FILE_SYSTEM} is missing: run tests/setup/tools.sh"
    );
    let workspace = folder()?;
    write_files(workspace.path())?;
    let root = workspace.path().canonicalize()?;
    let service = Service::start(&root).await?;
    let mut client = service.tools().await?;
    let mut command = Command::new("node");
    command.arg(script).arg(&root).current_dir(&root);
    let (child, streams) = over_streams(command).await?;
    let comparison = Comparison {
        service: &service,
        peer: child.id().context("the peer has ended")?,
        rounds: plan.samples(2000, 200),
        what: "read of 2 KB over gRPC, beside the official MCP server for files",
        floor: "server-filesystem, stdio",
    };
    let row = comparison
        .row(
            async |round| {
                let read = request(SESSION, "read", json!({"filePath": root.join(FILES[round % 2])}));
                execute(&mut client, read).await.map(|(time, ..)| time)
            },
            async |round| ask(&streams, "read_text_file", "path", &root.join(FILES[round % 2])).await,
        )
        .await?;
    streams.cancel().await?;
    service.stop().await?;
    Ok(vec![row])
}
