//! The service on the wire.
