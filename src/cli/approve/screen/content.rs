//! A prompt as rows: what would run or change first, then what is judged, then what else is known of it.
//!
//! *Invariant:* all of a prompt is there and nothing is hidden, except what is folded, which says so; and each fact is there once.

use std::collections::{BTreeMap, HashMap};

use ratatui::text::Line;
use serde_json::Value;
use toolgate_contract::json::struct_to_json;
use toolgate_contract::{PermissionAction, PermissionPart, PermissionRequest, Prompt, QuestionRequest, prompt};

use super::questions::Answers;
use super::risk::{Risk, riskiest};
use super::rows::{Piece, Rows};
use super::theme::Theme;
use crate::cli::diff::{self, FileDiff};
use crate::cli::prompt::{self as words, is_shown, patterns};
use crate::cli::terminal::{counted, on_one_line};

/// Which files of a diff are folded, where a person has said so.
pub(super) type Folds = HashMap<usize, bool>;

/// The rows of a prompt.
#[derive(Default)]
pub(super) struct Content {
    pub(super) lines: Vec<Line<'static>>,
    /// Where the row of each file of its diff is.
    pub(super) files: Vec<usize>,
    /// Where the part is that deserves the closest look.
    pub(super) marked: Option<usize>,
}

/// What a prompt is shown with.
pub(super) struct View<'a> {
    pub(super) width: u16,
    pub(super) theme: Theme,
    pub(super) folds: &'a Folds,
    /// Other prompts of the session that wait, which a rejection rejects as well.
    pub(super) others_of_session: usize,
}

impl View<'_> {
    /// Says whether a file of the diff is folded.
    pub(super) fn is_folded(&self, number: usize, file: &FileDiff<'_>) -> bool {
        is_folded(self.folds, number, file.is_long())
    }
}

/// Says whether a file is folded: as a person has said, or else if its changes are long.
pub(super) fn is_folded(folds: &Folds, number: usize, is_long: bool) -> bool {
    folds.get(&number).copied().unwrap_or(is_long)
}

/// Returns the rows of a prompt; `answers` are those given so far if it asks questions.
pub(super) fn of(prompt: &Prompt, answers: Option<&Answers>, view: &View<'_>) -> Content {
    let mut content = Content::default();
    let mut rows = Rows::new(view.width, view.theme);
    let theme = view.theme;
    let tool = on_one_line(&prompt.tool);
    match &prompt.request {
        Some(prompt::Request::Permission(request)) => {
            let mut head: Vec<Piece> = vec![(tool, theme.warning().patch(theme.bold()))];
            if request.permission != prompt.tool {
                let asks = format!(" asks for permission: {}", on_one_line(&request.permission));
                head.push((asks, theme.warning()));
            }
            if !request.title.is_empty() && request.title != prompt.tool {
                head.push((format!(" · {}", on_one_line(&request.title)), theme.bold()));
            }
            rows.flow(2, &head);
            permission(&mut rows, &mut content, prompt, request, view);
        }
        Some(prompt::Request::Questions(request)) => {
            let asks = (format!("{tool} asks you"), theme.warning());
            let number = answers.map_or(0, |answers| answers.question);
            let count = request.questions.len();
            let of = if count > 1 {
                format!(" · {} of {count}", number + 1)
            } else {
                String::new()
            };
            rows.flow(2, &[asks, (of, theme.dim())]);
            question(&mut rows, request, answers, theme);
        }
        None => rows.flow(
            2,
            &[(
                format!("{tool} asks something that this program cannot show"),
                theme.warning(),
            )],
        ),
    }
    rows.blank();
    origin(&mut rows, prompt, theme);
    content.lines = rows.lines;
    content
}

fn permission(rows: &mut Rows, content: &mut Content, prompt: &Prompt, request: &PermissionRequest, view: &View<'_>) {
    let theme = view.theme;
    let metadata = request.metadata.clone().map(struct_to_json).unwrap_or_default();
    let text = |key: &str| metadata.get(key).and_then(Value::as_str);
    if let Some(command) = text("command") {
        rows.blank();
        rows.exact("$ ", command, theme.command());
    }
    let diff = diff::of(request);
    if let Some(diff) = diff {
        rows.blank();
        changes(rows, &mut content.files, diff, view);
    }
    for approval in &prompt.approvals {
        rows.blank();
        let by = on_one_line(&approval.approved_by);
        let text = format!("Approved by {by}; one more approval is needed.");
        rows.flow(2, &[(text, theme.warning())]);
    }
    if !request.parts.is_empty() {
        rows.blank();
        content.marked = parts(rows, &request.parts, text("workdir"), theme);
    }
    rows.blank();
    patterns(rows, request, diff.is_some(), theme);
    if let Some(folder) = text("workdir") {
        fact(rows, "in", folder, theme);
    } else if !prompt.directory.is_empty() {
        fact(rows, "in", &prompt.directory, theme);
    }
    for (key, value) in &metadata {
        let is_told = matches!(key.as_str(), "command" | "diff" | "patch" | "workdir")
            || is_shown(request, key, value)
            || is_path_told(request, key, value, diff.is_some());
        if !is_told {
            rest(rows, key, value, theme);
        }
    }
    for (key, value) in words::untold_input(prompt, request) {
        rest(rows, &key, &value, theme);
    }
    if prompt.input_json.is_empty() && metadata.is_empty() {
        let text = format!(
            "The input of the call is not part of this prompt: toolgate watch {}",
            prompt.call_id
        );
        rows.flow(2, &[(text, theme.warning())]);
    }
    for ahead in &request.ahead {
        let what = format!("{}: {}", ahead.permission, ahead.patterns.join(", "));
        fact(rows, "asks next for", &what, theme);
    }
    folded_always(rows, request, theme);
    let variables: BTreeMap<_, _> = prompt.environment.iter().collect();
    for (name, value) in variables {
        fact(rows, "with", &format!("{name}={value}"), theme);
    }
    if let Some(rule) = &request.rule {
        let rule = format!("{} {}", rule.permission, rule.pattern);
        fact(rows, "asked by the rule", &rule, theme);
    }
    if view.others_of_session > 0 {
        let others = counted(view.others_of_session, "other prompt");
        let text = format!("Rejecting it rejects {others} of the session as well.");
        rows.flow(2, &[(text, theme.dim())]);
    }
}

/// Adds what an "always" would allow, as one row: the keys unfold it.
fn folded_always(rows: &mut Rows, request: &PermissionRequest, theme: Theme) {
    let sorted = patterns::sorted(&request.permission, &request.always);
    let Some(narrowest) = sorted.first() else {
        return fact(rows, "always", "would allow this call only", theme);
    };
    let mut text = narrowest.clone();
    if patterns::is_broad(&request.permission, narrowest) {
        text += " (broad)";
    }
    if sorted.len() > 1 {
        text += &format!(", and {} more", sorted.len() - 1);
    }
    fact(rows, "always", &text, theme);
}

/// Says whether a value is a path that is in the title, the patterns or the diff anyway.
fn is_path_told(request: &PermissionRequest, key: &str, value: &Value, has_diff: bool) -> bool {
    match (key, value) {
        ("filepath", Value::String(path)) => {
            has_diff || request.patterns.iter().any(|pattern| path.ends_with(pattern.as_str()))
        }
        // What a patch does to each file; the diff has all but the moves.
        ("files", Value::Array(files)) if has_diff => files.iter().all(|file| {
            let has = |key: &str| file.get(key).is_some();
            let is_left_out = file["patch"].as_str().is_some_and(|patch| patch.starts_with('('));
            has("filePath") && has("patch") && !has("movePath") && !is_left_out
        }),
        (_, Value::String(text)) => request.parts.is_empty() && request.patterns.contains(text),
        _ => false,
    }
}

fn changes(rows: &mut Rows, files: &mut Vec<usize>, text: &str, view: &View<'_>) {
    let theme = view.theme;
    let all = diff::files(text);
    if all.len() > 1 {
        rows.flow(2, &[(diff::summary_of(&all), theme.bold())]);
    }
    for (number, file) in all.iter().enumerate() {
        let is_folded = view.is_folded(number, file);
        let sign = if is_folded { "▸ " } else { "▾ " };
        let mut row: Vec<Piece> = vec![
            (format!("{sign}{} ", on_one_line(&file.name)), theme.bold()),
            (file.summary(), theme.command()),
        ];
        if is_folded {
            row.push((" folded: z shows it".to_owned(), theme.warning()));
        }
        files.push(rows.lines.len());
        rows.flow(2, &row);
        if !is_folded {
            lines(rows, file, theme);
        }
    }
}

/// Adds the changes of a file below its row.
fn lines(rows: &mut Rows, file: &FileDiff<'_>, theme: Theme) {
    for line in &file.lines {
        let style = match line.as_bytes().first() {
            Some(b'+') => theme.good(),
            Some(b'-') => theme.bad(),
            Some(b'@') => theme.command(),
            Some(_) | None => theme.plain(),
        };
        rows.exact("", line, style);
    }
}

/// Adds the parts of a command line; returns the row of the one that is marked.
fn parts(rows: &mut Rows, parts: &[PermissionPart], folder: Option<&str>, theme: Theme) -> Option<usize> {
    let mut marked = None;
    let riskiest = riskiest(parts, folder);
    for (place, part) in parts.iter().enumerate() {
        let risk = riskiest
            .filter(|(riskiest, _)| *riskiest == place)
            .map(|(_, risk)| risk);
        let (word, style) = match (part.action(), part.granted) {
            (PermissionAction::Allow, true) => ("granted", theme.good()),
            (PermissionAction::Allow, false) => ("allowed", theme.good()),
            (PermissionAction::Deny, _) => ("denied", theme.bad()),
            (PermissionAction::Ask | PermissionAction::Unspecified, _) => ("asks", theme.warning()),
        };
        let is_marked = risk.is_some_and(|risk| risk > Risk::Asked || parts.len() > 1);
        let mark = if is_marked { "!" } else { " " };
        let text_style = if is_marked { theme.alarm() } else { theme.plain() };
        // The margin is dim; what counts in it is told by the mark and the look of the text.
        let from = rows.lines.len();
        marked = marked.or(is_marked.then_some(from));
        rows.exact(&format!("{mark} {word:7} "), &part.text, text_style);
        if let Some(margin) = rows.lines.get_mut(from).and_then(|line| line.spans.first_mut()) {
            margin.style = if is_marked { theme.alarm() } else { style };
        }
        let why = risk.map(Risk::words).filter(|why| !why.is_empty() && is_marked);
        if !part.unclear.is_empty() {
            rows.exact("          ", &format!("unclear: {}", part.unclear), theme.bad());
        } else if let Some(why) = why {
            rows.exact("          ", why, theme.bad());
        }
        for pattern in part.patterns.iter().filter(|pattern| **pattern != part.text) {
            rows.exact("          ", &format!("judged as: {pattern}"), theme.dim());
        }
        for path in &part.paths {
            rows.exact("          ", &format!("touches {path}"), theme.dim());
        }
    }
    marked
}

/// Adds what would be touched, unless it is in the title, the parts or the diff, or is whatever the tool does.
fn patterns(rows: &mut Rows, request: &PermissionRequest, has_diff: bool, theme: Theme) {
    let is_told = request.patterns.join(", ") == request.title || request.patterns == ["*"];
    if !request.parts.is_empty() && !has_diff || is_told {
        return;
    }
    for (number, pattern) in request.patterns.iter().enumerate() {
        rows.exact(if number == 0 { "for   " } else { "      " }, pattern, theme.plain());
    }
}

fn fact(rows: &mut Rows, name: &str, value: &str, theme: Theme) {
    rows.flow(
        2,
        &[
            (format!("{} ", on_one_line(name)), theme.dim()),
            (on_one_line(value), theme.plain()),
        ],
    );
}

/// Adds a value that has no form of its own.
fn rest(rows: &mut Rows, key: &str, value: &Value, theme: Theme) {
    match value {
        Value::String(text) if text.contains('\n') => {
            rows.flow(2, &[(format!("{}:", on_one_line(key)), theme.dim())]);
            rows.exact("  ", text, theme.plain());
        }
        Value::String(text) => fact(rows, &format!("{key}:"), text, theme),
        Value::Array(_) | Value::Object(_) => {
            let text = serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string());
            rows.flow(2, &[(format!("{}:", on_one_line(key)), theme.dim())]);
            rows.exact("  ", &text, theme.plain());
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => fact(rows, &format!("{key}:"), &value.to_string(), theme),
    }
}

fn question(rows: &mut Rows, request: &QuestionRequest, answers: Option<&Answers>, theme: Theme) {
    let number = answers.map_or(0, |answers| answers.question);
    let Some(question) = request.questions.get(number) else {
        return;
    };
    rows.blank();
    if !question.header.is_empty() {
        rows.flow(0, &[(on_one_line(&question.header), theme.bold())]);
    }
    rows.flow(0, &[(question.question.clone(), theme.plain())]);
    rows.blank();
    for (place, option) in question.options.iter().enumerate() {
        let is_chosen = answers.is_some_and(|answers| answers.is_chosen(number, place));
        let is_here = answers.is_some_and(|answers| answers.option == place && answers.writing.is_none());
        let here = if is_here { "▸" } else { " " };
        let chosen = match (question.multiple, is_chosen) {
            (true, true) => "[x]",
            (true, false) => "[ ]",
            (false, true) => "(•)",
            (false, false) => "( )",
        };
        let style = if is_chosen {
            theme.good().patch(theme.bold())
        } else {
            theme.plain()
        };
        rows.flow(
            9,
            &[
                (format!("{here} {} {chosen} ", place + 1), style),
                (on_one_line(&option.label), style.patch(theme.bold())),
                (format!("  {}", option.description), theme.dim()),
            ],
        );
    }
    let own = answers.map_or("", |answers| answers.own(number));
    if !own.is_empty() {
        fact(rows, "your own answer:", own, theme);
    }
}

/// Adds in whose name the call was made.
fn origin(rows: &mut Rows, prompt: &Prompt, theme: Theme) {
    let mut text = format!("agent {}, session {}", prompt.agent, prompt.session_id);
    for (what, name) in [("workspace", &prompt.workspace), ("requested by", &prompt.requester)] {
        if !name.is_empty() {
            text += &format!(", {what} {name}");
        }
    }
    if !prompt.on_behalf_of.is_empty() {
        text += &format!(", on behalf of {}", prompt.on_behalf_of.join(", "));
    }
    rows.flow(2, &[(on_one_line(&text), theme.dim())]);
}

#[cfg(test)]
mod tests;
