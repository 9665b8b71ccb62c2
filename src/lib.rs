//! Toolgate runs an AI agent's tools behind one gRPC contract, with a person in the loop.
//!
//! The path of a call, one direction:
//!
//! ```text
//! wire ► grpc::tool_service ► convert ► Engine::start(ToolCall) ► Tool::call(input, &ctx) ► ToolOutput ► truncate ► CallLog
//!                                                ctx.ask ► permission::Broker ► Prompts ◄► grpc::permission_service
//! wire ◄ grpc::tool_service ◄ convert ◄ a cursor over the CallLog, from any sequence number, by any number of readers
//! ```
//!
//! *Invariants*, held by the modules below and by `tests/it/tidy.rs`:
//!
//! - The log is the record; a stream is a cursor over it. A slow, lost or late reader never touches the call.
//! - One task writes a call's events, fed by a bounded channel: exactly one end, also on panic, cancellation and drain.
//! - The input is frozen before anybody is asked: what a person approves is what runs.
//! - Prompts are stored first and sent second; the first valid reply wins.
//! - Files, programs and the network are touched only in [`workspace`], [`process`] and [`net`]; clippy refuses other ways.
//! - The tool asks, when it knows exactly what it will do. The broker sees names and patterns, never a tool.
//! - Truncation is done once, in the engine, for every tool.
//! - Core types never are the wire's: [`grpc`] converts at the rim.

#![cfg_attr(test, allow(clippy::disallowed_methods))] // tests make the folders and programs they work with

pub mod call;

pub mod redact;

pub mod audit;

pub mod frontmatter;

pub mod workspace;

pub mod skills;

pub mod process;

pub mod lsp;

pub mod shell;

pub mod net;

pub mod telemetry;

pub mod html;

pub mod store;

pub mod permission;

pub mod tool;

pub mod tools;

pub mod mcp;

pub mod custom;

pub mod hosted;

pub mod engine;

pub mod config;

pub mod grpc;

pub mod app;

pub mod cli;
