//! `toolgate store`: what it says of a database, and what it makes of one.

use std::path::Path;
use std::process::Output;

use tempfile::TempDir;
use tokio::process::Command;

use super::server::Server;
use crate::gateway::setup::put;
use crate::support::test;

/// Runs a command with the configuration of a folder.
pub(super) async fn toolgate(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_toolgate"));
    command.args(["--config", "toolgate.toml"]).args(arguments);
    let command = command.env_clear().env("HOME", folder).current_dir(folder);
    command.output().await.unwrap()
}

/// Returns all that it printed.
pub(super) fn text(output: &Output) -> String {
    let all = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8(all).unwrap()
}

#[test]
fn tables_are_made_and_looked_at() {
    test(async {
        let (folder, server) = (TempDir::new().unwrap(), Server::start(false).await);
        server.run("postgres", "CREATE DATABASE fleet").await;
        let configure = |address: &str| {
            put(&folder.path().join("tokens"), "anna anna-anna-anna-anna *\n");
            let text = format!(
                "[auth]\ntokens_file = \"tokens\"\nworkers = [\"token:worker-a\"]\n[cluster]\nrole = \"gateway\"\nstore = \"{address}\"\n"
            );
            put(&folder.path().join("toolgate.toml"), &text);
        };
        configure(&server.url("fleet").replace("toolgate@", "toolgate:hunter2@"));
        let check = async |arguments: &[&str], code: i32, expected: &str| {
            let output = toolgate(folder.path(), arguments).await;
            let printed = text(&output);
            assert_eq!(output.status.code(), Some(code), "{arguments:?}: {printed}");
            assert!(printed.contains(expected), "{arguments:?}: {printed}");
            assert!(!printed.contains("hunter2"), "{printed}");
        };
        check(&["store", "check"], 1, "there are none: run `toolgate store migrate`").await;
        check(
            &["gateway", "--no-tcp", "--socket", "g"],
            5,
            "run `toolgate store migrate`",
        )
        .await;
        check(&["store", "migrate"], 0, "created the tables").await;
        check(&["store", "migrate"], 0, "the tables were up to date").await;
        check(&["store", "check"], 0, "made ahead").await;
        check(&["--json", "store", "check"], 0, "\"usable\":true").await;
        check(&["config"], 0, "cluster.store").await;
        server
            .run("postgres", "ALTER DATABASE fleet SET synchronous_commit = off")
            .await;
        check(&["store", "check"], 5, "synchronous_commit is off").await;
        configure("postgres://toolgate:hunter2@127.0.0.1:1/fleet");
        check(
            &["store", "check"],
            5,
            "cannot use the database postgres://127.0.0.1:1/fleet",
        )
        .await;
    });
}
