//! Whether anybody sees a prompt, and what the policy makes of it if nobody does.
//!
//! *Invariant:* decides nothing: whoever waits for the prompt ends it when it is abandoned.

use std::time::{Duration, Instant};

use toolgate_model::{Origin, Prompt, Unanswered};
use toolgate_permission::Refusal;

use super::super::exchange::Unattended;
use super::Asking;

/// The time that approvers have to come back whose connection broke, where prompts are not to wait unseen.
const COME_BACK: Duration = Duration::from_secs(10);

impl Asking {
    /// Finds out who is at other processes, where a prompt that nobody sees is not to wait.
    pub(super) async fn find_approvers(&self, origin: &Origin) {
        if self.policy.for_call(origin.unanswered).unattended != Unattended::Wait {
            self.board.look_for_approvers().await;
        }
    }

    /// Refuses a prompt that nobody sees, if it is not to wait then.
    pub(super) fn check_attended(&self, prompt: &Prompt, unattended: Unattended) -> Result<(), Refusal> {
        let is_attended = match unattended {
            Unattended::Wait => true,
            Unattended::Refuse => self.board.state().presence.count(prompt) > 0,
            Unattended::Attended(within) => self.board.state().presence.was_here(prompt, within, Instant::now()),
        };
        if is_attended {
            return Ok(());
        }
        let asked = prompt.ask().map_or_else(
            || "the questions of the tool".to_owned(),
            |ask| match ask.title.as_str() {
                "" => format!("the permission `{}` for {}", ask.permission, ask.patterns.join(", ")),
                title => format!("the permission `{}` for \"{title}\"", ask.permission),
            },
        );
        Err(Refusal::Unattended { asked })
    }

    /// Returns when no approver who sees the prompt has been there for as long as the request or the policy says; never if
    /// neither minds.
    pub async fn abandoned(&self, prompt: &Prompt, unanswered: Option<Unanswered>) {
        let unattended = match unanswered {
            Some(Unanswered::Refuse) => Unattended::Attended(COME_BACK),
            Some(Unanswered::Wait(_)) | None => self.policy.unattended,
        };
        loop {
            let visit = self.board.visits.notified();
            tokio::pin!(visit);
            visit.as_mut().enable();
            let left = match unattended {
                Unattended::Wait => None,
                Unattended::Refuse => self
                    .board
                    .state()
                    .presence
                    .is_dismissed(prompt)
                    .then_some(Duration::ZERO),
                Unattended::Attended(within) => {
                    self.board.state().presence.abandoned_in(prompt, within, Instant::now())
                }
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
