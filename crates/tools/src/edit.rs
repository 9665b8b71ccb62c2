//! `edit`: replaces one passage of a file by another.
//!
//! *Invariant:* an edit that cannot be made fails before anybody is asked; what is written is what the person saw. How a
//! passage is found is the business of `workspace::edit` (`docs/spec/file-tools.md` §4).

use std::sync::Arc;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_fs::edit::{self, EditError};
use toolgate_fs::files::{Files, locate};
use toolgate_fs::marks::ReadMark;
use toolgate_lsp::EditDiagnostics;
use toolgate_model::{Effect, OutputText, ToolOutput, ToolResult, json_map};
use toolgate_tool::{
    About, Offer, Outline, Properties, ToolContext, ToolError, TypedTool, change_of, changed, edit_of, uses_apply_patch,
};

/// The tool.
#[derive(Clone, Debug)]
pub struct Edit {
    files: Arc<Files>,
    feedback: EditDiagnostics,
}

impl Edit {
    /// Makes it; `files` is shared by all tools that change files, and `feedback` by those of a workspace.
    pub fn new(files: Arc<Files>, feedback: EditDiagnostics) -> Self {
        Self { files, feedback }
    }
}

/// Its arguments.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Input {
    /// The absolute path of the file to change
    pub file_path: String,
    /// The text to replace
    pub old_string: String,
    /// The text to put in its place; it must differ from oldString
    pub new_string: String,
    /// Whether to replace every occurrence of oldString (default false)
    #[serde(default)]
    pub replace_all: Option<bool>,
}

#[async_trait]
impl TypedTool for Edit {
    type Input = Input;

    const ABOUT: About = About {
        name: "edit",
        effects: &[Effect::Reads, Effect::Writes],
        permissions: &["edit", "external_directory"],
        advertised: true,
        properties: Properties {
            editable: true,
            ..Properties::RESUMABLE
        },
        example: r#"{"filePath": "notes.txt", "oldString": "", "newString": "One line.\n"}"#,
    };

    fn description(&self, _offer: &Offer<'_>) -> String {
        include_str!("edit.md").trim_end().to_owned()
    }

    fn is_offered(&self, offer: &Offer<'_>) -> bool {
        !uses_apply_patch(offer.model)
    }

    fn outline(&self, input: &Value) -> Outline {
        Outline::of(input, &["filePath"])
    }

    async fn run(&self, input: Input, ctx: &ToolContext) -> Result<ToolOutput, ToolError> {
        if input.file_path.is_empty() {
            return Err(ToolError::failed("filePath is required"));
        }
        if input.old_string == input.new_string {
            return Err(EditError::Identical.into());
        }
        let edit = edit::Edit {
            old: input.old_string,
            new: input.new_string,
            replace_all: input.replace_all.unwrap_or_default(),
        };
        let path = locate(&ctx.workspace, input.file_path).await?.path;
        ctx.ask_outside(&path, false, vec![edit_of(&path)]).await?;
        let (file, old) = tokio::select! {
            opened = edit::open(&self.files, path, edit.old.is_empty()) => opened?,
            () = ctx.cancelled.cancelled() => return Err(ToolError::Cancelled),
        };
        let mark = ctx.session.get(&ReadMark::key(file.path().real())).await;
        self.files.check_read(mark, file.path(), &old)?;
        let change = edit::compute(&file, &old, vec![edit], &ctx.cancelled).await?;
        let result = changed(file.path(), change_of(old.exists()), &change.diff);
        ctx.replace_file(&file, old, change.bytes, &change.diff).await?;

        let path = file.path().clone();
        // Others may change the file while language servers look at it.
        drop(file);
        let title = path.relative().to_owned();
        let mut metadata = json_map([
            ("diagnostics", json!({})),
            ("diff", json!(change.diff.text)),
            ("filediff", change.diff.to_json(path.display_path())),
        ]);
        ctx.output.progress(Some(title.clone()), metadata.clone()).await;
        let told = self
            .feedback
            .on(&[&path], &ctx.cancelled, |later| ctx.output.late_metadata(later))
            .await;
        metadata.insert("diagnostics".to_owned(), told.to_json());
        Ok(ToolOutput {
            title,
            output: OutputText::Text(format!("Edit applied successfully.{}", told.of_this_file())),
            metadata,
            attachments: Vec::new(),
            result: Some(ToolResult::files(vec![result])),
        })
    }
}

#[cfg(test)]
mod tests {
    use toolgate_permission::Refusal;

    use super::*;
    use crate::testing::{Bench, output_text};
    use serde_json::Value;

    fn tool() -> Edit {
        Edit::new(Arc::new(Files::new(true)), EditDiagnostics::default())
    }

    fn input(path: &str, old: &str, new: &str) -> Value {
        json!({"filePath": path, "oldString": old, "newString": new})
    }

    /// Writes a file as this session would have.
    async fn write(bench: &Bench, name: &str, content: &str) {
        bench.write(name, content);
        let read = json!({"filePath": name});
        bench.run(&crate::read::Read::default(), read).await.unwrap();
    }

    #[tokio::test]
    async fn replaces_and_tells() {
        let bench = Bench::new();
        write(&bench, "src/a.txt", "  a\n  b\n").await;
        let output = bench.run(&tool(), input("src/a.txt", "b", "$&")).await.unwrap();
        assert_eq!(bench.text("src/a.txt"), "  a\n  $&\n");
        assert_eq!(
            (output.title.as_str(), output_text(&output)),
            ("src/a.txt", "Edit applied successfully.")
        );
        let rule = "=".repeat(67);
        let diff =
            format!("Index: $w/src/a.txt\n{rule}\n--- $w/src/a.txt\n+++ $w/src/a.txt\n@@ -1,2 +1,2 @@\n a\n-b\n+$&\n");
        let diff = bench.fill(&diff);
        let file = bench.fill("$w/src/a.txt");
        let metadata = json!({
            "diagnostics": {},
            "diff": diff,
            "filediff": {"file": file, "patch": diff, "additions": 1, "deletions": 1},
        });
        assert_eq!(Value::Object(output.metadata), metadata);
        let ask = bench.last_ask();
        assert_eq!(
            ask.metadata,
            json_map([("filepath", json!(file)), ("diff", json!(diff))])
        );
        assert_eq!(
            (ask.permission.as_str(), ask.patterns),
            ("edit", vec!["src/a.txt".to_owned()])
        );
        assert_eq!(bench.edited(), [bench.at("src/a.txt")]);
        bench.run(&tool(), input("src/a.txt", "$&", "c")).await.unwrap();
        assert_eq!(bench.text("src/a.txt"), "  a\n  c\n", "its own edits need no reading");
    }

    #[tokio::test]
    async fn errors_come_in_order_and_ask_nobody() {
        let bench = Bench::new();
        bench.write("unread.txt", "a");
        bench.write("folder/below.txt", "a");
        write(&bench, "read.txt", "a a").await;
        bench.asked();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            bench.at("pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap();
        let check = async |path: &str, old: &str, new: &str, expected: &str| {
            let error = bench.run(&tool(), input(path, old, new)).await.unwrap_err();
            assert_eq!(error, bench.fill(expected), "{path} {old}");
        };
        check("", "a", "a", "filePath is required").await;
        check(
            "none",
            "a",
            "a",
            "No changes to apply: oldString and newString are identical.",
        )
        .await;
        let empty = "oldString cannot be empty when editing an existing file. Provide the exact text to replace, or use \
                     write for an intentional full-file replacement.";
        check("unread.txt", "", "b", empty).await;
        check("none", "a", "b", "File $w/none not found").await;
        check("unread.txt/none", "a", "b", "File $w/unread.txt/none not found").await;
        check("folder", "a", "b", "Path is a directory, not a file: $w/folder").await;
        check("folder", "", "b", "Path is a directory, not a file: $w/folder").await;
        let pipe = "Cannot open $w/pipe: it is a named pipe. Only regular files and directories can be used.";
        check("pipe", "a", "b", pipe).await;
        let unread = "You must read file $w/unread.txt before overwriting it. Use the Read tool first";
        check("unread.txt", "zzz", "b", unread).await;
        check("read.txt", "zzz", "b", &EditError::NotFound.to_string()).await;
        check("read.txt", "a", "b", &EditError::Ambiguous.to_string()).await;
        assert!(bench.asked().is_empty());
        assert_eq!(bench.text("read.txt"), "a a");
    }

    #[tokio::test]
    async fn an_empty_old_string_creates() {
        let bench = Bench::new();
        bench.answer(Err(Refusal::Rejected));
        assert!(bench.run(&tool(), input("new/a.txt", "", "a\r\n")).await.is_err());
        assert!(!bench.at("new").exists(), "a refused edit leaves nothing");
        bench.run(&tool(), input("new/a.txt", "", "a\r\n")).await.unwrap();
        bench.run(&tool(), input("new/a.txt", "a\n", "b\nc\n")).await.unwrap();
        assert_eq!(bench.text("new/a.txt"), "b\r\nc\r\n");
    }

    #[tokio::test]
    async fn keeps_byte_order_mark_and_other_bytes() {
        let bench = Bench::new();
        let check = async |content: &[u8], old: &str, new: &str, expected: &[u8]| {
            bench.write("a.cs", content);
            let unchecked = Edit::new(Arc::new(Files::new(false)), EditDiagnostics::default());
            bench.run(&unchecked, input("a.cs", old, new)).await.unwrap();
            assert_eq!(std::fs::read(bench.at("a.cs")).unwrap(), expected);
            let diff = bench.last_ask().metadata["diff"].as_str().unwrap().to_owned();
            assert!(!diff.contains(['\u{feff}', '\r']), "{diff}");
        };
        check(
            "\u{feff}a\r\nb\r\n".as_bytes(),
            "a",
            "x",
            "\u{feff}x\r\nb\r\n".as_bytes(),
        )
        .await;
        check("\u{feff}a".as_bytes(), "a", "\u{feff}x", "\u{feff}x".as_bytes()).await;
        check(b"\xff\xe9 a\n\x80", "a\n", "x", b"\xff\xe9 x\x80").await;
    }

    #[tokio::test]
    async fn a_change_while_the_person_thinks_is_kept() {
        let bench = Bench::new();
        write(&bench, "a.txt", "one\n").await;
        let path = bench.at("a.txt");
        bench.on_ask(move |_| std::fs::write(&path, "theirs\n").unwrap());
        let error = bench.run(&tool(), input("a.txt", "one", "mine")).await.unwrap_err();
        assert!(error.contains("has been modified since it was last read"), "{error}");
        assert_eq!(bench.text("a.txt"), "theirs\n");
    }

    #[tokio::test]
    async fn the_content_counts_and_not_its_time() {
        let bench = Bench::new();
        write(&bench, "a.txt", "one\n").await;
        let path = bench.at("a.txt");
        let modified = || path.metadata().unwrap().modified().unwrap();
        let touch = |time| {
            let file = std::fs::File::options().write(true).open(&path).unwrap();
            file.set_modified(time).unwrap();
        };
        touch(modified() + std::time::Duration::from_secs(3600));
        bench.run(&tool(), input("a.txt", "one", "two")).await.unwrap();
        // As long as before, and of the same moment.
        let time = modified();
        std::fs::write(&path, "six\n").unwrap();
        touch(time);
        let error = bench.run(&tool(), input("a.txt", "six", "ten")).await.unwrap_err();
        assert!(error.contains("has been modified since it was last read"), "{error}");
        assert_eq!(bench.text("a.txt"), "six\n");
    }

    #[tokio::test]
    async fn parallel_edits_of_one_file_all_land() {
        let bench = Bench::new();
        let tool = tool();
        write(&bench, "a.txt", "top\nmiddle\nbottom\n").await;
        let (first, second) = tokio::join!(
            bench.run(&tool, input("a.txt", "top", "1")),
            bench.run(&tool, input("a.txt", "bottom", "3")),
        );
        assert!(first.is_ok() && second.is_ok());
        assert_eq!(bench.text("a.txt"), "1\nmiddle\n3\n");
    }
}
