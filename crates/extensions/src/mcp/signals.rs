//! What a server says unasked, and what its transport has to say: how far requests have come, that the list of tools has
//! changed, why the connection is lost.
//!
//! *Invariant:* what is kept of a server's words is short, and a server that asks more than it lets be answered is lost.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rmcp::model::ProgressToken;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::wire::Progress;

/// Requests of a server whose answers are on their way.
const MAX_ASKED: usize = 512;

pub(super) const DOES_NOT_READ: &str = "The server does not read what it is sent";

/// Why there is no connection, or none any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Disconnect {
    /// The server wants a login that there is none of, or not any more.
    NeedsAuth {
        /// What it said when it refused.
        challenge: String,
    },
    /// It wants one that cannot be had before somebody registers this client.
    NeedsRegistration,
    /// It does not work; the text says why.
    Failed(String),
    /// It is the service itself, and is not tried again.
    Itself(&'static str),
}

/// What a server and its transport say.
#[derive(Default)]
pub(super) struct ServerSignals {
    /// Who waits for the progress of which request. Never held across an await.
    progress: Mutex<HashMap<ProgressToken, watch::Sender<Option<Progress>>>>,
    /// The list of tools has changed.
    pub(super) tools_changed: Notify,
    /// What is wrong with the transport. Never held across an await.
    problem: Mutex<Option<String>>,
    loss: OnceLock<Disconnect>,
    is_lost: CancellationToken,
    /// Requests of the server that are not answered yet.
    asked: AtomicUsize,
}

impl ServerSignals {
    /// Takes in how far a request has come; the latest counts.
    pub(super) fn progressed(&self, mut progress: Progress) {
        progress.message = progress.message.map(|message| cut(&message));
        let waiting = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(waiting) = waiting.get(&progress.progress_token) {
            waiting.send_replace(Some(progress));
        }
    }

    /// Notes what is wrong with the transport, should the connection end; the first reason counts.
    pub(super) fn report_problem(&self, problem: impl Into<String>) {
        let mut known = self.problem.lock().unwrap_or_else(PoisonError::into_inner);
        known.get_or_insert(problem.into());
    }

    /// Forgets what was noted: it turned out not to matter.
    pub(super) fn works(&self) {
        *self.problem.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Returns what is wrong with the transport, if something is.
    pub(super) fn problem(&self) -> Option<String> {
        self.problem.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Gives the connection up; the first reason counts.
    pub(super) fn lose(&self, loss: Disconnect) {
        match &loss {
            Disconnect::Failed(problem) => self.report_problem(problem.clone()),
            Disconnect::NeedsAuth { .. } | Disconnect::NeedsRegistration => {
                self.report_problem("The server wants a login")
            }
            Disconnect::Itself(problem) => self.report_problem(*problem),
        }
        let _ = self.loss.set(loss);
        self.is_lost.cancel();
    }

    /// Waits until the connection is given up, and returns why.
    pub(super) async fn lost(&self) -> Disconnect {
        self.is_lost.cancelled().await;
        self.loss()
            .unwrap_or_else(|| Disconnect::Failed("Connection closed".to_owned()))
    }

    /// Returns why the connection is given up, if it is.
    pub(super) fn loss(&self) -> Option<Disconnect> {
        self.loss.get().cloned()
    }

    /// Counts a request of the server. One that asks without end, and does not take the answers, is given up.
    pub(super) fn asked(&self) {
        if self.asked.fetch_add(1, Ordering::Relaxed) >= MAX_ASKED {
            self.lose(Disconnect::Failed(DOES_NOT_READ.to_owned()));
        }
    }

    /// Counts an answer to the server.
    pub(super) fn answered(&self) {
        let less = |asked: usize| Some(asked.saturating_sub(1));
        let _ = self.asked.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// Follows the progress of a request until what is returned is dropped.
    pub(super) fn follow(self: &Arc<Self>, token: &ProgressToken) -> Following {
        let (sender, receiver) = watch::channel(None);
        let mut waiting = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.insert(token.clone(), sender);
        Following {
            signals: Arc::clone(self),
            token: token.clone(),
            receiver,
        }
    }
}

/// Follows the progress of one request until it is dropped.
pub(super) struct Following {
    signals: Arc<ServerSignals>,
    token: ProgressToken,
    pub(super) receiver: watch::Receiver<Option<Progress>>,
}

impl Drop for Following {
    fn drop(&mut self) {
        let mut waiting = self.signals.progress.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.remove(&self.token);
    }
}

/// Returns an error and its causes on one line of bounded length. An address may hold secrets, so it is left out.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = without_address(error.to_string());
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = without_address(cause.to_string());
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    cut(&text)
}

/// An address may hold a bracket itself, so everything up to the last one goes.
fn without_address(mut text: String) -> String {
    const MARK: &str = " for url (";
    if let Some(start) = text.find(MARK) {
        let end = text[start..].rfind(')').map_or(text.len(), |length| start + length + 1);
        text.replace_range(start..end, "");
    }
    text
}

/// Returns a text of a server on one line of bounded length.
pub(super) fn cut(text: &str) -> String {
    const MOST: usize = 500;
    let line: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(MOST)
        .collect();
    if line.len() < text.len() && text.chars().nth(MOST).is_some() {
        return format!("{line}…");
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_left_out_of_errors() {
        let check = |text: &str, expected: &str| assert_eq!(without_address(text.to_owned()), expected);
        check(
            "error sending request for url (http://a/?key=1): refused",
            "error sending request: refused",
        );
        check("error for url (http://a/?key=1)", "error");
        check("error for url (http://a/(b)?key=1)", "error");
        check("error for url (http://a/?key=1", "error");
        check("error", "error");
    }

    #[test]
    fn texts_of_servers_are_short_lines() {
        assert_eq!(cut("a\nb\u{1b}c"), "a b c");
        assert_eq!(cut(&"é".repeat(500)), "é".repeat(500));
        assert_eq!(cut(&"é".repeat(501)), format!("{}…", "é".repeat(500)));
        let signals = Arc::<ServerSignals>::default();
        let token = ProgressToken(rmcp::model::NumberOrString::Number(1));
        let following = signals.follow(&token);
        signals.progressed(Progress {
            progress_token: token,
            progress: 1.0,
            total: None,
            message: Some("x".repeat(1 << 20)),
        });
        let shown = following.receiver.borrow().clone().unwrap();
        assert!(shown.message.unwrap().len() < 1000);
    }

    #[test]
    fn a_server_that_asks_without_end_is_lost() {
        let signals = ServerSignals::default();
        for _ in 0..10 * MAX_ASKED {
            signals.asked();
            signals.answered();
        }
        assert_eq!(signals.loss(), None);
        for _ in 0..=MAX_ASKED {
            signals.asked();
        }
        assert_eq!(signals.loss(), Some(Disconnect::Failed(DOES_NOT_READ.to_owned())));
        assert_eq!(signals.problem().as_deref(), Some(DOES_NOT_READ));
    }
}
