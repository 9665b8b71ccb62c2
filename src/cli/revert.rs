//! `toolgate revert`: takes back what a call did to files.
//!
//! *Invariant:* the revert is a call; it is followed, answered and ended exactly as one that `toolgate call` makes.

use clap::Args;
use toolgate_client::{Follower, Start};
use toolgate_contract::RevertCallRequest;

use super::answers::PromptArgs;
use super::call::{Conversation, on_disconnect};
use super::connection::Connection;
use super::exit::{Exit, Failure};
use super::globals::Globals;
use super::interrupts::Interrupts;
use super::terminal::Terminal;
use super::tools::Viewpoint;

/// The call, and how to take it back.
#[derive(Debug, Args)]
#[command(after_help = "\
Every file gets the content, the mode and the existence that it had before the call; all files or none. What commands
did to files is not recorded and stays.

Exit codes: 0 completed, 1 failed, 2 invalid, 3 denied or rejected, 4 cancelled or timed out, 5 no server,
8 no such call, 9 the server refused, 130 interrupted.")]
pub(super) struct RevertArgs {
    /// The call; `toolgate calls` lists them.
    call: String,
    /// Keep what was changed since in other places of the same files, instead of refusing.
    #[arg(long)]
    merge: bool,
    #[command(flatten)]
    viewpoint: Viewpoint,
    /// The session.
    #[arg(long, env = "TOOLGATE_SESSION", hide_env_values = true)]
    session: Option<String>,
    #[command(flatten)]
    prompts: PromptArgs,
}

impl RevertArgs {
    pub(super) async fn run(self, globals: &Globals, terminal: &Terminal) -> Result<Exit, Failure> {
        if globals.server.is_none() && self.prompts.leaves() {
            let why = "--wait needs a server that outlives this command: name one with --server";
            return Err(Failure::Usage(why.to_owned()));
        }
        let mut interrupts = Interrupts::listen()?;
        let connection = Connection::open(globals, self.viewpoint.workspace.as_deref()).await?;
        let start = Start::Revert(Box::new(self.request(&connection.workspace)));
        let conversation = Conversation::new(&connection, start.call_id(), "revert", terminal, &self.prompts);
        let follower = Follower::start(connection.client.clone(), start);
        let ended = conversation.run(follower, &mut interrupts, false).await;
        connection.end(ended).await
    }

    /// Without a workspace, that of the call is meant.
    fn request(&self, workspace: &str) -> RevertCallRequest {
        RevertCallRequest {
            context: Some(self.viewpoint.context(workspace, self.session.as_deref())),
            call_id: self.call.clone(),
            revert_call_id: uuid::Uuid::now_v7().to_string(),
            merge: self.merge,
            on_disconnect: on_disconnect(false),
        }
    }
}
