//! Where an MCP client gets a token (RFC 9728), of a service that takes signed ones.
//!
//! Whoever is refused at `/mcp` for want of a token is told the address of the metadata, and reads there who issues tokens.
//!
//! *Invariant:* for everybody, so that it says nothing but what a client needs before it has a token. The address of the service
//! in it is the one that the client itself has called.

use std::convert::Infallible;
use std::future::{Future, Ready, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use serde_json::json;
use tonic::body::Body;
use tonic::codegen::http::header::{ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, HOST, WWW_AUTHENTICATE};
use tonic::codegen::http::uri::Authority;
use tonic::codegen::http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use tower::{Layer, Service};

use super::answers::plain;
use super::arrival::Arrival;
use super::auth::Authenticator;
use super::door::DoorLayer;
use super::mcp;

/// Where the metadata is. Clients look for it here with the path of what it is about, and without.
const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// The scope without which nothing is served there.
const NEEDED: &str = "calls.execute";

/// What else a client may do with: read whole outputs, answer what its own calls ask.
const USEFUL: [&str; 2] = ["outputs.read", "prompts.reply"];

/// Set by what ends TLS in front of the service.
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// What is told of tokens.
#[derive(Clone)]
pub(super) struct ProtectedResource {
    issuer: Arc<str>,
}

impl ProtectedResource {
    /// Returns what is told, if signed tokens are taken.
    pub(super) fn of(authenticator: &Authenticator) -> Option<Self> {
        let issuer = authenticator.issuer()?.into();
        Some(Self { issuer })
    }

    /// Makes the door to the metadata.
    pub(super) fn door(&self) -> DoorLayer {
        DoorLayer::new(is_for, self.clone())
    }

    fn answer<B>(&self, request: &Request<B>) -> Response<Body> {
        if ![Method::GET, Method::HEAD].contains(request.method()) {
            let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "this is only read\n");
            let allowed = HeaderValue::from_static("GET, HEAD");
            response.headers_mut().insert(ALLOW, allowed);
            return response;
        }
        let Some(base) = base_of(request) else {
            return plain(
                StatusCode::BAD_REQUEST,
                "the request does not say which host it is for\n",
            );
        };
        // What is described is told by the path, and nothing but MCP clients looks for it without one.
        let about = request.uri().path().strip_prefix(WELL_KNOWN).unwrap_or_default();
        let scopes: Vec<&str> = std::iter::once(NEEDED).chain(USEFUL).collect();
        let metadata = json!({
            "resource": format!("{base}{about}"),
            "authorization_servers": [&*self.issuer],
            "scopes_supported": scopes,
            "bearer_methods_supported": ["header"],
            "resource_name": "Toolgate",
        });
        let mut response = Response::new(Body::new(metadata.to_string()));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }
}

fn is_for(path: &str) -> bool {
    path.strip_prefix(WELL_KNOWN)
        .is_some_and(|about| about.is_empty() || about == mcp::PATH)
}

/// Returns the scheme and the host of the address that a client has called.
fn base_of<B>(request: &Request<B>) -> Option<String> {
    let headers = request.headers();
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()?.parse().ok());
    let authority: Authority = request.uri().authority().cloned().or(host)?;
    let host = authority.as_str();
    // It comes between quotes, and names a host and nobody on it.
    if host.contains(['@', '"', '\\']) {
        return None;
    }
    let is_tls = request.extensions().get::<Arrival>().is_some_and(Arrival::is_encrypted)
        || headers.get(FORWARDED_PROTO).is_some_and(|scheme| scheme == "https");
    let scheme = if is_tls { "https" } else { "http" };
    Some(format!("{scheme}://{host}"))
}

impl Service<Request<Body>> for ProtectedResource {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        ready(Ok(self.answer(&request)))
    }
}

/// Tells whoever is refused for want of a token where the metadata is.
#[derive(Clone)]
pub(super) struct PointerLayer;

impl<S> Layer<S> for PointerLayer {
    type Service = Pointer<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Pointer(inner)
    }
}

/// What [`PointerLayer`] puts before a service.
#[derive(Clone)]
pub(super) struct Pointer<S>(S);

impl<S> Service<Request<Body>> for Pointer<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let challenge = challenge(&request);
        let answer = self.0.call(request);
        Box::pin(async move {
            let mut response = answer.await?;
            if let (StatusCode::UNAUTHORIZED, Some(challenge)) = (response.status(), challenge) {
                response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
            }
            Ok(response)
        })
    }
}

/// Returns what is asked of a client that shows no token, or one that is not accepted.
fn challenge<B>(request: &Request<B>) -> Option<HeaderValue> {
    let base = base_of(request)?;
    let metadata = format!("{base}{WELL_KNOWN}{}", mcp::PATH);
    let error = match request.headers().contains_key(AUTHORIZATION) {
        true => "error=\"invalid_token\", ",
        false => "",
    };
    let text = format!("Bearer realm=\"toolgate\", {error}scope=\"{NEEDED}\", resource_metadata=\"{metadata}\"");
    HeaderValue::try_from(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(uri: &str, headers: &[(&'static str, &str)]) -> Request<()> {
        let mut request = Request::builder().uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap()
    }

    #[test]
    fn the_address_is_the_one_that_was_called() {
        let check = |uri: &str, headers: &[(&'static str, &str)], expected: Option<&str>| {
            assert_eq!(
                base_of(&request(uri, headers)).as_deref(),
                expected,
                "{uri} {headers:?}"
            );
        };
        check("/mcp", &[("host", "127.0.0.1:50551")], Some("http://127.0.0.1:50551"));
        check("http://[::1]:1/mcp", &[], Some("http://[::1]:1"));
        check(
            "/mcp",
            &[("host", "tools.example"), ("x-forwarded-proto", "https")],
            Some("https://tools.example"),
        );
        check("/mcp", &[], None);
        check("/mcp", &[("host", "user@tools.example")], None);
        check("/mcp", &[("host", "a\", evil=\"b")], None);
    }

    #[test]
    fn only_mcp_is_described() {
        assert!(is_for(WELL_KNOWN) && is_for("/.well-known/oauth-protected-resource/mcp"));
        for path in [
            "/mcp",
            "/.well-known/oauth-protected-resource/x",
            "/.well-known/oauth-protected-resourcex",
        ] {
            assert!(!is_for(path), "{path}");
        }
    }
}
