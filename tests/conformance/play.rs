//! Plays a case through the contract: makes its folders, starts its server, takes its steps, stops its server.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use toolgate_contract::{
    CallCompleted, CallContext, CallFailed, ExecuteToolRequest, GetServerInfoRequest, GetServerInfoResponse, LentTool,
    ListToolsRequest, ModelRef, OnDisconnect, OutputMode, PermissionRequest, ToolDefinition, call_event,
    execute_tool_request, prompt,
};

use crate::approver::{Approver, Inner, Notice};
use crate::case::{Model, Op, Pairs, Scenario, Step};
use crate::connection::{Connection, Execution};
use crate::driver::Driver;
use crate::fleet::Fleet;
use crate::gateway::Workers;
use crate::happenings::{self, Happenings};
use crate::host::{Host, Script};
use crate::http::Http;
use crate::rows::{AgentPermission, Registry, SchemaTransform};
use crate::server::{Server, print_config};
use crate::tables;
use crate::vars::Vars;
use crate::verdict;
use crate::workspace::{Folders, GitTemplate, Setup};
use crate::{lsp, mcp};

/// How long the steps of a case may take; starting and stopping the server have limits of their own.
const STEPS_LIMIT: Duration = Duration::from_secs(60);
/// How long a call may go on after the last one of the calls that ran beside it has ended: a prompt that stays open is
/// settled by then or never.
const LINGER: Duration = Duration::from_secs(10);
/// How long messages may take to reach a language server after the call that they belong to has ended: a tool that tells
/// of a file does not wait for the server.
const MESSAGES_LIMIT: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(20);
/// The session of a step that names none.
const SESSION: &str = "ses_case";

/// What is wrong, one text per expectation that does not hold.
pub(crate) type Problems = Vec<String>;

/// A call as it was seen.
pub(crate) struct Observed {
    /// The tool that ran, `invalid` if the call was repaired to that.
    pub(crate) tool: String,
    pub(crate) asked: Vec<PermissionRequest>,
    /// The question requests, as the cases write them.
    pub(crate) questions: Vec<Value>,
    pub(crate) end: End,
    pub(crate) elapsed: Duration,
}

/// How a call ended.
pub(crate) enum End {
    Completed(CallCompleted),
    Failed(CallFailed),
}

/// What cases are played with.
pub(crate) struct Bench {
    pub(crate) template: GitTemplate,
    /// The driver of a client library; without one the runner's own stubs are used.
    pub(crate) driver: Option<Driver>,
    /// The other workers of the gateway through which services are reached; without them they are reached by themselves.
    pub(crate) others: Option<Workers>,
    /// What gives each service a gateway with a database, and makes it a worker.
    pub(crate) fleet: Option<Fleet>,
}

/// Plays a case that is made of steps.
pub(crate) async fn scenario(scenario: &Scenario, bench: &Bench) -> Result<Problems> {
    let http = match &scenario.http {
        Some(paths) => Some(Http::start(paths).await?),
        None => None,
    };
    let setup = Setup {
        files: Some(&scenario.files),
        outside: Some(&scenario.outside),
        home: Some(&scenario.home),
        config: Some(&scenario.config),
        mcp: scenario.mcp.as_ref(),
        http: http.as_ref().map(Http::address),
        lsp: scenario.lsp.as_ref(),
        cwd: scenario.cwd.as_deref(),
        without_git: scenario.git == Some(false),
    };
    let folders = Folders::make(&bench.template, &setup)?;
    if scenario.steps.iter().all(|step| step.op == Some(Op::Config)) {
        // A configuration that must be refused would keep a server from starting.
        return in_time(config_steps(scenario, &folders)).await;
    }
    let server = Server::start(&folders, &scenario.environment(), bench).await?;
    let outcome = in_time(with_approver(scenario, &folders, http.as_ref(), &server)).await;
    finish(server, outcome).await
}

async fn with_approver(
    scenario: &Scenario,
    folders: &Folders,
    http: Option<&Http>,
    server: &Server,
) -> Result<Problems> {
    let (approver, notices) = Approver::open(&server.connection()).await?;
    let script = Script::default();
    // With a front end there that runs the model, `task` is offered, and hints name it.
    let is_for_host =
        |step: &Step| step.op == Some(Op::Tools) || matches!(step.tool.as_deref(), Some("task" | "batch"));
    let host = if scenario.steps.iter().any(is_for_host) {
        Some(Host::open(&server.connection(), script.clone(), Vec::new()).await?)
    } else {
        None
    };
    let hosting = async {
        match host {
            Some(host) => host.run().await,
            None => std::future::pending().await,
        }
    };
    let mut player = Player::new(scenario, folders, server.connection(), notices, script);
    player.http = http;
    if scenario.steps.iter().any(|step| step.expect.events.is_some()) {
        player.happenings = Some(Happenings::watch(server.connection()).await?);
    }
    tokio::select! {
        outcome = player.play() => outcome,
        broken = approver.run() => match broken {
            Ok(never) => match never {},
            Err(error) => Err(error),
        },
        broken = hosting => match broken {
            Ok(never) => match never {},
            Err(error) => Err(error),
        },
    }
}

pub(crate) async fn in_time<T>(steps: impl Future<Output = Result<T>>) -> Result<T> {
    let limited = timeout(STEPS_LIMIT, steps).await;
    limited.unwrap_or_else(|_| Err(anyhow::anyhow!("the steps have not ended after {STEPS_LIMIT:?}")))
}

/// Stops the server; how it ends is part of every case.
pub(crate) async fn finish(server: Server, outcome: Result<Problems>) -> Result<Problems> {
    let log = server.log_tail();
    let stopped = server.stop().await;
    let mut problems = outcome.unwrap_or_else(|error| vec![format!("{error:#}{log}")]);
    if let Err(error) = stopped {
        problems.push(format!("stopping the server\n{error:#}"));
    }
    Ok(problems)
}

async fn config_steps(scenario: &Scenario, folders: &Folders) -> Result<Problems> {
    let mut problems = Problems::new();
    for (index, step) in scenario.steps.iter().enumerate() {
        let output = print_config(folders, &scenario.env).await?;
        problems.extend(verdict::config(&name_of(index, step), step, &output, &folders.vars()));
    }
    Ok(problems)
}

/// Plays `kind: agent_permission`.
pub(crate) async fn agent_permission(table: &AgentPermission, bench: &Bench) -> Result<Problems> {
    let folders = Folders::make(
        &bench.template,
        &Setup {
            config: Some(&table.config),
            ..Setup::default()
        },
    )?;
    let server = Server::start(&folders, &Pairs::default(), bench).await?;
    let outcome = in_time(evaluate(table, &server.connection())).await;
    finish(server, outcome).await
}

/// Holds the rules that the service says an agent has against what the table expects of them.
async fn evaluate(table: &AgentPermission, connection: &Connection) -> Result<Problems> {
    let method = "toolgate.v1.InfoService/GetServerInfo";
    let info: GetServerInfoResponse = connection.unary(method, GetServerInfoRequest {}).await?;
    let workspace = info.workspaces.into_iter().next().context("a workspace")?;
    let agent = workspace.agents.into_iter().find(|agent| agent.name == table.agent);
    let agent = agent.with_context(|| format!("an agent named {}", table.agent))?;
    Ok(tables::decided(
        &agent.rules,
        Path::new(&workspace.worktree),
        &table.queries,
    ))
}

/// Plays `kind: registry`.
pub(crate) async fn registry(table: &Registry, bench: &Bench) -> Result<Problems> {
    let folders = Folders::make(
        &bench.template,
        &Setup {
            config: Some(&table.config),
            ..Setup::default()
        },
    )?;
    let server = Server::start(&folders, &table.flags, bench).await?;
    // The list is that of a front end that runs a model.
    let _host = Host::open(&server.connection(), Script::default(), Vec::new()).await?;
    let listed = in_time(list_tools(
        &server.connection(),
        &table.agent,
        Some(&table.model),
        &table.client,
    ))
    .await;
    let outcome = listed.map(|tools| {
        let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
        if names == table.offered {
            return Problems::new();
        }
        vec![format!("tools\nexpected: {:?}\ngot:      {names:?}", table.offered)]
    });
    finish(server, outcome).await
}

/// Plays `kind: schema_transform`: the runner lends a tool with the schema and lists it for the model.
pub(crate) async fn schema_transform(table: &SchemaTransform, bench: &Bench) -> Result<Problems> {
    let folders = Folders::make(&bench.template, &Setup::default())?;
    let server = Server::start(&folders, &Pairs::default(), bench).await?;
    let outcome = in_time(listed_schema(table, &server)).await.map(|got| {
        if got == table.output {
            return Problems::new();
        }
        vec![format!("schema\nexpected: {}\ngot:      {got}", table.output)]
    });
    finish(server, outcome).await
}

async fn listed_schema(table: &SchemaTransform, server: &Server) -> Result<Value> {
    const NAME: &str = "lent";
    let lent = LentTool {
        name: NAME.to_owned(),
        input_schema_json: table.input.to_string(),
        ..LentTool::default()
    };
    let host = Host::open(&server.connection(), Script::default(), vec![lent]).await?;
    if !host.refused().is_empty() {
        // Arguments cannot be checked by it, so no tool has it. What becomes of it can be asked all the same.
        return Ok(tables::schema_for(table));
    }
    let tools = list_tools(&server.connection(), "build", Some(&table.model), "cli").await?;
    let tool = tools.into_iter().find(|tool| tool.name == NAME);
    let tool = tool.context("the lent tool is not listed")?;
    serde_json::from_str(&tool.input_schema_json).context("the listed schema")
}

async fn list_tools(
    connection: &Connection,
    agent: &str,
    model: Option<&Model>,
    client: &str,
) -> Result<Vec<ToolDefinition>> {
    let request = ListToolsRequest {
        agent: agent.to_owned(),
        model: model.map(|model| ModelRef {
            provider_id: model.provider_id.clone(),
            model_id: model.model_id.clone(),
            package: model.npm.clone(),
        }),
        client_kind: client.to_owned(),
        ..ListToolsRequest::default()
    };
    connection.tools(request).await
}

fn name_of(index: usize, step: &Step) -> String {
    let what = step
        .tool
        .clone()
        .or_else(|| step.op.map(|op| format!("{op:?}")))
        .unwrap_or_default();
    format!("step {} ({what})", index + 1)
}

/// Takes the steps of one case.
struct Player<'a> {
    scenario: &'a Scenario,
    folders: &'a Folders,
    connection: Connection,
    notices: mpsc::Sender<Notice>,
    script: Script,
    vars: Vars,
    /// There if the case expects events.
    happenings: Option<Happenings>,
    /// There if the case has a web server.
    http: Option<&'a Http>,
}

impl<'a> Player<'a> {
    fn new(
        scenario: &'a Scenario,
        folders: &'a Folders,
        connection: Connection,
        notices: mpsc::Sender<Notice>,
        script: Script,
    ) -> Self {
        Self {
            scenario,
            folders,
            connection,
            notices,
            script,
            vars: folders.vars(),
            happenings: None,
            http: None,
        }
    }

    async fn play(&mut self) -> Result<Problems> {
        let steps = &self.scenario.steps;
        let mut problems = Problems::new();
        let mut index = 0;
        while index < steps.len() {
            match steps[index].op {
                None => {
                    let beside = steps[index..].iter().take_while(|step| step.parallel_with_next).count();
                    problems.extend(self.calls(index, index + beside).await?);
                    index += beside;
                }
                Some(op) => problems.extend(self.look(op, index).await?),
            }
            index += 1;
        }
        Ok(problems)
    }

    async fn look(&self, op: Op, index: usize) -> Result<Problems> {
        let step = &self.scenario.steps[index];
        let name = name_of(index, step);
        match op {
            Op::Tools => {
                let agent = step.agent.as_deref().unwrap_or_default();
                let tools = list_tools(&self.connection, agent, step.model.as_ref(), "")
                    .await
                    .context(name.clone())?;
                Ok(verdict::tools(&name, step, &tools, &self.vars))
            }
            Op::Config => {
                let output = print_config(self.folders, &self.scenario.env).await?;
                Ok(verdict::config(&name, step, &output, &self.vars))
            }
            Op::Todos => {
                let session = step.session.clone().unwrap_or_else(|| SESSION.to_owned());
                let todos = happenings::stored_todos(&self.connection, session).await?;
                Ok(verdict::todos(&name, step, &todos, &self.vars))
            }
            Op::McpStatus => {
                let states = mcp::states(&self.connection).await.context(name.clone())?;
                Ok(verdict::mcp_states(&name, step, &states))
            }
        }
    }

    /// Plays the calls `first..=last`, which run beside each other, and judges them when all have ended.
    async fn calls(&mut self, first: usize, last: usize) -> Result<Problems> {
        let reached = mcp::calls(&self.folders.mcp())?.len();
        let asked = self.http.map_or(0, |http| http.reached().len());
        let told = lsp::messages(&self.folders.lsp())?.len();
        let mut running = JoinSet::new();
        for index in first..=last {
            let name = name_of(index, &self.scenario.steps[index]);
            let before = (index > first).then(|| call_id(index - 1));
            let call = self.begin(index, before).await.context(name)?;
            let notices = self.notices.clone();
            running.spawn(async move {
                let observed = call.watch().await;
                // The approver may be gone if the case is being given up.
                let _ = notices
                    .send(Notice::Ended {
                        call_id: call_id(index),
                    })
                    .await;
                (index, observed)
            });
        }
        let ended = self.wait_for_all(running, last).await?;
        let happened = match &mut self.happenings {
            Some(happenings) => {
                let calls: Vec<String> = (first..=last).map(call_id).collect();
                happenings.until_ended(&calls).await?
            }
            None => Vec::new(),
        };
        let mut problems = Problems::new();
        for (index, observed) in ended {
            let step = &self.scenario.steps[index];
            problems.extend(verdict::call(
                &name_of(index, step),
                step,
                &observed,
                &self.vars,
                self.folders,
            ));
            problems.extend(verdict::events(&name_of(index, step), step, &happened, &self.vars));
            let runs = self.script.runs(&call_id(index));
            problems.extend(verdict::subagents(&name_of(index, step), step, &runs, &self.vars));
            self.remember_output(&observed);
        }
        let last = &self.scenario.steps[last];
        let reached = &mcp::calls(&self.folders.mcp())?[reached..];
        problems.extend(verdict::mcp_calls(last, reached, &self.vars));
        let requests = self.http.map(Http::reached).unwrap_or_default();
        problems.extend(verdict::requests(last, &requests[asked..], &self.vars));
        problems.extend(self.lsp_messages(last, told).await?);
        Ok(problems)
    }

    /// Judges the messages that came to language servers after the first `told` ones.
    async fn lsp_messages(&self, step: &Step, told: usize) -> Result<Problems> {
        let deadline = Instant::now() + MESSAGES_LIMIT;
        loop {
            let messages = lsp::messages(&self.folders.lsp())?;
            let problems = verdict::lsp_messages(step, &messages[told..], &self.vars);
            if problems.is_empty() || Instant::now() > deadline {
                return Ok(problems);
            }
            sleep(PAUSE).await;
        }
    }

    async fn wait_for_all(
        &self,
        mut running: JoinSet<(usize, Result<Observed>)>,
        last: usize,
    ) -> Result<Vec<(usize, Observed)>> {
        let mut ended = Vec::new();
        let mut deadline = None;
        while !running.is_empty() {
            let joined = tokio::select! {
                joined = running.join_next() => joined,
                () = wait_until(deadline) => bail!("a call has not ended {LINGER:?} after the one beside it"),
            };
            let (index, observed) = joined.context("no call is left")??;
            let observed = observed.with_context(|| name_of(index, &self.scenario.steps[index]))?;
            if index == last {
                deadline = Some(Instant::now() + LINGER);
            }
            ended.push((index, observed));
        }
        ended.sort_by_key(|(index, _)| *index);
        Ok(ended)
    }

    /// Starts a call and waits for its first event, so that calls start in the order written.
    async fn begin(&self, index: usize, after: Option<String>) -> Result<RunningCall> {
        let step = &self.scenario.steps[index];
        let call_id = call_id(index);
        let request = ExecuteToolRequest {
            context: Some(CallContext {
                session_id: step.session.clone().unwrap_or_else(|| SESSION.to_owned()),
                message_id: happenings::MESSAGE.to_owned(),
                agent: step.agent.clone().unwrap_or_default(),
                ..CallContext::default()
            }),
            call_id: call_id.clone(),
            tool: step.tool.clone().unwrap_or_default(),
            arguments: self.arguments(step)?,
            timeout: None,
            on_disconnect: OnDisconnect::Cancel.into(),
            output: OutputMode::Full.into(),
        };
        let inner = (request.tool == "batch").then(Inner::default);
        let notice = Notice::Started {
            call_id: call_id.clone(),
            replies: step.replies.clone(),
            after,
            inner: inner.clone(),
        };
        self.script.prepare(&call_id, &step.replies);
        self.notices.send(notice).await.ok().context("the approver is gone")?;
        let started = Instant::now();
        let mut execution = self.connection.execute(request).await?;
        let first = execution.next().await?.context("the stream ended without an event")?;
        let Some(call_event::Event::Pending(pending)) = first.event else {
            bail!("the first event is not `pending`: {first:?}");
        };
        Ok(RunningCall {
            execution,
            started,
            cancel_at: step.cancel_after_ms.map(|delay| started + Duration::from_millis(delay)),
            tool: pending.tool,
            inner,
        })
    }

    fn arguments(&self, step: &Step) -> Result<Option<execute_tool_request::Arguments>> {
        let text = match (&step.input, &step.input_json) {
            (Some(input), _) => self.vars.json(input).to_string(),
            (None, Some(text)) => self.vars.text(text),
            (None, None) => return Ok(None),
        };
        ensure!(!text.contains("${output_path}"), "the step before has stored no output");
        Ok(Some(execute_tool_request::Arguments::InputJson(text)))
    }

    fn remember_output(&mut self, observed: &Observed) {
        let truncation = match &observed.end {
            End::Completed(end) => end.truncation.as_ref(),
            End::Failed(end) => end.truncation.as_ref(),
        };
        let path = truncation.map(|it| it.path.clone()).filter(|path| !path.is_empty());
        let named = || {
            let metadata = observed.metadata();
            metadata.get("outputPath").and_then(Value::as_str).map(str::to_owned)
        };
        match path.or_else(named) {
            Some(path) => self.vars.set("output_path", path),
            None => self.vars.unset("output_path"),
        }
        if let Some(session) = observed.metadata().get("sessionId").and_then(Value::as_str) {
            self.vars.set("subsession", session.to_owned());
        }
    }
}

fn call_id(index: usize) -> String {
    format!("call-{}", index + 1)
}

async fn wait_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// A call whose events are being read.
struct RunningCall {
    execution: Execution,
    started: Instant,
    cancel_at: Option<Instant>,
    tool: String,
    inner: Option<Inner>,
}

impl RunningCall {
    /// Reads to the terminal event, and cancels on the way if the step says so.
    async fn watch(mut self) -> Result<Observed> {
        let mut prompts = Vec::new();
        let end = loop {
            let event = tokio::select! {
                event = self.execution.next() => event?,
                () = wait_until(self.cancel_at) => {
                    self.cancel_at = None;
                    self.execution.cancel().await?;
                    continue;
                }
            };
            let event = event.context("the stream ended without a terminal event")?;
            match event.event.context("an event that says nothing")? {
                call_event::Event::Completed(end) => break End::Completed(end),
                call_event::Event::Failed(end) => break End::Failed(end),
                call_event::Event::Waiting(waiting) => {
                    prompts.push(waiting.prompt.context("`waiting` without a prompt")?);
                }
                call_event::Event::Pending(_) => bail!("`pending` came twice"),
                call_event::Event::Running(_)
                | call_event::Event::Metadata(_)
                | call_event::Event::Output(_)
                | call_event::Event::Resumed(_)
                | call_event::Event::Child(_)
                | call_event::Event::Listening(_)
                | call_event::Event::Warning(_)
                | call_event::Event::Heartbeat(_)
                | call_event::Event::Gap(_) => {}
            }
        };
        let elapsed = self.started.elapsed();
        prompts.extend(self.inner.iter().flat_map(Inner::take));
        let (mut asked, mut questions) = (Vec::new(), Vec::new());
        for prompt in &prompts {
            match &prompt.request {
                Some(prompt::Request::Permission(request)) => asked.push(request.clone()),
                Some(prompt::Request::Questions(_)) => questions.push(happenings::request(prompt)),
                None => bail!("a prompt that asks nothing"),
            }
        }
        if let Some(more) = self.execution.next().await.context("after the terminal event")? {
            bail!("an event after the terminal one: {more:?}");
        }
        Ok(Observed {
            tool: self.tool,
            asked,
            questions,
            end,
            elapsed,
        })
    }
}
