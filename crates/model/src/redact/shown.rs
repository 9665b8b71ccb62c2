//! Taking secrets out of what is more than a text: JSON, prompts, ends.
//!
//! *Invariant:* what rules are held against is never changed here, only a copy of it that is shown.

use std::borrow::Cow;

use serde_json::Value;

use super::Redactor;
use crate::{Ask, AskPart, Attachment, AttachmentContent, JsonMap, PromptRequest, Question};

/// Why no grant may come from what a person cannot see.
const UNCLEAR: &str = "it contains a secret that is not shown";

impl Redactor {
    /// Takes secrets out of the texts of a JSON value, and what of one is cut at the ends of a text: previews of outputs
    /// are cut anywhere.
    pub fn value(&self, value: &mut Value) {
        if self.is_empty() {
            return;
        }
        match value {
            Value::String(text) => {
                if let Cow::Owned(redacted) = self.piece(text) {
                    *text = redacted;
                }
            }
            Value::Array(list) => list.iter_mut().for_each(|value| self.value(value)),
            Value::Object(map) => self.map(map),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// As [`Self::value`], for a map; keys are names of the service's own and stay.
    pub fn map(&self, map: &mut JsonMap) {
        if !self.is_empty() {
            map.values_mut().for_each(|value| self.value(value));
        }
    }

    /// Returns a request as a person may see it. One whose patterns would show a secret leaves no grants behind, and no
    /// grant covers it: what is compared is not what was asked.
    pub fn ask<'a>(&self, ask: &'a Ask) -> Cow<'a, Ask> {
        if self.is_empty() {
            return Cow::Borrowed(ask);
        }
        let mut shown = ask.clone();
        self.string(&mut shown.title);
        self.map(&mut shown.metadata);
        self.texts(&mut shown.patterns);
        self.texts(&mut shown.always);
        shown.parts.iter_mut().for_each(|part| self.part(part));
        shown.then = ask.then.iter().map(|later| self.ask(later).into_owned()).collect();
        let patterns = |ask: &Ask| (ask.patterns.clone(), ask.always.clone());
        let hides = |(part, shown): (&AskPart, &AskPart)| {
            part.patterns != shown.patterns
                || part.variants != shown.variants
                || part.equivalents != shown.equivalents
                || part.always != shown.always
        };
        if patterns(ask) != patterns(&shown) || ask.parts.iter().zip(&shown.parts).any(hides) {
            shown.always.clear();
            shown.parts.iter_mut().for_each(|part| part.always.clear());
            shown.parts.push(AskPart {
                text: super::MARK.to_owned(),
                unclear: Some(UNCLEAR.to_owned()),
                ..AskPart::default()
            });
        }
        Cow::Owned(shown)
    }

    fn part(&self, part: &mut AskPart) {
        self.string(&mut part.text);
        self.texts(&mut part.arguments);
        self.texts(&mut part.patterns);
        self.texts(&mut part.variants);
        self.texts(&mut part.equivalents);
        self.texts(&mut part.always);
        self.texts(&mut part.paths);
    }

    fn texts(&self, texts: &mut [String]) {
        texts.iter_mut().for_each(|text| self.string(text));
    }

    /// Returns what a prompt asks, as a person may see it.
    pub fn request(&self, request: PromptRequest) -> PromptRequest {
        if self.is_empty() {
            return request;
        }
        match request {
            PromptRequest::Permission {
                ask,
                rule,
                mut verdicts,
            } => {
                let shown = self.ask(&ask).into_owned();
                // One verdict for each part.
                verdicts.resize_with(shown.parts.len(), Default::default);
                PromptRequest::Permission {
                    ask: Box::new(shown),
                    rule,
                    verdicts,
                }
            }
            PromptRequest::Questions(questions) => {
                PromptRequest::Questions(questions.into_iter().map(|question| self.question(question)).collect())
            }
        }
    }

    fn question(&self, mut question: Question) -> Question {
        self.string(&mut question.question);
        self.string(&mut question.header);
        for option in &mut question.options {
            self.string(&mut option.label);
            self.string(&mut option.description);
        }
        if let Some(form) = &mut question.form {
            self.string(&mut form.message);
            if let Some(url) = &mut form.url {
                self.string(url);
            }
            self.value(&mut form.schema);
        }
        question
    }

    /// Takes secrets out of what belongs to a result and is text.
    pub fn attachment(&self, attachment: &mut Attachment) {
        match &mut attachment.content {
            AttachmentContent::Url(url) => self.string(url),
            AttachmentContent::Bytes(bytes) if attachment.mime.starts_with("text/") => {
                if let Cow::Owned(redacted) = self.bytes(bytes) {
                    *bytes = redacted.into();
                }
            }
            AttachmentContent::Bytes(_) => {}
        }
    }
}
