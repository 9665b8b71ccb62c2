//! Prompts, shown to a person and answered by key. `patterns` is what an "always" would allow, `brief` what is shown of a prompt
//! where nobody answers it.
//!
//! *Invariant:* to whoever answers, what is shown is what was sent, whole and with nothing hidden: the reply is for all of it.

mod brief;
pub(super) mod patterns;

pub(super) use brief::brief;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;

use serde_json::Value;
use toolgate_client::Decision;
use toolgate_contract::json::struct_to_json;
use toolgate_contract::{
    GrantReach, GrantScope, PermissionAction, PermissionPart, PermissionRequest, Prompt, PromptDecision,
    PromptResolution, PromptState, Question, QuestionRequest, prompt,
};

use super::keyboard::Keyboard;
use super::scope;
use super::terminal::{Look, Paint, Terminal, on_one_line, short, visible};

const OTHER_METADATA: usize = 400;

/// Characters of a prompt's subject.
const SUBJECT: usize = 60;

/// Characters of an input up to which it is shown to whoever writes another one. A longer one is no help on one line.
const EDITABLE: usize = 2_000;

/// Told to whoever leaves what a key has begun.
const NOTHING_SENT: &str = "  Nothing was sent. The prompt is still open.";

/// What the keys do, beyond what is always shown.
const HELP: &str = "  \
o  allow this once
  r  refuse; other prompts of the session are refused too
  m  refuse, and tell the model why: it goes on with that
  a  allow, and what is listed under \"always would allow\" while the service runs
  s  the same, but only in this session
  f  the same for good: until you revoke it (toolgate grants --revoke ID); y confirms it
  t  the same for a time that you choose, also after a restart of the service
  n  the same for a number of requests, also after a restart of the service
  e  write another input, which runs instead of this one (where that is possible)
  Escape  go back from what a key has begun
  Ctrl-C  cancel the call; in `toolgate approve` and with --keep, leave (open prompts stay open)";

/// Returns the prompt as a person reads it.
pub(super) fn render(prompt: &Prompt, paint: Paint) -> String {
    rendered(prompt, false, paint)
}

/// As [`render`]; the choices of questions are shown where nobody is asked for them below.
fn rendered(prompt: &Prompt, has_choices: bool, paint: Paint) -> String {
    let tool = on_one_line(&prompt.tool);
    let mut text = match &prompt.request {
        Some(prompt::Request::Permission(request)) => {
            let permission = on_one_line(&request.permission);
            let head = format!("{tool} asks for permission: {permission}");
            let mut text = paint.text(Look::Yellow, &head);
            render_permission(&mut text, request, paint);
            for (key, value) in untold_input(prompt, request) {
                render_metadata(&mut text, &key, &value, paint);
            }
            text
        }
        Some(prompt::Request::Questions(request)) => {
            let mut text = paint.text(Look::Yellow, &format!("{tool} asks you"));
            for question in &request.questions {
                let _ = write!(text, "\n  {}", paint.text(Look::Bold, &on_one_line(&question.header)));
                let _ = write!(text, "\n  {}", indented(&visible(&question.question), "  "));
                if has_choices {
                    let _ = write!(text, "\n{}", options(question, paint));
                    text.truncate(text.trim_end().len());
                }
            }
            text
        }
        None => paint.text(
            Look::Yellow,
            &format!("{tool} asks something that this program cannot show"),
        ),
    };
    let mut of = format!(
        "agent {}, session {}",
        on_one_line(&prompt.agent),
        on_one_line(&prompt.session_id)
    );
    let (workspace, directory, requester) = (&prompt.workspace, &prompt.directory, &prompt.requester);
    for (what, name) in [("workspace", workspace), ("in", directory), ("requested by", requester)] {
        if !name.is_empty() {
            let _ = write!(of, ", {what} {}", on_one_line(name));
        }
    }
    let variables: BTreeMap<_, _> = prompt.environment.iter().collect();
    for (name, value) in variables {
        let _ = write!(of, ", with {}={}", on_one_line(name), on_one_line(value));
    }
    for approval in &prompt.approvals {
        let _ = write!(of, ", approved by {}", on_one_line(&approval.approved_by));
    }
    let _ = write!(text, "\n  {}", paint.text(Look::Dim, &of));
    text
}

fn render_permission(text: &mut String, request: &PermissionRequest, paint: Paint) {
    if !request.title.is_empty() {
        let _ = write!(text, "\n  {}", paint.text(Look::Bold, &on_one_line(&request.title)));
    }
    let metadata = request.metadata.clone().map(struct_to_json).unwrap_or_default();
    for (key, value) in metadata
        .into_iter()
        .filter(|(key, value)| !is_shown(request, key, value))
    {
        render_metadata(text, &key, &value, paint);
    }
    if request.parts.is_empty() {
        let _ = write!(text, "\n  patterns");
        for pattern in &request.patterns {
            let _ = write!(text, "\n    {}", indented(&visible(pattern), "    "));
        }
    } else {
        let _ = write!(text, "\n  parts");
        for part in &request.parts {
            render_part(text, part, paint);
        }
    }
    if request.always.is_empty() {
        let _ = write!(text, "\n  always would allow this call only");
    } else {
        let _ = write!(
            text,
            "\n  always would allow {}",
            paint.text(Look::Bold, &on_one_line(&request.permission))
        );
        for pattern in patterns::sorted(&request.permission, &request.always) {
            let _ = write!(text, "\n    {}", indented(&visible(&pattern), "    "));
            if patterns::is_broad(&request.permission, &pattern) {
                let _ = write!(text, "  {}", paint.text(Look::Yellow, "broad"));
            }
        }
    }
    for ahead in &request.ahead {
        let _ = write!(
            text,
            "\n  asks next for {}: {}",
            paint.text(Look::Bold, &on_one_line(&ahead.permission)),
            indented(&visible(&ahead.patterns.join(", ")), "    ")
        );
    }
    if let Some(rule) = &request.rule {
        let rule = format!(
            "asked by the rule {} {}",
            on_one_line(&rule.permission),
            on_one_line(&rule.pattern)
        );
        let _ = write!(text, "\n  {}", paint.text(Look::Dim, &rule));
    }
}

/// Returns whether a value of the metadata is what is shown of the request anyway: its title, or its patterns.
pub(super) fn is_shown(request: &PermissionRequest, key: &str, value: &Value) -> bool {
    match (key, value) {
        ("description", Value::String(text)) => *text == request.title,
        ("patterns", Value::Array(list)) => request.parts.is_empty() && list.iter().eq(&request.patterns),
        ("directories", Value::Array(list)) => {
            let folders = list.iter().filter_map(Value::as_str);
            request.parts.is_empty()
                && folders
                    .map(|folder| format!("{folder}/*"))
                    .eq(request.patterns.iter().cloned())
        }
        _ => false,
    }
}

/// Returns the fields of a call's input that nothing else of its prompt tells; none if there is a diff, which is what the input does.
pub(super) fn untold_input(prompt: &Prompt, request: &PermissionRequest) -> Vec<(String, Value)> {
    let metadata = request.metadata.clone().map(struct_to_json).unwrap_or_default();
    if metadata.contains_key("diff") || metadata.contains_key("patch") {
        return Vec::new();
    }
    let Ok(Value::Object(input)) = serde_json::from_str(&prompt.input_json) else {
        return Vec::new();
    };
    let texts = metadata.values().filter_map(Value::as_str);
    let texts = texts.chain(request.patterns.iter().map(String::as_str));
    let texts: Vec<&str> = texts.chain([request.title.as_str()]).collect();
    let is_same = |one: Option<&Value>, other: &Value| {
        one.is_some_and(|one| one == other || one.as_f64().is_some() && one.as_f64() == other.as_f64())
    };
    let is_told = |key: &str, value: &Value| {
        is_same(metadata.get(key), value)
            || is_same(metadata.get("input").and_then(|input| input.get(key)), value)
            || value
                .as_str()
                .is_some_and(|text| texts.iter().any(|told| is_path_or_same(told, text)))
    };
    let untold = input
        .into_iter()
        .filter(|(key, value)| !value.is_null() && !is_told(key, value));
    untold.collect()
}

/// Says whether a text is told by another one: the same, or the same path from further up.
fn is_path_or_same(told: &str, text: &str) -> bool {
    let before = told.strip_suffix(text.strip_prefix("./").unwrap_or(text));
    before.is_some_and(|before| before.is_empty() || before.starts_with('/') && before.ends_with('/'))
}

/// Returns the word for a verdict, as wide as the others.
pub(super) fn verdict(action: PermissionAction, granted: bool, paint: Paint) -> String {
    let (look, word) = match (action, granted) {
        (PermissionAction::Allow, true) => (Look::Green, "granted"),
        (PermissionAction::Allow, false) => (Look::Green, "allowed"),
        (PermissionAction::Deny, _) => (Look::Red, "denied "),
        (PermissionAction::Ask | PermissionAction::Unspecified, _) => (Look::Yellow, "asks   "),
    };
    paint.text(look, word)
}

/// Shows a part with the verdict on it, and after that what is not seen from its text.
pub(super) fn render_part(text: &mut String, part: &PermissionPart, paint: Paint) {
    let _ = write!(
        text,
        "\n    {} {}",
        verdict(part.action(), part.granted, paint),
        indented(&visible(&part.text), "            ")
    );
    if !part.unclear.is_empty() {
        let _ = write!(
            text,
            "\n            {}",
            paint.text(Look::Red, &format!("unclear: {}", on_one_line(&part.unclear)))
        );
    }
    for pattern in part.patterns.iter().filter(|pattern| **pattern != part.text) {
        let _ = write!(
            text,
            "\n            judged as: {}",
            indented(&visible(pattern), "            ")
        );
    }
    for path in &part.paths {
        let _ = write!(text, "\n            touches {}", on_one_line(path));
    }
}

fn render_metadata(text: &mut String, key: &str, value: &Value, paint: Paint) {
    match (key, value) {
        ("diff" | "patch", Value::String(diff)) => {
            for line in diff.lines() {
                let _ = write!(text, "\n    {}", diff_line(&visible(line), paint));
            }
        }
        ("command", Value::String(command)) => {
            let command = visible(command);
            let lines = command
                .lines()
                .map(|line| paint.text(Look::Cyan, line))
                .collect::<Vec<_>>();
            let _ = write!(text, "\n  $ {}", lines.join("\n    "));
        }
        (_, Value::String(value)) => {
            let _ = write!(text, "\n  {}: {}", on_one_line(key), indented(&visible(value), "    "));
        }
        (_, value) => {
            let value = value.to_string();
            let end = value.char_indices().nth(OTHER_METADATA).map(|(end, _)| end);
            let (shown, more) = end.map_or((value.as_str(), ""), |end| (&value[..end], " …"));
            let _ = write!(text, "\n  {}: {}{more}", on_one_line(key), on_one_line(shown));
        }
    }
}

fn indented(text: &str, indent: &str) -> String {
    text.replace('\n', &format!("\n{indent}"))
}

fn diff_line(line: &str, paint: Paint) -> String {
    match line.as_bytes().first() {
        Some(b'+') => paint.text(Look::Green, line),
        Some(b'-') => paint.text(Look::Red, line),
        Some(b'@') => paint.text(Look::Cyan, line),
        Some(_) | None => line.to_owned(),
    }
}

/// Returns what a prompt is about, in a few words.
pub(super) fn subject(prompt: &Prompt) -> String {
    let about = match &prompt.request {
        Some(prompt::Request::Permission(request)) => request.patterns.join(", "),
        Some(prompt::Request::Questions(request)) => {
            let headers: Vec<&str> = request.questions.iter().map(|one| one.header.as_str()).collect();
            headers.join(", ")
        }
        None => String::new(),
    };
    short(&format!("{} {about}", prompt.tool), SUBJECT)
}

/// Asks for what the prompt needs: a decision by one key, or a line for each question.
pub(super) async fn ask(prompt: Prompt, keyboard: Keyboard, terminal: Terminal) -> io::Result<Decision> {
    let editable = prompt.editable.then_some(prompt.input_json);
    match prompt.request {
        Some(prompt::Request::Questions(request)) => ask_questions(request, keyboard, terminal).await,
        Some(prompt::Request::Permission(_)) | None => ask_decision(editable, keyboard, terminal).await,
    }
}

async fn ask_questions(request: QuestionRequest, keyboard: Keyboard, terminal: Terminal) -> io::Result<Decision> {
    let mut answers = Vec::with_capacity(request.questions.len());
    let is_only = request.questions.len() == 1;
    while let Some(question) = request.questions.get(answers.len()) {
        // The only one was shown with the prompt.
        if !is_only {
            terminal.inform(&format!(
                "  {}",
                terminal.err.text(Look::Bold, &visible(&question.question))
            ));
        }
        let how = if answers.is_empty() {
            ""
        } else {
            ", Escape for the question before"
        };
        terminal.inform(&choices(question, how, terminal.err));
        match keyboard.line().await?.as_deref() {
            Some("!") => return Ok(Decision::reject("")),
            Some(line) => answers.push(chosen(line, question)),
            None => {
                answers.pop();
            }
        }
    }
    Ok(Decision::Answer(answers))
}

/// Shows the options of a question, numbered, and how to answer; `more` is what else can be done.
fn choices(question: &Question, more: &str, paint: Paint) -> String {
    let how = match (question.options.is_empty(), question.multiple) {
        (true, _) => "your answer",
        (false, true) => "numbers with commas between, or your own answer",
        (false, false) => "a number, or your own answer",
    };
    let how = paint.text(Look::Dim, &format!("{how}; Enter for none, ! to dismiss{more}"));
    format!("{}  {how}", options(question, paint))
}

/// Returns the options of a question, numbered, each on a line.
fn options(question: &Question, paint: Paint) -> String {
    let mut text = String::new();
    for (number, option) in (1..).zip(&question.options) {
        let description = paint.text(Look::Dim, &visible(&option.description));
        let line = format!("    {number}  {}  {description}", visible(&option.label));
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

/// Reads a line as numbers of options or, if it is anything else, as an answer of its own.
fn chosen(line: &str, question: &Question) -> Vec<String> {
    if line.is_empty() {
        return Vec::new();
    }
    let label = |number: &str| {
        let index = number.trim().parse::<usize>().ok()?.checked_sub(1)?;
        Some(question.options.get(index)?.label.clone())
    };
    let labels: Option<Vec<String>> = line.split(',').map(label).collect();
    match labels {
        Some(labels) if question.multiple || labels.len() == 1 => labels,
        Some(_) | None => vec![line.to_owned()],
    }
}

/// Asks until a key that means something is pressed.
async fn ask_decision(editable: Option<String>, keyboard: Keyboard, terminal: Terminal) -> io::Result<Decision> {
    let keys = [
        "[o]nce  [r]eject  reject with a [m]essage  [?] what the keys do",
        "always: [a] while the service runs  [s]ession  [f]or good  for a [t]ime  a [n]umber of times",
    ];
    let edit = editable.as_ref().map(|_| "[e]dit: run something else instead");
    for keys in keys.into_iter().chain(edit) {
        terminal.inform(&format!("  {}", terminal.err.text(Look::Bold, keys)));
    }
    loop {
        return Ok(match keyboard.key().await? {
            'o' => Decision::Once,
            'r' => Decision::reject(""),
            'a' => always(scope::unlimited(GrantReach::Run)),
            's' => always(scope::unlimited(GrantReach::Session)),
            'f' => {
                let means = "For good means: in every later run of the service, until somebody revokes it.";
                terminal.inform(&format!("  {means} [y]es, for good; any other key: no"));
                if keyboard.key().await? != 'y' {
                    terminal.inform(NOTHING_SENT);
                    continue;
                }
                always(scope::unlimited(GrantReach::Workspace))
            }
            'e' => {
                let Some(input) = &editable else { continue };
                let is_command = command_of(input).is_some();
                if !is_command && input.chars().count() <= EDITABLE {
                    terminal.inform(&format!("  The input is {}", visible(input)));
                }
                let what = if is_command {
                    "Which command"
                } else {
                    "Which input, as JSON,"
                };
                terminal.inform(&format!(
                    "  {what} should run instead? (Enter runs it, Escape goes back)"
                ));
                match edited(input, &keyboard.line().await?.unwrap_or_default()) {
                    Some(input) => Decision::Instead(input.into()),
                    None => {
                        terminal.inform(NOTHING_SENT);
                        continue;
                    }
                }
            }
            't' => {
                let question = "For how long? (30m, 2h; Escape goes back)";
                match read_scope(question, scope::lasting, &keyboard, &terminal).await? {
                    Some(scope) => always(scope),
                    None => continue,
                }
            }
            'n' => {
                let question = "How many further times? (a number; Escape goes back)";
                match read_scope(question, scope::times, &keyboard, &terminal).await? {
                    Some(scope) => always(scope),
                    None => continue,
                }
            }
            '?' | 'h' => {
                terminal.inform(HELP);
                continue;
            }
            'm' => {
                terminal.inform("  What should the model be told? (Enter rejects with it, Escape goes back)");
                match keyboard.line().await? {
                    Some(message) => Decision::reject(message),
                    None => {
                        terminal.inform(NOTHING_SENT);
                        continue;
                    }
                }
            }
            _ => continue,
        });
    }
}

/// Asks for a scope until a line is one, or empty.
async fn read_scope(
    question: &str,
    read: fn(&str) -> Result<GrantScope, String>,
    keyboard: &Keyboard,
    terminal: &Terminal,
) -> io::Result<Option<GrantScope>> {
    loop {
        terminal.inform(&format!("  {question}"));
        let line = keyboard.line().await?.unwrap_or_default();
        if line.is_empty() {
            terminal.inform(NOTHING_SENT);
            return Ok(None);
        }
        match read(&line) {
            Ok(scope) => return Ok(Some(scope)),
            Err(why) => terminal.inform(&format!("  {}", visible(&why))),
        }
    }
}

fn always(scope: GrantScope) -> Decision {
    Decision::Always {
        scope,
        patterns: Vec::new(),
    }
}

/// Returns the fields of an input that has a command.
pub(super) fn command_of(input: &str) -> Option<serde_json::Map<String, Value>> {
    let Ok(Value::Object(fields)) = serde_json::from_str(input) else {
        return None;
    };
    fields.get("command").is_some_and(Value::is_string).then_some(fields)
}

/// Returns the input that a line makes of another one: with another command where it has one, else the line itself.
pub(super) fn edited(input: &str, line: &str) -> Option<String> {
    if line.is_empty() {
        return None;
    }
    let Some(mut fields) = command_of(input) else {
        return Some(line.to_owned());
    };
    fields.insert("command".to_owned(), line.into());
    Some(Value::Object(fields).to_string())
}

/// Returns what a decision did, in words.
pub(super) fn decided(decision: PromptDecision) -> String {
    match decision {
        PromptDecision::Once => "allowed once".to_owned(),
        PromptDecision::Reject => "rejected".to_owned(),
        PromptDecision::Always => "always allowed".to_owned(),
        PromptDecision::Answer => "answered".to_owned(),
        PromptDecision::Instead => "allowed with another input".to_owned(),
        PromptDecision::Unspecified => "decided".to_owned(),
    }
}

/// Returns whether what was asked is allowed, or answered.
pub(super) fn is_allowed(state: i32, resolution: Option<&PromptResolution>) -> bool {
    let is_rejected = resolution.is_none_or(|one| one.decision() == PromptDecision::Reject);
    PromptState::try_from(state) == Ok(PromptState::Resolved) && !is_rejected
}

/// Returns how a prompt ended, in words.
pub(super) fn outcome(state: i32, resolution: Option<&PromptResolution>) -> String {
    let state = PromptState::try_from(state).unwrap_or_default();
    let Some(resolution) = resolution.filter(|_| state == PromptState::Resolved) else {
        return match state {
            PromptState::Expired => "expired: nobody replied in time".to_owned(),
            PromptState::Withdrawn => "withdrawn: its call has ended".to_owned(),
            PromptState::Open => "still open".to_owned(),
            PromptState::Resolved | PromptState::Unspecified => "settled".to_owned(),
        };
    };
    let mut text = decided(resolution.decision());
    if !resolution.resolved_by.is_empty() {
        let _ = write!(text, " by {}", visible(&resolution.resolved_by));
    }
    if let Some(scope) = &resolution.scope {
        let _ = write!(text, ", {}", scope::describe(scope));
    }
    if !resolution.because_of_prompt_id.is_empty() {
        text += ", with another prompt of the session";
    }
    if !resolution.always_patterns.is_empty() {
        let _ = write!(text, ": {}", on_one_line(&resolution.always_patterns.join(", ")));
    }
    if !resolution.message.is_empty() {
        let _ = write!(text, ": {}", visible(&resolution.message));
    }
    if !resolution.input_json.is_empty() {
        let _ = write!(text, ": {}", visible(&resolution.input_json));
    }
    for answer in &resolution.answers {
        let _ = write!(text, " [{}]", visible(&answer.values.join(", ")));
    }
    text
}

#[cfg(test)]
mod tests;
