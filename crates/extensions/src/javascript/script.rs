//! JavaScript files as tools and hooks.
//!
//! *Invariant:* a tool asks for its own name before it runs; what else it asks goes through the same rules. A tool and a
//! hook keep the file as it was when they were made, until the last of them is gone.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_model::{Ask, Attachment, AttachmentContent, Definition, Effect, JsonMap, OutputText, Source, ToolOutput};
use toolgate_permission::Refusal;
use toolgate_tool::{Contribution, Hook, HookError, HookPoint, Offer, Tool, ToolContext, ToolError, invalid_arguments};

use crate::asking::ask_to_run;

use super::discovery::{Kind, Script};
use super::host::{Conversation, Event, Hosts, Progress};

/// The hooks that are no points of calls.
const OTHER_HOOKS: [&str; 4] = [EVENT, "config", "dispose", "tool"];
const EVENT: &str = "event";

/// How long a file may take to load.
const LOAD_LIMIT: Duration = Duration::from_secs(30);

/// What a script may do: what a program may.
pub(super) const ANYTHING: [Effect; 4] = [Effect::Reads, Effect::Writes, Effect::RunsPrograms, Effect::Network];

/// A file as it was at one moment, with a thread of the host's.
pub(super) struct Module {
    id: u64,
    spec: Value,
    shown: String,
    hosts: Arc<Hosts>,
}

impl Module {
    /// Returns the path of the file as people know it.
    pub(super) fn shown(&self) -> &str {
        &self.shown
    }

    /// Returns what the file has wanted that is not there.
    pub(super) fn notes(&self) -> BTreeSet<String> {
        self.hosts.notes(self.id)
    }

    /// Sends a request about the file.
    pub(super) async fn request(&self, request: Value) -> Result<Conversation, String> {
        self.hosts.request(self.id, &self.spec, request).await
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        self.hosts.unload(self.id);
    }
}

/// What a file offers.
pub(super) struct Loaded {
    pub(super) contribution: Contribution,
    /// What is wrong with some of it; empty if nothing.
    pub(super) problem: String,
    /// The file itself.
    pub(super) module: Arc<Module>,
    /// The configuration as a plugin left it, if it has changed anything.
    pub(super) left: Option<JsonMap>,
    /// Whether it hears of what happens.
    pub(super) hears: bool,
}

/// Why a file offers nothing.
#[derive(Debug, thiserror::Error)]
pub(super) enum LoadError {
    /// It is at fault, and so is as long as it stays as it is.
    #[error("{0}")]
    File(String),
    /// There is no host; that may be over the next time.
    #[error("{0}")]
    NoHost(String),
    /// The host has ended meanwhile, for this file or for something else.
    #[error("{0}")]
    HostEnded(String),
}

#[derive(Deserialize)]
struct About {
    error: Option<Failure>,
    #[serde(default)]
    tools: Vec<AboutTool>,
    #[serde(default)]
    hooks: Vec<String>,
    #[serde(default)]
    problem: Option<String>,
    #[serde(default)]
    config: Option<JsonMap>,
}

#[derive(Deserialize)]
struct AboutTool {
    name: String,
    description: String,
    schema: Value,
}

#[derive(Deserialize)]
struct Done<T> {
    result: Option<T>,
    error: Option<Failure>,
}

#[derive(Deserialize)]
struct Failure {
    message: String,
    /// The arguments are not what the tool takes.
    #[serde(default)]
    invalid: bool,
}

#[derive(Deserialize)]
struct Returned {
    title: String,
    output: String,
    metadata: JsonMap,
    attachments: Vec<RawAttachment>,
}

#[derive(Deserialize)]
struct RawAttachment {
    mime: String,
    url: String,
    filename: Option<String>,
}

#[derive(Deserialize)]
struct RawAsk {
    number: Value,
    permission: String,
    patterns: Vec<String>,
    always: Vec<String>,
    metadata: JsonMap,
}

/// Loads a file and finds out what it offers.
pub(super) async fn load(hosts: &Arc<Hosts>, script: &Script, config: &Value) -> Result<Loaded, LoadError> {
    let workspace = hosts.workspace();
    let id = hosts.number();
    let name = script.path.file_stem().unwrap_or_default().to_string_lossy();
    let module = Arc::new(Module {
        id,
        spec: json!({
            "id": id,
            "kind": match script.kind { Kind::Tools => "tools", Kind::Plugin => "plugin" },
            "path": script.path.to_string_lossy(),
            "shown": script.shown,
            "name": name,
            "options": script.options,
            "config": if script.kind == Kind::Plugin { config } else { &Value::Null },
            "workspace": {
                "name": workspace.name(),
                "directory": workspace.directory().to_string_lossy(),
                "worktree": workspace.worktree().to_string_lossy(),
            },
        }),
        shown: script.shown.clone(),
        hosts: hosts.clone(),
    });
    let loading = async {
        let loading = module.request(json!({ "op": "load" })).await;
        let answer = loading.map_err(LoadError::NoHost)?.answer().await;
        answer.map_err(LoadError::HostEnded)
    };
    let answer = match tokio::time::timeout(LOAD_LIMIT, loading).await {
        Ok(answer) => answer?,
        Err(_) => {
            let problem = format!("it did not load within {} s", LOAD_LIMIT.as_secs());
            return Err(LoadError::File(problem));
        }
    };
    let about: About = serde_json::from_value(answer).map_err(|error| LoadError::File(error.to_string()))?;
    if let Some(failure) = about.error {
        return Err(LoadError::File(failure.message));
    }
    let tools: Vec<Arc<dyn Tool>> = about
        .tools
        .into_iter()
        .map(|about| {
            Arc::new(ScriptTool {
                about,
                kind: script.kind,
                module: module.clone(),
            }) as Arc<dyn Tool>
        })
        .collect();
    let points: Vec<HookPoint> = about
        .hooks
        .iter()
        .filter_map(|name| HookPoint::from_name(name))
        .collect();
    let hook = (!points.is_empty()).then(|| {
        Arc::new(ScriptHook {
            points,
            module: module.clone(),
        }) as Arc<dyn Hook>
    });
    let problems = [about.problem.unwrap_or_default(), never_called(&about.hooks)];
    let problems: Vec<String> = problems.into_iter().filter(|text| !text.is_empty()).collect();
    Ok(Loaded {
        contribution: Contribution {
            tools,
            hooks: hook.into_iter().collect(),
        },
        problem: problems.join("; "),
        module,
        left: about.config,
        hears: about.hooks.iter().any(|name| name == EVENT),
    })
}

/// Says which hooks of a plugin nobody calls here.
fn never_called(hooks: &[String]) -> String {
    let is_called = |name: &&String| HookPoint::from_name(name).is_some() || OTHER_HOOKS.contains(&name.as_str());
    let others: Vec<&str> = hooks
        .iter()
        .filter(|name| !is_called(name))
        .map(String::as_str)
        .collect();
    if others.is_empty() {
        return String::new();
    }
    format!(
        "not called here, because they belong to whoever talks to the model: {}",
        others.join(", ")
    )
}

struct ScriptTool {
    about: AboutTool,
    kind: Kind,
    module: Arc<Module>,
}

#[async_trait]
impl Tool for ScriptTool {
    fn name(&self) -> &str {
        &self.about.name
    }

    fn input_schema(&self) -> Value {
        self.about.schema.clone()
    }

    fn definition(&self, _offer: &Offer<'_>) -> Definition {
        let AboutTool {
            name,
            description,
            schema,
            ..
        } = &self.about;
        let source = match self.kind {
            Kind::Tools => Source::Custom,
            Kind::Plugin => Source::Plugin,
        };
        Definition::foreign(name, description, schema, source, &ANYTHING)
    }

    async fn call(&self, input: Value, ctx: &ToolContext) -> Result<ToolOutput, ToolError> {
        ask_to_run(&self.about.name, self.about.name.clone(), &input, ctx).await?;
        let request = json!({
            "op": "call",
            "tool": self.about.name,
            "args": input,
            "context": context(&self.module.hosts, ctx),
        });
        let conversation = self.module.request(request).await.map_err(ToolError::failed)?;
        let answer = converse(conversation, ctx).await?;
        let done: Done<Returned> = serde_json::from_value(answer).map_err(|error| ToolError::Internal(error.into()))?;
        match done {
            Done {
                error: Some(failure), ..
            } if failure.invalid => Err(ToolError::failed(invalid_arguments(&self.about.name, &failure.message))),
            Done {
                error: Some(failure), ..
            } => Err(ToolError::failed(failure.message)),
            Done {
                result: Some(returned), ..
            } => Ok(returned.into()),
            Done { .. } => Err(ToolError::failed("The tool ended without a result.")),
        }
    }
}

fn context(hosts: &Hosts, ctx: &ToolContext) -> Value {
    let workspace = hosts.workspace();
    let message = if ctx.origin.message_id.is_empty() {
        // Whoever calls by hand names no message; tools rely on there being one.
        format!("msg_{}", ctx.call.as_str().replace('-', ""))
    } else {
        ctx.origin.message_id.clone()
    };
    json!({
        "sessionID": ctx.session_id(),
        "messageID": message,
        "callID": ctx.call.name(),
        "agent": ctx.origin.agent,
        "directory": workspace.directory().to_string_lossy(),
        "worktree": workspace.worktree().to_string_lossy(),
        "extra": ctx.origin.extra,
    })
}

/// Serves a running tool until it has an answer.
async fn converse(mut conversation: Conversation, ctx: &ToolContext) -> Result<Value, ToolError> {
    let mut asking = FuturesUnordered::new();
    let mut refusals: Vec<Refusal> = Vec::new();
    let mut shown = BTreeSet::new();
    let mut is_aborted = false;
    loop {
        tokio::select! {
            biased;
            () = ctx.cancelled.cancelled(), if !is_aborted => {
                is_aborted = true;
                conversation.abort();
            }
            event = conversation.next() => match event {
                _ if is_aborted && !matches!(event, Ok(Event::Progress(_) | Event::Ask(_))) => return Err(ToolError::Cancelled),
                Ok(Event::Progress(Progress { title, metadata })) => {
                    ctx.output.progress(title, instead_of(&mut shown, metadata)).await;
                }
                Ok(Event::Ask(body)) => {
                    if let Ok(ask) = serde_json::from_value::<RawAsk>(body) {
                        asking.push(answer(ask, ctx));
                    }
                }
                Ok(Event::Done(answer)) => return handed_on(answer, refusals),
                Err(reason) => return Err(ToolError::failed(reason)),
            },
            Some((number, result)) = asking.next(), if !asking.is_empty() => {
                let refused = result.as_ref().err().map(ToString::to_string);
                conversation.reply(&number, refused.as_deref());
                refusals.extend(result.err());
            }
        }
    }
}

/// Makes a patch of metadata that stands in the place of what was shown before: keys that are not there any more go.
fn instead_of(shown: &mut BTreeSet<String>, metadata: JsonMap) -> JsonMap {
    let keys = metadata.keys().cloned().collect();
    let before = std::mem::replace(shown, keys);
    let gone = before.into_iter().filter(|key| !shown.contains(key));
    let mut patch: JsonMap = gone.map(|key| (key, Value::Null)).collect();
    patch.extend(metadata);
    patch
}

async fn answer(ask: RawAsk, ctx: &ToolContext) -> (Value, Result<(), Refusal>) {
    let title = ask.patterns.join(", ");
    let asked = ctx.permission.ask(Ask {
        title: format!("{} {title}", ask.permission).trim().to_owned(),
        permission: ask.permission,
        patterns: ask.patterns,
        always: ask.always,
        metadata: ask.metadata,
        // The tool runs already, and nobody knows what it has done.
        late: true,
        ..Ask::default()
    });
    (ask.number, asked.await.map(drop))
}

/// Ends a call that failed because it was refused something as one that was refused.
fn handed_on(answer: Value, refusals: Vec<Refusal>) -> Result<Value, ToolError> {
    let error = answer.get("error").filter(|error| error["refused"] == true);
    let text = error.and_then(|error| error["message"].as_str());
    match text.and_then(|text| refusals.into_iter().find(|refusal| refusal.to_string() == text)) {
        Some(refusal) => Err(ToolError::Refused(refusal)),
        None => Ok(answer),
    }
}

impl From<Returned> for ToolOutput {
    fn from(returned: Returned) -> Self {
        let mut metadata = returned.metadata;
        // The engine cuts, and says so; a tool's own word would keep it from that.
        metadata.shift_remove("truncated");
        Self {
            title: returned.title,
            output: OutputText::Text(returned.output),
            metadata,
            attachments: returned
                .attachments
                .into_iter()
                .map(|raw| Attachment {
                    id: format!("att_{}", uuid::Uuid::now_v7().simple()),
                    mime: raw.mime,
                    filename: raw.filename,
                    content: AttachmentContent::Url(raw.url),
                })
                .collect(),
            result: None,
        }
    }
}

struct ScriptHook {
    points: Vec<HookPoint>,
    module: Arc<Module>,
}

#[async_trait]
impl Hook for ScriptHook {
    fn name(&self) -> &str {
        &self.module.shown
    }

    fn handles(&self, point: HookPoint) -> bool {
        self.points.contains(&point)
    }

    async fn run(&self, point: HookPoint, input: Value, output: Value) -> Result<Value, HookError> {
        let failed = |problem: String| HookError::Failed {
            name: self.module.shown.clone(),
            problem,
        };
        let request = json!({
            "op": "hook",
            "point": point.as_str(),
            "input": input,
            "output": output,
        });
        let conversation = self.module.request(request).await.map_err(failed)?;
        let answer = conversation.answer().await.map_err(failed)?;
        let done: Done<Value> = serde_json::from_value(answer).map_err(|error| failed(error.to_string()))?;
        match done.error {
            Some(failure) => Err(HookError::Refused(failure.message)),
            None => Ok(done.result.unwrap_or_default()),
        }
    }
}
