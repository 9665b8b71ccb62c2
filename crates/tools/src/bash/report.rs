//! What becomes of the output of a command: all of it is stored, its beginning travels as metadata.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::time::Instant;
use toolgate_model::{CommandResult, OutputText, ToolOutput, ToolResult, WarningKind, json_map};
use toolgate_process::{Cause, Ending, Exit, Output};
use toolgate_tool::{ToolContext, ToolError};

use super::confine::Confined;
use super::input::Limit;

/// How long a cancelled call goes on handing over what was printed before.
pub(super) const CANCELLED_DRAIN: Duration = Duration::from_millis(100);

/// What becomes of the output.
pub(super) struct Report<'a> {
    ctx: &'a ToolContext,
    description: String,
    preview: Preview,
    has_output: bool,
    /// Where in the preview the output of the present run begins.
    run_begins: usize,
}

impl<'a> Report<'a> {
    pub(super) fn new(description: String, ctx: &'a ToolContext) -> Self {
        Self {
            ctx,
            description,
            preview: Preview::new(Instant::now()),
            has_output: false,
            run_begins: 0,
        }
    }

    /// Returns the beginning of what the present run has printed.
    pub(super) fn printed(&self) -> &str {
        self.preview.text.get(self.run_begins..).unwrap_or_default()
    }

    /// Marks in the output that the command runs again, and why.
    pub(super) async fn begin_again(&mut self, allowed: &str) -> Result<(), ToolError> {
        let line = format!("\n[Allowed: {allowed}. The command runs again.]\n");
        self.append(Bytes::from(line)).await?;
        self.run_begins = self.preview.text.len();
        Ok(())
    }

    /// Hands over everything that the program prints.
    pub(super) async fn pump(&mut self, output: Option<Output>) -> Result<(), ToolError> {
        let Some(mut output) = output else { return Ok(()) };
        let ctx = self.ctx;
        // What is printed while a chunk is stored gathers in the pipe, so that a flood takes few and large steps.
        let mut storing = None;
        loop {
            let due = self.preview.due();
            tokio::select! {
                stored = settled(&mut storing) => {
                    storing = None;
                    stored?;
                }
                chunk = output.next(), if storing.is_none() => {
                    let Some(chunk) = chunk else { return Ok(()) };
                    self.append_preview(&chunk);
                    storing = Some(Box::pin(ctx.output.write(chunk)));
                }
                () = tokio::time::sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => self.publish().await,
            }
        }
    }

    fn append_preview(&mut self, chunk: &[u8]) {
        self.has_output = true;
        self.preview.push(chunk);
    }

    async fn append(&mut self, chunk: Bytes) -> Result<(), ToolError> {
        self.append_preview(&chunk);
        self.ctx.output.write(chunk).await
    }

    pub(super) async fn publish(&mut self) {
        let patch = json_map([
            ("output", Value::String(self.preview.publish(Instant::now()))),
            ("description", json!(self.description)),
        ]);
        self.ctx.output.progress(None, patch).await;
    }

    /// Ends the output and makes the result; `left` processes go on in the background.
    pub(super) async fn finish(
        mut self,
        ending: Ending,
        limit: Limit,
        confined: &Confined,
        left: usize,
    ) -> Result<ToolOutput, ToolError> {
        if ending.survivors > 0 {
            let text = format!("{} processes of the command could not be ended", ending.survivors);
            self.ctx.output.warn(WarningKind::Survivors, text).await;
        }
        let block = Bytes::from(closing_block(&ending, limit, self.ctx.cancelled.is_cancelled()));
        match ending.cause {
            Cause::Ended => {
                if let Some(note) = confined.hint() {
                    self.append(Bytes::from(note)).await?;
                }
            }
            Cause::TimedOut => self.append(block).await?,
            Cause::Cancelled => {
                // The metadata keep what the command printed (`docs/spec/bash.md` §9 B12).
                let appended = tokio::time::timeout(CANCELLED_DRAIN, self.ctx.output.write(block));
                // The call is over in any case; the metadata below says what the readers may have missed.
                let _ = appended.await;
                self.publish().await;
                return Err(ToolError::Cancelled);
            }
        }
        let result = CommandResult {
            exit_code: match ending.exit {
                Some(Exit::Code(code)) => Some(code),
                Some(Exit::Signal(_)) | None => None,
            },
            signal: match ending.exit {
                Some(Exit::Signal(signal)) => Some(signal),
                Some(Exit::Code(_)) | None => None,
            },
            timed_out: ending.cause == Cause::TimedOut,
            left,
            background: None,
        };
        let output = if self.has_output {
            OutputText::Stored
        } else {
            OutputText::default()
        };
        let mut metadata = json_map([
            ("output", Value::String(self.preview.text())),
            ("exit", json!(result.exit_code)),
            ("description", json!(self.description)),
            ("sandbox", confined.metadata()),
        ]);
        if left > 0 {
            metadata.insert("background".to_owned(), json!(left));
        }
        Ok(ToolOutput {
            metadata,
            title: self.description,
            output,
            attachments: Vec::new(),
            result: Some(ToolResult::Command(result)),
        })
    }
}

/// Waits for what is under way; for ever if nothing is.
async fn settled<F: Future + Unpin>(under_way: &mut Option<F>) -> F::Output {
    match under_way {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

/// Returns what is appended to the output of a command that was ended (`docs/spec/bash.md` §7).
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
pub(super) struct Preview {
    text: String,
    pub(super) units: usize,
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
    pub(super) const MIN_INTERVAL: Duration = Duration::from_millis(100);

    /// The time after which little news is published too.
    pub(super) const MAX_DELAY: Duration = Duration::from_secs(1);

    pub(super) fn new(started: Instant) -> Self {
        Self {
            text: String::new(),
            units: 0,
            is_cut: false,
            published: None,
            started,
        }
    }

    pub(super) fn push(&mut self, chunk: &[u8]) {
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
    pub(super) fn due(&self) -> Option<Instant> {
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
        Some(last.at + if is_news { Self::MIN_INTERVAL } else { Self::MAX_DELAY })
    }

    pub(super) fn publish(&mut self, now: Instant) -> String {
        self.published = Some(Published {
            at: now,
            bytes: self.text.len(),
            is_cut: self.is_cut,
        });
        self.text()
    }

    pub(super) fn text(&self) -> String {
        let end = if self.is_cut { "\n\n..." } else { "" };
        format!("{}{end}", self.text)
    }
}
