//! What stands for `/mcp` in a build without the feature `mcp`: nothing is served there.

#[path = "mcp/endpoint.rs"]
mod endpoint;

use std::sync::Arc;

pub use self::endpoint::{PATH, SESSION, named};
use super::Shared;
use super::door::DoorLayer;

/// Nothing.
#[derive(Clone)]
pub(crate) struct McpDoor;

impl McpDoor {
    pub(crate) fn new(_shared: Arc<Shared>) -> Self {
        Self
    }

    pub(crate) fn layer(&self) -> Option<DoorLayer> {
        None
    }

    pub(crate) async fn finish(&self) {}
}
