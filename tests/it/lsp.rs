//! Language servers: real ones, faulty ones, and what they say of files that tools have changed.

mod feedback;
mod hostile;
mod real;

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::Instant;

use toolgate::grpc::proto::*;

use crate::support::*;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/lsp/server.py");

/// A service with these language servers, whose edits wait for them this long.
async fn service(servers: Value, wait: &str) -> Server {
    with_path(servers, wait, None).await
}

async fn with_path(servers: Value, wait: &str, path: Option<String>) -> Server {
    let setup = Setup {
        config: Some(json!({ "lsp": servers })),
        ..Setup::default()
    };
    let setup = setup
        .env("OPENCODE_EXPERIMENTAL_LSP_TOOL", "1")
        .env("TOOLGATE_TRUST", "1")
        .env("TOOLGATE_LSP_DIAGNOSTICS_WAIT", wait);
    match path {
        Some(path) => Server::with(setup.env("PATH", &path)).await,
        None => Server::with(setup).await,
    }
}

/// What a fake server is configured with; `how` is what `server.py` is to do, `delay` after how many milliseconds it reports.
fn fake(how: &str, delay: u64) -> Value {
    json!({"fake": {"command": ["python3", SCRIPT, how, delay.to_string()], "extensions": [".fake"]}})
}

/// Puts a file into the workspace.
fn put(server: &Server, name: &str, text: &str) {
    let path = server.work().join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Writes a file by the tool.
async fn write(server: &Server, name: &str, text: &str) -> Call {
    let request = request("write", json!({"filePath": name, "content": text}));
    let call = run(&mut server.tools(), run_request(in_session("s", request)))
        .await
        .unwrap();
    completed(&call);
    call
}

/// Changes a file that the session has written or read.
async fn edit(server: &Server, name: &str, old: &str, new: &str) -> Call {
    let request = request("edit", json!({"filePath": name, "oldString": old, "newString": new}));
    let call = run(&mut server.tools(), run_request(in_session("s", request)))
        .await
        .unwrap();
    completed(&call);
    call
}

async fn read(server: &Server, name: &str) {
    let request = request("read", json!({ "filePath": name }));
    let call = run(&mut server.tools(), run_request(in_session("s", request)))
        .await
        .unwrap();
    completed(&call);
}

/// The metadata that a call has by now.
fn metadata(call: &Call) -> Value {
    completed(call).metadata.as_ref().map(json_of).unwrap_or_default()
}

fn path_of(server: &Server, name: &str) -> String {
    let path = server.work().canonicalize().unwrap().join(name);
    path.to_str().unwrap().to_owned()
}

/// What is known of a file in the metadata of a call.
fn reported(server: &Server, call: &Call, name: &str) -> Vec<Value> {
    let reported = metadata(call)["diagnostics"][path_of(server, name)].clone();
    reported.as_array().cloned().unwrap_or_default()
}
