//! A prompt as an editor shows it, and what is answered as a decision.
//!
//! *Invariant:* pure, but for the ids of dialogs, which are random. All of the prompt is shown: text of others stands in a fence that it cannot close. What an editor
//! answers that was not offered allows nothing.

use std::path::Path;

use serde_json::{Value, json};
use toolgate_client::{Decision, PermissionPrompt};
use toolgate_contract::json::struct_to_json;
use toolgate_contract::{GrantReach, Prompt, Question, prompt};

use super::diff;
use crate::cli::prompt::render;
use crate::cli::scope;
use crate::cli::terminal::{Paint, short, visible};

/// Characters of a title.
const TITLE: usize = 120;

/// Characters of the patterns in the name of an option.
const COVERED: usize = 60;

/// The key of the metadata that has a diff.
const DIFF: &str = "diff";

/// What answers mean.
const ONCE: &str = "once";
const SESSION: &str = "session";
const WORKSPACE: &str = "workspace";
const REJECT: &str = "reject";

/// The form that the agent and the editor have agreed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Version {
    #[default]
    V1,
    V2,
}

impl Version {
    /// Returns the form of a version of the protocol. What is newer is most like the newest that is known.
    pub(super) fn of(number: u64) -> Self {
        match number {
            0 | 1 => Self::V1,
            2.. => Self::V2,
        }
    }
}

/// What is put to the person.
pub(super) struct Card {
    /// Names it among the tool calls of the session.
    id: String,
    title: String,
    kind: &'static str,
    content: Vec<Value>,
    input: Option<Value>,
    options: Vec<Value>,
}

impl Card {
    /// Shows a prompt for a permission.
    pub(super) fn of_permission(prompt: &PermissionPrompt, version: Version) -> Self {
        let asked = &prompt.permission;
        let about = match asked.title.as_str() {
            "" => asked.patterns.join(", "),
            title => title.to_owned(),
        };
        let mut options = vec![option(ONCE, "Allow once", "allow_once")];
        if !asked.always.is_empty() {
            let covered = short(&asked.always.join(", "), COVERED);
            let name = format!("Allow for this session: {covered}");
            options.push(option(SESSION, &name, "allow_always"));
            let name = format!("Always allow in this workspace: {covered}");
            options.push(option(WORKSPACE, &name, "allow_always"));
        }
        options.push(option(REJECT, "Reject", "reject_once"));
        Self {
            id: new_id(),
            title: title(&format!("{}: {about}", asked.permission)),
            kind: kind_of(&asked.permission),
            content: content(&prompt.message, version),
            input: serde_json::from_str(&prompt.message.input_json).ok(),
            options,
        }
    }

    /// Shows one question of a prompt; none if no answer can be chosen, or several.
    pub(super) fn of_question(question: &Question) -> Option<Self> {
        if question.options.is_empty() || question.multiple {
            return None;
        }
        let mut options: Vec<Value> = (0..)
            .zip(&question.options)
            .map(|(number, one): (usize, _)| option(&number.to_string(), &short(&one.label, TITLE), "allow_once"))
            .collect();
        options.push(option(REJECT, "Dismiss", "reject_once"));
        let described = question
            .options
            .iter()
            .filter(|one| !one.description.is_empty())
            .map(|one| format!("\n{}: {}", one.label, one.description));
        let text = format!(
            "{}\n{}{}",
            question.header,
            question.question,
            described.collect::<String>()
        );
        Some(Self {
            id: new_id(),
            title: title(&question.question),
            kind: "other",
            content: vec![fenced(&text)],
            input: None,
            options,
        })
    }

    fn tool_call(&self) -> Value {
        let mut call = json!({
            "toolCallId": self.id,
            "title": self.title,
            "kind": self.kind,
            "status": "pending",
            "content": self.content,
        });
        if let Some(input) = &self.input {
            call["rawInput"] = input.clone();
        }
        call
    }

    /// Returns what makes it known in a session before it is asked about; none where asking does.
    pub(super) fn announced(&self, session: &str, version: Version) -> Option<Value> {
        let mut update = match version {
            Version::V1 => self.tool_call(),
            Version::V2 => return None,
        };
        update["sessionUpdate"] = "tool_call".into();
        Some(json!({"sessionId": session, "update": update}))
    }

    /// Returns what is asked.
    pub(super) fn asked(&self, session: &str, version: Version) -> Value {
        let options = &self.options;
        match version {
            Version::V1 => json!({"sessionId": session, "toolCall": self.tool_call(), "options": options}),
            Version::V2 => json!({
                "sessionId": session,
                "title": self.title,
                "subject": {"type": "tool_call", "toolCall": self.tool_call()},
                "options": options,
            }),
        }
    }

    /// Returns what tells how it ended.
    pub(super) fn ended(&self, session: &str, end: End, version: Version) -> Value {
        let status = match (end, version) {
            (End::Allowed, _) => "completed",
            (End::Over, Version::V2) => "cancelled",
            (End::Refused, _) | (End::Over, Version::V1) => "failed",
        };
        let update = json!({"sessionUpdate": "tool_call_update", "toolCallId": self.id, "status": status});
        json!({"sessionId": session, "update": update})
    }
}

/// How asking ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Allowed,
    Refused,
    /// Somebody else has answered, or nobody need any more.
    Over,
}

/// Names a dialog among the tool calls of a session. The agent, which may change the tool calls that it knows, cannot guess it.
fn new_id() -> String {
    format!("toolgate-{}", uuid::Uuid::new_v4().simple())
}

fn option(id: &str, name: &str, kind: &str) -> Value {
    json!({"optionId": id, "name": name, "kind": kind})
}

/// Returns the word of the protocol that is nearest to a permission.
fn kind_of(permission: &str) -> &'static str {
    match permission {
        "edit" | "write" | "multiedit" | "patch" => "edit",
        "bash" => "execute",
        "webfetch" | "websearch" | "codesearch" => "fetch",
        "read" | "external_directory" => "read",
        "grep" | "glob" | "list" => "search",
        _ => "other",
    }
}

/// Shows what a prompt is about: files as files, all the rest as text.
fn content(prompt: &Prompt, version: Version) -> Vec<Value> {
    let mut rest = prompt.clone();
    let mut blocks = Vec::new();
    if let Some(prompt::Request::Permission(asked)) = &mut rest.request
        && let Some(metadata) = &mut asked.metadata
    {
        let shown = struct_to_json(metadata.clone());
        let text = shown.get(DIFF).and_then(Value::as_str);
        // An editor shows a file as it is, and so not what is hidden in it.
        let is_deceptive = text.is_some_and(|text| visible(text) != text);
        let changes = text.and_then(diff::parse);
        if let Some(changes) = changes.filter(|changes| changes.iter().all(|one| Path::new(&one.path).is_absolute())) {
            if !is_deceptive {
                metadata.fields.remove(DIFF);
            }
            blocks = changes.iter().map(|change| file(change, &shown, version)).collect();
        }
    }
    blocks.push(fenced(&render(&rest, Paint(false))));
    blocks
}

fn file(change: &diff::Change, metadata: &serde_json::Map<String, Value>, version: Version) -> Value {
    let diff::Change { path, old, new, hunk } = change;
    match version {
        Version::V1 => json!({"type": "diff", "path": path, "oldText": old, "newText": new}),
        Version::V2 => {
            let operation = operation(path, metadata);
            let (before, after) = (
                if operation == "add" {
                    "/dev/null".to_owned()
                } else {
                    format!("a{path}")
                },
                if operation == "delete" {
                    "/dev/null".to_owned()
                } else {
                    format!("b{path}")
                },
            );
            json!({
                "type": "diff",
                "changes": [{"operation": operation, "path": path}],
                "patch": {
                    "format": "git_patch",
                    "text": format!("diff --git a{path} b{path}\n--- {before}\n+++ {after}\n{hunk}"),
                },
            })
        }
    }
}

/// Says what becomes of a file, if the prompt says it; a change is never wrong.
fn operation(path: &str, metadata: &serde_json::Map<String, Value>) -> &'static str {
    let files = metadata.get("files").and_then(Value::as_array);
    let of_path = |file: &&Value| file["filePath"] == path;
    let found = files.and_then(|files| files.iter().find(of_path));
    match found.and_then(|file| file["type"].as_str()) {
        Some("add") => "add",
        Some("delete") => "delete",
        Some(_) | None => "modify",
    }
}

/// Shows text as it is: an editor takes text for Markdown, which can hide a part of it.
fn fenced(text: &str) -> Value {
    let text = visible(text);
    let fence = "`".repeat(longest_ticks(&text).max(2) + 1);
    json!({"type": "content", "content": {"type": "text", "text": format!("{fence}text\n{text}\n{fence}")}})
}

fn longest_ticks(text: &str) -> usize {
    text.split(|letter| letter != '`').map(str::len).max().unwrap_or(0)
}

/// Shows text as a title, on one line. Editors take that for Markdown, too: what might mean something there is shown as code.
fn title(text: &str) -> String {
    let text = short(text, TITLE);
    let is_plain = |letter: char| letter.is_alphanumeric() || " .,:;?/'\"()=%@{}-…".contains(letter);
    if text.starts_with(char::is_alphabetic) && text.chars().all(is_plain) {
        return text;
    }
    let fence = "`".repeat(longest_ticks(&text) + 1);
    format!("{fence} {text} {fence}")
}

/// Reads what was chosen for a permission; none if it was not offered.
pub(super) fn decision(chosen: &str, prompt: &PermissionPrompt) -> Option<Decision> {
    let always = |reach: GrantReach| {
        (!prompt.permission.always.is_empty()).then(|| Decision::Always {
            scope: scope::unlimited(reach),
            patterns: Vec::new(),
        })
    };
    match chosen {
        ONCE => Some(Decision::Once),
        SESSION => always(GrantReach::Session),
        WORKSPACE => always(GrantReach::Workspace),
        REJECT => Some(Decision::reject("")),
        _ => None,
    }
}

/// Reads what was chosen for a question: its label; none if it was dismissed.
pub(super) fn label<'q>(chosen: &str, question: &'q Question) -> Option<&'q str> {
    let number: usize = chosen.parse().ok()?;
    Some(question.options.get(number)?.label.as_str())
}

#[cfg(test)]
mod tests {
    use toolgate_contract::json::struct_from_json;
    use toolgate_contract::{PermissionRequest, QuestionOption};

    use super::*;

    fn permission(always: &[&str], metadata: Value) -> PermissionPrompt {
        let Value::Object(metadata) = metadata else {
            panic!("metadata are an object")
        };
        let permission = PermissionRequest {
            permission: "edit".into(),
            patterns: vec!["a.txt".into()],
            always: always.iter().map(ToString::to_string).collect(),
            metadata: Some(struct_from_json(metadata)),
            ..PermissionRequest::default()
        };
        let message = Prompt {
            prompt_id: "per_1".into(),
            tool: "edit".into(),
            input_json: r#"{"filePath": "/w/a.txt"}"#.into(),
            request: Some(prompt::Request::Permission(permission.clone())),
            ..Prompt::default()
        };
        PermissionPrompt { message, permission }
    }

    const CHANGE: &str = "Index: /w/a.txt\n===\n--- /w/a.txt\n+++ /w/a.txt\n@@ -1,1 +1,1 @@\n-one\n+two\n";

    #[test]
    fn a_change_is_shown_as_one() {
        let prompt = permission(&["*"], json!({"diff": CHANGE, "filepath": "/w/a.txt"}));
        let asked = Card::of_permission(&prompt, Version::V1).asked("s", Version::V1);
        let call = &asked["toolCall"];
        assert_eq!(
            call["content"][0],
            json!({"type": "diff", "path": "/w/a.txt", "oldText": "one\n", "newText": "two\n"})
        );
        let text = call["content"][1]["content"]["text"].as_str().unwrap();
        assert!(
            text.starts_with("```text\nedit asks for permission: edit") && !text.contains("@@"),
            "{text}"
        );
        assert_eq!((&asked["sessionId"], &call["kind"]), (&json!("s"), &json!("edit")));
        assert_eq!(call["rawInput"]["filePath"], "/w/a.txt");

        let asked = Card::of_permission(&prompt, Version::V2).asked("s", Version::V2);
        let change = &asked["subject"]["toolCall"]["content"][0];
        assert_eq!(change["changes"], json!([{"operation": "modify", "path": "/w/a.txt"}]));
        let patch = change["patch"]["text"].as_str().unwrap();
        assert!(
            patch.ends_with("--- a/w/a.txt\n+++ b/w/a.txt\n@@ -1,1 +1,1 @@\n-one\n+two\n"),
            "{patch}"
        );
    }

    #[test]
    fn what_is_hidden_in_a_change_is_shown_as_text_too() {
        let diff = CHANGE.replace("+two", "+two\u{202e}");
        let card = Card::of_permission(&permission(&[], json!({"diff": diff})), Version::V1);
        let text = card.content[1]["content"]["text"].as_str().unwrap();
        assert_eq!(card.content[0]["type"], "diff");
        assert!(text.contains("+two\\u{202e}"), "{text}");
    }

    #[test]
    fn a_title_is_no_markup() {
        assert_eq!(title("edit: /w/a-b.txt"), "edit: /w/a-b.txt");
        assert_eq!(title("bash: echo <!-- `x`"), "`` bash: echo <!-- `x` ``");
        assert_eq!(title("- rm"), "` - rm `");
    }

    #[test]
    fn what_is_no_diff_is_shown_as_text() {
        let prompt = permission(&[], json!({"diff": "who knows\n```\n<!-- "}));
        let card = Card::of_permission(&prompt, Version::V1);
        let text = card.content[0]["content"]["text"].as_str().unwrap();
        assert!(
            text.starts_with("````text\n") && text.ends_with("\n````") && text.contains("<!-- "),
            "{text}"
        );
        assert_eq!(card.content.len(), 1);
    }

    #[test]
    fn only_what_was_offered_allows() {
        let offered = |prompt: &PermissionPrompt| {
            let card = Card::of_permission(prompt, Version::V1);
            let ids = card
                .options
                .iter()
                .map(|one| one["optionId"].as_str().unwrap().to_owned());
            ids.collect::<Vec<_>>()
        };
        let prompt = permission(&["*"], json!({}));
        assert_eq!(offered(&prompt), ["once", "session", "workspace", "reject"]);
        assert_eq!(decision("once", &prompt), Some(Decision::Once));
        assert!(matches!(decision("session", &prompt), Some(Decision::Always { .. })));
        assert_eq!(decision("reject", &prompt), Some(Decision::reject("")));
        assert_eq!(decision("allow", &prompt), None);
        let prompt = permission(&[], json!({}));
        assert_eq!(offered(&prompt), ["once", "reject"]);
        assert_eq!(decision("workspace", &prompt), None);
    }

    #[test]
    fn one_answer_can_be_chosen() {
        let question = Question {
            question: "Which?".into(),
            options: ["a", "b"]
                .map(|label| QuestionOption {
                    label: label.into(),
                    ..QuestionOption::default()
                })
                .into(),
            ..Question::default()
        };
        let card = Card::of_question(&question).unwrap();
        assert_eq!((card.title.as_str(), card.options.len()), ("Which?", 3));
        assert_ne!(card.id, Card::of_question(&question).unwrap().id);
        assert_eq!(label("1", &question), Some("b"));
        assert_eq!((label("2", &question), label("reject", &question)), (None, None));
        let several = Question {
            multiple: true,
            ..question
        };
        assert!(Card::of_question(&several).is_none());
        assert!(Card::of_question(&Question::default()).is_none());
    }

    #[test]
    fn how_it_ended_is_told_in_each_version() {
        let card = Card::of_permission(&permission(&[], json!({})), Version::V1);
        let status = |end, version| card.ended("s", end, version)["update"]["status"].clone();
        assert_eq!(status(End::Allowed, Version::V1), "completed");
        assert_eq!(status(End::Over, Version::V1), "failed");
        assert_eq!(status(End::Over, Version::V2), "cancelled");
        assert!(card.announced("s", Version::V1).is_some() && card.announced("s", Version::V2).is_none());
    }
}
