//! Which model has which dialect, and what holds for all of them whatever the value. The rules are tested beside them.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};
use toolgate_model::Model;

use super::{complete, for_model};

fn model(provider_id: &str, model_id: &str, package: &str) -> Model {
    Model {
        provider_id: provider_id.to_owned(),
        model_id: model_id.to_owned(),
        package: package.to_owned(),
    }
}

pub(super) fn openai() -> Model {
    model("openai", "gpt-5", "")
}

pub(super) fn moonshot() -> Model {
    model("moonshotai", "k2", "")
}

pub(super) fn gemini() -> Model {
    model("google", "g-3", "")
}

/// Checks a schema and, since rules hold at every depth, the same one as a property and as an alternative of the items of
/// another.
pub(super) fn check(model: &Model, written: Value, expected: Value) {
    assert_eq!(for_model(written.clone(), model), expected, "of {written}");
    let wrap = |schema: &Value| {
        json!({"type": "object", "properties": {
            "properties": schema,
            "type": {"type": "array", "items": {"anyOf": [schema]}},
        }})
    };
    assert_eq!(
        for_model(wrap(&written), model),
        wrap(&expected),
        "of {written}, deeper"
    );
}

/// Checks schemas that come out as they went in.
pub(super) fn unchanged(model: &Model, schemas: impl IntoIterator<Item = Value>) {
    for schema in schemas {
        check(model, schema.clone(), schema);
    }
}

#[test]
fn a_model_has_the_dialects_of_its_provider_package_and_name() {
    let schema = json!({"enum": [1], "type": "integer", "minimum": 0, "items": [{"type": "null"}]});
    let of = |(openai, moonshot, gemini): (bool, bool, bool)| {
        let mut expected = schema.clone();
        if openai {
            expected.as_object_mut().unwrap().remove("minimum");
        }
        if moonshot {
            expected["items"] = json!({"type": "null"});
        }
        if gemini {
            expected["enum"] = json!(["1"]);
            expected["type"] = json!("string");
        }
        expected
    };
    let none = (false, false, false);
    for (provider, name, package, dialects) in [
        ("", "", "", none),
        ("anthropic", "claude-opus-4-5", "@ai-sdk/anthropic", none),
        ("openai", "gpt-5", "", (true, false, false)),
        ("azure", "mine", "", (true, false, false)),
        ("azure-cognitive-services", "mine", "", (true, false, false)),
        ("work", "mine", "@ai-sdk/openai", (true, false, false)),
        ("work", "mine", "@ai-sdk/azure", (true, false, false)),
        ("work", "mine", "@ai-sdk/openai-compatible", none),
        ("openai", "gpt-5", "@ai-sdk/openai-compatible", none),
        ("moonshotai", "k2", "", (false, true, false)),
        ("groq", "moonshotai/Kimi-K2", "", (false, true, false)),
        ("google", "gemma", "", (false, false, true)),
        ("google-vertex", "gemini-3-pro", "", (false, false, true)),
        ("google-vertex", "gemma", "", none),
        ("azure", "kimi-gemini", "", (true, true, true)),
    ] {
        let model = model(provider, name, package);
        assert_eq!(for_model(schema.clone(), &model), of(dialects), "{model:?}");
    }
}

#[test]
fn the_caller_knows_the_package_better_than_the_configuration() {
    let configured = [("a", "of-a"), ("a/m", "of-m"), ("openai", "@ai-sdk/openai-compatible")];
    let configured: BTreeMap<String, String> = configured.map(|(key, package)| (key.into(), package.into())).into();
    for (provider, name, said, expected) in [
        ("a", "x", "", "of-a"),
        ("a", "m", "", "of-m"),
        ("a", "m", "said", "said"),
        ("b", "m", "", ""),
        ("openai", "gpt-5", "", "@ai-sdk/openai-compatible"),
    ] {
        let mut model = model(provider, name, said);
        complete(&mut model, &configured);
        assert_eq!(model.package, expected, "{provider}/{name}");
    }
}

fn dialects() -> [Model; 3] {
    [openai(), moonshot(), gemini()]
}

/// Takes a value apart without recursion, as its own end would not.
fn take_apart(value: Value) -> usize {
    let mut left = vec![value];
    let mut count = 0;
    while let Some(value) = left.pop() {
        count += 1;
        match value {
            Value::Array(items) => left.extend(items),
            Value::Object(fields) => left.extend(fields.into_iter().map(|(_, value)| value)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    count
}

#[test]
fn depth_costs_no_stack() {
    const LEVELS: usize = 10_000;
    // A schema is moved in, because whatever looks at it whole, as `json!` does, goes as deep as it is.
    let wraps: [(Value, &str); 5] = [
        (json!({"type": "object", "properties": {"a": null}}), "/properties/a"),
        (json!({"type": ["array", "null"], "items": null}), "/items"),
        (json!({"anyOf": [null, {"type": "null"}]}), "/anyOf/0"),
        (json!({"items": [null]}), "/items/0"),
        (
            json!({"$defs": {"a": null}, "minimum": 1, "default": {"a": [1]}}),
            "/$defs/a",
        ),
    ];
    for (around, place) in wraps {
        for model in dialects() {
            let mut schema = json!({"type": "integer", "enum": [1]});
            for _ in 0..LEVELS {
                let inner = std::mem::replace(&mut schema, around.clone());
                *schema.pointer_mut(place).unwrap() = inner;
            }
            assert!(take_apart(for_model(schema, &model)) > LEVELS, "{model:?}");
        }
    }
}

#[test]
fn what_is_left_out_or_copied_may_be_deep() {
    let deep = || (0..10_000).fold(Value::Null, |inner, _| Value::Array(vec![inner]));
    for model in dialects() {
        let mut schema = json!({"$ref": "#/$defs/a", "$defs": {"a": {"type": "string"}}, "title": null});
        schema["title"] = deep();
        schema["$defs"]["a"]["default"] = deep();
        schema["$defs"]["a"]["properties"] = deep();
        assert!(take_apart(for_model(schema, &model)) > 1, "{model:?}");
    }
}

#[test]
fn size_costs_no_more_than_a_pass() {
    let node = json!({"type": ["object", "null"], "description": "d".repeat(1000), "required": ["a", "b"], "properties": {
        "a": {"type": "integer", "enum": [1, 2, 3], "minimum": 1}, "b": {"$ref": "#/$defs/x", "title": "t"},
        "c": {"type": "array"}, "d": {"anyOf": [{"type": "string", "format": "uri"}, {"type": "null"}]},
    }});
    let properties: serde_json::Map<String, Value> = (0..5_000).map(|at| (format!("p{at}"), node.clone())).collect();
    let names: Vec<&String> = properties.keys().collect();
    let wide = json!({"type": "object", "required": names, "properties": properties});
    let kinds: Vec<String> = (0..100_000).map(|at| format!("t{at}")).collect();
    let choices: Vec<usize> = (0..100_000).collect();
    let lists = json!({"type": kinds, "enum": choices, "required": choices, "anyOf": choices, "items": choices});
    assert!(wide.to_string().len() > 5 << 20);
    for schema in [wide, lists, json!({"type": kinds})] {
        for model in dialects() {
            let began = std::time::Instant::now();
            let once = for_model(schema.clone(), &model);
            // A debug build takes a few seconds at most; what is not linear takes hours.
            assert!(began.elapsed().as_secs() < 60, "{model:?}");
            assert!(once == for_model(once.clone(), &model), "{model:?}");
        }
    }
}

/// Words that mean something, so that made-up values come close to schemas.
const WORDS: [&str; 30] = [
    "$ref",
    "$defs",
    "definitions",
    "additionalProperties",
    "allOf",
    "anyOf",
    "const",
    "default",
    "description",
    "enum",
    "format",
    "if",
    "items",
    "maximum",
    "not",
    "oneOf",
    "patternProperties",
    "prefixItems",
    "properties",
    "required",
    "title",
    "type",
    "#/$defs/type",
    "#/definitions/items",
    "array",
    "integer",
    "null",
    "object",
    "string",
    "nullable",
];

fn any_value() -> impl Strategy<Value = Value> {
    let word = || prop::sample::select(&WORDS[..]);
    let leaf = prop_oneof![
        1 => Just(Value::Null),
        1 => any::<bool>().prop_map(Value::from),
        1 => any::<i64>().prop_map(Value::from),
        1 => any::<f64>().prop_map(Value::from),
        6 => word().prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 5, move |inner| {
        prop_oneof![
            1 => prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            4 => prop::collection::vec((word(), inner), 0..5)
                .prop_map(|fields| fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
        ]
    })
}

proptest! {
    #[test]
    fn a_second_time_changes_nothing(value in any_value()) {
        for model in dialects() {
            let once = for_model(value.clone(), &model);
            prop_assert_eq!(for_model(once.clone(), &model), once, "{:?}", model);
        }
    }

    #[test]
    fn other_models_see_the_schema_itself(value in any_value()) {
        prop_assert_eq!(for_model(value.clone(), &model("anthropic", "claude", "@ai-sdk/anthropic")), value);
    }
}
