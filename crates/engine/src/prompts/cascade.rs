//! What a reply means beyond its own prompt (`docs/spec/permission.md` §7, §13).
//!
//! *Invariant:* pure. A grant with a number of uses covers that many of the waiting prompts, the oldest first.

use toolgate_model::{Always, Decision, Grant, GrantId, Prompt, PromptOutcome, PromptState, Reply, Timestamp};
use toolgate_permission::Rights;
use toolgate_permission::judgement::{self, Judgement};
use toolgate_store::Settlement;

use super::approvals::ApprovalPolicy;
use super::exchange::{DOOM_LOOP, ReplyContext};
use super::grants::{self, Grants, Place};

/// What follows from a reply.
#[derive(Debug, Default)]
pub(super) struct Consequences {
    /// The other prompts that it settles.
    pub(super) also: Vec<Settlement>,
    /// The grants that it makes.
    pub(super) grants: Vec<Grant>,
}

/// Another prompt that waits in the session.
pub(super) struct Other {
    pub(super) prompt: Prompt,
    /// By what its call is judged; none if that is not known, and then no grant covers it.
    pub(super) rights: Option<Rights>,
    /// Whose approvals count for it.
    pub(super) approvals: ApprovalPolicy,
}

/// Works out what follows from a reply. `others` are the other prompts that wait in the session and workspace, oldest first;
/// `known` the grants so far.
pub(super) fn consequences(from: &ReplyContext<'_>, reply: &Reply, others: &[Other], known: &Grants) -> Consequences {
    let ReplyContext { prompt, ask, .. } = *from;
    match reply {
        Reply::Once | Reply::Instead(_) | Reply::Answers(_) => Consequences::default(),
        // Refusing a loop fails that call only (`docs/spec/framework.md` §16 F4).
        Reply::Reject { .. } if ask.permission == DOOM_LOOP => Consequences::default(),
        Reply::Reject { .. } => {
            let plain = Reply::Reject { message: String::new() };
            let permissions = others.iter().filter(|other| other.prompt.ask().is_some());
            let also = permissions.map(|other| settlement(&other.prompt, plain.clone(), prompt, Vec::new()));
            Consequences {
                also: also.collect(),
                grants: Vec::new(),
            }
        }
        Reply::Always(always) => {
            let grants = grants::make_grants(from, always);
            Consequences {
                also: covered(prompt, always, others, (&grants, known)),
                grants,
            }
        }
    }
}

fn covered(
    prompt: &Prompt,
    always: &Always,
    others: &[Other],
    (grants, known): (&[Grant], &Grants),
) -> Vec<Settlement> {
    let now = Timestamp::now();
    let mut known = known.clone();
    known.add(grants.iter().cloned());
    let mut also = Vec::new();
    for other in others {
        let (Some(ask), Some(rights)) = (other.prompt.ask(), &other.rights) else {
            continue;
        };
        let place = Place {
            owner: &other.prompt.owner,
            workspace: &other.prompt.workspace,
            session: &other.prompt.session,
        };
        let standing = known.standing(&place, rights, &other.approvals, now);
        if let Judgement::Allow { used } = judgement::judge(ask, rights, &standing.rules) {
            let used = standing.ids(&used);
            known.count(&used, now);
            let reply = Always {
                scope: always.scope,
                patterns: Vec::new(),
            };
            also.push(settlement(&other.prompt, Reply::Always(reply), prompt, used));
        }
    }
    also
}

fn settlement(other: &Prompt, reply: Reply, because_of: &Prompt, uses: Vec<GrantId>) -> Settlement {
    Settlement {
        prompt: other.id.clone(),
        state: PromptState::Resolved,
        decision: Decision {
            because_of: Some(because_of.id.clone()),
            ..Decision::new(PromptOutcome::Replied(reply))
        },
        uses,
    }
}
