//! The store of a worker: everything is written through gateways, which have the database.
//!
//! *Invariant:* no database, no file of one, and no secret of a store: a worker runs what a model wrote, and has nothing but its own
//! name. What it says of itself widens nothing: the gateway looks who calls, and the store who has the workspace.
//!
//! In reading order:
//!
//! - [`wire`], `rpc`: how what is stored travels, and the RPCs; gateways use the first, too;
//! - `options`: how a worker uses its gateways;
//! - `gateways`: the gateways, and what is tried again; [`chance`]: how long after;
//! - `holds`: which workspaces this run has, and for how long;
//! - `doubts`: what may be stored or not; `notes`: what is stored without anybody waiting for it;
//! - `parts`, `uploads`: outputs on their way, their full parts straight to a bucket; `follow`: hears of changes; `places`: where prompts and grants are;
//! - `told`: what this run has changed, for its plugins;
//! - `store`: one run's store, and its tasks;
//! - `calls`, `prompts`, `records`, `outputs`, `changes`, `kept`: the traits of a store.

#![cfg_attr(test, allow(clippy::disallowed_methods))] // tests make the folders they work with

mod calls;
pub mod chance;
mod changes;
mod doubts;
mod follow;
mod gateways;
mod holds;
mod kept;
mod notes;
mod options;
mod outputs;
mod parts;
mod places;
mod prompts;
mod records;
mod rpc;
mod store;
mod told;
mod uploads;
pub mod wire;

pub use self::gateways::NotAccepted;
pub use self::options::{Identity, LedgerOptions, Line, Way, Ways};
pub use self::store::LedgerStore;
pub use self::told::Told;
