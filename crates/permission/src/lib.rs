//! Who may do what: rules from configuration, their evaluation, agents, and why a call is refused.
//!
//! *Invariant:* pure: it does no input or output, keeps no state and knows no tool, only names and patterns. Prompts and
//! standing approvals are the engine's.
//!
//! In reading order:
//!
//! - [`rules`]: the part `permission` of the configuration as a list of rules, in which the last match decides;
//! - [`wildcard`]: the patterns of rules, `*` and `?`;
//! - [`judgement`]: what the rules say of what a call asks for: allow, ask or deny;
//! - `by_name`: the same by a tool's name alone, for deciding whether a model is offered the tool at all;
//! - [`agents`]: the agents, built in and configured, with the rules of each;
//! - `rights`: what a subagent may do at most;
//! - `refusal`: why a call may not go on, in the words that the model reads;
//! - `unattended`: what happens to a prompt that nobody is there to answer;
//! - [`hints`]: rules that have no effect, and the known name that was probably meant by an unknown one.

#![cfg_attr(test, allow(clippy::disallowed_methods))] // tests make the folders and programs they work with

pub mod agents;
mod by_name;
pub mod hints;
pub mod judgement;
mod refusal;
mod rights;
pub mod rules;
mod unattended;
pub mod wildcard;

pub use refusal::Refusal;
pub use rights::Rights;
pub use unattended::Unattended;
