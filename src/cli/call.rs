//! `toolgate call`: executes a tool and stays with it to its end.
//!
//! *Invariant:* the call ends with this program unless `--keep` says otherwise: the first interrupt cancels it and waits,
//! the second leaves. A prompt that nobody can answer here is refused, not left open.

#![allow(clippy::disallowed_methods)] // reads the file that `--input-file` names, with the rights of whoever typed it

use std::future::Future;
use std::io::Read as _;
use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::{Map, Value};
use tonic::Code;
use toolgate_client::{Client, Decision, Error, Follower, Start};
use toolgate_contract::call_event::Event;
use toolgate_contract::execute_tool_request::Arguments;
use toolgate_contract::prompt::Request as Asked;
use toolgate_contract::{
    CallContext, CallEvent, CallOutcome, ExecuteToolRequest, FailureReason, OnDisconnect, OutputMode, Prompt,
    PromptDecision, ReplyPromptRequest, ReplyResult, ToolDefinition,
};
use toolgate_permission::hints::nearest;

use super::answers::{PromptArgs, Prompts};
use super::arguments;
use super::connection::{Connection, NEEDS_SERVER};
use super::dry_run;
use super::exit::{Exit, Failure};
use super::globals::Globals;
use super::interrupts::Interrupts;
use super::prompt;
use super::rule::Judged;
use super::terminal::{Terminal, visible};
use super::tools::{self, Viewpoint};
use super::user::user_name;
use super::view::{self, CallView};
use super::words;

/// How long a call may take to end after its program has lost the connection or the reader.
const CANCEL_WAIT: Duration = Duration::from_secs(10);

/// How much of the running output to show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum OutputChoice {
    /// Every byte.
    #[default]
    Full,
    /// Skip to the end when this reader falls behind.
    Tail,
    /// Only the result.
    None,
}

impl OutputChoice {
    /// Returns the mode of the contract.
    pub(super) fn mode(self) -> OutputMode {
        match self {
            Self::Full => OutputMode::Full,
            Self::Tail => OutputMode::Tail,
            Self::None => OutputMode::None,
        }
    }
}

/// The tool, its arguments, and how to run it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolgate call read filePath=/etc/hosts limit=5
  toolgate call bash command='make test' description='Runs the tests' --exit-code
  toolgate call edit --input-file edit.json --yes
  toolgate call bash command='rm -r build' description='Cleans up' --dry-run
  jq -Rs '{content: ., filePath: \"a.txt\"}' b.txt | toolgate call write --input-file -

Exit codes: 0 completed, 1 failed (a file that is not there, for instance), 2 invalid, 3 denied or rejected, 4 cancelled or timed
out, 5 no server, 6 a person would be asked (--dry-run), 8 no such tool, 9 the server refused, 130 interrupted.")]
pub(super) struct CallArgs {
    /// The tool's name; `toolgate tools` lists them.
    tool: String,
    /// The tool's arguments. Its schema says which values are text and which are JSON (limit=5, replaceAll=true);
    /// KEY:=JSON gives JSON whatever the schema says (edits:='[{…}]').
    #[arg(value_name = "KEY=VALUE")]
    pairs: Vec<String>,
    /// The whole input as a JSON object; KEY=VALUE adds to it.
    #[arg(long, value_name = "JSON", conflicts_with = "input_file")]
    input: Option<String>,
    /// A file with the whole input as JSON; - for standard input.
    #[arg(long, value_name = "FILE")]
    input_file: Option<PathBuf>,
    #[command(flatten)]
    viewpoint: Viewpoint,
    /// The session; calls of one session share what was read and what waits.
    #[arg(long, env = "TOOLGATE_SESSION", hide_env_values = true)]
    session: Option<String>,
    /// A folder inside the workspace to work in, relative to its directory.
    #[arg(long, value_name = "DIR")]
    directory: Option<String>,
    /// A variable for the programs that the call starts. May be given more than once.
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = arguments::variable)]
    environment: Vec<(String, String)>,
    /// The call's id: with the same id the same call is started only once.
    #[arg(long, value_name = "ID")]
    call_id: Option<String>,
    /// How long the tool may run (250ms, 30s, 1.5m, 2h; a number without a unit counts seconds); waiting for people does not count.
    #[arg(long, value_name = "DURATION", value_parser = arguments::duration)]
    timeout: Option<Duration>,
    /// Start a service for this call alone, even if one runs that has the folder.
    #[arg(long, conflicts_with = "server")]
    standalone: bool,
    /// Let the call continue after this program ends; `toolgate watch` shows it.
    #[arg(long)]
    keep: bool,
    /// How much of the running output to show.
    #[arg(long, value_enum, default_value_t)]
    output: OutputChoice,
    #[command(flatten)]
    prompts: PromptArgs,
    /// Exit with the exit code of the command that the tool ran.
    #[arg(long)]
    exit_code: bool,
    /// Make no call; show what would be asked: each permission with its parts, the verdict, and the rule or standing approval that
    /// decides.
    #[arg(long, conflicts_with_all = ["prompts", "keep", "exit_code", "call_id", "timeout", "output"])]
    dry_run: bool,
}

impl CallArgs {
    pub(super) async fn run(self, globals: &Globals, terminal: &Terminal) -> Result<Exit, Failure> {
        let needs_server = self.keep || self.prompts.leaves();
        if needs_server && self.standalone {
            return Err(Failure::Usage(NEEDS_SERVER.to_owned()));
        }
        let mut interrupts = Interrupts::listen()?;
        let text = self.input_text()?;
        let workspace = self.viewpoint.workspace.as_deref();
        if needs_server {
            Connection::must_outlive(globals, workspace).await?;
        }
        let connection = if self.standalone {
            Connection::open(globals, workspace).await?
        } else {
            Connection::attach(globals, workspace, terminal).await?
        };
        if globals.server.is_none() && !connection.is_private() {
            let url = &connection.url;
            terminal.inform(&format!(
                "run by the service that already has this folder, {url}; --standalone starts a separate one"
            ));
        }
        let has_files = globals.server.is_none();
        let ended = self
            .execute((&connection, has_files), text, terminal, &mut interrupts)
            .await;
        connection.end(ended).await
    }

    async fn execute(
        &self,
        (connection, has_files): (&Connection, bool),
        text: Option<String>,
        terminal: &Terminal,
        interrupts: &mut Interrupts,
    ) -> Result<Exit, Failure> {
        let (request, is_listed, missing) = tokio::select! {
            request = self.request(connection, text) => request?,
            () = interrupts.next() => return Ok(Exit::Interrupted),
        };
        if self.dry_run {
            let evaluated = dry_run::show(&connection.client, request, terminal);
            return tokio::select! {
                exit = evaluated => exit,
                () = interrupts.next() => Ok(Exit::Interrupted),
            };
        }
        let judged = Judged::new(&request, has_files);
        let start = Start::Execute(Box::new(request));
        let mut conversation = Conversation::new(connection, start.call_id(), &self.tool, terminal, &self.prompts);
        conversation.command_exit_code = self.exit_code;
        conversation.is_listed = is_listed;
        conversation.judged = Some(judged);
        conversation.view.missing = missing;
        let follower = Follower::start(connection.client.clone(), start);
        conversation.run(follower, interrupts, self.keep).await
    }

    /// Returns the input that was given as JSON text.
    fn input_text(&self) -> Result<Option<String>, Failure> {
        let Some(path) = &self.input_file else {
            return Ok(self.input.clone());
        };
        let mut text = String::new();
        let read = if path.as_os_str() == "-" {
            std::io::stdin().lock().read_to_string(&mut text).map(|_| ())
        } else {
            std::fs::read_to_string(path).map(|read| text = read)
        };
        read.map_err(|source| Failure::Read {
            path: path.clone(),
            source,
        })?;
        Ok(Some(text))
    }

    /// Returns the request, whether its tool is one of those that are listed, and what is missing in its input.
    async fn request(
        &self,
        connection: &Connection,
        text: Option<String>,
    ) -> Result<(ExecuteToolRequest, bool, Option<String>), Failure> {
        let mut input: Map<String, Value> = match &text {
            Some(text) => serde_json::from_str(text)
                .map_err(|error| Failure::Usage(format!("the input is not a JSON object: {error}")))?,
            None => Map::new(),
        };
        let tools = tools::list(&connection.client, &connection.workspace, &self.viewpoint, "cli").await;
        let tools = match tools {
            // A workspace that is not there, or rests, may be there once something is called in it. The call says so if it is not.
            Err(Failure::Client(error)) if is_not_there(&error) => Vec::new(),
            Err(_) if self.pairs.is_empty() => Vec::new(),
            tools => tools?,
        };
        let schema = self.schema(&tools)?;
        let given = arguments::add_pairs(&mut input, &self.pairs, &schema).map_err(Failure::Usage)?;
        let missing = arguments::missing(&self.tool, &schema, &input);
        let input = match text {
            // As it was written.
            Some(text) if self.pairs.is_empty() => text,
            _ => {
                let wrong = arguments::wrong(&self.tool, &schema, &given, &input);
                wrong.map_or(Ok(()), |why| Err(Failure::Usage(why)))?;
                Value::Object(input).to_string()
            }
        };
        let timeout = self.timeout.map(prost_types::Duration::try_from).transpose();
        let is_listed = tools.is_empty() || tools::find(&tools, &self.tool).is_some();
        let request = ExecuteToolRequest {
            context: Some(CallContext {
                directory: self.directory.clone().unwrap_or_default(),
                environment: self.environment.iter().cloned().collect(),
                ..self.viewpoint.context(&connection.workspace, self.session.as_deref())
            }),
            call_id: self.call_id.clone().unwrap_or_else(|| uuid::Uuid::now_v7().to_string()),
            tool: self.tool.clone(),
            arguments: Some(Arguments::InputJson(input)),
            timeout: timeout.map_err(|error| Failure::Usage(format!("--timeout: {error}")))?,
            on_disconnect: on_disconnect(self.keep),
            output: self.output.mode().into(),
        };
        Ok((request, is_listed, missing))
    }

    /// Returns the schema of the tool. One that is not listed can be called all the same, and its values are then read as they
    /// look; unless its name is nearly that of another one.
    fn schema(&self, tools: &[ToolDefinition]) -> Result<Value, Failure> {
        let Some(tool) = tools::find(tools, &self.tool) else {
            return match nearest(&self.tool, tools.iter().map(|tool| tool.name.as_str())) {
                Some(meant) => Err(Failure::NotFound(format!(
                    "this agent has no tool `{}`; did you mean `{meant}`?",
                    self.tool
                ))),
                None => Ok(Value::Null),
            };
        };
        Ok(serde_json::from_str(&tool.input_schema_json).unwrap_or_default())
    }
}

/// Says whether there is no such workspace now.
fn is_not_there(error: &Error) -> bool {
    error.code() == Code::NotFound || error.reason().as_deref() == Some("WORKSPACE_NOT_READY")
}

type Asking = Pin<Box<dyn Future<Output = std::io::Result<Decision>> + Send>>;
type Cancelling = Pin<Box<dyn Future<Output = Result<(), Failure>> + Send>>;

/// One call, from its start to its end, with the person in front of it.
pub(super) struct Conversation {
    client: Client,
    call_id: String,
    view: CallView,
    terminal: Terminal,
    prompts: Prompts,
    /// The prompt that the call waits on.
    waiting: Option<Prompt>,
    /// The question to the person, while it is open.
    asking: Option<Asking>,
    /// Follows the call that this one made last, for what that one asks.
    child: Option<Follower>,
    command_exit_code: bool,
    /// The tool is one of those that are listed for the agent.
    is_listed: bool,
    /// The call, where it can be found out which rule denies it.
    judged: Option<Judged>,
    /// A permission that the call asked for was not given. It may complete all the same, with what it has.
    refused: bool,
}

enum Step {
    Event(Box<Result<CallEvent, Failure>>),
    Child(Box<Result<CallEvent, Failure>>),
    Answer(std::io::Result<Decision>),
    Cancelled(Result<(), Failure>),
    Interrupt,
}

impl Conversation {
    pub(super) fn new(
        connection: &Connection,
        call_id: &str,
        tool: &str,
        terminal: &Terminal,
        prompts: &PromptArgs,
    ) -> Self {
        let mut view = CallView::new(terminal.clone(), tool, !connection.is_private());
        view.answers = !prompts.leaves();
        Self {
            client: connection.client.clone(),
            call_id: call_id.to_owned(),
            view,
            terminal: terminal.clone(),
            prompts: prompts.prompts(terminal),
            waiting: None,
            asking: None,
            child: None,
            command_exit_code: false,
            is_listed: true,
            judged: None,
            refused: false,
        }
    }

    pub(super) async fn run(
        mut self,
        mut follower: Follower,
        interrupts: &mut Interrupts,
        keep: bool,
    ) -> Result<Exit, Failure> {
        let mut cancelling: Option<Cancelling> = None;
        let mut interrupted = false;
        loop {
            let step = tokio::select! {
                event = next_event(&mut follower) => Step::Event(Box::new(event)),
                event = next_event_of_child(&mut self.child) => Step::Child(Box::new(event)),
                answer = pending_if_none(&mut self.asking) => Step::Answer(answer),
                cancelled = pending_if_none(&mut cancelling) => Step::Cancelled(cancelled),
                () = interrupts.next() => Step::Interrupt,
            };
            match step {
                Step::Event(event) => {
                    let event = (*event)?;
                    let shown = match self.handle(&event).await {
                        Ok(shown) => shown,
                        Err(failure) => return Err(self.leave(failure, keep).await),
                    };
                    if let Some(exit) = shown {
                        return Ok(self.exit(exit, &event, interrupted));
                    }
                }
                Step::Child(event) => self.follow_child((*event)?).await?,
                Step::Answer(answer) => {
                    self.asking = None;
                    self.answered(answer).await?;
                }
                Step::Cancelled(cancelled) => {
                    cancelling = None;
                    // The terminal event is on its way; without one the follower reports the loss.
                    cancelled?;
                }
                Step::Interrupt if interrupted => return Ok(Exit::Interrupted),
                Step::Interrupt if keep => {
                    let id = &self.call_id;
                    let how = format!(
                        "the call continues: `toolgate watch {id}` shows it, and `toolgate cancel {id}` cancels it"
                    );
                    self.view.inform(&how);
                    return Ok(Exit::Interrupted);
                }
                Step::Interrupt => {
                    interrupted = true;
                    self.asking = None;
                    self.view.inform("cancelling; interrupt again to leave at once");
                    cancelling = Some(Box::pin(cancel(self.client.clone(), self.call_id.clone())));
                }
            }
        }
    }

    /// Shows an event and does what it asks for.
    async fn handle(&mut self, event: &CallEvent) -> Result<Option<Exit>, Failure> {
        if let (Some(Event::Failed(end)), Some(judged)) = (&event.event, &self.judged)
            && end.reason() == FailureReason::Denied
            && !self.terminal.json
        {
            self.view.denied_by = judged.denied_by(&self.client).await;
        }
        let shown = self.view.show(event)?;
        if let Some(Event::Resumed(resumed)) = &event.event {
            let asked = self.waiting.as_ref().map(|prompt| &prompt.request);
            let is_permission = !matches!(asked, Some(Some(Asked::Questions(_))));
            let is_given = prompt::is_allowed(resumed.state, resumed.resolution.as_ref());
            self.refused |= is_permission && !is_given;
        }
        if let Some(Event::Child(child)) = &event.event {
            let (client, id) = (self.client.clone(), child.call_id.clone());
            self.child = Some(Follower::watch(client, id, 0, OutputMode::None));
        }
        self.attend(event).await?;
        Ok(shown)
    }

    /// Looks at an event of the call that this one made. What it prints is for whoever watches it.
    async fn follow_child(&mut self, event: CallEvent) -> Result<(), Failure> {
        if matches!(event.event, Some(Event::Completed(_) | Event::Failed(_))) {
            self.child = None;
        }
        self.attend(&event).await
    }

    /// Takes a question up, or lets it go.
    async fn attend(&mut self, event: &CallEvent) -> Result<(), Failure> {
        if let Some(Event::Waiting(waiting)) = &event.event {
            if let Some(prompt) = &waiting.prompt {
                self.open(prompt.clone()).await?;
            }
        } else if let Some(Event::Resumed(_) | Event::Completed(_) | Event::Failed(_)) = &event.event {
            self.asking = None;
            self.waiting = None;
        }
        Ok(())
    }

    async fn open(&mut self, prompt: Prompt) -> Result<(), Failure> {
        self.view.rest();
        self.terminal.inform(&match &self.prompts {
            Prompts::Ask(_) => prompt::render(&prompt, self.terminal.err),
            Prompts::Allow | Prompts::Refuse(_) | Prompts::Leave => prompt::brief(&prompt, self.terminal.err),
        });
        let asks_questions = matches!(prompt.request, Some(Asked::Questions(_)));
        self.waiting = Some(prompt.clone());
        match &self.prompts {
            Prompts::Ask(keyboard) => {
                self.asking = Some(Box::pin(prompt::ask(prompt, keyboard.clone(), self.terminal.clone())));
                Ok(())
            }
            Prompts::Leave => {
                self.terminal.inform("  waiting for an approver (toolgate approve)");
                Ok(())
            }
            Prompts::Allow if asks_questions => {
                let why = "because --yes does not answer questions";
                self.decide(PromptDecision::Reject, why).await
            }
            Prompts::Allow => self.decide(PromptDecision::Once, "because of --yes").await,
            Prompts::Refuse(why) => {
                let why = *why;
                self.decide(PromptDecision::Reject, why).await
            }
        }
    }

    /// Decides without a person: allows what is asked once, or rejects it. Why is told with what comes of it.
    async fn decide(&mut self, decision: PromptDecision, why: &'static str) -> Result<(), Failure> {
        if self.terminal.json {
            let decided = prompt::decided(decision);
            self.terminal.inform(&format!("  {decided}, {why}"));
        }
        self.view.decides = Some((decision, why));
        let is_allowed = decision == PromptDecision::Once;
        let reply = if is_allowed {
            Decision::Once
        } else {
            Decision::reject("")
        };
        self.reply(&reply).await
    }

    /// Sends what the person answered; a keyboard that is gone refuses.
    async fn answered(&mut self, answer: std::io::Result<Decision>) -> Result<(), Failure> {
        match answer {
            Ok(answer) => self.reply(&answer).await,
            Err(error) => {
                self.terminal
                    .inform(&format!("  refused, because the terminal cannot be read: {error}"));
                self.prompts = Prompts::Refuse("because the terminal cannot be read");
                self.reply(&Decision::reject("")).await
            }
        }
    }

    async fn reply(&self, answer: &Decision) -> Result<(), Failure> {
        let Some(reply) = self.waiting.as_ref().and_then(|prompt| answer.reply_to(prompt)) else {
            return Ok(());
        };
        let request = ReplyPromptRequest {
            reply: Some(reply),
            name: user_name(),
        };
        let (result, message) = match self.client.permission_service().reply_prompt(request).await {
            Ok(response) => {
                let result = response.into_inner().result.unwrap_or_default();
                (result.result(), result.message)
            }
            // The caller may answer nobody's prompts.
            Err(status) if status.code() == Code::PermissionDenied => {
                (ReplyResult::NotAllowed, status.message().to_owned())
            }
            Err(status) => return Err(status.into()),
        };
        match result {
            // The decision that stands is told by the `resumed` event, whoever made it.
            ReplyResult::Accepted => {}
            // Nobody is waited for who was not asked for.
            ReplyResult::NotAllowed if matches!(self.prompts, Prompts::Allow | Prompts::Refuse(_)) => {
                let _ = tokio::time::timeout(CANCEL_WAIT, cancel(self.client.clone(), self.call_id.clone())).await;
                return Err(Failure::MayNotReply(message));
            }
            // Whoever asks may not be the one who answers; the call waits for somebody else.
            ReplyResult::NotAllowed => self.terminal.inform(&format!("  {}", visible(&message))),
            ReplyResult::Unspecified
            | ReplyResult::AlreadyResolved
            | ReplyResult::NotFound
            | ReplyResult::Expired
            | ReplyResult::Withdrawn
            | ReplyResult::DigestMismatch
            | ReplyResult::Invalid
            | ReplyResult::OtherInstance
            | ReplyResult::SecondApprovalNeeded => {
                let why = words::reply_result(result.into());
                let text = format!("  the reply was not accepted: {why}: {}", visible(&message));
                self.terminal.inform(&text);
            }
        }
        Ok(())
    }

    /// Ends the call of a person who no longer looks, then returns the failure that made him leave.
    async fn leave(&self, failure: Failure, keep: bool) -> Failure {
        if !keep {
            let _ = tokio::time::timeout(CANCEL_WAIT, cancel(self.client.clone(), self.call_id.clone())).await;
        }
        failure
    }

    fn exit(&self, exit: Exit, event: &CallEvent, interrupted: bool) -> Exit {
        if interrupted && exit == Exit::Cancelled {
            return Exit::Interrupted;
        }
        let exit = match &event.event {
            Some(Event::Completed(end)) if self.command_exit_code => match view::exit_code(end) {
                Some(code) => u8::try_from(code).map_or(Exit::Failed, Exit::Command),
                None => exit,
            },
            _ => exit,
        };
        if let Some(Event::Completed(end)) = &event.event
            && end.outcome() == CallOutcome::Invalid
            && !self.is_listed
        {
            return Exit::NotFound;
        }
        // What was refused is in the result, for the model; a script must see it as well.
        if self.refused && exit.code() == 0 {
            Exit::Denied
        } else {
            exit
        }
    }
}

/// Returns what a lost client means for a call.
pub(super) fn on_disconnect(keep: bool) -> i32 {
    let meaning = if keep { OnDisconnect::Keep } else { OnDisconnect::Cancel };
    meaning.into()
}

/// Returns the next event of a call; its log has always another one until the terminal one.
async fn next_event(follower: &mut Follower) -> Result<CallEvent, Failure> {
    let event = follower.next().await?;
    Ok(event.ok_or(Error::Protocol("end of the call"))?)
}

async fn next_event_of_child(follower: &mut Option<Follower>) -> Result<CallEvent, Failure> {
    match follower {
        Some(follower) => next_event(follower).await,
        None => std::future::pending().await,
    }
}

/// Waits for a future; for ever where there is none.
pub(super) async fn pending_if_none<F: Future + Unpin>(future: &mut Option<F>) -> F::Output {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

async fn cancel(client: Client, call_id: String) -> Result<(), Failure> {
    client.cancel_call(call_id).await?;
    Ok(())
}
