//! What reaches the programs of a call while it runs: the size of their terminal, signals, input.
//!
//! *Invariant:* input arrives once and in order: each message says which bytes of the call's whole input it carries, so one
//! that is repeated after a lost connection counts once. Two programs that send to one call at the same moment are not told
//! apart.

use std::time::Duration;

use bytes::Bytes;
use toolgate_contract::{
    GetTerminalRequest, GetTerminalResponse, ResizeTerminalRequest, SendInputRequest, SendInputResponse, Signal,
    SignalCallRequest, TerminalSize,
};

use crate::client::{Client, unary};
use crate::error::Error;

/// Bytes in one message.
const PIECE: usize = 256 * 1024;

/// How long to wait for a program that does not read, if the service does not say.
const NOT_READ: Duration = Duration::from_millis(200);

impl Client {
    /// Gives the terminal of a running call another size: 1 to 500 columns, 1 to 200 rows.
    pub async fn resize_terminal(&self, call_id: impl Into<String>, columns: i32, rows: i32) -> Result<(), Error> {
        let request = ResizeTerminalRequest {
            call_id: call_id.into(),
            size: Some(TerminalSize { columns, rows }),
        };
        unary!(self, tool_service.resize_terminal, request).await?;
        Ok(())
    }

    /// Returns what the terminal of a running call shows. [`Client::watch`] after its `last_sequence` brings what follows;
    /// output before its `output_offset` is in the picture already.
    pub async fn get_terminal(&self, call_id: impl Into<String>) -> Result<GetTerminalResponse, Error> {
        let request = GetTerminalRequest {
            call_id: call_id.into(),
        };
        unary!(self, tool_service.get_terminal, request).await
    }

    /// Sends a signal to a command in the background. It is not repeated: after `UNAVAILABLE` it may have been sent.
    pub async fn signal_call(&self, call_id: impl Into<String>, signal: Signal) -> Result<(), Error> {
        let request = SignalCallRequest {
            call_id: call_id.into(),
            signal: signal.into(),
        };
        let mut service = self.tool_service();
        self.unless_closed(async { Ok(service.signal_call(request).await?) })
            .await?;
        Ok(())
    }

    /// Returns the standard input of a command in the background, from its beginning. It asks the service nothing yet.
    pub fn input(&self, call_id: impl Into<String>) -> CallInput {
        CallInput {
            client: self.clone(),
            request: SendInputRequest {
                call_id: call_id.into(),
                ..SendInputRequest::default()
            },
        }
    }
}

/// The standard input of a call, and how far it was sent.
#[derive(Clone, Debug)]
pub struct CallInput {
    client: Client,
    /// The next request, with the offset that it begins at.
    request: SendInputRequest,
}

impl CallInput {
    /// Asks how far the input is, whoever sent it, to go on from there.
    pub async fn catch_up(&mut self) -> Result<SendInputResponse, Error> {
        self.request.offset = 0;
        self.accept(Bytes::new(), false).await
    }

    /// Sends bytes, and returns when all of them are accepted. It waits while the program does not read.
    pub async fn send(&mut self, data: impl Into<Bytes>) -> Result<SendInputResponse, Error> {
        let mut data = data.into();
        loop {
            let piece = data.split_to(data.len().min(PIECE));
            let state = self.accept(piece, false).await?;
            if data.is_empty() {
                return Ok(state);
            }
        }
    }

    /// Ends the input: when the program has read everything, it reads the end.
    pub async fn close(&mut self) -> Result<SendInputResponse, Error> {
        self.accept(Bytes::new(), true).await
    }

    async fn accept(&mut self, data: Bytes, close: bool) -> Result<SendInputResponse, Error> {
        self.request.data = data;
        self.request.close = close;
        loop {
            let sent = unary!(&self.client, tool_service.send_input, self.request.clone()).await;
            match sent {
                Ok(state) => {
                    self.request.offset = state.next_offset;
                    return Ok(state);
                }
                Err(error) if error.reason().as_deref() == Some("INPUT_NOT_READ") => {
                    tokio::time::sleep(error.retry_after().unwrap_or(NOT_READ)).await;
                }
                Err(error) => return Err(error),
            }
        }
    }
}
