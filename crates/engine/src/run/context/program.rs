//! What clients send to a call's program, and what they hear of it.
//!
//! *Invariant:* it passes on, and keeps nothing.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use toolgate_model::{CallId, ListeningPort, TerminalSize};
use toolgate_tool::{ProgramControl, ProgramHandle, StdinHandle, ToolError};

use super::RunContext;
use crate::log::writer::Command;
use crate::lookup;

#[async_trait]
impl StdinHandle for RunContext {
    async fn next(&self) -> Option<Bytes> {
        match self.call.stdin.get() {
            Some(stdin) => stdin.next().await,
            None => None,
        }
    }

    fn end(&self) {
        if let Some(stdin) = self.call.stdin.get() {
            stdin.end();
        }
    }
}

#[async_trait]
impl ProgramHandle for RunContext {
    fn open_terminal(&self, size: TerminalSize) {
        self.call.program.open_terminal(size);
    }

    fn terminal_size(&self) -> Option<TerminalSize> {
        self.call.program.terminal_size()
    }

    fn attach(&self, program: Arc<dyn ProgramControl>) {
        self.call.program.attach(program);
    }

    async fn listens(&self, ports: Vec<ListeningPort>) {
        let _ = self.log.send(Command::Listening { ports }).await;
    }

    async fn call_to_reach(&self, call: &CallId) -> Result<CallId, ToolError> {
        lookup::call_of(&self.parts, &self.record.origin.workspace, call).await
    }
}
