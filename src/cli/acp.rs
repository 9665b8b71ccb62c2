//! `toolgate acp`: stands between an editor and an agent that speak the Agent Client Protocol, so that the agent has Toolgate's
//! tools and the editor shows their prompts.
//!
//! Editor and agent talk past it, each in its own time: neither is held up by what is done here. The agent starts `toolgate mcp`,
//! as every agent can; the prompts are answered over gRPC, as by any approver. (A service in this process would take the agent,
//! which descends from it, for a program of a call.)
//!
//! In reading order: `lines` (messages), `queue` (those that wait to be read), `sessions` (whose list of servers grows, and what they
//! are bound to), `diff` and `shown` (a prompt as an editor shows it), `asking` (prompts, from the service to the editor and back).
//!
//! *Invariant:* what is not understood passes untouched, in both directions and in order. Nothing but messages goes to standard
//! output. The agent ends with this process.

mod asking;
mod diff;
mod lines;
mod queue;
mod sessions;
mod shown;

use std::convert::Infallible;
use std::ffi::OsString;
use std::path::Path;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use clap::Args;
use futures_util::FutureExt as _;
use futures_util::future::FusedFuture as _;
use serde_json::{Value, json};
use tokio::io::AsyncRead;
use tokio::process::ChildStdin;
use tokio::sync::mpsc;
use toolgate_process::{Companion, Exit as Ended};

use self::asking::Desk;
use self::lines::{Id, Line, Lines, MAX_LINE, Message, may_be_message};
use self::queue::{Receiver, Refused, Sender, queue, write};
use self::sessions::{Passed, SERVER, Sessions, session_of};
use self::shown::Version;
use super::connection;
use super::exit::{Exit, Failure};
use super::globals::Globals;
use super::instances::is_of_rules;
use super::interrupts::Interrupts;
use super::service;
use super::terminal::{Terminal, bytes, short};
use super::tools::Viewpoint;
use super::user::user_name;

/// What is told to the editor beside what the agent says.
const OWN_BEHIND: usize = 256;

/// How long the agent may take to end when the editor has gone.
const FAREWELL: Duration = Duration::from_secs(5);

/// How long the one may take to end, with all that it has started, when the other has said its last.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// How long the agent and what it has started may take to end when they are asked to by a signal: `toolgate mcp` ends its calls.
const PATIENCE: Duration = Duration::from_secs(8);

/// Lines that are no messages of which it is told, and characters of each.
const MAX_NONSENSE: usize = 50;
const NONSENSE: usize = 200;

/// Variables that `toolgate mcp` gets whatever the agent hands on, beside those that say what calls may do: where things of the user
/// are. None of them is a secret.
const VARIABLES: [&str; 9] = [
    "HOME",
    "PATH",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
    "XDG_STATE_HOME",
    "TOOLGATE_DATA_DIR",
    "TOOLGATE_LOG",
];

/// Says what calls may do, and may hold secrets, which an agent could keep.
const SECRET: &str = "OPENCODE_CONFIG_CONTENT";

/// Which agent, and for whom it works.
#[derive(Debug, Args)]
#[command(after_help = "\
Configure the editor to start this command instead of the agent. In Zed, for instance:
  {\"agent_servers\": {\"Claude in Toolgate\":
   {\"command\": \"toolgate\", \"args\": [\"acp\", \"--\", \"claude-agent-acp\"]}}}

The agent keeps its own tools beside Toolgate's. Without --server, a service is started for each session, in the session's folder.
The exit code is that of the agent; if a signal ended the agent, it is 128 plus the number of the signal.")]
pub(super) struct AcpArgs {
    #[command(flatten)]
    viewpoint: Viewpoint,
    /// The name that decisions are recorded under; your user name if none is given.
    #[arg(long, env = "TOOLGATE_NAME", hide_env_values = true)]
    name: Option<String>,
    /// The agent, with its arguments
    #[arg(last = true, required = true, value_name = "AGENT")]
    command: Vec<OsString>,
}

impl AcpArgs {
    pub(super) async fn run(self, globals: &Globals, terminal: &Terminal) -> Result<Exit, Failure> {
        if cfg!(not(feature = "mcp")) {
            let text = "this build of Toolgate serves no agents (it lacks the Cargo feature \"mcp\")";
            return Err(Failure::Usage(text.to_owned()));
        }
        let mut interrupts = Interrupts::listen()?;
        let server = Server::new(&self.viewpoint, globals)?;
        let Some((program, arguments)) = self.command.split_first() else {
            return Err(Failure::Usage("name the agent after `--`".to_owned()));
        };
        let agent = Companion::start(program, arguments).map_err(|error| {
            Failure::Usage(format!(
                "cannot start the agent {}: {error}",
                Path::new(program).display()
            ))
        })?;
        let (own, told) = mpsc::channel(OWN_BEHIND);
        let workspace = server.workspace.clone();
        let name = self.name.unwrap_or_else(user_name);
        let desk = Desk::new((globals.clone(), workspace, name), terminal.clone(), own);
        let nonsense = AtomicUsize::new(0);
        let proxy = Proxy {
            desk,
            server,
            terminal,
            nonsense,
        };
        proxy.serve(agent, told, &mut interrupts).await
    }
}

/// How the agent is told to start `toolgate mcp`.
struct Server {
    program: String,
    /// The workspace of all sessions, if one was named.
    workspace: Option<String>,
    /// What all of them have.
    options: Vec<String>,
    variables: Vec<Value>,
}

impl Server {
    fn new(viewpoint: &Viewpoint, globals: &Globals) -> Result<Self, Failure> {
        let program = std::env::current_exe().map_err(|source| Failure::Read {
            path: "/proc/self/exe".into(),
            source,
        })?;
        let text = |path: &Path| {
            let text = path.to_str().map(str::to_owned);
            text.ok_or_else(|| Failure::Usage(format!("{} is not UTF-8", path.display())))
        };
        let workspace = viewpoint
            .workspace
            .as_deref()
            .map(|named| match connection::directory(named) {
                Some(folder) => text(&folder),
                None => Ok(named.to_owned()),
            });
        let mut options = globals.for_others()?;
        let agent = viewpoint.agent.iter().map(|agent| ("--agent", agent.clone()));
        let model = viewpoint.model.iter();
        let model = model.map(|model| ("--model", format!("{}/{}", model.provider_id, model.model_id)));
        options.extend(
            agent
                .chain(model)
                .flat_map(|(option, value)| [option.to_owned(), value]),
        );
        let is_handed_on = |name: &str| VARIABLES.contains(&name) || (is_of_rules(name) && name != SECRET);
        let environment = service::environment();
        let variables = environment.vars().filter(|&(name, _)| is_handed_on(name));
        Ok(Self {
            program: text(&program)?,
            workspace: workspace.transpose()?,
            options,
            variables: variables
                .map(|(name, value)| json!({"name": name, "value": value}))
                .collect(),
        })
    }

    /// Returns the entry for a session of this name in this folder.
    fn entry(&self, name: &str, folder: &str, version: Version) -> Value {
        let workspace = self.workspace.as_deref().unwrap_or(folder);
        let fixed = ["mcp", "--no-forms", "--session", name, "--workspace", workspace];
        let arguments: Vec<&str> = fixed
            .into_iter()
            .chain(self.options.iter().map(String::as_str))
            .collect();
        let mut entry = json!({"name": SERVER, "command": self.program, "args": arguments, "env": self.variables});
        if version == Version::V2 {
            entry["type"] = "stdio".into();
        }
        entry
    }
}

/// Why it is over.
#[derive(Clone, Copy)]
enum Over {
    Editor,
    Agent,
    Interrupted,
    /// One side reads nothing, and there is no more room for what is said to it.
    Stuck(&'static str),
}

struct Proxy<'t> {
    desk: Desk,
    server: Server,
    terminal: &'t Terminal,
    /// How many lines were no messages.
    nonsense: AtomicUsize,
}

impl Proxy<'_> {
    async fn serve(
        &self,
        mut agent: Companion,
        mut told: mpsc::Receiver<Value>,
        interrupts: &mut Interrupts,
    ) -> Result<Exit, Failure> {
        let (Some(input), Some(output)) = (agent.take_input(), agent.take_output()) else {
            return Err(Failure::Usage("the agent has no standard streams".to_owned()));
        };
        let ((to_agent, asked), (to_editor, mut said)) = (queue(), queue());
        let mut listening = Box::pin(self.listen_to_editor(Lines::new(tokio::io::stdin()), to_agent));
        let mut feeding = pin!(self.feed(input, asked));
        let mut speaking = pin!(
            async {
                let handing_on = self.listen_to_agent(Lines::new(output), to_editor);
                let writing = write(tokio::io::stdout(), &mut said, &mut told);
                // An editor that reads no more ends it at once.
                let writing = async { writing.await.map_err(|_| Over::Editor) };
                tokio::try_join!(handing_on, writing).map_or_else(|over| over, |_| Over::Agent)
            }
            .fuse()
        );
        let over = tokio::select! {
            over = &mut listening => over,
            over = &mut speaking => over,
            _ = agent.ended() => Over::Agent,
            () = self.desk.attend() => Over::Editor,
            () = interrupts.next() => Over::Interrupted,
            never = &mut feeding => match never {},
        };
        // The end of its input tells the agent to end.
        drop(listening);
        let patience = match over {
            Over::Editor => FAREWELL,
            Over::Agent => LAST_WORDS,
            Over::Interrupted => Duration::ZERO,
            Over::Stuck(who) => {
                let text = format!(
                    "{who} has read nothing for a minute, and too many messages wait for it: closing both connections"
                );
                self.terminal.inform(&text);
                Duration::ZERO
            }
        };
        // A program that it has left may hold its output open.
        let by_itself = async {
            let saying = async {
                if !speaking.is_terminated() {
                    speaking.as_mut().await;
                }
            };
            tokio::join!(agent.emptied(), saying);
        };
        tokio::select! {
            () = by_itself => {}
            () = tokio::time::sleep(patience) => {}
            () = interrupts.next() => {}
            never = &mut feeding => match never {},
        }
        // It must not be held up by what it still has to say.
        let saying = async {
            if !speaking.is_terminated() {
                speaking.as_mut().await;
            }
            std::future::pending::<Infallible>().await
        };
        let ended = tokio::select! {
            ended = agent.stop(PATIENCE) => ended,
            never = saying => match never {},
            () = interrupts.next() => agent.stop(Duration::ZERO).await,
        };
        Ok(exit_of(ended))
    }

    /// Hands on what the editor says, to its end.
    async fn listen_to_editor<R: AsyncRead + Unpin>(&self, mut editor: Lines<R>, agent: Sender) -> Over {
        while let Some(line) = self.next(&mut editor, "the editor").await {
            let (bytes, is_last) = match line {
                Line::Part { bytes, is_last, .. } => (bytes, is_last),
                Line::Whole(line) => match self.heard_of_editor(line) {
                    Some(line) => (line, true),
                    None => continue,
                },
            };
            match agent.send(bytes, is_last).await {
                Ok(()) => {}
                Err(Refused::Stuck) => return Over::Stuck("the agent"),
                Err(Refused::Closed) => return Over::Agent,
            }
        }
        Over::Editor
    }

    /// Looks at a line of the editor. Returns what the agent gets of it.
    fn heard_of_editor(&self, line: Vec<u8>) -> Option<Vec<u8>> {
        match self.understood(&line, "the editor")? {
            Message::Request(id, method) => Some(self.asked(&id, &method, &line).unwrap_or(line)),
            Message::Answer(id) => (!self.desk.answered(&id, &line)).then_some(line),
            Message::Notification(method) => {
                if method == "session/cancel"
                    && let Some(session) = session_of(&line)
                {
                    self.desk.sessions(|sessions| sessions.cancel(&session));
                }
                Some(line)
            }
            Message::Other => Some(line),
        }
    }

    /// Writes to the agent what the editor says. At the end of that its input ends, and it goes on as it likes.
    async fn feed(&self, agent: ChildStdin, mut asked: Receiver) -> Infallible {
        // Beside what the editor says it is told nothing.
        let (_, mut nothing) = mpsc::channel(1);
        if write(agent, &mut asked, &mut nothing).await.is_err() {
            let telling = async {
                // If it has ended, that is told by its end.
                tokio::time::sleep(LAST_WORDS).await;
                self.terminal
                    .inform("the agent has closed its input: messages of the editor are no longer delivered");
            };
            // Our own requests are answered still.
            tokio::join!(asked.discard(), telling);
        }
        std::future::pending().await
    }

    /// Looks at a request of the editor; returns it with what is added.
    fn asked(&self, id: &Id, method: &str, line: &[u8]) -> Option<Vec<u8>> {
        if !Sessions::is_about(method) {
            return None;
        }
        let passed = self.desk.sessions(|sessions| {
            let version = sessions.version;
            let entry = |name: &str, folder: &str| self.server.entry(name, folder, version);
            sessions.request((id, method), line, entry)
        });
        match passed {
            Passed::AsItIs => None,
            Passed::Changed(line) => Some(line),
            Passed::Unbound(why) => {
                self.terminal
                    .inform(&format!("a session was started without Toolgate's tools: {why}"));
                None
            }
        }
    }

    /// Hands on what the agent says, to its end.
    async fn listen_to_agent<R: AsyncRead + Unpin>(&self, mut agent: Lines<R>, editor: Sender) -> Result<(), Over> {
        while let Some(line) = self.next(&mut agent, "the agent").await {
            let (bytes, is_last) = match line {
                Line::Part { bytes, is_last, .. } => (bytes, is_last),
                Line::Whole(line) => {
                    match self.understood(&line, "the agent") {
                        // Before the editor knows: what it does next is about that session.
                        Some(Message::Answer(id)) if self.desk.waits_for(&id) => {
                            self.desk.sessions(|sessions| sessions.answer(&id, &line));
                        }
                        Some(Message::Answer(_) | Message::Request(..) | Message::Notification(_) | Message::Other) => {
                        }
                        None => continue,
                    }
                    (line, true)
                }
            };
            match editor.send(bytes, is_last).await {
                Ok(()) => {}
                Err(Refused::Stuck) => return Err(Over::Stuck("the editor")),
                // Why is known where it is written.
                Err(Refused::Closed) => return Ok(()),
            }
        }
        Ok(())
    }

    /// Returns the next line, or a part of a long one; none at the end.
    async fn next<R: AsyncRead + Unpin>(&self, lines: &mut Lines<R>, who: &str) -> Option<Line> {
        loop {
            match lines.next().await {
                Ok(Some(Line::Part {
                    bytes: begun,
                    is_first: true,
                    ..
                })) if !may_be_message(&begun) => {
                    self.tell_nonsense(&begun, who);
                    lines.skip();
                }
                Ok(Some(line)) => {
                    if let Line::Part { is_first: true, .. } = &line {
                        let longest = bytes(i64::try_from(MAX_LINE).unwrap_or(i64::MAX));
                        self.terminal.inform(&format!(
                            "a message of {who} is longer than {longest}: it is passed on unread"
                        ));
                    }
                    return Some(line);
                }
                Ok(None) => return None,
                Err(error) => {
                    self.terminal.inform(&format!("{who} can no longer be read: {error}"));
                    return None;
                }
            }
        }
    }

    /// Reads a line; one that is no message is told, and goes nowhere.
    fn understood(&self, line: &[u8], who: &str) -> Option<Message> {
        let message = lines::read(line);
        if message.is_none() {
            self.tell_nonsense(line, who);
        }
        message
    }

    fn tell_nonsense(&self, line: &[u8], who: &str) {
        let told = self.nonsense.fetch_add(1, Ordering::Relaxed);
        if told >= MAX_NONSENSE {
            // Nobody may be reading this: then it must come to an end.
            if told == MAX_NONSENSE {
                self.terminal.inform("more lines that are no messages are not told of");
            }
            return;
        }
        let start = &line[..line.len().min(NONSENSE * 4)];
        let shown = short(&String::from_utf8_lossy(start), NONSENSE);
        self.terminal
            .inform(&format!("{who} sent something that is not a message: {shown}"));
    }
}

/// Exits as the agent did; with what a shell makes of a signal.
fn exit_of(ended: Option<Ended>) -> Exit {
    match ended {
        Some(Ended::Code(0)) => Exit::Completed,
        None => Exit::Failed,
        Some(Ended::Code(code)) => Exit::Command(u8::try_from(code).unwrap_or(1)),
        Some(Ended::Signal(signal)) => {
            Exit::Command(u8::try_from(signal).map_or(1, |signal| signal.saturating_add(128)))
        }
    }
}
