//! Stored outputs through the contract: read by bytes and by lines, searched, listed, deleted, and bounded.

use std::time::Duration;

use tonic::Code;
use toolgate_contract::call_event::Event;
use toolgate_contract::read_output_request::Range;
use toolgate_contract::*;

use crate::support::*;

async fn read(server: &Server, id: &str, range: Option<Range>) -> Vec<u8> {
    let request = ReadOutputRequest {
        output_id: id.to_owned(),
        range,
    };
    let mut stream = server.outputs().read_output(request).await.unwrap().into_inner();
    let mut bytes = Vec::new();
    let mut next = None;
    while let Some(piece) = stream.message().await.unwrap() {
        assert!(next.is_none_or(|next| next == piece.offset), "pieces follow each other");
        next = Some(piece.offset + piece.data.len() as i64);
        bytes.extend_from_slice(&piece.data);
    }
    bytes
}

#[test]
fn stored_outputs() {
    test(async {
        let server = Server::start().await;
        let events = server.execute(kept("o", bash("seq 1 60000"))).await.unwrap();
        let whole: String = (1..=60_000).map(|line| format!("{line}\n")).collect();
        let call::Ending::Completed(end) = end_of(&events) else {
            panic!("not completed")
        };
        let truncation = end.truncation.unwrap();
        assert!(truncation.truncated);
        assert_eq!(truncation.total_bytes as usize, whole.len());
        let id = truncation.output_id.as_str();
        let bytes = |offset, limit| Some(Range::Bytes(ByteRange { offset, limit }));
        let lines = |first_line, limit| Some(Range::Lines(LineRange { first_line, limit }));
        let tail = |lines| Some(Range::Tail(Tail { lines }));
        assert_eq!(read(&server, id, None).await, whole.as_bytes());
        assert_eq!(read(&server, id, bytes(5, 7)).await, &whole.as_bytes()[5..12]);
        assert_eq!(read(&server, id, bytes(100_000, 0)).await, &whole.as_bytes()[100_000..]);
        assert_eq!(read(&server, id, bytes(i64::MAX, 0)).await, b"");
        assert_eq!(read(&server, id, bytes(i64::MAX, i64::MAX)).await, b"");
        assert_eq!(read(&server, id, lines(59_999, 0)).await, b"59999\n60000\n");
        assert_eq!(read(&server, id, lines(10, 2)).await, b"10\n11\n");
        assert_eq!(read(&server, id, lines(i64::MAX, i64::MAX)).await, b"");
        assert_eq!(read(&server, id, tail(1)).await, b"60000\n");
        assert_eq!(read(&server, id, tail(1_000_000)).await, whole.as_bytes());
        for bad in [
            bytes(-1, 0),
            bytes(0, -1),
            lines(0, 1),
            lines(-1, 1),
            tail(0),
            tail(-1),
            tail(1_000_001),
        ] {
            let request = ReadOutputRequest {
                output_id: id.to_owned(),
                range: bad,
            };
            refused(
                server.outputs().read_output(request).await.map(|_| ()),
                Code::InvalidArgument,
                "INVALID_FIELD",
            );
        }
        let search = SearchOutputRequest {
            output_id: id.to_owned(),
            pattern: "^5999[89]$".to_owned(),
            before_context: 1,
            after_context: 1,
            max_matches: 1,
        };
        let found = server.outputs().search_output(search).await.unwrap().into_inner();
        let texts: Vec<&str> = found.lines.iter().map(|line| line.text.as_str()).collect();
        assert_eq!(texts, ["59997", "59998"], "the match after the cap is not shown");
        assert_eq!((found.matches, found.truncated), (1, true));
        let get = GetOutputRequest {
            output_id: id.to_owned(),
        };
        let output = server
            .outputs()
            .get_output(get.clone())
            .await
            .unwrap()
            .into_inner()
            .output
            .unwrap();
        assert!(output.complete && output.sha256.len() == 64 && output.call_id == "o");
        assert_eq!(output.total_lines, 60_000);
        let list = ListOutputsRequest {
            call_id: "o".to_owned(),
            ..Default::default()
        };
        let listed = server.outputs().list_outputs(list).await.unwrap().into_inner().outputs;
        assert_eq!(listed, [output]);
        let delete = DeleteOutputRequest {
            output_id: id.to_owned(),
        };
        server.outputs().delete_output(delete.clone()).await.unwrap();
        refused(
            server.outputs().delete_output(delete).await,
            Code::NotFound,
            "NOT_FOUND",
        );
        refused(server.outputs().get_output(get).await, Code::NotFound, "NOT_FOUND");
        let after = server.watch("o", 0).await.unwrap();
        assert!(after.last().is_some_and(is_terminal), "the log outlives the output");
        assert_eq!(server.get("o").await.state(), CallState::Completed);
    });
}

#[test]
fn an_output_while_it_is_written() {
    test(async {
        let server = Server::start().await;
        let request = kept("o", bash("mkfifo go; echo first; cat go; echo last"));
        let mut stream = server.tools().execute_tool(request).await.unwrap().into_inner();
        let event = next_such(&mut stream, is_output).await;
        let Some(Event::Output(output)) = event.event else {
            panic!("no output")
        };
        let id = output.output_id.as_str();
        assert_eq!(read(&server, id, None).await, b"first\n");
        assert_eq!(
            read(&server, id, Some(Range::Tail(Tail { lines: 1 }))).await,
            b"first\n"
        );
        let get = GetOutputRequest {
            output_id: id.to_owned(),
        };
        let info = server
            .outputs()
            .get_output(get.clone())
            .await
            .unwrap()
            .into_inner()
            .output
            .unwrap();
        assert!(!info.complete && info.sha256.is_empty());
        let search = SearchOutputRequest {
            output_id: id.to_owned(),
            pattern: "FIRST|first".to_owned(),
            ..Default::default()
        };
        assert_eq!(
            server
                .outputs()
                .search_output(search)
                .await
                .unwrap()
                .into_inner()
                .matches,
            1
        );
        let delete = DeleteOutputRequest {
            output_id: id.to_owned(),
        };
        refused(
            server.outputs().delete_output(delete).await,
            Code::FailedPrecondition,
            "OUTPUT_IN_USE",
        );
        let go = server.work().join("go");
        tokio::task::spawn_blocking(move || std::fs::write(go, "more\n"))
            .await
            .unwrap()
            .unwrap();
        collect(stream).await.unwrap();
        assert_eq!(read(&server, id, None).await, b"first\nmore\nlast\n");
        let info = server
            .outputs()
            .get_output(get)
            .await
            .unwrap()
            .into_inner()
            .output
            .unwrap();
        assert!(info.complete);
    });
}

#[test]
fn too_much_output_is_a_quota() {
    test(async {
        let server = Server::with(Setup::default().env("TOOLGATE_LIMITS_MAX_OUTPUT_BYTES", "1MiB")).await;
        let from = std::time::Instant::now();
        let events = server.execute(kept("q", bash("yes"))).await.unwrap();
        assert!(from.elapsed() < Duration::from_secs(20));
        check_log(0, &events);
        match end_of(&events) {
            call::Ending::Failed(failed) => assert_eq!(failed.reason(), FailureReason::Quota, "{}", failed.error),
            other => panic!("{other:?}"),
        }
        assert!(output_of(&events).len() <= 1 << 20);
    });
}
