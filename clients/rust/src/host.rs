//! What a program lends to the service: tools, the running of subagents, hooks.
//!
//! *Invariant:* what the service refuses is an error, unless the program asks to be told.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::Value;
use toolgate_contract::{HostHello, HostRunSubagent, HostWelcome};

use crate::client::Client;
use crate::error::{BoxError, Error};
use crate::hosting::Hosting;
use crate::invocation::Invocation;
use crate::tool::{Tool, ToolFuture, ToolResult};

type HookFuture = Pin<Box<dyn Future<Output = Result<Option<Value>, BoxError>> + Send>>;
pub(crate) type SubagentFunction = Arc<dyn Fn(Subagent) -> ToolFuture + Send + Sync>;
pub(crate) type HookFunction = Arc<dyn Fn(HookEvent) -> HookFuture + Send + Sync>;

type OnReady = dyn FnMut(&HostWelcome) + Send;

/// A subagent to run. The calls that it makes name `invocation.call_id` as their parent and `request.session_id` as their
/// session.
#[derive(Clone, Debug)]
pub struct Subagent {
    /// Reports progress and output.
    pub invocation: Invocation,
    /// What to run: the agent, its session, its model, and what it is to do.
    pub request: HostRunSubagent,
}

/// What a hook is told.
#[derive(Clone, Debug, PartialEq)]
pub struct HookEvent {
    /// The point, for example `tool.execute.before`.
    pub point: String,
    /// What it is about.
    pub input: Value,
    /// What it may change.
    pub output: Value,
}

/// Functions of this program that the service may call. To everybody else they are tools like the others: listed, checked
/// against their schema, asked for, recorded and cancelled.
#[must_use = "a host does nothing until it is run"]
pub struct Host {
    pub(crate) client: Client,
    pub(crate) hello: HostHello,
    pub(crate) tools: HashMap<String, Tool>,
    pub(crate) subagent: Option<SubagentFunction>,
    pub(crate) hooks: HashMap<String, HookFunction>,
    pub(crate) on_ready: Option<Box<OnReady>>,
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host")
            .field("hello", &self.hello)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// Prepares to lend tools. The name is for people.
    pub fn host(&self, name: impl Into<String>) -> Host {
        Host {
            client: self.clone(),
            hello: HostHello {
                name: name.into(),
                workspace: self.context().workspace.clone(),
                ..HostHello::default()
            },
            tools: HashMap::new(),
            subagent: None,
            hooks: HashMap::new(),
            on_ready: None,
        }
    }
}

impl Host {
    /// Lends to this workspace; by default to the client's, or else to the first one.
    pub fn workspace(mut self, name: impl Into<String>) -> Self {
        self.hello.workspace = name.into();
        self
    }

    /// Lends a tool.
    pub fn tool(mut self, tool: Tool) -> Self {
        self.hello.tools.push(tool.definition.clone());
        self.tools.insert(tool.definition.name.clone(), tool);
        self
    }

    /// Runs subagents, which makes the tool `task` available; `agents` are those that it can run, none for all.
    pub fn subagents<F, R>(mut self, agents: impl IntoIterator<Item = impl Into<String>>, run: F) -> Self
    where
        F: Fn(Subagent) -> R + Send + Sync + 'static,
        R: Future<Output = Result<ToolResult, BoxError>> + Send + 'static,
    {
        self.hello.runs_subagents = true;
        self.hello.subagents = agents.into_iter().map(Into::into).collect();
        self.subagent = Some(Arc::new(move |subagent| Box::pin(run(subagent))));
        self
    }

    /// Takes part in every call of the workspace at this point, for example `tool.execute.before`. The function returns the
    /// changed output, or `None` for no change; its error refuses the call, with its text for the model.
    pub fn hook<F, R>(mut self, point: impl Into<String>, run: F) -> Self
    where
        F: Fn(HookEvent) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Option<Value>, BoxError>> + Send + 'static,
    {
        let point = point.into();
        self.hello.hooks.push(point.clone());
        self.hooks.insert(point, Arc::new(move |event| Box::pin(run(event))));
        self
    }

    /// Is called when the tools are lent, again after each reconnection, and told what the service refuses. Without it, a
    /// refusal ends [`Self::run`] with [`Error::Refused`].
    pub fn on_ready(mut self, callback: impl FnMut(&HostWelcome) + Send + 'static) -> Self {
        self.on_ready = Some(Box::new(callback));
        self
    }

    /// Lends the tools until its future is dropped, or the service cannot be reached any more; it returns why. After a lost
    /// connection it comes back by itself, within the grace that the service gives: a function that runs goes on, and
    /// none is run twice. When the future is dropped the tools are taken back.
    ///
    /// All functions run within this one future: a function that blocks holds up the others, so let it do its work with
    /// `tokio::task::spawn_blocking`.
    pub async fn run(self) -> Error {
        let client = self.client.clone();
        let mut hosting = Hosting::new(self);
        let failure = client.unless_closed(async { Err::<(), Error>(hosting.serve().await) });
        failure.await.err().unwrap_or(Error::Closed)
    }
}
