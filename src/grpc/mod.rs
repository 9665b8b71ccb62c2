//! The service on the wire.
pub mod proto;
