//! What a case calls events and question requests, made from the service's own: names and shapes are those of the cases.
//!
//! *Invariant:* invents nothing. A prompt is what the call's stream showed, its end and everything else what
//! `WatchEvents` told.

use anyhow::{Context as _, Result, bail};
use serde_json::{Map, Value, json};
use toolgate_contract::event::Event as Kind;
use toolgate_contract::{
    CallState, Event, GetPromptRequest, GetPromptResponse, GetSessionRequest, GetSessionResponse, Prompt,
    PromptDecision, Question, Todo, prompt,
};

use crate::connection::{Connection, Events};
use crate::verdict::from_struct;

/// The message that the calls of a case belong to.
pub(crate) const MESSAGE: &str = "msg_case";

/// One event with the name and the data that cases know.
#[derive(Debug)]
pub(crate) struct Happening {
    pub(crate) kind: &'static str,
    pub(crate) data: Value,
}

/// Everything that happens while a case is played.
pub(crate) struct Happenings {
    events: Events,
    connection: Connection,
}

impl Happenings {
    /// Watches from now on.
    pub(crate) async fn watch(connection: Connection) -> Result<Self> {
        let events = connection.events().await?;
        Ok(Self { events, connection })
    }

    /// Returns what has happened since the last time until all these calls have ended.
    pub(crate) async fn until_ended(&mut self, calls: &[String]) -> Result<Vec<Happening>> {
        let mut running: Vec<&String> = calls.iter().collect();
        let mut happened = Vec::new();
        while !running.is_empty() {
            let event = self.events.next().await?.event.context("an answer without an event")?;
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
            | Kind::WorkspaceChanged(_)
            | Kind::ListeningChanged(_)
            | Kind::ToolsChanged(_) => return Ok(None),
        };
        Ok(Some(Happening { kind, data }))
    }

    async fn prompt(&self, prompt_id: String) -> Result<Prompt> {
        let method = "toolgate.v1.PermissionService/GetPrompt";
        let request = GetPromptRequest { prompt_id };
        let response: GetPromptResponse = self.connection.unary(method, request).await?;
        response.prompt.context("`GetPrompt` without a prompt")
    }
}

/// Returns the stored list of tasks of a session.
pub(crate) async fn stored_todos(connection: &Connection, session_id: String) -> Result<Value> {
    let method = "toolgate.v1.SessionService/GetSession";
    let response: GetSessionResponse = connection
        .unary(
            method,
            GetSessionRequest {
                session_id,
                ..Default::default()
            },
        )
        .await?;
    Ok(todos(
        &response.session.context("`GetSession` without a session")?.todos,
    ))
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
        "tool": {"messageID": MESSAGE, "callID": prompt.call_id},
    });
    match &prompt.request {
        Some(prompt::Request::Questions(asked)) => {
            value["questions"] = asked.questions.iter().map(question).collect();
        }
        Some(prompt::Request::Permission(asked)) => {
            value["permission"] = json!(asked.permission);
            value["patterns"] = json!(asked.patterns);
            value["always"] = json!(asked.always);
            value["metadata"] = asked.metadata.as_ref().map_or_else(|| json!({}), from_struct);
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
        // A prompt whose call ended without a reply is taken back; the cases call that rejected, too.
        PromptDecision::Reject | PromptDecision::Unspecified if asks_questions => {
            Some(("question.rejected", json!({})))
        }
        PromptDecision::Reject | PromptDecision::Unspecified => replied("reject"),
        PromptDecision::Once | PromptDecision::Instead => replied("once"),
        PromptDecision::Always => replied("always"),
    }
}
