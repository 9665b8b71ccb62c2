//! The programs of calls, as the engine asks for them.

use async_trait::async_trait;
use toolgate_engine::{CallPrograms, ProgramUsage};
use toolgate_model::{BackgroundProcess, CallId, ListeningPort};
use toolgate_process::{self as process, Listeners, Programs};
use toolgate_tools::ports::listening;

/// The programs of calls, for the engine, which knows of none.
pub(super) struct ProgramsOfCalls(pub(super) Programs);

#[async_trait]
impl CallPrograms for ProgramsOfCalls {
    async fn left_by(&self, call: &CallId) -> Vec<BackgroundProcess> {
        self.0
            .left_by(call.as_str())
            .await
            .into_iter()
            .map(|process::Process { pid, command }| BackgroundProcess { pid, command })
            .collect()
    }

    async fn listening(&self, call: &CallId) -> Vec<ListeningPort> {
        match Listeners::look() {
            Ok(listeners) => listening(&self.0, call, listeners).await,
            Err(error) => {
                tracing::warn!(%error, "what listens on this machine cannot be found out");
                Vec::new()
            }
        }
    }

    async fn usage(&self, calls: Vec<CallId>) -> ProgramUsage {
        let programs = self.0.clone();
        let calls: Vec<String> = calls.iter().map(|call| call.as_str().to_owned()).collect();
        let look = tokio::task::spawn_blocking(move || programs.usage_of(&calls));
        // Fails only when the runtime shuts down.
        let usage = look.await.unwrap_or_default();
        ProgramUsage {
            processes: usage.processes,
            memory_bytes: usage.memory_bytes,
            user: usage.user,
            system: usage.system,
        }
    }

    fn calls_with_left(&self) -> Vec<CallId> {
        let calls = self.0.calls_with_left();
        calls.iter().map(|call| CallId::from(call.as_str())).collect()
    }

    async fn end(&self, call: &CallId) {
        // Survivors are logged where they are found.
        let _ = self.0.end_call(call.as_str()).await;
    }
}
