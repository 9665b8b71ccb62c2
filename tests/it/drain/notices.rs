//! What open streams are told when the service begins to stop, and how they end.

use std::time::Duration;

use prost::Message as _;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tonic::{Code, Status, Streaming};
use toolgate_contract::call_event::Event as OfCall;
use toolgate_contract::event::Event as OfService;
use toolgate_contract::host_event::Event as OfHost;
use toolgate_contract::host_request::Message;
use toolgate_contract::host_service_client::HostServiceClient;
use toolgate_contract::permission_service_client::PermissionServiceClient;
use toolgate_contract::*;

use super::setup;
use crate::support::*;

/// Long before the first heartbeat that comes of silence.
const AT_ONCE: Duration = Duration::from_secs(10);

/// Reads until a message says that the service is stopping.
async fn noticed<T>(stream: &mut Streaming<T>, says: impl Fn(&T) -> bool) {
    let reading = async {
        loop {
            let message = stream.message().await.expect("the notice comes before the end");
            if says(&message.expect("the notice comes before the end")) {
                break;
            }
        }
    };
    timeout(AT_ONCE, reading).await.expect("the notice comes at once");
}

/// Reads to the end of a stream that has none of its own.
async fn ended<T>(mut stream: Streaming<T>) -> Status {
    loop {
        match stream.message().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("an end without a status"),
            Err(status) => break status,
        }
    }
}

fn of_call(event: &Option<CallEvent>) -> bool {
    let event = event.as_ref().unwrap();
    match &event.event {
        Some(OfCall::Heartbeat(heartbeat)) => {
            assert_eq!(event.sequence, 0, "it has no place in the log");
            heartbeat.draining
        }
        _ => false,
    }
}

fn of_host(event: &Option<HostEvent>) -> bool {
    matches!(&event.as_ref().unwrap().event, Some(OfHost::Heartbeat(heartbeat)) if heartbeat.draining)
}

#[test]
fn every_stream_is_told_and_ends() {
    test(async {
        let mut server = Server::with(setup("200s")).await;
        let mut tools = server.tools();
        let running = kept("running", bash("mkfifo go; echo ready; cat go"));
        let mut running = tools.execute_tool(running).await.unwrap().into_inner();
        next_such(&mut running, is_output).await;
        // A stream with something to read all the time.
        let busy = kept("busy", bash("while [ ! -e stop ]; do echo line; sleep 0.02; done"));
        let mut busy = tools.execute_tool(busy).await.unwrap().into_inner();
        next_such(&mut busy, is_output).await;
        let mut asking = tools
            .execute_tool(kept("asking", bash(": ask; true")))
            .await
            .unwrap()
            .into_inner();
        waiting(&mut asking).await;
        let watch = watch_request("running", 0, OutputMode::None);
        let mut watching = tools.watch_call(watch).await.unwrap().into_inner();
        let mut sessions = server.sessions();
        let events = WatchEventsRequest {
            session_id: "nobody's".to_owned(),
            ..Default::default()
        };
        let mut events = sessions.watch_events(events).await.unwrap().into_inner();
        let mut permissions = PermissionServiceClient::new(server.connect().await);
        let prompts = watch_all();
        let mut prompts = permissions.watch_prompts(prompts).await.unwrap().into_inner();
        let open = ChannelRequest {
            message: Some(channel_request::Message::Open(ChannelOpen {
                filter: Some(everybody()),
                ..Default::default()
            })),
        };
        // Requests without an end: the client goes on talking.
        let open = tokio_stream::StreamExt::chain(tokio_stream::once(open), tokio_stream::pending());
        let mut channel = permissions.channel(open).await.unwrap().into_inner();
        let mut hosts = HostServiceClient::new(server.connect().await);
        let said = HostRequest {
            message: Some(Message::Hello(hello("a", &["one"]))),
        };
        let said = tokio_stream::StreamExt::chain(tokio_stream::once(said), tokio_stream::pending());
        let mut host = hosts.host(said).await.unwrap().into_inner();
        let serve = ServeToolsRequest {
            hello: Some(hello("b", &["two"])),
        };
        let mut served = hosts.serve_tools(serve).await.unwrap().into_inner();

        server.signal(Signal::TERM);
        noticed(&mut running, |response| of_call(&response.event)).await;
        noticed(&mut busy, |response| of_call(&response.event)).await;
        noticed(&mut asking, |response| of_call(&response.event)).await;
        noticed(&mut watching, |response| of_call(&response.event)).await;
        noticed(&mut events, |response| {
            let event = &response.event.as_ref().unwrap().event;
            matches!(event, Some(OfService::Heartbeat(heartbeat)) if heartbeat.draining)
        })
        .await;
        noticed(&mut prompts, |response| {
            use watch_prompts_response::Message;
            matches!(&response.message, Some(Message::Heartbeat(heartbeat)) if heartbeat.draining)
        })
        .await;
        noticed(&mut channel, |response| {
            use channel_response::Message;
            matches!(&response.message, Some(Message::Heartbeat(heartbeat)) if heartbeat.draining)
        })
        .await;
        noticed(&mut host, |response| of_host(&response.event)).await;
        noticed(&mut served, |response| of_host(&response.event)).await;
        // One that comes later is told too.
        let watch = watch_request("running", 0, OutputMode::Full);
        let mut late = tools.watch_call(watch).await.unwrap().into_inner();
        noticed(&mut late, |response| of_call(&response.event)).await;

        std::fs::write(server.work().join("stop"), "").unwrap();
        let go = server.work().join("go");
        tokio::task::spawn_blocking(move || std::fs::write(go, "done\n"))
            .await
            .unwrap()
            .unwrap();
        for log in [collect(running).await.unwrap(), collect(busy).await.unwrap()] {
            assert!(matches!(end_of(&log), call::Ending::Completed(_)), "{:?}", log.last());
        }
        collect_watch(watching).await.unwrap();
        collect_watch(late).await.unwrap();
        for end in [
            ended(asking).await,
            ended(events).await,
            ended(prompts).await,
            ended(channel).await,
            ended(host).await,
            ended(served).await,
        ] {
            refused::<()>(Err(end), Code::Unavailable, "DRAINING");
        }
        assert_eq!(server.ended().await.code(), Some(0));
        server.assert_calm();
    });
}

#[test]
fn streams_of_calls_that_run_elsewhere_end_too() {
    test(async {
        let mut server = Server::with(setup("200s")).await;
        // A command with a service of its own, on the same data.
        let args = ["call", "--call-id", "a", "bash", "command=sleep 86306", "description=d"];
        let mut elsewhere = server.command_aside(&args).spawn().unwrap();
        eventually("the call runs", async || {
            let request = GetCallRequest {
                call_id: "a".to_owned(),
            };
            let found = server.tools().get_call(request).await;
            found.is_ok_and(|found| found.into_inner().call.unwrap().state() == CallState::Running)
        })
        .await;
        let watch = watch_request("a", 0, OutputMode::Full);
        let mut watching = server.tools().watch_call(watch).await.unwrap().into_inner();
        watching.message().await.unwrap().unwrap();
        server.signal(Signal::TERM);
        noticed(&mut watching, |response| of_call(&response.event)).await;
        refused::<()>(Err(ended(watching).await), Code::Unavailable, "DRAINING");
        assert_eq!(server.ended().await.code(), Some(0));
        server.assert_calm();
        server.restart().await;
        assert_eq!(
            server.get("a").await.state(),
            CallState::Running,
            "nothing to do with it"
        );
        let pid = elsewhere.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        kill_process(pid.unwrap(), Signal::INT).unwrap();
        assert_eq!(elsewhere.wait().await.unwrap().code(), Some(130));
        server.stop().await;
    });
}

/// What a page does: gRPC-Web, over HTTP/1.1.
#[test]
fn a_page_is_told_and_its_stream_ends() {
    test(async {
        let setup = Setup {
            tcp: true,
            ..setup("300ms")
        };
        let mut server = Server::with(setup).await;
        let running = kept("running", bash("echo ready; sleep 86305"));
        let mut running = server.tools().execute_tool(running).await.unwrap().into_inner();
        next_such(&mut running, is_output).await;
        let address = server.tcp.clone().unwrap();
        let mut page = TcpStream::connect(&address).await.unwrap();
        let watch = watch_all().encode_to_vec();
        let length = u32::try_from(watch.len()).unwrap();
        let frame = [&[0], &length.to_be_bytes()[..], &watch].concat();
        let head = format!(
            "POST /toolgate.v1.PermissionService/WatchPrompts HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\
             Content-Type: application/grpc-web+proto\r\nContent-Length: {}\r\n\r\n",
            frame.len()
        );
        page.write_all(head.as_bytes()).await.unwrap();
        page.write_all(&frame).await.unwrap();
        let mut first = [0; 16];
        page.read_exact(&mut first).await.unwrap();
        server.signal(Signal::TERM);
        let mut rest = Vec::new();
        page.read_to_end(&mut rest).await.unwrap();
        let rest = String::from_utf8_lossy(&rest);
        assert!(
            rest.contains("grpc-status:14") && rest.contains("the%20service%20is%20stopping"),
            "{rest}"
        );
        assert_eq!(server.ended().await.code(), Some(0));
    });
}
