//! Calls beyond a limit wait for their turn: that is seen, it is fair, and nobody waits for what their own maker holds.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;
use tonic::Request;

use super::*;

#[test]
fn a_call_waits_for_its_turn_and_says_so() {
    test(async {
        let server = Server::with(limited([("max_running_calls", "1")])).await;
        let busy = Busy::start(&server, "busy").await;
        let (second, queued) = queue_stream(&server, kept("second", bash("echo second"))).await;
        assert_eq!((queued.limit.as_str(), queued.ahead), ("limits.max_running_calls", 0));
        let queued = queue(&server, "third", bash("echo third")).await;
        assert_eq!(queued.ahead, 1);

        let call = server.get("second").await;
        assert_eq!(call.state(), CallState::Pending);
        assert!(call.start_time.is_none());
        let list = ListCallsRequest {
            states: vec![CallState::Pending.into()],
            ..Default::default()
        };
        let listed = server.tools().list_calls(list).await.unwrap().into_inner().calls;
        let ids: Vec<&str> = listed.iter().map(|call| call.call_id.as_str()).collect();
        assert_eq!(ids, ["third", "second"]);
        let info = server.info().get_server_info(GetServerInfoRequest {}).await.unwrap();
        let info = info.into_inner();
        assert_eq!((info.running_calls, info.queued_calls), (3, 2));
        // The same request attaches to the call that waits.
        let again = server.execute(kept("second", bash("echo second")));
        let (again, _) = tokio::join!(again, busy.let_go());

        let rest = collect(second).await.unwrap();
        assert!(matches!(rest[0].event, Some(Event::Running(_))), "{rest:?}");
        check_log(1, &rest);
        check_log(0, &again.unwrap());
        for id in ["second", "third"] {
            let call = end(&server, id).await;
            let result = completed(&call);
            assert_eq!(result.output.trim(), id);
            assert!(result.timing.as_ref().unwrap().queued.is_some());
        }
        assert_eq!(queued_calls(&server).await, 0);
    });
}

#[test]
fn a_call_that_waits_spends_none_of_its_time() {
    test(async {
        let server = Server::with(limited([("max_running_calls", "1")])).await;
        let busy = Busy::start(&server, "first").await;
        let second = ExecuteToolRequest {
            timeout: Some(prost_types::Duration { seconds: 4, nanos: 0 }),
            ..bash("true")
        };
        queue(&server, "second", second).await;
        // Longer than its time limit.
        tokio::time::sleep(Duration::from_millis(4_500)).await;
        busy.let_go().await;
        let call = end(&server, "second").await;
        let timing = completed(&call).timing.unwrap();
        let millis = |time: Option<prost_types::Duration>| {
            time.map_or(0, |time| time.seconds * 1000 + i64::from(time.nanos) / 1_000_000)
        };
        assert!(millis(timing.queued) >= 4_500, "{timing:?}");
        assert!(millis(timing.ran) < 4_000, "{timing:?}");
        assert_eq!(millis(timing.waited), 0);
    });
}

#[test]
fn every_limit_on_running_calls_holds() {
    test(async {
        let in_own = |request| in_session("own", request);
        for (key, is_own) in [
            ("max_running_calls", false),
            ("max_running_calls_per_workspace", false),
            ("max_running_calls_per_principal", false),
            ("max_running_calls_per_session", true),
        ] {
            let server = Server::with(limited([(key, "1")])).await;
            let busy = Busy::with(&server, "busy", in_own).await;
            let other = in_session("other", bash("echo other"));
            if is_own {
                // Others are not held.
                let call = run(&mut server.tools(), run_request(other)).await.unwrap();
                assert_eq!(completed(&call).output.trim(), "other");
            } else {
                assert_eq!(queue(&server, "other", other).await.limit, format!("limits.{key}"));
            }
            let queued = queue(&server, "own", in_own(bash("echo own"))).await;
            assert_eq!(queued.limit, format!("limits.{key}"));
            busy.let_go().await;
            assert_eq!(completed(&end(&server, "own").await).output.trim(), "own");
        }
    });
}

#[test]
fn beyond_the_queue_calls_are_refused_until_there_is_room() {
    test(async {
        for (limits, key, value) in [
            (
                [("max_queued_calls", "0"), ("max_input_bytes", "1KiB")],
                "max_running_calls",
                "1",
            ),
            (
                [("max_queued_calls", "1"), ("max_input_bytes", "1KiB")],
                "max_queued_calls",
                "1",
            ),
            (
                [("max_queued_bytes", "1KiB"), ("max_input_bytes", "1KiB")],
                "max_queued_bytes",
                "1024",
            ),
        ] {
            let setup = limited([("max_running_calls", "1")]).env("TOOLGATE_TELEMETRY_ADMIN", "127.0.0.1:0");
            let server = Server::with(limits.into_iter().fold(setup, with)).await;
            let large = || bash(&format!("true {}", "x".repeat(600)));
            let busy = Busy::start(&server, "busy").await;
            if key != "max_running_calls" {
                queue(&server, "waits", large()).await;
            }
            let details = refused_by(
                server.execute(kept("refused", large())).await,
                "TOO_MANY_CALLS",
                key,
                value,
            );
            assert!(details.retry_info().unwrap().retry_delay.is_some());
            let unknown = GetCallRequest {
                call_id: "refused".to_owned(),
            };
            let unknown = server.tools().get_call(unknown).await;
            refused(unknown, Code::NotFound, "NOT_FOUND");
            assert_eq!(refusals(&server, key).await, 1);
            busy.let_go().await;
            // Whoever sees an end finds its room.
            if key != "max_running_calls" {
                end(&server, "waits").await;
            }
            let after = server.execute(kept("after", large())).await.unwrap();
            assert!(matches!(end_of(&after), call::Ending::Completed(_)));
        }
    });
}

#[test]
fn five_hundred_of_three_principals_run_once_and_in_turn() {
    const SHARES: [(&str, usize); 3] = [("many", 350), ("some", 110), ("few", 40)];
    test(async {
        let folder = TempDir::new().unwrap();
        let tokens = folder.path().join("tokens");
        let names = ["many", "some", "few", "busy"];
        let lines = names.map(|name| format!("{name} {name}-{name}-{name}-{name}-{name} *\n"));
        fs::write(&tokens, lines.concat()).unwrap();
        fs::set_permissions(&tokens, fs::Permissions::from_mode(0o600)).unwrap();
        let setup =
            limited([("max_running_calls", "4")]).env("TOOLGATE_AUTH_TOKENS_FILE", &tokens.display().to_string());
        let server = Server::with(Setup { tcp: true, ..setup }).await;
        let start = async |name: &str, request: ExecuteToolRequest| {
            let mut request = Request::new(request);
            let token = format!("Bearer {name}-{name}-{name}-{name}-{name}");
            request.metadata_mut().insert("authorization", token.parse().unwrap());
            server.tools().execute_tool(request).await.unwrap().into_inner()
        };
        let mut busy = Vec::new();
        for index in 0..4 {
            let mut events = start(
                "busy",
                kept(&format!("busy-{index}"), bash("mkfifo go 2>/dev/null; echo r; cat go")),
            )
            .await;
            next_such(&mut events, is_output).await;
            busy.push(events);
        }
        // Who has the most comes first.
        let mut events = Vec::new();
        for (name, count) in SHARES {
            for index in 0..count {
                let id = format!("{name}-{index}");
                let request = in_session(&format!("{name}-{}", index % 3), bash(&format!("echo {id} >> order")));
                events.push(start(name, kept(&id, request)).await);
            }
        }
        let go = server.work().join("go");
        let opened = tokio::task::spawn_blocking(move || fs::write(go, "on\n")).await;
        opened.unwrap().unwrap();
        for stream in busy.into_iter().chain(events) {
            let log = collect(stream).await.unwrap();
            assert!(matches!(end_of(&log), call::Ending::Completed(_)), "{log:?}");
        }
        let order = fs::read_to_string(server.work().join("order")).unwrap();
        let mut once: HashMap<&str, usize> = HashMap::new();
        for line in order.lines() {
            *once.entry(line).or_default() += 1;
        }
        assert_eq!(once.len(), 500);
        assert!(once.values().all(|count| *count == 1), "{once:?}");
        let of = |first: usize, name: &str| order.lines().take(first).filter(|line| line.starts_with(name)).count();
        // A third of each, as long as each has some; four run side by side, so the order is not exact.
        for (name, _) in SHARES {
            let share = of(105, name);
            assert!((29..=41).contains(&share), "{name} had {share} of the first 105");
        }
        let share = of(250, "some");
        assert!((95..=110).contains(&share), "half of what is left: {share}");
    });
}

#[test]
fn a_batch_needs_no_more_than_its_own_slot() {
    test(async {
        let setup = Setup {
            config: Some(json!({ "experimental": { "batch_tool": true } })),
            ..limited([("max_running_calls", "1"), ("max_queued_calls", "0")])
        };
        let server = Server::with(setup).await;
        let part = |n: usize| {
            let alone = format!("mkdir busy && echo {n} >> order && sleep 0.02 && rmdir busy");
            json!({"tool": "bash", "parameters": {"command": alone, "description": "a test"}})
        };
        let parts: Vec<_> = (0..10).map(part).collect();
        let call = server.run("batch", json!({ "tool_calls": parts })).await;
        assert!(completed(&call).output.contains("All 10 tools"), "{call:?}");
        let order = fs::read_to_string(server.work().join("order")).unwrap();
        assert_eq!(order.lines().count(), 10, "one at a time: {order}");
        let after = server
            .run("bash", json!({"command": "echo on", "description": "a test"}))
            .await;
        assert_eq!(completed(&after).output.trim(), "on");
    });
}

fn below(parent: &str, session: &str, request: ExecuteToolRequest) -> ExecuteToolRequest {
    ExecuteToolRequest {
        context: Some(CallContext {
            parent_call_id: parent.to_owned(),
            session_id: session.to_owned(),
            ..CallContext::default()
        }),
        ..request
    }
}

#[test]
fn calls_in_the_name_of_a_task_or_a_hosted_tool_take_no_slot() {
    test(async {
        let server = Server::with(limited([("max_running_calls", "1")])).await;
        let hello = HostHello {
            runs_subagents: true,
            ..hello("app", &["outer"])
        };
        let mut host = LendingHost::open(server.channel(), hello).await.unwrap();
        let task = json!({"description": "d", "prompt": "p", "subagent_type": "general"});
        let task = server.tools().execute_tool(kept("task", request("task", task))).await;
        let task = task.unwrap().into_inner();
        let run_of = host.subagent().await;
        let (first, second) = (bash("mkfifo go; echo r; cat go"), bash("echo second"));
        let first = kept("first", below("task", &run_of.session_id, first));
        let mut first = server.tools().execute_tool(first).await.unwrap().into_inner();
        next_such(&mut first, is_output).await;
        // As many run as may run at all: the next waits, and so does a call of somebody else.
        queue(&server, "second", below("task", &run_of.session_id, second)).await;
        queue(&server, "stranger", bash("echo stranger")).await;
        let go = server.work().join("go");
        let opened = tokio::task::spawn_blocking(move || fs::write(go, "on\n")).await;
        opened.unwrap().unwrap();
        assert_eq!(completed(&end(&server, "second").await).output.trim(), "second");
        assert_eq!(server.get("stranger").await.state(), CallState::Pending);
        let done = host_report::Report::Completed(HostCompleted {
            output: Some("done".to_owned()),
            ..HostCompleted::default()
        });
        host.report(&run_of.invocation_id, done).await;
        assert!(matches!(
            end_of(&collect(task).await.unwrap()),
            call::Ending::Completed(_)
        ));
        assert_eq!(completed(&end(&server, "stranger").await).output.trim(), "stranger");

        let outer = kept("outer", request("outer", json!({"text": "x"})));
        let outer = server.tools().execute_tool(outer).await.unwrap().into_inner();
        let invoked = host.invoked().await;
        let inner = below("outer", "s", bash("echo inner"));
        let inner = run(&mut server.tools(), run_request(inner)).await.unwrap();
        assert_eq!(completed(&inner).output.trim(), "inner");
        host.complete(&invoked.invocation_id, "done").await;
        assert!(matches!(
            end_of(&collect(outer).await.unwrap()),
            call::Ending::Completed(_)
        ));
    });
}

#[test]
fn a_name_of_a_command_above_buys_nothing() {
    test(async {
        let server = Server::with(limited([("max_running_calls", "1")])).await;
        let busy = Busy::start(&server, "busy").await;
        // A command waits for nobody, so that what is done in its name would be beside it.
        queue(&server, "beside", below("busy", "s", bash("echo beside"))).await;
        busy.let_go().await;
        assert_eq!(completed(&end(&server, "beside").await).output.trim(), "beside");
    });
}

#[test]
fn a_loop_is_asked_about_when_its_turn_has_come() {
    test(async {
        let setup = Setup::permission(json!({ "doom_loop": "ask", "bash": "allow" }));
        let server = Server::with(with(setup, ("max_running_calls", "1"))).await;
        let again = || in_session("s", bash("echo again"));
        for _ in 0..2 {
            server.execute(again()).await.unwrap();
        }
        let busy = Busy::start(&server, "busy").await;
        let (mut third, _) = queue_stream(&server, kept("third", again())).await;
        let prompts = list_all();
        let open = server.permissions().list_prompts(prompts).await.unwrap().into_inner();
        assert!(open.prompts.is_empty(), "nobody is asked for what may never run");
        busy.let_go().await;
        let prompt = waiting(&mut third).await;
        let once = ReplyPromptRequest {
            reply: Some(reply(&prompt, PromptDecision::Once)),
            name: String::new(),
        };
        server.permissions().reply_prompt(once).await.unwrap();
        collect(third).await.unwrap();
        let log = server.watch("third", 0).await.unwrap();
        check_log(0, &log);
        let started = log
            .iter()
            .filter(|event| matches!(event.event, Some(Event::Running(_))));
        assert_eq!(started.count(), 1, "{log:?}");
        assert_eq!(completed(&server.get("third").await).output.trim(), "again");
    });
}
