//! Who answers what calls ask: the options that say it, and answers beside an RPC that makes a call.
//!
//! *Invariant:* a prompt that nobody can answer here is refused, not left open, unless it is left to others.

use std::future::Future;
use std::pin::pin;

use clap::Args;
use tokio::sync::{mpsc, oneshot};
use tonic::Code;
use toolgate_client::{BoxError, CallRequest, Client, Decision, Error, Prompt};
use toolgate_contract::{PromptReplyResult, ReplyResult};

use super::exit::Failure;
use super::keyboard::Keyboard;
use super::prompt;
use super::terminal::{Look, Terminal, visible};
use super::user::user_name;
use super::words;

/// Who answers the prompts of the call.
#[derive(Clone, Debug, Args)]
pub(super) struct PromptArgs {
    /// Answer every prompt with "allow once".
    #[arg(long, short, group = "prompts")]
    yes: bool,
    /// Answer every prompt with a refusal.
    #[arg(long, short, group = "prompts")]
    no: bool,
    /// Ask in the terminal; without a terminal, refuse. This is the default.
    #[arg(long, group = "prompts")]
    ask: bool,
    /// Leave prompts to approvers elsewhere (`toolgate approve`).
    #[arg(long, group = "prompts")]
    wait: bool,
}

impl PromptArgs {
    /// Returns whether the prompts are left to others.
    pub(super) fn leaves(&self) -> bool {
        self.wait
    }

    /// Returns who answers.
    pub(super) fn prompts(&self, terminal: &Terminal) -> Prompts {
        match (self.yes, self.no, self.wait) {
            (true, _, _) => Prompts::Allow,
            (_, true, _) => Prompts::Refuse("because of --no"),
            (_, _, true) => Prompts::Leave,
            (false, false, false) => match Keyboard::open().filter(|_| terminal.shows_notes) {
                Some(keyboard) => Prompts::Ask(keyboard),
                None => Prompts::Refuse(
                    "because there is no terminal to ask on; --yes allows, --wait leaves it to another approver",
                ),
            },
        }
    }
}

/// Who answers the prompts of a call.
pub(super) enum Prompts {
    /// Each is allowed once.
    Allow,
    /// Each is refused, for this reason.
    Refuse(&'static str),
    /// The person at this keyboard.
    Ask(Keyboard),
    /// Approvers elsewhere.
    Leave,
}

impl PromptArgs {
    /// Does what a request says, and answers what its call asks meanwhile.
    pub(super) async fn run<R, T, F>(
        &self,
        (client, terminal): (&Client, &Terminal),
        request: CallRequest<R>,
        run: impl FnOnce(CallRequest<R>) -> F,
    ) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let prompts = self.prompts(terminal);
        if matches!(prompts, Prompts::Leave) {
            return Ok(run(request.wait_for_approval(None)).await?);
        }
        let must_answer = !matches!(prompts, Prompts::Ask(_));
        let (ready, is_ready) = oneshot::channel();
        let mut ready = Some(ready);
        let (not_allowed, mut refusals) = mpsc::channel(1);
        let notes = terminal.clone();
        let approver = client.approver(user_name()).on_ready(move || {
            // Later ones are of other connections, which nobody waits for.
            let _ = ready.take().map(|ready| ready.send(()));
        });
        let approver = approver.on_reply(move |reply| {
            if must_answer && reply.result() == ReplyResult::NotAllowed {
                // One is enough to end it.
                let _ = not_allowed.try_send(reply.message.clone());
            } else {
                tell(reply, &notes);
            }
        });
        let prompts = &prompts;
        let mut answering = pin!(approver.run(|prompt, problem| answer(prompt, problem, prompts, terminal)));
        tokio::select! {
            // Whoever may not answer can still do what nobody is asked about.
            error = &mut answering => {
                if error.code() == Code::PermissionDenied {
                    return Ok(run(request).await?);
                }
                return Err(error.into());
            }
            _ = is_ready => {}
        }
        tokio::select! {
            done = run(request) => Ok(done?),
            error = answering => Err(error.into()),
            Some(message) = refusals.recv() => Err(Failure::MayNotReply(message)),
        }
    }
}

/// Shows a prompt and returns what is decided.
async fn answer(
    shown: Prompt,
    problem: Option<String>,
    prompts: &Prompts,
    terminal: &Terminal,
) -> Result<Decision, BoxError> {
    terminal.inform(&match prompts {
        Prompts::Ask(_) => prompt::render(shown.message(), terminal.err),
        Prompts::Allow | Prompts::Refuse(_) | Prompts::Leave => prompt::brief(shown.message(), terminal.err),
    });
    if let Some(problem) = problem {
        terminal.inform(&format!("  the reply was not accepted: {}", visible(&problem)));
    }
    Ok(match (prompts, &shown) {
        (Prompts::Ask(keyboard), _) => {
            let asked = prompt::ask(shown.message().clone(), keyboard.clone(), terminal.clone());
            asked.await.unwrap_or_else(|error| {
                terminal.inform(&format!("  refused, because the terminal cannot be read: {error}"));
                Decision::reject("")
            })
        }
        (Prompts::Allow, Prompt::Permission(_)) => {
            terminal.inform("  allowed once, because of --yes");
            Decision::Once
        }
        (Prompts::Allow, Prompt::Question(_)) => {
            terminal.inform("  dismissed, because --yes does not answer questions");
            Decision::reject("")
        }
        (Prompts::Refuse(why), _) => {
            terminal.inform(&terminal.err.text(Look::Red, &format!("  refused, {why}")));
            Decision::reject("")
        }
        (Prompts::Leave, _) => Decision::Leave,
    })
}

/// Says why a reply was not accepted.
fn tell(reply: &PromptReplyResult, terminal: &Terminal) {
    if reply.result() != ReplyResult::Accepted {
        let why = words::reply_result(reply.result);
        let message = visible(&reply.message);
        terminal.inform(&format!("  the reply was not accepted: {why}: {message}"));
    }
}
