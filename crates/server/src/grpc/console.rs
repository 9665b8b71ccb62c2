//! `/console/`: a page for the people in the loop, served on the port that it calls by gRPC-Web.
//!
//! Its files are built from `clients/console` and are part of the program. They hold nothing secret, so that they are for
//! everybody: what the page shows it asks for with the token that its user gives it. They are compressed when the page is built,
//! with brotli and, for browsers that take only that without TLS, with gzip.
//!
//! *Invariant:* nothing but the files that are named here is served, with headers that let the page run no code and reach no
//! server but its own.

use std::future::{Ready, ready};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::future::Either;
use http_body_util::Full;
use sha2::{Digest as _, Sha256};
use tonic::body::Body;
use tonic::codegen::http::header::{
    ACCEPT_ENCODING, ALLOW, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
    IF_NONE_MATCH, LOCATION, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
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

/// How long a file is kept whose address names its content.
const FOR_GOOD: &str = "public, max-age=31536000, immutable";

const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// Whether this build has the page.
pub(crate) const IS_BUILT: bool = cfg!(feature = "console");

/// A file of the page, as it was built.
#[cfg_attr(not(feature = "console"), allow(dead_code, reason = "there are no files then"))]
struct Built {
    /// Its name below [`PATH`].
    name: &'static str,
    kind: &'static str,
    content: &'static [u8],
    /// The same compressed, the shortest first. Small files are not.
    compressed: &'static [(&'static str, &'static [u8])],
}

#[cfg(not(feature = "console"))]
const FILES: [Built; 0] = [];

#[cfg(feature = "console")]
const FILES: [Built; 7] = [
    Built {
        name: "",
        kind: "text/html; charset=utf-8",
        content: include_bytes!("console/index.html"),
        compressed: &[],
    },
    Built {
        name: "app.js",
        kind: "text/javascript; charset=utf-8",
        content: include_bytes!("console/app.js"),
        compressed: &[
            ("br", include_bytes!("console/app.js.br")),
            ("gzip", include_bytes!("console/app.js.gz")),
        ],
    },
    Built {
        name: "shared.js",
        kind: "text/javascript; charset=utf-8",
        content: include_bytes!("console/shared.js"),
        compressed: &[
            ("br", include_bytes!("console/shared.js.br")),
            ("gzip", include_bytes!("console/shared.js.gz")),
        ],
    },
    Built {
        name: "parts.js",
        kind: "text/javascript; charset=utf-8",
        content: include_bytes!("console/parts.js"),
        compressed: &[
            ("br", include_bytes!("console/parts.js.br")),
            ("gzip", include_bytes!("console/parts.js.gz")),
        ],
    },
    Built {
        name: "emulator.js",
        kind: "text/javascript; charset=utf-8",
        content: include_bytes!("console/emulator.js"),
        compressed: &[
            ("br", include_bytes!("console/emulator.js.br")),
            ("gzip", include_bytes!("console/emulator.js.gz")),
        ],
    },
    Built {
        name: "app.css",
        kind: "text/css; charset=utf-8",
        content: include_bytes!("console/app.css"),
        compressed: &[
            ("br", include_bytes!("console/app.css.br")),
            ("gzip", include_bytes!("console/app.css.gz")),
        ],
    },
    Built {
        name: "icon.svg",
        kind: "image/svg+xml",
        content: include_bytes!("console/icon.svg"),
        compressed: &[],
    },
];

struct File {
    built: Built,
    /// The hash of the content, with which the page names its files: `app.js?v=HASH` never has another content.
    hash: String,
    /// The same for requests that ask whether it has changed; weak, since it stands for every encoding.
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
    fn new(built: Built) -> Self {
        let digest = Sha256::digest(built.content);
        let hash = hex::encode(&digest[..16]);
        let etag = HeaderValue::from_str(&format!("W/\"{hash}\"")).expect("quotes and digits may stand in a header");
        Self { built, hash, etag }
    }

    /// Answers with the file; with `is_named`, its address names its content.
    fn response(&self, request: &Request<Body>, is_named: bool) -> Response<Body> {
        let is_known = is_among(request.headers(), &self.hash);
        let encodings = self.built.compressed.iter();
        let compressed = encodings
            .copied()
            .find(|(encoding, _)| is_accepted(request.headers(), encoding));
        let content = compressed.map_or(self.built.content, |(_, content)| content);
        let body = match (is_known, request.method()) {
            (false, &Method::GET) => Body::new(Full::new(Bytes::from_static(content))),
            (true | false, _) => Body::empty(),
        };
        let mut response = guard(Response::new(body));
        if is_known {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
        }
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.built.kind));
        headers.insert(ETAG, self.etag.clone());
        headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
        if let Some((encoding, _)) = compressed {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static(encoding));
        }
        if is_named {
            headers.insert(CACHE_CONTROL, HeaderValue::from_static(FOR_GOOD));
        }
        response
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
    let file = files.iter().find(|file| file.built.name == name);
    let version = request.uri().query().and_then(|query| query.strip_prefix("v="));
    Some(match file {
        Some(file) if version.is_none_or(|version| version == file.hash) => file.response(request, version.is_some()),
        // A page that was open during an update must not go on with half of the new one.
        Some(_) => told(
            StatusCode::NOT_FOUND,
            "this file is of another version of the console: load the page again\n",
        ),
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
fn is_among(headers: &HeaderMap, hash: &str) -> bool {
    listed(headers, &IF_NONE_MATCH).any(|tag| {
        let tag = tag.strip_prefix("W/").unwrap_or(tag);
        let bare = tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"'));
        tag == "*" || bare == Some(hash)
    })
}

/// Says whether the client takes this encoding. One that it gives a weight of 0 it does not take.
fn is_accepted(headers: &HeaderMap, encoding: &str) -> bool {
    listed(headers, &ACCEPT_ENCODING).any(|one| {
        let (name, weight) = one.split_once(';').unwrap_or((one, ""));
        let weight = weight.trim().strip_prefix("q=").map(str::parse::<f32>);
        name.trim().eq_ignore_ascii_case(encoding)
            && weight.is_none_or(|weight| weight.is_ok_and(|weight| weight > 0.0))
    })
}

/// Returns the items of a header that is a list.
fn listed<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(name).into_iter();
    values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|list| list.split(','))
        .map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_str(value).unwrap())])
    }

    #[test]
    fn a_version_is_recognised() {
        for (given, expected) in [
            ("\"ab\"", true),
            ("W/\"ab\"", true),
            ("\"x\", \"ab\"", true),
            ("*", true),
            ("\"abc\"", false),
            ("ab", false),
            ("", false),
        ] {
            assert_eq!(is_among(&with(IF_NONE_MATCH, given), "ab"), expected, "{given}");
        }
    }

    #[test]
    fn an_encoding_is_taken_only_by_its_name() {
        for (given, expected) in [
            ("gzip", true),
            ("deflate, GZIP;q=0.5", true),
            ("br, gzip ; q=1", true),
            ("gzip;q=0", false),
            ("gzip; q=0.000", false),
            ("gzip;q=much", false),
            ("xgzip, identity", false),
            ("", false),
        ] {
            assert_eq!(is_accepted(&with(ACCEPT_ENCODING, given), "gzip"), expected, "{given}");
        }
    }
}
