//! The vocabulary of permission: what is asked, by which rule, what people reply, what a reply leaves behind.
//!
//! *Invariant:* plain data, like the rest of the vocabulary.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

use super::{CallId, GrantId, InstanceId, JsonMap, PromptId, SessionId, Timestamp};

impl PromptId {
    /// Makes a new id that sorts by time among those of its kind.
    pub fn generate(request: &PromptRequest) -> Self {
        let kind = match request {
            PromptRequest::Permission { .. } => "per",
            PromptRequest::Questions(_) => "que",
        };
        Self::new(format!("{kind}_{}", uuid::Uuid::now_v7().simple()))
    }
}

/// What a tool hands in when it must ask.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ask {
    /// The permission's name: `bash`, `edit`, `external_directory`, …
    pub permission: String,
    /// What the tool is about to touch. Every pattern must be allowed.
    pub patterns: Vec<String>,
    /// The patterns that an `always` reply would allow from now on.
    pub always: Vec<String>,
    /// A short line for the person.
    pub title: String,
    /// What the person should see, such as a diff.
    pub metadata: JsonMap,
    /// The parts of a compound request, such as the commands of a shell line, in their order. Each is judged by
    /// its own patterns on top of those above; one answer is for all of them.
    #[serde(default)]
    pub parts: Vec<AskPart>,
    /// Whether the call has already changed something when it asks. After a restart it is then not run again up to its
    /// question.
    #[serde(default)]
    pub late: bool,
    /// Whether rules and grants that allow it do not count: a person must. Rules that deny it do.
    #[serde(default)]
    pub only_people: bool,
    /// What the call asks after this one, as far as it is known by now: each permission with its patterns. If a rule denies
    /// one of them, nobody is asked for any. Empty on the last question before the call does what it is for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub then: Vec<Ask>,
}

/// How a request came to be allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consent {
    /// By rules, by grants of earlier replies, or by a hook: no person saw this call.
    Standing,
    /// By a person who was shown this very call.
    Person,
}

/// One part of a compound request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskPart {
    /// The source text.
    pub text: String,
    /// The words that the program gets, its name first; what only the shell can know stands as it is written.
    #[serde(default)]
    pub arguments: Vec<String>,
    /// What this part is judged as: its text first, its canonical form, the command inside a wrapper. A deny
    /// for one of them denies the request, and each must be allowed.
    #[serde(default)]
    pub patterns: Vec<String>,
    /// The same written in other ways, for rules that ask or deny by name. They are judged as the patterns are, except that
    /// a rule for everything does not hold one back whose text another rule allows.
    #[serde(default)]
    pub variants: Vec<String>,
    /// Those of the variants that mean the very same, so that a rule or a grant that names one allows the text.
    #[serde(default)]
    pub equivalents: Vec<String>,
    /// What of the request's `always` patterns comes from this part.
    #[serde(default)]
    pub always: Vec<String>,
    /// The paths that it touches, absolute where that is known.
    #[serde(default)]
    pub paths: Vec<String>,
    /// Why nobody can say what this part does, in a few words. Such a part is asked for wherever the rules allow less
    /// than everything, and no grant ever covers it.
    #[serde(default)]
    pub unclear: Option<String>,
    /// Why a rule or grant for everything does not allow this part where the rules hold back anything of what commands or
    /// edits may do: programs obey what it touches. It is asked for unless a rule or grant names it more closely.
    #[serde(default)]
    pub guarded: Option<String>,
    /// Whether rules are read from what it touches. Such a part is guarded as well where nothing is held back, as long as commands
    /// are confined.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub holds_rules: bool,
}

impl Ask {
    /// Makes a bare request: nothing to show, nothing to remember.
    pub fn new(permission: &str, patterns: Vec<String>) -> Self {
        Self {
            permission: permission.to_owned(),
            patterns,
            ..Self::default()
        }
    }
}

/// What rules and grants say about one part of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartVerdict {
    /// The verdict, grants included. A prompt never shows deny: a denied request is not asked for.
    pub action: Action,
    /// The rule that decided; none if no rule matched.
    #[serde(default)]
    pub rule: Option<Rule>,
    /// Whether the rules would ask, and a grant allows it.
    #[serde(default)]
    pub granted: bool,
}

/// One permission rule's verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// Goes on without a question.
    #[default]
    Allow,
    /// Asks a person.
    Ask,
    /// Refuses.
    Deny,
}

/// One permission rule; both sides are wildcards.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Rule {
    /// Matches permission names.
    pub permission: String,
    /// Matches what a tool touches.
    pub pattern: String,
    /// The verdict.
    pub action: Action,
}

/// A question to a person that a call waits on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prompt {
    /// The prompt's id.
    pub id: PromptId,
    /// The waiting call.
    pub call: CallId,
    /// The run of the service that waits.
    pub owner: InstanceId,
    /// The call's session.
    pub session: SessionId,
    /// The call's workspace.
    pub workspace: String,
    /// The folder in it where the call works, as its origin has it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub directory: String,
    /// The call's agent.
    pub agent: String,
    /// The call's tool.
    pub tool: String,
    /// Who made the call: the principal, or empty without authentication.
    #[serde(default)]
    pub requester: String,
    /// Who made the calls above that one, as far as they are others.
    #[serde(default)]
    pub on_behalf_of: Vec<String>,
    /// The clients that made the call and those above it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<String>,
    /// Approvals so far, where one is not enough.
    #[serde(default)]
    pub approvals: Vec<Approval>,
    /// When it was asked.
    pub created: Timestamp,
    /// When it ends by itself.
    #[serde(default)]
    pub expires: Option<Timestamp>,
    /// Whether and how it ended.
    pub state: PromptState,
    /// SHA-256 of the call's frozen input, hexadecimal.
    pub input_digest: String,
    /// The frozen input itself; there exactly if a reply may put another one in its place.
    #[serde(default)]
    pub input_json: Option<String>,
    /// The variables that the call sets for the programs that it starts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// What is asked.
    pub request: PromptRequest,
    /// What was decided; there exactly when the state is not open.
    #[serde(default)]
    pub decision: Option<Decision>,
}

impl Prompt {
    /// Returns how long it waits in all; for ever if none.
    pub fn patience(&self) -> Option<Duration> {
        self.expires.map(|expires| expires.since(self.created))
    }

    /// Returns what a permission prompt asks for, none for questions.
    pub fn ask(&self) -> Option<&Ask> {
        match &self.request {
            PromptRequest::Permission { ask, .. } => Some(ask),
            PromptRequest::Questions(_) => None,
        }
    }

    /// Says whether the call has perhaps changed something already when it asks. After a restart it is not run again up to
    /// its question then.
    pub fn is_late(&self) -> bool {
        match &self.request {
            PromptRequest::Permission { ask, .. } => ask.late,
            PromptRequest::Questions(questions) => questions.iter().any(|question| question.form.is_some()),
        }
    }

    /// Says whether a principal is among those in whose name the call is made.
    pub fn is_requested_by(&self, principal: &str) -> bool {
        self.requester == principal || self.on_behalf_of.iter().any(|id| id == principal)
    }

    /// Says whether this kind of reply answers this kind of prompt.
    pub fn takes(&self, reply: &Reply) -> bool {
        match (&self.request, reply) {
            (_, Reply::Reject { .. })
            | (PromptRequest::Permission { .. }, Reply::Once | Reply::Always(_))
            | (PromptRequest::Questions(_), Reply::Answers(_)) => true,
            (PromptRequest::Permission { .. }, Reply::Instead(_)) => self.input_json.is_some(),
            (PromptRequest::Permission { .. }, Reply::Answers(_))
            | (PromptRequest::Questions(_), Reply::Once | Reply::Always(_) | Reply::Instead(_)) => false,
        }
    }
}

/// One approval of a prompt that needs two.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    /// Who approved: [`super::Principal::id`].
    pub principal: String,
    /// How that one is called.
    pub by: String,
    /// What it would have granted, if it was `always`.
    #[serde(default)]
    pub always: Option<Always>,
    /// When.
    pub time: Timestamp,
    /// The client's id of the reply.
    #[serde(default)]
    pub reply_id: String,
}

/// What a prompt asks a person.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptRequest {
    /// Whether the call may do something.
    Permission {
        /// What.
        ask: Box<Ask>,
        /// The rule that made it a question; none if no rule matched.
        #[serde(default)]
        rule: Option<Rule>,
        /// The verdict on each part of what is asked, in their order.
        #[serde(default)]
        verdicts: Vec<PartVerdict>,
    },
    /// What the call wants to know.
    Questions(Vec<Question>),
}

/// One question to a person (`docs/spec/interactive-tools.md` §2).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// The whole question.
    pub question: String,
    /// A very short label.
    pub header: String,
    /// What may be chosen; possibly nothing, and then only an own answer is left.
    pub options: Vec<QuestionOption>,
    /// Whether several options may be chosen.
    #[serde(default)]
    pub multiple: bool,
    /// Whether an own answer makes sense beside the options. For the front end: answers are not held against it.
    pub custom: bool,
    /// The field of a form that it stands for, where a server of tools asks in the midst of a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub form: Option<Box<FormField>>,
}

/// A field of a form that a server of tools wants filled in. Whoever can show forms shows that; everybody else sees questions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FormField {
    /// Tells the forms of one prompt apart.
    pub key: String,
    /// What the server says of the form.
    pub message: String,
    /// The page that a person should visit. There is no field then, only whether it was visited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The field's name; empty where a form has no field and is only agreed to.
    #[serde(default)]
    pub name: String,
    /// The JSON Schema of the field.
    #[serde(default)]
    pub schema: Value,
    /// Whether the server needs it.
    #[serde(default)]
    pub required: bool,
}

/// One choice of a question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuestionOption {
    /// What is chosen, and what the answer says then.
    pub label: String,
    /// What it means.
    pub description: String,
}

/// Whether a prompt still waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptState {
    /// Waits for a reply.
    Open,
    /// Somebody replied.
    Resolved,
    /// Nobody replied in time.
    Expired,
    /// Its call is gone.
    Withdrawn,
}

impl PromptState {
    /// Every state.
    pub const ALL: [Self; 4] = [Self::Open, Self::Resolved, Self::Expired, Self::Withdrawn];

    /// Returns the stored word for the state.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Resolved => "resolved",
            Self::Expired => "expired",
            Self::Withdrawn => "withdrawn",
        }
    }
}

/// What a person may reply to a prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// This call only.
    Once,
    /// This call, and from now on what the prompt's `always` patterns match.
    Always(Always),
    /// This call, but with another input.
    Instead(InputEdit),
    /// To questions: for each, in their order, the chosen labels and own answers; missing or empty is unanswered.
    Answers(Vec<Vec<String>>),
    /// Not this call; the message, if any, is for the model.
    Reject {
        /// Feedback for the model; empty for none.
        message: String,
    },
}

/// An input that a person wrote in the place of a model's, frozen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputEdit {
    /// Canonical JSON.
    pub input_json: String,
    /// Its SHA-256, hexadecimal.
    pub input_digest: String,
    /// The title of a call with this input.
    #[serde(default)]
    pub title: String,
    /// What a call with this input touches, one line.
    #[serde(default)]
    pub summary: String,
}

/// What an `always` reply says beyond the word.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Always {
    /// How far the grants reach, and how long.
    #[serde(default)]
    pub scope: GrantScope,
    /// Which of the prompt's `always` patterns become grants; all of them if empty.
    #[serde(default)]
    pub patterns: Vec<String>,
}

/// How far a standing approval reaches, and what ends it by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantScope {
    /// For whom it holds, and whether it outlasts the run of the service.
    #[serde(default)]
    pub reach: GrantReach,
    /// When it ends; never by time if none.
    #[serde(default)]
    pub until: Option<Timestamp>,
    /// How many requests it lets through, the one that was replied to not counted; any number if none.
    #[serde(default)]
    pub uses: Option<u32>,
}

/// For whom a standing approval holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GrantReach {
    /// For the workspace, as long as this run of the service.
    #[default]
    Run,
    /// For the prompt's session in its workspace, until the session ends.
    Session,
    /// For the workspace, for good.
    Workspace,
}

impl GrantReach {
    /// Says whether such a grant is still there when the service starts again.
    pub fn outlasts_the_run(self) -> bool {
        match self {
            Self::Run => false,
            Self::Session | Self::Workspace => true,
        }
    }
}

/// The recorded end of a prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// What was decided.
    pub outcome: PromptOutcome,
    /// When.
    pub time: Timestamp,
    /// The client's id of the reply, so that a repeated reply is known; empty when nobody replied.
    #[serde(default)]
    pub reply_id: String,
    /// Who replied: the approver's name, or empty.
    #[serde(default)]
    pub by: String,
    /// Who that was: [`super::Principal::id`]; empty without authentication, and when nobody replied.
    #[serde(default)]
    pub principal: String,
    /// The prompt whose reply settled this one too.
    #[serde(default)]
    pub because_of: Option<PromptId>,
}

impl Decision {
    /// Makes an end at this moment by nobody.
    pub fn new(outcome: PromptOutcome) -> Self {
        Self {
            outcome,
            time: Timestamp::now(),
            reply_id: String::new(),
            by: String::new(),
            principal: String::new(),
            because_of: None,
        }
    }
}

/// How a prompt ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptOutcome {
    /// A person replied, or the reply to another prompt covered it.
    Replied(Reply),
    /// Nobody replied in time.
    Expired,
    /// The call ended first; the text says why.
    Withdrawn(String),
}

/// What an `always` reply left behind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Grant {
    /// The grant's id.
    pub id: GrantId,
    /// The run of the service in which it was given.
    pub owner: InstanceId,
    /// The workspace that it holds for.
    pub workspace: String,
    /// The folder of that workspace; empty if it is not known.
    #[serde(default)]
    pub worktree: String,
    /// The session in which it was given.
    pub session: SessionId,
    /// How far it reaches, and what ends it.
    #[serde(default)]
    pub scope: GrantScope,
    /// The permission.
    pub permission: String,
    /// The pattern that is allowed.
    pub pattern: String,
    /// The prompt whose reply made it.
    pub prompt: PromptId,
    /// Who approved it: [`super::Principal::id`] of each.
    #[serde(default)]
    pub approvers: Vec<String>,
    /// The title of that prompt, which may be kept no longer.
    #[serde(default)]
    pub title: String,
    /// Who replied: the approver's name, or empty.
    #[serde(default)]
    pub by: String,
    /// When.
    pub created: Timestamp,
    /// How many requests it has let through.
    #[serde(default)]
    pub uses: u64,
    /// When it last did.
    #[serde(default)]
    pub last_used: Option<Timestamp>,
}

impl Grant {
    /// Says whether it ended by itself: by time, or by its last use.
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.scope.until.is_some_and(|until| until <= now)
            || self.scope.uses.is_some_and(|most| self.uses >= u64::from(most))
    }

    /// Says whether it holds for the requests of a session.
    pub fn holds_for(&self, workspace: &str, session: &SessionId, now: Timestamp) -> bool {
        let in_reach = match self.scope.reach {
            GrantReach::Run | GrantReach::Workspace => true,
            GrantReach::Session => self.session == *session,
        };
        self.workspace == workspace && in_reach && !self.is_over(now)
    }

    /// Counts a use.
    pub fn count(&mut self, now: Timestamp) {
        self.uses += 1;
        self.last_used = Some(now);
    }
}
