//! The tool on real files, with a person who answers.

use std::os::unix::fs::{PermissionsExt as _, symlink};

use toolgate_model::Model;
use toolgate_permission::Refusal;
use toolgate_tool::Tool;

use super::*;
use crate::testing::{Bench, output_text};

fn tool() -> ApplyPatch {
    ApplyPatch::new(Arc::new(Files::new(true)), EditDiagnostics::default())
}

async fn run(bench: &Bench, body: &str) -> Result<ToolOutput, String> {
    let patch = format!("*** Begin Patch\n{}\n*** End Patch", bench.fill(body));
    bench.run(&tool(), json!({"patchText": patch})).await
}

async fn check_error(bench: &Bench, body: &str, expected: &str) {
    let error = run(bench, body).await.unwrap_err();
    let expected = bench.fill(&format!("apply_patch verification failed: {expected}"));
    assert!(error.starts_with(&expected), "{body:?}: {error}");
    assert!(bench.asked().is_empty(), "{body:?}: what would fail asks nobody");
}

#[tokio::test]
async fn does_everything_and_tells() {
    let bench = Bench::new();
    bench.write("a.txt", "one\ntwo\n");
    bench.write("b.txt", "bee\n");
    bench.write("c.txt", "sea\n");
    std::fs::set_permissions(bench.at("b.txt"), std::fs::Permissions::from_mode(0o751)).unwrap();
    let body = "*** Add File: n/new.txt\n+new\n*** Update File: a.txt\n@@\n-one\n+ONE\n*** Update File: a.txt\n@@\n-two\n+TWO\n\
                *** Update File: b.txt\n*** Move to: d/b.txt\n@@\n-bee\n+BEE\n*** Delete File: c.txt";
    let output = run(&bench, body).await.unwrap();
    let text = "Success. Updated the following files:\nA n/new.txt\nM a.txt\nM a.txt\nM d/b.txt\nD c.txt";
    assert_eq!((output.title.as_str(), output_text(&output)), (text, text));
    assert_eq!(bench.text("n/new.txt"), "new\n");
    assert_eq!(bench.text("a.txt"), "ONE\nTWO\n");
    assert_eq!(bench.text("d/b.txt"), "BEE\n");
    assert!(!bench.at("b.txt").exists() && !bench.at("c.txt").exists());
    assert_eq!(
        bench.at("d/b.txt").metadata().unwrap().permissions().mode() & 0o777,
        0o751
    );

    let ask = bench.last_ask();
    let paths = ["n/new.txt", "a.txt", "b.txt", "d/b.txt", "c.txt"];
    assert_eq!((ask.permission.as_str(), ask.always), ("edit", vec!["*".to_owned()]));
    assert_eq!(ask.patterns, paths);
    assert_eq!(ask.metadata["filepath"], json!(paths.join(", ")));
    assert_eq!(ask.metadata["files"], output.metadata["files"]);
    assert_eq!(output.metadata["diagnostics"], json!({}));
    let diff = output.metadata["diff"].as_str().unwrap();
    let files = output.metadata["files"].as_array().unwrap();
    let patches: String = (files.iter())
        .map(|file| format!("{}\n", file["patch"].as_str().unwrap()))
        .collect();
    assert_eq!((diff, files.len()), (patches.as_str(), 5));
    let mut moved = files[3].clone();
    moved.as_object_mut().unwrap().remove("patch");
    let expected = json!({
        "filePath": bench.fill("$w/b.txt"), "relativePath": "d/b.txt", "type": "move",
        "additions": 1, "deletions": 1, "movePath": bench.fill("$w/d/b.txt"),
    });
    assert_eq!(moved, expected);
    let edited = paths.map(|path| bench.at(path));
    assert_eq!(bench.edited().len(), edited.len());
    assert!(edited.iter().all(|path| bench.edited().contains(path)));

    // What it wrote counts as read.
    let write = crate::write::Write::new(Arc::new(Files::new(true)), EditDiagnostics::default());
    for path in ["n/new.txt", "a.txt", "d/b.txt"] {
        bench
            .run(&write, json!({"filePath": path, "content": "x"}))
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn sections_build_on_each_other() {
    let bench = Bench::new();
    let check = async |files: &[(&str, &str)], body: &str, expected: &[(&str, Option<&str>)]| {
        for (path, text) in files {
            bench.write(path, text);
        }
        run(&bench, body).await.unwrap();
        for (path, text) in expected {
            let found = std::fs::read_to_string(bench.at(path)).ok();
            assert_eq!(found.as_deref(), *text, "{path} after {body}");
        }
    };
    let delete_add = "*** Delete File: a\n*** Add File: a\n+new";
    check(&[("a", "old\n")], delete_add, &[("a", Some("new\n"))]).await;
    let add_update = "*** Add File: b\n+one\n*** Update File: b\n-one\n+two";
    check(&[], add_update, &[("b", Some("two\n"))]).await;
    let add_delete = "*** Add File: c\n+one\n*** Delete File: c";
    check(&[], add_delete, &[("c", None)]).await;
    let move_update = "*** Update File: d\n*** Move to: e\n*** Update File: e\n@@\n-d\n+D";
    check(&[("d", "d\n")], move_update, &[("d", None), ("e", Some("D\n"))]).await;
    let swap =
        "*** Update File: f\n*** Move to: t\n*** Update File: g\n*** Move to: f\n*** Update File: t\n*** Move to: g";
    check(
        &[("f", "f"), ("g", "g")],
        swap,
        &[("f", Some("g")), ("g", Some("f")), ("t", None)],
    )
    .await;
    let to_itself = "*** Update File: h\n*** Move to: ./h\n@@\n-h\n+H";
    check(&[("h", "h\n")], to_itself, &[("h", Some("H\n"))]).await;
    let marked = "*** Update File: i\n@@\n-i\n+I\n*** Add File: j\n+J";
    check(
        &[("i", "\u{feff}i\r\n"), ("j", "\u{feff}j\n")],
        marked,
        &[("i", Some("\u{feff}I\r\n")), ("j", Some("\u{feff}J\n"))],
    )
    .await;
}

#[tokio::test]
async fn fails_before_it_asks() {
    let bench = Bench::new();
    bench.write("a.txt", "a\n");
    bench.write("dir/x", "x");
    bench.write("raw", b"a\n\xff\n");
    let keep = "*** Add File: new\n+x\n";
    let check = async |body: &str, expected: &str| {
        check_error(&bench, &format!("{keep}{body}"), expected).await;
        assert!(!bench.at("new").exists());
    };
    check("*** Update File: none\n-a", "Failed to read file to update: $w/none (").await;
    check(
        "*** Update File: dir\n-a",
        "Failed to read file to update: $w/dir (it is a directory, line 4)",
    )
    .await;
    check("*** Delete File: none", "No such file or directory: $w/none (line 4)").await;
    check("*** Delete File: dir", "Is a directory: $w/dir (line 4)").await;
    check(
        "*** Add File: dir\n+x",
        "Path is a directory, not a file: $w/dir (line 4)",
    )
    .await;
    check(
        "*** Update File: a.txt\n*** Move to: dir",
        "Path is a directory, not a file: $w/dir (line 4)",
    )
    .await;
    check(
        "*** Add File: a.txt/b\n+x",
        "Cannot create $w/a.txt/b: $w/a.txt is a file",
    )
    .await;
    check(
        "*** Update File: a.txt\n@@ b\n-a",
        "Error: Failed to find context 'b' in $w/a.txt (line 5)",
    )
    .await;
    check(
        "*** Update File: a.txt\n@@\n-b\n-c",
        "Error: Failed to find expected lines in $w/a.txt:\nb\nc\n\n(",
    )
    .await;
    check(
        "*** Update File: raw\n@@\n-a",
        "Cannot update $w/raw: it is not UTF-8 text, byte 2 is invalid (line 4)",
    )
    .await;
    check(
        "*** Delete File: a.txt\n*** Update File: a.txt\n-a",
        "Failed to read file to update: $w/a.txt (",
    )
    .await;
    for header in ["*** Delete File: ", "*** Update File: a.txt\n*** Move to: "] {
        check(
            &format!("{header}{}", "x/".repeat(3000)),
            "The path is too long: 6000 bytes, the limit is",
        )
        .await;
    }
    // What is only deleted or renamed need not be text.
    run(&bench, "*** Update File: raw\n*** Move to: cooked").await.unwrap();
    run(&bench, "*** Delete File: cooked").await.unwrap();
}

#[tokio::test]
async fn links_are_written_through_and_deleted_themselves() {
    let bench = Bench::new();
    bench.write("file", "a\n");
    for link in ["one", "two"] {
        symlink("file", bench.at(link)).unwrap();
    }
    run(&bench, "*** Update File: one\n-a\n+b").await.unwrap();
    assert!(bench.at("one").is_symlink() && bench.text("file") == "b\n");
    run(&bench, "*** Delete File: one\n*** Update File: file\n-b\n+c")
        .await
        .unwrap();
    assert!(!bench.at("one").is_symlink() && bench.text("file") == "c\n");
    bench.asked();
    check_error(
        &bench,
        "*** Update File: file\n*** Move to: two",
        "Cannot move $w/file to $w/two: both",
    )
    .await;
    run(&bench, "*** Update File: two\n*** Move to: three\n-c\n+d")
        .await
        .unwrap();
    assert_eq!((bench.text("file"), bench.text("three")), ("c\n".into(), "d\n".into()));
    assert!(!bench.at("two").is_symlink());
}

#[tokio::test]
async fn asks_outside_section_by_section() {
    let bench = Bench::new();
    bench.write("../out/a", "a\n");
    bench.write("in", "in\n");
    symlink(bench.at("../out/a"), bench.at("link")).unwrap();
    let outside = ("external_directory".to_owned(), vec![bench.fill("$o/out/*")]);
    for body in [
        "*** Update File: ../out/a\n-a\n+b",
        "*** Update File: link\n-a\n+b",
        "*** Delete File: link",
        "*** Update File: in\n*** Move to: $o/out/b",
        "*** Update File: $o/out/a\n*** Move to: in",
    ] {
        bench.answer(Err(Refusal::Rejected));
        let error = run(&bench, &format!("*** Add File: new\n+x\n{body}"))
            .await
            .unwrap_err();
        assert_eq!(error, Refusal::Rejected.to_string());
        assert_eq!(bench.asked(), std::slice::from_ref(&outside), "{body}");
    }
    // The sections before it are tried first, the ones after it are not.
    let body = "*** Delete File: none\n*** Delete File: ../out/a";
    check_error(&bench, body, "No such file or directory").await;
    let error = run(&bench, "*** Delete File: ../out/none\n*** Delete File: none")
        .await
        .unwrap_err();
    assert!(error.contains("/out/none"), "{error}");
    assert_eq!(bench.asked(), std::slice::from_ref(&outside));
    run(&bench, "*** Delete File: ../out/a").await.unwrap();
    assert_eq!(
        bench.asked(),
        [outside, ("edit".to_owned(), vec!["../out/a".to_owned()])]
    );
}

#[tokio::test]
async fn deleting_a_link_outside_that_leads_inside_asks() {
    let bench = Bench::new();
    bench.write("in", "in\n");
    std::fs::create_dir(bench.at("../out")).unwrap();
    symlink(bench.at("in"), bench.at("../out/back")).unwrap();
    symlink(bench.at("../out"), bench.at("door")).unwrap();
    bench.answer(Err(Refusal::Rejected));
    assert!(run(&bench, "*** Delete File: door/back").await.is_err());
    let outside = ("external_directory".to_owned(), vec![bench.fill("$o/out/*")]);
    assert_eq!(bench.asked(), [outside]);
    assert!(bench.at("../out/back").is_symlink());
}

#[tokio::test]
async fn a_refusal_a_change_and_a_cancellation_leave_everything() {
    let bench = Bench::new();
    let body = "*** Add File: deep/new\n+x\n*** Update File: a\n-a\n+b\n*** Delete File: c";
    let reset = || {
        bench.write("a", "a\n");
        bench.write("c", "c\n");
    };
    let untouched = || assert!(!bench.at("deep").exists() && bench.at("c").exists());
    reset();
    bench.answer(Err(Refusal::Rejected));
    assert_eq!(run(&bench, body).await.unwrap_err(), Refusal::Rejected.to_string());
    untouched();
    for (path, expected_a) in [("a", "theirs"), ("c", "a\n")] {
        reset();
        let meddled = bench.at(path);
        bench.on_ask(move |_| std::fs::write(&meddled, "theirs").unwrap());
        let error = run(&bench, body).await.unwrap_err();
        assert!(error.contains("has been modified since it was last read"), "{error}");
        assert!(error.ends_with("No file was changed."), "{error}");
        untouched();
        assert_eq!(bench.text("a"), expected_a);
    }
    reset();
    let cancelled = bench.cancelled.clone();
    bench.on_ask(move |_| cancelled.cancel());
    assert!(run(&bench, body).await.is_err());
    untouched();
    assert!(bench.has_read_nothing() && bench.edited().is_empty());
}

#[tokio::test]
async fn diffs_are_bounded() {
    let bench = Bench::new();
    let section = |n: usize| format!("*** Add File: {n}\n{}", "+some text\n".repeat(60_000));
    let body: String = (0..12).map(section).collect();
    let output = run(&bench, body.trim_end()).await.unwrap();
    let diff = output.metadata["diff"].as_str().unwrap();
    assert!(diff.len() < MAX_DIFFS + 4096 && diff.contains("(left out: "));
    assert_eq!(output.metadata["files"][11]["additions"], json!(60_000));
}

#[test]
fn is_offered_to_the_models_that_know_it() {
    let folder = tempfile::tempdir().unwrap();
    let workspace = toolgate_fs::Workspace::open("w", folder.path(), None).unwrap();
    let check = |model_id: &str, expected: bool| {
        let model = Model {
            provider_id: "openai".to_owned(),
            model_id: model_id.to_owned(),
            ..Model::default()
        };
        let offer = Offer {
            workspace: &workspace,
            agent: "build",
            model: &model,
            client: "cli",
            rights: None,
        };
        let tool: &dyn Tool = &tool();
        assert_eq!(tool.is_offered(&offer), expected, "{model_id}");
    };
    check("gpt-5", true);
    check("openai/gpt-5.1-codex", true);
    check("gpt-4o", false);
    check("gpt-oss-120b", false);
    check("claude-sonnet-4-5", false);
    check("", false);
}

#[tokio::test]
async fn what_programs_obey_is_asked_for_by_name() {
    let bench = Bench::new();
    let body = "*** Add File: a.txt\n+a\n*** Add File: .envrc\n+x\n*** Add File: hook\n+x\n*** Update File: hook\n*** Move to: \
                .git/hooks/pre-push";
    run(&bench, body).await.unwrap();
    let ask = bench.last_ask();
    let parts: Vec<_> = ask
        .parts
        .iter()
        .map(|part| (&part.patterns[0], part.guarded.is_some()))
        .collect();
    assert_eq!(
        parts,
        [(&".envrc".to_owned(), true), (&".git/hooks/pre-push".to_owned(), true)]
    );
    assert_eq!(ask.always, ["a.txt", ".envrc", "hook", ".git/hooks/pre-push"]);
    run(&bench, "*** Delete File: .envrc").await.unwrap();
    assert_eq!(bench.last_ask().parts.len(), 1);
    run(&bench, "*** Delete File: a.txt").await.unwrap();
    assert!(bench.last_ask().parts.is_empty() && bench.last_ask().always == ["*"]);
}
