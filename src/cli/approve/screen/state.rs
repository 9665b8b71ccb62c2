//! What the screen is about: the open prompts, the one in hand, and what the person is doing with it.
//!
//! *Invariant:* pure: time comes from outside, and nothing is read or written here. A prompt takes no key that decides before it was
//! drawn and then shown for a while, also if it took the place of another one or of another page; what was being typed about a
//! prompt that is gone decides nothing.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use toolgate_client::Decision;
use toolgate_contract::{PermissionRequest, Prompt, PromptResolution, QuestionRequest, ReplyResult, prompt};

use super::always::Always;
use super::content::{Content, Folds};
use super::field::Field;
use super::questions::Answers;
use crate::cli::approve::desk::Told;
use crate::cli::approve::plain;
use crate::cli::diff;
use crate::cli::exit::Exit;
use crate::cli::prompt as words;

/// How long a prompt is shown before it takes a key.
pub(super) const UNREAD: Duration = Duration::from_millis(300);

/// Decisions that are remembered.
const MOST_PAST: usize = 200;

/// A moment, on both clocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    pub(super) instant: Instant,
    pub(super) time: SystemTime,
}

impl Now {
    pub(super) fn read() -> Self {
        Self {
            instant: Instant::now(),
            time: SystemTime::now(),
        }
    }
}

/// What is to be done about a key.
#[derive(Debug, PartialEq)]
pub(super) enum Effect {
    /// A decision about the prompt with this id.
    Decide(String, Decision),
    /// The text is to be edited in the editor of the person. A command is one for a shell, else it is JSON.
    Editor {
        text: String,
        is_command: bool,
    },
    Leave(Exit),
    Suspend,
    Redraw,
}

/// What the person is doing.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    Deciding,
    Always(Always),
    /// What the model is told with a rejection.
    Message(Field),
    /// Another input, and what is wrong with it.
    Editing(Field, Option<String>),
    Answering(Answers),
    /// What was done about a prompt is void: it has ended meanwhile.
    Gone(String),
}

/// What is shown in the place of the prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Page {
    Prompt,
    History,
    Help,
}

/// How much a line that is told matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weight {
    Note,
    /// What became of a prompt that is over: of no interest any more when another one comes.
    Past,
    Problem,
}

/// A prompt that has ended.
#[derive(Debug)]
pub(super) struct Past {
    pub(super) when: SystemTime,
    pub(super) subject: String,
    pub(super) outcome: String,
}

/// How many services are asked for their prompts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Services {
    /// Those that there is a connection to.
    pub(super) connected: usize,
    /// Those that are not gone for good.
    pub(super) wanted: usize,
    /// Whether there was a connection to any.
    pub(super) was_connected: bool,
}

impl Services {
    /// Takes how many there are now.
    pub(super) fn set(&mut self, connected: usize, wanted: usize) {
        self.connected = connected;
        self.wanted = wanted;
        self.was_connected |= connected > 0;
    }

    /// Says it in few words; nothing if there is one, and it is connected.
    pub(super) fn words(self) -> Option<String> {
        match (self.connected, self.wanted) {
            (0, _) if self.was_connected => Some("reconnecting".to_owned()),
            (0, _) => Some("connecting".to_owned()),
            (1, 1) => None,
            (connected, wanted) if connected < wanted => Some(format!("{connected} of {wanted} services")),
            (connected, _) => Some(format!("{connected} services")),
        }
    }
}

/// Everything that is drawn.
pub(super) struct State {
    pub(super) name: String,
    pub(super) open: VecDeque<Arc<Prompt>>,
    /// How much the diffs of open prompts change, by the ids of the prompts.
    summaries: HashMap<String, String>,
    /// The id of the prompt in hand.
    hand: String,
    pub(super) step: Step,
    pub(super) page: Page,
    /// From when on keys decide.
    ready: Instant,
    /// Whether what is to be decided was drawn since it came into view.
    is_drawn: bool,
    pub(super) notice: Option<(Weight, String)>,
    /// Why the rules of a workspace are not those that its files have, as long as it is so.
    pub(super) alert: Option<String>,
    pub(super) history: VecDeque<Past>,
    pub(super) services: Services,
    pub(super) folds: Folds,
    /// The first row of the prompt, or of another page, that is shown.
    pub(super) top: usize,
    /// How many rows there were, and how many of them had room, when it was drawn.
    pub(super) drawn: (usize, usize),
    /// The rows of the prompt in hand at a width.
    pub(super) content: Option<(u16, Content)>,
}

impl State {
    pub(super) fn new(name: String, now: Now) -> Self {
        Self {
            name,
            open: VecDeque::new(),
            hand: String::new(),
            step: Step::Deciding,
            page: Page::Prompt,
            ready: now.instant,
            is_drawn: true,
            summaries: HashMap::new(),
            notice: None,
            alert: None,
            history: VecDeque::new(),
            services: Services::default(),
            folds: Folds::default(),
            top: 0,
            drawn: (0, 0),
            content: None,
        }
    }

    /// Returns the place of the prompt in hand among the open ones.
    pub(super) fn place(&self) -> Option<usize> {
        self.open.iter().position(|prompt| prompt.prompt_id == self.hand)
    }

    pub(super) fn prompt(&self) -> Option<&Arc<Prompt>> {
        self.open.get(self.place()?)
    }

    pub(super) fn permission(&self) -> Option<&PermissionRequest> {
        match &self.prompt()?.request {
            Some(prompt::Request::Permission(request)) => Some(request),
            Some(prompt::Request::Questions(_)) | None => None,
        }
    }

    pub(super) fn questions(&self) -> Option<&QuestionRequest> {
        match &self.prompt()?.request {
            Some(prompt::Request::Questions(request)) => Some(request),
            Some(prompt::Request::Permission(_)) | None => None,
        }
    }

    /// Returns how many other permission prompts of the session wait.
    pub(super) fn others_of_session(&self) -> usize {
        let Some(hand) = self.prompt() else { return 0 };
        let others = self.open.iter().filter(|other| {
            other.prompt_id != hand.prompt_id
                && other.session_id == hand.session_id
                && other.workspace == hand.workspace
                && matches!(other.request, Some(prompt::Request::Permission(_)))
        });
        others.count()
    }

    /// Says whether keys decide.
    pub(super) fn is_ready(&self, now: Now) -> bool {
        self.is_drawn && now.instant >= self.ready
    }

    /// Lets keys decide no earlier than a while from now.
    pub(super) fn wait(&mut self, now: Now, pause: Duration) {
        self.ready = self.ready.max(now.instant + pause);
    }

    /// Notes that something else comes into view: keys decide when it was drawn, and then shown for a while.
    pub(super) fn comes_up(&mut self, now: Now) {
        self.is_drawn = false;
        self.wait(now, UNREAD);
    }

    /// Notes that everything is drawn as it is now.
    pub(super) fn drawn_at(&mut self, now: Now) {
        if !self.is_drawn {
            self.is_drawn = true;
            self.wait(now, UNREAD);
        }
    }

    /// Returns when something changes by itself: keys begin to decide, or a second of what expires is over.
    pub(super) fn changes_in(&self, now: Now) -> Option<Duration> {
        let ready = (now.instant < self.ready).then(|| self.ready - now.instant);
        let ticks = self.page == Page::History || self.open.iter().any(|prompt| prompt.expire_time.is_some());
        let second = ticks.then_some(Duration::from_secs(1));
        ready.into_iter().chain(second).min()
    }

    pub(super) fn note(&mut self, text: impl Into<String>) {
        self.notice = Some((Weight::Note, text.into()));
    }

    /// Says what became of a prompt.
    pub(super) fn past(&mut self, text: impl Into<String>) {
        self.notice = Some((Weight::Past, text.into()));
    }

    pub(super) fn problem(&mut self, text: impl Into<String>) {
        self.notice = Some((Weight::Problem, text.into()));
    }

    /// Takes in what an approver is told.
    pub(super) fn tell(&mut self, told: &Told, now: Now) {
        match told {
            Told::Connected { url, again } => {
                let to = url.as_ref().map(|url| format!(" to {url}")).unwrap_or_default();
                let again = if *again { " again" } else { "" };
                self.note(format!("connected{again} as {}{to}", self.name));
            }
            Told::Lost => self.problem("lost the connection; reconnecting"),
            Told::Refused { url, why } => self.problem(format!("{url}: {why}")),
            Told::NothingOpen | Told::Added(_) => {}
            Told::Rules(broken) => self.alert.clone_from(broken),
            Told::Changed(prompt) => {
                let by: Vec<&str> = prompt.approvals.iter().map(|one| one.approved_by.as_str()).collect();
                let subject = words::subject(prompt);
                self.note(format!(
                    "{subject}: approved by {}; one more approval is needed",
                    by.join(", ")
                ));
            }
            Told::Ended { prompt, was_open } => {
                self.remember(prompt, now);
                if *was_open {
                    self.past(plain::ended(prompt));
                }
            }
            Told::Replied(result) => {
                let counts = result.result() == ReplyResult::SecondApprovalNeeded;
                match plain::replied(result) {
                    Some(text) if counts => self.note(text),
                    Some(text) => self.problem(text),
                    None => {}
                }
            }
        }
    }

    fn remember(&mut self, prompt: &Prompt, now: Now) {
        let resolved = prompt
            .resolution
            .as_ref()
            .and_then(|end: &PromptResolution| end.resolve_time);
        let when = resolved.and_then(|time| SystemTime::try_from(time).ok());
        self.history.push_front(Past {
            when: when.unwrap_or(now.time),
            subject: words::subject(prompt),
            outcome: words::outcome(prompt.state, prompt.resolution.as_ref()),
        });
        self.history.truncate(MOST_PAST);
    }

    /// Takes the open prompts as they are now. If the one in hand is gone, the one in its place is.
    pub(super) fn set_open(&mut self, open: &VecDeque<Arc<Prompt>>, now: Now) {
        let place = self.place();
        let before = self.prompt().cloned();
        // It says how many others of its session wait.
        if self.open.len() != open.len() {
            self.content = None;
        }
        let is_known = |prompt: &Arc<Prompt>| self.open.iter().any(|known| known.prompt_id == prompt.prompt_id);
        if matches!(self.notice, Some((Weight::Past, _))) && !open.iter().all(is_known) {
            self.notice = None;
        }
        self.open.clone_from(open);
        self.summarize();
        match (before, self.prompt().cloned()) {
            (Some(before), Some(after)) if Arc::ptr_eq(&before, &after) => {}
            (Some(_), Some(_)) => {
                self.content = None;
                self.comes_up(now);
            }
            (Some(gone), None) => {
                let has_begun = match &self.step {
                    Step::Deciding | Step::Gone(_) => false,
                    Step::Answering(answers) => match &gone.request {
                        Some(prompt::Request::Questions(request)) => *answers != Answers::of(request),
                        Some(prompt::Request::Permission(_)) | None => false,
                    },
                    Step::Always(_) | Step::Message(_) | Step::Editing(..) => true,
                };
                self.take(place.unwrap_or_default(), now);
                if has_begun {
                    let why = self.notice.take().map(|(_, text)| text);
                    self.step = Step::Gone(why.unwrap_or_else(|| "this prompt is no longer open".to_owned()));
                }
            }
            (None, _) if matches!(self.step, Step::Gone(_)) => self.take_only(0),
            (None, _) => self.take(0, now),
        }
    }

    /// Takes a prompt in hand: the one at a place, or else the last.
    pub(super) fn take(&mut self, place: usize, now: Now) {
        let was = std::mem::take(&mut self.hand);
        self.take_only(place);
        self.begin();
        if self.hand != was {
            self.comes_up(now);
        }
    }

    /// Counts the changes of diffs that are new.
    fn summarize(&mut self) {
        let open = &self.open;
        self.summaries
            .retain(|id, _| open.iter().any(|prompt| prompt.prompt_id == *id));
        for prompt in open {
            if !self.summaries.contains_key(&prompt.prompt_id) {
                let summary = diff::summary(prompt).unwrap_or_default();
                self.summaries.insert(prompt.prompt_id.clone(), summary);
            }
        }
    }

    /// Returns how much the diff of an open prompt changes; nothing if it has none.
    pub(super) fn summary(&self, prompt: &Prompt) -> &str {
        self.summaries.get(&prompt.prompt_id).map_or("", String::as_str)
    }

    fn take_only(&mut self, place: usize) {
        let prompt = self.open.get(place).or_else(|| self.open.back());
        self.hand = prompt.map(|prompt| prompt.prompt_id.clone()).unwrap_or_default();
        self.folds.clear();
        self.content = None;
        if self.page == Page::Prompt {
            self.top = 0;
        }
    }

    /// Begins with the prompt in hand anew.
    pub(super) fn begin(&mut self) {
        self.step = match self.questions() {
            Some(request) => Step::Answering(Answers::of(request)),
            None => Step::Deciding,
        };
        self.content = None;
    }

    /// Returns what the keys answer, if they answer questions.
    pub(super) fn answers(&self) -> Option<&Answers> {
        match &self.step {
            Step::Answering(answers) => Some(answers),
            Step::Deciding | Step::Always(_) | Step::Message(_) | Step::Editing(..) | Step::Gone(_) => None,
        }
    }

    /// Takes the text that came out of the editor, to be looked at once more before it runs.
    pub(super) fn edited(&mut self, result: std::io::Result<String>, now: Now) {
        self.comes_up(now);
        match (&mut self.step, result) {
            (Step::Editing(field, problem), Ok(text)) => {
                *field = Field::lines(text.trim_end_matches('\n'));
                *problem = None;
            }
            (Step::Editing(_, problem), Err(error)) => *problem = Some(format!("the editor: {error}")),
            // The prompt ended while the editor was open.
            (Step::Deciding | Step::Always(_) | Step::Message(_) | Step::Answering(_) | Step::Gone(_), _) => {}
        }
    }

    /// Shows another page, or the prompt again.
    pub(super) fn turn(&mut self, page: Page, now: Now) {
        self.page = page;
        self.top = 0;
        self.comes_up(now);
    }

    /// Moves what is shown by so many rows.
    pub(super) fn scroll(&mut self, rows: isize) {
        let (all, room) = self.drawn;
        self.top = self.top.saturating_add_signed(rows).min(all.saturating_sub(room));
    }
}
