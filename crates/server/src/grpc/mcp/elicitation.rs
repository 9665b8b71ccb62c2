//! Prompts as forms that an MCP client shows to its user, and what the user fills in as replies.
//!
//! *Invariant:* pure. Only a plain, explicit yes approves, and only a plain, explicit no refuses. Whatever else comes back
//! is no answer: a client without a person in front of it dismisses every form.

use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema};
use serde_json::{Map, Value, json};
use toolgate_model::{Always, Ask, Prompt, PromptRequest, Question, Reply};

/// Bytes of a form's text; the rest is said to be left out.
const MAX_TEXT: usize = 16 * 1024;

/// The longest feedback for a model, in bytes.
const MAX_MESSAGE: usize = 64 * 1024;

/// What of the metadata of a request a person should see, in this order.
const SHOWN: [&str; 3] = ["command", "diff", "url"];

/// Makes the form for a prompt. `choices` says whether the client knows lists of which several may be chosen.
pub(super) fn form(prompt: &Prompt, choices: bool) -> Option<ElicitRequestParams> {
    let (message, schema) = match &prompt.request {
        PromptRequest::Permission { ask, .. } => (permission_text(prompt, ask), permission_schema(ask)),
        PromptRequest::Questions(questions) => (questions_text(questions), questions_schema(questions, choices)),
    };
    let Value::Object(schema) = schema else { return None };
    Some(ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: bounded(&message),
        requested_schema: ElicitationSchema::from_json_schema(schema).ok()?,
    })
}

fn permission_text(prompt: &Prompt, ask: &Ask) -> String {
    let title = if ask.title.is_empty() {
        &ask.permission
    } else {
        &ask.title
    };
    let mut text = format!(
        "The tool {} asks for permission: {title}\n\n{}: {}",
        prompt.tool,
        ask.permission,
        ask.patterns.join(", ")
    );
    for key in SHOWN {
        if let Some(Value::String(value)) = ask.metadata.get(key) {
            text.push_str(&format!("\n\n{key}:\n{value}"));
        }
    }
    for unclear in ask.parts.iter().filter_map(|part| part.unclear.as_ref()) {
        text.push_str(&format!("\n\nNobody can say what a part of this does: {unclear}"));
    }
    if !ask.always.is_empty() {
        text.push_str(&format!("\n\n\"always\" allows from now on: {}", ask.always.join(", ")));
    }
    text
}

fn permission_schema(ask: &Ask) -> Value {
    let decisions: &[&str] = if ask.always.is_empty() {
        &["once", "reject"]
    } else {
        &["once", "always", "reject"]
    };
    json!({
        "type": "object",
        "properties": {
            "decision": {
                "type": "string",
                "title": "Decision",
                "description": "Allow it once, allow it from now on, or refuse it",
                "enum": decisions,
            },
            "message": {
                "type": "string",
                "title": "Message",
                "description": "With a refusal: what the model should do instead",
            },
        },
        "required": ["decision"],
    })
}

fn questions_text(questions: &[Question]) -> String {
    let mut text = String::from("The agent asks:");
    for (at, question) in questions.iter().enumerate() {
        text.push_str(&format!("\n\n{}. {}", at + 1, question.question));
        for option in &question.options {
            text.push_str(&format!("\n- {}: {}", option.label, option.description));
        }
    }
    text
}

/// The field of a question, and the one for an answer of one's own.
fn fields(at: usize) -> (String, String) {
    (format!("answer{:02}", at + 1), format!("answer{:02}_own", at + 1))
}

fn labels(question: &Question) -> Vec<&str> {
    let mut labels: Vec<&str> = Vec::new();
    for option in &question.options {
        if !labels.contains(&option.label.as_str()) {
            labels.push(&option.label);
        }
    }
    labels
}

fn questions_schema(questions: &[Question], choices: bool) -> Value {
    let mut properties = Map::new();
    for (at, question) in questions.iter().enumerate() {
        let (field, own) = fields(at);
        let labels = labels(question);
        let (title, text) = (&question.header, &question.question);
        let open = json!({"type": "string", "title": title, "description": text});
        if labels.is_empty() {
            properties.insert(field, open);
            continue;
        }
        let closed = match (question.multiple, choices) {
            (false, _) => json!({"type": "string", "title": title, "description": text, "enum": labels}),
            (true, true) => json!({
                "type": "array", "title": title, "description": text,
                "items": {"type": "string", "enum": labels},
            }),
            (true, false) => json!({
                "type": "string", "title": title,
                "description": format!("{text} Any of these, one per line: {}", labels.join(", ")),
            }),
        };
        properties.insert(field, closed);
        if question.custom {
            let title = format!("{title}: own answer");
            let text = if question.multiple { "Besides" } else { "Instead" };
            properties.insert(own, json!({"type": "string", "title": title, "description": text}));
        }
    }
    json!({"type": "object", "properties": properties})
}

/// Reads what the user filled in. None if nobody answered, or it cannot be understood.
pub(super) fn reply(prompt: &Prompt, result: &ElicitResult) -> Option<Reply> {
    match result.action {
        ElicitationAction::Accept => {}
        ElicitationAction::Decline => return Some(rejection(String::new())),
        ElicitationAction::Cancel | _ => return None,
    }
    let Some(Value::Object(content)) = &result.content else {
        return None;
    };
    match &prompt.request {
        PromptRequest::Permission { ask, .. } => {
            let text = |name: &str| content.get(name).and_then(Value::as_str).unwrap_or_default();
            match text("decision") {
                "once" => Some(Reply::Once),
                "always" if !ask.always.is_empty() => Some(Reply::Always(Always {
                    patterns: ask.always.clone(),
                    ..Always::default()
                })),
                "reject" => Some(rejection(text("message").to_owned())),
                _ => None,
            }
        }
        PromptRequest::Questions(questions) => {
            let answers: Vec<Vec<String>> = questions
                .iter()
                .enumerate()
                .map(|(at, question)| answer(question, at, content))
                .collect();
            let size: usize = answers.iter().flatten().map(|answer| answer.len() + 1).sum();
            (size <= MAX_MESSAGE).then_some(Reply::Answers(answers))
        }
    }
}

fn answer(question: &Question, at: usize, content: &Map<String, Value>) -> Vec<String> {
    let (field, own) = fields(at);
    let mut answers: Vec<String> = match content.get(&field) {
        Some(Value::String(text)) if question.multiple => text.lines().map(str::to_owned).collect(),
        Some(Value::String(text)) => vec![text.clone()],
        Some(Value::Array(values)) => values.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => Vec::new(),
    };
    if let Some(Value::String(text)) = content.get(&own) {
        if !question.multiple && !text.trim().is_empty() {
            answers.clear();
        }
        answers.push(text.clone());
    }
    let answers = answers.into_iter().map(|answer| answer.trim().to_owned());
    answers.filter(|answer| !answer.is_empty()).collect()
}

fn rejection(mut message: String) -> Reply {
    if message.len() > MAX_MESSAGE {
        message.truncate(message.floor_char_boundary(MAX_MESSAGE));
    }
    Reply::Reject { message }
}

/// Cuts a text, and shows what could make a client show something else than what it says: control characters, and
/// characters that reorder or hide text.
fn bounded(text: &str) -> String {
    let fools = |c: char| {
        (c.is_control() && c != '\n' && c != '\t')
            || matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    let mut shown = String::with_capacity(text.len().min(2 * MAX_TEXT));
    for c in text.chars() {
        match c {
            c if fools(c) => shown.extend(c.escape_unicode()),
            c => shown.push(c),
        }
    }
    let text = shown;
    if text.len() <= MAX_TEXT {
        return text;
    }
    let end = text.floor_char_boundary(MAX_TEXT);
    format!("{}\n… ({} bytes are left out)", &text[..end], text.len() - end)
}

#[cfg(test)]
mod tests {
    use toolgate_model::{CallId, InstanceId, PromptId, PromptState, QuestionOption, SessionId, Timestamp};

    use super::*;

    fn prompt(request: PromptRequest) -> Prompt {
        Prompt {
            id: PromptId::from("per_1"),
            call: CallId::from("c"),
            owner: InstanceId::from("i"),
            session: SessionId::from("s"),
            workspace: "w".to_owned(),
            agent: "build".to_owned(),
            tool: "bash".to_owned(),
            requester: String::new(),
            directory: String::new(),
            on_behalf_of: Vec::new(),
            clients: Vec::new(),
            approvals: Vec::new(),
            created: Timestamp::default(),
            expires: None,
            state: PromptState::Open,
            input_digest: String::new(),
            input_json: None,
            request,
            decision: None,
            environment: Default::default(),
        }
    }

    fn permission(always: &[&str]) -> Prompt {
        let mut ask = Ask::new("bash", vec!["rm x".to_owned()]);
        ask.always = always.iter().map(|pattern| (*pattern).to_owned()).collect();
        ask.metadata.insert("command".to_owned(), "rm \u{1b}[8mx".into());
        prompt(PromptRequest::Permission {
            ask: Box::new(ask),
            rule: None,
            verdicts: Vec::new(),
        })
    }

    fn question(labels: &[&str], multiple: bool) -> Question {
        Question {
            question: "Which?".to_owned(),
            header: "Pick".to_owned(),
            options: labels
                .iter()
                .map(|label| QuestionOption {
                    label: (*label).to_owned(),
                    description: String::new(),
                })
                .collect(),
            multiple,
            custom: true,
        }
    }

    fn accepted(content: Value) -> ElicitResult {
        ElicitResult::new(ElicitationAction::Accept).with_content(content)
    }

    #[test]
    fn only_a_plain_yes_approves() {
        let no = Reply::Reject { message: String::new() };
        let check = |always: &[&str], result: ElicitResult, expected: Option<Reply>| {
            assert_eq!(reply(&permission(always), &result), expected, "{result:?}");
        };
        check(&[], accepted(json!({"decision": "once"})), Some(Reply::Once));
        check(
            &["rm *"],
            accepted(json!({"decision": "always"})),
            Some(Reply::Always(Always {
                patterns: vec!["rm *".to_owned()],
                ..Always::default()
            })),
        );
        check(&[], accepted(json!({"decision": "always"})), None);
        check(&[], accepted(json!({"decision": "yes"})), None);
        check(&[], accepted(json!({"decision": true})), None);
        check(&[], accepted(json!({})), None);
        check(&[], accepted(json!("once")), None);
        check(&[], ElicitResult::new(ElicitationAction::Accept), None);
        check(&[], ElicitResult::new(ElicitationAction::Decline), Some(no));
        check(&[], ElicitResult::new(ElicitationAction::Cancel), None);
        let refused = Reply::Reject {
            message: "use mv".to_owned(),
        };
        check(
            &[],
            accepted(json!({"decision": "reject", "message": "use mv"})),
            Some(refused),
        );
    }

    #[test]
    fn a_form_shows_what_is_asked() {
        let form = serde_json::to_value(form(&permission(&["rm *"]), true).unwrap()).unwrap();
        assert_eq!(form["mode"], "form");
        let message = form["message"].as_str().unwrap();
        assert!(message.contains("bash: rm x") && message.contains("rm *"), "{message}");
        assert!(
            message.contains("rm \\u{1b}[8mx") && !message.contains('\u{1b}'),
            "{message}"
        );
        assert_eq!(bounded("a\u{202e}b\u{200b}\tc\n"), "a\\u{202e}b\\u{200b}\tc\n");
        let decisions = &form["requestedSchema"]["properties"]["decision"]["enum"];
        assert_eq!(*decisions, json!(["once", "always", "reject"]));
        assert!(bounded(&"ä".repeat(MAX_TEXT)).ends_with("are left out)"));
    }

    #[test]
    fn answers_are_read() {
        let prompt = prompt(PromptRequest::Questions(vec![
            question(&["A", "B", "A"], false),
            question(&["C", "D"], true),
            question(&[], false),
        ]));
        for choices in [true, false] {
            let form = serde_json::to_value(form(&prompt, choices).unwrap()).unwrap();
            let properties = &form["requestedSchema"]["properties"];
            assert_eq!(properties["answer01"]["enum"], json!(["A", "B"]));
            let kind = if choices { "array" } else { "string" };
            assert_eq!(properties["answer02"]["type"], kind);
            assert!(properties["answer03_own"].is_null());
        }
        let check = |content: Value, expected: [&[&str]; 3]| {
            let expected = expected.map(|answers| answers.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>());
            let found = reply(&prompt, &accepted(content.clone()));
            assert_eq!(found, Some(Reply::Answers(expected.to_vec())), "{content}");
        };
        check(json!({}), [&[], &[], &[]]);
        check(
            json!({"answer01": "A", "answer02": ["C", "D"], "answer03": " x "}),
            [&["A"], &["C", "D"], &["x"]],
        );
        check(
            json!({"answer01_own": "Z", "answer02": "C\nD\n"}),
            [&["Z"], &["C", "D"], &[]],
        );
        check(json!({"answer01": 1, "answer02": [1, "C"]}), [&[], &["C"], &[]]);
        check(
            json!({"answer01": "A", "answer01_own": "Z", "answer02": ["C"], "answer02_own": "E"}),
            [&["Z"], &["C", "E"], &[]],
        );
        check(json!({"answer01": "A", "answer01_own": " "}), [&["A"], &[], &[]]);
    }
}
