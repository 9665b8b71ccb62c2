//! `toolgate approve`: a person, or a program with `--json`, answers the prompts of a running server, or of every service of
//! this user that runs.
//!
//! *Invariant:* nothing lives in the connection: when it breaks, the channel is opened again and its snapshot replaces
//! what was known. A prompt is asked once at a time, and a question that somebody else has answered is taken away.

mod homes;
mod sources;

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::pin::Pin;

use clap::Args;
use futures_util::StreamExt as _;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines, Stdin};
use toolgate_client::Decision;
use toolgate_contract::channel_response::Message;
use toolgate_contract::json::from_json;
use toolgate_contract::{
    ChannelResponse, Prompt, PromptAdded, PromptDecision, PromptReply, PromptReplyResult, PromptResolved, PromptState,
    PromptUpdated, ReplyResult,
};

use self::homes::Homes;
use self::sources::{LOOK_EVERY, News, Sources};
use super::call::pending_if_none;
use super::connection;
use super::exit::{Exit, Failure};
use super::globals::Globals;
use super::interrupts::Interrupts;
use super::keyboard::Keyboard;
use super::prompt;
use super::scope;
use super::terminal::{Look, Terminal, visible};
use super::user::user_name;
use super::words;

/// Which prompts to answer, and in whose name.
#[derive(Debug, Args)]
#[command(after_help = "\
With --json, each ChannelResponse of a service is one line of standard output; what services of one data directory both tell of a
prompt is told once. Each line of standard input is a PromptReply.
Both are protobuf JSON, as grpcurl prints and reads it:
  {\"promptId\": \"per_…\", \"inputDigest\": \"…\", \"decision\": \"PROMPT_DECISION_ONCE\"}
  {\"promptId\": \"per_…\", \"inputDigest\": \"…\", \"decision\": \"PROMPT_DECISION_REJECT\", \"message\": \"for the model\"}
  {\"promptId\": \"per_…\", \"inputDigest\": \"…\", \"decision\": \"PROMPT_DECISION_ALWAYS\", \"scope\": {\"maxUses\": 3,
   \"reach\": \"GRANT_REACH_SESSION\", \"expireTime\": \"2030-01-31T12:00:00Z\"}, \"alwaysPatterns\": [\"only this one\"]}
  {\"promptId\": \"per_…\", \"inputDigest\": \"…\", \"decision\": \"PROMPT_DECISION_INSTEAD\",
   \"inputJson\": \"{\\\"command\\\": \\\"ls\\\"}\"}
  {\"promptId\": \"que_…\", \"inputDigest\": \"…\", \"decision\": \"PROMPT_DECISION_ANSWER\",
   \"answers\": [{\"values\": [\"one label\"]}]}
The inputDigest is the one of the prompt: the decision is for exactly the input that was shown.
At the end of standard input the program waits for the results of its replies and ends.")]
pub(super) struct ApproveArgs {
    /// Prompts of all workspaces that you may see, as without --workspace.
    #[arg(long, conflicts_with = "workspace")]
    all: bool,
    /// Only prompts of this workspace.
    #[arg(long, value_name = "NAME|DIR")]
    workspace: Option<String>,
    /// Only prompts of this session; without it, everybody's. May be given more than once.
    #[arg(long)]
    session: Vec<String>,
    /// The name that decisions are recorded under; your user name if none is given.
    #[arg(long, env = "TOOLGATE_NAME", hide_env_values = true)]
    name: Option<String>,
}

impl ApproveArgs {
    pub(super) async fn run(self, globals: &Globals, terminal: &Terminal) -> Result<Exit, Failure> {
        let interrupts = Interrupts::listen()?;
        let replies = Replies::open(terminal)?;
        let found = connection::connect_all(globals).await?;
        let name = self.name.unwrap_or_else(user_name);
        let workspace = self.workspace.filter(|_| !self.all);
        let mut sources = Sources::new(globals.clone(), workspace, self.session, name.clone());
        let is_one = found.len() == 1;
        for (instance, client) in found {
            match sources.add(&instance, client).await {
                Err(failure) if is_one => return Err(failure),
                Err(failure) => terminal.inform(&format!("{}: {}", instance.url, failure.describe(false))),
                Ok(()) => {}
            }
        }
        if sources.list.is_empty() {
            return Err(Failure::Usage("no running service has this workspace".to_owned()));
        }
        let approver = Approver::new(terminal.clone(), replies, name);
        approver.serve(sources, interrupts).await
    }
}

/// Where replies come from.
enum Replies {
    Keyboard(Keyboard),
    Lines(Option<Lines<BufReader<Stdin>>>),
}

impl Replies {
    fn open(terminal: &Terminal) -> Result<Self, Failure> {
        if terminal.json {
            return Ok(Self::Lines(Some(BufReader::new(tokio::io::stdin()).lines())));
        }
        match Keyboard::open() {
            Some(keyboard) => Ok(Self::Keyboard(keyboard)),
            None => Err(Failure::Usage(
                "there is no terminal to ask on; with --json, replies are read as lines of JSON".to_owned(),
            )),
        }
    }

    /// Returns the next line of JSON; `None` at the end, and then never again.
    async fn line(&mut self) -> Option<String> {
        let Self::Lines(Some(lines)) = self else {
            return std::future::pending().await;
        };
        match lines.next_line().await {
            Ok(Some(line)) => Some(line),
            Ok(None) | Err(_) => {
                *self = Self::Lines(None);
                None
            }
        }
    }
}

type Asking = Pin<Box<dyn Future<Output = std::io::Result<Decision>> + Send>>;

/// The prompts that are open, and the one that is asked.
struct Approver {
    terminal: Terminal,
    replies: Replies,
    name: String,
    /// Open prompts in the order of their arrival, the one that is asked first, each with the place of its service.
    open: VecDeque<(usize, Prompt)>,
    asking: Option<Asking>,
    /// Replies whose results are still to come, by their ids.
    unanswered: HashMap<String, (usize, PromptReply)>,
    /// Which services have told of a prompt.
    homes: Homes,
    at_end: bool,
}

enum Step {
    News(usize, News),
    Answer(std::io::Result<Decision>),
    Line(Option<String>),
    Look,
    Interrupt,
}

impl Approver {
    fn new(terminal: Terminal, replies: Replies, name: String) -> Self {
        Self {
            terminal,
            replies,
            name,
            open: VecDeque::new(),
            asking: None,
            unanswered: HashMap::new(),
            homes: Homes::default(),
            at_end: false,
        }
    }

    /// Answers until the approver leaves, or no service is left that takes its answers.
    async fn serve(mut self, mut sources: Sources, mut interrupts: Interrupts) -> Result<Exit, Failure> {
        let mut look = tokio::time::interval(LOOK_EVERY);
        loop {
            // Whoever is not let in is told so, however short the input is.
            let is_heard = sources.list.iter().all(|source| source.is_heard || source.is_over());
            if self.at_end && self.unanswered.is_empty() && is_heard {
                return Ok(Exit::Completed);
            }
            let step = tokio::select! {
                Some((index, news)) = sources.news.next() => Step::News(index, news),
                answer = pending_if_none(&mut self.asking) => Step::Answer(answer),
                line = self.replies.line() => Step::Line(line),
                _ = look.tick() => Step::Look,
                () = interrupts.next() => Step::Interrupt,
            };
            let reply = match step {
                Step::News(index, news) => {
                    self.hear(&mut sources, index, news).await?;
                    None
                }
                Step::Answer(answer) => self.decided(&answer.map_err(Failure::Terminal)?),
                Step::Line(Some(line)) => self.read(&line).map(|reply| {
                    // The service says itself that it knows no such prompt.
                    (self.homes.of(&reply.prompt_id).unwrap_or_default(), reply)
                }),
                Step::Line(None) => {
                    self.at_end = true;
                    None
                }
                Step::Look => {
                    sources.look().await;
                    // Nobody is left to answer those.
                    self.unanswered.retain(|_, (home, _)| !sources.list[*home].is_over());
                    None
                }
                Step::Interrupt => return Ok(Exit::Interrupted),
            };
            if let Some((index, reply)) = reply {
                self.unanswered.insert(reply.reply_id.clone(), (index, reply.clone()));
                sources.list[index].send(reply).await;
            }
            self.ask_next();
        }
    }

    /// Takes in what a service says, or what became of it.
    async fn hear(&mut self, sources: &mut Sources, index: usize, news: News) -> Result<(), Failure> {
        let is_one = sources.list.len() == 1;
        let source = &mut sources.list[index];
        match news {
            News::Opened(requests) => {
                source.requests = Some(requests);
                source.is_heard = true;
                // A reply is recognised by its id, so sending it again after a break decides nothing twice.
                for (_, reply) in self.unanswered.values().filter(|(home, _)| *home == index) {
                    source.send(reply.clone()).await;
                }
            }
            News::Message(message) => {
                if matches!(message.message, Some(Message::Opened(_))) && !self.terminal.json {
                    let again = if source.is_back { " again" } else { "" };
                    let to = if is_one {
                        String::new()
                    } else {
                        format!(" to {}", source.url)
                    };
                    self.terminal.inform(&format!("connected{again} as {}{to}", self.name));
                }
                self.receive(index, *message)?;
            }
            News::Lost => {
                if source.requests.take().is_some() || !source.is_back {
                    self.terminal.inform("lost the connection; reconnecting");
                }
                source.is_back = true;
                self.forget(index);
                self.send_elsewhere(sources, index).await;
            }
            News::Refused(error) => {
                source.requests = None;
                source.is_heard = true;
                let url = source.url.clone();
                self.forget(index);
                self.send_elsewhere(sources, index).await;
                self.unanswered.retain(|_, (home, _)| *home != index);
                if sources.list.iter().all(|source| source.requests.is_none()) {
                    return Err(error.into());
                }
                self.terminal
                    .inform(&format!("{url}: {}", Failure::from(error).describe(false)));
            }
        }
        Ok(())
    }

    /// Takes the prompts of a service away that no other one tells of: it tells of them again when it is back.
    fn forget(&mut self, index: usize) {
        self.homes.forget(index);
        let first = self.open.front().map(|(_, prompt)| prompt.prompt_id.clone());
        self.open
            .retain_mut(|(home, prompt)| match self.homes.of(&prompt.prompt_id) {
                Some(other) => {
                    *home = other;
                    true
                }
                None => false,
            });
        if self.open.front().map(|(_, prompt)| &prompt.prompt_id) != first.as_ref() {
            self.asking = None;
        }
    }

    /// Sends the replies that a lost service may not have taken to others that tell of their prompts. A reply is recognised by
    /// its id.
    async fn send_elsewhere(&mut self, sources: &mut Sources, lost: usize) {
        for (home, reply) in self.unanswered.values_mut().filter(|(home, _)| *home == lost) {
            if let Some(other) = self.homes.of(&reply.prompt_id).filter(|other| *other != lost) {
                *home = other;
                sources.list[other].send(reply.clone()).await;
            }
        }
    }

    /// Says whether a message tells of something that no other service has told.
    fn is_news(&mut self, index: usize, message: &Message) -> bool {
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

    fn receive(&mut self, index: usize, message: ChannelResponse) -> Result<(), Failure> {
        let is_news = message
            .message
            .as_ref()
            .is_none_or(|message| self.is_news(index, message));
        if !is_news {
            return Ok(());
        }
        if self.terminal.json {
            if !matches!(message.message, Some(Message::Heartbeat(_))) {
                self.terminal.message(&message)?;
            }
            if let Some(Message::ReplyResult(result)) = &message.message {
                self.unanswered.remove(&result.reply_id);
            }
            return Ok(());
        }
        match message.message {
            Some(Message::PromptAdded(added)) => self.add(index, added.prompt),
            Some(Message::SnapshotEnd(end)) if end.prompts == 0 => {
                self.terminal.inform("no open prompts; new ones appear here");
            }
            Some(Message::PromptResolved(resolved)) => {
                resolved.prompt.iter().for_each(|prompt| self.resolved(prompt));
            }
            Some(Message::PromptUpdated(updated)) => {
                updated.prompt.into_iter().for_each(|prompt| self.updated(prompt));
            }
            Some(Message::ReplyResult(result)) => self.replied(index, &result),
            Some(Message::SnapshotEnd(_) | Message::Heartbeat(_) | Message::Opened(_)) | None => {}
        }
        Ok(())
    }

    /// Queues a prompt, unless it is queued or a reply to it is on its way.
    fn add(&mut self, index: usize, prompt: Option<Prompt>) {
        let Some(prompt) = prompt else { return };
        let id = &prompt.prompt_id;
        let replied = self.unanswered.values().any(|(_, reply)| reply.prompt_id == *id);
        if replied || self.open.iter().any(|(_, open)| open.prompt_id == *id) {
            return;
        }
        if self.asking.is_some() {
            self.dim(&format!("  queued after this one: {}", prompt::subject(&prompt)));
        }
        self.open.push_back((index, prompt));
    }

    /// Takes a prompt as it is now, and says who has approved it so far.
    fn updated(&mut self, prompt: Prompt) {
        let by: Vec<&str> = prompt.approvals.iter().map(|one| one.approved_by.as_str()).collect();
        let by = visible(&by.join(", ")).into_owned();
        self.dim(&format!(
            "{}: approved by {by}; one more approval is needed",
            prompt::subject(&prompt)
        ));
        let mut open = self.open.iter_mut().map(|(_, open)| open);
        if let Some(open) = open.find(|open| open.prompt_id == prompt.prompt_id) {
            *open = prompt;
        }
    }

    /// Takes a prompt away that has ended, and says how if it was not by this approver's reply.
    fn resolved(&mut self, prompt: &Prompt) {
        let mut open = self.open.iter().map(|(_, open)| open);
        let Some(position) = open.position(|open| open.prompt_id == prompt.prompt_id) else {
            return;
        };
        if position == 0 {
            self.asking = None;
        }
        self.open.remove(position);
        let outcome = prompt::outcome(prompt.state, prompt.resolution.as_ref());
        let is_answered = prompt.state() == PromptState::Resolved;
        let what = if is_answered {
            "answered elsewhere"
        } else {
            "no longer open"
        };
        self.dim(&format!("{what}: {} – {outcome}", prompt::subject(prompt)));
    }

    fn dim(&self, text: &str) {
        self.terminal.inform(&self.terminal.err.text(Look::Dim, text));
    }

    fn replied(&mut self, index: usize, result: &PromptReplyResult) {
        self.unanswered.remove(&result.reply_id);
        match ReplyResult::try_from(result.result) {
            Ok(ReplyResult::Accepted) => return,
            Ok(ReplyResult::SecondApprovalNeeded) => {
                let text = format!("the reply to {} is recorded: {}", result.prompt_id, result.message);
                return self.terminal.inform(&text);
            }
            Ok(_) | Err(_) => {}
        }
        let word = words::reply_result(result.result);
        let stands = result
            .prompt
            .as_ref()
            .map(|prompt| prompt::outcome(prompt.state, prompt.resolution.as_ref()));
        let stands = stands.map(|outcome| format!(" ({outcome})")).unwrap_or_default();
        self.terminal.inform(&format!(
            "the reply to {} was not accepted: {word}{stands} {}",
            result.prompt_id, result.message
        ));
        self.add(
            index,
            result
                .prompt
                .clone()
                // One that this approver may not answer would be asked for ever.
                .filter(|prompt| prompt.state() == PromptState::Open && result.result() != ReplyResult::NotAllowed),
        );
    }

    /// Returns the reply to the prompt that was asked.
    fn decided(&mut self, decision: &Decision) -> Option<(usize, PromptReply)> {
        self.asking = None;
        let (index, prompt) = self.open.pop_front()?;
        let reply = decision.reply_to(&prompt)?;
        let mut word = prompt::decided(reply.decision());
        if let Some(scope) = &reply.scope {
            word += &format!(", {}", scope::describe(scope));
        }
        self.terminal.inform(&format!("  {word}"));
        Some((index, reply))
    }

    /// Asks the first prompt, unless one is being asked.
    fn ask_next(&mut self) {
        let (None, Replies::Keyboard(keyboard), Some((_, prompt))) = (&self.asking, &self.replies, self.open.front())
        else {
            return;
        };
        let others = self.open.len() - 1;
        let more = if others > 0 {
            format!(" ({others} more wait)")
        } else {
            String::new()
        };
        self.terminal
            .inform(&format!("\n{}{more}", prompt::render(prompt, self.terminal.err)));
        self.asking = Some(Box::pin(prompt::ask(
            prompt.clone(),
            keyboard.clone(),
            self.terminal.clone(),
        )));
    }

    /// Reads a reply from a line; a line that is none is reported and passed over.
    fn read(&self, line: &str) -> Option<PromptReply> {
        if line.trim().is_empty() {
            return None;
        }
        match parse_reply(line) {
            Ok(reply) => Some(reply),
            Err(error) => {
                self.terminal.error(&error);
                None
            }
        }
    }
}

/// Reads a reply as a program writes it.
fn parse_reply(line: &str) -> Result<PromptReply, String> {
    let mut reply: PromptReply = from_json(line).map_err(|error| format!("this line is not a PromptReply: {error}"))?;
    if reply.prompt_id.is_empty() || reply.decision() == PromptDecision::Unspecified {
        return Err("this line is not a PromptReply with a promptId and a decision".to_owned());
    }
    if reply.reply_id.is_empty() {
        reply.reply_id = uuid::Uuid::now_v7().to_string();
    }
    Ok(reply)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::terminal::Colour;

    fn message(message: Message) -> ChannelResponse {
        ChannelResponse { message: Some(message) }
    }

    fn prompt(id: &str, state: PromptState) -> Option<Prompt> {
        Some(Prompt {
            prompt_id: id.into(),
            state: state.into(),
            ..Prompt::default()
        })
    }

    #[test]
    fn replies_are_lines_of_json() {
        fn check(line: &str, expected: Option<(&str, PromptDecision, &str)>) {
            let reply = parse_reply(line).ok();
            let parts = reply
                .as_ref()
                .map(|reply| (reply.prompt_id.as_str(), reply.decision(), reply.message.as_str()));
            assert_eq!(parts, expected, "{line}");
        }
        check(
            r#"{"promptId":"p","decision":"PROMPT_DECISION_ONCE"}"#,
            Some(("p", PromptDecision::Once, "")),
        );
        check(
            r#"{"prompt_id":"p","decision":"PROMPT_DECISION_REJECT","message":"no"}"#,
            Some(("p", PromptDecision::Reject, "no")),
        );
        check(
            r#"{"promptId":"p","decision":"PROMPT_DECISION_ALWAYS","inputDigest":"d"}"#,
            Some(("p", PromptDecision::Always, "")),
        );
        check(r#"{"promptId":"p","decision":"yes"}"#, None);
        check(r#"{"promptId":"p"}"#, None);
        check(r#"{"decision":"PROMPT_DECISION_ONCE"}"#, None);
        check(
            r#"{"promptId":"p","decision":"PROMPT_DECISION_ONCE","mesage":"x"}"#,
            None,
        );
        check("once", None);
    }

    #[test]
    fn a_prompt_answered_elsewhere_is_taken_away() {
        let terminal = Terminal::new(false, Colour::Never, 0);
        let mut approver = Approver::new(terminal, Replies::Lines(None), "ann".to_owned());
        for id in ["a", "b", "c"] {
            let added = PromptAdded {
                prompt: prompt(id, PromptState::Open),
            };
            approver.receive(0, message(Message::PromptAdded(added))).unwrap();
        }
        approver.asking = Some(Box::pin(std::future::pending()));
        let resolve = |id| {
            message(Message::PromptResolved(PromptResolved {
                prompt: prompt(id, PromptState::Resolved),
            }))
        };
        approver.receive(0, resolve("b")).unwrap();
        assert!(approver.asking.is_some(), "another prompt is still asked");
        approver.receive(0, resolve("a")).unwrap();
        assert!(approver.asking.is_none());
        let (_, reply) = approver.decided(&Decision::Once).unwrap();
        assert_eq!((reply.prompt_id.as_str(), approver.open.len()), ("c", 0));
    }

    #[test]
    fn a_reply_is_outstanding_until_its_result() {
        let terminal = Terminal::new(false, Colour::Never, 0);
        let mut approver = Approver::new(terminal, Replies::Lines(None), "ann".to_owned());
        let reply = PromptReply {
            reply_id: "r".into(),
            ..PromptReply::default()
        };
        approver.unanswered.insert("r".into(), (0, reply));
        let result = PromptReplyResult {
            reply_id: "r".into(),
            ..PromptReplyResult::default()
        };
        approver.receive(0, message(Message::ReplyResult(result))).unwrap();
        assert!(approver.unanswered.is_empty());
    }
}
