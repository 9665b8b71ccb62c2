//! What programs of calls listen on: it is seen, opened after a question, and reached by streams and HTTP.

mod streams;
mod web;

use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};
use toolgate_contract::call_event::Event as CallHappening;
use toolgate_contract::event::Event as Happening;
use toolgate_contract::port_service_client::PortServiceClient;
use toolgate_contract::*;

pub(crate) use self::web::client;
use crate::evaluated::evaluated;
use crate::support::*;

const PROGRAM: &str = include_str!("ports/serve.py");

/// A service in whose workspace is the program that the tests reach.
struct Place {
    server: Server,
    client: PortServiceClient<Channel>,
}

/// A call whose program listens.
#[derive(Clone)]
struct Target {
    call: String,
    port: i32,
}

impl Place {
    /// Commands have no walls, which would keep them from listening.
    async fn new() -> Self {
        Self::ruled(json!({"*": "allow"})).await
    }

    async fn ruled(permission: Value) -> Self {
        Self::with(Setup {
            tcp: true,
            ..Setup::permission(permission)
        })
        .await
    }

    async fn with(setup: Setup) -> Self {
        let server = Server::with(setup).await;
        std::fs::write(server.work().join("serve.py"), PROGRAM).unwrap();
        let client = PortServiceClient::new(server.channel());
        Self { server, client }
    }

    /// Starts the program in the background, and waits until it listens.
    async fn serve(&self, arguments: &str) -> Target {
        self.serve_in("", arguments).await
    }

    async fn serve_in(&self, workspace: &str, arguments: &str) -> Target {
        let script = self.server.work().join("serve.py");
        let command = format!("exec python3 {} {arguments}", script.display());
        let mut request = request("background", json!({"command": command, "description": "a test"}));
        request.context = Some(CallContext {
            workspace: workspace.to_owned(),
            ..Default::default()
        });
        request.call_id = uuid::Uuid::now_v7().to_string();
        request.on_disconnect = OnDisconnect::Keep.into();
        let mut stream = self.server.tools().execute_tool(request).await.unwrap().into_inner();
        let printed = next_such(&mut stream, is_output).await;
        let Some(CallHappening::Output(output)) = printed.event else {
            unreachable!("it is output")
        };
        let text = String::from_utf8(output.data.to_vec()).unwrap();
        Target {
            call: printed.call_id,
            port: text.trim().strip_prefix("port ").expect(&text).parse().unwrap(),
        }
    }

    async fn open(&self, request: OpenPortRequest) -> Result<OpenPortResponse, Status> {
        Ok(self.client.clone().open_port(request).await?.into_inner())
    }

    async fn opened(&self, target: &Target) -> OpenPortResponse {
        self.open(open(target)).await.unwrap()
    }

    async fn connect(&self, call: &str, first: &[u8]) -> Result<Connection, Status> {
        Connection::open(self.client.clone(), call, first).await
    }
}

fn open(target: &Target) -> OpenPortRequest {
    OpenPortRequest {
        call: None,
        call_id: target.call.clone(),
        port: target.port,
    }
}

/// A stream of ConnectPort.
struct Connection {
    sender: Option<mpsc::Sender<ConnectPortRequest>>,
    messages: Streaming<ConnectPortResponse>,
}

impl Connection {
    async fn open(mut client: PortServiceClient<Channel>, call: &str, first: &[u8]) -> Result<Self, Status> {
        let (sender, requests) = mpsc::channel(4);
        let request = ConnectPortRequest {
            call_id: call.to_owned(),
            data: first.to_vec().into(),
        };
        sender.send(request).await.unwrap();
        let mut messages = client.connect_port(ReceiverStream::new(requests)).await?.into_inner();
        let first = messages.message().await?.expect("a first message");
        assert!(first.data.is_empty(), "the first message is empty");
        Ok(Self {
            sender: Some(sender),
            messages,
        })
    }

    /// Says that nothing follows.
    fn finish(&mut self) {
        self.sender = None;
    }

    /// Reads so many bytes.
    async fn read(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        while bytes.len() < length {
            let message = self.messages.message().await.unwrap().expect("more bytes");
            assert!(message.data.len() <= 64 * 1024);
            bytes.extend_from_slice(&message.data);
        }
        bytes
    }

    /// Reads all that comes.
    async fn rest(&mut self) -> Result<Vec<u8>, Status> {
        let mut bytes = Vec::new();
        while let Some(message) = self.messages.message().await? {
            bytes.extend_from_slice(&message.data);
        }
        Ok(bytes)
    }
}

fn numbers(ports: &[ListeningPort]) -> Vec<i32> {
    ports.iter().map(|one| one.port).collect()
}

async fn listening(server: &Server, call: &str) -> Vec<ListeningPort> {
    server.get(call).await.listening
}

async fn ended(server: &Server, call: &str) -> Call {
    eventually("the call has ended", async || server.get(call).await.ending.is_some()).await;
    server.get(call).await
}

#[test]
fn what_a_command_listens_on_is_seen() {
    test(async {
        let place = Place::new().await;
        let request = WatchEventsRequest {
            after_sequence: Some(0),
            ..Default::default()
        };
        let mut events = place
            .server
            .sessions()
            .watch_events(request)
            .await
            .unwrap()
            .into_inner();
        let mut changes = async || loop {
            let event = events.message().await.unwrap().unwrap().event.unwrap();
            if let Some(Happening::ListeningChanged(changed)) = event.event {
                return changed;
            }
        };
        let target = place.serve("talk").await;
        let seen = listening(&place.server, &target.call).await;
        assert_eq!(seen.len(), 1, "{seen:?}");
        assert_eq!((seen[0].port, seen[0].address.as_str()), (target.port, "127.0.0.1"));
        assert!(seen[0].command.contains("serve.py talk"), "{seen:?}");
        assert!(seen[0].pid > 1);
        let changed = changes().await;
        assert_eq!(
            (changed.call_id.as_str(), &changed.ports),
            (target.call.as_str(), &seen)
        );
        // Another call has ports of its own.
        let other = place.serve("web 0 0.0.0.0").await;
        let of_other = listening(&place.server, &other.call).await;
        assert_eq!(
            (numbers(&of_other), of_other[0].address.as_str()),
            (vec![other.port], "0.0.0.0")
        );
        assert_eq!(listening(&place.server, &target.call).await, seen);
        place.server.cancel(&target.call).await;
        assert_eq!(listening(&place.server, &target.call).await, []);
        let log = place.server.watch(&target.call, 0).await.unwrap();
        check_log(0, &log);
        let told = log.iter().filter_map(|event| match &event.event {
            Some(CallHappening::Listening(listening)) => Some(&listening.ports),
            _ => None,
        });
        assert_eq!(told.collect::<Vec<_>>(), [&seen]);
        place.server.assert_calm();
    });
}

#[test]
fn what_comes_and_goes_and_what_is_left_running_is_seen() {
    test(async {
        let place = Place::new().await;
        let script = place.server.work().join("serve.py");
        let script = script.display();
        // Listens for a while, and then does something else.
        let command = format!("python3 {script} talk & echo started; sleep 3; kill %1; read line");
        let request = kept(
            "comes",
            request("background", json!({"command": command, "description": "a test"})),
        );
        let mut stream = place.server.tools().execute_tool(request).await.unwrap().into_inner();
        let mut told = Vec::new();
        while told.len() < 2 {
            let event = next_such(&mut stream, |event| matches!(event, CallHappening::Listening(_))).await;
            if let Some(CallHappening::Listening(listening)) = event.event {
                told.push(listening.ports.len());
            }
        }
        assert_eq!(told, [1, 0]);
        place.server.cancel("comes").await;
        let command = format!(
            "setsid -f python3 {script} talk >port 2>&1; timeout 20 sh -c 'until grep -q port port; do sleep 0.05; done'"
        );
        let left = place
            .server
            .run("bash", json!({"command": command, "description": "a test"}))
            .await;
        completed(&left);
        let seen = listening(&place.server, &left.call_id).await;
        assert_eq!(seen.len(), 1, "{seen:?}");
        let target = Target {
            call: left.call_id.clone(),
            port: seen[0].port,
        };
        let opened = place.opened(&target).await;
        let mut connection = place.connect(&opened.call_id, b"B").await.unwrap();
        assert_eq!(connection.rest().await.unwrap(), b"bye");
        // With the last process of the call goes the port.
        place.server.cancel(&left.call_id).await;
        let closed = ended(&place.server, &opened.call_id).await;
        assert!(completed(&closed).output.contains("Connections: 1"), "{closed:?}");
        assert_eq!(listening(&place.server, &left.call_id).await, []);
    });
}

#[test]
fn a_port_is_opened_by_a_call_that_says_what_went_through() {
    test(async {
        let place = Place::new().await;
        let target = place.serve("talk").await;
        let request = OpenPortRequest {
            call: Some(CallStart {
                call_id: "mine".to_owned(),
                ..Default::default()
            }),
            ..open(&target)
        };
        let opened = place.open(request.clone()).await.unwrap();
        assert_eq!(opened.call_id, "mine");
        let secret = opened
            .http_path
            .strip_prefix("/ports/")
            .and_then(|path| path.strip_suffix('/'));
        assert!(secret.unwrap().len() >= 32, "{opened:?}");
        // Again it is the same one, and the call that a client left goes on.
        assert_eq!(place.open(request.clone()).await.unwrap(), opened);
        let other = OpenPortRequest {
            port: target.port - 1,
            ..request.clone()
        };
        refused(place.open(other).await, Code::AlreadyExists, "CALL_ID_TAKEN");
        let mut connection = place.connect("mine", b"Eabc").await.unwrap();
        connection.finish();
        assert_eq!(connection.rest().await.unwrap(), b"abc3 bytes");
        let running = place.server.get("mine").await;
        assert_eq!((running.tool.as_str(), running.state()), ("port", CallState::Running));
        place.server.cancel("mine").await;
        let call = ended(&place.server, "mine").await;
        let result = completed(&call);
        let metadata = json_of(result.metadata.as_ref().unwrap());
        let expected = json!({
            "call": target.call, "port": target.port, "connections": 1, "bytesSent": 4, "bytesReceived": 10,
        });
        for (key, value) in expected.as_object().unwrap() {
            assert_eq!(
                serde_json::from_str::<f64>(&metadata[key].to_string()).ok(),
                serde_json::from_str::<f64>(&value.to_string()).ok(),
                "{key}: {metadata}"
            );
        }
        assert_eq!(metadata["call"], target.call);
        refused(place.open(request).await, Code::FailedPrecondition, "PORT_CLOSED");
        refused(
            place.connect("mine", b"").await.map(drop),
            Code::FailedPrecondition,
            "PORT_CLOSED",
        );
        // It is not the last one.
        assert_ne!(place.opened(&target).await.http_path, opened.http_path);
        place.server.assert_calm();
    });
}

#[test]
fn rules_and_people_decide_what_is_opened() {
    test(async {
        let place = Place::ruled(json!({"*": "allow", "port": {"*": "ask", "9": "allow"}})).await;
        let target = place.serve("talk").await;
        let waits = OpenPortRequest {
            call: Some(CallStart {
                unattended: Unattended::Wait.into(),
                ..Default::default()
            }),
            ..open(&target)
        };
        // Nobody is there.
        refused(
            place.open(open(&target)).await,
            Code::PermissionDenied,
            "PERMISSION_NEEDED",
        );
        let input = json!({"call": target.call, "port": target.port});
        let evaluation = evaluated(&place.server, request("port", input)).await.unwrap();
        let mut approver = Approver::open(place.server.connect().await, "ann").await.unwrap();
        for (decision, outcome) in [
            (PromptDecision::Once, ""),
            (PromptDecision::Reject, "REJECTED"),
            (PromptDecision::Always, ""),
        ] {
            let (opened, prompt) = tokio::join!(place.open(waits.clone()), async {
                let prompt = approver.added().await;
                approver.send(reply(&prompt, decision)).await;
                prompt
            });
            let Some(prompt::Request::Permission(asked)) = prompt.request.clone() else {
                panic!("{prompt:?}")
            };
            assert_eq!((asked.permission.as_str(), prompt.tool.as_str()), ("port", "port"));
            assert_eq!(asked.patterns, [target.port.to_string()]);
            assert!(asked.title.contains("serve.py talk"), "{asked:?}");
            let shown = json_of(asked.metadata.as_ref().unwrap());
            assert_eq!(shown["call"], target.call);
            assert_eq!(shown["address"], "127.0.0.1");
            assert!(shown["pid"].as_f64().unwrap() > 1.0);
            let Some(evaluated_request::Request::Permission(foreseen)) = &evaluation.requests[0].request else {
                panic!("{evaluation:?}")
            };
            assert_eq!(evaluation.requests.len(), 1);
            assert_eq!(
                (&foreseen.patterns, &foreseen.metadata, &foreseen.title),
                (&asked.patterns, &asked.metadata, &asked.title)
            );
            match outcome {
                "" => drop(opened.unwrap()),
                reason => drop(refused(opened, Code::PermissionDenied, reason)),
            }
        }
        // From now on it is allowed.
        place.opened(&target).await;
        let place = Place::ruled(json!({"*": "allow", "port": "deny"})).await;
        let target = place.serve("talk").await;
        refused(
            place.open(open(&target)).await,
            Code::PermissionDenied,
            "DENIED_BY_RULE",
        );
        // A rule that names the port.
        let place = Place::ruled(json!({"*": "allow", "port": {"*": "deny", "23456": "allow"}})).await;
        let target = place.serve("talk 23456").await;
        place.opened(&target).await;
        assert!(!place.server.log().contains("no permission"), "the rule is known");
    });
}

#[test]
fn a_client_that_goes_away_before_the_answer_takes_the_question_with_it() {
    test(async {
        let place = Place::ruled(json!({"*": "allow", "port": "ask"})).await;
        let target = place.serve("talk").await;
        let mut approver = Approver::open(place.server.connect().await, "ann").await.unwrap();
        let request = OpenPortRequest {
            call: Some(CallStart {
                call_id: "left".to_owned(),
                unattended: Unattended::Wait.into(),
                ..Default::default()
            }),
            ..open(&target)
        };
        let opening = place.open(request);
        let prompt = tokio::select! {
            opened = opening => panic!("{opened:?}"),
            prompt = approver.added() => prompt,
        };
        assert_eq!(prompt.call_id, "left");
        let call = ended(&place.server, "left").await;
        assert_eq!(failed(&call).reason(), FailureReason::Cancelled);
    });
}

#[test]
fn only_ports_of_the_call_are_opened() {
    test(async {
        let place = Place::with(Setup {
            tcp: true,
            more: vec!["other"],
            ..Setup::permission(json!({"*": "allow"}))
        })
        .await;
        let own = place.serve("talk").await;
        let others = place.serve("web").await;
        let of = |call: &str, port: i32| OpenPortRequest {
            call_id: call.to_owned(),
            port,
            ..Default::default()
        };
        let service: i32 = place
            .server
            .tcp
            .as_ref()
            .unwrap()
            .rsplit(':')
            .next()
            .unwrap()
            .parse()
            .unwrap();
        for port in [others.port, service, 1] {
            refused(
                place.open(of(&own.call, port)).await,
                Code::FailedPrecondition,
                "NOT_LISTENING",
            );
        }
        for port in [0, -1, 65536] {
            refused(
                place.open(of(&own.call, port)).await,
                Code::InvalidArgument,
                "INVALID_FIELD",
            );
        }
        refused(place.open(of("nobody", own.port)).await, Code::NotFound, "NOT_FOUND");
        refused(
            place.open(of("", own.port)).await,
            Code::InvalidArgument,
            "INVALID_FIELD",
        );
        let elsewhere = |workspace: &str| OpenPortRequest {
            call: Some(CallStart {
                context: Some(CallContext {
                    workspace: workspace.to_owned(),
                    ..Default::default()
                }),
                ..Default::default()
            }),
            ..open(&own)
        };
        refused(place.open(elsewhere("other")).await, Code::NotFound, "NOT_FOUND");
        refused(place.open(elsewhere("nowhere")).await, Code::NotFound, "NOT_FOUND");
        // The tool itself finds no call of another workspace either.
        let mut direct = request("port", json!({"call": own.call, "port": own.port}));
        direct.context = elsewhere("other").call.unwrap().context;
        let call = run(&mut place.server.tools(), run_request(direct)).await.unwrap();
        assert!(failed(&call).error.contains("no call"), "{call:?}");
        // In that workspace, a call of its own is reached, without naming it.
        let there = place.serve_in("other", "talk").await;
        let opened = place.opened(&there).await;
        let context = place.server.get(&opened.call_id).await.context.unwrap();
        assert_eq!(context.workspace, "other");
    });
}

#[test]
fn a_program_that_moved_on_is_not_followed_to_another() {
    test(async {
        let place = Place::new().await;
        let target = place.serve("talk").await;
        let opened = place.opened(&target).await;
        let request = SignalCallRequest {
            call_id: target.call.clone(),
            signal: toolgate_contract::Signal::Term.into(),
        };
        place.server.tools().signal_call(request).await.unwrap();
        ended(&place.server, &target.call).await;
        // Another call takes the port.
        let other = place.serve(&format!("talk {}", target.port)).await;
        assert_eq!(other.port, target.port);
        let connected = place.connect(&opened.call_id, b"B").await.map(drop);
        let status = connected.unwrap_err();
        assert_eq!(status.code(), Code::FailedPrecondition, "{status:?}");
        let call = ended(&place.server, &opened.call_id).await;
        assert!(completed(&call).output.contains("Connections: 0"), "{call:?}");
        // The program of the call comes back: a server for development that starts itself anew.
        let script = place.server.work().join("serve.py");
        let again = format!("for i in 1 2; do timeout 2 python3 {} talk 0; done", script.display());
        let again = again.replace("talk 0", &format!("talk {}", free_port()));
        let request = kept("again", request_of(&again));
        let mut stream = place.server.tools().execute_tool(request).await.unwrap().into_inner();
        next_such(&mut stream, is_output).await;
        let port = listening(&place.server, "again").await[0].port;
        let again = Target {
            call: "again".to_owned(),
            port,
        };
        let opened = place.opened(&again).await;
        next_such(&mut stream, is_output).await;
        let mut connection = place.connect(&opened.call_id, b"B").await.unwrap();
        assert_eq!(connection.rest().await.unwrap(), b"bye");
    });
}

fn request_of(command: &str) -> ExecuteToolRequest {
    request("background", json!({"command": command, "description": "a test"}))
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

#[test]
fn a_port_does_not_come_back_by_itself() {
    test(async {
        let mut place = Place::new().await;
        let target = place.serve("talk").await;
        let opened = place.opened(&target).await;
        place.server.kill9().await;
        place.server.restart().await;
        place.client = PortServiceClient::new(place.server.channel());
        let call = ended(&place.server, &opened.call_id).await;
        assert_eq!(failed(&call).reason(), FailureReason::Lost);
        refused(
            place.connect(&opened.call_id, b"").await.map(drop),
            Code::FailedPrecondition,
            "PORT_CLOSED",
        );
    });
}
