//! `multiedit`: several edits of one file, all of them or none. Callable, but models are not told of it.
//!
//! *Invariant:* the edits are made one after the other in memory, then one question is asked and one write done
//! (`docs/spec/file-tools.md` §5).

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
    About, Offer, Outline, Properties, ToolContext, ToolError, TypedTool, change_of, changed, edit_of,
};

/// More edits in one call are refused: each looks through the whole file.
const MAX_EDITS: usize = 256;

/// The tool.
#[derive(Clone, Debug)]
pub struct MultiEdit {
    files: Arc<Files>,
    feedback: EditDiagnostics,
}

impl MultiEdit {
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
    /// The edits, in the order in which they are made; each works on what the one before it left
    pub edits: Vec<Entry>,
}

/// One edit.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// Ignored: all edits are of the file named above
    #[serde(default)]
    pub file_path: Option<String>,
    /// The text to replace
    pub old_string: String,
    /// The text to put in its place; it must differ from oldString
    pub new_string: String,
    /// Whether to replace every occurrence of oldString (default false)
    #[serde(default)]
    pub replace_all: Option<bool>,
}

impl From<Entry> for edit::Edit {
    fn from(entry: Entry) -> Self {
        Self {
            old: entry.old_string,
            new: entry.new_string,
            replace_all: entry.replace_all.unwrap_or_default(),
        }
    }
}

#[async_trait]
impl TypedTool for MultiEdit {
    type Input = Input;

    const ABOUT: About = About {
        name: "multiedit",
        effects: &[Effect::Reads, Effect::Writes],
        permissions: &["edit", "external_directory"],
        advertised: false,
        properties: Properties::RESUMABLE,
        example: r#"{"filePath": "notes.txt", "edits": [{"oldString": "", "newString": "One line.\n"}]}"#,
    };

    fn description(&self, _offer: &Offer<'_>) -> String {
        include_str!("multiedit.md").trim_end().to_owned()
    }

    fn outline(&self, input: &Value) -> Outline {
        Outline::of(input, &["filePath"])
    }

    async fn run(&self, input: Input, ctx: &ToolContext) -> Result<ToolOutput, ToolError> {
        if input.file_path.is_empty() {
            return Err(ToolError::failed("filePath is required"));
        }
        let edits: Vec<edit::Edit> = input.edits.into_iter().map(edit::Edit::from).collect();
        let Some(first) = edits.first() else {
            return Err(ToolError::failed("edits is empty: give at least one edit"));
        };
        if first.old == first.new {
            return Err(EditError::Identical.into());
        }
        if edits.len() > MAX_EDITS {
            return Err(ToolError::failed(format!(
                "{} edits are too many for one call: give at most {MAX_EDITS}, and the rest in another call",
                edits.len()
            )));
        }
        let path = locate(&ctx.workspace, input.file_path).await?.path;
        ctx.ask_outside(&path, false, vec![edit_of(&path)]).await?;
        let (file, old) = tokio::select! {
            opened = edit::open(&self.files, path, first.old.is_empty()) => opened?,
            () = ctx.cancelled.cancelled() => return Err(ToolError::Cancelled),
        };
        let mark = ctx.session.get(&ReadMark::key(file.path().real())).await;
        self.files.check_read(mark, file.path(), &old)?;
        let change = edit::compute(&file, &old, edits, &ctx.cancelled).await?;
        let result = changed(file.path(), change_of(old.exists()), &change.diff);
        ctx.replace_file(&file, old, change.bytes, &change.diff).await?;

        let path = file.path().clone();
        // Others may change the file while language servers look at it.
        drop(file);
        let title = path.relative().to_owned();
        let mut results: Vec<Value> = change
            .steps
            .iter()
            .map(|diff| {
                let filediff = diff.to_json(path.display_path());
                json!({"diagnostics": {}, "diff": diff.text, "filediff": filediff})
            })
            .collect();
        let progress = json_map([("results", json!(results))]);
        ctx.output.progress(Some(title.clone()), progress).await;
        let told = self
            .feedback
            .on(&[&path], &ctx.cancelled, |later| ctx.output.late_metadata(later))
            .await;
        let diagnostics = told.to_json();
        if let Some(last) = results.last_mut() {
            last["diagnostics"] = diagnostics.clone();
        }
        let metadata = json_map([("results", Value::Array(results)), ("diagnostics", diagnostics)]);
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
    use super::*;
    use crate::testing::{Bench, output_text};

    fn tool() -> MultiEdit {
        MultiEdit::new(Arc::new(Files::new(true)), EditDiagnostics::default())
    }

    fn input(path: &str, edits: &[(&str, &str)]) -> Value {
        let edits: Vec<Value> = edits
            .iter()
            .map(|(old, new)| json!({"filePath": "ignored", "oldString": old, "newString": new}))
            .collect();
        json!({"filePath": path, "edits": edits})
    }

    #[tokio::test]
    async fn makes_all_edits_with_one_question() {
        let bench = Bench::new();
        let edits = [("", "one\ntwo\n"), ("one", "1"), ("1\ntwo", "1\n2")];
        let output = bench.run(&tool(), input("a.txt", &edits)).await.unwrap();
        assert_eq!(bench.text("a.txt"), "1\n2\n");
        assert_eq!(
            (output.title.as_str(), output_text(&output)),
            ("a.txt", "Edit applied successfully.")
        );
        let counts = |at: usize| {
            let diff = &output.metadata["results"][at]["filediff"];
            (diff["additions"].clone(), diff["deletions"].clone())
        };
        assert_eq!(
            [counts(0), counts(1), counts(2)],
            [(2, 0), (1, 1), (1, 1)].map(|(a, d)| (json!(a), json!(d)))
        );
        let diff = bench.last_ask().metadata["diff"].as_str().unwrap().to_owned();
        assert!(diff.ends_with("@@ -0,0 +1,2 @@\n+1\n+2\n"), "{diff}");
        assert_eq!(bench.asked().len(), 1);
        assert_eq!(bench.edited().len(), 1);
    }

    #[tokio::test]
    async fn one_failing_edit_fails_all() {
        let bench = Bench::new();
        bench.run(&tool(), input("a.txt", &[("", "one\n")])).await.unwrap();
        bench.asked();
        let check = async |edits: &[(&str, &str)], expected: &str| {
            let error = bench.run(&tool(), input("a.txt", edits)).await.unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        };
        check(&[], "edits is empty").await;
        check(&[("one", "1"), ("absent", "2")], "Could not find oldString").await;
        check(&[("one", "1"), ("2", "2")], "No changes to apply").await;
        check(&[("one", "1"), ("", "2")], "oldString cannot be empty").await;
        check(&[("one", "1"); MAX_EDITS + 1], "257 edits are too many").await;
        assert_eq!(bench.text("a.txt"), "one\n");
        assert!(bench.asked().is_empty());
    }
}
