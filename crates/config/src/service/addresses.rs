//! What addresses of servers are.
//!
//! *Invariant:* a leaf: nothing is looked up.

use toolgate_web::{Url, is_loopback};

/// Says whether an address is that of a server, without a path and a user.
pub(super) fn is_server(address: &str) -> bool {
    Url::parse(address).is_ok_and(|url| {
        let is_web = matches!(url.scheme(), "http" | "https") && url.has_host() && url.path() == "/";
        is_web && url.query().is_none() && url.fragment().is_none() && url.username().is_empty()
    })
}

/// Says whether a server is on this machine.
pub(super) fn is_local(address: &str) -> bool {
    Url::parse(address).is_ok_and(|url| is_loopback(&url))
}
