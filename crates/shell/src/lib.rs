//! Shell command lines: which commands run, which texts rules are held against, what an approval may cover, and which paths
//! they touch.
//!
//! [`parse()`] is a pure function of the text. Its answers go into questions to a person and into permission rules; it decides
//! nothing. What it cannot be sure of it calls unclear.
//!
//! *Invariant:* a leaf without state, files or time of day. It knows neither rules nor permissions. Any text gives an answer in
//! bounded time and memory.
//!
//! The files, in reading order:
//!
//! - `line`: the result, a line with its commands.
//! - `parse`, [`words`], `variables`: from the text to simple commands, their words, and what variables hold.
//! - `analyze`: from simple commands to the result: `analyze/context` is what is known of the line so far,
//!   `analyze/examine` looks at one command and those inside it, `analyze/findings` collects what it finds.
//! - `programs` with the table `programs.txt`, `option_values`: what the options and operands of known programs do.
//! - `wrappers` with `wrappers.txt`, `interpreters`: programs that run another program, and languages that they run.
//! - `options`, [`arity`] with `arity.txt`: other ways to write the same command, and how many words name what an approval
//!   covers.
//! - `paths`, `outputs`, `created_files`, `network` with `network.txt`: what is read, written, made and run, and sent.
//! - `opaque`: what nobody can say by reading.

#![cfg_attr(test, allow(clippy::disallowed_methods))] // tests make the folders and programs they work with

mod analyze;
pub mod arity;
mod created_files;
mod interpreters;
mod line;
mod network;
mod opaque;
mod option_values;
mod options;
mod outputs;
mod parse;
mod paths;
mod programs;
mod variables;
pub mod words;
mod wrappers;

#[cfg(test)]
mod tests;

pub use line::{Command, Line};
pub use paths::PathUse;

/// Takes a command line apart.
pub fn parse(line: &str) -> Line {
    analyze::analyze(line)
}
