//! What clients look at without making a call: files that a front end shows.
//!
//! *Invariant:* the rules and standing approvals decide as for a call of the same origin, and the audit has what they decide.
//! Nobody is asked: what a person would have to be asked about is refused.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use toolgate_fs::Workspace;
use toolgate_model::{Ask, Origin, Rule};
use toolgate_permission::judgement::{self, Judgement};
use toolgate_permission::{Refusal, Rights};
use toolgate_store::audit::{Fact, Kind};

use crate::parts::Parts;
use crate::prompts::asking::Verdict;

/// What one client may look at in a workspace.
pub struct Glance {
    parts: Arc<Parts>,
    workspace: Arc<Workspace>,
    closing: CancellationToken,
    origin: Origin,
    rights: Rights,
}

/// Why something is not shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unseen {
    /// A rule denies it.
    Denied {
        /// The rules that are about the permission.
        relevant: Vec<Rule>,
    },
    /// A person would have to be asked.
    Asked,
    /// The store could not count the use of a standing approval; the cause is in the log.
    Unavailable,
}

impl Glance {
    pub(crate) fn new(
        parts: Arc<Parts>,
        (workspace, closing): (Arc<Workspace>, CancellationToken),
        origin: Origin,
        rights: Rights,
    ) -> Self {
        Self {
            parts,
            workspace,
            closing,
            origin,
            rights,
        }
    }

    /// Returns the workspace.
    pub fn workspace(&self) -> &Arc<Workspace> {
        &self.workspace
    }

    /// Returns what is cancelled when the workspace is closed.
    pub fn closing(&self) -> &CancellationToken {
        &self.closing
    }

    /// Says whether a rule denies a permission for one pattern. Nothing is recorded.
    pub fn hides(&self, permission: &str, pattern: &str) -> bool {
        judgement::denies(permission, pattern, &self.rights)
    }

    /// Returns the same for somebody who asks later, and often.
    pub fn hiding(&self, permission: &'static str) -> impl Fn(&str) -> bool + Send + Sync + use<> {
        let rights = self.rights.clone();
        move |pattern| judgement::denies(permission, pattern, &rights)
    }

    /// Says whether rules and standing approvals allow something. Nothing is recorded: for parts of what is.
    pub fn allows(&self, ask: &Ask) -> bool {
        match self.parts.prompts.judge(&self.origin, &self.rights, ask) {
            Judgement::Allow { .. } => true,
            Judgement::Ask { .. } | Judgement::Deny { .. } => false,
        }
    }

    /// Says whether something may be shown; `what` names it in the audit.
    ///
    /// # Errors
    /// It may not.
    pub async fn may(&self, what: &'static str, ask: &Ask) -> Result<(), Unseen> {
        let prompts = &self.parts.prompts;
        let fact = |kind, grants, reason: &str| Fact {
            instance: Some(self.parts.calls.instance.clone()),
            grants,
            rules: judgement::deciding(ask, &self.rights),
            reason: reason.to_owned(),
            ..Fact::glanced(kind, &self.origin, what, ask)
        };
        match prompts.decide(ask, &self.origin, &self.rights).await {
            Ok(Verdict::Allowed { grants }) => {
                self.parts.store.audit(fact(Kind::Allowed, grants, ""));
                Ok(())
            }
            Ok(Verdict::Ask(_)) => {
                self.parts.refusals.record(fact(Kind::Refused, Vec::new(), "not_asked"));
                Err(Unseen::Asked)
            }
            Err(Refusal::Denied { relevant }) => {
                self.parts.refusals.record(fact(Kind::Refused, Vec::new(), "rule"));
                Err(Unseen::Denied { relevant })
            }
            Err(_) => Err(Unseen::Unavailable),
        }
    }
}
