//! `toolgate send`: brings input to a command that runs in the background.
//!
//! *Invariant:* nothing is sent twice, as [`CallInput`] promises.

use clap::Args;
use tokio::io::AsyncReadExt as _;
use toolgate_client::CallInput;
use toolgate_contract::SendInputResponse;

use super::connection;
use super::exit::{Exit, Failure};
use super::globals::Globals;
use super::interrupts::Interrupts;
use super::terminal::Terminal;

/// Bytes that are read at a time.
const PIECE: usize = 256 * 1024;

/// What to send where.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolgate send CALL 'print(1 + 1)'
  toolgate send CALL yes --close
  toolgate send CALL - < script.sql

Exit codes: 0 accepted, 2 invalid, 5 no server, 8 no such call, 9 the call reads no more, 130 interrupted.")]
pub(super) struct SendArgs {
    /// The call's id; `toolgate calls --tool background --state running` lists them.
    call: String,
    /// The text, which gets a newline at its end; - sends standard input as it is.
    text: Option<String>,
    /// End the input: the command reads the end after this.
    #[arg(long)]
    close: bool,
    /// Send the text without a newline at its end.
    #[arg(long)]
    no_newline: bool,
}

impl SendArgs {
    pub(super) async fn run(self, globals: &Globals, terminal: &Terminal) -> Result<Exit, Failure> {
        if self.text.is_none() && !self.close {
            return Err(Failure::Usage(
                "give the text to send, `-` for standard input, or --close".to_owned(),
            ));
        }
        let mut interrupts = Interrupts::listen()?;
        let client = connection::connect_for(globals, &self.call).await?;
        let mut input = client.input(&self.call);
        let state = tokio::select! {
            state = self.send(&mut input) => state?,
            () = interrupts.next() => return Ok(Exit::Interrupted),
        };
        if terminal.json {
            terminal.message(&state)?;
        }
        Ok(Exit::Completed)
    }

    async fn send(&self, input: &mut CallInput) -> Result<SendInputResponse, Failure> {
        let mut state = input.catch_up().await?;
        match self.text.as_deref() {
            None => {}
            Some("-") => {
                let mut stdin = tokio::io::stdin();
                loop {
                    let mut piece = Vec::with_capacity(PIECE);
                    let read = stdin.read_buf(&mut piece).await;
                    read.map_err(|source| Failure::Read {
                        path: "standard input".into(),
                        source,
                    })?;
                    if piece.is_empty() {
                        break;
                    }
                    state = input.send(piece).await?;
                }
            }
            Some(text) => {
                let newline = if self.no_newline { "" } else { "\n" };
                state = input.send(format!("{text}{newline}")).await?;
            }
        }
        if self.close {
            state = input.close().await?;
        }
        Ok(state)
    }
}
