//! Prompts as forms that an MCP client shows to its user, and what the user fills in as replies.
//!
//! *Invariant:* pure. Only a plain, explicit yes approves, and only a plain, explicit no refuses. Whatever else comes back
//! is no answer: a client without a person in front of it dismisses every form.

use std::collections::BTreeMap;

use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema};
use serde_json::{Map, Value, json};
use toolgate_model::{Always, Ask, FormField, Prompt, PromptRequest, Question, Reply};

/// Bytes of a form's text; the rest is said to be left out.
const MAX_TEXT: usize = 16 * 1024;

/// The longest feedback for a model, in bytes.
const MAX_MESSAGE: usize = 64 * 1024;

/// What of the metadata of a request a person should see, in this order.
const SHOWN: [&str; 3] = ["command", "diff", "url"];

/// What a client shows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shows {
    /// Lists of which several may be chosen.
    pub(super) choices: bool,
    /// Pages that its user should visit.
    pub(super) pages: bool,
    /// Several forms at once.
    pub(super) several: bool,
}

/// Makes the forms for a prompt, by their names. Where a server of tools asks, they are its own, if the client shows such.
pub(super) fn forms(prompt: &Prompt, shows: Shows) -> Vec<(String, ElicitRequestParams)> {
    if let PromptRequest::Questions(questions) = &prompt.request
        && let Some(forms) = forms_of_server(questions)
        && (forms.len() == 1 || shows.several)
        && (shows.pages
            || !forms
                .iter()
                .any(|(_, form)| matches!(form, ElicitRequestParams::UrlElicitationParams { .. })))
    {
        return forms;
    }
    let form = form(prompt, shows.choices);
    form.map(|form| (prompt.id.to_string(), form)).into_iter().collect()
}

/// Returns the forms that questions stand for; none if they do not.
fn forms_of_server(questions: &[Question]) -> Option<Vec<(String, ElicitRequestParams)>> {
    let mut forms: Vec<(String, Vec<&FormField>)> = Vec::new();
    for question in questions {
        let field = question.form.as_deref()?;
        match forms.iter_mut().find(|(key, _)| *key == field.key) {
            Some((_, fields)) => fields.push(field),
            None => forms.push((field.key.clone(), vec![field])),
        }
    }
    let made = forms
        .into_iter()
        .map(|(key, fields)| Some((key.clone(), form_of_server(key, &fields)?)));
    made.collect::<Option<Vec<_>>>().filter(|forms| !forms.is_empty())
}

fn form_of_server(key: String, fields: &[&FormField]) -> Option<ElicitRequestParams> {
    let first = fields.first()?;
    let message = bounded(&first.message);
    if let Some(url) = &first.url {
        return Some(ElicitRequestParams::UrlElicitationParams {
            meta: None,
            message,
            url: bounded(url),
            elicitation_id: key,
        });
    }
    // A name that cannot be shown as it is could not be told from others; the questions have names of their own.
    if fields.iter().any(|field| bounded(&field.name) != field.name) {
        return None;
    }
    let named = fields.iter().filter(|field| !field.name.is_empty());
    let properties: Map<String, Value> = named.map(|field| (field.name.clone(), shown(&field.schema))).collect();
    let required: Vec<&str> = fields
        .iter()
        .filter(|field| field.required)
        .map(|field| field.name.as_str())
        .collect();
    let mut schema = json!({"type": "object", "properties": properties});
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    let Value::Object(schema) = schema else { return None };
    Some(ElicitRequestParams::FormElicitationParams {
        meta: None,
        message,
        requested_schema: ElicitationSchema::from_json_schema(schema).ok()?,
    })
}

/// Makes the form for a prompt. `choices` says whether the client knows lists of which several may be chosen.
fn form(prompt: &Prompt, choices: bool) -> Option<ElicitRequestParams> {
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
        let (title, text) = (bounded(&question.header), bounded(&question.question));
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

/// Reads what the user filled in, by the names of the forms. None if nobody answered, or it cannot be understood.
pub(super) fn reply(prompt: &Prompt, results: &BTreeMap<String, ElicitResult>) -> Option<Reply> {
    if results.is_empty() {
        return None;
    }
    for result in results.values() {
        match result.action {
            ElicitationAction::Accept => {}
            ElicitationAction::Decline => return Some(rejection(String::new())),
            ElicitationAction::Cancel | _ => return None,
        }
    }
    let questions = match &prompt.request {
        PromptRequest::Permission { ask, .. } => {
            let content = filled(results.values().next())?;
            let text = |name: &str| content.get(name).and_then(Value::as_str).unwrap_or_default();
            return match text("decision") {
                "once" => Some(Reply::Once),
                "always" if !ask.always.is_empty() => Some(Reply::Always(Always {
                    patterns: ask.always.clone(),
                    ..Always::default()
                })),
                "reject" => Some(rejection(text("message").to_owned())),
                _ => None,
            };
        }
        PromptRequest::Questions(questions) => questions,
    };
    let mut answers: Vec<Vec<String>> = Vec::new();
    for (at, question) in questions.iter().enumerate() {
        let form = question.form.as_deref();
        answers.push(match form.and_then(|field| Some((field, results.get(&field.key)?))) {
            Some((field, result)) => answer_of_server(question, field, filled(Some(result))),
            None => answer(question, at, filled(results.get(&*prompt.id.to_string()))?),
        });
    }
    let size: usize = answers.iter().flatten().map(|answer| answer.len() + 1).sum();
    (size <= MAX_MESSAGE).then_some(Reply::Answers(answers))
}

fn filled(result: Option<&ElicitResult>) -> Option<&Map<String, Value>> {
    result?.content.as_ref()?.as_object()
}

/// Reads what was filled into a form of a server. One without fields is only agreed to.
fn answer_of_server(question: &Question, field: &FormField, content: Option<&Map<String, Value>>) -> Vec<String> {
    if field.name.is_empty() {
        return question
            .options
            .iter()
            .take(1)
            .map(|option| option.label.clone())
            .collect();
    }
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    };
    match content.and_then(|content| content.get(&field.name)) {
        Some(Value::Array(values)) => values.iter().filter_map(text).collect(),
        Some(value) => text(value).into_iter().collect(),
        None => Vec::new(),
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

/// Returns a schema with all its texts as they may be shown. A value that is changed by that is none of the server's any more:
/// chosen, it counts as no answer.
fn shown(schema: &Value) -> Value {
    match schema {
        Value::String(text) => json!(bounded(text)),
        Value::Array(items) => items.iter().map(shown).collect(),
        Value::Object(entries) => entries.iter().map(|(key, value)| (key.clone(), shown(value))).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => schema.clone(),
    }
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
            form: None,
        }
    }

    fn replied(prompt: &Prompt, result: &ElicitResult) -> Option<Reply> {
        reply(prompt, &BTreeMap::from([(prompt.id.to_string(), result.clone())]))
    }

    fn accepted(content: Value) -> ElicitResult {
        ElicitResult::new(ElicitationAction::Accept).with_content(content)
    }

    #[test]
    fn only_a_plain_yes_approves() {
        let no = Reply::Reject { message: String::new() };
        let check = |always: &[&str], result: ElicitResult, expected: Option<Reply>| {
            assert_eq!(replied(&permission(always), &result), expected, "{result:?}");
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
    fn a_server_has_its_own_forms() {
        let field = |key: &str, name: &str, schema: Value| Question {
            form: Some(Box::new(FormField {
                key: key.to_owned(),
                message: "A pet?".to_owned(),
                url: None,
                name: name.to_owned(),
                schema,
                required: name == "name",
            })),
            ..question(&[], false)
        };
        let of_server = prompt(PromptRequest::Questions(vec![
            field("a", "name", json!({"type": "string"})),
            field(
                "a",
                "age",
                json!({"type": "integer", "default": 3, "title": "A\u{202e}ge"}),
            ),
            field("b", "tame", json!({"type": "boolean"})),
        ]));
        let several = Shows {
            several: true,
            ..Shows::default()
        };
        let made = forms(&of_server, several);
        let shown = serde_json::to_value(&made[0].1).unwrap();
        assert_eq!((made.len(), &*made[0].0, &*made[1].0), (2, "a", "b"));
        assert_eq!(shown["requestedSchema"]["required"], json!(["name"]));
        assert_eq!(shown["requestedSchema"]["properties"]["age"]["default"], 3);
        assert_eq!(shown["requestedSchema"]["properties"]["age"]["title"], "A\\u{202e}ge");
        assert!(shown["message"].as_str().unwrap().contains("A pet?"));
        let results = BTreeMap::from([
            ("a".to_owned(), accepted(json!({"name": "Tom", "age": 4}))),
            ("b".to_owned(), accepted(json!({"tame": true}))),
        ]);
        let answers = [["Tom"], ["4"], ["true"]].map(|answers| answers.map(str::to_owned).to_vec());
        assert_eq!(reply(&of_server, &results), Some(Reply::Answers(answers.to_vec())));
        // A client that shows one form at a time gets all the questions in one.
        let one = forms(&of_server, Shows::default());
        assert_eq!((one.len(), &*one[0].0), (1, "per_1"));
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
            let found = replied(&prompt, &accepted(content.clone()));
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
