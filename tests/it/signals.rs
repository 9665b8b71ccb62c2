//! Signals that mean something else than the end, and signals that were inherited.

use rustix::process::{Pid, Signal, kill_process};
use toolgate_contract::*;

use crate::support::*;

/// What a shell without job control leaves to what it starts in the background, and more.
const DEAF: &[&str] = &[
    "env",
    "--ignore-signal=INT,QUIT,HUP,USR1,CHLD",
    "--block-signal=TERM,INT,CHLD,USR2",
];

#[test]
fn commands_have_default_signals_whatever_the_service_inherited() {
    test(async {
        let mut server = Server::with(Setup {
            by: DEAF,
            ..Setup::default()
        })
        .await;
        // Names what is ignored or blocked.
        let events = server
            .execute(bash("env --list-signal-handling echo default"))
            .await
            .unwrap();
        assert_eq!(String::from_utf8(output_of(&events)).unwrap(), "default\n");
        let events = server.execute(bash("kill -INT $$; echo ignored")).await.unwrap();
        assert!(output_of(&events).is_empty(), "{events:?}");
        // It hears what it had blocked.
        server.stop().await;
    });
}

#[test]
fn a_hangup_ends_nothing() {
    test(async {
        let mut server = Server::start().await;
        let mut stream = server
            .tools()
            .execute_tool(bash("echo ready; until [ -e go ]; do sleep 0.01; done"))
            .await
            .unwrap()
            .into_inner();
        next_such(&mut stream, is_output).await;
        server.signal(Signal::HUP);
        eventually("the signal is told of", async || server.log().contains("SIGHUP")).await;
        std::fs::write(server.work().join("go"), "").unwrap();
        let events = collect(stream).await.unwrap();
        assert!(matches!(end_of(&events), call::Ending::Completed(_)), "{events:?}");
        server.stop().await;
    });
}

#[test]
fn when_the_terminal_hangs_up_the_service_drains() {
    test(async {
        let setup = Setup {
            on_terminal: true,
            ..Setup::default().env("TOOLGATE_DRAIN_GRACE", "1s")
        };
        let mut server = Server::with(setup).await;
        let request = kept("long", bash("echo ready; sleep 86303"));
        let mut stream = server.tools().execute_tool(request).await.unwrap().into_inner();
        next_such(&mut stream, is_output).await;
        // The terminal, not the service.
        server.kill9().await;
        let events = collect(stream).await.unwrap();
        let reason = match end_of(&events) {
            call::Ending::Failed(failed) => failed.reason(),
            call::Ending::Completed(_) => FailureReason::Unspecified,
        };
        assert_eq!(reason, FailureReason::Drained, "{}", server.log());
        ended(&server).await;
    });
}

#[test]
fn a_service_that_is_to_outlive_its_terminal_does() {
    test(async {
        let setup = Setup {
            by: &["env", "--ignore-signal=HUP"],
            on_terminal: true,
            ..Setup::default()
        };
        let mut server = Server::with(setup).await;
        let mut tools = tools(server.channel());
        let mut printed = async |command: &str| {
            let events = tools.execute_tool(bash(command)).await.unwrap().into_inner();
            String::from_utf8(output_of(&collect(events).await.unwrap())).unwrap()
        };
        let pid: i32 = printed("echo $PPID").await.trim().parse().unwrap();
        let service = Pid::from_raw(pid).unwrap();
        // The terminal, not the service.
        server.kill9().await;
        kill_process(service, Signal::HUP).unwrap();
        eventually("the signal is told of", async || server.log().contains("SIGHUP")).await;
        assert_eq!(printed("echo still there").await, "still there\n");
        kill_process(service, Signal::TERM).unwrap();
        ended(&server).await;
    });
}

/// Waits for the end of a service whose terminal is gone.
async fn ended(server: &Server) {
    eventually("the service has ended", async || !server.folder().join("s").exists()).await;
    server.assert_calm();
}
