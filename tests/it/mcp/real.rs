//! Servers of the registries of npm and PyPI, over standard streams.

use std::fs;

use serde_json::json;

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
