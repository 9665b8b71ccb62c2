//! A person at a terminal, line by line: one prompt after the other, each asked below the one before.
//!
//! *Invariant:* a prompt is asked once at a time, and a question that somebody else has answered is taken away.

use std::future::Future;
use std::io;
use std::pin::Pin;

use toolgate_client::Decision;
use toolgate_contract::{Prompt, PromptReply, PromptReplyResult, PromptState, ReplyResult};

use super::desk::{Desk, Told};
use super::sources::{LOOK_EVERY, News, Sources};
use crate::cli::call::pending_if_none;
use crate::cli::exit::{Exit, Failure};
use crate::cli::interrupts::Interrupts;
use crate::cli::keyboard::Keyboard;
use crate::cli::prompt;
use crate::cli::scope;
use crate::cli::terminal::{Look, Terminal, visible};
use crate::cli::words;

type Answer = Pin<Box<dyn Future<Output = io::Result<Decision>> + Send>>;

/// The prompt that is asked.
struct Asking {
    id: String,
    answer: Answer,
}

/// The lines of the terminal, and what is asked on them.
struct Plain {
    terminal: Terminal,
    keyboard: Keyboard,
    name: String,
    asking: Option<Asking>,
}

enum Step {
    News(usize, News),
    Answer(io::Result<Decision>),
    Look,
    Interrupt,
}

/// Answers until the person leaves, or no service is left that takes replies.
pub(super) async fn serve(
    terminal: &Terminal,
    keyboard: Keyboard,
    name: String,
    mut sources: Sources,
    mut interrupts: Interrupts,
) -> Result<Exit, Failure> {
    let mut desk = Desk::default();
    let mut plain = Plain {
        terminal: terminal.clone(),
        keyboard,
        name,
        asking: None,
    };
    let mut look = tokio::time::interval(LOOK_EVERY);
    loop {
        let mut answer = plain.asking.as_mut().map(|asking| &mut asking.answer);
        let step = tokio::select! {
            Some((index, news)) = sources.next() => Step::News(index, news),
            answer = pending_if_none(&mut answer) => Step::Answer(answer),
            _ = look.tick() => Step::Look,
            () = interrupts.next() => Step::Interrupt,
        };
        match step {
            Step::News(index, news) => {
                for told in desk.hear(&mut sources, index, news).await? {
                    plain.tell(&told);
                }
            }
            Step::Answer(answer) => {
                let decision = answer.map_err(Failure::Terminal)?;
                let asked = plain.asking.take();
                if let Some(reply) = asked.and_then(|asked| desk.decide(&asked.id, &decision)) {
                    terminal.inform(&format!("  {}", said(&reply)));
                    desk.send(&sources, reply).await;
                }
            }
            Step::Look => {
                sources.look();
                desk.give_up(&sources);
            }
            Step::Interrupt => return Ok(Exit::Interrupted),
        }
        plain.ask_first(&desk);
    }
}

impl Plain {
    fn tell(&self, told: &Told) {
        match told {
            Told::Connected { url, again } => {
                let again = if *again { " again" } else { "" };
                let to = url.as_ref().map(|url| format!(" to {url}")).unwrap_or_default();
                self.terminal.inform(&format!("connected{again} as {}{to}", self.name));
            }
            Told::Lost => self.terminal.inform("lost the connection; reconnecting"),
            Told::Refused { url, why } => self.terminal.inform(&format!("{url}: {why}")),
            Told::NothingOpen => self.terminal.inform("no open prompts; new ones appear here"),
            Told::Added(prompt) if self.asking.is_some() => {
                self.dim(&format!("  queued after this one: {}", prompt::subject(prompt)));
            }
            Told::Added(_) => {}
            Told::Rules(Some(broken)) => self.terminal.warning(broken),
            Told::Rules(None) => self.terminal.inform("the rules are those of the files again"),
            Told::Changed(prompt) => {
                let by: Vec<&str> = prompt.approvals.iter().map(|one| one.approved_by.as_str()).collect();
                let by = visible(&by.join(", ")).into_owned();
                self.dim(&format!(
                    "{}: approved by {by}; one more approval is needed",
                    prompt::subject(prompt)
                ));
            }
            Told::Ended { prompt, was_open: true } => self.dim(&ended(prompt)),
            // The person's own reply was told when it was given.
            Told::Ended { was_open: false, .. } => {}
            Told::Replied(result) => {
                if let Some(text) = replied(result) {
                    self.terminal.inform(&text);
                }
            }
        }
    }

    /// Asks the first prompt, unless it is being asked.
    fn ask_first(&mut self, desk: &Desk) {
        let first = desk.open().front();
        let asked = self.asking.as_ref().map(|asking| &asking.id);
        if asked == first.map(|prompt| &prompt.prompt_id) {
            return;
        }
        self.asking = None;
        let Some(first) = first else { return };
        let others = desk.open().len() - 1;
        let more = if others > 0 {
            format!(" ({others} more wait)")
        } else {
            String::new()
        };
        self.terminal
            .inform(&format!("\n{}{more}", prompt::render(first, self.terminal.err)));
        let asked = Prompt::clone(first);
        self.asking = Some(Asking {
            id: first.prompt_id.clone(),
            answer: Box::pin(prompt::ask(asked, self.keyboard.clone(), self.terminal.clone())),
        });
    }

    fn dim(&self, text: &str) {
        self.terminal.inform(&self.terminal.err.text(Look::Dim, text));
    }
}

/// Says what a reply decides.
pub(super) fn said(reply: &PromptReply) -> String {
    let mut word = prompt::decided(reply.decision());
    if let Some(scope) = &reply.scope {
        word += &format!(", {}", scope::describe(scope));
    }
    word
}

/// Says how a prompt ended that this approver did not answer.
pub(super) fn ended(prompt: &Prompt) -> String {
    let outcome = prompt::outcome(prompt.state, prompt.resolution.as_ref());
    let what = if prompt.state() == PromptState::Resolved {
        "answered elsewhere"
    } else {
        "no longer open"
    };
    format!("{what}: {} – {outcome}", prompt::subject(prompt))
}

/// Says what became of a reply, unless it decided.
pub(super) fn replied(result: &PromptReplyResult) -> Option<String> {
    match ReplyResult::try_from(result.result) {
        Ok(ReplyResult::Accepted) => return None,
        Ok(ReplyResult::SecondApprovalNeeded) => {
            let text = format!("the reply to {} is recorded: {}", result.prompt_id, result.message);
            return Some(visible(&text).into_owned());
        }
        Ok(_) | Err(_) => {}
    }
    let word = words::reply_result(result.result);
    let stands = result
        .prompt
        .as_ref()
        .map(|prompt| prompt::outcome(prompt.state, prompt.resolution.as_ref()));
    let stands = stands.map(|outcome| format!(" ({outcome})")).unwrap_or_default();
    let text = format!(
        "the reply to {} was not accepted: {word}{stands} {}",
        result.prompt_id, result.message
    );
    Some(visible(text.trim_end()).into_owned())
}
