//! The person of a case: sees every prompt and gives the replies that the steps name.
//!
//! *Invariant:* each prompt gets the first reply left for its permission, or the one for its number among the questions
//! of its call; without one it is refused. What the calls of a batch ask counts as asked by the batch. A prompt of a step
//! that runs beside an earlier one is answered only after that one has asked, or has ended.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result, bail};
use tokio::sync::mpsc;
use toolgate_contract::{Prompt, PromptDecision, PromptReply, QuestionAnswer, ReplyResult, prompt};

use crate::case::{Answer, Reply};
use crate::connection::{self, Approvals, Connection};

/// How many notices may wait.
const QUEUE: usize = 64;

/// What the player tells the approver.
pub(crate) enum Notice {
    /// A call is about to start.
    Started {
        call_id: String,
        replies: Vec<Reply>,
        /// The call that must have asked first.
        after: Option<String>,
        /// Takes what the calls ask that it makes, if their prompts are its own here.
        inner: Option<Inner>,
    },
    /// A call has ended.
    Ended { call_id: String },
}

/// What the calls of a batch have asked, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inner(Arc<Mutex<Vec<Prompt>>>);

impl Inner {
    fn push(&self, prompt: Prompt) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(prompt);
    }

    pub(crate) fn take(&self) -> Vec<Prompt> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Answers the prompts of one case.
pub(crate) struct Approver {
    approvals: Approvals,
    notices: mpsc::Receiver<Notice>,
    desk: Desk,
}

impl Approver {
    /// Sees prompts from now on.
    pub(crate) async fn open(connection: &Connection) -> Result<(Self, mpsc::Sender<Notice>)> {
        let approvals = connection.approvals("conformance").await?;
        let (notify, notices) = mpsc::channel(QUEUE);
        let approver = Self {
            approvals,
            notices,
            desk: Desk::default(),
        };
        Ok((approver, notify))
    }

    /// Answers prompts until something goes wrong; the player drops it when the steps are done.
    pub(crate) async fn run(mut self) -> Result<Infallible> {
        loop {
            let due = tokio::select! {
                // A call is announced before it starts: its notice is read before its prompts.
                biased;
                notice = self.notices.recv() => self.desk.note(notice.context("the player is gone")?),
                told = self.approvals.next() => self.read(told?)?,
            };
            for (prompt, given) in due {
                let always_patterns = match &prompt.request {
                    Some(prompt::Request::Permission(asked)) if given.decision == PromptDecision::Always => {
                        asked.always.clone()
                    }
                    Some(_) | None => Vec::new(),
                };
                let reply = PromptReply {
                    always_patterns,
                    reply_id: format!("reply-to-{}", prompt.prompt_id),
                    prompt_id: prompt.prompt_id,
                    decision: given.decision.into(),
                    message: given.message,
                    answers: given.answers,
                    input_digest: prompt.input_digest,
                    ..PromptReply::default()
                };
                self.approvals.reply(reply).await?;
            }
        }
    }

    fn read(&mut self, told: connection::Notice) -> Result<Vec<Due>> {
        let (result, message) = match told {
            connection::Notice::Added(prompt) => return Ok(self.desk.take(*prompt)),
            connection::Notice::Replied(result, message) => (result, message),
        };
        match result {
            // Another reply, or a cancellation, may have settled the prompt a moment before.
            ReplyResult::Accepted | ReplyResult::AlreadyResolved | ReplyResult::Withdrawn => Ok(Vec::new()),
            ReplyResult::Unspecified
            | ReplyResult::NotFound
            | ReplyResult::Expired
            | ReplyResult::DigestMismatch
            | ReplyResult::OtherInstance
            | ReplyResult::NotAllowed
            | ReplyResult::SecondApprovalNeeded
            | ReplyResult::Invalid => bail!("a reply was not taken: {result:?}: {message}"),
        }
    }
}

/// A prompt and what is answered to it.
pub(crate) type Due = (Prompt, Given);

/// What is answered.
#[derive(Debug)]
pub(crate) struct Given {
    pub(crate) decision: PromptDecision,
    message: String,
    pub(crate) answers: Vec<QuestionAnswer>,
}

impl Given {
    fn of(decision: PromptDecision) -> Self {
        Self {
            decision,
            message: String::new(),
            answers: Vec::new(),
        }
    }
}

/// Decides who is answered what, and when.
#[derive(Default)]
pub(crate) struct Desk {
    calls: HashMap<String, Asker>,
    held: Vec<Prompt>,
}

#[derive(Default)]
struct Asker {
    replies: Vec<Reply>,
    after: Option<String>,
    inner: Option<Inner>,
    /// Has asked, or has ended.
    seen: bool,
    ended: bool,
    /// How many prompts of it have asked questions.
    questions: u64,
}

impl Desk {
    /// Takes a notice; returns the answers that are due now.
    pub(crate) fn note(&mut self, notice: Notice) -> Vec<Due> {
        match notice {
            Notice::Started {
                call_id,
                replies,
                after,
                inner,
            } => {
                self.calls.insert(
                    call_id,
                    Asker {
                        replies,
                        after,
                        inner,
                        ..Asker::default()
                    },
                );
            }
            Notice::Ended { call_id } => {
                let asker = self.calls.entry(call_id).or_default();
                (asker.seen, asker.ended) = (true, true);
            }
        }
        self.due()
    }

    /// Takes a prompt; returns the answers that are due now.
    pub(crate) fn take(&mut self, prompt: Prompt) -> Vec<Due> {
        if !self.calls.contains_key(&prompt.call_id)
            && let Some(batch) = self.running_batch()
        {
            batch.seen = true;
            if let Some(inner) = &batch.inner {
                inner.push(prompt.clone());
            }
        } else {
            self.calls.entry(prompt.call_id.clone()).or_default().seen = true;
        }
        self.held.push(prompt);
        self.due()
    }

    /// The batch that runs, if there is just one.
    fn running_batch(&mut self) -> Option<&mut Asker> {
        let mut batches = self
            .calls
            .values_mut()
            .filter(|asker| asker.inner.is_some() && !asker.ended);
        batches.next().filter(|_| batches.next().is_none())
    }

    fn due(&mut self) -> Vec<Due> {
        let mut due = Vec::new();
        for prompt in std::mem::take(&mut self.held) {
            if self.must_wait(&prompt) {
                self.held.push(prompt);
            } else if let Some(given) = self.decide(&prompt) {
                due.push((prompt, given));
            }
        }
        due
    }

    fn must_wait(&self, prompt: &Prompt) -> bool {
        let after = self.calls.get(&prompt.call_id).and_then(|asker| asker.after.as_ref());
        after.is_some_and(|earlier| !self.calls.get(earlier).is_some_and(|asker| asker.seen))
    }

    /// Returns what is answered; `None` leaves the prompt open.
    fn decide(&mut self, prompt: &Prompt) -> Option<Given> {
        let refused = Given::of(PromptDecision::Reject);
        let asker = if self.calls.contains_key(&prompt.call_id) {
            self.calls.get_mut(&prompt.call_id)
        } else {
            self.running_batch()
        };
        let Some(asker) = asker else {
            return Some(refused);
        };
        let index = match &prompt.request {
            Some(prompt::Request::Permission(asked)) => asker.reply_to_permission(&asked.permission),
            Some(prompt::Request::Questions(_)) => asker.reply_to_questions(),
            None => None,
        };
        match index.map(|index| asker.replies.remove(index)) {
            Some(Reply::Permission { answer, message, .. }) => {
                let decision = match answer {
                    Answer::Once => PromptDecision::Once,
                    Answer::Always => PromptDecision::Always,
                    Answer::Reject => PromptDecision::Reject,
                    Answer::None => return None,
                };
                Some(Given {
                    message,
                    ..Given::of(decision)
                })
            }
            Some(Reply::Question {
                answers: Some(answers), ..
            }) => Some(Given {
                answers: answers.into_iter().map(|values| QuestionAnswer { values }).collect(),
                ..Given::of(PromptDecision::Answer)
            }),
            Some(Reply::OpenQuestion(_)) => None,
            Some(Reply::Question { answers: None, .. } | Reply::Subagent(_)) | None => Some(refused),
        }
    }
}

impl Asker {
    fn reply_to_permission(&self, asked: &str) -> Option<usize> {
        let is_for_it = |reply: &Reply| matches!(reply, Reply::Permission { permission, .. } if permission == asked);
        self.replies.iter().position(is_for_it)
    }

    fn reply_to_questions(&mut self) -> Option<usize> {
        let number = self.questions;
        self.questions += 1;
        let is_for_it = |reply: &Reply| matches!(reply, Reply::Question { index, .. } | Reply::OpenQuestion(index) if *index == number);
        self.replies.iter().position(is_for_it)
    }
}
