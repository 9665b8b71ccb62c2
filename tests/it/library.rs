//! What the Rust library has beyond the libraries of other languages' drivers, against the real program.

mod background;
mod files;
mod places;
pub(crate) mod ports;

use toolgate_client::{Client, Error};

use crate::support::*;

/// A client of a server.
async fn connected(server: &Server) -> Client {
    Client::connect(&server.url()).await.unwrap()
}

/// Checks the reason of a refusal.
#[track_caller]
fn refused_for<T: std::fmt::Debug>(result: Result<T, Error>, reason: &str) -> Error {
    let error = result.expect_err("a refusal");
    assert_eq!(error.reason().as_deref(), Some(reason), "{error:?}");
    error
}
