//! The name by which a service is called that asks nobody who they are.
//!
//! A web page whose name is made to lead to this machine counts as of the same origin as what listens here. It has no token
//! and cannot use the Unix socket, so it is refused where none is needed: on loopback addresses without authentication.
//!
//! *Invariant:* all doors are checked alike: gRPC, gRPC-Web and MCP.

use tonic::Status;
use tonic::codegen::http::Request;
use tonic::codegen::http::header::HOST;
use toolgate_model::PrincipalKind;

use super::caller::Caller;
use crate::grpc::arrival::Arrival;
use crate::grpc::status;

/// Refuses what was sent to another name than this machine's own.
pub(super) fn check<B>(request: &Request<B>, caller: &Caller) -> Result<(), Status> {
    let arrival = request.extensions().get::<Arrival>();
    let local = arrival.and_then(Arrival::local_addr);
    let is_exposed = local.is_some_and(|address| address.ip().to_canonical().is_loopback());
    if !is_exposed || caller.principal().kind() != PrincipalKind::Anonymous {
        return Ok(());
    }
    let authority = request.uri().authority().map(|authority| Some(authority.as_str()));
    let headers = request.headers().get_all(HOST).iter();
    let mut names = headers.map(|host| host.to_str().ok()).chain(authority).peekable();
    // Each of them, should they differ.
    if names.peek().is_some() && names.all(|name| name.is_some_and(is_loopback)) {
        return Ok(());
    }
    Err(status::foreign_host())
}

/// Says whether a host, with or without a port, is this machine by its name.
fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let is_own = name.eq_ignore_ascii_case("localhost")
        || name
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback());
    // What stands in front of such a sign is no host.
    is_own && !host.contains('@')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_few_names() {
        for host in [
            "localhost",
            "LOCALHOST:80",
            "127.0.0.1:50551",
            "127.9.9.9",
            "[::1]:1",
            "[::1]",
        ] {
            assert!(is_loopback(host), "{host}");
        }
        for host in [
            "",
            "example.com",
            "localhost.example.com",
            "127.0.0.1.example.com",
            "[::2]",
            "10.0.0.1:80",
            "::1",
            "localhost:1@example.com",
        ] {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
