//! Prompts, their decisions and grants in the wire's words.
//!
//! *Invariant:* outward only; replies are read by the service that takes them.

use toolgate_contract as proto;
use toolgate_engine::{Evaluated, Evaluation};
use toolgate_model as call;

use super::{FromCore, IntoProto, timestamp, to_struct};

impl FromCore<call::Rule> for proto::PermissionRule {
    fn from_core(rule: call::Rule) -> Self {
        Self {
            permission: rule.permission,
            pattern: rule.pattern,
            action: proto::PermissionAction::from_core(rule.action).into(),
        }
    }
}

impl FromCore<call::PromptOutcome> for proto::PromptResolution {
    fn from_core(outcome: call::PromptOutcome) -> Self {
        let decision = |decision: proto::PromptDecision| Self {
            decision: decision.into(),
            ..Self::default()
        };
        match outcome {
            call::PromptOutcome::Replied(call::Reply::Once) => decision(proto::PromptDecision::Once),
            call::PromptOutcome::Replied(call::Reply::Always(always)) => Self {
                scope: Some(always.scope.into_proto()),
                always_patterns: always.patterns,
                ..decision(proto::PromptDecision::Always)
            },
            call::PromptOutcome::Replied(call::Reply::Instead(edit)) => Self {
                input_json: edit.input_json,
                input_digest: edit.input_digest,
                ..decision(proto::PromptDecision::Instead)
            },
            call::PromptOutcome::Replied(call::Reply::Answers(answers)) => Self {
                answers: answers
                    .into_iter()
                    .map(|values| proto::QuestionAnswer { values })
                    .collect(),
                ..decision(proto::PromptDecision::Answer)
            },
            call::PromptOutcome::Replied(call::Reply::Reject { message }) => Self {
                message,
                ..decision(proto::PromptDecision::Reject)
            },
            call::PromptOutcome::Expired => Self::default(),
            call::PromptOutcome::Withdrawn(why) => Self {
                withdrawn_because: why,
                ..Self::default()
            },
        }
    }
}

impl FromCore<call::Decision> for proto::PromptResolution {
    fn from_core(decision: call::Decision) -> Self {
        Self {
            resolve_time: Some(timestamp(decision.time)),
            resolved_by: decision.by,
            because_of_prompt_id: decision.because_of.map(|prompt| prompt.to_string()).unwrap_or_default(),
            ..Self::from_core(decision.outcome)
        }
    }
}

impl FromCore<call::Approval> for proto::PromptApproval {
    fn from_core(approval: call::Approval) -> Self {
        let decision = match approval.always.is_some() {
            true => proto::PromptDecision::Always,
            false => proto::PromptDecision::Once,
        };
        Self {
            principal: approval.principal,
            approved_by: approval.by,
            decision: decision.into(),
            approve_time: Some(timestamp(approval.time)),
        }
    }
}

/// Says what a call waits for at a prompt.
pub(crate) fn waits_for(prompt: &call::Prompt) -> String {
    if prompt.state != call::PromptState::Open {
        // No person is to do anything any more. As a rule this is over in a moment.
        return "its worker to go on: the prompt is settled".to_owned();
    }
    match prompt.ask() {
        Some(ask) if ask.title.is_empty() => format!("permission {}", ask.permission),
        Some(ask) => format!("permission {} ({})", ask.permission, ask.title),
        None => "questions".to_owned(),
    }
}

/// Returns the state that a prompt with this outcome is in.
pub(crate) fn outcome_state(outcome: &call::PromptOutcome) -> proto::PromptState {
    match outcome {
        call::PromptOutcome::Replied(_) => proto::PromptState::Resolved,
        call::PromptOutcome::Expired => proto::PromptState::Expired,
        call::PromptOutcome::Withdrawn(_) => proto::PromptState::Withdrawn,
    }
}

impl FromCore<call::Prompt> for proto::Prompt {
    fn from_core(prompt: call::Prompt) -> Self {
        Self {
            prompt_id: prompt.id.to_string(),
            call_id: prompt.call.to_string(),
            session_id: prompt.session.to_string(),
            workspace: prompt.workspace,
            agent: prompt.agent,
            tool: prompt.tool,
            requester: prompt.requester,
            directory: prompt.directory,
            on_behalf_of: prompt.on_behalf_of,
            approvals: prompt
                .approvals
                .into_iter()
                .map(proto::PromptApproval::from_core)
                .collect(),
            create_time: Some(timestamp(prompt.created)),
            expire_time: prompt.expires.map(timestamp),
            state: proto::PromptState::from_core(prompt.state).into(),
            input_digest: prompt.input_digest,
            editable: prompt.input_json.is_some(),
            input_json: prompt.input_json.unwrap_or_default(),
            environment: prompt.environment.into_iter().collect(),
            request: Some(prompt.request.into_proto()),
            resolution: prompt.decision.map(proto::PromptResolution::from_core),
        }
    }
}

impl FromCore<call::PromptRequest> for proto::prompt::Request {
    fn from_core(request: call::PromptRequest) -> Self {
        match request {
            call::PromptRequest::Permission { ask, rule, verdicts } => Self::Permission(proto::PermissionRequest {
                permission: ask.permission,
                patterns: ask.patterns,
                always: ask.always,
                title: ask.title,
                metadata: Some(to_struct(ask.metadata)),
                rule: rule.map(proto::PermissionRule::from_core),
                parts: ask
                    .parts
                    .into_iter()
                    .zip(verdicts)
                    .map(|(part, verdict)| permission_part(part, verdict))
                    .collect(),
                ahead: ask
                    .then
                    .into_iter()
                    .map(|later| proto::PermissionAhead {
                        permission: later.permission,
                        patterns: later.patterns,
                    })
                    .collect(),
            }),
            call::PromptRequest::Questions(questions) => Self::Questions(proto::QuestionRequest {
                questions: questions.into_iter().map(proto::Question::from_core).collect(),
            }),
        }
    }
}

impl FromCore<call::Question> for proto::Question {
    fn from_core(question: call::Question) -> Self {
        Self {
            question: question.question,
            header: question.header,
            options: question
                .options
                .into_iter()
                .map(|option| proto::QuestionOption {
                    label: option.label,
                    description: option.description,
                })
                .collect(),
            multiple: question.multiple,
            custom: question.custom,
        }
    }
}

impl FromCore<call::Todo> for proto::Todo {
    fn from_core(todo: call::Todo) -> Self {
        Self {
            content: todo.content,
            status: todo.status,
            priority: todo.priority,
            id: todo.id,
        }
    }
}

fn permission_part(part: call::AskPart, verdict: call::PartVerdict) -> proto::PermissionPart {
    proto::PermissionPart {
        text: part.text,
        arguments: part.arguments,
        patterns: [part.patterns, part.variants].concat(),
        always: part.always,
        paths: part.paths,
        unclear: part.unclear.unwrap_or_default(),
        action: proto::PermissionAction::from_core(verdict.action).into(),
        rule: verdict.rule.map(proto::PermissionRule::from_core),
        granted: verdict.granted,
    }
}

impl FromCore<call::GrantScope> for proto::GrantScope {
    fn from_core(scope: call::GrantScope) -> Self {
        Self {
            reach: proto::GrantReach::from_core(scope.reach).into(),
            expire_time: scope.until.map(timestamp),
            max_uses: scope
                .uses
                .map(|uses| i32::try_from(uses).unwrap_or(i32::MAX))
                .unwrap_or_default(),
        }
    }
}

impl FromCore<call::Grant> for proto::Grant {
    fn from_core(grant: call::Grant) -> Self {
        Self {
            grant_id: grant.id.to_string(),
            workspace: grant.workspace,
            permission: grant.permission,
            pattern: grant.pattern,
            create_time: Some(timestamp(grant.created)),
            prompt_id: grant.prompt.to_string(),
            approvers: grant.approvers,
            scope: Some(grant.scope.into_proto()),
            session_id: grant.session.to_string(),
            prompt_title: grant.title,
            granted_by: grant.by,
            use_count: i64::try_from(grant.uses).unwrap_or(i64::MAX),
            last_use_time: grant.last_used.map(timestamp),
        }
    }
}

impl FromCore<Evaluation> for proto::CallEvaluation {
    fn from_core(evaluation: Evaluation) -> Self {
        Self {
            action: proto::PermissionAction::from_core(evaluation.action()).into(),
            tool: evaluation.tool,
            summary: evaluation.summary,
            input_json: evaluation.input_json,
            input_digest: evaluation.input_digest,
            requests: evaluation.requests.into_iter().map(IntoProto::into_proto).collect(),
            children: evaluation.children.into_iter().map(IntoProto::into_proto).collect(),
            problem: evaluation.problem.unwrap_or_default(),
            complete: evaluation.is_complete,
        }
    }
}

impl FromCore<Evaluated> for proto::EvaluatedRequest {
    fn from_core(evaluated: Evaluated) -> Self {
        use proto::evaluated_request::Request;
        let request = match evaluated.request.into_proto() {
            proto::prompt::Request::Permission(permission) => Request::Permission(permission),
            proto::prompt::Request::Questions(questions) => Request::Questions(questions),
        };
        Self {
            request: Some(request),
            action: proto::PermissionAction::from_core(evaluated.action).into(),
            grant_ids: evaluated.grants.iter().map(ToString::to_string).collect(),
            announced: evaluated.is_announced,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_see_everything_that_a_part_is_judged_as() {
        let part = call::AskPart {
            patterns: vec!["rm -fr x".to_owned()],
            variants: vec!["rm -rf x".to_owned()],
            ..call::AskPart::default()
        };
        let sent = permission_part(part, call::PartVerdict::default());
        assert_eq!(sent.patterns, ["rm -fr x", "rm -rf x"]);
    }
}
