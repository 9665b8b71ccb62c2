//! A call as a person sees it: output on standard output as it comes, everything else on standard error.
//!
//! Output that was shown whole while it came is not shown again as the result; what the result adds to it (why a
//! command was stopped, for instance) goes to standard error. A result that was never streamed is printed at the end.
//!
//! *Invariant:* with `--json`, standard output has one event per line and nothing else.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use prost_types::Timestamp;
use toolgate_contract::call_completed::Result as Typed;
use toolgate_contract::call_event::Event;
use toolgate_contract::{
    Attachment, CallCompleted, CallEvent, CallFailed, CallGap, CallOutcome, CallResumed, CallRunning, FailureReason,
    PromptDecision, Timing, Truncation,
};

use super::exit::{Exit, Failure};
use super::prompt;
use super::terminal::{self, Look, Terminal, short, visible};
use super::words;

const TITLE: usize = 100;
/// Streamed output is compared with the result up to this size; a longer one is taken to be the same.
const REMEMBERED: usize = 1 << 20;
const TICK: Duration = Duration::from_millis(100);
/// A shorter wait is not told.
const TOLD: Duration = Duration::from_millis(100);

/// What of the output was already shown.
#[derive(Debug, Default)]
struct Shown {
    bytes: Vec<u8>,
    total: u64,
    ends_line: bool,
    has_gaps: bool,
}

impl Shown {
    fn add(&mut self, data: &[u8]) {
        let room = REMEMBERED.saturating_sub(self.bytes.len());
        self.bytes.extend_from_slice(&data[..data.len().min(room)]);
        self.total += data.len() as u64;
        if let Some(last) = data.last() {
            self.ends_line = *last == b'\n';
        }
    }

    /// Returns what is left to show of a result.
    fn rest<'a>(&self, result: &'a str, truncated: bool) -> Rest<'a> {
        if self.total == 0 {
            return Rest::Result(result);
        }
        if self.has_gaps || truncated || self.total > self.bytes.len() as u64 {
            return Rest::Addition("");
        }
        match result.strip_prefix(&*String::from_utf8_lossy(&self.bytes)) {
            Some(addition) => Rest::Addition(addition.trim()),
            None => Rest::Result(result),
        }
    }
}

/// What is left to show of a result.
#[derive(Debug, PartialEq, Eq)]
enum Rest<'a> {
    /// All of it: it is not what was streamed.
    Result(&'a str),
    /// What the result says after the output that was streamed.
    Addition(&'a str),
}

/// Shows one call.
pub(super) struct CallView {
    terminal: Terminal,
    tool: String,
    spinner: Option<ProgressBar>,
    shown: Shown,
    /// When the call was made, if that was seen.
    begun: Option<Timestamp>,
    /// Whether `toolgate output` can be pointed at: not when the service ends with the command.
    outlives: bool,
    /// Whether this program answers the prompts, so that nobody else need be connected.
    pub(super) answers: bool,
    /// What a person left out of the input, if its arguments are refused; what the service says of that is for models.
    pub(super) missing: Option<String>,
    /// The rule that denied the call, in words; what the service says of that is for models.
    pub(super) denied_by: Option<String>,
    /// What this program itself decides about what is asked, and why, if no person does.
    pub(super) decides: Option<(PromptDecision, &'static str)>,
    /// That something was not allowed, until it is told: by the end of the call, if that is the reason for it.
    refusal: Option<String>,
}

impl CallView {
    /// Begins to show a call of a tool.
    pub(super) fn new(terminal: Terminal, tool: &str, outlives: bool) -> Self {
        let mut view = Self {
            terminal,
            tool: tool.to_owned(),
            spinner: None,
            shown: Shown::default(),
            begun: None,
            outlives,
            answers: false,
            missing: None,
            denied_by: None,
            decides: None,
            refusal: None,
        };
        view.spin();
        view
    }

    /// Shows a spinner where a person looks, unless output on the same terminal would collide with it.
    fn spin(&mut self) {
        let collides = self.terminal.shows_output && self.shown.total > 0;
        if self.terminal.json || !self.terminal.shows_notes || collides || self.spinner.is_some() {
            return;
        }
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed:.dim}") {
            bar.set_style(style);
        }
        bar.set_message(visible(&self.tool).into_owned());
        bar.enable_steady_tick(TICK);
        self.spinner = Some(bar);
    }

    /// Shows an event; a terminal one returns how the program ends.
    pub(super) fn show(&mut self, event: &CallEvent) -> Result<Option<Exit>, Failure> {
        if let Some(Event::Pending(pending)) = &event.event {
            self.tool.clone_from(&pending.tool);
            self.begun = event.event_time;
        }
        if self.terminal.json {
            self.terminal.message(event)?;
            return Ok(end_of(event));
        }
        if !matches!(&event.event, None | Some(Event::Heartbeat(_) | Event::Failed(_)))
            && let Some(refusal) = self.refusal.take()
        {
            self.inform(&self.terminal.err.text(Look::Dim, &refusal));
        }
        match &event.event {
            None | Some(Event::Heartbeat(_)) => {}
            Some(Event::Pending(pending)) => {
                if let Some(queued) = &pending.queued {
                    self.status(&format!("({})", queued.limit), "waits for its turn");
                }
            }
            Some(Event::Running(running)) => self.running(running),
            Some(Event::Metadata(metadata)) => {
                if let Some(title) = &metadata.title {
                    self.status(title, "");
                }
            }
            Some(Event::Output(output)) => self.output(&output.data)?,
            // Whoever answers prompts shows them.
            Some(Event::Waiting(_)) if self.answers => self.status("", "waits for a decision"),
            Some(Event::Waiting(waiting)) => self.status(
                "",
                &format!(
                    "waits for a decision; {} connected",
                    terminal::counted(waiting.approvers, "approver")
                ),
            ),
            Some(Event::Resumed(resumed)) => self.resumed(resumed),
            Some(Event::Child(child)) => {
                let end = if self.outlives {
                    ""
                } else {
                    "; it ends with this program"
                };
                let text = format!("started {} as call {}{end}", child.tool, child.call_id);
                self.inform(&self.terminal.err.text(Look::Dim, &visible(&text)));
            }
            Some(Event::Listening(listening)) => {
                let text = format!("the command {}", words::listening(&listening.ports));
                self.inform(&self.terminal.err.text(Look::Dim, &text));
            }
            Some(Event::Warning(warning)) => {
                let mark = self.terminal.err.text(Look::Yellow, "warning:");
                self.inform(&format!("{mark} {}", visible(&warning.text)));
            }
            Some(Event::Gap(gap)) => self.gap(gap),
            Some(Event::Completed(end)) => {
                let took = took(self.begun, event.event_time, end.timing.as_ref());
                self.completed(end, &took)?;
            }
            Some(Event::Failed(end)) => {
                // How long a call ran that was lost nobody knows.
                let timing = end.timing.as_ref().filter(|_| end.reason() != FailureReason::Lost);
                let took = timing.map(|timing| took(self.begun, event.event_time, Some(timing)));
                self.failed(end, &took.unwrap_or_default())?;
            }
        }
        Ok(end_of(event))
    }

    /// Tells a person something between the events.
    pub(super) fn inform(&self, text: &str) {
        match &self.spinner {
            Some(spinner) => spinner.suspend(|| self.terminal.inform(text)),
            None => self.terminal.inform(text),
        }
    }

    /// Takes the spinner away: the terminal belongs to a question or to output, or the call is over.
    pub(super) fn rest(&mut self) {
        if let Some(spinner) = self.spinner.take() {
            spinner.finish_and_clear();
        }
    }

    fn running(&self, running: &CallRunning) {
        self.status(&running.title, "running");
        if self.terminal.verbose {
            self.inform(&format!(
                "input {} (sha256 {})",
                visible(&running.input_json),
                running.input_digest
            ));
        }
    }

    /// Shows the state and the title: in the spinner where there is one, else as a line.
    fn status(&self, title: &str, state: &str) {
        let text = format!("{} {state} {}", visible(&self.tool), short(title, TITLE));
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        match &self.spinner {
            Some(spinner) => spinner.set_message(text),
            None if !self.terminal.shows_notes => self.terminal.inform(&text),
            None => {}
        }
    }

    fn output(&mut self, data: &[u8]) -> Result<(), Failure> {
        // A spinner below a line that is not finished would overwrite it.
        if self.terminal.shows_output {
            self.rest();
        }
        self.shown.add(data);
        self.terminal.bytes(data)
    }

    fn resumed(&mut self, resumed: &CallResumed) {
        let outcome = prompt::outcome(resumed.state, resumed.resolution.as_ref());
        let resolution = resumed.resolution.as_ref();
        let own = self.decides.take();
        let own = own.filter(|(decision, _)| resolution.is_some_and(|one| one.decision() == *decision));
        let told = own.map_or(outcome, |(decision, why)| {
            format!("{}, {why}", prompt::decided(decision))
        });
        if prompt::is_allowed(resumed.state, resolution) {
            self.inform(&self.terminal.err.text(Look::Dim, &told));
        } else {
            self.refusal = Some(told);
        }
        self.spin();
    }

    fn gap(&mut self, gap: &CallGap) {
        if gap.output_bytes > 0 {
            self.shown.has_gaps = true;
            self.inform(&self.terminal.err.text(
                Look::Dim,
                &format!("… {} left out …", terminal::bytes(gap.output_bytes)),
            ));
        }
    }

    fn completed(&mut self, end: &CallCompleted, took: &str) -> Result<(), Failure> {
        self.rest();
        let truncated = end.truncation.as_ref().is_some_and(|truncation| truncation.truncated);
        self.end_line()?;
        match self.shown.rest(&end.output, truncated) {
            Rest::Result("") | Rest::Addition("") => {}
            Rest::Result(result) => self.terminal.bytes(with_newline(result).as_bytes())?,
            Rest::Addition(addition) => self.inform(&visible(addition)),
        }
        self.attachments(&end.attachments);
        self.truncation(end.truncation.as_ref());
        if let Some(count) = background(end) {
            let processes = if count == 1 {
                "1 process keeps running"
            } else {
                &format!("{count} processes keep running")
            };
            self.inform(&format!("{processes} in the background; toolgate cancel ends that"));
        }
        let mark = match end.outcome() {
            CallOutcome::Invalid => self.terminal.err.text(Look::Red, "failed"),
            CallOutcome::Unspecified | CallOutcome::Ok => self.terminal.err.text(Look::Green, "completed"),
            CallOutcome::NonZero | CallOutcome::TimedOut | CallOutcome::Partial => {
                self.terminal.err.text(Look::Yellow, &words::outcome(end))
            }
        };
        let title = short(&end.title, TITLE);
        self.summary(&format!("{mark} {} {title}", visible(&self.tool)), took);
        Ok(())
    }

    fn failed(&mut self, end: &CallFailed, took: &str) -> Result<(), Failure> {
        self.rest();
        self.end_line()?;
        let refusal = self.refusal.take();
        self.terminal.error(&visible(&self.failure(end, refusal, took)));
        self.attachments(&end.attachments);
        self.truncation(end.truncation.as_ref());
        Ok(())
    }

    /// Says how a call failed, and why, to people: what the service says is for models.
    fn failure(&self, end: &CallFailed, refusal: Option<String>, took: &str) -> String {
        let Self { tool, missing, .. } = self;
        match (end.reason(), refusal) {
            (FailureReason::Rejected | FailureReason::PromptExpired | FailureReason::DoomLoop, Some(refusal)) => {
                format!("{tool}: {refusal}")
            }
            (FailureReason::Denied, _) => {
                format!("{tool}: denied by {}", self.denied_by.as_deref().unwrap_or("a rule"))
            }
            (FailureReason::DoomLoop, None) => format!("{tool}: the same call again and again is not allowed"),
            (FailureReason::InvalidArguments, _) => missing.clone().unwrap_or_else(|| format!("{tool}: {}", end.error)),
            (FailureReason::Cancelled, _) => format!("{tool}: cancelled{took}"),
            (
                FailureReason::Unspecified
                | FailureReason::Rejected
                | FailureReason::PromptExpired
                | FailureReason::TimedOut
                | FailureReason::ToolError
                | FailureReason::Quota
                | FailureReason::Drained
                | FailureReason::Lost
                | FailureReason::Internal,
                _,
            ) => format!("{tool} failed{took}: {}", end.error),
        }
    }

    /// Ends an unfinished line before more is written to the same terminal.
    fn end_line(&mut self) -> Result<(), Failure> {
        let unfinished = self.shown.total > 0 && !self.shown.ends_line;
        if unfinished && self.terminal.shows_output {
            self.terminal.bytes(b"\n")?;
        }
        Ok(())
    }

    /// Says how it ended.
    fn summary(&self, text: &str, took: &str) {
        self.inform(&format!("{}{took}", text.trim_end()));
    }

    fn attachments(&self, attachments: &[Attachment]) {
        for attachment in attachments {
            let name = if attachment.filename.is_empty() {
                &attachment.attachment_id
            } else {
                &attachment.filename
            };
            self.inform(&format!("attached: {} ({})", visible(name), visible(&attachment.mime)));
        }
    }

    fn truncation(&self, truncation: Option<&Truncation>) {
        let Some(truncation) = truncation.filter(|truncation| truncation.truncated) else {
            return;
        };
        let whole = format!(
            "{} in {}",
            terminal::bytes(truncation.total_bytes),
            terminal::counted(truncation.total_lines, "line")
        );
        self.inform(&match (self.outlives, truncation.output_id.as_str()) {
            (_, "") => format!("the model sees part of {whole}"),
            (true, id) => format!("the model sees part of {whole}; to see all of it: toolgate output {id}"),
            (false, _) => {
                format!(
                    "the model sees part of {whole}; only a running server (toolgate serve, --server) keeps all of it"
                )
            }
        });
    }
}

impl Drop for CallView {
    fn drop(&mut self) {
        self.rest();
    }
}

/// Says how long a call took, as lists do: with its waiting, which is told where it matters.
fn took(begun: Option<Timestamp>, ended: Option<Timestamp>, timing: Option<&Timing>) -> String {
    let known = |time: Option<prost_types::Duration>| time.and_then(|time| Duration::try_from(time).ok());
    let whole = begun.zip(ended).and_then(|(begun, ended)| words::between(begun, ended));
    let ran = timing.and_then(|timing| known(timing.ran));
    let waited = timing.and_then(|timing| known(timing.waited)).unwrap_or_default();
    match whole.or(ran.map(|ran| ran + waited)).map(words::duration) {
        None => String::new(),
        Some(took) if waited < TOLD => format!(" in {took}"),
        Some(took) => format!(" in {took}, of which {} waiting for people", words::duration(waited)),
    }
}

fn with_newline(text: &str) -> String {
    let end = if text.ends_with('\n') { "" } else { "\n" };
    format!("{text}{end}")
}

/// Returns the exit code of the command that the call ran, if it ran one.
pub(super) fn exit_code(end: &CallCompleted) -> Option<i32> {
    match &end.result {
        Some(Typed::Command(command)) => command.exit_code,
        _ => None,
    }
}

/// Returns how many processes the command left running.
fn background(end: &CallCompleted) -> Option<i32> {
    match &end.result {
        Some(Typed::Command(command)) => Some(command.processes_left).filter(|count| *count > 0),
        _ => None,
    }
}

/// Returns how the program ends after this event, if it is the last.
fn end_of(event: &CallEvent) -> Option<Exit> {
    if let Some(Event::Failed(end)) = &event.event {
        return Some(Exit::of_failure(end.reason()));
    }
    let Some(Event::Completed(end)) = &event.event else {
        return None;
    };
    // What only tells the model that there was nothing to run is no success.
    let is_invalid = end.outcome() == CallOutcome::Invalid;
    Some(if is_invalid { Exit::Usage } else { Exit::Completed })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_not_shown_twice() {
        fn check(streamed: &[&[u8]], result: &str, truncated: bool, expected: Rest<'_>) {
            let mut shown = Shown::default();
            streamed.iter().for_each(|data| shown.add(data));
            assert_eq!(shown.rest(result, truncated), expected);
        }
        check(&[], "text", false, Rest::Result("text"));
        check(&[], "text", true, Rest::Result("text"));
        check(&[b"a\n", b"b\n"], "a\nb\n", false, Rest::Addition(""));
        check(
            &[b"a\n"],
            "a\n\n\n<bash_metadata>\nx\n",
            false,
            Rest::Addition("<bash_metadata>\nx"),
        );
        check(&[b"step 1\n"], "the answer", false, Rest::Result("the answer"));
        check(&[b"a\nb\n"], "a\n\n…", true, Rest::Addition(""));
        check(&[b"\xc3", b"\xa9"], "é", false, Rest::Addition(""));
    }

    #[test]
    fn waiting_counts_as_time_that_a_call_took() {
        let at = |seconds| Some(Timestamp { seconds, nanos: 0 });
        let lasting = |seconds| Some(prost_types::Duration { seconds, nanos: 0 });
        let timing = |waited, ran| Timing {
            waited: lasting(waited),
            ran: lasting(ran),
            ..Timing::default()
        };
        assert_eq!(took(at(1), at(4), Some(&timing(0, 2))), " in 3.0 s");
        let waited = " in 25 s, of which 24 s waiting for people";
        assert_eq!(took(at(1), at(26), Some(&timing(24, 0))), waited);
        // The beginning was not seen.
        assert_eq!(took(None, at(26), Some(&timing(24, 1))), waited);
        assert_eq!(took(None, None, None), "");
    }

    #[test]
    fn left_out_and_large_outputs_count_as_shown() {
        let mut shown = Shown {
            has_gaps: true,
            ..Shown::default()
        };
        shown.add(b"end");
        assert_eq!(shown.rest("begin end", false), Rest::Addition(""));
        let mut shown = Shown::default();
        shown.add(&vec![b'x'; REMEMBERED + 1]);
        assert_eq!(shown.bytes.len(), REMEMBERED);
        assert_eq!(shown.rest("something", false), Rest::Addition(""));
    }
}
