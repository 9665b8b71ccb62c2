//! `write`: replaces the content of a file, or creates it.
//!
//! *Invariant:* the person approves a diff between what is on the disk and what will be; if the disk changed while
//! the person thought, nothing is written. A refused write leaves neither file nor folder
//! (`docs/spec/file-tools.md` §3).

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_fs::files::{Files, Snapshot, locate};
use toolgate_fs::marks::ReadMark;
use toolgate_fs::text::BOM;
use toolgate_lsp::EditDiagnostics;
use toolgate_model::{Effect, OutputText, ToolOutput, ToolResult, json_map};
use toolgate_tool::{
    About, Offer, Outline, Properties, ToolContext, ToolError, TypedTool, change_of, changed, edit_of, uses_apply_patch,
};

/// The tool.
#[derive(Clone, Debug)]
pub struct Write {
    files: Arc<Files>,
    feedback: EditDiagnostics,
}

impl Write {
    /// Makes it; `files` is shared by all tools that change files, and `feedback` by those of a workspace.
    pub fn new(files: Arc<Files>, feedback: EditDiagnostics) -> Self {
        Self { files, feedback }
    }
}

/// Its arguments.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Input {
    /// The absolute path of the file to write
    pub file_path: String,
    /// The whole new content of the file
    pub content: String,
}

#[async_trait]
impl TypedTool for Write {
    type Input = Input;

    const ABOUT: About = About {
        name: "write",
        effects: &[Effect::Writes],
        permissions: &["edit", "external_directory"],
        advertised: true,
        properties: Properties {
            editable: true,
            ..Properties::RESUMABLE
        },
        example: r#"{"filePath": "notes.txt", "content": "One line.\n"}"#,
    };

    fn description(&self, _offer: &Offer<'_>) -> String {
        include_str!("write.md").trim_end().to_owned()
    }

    fn is_offered(&self, offer: &Offer<'_>) -> bool {
        !uses_apply_patch(offer.model)
    }

    fn outline(&self, input: &Value) -> Outline {
        Outline::of(input, &["filePath"])
    }

    async fn run(&self, input: Input, ctx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let path = locate(&ctx.workspace, input.file_path).await?.path;
        ctx.ask_outside(&path, false, vec![edit_of(&path)]).await?;
        let file = tokio::select! {
            file = self.files.lock(path) => file,
            () = ctx.cancelled.cancelled() => return Err(ToolError::Cancelled),
        };
        let old = file.load().await?;
        let key = ReadMark::key(file.path().real());
        self.files.check_read(ctx.session.get(&key).await, file.path(), &old)?;

        let new = Bytes::from(keep_bom(&old, input.content));
        let diff = file.diff(&old, &new).await?;
        let exists = old.exists();
        let result = changed(file.path(), change_of(exists), &diff);
        ctx.replace_file(&file, old, new, &diff).await?;
        let path = file.path().clone();
        // Others may change the file while language servers look at it.
        drop(file);
        let told = self
            .feedback
            .on(&[&path], &ctx.cancelled, |later| ctx.output.late_metadata(later))
            .await;
        let (here, elsewhere) = (told.of_this_file(), told.of_other_files());
        Ok(ToolOutput {
            title: path.relative().to_owned(),
            output: OutputText::Text(format!("Wrote file successfully.{here}{elsewhere}")),
            metadata: json_map([
                ("diagnostics", told.to_json()),
                ("filepath", json!(path.display_path().to_string_lossy())),
                ("exists", json!(exists)),
            ]),
            attachments: Vec::new(),
            result: Some(ToolResult::files(vec![result])),
        })
    }
}

/// Returns the new content with one byte order mark if the old or the new one has one, and else without.
fn keep_bom(old: &Snapshot, content: String) -> String {
    if old.has_bom() && !content.starts_with(BOM) {
        format!("{BOM}{content}")
    } else {
        content
    }
}

#[cfg(test)]
mod tests {
    use toolgate_permission::Refusal;

    use super::*;
    use crate::testing::{Bench, output_text};
    use serde_json::Value;

    fn tool() -> Write {
        Write::new(Arc::new(Files::new(true)), EditDiagnostics::default())
    }

    fn input(path: &str, content: &str) -> Value {
        json!({"filePath": path, "content": content})
    }

    #[tokio::test]
    async fn creates_and_replaces() {
        let bench = Bench::new();
        let tool = tool();
        for (content, exists) in [("one\r\n", false), ("two", true), ("", true)] {
            let output = bench.run(&tool, input("a/b.txt", content)).await.unwrap();
            assert_eq!(
                (output.title.as_str(), output_text(&output)),
                ("a/b.txt", "Wrote file successfully.")
            );
            let metadata = json!({"diagnostics": {}, "filepath": bench.fill("$w/a/b.txt"), "exists": exists});
            assert_eq!(Value::Object(output.metadata), metadata);
            assert_eq!(bench.text("a/b.txt"), content);
        }
        assert_eq!(bench.edited(), vec![bench.at("a/b.txt"); 3]);
    }

    #[tokio::test]
    async fn wants_the_file_read() {
        let bench = Bench::new();
        let tool = tool();
        bench.write("a.txt", "old");
        let error = bench.run(&tool, input("a.txt", "new")).await.unwrap_err();
        let unread = "You must read file $w/a.txt before overwriting it. Use the Read tool first";
        assert_eq!(error, bench.fill(unread));
        assert!(bench.asked().is_empty(), "what would fail asks nobody");

        bench
            .run(&crate::read::Read::default(), json!({"filePath": "a.txt"}))
            .await
            .unwrap();
        bench.write("a.txt", "changed");
        let error = bench.run(&tool, input("a.txt", "new")).await.unwrap_err();
        assert!(
            error.contains("has been modified since it was last read.\nLast modification: 20"),
            "{error}"
        );
        bench.write("a.txt", "old");
        bench.run(&tool, input("a.txt", "new")).await.unwrap();

        bench.forget();
        let unchecked = Write::new(Arc::new(Files::new(false)), EditDiagnostics::default());
        bench.run(&unchecked, input("a.txt", "newer")).await.unwrap();
    }

    #[tokio::test]
    async fn shows_what_it_will_do() {
        let bench = Bench::new();
        bench.run(&tool(), input("a.txt", "  a\n")).await.unwrap();
        let ask = bench.last_ask();
        assert_eq!((ask.permission.as_str(), ask.always), ("edit", vec!["*".to_owned()]));
        assert_eq!(ask.patterns, ["a.txt"]);
        let diff = format!(
            "Index: $w/a.txt\n{}\n--- $w/a.txt\n+++ $w/a.txt\n@@ -0,0 +1,1 @@\n+a\n",
            "=".repeat(67)
        );
        let metadata = json!({"filepath": bench.fill("$w/a.txt"), "diff": bench.fill(&diff)});
        assert_eq!(Value::Object(ask.metadata), metadata);
    }

    #[tokio::test]
    async fn what_programs_obey_is_asked_for_by_name() {
        let bench = Bench::new();
        bench.write(".git/info/exclude", "");
        std::os::unix::fs::symlink(".git/hooks/pre-commit", bench.at("notes.md")).unwrap();
        let tool = Write::new(Arc::new(Files::new(false)), EditDiagnostics::default());
        let check = async |path: &str, content: &str, guarded: bool| {
            bench.run(&tool, input(path, content)).await.unwrap();
            let ask = bench.last_ask();
            let named: Vec<_> = ask.parts.iter().map(|part| part.guarded.is_some()).collect();
            let always = if guarded {
                ask.patterns.clone()
            } else {
                vec!["*".to_owned()]
            };
            assert_eq!(
                (named, ask.always),
                (vec![true; usize::from(guarded)], always),
                "{path}"
            );
        };
        check(".git/hooks/post-commit", "x", true).await;
        check("sub/.opencode/tool/z.sh", "x", true).await;
        check("opencode.json", "{}", true).await;
        check("notes.md", "x", true).await;
        assert_eq!(bench.last_ask().patterns, ["notes.md", ".git/hooks/pre-commit"]);
        check(".git/info/exclude", "x", false).await;
        check("package.json", r#"{"name": "a"}"#, false).await;
        check("package.json", r#"{"name": "a", "scripts": {"x": "y"}}"#, true).await;
        check("package.json", r#"{"name": "b", "scripts": {"x": "y"}}"#, false).await;
    }

    #[tokio::test]
    async fn a_refusal_leaves_nothing() {
        let bench = Bench::new();
        bench.answer(Err(Refusal::Rejected));
        let error = bench.run(&tool(), input("new/dir/a.txt", "x")).await.unwrap_err();
        assert_eq!(error, Refusal::Rejected.to_string());
        assert!(!bench.at("new").exists());

        bench.on_ask({
            let cancelled = bench.cancelled.clone();
            move |_| cancelled.cancel()
        });
        assert!(bench.run(&tool(), input("new/a.txt", "x")).await.is_err());
        assert!(
            !bench.at("new").exists(),
            "a call cancelled while it asked writes nothing"
        );
    }

    #[tokio::test]
    async fn a_change_while_the_person_thinks_is_kept() {
        let bench = Bench::new();
        let tool = tool();
        bench.run(&tool, input("a.txt", "one")).await.unwrap();
        for name in ["a.txt", "fresh.txt"] {
            let path = bench.at(name);
            bench.on_ask(move |_| std::fs::write(&path, "theirs").unwrap());
            let error = bench.run(&tool, input(name, "mine")).await.unwrap_err();
            assert!(error.contains("has been modified since it was last read"), "{error}");
            assert_eq!(bench.text(name), "theirs");
        }
    }

    #[tokio::test]
    async fn keeps_byte_order_marks() {
        let bench = Bench::new();
        let tool = tool();
        let check = async |content: &str, expected: &str| {
            bench.run(&tool, input("a.cs", content)).await.unwrap();
            assert_eq!(bench.text("a.cs"), expected);
        };
        check("a", "a").await;
        check("\u{feff}b", "\u{feff}b").await;
        check("c", "\u{feff}c").await;
        check("\u{feff}d", "\u{feff}d").await;
    }

    #[tokio::test]
    async fn asks_outside_first_and_refuses_what_is_no_file() {
        let bench = Bench::new();
        bench.write("src/a.txt", "keep");
        let path = bench.fill("$o/out.txt");
        bench.answer(Err(Refusal::Rejected));
        assert!(bench.run(&tool(), input(&path, "x")).await.is_err());
        assert_eq!(
            bench.asked(),
            [("external_directory".to_owned(), vec![bench.fill("$o/*")])]
        );
        for path in ["src", "src/a.txt/b"] {
            assert!(bench.run(&tool(), input(path, "x")).await.is_err(), "{path}");
        }
        assert!(bench.asked().is_empty());
        assert_eq!(bench.text("src/a.txt"), "keep");
    }

    #[tokio::test]
    async fn parallel_writes_go_one_after_the_other() {
        let bench = Bench::new();
        let tool = tool();
        let (first, second) = tokio::join!(
            bench.run(&tool, input("a.txt", "first")),
            bench.run(&tool, input("a.txt", "second")),
        );
        // Both come from one session, so whichever is second has seen what the first wrote.
        assert!(first.is_ok() && second.is_ok());
        assert!(["first", "second"].contains(&bench.text("a.txt").as_str()));
    }
}
