//! A folder of the workspace that is swapped for a link that leads outside, while the tools that change files work in it.
//!
//! *Invariant:* whatever the tools answer, nothing outside is made, replaced, changed or deleted. The files outside have
//! the names and contents of those inside, so that comparing contents alone stops nobody.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::{Value, json};
use toolgate_fs::files::Files;
use toolgate_lsp::EditDiagnostics;
use toolgate_tool::Tool;

use crate::apply_patch::ApplyPatch;
use crate::edit::Edit;
use crate::multiedit::MultiEdit;
use crate::read::Read;
use crate::revert::Revert;
use crate::testing::{Bench, output_text};
use crate::write::Write;

/// How often each tool is called.
const CALLS: usize = 150;

/// What stands in a folder: contents, with the numbers, modes and times of change of the files.
type Tree = BTreeMap<PathBuf, (u64, u32, i64, i64, Option<Vec<u8>>)>;

fn tree(root: &Path) -> Tree {
    let mut tree = Tree::new();
    let mut todo = vec![root.to_path_buf()];
    while let Some(folder) = todo.pop() {
        for entry in folder.read_dir().unwrap() {
            let path = entry.unwrap().path();
            let metadata = path.symlink_metadata().unwrap();
            let content = metadata.is_file().then(|| std::fs::read(&path).unwrap());
            if metadata.is_dir() {
                todo.push(path.clone());
            }
            let facts = (
                metadata.ino(),
                metadata.mode(),
                metadata.ctime(),
                metadata.ctime_nsec(),
                content,
            );
            tree.insert(path, facts);
        }
    }
    tree
}

/// Every so often a call is made while nothing is swapped, so that some succeed however slow the machine is.
const UNDISTURBED: usize = 32;

/// Swaps `d` and `link` until it is ended; most of the time `d` is the folder.
struct Swapper {
    stop: Arc<AtomicBool>,
    /// Whether the folder is to be left alone, and whether it is.
    rest: Arc<[AtomicBool; 2]>,
    thread: Option<std::thread::JoinHandle<usize>>,
}

impl Swapper {
    fn start(bench: &Bench) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (folder, link, stopped) = (bench.at("d"), bench.at("link"), stop.clone());
        let rest: Arc<[AtomicBool; 2]> = Arc::default();
        let rests = rest.clone();
        let swap = move || {
            let (mut swaps, mut state) = (0, 88_172_645_463_325_252_u64);
            while !stopped.load(Ordering::Relaxed) {
                // Between two rounds the folder is in its place.
                rests[1].store(rests[0].load(Ordering::SeqCst), Ordering::SeqCst);
                if rests[1].load(Ordering::SeqCst) {
                    std::thread::yield_now();
                    continue;
                }
                for often in [8_000, 2_000] {
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    for _ in 0..state % often {
                        std::hint::spin_loop();
                    }
                    renameat_with(CWD, &folder, CWD, &link, RenameFlags::EXCHANGE).unwrap();
                    swaps += 1;
                }
            }
            swaps
        };
        Self {
            stop,
            rest,
            thread: Some(std::thread::spawn(swap)),
        }
    }

    /// Leaves the folder alone from now on, or no longer.
    fn rest(&self, rests: bool) {
        self.rest[0].store(rests, Ordering::SeqCst);
        while self.rest[1].load(Ordering::SeqCst) != rests {
            std::thread::yield_now();
        }
    }

    fn end(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let swaps = self.thread.take().unwrap().join().unwrap();
        assert!(swaps > 0, "nothing was swapped");
    }
}

struct Arena {
    bench: Bench,
    outside: PathBuf,
    files: Arc<Files>,
}

impl Arena {
    /// Makes files of the same names and contents inside and outside. Nobody allows anything outside.
    fn new() -> Self {
        let bench = Bench::new();
        let outside = bench.at("../outside");
        for index in 0..CALLS {
            for folder in ["d", "../outside"] {
                for kind in ["f", "gone", "deep/f"] {
                    bench.write(&format!("{folder}/{kind}{index}"), "old\n");
                }
            }
        }
        std::os::unix::fs::symlink("../outside", bench.at("link")).unwrap();
        bench.refuse("external_directory");
        Self {
            bench,
            outside,
            files: Arc::new(Files::new(false)),
        }
    }

    /// Calls a tool while the folder is swapped, and returns how many calls did what they should.
    async fn race(&self, tool: &dyn Tool, input: impl Fn(usize) -> Value) -> usize {
        let before = tree(&self.outside);
        let swapper = Swapper::start(&self.bench);
        let mut done = 0;
        for index in 0..CALLS {
            swapper.rest(index.is_multiple_of(UNDISTURBED));
            done += usize::from(self.bench.run(tool, input(index)).await.is_ok());
        }
        swapper.end();
        let after = tree(&self.outside);
        let differs = |path: &&PathBuf| before.get(*path) != after.get(*path);
        let paths: std::collections::BTreeSet<_> = before.keys().chain(after.keys()).collect();
        let touched: Vec<_> = paths.into_iter().filter(differs).collect();
        assert!(touched.is_empty(), "{} of {CALLS} outside: {touched:?}", touched.len());
        done
    }
}

#[tokio::test]
async fn writes_stay_inside() {
    let arena = Arena::new();
    let tool = Write::new(arena.files.clone(), EditDiagnostics::default());
    let fresh = |index: usize| json!({"filePath": format!("d/new{index}"), "content": "new\n"});
    assert!(arena.race(&tool, fresh).await > 0);
    let below = |index: usize| json!({"filePath": format!("d/sub{index}/a/new"), "content": "new\n"});
    assert!(arena.race(&tool, below).await > 0);
    let replaced = |index: usize| json!({"filePath": format!("d/deep/f{index}"), "content": "new\n"});
    assert!(arena.race(&tool, replaced).await > 0);
}

#[tokio::test]
async fn edits_stay_inside() {
    let arena = Arena::new();
    let edit = json!({"oldString": "old", "newString": "new"});
    let tool = Edit::new(arena.files.clone(), EditDiagnostics::default());
    let one = |index: usize| {
        let mut input = edit.clone();
        input["filePath"] = json!(format!("d/f{index}"));
        input
    };
    assert!(arena.race(&tool, one).await > 0);
    let tool = MultiEdit::new(arena.files.clone(), EditDiagnostics::default());
    let several = |index: usize| json!({"filePath": format!("d/deep/f{index}"), "edits": [edit]});
    assert!(arena.race(&tool, several).await > 0);
}

#[tokio::test]
async fn patches_stay_inside() {
    let arena = Arena::new();
    let tool = ApplyPatch::new(arena.files.clone(), EditDiagnostics::default());
    let patch = |index: usize| {
        let body = format!(
            "*** Add File: d/made{index}/a\n+new\n*** Update File: d/f{index}\n@@\n-old\n+new\n*** Delete File: \
             d/gone{index}\n*** Update File: d/deep/f{index}\n*** Move to: d/moved{index}\n@@\n-old\n+new\n"
        );
        json!({"patchText": format!("*** Begin Patch\n{body}*** End Patch")})
    };
    assert!(arena.race(&tool, patch).await > 0);
}

#[tokio::test]
async fn what_is_taken_back_stays_inside() {
    let arena = Arena::new();
    let patch = ApplyPatch::new(arena.files.clone(), EditDiagnostics::default());
    let mut calls = Vec::new();
    for index in 0..CALLS {
        let body = format!(
            "*** Update File: d/f{index}\n@@\n-old\n+new\n*** Delete File: d/gone{index}\n*** Add File: d/s{index}/a\n+a\n"
        );
        let input = json!({"patchText": format!("*** Begin Patch\n{body}*** End Patch")});
        arena.bench.run(&patch, input).await.unwrap();
        calls.push(arena.bench.last_call());
        // What was changed inside is the same outside.
        arena.bench.write(&format!("../outside/f{index}"), "new\n");
        arena.bench.write(&format!("../outside/s{index}/a"), "a\n");
        std::fs::remove_file(arena.outside.join(format!("gone{index}"))).unwrap();
    }
    let tool = Revert::new(arena.files.clone(), EditDiagnostics::default());
    let revert = |index: usize| json!({"callId": calls[index].as_str()});
    assert!(arena.race(&tool, revert).await > 0);
}

#[tokio::test]
async fn reads_stay_inside() {
    let arena = Arena::new();
    arena.bench.write("d/secret", "public");
    arena.bench.write("../outside/secret", "private");
    let swapper = Swapper::start(&arena.bench);
    let (read, mut seen) = (Read::default(), 0);
    for index in 0..CALLS {
        swapper.rest(index.is_multiple_of(UNDISTURBED));
        let output = arena.bench.run(&read, json!({"filePath": "d/secret"})).await;
        let texts = output.iter().map(|output| output_text(output).to_owned());
        for text in texts {
            assert!(!text.contains("private"), "{text}");
            seen += 1;
        }
    }
    swapper.rest(false);
    swapper.end();
    assert!(seen > 0);
}
