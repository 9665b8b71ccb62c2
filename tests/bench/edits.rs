//! `edit` in large files: every kind of match, and none, as whole calls.
//!
//! *Invariant:* the floor reads the same file, looks for the same bytes with memmem, and, where the edit changes the file,
//! replaces it as durably: a new file, fsync, rename. Each round makes the file what it was before the last one.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use memchr::memmem;
use serde_json::json;
use toolgate_contract::call_event::Event;

use crate::Plan;
use crate::measure::in_turns;
use crate::service::{Service, execute, folder, next, request};
use crate::table::Row;

/// How many lines the files have, in words, and how long an edit may take.
const SIZES: [(usize, &str, Duration); 2] = [
    (10_000, "10,000", Duration::from_millis(20)),
    (100_000, "100,000", Duration::from_millis(200)),
];

/// How much memory an edit may take, as a multiple of the file: old and new content, as bytes and as text for the diff,
/// the diff's lines, and the copies that go to the store.
const MEMORY: f64 = 12.0;

/// What oldString is to the passage of the file.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Exact,
    Indentation,
    Whitespace,
    BlockAnchor,
    NotFound,
}

const KINDS: [(Kind, &str); 5] = [
    (Kind::Exact, "exact"),
    (Kind::Indentation, "indentation"),
    (Kind::Whitespace, "whitespace"),
    (Kind::BlockAnchor, "block anchor"),
    (Kind::NotFound, "not found"),
];

/// Measures every kind at every size.
pub(crate) async fn edits(plan: Plan) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (lines, words, limit) in SIZES {
        for (kind, name) in KINDS {
            rows.extend(measure(kind, name, (lines, words), limit, plan).await?);
        }
    }
    Ok(rows)
}

async fn measure(
    kind: Kind,
    name: &str,
    (lines, words): (usize, &str),
    limit: Duration,
    plan: Plan,
) -> Result<Vec<Row>> {
    let workspace = folder()?;
    let path = workspace.path().join("large.rs");
    let passage = lines * 7 / 10;
    let text = |version: usize| source(lines, passage, version);
    fs::write(&path, text(0))?;
    fs::write(workspace.path().join("small.rs"), "one\n")?;
    let floor_path = workspace.path().join("floor.rs");
    fs::write(&floor_path, text(0))?;
    let size = fs::metadata(&path)?.len();
    let service = Service::start(workspace.path()).await?;
    let mut client = service.tools().await?;
    for name in ["small.rs", "large.rs"] {
        let read = json!({"filePath": name, "limit": 1});
        execute(&mut client, request("bench", "read", read)).await?;
    }
    // What every first edit occupies is not due to the size of the file.
    let small = json!({"filePath": "small.rs", "oldString": "one", "newString": "two"});
    execute(&mut client, request("bench", "edit", small)).await?;
    let before = service.reset_peak()?;
    let (ours, floor) = in_turns(
        plan.samples(20, 4),
        async |round| {
            let (old, new) = (
                wanted(kind, passage, round % 2),
                wanted(Kind::Exact, passage, (round + 1) % 2),
            );
            // Three identical calls in a row would be asked about.
            let new = if changes(kind) { new } else { format!("{new}{round}") };
            let input = json!({"filePath": "large.rs", "oldString": old, "newString": new});
            let begin = Instant::now();
            let mut stream = client.execute_tool(request("bench", "edit", input)).await?.into_inner();
            let mut end = None;
            while let Some(event) = next(&mut stream).await? {
                end = Some(event);
            }
            let time = begin.elapsed();
            match end.context("the stream has no end")? {
                Event::Completed(_) => ensure!(changes(kind), "{name}: it was found"),
                Event::Failed(failed) => ensure!(!changes(kind), "{name}: {}", failed.error),
                other @ (Event::Pending(_)
                | Event::Running(_)
                | Event::Metadata(_)
                | Event::Output(_)
                | Event::Waiting(_)
                | Event::Resumed(_)
                | Event::Child(_)
                | Event::Listening(_)
                | Event::Warning(_)
                | Event::Heartbeat(_)
                | Event::Gap(_)) => anyhow::bail!("{name}: {other:?}"),
            }
            if changes(kind) && round < 2 {
                let is_right = fs::read_to_string(&path)? == text((round + 1) % 2);
                ensure!(is_right, "{name}: something else was changed");
            }
            Ok(time)
        },
        async |round| {
            let old = wanted(Kind::Exact, passage, round % 2);
            let new = changes(kind).then(|| wanted(Kind::Exact, passage, (round + 1) % 2));
            let begin = Instant::now();
            replace(&floor_path, old.as_bytes(), new.as_deref())?;
            Ok(begin.elapsed())
        },
    )
    .await?;
    let peak = service.memory()?.peak;
    service.stop().await?;
    let floor_name = if changes(kind) {
        "read, memmem, write, fsync"
    } else {
        "read, memmem"
    };
    Ok(vec![
        Row::ratio_within(
            &format!("edit {name}, {words} lines"),
            &ours,
            (floor_name, &floor),
            limit,
        ),
        Row::multiple(
            &format!("edit {name}, {words} lines, memory for it"),
            before.resident,
            peak,
            size,
            MEMORY,
        ),
    ])
}

/// Says whether an edit of this kind changes the file.
fn changes(kind: Kind) -> bool {
    !matches!(kind, Kind::NotFound)
}

/// The floor.
fn replace(path: &Path, old: &[u8], new: Option<&str>) -> Result<()> {
    let content = fs::read(path)?;
    let at = memmem::find(&content, old);
    let Some(new) = new else {
        std::hint::black_box(at);
        return Ok(());
    };
    let at = at.context("the floor finds nothing")?;
    let temporary = path.with_extension("new");
    let mut file = File::create(&temporary)?;
    for part in [&content[..at], new.as_bytes(), &content[at + old.len()..]] {
        file.write_all(part)?;
    }
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    Ok(())
}

/// Makes a file of unlike lines, with one version of the passage in it.
fn source(lines: usize, passage: usize, version: usize) -> String {
    let mut text = String::new();
    for number in 0..lines {
        if number == passage {
            text.push_str(&wanted(Kind::Exact, passage, version));
            text.push('\n');
        }
        text.push_str(&format!(
            "        let  value_{number} = compute({number}, \"some words\");\n"
        ));
    }
    text
}

/// The passage, as the file has it or as a model remembers it.
fn wanted(kind: Kind, passage: usize, version: usize) -> String {
    let inner = |word: &str| -> String {
        let line = |number| format!("            total_{number}  += {word}(passage_{passage}, {number});\n");
        (0..4).map(line).collect()
    };
    let word = ["sum_of_parts", "sum_of_sides"][version];
    let exact = |word: &str| {
        format!(
            "        for part in passage_{passage} {{\n{}        }} // {passage}",
            inner(word)
        )
    };
    match kind {
        Kind::Exact => exact(word),
        Kind::Indentation => exact(word).lines().map(str::trim_start).collect::<Vec<_>>().join("\n"),
        Kind::Whitespace => exact(word)
            .split("  ")
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join(" "),
        Kind::BlockAnchor => exact(&word.replace("_of_", "_for_")),
        Kind::NotFound => exact("never").replace("passage", "nowhere"),
    }
}
