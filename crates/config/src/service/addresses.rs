//! What addresses of servers are.
//!
//! *Invariant:* a leaf: nothing is looked up.

use std::net::IpAddr;

use toolgate_web::Url;

/// Says whether an address is that of a server, without a path and a user.
pub(super) fn is_server(address: &str) -> bool {
    Url::parse(address).is_ok_and(|url| {
        let is_web = matches!(url.scheme(), "http" | "https") && url.has_host() && url.path() == "/";
        is_web && url.query().is_none() && url.fragment().is_none() && url.username().is_empty()
    })
}

/// Says whether a server is on this machine.
pub(super) fn is_local(address: &str) -> bool {
    let url = Url::parse(address).ok();
    let host = url.as_ref().and_then(Url::host_str).unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}
