//! `bash`: runs one command line in a shell (`docs/spec/bash.md`).
//!
//! *Invariant:* holds no output but the first 30,000 characters, which travel as metadata; everything else goes to the
//! stored output as it appears, and the program is made to wait while that is written.

mod approval;
pub mod background;
mod confine;
mod hooked;
mod report;

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use toolgate_model::{Effect, ToolOutput};
use toolgate_process::{Cause, Ending, Exit, Launch, Programs, Running, StartError, Stdin};
use toolgate_tool::{About, Offer, Properties, ToolContext, ToolError, TypedTool};

pub use approval::asks;
use approval::{Approved, approve};
use confine::Confined;
pub use confine::{Confine, Confining, NetworkUse};
use report::{CANCELLED_DRAIN, Report};

/// The longest time limit, in milliseconds: what the timers of other implementations can hold.
const MAX_TIMEOUT_MS: f64 = 2_147_483_547.0;

/// The longest command line: what the kernel takes as one argument, less its end mark.
const MAX_COMMAND_BYTES: usize = 128 * 1024 - 1;

/// Comes on top of every time limit.
const TIMEOUT_MARGIN: Duration = Duration::from_millis(100);

/// Said before a person is asked.
const NO_SHELL: &str = "There is no shell on this machine, so no command can be run. Do the task with the other tools, and \
                        if it needs a command, say so in your answer.";

/// How command lines are run: by which programs, confined to what.
#[derive(Clone)]
pub struct Shell {
    programs: Programs,
    confine: Option<Arc<Confine>>,
}

impl Shell {
    /// Makes it; without a confinement commands have the rights of the service.
    pub fn new(programs: Programs, confine: Option<Arc<Confine>>) -> Self {
        Self { programs, confine }
    }

    /// Asks for all that a command line needs, and says what to start then.
    async fn prepare(&self, input: &Input, stdin: Stdin, ctx: &ToolContext) -> Result<Prepared<'_>, ToolError> {
        let Some(shell) = self.programs.shell() else {
            return Err(ToolError::Failed(NO_SHELL.to_owned()));
        };
        let approved = approve(input, ctx).await?;
        if ctx.cancelled.is_cancelled() {
            return Err(ToolError::Cancelled);
        }
        let Approved {
            workdir,
            outside,
            judged,
        } = approved;
        let environment = ctx.hooks.shell_environment(&workdir.shown).await?;
        hooked::approve(&environment, input, ctx).await?;
        Ok(Prepared {
            confined: Confined::new(self.confine.as_deref(), &workdir.real, &outside, &judged, ctx),
            launch: Launch {
                call: ctx.call.as_str().to_owned(),
                program: shell.to_path_buf(),
                arguments: vec!["-c".into(), OsString::from(&input.command)],
                directory: workdir.real,
                shown_directory: workdir.shown,
                environment: environment
                    .into_iter()
                    .map(|(name, value)| (name.into(), value.into()))
                    .collect(),
                stdin,
                sandbox: None,
            },
            programs: &self.programs,
        })
    }
}

/// A command line that may be run.
struct Prepared<'a> {
    programs: &'a Programs,
    launch: Launch,
    confined: Confined,
}

impl Prepared<'_> {
    async fn start(&mut self) -> Result<Running, ToolError> {
        let mut launch = self.launch.clone();
        launch.sandbox = self.confined.prepare().await?;
        self.programs.start(launch).await.map_err(not_started)
    }

    async fn finish(&self, report: Report<'_>, ending: Ending, limit: Limit) -> Result<ToolOutput, ToolError> {
        let left = match ending.cause {
            Cause::Ended => self.programs.left_by(&self.launch.call).await.len(),
            Cause::TimedOut | Cause::Cancelled => 0,
        };
        report.finish(ending, limit, &self.confined, left).await
    }
}

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

/// The arguments of `bash`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Input {
    /// The command line to run
    command: String,
    /// Time limit in milliseconds
    timeout: Option<f64>,
    /// The directory to run the command in, absolute or relative to the default one. Use this instead of `cd`.
    workdir: Option<String>,
    /// What the command does, for people, in five to ten words
    description: String,
    /// Starts the command and returns at once; the command goes on until it ends or is stopped
    background: Option<bool>,
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

    async fn run(&self, input: Input, ctx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let limit = Limit::new(input.timeout, self.default_timeout)?;
        check_command(&input.command)?;
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

/// Refuses what no shell can be started with, before a person is asked about it.
fn check_command(command: &str) -> Result<(), ToolError> {
    let problem = match command.len() {
        0 => "is empty. Write the command line to run.".to_owned(),
        length if length > MAX_COMMAND_BYTES => {
            format!(
                "has {length} bytes, and the system takes {MAX_COMMAND_BYTES} at most. Write a script and run that."
            )
        }
        _ if command.contains('\0') => {
            "contains a NUL byte, which no shell accepts. Write \\0 in its place.".to_owned()
        }
        _ => return Ok(()),
    };
    Err(ToolError::Failed(format!("The command {problem}")))
}

/// A time limit as given and as applied.
#[derive(Clone, Copy, Debug)]
struct Limit {
    shown_ms: f64,
    time: Duration,
}

impl Limit {
    /// No limit: longer than any service runs.
    const NONE: Self = Self {
        shown_ms: MAX_TIMEOUT_MS,
        time: Duration::MAX,
    };

    fn new(given: Option<f64>, default: Duration) -> Result<Self, ToolError> {
        Self::given(given.unwrap_or(default.as_secs_f64() * 1000.0))
    }

    fn given(shown_ms: f64) -> Result<Self, ToolError> {
        if shown_ms < 0.0 {
            return Err(ToolError::Failed(format!(
                "Invalid timeout value: {shown_ms}. Timeout must be a positive number."
            )));
        }
        let shown_ms = shown_ms.min(MAX_TIMEOUT_MS);
        let time = Duration::from_secs_f64(shown_ms / 1000.0) + TIMEOUT_MARGIN;
        Ok(Self { shown_ms, time })
    }
}

fn has_failed(ending: &Ending) -> bool {
    ending.cause == Cause::Ended && !matches!(ending.exit, Some(Exit::Code(0)) | None)
}

/// Stays with a program to its end and hands over what it prints.
async fn follow(
    running: Running,
    report: &mut Report<'_>,
    limit: Limit,
    ctx: &ToolContext,
) -> Result<Ending, ToolError> {
    report.publish().await;
    let ending = pump(running, report, limit, ctx).await;
    if ending.is_err() {
        // The last look at what is kept, before the call ends without a result.
        report.publish().await;
    }
    ending
}

/// Hands over what the program prints until it has ended.
async fn pump(
    mut running: Running,
    report: &mut Report<'_>,
    limit: Limit,
    ctx: &ToolContext,
) -> Result<Ending, ToolError> {
    let output = running.take_output();
    let mut pumping = Box::pin(report.pump(output));
    let mut supervising = Box::pin(running.supervise(limit.time, &ctx.cancelled));
    tokio::select! {
        ending = &mut supervising => {
            match ending.cause {
                Cause::Ended | Cause::TimedOut => pumping.await?,
                // The engine waits only a moment for a cancelled call; what is left is given up.
                Cause::Cancelled => tokio::time::timeout(CANCELLED_DRAIN, pumping).await.unwrap_or(Ok(()))?,
            }
            Ok(ending)
        }
        // An error drops the supervision, and that kills the program.
        pumped = &mut pumping => {
            pumped?;
            drop(pumping);
            Ok(supervising.await)
        }
    }
}

fn not_started(error: StartError) -> ToolError {
    match error {
        StartError::NulByte { .. } | StartError::Directory { .. } | StartError::Program { .. } => {
            ToolError::Failed(format!("The command could not be started: {error}"))
        }
        StartError::Confine { .. } => ToolError::Failed(format!("The command was not run: {error}")),
        StartError::Process { .. } | StartError::Closed => ToolError::Quota(format!(
            "The command could not be started: {error}. Nothing was run; try again later."
        )),
        StartError::Streams { .. } => ToolError::Internal(error.into()),
    }
}

#[cfg(test)]
mod tests;
