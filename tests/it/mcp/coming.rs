//! Servers that come, go and change with the configuration while the service runs.

use std::fs;

use serde_json::json;

use super::*;

/// Writes the user's configuration anew.
fn configure(server: &Server, servers: &Value) {
    let file = server.folder().join("home/.config/opencode/opencode.json");
    fs::write(file, json!({ "mcp": servers }).to_string()).unwrap();
}

async fn sources(server: &Server) -> Vec<String> {
    let info = server.info().get_server_info(GetServerInfoRequest {}).await.unwrap();
    let sources = info.into_inner().workspaces.remove(0).tool_sources;
    let of_mcp = sources.into_iter().filter(|source| source.source() == ToolSource::Mcp);
    of_mcp.map(|source| source.name).collect()
}

#[test]
fn servers_come_and_go_with_the_configuration() {
    test(async {
        let folder = tempfile::tempdir().unwrap();
        let seen = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let entry = |name: &str| local(&["python3", SCRIPT, "good", &seen(name)]);
        let starts = |name: &str| {
            let text = fs::read_to_string(seen(name)).unwrap_or_default();
            text.lines().filter(|line| *line == "start").count()
        };
        let server = service(&[("stays", entry("stays"))]).await;
        ready(&server, "stays").await;

        configure(&server, &json!({"stays": entry("stays"), "comes": entry("comes")}));
        eventually("it is named", async || sources(&server).await.len() == 2).await;
        ready(&server, "comes").await;
        completed(&server.run("comes_work", json!({})).await);

        // Another entry of the same name: the old program ends first.
        let mut changed = entry("changed");
        changed["environment"] = json!({"X": "1"});
        configure(&server, &json!({"stays": entry("stays"), "comes": changed}));
        gone(&seen("comes")).await;
        eventually("the new one runs", async || starts("changed") == 1).await;
        ready(&server, "comes").await;

        // Switched off, and named no more.
        changed["enabled"] = json!(false);
        configure(&server, &json!({"stays": entry("stays"), "comes": changed}));
        gone(&seen("changed")).await;
        eventually("it is off", async || {
            source(&server, "comes").await.0 == ToolSourceState::Disabled
        })
        .await;
        configure(&server, &json!({"stays": entry("stays")}));
        eventually("it is gone", async || sources(&server).await == ["stays"]).await;
        assert!(!names(&server).await.contains(&"comes_work".to_owned()));
        assert_eq!((starts("stays"), starts("comes"), starts("changed")), (1, 1, 1));
        assert!(names(&server).await.contains(&"stays_work".to_owned()));
        server.assert_calm();
    });
}

#[test]
fn what_a_project_names_comes_only_where_it_is_trusted() {
    test(async {
        let server = service(&[]).await;
        let marker = server.work().join("started");
        let config = json!({"mcp": {"p": local(&["touch", marker.to_str().unwrap()])}});
        fs::write(server.work().join("opencode.json"), config.to_string()).unwrap();
        eventually("it is named", async || sources(&server).await == ["p"]).await;
        assert_eq!(source(&server, "p").await.0, ToolSourceState::Untrusted);
        assert!(!marker.exists());
    });
}
