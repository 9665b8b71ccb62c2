//! Commands in the background: their terminal, their signals, their input.

use toolgate_client::Client;
use toolgate_contract::*;

use super::{connected, refused_for};
use crate::support::*;
use serde_json::json;

async fn start(server: &Server, id: &str, command: &str) {
    let input = json!({"command": command, "description": "a test", "terminal": {"columns": 80, "rows": 24}});
    let request = kept(id, request("background", input));
    let mut stream = server.tools().execute_tool(request).await.unwrap().into_inner();
    next_such(&mut stream, |event| matches!(event, call_event::Event::Running(_))).await;
}

/// Waits until the terminal of a call shows a text.
async fn shows(client: &Client, call: &str, text: &str) {
    eventually(text, async || {
        let picture = client.get_terminal(call).await.unwrap();
        String::from_utf8_lossy(&picture.contents).contains(text)
    })
    .await;
}

#[test]
fn a_terminal_is_sized_typed_to_and_looked_at() {
    test(async {
        let mut server = Server::start().await;
        let client = connected(&server).await;
        start(
            &server,
            "t",
            "trap 'stty size' WINCH; trap 'echo one; exit 4' USR1; echo begun; while read line; do echo got-$line; done",
        )
        .await;
        shows(&client, "t", "begun").await;
        client.resize_terminal("t", 100, 30).await.unwrap();
        let size = client.get_terminal("t").await.unwrap().size.unwrap();
        assert_eq!((size.columns, size.rows), (100, 30));
        let error = client.resize_terminal("t", 0, 30).await.unwrap_err();
        assert_eq!(error.code_name(), "INVALID_ARGUMENT");

        let mut input = client.input("t");
        assert_eq!(input.send("first\n").await.unwrap().next_offset, 6);
        shows(&client, "t", "got-first").await;
        // Another one begins where that one ended; what it repeats counts once.
        let mut other = client.input("t");
        assert_eq!(other.catch_up().await.unwrap().next_offset, 6);
        assert_eq!(other.send("second\n").await.unwrap().next_offset, 13);
        assert_eq!(client.input("t").send("first\n").await.unwrap().next_offset, 13);
        shows(&client, "t", "got-second").await;

        client.signal_call("t", Signal::Usr1).await.unwrap();
        other.send("\n").await.ok();
        let mut follower = client.watch("t", 0);
        loop {
            let event = follower.next().await.unwrap().unwrap();
            if let Some(call_event::Event::Completed(ended)) = event.event {
                assert!(matches!(ended.outcome(), CallOutcome::NonZero), "{ended:?}");
                break;
            }
        }
        refused_for(client.signal_call("t", Signal::Int).await, "CALL_ENDED");
        refused_for(other.close().await, "CALL_ENDED");
        refused_for(client.get_terminal("none").await, "NOT_FOUND");
        server.stop().await;
    });
}

#[test]
fn input_waits_for_a_program_that_does_not_read() {
    test(async {
        let mut server = Server::start().await;
        let client = connected(&server).await;
        let command = "while ! test -e go; do sleep 0.05; done; wc -c";
        let input = json!({"command": command, "description": "a test"});
        let request = kept("slow", request("background", input));
        let mut stream = server.tools().execute_tool(request).await.unwrap().into_inner();
        next_such(&mut stream, |event| matches!(event, call_event::Event::Running(_))).await;
        let data = vec![b'x'; 3 << 20];
        let mut input = client.input("slow");
        let go = async {
            tokio::time::sleep(std::time::Duration::from_millis(300)).await;
            std::fs::write(server.work().join("go"), "").unwrap();
        };
        let (sent, ()) = tokio::join!(input.send(data), go);
        assert_eq!(sent.unwrap().next_offset, 3 << 20);
        assert!(input.close().await.unwrap().closed);
        let mut follower = client.watch("slow", 0);
        let mut printed = String::new();
        while let Some(event) = follower.next().await.unwrap() {
            match event.event {
                Some(call_event::Event::Output(output)) => printed += &String::from_utf8_lossy(&output.data),
                Some(call_event::Event::Completed(_)) => break,
                _ => {}
            }
        }
        assert_eq!(printed.trim(), (3 << 20).to_string());
        server.stop().await;
    });
}
