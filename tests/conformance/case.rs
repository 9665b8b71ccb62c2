//! The case files as data: what `cases/FORMAT.md` and the specification of each table say, and nothing else.
//!
//! *Invariant:* strict. A key that is not known here is an error of the run, so no expectation is ever skipped in silence.

use std::collections::BTreeSet;
use std::fmt;
use std::marker::PhantomData;
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::{Map, Value};

use crate::entry::Entry;
use crate::http::ExpectedRequest;
use crate::matcher::Matcher;
use crate::rows::{
    AgentPermission, Arity, DisabledTools, Evaluate, Registry, Ruleset, SchemaTransform, Truncate, Wildcard,
};

/// A JSON object in the order written; a key written twice is an error.
pub(crate) struct Pairs<T>(pub(crate) Vec<(String, T)>);

impl<T> Default for Pairs<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Pairs<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PairsVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for PairsVisitor<T> {
            type Value = Pairs<T>;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs<T>, A::Error> {
                let mut pairs: Vec<(String, T)> = Vec::new();
                let mut seen = BTreeSet::new();
                while let Some((key, value)) = map.next_entry::<String, T>()? {
                    if !seen.insert(key.clone()) {
                        return Err(A::Error::custom(format!("the key `{key}` stands twice")));
                    }
                    pairs.push((key, value));
                }
                Ok(Pairs(pairs))
            }
        }
        deserializer.deserialize_map(PairsVisitor(PhantomData))
    }
}

/// One case.
pub(crate) struct Case {
    pub(crate) id: String,
    /// Programs without which the case says nothing.
    pub(crate) needs: Vec<String>,
    pub(crate) body: Body,
}

/// What a case does.
pub(crate) enum Body {
    Steps(Box<Scenario>),
    Arity(Arity),
    Wildcard(Wildcard),
    Evaluate(Evaluate),
    Ruleset(Ruleset),
    DisabledTools(DisabledTools),
    AgentPermission(AgentPermission),
    Registry(Registry),
    Truncate(Truncate),
    SchemaTransform(SchemaTransform),
}

impl Body {
    /// Says whether a service takes part; tables of pure functions do without.
    pub(crate) fn uses_a_service(&self) -> bool {
        match self {
            Self::Steps(_) | Self::AgentPermission(_) | Self::Registry(_) | Self::SchemaTransform(_) => true,
            Self::Arity(_)
            | Self::Wildcard(_)
            | Self::Evaluate(_)
            | Self::Ruleset(_)
            | Self::DisabledTools(_)
            | Self::Truncate(_) => false,
        }
    }
}

/// A workspace and the steps that are taken in it.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scenario {
    #[serde(default)]
    pub(crate) config: Map<String, Value>,
    #[serde(default)]
    pub(crate) files: Pairs<Entry>,
    #[serde(default)]
    pub(crate) outside: Pairs<Entry>,
    #[serde(default)]
    pub(crate) home: Pairs<Entry>,
    #[serde(default)]
    pub(crate) env: Pairs<String>,
    pub(crate) git: Option<bool>,
    pub(crate) cwd: Option<String>,
    pub(crate) http: Option<Map<String, Value>>,
    #[serde(default)]
    upstreams: Pairs<String>,
    pub(crate) mcp: Option<Map<String, Value>>,
    pub(crate) lsp: Option<Map<String, Value>>,
    #[serde(default)]
    pub(crate) steps: Vec<Step>,
}

/// One step.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Step {
    pub(crate) op: Option<Op>,
    pub(crate) tool: Option<String>,
    pub(crate) agent: Option<String>,
    pub(crate) session: Option<String>,
    pub(crate) model: Option<Model>,
    pub(crate) input: Option<Value>,
    pub(crate) input_json: Option<String>,
    #[serde(default)]
    pub(crate) parallel_with_next: bool,
    pub(crate) cancel_after_ms: Option<u64>,
    #[serde(default)]
    pub(crate) replies: Vec<Reply>,
    #[serde(default)]
    pub(crate) expect: Expect,
}

/// What a step does instead of calling a tool.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Op {
    Tools,
    Config,
    McpStatus,
    Todos,
}

/// A model, with the key names of the cases.
#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Model {
    #[serde(rename = "providerID", default)]
    pub(crate) provider_id: String,
    #[serde(rename = "modelID", default)]
    pub(crate) model_id: String,
    #[serde(default)]
    pub(crate) npm: String,
}

/// An answer to a prompt.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(try_from = "RawReply")]
pub(crate) enum Reply {
    Permission {
        permission: String,
        answer: Answer,
        message: String,
    },
    Question {
        /// Which of the step's question prompts, from 0.
        index: u64,
        /// The answers; none dismisses the questions.
        answers: Option<Vec<Vec<String>>>,
    },
    /// To the step's question prompt of this number, from 0: it stays open.
    OpenQuestion(u64),
    /// To a run of a subagent.
    Subagent(Subagent),
}

/// What a run of a subagent comes to.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Subagent {
    /// Its last text.
    Text(String),
    /// It failed.
    Error(String),
}

/// What is answered to a permission prompt.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Answer {
    Once,
    Always,
    Reject,
    /// The prompt stays open.
    None,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawReply {
    permission: Option<String>,
    reply: Option<Answer>,
    message: Option<String>,
    question: Option<u64>,
    answers: Option<Vec<Vec<String>>>,
    reject: Option<bool>,
    subagent: Option<Subagent>,
}

impl TryFrom<RawReply> for Reply {
    type Error = String;

    fn try_from(raw: RawReply) -> Result<Self, String> {
        let on_question = raw.answers.is_some() != (raw.reject == Some(true));
        match (raw.permission, raw.reply, raw.question, raw.subagent) {
            (Some(permission), Some(answer), None, None) if raw.answers.is_none() && raw.reject.is_none() => {
                Ok(Self::Permission {
                    permission,
                    answer,
                    message: raw.message.unwrap_or_default(),
                })
            }
            (None, None, Some(index), None) if on_question && raw.message.is_none() => Ok(Self::Question {
                index,
                answers: raw.answers,
            }),
            (None, Some(Answer::None), Some(index), None) if raw.answers.is_none() && raw.reject.is_none() => {
                Ok(Self::OpenQuestion(index))
            }
            (None, None, None, Some(reply)) if raw.message.is_none() => Ok(Self::Subagent(reply)),
            _ => Err("a reply is to a permission, a question or a sub-agent run".to_owned()),
        }
    }
}

/// What must come back.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expect {
    pub(crate) status: Option<Status>,
    pub(crate) output: Option<Matcher>,
    pub(crate) title: Option<Matcher>,
    pub(crate) error: Option<Matcher>,
    pub(crate) metadata: Option<Pairs<Matcher>>,
    pub(crate) attachments: Option<Vec<ExpectedAttachment>>,
    pub(crate) permissions: Option<Vec<ExpectedPermission>>,
    pub(crate) files: Option<Pairs<Option<Entry>>>,
    pub(crate) max_ms: Option<u64>,
    pub(crate) tools: Option<ExpectedTools>,
    pub(crate) config: Option<Pairs<Matcher>>,
    pub(crate) mcp: Option<Pairs<ExpectedServer>>,
    pub(crate) todos: Option<ExpectedTodos>,
    pub(crate) questions: Option<Vec<Pairs<Matcher>>>,
    pub(crate) events: Option<Vec<ExpectedEvent>>,
    pub(crate) requests: Option<Vec<ExpectedRequest>>,
    pub(crate) mcp_calls: Option<Vec<ExpectedMcpCall>>,
    pub(crate) lsp_messages: Option<Vec<ExpectedMessage>>,
    pub(crate) subagents: Option<Vec<ExpectedSubagent>>,
}

/// How a call ends.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Status {
    Completed,
    Error,
}

/// A file that must come with the result.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExpectedAttachment {
    pub(crate) mime: Option<String>,
    pub(crate) filename: Option<String>,
    pub(crate) url: Option<String>,
}

/// A permission that must have been asked for; what is absent is not checked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExpectedPermission {
    pub(crate) permission: Option<String>,
    pub(crate) patterns: Option<Vec<String>>,
    pub(crate) always: Option<Vec<String>>,
    pub(crate) metadata: Option<Pairs<Matcher>>,
}

/// A run of a subagent that must have been asked for; what is absent is not checked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExpectedSubagent {
    pub(crate) agent: Option<String>,
    /// A part of the prompt.
    pub(crate) prompt: Option<String>,
    pub(crate) resumed: Option<bool>,
    #[serde(default)]
    pub(crate) denied: Vec<String>,
    #[serde(default)]
    pub(crate) allowed: Vec<String>,
}

/// What the stored list of tasks must look like.
#[derive(Deserialize)]
#[serde(try_from = "Pairs<Value>")]
pub(crate) enum ExpectedTodos {
    /// The whole.
    Whole(Matcher),
    /// What stands at these pointers.
    At(Pairs<Matcher>),
}

impl TryFrom<Pairs<Value>> for ExpectedTodos {
    type Error = String;

    fn try_from(written: Pairs<Value>) -> Result<Self, String> {
        let is_pointer = |key: &String| key.is_empty() || key.starts_with('/');
        if written.0.iter().any(|(key, _)| is_pointer(key)) {
            let read = |(pointer, value): (String, Value)| match serde_json::from_value(value) {
                Ok(matcher) if is_pointer(&pointer) => Ok((pointer, matcher)),
                Ok(_) => Err(format!("{pointer:?} is no pointer")),
                Err(error) => Err(error.to_string()),
            };
            let pairs = written.0.into_iter().map(read).collect::<Result<_, String>>();
            return pairs.map(|pairs| Self::At(Pairs(pairs)));
        }
        let whole = Value::Object(written.0.into_iter().collect());
        serde_json::from_value(whole)
            .map(Self::Whole)
            .map_err(|error| error.to_string())
    }
}

/// Something that must have been announced.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExpectedEvent {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    #[serde(default)]
    pub(crate) data: Pairs<Matcher>,
}

/// How an MCP server must be.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExpectedServer {
    pub(crate) status: String,
}

/// A call that must have reached an MCP server.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExpectedMcpCall {
    pub(crate) server: String,
    pub(crate) tool: String,
    pub(crate) arguments: Value,
}

/// A message that must have reached a language server; what is absent is not checked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExpectedMessage {
    pub(crate) method: String,
    #[serde(default)]
    pub(crate) params: Pairs<Matcher>,
}

/// What the list of tools must look like.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ExpectedTools {
    pub(crate) present: Vec<String>,
    pub(crate) absent: Vec<String>,
    pub(crate) description: Pairs<Matcher>,
    pub(crate) schema: Pairs<Pairs<Matcher>>,
}

/// Reads every case file of a folder, in the order of their names.
///
/// # Errors
/// A file that is not an array of well-formed cases, or an id that stands twice.
pub(crate) fn load(folder: &Path) -> Result<Vec<Case>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    let mut cases = Vec::new();
    let mut seen = BTreeSet::new();
    for path in paths {
        let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let values: Vec<Map<String, Value>> =
            serde_json::from_str(&text).with_context(|| format!("in {}", path.display()))?;
        for value in values {
            let case = parse(value).with_context(|| format!("in {}", path.display()))?;
            ensure!(
                seen.insert(case.id.clone()),
                "in {}: the id {} stands twice",
                path.display(),
                case.id
            );
            cases.push(case);
        }
    }
    Ok(cases)
}

/// Reads one case.
pub(crate) fn parse(mut object: Map<String, Value>) -> Result<Case> {
    let id: String = take(&mut object, "id")?.context("a case without an id")?;
    parse_named(object, &id).with_context(|| format!("case {id}"))
}

fn parse_named(mut object: Map<String, Value>, id: &str) -> Result<Case> {
    take::<String>(&mut object, "about")?;
    take::<String>(&mut object, "source")?;
    take::<Vec<String>>(&mut object, "holds_in")?;
    let needs = take::<Vec<String>>(&mut object, "needs")?.unwrap_or_default();
    let kind = take::<String>(&mut object, "kind")?;
    let body = match kind.as_deref() {
        None => {
            let scenario: Scenario = read(object)?;
            scenario.validate()?;
            Body::Steps(Box::new(scenario))
        }
        Some("wildcard") => Body::Wildcard(read(object)?),
        Some("evaluate") => Body::Evaluate(read(object)?),
        Some("ruleset") => Body::Ruleset(read(object)?),
        Some("disabled_tools") => Body::DisabledTools(read(object)?),
        Some("agent_permission") => Body::AgentPermission(read(object)?),
        Some("registry") => Body::Registry(read(object)?),
        Some("truncate") => Body::Truncate(read(object)?),
        Some("arity") => Body::Arity(read(object)?),
        Some("schema_transform") => Body::SchemaTransform(read(object)?),
        Some(other) => bail!("unknown kind `{other}`"),
    };
    Ok(Case {
        id: id.to_owned(),
        needs,
        body,
    })
}

fn read<T: DeserializeOwned>(object: Map<String, Value>) -> Result<T> {
    Ok(serde_json::from_value(Value::Object(object))?)
}

fn take<T: DeserializeOwned>(object: &mut Map<String, Value>, key: &str) -> Result<Option<T>> {
    let value = object.remove(key).map(serde_json::from_value);
    value.transpose().with_context(|| format!("the key `{key}`"))
}

fn only_keys(value: &Value, allowed: &[&str]) -> Result<()> {
    let object = value.as_object().context("an object is expected")?;
    match object.keys().find(|key| !allowed.contains(&key.as_str())) {
        Some(key) => bail!("unknown key `{key}`"),
        None => Ok(()),
    }
}

const RESPONSE: &[&str] = &[
    "status",
    "headers",
    "body",
    "body_base64",
    "body_repeat",
    "body_lines",
    "delay_ms",
    "chunked",
];
/// The services that a case can play, and the variables that say where they are.
const UPSTREAMS: &[(&str, &str)] = &[("exa", "TOOLGATE_SEARCH_ENDPOINT")];
const MCP_SERVER: &[&str] = &["tools", "config", "behave"];
const MCP_TOOL: &[&str] = &[
    "name",
    "description",
    "inputSchema",
    "result",
    "error",
    "delay_ms",
    "exit",
];
const LSP_SERVER: &[&str] = &["extensions", "initialization", "responses", "behave"];

impl Scenario {
    /// Returns the environment of the service, with where its upstreams are.
    pub(crate) fn environment(&self) -> Pairs<String> {
        let upstreams = self.upstreams.0.iter().filter_map(|(name, path)| {
            let (_, variable) = UPSTREAMS.iter().find(|(known, _)| known == name)?;
            Some(((*variable).to_owned(), format!("${{http}}{path}")))
        });
        Pairs(upstreams.chain(self.env.0.iter().cloned()).collect())
    }

    fn validate(&self) -> Result<()> {
        ensure!(!self.steps.is_empty(), "a case without steps");
        let is_unknown = |name: &String| !UPSTREAMS.iter().any(|(known, _)| known == name);
        if let Some((name, _)) = self.upstreams.0.iter().find(|(name, _)| is_unknown(name)) {
            bail!("unknown upstream `{name}`");
        }
        ensure!(
            self.upstreams.0.is_empty() || self.http.is_some(),
            "upstreams without `http`"
        );
        for response in self.http.iter().flat_map(Map::values) {
            match response.as_array() {
                Some(responses) => responses.iter().try_for_each(|it| only_keys(it, RESPONSE))?,
                None => only_keys(response, RESPONSE)?,
            }
        }
        for server in self.mcp.iter().flat_map(Map::values) {
            only_keys(server, MCP_SERVER)?;
            let tools = server.get("tools").and_then(Value::as_array);
            tools
                .into_iter()
                .flatten()
                .try_for_each(|tool| only_keys(tool, MCP_TOOL))?;
        }
        for server in self.lsp.iter().flat_map(Map::values) {
            only_keys(server, LSP_SERVER)?;
        }
        let last = self.steps.len() - 1;
        for (index, step) in self.steps.iter().enumerate() {
            step.validate().with_context(|| format!("step {}", index + 1))?;
            let next_is_a_call = index < last && self.steps[index + 1].op.is_none();
            ensure!(
                !step.parallel_with_next || next_is_a_call,
                "step {}: no call follows that could run in parallel",
                index + 1
            );
        }
        Ok(())
    }
}

impl Step {
    fn validate(&self) -> Result<()> {
        let keys = self.expect.keys();
        match self.op {
            None => {
                ensure!(self.tool.is_some(), "neither an op nor a tool");
                ensure!(
                    self.input.is_none() || self.input_json.is_none(),
                    "both input and input_json"
                );
                refuse(&keys, |key| ["tools", "config", "mcp", "todos"].contains(&key))?;
                ensure!(self.model.is_none(), "a call's model cannot be chosen");
            }
            Some(op) => {
                let is_call = self.tool.is_some() || self.input.is_some() || self.input_json.is_some();
                let is_asked = !self.replies.is_empty() || self.cancel_after_ms.is_some() || self.parallel_with_next;
                ensure!(!is_call && !is_asked, "{op:?} is not a tool call");
                refuse(&keys, |key| !op.expectations().contains(&key))?;
            }
        }
        Ok(())
    }
}

fn refuse(keys: &[&'static str], is_wrong: impl Fn(&str) -> bool) -> Result<()> {
    match keys.iter().find(|key| is_wrong(key)) {
        Some(key) => bail!("`{key}` cannot be expected of this step"),
        None => Ok(()),
    }
}

impl Op {
    fn expectations(self) -> &'static [&'static str] {
        match self {
            Self::Tools => &["tools"],
            Self::Config => &["config", "error"],
            Self::McpStatus => &["mcp"],
            Self::Todos => &["todos"],
        }
    }
}

impl Expect {
    fn keys(&self) -> Vec<&'static str> {
        let keys = [
            ("status", self.status.is_some()),
            ("output", self.output.is_some()),
            ("title", self.title.is_some()),
            ("error", self.error.is_some()),
            ("metadata", self.metadata.is_some()),
            ("attachments", self.attachments.is_some()),
            ("permissions", self.permissions.is_some()),
            ("files", self.files.is_some()),
            ("max_ms", self.max_ms.is_some()),
            ("tools", self.tools.is_some()),
            ("config", self.config.is_some()),
            ("mcp", self.mcp.is_some()),
            ("todos", self.todos.is_some()),
            ("questions", self.questions.is_some()),
            ("events", self.events.is_some()),
            ("mcp_calls", self.mcp_calls.is_some()),
            ("requests", self.requests.is_some()),
            ("lsp_messages", self.lsp_messages.is_some()),
            ("subagents", self.subagents.is_some()),
        ];
        keys.into_iter().filter_map(|(key, set)| set.then_some(key)).collect()
    }
}
