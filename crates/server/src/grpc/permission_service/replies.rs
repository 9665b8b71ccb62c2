//! Replies of approvers: what they may say, and what they are told.
//!
//! *Invariant:* every outcome of a reply is a message, on a channel and by itself; only a fault of the store is an error.

use crate::grpc::convert::IntoProto as _;
use std::sync::Arc;

use tonic::Status;
use toolgate_contract as proto;
use toolgate_contract::{self, ErrorReason, PromptDecision, PromptReply, PromptReplyResult, ReplyResult};
use toolgate_engine::Engine;
use toolgate_engine::prompts::broker::{ApproverReply, ReplyOutcome};
use toolgate_model::{Always, GrantReach, GrantScope, InputEdit, Prompt, PromptId, PromptOutcome, Reply, Timestamp};

use crate::grpc::auth::Caller;
use crate::grpc::status;

/// The longest feedback for a model, in bytes.
const MAX_MESSAGE: usize = 64 * 1024;

/// Who replies, and how that one calls itself.
pub(super) struct Approver {
    pub(super) caller: Arc<Caller>,
    pub(super) name: String,
}

impl Approver {
    /// Hands a reply in, unless it is to a prompt that the caller may not see.
    pub(super) async fn reply(&self, engine: &Engine, given: ApproverReply) -> Result<ReplyOutcome, Status> {
        if self.caller.is_limited() {
            let prompt = engine.inbox().get(&given.prompt).await.map_err(status::store)?;
            if !prompt.is_some_and(|prompt| self.caller.sees(&prompt.workspace)) {
                return Ok(ReplyOutcome::Unknown);
            }
        }
        engine.reply(given).await.map_err(status::store)
    }
}

/// Reads a reply; the error names the field and what is wrong with it.
fn given_reply(reply: PromptReply, approver: &Approver) -> Result<ApproverReply, (String, String)> {
    let problem = |field: &str, text: &str| Err((format!("reply.{field}"), text.to_owned()));
    if reply.prompt_id.is_empty() || reply.prompt_id.len() > 128 {
        return problem("prompt_id", "name a prompt");
    }
    if reply.input_digest.is_empty() {
        return problem("input_digest", "send the input_digest that the prompt shows");
    }
    if reply.reply_id.len() > 128 {
        return problem("reply_id", "longer than 128 bytes");
    }
    if reply.message.len() > MAX_MESSAGE {
        return problem("message", "longer than 64 KiB");
    }
    let answers: Vec<Vec<String>> = reply.answers.into_iter().map(|answer| answer.values).collect();
    // An answer costs a little even if it is empty.
    if answers.iter().flatten().map(|value| value.len() + 1).sum::<usize>() + answers.len() > MAX_MESSAGE {
        return problem("answers", "longer than 64 KiB");
    }
    let is_always = reply.decision == i32::from(PromptDecision::Always);
    if !is_always && (reply.scope.is_some() || !reply.always_patterns.is_empty()) {
        return problem(
            "scope",
            "only the decision PROMPT_DECISION_ALWAYS has a scope and patterns",
        );
    }
    if !reply.input_json.is_empty() && reply.decision != i32::from(PromptDecision::Instead) {
        return problem(
            "input_json",
            "only the decision PROMPT_DECISION_INSTEAD carries an input",
        );
    }
    if !answers.is_empty() && reply.decision != i32::from(PromptDecision::Answer) {
        return problem("answers", "only the decision PROMPT_DECISION_ANSWER carries answers");
    }
    let decision = match PromptDecision::try_from(reply.decision) {
        Ok(PromptDecision::Once) => Reply::Once,
        Ok(PromptDecision::Always) => Reply::Always(Always {
            scope: scope(reply.scope)?,
            patterns: reply.always_patterns,
        }),
        Ok(PromptDecision::Reject) => Reply::Reject {
            message: reply.message.clone(),
        },
        Ok(PromptDecision::Answer) => Reply::Answers(answers),
        Ok(PromptDecision::Instead) => Reply::Instead(InputEdit {
            input_json: reply.input_json,
            ..InputEdit::default()
        }),
        Ok(PromptDecision::Unspecified) | Err(_) => {
            return problem(
                "decision",
                "say PROMPT_DECISION_ONCE, _ALWAYS, _INSTEAD, _REJECT or _ANSWER",
            );
        }
    };
    if !reply.message.is_empty() && !matches!(decision, Reply::Reject { .. }) {
        return problem("message", "only a rejection carries a message for the model");
    }
    Ok(ApproverReply {
        prompt: PromptId::new(reply.prompt_id),
        reply_id: reply.reply_id,
        reply: decision,
        input_digest: reply.input_digest,
        by: approver.caller.principal().display_name(&approver.name),
        principal: approver.caller.principal().clone(),
    })
}

/// Reads how far a grant is to reach.
fn scope(scope: Option<proto::GrantScope>) -> Result<GrantScope, (String, String)> {
    let problem = |field: &str, text: &str| Err((format!("reply.scope.{field}"), text.to_owned()));
    let Some(scope) = scope else {
        return Ok(GrantScope::default());
    };
    let until = match scope.expire_time {
        None => None,
        Some(time) => match moment(&time) {
            Some(until) if until > Timestamp::now() => Some(until),
            Some(_) | None => return problem("expire_time", "name a moment that lies in the future"),
        },
    };
    let uses = match u32::try_from(scope.max_uses) {
        Ok(uses) => Some(uses).filter(|&uses| uses > 0),
        Err(_) => return problem("max_uses", "name a positive number, or 0 for any number of uses"),
    };
    let reach = match proto::GrantReach::try_from(scope.reach) {
        Ok(proto::GrantReach::Unspecified | proto::GrantReach::Run) => GrantReach::Run,
        Ok(proto::GrantReach::Session) => GrantReach::Session,
        Ok(proto::GrantReach::Workspace) => GrantReach::Workspace,
        Err(_) => return problem("reach", "say GRANT_REACH_RUN, _SESSION or _WORKSPACE"),
    };
    Ok(GrantScope { reach, until, uses })
}

fn moment(time: &prost_types::Timestamp) -> Option<Timestamp> {
    let millis = time.seconds.checked_mul(1000)?;
    Some(Timestamp(millis.checked_add(i64::from(time.nanos / 1_000_000))?))
}

/// Answers a reply: every outcome is a message, so that one bad reply does not end a channel. Only a fault of the store
/// does.
pub(super) async fn answer(
    (engine, takes_replies): (&Engine, bool),
    reply: PromptReply,
    approver: &Approver,
) -> Result<PromptReplyResult, Status> {
    let (prompt_id, reply_id) = (reply.prompt_id.clone(), reply.reply_id.clone());
    if !takes_replies {
        let problem = "this worker does not take replies: give them at a gateway";
        return Err(status::precondition(ErrorReason::OtherInstance, &prompt_id, problem));
    }
    let (result, prompt, message) = match given_reply(reply, approver) {
        Err((field, problem)) => (ReplyResult::Invalid, None, format!("{field}: {problem}")),
        // On a fault of the store nothing is decided; the channel ends, and the approver opens it again.
        Ok(given) => match approver.reply(engine, given).await? {
            ReplyOutcome::Accepted(prompt) => (ReplyResult::Accepted, Some(prompt), String::new()),
            ReplyOutcome::Before(prompt) => (
                too_late(&prompt),
                Some(prompt),
                "the prompt had ended before".to_owned(),
            ),
            ReplyOutcome::Unknown => (ReplyResult::NotFound, None, "there is no such prompt".to_owned()),
            ReplyOutcome::WrongKind(prompt) => {
                let message = wrong_kind(&prompt).to_owned();
                (ReplyResult::Invalid, Some(prompt), message)
            }
            ReplyOutcome::BadEdit { prompt, problem } | ReplyOutcome::BadGrant { prompt, problem } => {
                (ReplyResult::Invalid, Some(prompt), problem)
            }
            ReplyOutcome::DigestMismatch(prompt) => {
                let message = "what was shown is not what would run".to_owned();
                (ReplyResult::DigestMismatch, Some(prompt), message)
            }
            ReplyOutcome::Recorded(prompt) => (
                ReplyResult::SecondApprovalNeeded,
                Some(prompt),
                "recorded; another principal has to approve as well".to_owned(),
            ),
            ReplyOutcome::NotAllowed(prompt) => {
                (ReplyResult::NotAllowed, Some(prompt), status::SELF_APPROVAL.to_owned())
            }
        },
    };
    let prompt = prompt.map(|prompt| (*prompt).clone().into_proto());
    Ok(PromptReplyResult {
        prompt_id,
        reply_id,
        result: result.into(),
        prompt,
        message,
    })
}

fn too_late(prompt: &Prompt) -> ReplyResult {
    match prompt.decision.as_ref().map(|decision| &decision.outcome) {
        Some(PromptOutcome::Expired) => ReplyResult::Expired,
        Some(PromptOutcome::Withdrawn(_)) => ReplyResult::Withdrawn,
        Some(PromptOutcome::Replied(_)) | None => ReplyResult::AlreadyResolved,
    }
}

fn wrong_kind(prompt: &Prompt) -> &'static str {
    match prompt.ask() {
        Some(_) if prompt.input_json.is_some() => {
            "this prompt asks for a permission: reply ONCE, ALWAYS, INSTEAD or REJECT"
        }
        Some(_) => "this prompt asks for a permission, and its input cannot be replaced: reply ONCE, ALWAYS or REJECT",
        None => "this prompt asks questions: reply ANSWER or REJECT",
    }
}
