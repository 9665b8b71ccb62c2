//! What sandboxes of agent-sandbox serve inside, for its SDKs: commands and files, on the port that serves the contract.
//!
//! Two APIs of theirs are spoken, that of the runtime in Python (`/execute`, `/upload`, `/download/`, `/list/`, `/exists/`) and that
//! of sandboxd (`/v1/files/`, and `process.v1.ProcessService` by gRPC). A command is a call of `bash` or `background`, a change of
//! files one of `files`: judged, asked about, recorded and audited like any other. What is only shown is shown as by FileService.
//!
//! *Invariant:* nothing passes without a caller that has the scope which the contract wants for the same work, and the work is done
//! by what serves the contract. What may have run is never answered in a way that makes an SDK send it again as something new.
//!
//! In reading order: `pages` (of browsers, which are kept out), `asked` (what headers say), `commands`, `files`, `upload` (contents that
//! come) with `form`, `answers` (in HTTP), `process` (gRPC) with `messages`.

mod answers;
mod asked;
mod commands;
mod files;
mod form;
mod messages;
mod pages;
mod process;
mod upload;

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::{Method, Request, Response};
use tower::util::MapRequestLayer;
use tower::{Layer as _, Service, ServiceExt as _};
use tower_http::validate_request::ValidateRequestHeaderLayer;

use self::asked::Asked;
use self::pages::NoStrangePages;
use self::process::Processes;
use super::auth::{Authenticator, GateLayer};
use super::door::DoorLayer;
use super::first_message::{self, FirstMessageLayer};
use super::limits::Traffic;
use super::sandbox_paths::{DOWNLOAD, EXECUTE, EXISTS, FILES, LIST, UPLOAD, is_http, is_process, scope};
use super::shared::Shared;
use super::status;

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

    /// Bounds how long a request may take to bring what is read as a whole.
    pub(super) fn waiting(self, patience: Duration) -> Self {
        let told = move |mut request: Request<Body>| {
            request.extensions_mut().insert(Patience(patience));
            request
        };
        Self {
            http: self.http.through(MapRequestLayer::new(told)),
            process: self.process.through(FirstMessageLayer(patience)),
        }
    }

    fn before<H, P>((authenticator, traffic): (Arc<Authenticator>, Arc<Traffic>), http: H, process: P) -> Self
    where
        H: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + Clone + Send + Sync + 'static,
        H::Future: Send + 'static,
        P: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + Clone + Send + Sync + 'static,
        P::Future: Send + 'static,
    {
        let by_http = GateLayer::refusing(authenticator.clone(), traffic.clone(), answers::refusal).needing(scope);
        let by_grpc = GateLayer::new(authenticator, traffic).needing(scope);
        let http = ValidateRequestHeaderLayer::custom(NoStrangePages).layer(by_http.layer(http));
        Self {
            http: DoorLayer::new(is_http, http.map_response(pages::kept)),
            process: DoorLayer::new(is_process, by_grpc.layer(process)),
        }
    }
}

/// Returns how it is said that a request for these doors has failed, which may have been begun.
pub fn failing<B>(request: &Request<B>) -> impl Fn(Status) -> Response<Body> + Send + Sync + use<B> {
    let is_rpc = is_process(request.uri().path());
    let is_new_again = request.method() == Method::POST && !request.headers().contains_key(asked::REQUEST);
    move |status| match is_rpc {
        true => status.into_http(),
        false => answers::failure(&status, is_new_again, !is_new_again),
    }
}

/// How long a request by HTTP may take to bring what is read as a whole.
#[derive(Clone, Copy)]
struct Patience(Duration);

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
        Method::POST if path == EXECUTE => {
            let patience = request.extensions().get().map(|Patience(patience)| *patience);
            let patience = patience.unwrap_or(first_message::DEFAULT);
            commands::execute(shared, asked, request.into_body(), patience).await
        }
        Method::POST if path == UPLOAD => upload::of_form(shared, asked, request).await,
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
