//! Servers of the registries of npm and PyPI, over standard streams.

use std::fs;

use serde_json::json;

use super::web::{Reply, Web};
use super::*;

#[test]
fn servers_of_npm_work() {
    test(async {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.txt"), "of the file system").unwrap();
        let root = folder.path().to_str().unwrap();
        let memory = folder.path().join("memory.json");
        let server = service(&[
            ("files", local(&["node", &npm("server-filesystem"), root])),
            (
                "memory",
                json!({"type": "local", "command": ["node", npm("server-memory")],
                       "environment": {"MEMORY_FILE_PATH": memory}}),
            ),
            ("every thing", local(&["node", &npm("server-everything")])),
        ])
        .await;
        for name in ["files", "memory", "every thing"] {
            ready(&server, name).await;
        }

        let listed = names(&server).await;
        for name in ["files_read_text_file", "memory_create_entities", "every_thing_echo"] {
            assert!(listed.iter().any(|tool| tool == name), "{name} in {listed:?}");
        }

        // This server asks for the roots and takes them for the folders that it may read: they are the workspace.
        fs::write(server.work().join("a.txt"), "of the workspace").unwrap();
        let path = server.work().join("a.txt");
        eventually("the server has asked for the roots", async || {
            let read = server.run("files_read_text_file", json!({ "path": path })).await;
            matches!(read.ending, Some(call::Ending::Completed(end)) if end.output == "of the workspace")
        })
        .await;
        let outside = server
            .run("files_read_text_file", json!({"path": "/etc/hostname"}))
            .await;
        assert!(failed(&outside).error.contains("Access denied"), "{outside:?}");

        let entity = json!({"name": "Ada", "entityType": "person", "observations": ["wrote programs"]});
        let made = server
            .run("memory_create_entities", json!({"entities": [entity]}))
            .await;
        assert!(completed(&made).output.contains("Ada"));
        let graph = server.run("memory_read_graph", json!({})).await;
        assert!(completed(&graph).output.contains("wrote programs"));

        let echo = server.run("every_thing_echo", json!({"message": "hello"})).await;
        assert_eq!(completed(&echo).output, "Echo: hello");
        let sum = server.run("every_thing_get-sum", json!({"a": 2, "b": 3})).await;
        assert!(completed(&sum).output.contains('5'), "{sum:?}");
        let image = server.run("every_thing_get-tiny-image", json!({})).await;
        assert_eq!(completed(&image).attachments[0].mime, "image/png");
    });
}

const SDK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/mcp/sdk.py");

/// Does with a server of the Python SDK what it is for. `tells` says whether it says what it does meanwhile.
async fn uses_the_sdk(server: &Server, name: &str, tells: bool) {
    ready(server, name).await;
    let sum = server.run(&format!("{name}_add"), json!({"a": 2, "b": 40})).await;
    assert_eq!(completed(&sum).output, "42");
    let wrong = server.run(&format!("{name}_add"), json!({"a": "two", "b": 40})).await;
    assert_eq!(
        failed(&wrong).reason(),
        FailureReason::ToolError,
        "the server refuses them"
    );
    let failing = server.run(&format!("{name}_fail"), json!({})).await;
    assert!(failed(&failing).error.contains("it was not to be"), "{failing:?}");
    let events = server
        .execute(request(&format!("{name}_count"), json!({"to": 3})))
        .await
        .unwrap();
    let tells_step = events.iter().any(|event| match &event.event {
        Some(call_event::Event::Metadata(patch)) => format!("{patch:?}").contains("step"),
        _ => false,
    });
    assert_eq!(tells_step, tells, "{events:?}");
    match end_of(&events) {
        call::Ending::Completed(end) => assert_eq!(end.output, "counted"),
        other => panic!("{other:?}"),
    }

    let id = format!("{name}-wait");
    let waiting = kept(&id, request(&format!("{name}_wait"), json!({})));
    let mut stream = server.tools().execute_tool(waiting).await.unwrap().into_inner();
    next_such(&mut stream, |event| match event {
        // What has not begun cannot say that it is cancelled.
        call_event::Event::Metadata(patch) => format!("{patch:?}").contains("waiting"),
        event => !tells && matches!(event, call_event::Event::Running(_)),
    })
    .await;
    let cancel = CancelCallRequest { call_id: id.clone() };
    server.tools().cancel_call(cancel).await.unwrap();
    assert_eq!(failed(&server.get(&id).await).reason(), FailureReason::Cancelled);

    if tells {
        let more = server.run(&format!("{name}_more"), json!({})).await;
        assert_eq!(completed(&more).output, "there is more");
        let new = format!("{name}_new");
        eventually("the new tool", async || names(server).await.contains(&new)).await;
        assert_eq!(completed(&server.run(&new, json!({})).await).output, "new");
    }
}

#[test]
fn a_server_of_the_python_sdk_works() {
    test(async {
        let path = installed("mcp");
        let start = |json: &str| {
            let port = std::net::TcpListener::bind("127.0.0.1:0")
                .unwrap()
                .local_addr()
                .unwrap()
                .port();
            let child = tokio::process::Command::new("python3")
                .args([SDK, "http", &port.to_string(), json])
                .env("PYTHONPATH", &path)
                .stdout(std::process::Stdio::null())
                .stderr(std::process::Stdio::null())
                .kill_on_drop(true)
                .spawn()
                .unwrap();
            (child, format!("http://127.0.0.1:{port}/mcp"))
        };
        let (streams, answers) = (start("streams"), start("json"));
        for (_, url) in [&streams, &answers] {
            let address = url.trim_start_matches("http://").trim_end_matches("/mcp");
            eventually("the server listens", async || {
                tokio::net::TcpStream::connect(address).await.is_ok()
            })
            .await;
        }
        let mut stdio = local(&["python3", SDK, "stdio"]);
        stdio["environment"] = json!({ "PYTHONPATH": path });
        let mut server = service(&[
            ("stdio", stdio),
            ("streams", json!({"type": "remote", "url": streams.1})),
            ("answers", json!({"type": "remote", "url": answers.1})),
        ])
        .await;
        uses_the_sdk(&server, "stdio", true).await;
        eventually("the cancellation is heard", async || server.log().contains("cancelled")).await;
        uses_the_sdk(&server, "streams", true).await;
        // What is answered with one text has no room for anything else.
        uses_the_sdk(&server, "answers", false).await;
        server.stop().await;
    });
}

#[test]
fn the_server_that_fetches_works() {
    test(async {
        let web = Web::start(|request| match request.path.as_str() {
            "/page" => Reply::status(200).text("text/html", "<html><body><h1>Title</h1><p>of a page</p></body></html>"),
            _ => Reply::status(404),
        })
        .await;
        let mut entry = local(&["python3", "-m", "mcp_server_fetch", "--allow-private-ips"]);
        entry["environment"] = json!({ "PYTHONPATH": installed("mcp-server-fetch") });
        let server = service(&[("web", entry)]).await;
        ready(&server, "web").await;
        let page = server.run("web_fetch", json!({"url": web.url("/page")})).await;
        assert!(completed(&page).output.contains("of a page"), "{page:?}");
        let missing = server.run("web_fetch", json!({"url": web.url("/missing")})).await;
        assert!(failed(&missing).error.contains("404"), "{missing:?}");
    });
}

#[test]
fn a_server_of_pypi_works() {
    test(async {
        let path = installed("mcp-server-time");
        let mut entry = local(&["python3", "-m", "mcp_server_time", "--local-timezone", "UTC"]);
        entry["environment"] = json!({ "PYTHONPATH": path });
        let server = service(&[("time", entry)]).await;
        ready(&server, "time").await;
        let now = server
            .run("time_get_current_time", json!({"timezone": "Asia/Tokyo"}))
            .await;
        assert!(completed(&now).output.contains("Asia/Tokyo"), "{now:?}");
        let wrong = server
            .run("time_get_current_time", json!({"timezone": "Nowhere/Land"}))
            .await;
        assert!(failed(&wrong).error.contains("Nowhere/Land"), "{wrong:?}");
    });
}
