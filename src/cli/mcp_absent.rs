//! What stands for `toolgate mcp` in a build without the feature `mcp`.

use clap::Args;

use super::exit::{Exit, Failure};
use super::globals::Globals;
use super::terminal::Terminal;

/// Nothing is served, for whom it may be.
#[derive(Debug, Args)]
pub(super) struct McpArgs {
    /// Whatever else is said.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _others: Vec<String>,
}

impl McpArgs {
    #[expect(clippy::unused_async, reason = "as the command of a full build")]
    pub(super) async fn run(self, _globals: &Globals, _terminal: &Terminal) -> Result<Exit, Failure> {
        let text = "this build of Toolgate serves no MCP clients (it lacks the Cargo feature \"mcp\")";
        Err(Failure::Usage(text.to_owned()))
    }
}
