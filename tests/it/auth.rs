//! Who may call, and what they may do: over real connections, with real certificates.
//!
//! *Invariant:* each service has its own folder and listens on a free port of this machine.

mod apart;
mod approvals;
mod audit;
mod group;
mod hosts;
mod isolation;
mod jwt;
mod mcp;
mod parked;
mod ports;
mod prefixes;
mod setup;
mod tls;
mod tokens;
mod workspaces;

pub(crate) use self::jwt::Issuer;
pub(crate) use self::tls::Authority;
