//! Every test of the service that is more than one module's; one module for each theme.

#![allow(clippy::disallowed_methods)] // tests make the folders and programs they work with
#![allow(clippy::wildcard_enum_match_arm)] // the other arm of a test is its failure
#![allow(clippy::unwrap_used)] // what a test needs is there, or the test fails

mod approvals;
mod approve;
mod architecture;
mod audit;
mod auth;
mod background;
mod batch;
mod builtins;
mod calls;
mod cancel;
mod clients;
mod command_line;
mod commands;
mod console;
mod contract;
mod crash;
mod custom;
mod delegation;
mod dependencies;
mod drain;
mod edited;
mod edits;
mod environment;
mod evaluated;
mod feedback;
mod files;
mod floods;
mod hooks;
mod hostile;
mod hosts;
mod interactive;
mod limits;
mod lists;
mod lsp;
mod mcp;
mod mcp_server;
mod outputs;
mod peers;
mod prompts;
mod readme;
mod reference;
mod results;
mod revert;
mod rules;
mod sandbox;
mod schemas;
mod search;
mod shell;
mod signals;
mod skills;
mod store;
mod streams;
mod stubs;
mod support;
mod telemetry;
mod terminals;
mod tidy;
mod unanswered;
mod walls;
mod web;
mod webfetch;
mod workspaces;
