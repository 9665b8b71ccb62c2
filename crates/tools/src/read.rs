//! `read`: shows a window of a text file or a folder, or attaches an image or a document.
//!
//! *Invariant:* nothing is said about a path before it is approved, not even whether it exists. Only a text that was
//! really shown counts as read (`docs/spec/file-tools.md` §2).

use std::fmt::Write as _;

use async_trait::async_trait;
use bytes::Bytes;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_fs::ResolvedPath;
use toolgate_fs::files::locate;
use toolgate_fs::instructions::{self, Instructions};
use toolgate_fs::kind::Media;
use toolgate_fs::marks::ReadMark;
use toolgate_fs::open::Kind;
use toolgate_fs::view::{Listing, View, view};
use toolgate_fs::window::{End, Wanted, Window};
use toolgate_lsp::EditDiagnostics;
use toolgate_model::{
    Ask, Attachment, AttachmentContent, Effect, OutputText, ReadKind, ReadResult, ToolOutput, ToolResult, json_map,
};
use toolgate_tool::{About, Offer, Outline, Properties, ToolContext, ToolError, TypedTool};

/// Lines, or entries of a folder, that are shown unless the model wants another number.
const DEFAULT_LIMIT: u64 = 2000;

/// Lines of the preview for people.
const PREVIEW_LINES: usize = 20;

/// The tool.
#[derive(Clone, Debug, Default)]
pub struct Read {
    feedback: EditDiagnostics,
}

impl Read {
    /// Makes it; `feedback` is shared with the tools that change files.
    pub fn new(feedback: EditDiagnostics) -> Self {
        Self { feedback }
    }
}

/// Its arguments.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Input {
    /// The absolute path of the file or directory to read
    pub file_path: String,
    /// The first line to show, counting from 1
    pub offset: Option<u64>,
    /// The number of lines to show; 2000 if left out
    #[schemars(range(min = 1))]
    pub limit: Option<u64>,
}

#[async_trait]
impl TypedTool for Read {
    type Input = Input;

    const ABOUT: About = About {
        name: "read",
        effects: &[Effect::Reads],
        permissions: &["read", "external_directory"],
        advertised: true,
        properties: Properties::ONLY_LOOKS,
        example: r#"{"filePath": "src/main.rs", "offset": 1, "limit": 100}"#,
    };

    fn description(&self, _offer: &Offer<'_>) -> String {
        include_str!("read.md").trim_end().to_owned()
    }

    fn outline(&self, input: &Value) -> Outline {
        Outline::of(input, &["filePath"])
    }

    async fn run(&self, input: Input, ctx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let wanted = Wanted {
            offset: input.offset.unwrap_or(1).max(1),
            limit: input.limit.unwrap_or(DEFAULT_LIMIT),
        };
        let located = locate(&ctx.workspace, input.file_path).await?;
        let path = located.path.clone();
        let ask = Ask {
            always: vec!["*".to_owned()],
            title: path.relative().to_owned(),
            ..Ask::new("read", path.patterns())
        };
        ctx.ask_outside(&path, located.kind == Kind::Folder, vec![ask.clone()])
            .await?;
        ctx.permission.ask(ask).await?;
        match view(located, wanted, ctx.cancelled.clone()).await? {
            View::Text(window, mark) => {
                // What is read is often changed next; by then the language servers know it.
                self.feedback.tell(&[&path]);
                show_text(ctx, &path, wanted, &window, &mark).await
            }
            View::Folder(listing) => Ok(show_folder(&path, wanted, &listing)),
            View::Media(media, bytes) => Ok(show_media(&path, media, bytes)),
        }
    }
}

async fn show_text(
    ctx: &ToolContext,
    path: &ResolvedPath,
    wanted: Wanted,
    window: &Window,
    mark: &ReadMark,
) -> Result<ToolOutput, ToolError> {
    let shown = path.display_path().to_string_lossy();
    let last = (wanted.offset - 1).saturating_add(window.lines.len() as u64);
    let mut output = format!("<path>{shown}</path>\n<type>file</type>\n<content>\n");
    for (line, number) in window.lines.iter().zip(wanted.offset..) {
        let separator = if number == wanted.offset { "" } else { "\n" };
        // Writing to a String cannot fail.
        let _ = write!(output, "{separator}{number}: {line}");
    }
    let _ = write!(output, "\n\n({})\n</content>", remark(window, wanted.offset, last));

    let instructions = undelivered(ctx, path).await?;
    output.push_str(&reminder(&instructions));
    let loaded: Vec<_> = instructions.iter().map(|found| found.path.to_string_lossy()).collect();

    ctx.session.set(&ReadMark::key(path.real()), stored(mark)?);
    let truncated = window.end != End::Text;
    let metadata = json_map([
        ("preview", json!(preview(&window.lines))),
        ("truncated", json!(truncated)),
        ("loaded", json!(loaded)),
        (
            "display",
            json!({
                "type": "file",
                "path": shown,
                "text": window.lines.join("\n"),
                "lineStart": wanted.offset,
                "lineEnd": last,
                "totalLines": window.total,
                "truncated": truncated,
            }),
        ),
    ]);
    let result = ReadResult {
        path: shown.into_owned(),
        kind: ReadKind::Text,
        first: wanted.offset,
        shown: window.lines.len() as u64,
        total: window.total,
        truncated,
    };
    Ok(ToolOutput {
        title: path.relative().to_owned(),
        output: OutputText::Text(output),
        metadata,
        attachments: Vec::new(),
        result: Some(ToolResult::Read(result)),
    })
}

fn remark(window: &Window, first: u64, last: u64) -> String {
    let (total, next) = (window.total, last.saturating_add(1));
    match window.end {
        End::Bytes => {
            format!("Output capped at 50 KB. Showing lines {first}-{last}. Use offset={next} to continue.")
        }
        End::Lines => format!("Showing lines {first}-{last} of {total}. Use offset={next} to continue."),
        End::Text => format!("End of file - total {total} lines"),
    }
}

fn show_folder(path: &ResolvedPath, wanted: Wanted, listing: &Listing) -> ToolOutput {
    let shown = path.display_path().to_string_lossy();
    let (count, total) = (listing.entries.len(), listing.total);
    let remark = if listing.truncated {
        let next = wanted.offset.saturating_add(count as u64);
        format!("Showing {count} of {total} entries. Use offset={next} to continue.")
    } else {
        format!("{total} entries")
    };
    let entries = listing.entries.join("\n");
    let metadata = json_map([
        ("preview", json!(preview(&listing.entries))),
        ("truncated", json!(listing.truncated)),
        ("loaded", json!([])),
        (
            "display",
            json!({
                "type": "directory",
                "path": shown,
                "entries": listing.entries,
                "offset": wanted.offset,
                "totalEntries": total,
                "truncated": listing.truncated,
            }),
        ),
    ]);
    let result = ReadResult {
        path: shown.to_string(),
        kind: ReadKind::Folder,
        first: wanted.offset,
        shown: count as u64,
        total,
        truncated: listing.truncated,
    };
    ToolOutput {
        title: path.relative().to_owned(),
        output: OutputText::Text(format!(
            "<path>{shown}</path>\n<type>directory</type>\n<entries>\n{entries}\n\n({remark})\n</entries>"
        )),
        metadata,
        attachments: Vec::new(),
        result: Some(ToolResult::Read(result)),
    }
}

fn show_media(path: &ResolvedPath, media: Media, bytes: Bytes) -> ToolOutput {
    let output = match media {
        Media::Png | Media::Jpeg | Media::Gif | Media::Webp => "Image read successfully",
        Media::Pdf => "PDF read successfully",
    };
    ToolOutput {
        title: path.relative().to_owned(),
        output: OutputText::Text(output.to_owned()),
        metadata: json_map([
            ("preview", json!(output)),
            ("truncated", json!(false)),
            ("loaded", json!([])),
        ]),
        attachments: vec![Attachment {
            id: format!("att_{}", uuid::Uuid::now_v7().simple()),
            mime: media.mime().to_owned(),
            filename: path
                .display_path()
                .file_name()
                .map(|name| name.to_string_lossy().into_owned()),
            content: AttachmentContent::Bytes(bytes),
        }],
        result: Some(ToolResult::Read(ReadResult {
            path: path.display_path().to_string_lossy().into_owned(),
            kind: ReadKind::Media,
            first: 0,
            shown: 0,
            total: 0,
            truncated: false,
        })),
    }
}

fn preview(lines: &[String]) -> String {
    lines[..lines.len().min(PREVIEW_LINES)].join("\n")
}

/// Returns the instructions for the file that the session was not given yet, and remembers that it is now.
async fn undelivered(ctx: &ToolContext, path: &ResolvedPath) -> Result<Vec<Instructions>, ToolError> {
    let mut fresh = Vec::new();
    for found in instructions::above(&ctx.workspace, path).await? {
        let key = format!("instructions:{}", found.path.display());
        if ctx.session.get(&key).await.is_none() {
            ctx.session.set(&key, Value::Bool(true));
            fresh.push(found);
        }
    }
    Ok(fresh)
}

fn reminder(instructions: &[Instructions]) -> String {
    if instructions.is_empty() {
        return String::new();
    }
    let texts: Vec<String> = instructions
        .iter()
        .map(|found| format!("Instructions from: {}\n{}", found.path.display(), found.text))
        .collect();
    format!("\n\n<system-reminder>\n{}\n</system-reminder>", texts.join("\n\n"))
}

fn stored(mark: &ReadMark) -> Result<Value, ToolError> {
    serde_json::to_value(mark).map_err(|error| ToolError::Internal(Box::new(error)))
}

#[cfg(test)]
mod tests {
    use toolgate_permission::Refusal;

    use super::*;
    use crate::testing::{Bench, output_text};

    async fn output(bench: &Bench, input: Value) -> String {
        let output = bench
            .run(&Read::default(), input)
            .await
            .unwrap_or_else(|error| panic!("{error}"));
        output_text(&output).to_owned()
    }

    #[test]
    fn the_schema_bounds_the_window() {
        let schema = toolgate_tool::schema_of::<Input>();
        assert_eq!(schema["required"], json!(["filePath"]));
        let bounds = |name: &str| {
            (
                &schema["properties"][name]["type"],
                &schema["properties"][name]["minimum"],
            )
        };
        assert_eq!(bounds("offset"), (&json!("integer"), &json!(0)));
        assert_eq!(bounds("limit"), (&json!("integer"), &json!(1)));
    }

    #[tokio::test]
    async fn shows_text() {
        let bench = Bench::new();
        let check = async |text: &str, input: Value, expected: &str| {
            bench.write("a.txt", text);
            let whole = format!("<path>$w/a.txt</path>\n<type>file</type>\n<content>\n{expected}\n</content>");
            let mut input = input;
            input["filePath"] = json!("a.txt");
            assert_eq!(output(&bench, input).await, bench.fill(&whole), "{text:?}");
        };
        check("a\nb\n", json!({}), "1: a\n2: b\n\n(End of file - total 2 lines)").await;
        check("a\r\nb", json!({}), "1: a\n2: b\n\n(End of file - total 2 lines)").await;
        check("", json!({}), "\n\n(End of file - total 0 lines)").await;
        check("\n", json!({}), "1: \n\n(End of file - total 1 lines)").await;
        check(
            "\u{feff}a\n",
            json!({"offset": 0}),
            "1: a\n\n(End of file - total 1 lines)",
        )
        .await;
        let window = "2: b\n3: c\n\n(Showing lines 2-3 of 4. Use offset=4 to continue.)";
        check("a\nb\nc\nd\n", json!({"offset": 2, "limit": 2}), window).await;
        check("a\nb\n", json!({"offset": 2}), "2: b\n\n(End of file - total 2 lines)").await;
    }

    #[tokio::test]
    async fn says_what_people_see() {
        let bench = Bench::new();
        bench.write("src/a.txt", "a\nb\nc\n");
        let input = json!({"filePath": "src/a.txt", "offset": 2, "limit": 1});
        let output = bench.run(&Read::default(), input).await.unwrap();
        assert_eq!(output.title, "src/a.txt");
        let metadata = Value::Object(output.metadata);
        assert_eq!(
            metadata,
            json!({
                "preview": "b",
                "truncated": true,
                "loaded": [],
                "display": {
                    "type": "file",
                    "path": bench.fill("$w/src/a.txt"),
                    "text": "b",
                    "lineStart": 2,
                    "lineEnd": 2,
                    "totalLines": 3,
                    "truncated": true,
                },
            })
        );
    }

    #[tokio::test]
    async fn caps_the_window() {
        let bench = Bench::new();
        bench.write("a.txt", format!("{}\n", "x".repeat(100)).repeat(1000));
        let text = output(&bench, json!({"filePath": "a.txt"})).await;
        assert!(text.contains("(Output capped at 50 KB. Showing lines 1-506. Use offset=507 to continue.)"));
    }

    #[tokio::test]
    async fn says_what_is_wrong() {
        let bench = Bench::new();
        bench.write("a.txt", "a\nb\n");
        bench.write("data", "a\0b");
        bench.write("docs/README.md", "");
        let check = async |input: Value, expected: &str| {
            let error = bench.run(&Read::default(), input).await.unwrap_err();
            assert_eq!(error, bench.fill(expected));
        };
        let range = "Offset 3 is out of range for this file (2 lines)";
        check(json!({"filePath": "a.txt", "offset": 3}), range).await;
        check(json!({"filePath": "data"}), "Cannot read binary file: $w/data").await;
        check(json!({"filePath": "zebra"}), "File not found: $w/zebra").await;
        let similar = "File not found: $w/docs/readme.md\n\nDid you mean one of these?\n$w/docs/README.md";
        check(json!({"filePath": "docs/readme.md"}), similar).await;
        check(json!({"filePath": "a.txt/below"}), "File not found: $w/a.txt/below").await;
        assert!(bench.has_read_nothing());
    }

    #[tokio::test]
    async fn shows_folders_and_media() {
        let bench = Bench::new();
        bench.write("pkg/api/x", "");
        bench.write("pkg/main.rs", "");
        bench.write("pic", b"\x89PNG\r\n\x1a\n");
        let text = output(&bench, json!({"filePath": "pkg"})).await;
        let listing =
            "<path>$w/pkg</path>\n<type>directory</type>\n<entries>\napi/\nmain.rs\n\n(2 entries)\n</entries>";
        assert_eq!(text, bench.fill(listing));
        let text = output(&bench, json!({"filePath": "pkg", "limit": 1})).await;
        assert!(text.contains("\napi/\n\n(Showing 1 of 2 entries. Use offset=2 to continue.)\n"));

        let output = bench.run(&Read::default(), json!({"filePath": "pic"})).await.unwrap();
        assert_eq!(output_text(&output), "Image read successfully");
        assert_eq!(output.metadata["truncated"], json!(false));
        assert_eq!(output.attachments[0].mime, "image/png");
        assert!(bench.has_read_nothing(), "only texts count as read");
    }

    #[tokio::test]
    async fn asks_before_it_says_anything() {
        let bench = Bench::new();
        bench.write("../out/o.txt", "o\n");
        bench.write("a.txt", "a\n");
        std::os::unix::fs::symlink("../out", bench.at("link")).unwrap();
        let check = async |path: &str, asks: &[(&str, &str)]| {
            let _ = bench.run(&Read::default(), json!({"filePath": bench.fill(path)})).await;
            let asks: Vec<_> = asks
                .iter()
                .map(|(permission, pattern)| ((*permission).to_owned(), vec![bench.fill(pattern)]))
                .collect();
            assert_eq!(bench.asked(), asks, "{path}");
        };
        check("$w/b/../a.txt", &[("read", "a.txt")]).await;
        check(
            "$o/out/o.txt",
            &[("external_directory", "$o/out/*"), ("read", "../out/o.txt")],
        )
        .await;
        check("$o/out", &[("external_directory", "$o/out/*"), ("read", "../out")]).await;
        check(
            "link/o.txt",
            &[("external_directory", "$o/out/*"), ("read", "link/o.txt")],
        )
        .await;

        bench.answer(Err(Refusal::Rejected));
        let error = bench
            .run(&Read::default(), json!({"filePath": bench.fill("$o/none")}))
            .await
            .unwrap_err();
        assert_eq!(error, Refusal::Rejected.to_string());
        assert_eq!(bench.asked().len(), 1);
    }

    #[tokio::test]
    async fn delivers_instructions_once() {
        let bench = Bench::new();
        bench.write("AGENTS.md", "root\n");
        bench.write("app/AGENTS.md", "app\n");
        bench.write("app/web/AGENTS.md", "web\n");
        bench.write("app/web/page.ts", "x\n");
        bench.write("app/a.ts", "x\n");
        let first = bench
            .run(&Read::default(), json!({"filePath": "app/web/page.ts"}))
            .await
            .unwrap();
        let expected = "</content>\n\n<system-reminder>\nInstructions from: $w/app/web/AGENTS.md\nweb\n\n\n\
                        Instructions from: $w/app/AGENTS.md\napp\n\n</system-reminder>";
        assert!(
            output_text(&first).ends_with(&bench.fill(expected)),
            "{}",
            output_text(&first)
        );
        let loaded = json!([bench.fill("$w/app/web/AGENTS.md"), bench.fill("$w/app/AGENTS.md")]);
        assert_eq!(first.metadata["loaded"], loaded);
        assert!(
            !output(&bench, json!({"filePath": "app/a.ts"}))
                .await
                .contains("system-reminder")
        );
        bench.forget();
        let itself = output(&bench, json!({"filePath": "app/AGENTS.md"})).await;
        assert!(!itself.contains("system-reminder"));
    }
}
