#![allow(
    clippy::disallowed_methods,
    clippy::wildcard_enum_match_arm,
    clippy::unwrap_used,
    dead_code,
    unused_imports
)]
mod fleet;
mod gateway {
    pub(crate) mod people;
    pub(crate) mod setup;
}
mod support;
