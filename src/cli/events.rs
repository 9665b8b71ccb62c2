//! `toolgate events`: what happens in the workspaces, as it happens.
//!
//! *Invariant:* a broken stream is taken up again after the last event seen, with bounded attempts.

use clap::Args;
use tonic::{Code, Status, Streaming};
use toolgate_client::{Client, Error, backoff};
use toolgate_contract::event::Event as What;
use toolgate_contract::{Event, WatchEventsRequest, WatchEventsResponse};

use super::connection::{self, MAX_ATTEMPTS};
use super::exit::{Exit, Failure};
use super::globals::Globals;
use super::interrupts::Interrupts;
use super::terminal::{Terminal, counted, on_one_line};
use super::words;

/// Which events to stream.
#[derive(Debug, Args)]
pub(super) struct EventsArgs {
    /// Begin after this event; 0 for all that are kept. Without it, only what happens from now on.
    #[arg(long, value_name = "SEQUENCE")]
    after: Option<i64>,
    /// Only events of this workspace.
    #[arg(long, value_name = "NAME|DIR")]
    workspace: Option<String>,
    /// Only events of this session.
    #[arg(long)]
    session: Option<String>,
}

impl EventsArgs {
    pub(super) async fn run(self, globals: &Globals, terminal: &Terminal) -> Result<Exit, Failure> {
        let mut interrupts = Interrupts::listen()?;
        let client = connection::connect(globals, self.workspace.as_deref(), terminal).await?;
        let request = WatchEventsRequest {
            workspace: connection::workspace_filter(&client, self.workspace.as_deref()).await?,
            session_id: self.session.unwrap_or_default(),
            after_sequence: self.after,
            resume_token: String::new(),
        };
        let mut events = Events {
            client,
            request,
            stream: None,
            attempts: 0,
        };
        loop {
            let event = tokio::select! {
                event = events.next() => event?,
                () = interrupts.next() => return Ok(Exit::Interrupted),
            };
            if matches!(event.event, Some(What::Heartbeat(_)) | None) {
                continue;
            }
            if terminal.json {
                terminal.message(&event)?;
            } else {
                terminal.line(&on_one_line(&line(&event)))?;
            }
        }
    }
}

/// A cursor over the service's events.
struct Events {
    client: Client,
    request: WatchEventsRequest,
    stream: Option<Streaming<WatchEventsResponse>>,
    attempts: u32,
}

impl Events {
    async fn next(&mut self) -> Result<Event, Failure> {
        loop {
            let status = match &mut self.stream {
                None => match self.client.session_service().watch_events(self.request.clone()).await {
                    Ok(stream) => {
                        self.stream = Some(stream.into_inner());
                        continue;
                    }
                    Err(status) => status,
                },
                Some(stream) => match stream.message().await {
                    Ok(Some(WatchEventsResponse {
                        event: Some(event),
                        resume_token,
                    })) => {
                        self.attempts = 0;
                        self.request.after_sequence = resume_token.is_empty().then_some(event.sequence);
                        self.request.resume_token = resume_token;
                        return Ok(event);
                    }
                    Ok(Some(WatchEventsResponse { event: None, .. })) => continue,
                    Ok(None) => Status::unavailable("the stream ended"),
                    Err(status) => status,
                },
            };
            self.stream = None;
            self.attempts += 1;
            let is_refused = status.code() == Code::ResourceExhausted;
            let error = Error::from(status);
            if self.attempts > MAX_ATTEMPTS || is_refused || !error.is_transient() {
                return Err(error.into());
            }
            tokio::time::sleep(backoff(self.attempts)).await;
        }
    }
}

/// Returns an event as a line.
fn line(event: &Event) -> String {
    let what = match &event.event {
        Some(What::CallStateChanged(it)) => format!("call {} {} {}", it.call_id, it.tool, words::call_state(it.state)),
        Some(What::FileEdited(it)) => format!("edited {} by call {}", it.path, it.call_id),
        Some(What::CallMetadataChanged(it)) => {
            let keys: Vec<&str> = it
                .metadata
                .iter()
                .flat_map(|fields| fields.fields.keys())
                .map(String::as_str)
                .collect();
            format!("call {} {} changed {}", it.call_id, it.tool, keys.join(" "))
        }
        Some(What::PromptOpened(it)) => format!("prompt {} opened by call {}", it.prompt_id, it.call_id),
        Some(What::PromptEnded(it)) => format!("prompt {} {}", it.prompt_id, words::prompt_state(it.state)),
        Some(What::TodosUpdated(it)) => format!("{} by call {}", counted(it.todos.len(), "todo"), it.call_id),
        Some(What::ToolsChanged(it)) => {
            let parts = [("+", &it.added), ("-", &it.removed), ("~", &it.changed)];
            let names = parts
                .into_iter()
                .flat_map(|(sign, names)| names.iter().map(move |name| format!(" {sign}{name}")));
            format!("tools{}", names.collect::<String>())
        }
        Some(What::WorkspaceChanged(it)) => format!("workspace {}", words::workspace_change(it.change)),
        Some(What::ListeningChanged(it)) => format!("call {} {}", it.call_id, words::listening(&it.ports)),
        Some(What::SessionEnded(_)) => "session ended".to_owned(),
        Some(What::Heartbeat(_)) | None => String::new(),
    };
    let time = event.event_time.map(words::time).unwrap_or_default();
    let session = if event.session_id.is_empty() {
        "-"
    } else {
        &event.session_id
    };
    format!("{} {time} {} {session} {what}", event.sequence, event.workspace)
}

#[cfg(test)]
mod tests {
    use toolgate_contract::{FileEdited, Todo, TodosUpdated};

    use super::*;

    #[test]
    fn events_are_lines() {
        fn check(event: What, expected: &str) {
            let event = Event {
                sequence: 4,
                event_time: Some(prost_types::Timestamp { seconds: 0, nanos: 7 }),
                workspace: "main".into(),
                session_id: String::new(),
                event: Some(event),
            };
            assert_eq!(line(&event), format!("4 1970-01-01T00:00:00Z main - {expected}"));
        }
        check(
            What::FileEdited(FileEdited {
                path: "/a".into(),
                call_id: "c".into(),
            }),
            "edited /a by call c",
        );
        check(
            What::TodosUpdated(TodosUpdated {
                todos: vec![Todo::default(); 2],
                call_id: "c".into(),
            }),
            "2 todos by call c",
        );
        check(
            What::TodosUpdated(TodosUpdated {
                todos: vec![Todo::default()],
                call_id: "c".into(),
            }),
            "1 todo by call c",
        );
    }
}
