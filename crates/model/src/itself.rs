//! How a service knows itself when it meets itself over MCP: entries for the service stand in files that it reads.
//!
//! *Invariant:* pure.

use serde_json::{Value, json};

use super::{InstanceId, JsonMap};

/// Set for every MCP server that the service starts, and inherited by what that starts.
pub const STARTED_AS_SERVER: &str = "TOOLGATE_MCP_DEPTH";

/// Under this name both sides of `initialize` say, among the experimental capabilities, that they are this program.
pub const ITSELF: &str = "toolgate";

/// Says why an entry of the configuration is left alone that would start the service once more, and what to do.
pub const STARTS_ITSELF: &str = "Toolgate does not start itself: each would start the next, without end. The entry is for \
other MCP clients, and is left alone here. For the tools of another Toolgate use \"type\": \"remote\" with the \
address of its /mcp.";

/// Says why a server that turned out to be this very service is left alone.
pub const REACHES_ITSELF: &str = "This server is the service itself: its tools are here already. Take the entry out of the \
configuration, or leave it to other MCP clients.";

/// Returns what a service says of itself in `initialize`.
pub fn introduction(instance: &InstanceId) -> JsonMap {
    JsonMap::from_iter([("instance".to_owned(), json!(instance.as_str()))])
}

/// Says whether this service said so of itself.
pub fn is_own_introduction(introduction: &JsonMap, instance: &InstanceId) -> bool {
    introduction.get("instance").and_then(Value::as_str) == Some(instance.as_str())
}
