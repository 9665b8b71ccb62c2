//! The vocabulary: plain data that every part of the service speaks.
//!
//! *Invariant:* a leaf. Nothing here imports another crate of the service, starts anything or knows the wire. What is
//! stored is these types as JSON, so a field is only added with a default and never changes its meaning.
//!
//! The files, in reading order:
//!
//! - `ids`: the ids of calls, prompts, grants, sessions, outputs and runs of the service.
//! - `time`, `json`, `durability`: points in time as they are stored, free JSON maps, and what stored changes survive.
//! - `origin`: in whose name a call is made; `names`: what names a session or a call beside its id; `principal`: who
//!   somebody is; `workspaces`: names of workspaces and sets of them, such as those that somebody may see; `created`: what they
//!   are created from.
//! - `tool`: where tools come from, how they are described, what they return.
//! - `call`: a call from its request to its record; `ending`: how it ends; `result`: what a tool knows of its
//!   result, for programs; `event`: its log; `invalid`: calls that were
//!   not understood; `change`: the files that it changed and the processes that it left.
//! - `prompt`: what is asked of people, by which rule, what they reply, what a reply leaves behind.
//! - `service_event`: what watchers of a workspace are sent; `todo`: an agent's list of tasks; `terminal`: how large a
//!   terminal is, and signals.
//! - [`redact`]: takes secrets out of what is shown or kept for showing.
//! - [`audit_key`], [`frontmatter`], [`skills`], `itself`: the key of the audit's chain, the head of a Markdown file,
//!   where skills are looked for, and how a service recognises itself over MCP; `login`: logins at servers of tools.

#![cfg_attr(test, allow(clippy::disallowed_methods))] // tests make the folders and programs they work with

pub mod audit_key;
mod call;
mod change;
mod created;
mod durability;
mod ending;
mod event;
pub mod frontmatter;
mod ids;
mod invalid;
mod itself;
mod json;
mod login;
mod names;
mod origin;
mod principal;
mod prompt;
pub mod redact;
mod result;
mod service_event;
pub mod skills;
mod terminal;
mod time;
mod todo;
mod tool;
mod workspaces;

pub use call::{CallRecord, CallState, OnDisconnect, RawInput, ToolCall};
pub use change::{BackgroundProcess, FileChange, FileVersion, ListeningPort};
pub use created::WorkspaceSource;
pub use durability::Durability;
pub use ending::{Attachment, AttachmentContent, EndReason, Ending, Outcome, Resources, Timing, Truncation};
pub use event::{CallEvent, EventKind, Queued, WarningKind};
pub use ids::{CallId, GrantId, InstanceId, OutputId, PromptId, SessionId};
pub use invalid::INVALID;
pub use itself::{ITSELF, REACHES_ITSELF, STARTED_AS_SERVER, STARTS_ITSELF, introduction, is_own_introduction};
pub use json::{Facts, JsonMap, json_map};
pub use login::{Login, OAuthClient};
pub use names::{CONNECTION, SessionKey};
pub use origin::{Delegation, Model, Origin, Unanswered};
pub use principal::{Principal, PrincipalKind};
pub use prompt::{
    Action, Always, Approval, Ask, AskPart, Consent, Decision, FormField, Grant, GrantReach, GrantScope, InputEdit,
    PartVerdict, Prompt, PromptOutcome, PromptRequest, PromptState, Question, QuestionOption, Reply, Rule,
};
pub use result::{
    CallEnd, ChildResult, ChildrenResult, CommandResult, FetchResult, FileAction, FileResult, ReadKind, ReadResult,
    SearchResult, ToolResult, Verdict,
};
pub use service_event::{ServiceEvent, ServiceEventKind, SourceState, WorkspaceChange};
pub use terminal::{Signal, TerminalSize};
pub use time::Timestamp;
pub use todo::Todo;
pub use tool::{Claims, Definition, Effect, OutputText, Source, ToolOutput};
pub use workspaces::{WorkspaceSet, workspace_name_problem};
