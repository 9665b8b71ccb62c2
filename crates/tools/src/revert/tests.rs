//! Tests of `revert`, with `write` as the tool whose calls are taken back.

use std::os::unix::fs::PermissionsExt as _;

use proptest::prelude::*;
use toolgate_fs::changes::PlannedChange;
use toolgate_permission::Refusal;

use super::*;
use crate::testing::{Bench, output_text};
use crate::write::Write;

struct Fixture {
    bench: Bench,
    write: Write,
    revert: Revert,
}

impl Fixture {
    fn new() -> Self {
        let files = Arc::new(Files::new(false));
        Self {
            bench: Bench::new(),
            write: Write::new(files.clone(), EditDiagnostics::default()),
            revert: Revert::new(files, EditDiagnostics::default()),
        }
    }

    async fn write(&self, name: &str, content: &str) -> CallId {
        let input = json!({"filePath": name, "content": content});
        self.bench.run(&self.write, input).await.unwrap();
        self.bench.last_call()
    }

    async fn revert(&self, call: &CallId, merge: bool) -> Result<ToolOutput, String> {
        let input = json!({"callId": call.as_str(), "merge": merge});
        self.bench.run(&self.revert, input).await
    }

    async fn patch(&self, body: &str) -> CallId {
        let patch = crate::apply_patch::ApplyPatch::new(self.revert.files.clone(), EditDiagnostics::default());
        let input = json!({"patchText": format!("*** Begin Patch\n{body}\n*** End Patch")});
        self.bench.run(&patch, input).await.unwrap();
        self.bench.last_call()
    }

    async fn reverted(&self, call: &CallId) -> CallId {
        self.revert(call, false).await.unwrap();
        self.bench.last_call()
    }

    /// Records, and does, a call that changes several files: to a text with a mode, or to nothing.
    async fn change(&self, changes: &[(&str, Option<(&str, u32)>)]) -> CallId {
        let ctx = self.bench.ctx();
        let resolved = changes.iter().map(|(name, _)| ctx.workspace.resolve(name)).collect();
        let mut replacements = Vec::new();
        for file in self.revert.files.lock_all(resolved).await {
            let (_, new) = changes
                .iter()
                .find(|(name, _)| file.path().real() == self.bench.at(name))
                .unwrap();
            let old = file.load().await.unwrap();
            let new = new.map(|(text, mode)| Version {
                bytes: Bytes::from(text.to_owned()),
                mode: Some(mode),
            });
            replacements.push(Replacement { file, old, new });
        }
        let planned = replacements.iter().map(Replacement::planned_change).collect();
        ctx.changes.record(planned).await.unwrap();
        replace_all(replacements).await.unwrap();
        ctx.call
    }

    fn chmod(&self, name: &str, mode: u32) {
        std::fs::set_permissions(self.bench.at(name), std::fs::Permissions::from_mode(mode)).unwrap();
    }

    fn mode(&self, name: &str) -> u32 {
        self.bench.at(name).metadata().unwrap().permissions().mode() & 0o7777
    }

    /// Every file with its content and mode.
    fn tree(&self) -> BTreeMap<PathBuf, (Vec<u8>, u32)> {
        let (mut folders, mut tree) = (vec![self.bench.at("")], BTreeMap::new());
        while let Some(folder) = folders.pop() {
            for entry in folder.read_dir().unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let mode = path.metadata().unwrap().permissions().mode();
                    tree.insert(path.clone(), (std::fs::read(&path).unwrap(), mode));
                }
            }
        }
        tree
    }
}

fn words(output: &ToolOutput) -> Vec<(&str, &str)> {
    let files = output.metadata["files"].as_array().unwrap().iter();
    files
        .map(|file| (file["relativePath"].as_str().unwrap(), file["action"].as_str().unwrap()))
        .collect()
}

#[tokio::test]
async fn restores_content_and_existence() {
    let it = Fixture::new();
    it.bench.write("old.txt", "before\r\n");
    it.chmod("old.txt", 0o640);
    let replaced = it.write("old.txt", "after").await;
    let created = it.write("new/dir/a.txt", "text").await;
    let output = it.revert(&replaced, false).await.unwrap();
    assert_eq!(words(&output), [("old.txt", "restored")]);
    assert_eq!(
        output_text(&output),
        format!("Reverted the call {replaced}.\nrestored old.txt")
    );
    assert_eq!(
        (it.bench.text("old.txt").as_str(), it.mode("old.txt")),
        ("before\r\n", 0o640)
    );
    let output = it.revert(&created, false).await.unwrap();
    assert_eq!(words(&output), [("new/dir/a.txt", "deleted")]);
    assert!(!it.bench.at("new/dir/a.txt").exists());
    let edited = it.bench.edited();
    assert_eq!(edited[2..], [it.bench.at("old.txt"), it.bench.at("new/dir/a.txt")]);
}

#[tokio::test]
async fn a_revert_can_be_reverted() {
    let it = Fixture::new();
    let created = it.write("a.sh", "text").await;
    it.chmod("a.sh", 0o750);
    let reverted = it.reverted(&created).await;
    assert!(!it.bench.at("a.sh").exists());
    let again = it.reverted(&reverted).await;
    assert_eq!((it.bench.text("a.sh").as_str(), it.mode("a.sh")), ("text", 0o750));
    it.reverted(&again).await;
    assert!(!it.bench.at("a.sh").exists());
    let output = it.revert(&again, false).await.unwrap();
    assert_eq!(words(&output), [("a.sh", "unchanged")]);
    assert_eq!(
        it.bench.changes(&it.bench.last_call()),
        [],
        "nothing to do changes nothing"
    );
}

#[tokio::test]
async fn shows_what_it_will_do_and_asks() {
    let it = Fixture::new();
    it.bench.write("a.txt", "one\n");
    let call = it
        .change(&[("a.txt", Some(("two\n", 0o644))), ("b.txt", Some(("new\n", 0o600)))])
        .await;
    it.bench.asked();
    it.bench.answer(Err(Refusal::Rejected));
    assert_eq!(
        it.revert(&call, false).await.unwrap_err(),
        Refusal::Rejected.to_string()
    );
    let ask = it.bench.last_ask();
    assert_eq!(
        (ask.permission.as_str(), ask.patterns),
        ("edit", vec!["a.txt".to_owned(), "b.txt".to_owned()])
    );
    let diff = ask.metadata["diff"].as_str().unwrap();
    assert!(diff.contains("-two\n+one\n") && diff.contains("-new\n"), "{diff}");
    assert_eq!(
        (it.bench.text("a.txt"), it.bench.text("b.txt")),
        ("two\n".to_owned(), "new\n".to_owned())
    );

    it.bench.asked();
    let outside = it.write(&it.bench.fill("$o/out.txt"), "x").await;
    it.bench.asked();
    it.bench.answer(Err(Refusal::Rejected));
    it.revert(&outside, false).await.unwrap_err();
    assert_eq!(
        it.bench.asked(),
        [("external_directory".to_owned(), vec![it.bench.fill("$o/*")])]
    );
}

#[tokio::test]
async fn refuses_what_someone_else_has_written() {
    let it = Fixture::new();
    it.bench.write("a.txt", "one\n");
    it.bench.write("b.txt", "one\n");
    let call = it
        .change(&[("a.txt", Some(("two\n", 0o644))), ("b.txt", Some(("two\n", 0o644)))])
        .await;
    it.bench.write("b.txt", "theirs\n");
    let error = it.revert(&call, false).await.unwrap_err();
    let expected = format!(
        "Cannot revert the call {call}, so nothing was changed:\n- $w/b.txt: someone else has changed it since; \
         `merge` keeps both changes where they are apart"
    );
    assert_eq!(error, it.bench.fill(&expected));
    let error = it.revert(&call, true).await.unwrap_err();
    assert!(
        error.ends_with("someone else has changed it since, and it cannot be merged: line 1"),
        "{error}"
    );
    assert_eq!(
        (it.bench.text("a.txt").as_str(), it.bench.text("b.txt").as_str()),
        ("two\n", "theirs\n")
    );

    let path = it.bench.at("a.txt");
    it.bench.write("b.txt", "two\n");
    it.bench
        .on_ask(move |_| std::fs::write(&path, "while asked\n").unwrap());
    assert!(it.revert(&call, false).await.is_err());
    assert_eq!(
        (it.bench.text("a.txt").as_str(), it.bench.text("b.txt").as_str()),
        ("while asked\n", "two\n")
    );
}

#[tokio::test]
async fn existence_is_not_merged() {
    let it = Fixture::new();
    let check = async |call: &CallId, expected: &str| {
        let error = it.revert(call, true).await.unwrap_err();
        assert!(error.ends_with(expected), "{error}");
    };
    let created = it.write("a.txt", "one").await;
    it.bench.write("a.txt", "two");
    check(&created, "the call created it, and someone else has changed it since").await;
    let deleted = it.change(&[("a.txt", None)]).await;
    it.bench.write("a.txt", "three");
    check(&deleted, "the call deleted it, and someone else has created it since").await;
    let changed = it.write("a.txt", "four").await;
    std::fs::remove_file(it.bench.at("a.txt")).unwrap();
    check(&changed, "someone else has deleted it since").await;
}

#[tokio::test]
async fn merges_what_is_apart() {
    let it = Fixture::new();
    it.bench.write("a.txt", "1\n2\n3\n4\n5\n");
    let call = it.write("a.txt", "1\ntwo\n3\n4\n5\n").await;
    it.bench.write("a.txt", "1\ntwo\n3\n4\nfive\n");
    let output = it.revert(&call, true).await.unwrap();
    assert_eq!(words(&output), [("a.txt", "merged")]);
    assert_eq!(it.bench.text("a.txt"), "1\n2\n3\n4\nfive\n");
    it.reverted(&it.bench.last_call()).await;
    assert_eq!(it.bench.text("a.txt"), "1\ntwo\n3\n4\nfive\n");

    it.bench.write("b.bin", b"\xff\n\xfe\n");
    let call = it.write("b.bin", "text\n").await;
    it.bench.write("b.bin", "text\nmore\n");
    assert!(it.revert(&call, true).await.unwrap_err().ends_with("it is not text"));
    it.bench.write("b.bin", "text\n");
    it.reverted(&call).await;
    assert_eq!(std::fs::read(it.bench.at("b.bin")).unwrap(), b"\xff\n\xfe\n");
}

#[tokio::test]
async fn what_was_recorded_but_not_done_is_no_change() {
    let it = Fixture::new();
    it.bench.write("a.txt", "one");
    it.bench.write("b.txt", "one");
    let ctx = it.bench.ctx();
    let version = |text: &'static str| {
        Some(Version {
            bytes: Bytes::from_static(text.as_bytes()),
            mode: Some(0o644),
        })
    };
    let planned = |name: &str, before, after| PlannedChange {
        path: it.bench.at(name),
        shown: it.bench.at(name),
        before,
        after,
    };
    let changes = vec![
        planned("a.txt", version("one"), version("two")),
        planned("a.txt", version("two"), version("three")),
        planned("b.txt", version("one"), version("two")),
        planned("c.txt", None, version("new")),
    ];
    ctx.changes.record(changes).await.unwrap();
    // The service died after the first of them.
    it.bench.write("a.txt", "two");
    let output = it.revert(&ctx.call, false).await.unwrap();
    let expected = [("a.txt", "restored"), ("b.txt", "unchanged"), ("c.txt", "unchanged")];
    assert_eq!(words(&output), expected);
    assert_eq!(it.bench.text("a.txt"), "one");
    assert_eq!(it.bench.last_ask().patterns, ["a.txt"]);
}

#[tokio::test]
async fn modes_are_restored_where_the_call_changed_them() {
    let it = Fixture::new();
    it.bench.write("a.sh", "text");
    it.chmod("a.sh", 0o600);
    let mode_only = it.change(&[("a.sh", Some(("text", 0o755)))]).await;
    let content = it.write("a.sh", "more").await;
    it.chmod("a.sh", 0o700);
    it.reverted(&content).await;
    assert_eq!(
        (it.bench.text("a.sh").as_str(), it.mode("a.sh")),
        ("text", 0o700),
        "their mode stays"
    );
    let error = it.revert(&mode_only, false).await.unwrap_err();
    assert!(error.contains("someone else has changed it since"), "{error}");
    it.chmod("a.sh", 0o755);
    it.reverted(&mode_only).await;
    assert_eq!((it.bench.text("a.sh").as_str(), it.mode("a.sh")), ("text", 0o600));

    it.chmod("a.sh", 0o4711);
    let deleted = it.change(&[("a.sh", None)]).await;
    it.reverted(&deleted).await;
    assert_eq!(it.mode("a.sh"), 0o711, "the rights of an owner do not come back");
}

#[tokio::test]
async fn refuses_what_cannot_be_restored() {
    let it = Fixture::new();
    it.bench.write("a/a.txt", "one");
    let same = it.write("a/a.txt", "one").await;
    assert!(it.revert(&same, false).await.is_err(), "it changed nothing");
    assert!(it.revert(&CallId::from("unknown"), false).await.is_err());
    let call = it.write("a/a.txt", "two").await;
    std::fs::rename(it.bench.at("a"), it.bench.at("b")).unwrap();
    std::os::unix::fs::symlink("b", it.bench.at("a")).unwrap();
    assert!(it.revert(&call, false).await.is_err(), "it leads elsewhere now");
    std::fs::remove_file(it.bench.at("a")).unwrap();
    std::fs::rename(it.bench.at("b"), it.bench.at("a")).unwrap();
    it.bench.forget_blobs();
    let error = it.revert(&call, false).await.unwrap_err();
    assert!(
        error.ends_with("what it was before is not kept: it was too large, or it is too long ago"),
        "{error}"
    );
    assert_eq!(it.bench.text("a/a.txt"), "two");
}

#[tokio::test]
async fn all_files_or_none() {
    let it = Fixture::new();
    for name in ["a.txt", "b.txt", "c.txt"] {
        it.bench.write(name, "old");
    }
    let call = it
        .change(&[
            ("a.txt", Some(("new", 0o644))),
            ("b.txt", None),
            ("c.txt", Some(("new", 0o644))),
        ])
        .await;
    // A folder appears where a file must be made, between the look and the last step.
    let path = it.bench.at("b.txt");
    it.bench.on_ask(move |_| std::fs::create_dir(&path).unwrap());
    assert!(it.revert(&call, false).await.is_err());
    assert_eq!(
        (it.bench.text("a.txt").as_str(), it.bench.text("c.txt").as_str()),
        ("new", "new")
    );
    std::fs::remove_dir(it.bench.at("b.txt")).unwrap();
    it.bench.on_ask(|_| {});
    it.reverted(&call).await;
    for name in ["a.txt", "b.txt", "c.txt"] {
        assert_eq!(it.bench.text(name), "old");
    }
}

#[tokio::test]
async fn links_come_back_as_links() {
    let it = Fixture::new();
    it.bench.write("target.txt", "text\n");
    let link = it.bench.at("link");
    let leads = || std::fs::read_link(&link).ok();
    let to = Some(PathBuf::from("target.txt"));
    std::os::unix::fs::symlink("target.txt", &link).unwrap();

    let deleted = it.patch("*** Delete File: link").await;
    assert!(link.symlink_metadata().is_err());
    let reverted = it.reverted(&deleted).await;
    assert_eq!((leads(), it.bench.text("target.txt").as_str()), (to.clone(), "text\n"));
    let again = it.reverted(&reverted).await;
    assert!(
        link.symlink_metadata().is_err(),
        "taking that back deletes it once more"
    );
    it.reverted(&again).await;
    assert_eq!(leads(), to);

    let replaced = it.patch("*** Delete File: link\n*** Add File: link\n+a file").await;
    assert_eq!((leads(), it.bench.text("link").as_str()), (None, "a file\n"));
    let reverted = it.reverted(&replaced).await;
    assert_eq!((leads(), it.bench.text("target.txt").as_str()), (to.clone(), "text\n"));
    it.reverted(&reverted).await;
    assert_eq!((leads(), it.bench.text("link").as_str()), (None, "a file\n"));

    it.bench.write("link", "theirs\n");
    let error = it.revert(&replaced, true).await.unwrap_err();
    assert!(
        error.ends_with("someone else has changed it since, and links are not merged"),
        "{error}"
    );
    std::fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink("elsewhere", &link).unwrap();
    assert!(it.revert(&replaced, false).await.is_err());
    assert_eq!(leads(), Some(PathBuf::from("elsewhere")));
}

#[tokio::test]
async fn a_file_comes_back_where_an_empty_folder_was_left() {
    let it = Fixture::new();
    it.bench.write("a", "file\n");
    let deleted = it.patch("*** Delete File: a").await;
    let created = it.write("a/b/c.txt", "below\n").await;
    assert!(it.revert(&deleted, false).await.is_err(), "the folder is not empty");
    it.reverted(&created).await;
    it.reverted(&deleted).await;
    assert_eq!(it.bench.text("a"), "file\n");
}

#[tokio::test]
async fn the_session_has_seen_what_it_restored() {
    let it = Fixture::new();
    it.bench.write("a.txt", "one\n");
    let call = it.write("a.txt", "two\n").await;
    it.reverted(&call).await;
    let edit = crate::edit::Edit::new(Arc::new(Files::new(true)), EditDiagnostics::default());
    let input = json!({"filePath": "a.txt", "oldString": "one", "newString": "three"});
    it.bench.run(&edit, input).await.unwrap();
    assert_eq!(it.bench.text("a.txt"), "three\n");
}

type Step = Vec<(usize, Option<(String, u32)>)>;

const NAMES: [&str; 4] = ["a.txt", "b.sh", "d/c.txt", "d/e/f.txt"];

fn step() -> impl Strategy<Value = Step> {
    let version = (
        "[xy\n\r\u{e9}\0]{0,6}",
        proptest::sample::select(vec![0o644_u32, 0o600, 0o755]),
    );
    proptest::collection::vec((0..NAMES.len(), proptest::option::of(version)), 1..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn reverting_in_reverse_is_the_identity(steps in proptest::collection::vec(step(), 1..5)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let it = Fixture::new();
            it.bench.write("a.txt", "at first");
            let (mut trees, mut calls) = (vec![it.tree()], Vec::new());
            for step in &steps {
                let by_name: BTreeMap<usize, Option<(&str, u32)>> = step
                    .iter()
                    .map(|(name, new)| (*name, new.as_ref().map(|(text, mode)| (text.as_str(), *mode))))
                    .collect();
                let changes: Vec<_> = by_name.into_iter().map(|(name, new)| (NAMES[name], new)).collect();
                calls.push(it.change(&changes).await);
                trees.push(it.tree());
            }
            let mut undone = Vec::new();
            for (call, before) in calls.iter().zip(&trees).rev() {
                if !it.bench.changes(call).is_empty() {
                    undone.push(it.reverted(call).await);
                }
                prop_assert_eq!(&it.tree(), before);
            }
            for call in undone.iter().rev() {
                it.reverted(call).await;
            }
            prop_assert_eq!(Some(&it.tree()), trees.last());
            Ok(())
        })?;
    }
}

#[tokio::test]
async fn what_programs_obey_is_asked_for_by_name() {
    let it = Fixture::new();
    for (path, parts) in [(".git/config", 1), ("a.txt", 0)] {
        let call = it.write(path, "x").await;
        it.reverted(&call).await;
        let ask = it.bench.last_ask();
        assert_eq!((ask.parts.len(), ask.title), (parts, format!("Revert {path}")));
    }
}
