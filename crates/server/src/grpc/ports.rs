//! `/ports/SECRET/`: opened ports, as browsers reach them.
//!
//! A request is sent on to the program, on a connection of its own, and its answer comes back, both as they come. WebSockets are
//! connections that the program and the client have for themselves from the 101 on.
//!
//! *Invariant:* a page of a program is of an origin of its own: it neither sees nor sets anything of the service and the console,
//! which have the same address. What only the service and the client should know, the program is not told: the secret above all.

mod tunnel;

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http_body_util::BodyExt as _;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tonic::body::Body;
use tonic::codegen::http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, ALT_SVC, AUTHORIZATION, CONNECTION, CONTENT_SECURITY_POLICY, COOKIE, EXPECT, HOST,
    LOCATION, ORIGIN, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, REFERER, REFERRER_POLICY, RETRY_AFTER, SET_COOKIE,
    STRICT_TRANSPORT_SECURITY, TE, TRAILER, TRANSFER_ENCODING, UPGRADE, WWW_AUTHENTICATE,
};
use tonic::codegen::http::uri::{Authority, PathAndQuery};
use tonic::codegen::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, Version};
use toolgate_tools::ports::{ConnectError, Connection, OpenPort};
use tower::Service;

pub use self::tunnel::Upgrade;
use super::Shared;
use super::answers::{plain, refused};
use super::arrival::{Arrival, Behind};
use super::door::DoorLayer;
pub use super::limits::PORTS_PATH as PATH;
use super::limits::Stream;

/// What a page of a program may do, beside what the program itself allows: all that needs no origin.
const POLICY: HeaderValue =
    HeaderValue::from_static("sandbox allow-scripts allow-forms allow-popups allow-modals allow-downloads");

const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// What is about one connection only, and so is not sent on.
const HOP_BY_HOP: [HeaderName; 9] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// What a client says to the service, or of it, and not to the program. The server has answered an `Expect` already.
const FOR_SERVICE: [HeaderName; 6] = [HOST, AUTHORIZATION, COOKIE, REFERER, EXPECT, tunnel::TUNNEL];

/// What a program may not say, because browsers take it for all pages of the address, or keep it.
pub const OF_ADDRESS: [HeaderName; 13] = [
    SET_COOKIE,
    WWW_AUTHENTICATE,
    STRICT_TRANSPORT_SECURITY,
    ALT_SVC,
    HeaderName::from_static("service-worker-allowed"),
    HeaderName::from_static("clear-site-data"),
    HeaderName::from_static("nel"),
    HeaderName::from_static("report-to"),
    ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_ALLOW_CREDENTIALS,
    ACCESS_CONTROL_ALLOW_HEADERS,
    ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_EXPOSE_HEADERS,
];

/// What is served below [`PATH`].
#[derive(Clone)]
pub(super) struct Ports(pub(super) Arc<Shared>);

impl Service<Request<Body>> for Ports {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let shared = self.0.clone();
        Box::pin(async move {
            Ok(match parts_of(request.uri()) {
                Some((secret, path)) => answer(&shared, &secret, path, request).await,
                None => not_there(),
            })
        })
    }
}

/// Takes the requests for opened ports out of those for a service.
pub(super) fn layer<S>(behind: S) -> DoorLayer
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
{
    DoorLayer::new(|path| path.starts_with(PATH), behind)
}

/// Says that a secret opens nothing.
fn not_there() -> Response<Body> {
    guarded(plain(StatusCode::NOT_FOUND, "there is no such port, or it is closed\n"))
}

/// Returns the secret that a path names, and the path behind it; none of that if the secret ends the path.
pub fn parts_of(uri: &Uri) -> Option<(String, Option<PathAndQuery>)> {
    let rest = uri.path().strip_prefix(PATH)?;
    let Some((secret, _)) = rest.split_once('/') else {
        return Some((rest.to_owned(), None));
    };
    let whole = uri.path_and_query()?.as_str();
    let path = whole.get(PATH.len() + secret.len()..)?.parse().ok()?;
    Some((secret.to_owned(), Some(path)))
}

async fn answer(
    shared: &Arc<Shared>,
    secret: &str,
    path: Option<PathAndQuery>,
    request: Request<Body>,
) -> Response<Body> {
    let arrival = request.extensions().get::<Arrival>();
    let is_refused = arrival.is_none_or(|arrival| matches!(arrival.behind, Behind::Refused(_)));
    let port = shared.ports.of_secret(secret).filter(|_| !is_refused);
    let Some(port) = port else {
        return not_there();
    };
    let Some(path) = path else {
        let mut response = plain(StatusCode::PERMANENT_REDIRECT, "the path ends with a slash\n");
        if let Ok(location) = HeaderValue::try_from(format!("{PATH}{}/", port.secret())) {
            response.headers_mut().insert(LOCATION, location);
        }
        return guarded(response);
    };
    if let Some(response) = preflight(&request) {
        return guarded(response);
    }
    // Whoever has opened the port answers for who uses it.
    let stream = match shared.traffic.admit((&port.owner, false), &request) {
        Ok(stream) => stream,
        Err(status) => return guarded(refused(status)),
    };
    let response = match port.connect().await {
        Ok(connection) => send_on(shared, &port, connection, path, request, stream).await,
        Err(error) => not_connected(error),
    };
    guarded(response)
}

/// Answers browsers that ask whether a page may make a request: those of an origin of their own have to.
fn preflight(request: &Request<Body>) -> Option<Response<Body>> {
    let method = request.headers().get(ACCESS_CONTROL_REQUEST_METHOD);
    let method = method.filter(|_| request.method() == Method::OPTIONS)?;
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, method.clone());
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    if let Some(wanted) = request.headers().get(ACCESS_CONTROL_REQUEST_HEADERS) {
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone());
    }
    Some(response)
}

fn not_connected(error: ConnectError) -> Response<Body> {
    let code = match error {
        ConnectError::Closed => StatusCode::NOT_FOUND,
        ConnectError::NotListening => StatusCode::BAD_GATEWAY,
        ConnectError::TooMany => StatusCode::SERVICE_UNAVAILABLE,
    };
    let mut response = plain(code, &format!("{error}\n"));
    if error == ConnectError::TooMany {
        response
            .headers_mut()
            .insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

/// Sends a request to the program, and returns its answer.
async fn send_on(
    shared: &Arc<Shared>,
    port: &Arc<OpenPort>,
    connection: Connection,
    path: PathAndQuery,
    mut request: Request<Body>,
    stream: Option<Stream>,
) -> Response<Body> {
    let no_http = |error: &hyper::Error| {
        let text = format!(
            "what listens on port {} does not answer as HTTP wants it: {error}\n",
            port.number()
        );
        plain(StatusCode::BAD_GATEWAY, &text)
    };
    let upgrade = Upgrade::of(&request);
    let client = upgrade.as_ref().and_then(|upgrade| upgrade.client_of(&mut request));
    let (mut sender, driver) = match http1::handshake(TokioIo::new(connection)).await {
        Ok(made) => made,
        Err(error) => return no_http(&error),
    };
    // It ends with the answer, with the port, or when the client is gone.
    shared.tunnels.spawn(async move {
        let _ = driver.with_upgrades().await;
    });
    let headers = for_program(request.headers(), port.number(), upgrade.as_ref());
    *request.headers_mut() = headers;
    *request.uri_mut() = path.into();
    *request.version_mut() = Version::HTTP_11;
    request.extensions_mut().clear();
    let mut response = match sender.send_request(request).await {
        Ok(response) => response,
        Err(error) => return no_http(&error),
    };
    let headers = for_client(response.headers(), port);
    *response.headers_mut() = headers;
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        return response.map(|body| {
            Body::new(body.map_frame(move |frame| {
                // Open until the body is dropped.
                let _open = &stream;
                frame
            }))
        });
    }
    let Some(upgrade) = upgrade else {
        let text = "the program changes the protocol, which nobody asked for\n";
        return plain(StatusCode::BAD_GATEWAY, text);
    };
    let program = hyper::upgrade::on(&mut response);
    let joined = upgrade.join(&shared.tunnels, client, program, response.map(Body::new), stream);
    joined.await.unwrap_or_else(|error| no_http(&error))
}

/// Copies headers that are not about one connection only.
pub fn end_to_end(headers: &HeaderMap) -> HeaderMap {
    let named = headers.get_all(CONNECTION).iter();
    let named = named
        .filter_map(|value| value.to_str().ok())
        .flat_map(|list| list.split(','));
    let named: Vec<String> = named.map(|name| name.trim().to_ascii_lowercase()).collect();
    let mut copied = HeaderMap::new();
    for (name, value) in headers {
        if !HOP_BY_HOP.contains(name) && !named.iter().any(|one| name == one.as_str()) {
            copied.append(name.clone(), value.clone());
        }
    }
    copied
}

/// Returns the headers of a request as the program gets them.
fn for_program(headers: &HeaderMap, port: u16, upgrade: Option<&Upgrade>) -> HeaderMap {
    let mut sent = end_to_end(headers);
    for name in FOR_SERVICE {
        sent.remove(name);
    }
    if let Some(upgrade) = upgrade {
        upgrade.ask(&mut sent);
    }
    let host = format!("localhost:{port}");
    // A page of the program, which has no origin that could be named. Programs ask whether it is their own.
    if sent.get(ORIGIN).is_some_and(|origin| origin == "null")
        && let Ok(origin) = HeaderValue::try_from(format!("http://{host}"))
    {
        sent.insert(ORIGIN, origin);
    }
    if let Ok(host) = HeaderValue::try_from(host) {
        sent.insert(HOST, host);
    }
    sent
}

/// Returns the headers of an answer as the client gets them.
fn for_client(headers: &HeaderMap, port: &OpenPort) -> HeaderMap {
    let mut sent = end_to_end(headers);
    for name in OF_ADDRESS.iter().chain([&tunnel::TUNNEL]) {
        sent.remove(name);
    }
    let location = sent.get(LOCATION).and_then(|location| location.to_str().ok());
    let moved = location.and_then(|location| below_path(location, port.number(), port.secret()));
    if let Some(location) = moved.and_then(|location| HeaderValue::try_from(location).ok()) {
        sent.insert(LOCATION, location);
    }
    sent
}

/// Returns where a place of the program is at the address of the service; none if it is somewhere else, or named in a way that
/// leads there already.
fn below_path(location: &str, port: u16, secret: &str) -> Option<String> {
    let below = |path: &str| format!("{PATH}{secret}{path}");
    if location.starts_with('/') && !location.starts_with("//") {
        return Some(below(location));
    }
    let uri: Uri = location.parse().ok()?;
    let is_own = |authority: &Authority| {
        let host = authority.host().trim_matches(['[', ']']);
        authority.port_u16().unwrap_or(80) == port && ["localhost", "127.0.0.1", "::1"].contains(&host)
    };
    let is_own = uri.scheme_str() == Some("http") && uri.authority().is_some_and(is_own);
    // With the fragment, which the type leaves out.
    let rest = location.get("http://".len()..)?;
    let path = rest.find(['/', '?', '#']).map_or("", |at| &rest[at..]);
    let slash = if path.starts_with('/') { "" } else { "/" };
    is_own.then(|| below(&format!("{slash}{path}")))
}

/// Adds what keeps a page from everything else at this address.
pub fn guarded(mut response: Response<Body>) -> Response<Body> {
    let headers = response.headers_mut();
    headers.append(CONTENT_SECURITY_POLICY, POLICY);
    for (name, value) in [
        (REFERRER_POLICY, "no-referrer"),
        // Pages of no origin load their own files as if from somewhere else.
        (ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
        (ACCESS_CONTROL_EXPOSE_HEADERS, "*"),
        (RESOURCE_POLICY, "cross-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_a_secret_and_what_is_behind_it() {
        let check = |uri: &str, expected: Option<(&str, Option<&str>)>| {
            let found = parts_of(&uri.parse().unwrap());
            let found = found
                .as_ref()
                .map(|(secret, path)| (secret.as_str(), path.as_ref().map(PathAndQuery::as_str)));
            assert_eq!(found, expected, "{uri}");
        };
        check("/ports/ab/", Some(("ab", Some("/"))));
        check("/ports/ab/x/y?z=/ports/q", Some(("ab", Some("/x/y?z=/ports/q"))));
        check("/ports/ab//x", Some(("ab", Some("//x"))));
        check("http://127.0.0.1:1/ports/ab/x", Some(("ab", Some("/x"))));
        check("/ports/ab", Some(("ab", None)));
        check("/ports/ab?x=/y", Some(("ab", None)));
        check("/ports/", Some(("", None)));
        check("/ports", None);
        check("/console/", None);
        check("/toolgate.v1.PortService/OpenPort", None);
    }

    #[test]
    fn a_place_of_the_program_is_below_the_path() {
        let check = |location: &str, expected: Option<&str>| {
            assert_eq!(below_path(location, 3000, "ab").as_deref(), expected, "{location}");
        };
        check("/", Some("/ports/ab/"));
        check("/x?y#z", Some("/ports/ab/x?y#z"));
        check("http://localhost:3000", Some("/ports/ab/"));
        check("http://localhost:3000?y", Some("/ports/ab/?y"));
        check("http://127.0.0.1:3000/x?y#z", Some("/ports/ab/x?y#z"));
        check("http://[::1]:3000/x", Some("/ports/ab/x"));
        // Another program, another machine, another scheme.
        check("http://localhost:3001/", None);
        check("http://localhost/", None);
        check("http://example.org:3000/", None);
        check("https://localhost:3000/", None);
        check("//localhost:3000/", None);
        // From here it leads there as it is.
        check("x", None);
        check("../x", None);
        check("?x", None);
    }

    #[test]
    fn headers_of_one_connection_and_of_the_service_stay_here() {
        let headers = |lines: &[(&'static str, &'static str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in lines {
                headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
            }
            headers
        };
        let request = headers(&[
            ("host", "127.0.0.1:50551"),
            ("connection", "Upgrade, X-Mine"),
            ("upgrade", "websocket"),
            ("x-mine", "1"),
            ("authorization", "Bearer t"),
            ("cookie", "a=b"),
            ("referer", "http://127.0.0.1:50551/ports/ab/"),
            ("origin", "null"),
            ("accept", "text/html"),
            ("te", "trailers"),
        ]);
        let plainly = headers(&[
            ("origin", "http://localhost:3000"),
            ("accept", "text/html"),
            ("host", "localhost:3000"),
        ]);
        assert_eq!(for_program(&request, 3000, None), plainly);
        let mut carried = Request::new(Body::empty());
        *carried.version_mut() = Version::HTTP_2;
        *carried.headers_mut() = headers(&[("toolgate-upgrade", "websocket")]);
        let upgrade = Upgrade::of(&carried).unwrap();
        let mut upgraded = plainly;
        upgraded.extend(headers(&[("connection", "upgrade"), ("upgrade", "websocket")]));
        assert_eq!(for_program(&request, 3000, Some(&upgrade)), upgraded);
        let elsewhere = headers(&[("origin", "https://evil.example")]);
        assert_eq!(
            for_program(&elsewhere, 3000, None).get(ORIGIN).unwrap(),
            "https://evil.example"
        );
    }
}
