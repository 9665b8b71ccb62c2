//! An approver that is a program: messages of the services as lines of JSON, and its replies as such.
//!
//! *Invariant:* what services of one data directory both tell of a prompt is told once. A reply about a prompt that no service has
//! told of waits until all of them have told what is open: one of them may have it.

use tokio::io::{AsyncBufReadExt as _, BufReader, Lines, Stdin};

use toolgate_contract::channel_response::Message;
use toolgate_contract::json::from_json;
use toolgate_contract::{ChannelResponse, PromptDecision, PromptReply, PromptReplyResult, ReplyResult};

use super::desk::{Desk, Told, is_worth_telling};
use super::sources::{LOOK_EVERY, News, Sources};
use crate::cli::exit::{Exit, Failure};
use crate::cli::interrupts::Interrupts;
use crate::cli::terminal::Terminal;

enum Step {
    News(usize, News),
    Line(Option<String>),
    Look,
    Interrupt,
}

/// What went wrong with lines of the input, for the exit code.
#[derive(Default)]
struct Wrong {
    /// One was no reply.
    has_garbage: bool,
    /// A reply decided nothing.
    has_refused: bool,
}

/// Answers until the input has ended and the results of its replies have come, or no service is left that takes replies.
pub(super) async fn serve(
    terminal: &Terminal,
    mut sources: Sources,
    mut interrupts: Interrupts,
) -> Result<Exit, Failure> {
    let mut desk = Desk::default();
    let mut wrong = Wrong::default();
    let mut held: Vec<PromptReply> = Vec::new();
    let mut lines = Some(BufReader::new(tokio::io::stdin()).lines());
    let mut look = tokio::time::interval(LOOK_EVERY);
    loop {
        for reply in ready(&mut held, &desk, &sources) {
            desk.send(&sources, reply).await;
        }
        // Whoever is not let in is told so, and what is open is listed, however short the input is.
        let is_heard = sources.list.iter().all(|source| source.is_heard || source.is_over());
        if lines.is_none() && held.is_empty() && !desk.expects_results() && is_heard {
            return Ok(wrong.exit(&desk));
        }
        let step = tokio::select! {
            Some((index, news)) = sources.next() => Step::News(index, news),
            line = next_line(&mut lines) => Step::Line(line),
            _ = look.tick() => Step::Look,
            () = interrupts.next() => Step::Interrupt,
        };
        match step {
            Step::News(index, News::Message(message)) => {
                if let Some(Message::SnapshotEnd(_)) = &message.message {
                    sources.list[index].has_told();
                }
                if let Some(Message::ReplyResult(result)) = &message.message {
                    wrong.has_refused |= !is_taken(result);
                }
                tell(terminal, &mut desk, index, &message)?;
            }
            Step::News(index, news) => {
                for told in desk.hear(&mut sources, index, news).await? {
                    match told {
                        Told::Lost => terminal.inform("lost the connection; reconnecting"),
                        Told::Refused { url, why } => terminal.inform(&format!("{url}: {why}")),
                        Told::Connected { .. }
                        | Told::NothingOpen
                        | Told::Added(_)
                        | Told::Changed(_)
                        | Told::Ended { .. }
                        | Told::Replied(_)
                        | Told::Rules(_) => {}
                    }
                }
            }
            Step::Line(Some(line)) if line.trim().is_empty() => {}
            // A line that is no reply is reported and passed over.
            Step::Line(Some(line)) => match parse(&line) {
                Ok(reply) => held.push(reply),
                Err(error) => {
                    wrong.has_garbage = true;
                    terminal.error(&error);
                }
            },
            Step::Line(None) => lines = None,
            Step::Look => {
                sources.look();
                desk.give_up(&sources);
            }
            Step::Interrupt => return Ok(Exit::Interrupted),
        }
    }
}

impl Wrong {
    fn exit(&self, desk: &Desk) -> Exit {
        if self.has_garbage {
            Exit::Usage
        } else if self.has_refused || desk.has_lost_reply {
            Exit::Refused
        } else {
            Exit::Completed
        }
    }
}

/// Takes out the replies that a service can be sent now, in the order of their lines.
fn ready(held: &mut Vec<PromptReply>, desk: &Desk, sources: &Sources) -> Vec<PromptReply> {
    let all_told = !sources.have_more();
    held.extract_if(.., |reply| all_told || desk.knows(&reply.prompt_id))
        .collect()
}

/// Says whether a reply decided, or counts as one of the two approvals that are needed.
fn is_taken(result: &PromptReplyResult) -> bool {
    matches!(
        result.result(),
        ReplyResult::Accepted | ReplyResult::SecondApprovalNeeded
    )
}

/// Returns the next line of the input; `None` at its end, and then never again.
async fn next_line(lines: &mut Option<Lines<BufReader<Stdin>>>) -> Option<String> {
    match lines {
        Some(lines) => lines.next_line().await.ok().flatten(),
        None => std::future::pending().await,
    }
}

fn tell(terminal: &Terminal, desk: &mut Desk, index: usize, message: &ChannelResponse) -> Result<(), Failure> {
    let is_news = message
        .message
        .as_ref()
        .is_none_or(|message| desk.is_news(index, message));
    if is_news && is_worth_telling(message) {
        terminal.message(message)?;
    }
    if let Some(Message::ReplyResult(result)) = &message.message {
        desk.settled(result);
    }
    Ok(())
}

/// Reads a reply as a program writes it.
fn parse(line: &str) -> Result<PromptReply, String> {
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

    #[test]
    fn replies_are_lines_of_json() {
        fn check(line: &str, expected: Option<(&str, PromptDecision, &str)>) {
            let reply = parse(line).ok();
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
}
