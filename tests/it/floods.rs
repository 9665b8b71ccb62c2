//! Output beyond every bound, and output that is no text: what is kept, what the result says, and what it costs.

use std::fs;
use std::path::Path;

use serde_json::Value;
use toolgate_contract::call_event::Event;
use toolgate_contract::*;

use crate::support::*;

/// A call that was stopped by a quota: what it says, and its metadata.
struct Stopped {
    error: String,
    metadata: Value,
    truncation: Truncation,
    streamed: Vec<u8>,
}

async fn stopped_by_quota(server: &Server, request: ExecuteToolRequest) -> Stopped {
    let events = server.execute(request).await.unwrap();
    check_log(0, &events);
    let failed = match end_of(&events) {
        call::Ending::Failed(failed) => failed,
        other => panic!("{other:?}"),
    };
    assert_eq!(failed.reason(), FailureReason::Quota, "{}", failed.error);
    let truncation = failed.truncation.clone().unwrap_or_default();
    let streamed = output_of(&events);
    if !truncation.path.is_empty() {
        assert_eq!(
            fs::read(&truncation.path).unwrap(),
            streamed,
            "file and stream are the same"
        );
        assert!(failed.error.contains(&truncation.path), "{}", failed.error);
    }
    Stopped {
        metadata: json_of(failed.metadata.as_ref().unwrap()),
        error: failed.error.clone(),
        truncation,
        streamed,
    }
}

fn lines(bytes: usize) -> Vec<u8> {
    let mut text = String::new();
    for number in 1.. {
        if text.len() >= bytes {
            break;
        }
        text.push_str(&format!("{number}\n"));
    }
    text.truncate(bytes);
    text.into_bytes()
}

#[test]
fn the_prefix_is_kept_to_the_byte() {
    test(async {
        let limit = 1_000_003;
        let server = Server::with(Setup::default().env("TOOLGATE_LIMITS_MAX_OUTPUT_BYTES", &limit.to_string())).await;
        let stopped = stopped_by_quota(&server, kept("q", bash("seq 1 100000000"))).await;
        assert!(stopped.streamed == lines(limit), "{} bytes", stopped.streamed.len());
        assert!(stopped.error.contains("limits.max_output_bytes"), "{}", stopped.error);
        assert_eq!(stopped.metadata["quota"]["kept_bytes"], limit as f64);
        assert_eq!(stopped.metadata["outputPath"], stopped.truncation.path.as_str());
        assert!(stopped.metadata["output"].as_str().unwrap().starts_with("1\n2\n3\n"));
        assert!(stopped.truncation.truncated);
        assert_eq!(stopped.truncation.total_bytes, limit as i64);
        let whole = server
            .run("bash", serde_json::json!({"command": "seq 1 10", "description": "few"}))
            .await;
        assert!(matches!(whole.ending, Some(call::Ending::Completed(_))), "{whole:?}");
    });
}

#[test]
fn the_bound_for_everything_stops_one_call_and_not_the_next() {
    test(async {
        let bound = 4 << 20;
        let setup = Setup::default()
            .env("TOOLGATE_LIMITS_MAX_OUTPUT_BYTES", "4MiB")
            .env("TOOLGATE_LIMITS_MAX_TOTAL_OUTPUT_BYTES", "4MiB");
        let mut server = Server::with(setup).await;
        let held = server.work().join("held");
        let holder = format!(
            "seq 1 200000; touch {0}.begun; until [ -e {0} ]; do sleep 0.01; done",
            held.display()
        );
        let mut first = server
            .tools()
            .execute_tool(kept("holder", bash(&holder)))
            .await
            .unwrap()
            .into_inner();
        eventually("the first call has written", async || {
            Path::new(&format!("{}.begun", held.display())).exists()
        })
        .await;
        let holds = 1_288_895;
        let stopped = stopped_by_quota(&server, bash("seq 1 100000000")).await;
        assert!(
            stopped.error.contains("limits.max_total_output_bytes"),
            "{}",
            stopped.error
        );
        let kept = stopped.streamed.len();
        assert!(
            // The database counts too.
            kept + holds <= bound && kept + holds > bound / 2,
            "{kept} bytes kept"
        );
        assert!(stopped.streamed == lines(kept));
        // What ended makes room for what comes; what is being written never does.
        let events = server.execute(bash("seq 1 100000")).await.unwrap();
        assert_eq!(output_of(&events).len(), 588_895, "{:?}", end_of(&events));
        fs::write(&held, "").unwrap();
        while first.message().await.unwrap().is_some() {}
        let path = fs::read_dir(server.output_folder()).unwrap();
        let total: u64 = path.map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
        assert!(total <= bound as u64);
        assert_eq!(output_of(&server.watch("holder", 0).await.unwrap()).len(), holds);
        server.stop().await;
    });
}

#[test]
fn a_disk_without_free_space_is_a_quota() {
    test(async {
        let mut server = Server::with(Setup::default().env("TOOLGATE_LIMITS_MIN_FREE_BYTES", "4096TiB")).await;
        let stopped = stopped_by_quota(&server, bash("echo text")).await;
        assert!(stopped.error.contains("limits.min_free_bytes"), "{}", stopped.error);
        assert_eq!(stopped.metadata["quota"]["kept_bytes"], 0.0);
        fs::write(server.work().join("a.txt"), "text\n").unwrap();
        let read = server.run("read", serde_json::json!({"filePath": "a.txt"})).await;
        assert!(matches!(read.ending, Some(call::Ending::Completed(_))), "{read:?}");
        let edit = serde_json::json!({"filePath": "a.txt", "oldString": "text", "newString": "other"});
        let mut request = in_session("edits", request("read", serde_json::json!({"filePath": "a.txt"})));
        server.execute(request.clone()).await.unwrap();
        request.tool = "edit".to_owned();
        request.arguments = Some(execute_tool_request::Arguments::InputJson(edit.to_string()));
        let stopped = stopped_by_quota(&server, request).await;
        assert!(stopped.error.contains("left as they are"), "{}", stopped.error);
        assert_eq!(fs::read(server.work().join("a.txt")).unwrap(), b"text\n");
        server.stop().await;
    });
}

fn resident_peak(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

#[test]
fn a_flood_is_cheap() {
    test(async {
        let limit = 192_u64 << 20;
        let server = Server::with(Setup::default().env("TOOLGATE_LIMITS_MAX_OUTPUT_BYTES", "192MiB")).await;
        server
            .run(
                "bash",
                serde_json::json!({"command": "seq 1 20000", "description": "warm"}),
            )
            .await;
        let before = resident_peak(server.pid());
        let started = std::time::Instant::now();
        let mut stream = server
            .tools()
            .execute_tool(bash("yes 'a line of a build' | head -c 300000000"))
            .await
            .unwrap()
            .into_inner();
        let (mut streamed, mut updates, mut update_bytes, mut ended) = (0, 0_u128, 0, false);
        while let Some(response) = stream.message().await.unwrap() {
            match response.event.unwrap().event.unwrap() {
                Event::Output(output) => streamed += output.data.len() as u64,
                Event::Metadata(metadata) => {
                    updates += 1;
                    let metadata = json_of(&metadata.metadata.unwrap());
                    update_bytes += metadata["output"].as_str().map_or(0, str::len);
                }
                Event::Failed(failed) => ended = failed.reason() == FailureReason::Quota,
                _ => {}
            }
        }
        assert!(ended, "it ends by its quota");
        assert_eq!(streamed, limit);
        assert!(updates <= 3 + started.elapsed().as_millis() / 100, "{updates} updates");
        assert!(update_bytes <= 8 * 30_000, "{update_bytes} bytes of updates");
        let grown = resident_peak(server.pid()).saturating_sub(before);
        assert!(grown <= 32 << 20, "{grown} bytes more memory");
    });
}

#[test]
fn a_text_says_what_was_replaced_in_it() {
    test(async {
        let server = Server::start().await;
        let check = async |command: &str, text: &str, replaced: Option<f64>| {
            let events = server.execute(bash(command)).await.unwrap();
            check_log(0, &events);
            let completed = match end_of(&events) {
                call::Ending::Completed(completed) => completed,
                other => panic!("{other:?}"),
            };
            assert_eq!(completed.output, text, "{command}");
            let metadata = json_of(completed.metadata.as_ref().unwrap());
            assert_eq!(metadata["lossy"]["replaced"].as_f64(), replaced, "{command}");
            let warnings = events.iter().filter(
                |event| matches!(&event.event, Some(Event::Warning(warning)) if warning.kind() == WarningKind::Lossy),
            );
            assert_eq!(warnings.count(), usize::from(replaced.is_some()), "{command}");
            output_of(&events)
        };
        let bytes = check(r"printf 'a\xff\xfeb\n'", "a\u{fffd}\u{fffd}b\n", Some(2.0)).await;
        assert_eq!(bytes, b"a\xff\xfeb\n");
        let bytes = check(
            r"printf '\033[31mred\033[0m\r\n\000x'",
            "\u{1b}[31mred\u{1b}[0m\r\n\0x",
            None,
        )
        .await;
        assert_eq!(bytes, b"\x1b[31mred\x1b[0m\r\n\0x");
        check("printf '\u{fffd} as printed'", "\u{fffd} as printed", None).await;
        // Characters that come in pieces, from one and from the other.
        let halves = r"for i in 1 2 3; do printf '\xe2'; sleep 0.02; printf '\x82\xac'; printf '\xf0\x9f' >&2; sleep 0.02; printf '\x98\x80' >&2; done";
        check(halves, &"€😀".repeat(3), None).await;
        check(r"printf 'cut \xe2\x82'", "cut \u{fffd}", Some(1.0)).await;
    });
}
