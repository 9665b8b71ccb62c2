//! `toolgate approve`: a person, or a program with `--json`, answers the prompts of a running server, or of every service of
//! this user that runs.
//!
//! The files in reading order: `sources` are the connections to the services, `homes` which of them tell of a prompt, `desk` what is
//! open at all of them; `screen` shows that to a person, `plain` does so line by line, and `lines` to a program.
//!
//! *Invariant:* nothing lives in the connection: when it breaks, the channel is opened again and its snapshot replaces
//! what was known.

mod desk;
mod homes;
mod lines;
mod plain;
mod screen;
mod sources;

use clap::Args;

use self::sources::Sources;
use super::connection;
use super::exit::{Exit, Failure};
use super::globals::Globals;
use super::interrupts::Interrupts;
use super::keyboard::Keyboard;
use super::terminal::Terminal;
use super::user::user_name;

/// Which prompts to answer, and in whose name.
#[derive(Debug, Args)]
#[command(after_help = "\
On a terminal, open prompts fill the screen, with the keys at its foot; ? explains them.

With --json, each ChannelResponse of a service is one line of standard output; a prompt that several services of one data directory
report is printed once. Each line of standard input is a PromptReply. Both are protobuf JSON, as grpcurl prints and reads it:
  {\"promptId\": \"per_…\", \"inputDigest\": \"…\",
   \"decision\": \"PROMPT_DECISION_ONCE\"}
  {\"promptId\": \"per_…\", \"inputDigest\": \"…\",
   \"decision\": \"PROMPT_DECISION_REJECT\", \"message\": \"for the model\"}
  {\"promptId\": \"per_…\", \"inputDigest\": \"…\",
   \"decision\": \"PROMPT_DECISION_ALWAYS\", \"alwaysPatterns\": [\"only this one\"],
   \"scope\": {\"reach\": \"GRANT_REACH_SESSION\", \"maxUses\": 3,
             \"expireTime\": \"2030-01-31T12:00:00Z\"}}
  {\"promptId\": \"per_…\", \"inputDigest\": \"…\",
   \"decision\": \"PROMPT_DECISION_INSTEAD\",
   \"inputJson\": \"{\\\"command\\\": \\\"ls\\\"}\"}
  {\"promptId\": \"que_…\", \"inputDigest\": \"…\",
   \"decision\": \"PROMPT_DECISION_ANSWER\",
   \"answers\": [{\"values\": [\"one label\"]}]}

Each is one line, broken here to be read. The inputDigest is that of the prompt: the decision is for exactly the input that was shown.
At the end of standard input the program waits for the results of its replies and ends.")]
pub(super) struct ApproveArgs {
    /// Prompts of all workspaces that you may see, as without --workspace.
    #[arg(long, conflicts_with = "workspace")]
    all: bool,
    /// Only prompts of this workspace.
    #[arg(long, value_name = "NAME|DIR")]
    workspace: Option<String>,
    /// Only prompts of this session; without it, everybody's. May be given more than once.
    #[arg(long)]
    session: Vec<String>,
    /// The name that decisions are recorded under; your user name if none is given.
    #[arg(long, env = "TOOLGATE_NAME", hide_env_values = true)]
    name: Option<String>,
    /// Ask line by line instead of on the whole screen. This is the default where the terminal cannot show a screen or standard
    /// output is not a terminal.
    #[arg(long)]
    plain: bool,
}

impl ApproveArgs {
    pub(super) async fn run(self, globals: &Globals, terminal: &Terminal) -> Result<Exit, Failure> {
        let interrupts = Interrupts::listen()?;
        let view = View::of(terminal, self.plain)?;
        let found = connection::connect_all(globals).await?;
        let name = self.name.unwrap_or_else(user_name);
        let workspace = self.workspace.filter(|_| !self.all);
        let mut sources = Sources::new(globals.clone(), workspace, self.session, name.clone());
        let is_one = found.len() == 1;
        for (instance, client) in found {
            match sources.add(&instance, client).await {
                Err(failure) if is_one => return Err(failure),
                Err(failure) => terminal.inform(&format!("{}: {}", instance.url, failure.describe(false))),
                Ok(()) => {}
            }
        }
        if sources.list.is_empty() {
            return Err(Failure::Usage("no running service has this workspace".to_owned()));
        }
        match view {
            View::Lines => lines::serve(terminal, sources, interrupts).await,
            View::Plain(keyboard) => plain::serve(terminal, keyboard, name, sources, interrupts).await,
            View::Screen => screen::serve(terminal, name, sources, interrupts).await,
        }
    }
}

/// Who answers, and how it is shown to them.
enum View {
    Lines,
    Plain(Keyboard),
    Screen,
}

impl View {
    fn of(terminal: &Terminal, is_plain: bool) -> Result<Self, Failure> {
        if terminal.json {
            return Ok(Self::Lines);
        }
        let Some(keyboard) = Keyboard::open() else {
            return Err(Failure::Usage(
                "there is no terminal to ask on; with --json, replies are read as lines of JSON".to_owned(),
            ));
        };
        if is_plain || !terminal.shows_output || !screen::can_show() {
            return Ok(Self::Plain(keyboard));
        }
        Ok(Self::Screen)
    }
}
