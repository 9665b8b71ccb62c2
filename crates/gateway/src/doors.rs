//! What does not speak the contract: MCP clients, SDKs of agent-sandbox and opened ports, passed on as HTTP.
//!
//! None is looked up. The session of an MCP client says at the gateway which workspace it began in, and the path of an opened port
//! which worker has it: `ID~WORKSPACE` and `/ports/SECRET~WORKER/`. So every gateway finds both, also one that has just started.
//!
//! *Invariant:* such a name only says whom to ask. Whether the session is the caller's, and whether the secret opens a port, the worker
//! says. A secret is sent to its worker only, and is in no log.

use std::future::{Future, Ready};
use std::hash::BuildHasher as _;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use http_body_util::{BodyExt as _, Full, Limited};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::header::{CONTENT_TYPE, LOCATION, ORIGIN, REFERER};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, Version};
use toolgate_contract::OpenPortResponse;
use toolgate_server::grpc::auth::OnBehalf;
use toolgate_server::grpc::doors::{
    MCP_PATH, MCP_SESSION, OF_ADDRESS, PORTS_PATH, Upgrade, agent_sandbox_failing, agent_sandbox_rpc, end_to_end,
    guarded, named, parts_of, plain, refused,
};
use toolgate_server::grpc::status;

use crate::parts::Parts;
use crate::tenants::Counted;
use crate::wire::{Messages, Passed, decode, framed};

/// The RPC whose answer names a port.
pub(crate) const OPEN_PORT: &str = "/toolgate.v1.PortService/OpenPort";

/// Names the workspace of a request that does not speak the contract.
const WORKSPACE: HeaderName = HeaderName::from_static("toolgate-workspace");

/// Says how the page that has a request made is related to where it goes.
const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// What is between the name that a worker gave and where it is.
const SEPARATOR: char = '~';

/// Which part of all streams may wait for the ports of one worker to answer: one in so many. A worker that hangs costs no more.
const WAITING_PART: usize = 4;

/// Answers an MCP client.
pub(crate) async fn mcp(parts: &Parts, request: Request<Body>) -> Response<Body> {
    let arrived = Instant::now();
    passed_to_mcp(parts, request, arrived).await.unwrap_or_else(refused)
}

async fn passed_to_mcp(parts: &Parts, mut request: Request<Body>, arrived: Instant) -> Result<Response<Body>, Status> {
    let caller = OnBehalf::of(request.extensions())?;
    let query = request.uri().query().unwrap_or_default();
    let by_request = named("workspace", query, request.headers());
    let by_request = by_request.map_err(|problem| status::bad_field("workspace", problem))?;
    let session = request.headers().get(&MCP_SESSION).and_then(|id| id.to_str().ok());
    let session = session.and_then(|session| session.rsplit_once(SEPARATOR));
    let session = session.map(|(id, workspace)| (id.to_owned(), workspace.to_owned()));
    let wanted = match &session {
        Some((_, workspace)) if by_request.is_empty() => workspace.clone(),
        Some(_) | None => by_request.clone(),
    };
    let path = match *request.method() {
        Method::POST => MCP_PATH,
        // Who only listens wakes nobody.
        _ => "",
    };
    let (worker, workspace) = parts.place(&caller, &wanted, path).await?;
    if by_request.is_empty() {
        // Which one an empty name means is told differently by each worker. Its characters may stand in a query.
        let path = request.uri().path();
        let whole = match query {
            "" => format!("{path}?workspace={workspace}"),
            query => format!("{path}?workspace={workspace}&{query}"),
        };
        let whole: PathAndQuery = whole
            .parse()
            .map_err(|_| status::bad_field("workspace", "its name cannot stand in an address"))?;
        *request.uri_mut() = whole.into();
    }
    if let Some((id, _)) = session {
        let id = HeaderValue::try_from(id).map_err(|error| Status::internal(error.to_string()))?;
        request.headers_mut().insert(MCP_SESSION, id);
    }
    let counted = match *request.method() {
        Method::POST => parts.tenants.run_mcp(&workspace)?,
        _ => Counted::default(),
    };
    // A client that only listens comes again, here or to another gateway.
    let ends_with_gateway = *request.method() == Method::GET;
    *request.headers_mut() = end_to_end(request.headers());
    *request.version_mut() = Version::HTTP_2;
    let routing = arrived.elapsed();
    let sent = worker.send(request, Some(&caller.entry()), None).await;
    parts.metrics.gateway_passed("mcp", outcome(&sent), routing);
    let (mut response, open) = sent?;
    worker.keep_to_itself(response.headers_mut());
    let given = response.headers().get(&MCP_SESSION).and_then(|id| id.to_str().ok());
    let given = given.and_then(|id| HeaderValue::try_from(format!("{id}{SEPARATOR}{workspace}")).ok());
    if let Some(given) = given {
        response.headers_mut().insert(MCP_SESSION, given);
    }
    let closing = ends_with_gateway.then(|| parts.closing.at_once().clone().cancelled_owned());
    Ok(carried(response, closing, (open, counted)))
}

/// Answers an SDK of agent-sandbox. Its sandbox is the workspace that a header names.
pub(crate) async fn agent_sandbox(parts: &Parts, request: Request<Body>) -> Response<Body> {
    let arrived = Instant::now();
    let failing = agent_sandbox_failing(&request);
    let answer = passed_to_sandbox(parts, request, arrived).await;
    answer.unwrap_or_else(failing)
}

async fn passed_to_sandbox(
    parts: &Parts,
    mut request: Request<Body>,
    arrived: Instant,
) -> Result<Response<Body>, Status> {
    let caller = OnBehalf::of(request.extensions())?;
    let wanted = named(
        "workspace",
        request.uri().query().unwrap_or_default(),
        request.headers(),
    );
    let wanted = wanted.map_err(|problem| status::bad_field("workspace", problem))?;
    let rpc = agent_sandbox_rpc(request.method(), request.uri().path());
    let (worker, workspace) = parts.place(&caller, &wanted, rpc).await?;
    let counted = parts.tenants.run(rpc, &workspace)?;
    *request.headers_mut() = end_to_end(request.headers());
    // It was heeded here, with the origin, which is not handed on.
    request.headers_mut().remove(SITE);
    // Which one an empty name means is told differently by each worker.
    let workspace = HeaderValue::try_from(workspace).map_err(|error| Status::internal(error.to_string()))?;
    request.headers_mut().insert(WORKSPACE, workspace);
    *request.uri_mut() = unnamed(request.uri())?.into();
    *request.version_mut() = Version::HTTP_2;
    let routing = arrived.elapsed();
    let sent = worker.send(request, Some(&caller.entry()), None).await;
    parts.metrics.gateway_passed("agent_sandbox", outcome(&sent), routing);
    let (mut response, open) = sent?;
    worker.keep_to_itself(response.headers_mut());
    let kind = response.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    Ok(match kind {
        // It has a status behind what it says, also when the worker goes away.
        Some(kind) if kind.starts_with(b"application/grpc") => Passed::on(response, &worker.name, (open, counted)),
        Some(_) | None => carried(response, None::<Ready<()>>, (open, counted)),
    })
}

/// Returns where a request goes, without the name of a workspace.
fn unnamed(uri: &Uri) -> Result<PathAndQuery, Status> {
    let query = uri.query().unwrap_or_default().split('&');
    let is_other = |pair: &&str| !pair.is_empty() && pair.split('=').next() != Some("workspace");
    let others: Vec<&str> = query.filter(is_other).collect();
    let whole = match others[..] {
        [] => uri.path().to_owned(),
        _ => format!("{}?{}", uri.path(), others.join("&")),
    };
    whole
        .parse()
        .map_err(|_| status::bad_field("query", "it cannot stand in an address"))
}

/// Answers what is asked of an opened port.
pub(crate) async fn ports(parts: &Parts, request: Request<Body>) -> Response<Body> {
    let arrived = Instant::now();
    let Some((secret, port, path)) = place_of(&request) else {
        return not_there();
    };
    let Some(worker) = parts.registry.named_in_path(&port) else {
        return not_there();
    };
    // Whose port it is the worker knows, and counts for that one. Here each port counts by itself.
    let principal = format!("port:{:016x}", parts.hasher.hash_one(&secret));
    // Only the worker knows whether the secret is valid. Until it answers, all who ask share what may wait for this worker.
    let most = (parts.traffic.limits().streams / WAITING_PART).max(1);
    let waiting = worker
        .wait_for_port(most)
        .inspect_err(|_| parts.metrics.refused("limits.max_streams"));
    let admitted = waiting.and_then(|waiting| Ok((waiting, parts.traffic.admit((&principal, false), &request)?)));
    let (waiting, counted) = match admitted {
        Ok(admitted) => admitted,
        Err(status) => return guarded(refused(status)),
    };
    let mut request = request;
    let upgrade = Upgrade::of(&request);
    let origin = request.headers().get(ORIGIN).cloned();
    *request.headers_mut() = end_to_end(request.headers());
    // They name the page, and so the secret.
    request.headers_mut().remove(REFERER);
    let carries = upgrade.and_then(|upgrade| upgrade.carry(&mut request));
    *request.version_mut() = Version::HTTP_2;
    *request.uri_mut() = path.into();
    let routing = arrived.elapsed();
    let sent = worker.send(request, None, origin).await;
    drop(waiting);
    parts.metrics.gateway_passed("ports", outcome(&sent), routing);
    let (mut response, open) = match sent {
        Ok(answered) => answered,
        Err(status) => return guarded(refused(status)),
    };
    let location = response.headers().get(LOCATION).and_then(|place| place.to_str().ok());
    let below = location.and_then(|place| place.strip_prefix(&format!("{PORTS_PATH}{secret}")));
    let place = below.map(|below| format!("{PORTS_PATH}{secret}{SEPARATOR}{port}{below}"));
    if let Some(place) = place.and_then(|place| HeaderValue::try_from(place).ok()) {
        response.headers_mut().insert(LOCATION, place);
    }
    // The worker has done so, too, unless somebody else has taken its place.
    for name in OF_ADDRESS {
        response.headers_mut().remove(name);
    }
    let (response, both) = match carries {
        Some(carries) => carries.join(response),
        None => (response, None),
    };
    let Some(both) = both else {
        return guarded(carried(response, None::<std::future::Pending<()>>, (open, counted)));
    };
    let closing = parts.closing.at_once().clone();
    parts.tunnels.spawn(async move {
        closing.run_until_cancelled(both).await;
        drop((open, counted));
    });
    response
}

/// Says what came of a request, as it is counted.
pub(crate) fn outcome<T>(sent: &Result<T, Status>) -> &'static str {
    if sent.is_ok() { "passed" } else { "worker_gone" }
}

/// Returns the secret of a request for a port, its worker, and the path at that one.
fn place_of(request: &Request<Body>) -> Option<(String, String, PathAndQuery)> {
    let (named, path) = parts_of(request.uri())?;
    let (secret, worker) = named.split_once(SEPARATOR)?;
    let behind = path.as_ref().map_or("", PathAndQuery::as_str);
    let path = format!("{PORTS_PATH}{secret}{behind}").parse().ok()?;
    Some((secret.to_owned(), worker.to_owned(), path))
}

fn not_there() -> Response<Body> {
    guarded(plain(StatusCode::NOT_FOUND, "there is no such port, or it is closed\n"))
}

/// Names the worker in the path of a port that was opened there.
pub(crate) async fn opened(answer: Response<Body>, worker: &str, limit: usize) -> Result<Response<Body>, Status> {
    if answer.headers().contains_key("grpc-status") {
        return Ok(answer);
    }
    let (head, body) = answer.into_parts();
    let read = Limited::new(body, limit).collect().await;
    let read = read.map_err(|error| Status::internal(format!("the answer of a worker cannot be read: {error}")))?;
    let trailers = read.trailers().cloned();
    let mut messages = Messages::new(Body::new(Full::new(read.to_bytes())), limit);
    let message = match messages.next().await? {
        None => Bytes::new(),
        Some(message) => {
            let mut opened: OpenPortResponse = decode(&message)?;
            let path = opened.http_path.trim_end_matches('/');
            opened.http_path = format!("{path}{SEPARATOR}{worker}/");
            framed(&opened)
        }
    };
    let body = Full::new(message).with_trailers(async move { trailers.map(Ok) });
    Ok(Response::from_parts(head, Body::new(body)))
}

/// Hands an answer on as it comes. It ends early with `ends`.
fn carried<K: Send + Unpin + 'static>(
    response: Response<Body>,
    ends: Option<impl Future<Output = ()> + Send + 'static>,
    kept: K,
) -> Response<Body> {
    response.map(|body| {
        Body::new(Carried {
            body,
            ends: ends.map(|ends| Box::pin(ends) as Pin<Box<dyn Future<Output = ()> + Send>>),
            _kept: kept,
        })
    })
}

/// The body of an answer, which keeps something until it is over. A connection that breaks breaks it off, so that nobody takes a
/// part for the whole.
struct Carried<K> {
    body: Body,
    ends: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    _kept: K,
}

impl<K: Send + Unpin> http_body::Body for Carried<K> {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let is_over = |ends: &mut Pin<Box<dyn Future<Output = ()> + Send>>| ends.as_mut().poll(context).is_ready();
        if self.ends.as_mut().is_some_and(is_over) {
            (self.body, self.ends) = (Body::empty(), None);
        }
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_says_which_worker_has_the_port() {
        let check = |uri: &str, expected: Option<[&str; 3]>| {
            let request = Request::get(uri).body(Body::empty()).unwrap();
            let found = place_of(&request);
            let found = found
                .as_ref()
                .map(|(secret, worker, path)| [secret.as_str(), worker.as_str(), path.as_str()]);
            assert_eq!(found, expected, "{uri}");
        };
        check("/ports/ab~w/", Some(["ab", "w", "/ports/ab/"]));
        check("/ports/ab~w/x~y?z=~q", Some(["ab", "w", "/ports/ab/x~y?z=~q"]));
        check("/ports/ab~w", Some(["ab", "w", "/ports/ab"]));
        check("/ports/ab/x~w", None);
        check("/ports/", None);
    }

    #[test]
    fn a_workspace_is_named_once() {
        let check = |uri: &'static str, expected: &str| {
            assert_eq!(unnamed(&Uri::from_static(uri)).unwrap(), expected, "{uri}");
        };
        check("/execute", "/execute");
        check("/execute?workspace=", "/execute");
        check("/execute?workspace=a&agent=b&workspace=c", "/execute?agent=b");
        check(
            "/v1/files/a%2Fb?mode=0644&workspaces=x",
            "/v1/files/a%2Fb?mode=0644&workspaces=x",
        );
    }

    #[tokio::test]
    async fn the_answer_names_the_worker_and_keeps_its_status() {
        let opened_at = OpenPortResponse {
            call_id: "c".to_owned(),
            http_path: "/ports/ab/".to_owned(),
        };
        let answer = opened(crate::wire::unary(&opened_at), "w", 1000).await.unwrap();
        let read = answer.into_body().collect().await.unwrap();
        assert_eq!(read.trailers().unwrap()["grpc-status"], "0");
        let message: OpenPortResponse = decode(&read.to_bytes()[5..]).unwrap();
        assert_eq!(message.http_path, "/ports/ab~w/");
    }
}
