//! What calls say of their results for programs: an outcome in one word, and what the tool knows.

use std::collections::BTreeSet;
use std::fs;

use serde_json::{Value, json};
use toolgate_contract::call_completed::Result as Typed;
use toolgate_contract::*;

use crate::support::*;

async fn server() -> Server {
    Server::with(Setup {
        config: Some(json!({"experimental": {"batch_tool": true}})),
        ..Setup::default()
    })
    .await
}

/// Makes a call of the one session of a test.
async fn made(server: &Server, tool: &str, input: Value) -> Call {
    let request = in_session("s", request(tool, input));
    run(&mut server.tools(), run_request(request)).await.unwrap()
}

async fn result(server: &Server, tool: &str, input: Value) -> (CallOutcome, Typed) {
    let call = made(server, tool, input).await;
    let end = completed(&call);
    (
        end.outcome(),
        end.result.clone().unwrap_or_else(|| panic!("{tool}: {end:?}")),
    )
}

fn command(line: &str) -> Value {
    json!({"command": line, "description": "a test"})
}

#[test]
fn a_command_says_how_it_ended() {
    test(async {
        let server = server().await;
        let exit = |exit_code: i32| CommandResult {
            exit_code: Some(exit_code),
            ..Default::default()
        };
        for (line, outcome, expected) in [
            ("true", CallOutcome::Ok, exit(0)),
            ("exit 7", CallOutcome::NonZero, exit(7)),
            (
                "kill -KILL $$",
                CallOutcome::NonZero,
                CommandResult {
                    signal: 9,
                    ..Default::default()
                },
            ),
        ] {
            let got = result(&server, "bash", command(line)).await;
            assert_eq!(got, (outcome, Typed::Command(expected)), "{line}");
        }

        let mut late = command("sleep 86391");
        late["timeout"] = json!(200);
        let (outcome, Typed::Command(end)) = result(&server, "bash", late).await else {
            panic!("another kind of result")
        };
        assert!(end.timed_out && outcome == CallOutcome::TimedOut, "{outcome:?} {end:?}");

        let (_, Typed::Command(left)) = result(&server, "bash", command("sleep 86392 >/dev/null 2>&1 & true")).await
        else {
            panic!("another kind of result")
        };
        assert_eq!((left.exit_code, left.processes_left), (Some(0), 1));

        let mut background = command("sleep 86393");
        background["background"] = json!(true);
        let (outcome, Typed::Command(started)) = result(&server, "bash", background).await else {
            panic!("another kind of result")
        };
        assert_eq!((outcome, started.exit_code), (CallOutcome::Ok, None));
        let running = server.get(&started.background_call_id).await;
        assert_eq!(
            (running.tool.as_str(), running.state()),
            ("background", CallState::Running)
        );
    });
}

#[test]
fn lists_and_events_say_it_too() {
    test(async {
        let server = server().await;
        let watch = WatchEventsRequest {
            after_sequence: Some(0),
            ..Default::default()
        };
        let mut events = server.sessions().watch_events(watch).await.unwrap().into_inner();
        let edit = json!({"filePath": "a.txt", "oldString": "", "newString": "x\n"});
        server.run("edit", edit).await;
        let failed = server.run("bash", command("exit 7")).await;

        let listed = server
            .tools()
            .list_calls(ListCallsRequest::default())
            .await
            .unwrap()
            .into_inner();
        let ends: Vec<_> = listed
            .calls
            .iter()
            .map(|call| (completed(call).outcome(), completed(call).result.clone().unwrap()))
            .collect();
        let seven = CommandResult {
            exit_code: Some(7),
            ..Default::default()
        };
        assert_eq!(ends[0], (CallOutcome::NonZero, Typed::Command(seven)));
        let Typed::Files(files) = &ends[1].1 else {
            panic!("another kind of result")
        };
        assert_eq!((files.files[0].added_lines, files.files[0].diff.as_ref()), (1, None));

        loop {
            let event = events.message().await.unwrap().unwrap().event.unwrap();
            if let Some(event::Event::CallStateChanged(changed)) = event.event
                && changed.call_id == failed.call_id
                && changed.state() == CallState::Completed
            {
                assert_eq!((changed.outcome(), changed.exit_code), (CallOutcome::NonZero, Some(7)));
                break;
            }
        }
    });
}

#[test]
fn changed_files_are_named_with_their_diffs() {
    test(async {
        let server = server().await;
        let work = server.work();
        fs::write(work.join("old.txt"), "one\ntwo\n").unwrap();
        fs::write(work.join("gone.txt"), "bye\n").unwrap();
        let shown = |name: &str| work.join(name).to_str().unwrap().to_owned();
        let files = async |tool: &str, input: Value| {
            let (outcome, Typed::Files(files)) = result(&server, tool, input).await else {
                panic!("another kind of result")
            };
            assert_eq!(outcome, CallOutcome::Ok);
            files.files
        };
        let short = |file: &FileResult| (file.path.clone(), file.action(), file.added_lines, file.removed_lines);

        let written = files("write", json!({"filePath": "new.txt", "content": "a\nb\n"})).await;
        assert_eq!(short(&written[0]), (shown("new.txt"), FileAction::Added, 2, 0));
        assert!(written[0].diff.as_ref().unwrap().contains("+a\n+b\n"), "{written:?}");

        made(&server, "read", json!({"filePath": "old.txt"})).await;
        let edited = files(
            "edit",
            json!({"filePath": "old.txt", "oldString": "two", "newString": "2\n3"}),
        )
        .await;
        assert_eq!(short(&edited[0]), (shown("old.txt"), FileAction::Modified, 2, 1));

        let patch = "*** Begin Patch\n*** Delete File: gone.txt\n*** Update File: new.txt\n*** Move to: moved.txt\n@@\n-a\n+A\n*** End \
                     Patch";
        made(&server, "read", json!({"filePath": "gone.txt"})).await;
        let patched = made(&server, "apply_patch", json!({"patchText": patch})).await;
        let Some(Typed::Files(changed)) = completed(&patched).result.clone() else {
            panic!("another kind of result")
        };
        let done: Vec<_> = changed
            .files
            .iter()
            .map(|file| (file.action(), file.moved_to.clone()))
            .collect();
        let moved = (FileAction::Moved, shown("moved.txt"));
        assert_eq!(done, [(FileAction::Deleted, String::new()), moved]);

        let reverted = files("revert", json!({"callId": patched.call_id})).await;
        let actions: BTreeSet<_> = reverted.iter().map(|file| (file.path.clone(), file.action())).collect();
        let expected = [
            (shown("gone.txt"), FileAction::Added),
            (shown("moved.txt"), FileAction::Deleted),
            (shown("new.txt"), FileAction::Added),
        ];
        assert_eq!(actions, BTreeSet::from(expected));
    });
}

#[test]
fn searches_reads_and_batches_count() {
    test(async {
        let server = server().await;
        let work = server.work();
        fs::write(work.join("a.txt"), "needle\nhay\nneedle\n").unwrap();
        fs::write(work.join("b.txt"), "needle\n").unwrap();
        let found = result(&server, "grep", json!({"pattern": "needle"})).await.1;
        let expected = SearchResult {
            matches: Some(3),
            files: 2,
            truncated: false,
        };
        assert_eq!(found, Typed::Search(expected));
        let found = result(&server, "glob", json!({"pattern": "*.txt"})).await.1;
        let expected = SearchResult {
            matches: None,
            files: 2,
            truncated: false,
        };
        assert_eq!(found, Typed::Search(expected));

        let window = json!({"filePath": "a.txt", "offset": 2, "limit": 1});
        let expected = ReadResult {
            path: work.join("a.txt").to_str().unwrap().to_owned(),
            kind: ReadKind::Text.into(),
            first: 2,
            shown: 1,
            total: 3,
            truncated: true,
        };
        assert_eq!(result(&server, "read", window).await.1, Typed::Read(expected));

        let calls = json!([
            {"tool": "read", "parameters": {"filePath": "a.txt"}},
            {"tool": "read", "parameters": {"filePath": "none.txt"}},
            {"tool": "nothing", "parameters": {}}
        ]);
        let (outcome, Typed::Children(children)) = result(&server, "batch", json!({"tool_calls": calls})).await else {
            panic!("another kind of result")
        };
        assert_eq!(outcome, CallOutcome::Partial);
        let ends: Vec<_> = children.calls.iter().map(|child| child.succeeded).collect();
        assert_eq!(ends, [true, false, false]);
        assert_eq!(
            server.get(&children.calls[0].call_id).await.state(),
            CallState::Completed
        );
        assert_eq!(children.calls[2].call_id, "");

        let nonsense = made(&server, "no_such_tool", json!({})).await;
        assert_eq!(completed(&nonsense).outcome(), CallOutcome::Invalid);
    });
}

#[test]
fn every_reason_of_an_error_is_explained() {
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/guides/errors.md")).unwrap();
    let mut missing = Vec::new();
    for number in 1.. {
        let Ok(reason) = ErrorReason::try_from(number) else {
            break;
        };
        let word = reason.as_str_name().strip_prefix("ERROR_REASON_").unwrap();
        if !page.contains(&format!("`{word}`")) {
            missing.push(word);
        }
    }
    assert!(missing.is_empty(), "docs/guides/errors.md does not name {missing:?}");
}

#[test]
fn programs_are_charged_to_their_calls() {
    test(async {
        let server = server().await;
        let line = "head -c 60000000 /dev/zero | tail -c 50000000 | tail -c 1 >/dev/null; i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
        let busy = server.run("bash", command(line)).await;
        let used = busy.resources.expect("it has started programs");
        let nanos = |time: Option<prost_types::Duration>| {
            time.map_or(0, |time| time.seconds * 1_000_000_000 + i64::from(time.nanos))
        };
        assert!(nanos(used.user_time) + nanos(used.system_time) > 20_000_000, "{used:?}");
        assert!(
            used.peak_memory_bytes > 40_000_000,
            "`tail` holds what it may have to print: {used:?}"
        );
        let idle = server.run("bash", command("true")).await.resources.unwrap();
        assert!(idle.peak_memory_bytes < used.peak_memory_bytes, "{idle:?}");

        let listed = server
            .tools()
            .list_calls(ListCallsRequest::default())
            .await
            .unwrap()
            .into_inner();
        assert!(listed.calls.iter().all(|call| call.resources.is_some()), "{listed:?}");
        let mut late = command("sleep 86394");
        late["timeout"] = json!(200);
        assert!(server.run("bash", late).await.resources.is_some());
        assert_eq!(server.run("glob", json!({"pattern": "*"})).await.resources, None);
    });
}
