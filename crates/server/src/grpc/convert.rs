//! Between the wire's types and the core's: `TryFrom` in, [`FromCore`] out, and errors that name the proto field.

mod context;
mod names;
mod prompts;
mod results;

pub(crate) use context::{DEFAULT_AGENT, client_ids, model, origin};
pub(crate) use names::{call_id, known_call_id, moment, name, session_id};
pub(crate) use results::ended;

use std::time::Duration;

use serde_json::Value;
use tonic::Status;
use toolgate_contract as proto;
use toolgate_model as call;
use toolgate_store::OutputInfo;

use super::status::bad_field;
pub(crate) use super::values::{
    duration, from_struct, int, int32, non_empty, page_size, timestamp, to_struct, unsigned,
};
pub(crate) use prompts::{outcome_state, waits_for};

/// Makes a type of the contract of one of the core. `From` cannot be had, since both belong to other crates.
pub(crate) trait FromCore<T> {
    /// Converts; what the contract cannot say is left out.
    fn from_core(core: T) -> Self;
}

/// The other direction of [`FromCore`], for chains of calls.
pub(crate) trait IntoProto<P> {
    /// Converts; what the contract cannot say is left out.
    fn into_proto(self) -> P;
}

impl<C, P: FromCore<C>> IntoProto<P> for C {
    fn into_proto(self) -> P {
        P::from_core(self)
    }
}

/// Reads an enum of the core from the number that the contract has for it.
pub(crate) trait FromNumber: Sized {
    /// Converts; `field` is the name of the field, for an error.
    fn from_number(field: &str, number: i32) -> Result<Self, Status>;
}

/// Converts an enum of the core to one of the contract that has the same values and `Unspecified`, and, where a noun is
/// given for the error, the other way round.
macro_rules! same_values {
    ($core:ident => $proto:ident { $($value:ident)+ }) => {
        impl FromCore<call::$core> for proto::$proto {
            fn from_core(core: call::$core) -> Self {
                match core {
                    $(call::$core::$value => Self::$value,)+
                }
            }
        }
    };
    ($core:ident <=> $proto:ident, $noun:literal { $($value:ident)+ }) => {
        same_values!($core => $proto { $($value)+ });

        impl FromNumber for call::$core {
            fn from_number(field: &str, number: i32) -> Result<Self, Status> {
                match proto::$proto::try_from(number) {
                    $(Ok(proto::$proto::$value) => Ok(Self::$value),)+
                    Ok(proto::$proto::Unspecified) | Err(_) => {
                        Err(bad_field(field, concat!("not a ", $noun, " that this service knows")))
                    }
                }
            }
        }
    };
}

same_values!(Action => PermissionAction { Allow Ask Deny });
same_values!(WarningKind => WarningKind { Lossy NoUndo AttachmentsLeftOut Survivors MetadataLeftOut });
same_values!(Verdict => CallOutcome { Ok NonZero TimedOut Partial Invalid });
same_values!(FileAction => FileAction { Added Modified Deleted Moved });
same_values!(ReadKind => ReadKind { Text Folder Media });
same_values!(CallState <=> CallState, "state" { Pending Running Waiting Completed Failed });
same_values!(Effect <=> ToolEffect, "value" { Reads Writes RunsPrograms Network AsksUser });
same_values!(EndReason <=> FailureReason, "reason" {
    InvalidArguments Denied Rejected PromptExpired Cancelled TimedOut ToolError DoomLoop Quota Drained Lost Internal
});
same_values!(GrantReach => GrantReach { Run Session Workspace });
same_values!(PromptState <=> PromptState, "state" { Open Resolved Expired Withdrawn });
same_values!(SourceState => ToolSourceState {
    Connecting Ready Disabled Failed NeedsAuth NeedsClientRegistration Untrusted
});
same_values!(Signal <=> Signal, "signal" { Int Term Hup Quit Usr1 Usr2 });
same_values!(WorkspaceChange => WorkspaceChange { Opened Closed Changed });
same_values!(Source => ToolSource { Builtin Custom Plugin Mcp Hosted });

/// Reads what a workspace is to be created from; without anything it is empty.
pub fn workspace_source(source: Option<proto::WorkspaceSource>) -> call::WorkspaceSource {
    use proto::workspace_source::Source;
    match source.and_then(|source| source.source) {
        None | Some(Source::Empty(_)) => call::WorkspaceSource::Empty,
        Some(Source::Template(name)) => call::WorkspaceSource::Template(name),
        Some(Source::Git(git)) => call::WorkspaceSource::Git {
            url: git.url,
            reference: git.reference,
        },
        Some(Source::Archive(archive)) => call::WorkspaceSource::Archive { url: archive.url },
    }
}

/// The same, back.
pub fn shown_source(source: &call::WorkspaceSource) -> proto::WorkspaceSource {
    use proto::workspace_source::Source;
    let source = match source.clone() {
        call::WorkspaceSource::Empty => Source::Empty(proto::EmptySource {}),
        call::WorkspaceSource::Template(name) => Source::Template(name),
        call::WorkspaceSource::Git { url, reference } => Source::Git(proto::GitSource { url, reference }),
        call::WorkspaceSource::Archive { url } => Source::Archive(proto::ArchiveSource { url }),
    };
    proto::WorkspaceSource { source: Some(source) }
}

/// Reads how long somebody waits; absent for not at all.
///
/// # Errors
/// It is negative.
pub fn wait(wait: Option<&prost_types::Duration>) -> Result<Duration, Status> {
    match wait.map(|wait| Duration::try_from(*wait)) {
        None => Ok(Duration::ZERO),
        Some(Ok(wait)) => Ok(wait),
        Some(Err(_)) => Err(bad_field("wait", "expected a time that is not negative")),
    }
}

/// The longest time that a request may allow a tool.
const MAX_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

// --------------------------------------------------------------------------------------------------------- requests

/// The fields that ExecuteTool, RunTool and RevertCall share.
pub(crate) struct WireCall {
    pub(crate) context: Option<proto::CallContext>,
    /// The name of the field that holds the id.
    pub(crate) id_field: &'static str,
    pub(crate) call_id: String,
    pub(crate) tool: String,
    pub(crate) input: call::RawInput,
    pub(crate) timeout: Option<prost_types::Duration>,
    pub(crate) on_disconnect: i32,
    pub(crate) unanswered: Option<call::Unanswered>,
}

macro_rules! wire_call {
    ($request:ident, $arguments:ident) => {
        impl From<proto::$request> for WireCall {
            fn from(request: proto::$request) -> Self {
                use proto::$arguments::Arguments;
                let input = match request.arguments {
                    None => call::RawInput::Json(String::new()),
                    Some(Arguments::InputJson(text)) => call::RawInput::Json(text),
                    Some(Arguments::Input(fields)) => call::RawInput::Value(Value::Object(from_struct(fields))),
                };
                Self {
                    context: request.context,
                    id_field: "call_id",
                    call_id: request.call_id,
                    tool: request.tool,
                    input,
                    timeout: request.timeout,
                    on_disconnect: request.on_disconnect,
                    unanswered: None,
                }
            }
        }
    };
}

wire_call!(ExecuteToolRequest, execute_tool_request);
wire_call!(RunToolRequest, run_tool_request);

impl From<proto::EvaluateCallRequest> for WireCall {
    fn from(request: proto::EvaluateCallRequest) -> Self {
        use proto::evaluate_call_request::Arguments as Evaluated;
        use proto::execute_tool_request::Arguments;
        let arguments = request.arguments.map(|arguments| match arguments {
            Evaluated::InputJson(text) => Arguments::InputJson(text),
            Evaluated::Input(fields) => Arguments::Input(fields),
        });
        let executed = proto::ExecuteToolRequest {
            context: request.context,
            tool: request.tool,
            arguments,
            ..proto::ExecuteToolRequest::default()
        };
        executed.into()
    }
}

impl From<proto::RevertCallRequest> for WireCall {
    fn from(request: proto::RevertCallRequest) -> Self {
        let input = serde_json::json!({"callId": request.call_id, "merge": request.merge});
        Self {
            context: request.context,
            id_field: "revert_call_id",
            call_id: request.revert_call_id,
            tool: "revert".to_owned(),
            input: call::RawInput::Value(input),
            timeout: None,
            on_disconnect: request.on_disconnect,
            unanswered: None,
        }
    }
}

/// Reads the size of a terminal.
pub(crate) fn terminal_size(size: Option<proto::TerminalSize>) -> Result<call::TerminalSize, Status> {
    let size = size.unwrap_or_default();
    let columns = u16::try_from(size.columns).unwrap_or(0);
    let rows = u16::try_from(size.rows).unwrap_or(0);
    call::TerminalSize::new(columns, rows).ok_or_else(|| {
        let (most_columns, most_rows) = (call::TerminalSize::MAX_COLUMNS, call::TerminalSize::MAX_ROWS);
        let range = format!("not 1 to {most_columns} columns and 1 to {most_rows} rows");
        bad_field("size", range)
    })
}

/// Reads what prompts mean that nobody answers.
pub(crate) fn unanswered(unattended: i32, timeout: Option<&prost_types::Duration>) -> Result<call::Unanswered, Status> {
    match proto::Unattended::try_from(unattended) {
        Ok(proto::Unattended::Wait) => {
            let timeout = timeout.map(|timeout| read_timeout("wait_timeout", timeout));
            Ok(call::Unanswered::Wait(timeout.transpose()?))
        }
        Ok(_) if timeout.is_some() => Err(bad_field("wait_timeout", "only UNATTENDED_WAIT has a time")),
        Ok(proto::Unattended::Unspecified | proto::Unattended::Refuse) => Ok(call::Unanswered::Refuse),
        Err(_) => Err(bad_field("unattended", "not a value that this service knows")),
    }
}

impl WireCall {
    /// Checks the request and fills in the defaults: the workspace that an empty one means, and others.
    pub(crate) fn into_call(self, default_workspace: &str) -> Result<call::ToolCall, Status> {
        let id = match self.call_id.as_str() {
            "" => call::CallId::generate(),
            id => call_id(self.id_field, id)?,
        };
        let tool = name("tool", self.tool)?;
        if tool.is_empty() {
            return Err(bad_field("tool", "name the tool to execute; ListTools has the names"));
        }
        let on_disconnect = match proto::OnDisconnect::try_from(self.on_disconnect) {
            Ok(proto::OnDisconnect::Unspecified | proto::OnDisconnect::Cancel) => call::OnDisconnect::Cancel,
            Ok(proto::OnDisconnect::Keep) => call::OnDisconnect::Keep,
            Err(_) => return Err(bad_field("on_disconnect", "not a value that this service knows")),
        };
        let timeout = self.timeout.map(|timeout| read_timeout("timeout", &timeout));
        let timeout = timeout.transpose()?;
        let mut origin = origin(self.context.unwrap_or_default(), &id, default_workspace)?;
        origin.unanswered = self.unanswered;
        Ok(call::ToolCall {
            id,
            id_is_new: self.call_id.is_empty(),
            origin,
            tool,
            input: self.input,
            timeout,
            on_disconnect,
        })
    }
}

fn read_timeout(field: &str, timeout: &prost_types::Duration) -> Result<Duration, Status> {
    let problem = || bad_field(field, "must be more than zero and at most 24 hours");
    let seconds = u64::try_from(timeout.seconds).map_err(|_| problem())?;
    let nanos = u32::try_from(timeout.nanos)
        .ok()
        .filter(|nanos| *nanos < 1_000_000_000)
        .ok_or_else(problem)?;
    let timeout = Duration::new(seconds, nanos);
    if timeout.is_zero() || timeout > MAX_TIMEOUT {
        return Err(problem());
    }
    Ok(timeout)
}

// ------------------------------------------------------------------------------------------------------------ tools

impl FromCore<call::Definition> for proto::ToolDefinition {
    fn from_core(definition: call::Definition) -> Self {
        Self {
            name: definition.name,
            description: definition.description,
            input_schema_json: definition.input_schema.to_string(),
            source: proto::ToolSource::from_core(definition.source).into(),
            effects: definition
                .effects
                .iter()
                .map(|effect| proto::ToolEffect::from_core(*effect).into())
                .collect(),
            permissions: definition.permissions,
            experimental: definition.experimental,
            title: definition.title,
            claims: (!definition.claims.is_empty()).then(|| proto::ToolClaims::from_core(definition.claims)),
        }
    }
}

impl FromCore<call::Claims> for proto::ToolClaims {
    fn from_core(claims: call::Claims) -> Self {
        let schema = claims.output_schema.map(|schema| schema.to_string());
        Self {
            output_schema_json: schema.unwrap_or_default(),
            read_only: claims.read_only,
            destructive: claims.destructive,
            idempotent: claims.idempotent,
            open_world: claims.open_world,
        }
    }
}

// ------------------------------------------------------------------------------------------------------------ calls

impl FromCore<call::Origin> for proto::CallContext {
    fn from_core(origin: call::Origin) -> Self {
        Self {
            workspace: origin.workspace,
            session_id: origin.session.to_string(),
            message_id: origin.message_id,
            agent: origin.agent,
            model: Some(proto::ModelRef {
                provider_id: origin.model.provider_id,
                model_id: origin.model.model_id,
                package: origin.model.package,
            }),
            client_kind: origin.client,
            client_name: origin.client_name,
            client_ids: origin.clients,
            directory: origin.directory,
            parent_call_id: origin.parent.map(|parent| parent.to_string()).unwrap_or_default(),
            environment: origin.environment.into_iter().collect(),
            extra: (!origin.extra.is_empty()).then(|| to_struct(origin.extra)),
        }
    }
}

impl FromCore<call::CallRecord> for proto::Call {
    fn from_core(record: call::CallRecord) -> Self {
        let is_invalid = record.is_invalid();
        let resources = record.ending.as_ref().and_then(|ending| ending.resources);
        let ending = record.ending.map(|ending| match to_end(ending, is_invalid) {
            End::Completed(completed) => proto::call::Ending::Completed(completed),
            End::Failed(failed) => proto::call::Ending::Failed(failed),
        });
        Self {
            call_id: record.id.to_string(),
            requester: record.origin.requester.clone(),
            context: Some(record.origin.into_proto()),
            tool: record.tool,
            requested_tool: record.requested_tool,
            input_json: record.input_json,
            input_digest: record.input_digest,
            original_input_json: record
                .original
                .as_ref()
                .map(|it| it.input_json.clone())
                .unwrap_or_default(),
            original_input_digest: record.original.map(|it| it.input_digest).unwrap_or_default(),
            state: proto::CallState::from_core(record.state).into(),
            create_time: Some(timestamp(record.created)),
            start_time: record.started.map(timestamp),
            end_time: record.ended.map(timestamp),
            last_sequence: int(record.last_sequence),
            title: record.title,
            summary: record.summary,
            waiting_prompt_id: record.waiting_on.map(|prompt| prompt.to_string()).unwrap_or_default(),
            ending,
            // Stored apart from the record; only some answers carry them.
            changes: Vec::new(),
            accepts_input: false,
            next_input_offset: 0,
            background_processes: Vec::new(),
            waiting_for: String::new(),
            terminal: None,
            listening: Vec::new(),
            resources: resources.map(IntoProto::into_proto),
        }
    }
}

impl FromCore<call::TerminalSize> for proto::TerminalSize {
    fn from_core(size: call::TerminalSize) -> Self {
        Self {
            columns: size.columns().into(),
            rows: size.rows().into(),
        }
    }
}

impl FromCore<call::Resources> for proto::Resources {
    fn from_core(used: call::Resources) -> Self {
        Self {
            user_time: Some(duration(used.user)),
            system_time: Some(duration(used.system)),
            peak_memory_bytes: used.peak_memory_bytes.map(int),
            read_bytes: int(used.read_bytes),
            written_bytes: int(used.written_bytes),
        }
    }
}

impl FromCore<call::BackgroundProcess> for proto::BackgroundProcess {
    fn from_core(process: call::BackgroundProcess) -> Self {
        Self {
            pid: process.pid.into(),
            command: process.command,
        }
    }
}

impl FromCore<call::ListeningPort> for proto::ListeningPort {
    fn from_core(listening: call::ListeningPort) -> Self {
        Self {
            port: listening.port.into(),
            address: listening.address.to_string(),
            pid: listening.pid.into(),
            command: listening.command,
        }
    }
}

impl FromCore<call::FileChange> for proto::FileChange {
    fn from_core(change: call::FileChange) -> Self {
        Self {
            path: change.shown.to_string_lossy().into_owned(),
            before: change.before.map(proto::FileVersion::from_core),
            after: change.after.map(proto::FileVersion::from_core),
        }
    }
}

impl FromCore<call::FileVersion> for proto::FileVersion {
    fn from_core(version: call::FileVersion) -> Self {
        Self {
            sha256: version.sha256,
            size_bytes: int(version.bytes),
            mode: version.mode,
        }
    }
}

/// Converts a call for a list: without its input, and of its result only what is short.
pub(crate) fn summary(mut record: call::CallRecord) -> proto::Call {
    record.input_json.clear();
    if let Some(original) = &mut record.original {
        original.input_json.clear();
    }
    record.origin.extra.clear();
    record.origin.environment.clear();
    if let Some(ending) = &mut record.ending {
        ending.metadata.clear();
        ending.attachments.clear();
        ending.result.iter_mut().for_each(call::ToolResult::shorten);
        if let call::Outcome::Completed { output } = &mut ending.outcome {
            output.clear();
        }
    }
    record.into_proto()
}

/// The two forms of a terminal event.
pub(crate) enum End {
    Completed(proto::CallCompleted),
    Failed(proto::CallFailed),
}

/// Converts the end of a call; `invalid` says whether the call was not understood ([`call::CallRecord::is_invalid`]).
pub(crate) fn to_end(ending: call::Ending, invalid: bool) -> End {
    let metadata = Some(to_struct(ending.metadata));
    let attachments = ending
        .attachments
        .into_iter()
        .map(proto::Attachment::from_core)
        .collect();
    let truncation = Some(ending.truncation.into_proto());
    let timing = Some(ending.timing.into_proto());
    let outcome = results::outcome(&call::CallEnd::completed(ending.result.as_ref(), invalid));
    let result = ending.result.map(IntoProto::into_proto);
    match ending.outcome {
        call::Outcome::Completed { output } => End::Completed(proto::CallCompleted {
            title: ending.title,
            output,
            metadata,
            attachments,
            truncation,
            timing,
            outcome: outcome.into(),
            result,
        }),
        call::Outcome::Failed { reason, error } => End::Failed(proto::CallFailed {
            reason: proto::FailureReason::from_core(reason).into(),
            error,
            title: ending.title,
            metadata,
            attachments,
            truncation,
            timing,
        }),
    }
}

impl FromCore<call::Attachment> for proto::Attachment {
    fn from_core(attachment: call::Attachment) -> Self {
        use proto::attachment::Content;
        let content = match attachment.content {
            call::AttachmentContent::Bytes(bytes) => Content::Data(bytes),
            call::AttachmentContent::Url(url) => Content::Url(url),
        };
        Self {
            attachment_id: attachment.id,
            mime: attachment.mime,
            filename: attachment.filename.unwrap_or_default(),
            content: Some(content),
        }
    }
}

impl FromCore<call::Truncation> for proto::Truncation {
    fn from_core(truncation: call::Truncation) -> Self {
        Self {
            truncated: truncation.truncated,
            output_id: truncation.output.map(|output| output.to_string()).unwrap_or_default(),
            path: truncation.path.unwrap_or_default(),
            total_bytes: int(truncation.bytes),
            total_lines: int(truncation.lines),
        }
    }
}

impl FromCore<call::Timing> for proto::Timing {
    fn from_core(timing: call::Timing) -> Self {
        Self {
            queued: Some(duration(timing.queued)),
            waited: Some(duration(timing.waited)),
            ran: Some(duration(timing.ran)),
        }
    }
}

// ---------------------------------------------------------------------------------------------------------- outputs

/// Converts an output; `retention` says how long it is kept after it was begun.
pub(crate) fn output(info: OutputInfo, retention: Duration) -> proto::Output {
    proto::Output {
        output_id: info.id.to_string(),
        call_id: info.owner.call.to_string(),
        session_id: info.owner.session.to_string(),
        workspace: info.owner.workspace,
        path: info.path,
        total_bytes: int(info.bytes),
        total_lines: int(info.lines),
        sha256: info.sha256,
        // Of one that was cut off there is a digest all the same: nothing is added to it.
        complete: info.complete && !info.cut,
        create_time: Some(timestamp(info.created)),
        expire_time: Some(timestamp(info.created.after(retention))),
    }
}
