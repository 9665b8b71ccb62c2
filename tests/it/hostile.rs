//! Input from outside, as bad as it comes: text that is not JSON, paths that lead anywhere, files that are no files.

use std::fs;
use std::os::unix::fs::symlink;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};
use tonic::Code;
use toolgate_contract::execute_tool_request::Arguments;
use toolgate_contract::*;

use crate::support::*;

fn raw(tool: &str, text: &str) -> ExecuteToolRequest {
    ExecuteToolRequest {
        arguments: Some(Arguments::InputJson(text.to_owned())),
        ..request(tool, json!({}))
    }
}

/// Any text, and valid inputs that were damaged in one place.
fn arguments() -> impl Strategy<Value = String> {
    let valid = prop::sample::select(vec![
        r#"{"filePath": "f", "offset": 1, "limit": 10}"#,
        r#"{"pattern": "**/*.rs", "path": "."}"#,
        r#"{"filePath": "new", "content": "text"}"#,
        r#"{"command": "true", "description": "d", "timeout": 1000}"#,
    ]);
    let damaged = (valid, any::<prop::sample::Index>(), any::<u8>()).prop_map(|(text, index, with)| {
        let mut bytes = text.as_bytes().to_vec();
        let at = index.index(bytes.len());
        match with % 3 {
            0 => bytes.truncate(at),
            1 => bytes[at] = b' ' + with % 95,
            _ => bytes.insert(at, b' ' + with % 95),
        }
        String::from_utf8(bytes).expect("only ASCII was put in")
    });
    prop_oneof![any::<String>(), "[\\[\\]{}:,\"0-9a-z\\\\ -]{0,60}", damaged]
}

#[test]
fn any_text_is_answered() {
    test(async {
        let server = Server::start().await;
        fs::write(server.work().join("f"), "text\n").unwrap();
        let handle = tokio::runtime::Handle::current();
        let tools = server.tools();
        let cases = tokio::task::spawn_blocking(move || {
            let tool = prop::sample::select(vec![
                "bash", "read", "glob", "grep", "list", "write", "invalid", "BASH", "nope",
            ]);
            let mut runner = TestRunner::new(Config {
                cases: 160,
                failure_persistence: None,
                ..Config::default()
            });
            runner.run(&(tool, arguments()), |(tool, text)| {
                // A damaged command is still a command; only harmless ones are let through.
                prop_assume!(tool != "bash" && tool != "BASH" || !text.contains("command") || text.contains("true"));
                let mut tools = tools.clone();
                let request = ExecuteToolRequest {
                    timeout: Some(prost_types::Duration { seconds: 20, nanos: 0 }),
                    ..raw(tool, &text)
                };
                let result = handle.block_on(async { run(&mut tools, run_request(request)).await });
                let call = result.map_err(|status| TestCaseError::fail(format!("{tool} {text:?}: {status}")))?;
                prop_assert!(call.ending.is_some());
                if let Some(call::Ending::Failed(failed)) = &call.ending {
                    prop_assert_ne!(failed.reason(), FailureReason::Internal, "{}", text);
                }
                Ok(())
            })
        });
        cases.await.unwrap().unwrap();
        server.assert_calm();
    });
}

#[test]
fn shapes_of_json() {
    test(async {
        let server = Server::start().await;
        let deep = |open: &str, close: &str, depth: usize| {
            format!("{{\"filePath\":{}1{}}}", open.repeat(depth), close.repeat(depth))
        };
        let texts = [
            String::new(),
            "   ".to_owned(),
            "null".to_owned(),
            "[]".to_owned(),
            "\"text\"".to_owned(),
            "1e999".to_owned(),
            "{\"filePath\": 1e999}".to_owned(),
            "{\"filePath\": \"f\", \"limit\": 1e308}".to_owned(),
            "{\"filePath\": \"f\", \"limit\": -1}".to_owned(),
            "{\"filePath\": \"f\", \"offset\": 18446744073709551615}".to_owned(),
            "{\"filePath\": \"f\", \"offset\": 99999999999999999999999999999}".to_owned(),
            "{\"filePath\": \"f\", \"offset\": 0.5}".to_owned(),
            format!("{{\"filePath\": \"f\", \"limit\": {}}}", "9".repeat(5000)),
            "{\"filePath\": \"f\", \"filePath\": \"g\"}".to_owned(),
            "{\"filePath\": \"\\ud800\"}".to_owned(),
            "{\"filePath\": \"a\\u0000b\"}".to_owned(),
            "{\"filePath\": \"f\"} trailing".to_owned(),
            "{\"filePath\": \"f\",}".to_owned(),
            "{'filePath': 'f'}".to_owned(),
            "\u{feff}{\"filePath\": \"f\"}".to_owned(),
            deep("[", "]", 100),
            deep("[", "]", 127),
            deep("[", "]", 100_000),
            deep("{\"a\":", "}", 100),
            deep("{\"a\":", "}", 100_000),
            format!("{{{}\"filePath\":\"f\"}}", "\"k\":1,".repeat(100_000)),
        ];
        for tool in ["read", "bash", "write", "glob", "grep", "list", "invalid"] {
            for text in &texts {
                let shown: String = text.chars().take(80).collect();
                let call = run(&mut server.tools(), run_request(raw(tool, text)))
                    .await
                    .unwrap_or_else(|status| panic!("{tool} {shown}: {status}"));
                if let Some(call::Ending::Failed(failed)) = &call.ending {
                    assert_ne!(failed.reason(), FailureReason::Internal, "{tool} {shown}");
                    assert!(
                        failed.error.len() < 100_000,
                        "{tool} {shown}: {} bytes of error",
                        failed.error.len()
                    );
                }
                let same = server.get(&call.call_id).await;
                assert_eq!(same.ending, call.ending, "{tool} {shown}");
            }
        }
        server.assert_calm();
    });
}

/// Inputs that reach `path` by every tool that takes one.
fn ways_to(path: &str) -> Vec<(&'static str, Value)> {
    vec![
        ("read", json!({ "filePath": path })),
        ("write", json!({ "filePath": path, "content": "overwritten" })),
        ("list", json!({ "path": path })),
        ("glob", json!({ "pattern": "*", "path": path })),
        ("grep", json!({ "pattern": "secret", "path": path })),
        (
            "bash",
            json!({ "command": "true", "description": "d", "workdir": path }),
        ),
    ]
}

#[test]
fn outside_paths_are_denied_whatever_they_look_like() {
    test(async {
        let server = Server::with(Setup::permission(json!({ "external_directory": "deny" }))).await;
        let (work, outside) = (server.work(), server.folder().join("outside"));
        fs::create_dir_all(outside.join("sub")).unwrap();
        fs::write(outside.join("sub/secret"), "secret\n").unwrap();
        symlink(&outside, work.join("link")).unwrap();
        symlink(outside.join("sub/secret"), work.join("file-link")).unwrap();
        symlink(outside.join("not-yet"), work.join("dangling")).unwrap();
        symlink("link/sub", work.join("link-to-link")).unwrap();
        symlink("loop", work.join("loop")).unwrap();
        fs::create_dir(work.join("dir")).unwrap();
        let paths = [
            outside.join("sub/secret").display().to_string(),
            outside.join("sub").display().to_string(),
            "../outside/sub/secret".to_owned(),
            "dir/../../outside/sub/secret".to_owned(),
            "link/sub/secret".to_owned(),
            "link/sub".to_owned(),
            "file-link".to_owned(),
            "dangling".to_owned(),
            "link-to-link/secret".to_owned(),
            "dir/../link/sub/../sub/secret".to_owned(),
            "/etc/passwd".to_owned(),
            "/proc/self/environ".to_owned(),
            ["/proc/self", "root/etc/passwd"].join("/"),
        ];
        for path in &paths {
            for (tool, input) in ways_to(path) {
                let call = server.run(tool, input).await;
                let failed = failed(&call);
                assert!(
                    matches!(failed.reason(), FailureReason::Denied | FailureReason::ToolError),
                    "{tool} {path}: {failed:?}"
                );
                assert!(!failed.error.contains("secret\n"), "{tool} {path}: {}", failed.error);
            }
        }
        assert_eq!(fs::read_to_string(outside.join("sub/secret")).unwrap(), "secret\n");
        assert!(!outside.join("not-yet").exists());
        for (tool, input) in ways_to("loop") {
            let call = server.run(tool, input).await;
            assert!(call.ending.is_some(), "{tool}");
        }
        server.assert_calm();
    });
}

#[test]
fn what_is_no_file_is_not_waited_for() {
    test(async {
        let server = Server::with(Setup::permission(json!({ "external_directory": "allow" }))).await;
        let work = server.work();
        let status = std::process::Command::new("mkfifo")
            .arg(work.join("fifo"))
            .status()
            .unwrap();
        assert!(status.success());
        fs::create_dir(work.join("folder")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(work.join("socket")).unwrap();
        symlink("fifo", work.join("to-fifo")).unwrap();
        symlink("/dev/zero", work.join("zero")).unwrap();
        for path in [
            "fifo",
            "to-fifo",
            "socket",
            "folder",
            "zero",
            "/dev/zero",
            "/dev/tty",
            "/dev/stdin",
            "/dev/random",
            "gone",
            "gone/deeper",
            "",
            ".",
            "/",
            "folder/",
            "f\0g",
            "fifo/x",
        ] {
            for (tool, input) in ways_to(path) {
                if path == "/" && tool != "read" && tool != "write" {
                    continue;
                }
                let limited = ExecuteToolRequest {
                    timeout: Some(prost_types::Duration { seconds: 15, nanos: 0 }),
                    ..request(tool, input)
                };
                let call = run(&mut server.tools(), run_request(limited)).await.unwrap();
                if let Some(call::Ending::Failed(failed)) = &call.ending {
                    assert!(
                        !matches!(failed.reason(), FailureReason::TimedOut | FailureReason::Internal),
                        "{tool} {path:?}: {failed:?}"
                    );
                }
            }
        }
        assert!(
            fs::symlink_metadata(work.join("fifo")).is_ok(),
            "a FIFO is not replaced"
        );
        server.assert_calm();
    });
}

#[test]
fn names_and_bytes_that_are_not_utf8() {
    use std::os::unix::ffi::OsStrExt as _;
    test(async {
        let server = Server::start().await;
        let work = server.work();
        let odd = std::ffi::OsStr::from_bytes(b"odd\xff\xfename");
        fs::write(work.join(odd), "needle\n").unwrap();
        fs::write(work.join("binary"), b"\xff\xfe\x00needle\x80\n".repeat(100)).unwrap();
        fs::write(work.join("latin1"), b"caf\xe9 needle\n".repeat(100)).unwrap();
        fs::write(work.join("line\nfeed"), "needle\n").unwrap();
        fs::write(work.join("long-line"), "needle ".repeat(300_000)).unwrap();
        for (tool, input) in [
            ("list", json!({})),
            ("glob", json!({ "pattern": "*" })),
            ("grep", json!({ "pattern": "needle" })),
            ("read", json!({ "filePath": "latin1" })),
            ("read", json!({ "filePath": "binary" })),
            ("read", json!({ "filePath": "long-line" })),
            (
                "bash",
                json!({ "command": "cat binary latin1; printf 'a\\xffb\\0c'", "description": "d" }),
            ),
        ] {
            let call = server.run(tool, input.clone()).await;
            match call.ending.as_ref().unwrap() {
                call::Ending::Completed(completed) => assert!(completed.output.len() < 200_000, "{tool} {input}"),
                call::Ending::Failed(failed) => assert_eq!(failed.reason(), FailureReason::ToolError, "{tool} {input}"),
            }
        }
        server.assert_calm();
    });
}

fn resident_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_gigabyte_is_read_in_little_memory() {
    test(async {
        let server = Server::start().await;
        let path = server.work().join("sparse");
        let file = fs::File::create(&path).unwrap();
        // Lines at both ends, and a hole of zero bytes between them that is one line.
        use std::os::unix::fs::FileExt as _;
        file.write_at(b"first\nsecond\n", 0).unwrap();
        file.write_at(b"\nlast but one\nlast\n", 1 << 30).unwrap();
        server.run("read", json!({ "filePath": path, "limit": 1 })).await;
        let before = resident_kib(server.pid());
        for (tool, input) in [
            ("read", json!({ "filePath": path, "offset": 2, "limit": 5 })),
            ("read", json!({ "filePath": path, "offset": 3, "limit": 2 })),
            ("read", json!({ "filePath": path })),
            ("grep", json!({ "pattern": "last but", "path": server.work() })),
        ] {
            let call = server.run(tool, input.clone()).await;
            assert!(call.ending.is_some(), "{tool} {input}");
        }
        let grown = resident_kib(server.pid()).saturating_sub(before);
        assert!(grown < 32 * 1024, "{grown} KiB more at the peak");
        server.assert_calm();
    });
}

#[test]
fn a_full_disk_is_told_as_such() {
    test(async {
        // The device itself is to say that it is full.
        let mut server = Server::with(Setup::default().env("TOOLGATE_LIMITS_MIN_FREE_BYTES", "1B")).await;
        let data = server.folder().join("data");
        server.stop().await;
        let mounted = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=4m", "tmpfs"])
            .arg(&data)
            .output();
        let problem = match mounted {
            Ok(output) if output.status.success() => None,
            Ok(output) => Some(String::from_utf8_lossy(&output.stderr).into_owned()),
            Err(error) => Some(error.to_string()),
        };
        if let Some(problem) = problem {
            // Only root of a machine of its own may mount; where that is expected, it is a failure.
            eprintln!("NOT CHECKED, a small file system cannot be mounted: {problem}");
            assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "{problem}");
            return;
        }
        let _mounted = Mounted(data);
        server.restart().await;
        let events = server
            .execute(kept("full", bash("yes | head -c 20000000")))
            .await
            .unwrap();
        check_log(0, &events);
        match end_of(&events) {
            call::Ending::Failed(failed) => assert_eq!(failed.reason(), FailureReason::Quota, "{}", failed.error),
            other => panic!("{other:?}"),
        }
        assert!(output_of(&events).len() > 1 << 20, "the beginning is kept");
        server.tools().list_calls(ListCallsRequest::default()).await.unwrap();
        let next = server.execute(bash("true")).await;
        if let Err(status) = next {
            assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
        }
        server.kill9().await;
        server.assert_calm();
    });
}

/// Unmounts when a test is over.
struct Mounted(std::path::PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        // The server that is dropped after this still holds the folder.
        let _ = std::process::Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
