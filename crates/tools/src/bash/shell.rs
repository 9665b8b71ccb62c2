//! From a command line to a running program: what is asked before, what is started, and how it is followed to its end.
//!
//! *Invariant:* no program starts before everything that it needs has been allowed.

use std::ffi::OsString;
use std::sync::Arc;

use toolgate_model::{Resources, ToolOutput};
use toolgate_process::{Cause, Ending, Launch, Programs, PtySize, Running, StartError, Stdin};
use toolgate_tool::{ToolContext, ToolError};

use super::approval::{Approved, approve};
use super::confine::{Confine, Confined};
use super::hooked;
use super::input::{Input, Limit};
use super::report::{CANCELLED_DRAIN, Report};

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

    /// Returns who starts the programs.
    pub(super) fn programs(&self) -> &Programs {
        &self.programs
    }

    /// Asks for all that a command line needs, and says what to start then.
    pub(super) async fn prepare(
        &self,
        input: &Input,
        stdin: Stdin,
        ctx: &ToolContext,
    ) -> Result<Prepared<'_>, ToolError> {
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
        let mut environment = ctx.origin.environment.clone();
        let hooked = ctx.hooks.shell_environment(&workdir.shown).await?;
        hooked::approve(&hooked, input, ctx).await?;
        environment.extend(hooked);
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
pub(super) struct Prepared<'a> {
    programs: &'a Programs,
    launch: Launch,
    pub(super) confined: Confined,
}

impl Prepared<'_> {
    /// Has the program run in a terminal of this size.
    pub(super) fn give_terminal(&mut self, size: PtySize) {
        self.launch.stdin = Stdin::Terminal(size);
    }

    pub(super) async fn start(&mut self) -> Result<Running, ToolError> {
        let mut launch = self.launch.clone();
        launch.sandbox = self.confined.prepare().await?;
        self.programs.start(launch).await.map_err(not_started)
    }

    pub(super) async fn finish(
        &self,
        report: Report<'_>,
        ending: Ending,
        limit: Limit,
    ) -> Result<ToolOutput, ToolError> {
        let left = match ending.cause {
            Cause::Ended => self.programs.left_by(&self.launch.call).await.len(),
            Cause::TimedOut | Cause::Cancelled => 0,
        };
        report.finish(ending, limit, &self.confined, left).await
    }
}

/// Stays with a program to its end and hands over what it prints.
pub(super) async fn follow(
    running: Running,
    report: &mut Report<'_>,
    limit: Limit,
    ctx: &ToolContext,
) -> Result<Ending, ToolError> {
    report.publish().await;
    let ending = pump(running, report, limit, ctx).await;
    if let Ok(Ending { usage: Some(usage), .. }) = &ending {
        ctx.output.used(Resources {
            user: usage.user,
            system: usage.system,
            peak_memory_bytes: usage.peak_memory_bytes,
            read_bytes: usage.read_bytes,
            written_bytes: usage.written_bytes,
        });
    }
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
        StartError::Process { .. } | StartError::Terminal { .. } | StartError::Closed => ToolError::Quota(format!(
            "The command could not be started: {error}. Nothing was run; try again later."
        )),
        StartError::Streams { .. } => ToolError::Internal(error.into()),
    }
}
