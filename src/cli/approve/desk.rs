//! What all services together ask: the prompts that are open, and the replies whose results are still to come.
//!
//! *Invariant:* a prompt is open here once, however many services tell of it. A reply stays here until its result has come, and is
//! sent again after a break: a service recognises it by its id, so it decides nothing twice.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use toolgate_client::Decision;
use toolgate_contract::channel_response::Message;
use toolgate_contract::{
    ChannelResponse, Prompt, PromptAdded, PromptReply, PromptReplyResult, PromptResolved, PromptState, PromptUpdated,
    ReplyResult,
};

use super::homes::Homes;
use super::sources::{News, Sources};
use crate::cli::exit::Failure;

/// Replies of which is remembered who gave them.
const MOST_DECIDED: usize = 256;

/// What an approver is told.
#[derive(Debug)]
pub(super) enum Told {
    /// A service has let the approver in, `again` after a break; it is named if it is not the only one.
    Connected {
        url: Option<String>,
        again: bool,
    },
    /// A connection is lost, and opened again.
    Lost,
    /// A service does not let the approver in; others do.
    Refused {
        url: String,
        why: String,
    },
    /// All services have told of their prompts: there are none.
    NothingOpen,
    Added(Arc<Prompt>),
    /// It is open still, and has an approval of the two that it needs.
    Changed(Arc<Prompt>),
    /// It has ended; `was_open` unless this approver had replied.
    Ended {
        prompt: Box<Prompt>,
        was_open: bool,
    },
    /// What became of a reply.
    Replied(Box<PromptReplyResult>),
    /// Why the rules of a workspace are not those that its files have, or that all are.
    Rules(Option<String>),
}

/// The open prompts and the replies on their way.
#[derive(Default)]
pub(super) struct Desk {
    /// In the order of their arrival.
    open: VecDeque<Arc<Prompt>>,
    /// By their ids, each with the place of its service.
    unanswered: HashMap<String, (usize, PromptReply)>,
    /// Whether the result of a reply will never come.
    pub(super) has_lost_reply: bool,
    /// Which services have told of a prompt.
    homes: Homes,
    /// Prompts that were replied to, and by whom, the latest at the end.
    decided: VecDeque<(String, String)>,
}

impl Desk {
    pub(super) fn open(&self) -> &VecDeque<Arc<Prompt>> {
        &self.open
    }

    /// Says whether a service has told of a prompt.
    pub(super) fn knows(&self, prompt: &str) -> bool {
        self.homes.of(prompt).is_some()
    }

    /// Says whether results of replies are still to come.
    pub(super) fn expects_results(&self) -> bool {
        !self.unanswered.is_empty()
    }

    /// Takes in what a service says, or what became of it.
    ///
    /// # Errors
    /// No service is left that lets the approver in.
    pub(super) async fn hear(&mut self, sources: &mut Sources, index: usize, news: News) -> Result<Vec<Told>, Failure> {
        let is_one = sources.list.len() == 1;
        let source = &mut sources.list[index];
        Ok(match news {
            News::Opened(requests) => {
                source.requests = Some(requests);
                for (_, reply) in self.unanswered.values().filter(|(home, _)| *home == index) {
                    source.send(reply.clone()).await;
                }
                Vec::new()
            }
            News::Message(message) => match message.message {
                Some(Message::SnapshotEnd(_)) => {
                    source.has_told();
                    self.nothing_open(sources).into_iter().collect()
                }
                Some(Message::Opened(_)) => vec![Told::Connected {
                    url: (!is_one).then(|| source.url.clone()),
                    again: source.is_back,
                }],
                Some(message) if self.is_news(index, &message) => self.take(message),
                Some(_) | None => Vec::new(),
            },
            News::Lost => {
                let was_connected = source.requests.take().is_some() || !source.is_back;
                source.is_lost();
                self.forget(sources, index).await;
                was_connected.then_some(Told::Lost).into_iter().collect()
            }
            News::Refused(error) => {
                source.requests = None;
                source.has_told();
                let url = source.url.clone();
                self.forget(sources, index).await;
                self.drop_unanswered(|home| home == index);
                if sources.list.iter().all(|source| source.requests.is_none()) {
                    return Err(error.into());
                }
                let why = Failure::from(error).describe(false);
                let mut told = vec![Told::Refused { url, why }];
                told.extend(self.nothing_open(sources));
                told
            }
            News::Rules(broken) => {
                source.broken_rules = broken;
                let mut all = sources.list.iter();
                vec![Told::Rules(all.find_map(|source| source.broken_rules.clone()))]
            }
        })
    }

    /// Says whether a message tells of something that no other service has told.
    pub(super) fn is_news(&mut self, index: usize, message: &Message) -> bool {
        match message {
            Message::PromptAdded(PromptAdded { prompt: Some(prompt) }) => self.homes.add(&prompt.prompt_id, index),
            Message::PromptUpdated(PromptUpdated { prompt: Some(prompt) }) => {
                self.homes.is_told_by(&prompt.prompt_id, index)
            }
            Message::PromptResolved(PromptResolved { prompt: Some(prompt) }) => self.homes.end(&prompt.prompt_id),
            Message::PromptAdded(_)
            | Message::PromptUpdated(_)
            | Message::PromptResolved(_)
            | Message::Opened(_)
            | Message::SnapshotEnd(_)
            | Message::Heartbeat(_)
            | Message::ReplyResult(_) => true,
        }
    }

    /// Takes in what a message says of prompts and replies.
    fn take(&mut self, message: Message) -> Vec<Told> {
        match message {
            Message::PromptAdded(PromptAdded { prompt: Some(prompt) }) => self.add(prompt).into_iter().collect(),
            Message::PromptUpdated(PromptUpdated { prompt: Some(prompt) }) => {
                let prompt = Arc::new(prompt);
                let mut open = self.open.iter_mut();
                if let Some(open) = open.find(|open| open.prompt_id == prompt.prompt_id) {
                    *open = Arc::clone(&prompt);
                }
                vec![Told::Changed(prompt)]
            }
            Message::PromptResolved(PromptResolved {
                prompt: Some(mut prompt),
            }) => {
                self.name_decider(&mut prompt);
                let was_open = self.close(&prompt.prompt_id).is_some();
                let prompt = Box::new(prompt);
                vec![Told::Ended { prompt, was_open }]
            }
            Message::ReplyResult(result) => {
                self.settled(&result);
                // One that this approver may not answer would be asked for ever.
                let again = result.prompt.clone().filter(|prompt| {
                    let is_settled = matches!(
                        result.result(),
                        ReplyResult::NotAllowed | ReplyResult::SecondApprovalNeeded | ReplyResult::Accepted
                    );
                    prompt.state() == PromptState::Open && !is_settled
                });
                let mut told = vec![Told::Replied(Box::new(result))];
                told.extend(again.and_then(|prompt| self.add(prompt)));
                told
            }
            Message::PromptAdded(_)
            | Message::PromptUpdated(_)
            | Message::PromptResolved(_)
            | Message::SnapshotEnd(_)
            | Message::Heartbeat(_)
            | Message::Opened(_) => Vec::new(),
        }
    }

    /// Says so if nothing is open and no service has still to tell of something.
    fn nothing_open(&self, sources: &Sources) -> Option<Told> {
        let is_nothing = self.open.is_empty() && self.unanswered.is_empty() && !sources.have_more();
        is_nothing.then_some(Told::NothingOpen)
    }

    /// Adds a prompt, unless it is there or a reply to it is on its way.
    fn add(&mut self, prompt: Prompt) -> Option<Told> {
        let id = &prompt.prompt_id;
        let has_reply = self.unanswered.values().any(|(_, reply)| reply.prompt_id == *id);
        if has_reply || self.open.iter().any(|open| open.prompt_id == *id) {
            return None;
        }
        let prompt = Arc::new(prompt);
        self.open.push_back(Arc::clone(&prompt));
        Some(Told::Added(prompt))
    }

    /// Notes who decided a prompt. One that ended with another one was decided by whoever replied to that, which it does not say.
    fn name_decider(&mut self, prompt: &mut Prompt) {
        let Some(resolution) = &mut prompt.resolution else {
            return;
        };
        let mut decided = self.decided.iter();
        if resolution.resolved_by.is_empty()
            && let Some((_, by)) = decided.find(|(id, _)| *id == resolution.because_of_prompt_id)
        {
            resolution.resolved_by.clone_from(by);
        }
        self.decided
            .push_back((prompt.prompt_id.clone(), resolution.resolved_by.clone()));
        if self.decided.len() > MOST_DECIDED {
            self.decided.pop_front();
        }
    }

    fn close(&mut self, id: &str) -> Option<Arc<Prompt>> {
        let position = self.open.iter().position(|open| open.prompt_id == id)?;
        self.open.remove(position)
    }

    /// Takes the prompts of a lost service away that no other one tells of: it tells of them again when it is back. Replies that
    /// it may not have taken go to others that tell of their prompts.
    async fn forget(&mut self, sources: &Sources, lost: usize) {
        self.homes.forget(lost);
        self.open.retain(|prompt| self.homes.of(&prompt.prompt_id).is_some());
        for (home, reply) in self.unanswered.values_mut().filter(|(home, _)| *home == lost) {
            if let Some(other) = self.homes.of(&reply.prompt_id).filter(|other| *other != lost) {
                *home = other;
                sources.list[other].send(reply.clone()).await;
            }
        }
    }

    /// Takes an open prompt away and returns the reply to it; none if it is not open any more.
    pub(super) fn decide(&mut self, id: &str, decision: &Decision) -> Option<PromptReply> {
        let prompt = self.close(id)?;
        decision.reply_to(&prompt)
    }

    /// Sends a reply.
    pub(super) async fn send(&mut self, sources: &Sources, reply: PromptReply) {
        // A service says itself that it knows no such prompt.
        let any = || sources.list.iter().position(|source| source.requests.is_some());
        let home = self.homes.of(&reply.prompt_id).or_else(any).unwrap_or_default();
        self.unanswered.insert(reply.reply_id.clone(), (home, reply.clone()));
        sources.list[home].send(reply).await;
    }

    /// Notes that the result of a reply has come.
    pub(super) fn settled(&mut self, result: &PromptReplyResult) {
        self.unanswered.remove(&result.reply_id);
    }

    /// Gives up what only services would answer that are gone.
    pub(super) fn give_up(&mut self, sources: &Sources) {
        self.drop_unanswered(|home| sources.list[home].is_over());
    }

    fn drop_unanswered(&mut self, is_gone: impl Fn(usize) -> bool) {
        let before = self.unanswered.len();
        self.unanswered.retain(|_, (home, _)| !is_gone(*home));
        self.has_lost_reply |= self.unanswered.len() < before;
    }
}

/// Says of a message whether a program that reads all of them wants it.
pub(super) fn is_worth_telling(message: &ChannelResponse) -> bool {
    !matches!(message.message, Some(Message::Heartbeat(_)))
}

#[cfg(test)]
mod tests {
    use toolgate_contract::PromptResolution;

    use super::*;

    fn prompt(id: &str, state: PromptState) -> Prompt {
        Prompt {
            prompt_id: id.into(),
            state: state.into(),
            ..Prompt::default()
        }
    }

    fn hear(desk: &mut Desk, message: Message) -> Vec<Told> {
        if desk.is_news(0, &message) {
            desk.take(message)
        } else {
            Vec::new()
        }
    }

    fn with(ids: &[&str]) -> Desk {
        let mut desk = Desk::default();
        for id in ids {
            let prompt = Some(prompt(id, PromptState::Open));
            hear(&mut desk, Message::PromptAdded(PromptAdded { prompt }));
        }
        desk
    }

    #[test]
    fn a_prompt_answered_elsewhere_is_taken_away() {
        let mut desk = with(&["a", "b", "c"]);
        let resolve = |id| {
            let prompt = Some(prompt(id, PromptState::Resolved));
            Message::PromptResolved(PromptResolved { prompt })
        };
        let told = hear(&mut desk, resolve("b"));
        assert!(matches!(told[..], [Told::Ended { was_open: true, .. }]), "{told:?}");
        assert!(desk.decide("b", &Decision::Once).is_none());
        let reply = desk.decide("a", &Decision::Once).unwrap();
        assert_eq!((reply.prompt_id.as_str(), desk.open().len()), ("a", 1));
        let told = hear(&mut desk, resolve("a"));
        assert!(matches!(told[..], [Told::Ended { was_open: false, .. }]), "{told:?}");
        assert!(hear(&mut desk, resolve("a")).is_empty(), "it ends once");
    }

    #[test]
    fn a_prompt_that_ends_with_another_one_says_who_decided() {
        let mut desk = with(&["a", "b"]);
        let mut resolve = |id, by: &str, because: &str| {
            let resolution = PromptResolution {
                resolved_by: by.into(),
                because_of_prompt_id: because.into(),
                ..PromptResolution::default()
            };
            let prompt = Some(Prompt {
                resolution: Some(resolution),
                ..prompt(id, PromptState::Resolved)
            });
            let told = hear(&mut desk, Message::PromptResolved(PromptResolved { prompt }));
            let [Told::Ended { prompt, .. }] = &told[..] else {
                panic!("{told:?}")
            };
            prompt.resolution.clone().unwrap().resolved_by
        };
        assert_eq!(resolve("a", "ann", ""), "ann");
        assert_eq!(resolve("b", "", "a"), "ann");
        assert_eq!(resolve("c", "", "unknown"), "");
    }

    #[test]
    fn a_reply_is_outstanding_until_its_result() {
        let mut desk = with(&["a"]);
        let reply = desk.decide("a", &Decision::Once).unwrap();
        desk.unanswered.insert(reply.reply_id.clone(), (0, reply.clone()));
        assert!(desk.add(prompt("a", PromptState::Open)).is_none());
        let mut result = PromptReplyResult {
            reply_id: reply.reply_id,
            prompt: Some(prompt("a", PromptState::Open)),
            ..PromptReplyResult::default()
        };
        result.set_result(ReplyResult::Invalid);
        let told = hear(&mut desk, Message::ReplyResult(result.clone()));
        assert!(matches!(told[..], [Told::Replied(_), Told::Added(_)]), "{told:?}");
        assert!(!desk.expects_results());
        desk.close("a");
        result.set_result(ReplyResult::NotAllowed);
        let told = hear(&mut desk, Message::ReplyResult(result));
        assert!(matches!(told[..], [Told::Replied(_)]), "{told:?}");
    }
}
