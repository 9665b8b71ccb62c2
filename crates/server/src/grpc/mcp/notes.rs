//! What a client is told while its call runs: how far it is, what it waits for, and what servers of tools say for a log.
//!
//! *Invariant:* figures grow, whoever they come from. A client that has not asked for notes gets none.

use std::time::Duration;

use rmcp::model::{ProgressNotificationParam, ProgressToken, ServerNotification};
use rmcp::{Peer, RoleServer};
use serde_json::{Value, json};
use tokio::time::Instant;

/// The least time between two notes about output.
const OUTPUT_INTERVAL: Duration = Duration::from_millis(250);

/// Bytes of output that one note shows.
const MAX_OUTPUT_NOTE_BYTES: usize = 2 * 1024;

/// By what a figure grows that has to grow without having changed.
const SMALL_STEP: f64 = 1e-6;

/// The levels of lines for a log, the least important first.
const LEVELS: [&str; 8] = [
    "debug",
    "info",
    "notice",
    "warning",
    "error",
    "critical",
    "alert",
    "emergency",
];

/// Returns the rank of a level.
pub(super) fn level(name: &str) -> Option<usize> {
    LEVELS.iter().position(|level| *level == name)
}

/// Of a client that has not said what it wants, lines of this level and above.
pub(super) const USUAL_LEVEL: usize = 1;

/// What a client that asked for it is told of the call's progress.
pub(super) struct Notes {
    token: Option<ProgressToken>,
    peer: Peer<RoleServer>,
    count: f64,
    last_output: Option<Instant>,
    /// Whether a server of tools says how far it is: then its figures count.
    has_figures: bool,
    /// The least level of the lines for a log that are handed on; none are if there is none.
    log_level: Option<usize>,
    /// What is said again and again while the call waits for somebody else.
    pub(super) waits: Option<String>,
}

impl Notes {
    pub(super) fn new(token: Option<ProgressToken>, peer: Peer<RoleServer>, log_level: Option<usize>) -> Self {
        Self {
            token,
            peer,
            count: 0.0,
            last_output: None,
            has_figures: false,
            log_level,
            waits: None,
        }
    }

    /// Says whether the client wants to know how far the call is.
    pub(super) fn are_wanted(&self) -> bool {
        self.token.is_some()
    }

    /// Goes on with another request for the same call.
    pub(super) fn go_on(&mut self, next: Self) {
        *self = Self {
            waits: self.waits.take(),
            ..next
        };
    }

    pub(super) async fn say(&mut self, text: String) {
        if text.is_empty() {
            return;
        }
        // Figures have to grow; those of a server stay what they are.
        self.count += if self.has_figures { SMALL_STEP } else { 1.0 };
        self.send(None, Some(text)).await;
    }

    /// Hands on how far a server of tools is.
    pub(super) async fn relay(&mut self, progress: f64, total: Option<f64>, message: Option<String>) {
        self.has_figures = true;
        self.count = if progress > self.count {
            progress
        } else {
            self.count + SMALL_STEP
        };
        self.send(total, message).await;
    }

    async fn send(&mut self, total: Option<f64>, message: Option<String>) {
        let Some(token) = self.token.clone() else { return };
        let mut note = ProgressNotificationParam::new(token, self.count);
        note.total = total;
        note.message = message;
        if let Err(error) = self.peer.notify_progress(note).await {
            tracing::debug!(%error, "a client could not be told of progress");
        }
    }

    /// Hands on a line for a log, if the client wants lines of its level.
    pub(super) async fn log(&self, line: Value) {
        let wanted = self.log_level.zip(line["level"].as_str().and_then(level));
        if wanted.is_none_or(|(least, level)| level < least) {
            return;
        }
        let line = json!({"method": "notifications/message", "params": line});
        let Ok(line) = serde_json::from_value::<ServerNotification>(line) else {
            return;
        };
        if let Err(error) = self.peer.send_notification(line).await {
            tracing::debug!(%error, "a client could not be told a line for its log");
        }
    }

    /// Shows the last lines of new output, not more often than anybody reads.
    pub(super) async fn show_output(&mut self, data: &[u8]) {
        let is_early = self.last_output.is_some_and(|last| last.elapsed() < OUTPUT_INTERVAL);
        if is_early || self.token.is_none() {
            return;
        }
        self.last_output = Some(Instant::now());
        let tail = &data[data.len().saturating_sub(MAX_OUTPUT_NOTE_BYTES)..];
        self.say(String::from_utf8_lossy(tail).trim_end().to_owned()).await;
    }
}
