//! `toolgate approve`: a person, or a program with `--json`, answers the prompts of a running server.
//!
//! *Invariant:* nothing lives in the connection: when it breaks, the channel is opened again and its snapshot replaces
//! what was known. A prompt is asked once at a time, and a question that somebody else has answered is taken away.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::pin::Pin;

use clap::Args;
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines, Stdin};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use super::Globals;
use super::call::user_name;
use super::client::Client;
use super::exit::{Exit, Failure, is_lost_connection};
use super::follow::backoff;
use super::interrupts::Interrupts;
use super::json::{self, ToJson as _};
use super::keyboard::Keyboard;
use super::prompt::{self, Answer};
use super::scope::{self, RawScope};
use super::terminal::{Look, Terminal};
use crate::grpc::proto::channel_request::Message as Request;
use crate::grpc::proto::channel_response::Message;
use crate::grpc::proto::{
    ChannelOpen, ChannelRequest, ChannelResponse, Prompt, PromptDecision, PromptFilter, PromptReply, PromptReplyResult,
    PromptState, QuestionAnswer, ReplyResult,
};

/// Replies that may wait for the network; one person does not type faster, and a program is held back.
const REPLIES: usize = 16;

/// Which prompts to answer, and in whose name.
#[derive(Debug, Args)]
#[command(after_help = "\
With --json, each message of the channel is one line of standard output, and standard input has one reply per line:
  {\"prompt_id\": \"per_…\", \"decision\": \"once|always|reject\", \"message\": \"for the model\"}
  {\"prompt_id\": \"per_…\", \"decision\": \"always\", \"scope\": {\"reach\": \"run|session|workspace\",
   \"expire_time\": \"2030-01-31T12:00:00Z\", \"max_uses\": 3}, \"always_patterns\": [\"only this one\"]}
  {\"prompt_id\": \"per_…\", \"decision\": \"instead\", \"input\": {\"command\": \"ls\", \"description\": \"…\"}}
  {\"prompt_id\": \"per_…\", \"decision\": \"answer\", \"answers\": [[\"one label\"], [\"another\", \"own words\"]]}
At the end of standard input the program waits for the results of its replies and ends.")]
pub(super) struct ApproveArgs {
    /// Only prompts of this workspace.
    #[arg(long, value_name = "NAME|DIR")]
    workspace: Option<String>,
    /// Only prompts of this session. May be given more than once.
    #[arg(long)]
    session: Vec<String>,
    /// The name that decisions are recorded under; your user name if none is given.
    #[arg(long, env = "TOOLGATE_NAME", hide_env_values = true)]
    name: Option<String>,
}

impl ApproveArgs {
    pub(super) async fn run(self, globals: &Globals, terminal: &Terminal) -> Result<Exit, Failure> {
        let mut interrupts = Interrupts::listen()?;
        let replies = Replies::open(terminal)?;
        let client = Client::connect(globals).await?;
        let filter = PromptFilter {
            workspace: client.workspace(self.workspace.as_deref()).await?,
            session_ids: self.session,
        };
        let open = ChannelOpen {
            name: self.name.unwrap_or_else(user_name),
            filter: Some(filter),
        };
        let mut approver = Approver::new(terminal.clone(), replies, open.name.clone());
        let mut attempt = 0;
        loop {
            let lost = match Channel::open(&client, &open).await {
                Ok(channel) => match approver.serve(channel, &mut interrupts, &mut attempt).await? {
                    Left::Done(exit) => return Ok(exit),
                    Left::Lost(status) => status,
                },
                Err(status) => status,
            };
            if !is_lost_connection(&lost) {
                return Err(lost.into());
            }
            attempt += 1;
            approver.is_back = true;
            if attempt == 1 {
                terminal.note("lost the connection; trying to open it again");
            }
            tokio::select! {
                () = tokio::time::sleep(backoff(attempt)) => {}
                () = interrupts.next() => return Ok(Exit::Interrupted),
            }
        }
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
        let missing =
            || Failure::Usage("there is no terminal to ask in; with --json, replies are lines of JSON".to_owned());
        Keyboard::open().map(Self::Keyboard).ok_or_else(missing)
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

/// An open channel.
struct Channel {
    requests: mpsc::Sender<ChannelRequest>,
    responses: Streaming<ChannelResponse>,
}

impl Channel {
    async fn open(client: &Client, open: &ChannelOpen) -> Result<Self, Status> {
        let (requests, receiver) = mpsc::channel(REPLIES);
        let first = ChannelRequest {
            message: Some(Request::Open(open.clone())),
        };
        requests
            .send(first)
            .await
            .map_err(|_| Status::internal("the channel is closed"))?;
        let responses = client
            .permissions()
            .channel(ReceiverStream::new(receiver))
            .await?
            .into_inner();
        Ok(Self { requests, responses })
    }

    async fn reply(&self, reply: PromptReply) -> Result<(), Status> {
        let request = ChannelRequest {
            message: Some(Request::Reply(reply)),
        };
        self.requests
            .send(request)
            .await
            .map_err(|_| Status::unavailable("the channel is closed"))
    }
}

/// How a connection came to its end.
enum Left {
    Done(Exit),
    Lost(Status),
}

type Asking = Pin<Box<dyn Future<Output = std::io::Result<Answer>> + Send>>;

/// The prompts that are open, and the one that is asked.
struct Approver {
    terminal: Terminal,
    replies: Replies,
    name: String,
    /// Open prompts in the order of their arrival, the one that is asked first.
    open: VecDeque<Prompt>,
    asking: Option<Asking>,
    /// Replies whose results are still to come, by their ids.
    unanswered: HashMap<String, PromptReply>,
    /// Whether a connection was lost before this one.
    is_back: bool,
    at_end: bool,
}

enum Step {
    Message(Result<Option<Box<ChannelResponse>>, Status>),
    Answer(std::io::Result<Answer>),
    Line(Option<String>),
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
            is_back: false,
            at_end: false,
        }
    }

    /// Works on one connection until it breaks or the approver leaves.
    async fn serve(
        &mut self,
        mut channel: Channel,
        interrupts: &mut Interrupts,
        attempt: &mut u32,
    ) -> Result<Left, Failure> {
        self.open.clear();
        self.asking = None;
        // A reply is recognised by its id, so sending it again after a break decides nothing twice.
        for reply in self.unanswered.values() {
            if let Err(status) = channel.reply(reply.clone()).await {
                return Ok(Left::Lost(status));
            }
        }
        loop {
            if self.at_end && self.unanswered.is_empty() {
                return Ok(Left::Done(Exit::Completed));
            }
            let step = tokio::select! {
                message = channel.responses.message() => Step::Message(message.map(|message| message.map(Box::new))),
                answer = answer(&mut self.asking) => Step::Answer(answer),
                line = self.replies.line() => Step::Line(line),
                () = interrupts.next() => Step::Interrupt,
            };
            let reply = match step {
                Step::Message(Ok(Some(message))) => {
                    *attempt = 0;
                    self.receive(*message)?;
                    None
                }
                Step::Message(Ok(None)) => return Ok(Left::Lost(Status::unavailable("the server closed the channel"))),
                Step::Message(Err(status)) => return Ok(Left::Lost(status)),
                Step::Answer(answer) => Some(self.decided(&answer.map_err(Failure::Terminal)?)),
                Step::Line(Some(line)) => self.read(&line),
                Step::Line(None) => {
                    self.at_end = true;
                    None
                }
                Step::Interrupt => return Ok(Left::Done(Exit::Interrupted)),
            };
            if let Some(reply) = reply {
                self.unanswered.insert(reply.reply_id.clone(), reply.clone());
                if let Err(status) = channel.reply(reply).await {
                    return Ok(Left::Lost(status));
                }
            }
            self.ask_next();
        }
    }

    fn receive(&mut self, message: ChannelResponse) -> Result<(), Failure> {
        if self.terminal.json {
            if !matches!(message.message, Some(Message::Heartbeat(_))) {
                self.terminal.record(&message.to_json())?;
            }
            if let Some(Message::ReplyResult(result)) = &message.message {
                self.unanswered.remove(&result.reply_id);
            }
            return Ok(());
        }
        match message.message {
            Some(Message::PromptAdded(added)) => self.add(added.prompt),
            Some(Message::Opened(_)) => {
                let again = if self.is_back { " again" } else { "" };
                self.terminal.note(&format!("connected{again} as {}", self.name));
            }
            Some(Message::SnapshotEnd(end)) if end.prompts == 0 => {
                self.terminal.note("nothing waits; prompts appear as they come");
            }
            Some(Message::PromptResolved(resolved)) => {
                resolved.prompt.iter().for_each(|prompt| self.resolved(prompt));
            }
            Some(Message::PromptUpdated(updated)) => {
                updated.prompt.into_iter().for_each(|prompt| self.updated(prompt));
            }
            Some(Message::ReplyResult(result)) => self.replied(&result),
            Some(Message::SnapshotEnd(_) | Message::Heartbeat(_)) | None => {}
        }
        Ok(())
    }

    /// Queues a prompt, unless it is queued or a reply to it is on its way.
    fn add(&mut self, prompt: Option<Prompt>) {
        let Some(prompt) = prompt else { return };
        let id = &prompt.prompt_id;
        let replied = self.unanswered.values().any(|reply| reply.prompt_id == *id);
        if replied || self.open.iter().any(|open| open.prompt_id == *id) {
            return;
        }
        if self.asking.is_some() {
            self.dim(&format!("  waits behind this one: {}", prompt::subject(&prompt)));
        }
        self.open.push_back(prompt);
    }

    /// Takes a prompt as it is now, and says who has approved it so far.
    fn updated(&mut self, prompt: Prompt) {
        let by: Vec<&str> = prompt.approvals.iter().map(|one| one.approved_by.as_str()).collect();
        let by = super::terminal::visible(&by.join(", ")).into_owned();
        self.dim(&format!(
            "{}: approved by {by}; it takes one more",
            prompt::subject(&prompt)
        ));
        if let Some(open) = self.open.iter_mut().find(|open| open.prompt_id == prompt.prompt_id) {
            *open = prompt;
        }
    }

    /// Takes a prompt away that has ended, and says how if it was not by this approver's reply.
    fn resolved(&mut self, prompt: &Prompt) {
        let Some(position) = self.open.iter().position(|open| open.prompt_id == prompt.prompt_id) else {
            return;
        };
        if position == 0 {
            self.asking = None;
        }
        self.open.remove(position);
        let outcome = prompt::outcome(prompt.state, prompt.resolution.as_ref());
        self.dim(&format!("no longer asked: {} ({outcome})", prompt::subject(prompt)));
    }

    fn dim(&self, text: &str) {
        self.terminal.note(&self.terminal.err.text(Look::Dim, text));
    }

    fn replied(&mut self, result: &PromptReplyResult) {
        self.unanswered.remove(&result.reply_id);
        match ReplyResult::try_from(result.result) {
            Ok(ReplyResult::Accepted) => return,
            Ok(ReplyResult::SecondApprovalNeeded) => {
                let text = format!("the reply to {} is recorded: {}", result.prompt_id, result.message);
                return self.terminal.note(&text);
            }
            Ok(_) | Err(_) => {}
        }
        let word = json::reply_result(result.result).replace('_', " ");
        let stands = result
            .prompt
            .as_ref()
            .map(|prompt| prompt::outcome(prompt.state, prompt.resolution.as_ref()));
        let stands = stands.map(|outcome| format!(" ({outcome})")).unwrap_or_default();
        self.terminal.note(&format!(
            "the reply to {} did not count: {word}{stands} {}",
            result.prompt_id, result.message
        ));
        self.add(
            result
                .prompt
                .clone()
                // One that this approver may not answer would be asked for ever.
                .filter(|prompt| prompt.state() == PromptState::Open && result.result() != ReplyResult::NotAllowed),
        );
    }

    /// Returns the reply to the prompt that was asked.
    fn decided(&mut self, answer: &Answer) -> PromptReply {
        self.asking = None;
        let prompt = self.open.pop_front().unwrap_or_default();
        let mut word = json::prompt_decision(answer.decision.into());
        if let Some(scope) = &answer.scope {
            word += &format!(" ({})", scope::words(scope));
        }
        self.terminal.note(&format!("  {word}"));
        answer.reply_to(&prompt)
    }

    /// Asks the first prompt, unless one is being asked.
    fn ask_next(&mut self) {
        let (None, Replies::Keyboard(keyboard), Some(prompt)) = (&self.asking, &self.replies, self.open.front()) else {
            return;
        };
        let others = self.open.len() - 1;
        let more = if others > 0 {
            format!(" ({others} more wait)")
        } else {
            String::new()
        };
        self.terminal
            .note(&format!("\n{}{more}", prompt::render(prompt, self.terminal.err)));
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

async fn answer(asking: &mut Option<Asking>) -> std::io::Result<Answer> {
    match asking {
        Some(asking) => asking.await,
        None => std::future::pending().await,
    }
}

/// A reply as a program writes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawReply {
    prompt_id: String,
    decision: RawDecision,
    #[serde(default)]
    message: String,
    #[serde(default)]
    reply_id: Option<String>,
    #[serde(default)]
    input_digest: String,
    #[serde(default)]
    answers: Vec<Vec<String>>,
    #[serde(default)]
    scope: Option<RawScope>,
    #[serde(default)]
    always_patterns: Vec<String>,
    #[serde(default)]
    input: Option<serde_json::Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum RawDecision {
    Once,
    Always,
    Reject,
    Answer,
    Instead,
}

fn parse_reply(line: &str) -> Result<PromptReply, String> {
    let reply: RawReply = serde_json::from_str(line).map_err(|error| format!("this line is no reply: {error}"))?;
    let decision = match reply.decision {
        RawDecision::Once => PromptDecision::Once,
        RawDecision::Always => PromptDecision::Always,
        RawDecision::Reject => PromptDecision::Reject,
        RawDecision::Answer => PromptDecision::Answer,
        RawDecision::Instead => PromptDecision::Instead,
    };
    Ok(PromptReply {
        prompt_id: reply.prompt_id,
        reply_id: reply.reply_id.unwrap_or_else(|| uuid::Uuid::now_v7().to_string()),
        decision: decision.into(),
        message: reply.message,
        input_digest: reply.input_digest,
        answers: reply
            .answers
            .into_iter()
            .map(|values| QuestionAnswer { values })
            .collect(),
        scope: reply.scope.map(RawScope::parse).transpose()?,
        always_patterns: reply.always_patterns,
        input_json: reply.input.map(|input| input.to_string()).unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::terminal::Colour;
    use crate::grpc::proto::{PromptAdded, PromptResolved};

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
            r#"{"prompt_id":"p","decision":"once"}"#,
            Some(("p", PromptDecision::Once, "")),
        );
        check(
            r#"{"prompt_id":"p","decision":"reject","message":"no"}"#,
            Some(("p", PromptDecision::Reject, "no")),
        );
        check(
            r#"{"prompt_id":"p","decision":"always","input_digest":"d"}"#,
            Some(("p", PromptDecision::Always, "")),
        );
        check(r#"{"prompt_id":"p","decision":"yes"}"#, None);
        check(r#"{"prompt_id":"p","decision":"once","mesage":"x"}"#, None);
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
            approver.receive(message(Message::PromptAdded(added))).unwrap();
        }
        approver.asking = Some(Box::pin(std::future::pending()));
        let resolve = |id| {
            message(Message::PromptResolved(PromptResolved {
                prompt: prompt(id, PromptState::Resolved),
            }))
        };
        approver.receive(resolve("b")).unwrap();
        assert!(approver.asking.is_some(), "another prompt is still asked");
        approver.receive(resolve("a")).unwrap();
        assert!(approver.asking.is_none());
        let reply = approver.decided(&Answer::plain(PromptDecision::Once));
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
        approver.unanswered.insert("r".into(), reply);
        let result = PromptReplyResult {
            reply_id: "r".into(),
            ..PromptReplyResult::default()
        };
        approver.receive(message(Message::ReplyResult(result))).unwrap();
        assert!(approver.unanswered.is_empty());
    }
}
