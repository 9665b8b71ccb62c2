//! `process.v1.ProcessService`, by messages of its own.

use std::collections::HashMap;

use prost::{Message, Oneof};
use tokio_stream::StreamExt as _;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;
use tonic::{Code, Request, Status, Streaming};
use tonic_prost::ProstCodec;
use toolgate_contract::*;

use super::served;
use crate::gateway::setup::{ANNA, BEN, CARL, DORA, Fleet, answer};
use crate::support::*;

/// A way to a service or a gateway.
type Way = InterceptedService<Channel, Shown>;

/// Shows a token, and names a workspace.
#[derive(Clone)]
struct Shown(&'static str, &'static str);

impl Interceptor for Shown {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        let Self(token, workspace) = *self;
        let metadata = request.metadata_mut();
        if !token.is_empty() {
            metadata.insert("authorization", format!("Bearer {token}").parse().unwrap());
        }
        if !workspace.is_empty() {
            metadata.insert("toolgate-workspace", workspace.parse().unwrap());
        }
        Ok(request)
    }
}

fn to(channel: Channel, token: &'static str, workspace: &'static str) -> Way {
    InterceptedService::new(channel, Shown(token, workspace))
}

#[derive(Clone, PartialEq, Message)]
struct Config {
    #[prost(string, repeated, tag = "1")]
    command: Vec<String>,
    #[prost(map = "string, string", tag = "2")]
    env_vars: HashMap<String, String>,
    #[prost(string, optional, tag = "3")]
    cwd: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct Pty {
    #[prost(uint32, tag = "1")]
    cols: u32,
    #[prost(uint32, tag = "2")]
    rows: u32,
}

#[derive(Clone, PartialEq, Message)]
struct Wanted {
    #[prost(message, optional, tag = "1")]
    config: Option<Config>,
    #[prost(message, optional, tag = "2")]
    pty: Option<Pty>,
}

#[derive(Clone, PartialEq, Message)]
struct Executed {
    #[prost(int32, tag = "1")]
    exit_code: i32,
    #[prost(bytes = "vec", tag = "2")]
    stdout: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    stderr: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct Number {
    #[prost(int32, tag = "1")]
    number: i32,
}

#[derive(Clone, PartialEq, Message)]
struct Happened {
    #[prost(oneof = "Event", tags = "1, 2, 3, 4")]
    event: Option<Event>,
}

#[derive(Clone, PartialEq, Oneof)]
enum Event {
    #[prost(message, tag = "1")]
    Init(Number),
    #[prost(bytes = "vec", tag = "2")]
    Stdout(Vec<u8>),
    #[prost(bytes = "vec", tag = "3")]
    Stderr(Vec<u8>),
    #[prost(message, tag = "4")]
    Exit(Number),
}

#[derive(Clone, PartialEq, Message)]
struct Nothing {}

/// Input, a signal (`2`) or the size of a terminal (`2`, `3`) for a process.
#[derive(Clone, PartialEq, Message)]
struct Input {
    #[prost(int32, tag = "1")]
    process: i32,
    #[prost(bytes = "vec", optional, tag = "2")]
    data: Option<Vec<u8>>,
    #[prost(message, optional, tag = "3")]
    eof: Option<Nothing>,
}

#[derive(Clone, PartialEq, Message)]
struct Numbers {
    #[prost(int32, tag = "1")]
    process: i32,
    #[prost(uint32, tag = "2")]
    first: u32,
    #[prost(uint32, tag = "3")]
    second: u32,
}

fn config(command: &[&str]) -> Config {
    Config {
        command: command.iter().map(|word| (*word).to_owned()).collect(),
        ..Config::default()
    }
}

fn shell(line: &str) -> Wanted {
    Wanted {
        config: Some(config(&["/bin/sh", "-c", line])),
        pty: None,
    }
}

fn path(name: &str) -> PathAndQuery {
    format!("/process.v1.ProcessService/{name}").parse().unwrap()
}

async fn unary<Q, A>(channel: &Way, name: &str, message: Q) -> Result<A, Status>
where
    Q: Message + Default + 'static,
    A: Message + Default + 'static,
{
    let mut grpc = Grpc::new(channel.clone()).max_decoding_message_size(8 << 20);
    grpc.ready().await.unwrap();
    let codec = ProstCodec::<Q, A>::default();
    let answer = grpc.unary(Request::new(message), path(name), codec).await?;
    Ok(answer.into_inner())
}

async fn execute(channel: &Way, wanted: Wanted) -> Result<Executed, Status> {
    unary(channel, "Execute", wanted).await
}

/// A process, and what happens to it.
struct Started {
    id: i32,
    events: Streaming<Happened>,
}

impl Started {
    async fn new(channel: &Way, wanted: Wanted) -> Self {
        let mut grpc = Grpc::new(channel.clone());
        grpc.ready().await.unwrap();
        let codec = ProstCodec::<Wanted, Happened>::default();
        let events = grpc.server_streaming(Request::new(wanted), path("Start"), codec).await;
        let mut events = events.unwrap().into_inner();
        let Some(Event::Init(Number { number: id })) = events.message().await.unwrap().unwrap().event else {
            panic!("the first event says which process it is");
        };
        Self { id, events }
    }

    /// Reads until a text was printed.
    async fn until(&mut self, text: &str) -> String {
        let mut printed = String::new();
        while !printed.contains(text) {
            match self.events.message().await.unwrap().and_then(|happened| happened.event) {
                Some(Event::Stdout(bytes)) => printed.push_str(&String::from_utf8_lossy(&bytes)),
                other => panic!("{other:?} after {printed:?}"),
            }
        }
        printed
    }

    /// Reads to the end; returns what was printed, and the exit code.
    async fn end(mut self) -> Result<(String, i32), Status> {
        let (mut printed, mut exit) = (String::new(), None);
        while let Some(happened) = self.events.next().await {
            match happened?.event {
                Some(Event::Stdout(bytes)) => printed.push_str(&String::from_utf8_lossy(&bytes)),
                Some(Event::Exit(code)) => exit = Some(code.number),
                other => panic!("{other:?}"),
            }
        }
        Ok((printed, exit.expect("an exit code")))
    }
}

#[test]
fn a_command_runs_to_its_end() {
    test(async {
        let server = served().await;
        let channel = to(server.channel(), "", "");
        let ran = execute(&channel, shell("printf 'a\\377b'; exit 7")).await.unwrap();
        assert_eq!(
            (ran.exit_code, ran.stdout.as_slice()),
            (7, b"a\xffb".as_slice()),
            "{ran:?}"
        );
        std::fs::create_dir(server.work().join("sub")).unwrap();
        let mut wanted = shell("pwd; echo $GREETING");
        if let Some(config) = &mut wanted.config {
            config.cwd = Some("/sub".to_owned());
            config.env_vars = [("GREETING".to_owned(), "hi".to_owned())].into();
        }
        let ran = execute(&channel, wanted).await.unwrap();
        let folder = server.work().canonicalize().unwrap().join("sub");
        assert_eq!(
            String::from_utf8(ran.stdout).unwrap(),
            format!("{}\nhi\n", folder.display())
        );
        let words = Wanted {
            config: Some(config(&["printf", "%s|", "a b", "$HOME"])),
            pty: None,
        };
        assert_eq!(execute(&channel, words).await.unwrap().stdout, b"a b|$HOME|");
        let calls = super::commands(&server).await;
        assert!(
            calls.iter().any(|call| call.summary == "pwd; echo $GREETING"),
            "{calls:?}"
        );
        for (wanted, code) in [
            (shell("forbidden"), Code::PermissionDenied),
            (shell("forbidden it; true"), Code::PermissionDenied),
            (Wanted::default(), Code::InvalidArgument),
        ] {
            let refused = execute(&channel, wanted).await.unwrap_err();
            assert_eq!(refused.code(), code, "{refused:?}");
        }
        let unknown = unary::<_, Nothing>(&channel, "Restart", Nothing {}).await.unwrap_err();
        assert_eq!(unknown.code(), Code::Unimplemented);
    });
}

#[test]
fn a_process_takes_input_and_signals() {
    test(async {
        let server = served().await;
        let channel = to(server.channel(), "", "");
        let started = Started::new(&channel, shell("read line; echo got $line; cat; exit 4")).await;
        let send = async |data: Option<&str>| {
            let input = Input {
                process: started.id,
                data: data.map(|data| data.as_bytes().to_vec()),
                eof: data.is_none().then_some(Nothing {}),
            };
            unary::<_, Nothing>(&channel, "WriteStdin", input).await.unwrap()
        };
        send(Some("first\n")).await;
        send(Some("second")).await;
        send(None).await;
        let id = started.id;
        let (printed, code) = started.end().await.unwrap();
        assert_eq!((printed.as_str(), code), ("got first\nsecond", 4));
        let gone = Input {
            process: id,
            ..Input::default()
        };
        let gone = unary::<_, Nothing>(&channel, "WriteStdin", gone).await.unwrap_err();
        assert_eq!(gone.code(), Code::NotFound);
        for (signal, line, expected) in [
            (
                15,
                "trap 'echo caught; exit 5' TERM; echo ready; while :; do sleep 0.05; done",
                5,
            ),
            (9, "echo ready; sleep 600", 137),
        ] {
            let mut started = Started::new(&channel, shell(line)).await;
            started.until("ready").await;
            let signal = Numbers {
                process: started.id,
                first: signal,
                second: 0,
            };
            unary::<_, Nothing>(&channel, "SendSignal", signal).await.unwrap();
            assert_eq!(started.end().await.unwrap().1, expected, "{line}");
        }
        server.assert_calm();
    });
}

#[test]
fn a_process_has_a_terminal() {
    test(async {
        let server = served().await;
        let channel = to(server.channel(), "", "");
        let wanted = Wanted {
            pty: Some(Pty { cols: 100, rows: 30 }),
            ..shell("stty size; read x; stty size")
        };
        let mut started = Started::new(&channel, wanted).await;
        started.until("30 100").await;
        let size = Numbers {
            process: started.id,
            first: 120,
            second: 40,
        };
        unary::<_, Nothing>(&channel, "ResizeTTY", size).await.unwrap();
        let input = Input {
            process: started.id,
            data: Some(b"\n".to_vec()),
            eof: None,
        };
        unary::<_, Nothing>(&channel, "WriteStdin", input).await.unwrap();
        let (printed, _) = started.end().await.unwrap();
        assert!(printed.contains("40 120"), "{printed:?}");
        let mut without = Started::new(&channel, shell("echo ready; sleep 600")).await;
        without.until("ready").await;
        let size = Numbers {
            process: without.id,
            first: 80,
            second: 24,
        };
        let refused = unary::<_, Nothing>(&channel, "ResizeTTY", size).await.unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition);
        // Whoever leaves takes the program along.
        drop(without);
        eventually("the call is cancelled", async || {
            let request = ListCallsRequest {
                tools: vec!["background".to_owned()],
                ..ListCallsRequest::default()
            };
            let calls = server.tools().list_calls(request).await.unwrap().into_inner().calls;
            calls.len() == 2 && calls.iter().all(|call| call.ending.is_some())
        })
        .await;
    });
}

#[test]
fn a_process_waits_for_a_person() {
    test(async {
        let server = served().await;
        let channel = to(server.channel(), "", "");
        let mut approver = Approver::open(server.channel(), "ann").await.unwrap();
        for (decision, expected) in [(PromptDecision::Once, Some(0)), (PromptDecision::Reject, None)] {
            let started = Started::new(&channel, shell("touch it")).await;
            let prompt = approver.added().await;
            assert!(approver.send(reply(&prompt, decision)).await);
            match (started.end().await, expected) {
                (Ok((_, code)), Some(expected)) => assert_eq!(code, expected),
                (Err(status), None) => assert_eq!(status.code(), Code::PermissionDenied, "{status:?}"),
                (ended, _) => panic!("{ended:?}"),
            }
        }
    });
}

#[test]
fn a_process_runs_behind_a_gateway() {
    test(async {
        let mut fleet = Fleet::with_both("", "listen.agent_sandbox = true").await;
        let channel = fleet.channel.clone();
        let way = |token, workspace| to(channel.clone(), token, workspace);
        for (token, workspace, folder) in [(ANNA, "", "a/own"), (ANNA, "wc", "c/own"), (BEN, "", "b/own")] {
            let way = way(token, workspace);
            let ran = execute(&way, shell("pwd; exit 3")).await.unwrap();
            let expected = format!("{}\n", fleet.path(folder).display());
            assert_eq!((ran.exit_code, String::from_utf8(ran.stdout).unwrap()), (3, expected));
            let wanted = Wanted {
                pty: Some(Pty { cols: 100, rows: 30 }),
                ..shell("stty size; read line; stty size; echo got $line; exit 4")
            };
            let mut started = Started::new(&way, wanted).await;
            started.until("30 100").await;
            let size = Numbers {
                process: started.id,
                first: 120,
                second: 40,
            };
            unary::<_, Nothing>(&way, "ResizeTTY", size).await.unwrap();
            let input = Input {
                process: started.id,
                data: Some(b"this\n".to_vec()),
                eof: None,
            };
            unary::<_, Nothing>(&way, "WriteStdin", input).await.unwrap();
            let (printed, code) = started.end().await.unwrap();
            assert!(
                printed.contains("40 120") && printed.contains("got this"),
                "{printed:?}"
            );
            assert_eq!(code, 4);
            let mut started = Started::new(&way, shell("echo ready; sleep 600")).await;
            started.until("ready").await;
            let signal = Numbers {
                process: started.id,
                first: 9,
                second: 0,
            };
            unary::<_, Nothing>(&way, "SendSignal", signal).await.unwrap();
            assert_eq!(started.end().await.unwrap().1, 137);
        }
        for (token, workspace, code) in [
            (DORA, "wa", Code::PermissionDenied),
            (BEN, "wa", Code::NotFound),
            ("nobody-nobody-nobody", "", Code::Unauthenticated),
        ] {
            let refused = execute(&way(token, workspace), shell("true")).await.unwrap_err();
            assert_eq!(refused.code(), code, "{refused:?}");
        }
        // What asks waits for a person, who answers at the gateway.
        let asking = Started::new(&way(ANNA, "wa"), shell("echo ask 1")).await;
        let request = ListPromptsRequest {
            filter: Some(everybody()),
            ..ListPromptsRequest::default()
        };
        let mut open = Vec::new();
        eventually("it is asked", async || {
            let listed = fleet.prompts(CARL).list_prompts(request.clone()).await.unwrap();
            open = listed.into_inner().prompts;
            !open.is_empty()
        })
        .await;
        assert_eq!(answer(&fleet, CARL, &open[0]).await.result(), ReplyResult::Accepted);
        assert_eq!(asking.end().await.unwrap(), ("ask 1\n".to_owned(), 0));
        // A process is its starter's, and where the worker dies nobody takes what came for all of it.
        let mut started = Started::new(&way(ANNA, "wb"), shell("echo ready; sleep 600")).await;
        started.until("ready").await;
        let input = Input {
            process: started.id,
            data: Some(b"x".to_vec()),
            eof: None,
        };
        let refused = unary::<_, Nothing>(&way(BEN, "wb"), "WriteStdin", input).await;
        assert_eq!(refused.unwrap_err().code(), Code::NotFound);
        fleet.workers[1].kill9().await;
        let ended = started.end().await.unwrap_err();
        assert_eq!(ended.code(), Code::Unavailable, "{ended:?}");
        let gone = execute(&way(ANNA, "wb"), shell("true")).await.unwrap_err();
        assert_eq!(gone.code(), Code::Unavailable, "{gone:?}");
        fleet.assert_calm();
    });
}
