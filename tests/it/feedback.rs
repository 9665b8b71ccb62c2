//! What language servers say of files that tools have changed: in the result, or later.

mod hostile;

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use toolgate_contract::*;

use crate::support::*;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/feedback/server.py");

/// A service with these language servers, whose edits wait for them this long.
pub(crate) async fn service(servers: Value, wait: &str) -> Server {
    Server::with(setup(servers, wait)).await
}

pub(crate) fn setup(servers: Value, wait: &str) -> Setup {
    let setup = Setup {
        config: Some(json!({ "lsp": servers })),
        ..Setup::default()
    };
    setup
        .env("OPENCODE_EXPERIMENTAL_LSP_TOOL", "1")
        .env("TOOLGATE_TRUST", "1")
        .env("TOOLGATE_LSP_DIAGNOSTICS_WAIT", wait)
}

/// What a fake server is configured with; `how` is what `server.py` is to do, `delay` after how many milliseconds it reports.
pub(crate) fn fake(how: &str, delay: u64) -> Value {
    json!({"fake": {"command": ["python3", SCRIPT, how, delay.to_string()], "extensions": [".fake"]}})
}

/// Puts a file into the workspace.
pub(crate) fn put(server: &Server, name: &str, text: &str) {
    let path = server.work().join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Writes a file by the tool.
pub(crate) async fn write(server: &Server, name: &str, text: &str) -> Call {
    let request = request("write", json!({"filePath": name, "content": text}));
    let call = run(&mut server.tools(), run_request(in_session("s", request)))
        .await
        .unwrap();
    completed(&call);
    call
}

/// Changes a file that the session has written or read.
pub(crate) async fn edit(server: &Server, name: &str, old: &str, new: &str) -> Call {
    let request = request("edit", json!({"filePath": name, "oldString": old, "newString": new}));
    let call = run(&mut server.tools(), run_request(in_session("s", request)))
        .await
        .unwrap();
    completed(&call);
    call
}

pub(crate) async fn read(server: &Server, name: &str) {
    let request = request("read", json!({ "filePath": name }));
    let call = run(&mut server.tools(), run_request(in_session("s", request)))
        .await
        .unwrap();
    completed(&call);
}

/// The metadata that a call has by now.
pub(crate) fn metadata(call: &Call) -> Value {
    completed(call).metadata.as_ref().map(json_of).unwrap_or_default()
}

pub(crate) fn path_of(server: &Server, name: &str) -> String {
    let path = server.work().canonicalize().unwrap().join(name);
    path.to_str().unwrap().to_owned()
}

/// What is known of a file in the metadata of a call.
pub(crate) fn reported(server: &Server, call: &Call, name: &str) -> Vec<Value> {
    let reported = metadata(call)["diagnostics"][path_of(server, name)].clone();
    reported.as_array().cloned().unwrap_or_default()
}

const PROMPT: u64 = 10;

/// Waits until the server runs and has answered a change: from then on edits wait for it.
async fn warm(server: &Server) {
    let call = write(server, "warm.fake", "broken\n").await;
    let id = call.call_id.clone();
    eventually("the server has reported", async || {
        let known = server.get(&id).await;
        !reported(server, &known, "warm.fake").is_empty()
    })
    .await;
    let again = write(server, "warm.fake", "fine\n").await;
    let id = again.call_id.clone();
    eventually("the server has reported that it is mended", async || {
        metadata(&server.get(&id).await)["diagnostics"] == json!({path_of(server, "warm.fake"): []})
    })
    .await;
}

fn block(server: &Server, name: &str, errors: &str) -> String {
    format!(
        "<diagnostics file=\"{}\">\n{errors}\n</diagnostics>",
        path_of(server, name)
    )
}

#[test]
fn errors_are_in_the_result() {
    test(async {
        let server = service(fake("fine", PROMPT), "3s").await;
        warm(&server).await;

        let written = write(&server, "a.fake", "one\n😀 broken and doubtful\nbroken\n").await;
        let errors = block(
            &server,
            "a.fake",
            "ERROR [2:4] this is broken\nERROR [3:1] this is broken",
        );
        let in_file = format!("\n\nLSP errors detected in this file, please fix:\n{errors}");
        assert_eq!(completed(&written).output, format!("Wrote file successfully.{in_file}"));
        let found = reported(&server, &written, "a.fake");
        let severities: Vec<&Value> = found.iter().map(|it| &it["severity"]).collect();
        assert_eq!(severities, [&json!(1.0), &json!(1.0), &json!(2.0)]);

        let mended = edit(&server, "a.fake", "broken\n", "whole\n").await;
        let errors = block(&server, "a.fake", "ERROR [2:4] this is broken");
        let in_file = format!("\n\nLSP errors detected in this file, please fix:\n{errors}");
        assert_eq!(
            completed(&mended).output,
            format!("Edit applied successfully.{in_file}")
        );

        let edits = json!([
            {"oldString": "broken and doubtful", "newString": "fine"},
            {"oldString": "one", "newString": "two"},
        ]);
        let input = json!({"filePath": "a.fake", "edits": edits});
        let request = in_session("s", request("multiedit", input));
        let mended = run(&mut server.tools(), run_request(request)).await.unwrap();
        assert!(!completed(&mended).output.contains("LSP"), "{mended:?}");
        assert_eq!(
            metadata(&mended)["diagnostics"],
            json!({path_of(&server, "a.fake"): []})
        );
    });
}

#[test]
fn a_patch_has_the_errors_of_each_file() {
    test(async {
        let server = service(fake("fine", PROMPT), "3s").await;
        warm(&server).await;
        put(&server, "gone.fake", "broken\n");
        put(&server, "old.fake", "broken\n");
        let patch = "*** Begin Patch\n*** Add File: sub/a.fake\n+broken\n*** Add File: b.fake\n+fine\n*** Delete File: gone.fake\n\
                     *** Update File: old.fake\n*** Move to: new.fake\n@@\n-broken\n+still broken\n*** Add File: c.txt\n+broken\n*** End Patch";
        let call = server.run("apply_patch", json!({"patchText": patch})).await;
        let output = &completed(&call).output;
        let head =
            "Success. Updated the following files:\nA sub/a.fake\nA b.fake\nD gone.fake\nM new.fake\nA c.txt\n\n";
        let first = format!(
            "LSP errors detected in sub/a.fake, please fix:\n{}",
            block(&server, "sub/a.fake", "ERROR [1:1] this is broken")
        );
        let second = format!(
            "LSP errors detected in new.fake, please fix:\n{}",
            block(&server, "new.fake", "ERROR [1:7] this is broken")
        );
        assert_eq!(*output, format!("{head}{first}\n\n{second}"));
        assert_eq!(reported(&server, &call, "new.fake").len(), 1);
        assert_eq!(completed(&call).title.lines().count(), 6, "the title has no errors");
    });
}

#[test]
fn write_tells_of_other_files() {
    test(async {
        let server = service(fake("others", PROMPT), "3s").await;
        warm_others(&server).await;
        let written = write(&server, "a.fake", "broken\n").await;
        let output = &completed(&written).output;
        assert!(
            output.contains("LSP errors detected in this file, please fix:\n"),
            "{output}"
        );
        assert_eq!(
            output.matches("LSP errors detected in other files:\n").count(),
            5,
            "{output}"
        );
        assert!(
            output.contains("other0.fake\">\nERROR [1:1] broken by the change"),
            "{output}"
        );
        assert!(!output.contains("passwd"), "nothing outside the workspace: {output}");
        let edited = edit(&server, "a.fake", "broken", "still broken").await;
        assert!(!completed(&edited).output.contains("other files"), "{edited:?}");
        let told = metadata(&edited)["diagnostics"].clone();
        assert!(
            told.as_object().unwrap().keys().all(|path| path.ends_with(".fake")),
            "{told}"
        );
    });
}

/// As [`warm`], for a server that reports other files, too.
async fn warm_others(server: &Server) {
    for text in ["fine\n", "fine again\n"] {
        let id = write(server, "warm.fake", text).await.call_id;
        eventually("the server has reported", async || {
            let known = server.get(&id).await;
            reported(server, &known, "other7.fake").len() == 1
        })
        .await;
    }
}

#[test]
fn what_comes_late_is_added_to_the_call() {
    test(async {
        let server = service(fake("fine", 600), "0s").await;
        let watch = WatchEventsRequest {
            session_id: "s".to_owned(),
            ..WatchEventsRequest::default()
        };
        let mut happens = server.sessions().watch_events(watch).await.unwrap().into_inner();
        let request = request("write", json!({"filePath": "a.fake", "content": "broken\n"}));
        let log = server.execute(in_session("s", kept("late", request))).await.unwrap();
        check_log(0, &log);
        let last = log.last().unwrap().sequence;
        let call::Ending::Completed(end) = end_of(&log) else {
            panic!("{log:?}")
        };
        assert_eq!(end.output, "Wrote file successfully.");

        let changed = loop {
            let event = happens.message().await.unwrap().unwrap().event.unwrap();
            if let Some(event::Event::CallMetadataChanged(changed)) = event.event {
                break changed;
            }
        };
        assert_eq!(
            (changed.call_id.as_str(), changed.tool.as_str(), changed.sequence),
            ("late", "write", last + 1)
        );
        let patch = json_of(changed.metadata.as_ref().unwrap());
        let found = &patch["diagnostics"][path_of(&server, "a.fake")];
        assert_eq!(found[0]["message"], "this is broken");

        let record = server.get("late").await;
        assert_eq!((record.state(), record.last_sequence), (CallState::Completed, last + 1));
        assert_eq!(metadata(&record)["diagnostics"], patch["diagnostics"]);
        assert_eq!(metadata(&record)["exists"], json!(false), "the rest stays");
        assert_eq!(completed(&record).output, "Wrote file successfully.");

        let late = server.watch("late", last).await.unwrap();
        assert_eq!(late.len(), 1, "{late:?}");
        let Some(call_event::Event::Metadata(metadata)) = &late[0].event else {
            panic!("{late:?}")
        };
        assert_eq!(json_of(metadata.metadata.as_ref().unwrap()), patch);
        assert!(server.watch("late", last + 1).await.unwrap().is_empty());
        check_log(0, &server.watch("late", 0).await.unwrap());
    });
}

#[test]
fn what_is_late_for_a_file_that_was_changed_again_is_dropped() {
    test(async {
        let server = service(fake("fine", 3_000), "0s").await;
        let first = write(&server, "a.fake", "broken\n").await;
        let second = edit(&server, "a.fake", "broken", "broken twice, broken").await;
        eventually("the second is reported", async || {
            !reported(&server, &server.get(&second.call_id).await, "a.fake").is_empty()
        })
        .await;
        let first = server.get(&first.call_id).await;
        assert_eq!(metadata(&first)["diagnostics"], json!({}));
    });
}

#[test]
fn without_a_server_there_are_no_findings() {
    test(async {
        let server = service(fake("fine", PROMPT), "3s").await;
        let written = write(&server, "a.txt", "broken\n").await;
        assert_eq!(completed(&written).output, "Wrote file successfully.");
        assert_eq!(metadata(&written)["diagnostics"], json!({}));
        let off = service(json!(false), "3s").await;
        let written = write(&off, "a.fake", "broken\n").await;
        assert_eq!(metadata(&written)["diagnostics"], json!({}));
    });
}

#[test]
fn a_service_that_stops_waits_for_no_report() {
    test(async {
        let mut server = service(fake("fine", 60_000), "0s").await;
        write(&server, "a.fake", "broken\n").await;
        let begun = Instant::now();
        server.stop().await;
        assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
        gone(&server.folder().display().to_string()).await;
    });
}
