//! What a tool is: the trait its author writes, the trait the registry holds, and what a running call may reach.
//!
//! *Invariant:* uses the crates model, permission and fs only. A tool sees neither gRPC nor a store nor another
//! tool; what it needs for one call comes through [`ToolContext`], what it needs for all through its constructor.
//!
//! In reading order:
//!
//! - `interface`: the traits, and the facts about a tool; `outline`: what is shown of a call;
//! - `context`, `handles`: what a running call may reach; `child`, `subagent`: calls and agents that work for it;
//! - `error`, `guard`, `blocking`: failures, files that are asked for by name, work that blocks;
//! - `catalog`, `registry`: the tools of a workspace, from all sources, and at one moment;
//! - `hook`, `hooks`: what plugins and hosts see and change;
//! - `schema`, `repair`, `dialect`, `misfit`: schemas: made from types, mended, rewritten for models that take only a part, and held
//!   against what a tool returns;
//! - `plan`, `todos`: what several tools share of a session;
//! - `testing`: a fake for each handle.

#![cfg_attr(test, allow(clippy::disallowed_methods))] // tests make the folders and programs they work with

mod blocking;
pub mod catalog;
mod changed;
mod child;
mod context;
pub mod dialect;
mod error;
mod guard;
mod handles;
mod hook;
pub mod hooks;
mod interface;
mod misfit;
mod outline;
pub mod plan;
pub mod registry;
mod repair;
mod schema;
mod subagent;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod todos;

pub use blocking::blocking;
pub use catalog::{Catalog, Contribution, Hold, Offering, SourceInfo, Voice};
pub use changed::{change_of, changed};
pub use child::{Child, ChildCall, ChildPort};
pub use context::{ToolContext, edit_of, outside};
pub use error::{ToolError, invalid_arguments};
pub use guard::{ask_by_name, guarded_file, guarded_part};
pub use handles::{
    ChangesHandle, ChildrenHandle, HooksHandle, LateMetadata, OutputHandle, PermissionHandle, ProgramControl,
    ProgramHandle, SessionHandle, StdinHandle,
};
pub use hook::{Hook, HookError, HookPoint};
pub use interface::{About, InputProblem, Offer, Properties, Tool, TypedTool, uses_apply_patch};
pub use misfit::misfit;
pub use outline::Outline;
pub use registry::{Registry, SchemaError};
pub use repair::repair;
pub use schema::schema_of;
pub use subagent::{Delegated, SubagentAnswer, SubagentRun, SubagentRunner, Subagents};

pub use toolgate_permission::Refusal;
