//! Hosts that are broken or mean no good: the service, and everybody else in it, goes on.

use std::collections::BTreeMap;

use prost_types::value::Kind;
use prost_types::{Struct, Value};

use super::*;

async fn healthy(server: &Server) {
    let call = tokio::time::timeout(SOON, server.run("glob", json!({ "pattern": "*" }))).await;
    completed(&call.expect("others are not held up"));
}

fn text(text: &str) -> Value {
    Value {
        kind: Some(Kind::StringValue(text.to_owned())),
    }
}

fn metadata(key: &str, bytes: usize) -> Struct {
    Struct {
        fields: BTreeMap::from([(key.to_owned(), text(&"x".repeat(bytes)))]),
    }
}

#[test]
fn what_a_host_says_wrongly_ends_its_stream_only() {
    test(async {
        let mut server = Server::start().await;
        let bad_first = |message: Option<Message>| {
            let (requests, outgoing) = tokio::sync::mpsc::channel(4);
            requests.try_send(HostRequest { message }).unwrap();
            let mut client = HostServiceClient::new(server.channel());
            async move {
                client
                    .host(tokio_stream::wrappers::ReceiverStream::new(outgoing))
                    .await
                    .map(drop)
            }
        };
        let report = Message::Report(HostReport::default());
        for first in [None, Some(report), Some(Message::Hello(HostHello::default()))] {
            refused(bad_first(first).await, Code::InvalidArgument, "INVALID_FIELD");
        }
        let elsewhere = HostHello {
            workspace: "elsewhere".to_owned(),
            ..hello("app", &[])
        };
        refused(
            bad_first(Some(Message::Hello(elsewhere))).await,
            Code::NotFound,
            "NOT_FOUND",
        );

        let huge = HostCompleted {
            metadata: Some(metadata("k", 300 * 1024)),
            ..HostCompleted::default()
        };
        let too_long = HostCompleted {
            output: Some("x".repeat(40 << 20)),
            ..HostCompleted::default()
        };
        let not_json = HostHookResult {
            output_json: "[".to_owned(),
        };
        let no_id = HostAsk::default();
        let of_hook = HostHookResult {
            output_json: "{}".to_owned(),
        };
        let wrong = [
            (Some(Report::Completed(huge)), Code::InvalidArgument),
            (Some(Report::HookResult(not_json)), Code::InvalidArgument),
            (Some(Report::HookResult(of_hook)), Code::InvalidArgument),
            (Some(Report::Ask(no_id)), Code::InvalidArgument),
            (Some(Report::Completed(too_long)), Code::OutOfRange),
            (None, Code::InvalidArgument),
        ];
        let mut token = String::new();
        for (index, (report, code)) in wrong.into_iter().enumerate() {
            let again = HostHello {
                token: token.clone(),
                ..hello("app", &["crm"])
            };
            let mut host = LendingHost::open(server.connect().await, again).await.unwrap();
            assert_eq!(host.welcome.resumed, index > 0, "a broken stream is a lost one");
            token.clone_from(&host.welcome.token);
            if index == 0 {
                begin(&server, call_of("crm", "c")).await;
            }
            let id = host.invoked().await.invocation_id;
            host.say(Message::Report(HostReport {
                invocation_id: id,
                report,
            }))
            .await;
            assert_eq!(host.next().await.unwrap_err().code(), code, "{index}");
            healthy(&server).await;
        }
        server.stop().await;
    });
}

#[test]
fn floods_are_bounded() {
    test(async {
        let mut server = Server::start().await;
        let mut host = LendingHost::open(server.connect().await, hello("app", &["crm"]))
            .await
            .unwrap();
        for index in 0..2000 {
            host.complete(&format!("i{index}"), "nobody asked").await;
            host.complete("nonsense", "nobody asked").await;
        }
        healthy(&server).await;
        begin(&server, call_of("crm", "c")).await;
        let id = host.invoked().await.invocation_id;
        for index in 0..5000 {
            let progress = HostProgress {
                title: Some(format!("{index}")),
                metadata: Some(metadata(&format!("{}", index % 7), 1000)),
            };
            host.report(&id, Report::Progress(progress)).await;
        }
        let mut cheat = metadata("truncated", 1);
        cheat.fields.insert("fine".to_owned(), text("yes"));
        let completed_with = HostCompleted {
            title: "t".to_owned(),
            output: Some("line\n".repeat(5000)),
            metadata: Some(cheat),
            attachments: Vec::new(),
        };
        host.report(&id, Report::Completed(completed_with)).await;
        let log = server.watch("c", 0).await.unwrap();
        let shown = log
            .iter()
            .filter(|event| matches!(event.event, Some(call_event::Event::Metadata(_))));
        assert!(shown.count() < 2000, "progress is merged");
        let record = server.get("c").await;
        let done = completed(&record);
        assert!(
            done.truncation.as_ref().unwrap().truncated,
            "a host does not say what is cut"
        );
        assert!(done.metadata.as_ref().unwrap().fields.contains_key("fine"));
        assert!(server.log().contains("reports on invocations that are not open"));
        healthy(&server).await;
        server.stop().await;
    });
}

#[test]
fn a_host_that_does_not_read_is_its_own_problem() {
    test(async {
        let mut server = Server::start().await;
        let host = LendingHost::open(server.connect().await, hello("deaf", &["crm"]))
            .await
            .unwrap();
        let big = "x".repeat(512 * 1024);
        for index in 0..16 {
            let request = kept(&format!("c{index}"), request("crm", json!({ "text": big })));
            begin(&server, request).await;
        }
        healthy(&server).await;
        for index in 0..16 {
            let request = CancelCallRequest {
                call_id: format!("c{index}"),
            };
            let cancelling = server.tools();
            let cancelled = tokio::time::timeout(SOON, async move { cancelling.clone().cancel_call(request).await });
            cancelled.await.expect("at once").unwrap();
        }
        drop(host);
        server.stop().await;
    });
}

#[test]
fn metadata_is_bounded_however_much_is_reported() {
    test(async {
        let mut server = Server::start().await;
        let mut host = LendingHost::open(server.connect().await, hello("app", &["crm"]))
            .await
            .unwrap();
        begin(&server, call_of("crm", "c")).await;
        let id = host.invoked().await.invocation_id;
        let mut shown = server
            .tools()
            .watch_call(watch_request("c", 0, OutputMode::None))
            .await
            .unwrap()
            .into_inner();
        for index in 0..40 {
            let progress = HostProgress {
                title: Some(format!("{index}")),
                metadata: Some(metadata(&format!("k{index}"), 60 * 1024)),
            };
            host.report(&id, Report::Progress(progress)).await;
            // One after the other, so that none is merged with the next.
            let title = Some(format!("{index}"));
            loop {
                let event = shown.message().await.unwrap().unwrap().event.unwrap().event;
                if matches!(event, Some(call_event::Event::Metadata(shown)) if shown.title == title) {
                    break;
                }
            }
        }
        host.complete(&id, "done").await;
        let log = server.watch("c", 0).await.unwrap();
        let warnings = log.iter().filter_map(|event| match &event.event {
            Some(call_event::Event::Warning(warning)) => Some(warning.kind()),
            _ => None,
        });
        assert_eq!(warnings.collect::<Vec<_>>(), [WarningKind::MetadataLeftOut]);
        let record = server.get("c").await;
        let fields = &completed(&record).metadata.as_ref().unwrap().fields;
        let kept = (0..40)
            .filter(|index| fields.contains_key(&format!("k{index}")))
            .count();
        assert!((10..20).contains(&kept), "{kept}");
        server.stop().await;
    });
}

#[test]
fn a_host_that_leaves_and_says_hello_is_gone() {
    test(async {
        let mut server = Server::start().await;
        let mut host = LendingHost::open(server.connect().await, hello("app", &["crm"]))
            .await
            .unwrap();
        host.report("", Report::Leave(HostLeave {})).await;
        host.say(Message::Hello(hello("app", &["ghost"]))).await;
        let end = host.next().await.unwrap_err();
        assert!(matches!(end.code(), Code::Ok | Code::Aborted), "{end:?}");
        assert!(!offers(&server, "ghost").await && !offers(&server, "crm").await);
        server.stop().await;
    });
}

#[test]
fn what_is_nested_deeply_breaks_no_reader() {
    test(async {
        let mut server = Server::with(Setup::permission(json!({ "deep": "ask" }))).await;
        let mut host = LendingHost::open(server.connect().await, hello("app", &["crm"]))
            .await
            .unwrap();
        begin(&server, call_of("crm", "c")).await;
        let id = host.invoked().await.invocation_id;
        // Deeper than what is shown, and not yet too deep for a message of a host.
        let mut deep = Struct::default();
        for _ in 0..29 {
            let kind = Some(Kind::StructValue(deep));
            deep = Struct {
                fields: BTreeMap::from([("a".to_owned(), Value { kind })]),
            };
        }
        let request = HostAsk {
            ask_id: "one".to_owned(),
            permission: "deep".to_owned(),
            metadata: Some(deep),
            ..HostAsk::default()
        };
        host.report(&id, Report::Ask(request)).await;
        let asked = prompted(&server, "c").await;
        let approver = Approver::open(server.channel(), "approver").await.unwrap();
        assert_eq!(approver.snapshot.first(), Some(&asked));
        decide(&server, &asked, PromptDecision::Once).await;
        assert!(matches!(host.next().await.unwrap(), Event::AskResult(result) if result.allowed));
        host.complete(&id, "done").await;
        assert_eq!(output(end(&server, "c").await), "done");
        server.stop().await;
    });
}

#[test]
fn a_schema_that_unfolds_without_end_is_refused() {
    test(async {
        let mut server = Server::start().await;
        let chain = |length: usize, times: usize| {
            let next = |at: usize| json!({"$ref": format!("#/$defs/n{}", at + 1)});
            let definitions: serde_json::Map<String, serde_json::Value> = (0..length)
                .map(|at| (format!("n{at}"), json!({"allOf": vec![next(at); times]})))
                .chain([(format!("n{length}"), json!({"type": "string"}))])
                .collect();
            json!({"properties": {"text": {"$ref": "#/$defs/n0"}}, "$defs": definitions}).to_string()
        };
        let mut lends = hello("app", &["wide", "deep", "plain"]);
        lends.tools[0].input_schema_json = chain(40, 2);
        lends.tools[1].input_schema_json = chain(4000, 1);
        lends.tools[2].input_schema_json = chain(10, 2);
        let mut host = LendingHost::open(server.connect().await, lends).await.unwrap();
        let refused: Vec<&str> = host.welcome.refused.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(refused, ["wide", "deep"], "{:?}", host.welcome.refused);
        assert!(host.welcome.refused.iter().all(|it| it.reason.contains("unfolds")));
        begin(&server, call_of("plain", "c")).await;
        let id = host.invoked().await.invocation_id;
        host.complete(&id, "done").await;
        assert_eq!(output(end(&server, "c").await), "done");
        server.stop().await;
    });
}

#[test]
fn a_schema_of_an_older_draft_is_taken() {
    test(async {
        let mut server = Server::start().await;
        let mut lends = hello("app", &["pair"]);
        let pair = json!({"type": "array", "items": [{"type": "string"}, {"type": "int"}], "additionalItems": false});
        lends.tools[0].input_schema_json =
            json!({"type": "object", "properties": {"pair": pair}, "required": ["pair"]}).to_string();
        let mut host = LendingHost::open(server.connect().await, lends).await.unwrap();
        assert_eq!(host.welcome.refused, []);
        let listed = server.tools().list_tools(ListToolsRequest::default()).await.unwrap();
        let tools = listed.into_inner().tools;
        let tool = tools.iter().find(|tool| tool.name == "pair").unwrap();
        let schema: serde_json::Value = serde_json::from_str(&tool.input_schema_json).unwrap();
        let expected =
            json!({"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": false});
        assert_eq!(schema["properties"]["pair"], expected);
        let info = server.info().get_server_info(GetServerInfoRequest {}).await.unwrap();
        let sources = info.into_inner().workspaces.remove(0).tool_sources;
        assert!(sources[0].problem.contains("prefixItems"), "{sources:?}");

        // Calls are checked by what the model is told.
        let wrong = server.run("pair", json!({"pair": ["a", "b"]})).await;
        assert_eq!(failed(&wrong).reason(), FailureReason::InvalidArguments);
        let call = kept("c", request("pair", json!({"pair": ["a", 1]})));
        begin(&server, call).await;
        let id = host.invoked().await.invocation_id;
        host.complete(&id, "done").await;
        assert_eq!(output(end(&server, "c").await), "done");
        server.stop().await;
    });
}
