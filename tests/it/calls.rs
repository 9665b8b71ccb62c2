//! Calls through the contract: identity, listing, refusals with details, the journal.

use std::collections::HashSet;

use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Value as WireValue};
use serde_json::json;
use tokio::task::JoinSet;
use tonic::Code;
use toolgate_contract::call_event::Event;
use toolgate_contract::execute_tool_request::Arguments;
use toolgate_contract::*;

use crate::support::*;

#[test]
fn one_id_is_one_execution() {
    test(async {
        let server = Server::start().await;
        for round in 0..5 {
            let id = format!("same{round}");
            let request = kept(&id, bash(&format!("echo {id} >> count; seq 1 200")));
            let mut clients = JoinSet::new();
            for _ in 0..8 {
                let (channel, request) = (server.connect().await, request.clone());
                clients.spawn(async move { collect(tools(channel).execute_tool(request).await?.into_inner()).await });
            }
            let all: Vec<_> = clients.join_all().await.into_iter().map(Result::unwrap).collect();
            check_log(0, &all[0]);
            assert!(all.iter().all(|events| *events == all[0]));
            let count = std::fs::read_to_string(server.work().join("count")).unwrap();
            assert_eq!(count.lines().filter(|line| **line == id).count(), 1);
        }
        let base = kept("same0", bash("echo same0 >> count; seq 1 200"));
        let mut others = vec![
            kept("same0", bash("true")),
            in_session("elsewhere", base.clone()),
            ExecuteToolRequest {
                tool: "read".to_owned(),
                ..base.clone()
            },
        ];
        others.push(ExecuteToolRequest {
            timeout: Some(prost_types::Duration { seconds: 5, nanos: 0 }),
            ..base
        });
        for other in others {
            let details = refused(server.execute(other).await, Code::AlreadyExists, "CALL_ID_TAKEN");
            assert_eq!(details.resource_info().unwrap().resource_name, "same0");
        }
        // While the call runs, too.
        let mut stream = server
            .tools()
            .execute_tool(kept("live", bash("echo r; sleep 86401")))
            .await
            .unwrap()
            .into_inner();
        next_such(&mut stream, is_output).await;
        refused(
            server.execute(kept("live", bash("true"))).await,
            Code::AlreadyExists,
            "CALL_ID_TAKEN",
        );
        let cancel = CancelCallRequest {
            call_id: "live".to_owned(),
        };
        server.tools().cancel_call(cancel).await.unwrap();
    });
}

#[test]
fn an_attached_start_is_no_third_call_in_a_row() {
    test(async {
        let server = Server::start().await;
        let first = in_session("s", kept("one", bash("echo same")));
        for _ in 0..3 {
            server.execute(first.clone()).await.unwrap();
        }
        let second = server
            .execute(in_session("s", kept("two", bash("echo same"))))
            .await
            .unwrap();
        assert!(
            !second
                .iter()
                .any(|event| matches!(event.event, Some(Event::Waiting(_))))
        );
        let third = in_session("s", kept("three", bash("echo same")));
        let mut stream = server.tools().execute_tool(third).await.unwrap().into_inner();
        let prompt = waiting(&mut stream).await;
        match prompt.request.clone().unwrap() {
            prompt::Request::Permission(permission) => assert_eq!(permission.permission, "doom_loop"),
            other @ prompt::Request::Questions(_) => panic!("{other:?}"),
        }
        let no = ReplyPromptRequest {
            reply: Some(reply(&prompt, PromptDecision::Reject)),
            name: String::new(),
        };
        server.permissions().reply_prompt(no).await.unwrap();
        match end_of(&collect(stream).await.unwrap()) {
            call::Ending::Failed(failed) => assert_eq!(failed.reason(), FailureReason::DoomLoop),
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn pages_hold_while_calls_start() {
    test(async {
        let server = Server::start().await;
        for index in 0..40 {
            server
                .execute(kept(&format!("old{index:02}"), bash("true")))
                .await
                .unwrap();
        }
        let mut starting = JoinSet::new();
        let mut tools = server.tools();
        starting.spawn(async move {
            for index in 0..60 {
                tools
                    .run_tool(run_request(kept(&format!("new{index:02}"), bash("true"))))
                    .await
                    .unwrap();
            }
        });
        for size in [1, 3, 7, 500] {
            let mut seen = Vec::new();
            let mut token = String::new();
            loop {
                let list = ListCallsRequest {
                    page_size: size,
                    page_token: token,
                    ..Default::default()
                };
                let page = server.tools().list_calls(list).await.unwrap().into_inner();
                assert!(page.calls.len() <= size as usize);
                seen.extend(page.calls.into_iter().map(|call| call.call_id));
                token = page.next_page_token;
                if token.is_empty() {
                    break;
                }
            }
            let unique: HashSet<&String> = seen.iter().collect();
            assert_eq!(unique.len(), seen.len(), "no call twice");
            let old: Vec<&String> = seen.iter().filter(|id| id.starts_with("old")).collect();
            let expected: Vec<String> = (0..40).rev().map(|index| format!("old{index:02}")).collect();
            assert!(old.into_iter().eq(&expected), "all old ones, newest first");
        }
        starting.join_all().await;
        let list = ListCallsRequest {
            tools: vec!["read".to_owned()],
            ..Default::default()
        };
        assert!(
            server
                .tools()
                .list_calls(list)
                .await
                .unwrap()
                .into_inner()
                .calls
                .is_empty()
        );
    });
}

fn context(workspace: &str, agent: &str, parent: &str) -> Option<CallContext> {
    Some(CallContext {
        workspace: workspace.to_owned(),
        agent: agent.to_owned(),
        parent_call_id: parent.to_owned(),
        ..Default::default()
    })
}

#[test]
fn calls_that_are_not_admitted() {
    test(async {
        let server = Server::start().await;
        let base = bash("true");
        let duration = |seconds, nanos| Some(prost_types::Duration { seconds, nanos });
        let cases: Vec<(&str, ExecuteToolRequest, Code, &str)> = vec![
            (
                "id",
                ExecuteToolRequest {
                    call_id: "a b".into(),
                    ..base.clone()
                },
                Code::InvalidArgument,
                "INVALID_FIELD",
            ),
            (
                "id",
                ExecuteToolRequest {
                    call_id: "x".repeat(129),
                    ..base.clone()
                },
                Code::InvalidArgument,
                "INVALID_FIELD",
            ),
            (
                "id",
                ExecuteToolRequest {
                    call_id: "a\0".into(),
                    ..base.clone()
                },
                Code::InvalidArgument,
                "INVALID_FIELD",
            ),
            (
                "tool",
                ExecuteToolRequest {
                    tool: String::new(),
                    ..base.clone()
                },
                Code::InvalidArgument,
                "INVALID_FIELD",
            ),
            (
                "tool",
                ExecuteToolRequest {
                    tool: "x".repeat(257),
                    ..base.clone()
                },
                Code::InvalidArgument,
                "INVALID_FIELD",
            ),
            (
                "time",
                ExecuteToolRequest {
                    timeout: duration(-1, 0),
                    ..base.clone()
                },
                Code::InvalidArgument,
                "INVALID_FIELD",
            ),
            (
                "time",
                ExecuteToolRequest {
                    timeout: duration(0, 0),
                    ..base.clone()
                },
                Code::InvalidArgument,
                "INVALID_FIELD",
            ),
            (
                "time",
                ExecuteToolRequest {
                    timeout: duration(1, -1),
                    ..base.clone()
                },
                Code::InvalidArgument,
                "INVALID_FIELD",
            ),
            (
                "time",
                ExecuteToolRequest {
                    timeout: duration(i64::MAX, 0),
                    ..base.clone()
                },
                Code::InvalidArgument,
                "INVALID_FIELD",
            ),
            (
                "enum",
                ExecuteToolRequest {
                    on_disconnect: 77,
                    ..base.clone()
                },
                Code::InvalidArgument,
                "INVALID_FIELD",
            ),
            (
                "enum",
                ExecuteToolRequest {
                    output: -5,
                    ..base.clone()
                },
                Code::InvalidArgument,
                "INVALID_FIELD",
            ),
            (
                "agent",
                ExecuteToolRequest {
                    context: context("", "nobody", ""),
                    ..base.clone()
                },
                Code::InvalidArgument,
                "INVALID_FIELD",
            ),
            (
                "workspace",
                ExecuteToolRequest {
                    context: context("nowhere", "", ""),
                    ..base.clone()
                },
                Code::NotFound,
                "NOT_FOUND",
            ),
            (
                "parent",
                ExecuteToolRequest {
                    context: context("", "", "nobody"),
                    ..base.clone()
                },
                Code::NotFound,
                "NOT_FOUND",
            ),
        ];
        for (what, request, code, reason) in cases {
            let details = refused(server.execute(request.clone()).await, code, reason);
            assert!(
                details.bad_request().is_some() != details.resource_info().is_some(),
                "{what}: one of field and resource"
            );
            if request.output == 0 {
                refused(server.tools().run_tool(run_request(request)).await, code, reason);
            }
        }
        assert!(
            server
                .tools()
                .list_calls(ListCallsRequest::default())
                .await
                .unwrap()
                .into_inner()
                .calls
                .is_empty()
        );
    });
}

#[test]
fn unknown_names_and_bad_numbers_on_every_rpc() {
    test(async {
        let server = Server::start().await;
        let name = || "nobody".to_owned();
        let (found, field) = ((Code::NotFound, "NOT_FOUND"), (Code::InvalidArgument, "INVALID_FIELD"));
        macro_rules! refuses {
            ($client:ident.$rpc:ident($request:expr) => $expected:expr) => {{
                let (code, reason) = $expected;
                refused(server.$client().$rpc($request).await.map(|_| ()), code, reason)
            }};
        }
        refuses!(tools.get_call(GetCallRequest { call_id: name() }) => found);
        refuses!(tools.get_call(GetCallRequest { call_id: String::new() }) => field);
        refuses!(tools.cancel_call(CancelCallRequest { call_id: name() }) => found);
        refuses!(tools.cancel_call(CancelCallRequest { call_id: "?".to_owned() }) => field);
        refuses!(tools.watch_call(watch_request("nobody", 0, OutputMode::Full)) => found);
        refuses!(tools.watch_call(watch_request("nobody", -1, OutputMode::Full)) => field);
        refuses!(tools.watch_call(WatchCallRequest { output: 9, ..watch_request("nobody", 0, OutputMode::Full) }) => field);
        server.execute(kept("known", bash("true"))).await.unwrap();
        let beyond = (Code::OutOfRange, "SEQUENCE_OUT_OF_RANGE");
        refuses!(tools.watch_call(watch_request("known", 1000, OutputMode::Full)) => beyond);
        refuses!(tools.watch_call(watch_request("known", i64::MAX, OutputMode::Full)) => beyond);
        for page_size in [-1, i32::MIN] {
            refuses!(tools.list_calls(ListCallsRequest { page_size, ..Default::default() }) => field);
            refuses!(outputs.list_outputs(ListOutputsRequest { page_size, ..Default::default() }) => field);
        }
        for page_size in [501, 1_001, i32::MAX] {
            // More than there may be on a page is taken for the most.
            let request = ListCallsRequest {
                page_size,
                ..Default::default()
            };
            assert_eq!(
                server
                    .tools()
                    .list_calls(request)
                    .await
                    .unwrap()
                    .into_inner()
                    .calls
                    .len(),
                1
            );
        }
        let nowhere = || "nowhere".to_owned();
        refuses!(tools.list_calls(ListCallsRequest { workspace: nowhere(), ..Default::default() }) => found);
        refuses!(outputs.list_outputs(ListOutputsRequest { workspace: nowhere(), ..Default::default() }) => found);
        refuses!(sessions.watch_events(WatchEventsRequest { workspace: nowhere(), ..Default::default() }) => found);
        refuses!(sessions.list_sessions(ListSessionsRequest { workspace: nowhere(), ..Default::default() }) => found);
        refuses!(permissions.list_grants(ListGrantsRequest { workspace: nowhere(), ..Default::default() }) => found);
        let filter = || {
            Some(PromptFilter {
                workspace: nowhere(),
                all: true,
                ..Default::default()
            })
        };
        refuses!(permissions.list_prompts(ListPromptsRequest { filter: filter(), ..Default::default() }) => found);
        refuses!(permissions.watch_prompts(WatchPromptsRequest { filter: filter() }) => found);
        for page_size in [-1, i32::MIN] {
            refuses!(tools.list_tools(ListToolsRequest { page_size, ..Default::default() }) => field);
            refuses!(permissions.list_prompts(ListPromptsRequest { page_size, ..list_all() }) => field);
        }
        for page_token in ["x", "1.2", "\u{0}", "99999999999999999999999999", "-1", "é", "a.b.c"] {
            let page_token = page_token.to_owned();
            refuses!(tools.list_calls(ListCallsRequest { page_token: page_token.clone(), ..Default::default() }) => field);
            refuses!(outputs.list_outputs(ListOutputsRequest { page_token: page_token.clone(), ..Default::default() }) => field);
            refuses!(tools.list_tools(ListToolsRequest { page_token, ..Default::default() }) => field);
        }
        refuses!(tools.list_calls(ListCallsRequest { states: vec![42], ..Default::default() }) => field);
        refuses!(tools.list_tools(ListToolsRequest { agent: name(), ..Default::default() }) => field);
        refuses!(tools.list_tools(ListToolsRequest { workspace: name(), ..Default::default() }) => found);
        refuses!(permissions.list_prompts(ListPromptsRequest { states: vec![-3], ..list_all() }) => field);
        refuses!(permissions.get_prompt(GetPromptRequest { prompt_id: name() }) => found);
        refuses!(permissions.get_prompt(GetPromptRequest { prompt_id: String::new() }) => field);
        refuses!(permissions.revoke_grant(RevokeGrantRequest { grant_id: name() }) => found);
        // Nobody is everybody by saying nothing, and nobody says both.
        for filter in [
            PromptFilter::default(),
            PromptFilter {
                workspace: "work".to_owned(),
                ..Default::default()
            },
            PromptFilter {
                session_ids: vec![name()],
                ..everybody()
            },
            PromptFilter {
                client_ids: vec![name()],
                ..everybody()
            },
        ] {
            let watched = WatchPromptsRequest {
                filter: Some(filter.clone()),
            };
            refuses!(permissions.watch_prompts(watched) => field);
            refuses!(permissions.list_prompts(ListPromptsRequest { filter: Some(filter.clone()), ..Default::default() }) => field);
            let opened = Approver::open_for(server.connect().await, "nobody", filter).await;
            refused(opened.map(drop), Code::InvalidArgument, "INVALID_FIELD");
        }
        refuses!(permissions.watch_prompts(WatchPromptsRequest::default()) => field);
        refuses!(permissions.list_prompts(ListPromptsRequest::default()) => field);
        refuses!(outputs.get_output(GetOutputRequest { output_id: name() }) => found);
        refuses!(outputs.get_output(GetOutputRequest { output_id: "../calls.db".to_owned() }) => found);
        refuses!(outputs.get_output(GetOutputRequest { output_id: String::new() }) => found);
        refuses!(outputs.delete_output(DeleteOutputRequest { output_id: "/etc/hosts".to_owned() }) => found);
        refuses!(outputs.read_output(ReadOutputRequest { output_id: name(), range: None }) => found);
        let search = SearchOutputRequest {
            output_id: name(),
            pattern: "x".to_owned(),
            ..Default::default()
        };
        refuses!(outputs.search_output(search.clone()) => found);
        refuses!(outputs.search_output(SearchOutputRequest { pattern: "(".to_owned(), ..search.clone() }) => field);
        refuses!(outputs.search_output(SearchOutputRequest { pattern: String::new(), ..search.clone() }) => field);
        refuses!(outputs.search_output(SearchOutputRequest { pattern: "(a{999}){999}".to_owned(), ..search.clone() }) => field);
        refuses!(outputs.search_output(SearchOutputRequest { before_context: -1, ..search.clone() }) => field);
        refuses!(outputs.search_output(SearchOutputRequest { max_matches: 1001, ..search }) => field);
        refuses!(sessions.get_session(GetSessionRequest { session_id: String::new(), ..Default::default() }) => field);
        refuses!(sessions.end_session(EndSessionRequest { session_id: "x".repeat(300), ..Default::default() }) => field);
        let watch = |after| WatchEventsRequest {
            after_sequence: Some(after),
            ..Default::default()
        };
        refuses!(sessions.watch_events(watch(-1)) => field);
        refuses!(sessions.watch_events(watch(i64::MAX)) => beyond);
        server.assert_calm();
    });
}

#[test]
fn a_page_token_of_the_tool_list_cannot_overflow() {
    test(async {
        let server = Server::start().await;
        let first = server
            .tools()
            .list_tools(ListToolsRequest {
                page_size: 1,
                ..Default::default()
            })
            .await
            .unwrap()
            .into_inner();
        let (etag, _) = first.next_page_token.split_once('.').unwrap();
        let request = ListToolsRequest {
            page_token: format!("{etag}.{}", u64::MAX),
            ..Default::default()
        };
        let page = server.tools().list_tools(request).await.unwrap().into_inner();
        assert!(page.tools.is_empty() && page.next_page_token.is_empty());
        let mut token = String::new();
        let mut names = Vec::new();
        loop {
            let request = ListToolsRequest {
                page_size: 2,
                page_token: token,
                ..Default::default()
            };
            let page = server.tools().list_tools(request).await.unwrap().into_inner();
            names.extend(page.tools.into_iter().map(|tool| tool.name));
            token = page.next_page_token;
            if token.is_empty() {
                break;
            }
        }
        let all = server
            .tools()
            .list_tools(ListToolsRequest::default())
            .await
            .unwrap()
            .into_inner();
        assert!(all.tools.iter().map(|tool| &tool.name).eq(&names));
        let same = ListToolsRequest {
            if_none_match: all.etag,
            ..Default::default()
        };
        assert!(server.tools().list_tools(same).await.unwrap().into_inner().not_modified);
        server.assert_calm();
    });
}

#[test]
fn too_large_and_too_many() {
    test(async {
        let setup = Setup::default().env("TOOLGATE_LIMITS_MAX_RUNNING_CALLS", "2");
        let server = Server::with(setup.env("TOOLGATE_LIMITS_MAX_QUEUED_CALLS", "0")).await;
        let limits = server
            .info()
            .get_server_info(GetServerInfoRequest {})
            .await
            .unwrap()
            .into_inner()
            .limits
            .unwrap();
        let large = bash(&"x".repeat(usize::try_from(limits.max_input_bytes).unwrap()));
        let details = refused(server.execute(large).await, Code::ResourceExhausted, "INPUT_TOO_LARGE");
        assert!(details.quota_failure().is_some() && details.retry_info().is_none());

        let channel = server.connect().await;
        let mut open = tools(channel.clone())
            .execute_tool(kept("open", bash("mkfifo go; echo r; cat go")))
            .await
            .unwrap()
            .into_inner();
        next_such(&mut open, is_output).await;
        let huge = bash(&"x".repeat(usize::try_from(limits.max_message_bytes).unwrap() + 1));
        let status = tools(channel.clone()).execute_tool(huge).await.unwrap_err();
        assert!(
            matches!(status.code(), Code::OutOfRange | Code::ResourceExhausted),
            "{status:?}"
        );
        let get = GetCallRequest {
            call_id: "open".to_owned(),
        };
        tools(channel.clone())
            .get_call(get)
            .await
            .expect("the connection survives");

        let mut second = server
            .tools()
            .execute_tool(kept("second", bash("echo r; sleep 86402")))
            .await
            .unwrap()
            .into_inner();
        next_such(&mut second, is_output).await;
        let details = refused(
            server.execute(bash("true")).await,
            Code::ResourceExhausted,
            "TOO_MANY_CALLS",
        );
        assert!(details.retry_info().is_some());
        let go = server.work().join("go");
        tokio::task::spawn_blocking(move || std::fs::write(go, "on"))
            .await
            .unwrap()
            .unwrap();
        assert!(matches!(
            end_of(&collect(open).await.unwrap()),
            call::Ending::Completed(_)
        ));
        eventually("there is room again", async || {
            server.execute(bash("true")).await.is_ok()
        })
        .await;
    });
}

#[test]
fn three_hundred_streams_on_one_connection() {
    test(async {
        let server = Server::with(Setup::permission(json!({ "bash": "ask" }))).await;
        let mut clients = JoinSet::new();
        for index in 0..300 {
            let mut tools = server.tools();
            let request = in_session("s", kept(&format!("c{index}"), bash(&format!("echo {index}"))));
            clients.spawn(async move {
                let mut stream = tools.execute_tool(request).await.unwrap().into_inner();
                let prompt = waiting(&mut stream).await;
                (stream, prompt)
            });
        }
        let waiting = clients.join_all().await;
        let no = ReplyPromptRequest {
            reply: Some(reply(&waiting[0].1, PromptDecision::Reject)),
            name: String::new(),
        };
        server.permissions().reply_prompt(no).await.unwrap();
        for (stream, _) in waiting {
            assert!(collect(stream).await.unwrap().last().is_some_and(is_terminal));
        }
    });
}

fn number(number: f64) -> WireValue {
    WireValue {
        kind: Some(Kind::NumberValue(number)),
    }
}

#[test]
fn a_struct_as_input() {
    test(async {
        let server = Server::start().await;
        std::fs::write(
            server.work().join("f"),
            (1..=9).map(|line| format!("{line}\n")).collect::<String>(),
        )
        .unwrap();
        let path = server.work().join("f").display().to_string();
        let fields = |limit: WireValue| Struct {
            fields: [
                (
                    "filePath".to_owned(),
                    WireValue {
                        kind: Some(Kind::StringValue(path.clone())),
                    },
                ),
                ("limit".to_owned(), limit),
            ]
            .into(),
        };
        let run = async |fields: Struct| {
            let request = ExecuteToolRequest {
                arguments: Some(Arguments::Input(fields)),
                ..request("read", json!({}))
            };
            run(&mut server.tools(), run_request(request)).await.unwrap()
        };
        let call = run(fields(number(2.0))).await;
        let read = &completed(&call).output;
        assert!(read.contains("2: 2\n") && !read.contains("3: 3"), "{read}");
        assert!(call.input_json.contains(r#""limit":2"#), "{}", call.input_json);
        for odd in [
            number(f64::NAN),
            number(f64::INFINITY),
            number(2.5),
            number(1e300),
            WireValue { kind: None },
            WireValue {
                kind: Some(Kind::ListValue(ListValue {
                    values: vec![number(1.0)],
                })),
            },
        ] {
            let call = run(fields(odd)).await;
            assert!(call.ending.is_some());
        }
        server.assert_calm();
    });
}

#[test]
fn the_journal_tells_what_happened_in_order() {
    test(async {
        let server = Server::start().await;
        let mut live = server
            .sessions()
            .watch_events(WatchEventsRequest::default())
            .await
            .unwrap()
            .into_inner();
        let path = server.work().join("f");
        let write = request("write", json!({"filePath": path, "content": "x"}));
        server.execute(in_session("s", kept("w", write))).await.unwrap();
        let end = EndSessionRequest {
            session_id: "s".to_owned(),
            ..Default::default()
        };
        server.sessions().end_session(end).await.unwrap();
        let mut events = Vec::new();
        loop {
            let event = live.message().await.unwrap().unwrap().event.unwrap();
            let last = matches!(event.event, Some(event::Event::SessionEnded(_)));
            events.push(event);
            if last {
                break;
            }
        }
        let states: Vec<CallState> = events
            .iter()
            .filter_map(|event| match &event.event {
                Some(event::Event::CallStateChanged(changed)) => Some(changed.state()),
                _ => None,
            })
            .collect();
        assert_eq!(states.last(), Some(&CallState::Completed));
        assert!(
            events
                .iter()
                .any(|event| matches!(&event.event, Some(event::Event::FileEdited(edited)) if edited.call_id == "w"))
        );
        assert!(events.windows(2).all(|pair| pair[0].sequence < pair[1].sequence));
        let replay = WatchEventsRequest {
            after_sequence: Some(0),
            session_id: "s".to_owned(),
            ..Default::default()
        };
        let mut replay = server.sessions().watch_events(replay).await.unwrap().into_inner();
        for event in &events {
            assert_eq!(replay.message().await.unwrap().unwrap().event.as_ref(), Some(event));
        }
    });
}
