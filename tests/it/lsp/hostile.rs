//! Servers that do what they should not: each harms its own requests only.

use std::time::Instant;

use super::*;
use crate::support::*;

/// How a request ends that a faulty server is asked.
const REQUESTS: &[(&str, &str)] = &[
    (
        "hang_call",
        "the language server hang_call did not answer textDocument/hover within 15 s",
    ),
    (
        "crash_call",
        "the language server crash_call has ended: its program ended with code 9: it went [31m wrong",
    ),
    (
        "huge",
        "the language server huge has ended: it sent a message of more than 8 MiB",
    ),
    (
        "garbage",
        "the language server garbage has ended: it sent something that is not a message",
    ),
    (
        "cut",
        "the language server cut has ended: its program ended with code 0",
    ),
    (
        "refuse",
        "the language server refuse refused textDocument/hover: no (-32603)",
    ),
    // It may be found out before it is asked.
    ("deaf", "it does not read what it is sent"),
    (
        "grow",
        "the language server grow has ended: it used more than 150 MiB of memory",
    ),
];

/// How a server cannot be started.
const STARTS: &[(&str, &str)] = &[
    (
        "hang_start",
        "hang_start: the language server hang_start did not answer initialize within 15 s",
    ),
    ("exit", "exit: its program ended with code 3: not installed"),
    (
        "refuse_start",
        "refuse_start: the language server refuse_start refused initialize: not today (1)",
    ),
];

const WORKING: &[&str] = &["fine", "greets", "flood_stderr", "flood_notifications", "busy"];

#[test]
fn faulty_servers_harm_nobody_else() {
    test(async {
        let of = |list: &[(&'static str, &str)]| list.iter().map(|(how, _)| *how).collect::<Vec<_>>();
        let all = [of(REQUESTS), of(STARTS), WORKING.to_vec()].concat();
        let limits = Limits {
            servers: 20,
            memory: 150 << 20,
            request: Duration::from_secs(15),
            ..quick()
        };
        let stage = Stage::new(&all, limits);
        for how in WORKING {
            let answer = stage.hover(how).await.unwrap();
            assert!(answer.is_null() == (*how == "busy"), "{how}: {answer}");
        }
        let ends = REQUESTS.iter().map(async |(how, expected)| {
            // The one that grows is found out when its memory is looked at, which may be after the request has ended.
            if *how == "grow" {
                let client = stage.client(how).await.unwrap();
                let _ = stage.hover(how).await;
                eventually("it is ended", async || client.has_ended()).await;
                return;
            }
            let error = stage.hover(how).await.unwrap_err();
            assert!(error.contains(expected), "{how}: {error}");
        });
        futures_util::future::join_all(ends).await;
        let starts = STARTS.iter().map(async |(how, expected)| {
            let error = stage.hover(how).await.unwrap_err();
            assert!(error.starts_with(expected), "{how}: {error}");
            assert!(
                error.ends_with("s)") && error.contains("(it is started again after "),
                "{error}"
            );
            let started = Instant::now();
            let again = stage.hover(how).await.unwrap_err();
            assert!(again.starts_with(expected), "{how}: {again}");
            assert!(
                started.elapsed() < Duration::from_secs(1),
                "it is left alone: {:?}",
                started.elapsed()
            );
        });
        futures_util::future::join_all(starts).await;
        let cancelled = || {
            stage
                .methods("hang_call")
                .iter()
                .any(|method| method == "$/cancelRequest")
        };
        eventually("the request is taken back", async || cancelled()).await;
        assert_eq!(stage.hover("fine").await.unwrap()["contents"], "fine");
        stage.stop().await;
    });
}

#[test]
fn a_server_that_crashed_works_again() {
    test(async {
        let stage = Stage::new(&["crash_once", "crash_call"], quick());
        let error = stage.hover("crash_once").await.unwrap_err();
        assert!(error.contains("ended with code 9"), "{error}");
        assert_eq!(stage.hover("crash_once").await.unwrap()["contents"], "fine");
        for _ in 0..2 {
            stage.hover("crash_call").await.unwrap_err();
        }
        let error = stage.hover("crash_call").await.unwrap_err();
        assert!(error.contains("(it is started again after "), "{error}");
        stage.stop().await;
    });
}

#[test]
fn a_busy_server_is_asked_again() {
    test(async {
        let stage = Stage::new(&["busy"], quick());
        assert!(stage.hover("busy").await.unwrap().is_null());
        let client = stage.client("busy").await.unwrap();
        assert!(client.is_busy());
        client.calm(Duration::from_secs(20)).await;
        assert!(!client.is_busy());
        assert_eq!(stage.hover("busy").await.unwrap()["contents"], "fine");
        stage.stop().await;
    });
}

#[test]
fn a_file_that_is_too_large_is_not_told_of() {
    test(async {
        let stage = Stage::new(&["fine"], quick());
        stage.write("a.fine", &"x".repeat(5 << 20));
        let error = stage.hover("fine").await.unwrap_err();
        assert!(
            error.ends_with("it has 5242880 bytes, the limit is 4194304."),
            "{error}"
        );
        let found = stage
            .servers
            .diagnostics(&stage.path("a.fine"), Duration::from_secs(20))
            .await;
        assert!(found.is_empty());
        stage.stop().await;
    });
}
