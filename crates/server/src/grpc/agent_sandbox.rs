//! What sandboxes of agent-sandbox serve inside, for its SDKs: commands and files, on the port that serves the contract.
//!
//! Two APIs of theirs are spoken, that of the runtime in Python (`/execute`, `/upload`, `/download/`, `/list/`, `/exists/`) and that
//! of sandboxd (`/v1/files/`, and `process.v1.ProcessService` by gRPC). A command is a call of `bash` or `background`, a change of
//! files one of `files`: judged, asked about, recorded and audited like any other. What is only shown is shown as by FileService.
//!
//! *Invariant:* nothing passes without a caller that has the scope which the contract wants for the same work, and the work is done
//! by what serves the contract. What may have run is never answered in a way that makes an SDK send it again as something new.
//!
//! In reading order: `asked` (what headers say), `commands`, `files`, `upload` (contents that come), `answers` (in HTTP), `process`
//! (gRPC) with `messages`.

mod answers;
mod asked;
mod commands;
mod files;
mod messages;
mod process;
mod upload;

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::{Method, Request, Response};
use toolgate_contract::Scope;
use tower::{Layer as _, Service};

use self::asked::Asked;
use self::process::Processes;
use super::auth::{Authenticator, GateLayer};
use super::door::DoorLayer;
use super::limits::Traffic;
use super::{Shared, status};

const EXECUTE: &str = "/execute";
const UPLOAD: &str = "/upload";
const DOWNLOAD: &str = "/download/";
const LIST: &str = "/list/";
const EXISTS: &str = "/exists/";
const FILES: &str = "/v1/files/";

/// The doors: for HTTP, and for gRPC.
#[derive(Clone)]
pub(super) struct Doors {
    pub(super) http: DoorLayer,
    pub(super) process: DoorLayer,
}

impl Doors {
    /// Makes what is behind them.
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        let gate = (shared.authenticator.clone(), shared.traffic.clone());
        Self::before(gate, Http(shared.clone()), Processes::new(shared.clone()))
    }

    /// Makes doors to another service, which has the same behind it.
    pub(super) fn to<S>(gate: (Arc<Authenticator>, Arc<Traffic>), behind: S) -> Self
    where
        S: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + Clone + Send + Sync + 'static,
        S::Future: Send + 'static,
    {
        Self::before(gate, behind.clone(), behind)
    }

    fn before<H, P>((authenticator, traffic): (Arc<Authenticator>, Arc<Traffic>), http: H, process: P) -> Self
    where
        H: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + Clone + Send + Sync + 'static,
        H::Future: Send + 'static,
        P: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + Clone + Send + Sync + 'static,
        P::Future: Send + 'static,
    {
        let by_http = GateLayer::refusing(authenticator.clone(), traffic.clone(), answers::refusal);
        let by_grpc = GateLayer::new(authenticator, traffic);
        Self {
            http: DoorLayer::new(is_http, by_http.layer(http)),
            process: DoorLayer::new(process::is_for, by_grpc.layer(process)),
        }
    }
}

/// Says whether a path is one of these doors.
pub fn is_for(path: &str) -> bool {
    is_http(path) || process::is_for(path)
}

/// Returns the RPC of the contract that does the same as a request for these doors.
pub fn as_rpc(method: &Method, path: &str) -> &'static str {
    match (scope(method, path), method) {
        (Some(Scope::CallsExecute), _) if path == process::START => "/toolgate.v1.ToolService/ExecuteTool",
        (Some(Scope::CallsExecute), _) => "/toolgate.v1.ToolService/RunTool",
        (Some(Scope::FilesWrite), &Method::DELETE) => "/toolgate.v1.FileService/DeleteFile",
        (Some(Scope::FilesWrite), _) => "/toolgate.v1.FileService/UploadFile",
        _ => "/toolgate.v1.FileService/ReadFile",
    }
}

/// Returns how it is said that a request for these doors has failed, which may have been begun.
pub fn failing<B>(request: &Request<B>) -> impl Fn(Status) -> Response<Body> + Send + Sync + use<B> {
    let is_rpc = process::is_for(request.uri().path());
    let is_new_again = request.method() == Method::POST && !request.headers().contains_key(asked::REQUEST);
    move |status| match is_rpc {
        true => status.into_http(),
        false => answers::failure(&status, is_new_again, !is_new_again),
    }
}

/// Says whether a path is one of the HTTP APIs.
fn is_http(path: &str) -> bool {
    [EXECUTE, UPLOAD].contains(&path)
        || [DOWNLOAD, LIST, EXISTS, FILES]
            .iter()
            .any(|start| path.starts_with(start))
}

/// Returns what a request for these doors needs: the scope of the same work by the contract.
pub(super) fn scope(method: &Method, path: &str) -> Option<Scope> {
    if process::is_for(path) || path == EXECUTE {
        return Some(Scope::CallsExecute);
    }
    let is_shown = [DOWNLOAD, LIST, EXISTS].iter().any(|start| path.starts_with(start));
    let is_read = path.starts_with(FILES) && [Method::GET, Method::HEAD].contains(method);
    match is_http(path) {
        true if is_shown || is_read => Some(Scope::FilesRead),
        true => Some(Scope::FilesWrite),
        false => None,
    }
}

/// Says whether what is asked for is a stream.
pub(super) fn is_stream(path: &str) -> bool {
    path == process::START
}

/// What is behind the gate for HTTP.
#[derive(Clone)]
struct Http(Arc<Shared>);

impl Service<Request<Body>> for Http {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let shared = self.0.clone();
        Box::pin(async move { Ok(serve(&shared, request).await) })
    }
}

async fn serve(shared: &Arc<Shared>, request: Request<Body>) -> Response<Body> {
    let asked = match Asked::read(&request) {
        Ok(asked) => asked,
        Err(status) => return answers::refusal(status),
    };
    let failing = failing(&request);
    let answer = asked.in_time(answer(shared, &asked, request)).await;
    answer.unwrap_or_else(failing)
}

async fn answer(shared: &Arc<Shared>, asked: &Asked, request: Request<Body>) -> Result<Response<Body>, Status> {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let behind = |start: &str| path.strip_prefix(start).map(asked::decoded).transpose();
    match method {
        Method::POST if path == EXECUTE => commands::execute(shared, asked, request.into_body()).await,
        Method::POST if path == UPLOAD => upload::form(shared, asked, request).await,
        Method::GET | Method::HEAD => {
            if let Some(name) = behind(DOWNLOAD)? {
                return files::download(shared, asked, &name).await;
            }
            if let Some(name) = behind(LIST)? {
                return files::list(shared, asked, &name).await;
            }
            if let Some(name) = behind(EXISTS)? {
                return files::exists(shared, asked, &name).await;
            }
            match behind(FILES)? {
                Some(name) if method == Method::HEAD => files::head(shared, asked, &name).await,
                Some(name) => files::show(shared, asked, &name).await,
                None => Err(not_this(&method, &path)),
            }
        }
        Method::PUT => match behind(FILES)? {
            Some(name) => upload::put(shared, asked, &name, request).await,
            None => Err(not_this(&method, &path)),
        },
        Method::DELETE => match behind(FILES)? {
            Some(name) => files::delete(shared, asked, &name, request.uri().query()).await,
            None => Err(not_this(&method, &path)),
        },
        _ => Err(not_this(&method, &path)),
    }
}

fn not_this(method: &Method, path: &str) -> Status {
    status::bad_field("method", format!("{path} does not take {method}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scopes_are_those_of_the_contract() {
        let check = |method: Method, path: &str, expected: Option<Scope>| {
            assert_eq!(scope(&method, path), expected, "{method} {path}");
        };
        check(Method::POST, "/execute", Some(Scope::CallsExecute));
        check(Method::POST, "/upload", Some(Scope::FilesWrite));
        check(Method::GET, "/download/a", Some(Scope::FilesRead));
        check(Method::GET, "/list/.", Some(Scope::FilesRead));
        check(Method::GET, "/exists/a", Some(Scope::FilesRead));
        check(Method::HEAD, "/v1/files/a", Some(Scope::FilesRead));
        check(Method::PUT, "/v1/files/a", Some(Scope::FilesWrite));
        check(Method::DELETE, "/v1/files/a", Some(Scope::FilesWrite));
        check(
            Method::POST,
            "/process.v1.ProcessService/Execute",
            Some(Scope::CallsExecute),
        );
        check(Method::POST, "/execute/x", None);
        check(Method::GET, "/v1/health", None);
        check(Method::POST, "/toolgate.v1.ToolService/RunTool", None);
    }
}
