//! `/console/`: a page for the people in the loop, served on the port that it calls by gRPC-Web.
//!
//! Its files are built from `clients/console` and are part of the program. They hold nothing secret, so that they are for
//! everybody: what the page shows it asks for with the token that its user gives it.
//!
//! *Invariant:* nothing but the files that are named here is served, with headers that let the page run no code and reach no
//! server but its own.

use std::future::{Ready, ready};
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::Either;
use sha2::{Digest as _, Sha256};
use tonic::body::Body;
use tonic::codegen::http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH, LOCATION, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use tonic::codegen::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use tower::{Layer, Service};

use super::answers::plain;
use super::mcp;

/// Where the page is.
pub(crate) const PATH: &str = "/console/";

/// What the page may do: run its own script, look as its own sheet says, and call where it came from. Nothing may frame it,
/// so that no other page gets a person to press its buttons.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
                      trusted-types 'none'";

const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// Whether this build has the page.
pub(crate) const IS_BUILT: bool = cfg!(feature = "console");

#[cfg(not(feature = "console"))]
const FILES: [(&str, &str, &str); 0] = [];

/// The files, by their names below [`PATH`].
#[cfg(feature = "console")]
const FILES: [(&str, &str, &str); 5] = [
    ("", "text/html; charset=utf-8", include_str!("console/index.html")),
    (
        "app.js",
        "text/javascript; charset=utf-8",
        include_str!("console/app.js"),
    ),
    (
        "emulator.js",
        "text/javascript; charset=utf-8",
        include_str!("console/emulator.js"),
    ),
    ("app.css", "text/css; charset=utf-8", include_str!("console/app.css")),
    ("icon.svg", "image/svg+xml", include_str!("console/icon.svg")),
];

struct File {
    name: &'static str,
    kind: &'static str,
    content: &'static str,
    etag: HeaderValue,
}

/// Takes the requests for the page out of those for a service, if the page is wanted.
#[derive(Clone)]
pub(crate) struct ConsoleLayer(Option<Arc<[File]>>);

impl ConsoleLayer {
    pub(crate) fn new(is_on: bool) -> Self {
        Self(is_on.then(|| FILES.into_iter().map(File::new).collect()))
    }
}

impl<S> Layer<S> for ConsoleLayer {
    type Service = Console<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Console {
            files: self.0.clone(),
            inner,
        }
    }
}

/// Sends each request where it belongs.
#[derive(Clone)]
pub(crate) struct Console<S> {
    files: Option<Arc<[File]>>,
    inner: S,
}

impl<S> Service<Request<Body>> for Console<S>
where
    S: Service<Request<Body>, Response = Response<Body>>,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Either<Ready<Result<Response<Body>, S::Error>>, S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let answer = self.files.as_ref().and_then(|files| answer(files, &request));
        match answer.or_else(|| nothing_to_read(self.files.is_some(), &request)) {
            Some(response) => Either::Left(ready(Ok(response))),
            None => Either::Right(self.inner.call(request)),
        }
    }
}

impl File {
    fn new((name, kind, content): (&'static str, &'static str, &'static str)) -> Self {
        let digest = Sha256::digest(content.as_bytes());
        let hex = hex::encode(&digest[..16]);
        Self {
            name,
            kind,
            content,
            etag: HeaderValue::from_str(&format!("\"{hex}\"")).expect("quotes and digits may stand in a header"),
        }
    }

    fn response(&self, request: &Request<Body>) -> Response<Body> {
        let is_known = is_among(request.headers(), &self.etag);
        let body = match (is_known, request.method()) {
            (false, &Method::GET) => Body::new(self.content.to_owned()),
            (true | false, _) => Body::empty(),
        };
        let mut response = Response::new(body);
        if is_known {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
        }
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.kind));
        headers.insert(ETAG, self.etag.clone());
        guard(response)
    }
}

/// Answers what is meant for the page.
fn answer(files: &[File], request: &Request<Body>) -> Option<Response<Body>> {
    let path = request.uri().path();
    let Some(name) = path.strip_prefix(PATH) else {
        // Where people arrive who have been told the address of the service only.
        return ["/", "/console"].contains(&path).then(to_the_page);
    };
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        let mut response = told(StatusCode::METHOD_NOT_ALLOWED, "the console is only read\n");
        response
            .headers_mut()
            .insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return Some(response);
    }
    let file = files.iter().find(|file| file.name == name);
    Some(match file {
        Some(file) => file.response(request),
        None => told(StatusCode::NOT_FOUND, "the console has no such file\n"),
    })
}

/// Answers a browser that looks for a page where none is. Neither gRPC nor gRPC-Web reads anything with GET.
fn nothing_to_read(is_on: bool, request: &Request<Body>) -> Option<Response<Body>> {
    let is_for_page = request.method() == Method::GET && request.uri().path() != mcp::PATH;
    let kind = request.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    let is_grpc = kind.is_some_and(|kind| kind.starts_with(b"application/grpc"));
    let text = match is_on {
        true => "there is no such page: the console is at /console/\n",
        false => "this address is for programs: the console is off; start with --console, or set console = true\n",
    };
    (is_for_page && !is_grpc).then(|| told(StatusCode::NOT_FOUND, text))
}

fn to_the_page() -> Response<Body> {
    let mut response = told(StatusCode::TEMPORARY_REDIRECT, "the console is at /console/\n");
    response.headers_mut().insert(LOCATION, HeaderValue::from_static(PATH));
    response
}

fn told(code: StatusCode, text: &str) -> Response<Body> {
    guard(plain(code, text))
}

fn guard(mut response: Response<Body>) -> Response<Body> {
    let headers = response.headers_mut();
    for (name, value) in [
        // Kept, but asked for again each time: after an update nobody works with an old page.
        (CACHE_CONTROL, "no-cache"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
        (OPENER_POLICY, "same-origin"),
        (RESOURCE_POLICY, "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Says whether the client has this version. The comparison is the weak one, as HTTP wants it here.
fn is_among(headers: &HeaderMap, etag: &HeaderValue) -> bool {
    let values = headers.get_all(IF_NONE_MATCH).iter();
    let mut tags = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|list| list.split(','));
    tags.any(|tag| {
        let tag = tag.trim();
        tag == "*" || tag.strip_prefix("W/").unwrap_or(tag).as_bytes() == etag.as_bytes()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_recognised() {
        let etag = HeaderValue::from_static("\"ab\"");
        for (given, expected) in [
            ("\"ab\"", true),
            ("W/\"ab\"", true),
            ("\"x\", \"ab\"", true),
            ("*", true),
            ("\"abc\"", false),
            ("ab", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(IF_NONE_MATCH, HeaderValue::from_str(given).unwrap());
            assert_eq!(is_among(&headers, &etag), expected, "{given}");
        }
    }
}
