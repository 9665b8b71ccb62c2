//! Prompts, replies and standing approvals as JSON.

use serde_json::{Value, json};
use toolgate_contract::{
    ChannelResponse, Grant, GrantScope, PermissionPart, PermissionRequest, PermissionRule, Prompt, PromptApproval,
    PromptReplyResult, PromptResolution, QuestionRequest, channel_response, prompt,
};

use super::{ToJson, grant_reach, permission_action, prompt_decision, prompt_state, reply_result, set, time, with};

impl ToJson for PermissionRule {
    fn to_json(&self) -> Value {
        json!({
            "permission": self.permission,
            "pattern": self.pattern,
            "action": permission_action(self.action),
        })
    }
}

impl ToJson for PromptResolution {
    fn to_json(&self) -> Value {
        let object = json!({
            "decision": prompt_decision(self.decision),
            "message": self.message,
            "resolved_by": self.resolved_by,
            "because_of_prompt_id": self.because_of_prompt_id,
            "withdrawn_because": self.withdrawn_because,
            "input_json": self.input_json,
            "input_digest": self.input_digest,
        });
        let answers: Vec<&[String]> = self.answers.iter().map(|answer| answer.values.as_slice()).collect();
        let answers = (!answers.is_empty()).then(|| json!(answers));
        let patterns = (!self.always_patterns.is_empty()).then(|| json!(self.always_patterns));
        let members = [
            ("time", time(&self.time)),
            ("answers", answers),
            ("scope", set(&self.scope)),
            ("always_patterns", patterns),
        ];
        with(object, members)
    }
}

impl ToJson for Prompt {
    fn to_json(&self) -> Value {
        let object = json!({
            "prompt_id": self.prompt_id,
            "call_id": self.call_id,
            "session_id": self.session_id,
            "workspace": self.workspace,
            "agent": self.agent,
            "tool": self.tool,
            "requester": self.requester,
            "on_behalf_of": self.on_behalf_of,
            "state": prompt_state(self.state),
            "input_digest": self.input_digest,
            "editable": self.editable,
            "input_json": self.input_json,
        });
        let (permission, questions) = match &self.request {
            Some(prompt::Request::Permission(request)) => (Some(request.to_json()), None),
            Some(prompt::Request::Questions(request)) => (None, Some(request.to_json())),
            None => (None, None),
        };
        let approval = |one: &PromptApproval| {
            let object = json!({
                "principal": one.principal,
                "approved_by": one.approved_by,
                "decision": prompt_decision(one.decision),
            });
            with(object, [("time", time(&one.time))])
        };
        let approvals: Vec<Value> = self.approvals.iter().map(approval).collect();
        let members = [
            ("create_time", time(&self.create_time)),
            ("expire_time", time(&self.expire_time)),
            ("permission", permission),
            ("questions", questions),
            ("approvals", (!approvals.is_empty()).then(|| json!(approvals))),
            ("resolution", set(&self.resolution)),
        ];
        with(object, members)
    }
}

impl ToJson for PermissionRequest {
    fn to_json(&self) -> Value {
        let object = json!({
            "permission": self.permission,
            "patterns": self.patterns,
            "always": self.always,
            "title": self.title,
        });
        let parts: Vec<Value> = self.parts.iter().map(ToJson::to_json).collect();
        let parts = (!parts.is_empty()).then_some(Value::Array(parts));
        let members = [
            ("metadata", set(&self.metadata)),
            ("rule", set(&self.rule)),
            ("parts", parts),
        ];
        with(object, members)
    }
}

impl ToJson for QuestionRequest {
    fn to_json(&self) -> Value {
        let questions = self.questions.iter().map(|question| {
            let options = question.options.iter().map(|option| {
                json!({
                    "label": option.label,
                    "description": option.description,
                })
            });
            json!({
                "question": question.question,
                "header": question.header,
                "options": options.collect::<Vec<_>>(),
                "multiple": question.multiple,
                "custom": question.custom,
            })
        });
        Value::Array(questions.collect())
    }
}

impl ToJson for PermissionPart {
    fn to_json(&self) -> Value {
        let object = json!({
            "text": self.text,
            "arguments": self.arguments,
            "patterns": self.patterns,
            "always": self.always,
            "paths": self.paths,
            "unclear": self.unclear,
            "action": permission_action(self.action),
            "granted": self.granted,
        });
        with(object, [("rule", set(&self.rule))])
    }
}

impl ToJson for GrantScope {
    fn to_json(&self) -> Value {
        let object = json!({ "reach": grant_reach(self.reach), "max_uses": self.max_uses });
        with(object, [("expire_time", time(&self.expire_time))])
    }
}

impl ToJson for Grant {
    fn to_json(&self) -> Value {
        let object = json!({
            "grant_id": self.grant_id,
            "workspace": self.workspace,
            "permission": self.permission,
            "pattern": self.pattern,
            "prompt_id": self.prompt_id,
            "prompt_title": self.prompt_title,
            "session_id": self.session_id,
            "granted_by": self.granted_by,
            "use_count": self.use_count,
        });
        let members = [
            ("create_time", time(&self.create_time)),
            ("scope", set(&self.scope)),
            ("last_use_time", time(&self.last_use_time)),
        ];
        with(object, members)
    }
}

impl ToJson for PromptReplyResult {
    fn to_json(&self) -> Value {
        let object = json!({
            "prompt_id": self.prompt_id,
            "reply_id": self.reply_id,
            "result": reply_result(self.result),
            "message": self.message,
        });
        with(object, [("prompt", set(&self.prompt))])
    }
}

impl ToJson for ChannelResponse {
    fn to_json(&self) -> Value {
        use channel_response::Message as M;
        let member = self.message.as_ref().map(|message| match message {
            M::Opened(it) => ("opened", Some(json!({ "instance_id": it.instance_id }))),
            M::PromptAdded(it) => ("prompt_added", Some(with(json!({}), [("prompt", set(&it.prompt))]))),
            M::SnapshotEnd(it) => ("snapshot_end", Some(json!({ "prompts": it.prompts }))),
            M::PromptResolved(it) => ("prompt_resolved", Some(with(json!({}), [("prompt", set(&it.prompt))]))),
            M::PromptUpdated(it) => ("prompt_updated", Some(with(json!({}), [("prompt", set(&it.prompt))]))),
            M::ReplyResult(it) => ("reply_result", Some(it.to_json())),
            M::Heartbeat(it) => {
                let object = json!({ "draining": it.draining });
                ("heartbeat", Some(with(object, [("time", time(&it.time))])))
            }
        });
        with(json!({}), member)
    }
}
