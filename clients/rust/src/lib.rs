//! The client of Toolgate, the service that runs the tools of an AI agent with a person in the loop.
//!
//! ```no_run
//! use toolgate_client::{Client, Decision};
//!
//! # async fn example() -> Result<(), toolgate_client::Error> {
//! let client = Client::connect("http://127.0.0.1:50551").await?;
//! let result = client
//!     .execute("bash", r#"{"command": "ls", "description": "List the files"}"#)
//!     .run()
//!     .await?;
//! println!("{}", result.text());
//! # Ok(())
//! # }
//! ```
//!
//! [`Client`] connects and makes calls, [`Execution`] follows one of them over connections that break, [`Approver`] answers
//! what the service asks a person, [`Host`] lends functions of this program as tools, [`Output`] reads what calls have printed,
//! [`Files`] shows and changes the files of a workspace, and [`OpenedPort`] reaches what programs listen on. The messages of the contract are in [`v1`]; every RPC that has no method here can be called through the
//! generated clients, for example [`Client::tool_service`].
//!
//! Files in reading order: `target` and `credentials` (where the service is, and who calls), `client` (the connection), `retry` and
//! `error`, `context`, `request`, `follow`, `execution`, `result` and `forms` (calls), `channel`, `prompt`, `decision` and `approve` (prompts), `tool`,
//! `invocation`, `host` and `hosting` (tools that this program lends), `output` and `save`, `evaluate`, `terminal`, `call_request`,
//! `files`, `file_reader`, `file_watcher`, `archive` and `upload` (files), `ports`, `mcp`, `workspaces`, `listing` and `events`.
//!
//! *Invariant:* the library knows the service through the contract alone. It uses no other crate of this repository.

mod approve;
mod archive;
mod call_request;
mod channel;
mod client;
mod context;
mod credentials;
mod decision;
mod error;
mod evaluate;
mod events;
mod execution;
mod file_reader;
mod file_watcher;
mod files;
mod follow;
mod forms;
mod host;
mod hosting;
mod invocation;
mod listing;
mod mcp;
mod output;
mod ports;
mod prompt;
mod request;
mod result;
mod retry;
mod save;
mod target;
mod terminal;
mod tool;
mod upload;
mod workspaces;

/// The examples of the README are compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

pub use schemars;
pub use toolgate_contract as v1;
pub use toolgate_contract::json::{struct_from_json, struct_to_json};

pub use approve::Approver;
pub use archive::ArchiveReader;
pub use call_request::CallRequest;
pub use channel::{ChannelEvent, PromptChannel};
pub use client::{AuthorizedChannel, Client, ClientBuilder};
pub use credentials::{Bearer, CertificateAndKey, Credentials, Token};
pub use decision::Decision;
pub use error::{BoxError, Error};
pub use evaluate::EvaluateRequest;
pub use events::Events;
pub use execution::Execution;
pub use file_reader::FileReader;
pub use file_watcher::{FileEvent, FileWatcher};
pub use files::Files;
pub use follow::{Follower, Start};
pub use host::{HookEvent, Host, Subagent};
pub use invocation::{Ask, Invocation};
pub use output::{Output, OutputReader, Part};
pub use ports::{OpenedPort, PortConnection};
pub use prompt::{PermissionPrompt, Prompt, QuestionPrompt};
pub use request::{ExecuteRequest, Input, OnDisconnect, RevertRequest};
pub use result::{CallError, CallResult};
pub use retry::backoff;
pub use target::DEFAULT_TARGET;
pub use terminal::CallInput;
pub use tool::{Tool, ToolResult};
pub use upload::Upload;
