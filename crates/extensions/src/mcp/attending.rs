//! A call at a server, attended: what the server says meanwhile is handed to whoever follows the call, and what it asks for is
//! got from people, from the client, or from what is known here.
//!
//! *Invariant:* a person's answers are those of a prompt of the call, stored and judged like any other. One prompt at a time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future;
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;
use tokio::time::Instant;
use toolgate_model::{JsonMap, Question, json_map};
use toolgate_tool::{Refusal, ToolContext, ToolError};

use super::client::{Asked, Attendant, Link, RequestError};
use super::forms;
use super::message::{self, ELICITATION, ErrorObject, METHOD_NOT_FOUND, Progress, ROOTS, SAMPLING};
use super::relay::{Ability, Answer, Follower, Request, Said};
use super::shared::Shared;
use super::tasks;

/// How often a server may ask for something in one call, in its midst or in answers.
const MAX_ROUNDS: usize = 20;

/// The code of a request that was not understood.
const INVALID_PARAMS: i64 = -32602;

const NO_MODEL: &str = "There is no model: whoever made this call is no MCP client that lends one (sampling).";

/// What is asked of a server.
#[derive(Clone, Copy)]
pub(super) enum Method {
    /// This.
    Plain(&'static str),
    /// A call of a tool that is to run as a task, where the server knows tasks.
    Task,
}

/// A call at a server.
pub(super) struct Attending<'c> {
    ctx: &'c ToolContext,
    server: &'c Arc<Shared>,
    follower: Option<Follower>,
    /// Held while a person is asked.
    asking: tokio::sync::Mutex<()>,
    /// How often the server has asked for something.
    asked: AtomicUsize,
}

impl<'c> Attending<'c> {
    pub(super) fn new(ctx: &'c ToolContext, server: &'c Arc<Shared>) -> Self {
        Self {
            ctx,
            server,
            follower: server.relays().of(&ctx.call),
            asking: tokio::sync::Mutex::default(),
            asked: AtomicUsize::default(),
        }
    }

    /// Makes the request, again and again with what the server asks for, and returns the raw result after the hooks.
    ///
    /// # Errors
    /// There is none.
    pub(super) async fn run(
        &self,
        method: Method,
        params: Map<String, Value>,
        headers: &[(String, String)],
        limit: Duration,
    ) -> Result<Value, ToolError> {
        let started = Instant::now();
        let link = self.server.link(limit, &self.ctx.cancelled).await.map_err(failed)?;
        let limit = limit.saturating_sub(started.elapsed());
        let answer = match method {
            Method::Task if self.server.open().is_some_and(|(_, offers)| offers.tasks) => {
                tasks::run(&link, params, headers, limit, &self.ctx.cancelled, self).await
            }
            Method::Task => self.rounds(&link, "tools/call", params, headers, limit).await,
            Method::Plain(method) => self.rounds(&link, method, params, headers, limit).await,
        };
        let relays = self.server.relays();
        if let Err(RequestError::Server(error)) = &answer {
            let (code, message) = (error.code, error.message.clone());
            relays.hand_out(&self.ctx.call, || Answer::Failed {
                code,
                message: message.clone(),
            });
            if let Some(follower) = &self.follower {
                follower.say(Said::Failed { code, message }).await;
            }
        }
        let raw = self.ctx.hooks.after(answer.map_err(failed)?).await?;
        relays.hand_out(&self.ctx.call, || Answer::Result(raw.clone()));
        if let Some(follower) = &self.follower {
            follower.say(Said::Result(raw.clone())).await;
        }
        Ok(raw)
    }

    async fn rounds(
        &self,
        link: &Link,
        method: &'static str,
        params: Map<String, Value>,
        headers: &[(String, String)],
        limit: Duration,
    ) -> Result<Value, RequestError> {
        let mut now = params.clone();
        loop {
            let asked = Asked {
                method,
                params: Value::Object(now),
                headers,
            };
            let mut result = link.call(asked, limit, &self.ctx.cancelled, self).await?;
            if result.get("resultType").and_then(Value::as_str) != Some("input_required") {
                return Ok(result);
            }
            self.count().map_err(RequestError::Server)?;
            let requests = result.get_mut("inputRequests").map(Value::take);
            let requests = match requests {
                Some(Value::Object(requests)) => requests,
                Some(_) | None => Map::new(),
            };
            let asked = requests.into_iter().map(|(key, mut request)| {
                let method = request["method"].as_str().unwrap_or_default().to_owned();
                (key, (method, request["params"].take()))
            });
            let answers = self.answers(asked.collect()).await.map_err(RequestError::Server)?;
            now = params.clone();
            now.insert("inputResponses".to_owned(), Value::Object(answers));
            if let Some(state) = result.get("requestState") {
                now.insert("requestState".to_owned(), state.clone());
            }
        }
    }

    /// Counts that the server asks for something, and returns how often it has.
    fn count(&self) -> Result<usize, ErrorObject> {
        let count = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
        if count > MAX_ROUNDS {
            let why = format!("the server asked for something {MAX_ROUNDS} times and was not done");
            return Err(problem(INVALID_PARAMS, &why));
        }
        Ok(count)
    }

    /// Gets what the server asks for, by its keys.
    async fn answers(&self, asked: BTreeMap<String, (String, Value)>) -> Result<Map<String, Value>, ErrorObject> {
        let (mut of_client, mut of_person) = (Vec::new(), Vec::new());
        let mut answers = Map::new();
        for (key, (method, params)) in asked {
            match method.as_str() {
                ELICITATION => of_person.push((key, params)),
                SAMPLING if self.can(|follower| follower.abilities.sampling) => of_client.push((key, method, params)),
                SAMPLING => {
                    if let Some(follower) = &self.follower {
                        follower.say(Said::Lacks(Ability::Sampling)).await;
                    }
                    return Err(problem(METHOD_NOT_FOUND, NO_MODEL));
                }
                ROOTS if self.can(|follower| follower.abilities.roots) => of_client.push((key, method, params)),
                ROOTS => {
                    answers.insert(key, message::roots(self.server.root()));
                }
                _ => return Err(problem(METHOD_NOT_FOUND, "Method not found")),
            }
        }
        if let Some(follower) = self
            .follower
            .as_ref()
            .filter(|_| !of_client.is_empty() && !of_person.is_empty())
        {
            follower.say(Said::PromptFollows).await;
        }
        let (of_client, of_person) = future::try_join(self.ask_client(of_client), self.ask_person(of_person)).await?;
        answers.extend(of_client);
        answers.extend(of_person);
        Ok(answers)
    }

    fn can(&self, can: impl FnOnce(&Follower) -> bool) -> bool {
        self.follower.as_ref().is_some_and(can)
    }

    async fn ask_client(&self, asked: Vec<(String, String, Value)>) -> Result<Map<String, Value>, ErrorObject> {
        let (mut requests, mut waiting) = (Vec::new(), Vec::new());
        for (key, method, params) in asked {
            let (answer, answered) = oneshot::channel();
            waiting.push((key.clone(), answered));
            requests.push(Request {
                key,
                method,
                params,
                answer,
            });
        }
        let Some(follower) = self.follower.as_ref().filter(|_| !requests.is_empty()) else {
            return Ok(Map::new());
        };
        follower.say(Said::Asks(requests)).await;
        let mut answers = Map::new();
        for (key, answered) in waiting {
            let answer = answered.await;
            let answer = answer.map_err(|_| problem(METHOD_NOT_FOUND, "The client gave no answer"))?;
            answers.insert(key, Value::Object(answer));
        }
        Ok(answers)
    }

    async fn ask_person(&self, asked: Vec<(String, Value)>) -> Result<Map<String, Value>, ErrorObject> {
        if asked.is_empty() {
            return Ok(Map::new());
        }
        // Questions take more than what they are made of: those of one prompt only are there at a time.
        let _alone = self.asking.lock().await;
        let mut questions: Vec<Question> = Vec::new();
        for (key, params) in &asked {
            let of_form = forms::questions(self.server.name(), key, params);
            questions.extend(of_form.map_err(|why| problem(INVALID_PARAMS, &why))?);
            forms::check_size(&questions).map_err(|why| problem(INVALID_PARAMS, &why))?;
        }
        let answered = self.ctx.permission.ask_questions(questions.clone()).await;
        if let Some(follower) = &self.follower {
            follower.note(Said::PromptOver);
        }
        let mut answers = Map::new();
        for (key, _) in asked {
            let answer = match &answered {
                Ok(answers) => match forms::content(&key, &questions, answers) {
                    Ok(content) => content,
                    Err(why) => {
                        let told = format!("The MCP server {} gets no answer: {why}", self.server.name());
                        tracing::info!(call = %self.ctx.call, why, "a form was not filled in");
                        self.ctx.output.progress(Some(told), JsonMap::new()).await;
                        json!({"action": "cancel"})
                    }
                },
                Err(
                    Refusal::Dismissed { .. } | Refusal::Rejected | Refusal::Corrected { .. } | Refusal::Denied { .. },
                ) => json!({"action": "decline"}),
                Err(_) => json!({"action": "cancel"}),
            };
            answers.insert(key, answer);
        }
        Ok(answers)
    }
}

#[async_trait]
impl Attendant for Attending<'_> {
    async fn progressed(&self, progress: Progress) {
        let Progress {
            progress,
            total,
            message,
            ..
        } = progress;
        self.ctx
            .output
            .progress(None, progress_metadata(progress, total, message.as_deref()))
            .await;
        if let Some(follower) = &self.follower {
            follower.note(Said::Progress {
                progress,
                total,
                message,
            });
        }
    }

    async fn logged(&self, line: Value) {
        match &self.follower {
            Some(follower) => follower.note(Said::Logged(line)),
            None => tracing::debug!(line = %super::dispatcher::shortened_line(&line.to_string()), "a server logs"),
        }
    }

    async fn asked(&self, method: &str, params: Value) -> Result<Value, ErrorObject> {
        let key = format!("ask-{}", self.count()?);
        let asked = BTreeMap::from([(key.clone(), (method.to_owned(), params))]);
        let mut answers = self.answers(asked).await?;
        Ok(answers.remove(&key).unwrap_or_default())
    }
}

fn progress_metadata(progress: f64, total: Option<f64>, message: Option<&str>) -> JsonMap {
    json_map([
        ("progress", json!(progress)),
        ("total", json!(total)),
        ("message", json!(message)),
    ])
}

fn problem(code: i64, message: &str) -> ErrorObject {
    ErrorObject {
        code,
        message: message.to_owned(),
        data: Value::Null,
    }
}

fn failed(error: RequestError) -> ToolError {
    match error {
        RequestError::Cancelled => ToolError::Cancelled,
        RequestError::Server(_) | RequestError::Closed(_) | RequestError::TimedOut => {
            ToolError::failed(error.to_string())
        }
    }
}
