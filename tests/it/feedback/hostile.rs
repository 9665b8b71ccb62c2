//! Servers that do what they should not: no edit waits longer for them than it may, and none is lost.

use super::*;

const EDITS: usize = 20;

/// What the edits would take if each waited for 3 s.
const ALL_WAIT: Duration = Duration::from_secs(60);

/// Edits a file many times and checks that each edit was made; returns how long that took.
async fn edit_often(server: &Server) -> Duration {
    write(server, "a.fake", "version 0\n").await;
    let begun = Instant::now();
    for version in 0..EDITS {
        let (old, new) = (format!("version {version}\n"), format!("version {}\n", version + 1));
        let call = edit(server, "a.fake", &old, &new).await;
        assert!(
            completed(&call).output.starts_with("Edit applied successfully."),
            "{call:?}"
        );
    }
    let text = fs::read_to_string(server.work().join("a.fake")).unwrap();
    assert_eq!(text, format!("version {EDITS}\n"));
    begun.elapsed()
}

#[test]
fn servers_that_never_answer_delay_one_edit_at_most() {
    test(async {
        for how in ["hang", "hang_start", "silent"] {
            let mut server = service(fake(how, 0), "3s").await;
            let took = edit_often(&server).await;
            assert!(took < ALL_WAIT / 2, "{how}: {took:?}");
            server.stop().await;
        }
    });
}

#[test]
fn servers_that_fail_lose_no_edit() {
    test(async {
        for how in ["crash", "crash_later", "exit", "garbage", "huge"] {
            let mut server = service(fake(how, 0), "3s").await;
            let took = edit_often(&server).await;
            assert!(took < ALL_WAIT / 2, "{how}: {took:?}");
            server.stop().await;
        }
        let missing = json!({"fake": {"command": ["no-such-program-anywhere"], "extensions": [".fake"]}});
        let mut server = service(missing, "3s").await;
        assert!(edit_often(&server).await < ALL_WAIT / 2);
        server.stop().await;
    });
}

/// The most memory that the server has occupied, in bytes.
fn peak(server: &Server) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().unwrap();
    kib * 1024
}

#[test]
fn floods_of_findings_stay_bounded() {
    test(async {
        for (how, delay) in [("flood", 0), ("many", 0), ("endless", 0)] {
            let mut server = service(fake(how, delay), "2s").await;
            let took = edit_often(&server).await;
            assert!(took < Duration::from_secs(60), "{how}: {took:?}");
            for call in recent(&server).await {
                let told = &completed(&call).output;
                assert!(told.len() < 64 << 10, "{how}: {} bytes for the model", told.len());
                let metadata = metadata(&call).to_string();
                assert!(
                    metadata.len() < 512 << 10,
                    "{how}: {} bytes of metadata",
                    metadata.len()
                );
            }
            assert!(peak(&server) < 400 << 20, "{how}: {} bytes", peak(&server));
            server.stop().await;
        }
    });
}

#[test]
fn of_very_many_errors_some_are_told() {
    test(async {
        let server = service(fake("many", 0), "3s").await;
        // Edits wait once the server is known to run.
        let first = write(&server, "a.fake", "x\n").await;
        eventually("the server has reported", async || {
            !reported(&server, &server.get(&first.call_id).await, "a.fake").is_empty()
        })
        .await;
        let second = write(&server, "b.fake", "x\n").await;
        let output = &completed(&second).output;
        let of_file = output.split("\n\n").nth(1).unwrap_or_default();
        assert!(
            of_file.starts_with("LSP errors detected in this file, please fix:\n"),
            "{output}"
        );
        assert_eq!(of_file.matches("\nERROR [").count(), 20, "{of_file}");
        assert!(of_file.contains("\n... and 1980 more\n</diagnostics>"), "{of_file}");
        assert_eq!(reported(&server, &second, "b.fake").len(), 100);
    });
}

/// The finished records of the latest calls.
async fn recent(server: &Server) -> Vec<Call> {
    let request = ListCallsRequest {
        page_size: 5,
        ..ListCallsRequest::default()
    };
    let listed = server.tools().list_calls(request).await.unwrap().into_inner().calls;
    let mut calls = Vec::new();
    for call in listed {
        calls.push(server.get(&call.call_id).await);
    }
    assert!(!calls.is_empty());
    calls
}
