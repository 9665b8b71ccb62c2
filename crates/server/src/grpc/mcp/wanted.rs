//! What a call needs of its client, for clients that are told so in the answer to their request: forms for their user, and what
//! servers of tools ask for.
//!
//! *Invariant:* what a client brings is an answer only to what has the same name and is wanted now; the rest is not kept. What
//! cannot be understood is asked for again.

use std::collections::BTreeMap;
use std::sync::Arc;

use rmcp::model::{ElicitRequest, ElicitRequestParams, ElicitResult, InputRequest, InputRequests, InputResponses};
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;
use toolgate_extensions::mcp::relay;
use toolgate_model::{Prompt, PromptId, Reply};

use super::elicitation;

/// A form of a prompt, by its name.
pub(super) type Form = (String, ElicitRequestParams);

/// What is wanted under one name.
enum Want {
    /// That a form is filled in.
    Form {
        prompt: PromptId,
        form: Box<ElicitRequestParams>,
    },
    /// What a server asks for.
    Request {
        request: Box<InputRequest>,
        answer: oneshot::Sender<Map<String, Value>>,
    },
}

/// What is wanted, and what the client has brought.
#[derive(Default)]
pub(super) struct Wanted {
    wants: BTreeMap<String, Want>,
    prompts: BTreeMap<PromptId, Arc<Prompt>>,
    filled: BTreeMap<PromptId, BTreeMap<String, ElicitResult>>,
    brought: InputResponses,
    /// A prompt comes that belongs to what is wanted already.
    pub(super) expects_prompt: bool,
}

impl Wanted {
    /// Takes what a client brings of what is wanted.
    pub(super) fn bring(&mut self, responses: InputResponses) {
        let wanted = responses.into_iter().filter(|(key, _)| self.wants.contains_key(key));
        self.brought = wanted.collect();
    }

    /// Wants the forms of a prompt filled in.
    pub(super) fn add_prompt(&mut self, prompt: &Arc<Prompt>, forms: Vec<Form>) {
        self.expects_prompt = false;
        self.prompts.insert(prompt.id.clone(), Arc::clone(prompt));
        for (key, form) in forms {
            let prompt = prompt.id.clone();
            let form = Box::new(form);
            self.wants.insert(key, Want::Form { prompt, form });
        }
    }

    /// Wants what a server asks for. What the protocol does not know is not asked of anybody: the server gets no answer.
    pub(super) fn add_request(&mut self, asked: relay::Request) {
        let mut request = json!({ "method": asked.method });
        if !asked.params.is_null() {
            request["params"] = asked.params;
        }
        if let Ok(request) = serde_json::from_value(request) {
            let (request, answer) = (Box::new(request), asked.answer);
            self.wants.insert(asked.key, Want::Request { request, answer });
        }
    }

    /// Wants nothing more for a prompt: it was decided elsewhere.
    pub(super) fn withdraw(&mut self, prompt: &PromptId) {
        self.prompts.remove(prompt);
        self.filled.remove(prompt);
        self.wants.retain(|_, want| match want {
            Want::Form { prompt: of, .. } => of != prompt,
            Want::Request { .. } => true,
        });
    }

    /// Wants nothing more of the client's user, and returns the prompts that it was to answer.
    pub(super) fn withdraw_all(&mut self) -> Vec<Arc<Prompt>> {
        let prompts: Vec<Arc<Prompt>> = self.prompts.values().cloned().collect();
        for prompt in &prompts {
            self.withdraw(&prompt.id);
        }
        prompts
    }

    /// Uses what the client has brought. Returns the prompts that are answered by it, each with its reply; none where the user
    /// gave no answer.
    pub(super) fn settle(&mut self) -> Vec<(Arc<Prompt>, Option<Reply>)> {
        let keys: Vec<String> = self
            .wants
            .keys()
            .filter(|key| self.brought.contains_key(*key))
            .cloned()
            .collect();
        for key in keys {
            let (Some(brought), Some(want)) = (self.brought.remove(&key), self.wants.remove(&key)) else {
                continue;
            };
            match want {
                Want::Form { prompt, form } => match serde_json::from_value::<ElicitResult>(brought) {
                    Ok(result) => {
                        self.filled.entry(prompt).or_default().insert(key, result);
                    }
                    Err(_) => {
                        self.wants.insert(key, Want::Form { prompt, form });
                    }
                },
                Want::Request { request, answer } => match brought {
                    // Nobody may wait for it any more.
                    Value::Object(brought) => drop(answer.send(brought)),
                    Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                        self.wants.insert(key, Want::Request { request, answer });
                    }
                },
            }
        }
        let is_open = |id: &PromptId| {
            self.wants
                .values()
                .any(|want| matches!(want, Want::Form { prompt, .. } if prompt == id))
        };
        let done: Vec<PromptId> = self.prompts.keys().filter(|id| !is_open(id)).cloned().collect();
        let settled = done.into_iter().filter_map(|id| {
            let prompt = self.prompts.remove(&id)?;
            let filled = self.filled.remove(&id).unwrap_or_default();
            let reply = elicitation::reply(&prompt, &filled);
            Some((prompt, reply))
        });
        settled.collect()
    }

    /// Returns what the client is to be asked for now; none if that is nothing, or not yet all of it.
    pub(super) fn requests(&self) -> Option<InputRequests> {
        if self.wants.is_empty() || self.expects_prompt {
            return None;
        }
        let request = |want: &Want| match want {
            Want::Form { form, .. } => InputRequest::Elicitation(ElicitRequest::new((**form).clone())),
            Want::Request { request, .. } => (**request).clone(),
        };
        let requests = self.wants.iter().map(|(key, want)| (key.clone(), request(want)));
        Some(requests.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_what_is_wanted_is_kept() {
        let (answer, answered) = oneshot::channel();
        let mut wanted = Wanted::default();
        wanted.add_request(relay::Request {
            key: "a".to_owned(),
            method: "roots/list".to_owned(),
            params: Value::Null,
            answer,
        });
        let responses = |brought: Value| serde_json::from_value::<InputResponses>(brought).unwrap();
        wanted.bring(responses(json!({"b": {"x": 1}, "c": {}})));
        assert!(wanted.brought.is_empty() && wanted.requests().is_some());
        wanted.bring(responses(json!({"a": {"roots": []}, "b": {}})));
        assert!(wanted.settle().is_empty() && wanted.brought.is_empty());
        assert_eq!(Value::Object(answered.await.unwrap()), json!({"roots": []}));
    }
}
