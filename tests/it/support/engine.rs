//! The engine alone, in this process, with one tool that a test drives: for what no client can time.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use schemars::JsonSchema;
use serde::Deserialize;
use tempfile::TempDir;
use tokio::sync::Semaphore;
use toolgate_engine::prompts::broker::{ApprovalPolicy, Broker, PromptPolicy};
use toolgate_engine::{Current, Engine, InForce, Limits, RunLimits, WorkspaceRuntime, record_tool_changes};
use toolgate_fs::Workspace;
use toolgate_model::{
    CallId, InstanceId, Model, OnDisconnect, Origin, Outcome, OutputText, RawInput, SessionId, ToolCall, ToolOutput,
};
use toolgate_permission::agents::{Agents, AgentsConfig, Folders};
use toolgate_store::Store;
use toolgate_store::local::LocalStore;
use toolgate_tool::{About, Catalog, ChildCall, Offer, Properties, Tool, ToolContext, ToolError, TypedTool};

/// A tool that writes one line for each permit and ends when the semaphore is closed.
pub(crate) struct Gate(Arc<Semaphore>);

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Nothing {}

#[async_trait]
impl TypedTool for Gate {
    type Input = Nothing;

    const ABOUT: About = About {
        name: "gate",
        effects: &[],
        permissions: &[],
        advertised: true,
        properties: Properties::NONE,
        example: "{}",
    };

    fn description(&self, _: &Offer<'_>) -> String {
        "waits".to_owned()
    }

    async fn run(&self, _: Nothing, ctx: &ToolContext) -> Result<ToolOutput, ToolError> {
        while let Ok(permit) = self.0.acquire().await {
            permit.forget();
            ctx.output.write(Bytes::from_static(b"line\n")).await?;
        }
        Ok(ToolOutput {
            title: String::new(),
            output: OutputText::Stored,
            metadata: Default::default(),
            attachments: Vec::new(),
            result: None,
        })
    }
}

/// A tool that makes a call of [`Gate`], waits for its end and returns its output.
struct Maker;

#[async_trait]
impl TypedTool for Maker {
    type Input = Nothing;

    const ABOUT: About = About {
        name: "maker",
        ..Gate::ABOUT
    };

    fn description(&self, _: &Offer<'_>) -> String {
        "makes a call".to_owned()
    }

    async fn run(&self, _: Nothing, ctx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let gate = ChildCall {
            tool: "gate".to_owned(),
            input: serde_json::json!({}),
            is_step: false,
        };
        let ending = ctx.children.start(gate).await?.ended().await?;
        match ending.outcome {
            Outcome::Completed { output } => Ok(ToolOutput {
                output: OutputText::Text(output),
                ..ToolOutput::default()
            }),
            Outcome::Failed { reason, error } => Err(ToolError::Child { reason, error }),
        }
    }
}

/// An engine in this process.
pub(crate) struct Inside {
    pub(crate) engine: Arc<Engine>,
    /// Drives the tool.
    pub(crate) gate: Arc<Semaphore>,
    pub(crate) store: Arc<LocalStore>,
    _folder: TempDir,
}

impl Inside {
    pub(crate) fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let path: &Path = folder.path();
        let instance = InstanceId::generate();
        let store = Arc::new(LocalStore::open(&path.join("data"), instance.clone()).unwrap());
        let shared: Arc<dyn Store> = store.clone();
        let broker = Broker::new(
            shared.clone(),
            instance.clone(),
            PromptPolicy::default(),
            ApprovalPolicy::default(),
        );
        let gate = Arc::new(Semaphore::new(0));
        let folders = Folders {
            output_dir: path,
            data_dir: path,
            skills: &[],
        };
        let place = WorkspaceRuntime {
            default_client: "cli".to_owned(),
            workspace: Arc::new(Workspace::open("default", path, None).unwrap()),
            tools: Arc::new(
                Catalog::new(
                    record_tool_changes("default", shared.clone()),
                    Arc::new(toolgate_tools::invalid::Invalid),
                    [Arc::new(Gate(gate.clone())) as Arc<dyn Tool>, Arc::new(Maker)],
                )
                .unwrap(),
            ),
            trusted: false,
            in_force: Current::new(InForce {
                agents: Arc::new(Agents::new(&AgentsConfig::default(), folders)),
                ..InForce::default()
            }),
            gate: toolgate_engine::Gate::default(),
            opened: None,
        };
        let limits = Limits {
            running: RunLimits {
                max_running: 8,
                max_per_workspace: None,
                max_per_session: None,
                max_per_principal: None,
                max_queued: 0,
                max_queued_bytes: 1024,
            },
            max_input_bytes: 1024,
            max_output_bytes: 1 << 20,
            max_undo_bytes: 1 << 20,
        };
        Self {
            engine: Engine::new(shared, broker, instance, vec![place], limits, Default::default()),
            gate,
            store,
            _folder: folder,
        }
    }

    /// A call of the tool.
    pub(crate) fn call(id: &str, on_disconnect: OnDisconnect) -> ToolCall {
        ToolCall {
            id: CallId::from(id),
            id_is_new: false,
            origin: Origin {
                workspace: "default".to_owned(),
                session: SessionId::from("session"),
                directory: String::new(),
                message_id: String::new(),
                agent: "build".to_owned(),
                model: Model::default(),
                client: "cli".to_owned(),
                client_name: String::new(),
                unanswered: None,
                parent: None,
                requester: String::new(),
                on_behalf_of: Vec::new(),
                clients: Vec::new(),
                extra: Default::default(),
                environment: Default::default(),
            },
            tool: "gate".to_owned(),
            input: RawInput::Json("{}".to_owned()),
            timeout: None,
            on_disconnect,
        }
    }
}
