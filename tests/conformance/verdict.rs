//! Compares what a step gave with what the case expects.
//!
//! *Invariant:* looks at values and files, talks to nobody.

use std::process::Output;

use base64::Engine as _;
use prost_types::value::Kind;
use prost_types::{Struct, Value as ProtoValue};
use serde_json::{Map, Value, json};
use toolgate_contract::{Attachment, HostRunSubagent, PermissionRequest, ToolDefinition, attachment};

use crate::case::{ExpectedAttachment, ExpectedEvent, ExpectedPermission, ExpectedTodos, Pairs, Status, Step};
use crate::happenings::Happening;
use crate::http::Reached;
use crate::matcher::{Matcher, mismatch, show};
use crate::play::{End, Observed, Problems};
use crate::vars::Vars;
use crate::workspace::Folders;

/// The exit code of `toolgate config` when the configuration is refused.
const REFUSED: i32 = 2;
/// The tool that answers calls which could not be understood.
const PLACEHOLDER: &str = "invalid";

impl Observed {
    fn status(&self) -> Status {
        match self.end {
            End::Completed(_) => Status::Completed,
            End::Failed(_) => Status::Error,
        }
    }

    fn output(&self) -> Option<&str> {
        match &self.end {
            End::Completed(end) => Some(&end.output),
            End::Failed(_) => None,
        }
    }

    fn error(&self) -> Option<&str> {
        match &self.end {
            End::Completed(_) => None,
            End::Failed(end) => Some(&end.error),
        }
    }

    fn title(&self) -> &str {
        match &self.end {
            End::Completed(end) => &end.title,
            End::Failed(end) => &end.title,
        }
    }

    /// Returns the metadata of the terminal event.
    pub(crate) fn metadata(&self) -> Value {
        let metadata = match &self.end {
            End::Completed(end) => end.metadata.as_ref(),
            End::Failed(end) => end.metadata.as_ref(),
        };
        metadata.map_or_else(|| json!({}), from_struct)
    }

    fn attachments(&self) -> &[Attachment] {
        match &self.end {
            End::Completed(end) => &end.attachments,
            End::Failed(end) => &end.attachments,
        }
    }

    fn summary(&self) -> String {
        let text = self.output().or(self.error()).unwrap_or_default();
        format!("{:?}: {}", self.status(), show(Some(&json!(text))))
    }
}

/// Collects what is wrong with one step.
struct Report<'a> {
    step: &'a str,
    vars: &'a Vars,
    problems: Problems,
}

impl Report<'_> {
    fn add(&mut self, what: &str, problem: &str) {
        self.problems.push(format!("{}: {what}\n{problem}", self.step));
    }

    fn check(&mut self, what: &str, matcher: &Matcher, value: Option<&Value>) {
        if let Err(problem) = matcher.with(self.vars).check(value) {
            self.add(what, &problem);
        }
    }

    fn check_str(&mut self, what: &str, matcher: Option<&Matcher>, text: Option<&str>) {
        if let Some(Err(problem)) = matcher.map(|matcher| matcher.with(self.vars).check_str(text)) {
            self.add(what, &problem);
        }
    }

    fn check_pointers(&mut self, what: &str, matchers: &Pairs<Matcher>, value: &Value) {
        for (pointer, matcher) in &matchers.0 {
            self.check(&format!("{what} {pointer}"), matcher, value.pointer(pointer));
        }
    }
}

/// Judges a call.
pub(crate) fn call(name: &str, step: &Step, observed: &Observed, vars: &Vars, folders: &Folders) -> Problems {
    let mut report = Report {
        step: name,
        vars,
        problems: Problems::new(),
    };
    let expect = &step.expect;
    if let Some(status) = expect.status
        && status != observed.status()
    {
        report.add(
            "status",
            &format!("expected: {status:?}\ngot:      {}", observed.summary()),
        );
    }
    // The placeholder completes whatever it is given: without this, a step that only expects `completed` would pass for
    // a tool that does not exist.
    let is_named = step.tool.as_deref() == Some(PLACEHOLDER);
    if observed.tool == PLACEHOLDER && !is_named && expect.output.is_none() && expect.title.is_none() {
        report.add(
            "tool",
            &format!(
                "expected: the tool itself\ngot:      the placeholder, {}",
                observed.summary()
            ),
        );
    }
    report.check_str("output", expect.output.as_ref(), observed.output());
    report.check_str("error", expect.error.as_ref(), observed.error());
    report.check_str("title", expect.title.as_ref(), Some(observed.title()));
    if let Some(matchers) = &expect.metadata {
        report.check_pointers("metadata", matchers, &observed.metadata());
    }
    if let Some(expected) = &expect.attachments {
        check_attachments(&mut report, expected, observed.attachments());
    }
    if let Some(expected) = &expect.permissions {
        check_permissions(&mut report, expected, &observed.asked);
    }
    if let Some(expected) = &expect.questions {
        check_questions(&mut report, expected, &observed.questions);
    }
    for (path, entry) in expect.files.iter().flat_map(|files| &files.0) {
        if let Err(problem) = folders.check_entry(path, entry.as_ref(), vars) {
            report.add(&format!("file {path}"), &problem);
        }
    }
    let elapsed = observed.elapsed.as_millis();
    if let Some(limit) = expect.max_ms
        && elapsed > u128::from(limit)
    {
        report.add("time", &format!("expected: at most {limit} ms\ngot:      {elapsed} ms"));
    }
    report.problems
}

fn check_permissions(report: &mut Report<'_>, expected: &[ExpectedPermission], asked: &[PermissionRequest]) {
    if expected.len() != asked.len() {
        let shown: Vec<String> = asked
            .iter()
            .map(|it| format!("{} {:?}", it.permission, it.patterns))
            .collect();
        report.add(
            "permissions",
            &format!(
                "expected: {} prompts\ngot:      {}: {shown:?}",
                expected.len(),
                asked.len()
            ),
        );
        return;
    }
    for (index, (expected, asked)) in expected.iter().zip(asked).enumerate() {
        let what = format!("permission {}", index + 1);
        if let Some(permission) = &expected.permission
            && report.vars.text(permission) != asked.permission
        {
            report.add(
                &what,
                &mismatch(&format!("{permission:?}"), Some(&json!(asked.permission))),
            );
        }
        for (key, expected, got) in [
            ("patterns", &expected.patterns, &asked.patterns),
            ("always", &expected.always, &asked.always),
        ] {
            let Some(expected) = expected else { continue };
            let expected: Vec<String> = expected.iter().map(|text| report.vars.text(text)).collect();
            if expected != *got {
                report.add(
                    &format!("{what}, {key}"),
                    &format!("expected: {expected:?}\ngot:      {got:?}"),
                );
            }
        }
        if let Some(matchers) = &expected.metadata {
            let metadata = asked.metadata.as_ref().map_or_else(|| json!({}), from_struct);
            report.check_pointers(&format!("{what}, metadata"), matchers, &metadata);
        }
    }
}

fn check_questions(report: &mut Report<'_>, expected: &[Pairs<Matcher>], asked: &[Value]) {
    if expected.len() != asked.len() {
        let problem = format!(
            "expected: {} requests\ngot:      {}: {asked:?}",
            expected.len(),
            asked.len()
        );
        report.add("questions", &problem);
        return;
    }
    for (index, (matchers, asked)) in expected.iter().zip(asked).enumerate() {
        report.check_pointers(&format!("questions {}", index + 1), matchers, asked);
    }
}

/// Judges the runs of subagents that a call asked for.
pub(crate) fn subagents(name: &str, step: &Step, runs: &[HostRunSubagent], vars: &Vars) -> Problems {
    let mut report = Report {
        step: name,
        vars,
        problems: Problems::new(),
    };
    let Some(expected) = &step.expect.subagents else {
        return report.problems;
    };
    if expected.len() != runs.len() {
        let problem = format!("expected: {} runs\ngot:      {}: {runs:?}", expected.len(), runs.len());
        report.add("subagents", &problem);
        return report.problems;
    }
    for (expected, run) in expected.iter().zip(runs) {
        let agent = expected.agent.as_ref().is_none_or(|agent| *agent == run.agent);
        let prompt = expected.prompt.as_ref();
        let prompt = prompt.is_none_or(|prompt| run.prompt.contains(&vars.text(prompt)));
        let resumed = expected.resumed.is_none_or(|resumed| resumed == run.resumed);
        let denied = expected.denied.iter().all(|tool| !run.allowed_tools.contains(tool));
        let allowed = expected.allowed.iter().all(|tool| run.allowed_tools.contains(tool));
        for (what, holds) in [
            ("agent", agent),
            ("prompt", prompt),
            ("resumed", resumed),
            ("denied", denied),
            ("allowed", allowed),
        ] {
            if !holds {
                report.add("subagents", &format!("{what} does not hold for {run:?}"));
            }
        }
    }
    report.problems
}

/// Judges what was announced while calls ran: the expected events, in their order, with others between.
pub(crate) fn events(name: &str, step: &Step, happened: &[Happening], vars: &Vars) -> Problems {
    let mut problems = Problems::new();
    let mut rest = happened;
    for (index, expected) in step.expect.events.iter().flatten().enumerate() {
        let found = rest
            .iter()
            .position(|it| it.kind == expected.kind && event_problems(name, expected, it, vars).is_empty());
        match found {
            Some(at) => rest = &rest[at + 1..],
            None => {
                let what = format!("event {} ({})", index + 1, expected.kind);
                problems.push(format!("{name}: {what}\nexpected: it is there\ngot:      {rest:?}"));
                let alike = rest.iter().find(|it| it.kind == expected.kind);
                problems.extend(alike.map_or_else(Problems::new, |it| event_problems(&what, expected, it, vars)));
            }
        }
    }
    problems
}

fn event_problems(name: &str, expected: &ExpectedEvent, happened: &Happening, vars: &Vars) -> Problems {
    let mut report = Report {
        step: name,
        vars,
        problems: Problems::new(),
    };
    report.check_pointers("data", &expected.data, &happened.data);
    report.problems
}

/// Judges the stored list of tasks.
pub(crate) fn todos(name: &str, step: &Step, todos: &Value, vars: &Vars) -> Problems {
    let mut report = Report {
        step: name,
        vars,
        problems: Problems::new(),
    };
    match &step.expect.todos {
        Some(ExpectedTodos::Whole(matcher)) => report.check("todos", matcher, Some(todos)),
        Some(ExpectedTodos::At(matchers)) => report.check_pointers("todos", matchers, todos),
        None => {}
    }
    report.problems
}

/// Judges the states of MCP servers.
pub(crate) fn mcp_states(name: &str, step: &Step, states: &Value) -> Problems {
    let expected = step.expect.mcp.iter().flat_map(|servers| &servers.0);
    let wrong = expected.filter_map(|(server, expected)| {
        let got = &states[server]["status"];
        (*got != json!(expected.status)).then(|| {
            let expected = &expected.status;
            format!("{name}: the MCP server {server}\nexpected: {expected}\ngot:      {got}")
        })
    });
    wrong.collect()
}

/// Judges the calls that reached MCP servers.
pub(crate) fn mcp_calls(step: &Step, got: &[Value], vars: &Vars) -> Problems {
    let Some(expected) = &step.expect.mcp_calls else {
        return Problems::new();
    };
    let call = |call: &crate::case::ExpectedMcpCall| json!({"server": call.server, "tool": call.tool, "arguments": vars.json(&call.arguments)});
    let expected: Vec<Value> = expected.iter().map(call).collect();
    if expected == got {
        return Problems::new();
    }
    vec![format!(
        "calls of MCP servers\nexpected: {expected:?}\ngot:      {got:?}"
    )]
}

/// Judges the requests that reached the case's web server.
pub(crate) fn requests(step: &Step, got: &[Reached], vars: &Vars) -> Problems {
    let mut report = Report {
        step: "requests",
        vars,
        problems: Problems::new(),
    };
    let Some(expected) = &step.expect.requests else {
        return report.problems;
    };
    if expected.len() != got.len() {
        let problem = format!(
            "expected: {} requests\ngot:      {}: {got:?}",
            expected.len(),
            got.len()
        );
        report.add("number", &problem);
        return report.problems;
    }
    for (index, (expected, got)) in expected.iter().zip(got).enumerate() {
        let what = format!("{}", index + 1);
        for (key, expected, got) in [
            ("method", &expected.method, &got.method),
            ("path", &expected.path, &got.path),
        ] {
            if let Some(expected) = expected
                && vars.text(expected) != *got
            {
                let problem = mismatch(&format!("{expected:?}"), Some(&json!(got)));
                report.add(&format!("{what}, {key}"), &problem);
            }
        }
        for (name, matcher) in &expected.headers.0 {
            report.check(&format!("{what}, header {name}"), matcher, got.headers.get(name));
        }
        report.check_pointers(
            &format!("{what}, body"),
            &expected.json,
            got.json.as_ref().unwrap_or(&Value::Null),
        );
    }
    report.problems
}

/// Judges the messages that reached language servers: the expected ones, in their order, with others between.
pub(crate) fn lsp_messages(step: &Step, got: &[Value], vars: &Vars) -> Problems {
    let mut rest = got;
    for (index, expected) in step.expect.lsp_messages.iter().flatten().enumerate() {
        let name = format!("message {} ({}) of language servers", index + 1, expected.method);
        let mut unlike = Problems::new();
        let found = rest.iter().position(|message| {
            if message["method"] != expected.method.as_str() {
                return false;
            }
            let mut report = Report {
                step: &name,
                vars,
                problems: Problems::new(),
            };
            report.check_pointers("params", &expected.params, &message["params"]);
            unlike.extend(report.problems.iter().cloned());
            report.problems.is_empty()
        });
        match found {
            Some(at) => rest = &rest[at + 1..],
            None => {
                let methods: Vec<&str> = rest.iter().filter_map(|message| message["method"].as_str()).collect();
                unlike.insert(0, format!("{name}\nexpected: it is there\ngot:      {methods:?}"));
                return unlike;
            }
        }
    }
    Problems::new()
}

fn check_attachments(report: &mut Report<'_>, expected: &[ExpectedAttachment], got: &[Attachment]) {
    if expected.len() != got.len() {
        report.add(
            "attachments",
            &format!("expected: {} files\ngot:      {}", expected.len(), got.len()),
        );
        return;
    }
    for (index, (expected, got)) in expected.iter().zip(got).enumerate() {
        let url = url_of(got);
        for (key, expected, got) in [
            ("mime", &expected.mime, &got.mime),
            ("filename", &expected.filename, &got.filename),
            ("url", &expected.url, &url),
        ] {
            if let Some(expected) = expected
                && report.vars.text(expected) != *got
            {
                let problem = mismatch(&format!("{expected:?}"), Some(&json!(got)));
                report.add(&format!("attachment {}, {key}", index + 1), &problem);
            }
        }
    }
}

/// An attachment's URL; bytes are a data URL, as the cases write them.
fn url_of(attachment: &Attachment) -> String {
    match &attachment.content {
        Some(attachment::Content::Url(url)) => url.clone(),
        Some(attachment::Content::Data(bytes)) => {
            let text = base64::engine::general_purpose::STANDARD.encode(bytes);
            format!("data:{};base64,{text}", attachment.mime)
        }
        None => String::new(),
    }
}

/// Judges a list of tools.
pub(crate) fn tools(name: &str, step: &Step, tools: &[ToolDefinition], vars: &Vars) -> Problems {
    let mut report = Report {
        step: name,
        vars,
        problems: Problems::new(),
    };
    let Some(expected) = &step.expect.tools else {
        return report.problems;
    };
    let find = |name: &str| tools.iter().find(|tool| tool.name == name);
    let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
    for tool in expected.present.iter().filter(|tool| find(tool).is_none()) {
        report.add("tools", &format!("expected: with {tool}\ngot:      {names:?}"));
    }
    for tool in expected.absent.iter().filter(|tool| find(tool).is_some()) {
        report.add("tools", &format!("expected: without {tool}\ngot:      {names:?}"));
    }
    for (tool, matcher) in &expected.description.0 {
        let description = find(tool).map(|tool| tool.description.as_str());
        report.check_str(&format!("description of {tool}"), Some(matcher), description);
    }
    for (tool, matchers) in &expected.schema.0 {
        let schema = find(tool).map(|tool| serde_json::from_str::<Value>(&tool.input_schema_json));
        match schema {
            Some(Ok(schema)) => report.check_pointers(&format!("schema of {tool}"), matchers, &schema),
            Some(Err(error)) => report.add(&format!("schema of {tool}"), &error.to_string()),
            None => report.add("tools", &format!("expected: with {tool}\ngot:      {names:?}")),
        }
    }
    report.problems
}

/// Judges what `toolgate config --json` printed.
pub(crate) fn config(name: &str, step: &Step, output: &Output, vars: &Vars) -> Problems {
    let mut report = Report {
        step: name,
        vars,
        problems: Problems::new(),
    };
    let errors = String::from_utf8_lossy(&output.stderr);
    if let Some(matcher) = &step.expect.error {
        report.check_str("error", Some(matcher), Some(&errors));
        if output.status.code() != Some(REFUSED) {
            report.add(
                "exit code",
                &format!("expected: {REFUSED}\ngot:      {}", output.status),
            );
        }
        return report.problems;
    }
    if !output.status.success() {
        report.add(
            "exit code",
            &format!("expected: 0\ngot:      {}: {errors}", output.status),
        );
        return report.problems;
    }
    match serde_json::from_slice::<Value>(&output.stdout) {
        Ok(printed) => {
            let merged = printed
                .pointer("/workspaces/0/opencode")
                .cloned()
                .unwrap_or(Value::Null);
            if let Some(matchers) = &step.expect.config {
                report.check_pointers("config", matchers, &merged);
            }
        }
        Err(error) => report.add("standard output", &format!("expected: JSON\ngot:      {error}")),
    }
    report.problems
}

pub(crate) fn from_struct(fields: &Struct) -> Value {
    let pairs = fields
        .fields
        .iter()
        .map(|(key, value)| (key.clone(), from_proto(value)));
    Value::Object(pairs.collect::<Map<String, Value>>())
}

fn from_proto(value: &ProtoValue) -> Value {
    match &value.kind {
        None | Some(Kind::NullValue(_)) => Value::Null,
        Some(Kind::BoolValue(is)) => Value::Bool(*is),
        Some(Kind::NumberValue(number)) => json!(number),
        Some(Kind::StringValue(text)) => Value::String(text.clone()),
        Some(Kind::ListValue(list)) => Value::Array(list.values.iter().map(from_proto).collect()),
        Some(Kind::StructValue(fields)) => from_struct(fields),
    }
}
