//! The program as a person starts it beside a [`Server`], with the same home; and grpcurl.

use std::process::Stdio;

use serde_json::Value;
use tokio::process::Command;
use tokio::time::timeout;

use super::{PROGRAM, SERVER_LIMIT, Server, installed};

impl Server {
    /// Starts the program as a person with the same home does, in the workspace, without a terminal.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.folder().join("home"))
            .env("TMPDIR", self.folder())
            .env("SHELL", "/bin/bash")
            .current_dir(self.work())
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    /// As [`Self::command`], with a service of its own on the server's data, as nobody serves the folder that it starts in.
    pub(crate) fn command_aside(&self, args: &[&str]) -> Command {
        let aside = self.folder().join("aside");
        std::fs::create_dir_all(&aside).unwrap();
        let mut command = self.command(args);
        command
            .env("TOOLGATE_DATA_DIR", self.folder().join("data"))
            .current_dir(aside);
        command
    }

    /// Runs that to its end: the exit code, standard output and standard error.
    pub(crate) async fn cli(&self, args: &[&str]) -> (i32, String, String) {
        let output = timeout(SERVER_LIMIT, self.command(args).output()).await;
        let output = output.unwrap_or_else(|_| panic!("{args:?} does not end")).unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (
            output.status.code().unwrap_or(-1),
            text(&output.stdout),
            text(&output.stderr),
        )
    }
}

/// Calls an RPC of the contract with grpcurl, and returns what it prints.
pub(crate) async fn grpcurl(address: &str, method: &str, request: Value) -> Vec<Value> {
    let method = format!("toolgate.v1.{method}");
    let output = Command::new(installed("bin/grpcurl"))
        .args(["-plaintext", "-d", &request.to_string(), address, &method])
        .kill_on_drop(true)
        .output();
    let output = timeout(SERVER_LIMIT, output).await.unwrap().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{method}: {errors}");
    let answers = serde_json::Deserializer::from_slice(&output.stdout).into_iter();
    answers.collect::<Result<_, _>>().unwrap()
}
