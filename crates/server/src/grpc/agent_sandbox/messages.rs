//! The messages of `process.v1`, with the numbers that sandboxd gives their fields.
//!
//! *Invariant:* data only. Written here and not generated, since they are no part of any contract of the service.

use std::collections::HashMap;

use bytes::Bytes;
use prost::{Enumeration, Message, Oneof};

/// What to run.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ProcessConfig {
    /// The program and its arguments.
    #[prost(string, repeated, tag = "1")]
    pub(super) command: Vec<String>,
    #[prost(map = "string, string", tag = "2")]
    pub(super) env_vars: HashMap<String, String>,
    #[prost(string, optional, tag = "3")]
    pub(super) cwd: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ExecuteRequest {
    #[prost(message, optional, tag = "1")]
    pub(super) config: Option<ProcessConfig>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ExecuteResponse {
    #[prost(int32, tag = "1")]
    pub(super) exit_code: i32,
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) stdout: Bytes,
    #[prost(bytes = "bytes", tag = "3")]
    pub(super) stderr: Bytes,
}

/// The size of a terminal.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct Terminal {
    #[prost(uint32, tag = "1")]
    pub(super) cols: u32,
    #[prost(uint32, tag = "2")]
    pub(super) rows: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct StartRequest {
    #[prost(message, optional, tag = "1")]
    pub(super) config: Option<ProcessConfig>,
    #[prost(message, optional, tag = "2")]
    pub(super) pty: Option<Terminal>,
}

/// What happened to a process.
#[derive(Clone, PartialEq, Message)]
pub(super) struct StartResponse {
    #[prost(oneof = "Event", tags = "1, 2, 3, 4")]
    pub(super) event: Option<Event>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Event {
    #[prost(message, tag = "1")]
    Init(Init),
    #[prost(bytes = "bytes", tag = "2")]
    Stdout(Bytes),
    #[prost(bytes = "bytes", tag = "3")]
    Stderr(Bytes),
    #[prost(message, tag = "4")]
    Exit(Exit),
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct Init {
    #[prost(int32, tag = "1")]
    pub(super) process_id: i32,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct Exit {
    #[prost(int32, tag = "1")]
    pub(super) exit_code: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct WriteStdinRequest {
    #[prost(int32, tag = "1")]
    pub(super) process_id: i32,
    #[prost(oneof = "Payload", tags = "2, 3")]
    pub(super) payload: Option<Payload>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Payload {
    #[prost(bytes = "bytes", tag = "2")]
    Input(Bytes),
    #[prost(message, tag = "3")]
    Eof(Nothing),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Enumeration)]
#[repr(i32)]
pub(super) enum Signal {
    Unspecified = 0,
    Int = 2,
    Kill = 9,
    Term = 15,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct SendSignalRequest {
    #[prost(int32, tag = "1")]
    pub(super) process_id: i32,
    #[prost(enumeration = "Signal", tag = "2")]
    pub(super) signal: i32,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct ResizeTtyRequest {
    #[prost(int32, tag = "1")]
    pub(super) process_id: i32,
    #[prost(uint32, tag = "2")]
    pub(super) cols: u32,
    #[prost(uint32, tag = "3")]
    pub(super) rows: u32,
}

/// An answer that has nothing in it.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct Nothing {}
