//! What a reply means beyond its own prompt (`docs/spec/permission.md` §7, §13).
//!
//! *Invariant:* pure. A grant with a number of uses covers that many of the waiting prompts, the oldest first.

use toolgate_model::{Always, Ask, Decision, Grant, GrantId, Prompt, PromptOutcome, PromptState, Reply, Timestamp};
use toolgate_permission::Rights;
use toolgate_permission::judgement::{self, Judgement};
use toolgate_store::Settlement;

use super::approvals::ApprovalPolicy;
use super::exchange::{DOOM_LOOP, ReplyContext};
use super::grants::{self, Grants};

/// What follows from a reply.
#[derive(Debug, Default)]
pub(super) struct Consequences {
    /// The other prompts that it settles.
    pub(super) also: Vec<Settlement>,
    /// The grants that it makes.
    pub(super) grants: Vec<Grant>,
}

/// Works out what follows from a reply. `others` are the other permission prompts that wait in the session and workspace,
/// oldest first; `known` the grants so far, which hold as `approvals` says.
pub(super) fn consequences<'a>(
    from: &ReplyContext<'_>,
    reply: &Reply,
    others: impl Iterator<Item = (&'a Prompt, &'a Ask, &'a Rights)>,
    known: &Grants,
    approvals: &ApprovalPolicy,
) -> Consequences {
    let ReplyContext { prompt, ask, .. } = *from;
    match reply {
        Reply::Once | Reply::Instead(_) | Reply::Answers(_) => Consequences::default(),
        // Refusing a loop fails that call only (`docs/spec/framework.md` §16 F4).
        Reply::Reject { .. } if ask.permission == DOOM_LOOP => Consequences::default(),
        Reply::Reject { .. } => {
            let plain = Reply::Reject { message: String::new() };
            let also = others.map(|(other, ..)| settlement(other, plain.clone(), prompt, Vec::new()));
            Consequences {
                also: also.collect(),
                grants: Vec::new(),
            }
        }
        Reply::Always(always) => {
            let grants = grants::make_grants(from, always);
            Consequences {
                also: covered(prompt, always, others, (&grants, known), approvals),
                grants,
            }
        }
    }
}

fn covered<'a>(
    prompt: &Prompt,
    always: &Always,
    others: impl Iterator<Item = (&'a Prompt, &'a Ask, &'a Rights)>,
    (grants, known): (&[Grant], &Grants),
    approvals: &ApprovalPolicy,
) -> Vec<Settlement> {
    let now = Timestamp::now();
    let mut known = known.clone();
    known.add(grants.iter().cloned());
    let mut also = Vec::new();
    for (other, ask, rights) in others {
        let standing = known.standing((&other.workspace, &other.session), rights, approvals, now);
        if let Judgement::Allow { used } = judgement::judge(ask, rights, &standing.rules) {
            let used = standing.ids(&used);
            known.count(&used, now);
            let reply = Always {
                scope: always.scope,
                patterns: Vec::new(),
            };
            also.push(settlement(other, Reply::Always(reply), prompt, used));
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
