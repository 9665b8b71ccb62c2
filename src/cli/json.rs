//! The messages of the contract as JSON: field names as in the proto, enums as short lower-case words, bytes as text
//! where they are UTF-8, `Struct` as plain JSON, times as RFC 3339, durations as seconds.
//!
//! *Invariant:* each scalar field is always present; a message that is not set is left out, as is an unset member of
//! a oneof.

mod prompts;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use prost_types::value::Kind;
use prost_types::{Duration, Struct, Timestamp};
use serde_json::{Map, Number, Value, json};
use toolgate_contract::{
    Attachment, BackgroundProcess, Call, CallCompleted, CallContext, CallEvent, CallFailed, CallState, Event,
    FailureReason, FileChange, FileVersion, GrantReach, ModelRef, Output, OutputLine, PermissionAction, PromptDecision,
    PromptState, ReplyResult, Session, Timing, Todo, ToolDefinition, ToolEffect, ToolSource, Truncation, attachment,
    call, call_event, event,
};

/// Something that can be shown as JSON.
pub(super) trait ToJson {
    /// Returns the message as JSON.
    fn to_json(&self) -> Value;
}

impl<T: ToJson> ToJson for Vec<T> {
    fn to_json(&self) -> Value {
        self.iter().map(T::to_json).collect()
    }
}

/// Returns the object with those members that are set.
fn with(mut object: Value, members: impl IntoIterator<Item = (&'static str, Option<Value>)>) -> Value {
    if let Value::Object(map) = &mut object {
        map.extend(
            members
                .into_iter()
                .filter_map(|(name, value)| Some((name.to_owned(), value?))),
        );
    }
    object
}

fn set<T: ToJson>(message: &Option<T>) -> Option<Value> {
    message.as_ref().map(T::to_json)
}

/// Returns an enum's name without the enum's own name, in lower case.
fn word(name: &str, prefix: &str) -> String {
    name.strip_prefix(prefix).unwrap_or(name).to_lowercase()
}

macro_rules! words {
    ($($function:ident: $enum:ident, $prefix:literal;)*) => {
        $(
            /// Returns the word for a value of the enum, or `unknown` for one that this program does not know.
            pub(super) fn $function(value: i32) -> String {
                $enum::try_from(value).map_or_else(|_| "unknown".to_owned(), |value| word(value.as_str_name(), $prefix))
            }
        )*
    };
}

words! {
    call_state: CallState, "CALL_STATE_";
    failure_reason: FailureReason, "FAILURE_REASON_";
    tool_source: ToolSource, "TOOL_SOURCE_";
    tool_effect: ToolEffect, "TOOL_EFFECT_";
    permission_action: PermissionAction, "PERMISSION_ACTION_";
    prompt_state: PromptState, "PROMPT_STATE_";
    prompt_decision: PromptDecision, "PROMPT_DECISION_";
    grant_reach: GrantReach, "GRANT_REACH_";
    reply_result: ReplyResult, "REPLY_RESULT_";
}

/// Returns a `Struct` as plain JSON; whole numbers come without a fraction.
pub(super) fn structure(value: &Struct) -> Value {
    let members = value.fields.iter().map(|(name, value)| (name.clone(), plain(value)));
    Value::Object(members.collect::<Map<_, _>>())
}

fn plain(value: &prost_types::Value) -> Value {
    match &value.kind {
        None | Some(Kind::NullValue(_)) => Value::Null,
        Some(Kind::NumberValue(number)) => plain_number(*number),
        Some(Kind::StringValue(text)) => Value::String(text.clone()),
        Some(Kind::BoolValue(truth)) => Value::Bool(*truth),
        Some(Kind::StructValue(members)) => structure(members),
        Some(Kind::ListValue(list)) => list.values.iter().map(plain).collect(),
    }
}

fn plain_number(number: f64) -> Value {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && number.abs() <= EXACT {
        // Lossless: the value is whole and within 2^53.
        return Value::from(number as i64);
    }
    Number::from_f64(number).map_or(Value::Null, Value::Number)
}

/// Adds bytes to an object: as text if they are UTF-8, else in Base64 under another name.
fn bytes(data: &[u8]) -> (&'static str, Option<Value>) {
    match std::str::from_utf8(data) {
        Ok(text) => ("data", Some(text.into())),
        Err(_) => ("data_base64", Some(STANDARD.encode(data).into())),
    }
}

fn time(time: &Option<Timestamp>) -> Option<Value> {
    time.map(|time| time.to_string().into())
}

fn seconds(duration: &Option<Duration>) -> Option<Value> {
    let duration = duration.as_ref()?;
    Some(plain_number(duration.seconds as f64 + f64::from(duration.nanos) / 1e9))
}

impl ToJson for Struct {
    fn to_json(&self) -> Value {
        structure(self)
    }
}

impl ToJson for ToolDefinition {
    fn to_json(&self) -> Value {
        json!({
            "name": self.name,
            "description": self.description,
            "input_schema_json": self.input_schema_json,
            "source": tool_source(self.source),
            "effects": self.effects.iter().map(|effect| tool_effect(*effect)).collect::<Vec<_>>(),
            "permissions": self.permissions,
            "experimental": self.experimental,
        })
    }
}

impl ToJson for ModelRef {
    fn to_json(&self) -> Value {
        json!({ "provider_id": self.provider_id, "model_id": self.model_id, "package": self.package })
    }
}

impl ToJson for CallContext {
    fn to_json(&self) -> Value {
        let object = json!({
            "workspace": self.workspace,
            "session_id": self.session_id,
            "message_id": self.message_id,
            "agent": self.agent,
            "client": self.client,
            "parent_call_id": self.parent_call_id,
            "client_ids": self.client_ids,
        });
        with(object, [("model", set(&self.model)), ("extra", set(&self.extra))])
    }
}

impl ToJson for Truncation {
    fn to_json(&self) -> Value {
        json!({
            "truncated": self.truncated,
            "output_id": self.output_id,
            "path": self.path,
            "total_bytes": self.total_bytes,
            "total_lines": self.total_lines,
        })
    }
}

impl ToJson for Timing {
    fn to_json(&self) -> Value {
        let members = [
            ("queued", seconds(&self.queued)),
            ("waited", seconds(&self.waited)),
            ("ran", seconds(&self.ran)),
        ];
        with(json!({}), members)
    }
}

impl ToJson for Attachment {
    fn to_json(&self) -> Value {
        let object = json!({ "attachment_id": self.attachment_id, "mime": self.mime, "filename": self.filename });
        let content = match &self.content {
            None => return object,
            Some(attachment::Content::Data(data)) => bytes(data),
            Some(attachment::Content::Url(url)) => ("url", Some(url.as_str().into())),
        };
        with(object, [content])
    }
}

impl ToJson for CallCompleted {
    fn to_json(&self) -> Value {
        let object = json!({
            "title": self.title,
            "output": self.output,
            "attachments": self.attachments.to_json(),
        });
        let members = [
            ("metadata", set(&self.metadata)),
            ("truncation", set(&self.truncation)),
            ("timing", set(&self.timing)),
        ];
        with(object, members)
    }
}

impl ToJson for CallFailed {
    fn to_json(&self) -> Value {
        let object = json!({
            "reason": failure_reason(self.reason),
            "error": self.error,
            "title": self.title,
            "attachments": self.attachments.to_json(),
        });
        let members = [
            ("metadata", set(&self.metadata)),
            ("truncation", set(&self.truncation)),
            ("timing", set(&self.timing)),
        ];
        with(object, members)
    }
}

impl ToJson for Call {
    fn to_json(&self) -> Value {
        let object = json!({
            "call_id": self.call_id,
            "tool": self.tool,
            "requested_tool": self.requested_tool,
            "input_json": self.input_json,
            "input_digest": self.input_digest,
            "state": call_state(self.state),
            "last_sequence": self.last_sequence,
            "title": self.title,
            "waiting_prompt_id": self.waiting_prompt_id,
            "waiting_for": self.waiting_for,
            "accepts_input": self.accepts_input,
            "next_input_offset": self.next_input_offset,
        });
        let ending = match &self.ending {
            None => ("completed", None),
            Some(call::Ending::Completed(end)) => ("completed", Some(end.to_json())),
            Some(call::Ending::Failed(end)) => ("failed", Some(end.to_json())),
        };
        let members = [
            ("context", set(&self.context)),
            ("create_time", time(&self.create_time)),
            ("start_time", time(&self.start_time)),
            ("end_time", time(&self.end_time)),
            ending,
            (
                "changes",
                Some(self.changes.to_json()).filter(|_| !self.changes.is_empty()),
            ),
            (
                "background_processes",
                Some(self.background_processes.to_json()).filter(|_| !self.background_processes.is_empty()),
            ),
        ];
        with(object, members)
    }
}

impl ToJson for BackgroundProcess {
    fn to_json(&self) -> Value {
        json!({ "pid": self.pid, "command": self.command })
    }
}

impl ToJson for FileChange {
    fn to_json(&self) -> Value {
        let members = [("before", set(&self.before)), ("after", set(&self.after))];
        with(json!({ "path": self.path }), members)
    }
}

impl ToJson for FileVersion {
    fn to_json(&self) -> Value {
        let object = json!({ "sha256": self.sha256, "size_bytes": self.size_bytes });
        with(object, [("mode", self.mode.map(Value::from))])
    }
}

impl ToJson for CallEvent {
    fn to_json(&self) -> Value {
        let object = json!({ "call_id": self.call_id, "sequence": self.sequence });
        with(
            object,
            [("time", time(&self.time))]
                .into_iter()
                .chain(self.event.as_ref().map(call_event_member)),
        )
    }
}

fn call_event_member(event: &call_event::Event) -> (&'static str, Option<Value>) {
    use call_event::Event as E;
    let (name, value) = match event {
        E::Pending(it) => (
            "pending",
            match &it.queued {
                None => json!({ "tool": it.tool, "requested_tool": it.requested_tool }),
                Some(queued) => json!({
                    "tool": it.tool,
                    "requested_tool": it.requested_tool,
                    "queued": { "limit": queued.limit, "ahead": queued.ahead },
                }),
            },
        ),
        E::Running(it) => (
            "running",
            json!({ "input_json": it.input_json, "input_digest": it.input_digest, "title": it.title }),
        ),
        E::Metadata(it) => {
            let members = [
                ("title", it.title.clone().map(Value::from)),
                ("metadata", set(&it.metadata)),
            ];
            ("metadata", with(json!({}), members))
        }
        E::Output(it) => (
            "output",
            with(
                json!({ "output_id": it.output_id, "offset": it.offset }),
                [bytes(&it.data)],
            ),
        ),
        E::Waiting(it) => (
            "waiting",
            with(json!({ "approvers": it.approvers }), [("prompt", set(&it.prompt))]),
        ),
        E::Resumed(it) => {
            let object = json!({ "prompt_id": it.prompt_id, "state": prompt_state(it.state) });
            ("resumed", with(object, [("resolution", set(&it.resolution))]))
        }
        E::Child(it) => ("child", json!({ "call_id": it.call_id, "tool": it.tool })),
        E::Warning(it) => ("warning", json!({ "kind": it.kind, "text": it.text })),
        E::Heartbeat(it) => {
            let object = json!({
                "last_sequence": it.last_sequence,
                "state": call_state(it.state),
                "draining": it.draining,
            });
            ("heartbeat", with(object, [("elapsed", seconds(&it.elapsed))]))
        }
        E::Gap(it) => (
            "gap",
            json!({
                "first_sequence": it.first_sequence,
                "last_sequence": it.last_sequence,
                "output_bytes": it.output_bytes,
            }),
        ),
        E::Completed(it) => ("completed", it.to_json()),
        E::Failed(it) => ("failed", it.to_json()),
    };
    (name, Some(value))
}

impl ToJson for Session {
    fn to_json(&self) -> Value {
        json!({
            "session_id": self.session_id,
            "recent_calls": self.recent_calls.to_json(),
            "open_prompts": self.open_prompts.to_json(),
            "grants": self.grants.to_json(),
            "todos": self.todos.to_json(),
        })
    }
}

impl ToJson for Todo {
    fn to_json(&self) -> Value {
        let object = json!({ "content": self.content, "status": self.status, "priority": self.priority });
        with(object, [("id", self.id.as_ref().map(|id| json!(id)))])
    }
}

impl ToJson for Event {
    fn to_json(&self) -> Value {
        use event::Event as E;
        let object = json!({ "sequence": self.sequence, "workspace": self.workspace, "session_id": self.session_id });
        let member = self.event.as_ref().map(|event| match event {
            E::CallStateChanged(it) => (
                "call_state_changed",
                Some(json!({ "call_id": it.call_id, "tool": it.tool, "state": call_state(it.state) })),
            ),
            E::FileEdited(it) => ("file_edited", Some(json!({ "path": it.path, "call_id": it.call_id }))),
            E::CallMetadataChanged(it) => (
                "call_metadata_changed",
                Some(json!({
                    "call_id": it.call_id, "tool": it.tool, "sequence": it.sequence,
                    "metadata": set(&it.metadata),
                })),
            ),
            E::PromptOpened(it) => (
                "prompt_opened",
                Some(json!({ "prompt_id": it.prompt_id, "call_id": it.call_id })),
            ),
            E::PromptEnded(it) => (
                "prompt_ended",
                Some(json!({ "prompt_id": it.prompt_id, "call_id": it.call_id, "state": prompt_state(it.state) })),
            ),
            E::TodosUpdated(it) => (
                "todos_updated",
                Some(json!({ "todos": it.todos.to_json(), "call_id": it.call_id })),
            ),
            E::ToolsChanged(it) => (
                "tools_changed",
                Some(json!({ "added": it.added, "removed": it.removed, "changed": it.changed })),
            ),
            E::SessionEnded(_) => ("session_ended", Some(json!({}))),
            E::Heartbeat(it) => ("heartbeat", Some(json!({ "draining": it.draining }))),
        });
        with(object, [("time", time(&self.time))].into_iter().chain(member))
    }
}

impl ToJson for Output {
    fn to_json(&self) -> Value {
        let object = json!({
            "output_id": self.output_id,
            "call_id": self.call_id,
            "session_id": self.session_id,
            "workspace": self.workspace,
            "path": self.path,
            "total_bytes": self.total_bytes,
            "total_lines": self.total_lines,
            "sha256": self.sha256,
            "complete": self.complete,
        });
        with(
            object,
            [
                ("create_time", time(&self.create_time)),
                ("expire_time", time(&self.expire_time)),
            ],
        )
    }
}

impl ToJson for OutputLine {
    fn to_json(&self) -> Value {
        json!({ "line": self.line, "offset": self.offset, "text": self.text, "is_match": self.is_match })
    }
}

/// Returns a piece of an output.
pub(super) fn output_piece(offset: i64, data: &[u8]) -> Value {
    with(json!({ "offset": offset }), [bytes(data)])
}

#[cfg(test)]
mod tests;
