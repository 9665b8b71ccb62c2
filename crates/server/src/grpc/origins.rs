//! Which web pages may call.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use tonic::codegen::http::header::{HOST, ORIGIN};
use tonic::codegen::http::{HeaderValue, Request, Response, StatusCode};
use tower_http::validate_request::ValidateRequest;

use super::arrival::Arrival;

/// Refuses requests of web pages from other origins than those listed. CORS alone would not do: a page whose name is made to
/// lead to this machine counts as of the same origin, and browsers ask nobody then. Programs send no origin, or that of the
/// service that they call.
#[derive(Clone)]
pub(super) struct OnlyOrigins(pub(super) Arc<[String]>);

impl<B> ValidateRequest<B> for OnlyOrigins {
    type ResponseBody = tonic::body::Body;

    fn validate(&mut self, request: &mut Request<B>) -> Result<(), Response<Self::ResponseBody>> {
        let Some(origin) = request.headers().get(ORIGIN) else {
            return Ok(());
        };
        let is_listed = self.0.iter().any(|allowed| origin == allowed.as_str());
        if is_listed || is_own_origin(origin, request) {
            return Ok(());
        }
        let text = "this web page may not call: its origin is not among listen.origins\n";
        let mut response = Response::new(tonic::body::Body::new(text.to_owned()));
        *response.status_mut() = StatusCode::FORBIDDEN;
        Err(response)
    }
}

/// Says whether an origin is that of the service itself: of the scheme, name and port that this request came to.
///
/// The name must be an address or `localhost`. Any other name may belong to somebody who made it lead here: a page of that
/// name would count as of the same origin. Such names, as a proxy or a certificate may need them, are for `listen.origins`.
fn is_own_origin<B>(origin: &HeaderValue, request: &Request<B>) -> bool {
    let is_tls = request.extensions().get::<Arrival>().is_some_and(Arrival::is_encrypted);
    let scheme = if is_tls { "https://" } else { "http://" };
    let header = || request.headers().get(HOST).and_then(|host| host.to_str().ok());
    let authority = request.uri().authority().map(|authority| authority.as_str());
    let (Ok(origin), Some(authority)) = (origin.to_str(), authority.or_else(header)) else {
        return false;
    };
    origin
        .strip_prefix(scheme)
        .is_some_and(|page| page.eq_ignore_ascii_case(authority) && is_certain(authority))
}

/// Says whether a host, with or without a port, can lead to one machine only, whoever asks which.
fn is_certain(authority: &str) -> bool {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((host, port)) if host.parse::<Ipv6Addr>().is_ok() => (None, port.strip_prefix(':')),
            Some(_) | None => return false,
        },
        None => match authority.split_once(':') {
            Some((host, port)) => (Some(host), Some(port)),
            None => (Some(authority), None),
        },
    };
    port.is_none_or(|port| port.parse::<u16>().is_ok())
        && host.is_none_or(|host| host.eq_ignore_ascii_case("localhost") || host.parse::<Ipv4Addr>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(host: &str) -> Request<()> {
        Request::builder().header(HOST, host).body(()).unwrap()
    }

    #[test]
    fn only_the_page_itself_is_of_its_origin() {
        let check = |origin: &str, host: &str, expected: bool| {
            let value = HeaderValue::from_str(origin).unwrap();
            assert_eq!(is_own_origin(&value, &request(host)), expected, "{origin} to {host}");
        };
        check("http://127.0.0.1:50551", "127.0.0.1:50551", true);
        check("http://localhost:50551", "localhost:50551", true);
        check("http://LOCALHOST:50551", "localhost:50551", true);
        check("http://[::1]:50551", "[::1]:50551", true);
        check("http://10.1.2.3", "10.1.2.3", true);
        // Another program of this machine, another name of it, another scheme.
        check("http://127.0.0.1:3000", "127.0.0.1:50551", false);
        check("http://localhost:50551", "127.0.0.1:50551", false);
        check("https://127.0.0.1:50551", "127.0.0.1:50551", false);
        // A name that was made to lead here.
        check("http://evil.example:50551", "evil.example:50551", false);
        check("http://127.0.0.1.evil.example", "127.0.0.1.evil.example", false);
        check("http://localhost.evil.example", "localhost.evil.example", false);
        for nonsense in [
            "null",
            "",
            "http://",
            "http://[::1",
            "http://[evil]:1",
            "http://127.0.0.1:1:2",
        ] {
            let host = nonsense.strip_prefix("http://").unwrap_or_default();
            check(nonsense, host, false);
        }
    }
}
