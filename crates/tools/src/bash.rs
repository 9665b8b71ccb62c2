//! `bash`: runs one command line in a shell (`docs/spec/bash.md`).
//!
//! *Invariant:* holds no output but the first 30,000 characters, which travel as metadata; everything else goes to the
//! stored output as it appears, and the program is made to wait while that is written.

mod approval;
pub mod background;
mod confine;
mod hooked;
mod input;
mod report;
mod shell;

use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use toolgate_model::{Effect, ToolOutput};
use toolgate_process::{Cause, Ending, Exit, Stdin};
use toolgate_tool::{About, Offer, Outline, Properties, ToolContext, ToolError, TypedTool, schema_of};

use self::input::{Limit, check_command, check_terminal};
use self::report::Report;
use self::shell::follow;

pub use approval::asks;
pub use confine::{Confine, Confining, NetworkUse};
pub use hooked::decides_what_runs;
pub use input::Input;
pub use shell::Shell;

/// The `bash` tool.
pub struct Bash {
    shell: Shell,
    default_timeout: Duration,
    max_lines: usize,
    max_bytes: usize,
}

impl Bash {
    /// Makes the tool; `default_timeout` is for calls that name none. The description tells of the limits at which the
    /// output is truncated.
    pub fn new(shell: Shell, default_timeout: Duration, (max_lines, max_bytes): (usize, usize)) -> Self {
        Self {
            shell,
            default_timeout,
            max_lines,
            max_bytes,
        }
    }
}

#[async_trait]
impl TypedTool for Bash {
    type Input = Input;

    const ABOUT: About = About {
        name: "bash",
        effects: &[Effect::Reads, Effect::Writes, Effect::RunsPrograms, Effect::Network],
        permissions: &["bash", "external_directory"],
        advertised: true,
        properties: Properties {
            editable: true,
            ..Properties::RESUMABLE
        },
        example: r#"{"command": "ls -la", "description": "Lists the files of the project"}"#,
    };

    fn description(&self, offer: &Offer<'_>) -> String {
        include_str!("bash.md")
            .replace("{default_timeout}", &self.default_timeout.as_millis().to_string())
            .replace("{max_lines}", &self.max_lines.to_string())
            .replace("{max_bytes}", &self.max_bytes.to_string())
            // Last, since a path may hold anything.
            .replace("{directory}", &offer.workspace.directory().to_string_lossy())
    }

    fn told_schema(&self) -> Value {
        let mut schema = schema_of::<Input>();
        // For front ends: a model has no use for what a terminal shows.
        if let Some(Value::Object(arguments)) = schema.get_mut("properties") {
            arguments.shift_remove("terminal");
        }
        schema
    }

    fn outline(&self, input: &Value) -> Outline {
        Outline::of(input, &["command"]).titled(input, "description")
    }

    async fn run(&self, input: Input, ctx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let limit = Limit::new(input.timeout, self.default_timeout)?;
        check_command(&input.command)?;
        check_terminal(&input)?;
        if input.background == Some(true) {
            return background::start(input, ctx).await;
        }
        let mut prepared = self.shell.prepare(&input, Stdin::Null, ctx).await?;
        let mut report = Report::new(input.description.clone(), ctx);
        loop {
            let running = prepared.start().await?;
            let ending = follow(running, &mut report, limit, ctx).await?;
            let again = if has_failed(&ending) {
                prepared.confined.again(&input.command, report.printed(), ctx).await?
            } else {
                None
            };
            match again {
                Some(allowed) => report.begin_again(&allowed).await?,
                None => return prepared.finish(report, ending, limit).await,
            }
        }
    }
}

fn has_failed(ending: &Ending) -> bool {
    ending.cause == Cause::Ended && !matches!(ending.exit, Some(Exit::Code(0)) | None)
}

#[cfg(test)]
mod tests;
