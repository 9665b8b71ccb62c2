//! What servers want a person to fill in, as questions, and the answers as what they wanted: each field of a form is a
//! question, whose answers are texts.
//!
//! *Invariant:* pure. Which server asks is in every question. A field that is left open has the value that the server said is
//! its usual one, or is left out; an answer that cannot be read is none, and leaves the form unanswered. What a form says at length is said once.

use serde_json::{Map, Value, json};
use toolgate_model::{FormField, Question, QuestionOption};
use toolgate_web::Url;

use super::dispatcher::shortened_line;

/// Fields of one form; a longer one is refused.
const MAX_FIELDS: usize = 50;

/// Bytes of what one form says; a longer one is refused.
const MAX_BYTES: usize = 64 << 10;

/// Bytes of the longest label.
const MAX_HEADER: usize = 30;

/// Bytes of the questions of one prompt.
const MAX_QUESTIONS: usize = 256 << 10;

const YES: &str = "Yes";
const NO: &str = "No";
const ACCEPT: &str = "Accept";
const VISITED: &str = "I have been there";

/// Makes the questions of what a server asks for.
///
/// # Errors
/// It asks for something that cannot be shown; the text says what.
pub(super) fn questions(server: &str, key: &str, params: &Value) -> Result<Vec<Question>, String> {
    if super::message::size(params) > MAX_BYTES {
        return Err(format!("a form may have {} KiB", MAX_BYTES >> 10));
    }
    let asks = |message: &str| format!("The MCP server {server} asks: {message}");
    let message = params["message"].as_str().unwrap_or_default();
    let (briefly, asks) = (asks(&shortened_line(message)), asks(message));
    let form = FormField {
        key: key.to_owned(),
        message: String::new(),
        url: None,
        name: String::new(),
        schema: Value::Null,
        required: false,
    };
    let lone = |question: String, label: &str, description: &str, form: FormField| Question {
        question,
        header: shortened(server),
        options: vec![option(label, description)],
        multiple: false,
        custom: false,
        form: Some(Box::new(form)),
    };
    if params["mode"] == "url" {
        let url = page(params["url"].as_str().unwrap_or_default())?;
        let question = format!("{asks}\n\nOpen this page if you trust it, and do there what it asks for: {url}");
        let form = FormField {
            url: Some(url),
            message: asks,
            ..form
        };
        return Ok(vec![lone(question, VISITED, "The server may go on", form)]);
    }
    let schema = &params["requestedSchema"];
    let empty = Map::new();
    let fields = schema["properties"].as_object().unwrap_or(&empty);
    if fields.is_empty() {
        let form = FormField {
            message: asks.clone(),
            ..form
        };
        return Ok(vec![lone(asks, ACCEPT, "", form)]);
    }
    if fields.len() > MAX_FIELDS {
        return Err(format!("a form may have {MAX_FIELDS} fields"));
    }
    let required = schema["required"].as_array().map(Vec::as_slice).unwrap_or_default();
    let field = |(at, (name, schema)): (usize, (&String, &Value))| {
        let asks = if at == 0 { &asks } else { &briefly };
        let form = FormField {
            message: if at == 0 { asks.clone() } else { String::new() },
            name: name.clone(),
            schema: schema.clone(),
            required: required.iter().any(|required| required == name),
            ..form.clone()
        };
        let text = |key: &str| schema[key].as_str().unwrap_or_default();
        let title = if text("title").is_empty() { name } else { text("title") };
        let mut question = format!("{asks}\n\n{title}");
        if !text("description").is_empty() {
            question.push_str(&format!(": {}", text("description")));
        }
        if let Some(usual) = schema.get("default") {
            question.push_str(&format!(" (usually {usual})"));
        } else if !form.required {
            question.push_str(" (may be left open)");
        }
        let options = options(schema);
        Question {
            question,
            header: shortened(title),
            custom: options.is_empty(),
            options,
            multiple: schema["type"] == "array",
            form: Some(Box::new(form)),
        }
    };
    Ok(fields.iter().enumerate().map(field).collect())
}

/// Says whether the questions of one prompt can be shown.
///
/// # Errors
/// They say too much.
pub(super) fn check_size(questions: &[Question]) -> Result<(), String> {
    let size = |question: &Question| {
        let options = question.options.iter();
        let options = options.map(|option| option.label.len() + option.description.len());
        question.question.len() + options.sum::<usize>()
    };
    if questions.iter().map(size).sum::<usize>() > MAX_QUESTIONS {
        return Err(format!(
            "the questions of one prompt may have {} KiB",
            MAX_QUESTIONS >> 10
        ));
    }
    Ok(())
}

/// Returns the address of a page as a person may see and open it: in plain characters, whatever it looked like.
fn page(url: &str) -> Result<String, &'static str> {
    const NO_PAGE: &str = "the page to be visited has no address that can be opened";
    // A reader of addresses leaves some of these out, and a person would not see them.
    if url.contains(|c: char| c.is_control() || c.is_whitespace()) {
        return Err(NO_PAGE);
    }
    let url = Url::parse(url).map_err(|_| NO_PAGE)?;
    if !["https", "http"].contains(&url.scheme()) || !url.has_host() {
        return Err(NO_PAGE);
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("the address of the page to be visited has a user name, which hides where it leads");
    }
    Ok(url.into())
}

/// Reads the answers to those of the questions that belong to one form.
///
/// # Errors
/// One of them is none of its field's; the text says which. Nobody has filled in the form then.
pub(super) fn content(key: &str, questions: &[Question], answers: &[Vec<String>]) -> Result<Value, String> {
    let mut content = Map::new();
    for (at, question) in questions.iter().enumerate() {
        let Some(form) = question.form.as_deref().filter(|form| form.key == key) else {
            continue;
        };
        if form.name.is_empty() {
            // Nothing to be filled in: whoever answers agrees.
            return Ok(json!({"action": "accept"}));
        }
        let given = answers.get(at).map(Vec::as_slice).unwrap_or_default();
        let value = if given.iter().all(|answer| answer.trim().is_empty()) {
            form.schema.get("default").cloned()
        } else {
            let value = value(&form.schema, given, &question.options);
            let name = shortened_line(&form.name);
            Some(value.ok_or_else(|| format!("the answer for {name} is none that the form allows"))?)
        };
        if let Some(value) = value {
            content.insert(form.name.clone(), value);
        }
    }
    Ok(json!({"action": "accept", "content": content}))
}

/// Returns the value that answers stand for; none if they are none of the field's.
fn value(schema: &Value, answers: &[String], options: &[QuestionOption]) -> Option<Value> {
    let first = answers.first().map(|answer| answer.trim());
    let is_option =
        |answer: &str| options.is_empty() || options.iter().any(|option| option.label.trim() == answer.trim());
    match schema["type"].as_str().unwrap_or("string") {
        "array" => answers.iter().all(|answer| is_option(answer)).then(|| json!(answers)),
        "boolean" => match first?.to_ascii_lowercase().as_str() {
            "yes" | "true" => Some(json!(true)),
            "no" | "false" => Some(json!(false)),
            _ => None,
        },
        "integer" => first?.parse().ok().map(number).filter(Value::is_i64),
        "number" => first?
            .parse::<f64>()
            .ok()
            .filter(|number| number.is_finite())
            .map(number),
        _ => answers
            .first()
            .filter(|answer| is_option(answer))
            .map(|answer| json!(answer.trim())),
    }
}

/// A whole number stays one.
#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss)] // only where it is exact
fn number(number: f64) -> Value {
    if number.fract() == 0.0 && number.abs() < (1u64 << 53) as f64 {
        return json!(number as i64);
    }
    json!(number)
}

fn options(schema: &Value) -> Vec<QuestionOption> {
    if schema["type"] == "boolean" {
        return vec![option(YES, ""), option(NO, "")];
    }
    let of = if schema["type"] == "array" {
        &schema["items"]
    } else {
        schema
    };
    if let Some(values) = of["enum"].as_array() {
        let names = of["enumNames"].as_array().map(Vec::as_slice).unwrap_or_default();
        let named = values.iter().enumerate().filter_map(|(at, value)| {
            let name = names.get(at).and_then(Value::as_str).unwrap_or_default();
            Some(option(value.as_str()?, name))
        });
        return named.collect();
    }
    let choices = [&of["oneOf"], &of["anyOf"]].into_iter().find_map(Value::as_array);
    let choices = choices.map(Vec::as_slice).unwrap_or_default();
    let choice = |choice: &Value| {
        Some(option(
            choice["const"].as_str()?,
            choice["title"].as_str().unwrap_or_default(),
        ))
    };
    choices.iter().filter_map(choice).collect()
}

fn option(label: &str, description: &str) -> QuestionOption {
    QuestionOption {
        label: label.to_owned(),
        description: description.to_owned(),
    }
}

fn shortened(text: &str) -> String {
    let mut line = shortened_line(text);
    line.truncate(line.floor_char_boundary(MAX_HEADER));
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_filled_in_by_answers() {
        let schema = json!({"type": "object", "required": ["name"], "properties": {
            "name": {"type": "string", "title": "Name", "description": "of the pet"},
            "age": {"type": "integer", "default": 3},
            "weight": {"type": "number"},
            "tame": {"type": "boolean"},
            "kind": {"type": "string", "oneOf": [{"const": "c", "title": "Cat"}, {"const": "d", "title": "Dog"}]},
            "likes": {"type": "array", "items": {"type": "string", "enum": ["fish", "milk"]}},
        }});
        let params = json!({"message": "A pet?", "requestedSchema": schema});
        let asked = questions("zoo", "k", &params).unwrap();
        assert_eq!(asked.len(), 6);
        assert!(
            asked
                .iter()
                .all(|question| question.question.contains("The MCP server zoo asks: A pet?"))
        );
        assert!(asked[0].question.ends_with("Name: of the pet") && asked[0].custom);
        assert_eq!(asked[4].options[0], option("c", "Cat"));
        assert!(asked[5].multiple && asked[5].options.len() == 2);
        let read = |answers: [&[&str]; 6]| {
            let answers = answers.map(|answers| answers.iter().map(ToString::to_string).collect::<Vec<_>>());
            content("k", &asked, &answers).map(|content| content["content"].clone())
        };
        assert_eq!(
            read([&["Tom"], &["4.0"], &["2.5"], &["Yes"], &["c"], &["fish", "milk"]]),
            Ok(json!({"name": "Tom", "age": 4, "weight": 2.5, "tame": true, "kind": "c", "likes": ["fish", "milk"]})),
        );
        assert_eq!(
            read([&["Tom"], &[], &[" "], &[""], &[], &[]]),
            Ok(json!({"name": "Tom", "age": 3}))
        );
        assert_eq!(
            read([&[], &[], &["3"], &["no"], &[], &[]]),
            Ok(json!({"age": 3, "weight": 3, "tame": false})),
        );
        let unread: [[&[&str]; 6]; 5] = [
            [&[], &["4.5"], &[], &[], &[], &[]],
            [&[], &[], &["x"], &[], &[], &[]],
            [&[], &[], &[], &["no, never"], &[], &[]],
            [&[], &[], &[], &[], &["Cat"], &[]],
            [&[], &[], &[], &[], &[], &["fish", "meat"]],
        ];
        for answers in unread {
            assert!(read(answers).is_err(), "{answers:?}");
        }
        assert_eq!(
            content("other", &asked, &[]),
            Ok(json!({"action": "accept", "content": {}}))
        );
    }

    #[test]
    fn a_page_is_visited() {
        let page = |url: &str| json!({"mode": "url", "message": "Log in", "url": url, "elicitationId": "1"});
        let asked = questions("bank", "k", &page("https://bank.example/login")).unwrap();
        assert!(
            asked[0].question.contains("bank asks: Log in") && asked[0].question.contains("https://bank.example/login")
        );
        assert_eq!(
            content("k", &asked, &[vec![VISITED.to_owned()]]),
            Ok(json!({"action": "accept"}))
        );
        let seen = |url: &str| {
            let asked = questions("bank", "k", &page(url)).ok()?;
            asked[0].form.as_ref()?.url.clone()
        };
        assert_eq!(
            seen("https://b\u{430}nk.example/\u{202e}x").as_deref(),
            Some("https://xn--bnk-6cd.example/%E2%80%AEx")
        );
        for url in [
            "javascript:alert(1)",
            "https://",
            "https://bank.example@evil.example/",
            "https://bank.\nexample/",
            "",
        ] {
            assert_eq!(seen(url), None, "{url}");
        }
    }

    #[test]
    fn a_form_is_bounded() {
        let many: Map<String, Value> = (0..=MAX_FIELDS)
            .map(|at| (at.to_string(), json!({"type": "string"})))
            .collect();
        assert!(questions("s", "k", &json!({"requestedSchema": {"properties": many}})).is_err());
        assert!(questions("s", "k", &json!({"message": "x".repeat(MAX_BYTES)})).is_err());
        let plain = questions(
            "s",
            "k",
            &json!({"message": "Go on?", "requestedSchema": {"type": "object"}}),
        )
        .unwrap();
        assert_eq!(content("k", &plain, &[]), Ok(json!({"action": "accept"})));
    }
}
