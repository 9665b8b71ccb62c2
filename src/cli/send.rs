//! `toolgate send`: brings input to a command that runs in the background.
//!
//! *Invariant:* nothing is sent twice: each message says which bytes of the call's whole input it carries, so one that is
//! repeated after a lost connection counts once. Two programs that send to one call at the same moment are not told apart.

use std::time::Duration;

use clap::Args;
use tokio::io::AsyncReadExt as _;
use tonic::{Code, Status};
use toolgate_client::{Client, Error, backoff};
use toolgate_contract::{SendInputRequest, SendInputResponse};

use super::connection::{self, MAX_ATTEMPTS};
use super::exit::{Exit, Failure};
use super::globals::Globals;
use super::interrupts::Interrupts;
use super::terminal::Terminal;

/// Bytes in one message.
const PIECE: usize = 256 * 1024;

/// How long to wait for a program that does not read.
const NOT_READ: Duration = Duration::from_millis(200);

/// What to send where.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  toolgate send CALL 'print(1 + 1)'
  toolgate send CALL yes --close
  toolgate send CALL - < script.sql

Exit codes: 0 accepted, 2 usage, 5 no server, or the call reads no more, 130 interrupted.")]
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
        let mut sender = Sender::new(connection::connect_for(globals, &self.call).await?, &self.call);
        let state = tokio::select! {
            state = self.send(&mut sender) => state?,
            () = interrupts.next() => return Ok(Exit::Interrupted),
        };
        if terminal.json {
            terminal.message(&state)?;
        }
        Ok(Exit::Completed)
    }

    async fn send(&self, sender: &mut Sender) -> Result<SendInputResponse, Failure> {
        let mut state = sender.catch_up().await?;
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
                    state = sender.send(piece, false).await?;
                }
            }
            Some(text) => {
                let newline = if self.no_newline { "" } else { "\n" };
                let text = format!("{text}{newline}").into_bytes();
                for piece in text.chunks(PIECE) {
                    state = sender.send(piece.to_vec(), false).await?;
                }
            }
        }
        if self.close {
            state = sender.send(Vec::new(), true).await?;
        }
        Ok(state)
    }
}

/// Sends one piece after the other, each until it is accepted.
pub(super) struct Sender {
    client: Client,
    /// The next request, with the offset that it begins at.
    request: SendInputRequest,
}

impl Sender {
    /// Sends to a call.
    pub(super) fn new(client: Client, call: &str) -> Self {
        let request = SendInputRequest {
            call_id: call.to_owned(),
            ..SendInputRequest::default()
        };
        Self { client, request }
    }

    /// Asks how far the input is, whoever brought it, to go on from there.
    pub(super) async fn catch_up(&mut self) -> Result<SendInputResponse, Failure> {
        self.request.offset = 0;
        self.send(Vec::new(), false).await
    }

    /// Sends a piece until it is accepted.
    pub(super) async fn send(&mut self, data: Vec<u8>, close: bool) -> Result<SendInputResponse, Failure> {
        self.request.data = data.into();
        self.request.close = close;
        let mut attempts = 0;
        loop {
            let status: Status = match self.client.tool_service().send_input(self.request.clone()).await {
                Ok(response) => {
                    let state = response.into_inner();
                    self.request.offset = state.next_offset;
                    return Ok(state);
                }
                Err(status) => status,
            };
            if status.code() == Code::ResourceExhausted {
                tokio::time::sleep(NOT_READ).await;
                continue;
            }
            attempts += 1;
            let error = Error::from(status);
            if attempts > MAX_ATTEMPTS || !error.is_transient() {
                return Err(error.into());
            }
            tokio::time::sleep(backoff(attempts)).await;
        }
    }
}
