//! One data directory: which service has it, and what becomes of what others leave in it.

use std::collections::BTreeSet;
use std::process::Stdio;

use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use toolgate_contract::*;

use crate::command_line::greeting;
use crate::support::*;

#[test]
fn a_second_service_on_a_data_directory_is_refused() {
    test(async {
        let mut server = Server::start().await;
        let data = server.folder().join("data").display().to_string();
        let args = ["serve", "--no-socket", "--listen", "127.0.0.1:0", "--data-dir", &data];
        let second = server.command(&args).output().await.unwrap();
        let told = String::from_utf8(second.stderr).unwrap();
        assert_eq!(second.status.code(), Some(5), "{told}");
        for expected in [
            "another service has the data directory",
            &data,
            &format!("process {}, listening on unix:", server.pid()),
            "--data-dir",
        ] {
            assert!(told.contains(expected), "{expected:?}: {told}");
        }
        assert!(!told.contains("listening on http"), "{told}");
        // A command with a service of its own may share it.
        let (code, out, err) = server
            .cli(&["call", "bash", "command=echo shared", "description=d"])
            .await;
        assert!(code == 0 && out.contains("shared"), "{out} {err}");
        // What the first leaves when it is killed is taken over at once.
        server.kill9().await;
        server.restart().await;
    });
}

#[test]
fn a_service_tells_of_what_a_command_beside_it_does() {
    test(async {
        let server = Server::start().await;
        let watch = WatchEventsRequest {
            workspace: "-".to_owned(),
            ..WatchEventsRequest::default()
        };
        let mut happens = server
            .sessions()
            .watch_events(watch.clone())
            .await
            .unwrap()
            .into_inner();
        // The service itself has nothing to write.
        let args = ["call", "--call-id", "beside", "bash", "command=true", "description=d"];
        let output = server.command_aside(&args).output().await.unwrap();
        assert!(output.status.success(), "{output:?}");
        let end = loop {
            let event = happens.message().await.unwrap().expect("an event").event.unwrap();
            if let Some(event::Event::CallStateChanged(changed)) = event.event
                && changed.call_id == "beside"
                && changed.state() == CallState::Completed
            {
                break event.sequence;
            }
        };
        // Who comes now may begin where the other one is.
        let watch = WatchEventsRequest {
            after_sequence: Some(end),
            ..watch
        };
        server.sessions().watch_events(watch).await.unwrap();
    });
}

#[test]
fn a_service_takes_over_what_a_killed_command_left() {
    test(async {
        let server = Server::with(Setup::permission(json!({"bash": {"*": "allow", "echo asked": "ask"}}))).await;
        // Each has a service of its own; that of the MCP server has the server's folder too.
        let running = [
            "call",
            "--call-id",
            "running",
            "bash",
            "command=sleep 86307",
            "description=d",
        ];
        let mut running = server.command_aside(&running).spawn().unwrap();
        let mut client = server.command_aside(&["mcp"]);
        let mut client = client.current_dir(server.work()).stdin(Stdio::piped()).spawn().unwrap();
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": "bash", "arguments": {"command": "echo asked", "description": "d"}}});
        let mut stdin = client.stdin.take().unwrap();
        let said = format!("{}{call}\n", greeting());
        stdin.write_all(said.as_bytes()).await.unwrap();
        let calls = async || {
            let request = ListCallsRequest {
                workspace: "-".to_owned(),
                ..ListCallsRequest::default()
            };
            server.tools().list_calls(request).await.unwrap().into_inner().calls
        };
        eventually("both calls are there", async || {
            calls().await.iter().map(Call::state).collect::<BTreeSet<_>>()
                == BTreeSet::from([CallState::Running, CallState::Waiting])
        })
        .await;
        for command in [&mut running, &mut client] {
            command.start_kill().unwrap();
            command.wait().await.unwrap();
        }
        eventually("the call that ran is lost", async || {
            let call = server.get("running").await;
            call.state() == CallState::Failed && failed(&call).reason() == FailureReason::Lost
        })
        .await;
        let asked = calls()
            .await
            .into_iter()
            .find(|call| call.state() == CallState::Waiting);
        let asked = asked.expect("it waits again").call_id;
        let prompts = server.prompts(list_all()).await;
        let request = ReplyPromptRequest {
            reply: Some(reply(&prompts[0], PromptDecision::Once)),
            name: "anna".to_owned(),
        };
        server.permissions().reply_prompt(request).await.unwrap();
        eventually("the call goes on", async || {
            server.get(&asked).await.state() == CallState::Completed
        })
        .await;
    });
}
