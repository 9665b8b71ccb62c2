//! What is exchanged with both halves of the broker: policies, replies, and changes for listeners.
//!
//! *Invariant:* plain data.

use std::sync::Arc;
use std::time::Duration;

use toolgate_model::{Ask, Principal, Prompt, PromptId, Reply, SessionId, Unanswered, WorkspaceSet};

pub use toolgate_permission::Unattended;
use toolgate_store::Interest;

/// The permission that the third identical call in a row asks for.
pub const DOOM_LOOP: &str = "doom_loop";

/// What happens to prompts when nobody answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PromptPolicy {
    /// How long a prompt waits; for ever if none.
    pub timeout: Option<Duration>,
    /// What happens while no approver is connected.
    pub unattended: Unattended,
    /// Prompts that may be open at once.
    pub max_open: usize,
    /// Those of one session.
    pub max_open_per_session: Option<usize>,
}

impl Default for PromptPolicy {
    fn default() -> Self {
        Self {
            timeout: None,
            unattended: Unattended::default(),
            max_open: usize::MAX,
            max_open_per_session: None,
        }
    }
}

impl PromptPolicy {
    /// Returns the policy for a call whose request says this.
    pub(super) fn for_call(self, unanswered: Option<Unanswered>) -> Self {
        match unanswered {
            None | Some(Unanswered::Wait(None)) => self,
            Some(Unanswered::Wait(Some(most))) => Self {
                timeout: Some(self.timeout.map_or(most, |wait| wait.min(most))),
                ..self
            },
            Some(Unanswered::Refuse) => Self {
                unattended: Unattended::Refuse,
                ..self
            },
        }
    }
}

/// A change of a prompt, for listeners.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// A prompt is open.
    Added(Arc<Prompt>),
    /// A prompt got one of the approvals that it needs.
    Approved(Arc<Prompt>),
    /// A prompt ended.
    Resolved(Arc<Prompt>),
}

impl Change {
    /// Returns the prompt that changed.
    pub fn prompt(&self) -> &Arc<Prompt> {
        match self {
            Self::Added(prompt) | Self::Approved(prompt) | Self::Resolved(prompt) => prompt,
        }
    }
}

/// Which prompts a listener wants to see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subscription {
    /// The workspaces.
    pub workspaces: WorkspaceSet,
    /// Any of these sessions; all if empty, unless clients are named.
    pub sessions: Vec<SessionId>,
    /// Whether each prompt is shown once, as a form, to whoever made the call.
    pub forms: bool,
    /// Calls of any of these clients beside those of the sessions.
    pub clients: Vec<String>,
    /// Whether the listener may not answer, so that a prompt that only such ones see is one that nobody sees.
    pub only_watches: bool,
}

impl Subscription {
    /// Returns whether the listener wants to see this prompt.
    pub fn covers(&self, prompt: &Prompt) -> bool {
        self.workspaces.contains(&prompt.workspace)
            && (self.is_about_all()
                || self.sessions.contains(&prompt.session)
                || self.clients.iter().any(|client| prompt.clients.contains(client)))
    }

    fn is_about_all(&self) -> bool {
        self.sessions.is_empty() && self.clients.is_empty()
    }
}

impl From<&Subscription> for Interest {
    fn from(subscription: &Subscription) -> Self {
        Self {
            workspaces: subscription.workspaces.clone(),
            sessions: subscription.sessions.clone(),
            forms: subscription.forms,
            clients: subscription.clients.clone(),
        }
    }
}

impl From<Interest> for Subscription {
    fn from(interest: Interest) -> Self {
        let Interest {
            workspaces,
            sessions,
            forms,
            clients,
        } = interest;
        Self {
            workspaces,
            sessions,
            forms,
            clients,
            only_watches: false,
        }
    }
}

/// What became of a reply.
#[derive(Clone, Debug, PartialEq)]
pub enum ReplyOutcome {
    /// This reply decided; so it is when the same reply comes again.
    Accepted(Arc<Prompt>),
    /// This reply approved, and somebody else has to as well.
    Recorded(Arc<Prompt>),
    /// Whoever replies is among those who asked.
    NotAllowed(Arc<Prompt>),
    /// The prompt had ended before; this is how.
    Before(Arc<Prompt>),
    /// There is no such prompt.
    Unknown,
    /// The prompt is of another kind than the reply: answers to a permission prompt, say.
    WrongKind(Arc<Prompt>),
    /// The reply does not say what it grants, or would grant something that the prompt did not list.
    BadGrant {
        /// The prompt.
        prompt: Arc<Prompt>,
        /// What is wrong.
        problem: String,
    },
    /// The input that the reply puts in the place of the call's is not one for its tool.
    BadEdit {
        /// The prompt.
        prompt: Arc<Prompt>,
        /// What is wrong with it.
        problem: String,
    },
    /// The reply cites another input than the prompt's.
    DigestMismatch(Arc<Prompt>),
}

/// A reply as an approver gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApproverReply {
    /// To which prompt.
    pub prompt: PromptId,
    /// The approver's id of the reply, possibly empty.
    pub reply_id: String,
    /// The decision.
    pub reply: Reply,
    /// The digest that the approver was shown.
    pub input_digest: String,
    /// Who replies, as it is shown.
    pub by: String,
    /// Who replies, as the service knows.
    pub principal: Principal,
}

/// A reply that decided: the prompt, and by whom.
pub(super) struct ReplyContext<'a> {
    pub(super) prompt: &'a Prompt,
    pub(super) ask: &'a Ask,
    /// Who replied, as it is shown.
    pub(super) by: &'a str,
    /// The folder that whoever asks works in; empty if that is not known.
    pub(super) worktree: &'a str,
    /// Everybody who approved, as the service knows them.
    pub(super) approvers: Vec<String>,
}
