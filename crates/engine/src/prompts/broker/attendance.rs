//! Whether anybody sees a prompt, and what the policy makes of it if nobody does.
//!
//! *Invariant:* decides nothing: whoever waits for the prompt ends it when it is abandoned.

use std::time::{Duration, Instant};

use toolgate_model::{Prompt, PromptId};

use super::{Broker, Unattended};

impl Broker {
    /// Returns how many connected approvers see this prompt.
    pub fn approvers_for(&self, prompt: &Prompt) -> usize {
        self.state().presence.count(prompt)
    }

    /// Notes that whoever was shown a prompt as a form dismissed it without an answer: it stays open for others, or ends
    /// by the policy for prompts that nobody sees.
    pub fn dismiss(&self, prompt: &PromptId) {
        let mut state = self.state();
        if state.waiting.contains_key(prompt) {
            state.presence.dismiss(prompt, Instant::now());
            self.visits.notify_waiters();
        }
    }

    /// Returns when no approver who sees the prompt has been there for as long as the policy says; never if it does not
    /// mind.
    pub async fn abandoned(&self, prompt: &Prompt) {
        loop {
            let visit = self.visits.notified();
            tokio::pin!(visit);
            visit.as_mut().enable();
            let left = match self.policy.unattended {
                Unattended::Wait => None,
                Unattended::Refuse => self.state().presence.is_dismissed(prompt).then_some(Duration::ZERO),
                Unattended::Attended(within) => self.state().presence.abandoned_in(prompt, within, Instant::now()),
            };
            match left {
                None => visit.await,
                Some(Duration::ZERO) => return,
                // Either the time is over, or somebody came or left.
                Some(left) => drop(tokio::time::timeout(left, visit).await),
            }
        }
    }
}
