//! What servers want a person to fill in, as questions, and the answers as what they wanted: each field of a form is a
//! question, whose answers are texts.
//!
//! *Invariant:* pure. Which server asks is in every question. A field that is left open has the value that the server said is
//! its usual one, or is left out. What a form says at length is said once.

use serde_json::{Map, Value, json};
use toolgate_model::{FormField, Question, QuestionOption};

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
        let url = params["url"]
            .as_str()
            .filter(|url| url.starts_with("https://") || url.starts_with("http://"));
        let url = url.ok_or("the page to be visited has no address that can be opened")?;
        let question = format!("{asks}\n\nOpen this page if you trust it, and do there what it asks for: {url}");
        let form = FormField {
            url: Some(url.to_owned()),
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

/// Reads the answers to those of the questions that belong to one form.
pub(super) fn content(key: &str, questions: &[Question], answers: &[Vec<String>]) -> Value {
    let mut content = Map::new();
    for (at, question) in questions.iter().enumerate() {
        let Some(form) = question.form.as_deref().filter(|form| form.key == key) else {
            continue;
        };
        if form.name.is_empty() {
            // Nothing to be filled in: whoever answers agrees.
            return json!({"action": "accept"});
        }
        let given = answers.get(at).map(Vec::as_slice).unwrap_or_default();
        if let Some(value) = value(&form.schema, given).or_else(|| form.schema.get("default").cloned()) {
            content.insert(form.name.clone(), value);
        }
    }
    json!({"action": "accept", "content": content})
}

/// Returns the value that answers stand for; none for no answer, or one that is none of the field's.
fn value(schema: &Value, answers: &[String]) -> Option<Value> {
    let first = answers.first().map(|answer| answer.trim());
    match schema["type"].as_str().unwrap_or("string") {
        "array" => (!answers.is_empty()).then(|| json!(answers)),
        "boolean" => match first?.to_ascii_lowercase().as_str() {
            "yes" | "true" => Some(json!(true)),
            "no" | "false" => Some(json!(false)),
            _ => None,
        },
        "integer" => first?.parse::<i64>().ok().map(|number| json!(number)),
        "number" => first?
            .parse::<f64>()
            .ok()
            .filter(|number| number.is_finite())
            .map(number),
        _ => first.map(|text| json!(text)),
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
        let check = |answers: [&[&str]; 6], expected: Value| {
            let answers = answers.map(|answers| answers.iter().map(ToString::to_string).collect::<Vec<_>>());
            assert_eq!(content("k", &asked, &answers)["content"], expected);
        };
        check(
            [&["Tom"], &["4"], &["2.5"], &["Yes"], &["c"], &["fish", "milk"]],
            json!({"name": "Tom", "age": 4, "weight": 2.5, "tame": true, "kind": "c", "likes": ["fish", "milk"]}),
        );
        check(
            [&["Tom"], &[], &["x"], &["perhaps"], &[], &[]],
            json!({"name": "Tom", "age": 3}),
        );
        check(
            [&[], &["x"], &["3"], &["no"], &[], &[]],
            json!({"age": 3, "weight": 3, "tame": false}),
        );
        assert_eq!(content("other", &asked, &[])["content"], json!({}));
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
            json!({"action": "accept"})
        );
        assert!(questions("bank", "k", &page("javascript:alert(1)")).is_err());
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
        assert_eq!(content("k", &plain, &[]), json!({"action": "accept"}));
    }
}
