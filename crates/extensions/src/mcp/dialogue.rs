//! What is said in both directions of a connection whose transport is our own.
//!
//! *Invariant:* only what the protocol's machinery has to see goes on to it, and each request of the server is counted
//! until its answer is on its way.

use std::sync::Arc;

use rmcp::model::{ClientJsonRpcMessage, ClientRequest, JsonRpcMessage, ServerJsonRpcMessage};

use super::signals::ServerSignals;
use super::wire::{self, Incoming};

/// The messages of one connection.
pub(super) struct Dialogue {
    signals: Arc<ServerSignals>,
    /// Whether the answer to `initialize` is due.
    initializes: bool,
}

impl Dialogue {
    pub(super) fn new(signals: Arc<ServerSignals>) -> Self {
        Self {
            signals,
            initializes: false,
        }
    }

    /// Says whether the answer to `initialize` is due.
    pub(super) fn initializes(&self) -> bool {
        self.initializes
    }

    /// Takes note of what is about to be sent.
    pub(super) fn say(&mut self, message: &ClientJsonRpcMessage) {
        match message {
            JsonRpcMessage::Request(request) => {
                self.initializes |= matches!(request.request, ClientRequest::InitializeRequest(_));
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => self.signals.answered(),
            JsonRpcMessage::Notification(_) => {}
        }
    }

    /// Takes in what the server has sent; none if it is dealt with.
    ///
    /// # Errors
    /// It is no message; the text says why.
    pub(super) fn hear(&mut self, text: &[u8]) -> Result<Option<ServerJsonRpcMessage>, String> {
        match wire::decode(text, self.initializes)? {
            Incoming::Message(message) => {
                match *message {
                    JsonRpcMessage::Request(_) => self.signals.asked(),
                    JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => self.initializes = false,
                    JsonRpcMessage::Notification(_) => {}
                }
                return Ok(Some(*message));
            }
            Incoming::Progress(progress) => self.signals.progressed(progress),
            Incoming::ToolsChanged => self.signals.tools_changed.notify_one(),
            Incoming::Unneeded => {}
        }
        Ok(None)
    }
}
