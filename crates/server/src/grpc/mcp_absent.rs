//! What stands for `/mcp` in a build without the feature `mcp`: nothing is served there.

#[path = "mcp/endpoint.rs"]
mod endpoint;

use std::sync::Arc;

use tower::Layer;

pub(crate) use self::endpoint::{PATH, SESSION};
use super::Shared;

/// A layer that adds nothing.
#[derive(Clone)]
pub(crate) struct McpLayer;

impl McpLayer {
    pub(crate) fn new(_shared: Arc<Shared>) -> Self {
        Self
    }

    pub(crate) async fn finish(&self) {}
}

impl<S> Layer<S> for McpLayer {
    type Service = S;

    fn layer(&self, inner: S) -> S {
        inner
    }
}
