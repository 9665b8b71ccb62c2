//! Tests of `files`.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use serde_json::{Value, json};
use toolgate_fs::marks::sha256;

use super::*;
use crate::revert::Revert;
use crate::testing::{Bench, output_text};

struct Stage {
    bench: Bench,
    tool: Files,
    uploads: Uploads,
    revert: Revert,
    _data: tempfile::TempDir,
}

impl Stage {
    fn new() -> Self {
        let data = tempfile::tempdir().unwrap();
        let uploads = Uploads::new(data.path().join("uploads"), 0);
        let files = Arc::new(LockedFiles::new(true));
        Self {
            bench: Bench::new(),
            tool: Files::new(files.clone(), uploads.clone(), EditDiagnostics::default()),
            uploads,
            revert: Revert::new(files, EditDiagnostics::default()),
            _data: data,
        }
    }

    async fn run(&self, input: Value) -> Result<ToolOutput, String> {
        self.bench.run(&self.tool, input).await
    }

    /// Sends a content for a call, and makes the call.
    async fn write(&self, content: &'static [u8], mut input: Value) -> Result<ToolOutput, String> {
        let ctx = self.bench.ctx();
        let mut upload = self.uploads.begin().await.unwrap();
        upload.write(Bytes::from_static(content)).await.unwrap();
        let (sha256, bytes) = upload.keep(ctx.workspace.name(), ctx.call.name()).await.unwrap();
        input["operation"] = json!("write");
        for (name, value) in [("sha256", json!(sha256)), ("bytes", json!(bytes))] {
            input.as_object_mut().unwrap().entry(name).or_insert(value);
        }
        let input = serde_json::from_value(input).unwrap();
        self.tool.run(input, &ctx).await.map_err(|error| error.to_string())
    }

    async fn revert_last(&self) -> ToolOutput {
        let call = self.bench.last_call();
        let input = json!({"callId": call.as_str()});
        self.bench.run(&self.revert, input).await.unwrap()
    }

    fn exists(&self, name: &str) -> bool {
        self.bench.at(name).symlink_metadata().is_ok()
    }
}

#[tokio::test]
async fn writes_what_was_sent_and_takes_it_back() {
    let stage = Stage::new();
    let output = stage
        .write(b"\0\xff", json!({"path": "a/b.bin", "ifAbsent": true}))
        .await
        .unwrap();
    assert_eq!(output_text(&output), "Wrote 2 bytes to a/b.bin.");
    assert_eq!(std::fs::read(stage.bench.at("a/b.bin")).unwrap(), b"\0\xff");
    let ask = stage.bench.last_ask();
    assert_eq!(
        (ask.permission.as_str(), &ask.patterns[..]),
        ("edit", &["a/b.bin".to_owned()][..])
    );
    assert_eq!((&ask.metadata["bytes"], ask.metadata.get("diff")), (&json!(2), None));
    assert!(stage.bench.has_read_nothing(), "the model has not seen it");
    assert_eq!(stage.bench.edited(), [stage.bench.at("a/b.bin")]);
    stage.revert_last().await;
    assert!(!stage.exists("a/b.bin"));

    stage.bench.write("c.sh", "old\n");
    let known = sha256(b"old\n");
    stage
        .write(b"new\n", json!({"path": "c.sh", "ifSha256": known, "mode": 0o4755}))
        .await
        .unwrap();
    assert!(
        stage.bench.last_ask().metadata["diff"]
            .as_str()
            .unwrap()
            .contains("-old\n+new\n")
    );
    let mode = stage.bench.at("c.sh").metadata().unwrap().permissions().mode();
    assert_eq!((stage.bench.text("c.sh").as_str(), mode & 0o7777), ("new\n", 0o755));
    stage.revert_last().await;
    assert_eq!(stage.bench.text("c.sh"), "old\n");
}

#[tokio::test]
async fn what_is_not_as_expected_is_left_alone() {
    let stage = Stage::new();
    stage.bench.write("a", "old");
    let wrong = sha256(b"else");
    let error = stage
        .write(b"new", json!({"path": "a", "ifSha256": wrong}))
        .await
        .unwrap_err();
    assert!(error.contains("somebody has changed it"), "{error}");
    let error = stage
        .write(b"new", json!({"path": "none", "ifSha256": wrong}))
        .await
        .unwrap_err();
    assert!(error.contains("is not there"), "{error}");
    let error = stage
        .write(b"new", json!({"path": "a", "ifAbsent": true}))
        .await
        .unwrap_err();
    assert!(error.contains("is there already"), "{error}");
    // The digest is what is approved: another content is not written under it.
    let error = stage
        .write(b"new", json!({"path": "a", "sha256": wrong}))
        .await
        .unwrap_err();
    assert!(error.contains("No content of that digest"), "{error}");
    let error = stage
        .run(json!({"operation": "delete", "path": "a", "ifSha256": wrong}))
        .await
        .unwrap_err();
    assert!(error.contains("somebody has changed it"), "{error}");
    assert_eq!(stage.bench.asked(), [], "what would fail asks nobody");
    // It changes while the person thinks.
    let path = stage.bench.at("a");
    stage.bench.on_ask(move |_| std::fs::write(&path, "meanwhile").unwrap());
    let error = stage
        .write(b"new", json!({"path": "a", "ifSha256": sha256(b"old")}))
        .await
        .unwrap_err();
    assert!(error.contains("has been modified"), "{error}");
    assert_eq!(
        (stage.bench.text("a").as_str(), stage.exists("none")),
        ("meanwhile", false)
    );
}

#[tokio::test]
async fn moves_a_folder_whole_and_back() {
    let stage = Stage::new();
    stage.bench.write("old/deep/a.txt", "a");
    stage.bench.write("old/.env", "secret");
    symlink("a.txt", stage.bench.at("old/deep/link")).unwrap();
    std::fs::create_dir(stage.bench.at("old/empty")).unwrap();
    stage
        .run(json!({"operation": "move", "path": "old", "to": "new/place"}))
        .await
        .unwrap();
    assert!(!stage.exists("old") && stage.exists("new/place/empty"));
    assert_eq!(stage.bench.text("new/place/deep/link"), "a");
    let asked = stage.bench.asked();
    let names: Vec<&str> = asked.iter().map(|(permission, _)| permission.as_str()).collect();
    assert_eq!(names, ["read", "edit"]);
    assert!(asked[0].1.contains(&"old/.env".to_owned()), "{asked:?}");
    for path in [
        "old",
        "old/.env",
        "old/deep/a.txt",
        "old/deep/link",
        "new/place",
        "new/place/.env",
    ] {
        assert!(asked[1].1.contains(&path.to_owned()), "{path}: {asked:?}");
    }
    stage.revert_last().await;
    assert_eq!(
        (stage.bench.text("old/.env"), stage.bench.text("old/deep/link")),
        ("secret".into(), "a".into())
    );
    assert!(!stage.exists("new/place/.env") && !stage.exists("new/place/deep/link"));

    for (from, to, expected) in [
        ("old", "old/deep/in", "into itself"),
        ("old/.env", "old/deep/a.txt", "File exists"),
        ("none", "x", "File not found"),
        (".", "x", "stays where it is"),
    ] {
        let error = stage
            .run(json!({"operation": "move", "path": from, "to": to}))
            .await
            .unwrap_err();
        assert!(error.contains(expected), "{from} {to}: {error}");
    }
}

#[tokio::test]
async fn deletes_a_folder_only_if_it_is_meant() {
    let stage = Stage::new();
    stage.bench.write("a/b/c", "c");
    symlink("/etc", stage.bench.at("a/out")).unwrap();
    let error = stage
        .run(json!({"operation": "delete", "path": "a"}))
        .await
        .unwrap_err();
    assert!(error.contains("is a folder"), "{error}");
    stage
        .run(json!({"operation": "delete", "path": "a", "recursive": true}))
        .await
        .unwrap();
    assert!(!stage.exists("a") && Path::new("/etc").is_dir());
    stage.revert_last().await;
    assert_eq!(stage.bench.text("a/b/c"), "c");
    assert_eq!(std::fs::read_link(stage.bench.at("a/out")).unwrap(), Path::new("/etc"));
    // The link itself goes, not what it leads to.
    stage
        .run(json!({"operation": "delete", "path": "a/out"}))
        .await
        .unwrap();
    assert!(!stage.exists("a/out") && Path::new("/etc").is_dir());
    // A file comes while the person thinks: it stays, and is not lost.
    let path = stage.bench.at("a/b/late");
    stage.bench.on_ask(move |_| std::fs::write(&path, "late").unwrap());
    let error = stage
        .run(json!({"operation": "delete", "path": "a", "recursive": true}))
        .await
        .unwrap_err();
    assert!(error.contains("not empty"), "{error}");
    assert_eq!(stage.bench.text("a/b/late"), "late");
}

#[tokio::test]
async fn nothing_leads_out_and_nothing_is_waited_for() {
    let stage = Stage::new();
    std::fs::create_dir(stage.bench.at("../out")).unwrap();
    stage.bench.write("../out/secret", "s");
    stage.bench.write("in/a", "a");
    symlink("../out", stage.bench.at("link")).unwrap();
    symlink("../out/secret", stage.bench.at("file")).unwrap();
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mkfifoat(rustix::fs::CWD, stage.bench.at("pipe"), mode).unwrap();
    for path in [
        "../out/new",
        "/etc/new",
        "link/new",
        "file",
        "link/../../out/new",
        "in/../../out/new",
    ] {
        let error = stage.write(b"x", json!({"path": path})).await.unwrap_err();
        assert!(error.contains("leads out"), "{path}: {error}");
    }
    for path in ["../out/secret", "link/secret", "..", "/etc/passwd"] {
        for input in [
            json!({"operation": "delete", "path": path, "recursive": true}),
            json!({"operation": "move", "path": path, "to": "here"}),
        ] {
            let error = stage.run(input).await.unwrap_err();
            assert!(error.contains("leads out"), "{path}: {error}");
        }
    }
    for to in ["../out/moved", "link/moved", "/tmp/moved"] {
        let error = stage
            .run(json!({"operation": "move", "path": "in", "to": to}))
            .await
            .unwrap_err();
        assert!(error.contains("leads out"), "{to}: {error}");
        let error = stage
            .run(json!({"operation": "create_folder", "path": to}))
            .await
            .unwrap_err();
        assert!(error.contains("leads out"), "{to}: {error}");
    }
    for input in [
        json!({"operation": "delete", "path": "pipe"}),
        json!({"operation": "move", "path": "pipe", "to": "x"}),
        json!({"operation": "delete", "path": "..//w/pipe"}),
    ] {
        let error = stage.run(input).await.unwrap_err();
        assert!(error.contains("pipe"), "{error}");
    }
    let error = stage.write(b"x", json!({"path": "pipe"})).await.unwrap_err();
    assert!(error.contains("named pipe"), "{error}");
    assert_eq!(stage.bench.asked(), []);
    assert_eq!(stage.bench.text("../out/secret"), "s");
    assert_eq!(stage.bench.at("../out").read_dir().unwrap().count(), 1);
}

#[tokio::test]
async fn a_folder_that_is_swapped_while_a_person_thinks_is_not_followed() {
    let stage = Stage::new();
    std::fs::create_dir(stage.bench.at("../out")).unwrap();
    stage.bench.write("../out/a", "outside");
    stage.bench.write("in/a", "a");
    let (from, aside, out) = (stage.bench.at("in"), stage.bench.at("aside"), stage.bench.at("../out"));
    stage.bench.on_ask(move |_| {
        if !aside.exists() {
            std::fs::rename(&from, &aside).unwrap();
            symlink(&out, &from).unwrap();
        }
    });
    stage.write(b"x", json!({"path": "in/a"})).await.unwrap_err();
    for input in [
        json!({"operation": "delete", "path": "aside/../in", "recursive": true}),
        json!({"operation": "move", "path": "in/a", "to": "here"}),
    ] {
        stage.run(input.clone()).await.err();
        assert_eq!(stage.bench.text("../out/a"), "outside", "{input}");
    }
    assert_eq!(stage.bench.text("aside/a"), "a");
}

#[tokio::test]
async fn what_programs_obey_is_asked_for_by_name() {
    let stage = Stage::new();
    stage.bench.write(".git/info/exclude", "");
    stage
        .write(b"#!/bin/sh\n", json!({"path": ".git/hooks/pre-commit"}))
        .await
        .unwrap();
    assert_eq!(stage.bench.last_ask().parts.len(), 1);
    stage
        .run(json!({"operation": "move", "path": ".git/hooks", "to": "hooks"}))
        .await
        .unwrap();
    assert!(!stage.bench.last_ask().parts.is_empty());
    assert!(!stage.bench.last_ask().always.contains(&"*".to_owned()));
}
