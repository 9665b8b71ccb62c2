//! What hosts and the service say to each other, between the wire's words and the core's.
//!
//! *Invariant:* what comes in is bounded here, field by field, and an error names the field.

use std::sync::Arc;

use prost_types::Struct;
use serde_json::{Value, json};
use tonic::Status;
use toolgate_contract as proto;
use toolgate_contract::host_event::Event;
use toolgate_contract::{self, *};
use toolgate_extensions::hosted::{self, GRACE, Hello, HostMessage, HostResult, HostedTool, Report, Welcome};
use toolgate_model::{Ask, Attachment, AttachmentContent, Effect, JsonMap};

use crate::grpc::auth::Caller;
use crate::grpc::convert::{self, FromNumber as _, IntoProto as _, duration, from_struct};
use crate::grpc::status::bad_field;

/// What one hello may name.
const MAX_NAMES: usize = 1000;
/// Bytes of the tools of one hello.
const MAX_LENT: usize = 4 * 1024 * 1024;
const MAX_TITLE: usize = 1024;
/// Bytes of metadata in a progress report, and in a result or a request for permission.
const MAX_PATCH: usize = 64 * 1024;
const MAX_METADATA: usize = 256 * 1024;
const MAX_PATTERNS: usize = 1000;
const MAX_ATTACHMENTS: usize = 64;
const MAX_ATTACHED: usize = 16 * 1024 * 1024;

// --------------------------------------------------------------------------------------------------------------- in

pub(super) fn hello(caller: &Caller, workspace: &str, hello: HostHello) -> Result<Hello, Status> {
    let name = convert::name("hello.name", hello.name)?;
    if name.is_empty() {
        return Err(bad_field("hello.name", "a host has a name"));
    }
    for (field, count) in [
        ("hello.tools", hello.tools.len()),
        ("hello.subagents", hello.subagents.len()),
        ("hello.hooks", hello.hooks.len()),
    ] {
        if count > MAX_NAMES {
            return Err(bad_field(field, format!("more than {MAX_NAMES}")));
        }
    }
    let sizes = hello.tools.iter();
    let sizes = sizes.map(|tool| tool.name.len() + tool.description.len() + tool.input_schema_json.len());
    if sizes.sum::<usize>() > MAX_LENT {
        return Err(bad_field("hello.tools", format!("more than {MAX_LENT} bytes together")));
    }
    let names = |field: &str, names: Vec<String>| -> Result<Vec<String>, Status> {
        names.into_iter().map(|one| convert::name(field, one)).collect()
    };
    let subagents = names("hello.subagents", hello.subagents)?;
    Ok(Hello {
        name,
        workspace: workspace.to_owned(),
        principal: caller.principal().id(),
        may_reply: caller.may(Scope::PromptsReply),
        may_hook: caller.may(Scope::ToolsHook),
        tools: hello.tools.into_iter().map(lent_tool).collect::<Result<_, _>>()?,
        subagents: hello.runs_subagents.then_some(subagents),
        hooks: names("hello.hooks", hello.hooks)?,
        token: convert::name("hello.token", hello.token)?,
    })
}

fn lent_tool(tool: proto::LentTool) -> Result<HostedTool, Status> {
    let input_schema = match tool.input_schema_json.as_str() {
        "" => json!({"type": "object", "properties": {}}),
        // What is not JSON is no schema: the tool is refused, the others are not.
        text => serde_json::from_str(text).unwrap_or(Value::Null),
    };
    Ok(HostedTool {
        name: convert::name("hello.tools.name", tool.name)?,
        description: tool.description,
        input_schema,
        effects: tool
            .effects
            .into_iter()
            .map(|effect| Effect::from_number("hello.tools.effects", effect))
            .collect::<Result<_, _>>()?,
    })
}

/// Reads a report; none if the host is leaving.
pub(super) fn report(said: Option<host_report::Report>) -> Result<Option<Report>, Status> {
    use host_report::Report as Said;
    let report = match said {
        None => return Err(bad_field("report.report", "an empty report")),
        Some(Said::Leave(_)) => return Ok(None),
        Some(Said::Progress(progress)) => Report::Progress {
            title: progress.title.map(|title| cut(title, MAX_TITLE)),
            patch: metadata("report.progress.metadata", progress.metadata, MAX_PATCH)?,
        },
        Some(Said::Output(output)) => Report::Output(output.data),
        Some(Said::Ask(ask)) => read_ask(ask)?,
        Some(Said::Completed(completed)) => Report::Completed(HostResult {
            title: cut(completed.title, MAX_TITLE),
            output: completed.output,
            metadata: metadata("report.completed.metadata", completed.metadata, MAX_METADATA)?,
            attachments: attachments(completed.attachments)?,
        }),
        Some(Said::Failed(failed)) => Report::Failed(cut(failed.error, MAX_METADATA)),
        Some(Said::HookResult(result)) => {
            let field = "report.hook_result.output_json";
            let output: Value =
                serde_json::from_str(&result.output_json).map_err(|error| bad_field(field, error.to_string()))?;
            if !output.is_object() {
                return Err(bad_field(field, "not a JSON object"));
            }
            Report::HookResult(output)
        }
    };
    Ok(Some(report))
}

fn read_ask(ask: HostAsk) -> Result<Report, Status> {
    let id = convert::name("report.ask.ask_id", ask.ask_id)?;
    let permission = convert::name("report.ask.permission", ask.permission)?;
    if id.is_empty() || permission.is_empty() {
        return Err(bad_field("report.ask", "needs an `ask_id` and a `permission`"));
    }
    let patterns = ask.patterns.iter().chain(&ask.always);
    let bytes: usize = patterns.map(String::len).sum();
    if ask.patterns.len() + ask.always.len() > MAX_PATTERNS || bytes > MAX_METADATA {
        return Err(bad_field("report.ask.patterns", "too many"));
    }
    let or_all = |patterns: Vec<String>| {
        if patterns.is_empty() {
            vec!["*".to_owned()]
        } else {
            patterns
        }
    };
    let ask = Ask {
        permission,
        patterns: or_all(ask.patterns),
        always: ask.always,
        title: cut(ask.title, MAX_TITLE),
        metadata: metadata("report.ask.metadata", ask.metadata, MAX_METADATA)?,
        // Nobody knows what the host has done until now.
        late: true,
        ..Ask::default()
    };
    Ok(Report::Ask { id, ask: Box::new(ask) })
}

fn metadata(field: &str, fields: Option<Struct>, limit: usize) -> Result<JsonMap, Status> {
    let map = fields.map(from_struct).unwrap_or_default();
    if !map.is_empty() && json!(map).to_string().len() > limit {
        return Err(bad_field(field, format!("more than {limit} bytes")));
    }
    Ok(map)
}

fn attachments(all: Vec<proto::Attachment>) -> Result<Vec<Attachment>, Status> {
    use attachment::Content;
    let field = "report.completed.attachments";
    let sizes = all.iter().map(|one| match &one.content {
        Some(Content::Data(data)) => data.len(),
        Some(Content::Url(url)) => url.len(),
        None => 0,
    });
    if all.len() > MAX_ATTACHMENTS || sizes.sum::<usize>() > MAX_ATTACHED {
        let problem = format!("more than {MAX_ATTACHMENTS}, or more than {MAX_ATTACHED} bytes together");
        return Err(bad_field(field, problem));
    }
    all.into_iter()
        .map(|one| {
            let content = match one.content {
                Some(Content::Data(data)) => AttachmentContent::Bytes(data),
                Some(Content::Url(url)) => AttachmentContent::Url(url),
                None => return Err(bad_field(field, "one without content")),
            };
            Ok(Attachment {
                id: format!("att_{}", uuid::Uuid::now_v7().simple()),
                mime: convert::name(field, one.mime)?,
                filename: convert::non_empty(convert::name(field, one.filename)?),
                content,
            })
        })
        .collect()
}

fn cut(mut text: String, limit: usize) -> String {
    text.truncate(text.floor_char_boundary(limit));
    text
}

// -------------------------------------------------------------------------------------------------------------- out

pub(super) fn message(event: Event) -> HostEvent {
    HostEvent { event: Some(event) }
}

pub(super) fn welcome(welcome: Welcome, workspace: String) -> HostEvent {
    let refused = welcome.refused.into_iter();
    message(Event::Welcome(HostWelcome {
        token: welcome.token,
        grace: Some(duration(GRACE)),
        resumed: welcome.resumed,
        refused: refused.map(|(name, reason)| HostRefused { name, reason }).collect(),
        workspace,
    }))
}

pub(super) fn event(told: HostMessage) -> HostEvent {
    message(match told {
        HostMessage::Invoke { id, work, resent } => invoke(id, &work, resent),
        HostMessage::Cancel { id } => Event::Cancel(HostCancel { invocation_id: id }),
        HostMessage::AskResult { id, ask, result } => Event::AskResult(HostAskResult {
            invocation_id: id,
            ask_id: ask,
            allowed: result.is_ok(),
            error: result.err().unwrap_or_default(),
        }),
    })
}

fn invoke(invocation_id: String, work: &Arc<hosted::HostRequest>, resent: bool) -> Event {
    match &**work {
        hosted::HostRequest::Tool {
            call,
            origin,
            tool,
            input,
        } => Event::Invoke(HostInvoke {
            invocation_id,
            call_id: call.to_string(),
            context: Some((**origin).clone().into_proto()),
            tool: tool.clone(),
            input_json: input.to_string(),
            resent,
        }),
        hosted::HostRequest::Hook { point, input, output } => Event::Hook(HostHook {
            invocation_id,
            point: point.as_str().to_owned(),
            input_json: input.to_string(),
            output_json: output.to_string(),
            resent,
        }),
        hosted::HostRequest::Subagent { call, origin, run } => Event::RunSubagent(HostRunSubagent {
            invocation_id,
            call_id: call.to_string(),
            context: Some((**origin).clone().into_proto()),
            session_id: run.delegated.session.to_string(),
            resumed: run.delegated.resumed,
            agent: run.agent.clone(),
            agent_prompt: run.agent_prompt.clone(),
            model: Some(ModelRef {
                provider_id: run.delegated.model.provider_id.clone(),
                model_id: run.delegated.model.model_id.clone(),
                package: run.delegated.model.package.clone(),
            }),
            description: run.description.clone(),
            prompt: run.prompt.clone(),
            command: run.command.clone(),
            allowed_tools: run.delegated.allowed.clone(),
            denied_tools: run.delegated.denied.clone(),
            resent,
        }),
    }
}
