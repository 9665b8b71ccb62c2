//! Where MCP clients are served, and the header that names their session: for those who look at a request before it is read.

use tonic::codegen::http::HeaderName;

/// Where MCP clients are served.
pub(crate) const PATH: &str = "/mcp";

/// Names the session of a request.
pub(crate) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
