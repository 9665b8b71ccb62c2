//! What a case calls events and question requests, made from the service's own: names and shapes are those of the cases.
//!
//! *Invariant:* invents nothing. A prompt is what the call's stream showed, its end and everything else what
//! `WatchEvents` told.

use anyhow::{Context as _, Result, bail};
use serde_json::{Map, Value, json};
use tonic::Streaming;
use tonic::transport::Channel;
use toolgate::grpc::proto::event::Event as Kind;
use toolgate::grpc::proto::permission_service_client::PermissionServiceClient;
use toolgate::grpc::proto::session_service_client::SessionServiceClient;
use toolgate::grpc::proto::{
    CallState, Event, GetPromptRequest, GetSessionRequest, Prompt, PromptDecision, Question, Todo, WatchEventsRequest,
    WatchEventsResponse, prompt,
};

/// The largest message that is taken.
const MESSAGE_LIMIT: usize = 64 << 20;

/// One event with the name and the data that cases know.
#[derive(Debug)]
pub(crate) struct Happening {
    pub(crate) kind: &'static str,
    pub(crate) data: Value,
}

/// Everything that happens while a case is played.
pub(crate) struct Happenings {
    events: Streaming<WatchEventsResponse>,
    channel: Channel,
}

impl Happenings {
    /// Watches from now on.
    pub(crate) async fn watch(channel: Channel) -> Result<Self> {
        let mut client = SessionServiceClient::new(channel.clone()).max_decoding_message_size(MESSAGE_LIMIT);
        let response = client.watch_events(WatchEventsRequest::default()).await;
        Ok(Self {
            events: response.context("WatchEvents")?.into_inner(),
            channel,
        })
    }

    /// Returns what has happened since the last time until all these calls have ended.
    pub(crate) async fn until_ended(&mut self, calls: &[String]) -> Result<Vec<Happening>> {
        let mut running: Vec<&String> = calls.iter().collect();
        let mut happened = Vec::new();
        while !running.is_empty() {
            let response = self.events.message().await.context("the events broke")?;
            let event = response.and_then(|response| response.event);
            let event = event.context("the events ended")?;
            if let Some(Kind::CallStateChanged(changed)) = &event.event
                && matches!(changed.state(), CallState::Completed | CallState::Failed)
            {
                running.retain(|call| **call != changed.call_id);
            }
            happened.extend(self.translate(event).await?);
        }
        Ok(happened)
    }

    async fn translate(&self, event: Event) -> Result<Option<Happening>> {
        let session = event.session_id;
        let (kind, data) = match event.event.context("an event that says nothing")? {
            Kind::PromptOpened(opened) => {
                let prompt = self.prompt(opened.prompt_id).await?;
                let kind = match prompt.request {
                    Some(prompt::Request::Questions(_)) => "question.asked",
                    Some(prompt::Request::Permission(_)) => "permission.asked",
                    None => bail!("a prompt that asks nothing"),
                };
                (kind, request(&prompt))
            }
            Kind::PromptEnded(ended) => {
                let prompt = self.prompt(ended.prompt_id).await?;
                let Some((kind, mut data)) = reply(&prompt) else {
                    return Ok(None);
                };
                data["sessionID"] = json!(session);
                data["requestID"] = json!(prompt.prompt_id);
                (kind, data)
            }
            Kind::TodosUpdated(updated) => (
                "todo.updated",
                json!({"sessionID": session, "todos": todos(&updated.todos)}),
            ),
            Kind::FileEdited(edited) => ("file.edited", json!({"file": edited.path})),
            Kind::CallStateChanged(_)
            | Kind::CallMetadataChanged(_)
            | Kind::SessionEnded(_)
            | Kind::Heartbeat(_)
            | Kind::ToolsChanged(_) => return Ok(None),
        };
        Ok(Some(Happening { kind, data }))
    }

    async fn prompt(&self, prompt_id: String) -> Result<Prompt> {
        let mut client = PermissionServiceClient::new(self.channel.clone()).max_decoding_message_size(MESSAGE_LIMIT);
        let response = client.get_prompt(GetPromptRequest { prompt_id }).await;
        response
            .context("GetPrompt")?
            .into_inner()
            .prompt
            .context("`GetPrompt` without a prompt")
    }
}

/// Returns the stored list of tasks of a session.
pub(crate) async fn stored_todos(channel: Channel, session_id: String) -> Result<Value> {
    let mut client = SessionServiceClient::new(channel).max_decoding_message_size(MESSAGE_LIMIT);
    let response = client.get_session(GetSessionRequest { session_id }).await;
    let session = response.context("GetSession")?.into_inner().session;
    Ok(todos(&session.context("`GetSession` without a session")?.todos))
}

fn todos(todos: &[Todo]) -> Value {
    let one = |todo: &Todo| {
        let mut value = json!({"content": todo.content, "status": todo.status, "priority": todo.priority});
        if let Some(id) = &todo.id {
            value["id"] = json!(id);
        }
        value
    };
    todos.iter().map(one).collect()
}

/// Returns a prompt as the request that cases know.
pub(crate) fn request(prompt: &Prompt) -> Value {
    let mut value = json!({
        "id": prompt.prompt_id,
        "sessionID": prompt.session_id,
        "tool": {"messageID": "", "callID": prompt.call_id},
    });
    match &prompt.request {
        Some(prompt::Request::Questions(asked)) => {
            value["questions"] = asked.questions.iter().map(question).collect();
        }
        Some(prompt::Request::Permission(asked)) => {
            value["permission"] = json!(asked.permission);
            value["patterns"] = json!(asked.patterns);
            value["always"] = json!(asked.always);
        }
        None => {}
    }
    value
}

/// Flags with their usual value are absent, as in the cases.
fn question(question: &Question) -> Value {
    let options = question.options.iter();
    let options = options.map(|option| json!({"label": option.label, "description": option.description}));
    let mut value = Map::new();
    value.insert("question".to_owned(), json!(question.question));
    value.insert("header".to_owned(), json!(question.header));
    value.insert("options".to_owned(), options.collect());
    if question.multiple {
        value.insert("multiple".to_owned(), json!(true));
    }
    if !question.custom {
        value.insert("custom".to_owned(), json!(false));
    }
    Value::Object(value)
}

/// Returns what was replied to a prompt; none if nobody did.
fn reply(prompt: &Prompt) -> Option<(&'static str, Value)> {
    let resolution = prompt.resolution.as_ref()?;
    let asks_questions = matches!(prompt.request, Some(prompt::Request::Questions(_)));
    let replied = |word: &str| Some(("permission.replied", json!({"reply": word})));
    match resolution.decision() {
        PromptDecision::Answer => {
            let answers: Vec<&Vec<String>> = resolution.answers.iter().map(|answer| &answer.values).collect();
            Some(("question.replied", json!({"answers": answers})))
        }
        PromptDecision::Reject if asks_questions => Some(("question.rejected", json!({}))),
        PromptDecision::Reject => replied("reject"),
        PromptDecision::Once | PromptDecision::Instead => replied("once"),
        PromptDecision::Always => replied("always"),
        // A question whose call ended without a reply is taken back; the cases call that rejected, too.
        PromptDecision::Unspecified if asks_questions => Some(("question.rejected", json!({}))),
        PromptDecision::Unspecified => None,
    }
}
