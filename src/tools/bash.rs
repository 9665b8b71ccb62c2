//! `bash`: runs one command line in a shell (`spec/bash.md`).
//!
//! *Invariant:* holds no output but the first 30,000 characters, which travel as metadata; everything else goes to the
//! stored output as it appears, and the program is made to wait while that is written.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::call::{Ask, Effect, OutputText, ToolOutput, json_map};
use crate::process::{Cause, Ending, Exit, Launch, Output, Programs, StartError};
use crate::tool::{About, CallContext, Offer, ToolError, TypedTool};

/// The longest time limit, in milliseconds: what the timers of other implementations can hold.
const MAX_TIMEOUT_MS: f64 = 2_147_483_547.0;

/// The longest command line: what the kernel takes as one argument, less its end mark.
const MAX_COMMAND_BYTES: usize = 128 * 1024 - 1;

/// Comes on top of every time limit.
const TIMEOUT_MARGIN: Duration = Duration::from_millis(100);

/// How long a cancelled call goes on handing over what was printed before.
const CANCELLED_DRAIN: Duration = Duration::from_millis(100);

/// The limits that the engine truncates at, as the description tells them.
const MAX_LINES: usize = 2000;
const MAX_BYTES: usize = 51_200;

/// The `bash` tool.
pub struct Bash {
    programs: Programs,
    default_timeout: Duration,
}

impl Bash {
    /// Makes the tool; `default_timeout` is for calls that name none.
    pub fn new(programs: Programs, default_timeout: Duration) -> Self {
        Self {
            programs,
            default_timeout,
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
}

#[async_trait]
impl TypedTool for Bash {
    type Input = Input;

    const ABOUT: About = About {
        name: "bash",
        effects: &[Effect::Reads, Effect::Writes, Effect::RunsPrograms, Effect::Network],
        permissions: &["bash", "external_directory"],
        advertised: true,
        resumable: true,
        example: r#"{"command": "ls -la", "description": "Lists the files of the project"}"#,
    };

    fn description(&self, offer: &Offer<'_>) -> String {
        include_str!("bash.md")
            .replace("{default_timeout}", &self.default_timeout.as_millis().to_string())
            .replace("{max_lines}", &MAX_LINES.to_string())
            .replace("{max_bytes}", &MAX_BYTES.to_string())
            // Last, since a path may hold anything.
            .replace("{directory}", &offer.workspace.directory().to_string_lossy())
    }

    async fn run(&self, input: Input, ctx: &CallContext) -> Result<ToolOutput, ToolError> {
        let limit = Limit::new(input.timeout, self.default_timeout)?;
        check_command(&input.command)?;
        let workdir = enter(input.workdir.as_deref(), ctx).await?;
        ask(&input, &workdir, ctx).await?;
        if ctx.cancelled.is_cancelled() {
            return Err(ToolError::Cancelled);
        }
        let launch = Launch {
            call: ctx.call.as_str().to_owned(),
            program: self.programs.shell().to_path_buf(),
            arguments: vec!["-c".into(), OsString::from(&input.command)],
            directory: workdir.real,
            shown_directory: workdir.shown,
        };
        execute(&self.programs, launch, input.description, limit, ctx).await
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
    fn new(given: Option<f64>, default: Duration) -> Result<Self, ToolError> {
        let shown_ms = given.unwrap_or(default.as_secs_f64() * 1000.0);
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

/// The working directory: where the shell is put, and how people write that.
struct Workdir {
    real: PathBuf,
    shown: PathBuf,
}

/// Resolves the working directory, and asks for it if it lies outside.
async fn enter(workdir: Option<&str>, ctx: &CallContext) -> Result<Workdir, ToolError> {
    let Some(written) = workdir.filter(|written| !written.is_empty()) else {
        let directory = ctx.workspace.directory().to_path_buf();
        return Ok(Workdir {
            real: directory.clone(),
            shown: directory,
        });
    };
    let (workspace, text) = (ctx.workspace.clone(), written.to_owned());
    let resolved = blocking(move || workspace.resolve(&text)).await?;
    ctx.ask_outside(&resolved, true).await?;
    let (real, shown) = (resolved.real().to_path_buf(), resolved.shown().to_path_buf());
    let target = real.clone();
    let problem = match blocking(move || std::fs::metadata(target)).await? {
        Ok(metadata) if metadata.is_dir() => return Ok(Workdir { real, shown }),
        Ok(_) => "it is not a directory".to_owned(),
        Err(error) => error.to_string(),
    };
    Err(ToolError::Failed(format!(
        "The working directory {} cannot be used: {problem}",
        shown.display()
    )))
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, ToolError> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| ToolError::Internal(error.into()))
}

async fn ask(input: &Input, workdir: &Workdir, ctx: &CallContext) -> Result<(), ToolError> {
    // An approval is a wildcard, so a line that holds one would approve more than itself.
    let is_offered = !input.command.contains(['*', '?']) && !input.command.trim().is_empty();
    let metadata = json_map([
        ("command", json!(input.command)),
        ("workdir", json!(workdir.shown.to_string_lossy())),
        ("description", json!(input.description)),
    ]);
    ctx.ask(Ask {
        permission: "bash".to_owned(),
        patterns: vec![input.command.clone()],
        always: is_offered.then(|| input.command.clone()).into_iter().collect(),
        title: input.description.clone(),
        metadata,
    })
    .await?;
    Ok(())
}

/// Runs the command line and hands over what it prints.
async fn execute(
    programs: &Programs,
    launch: Launch,
    description: String,
    limit: Limit,
    ctx: &CallContext,
) -> Result<ToolOutput, ToolError> {
    let mut running = programs.start(launch).await.map_err(not_started)?;
    let mut report = Report::new(description, ctx);
    report.publish().await;
    let output = running.take_output();
    let mut pumping = Box::pin(report.pump(output));
    let mut supervising = Box::pin(running.supervise(limit.time, &ctx.cancelled));
    let ending = tokio::select! {
        ending = &mut supervising => {
            match ending.cause {
                Cause::Ended | Cause::TimedOut => pumping.await?,
                // The engine waits only a moment for a cancelled call; what is left is given up.
                Cause::Cancelled => tokio::time::timeout(CANCELLED_DRAIN, pumping).await.unwrap_or(Ok(()))?,
            }
            ending
        }
        // An error drops the supervision, and that kills the program.
        pumped = &mut pumping => {
            pumped?;
            drop(pumping);
            supervising.await
        }
    };
    report.finish(ending, limit).await
}

fn not_started(error: StartError) -> ToolError {
    match error {
        StartError::NulByte { .. } | StartError::Directory { .. } | StartError::Program { .. } => {
            ToolError::Failed(format!("The command could not be started: {error}"))
        }
        StartError::Process { .. } | StartError::Closed => ToolError::Quota(format!(
            "The command could not be started: {error}. Nothing was run; try again later."
        )),
        StartError::Streams { .. } => ToolError::Internal(error.into()),
    }
}

/// What becomes of the output.
struct Report<'a> {
    ctx: &'a CallContext,
    description: String,
    preview: Preview,
    has_output: bool,
}

impl<'a> Report<'a> {
    fn new(description: String, ctx: &'a CallContext) -> Self {
        Self {
            ctx,
            description,
            preview: Preview::new(Instant::now()),
            has_output: false,
        }
    }

    /// Hands over everything that the program prints.
    async fn pump(&mut self, output: Option<Output>) -> Result<(), ToolError> {
        let Some(mut output) = output else { return Ok(()) };
        loop {
            let due = self.preview.due();
            tokio::select! {
                chunk = output.next() => match chunk {
                    Some(chunk) => self.append(chunk).await?,
                    None => return Ok(()),
                },
                () = tokio::time::sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => self.publish().await,
            }
        }
    }

    async fn append(&mut self, chunk: Bytes) -> Result<(), ToolError> {
        self.has_output = true;
        self.preview.push(&chunk);
        self.ctx.output(chunk).await
    }

    async fn publish(&mut self) {
        let patch = json_map([
            ("output", Value::String(self.preview.publish(Instant::now()))),
            ("description", json!(self.description)),
        ]);
        self.ctx.progress(None, patch).await;
    }

    async fn finish(mut self, ending: Ending, limit: Limit) -> Result<ToolOutput, ToolError> {
        if ending.survivors > 0 {
            let text = format!("{} processes of the command could not be ended", ending.survivors);
            self.ctx.warn("survivors", text).await;
        }
        let block = Bytes::from(closing_block(&ending, limit, self.ctx.cancelled.is_cancelled()));
        match ending.cause {
            Cause::Ended => {}
            Cause::TimedOut => self.append(block).await?,
            Cause::Cancelled => {
                let appended = tokio::time::timeout(CANCELLED_DRAIN, self.append(block));
                // The call is over in any case; the metadata below says what the readers may have missed.
                let _ = appended.await;
                self.publish().await;
                return Err(ToolError::Cancelled);
            }
        }
        let exit = match ending.exit {
            Some(Exit::Code(code)) => json!(code),
            Some(Exit::Signal(_)) | None => Value::Null,
        };
        let output = if self.has_output {
            OutputText::Stored
        } else {
            OutputText::default()
        };
        Ok(ToolOutput {
            metadata: json_map([
                ("output", Value::String(self.preview.shown())),
                ("exit", exit),
                ("description", json!(self.description)),
            ]),
            title: self.description,
            output,
            attachments: Vec::new(),
        })
    }
}

/// Returns what is appended to the output of a command that was ended (`spec/bash.md` §7).
fn closing_block(ending: &Ending, limit: Limit, aborted: bool) -> String {
    let mut lines = String::new();
    if ending.cause == Cause::TimedOut {
        let shown_ms = limit.shown_ms;
        lines += &format!("bash tool terminated command after exceeding timeout {shown_ms} ms\n");
    }
    if ending.cause == Cause::Cancelled || aborted {
        lines += "User aborted the command\n";
    }
    format!("\n\n<bash_metadata>\n{lines}</bash_metadata>")
}

/// The beginning of the output, as it travels in the metadata.
struct Preview {
    text: String,
    units: usize,
    is_cut: bool,
    published: Option<Published>,
    started: Instant,
}

/// What was published last.
#[derive(Clone, Copy)]
struct Published {
    at: Instant,
    bytes: usize,
    is_cut: bool,
}

impl Preview {
    /// Most UTF-16 units that are shown.
    const MAX_UNITS: usize = 30_000;

    /// The least time between two publications.
    const SPACING: Duration = Duration::from_millis(100);

    /// The time after which little news is published too.
    const PATIENCE: Duration = Duration::from_secs(1);

    fn new(started: Instant) -> Self {
        Self {
            text: String::new(),
            units: 0,
            is_cut: false,
            published: None,
            started,
        }
    }

    fn push(&mut self, chunk: &[u8]) {
        if self.is_cut {
            return;
        }
        // A chunk ends with a whole character, so decoding it by itself damages nothing.
        for letter in String::from_utf8_lossy(chunk).chars() {
            if self.units + letter.len_utf16() > Self::MAX_UNITS {
                self.is_cut = true;
                return;
            }
            self.units += letter.len_utf16();
            self.text.push(letter);
        }
    }

    /// Returns when the next publication is due, none if nothing is new. Growth by a fifth is news, so that the sum of
    /// all publications stays within a few times the text.
    fn due(&self) -> Option<Instant> {
        let last = self.published.unwrap_or(Published {
            at: self.started,
            bytes: 0,
            is_cut: false,
        });
        let grown = self.text.len() - last.bytes;
        if grown == 0 && self.is_cut == last.is_cut {
            return None;
        }
        let is_news = grown * 5 >= last.bytes || self.is_cut;
        Some(last.at + if is_news { Self::SPACING } else { Self::PATIENCE })
    }

    fn publish(&mut self, now: Instant) -> String {
        self.published = Some(Published {
            at: now,
            bytes: self.text.len(),
            is_cut: self.is_cut,
        });
        self.shown()
    }

    fn shown(&self) -> String {
        let end = if self.is_cut { "\n\n..." } else { "" };
        format!("{}{end}", self.text)
    }
}

#[cfg(test)]
mod tests;
