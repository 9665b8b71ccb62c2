//! Laying one configuration over another (`docs/spec/extensions.md` §4.1).
//!
//! *Invariant:* a key keeps the place of its first appearance, because the order of permission rules is their meaning.

use serde_json::Value;
use toolgate_model::JsonMap;

/// The top-level lists that are joined instead of replaced.
pub(super) const JOINED: [&str; 2] = ["instructions", "plugin"];

/// Lays `over` on `base`: objects deeply, other values replaced, the lists of [`JOINED`] joined without doubles.
pub(super) fn merge(base: &mut JsonMap, over: JsonMap) {
    for (key, value) in over {
        let is_joined = JOINED.contains(&key.as_str());
        let empty = || {
            if is_joined {
                Value::Array(Vec::new())
            } else {
                Value::Null
            }
        };
        match (base.entry(key).or_insert_with(empty), value) {
            (Value::Array(ours), Value::Array(theirs)) if is_joined => join(ours, theirs),
            (ours, theirs) => replace(ours, theirs),
        }
    }
}

/// Lays one value on another, objects deeply.
pub(super) fn replace(base: &mut Value, over: Value) {
    match (base, over) {
        (Value::Object(ours), Value::Object(theirs)) => {
            for (key, value) in theirs {
                replace(ours.entry(key).or_insert(Value::Null), value);
            }
        }
        (ours, theirs) => *ours = theirs,
    }
}

fn join(ours: &mut Vec<Value>, theirs: Vec<Value>) {
    let mut seen: std::collections::HashSet<Value> = ours.iter().cloned().collect();
    ours.extend(theirs.into_iter().filter(|item| seen.insert(item.clone())));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn merged(layers: &[Value]) -> Value {
        let mut base = JsonMap::new();
        for layer in layers {
            merge(&mut base, layer.as_object().cloned().unwrap_or_default());
        }
        Value::Object(base)
    }

    fn check(layers: &[Value], expected: &str) {
        assert_eq!(merged(layers).to_string(), expected);
    }

    #[test]
    fn keys_keep_their_place() {
        check(
            &[json!({"p": {"*": "ask", "bash": "allow"}}), json!({"p": {"*": "deny"}})],
            r#"{"p":{"*":"deny","bash":"allow"}}"#,
        );
        check(
            &[
                json!({"p": {"bash": "allow", "edit": "ask"}}),
                json!({"p": {"bash": {"rm *": "deny"}, "*": "ask"}}),
            ],
            r#"{"p":{"bash":{"rm *":"deny"},"edit":"ask","*":"ask"}}"#,
        );
    }

    #[test]
    fn lists_are_replaced_except_two() {
        check(
            &[
                json!({"instructions": ["g", "both"], "list": [1, 2]}),
                json!({"instructions": ["both", "p", "p"], "list": [3]}),
            ],
            r#"{"instructions":["g","both","p"],"list":[3]}"#,
        );
        check(&[json!({"a": {"b": 1}}), json!({"a": null})], r#"{"a":null}"#);
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![Just(json!("allow")), Just(json!("deny")), Just(json!([1]))];
        leaf.prop_recursive(3, 16, 4, |inner| {
            prop::collection::vec(("[a-d]", inner), 0..4)
                .prop_map(|entries| Value::Object(entries.into_iter().collect()))
        })
    }

    fn any_layer() -> impl Strategy<Value = Value> {
        let keys = prop_oneof![Just("permission"), Just("agent"), Just("x")].prop_map(str::to_owned);
        let list = prop::collection::vec("[a-c]", 0..4);
        (prop::collection::vec((keys, any_value()), 0..4), list).prop_map(|(entries, list)| {
            let mut map: JsonMap = entries.into_iter().collect();
            map.insert("instructions".to_owned(), json!(list));
            Value::Object(map)
        })
    }

    fn keys(value: &Value) -> Vec<String> {
        value
            .as_object()
            .map(|map| map.keys().cloned().collect())
            .unwrap_or_default()
    }

    proptest! {
        #[test]
        fn a_layer_twice_is_a_layer_once(first in any_layer(), second in any_layer()) {
            let once = merged(&[first.clone(), second.clone()]);
            let twice = merged(&[first, second.clone(), second]);
            prop_assert_eq!(once.to_string(), twice.to_string());
        }

        #[test]
        fn known_keys_stay_in_front_in_their_order(first in any_layer(), second in any_layer()) {
            let (before, after) = (keys(&merged(std::slice::from_ref(&first))), keys(&merged(&[first, second])));
            prop_assert_eq!(&after[..before.len()], &before[..]);
        }

        #[test]
        fn the_last_layer_decides_its_leaves(first in any_layer(), second in any_layer()) {
            fn holds(result: &Value, layer: &Value) -> bool {
                match (result, layer) {
                    (Value::Object(ours), Value::Object(theirs)) => {
                        theirs.iter().all(|(key, value)| ours.get(key).is_some_and(|known| holds(known, value)))
                    }
                    (Value::Array(ours), Value::Array(theirs)) => theirs.iter().all(|item| ours.contains(item)),
                    (ours, theirs) => ours == theirs,
                }
            }
            prop_assert!(holds(&merged(&[first, second.clone()]), &second));
        }

        #[test]
        fn layers_without_conflicts_of_kind_may_be_grouped(
            first in any_flat(), second in any_flat(), third in any_flat(),
        ) {
            let left = merged(&[merged(&[first.clone(), second.clone()]), third.clone()]);
            let right = merged(&[first, merged(&[second, third])]);
            prop_assert_eq!(left.to_string(), right.to_string());
        }
    }

    fn any_flat() -> impl Strategy<Value = Value> {
        let rules = prop::collection::vec(("[a-e]", "(allow|ask|deny)"), 0..5);
        let list = prop::collection::vec("[a-c]", 0..4);
        (rules, list).prop_map(|(rules, list)| {
            let rules: JsonMap = rules.into_iter().map(|(name, word)| (name, json!(word))).collect();
            json!({"permission": rules, "plugin": list})
        })
    }
}
