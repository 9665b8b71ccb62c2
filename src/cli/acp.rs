//! `toolgate acp`: stands between an editor and an agent that speak the Agent Client Protocol, so that the agent has Toolgate's
//! tools and the editor shows their prompts.
//!
//! Editor and agent talk past it, each in its own time: neither is held up by what is done here. The agent starts `toolgate mcp`,
//! as every agent can; the prompts are answered over gRPC, as by any approver. (A service in this process would take the agent,
//! which descends from it, for a program of a call.)
//!
//! In reading order: `lines` (messages), `sessions` (whose list of servers grows, and what they are bound to), `diff` and `shown`
//! (a prompt as an editor shows it), `asking` (prompts, from the service to the editor and back).
//!
//! *Invariant:* what is not understood passes untouched, in both directions and in order. Nothing but messages goes to standard
//! output. The agent ends with this process.

mod asking;
mod diff;
mod lines;
mod sessions;
mod shown;

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use clap::Args;
use futures_util::FutureExt as _;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::process::ChildStdin;
use tokio::sync::mpsc;
use toolgate_process::{Companion, Exit as Ended};

use self::asking::Desk;
use self::lines::{Line, Lines, Message};
use self::sessions::{Passed, SERVER, Sessions};
use self::shown::Version;
use super::connection;
use super::exit::{Exit, Failure};
use super::globals::Globals;
use super::interrupts::Interrupts;
use super::terminal::{Terminal, bytes, short};
use super::tools::Viewpoint;
use super::user::user_name;

/// Messages of the agent that the editor has not read yet.
const BEHIND: usize = 16;

/// What is told beside them.
const OWN_BEHIND: usize = 256;

/// How long the agent may take to end when the editor has gone.
const FAREWELL: Duration = Duration::from_secs(5);

/// How long what the agent said last may take to reach the editor, when the agent has ended.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// How long the agent may take to end when it is asked to by a signal.
const PATIENCE: Duration = Duration::from_secs(2);

/// Characters of a line that is no message.
const NONSENSE: usize = 200;

/// Variables that `toolgate mcp` gets whatever the agent hands on: where things of the user are. None of them is a secret.
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

/// Which agent, and for whom it works.
#[derive(Debug, Args)]
#[command(after_help = "\
An editor is told to start this in the place of the agent, in Zed for instance:
  {\"agent_servers\": {\"Claude in Toolgate\": {\"command\": \"toolgate\", \"args\": [\"acp\", \"--\", \"claude-agent-acp\"]}}}

The agent keeps its own tools beside Toolgate's. Without --server it starts a service for each session, in the folder of that.
It exits as the agent does.")]
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
        let proxy = Proxy { desk, server, terminal };
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
        let variables = VARIABLES
            .iter()
            .filter_map(|name| Some((name, std::env::var(name).ok()?)));
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

/// Who has ended.
enum Over {
    Editor,
    Agent(io::Result<Ended>),
    /// The agent says nothing more.
    Output,
    Interrupted,
}

struct Proxy<'t> {
    desk: Desk,
    server: Server,
    terminal: &'t Terminal,
}

impl Proxy<'_> {
    async fn serve(
        &self,
        mut agent: Companion,
        told: mpsc::Receiver<Value>,
        interrupts: &mut Interrupts,
    ) -> Result<Exit, Failure> {
        let (Some(input), Some(output)) = (agent.take_input(), agent.take_output()) else {
            return Err(Failure::Usage("the agent has no standard streams".to_owned()));
        };
        let (to_editor, said) = mpsc::channel(BEHIND);
        let mut listening = Box::pin(self.listen_to_editor(Lines::new(tokio::io::stdin()), input));
        let mut speaking = pin!(
            async {
                let handing_on = async {
                    self.listen_to_agent(Lines::new(output), to_editor).await;
                    Ok(())
                };
                // An editor that reads no more ends it at once.
                tokio::try_join!(handing_on, write(said, told)).map(|((), ())| ())
            }
            .fuse()
        );
        let mut attending = pin!(self.desk.attend());
        let over = tokio::select! {
            () = &mut listening => Over::Editor,
            written = &mut speaking => match written {
                Ok(()) => Over::Output,
                Err(_) => Over::Editor,
            },
            ended = agent.ended() => Over::Agent(ended),
            () = &mut attending => Over::Editor,
            () = interrupts.next() => Over::Interrupted,
        };
        // The end of its input tells the agent to end.
        drop(listening);
        Ok(match over {
            Over::Interrupted => {
                agent.stop(PATIENCE).await;
                Exit::Interrupted
            }
            Over::Agent(ended) => {
                // A program that it has left may hold its output open.
                let _ = tokio::time::timeout(LAST_WORDS, &mut speaking).await;
                exit_of(ended.ok())
            }
            Over::Output => {
                let ended = tokio::time::timeout(LAST_WORDS, agent.ended()).await;
                match ended {
                    Ok(ended) => exit_of(ended.ok()),
                    Err(_) => exit_of(agent.stop(PATIENCE).await),
                }
            }
            Over::Editor => {
                let ended = tokio::select! {
                    ended = agent.ended() => Some(ended),
                    // It must not be held up by what it still has to say.
                    () = async { let _ = (&mut speaking).await; std::future::pending().await } => None,
                    () = tokio::time::sleep(FAREWELL) => None,
                    () = interrupts.next() => None,
                };
                match ended {
                    Some(ended) => exit_of(ended.ok()),
                    None => {
                        agent.stop(PATIENCE).await;
                        Exit::Completed
                    }
                }
            }
        })
    }

    /// Hands on what the editor says, to its end.
    async fn listen_to_editor<R: AsyncRead + Unpin>(&self, mut editor: Lines<R>, mut agent: ChildStdin) {
        while let Some(line) = self.next(&mut editor, "the editor").await {
            let Some(message) = self.understood(&line, "the editor") else {
                continue;
            };
            let mut changed = None;
            match &message {
                Message::Request(id, method) => changed = self.asked(id, method, &line),
                Message::Answer(id) if Desk::is_own(id) => {
                    if let Ok(answer) = serde_json::from_slice(&line) {
                        self.desk.answered(id, &answer);
                    }
                    continue;
                }
                Message::Notification(_) | Message::Answer(_) | Message::Other => {}
            }
            if put(&mut agent, changed.as_deref().unwrap_or(&line)).await.is_err() {
                // It has ended, or will: that is told by its process.
                return std::future::pending().await;
            }
            if let Message::Notification(method) = &message
                && method == "session/cancel"
                && let Ok(message) = serde_json::from_slice::<Value>(&line)
                && let Some(session) = message["params"]["sessionId"].as_str()
            {
                self.desk.sessions(|sessions| sessions.cancel(session));
            }
        }
    }

    /// Looks at a request of the editor; returns it with what is added.
    fn asked(&self, id: &Value, method: &str, line: &[u8]) -> Option<Vec<u8>> {
        if !Sessions::is_about(method) {
            return None;
        }
        let passed = self.desk.sessions(|sessions| {
            let version = sessions.version;
            let message = || serde_json::from_slice(line).ok();
            let entry = |name: &str, folder: &str| self.server.entry(name, folder, version);
            sessions.request((id, method), message, entry)
        });
        match passed {
            Passed::AsItIs => None,
            Passed::Changed(message) => Some(message.to_string().into_bytes()),
            Passed::Unbound(why) => {
                self.terminal
                    .inform(&format!("a session has none of Toolgate's tools: {why}"));
                None
            }
        }
    }

    /// Hands on what the agent says, to its end.
    async fn listen_to_agent<R: AsyncRead + Unpin>(&self, mut agent: Lines<R>, editor: mpsc::Sender<Vec<u8>>) {
        while let Some(line) = self.next(&mut agent, "the agent").await {
            let Some(message) = self.understood(&line, "the agent") else {
                continue;
            };
            if let Message::Answer(id) = &message
                && self.desk.waits_for(id)
                && let Ok(answer) = serde_json::from_slice(&line)
            {
                // Before the editor knows: what it does next is about that session.
                self.desk.sessions(|sessions| sessions.answer(id, &answer));
            }
            if editor.send(line).await.is_err() {
                return;
            }
        }
    }

    /// Returns the next line; none at the end.
    async fn next<R: AsyncRead + Unpin>(&self, lines: &mut Lines<R>, who: &str) -> Option<Vec<u8>> {
        loop {
            match lines.next().await {
                Ok(Some(Line::Whole(line))) => return Some(line),
                Ok(Some(Line::TooLong(length))) => {
                    let length = bytes(i64::try_from(length).unwrap_or(i64::MAX));
                    let text = format!("a message of {who} is left out: it is too long ({length})");
                    self.terminal.inform(&text);
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
            let shown = short(&String::from_utf8_lossy(line), NONSENSE);
            self.terminal.inform(&format!("{who} says what is no message: {shown}"));
        }
        message
    }
}

/// Writes to the editor what the agent says, and what is told beside it, until the agent says nothing more.
async fn write(mut said: mpsc::Receiver<Vec<u8>>, mut told: mpsc::Receiver<Value>) -> io::Result<()> {
    let mut editor = tokio::io::stdout();
    loop {
        let line = tokio::select! {
            line = said.recv() => match line {
                Some(line) => line,
                None => return Ok(()),
            },
            Some(message) = told.recv() => message.to_string().into_bytes(),
        };
        put(&mut editor, &line).await?;
    }
}

async fn put(to: &mut (impl AsyncWrite + Unpin), line: &[u8]) -> io::Result<()> {
    to.write_all(line).await?;
    to.write_all(b"\n").await?;
    to.flush().await
}

/// Exits as the agent did; with what a shell makes of a signal.
fn exit_of(ended: Option<Ended>) -> Exit {
    match ended {
        Some(Ended::Code(0)) | None => Exit::Completed,
        Some(Ended::Code(code)) => Exit::Command(u8::try_from(code).unwrap_or(1)),
        Some(Ended::Signal(signal)) => {
            Exit::Command(u8::try_from(signal).map_or(1, |signal| signal.saturating_add(128)))
        }
    }
}
