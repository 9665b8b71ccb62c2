//! What a server is told, and what is made of what it finds.

use std::path::Path;
use std::time::Instant;

use super::*;
use crate::support::*;

#[test]
fn a_server_is_told_of_files_in_order() {
    test(async {
        let stage = Stage::new(&["fine"], quick());
        let client = stage.client("fine").await.unwrap();
        let path = stage.path("a.fine");
        let first = client.open(&path).await.unwrap().unwrap();
        let again = client.open(&path).await.unwrap().unwrap();
        assert_eq!((first.is_new, again.is_new), (true, false));
        stage.write("a.fine", "\u{feff}three\n");
        let changed = client.open(&path).await.unwrap().unwrap();
        assert_eq!((&*changed.text, changed.is_new), ("three\n", true));
        std::fs::remove_file(path.display_path()).unwrap();
        assert!(client.open(&path).await.unwrap().is_none());
        client.request("last", Value::Null).await.unwrap();

        let sent = stage.sent("fine");
        let told: Vec<(String, Value)> = sent
            .into_iter()
            .filter_map(|message| Some((message["method"].as_str()?.to_owned(), message["params"].clone())))
            .collect();
        let methods: Vec<&str> = told.iter().map(|(method, _)| method.as_str()).collect();
        let (watched, changes) = ("workspace/didChangeWatchedFiles", "textDocument/didChange");
        assert_eq!(
            methods,
            [
                "initialize",
                "initialized",
                "workspace/didChangeConfiguration",
                watched,
                "textDocument/didOpen",
                watched,
                changes,
                watched,
                changes,
                watched,
                "textDocument/didClose",
                "last"
            ]
        );
        let uri = format!("file://{}", path.display_path().display());
        let root = format!("file://{}", stage.workspace.directory().display());
        for (at, pointer, expected) in [
            (0, "/processId", json!(std::process::id())),
            (0, "/rootUri", json!(root)),
            (0, "/workspaceFolders", json!([{"name": "workspace", "uri": root}])),
            (0, "/initializationOptions", json!({"a": {"b": 1}})),
            (2, "/settings", json!({"a": {"b": 1}})),
            (3, "/changes", json!([{"uri": uri, "type": 1}])),
            (4, "/textDocument/text", json!("one\ntwo\n")),
            (4, "/textDocument/version", json!(0)),
            (5, "/changes/0/type", json!(2)),
            (6, "/textDocument", json!({"uri": uri, "version": 1})),
            (8, "/contentChanges", json!([{"text": "three\n"}])),
            (9, "/changes/0/type", json!(3)),
        ] {
            assert_eq!(told[at].1.pointer(pointer), Some(&expected), "{} {pointer}", told[at].0);
        }
        let answers = || -> Vec<Value> {
            let sent = stage.sent("fine").into_iter();
            sent.filter(|message| message.get("method").is_none()).collect()
        };
        eventually("the server is answered", async || answers().len() == 2).await;
        let answers = answers();
        assert_eq!(answers[0]["result"], json!([1, null]));
        assert_eq!(answers[1]["error"]["code"], -32601);
        stage.stop().await;
    });
}

#[test]
fn findings_are_waited_for_and_told_when_they_are_late() {
    test(async {
        let stage = Stage::new(&["fine", "slow", "silent"], quick());
        let mut late = stage.servers.subscribe();
        let texts = |found: &[toolgate_lsp::Diagnostic]| {
            let lines: Vec<String> = found.iter().map(ToString::to_string).collect();
            lines
        };
        stage.write("a.fine", "bad\ngood\nbad\n");
        let found = stage
            .servers
            .diagnostics(&stage.path("a.fine"), Duration::from_secs(20))
            .await;
        assert_eq!(texts(&found), ["ERROR [1:1] bad line 1", "ERROR [3:1] bad line 3"]);
        stage.write("a.fine", "good\n");
        let found = stage
            .servers
            .diagnostics(&stage.path("a.fine"), Duration::from_secs(20))
            .await;
        assert!(found.is_empty(), "what was found before is not told again: {found:?}");
        let reported = stage.servers.reported();
        assert_eq!(reported.get(stage.path("a.fine").display_path()).map(Vec::len), Some(0));

        stage.write("a.slow", "bad\nbad\n");
        let started = Instant::now();
        let mut refresh = stage.servers.touch(&stage.path("a.slow"));
        assert!(refresh.diagnostics(Duration::ZERO).await.is_none());
        assert!(
            started.elapsed() < Duration::from_millis(500),
            "{:?}",
            started.elapsed()
        );
        assert_eq!(refresh.finished().await.len(), 1);
        let told = async {
            loop {
                let report = late.recv().await.unwrap();
                if report.server == "slow" && report.diagnostics.len() == 2 {
                    return report.path;
                }
            }
        };
        assert_eq!(told.await, stage.path("a.slow").display_path());

        let client = stage.client("silent").await.unwrap();
        let document = client.open(&stage.path("a.silent")).await.unwrap().unwrap();
        let started = Instant::now();
        assert!(client.findings(&document, Duration::from_secs(60)).await.is_none());
        let waited = started.elapsed();
        assert!((2_900..4_500).contains(&waited.as_millis()), "{waited:?}");
        let other = stage
            .servers
            .diagnostics(&stage.path("a.other"), Duration::from_secs(60))
            .await;
        assert!(other.is_empty());
        stage.stop().await;
    });
}

#[test]
fn a_server_is_shared_until_another_needs_its_place() {
    test(async {
        let limits = Limits { servers: 2, ..quick() };
        let stage = Stage::new(&["fine", "silent", "refuse"], limits);
        let paths: Vec<ResolvedPath> = (0..20).map(|at| stage.path(&format!("{at}.fine"))).collect();
        let starts = paths.iter().map(|path| stage.servers.for_file(path));
        for fitting in futures_util::future::join_all(starts).await {
            assert_eq!(fitting.clients.len(), 1);
        }
        let begun = stage.methods("fine").into_iter();
        assert_eq!(begun.filter(|method| method == "initialize").count(), 1);
        stage.hover("silent").await.unwrap();
        stage.hover("refuse").await.unwrap_err();
        let ids = || -> Vec<String> {
            let running = stage.servers.running();
            running.iter().map(|client| client.id().to_owned()).collect()
        };
        eventually("the one not used for longest is gone", async || {
            ids() == ["refuse", "silent"]
        })
        .await;
        assert_eq!(stage.hover("fine").await.unwrap()["contents"], "fine");
        stage.stop().await;
    });
}

#[test]
fn a_server_that_nobody_needs_ends() {
    test(async {
        let limits = Limits {
            idle: Duration::from_millis(200),
            ..quick()
        };
        let stage = Stage::new(&["fine"], limits);
        stage.hover("fine").await.unwrap();
        eventually("nobody needs it", async || stage.servers.running().is_empty()).await;
        assert_eq!(stage.hover("fine").await.unwrap()["contents"], "fine");
        stage.stop().await;
    });
}

#[test]
fn places_are_counted_as_the_server_counts() {
    test(async {
        let stage = Stage::new(&["fine", "utf8"], quick());
        for (how, expected) in [("fine", 3), ("utf8", 6)] {
            let name = format!("a.{how}");
            stage.write(&name, "é😀x\n");
            let client = stage.client(how).await.unwrap();
            let path = stage.path(&name);
            let document = client.open(&path).await.unwrap().unwrap();
            let place = client.place(path.display_path(), &document.text, 1, 3);
            let answer = client.request("textDocument/hover", place).await.unwrap();
            assert_eq!(answer["at"], json!({"line": 0, "character": expected}), "{how}");
        }
        stage.stop().await;
    });
}

#[test]
fn secrets_of_the_service_stay_with_it() {
    test(async {
        let stage = Stage::new(&["fine"], quick());
        let client = stage.client("fine").await.unwrap();
        let variables = client.request("environment", Value::Null).await.unwrap();
        assert_eq!(
            (&variables["GIVEN"], &variables["HOME"]),
            (&json!("yes"), &json!("/nowhere"))
        );
        assert!(variables["PATH"].is_string());
        assert!(!variables.to_string().contains("secret"), "{variables}");
        stage.stop().await;
    });
}

/// A service with a fake server for `.fine` files that its user has configured.
async fn service(config: Value, trusted: bool) -> Server {
    let setup = Setup {
        config: Some(config),
        ..Setup::default()
    };
    let setup = setup.env("OPENCODE_EXPERIMENTAL_LSP_TOOL", "1");
    Server::with(if trusted {
        setup.env("TOOLGATE_TRUST", "1")
    } else {
        setup
    })
    .await
}

fn fake(folder: &Path, extension: &str) -> Value {
    json!({"command": ["python3", SCRIPT, "fine", folder], "extensions": [extension]})
}

fn hover(path: &str) -> Value {
    json!({"operation": "hover", "filePath": path, "line": 1, "character": 2})
}

#[test]
fn the_tool_answers_and_says_why_it_cannot() {
    test(async {
        let folder = TempDir::new().unwrap();
        let missing = json!({"command": ["no-such-server"], "extensions": [".missing"]});
        let config = json!({"lsp": {"fake": fake(folder.path(), ".fine"), "none": missing}});
        let server = service(config, false).await;
        for name in ["a.fine", "a.missing", "a.other", "a.rs"] {
            std::fs::write(server.work().join(name), "text\n").unwrap();
        }
        let call = server.run("lsp", hover("a.fine")).await;
        let done = completed(&call);
        assert_eq!(done.title, "hover a.fine:1:2");
        let output: Value = serde_json::from_str(&done.output).unwrap();
        assert_eq!(output[0]["at"], json!({"line": 0, "character": 1}));

        for (path, expected) in [
            ("a.other", "No LSP server available for this file type."),
            (
                "a.missing",
                "No LSP server available for this file type.\nnone: the program \"no-such-server\" is not found",
            ),
        ] {
            let call = server.run("lsp", hover(path)).await;
            assert_eq!(failed(&call).error, expected);
        }
        let call = server.run("lsp", hover("a.rs")).await;
        let error = &failed(&call).error;
        assert!(
            error.contains("rustup component add rust-analyzer") || error.contains("which is not trusted"),
            "{error}"
        );
    });
}

#[test]
fn what_a_project_names_is_run_only_if_it_is_trusted() {
    test(async {
        for trusted in [false, true] {
            let folder = TempDir::new().unwrap();
            let mut server = service(json!({}), trusted).await;
            let project = json!({"lsp": {"theirs": fake(folder.path(), ".fine")}});
            std::fs::write(server.work().join("opencode.json"), project.to_string()).unwrap();
            std::fs::write(server.work().join("a.fine"), "text\n").unwrap();
            server.stop().await;
            server.restart().await;
            let call = server.run("lsp", hover("a.fine")).await;
            if trusted {
                assert!(completed(&call).output.contains("\"fine\""));
            } else {
                let error = &failed(&call).error;
                assert!(
                    error.contains("theirs: it is named by the project, which is not trusted."),
                    "{error}"
                );
                assert!(!folder.path().join("fine.log").exists());
            }
        }
    });
}
