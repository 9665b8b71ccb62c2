//! Files: the only place that touches them on behalf of a tool.
//!
//! *Invariant:* a leaf. It knows neither tools nor permissions; it says where a path leads and whether that is inside,
//! reads and writes safely, and walks trees. Nothing below takes a raw path or the process's current directory.
//!
//! The files, in reading order:
//!
//! - [`error`]: why something could not be done, in sentences for a model.
//! - [`path`], `workspace`: paths with every link followed, and the folder that they are inside of or not.
//! - [`roots`]: folders that others name, below those that the operator allows. [`created`]: folders that the service makes and
//!   takes away as a whole; `removed`: how they go, however deep they are.
//! - `beneath`, `place`, [`open`]: opening without following links that changed meanwhile; a file by its folder and name.
//! - [`kind`], [`text`], [`document`], [`marks`]: what a file is, its encoding, and what of it a session has read.
//! - [`locks`], `version`, `snapshot`, [`atomic`], [`files`]: one file, changed under its lock: looked at, compared,
//!   written beside its place and renamed.
//! - [`changes`], `target`, [`transaction`], [`entries`]: several files, changed together or not at all; whole folders.
//! - [`diff`], [`merge`]: how two texts differ, and how two changes of one text go together.
//! - [`edit`], [`patch`]: finding what a model wrote almost, and patches.
//! - [`wildcards`], [`pattern`], `ignore_rules`, [`walk`], [`found`], [`newest`], `listing`: walking trees and naming
//!   what is found.
//! - [`search`], [`view`], [`window`], [`instructions`]: searching and reading contents.
//! - [`tree`], [`watch`], [`reader`], [`uploads`]: what front ends show, entries with their facts and contents by ranges of
//!   bytes; what happens to them; and the contents that front ends send. [`archive`]: many files as one content, [`compressed`] or not.
//! - [`guarded`], [`named`]: files that programs obey, and the paths that a text names.
//! - `blocking`: where work that may block is done.

#![allow(clippy::disallowed_methods)] // the place that the other modules are sent to

pub mod archive;
pub mod atomic;
mod beneath;
mod blocking;
pub mod changes;
pub mod compressed;
pub mod created;
pub mod diff;
pub mod document;
pub mod edit;
pub mod entries;
pub mod error;
pub mod files;
pub mod found;
pub mod guarded;
mod ignore_rules;
pub mod instructions;
pub mod kind;
mod listing;
pub mod locks;
pub mod marks;
pub mod merge;
pub mod named;
pub mod newest;
pub mod open;
pub mod patch;
pub mod path;
pub mod pattern;
mod place;
pub mod reader;
mod removed;
pub mod roots;
pub mod search;
mod snapshot;
mod target;
pub mod text;
pub mod transaction;
pub mod tree;
pub mod uploads;
mod version;
pub mod view;
pub mod walk;
pub mod watch;
pub mod wildcards;
pub mod window;
mod workspace;

pub use error::FileError;
pub use path::ResolvedPath;
pub use workspace::Workspace;
