//! How far a schema unfolds when arguments are checked by it.
//!
//! A validator follows every reference wherever it stands: thirty definitions that each name the next one twice are a
//! billion checks, and a chain of thousands takes a stack for each link. Whoever brings a tool brings its schema, so that is
//! found out before one is compiled.
//!
//! *Invariant:* pure; every node is looked at once, and neither depth nor references take stack. What refers to itself is
//! followed once round: how often it is followed is for the arguments to say, whose depth is bounded.

use std::collections::HashMap;

use serde_json::Value;

use super::places::schemas_in;

/// The most checks for arguments that are all there, once.
const MAX_CHECKS: u64 = 200_000;

/// How deeply they may stand in each other.
const MAX_NESTING: u32 = 100;

/// The keywords that stand for a schema elsewhere.
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

/// Says why a schema cannot be used to check arguments, if it unfolds too far.
pub fn unfolds_too_far(schema: &Value) -> Option<String> {
    let size = Unfolding::new(schema).size;
    if size.checks > MAX_CHECKS {
        return Some(format!("it unfolds to more than {MAX_CHECKS} schemas"));
    }
    (size.depth > MAX_NESTING).then(|| format!("it unfolds to schemas more than {MAX_NESTING} deep in each other"))
}

/// What a node unfolds to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Size {
    checks: u64,
    depth: u32,
}

struct Frame<'s> {
    node: &'s Value,
    left: Vec<&'s Value>,
    size: Size,
}

struct Unfolding<'s> {
    root: &'s Value,
    /// By the name of the anchor, or the identifier.
    named: HashMap<&'s str, &'s Value>,
    /// By the address of the node; none while it is being looked at.
    known: HashMap<*const Value, Option<Size>>,
    size: Size,
}

impl<'s> Unfolding<'s> {
    fn new(root: &'s Value) -> Self {
        let mut unfolding = Self {
            root,
            named: names_in(root),
            known: HashMap::new(),
            size: Size::default(),
        };
        unfolding.run();
        unfolding
    }

    fn run(&mut self) {
        let mut open = vec![self.open(self.root)];
        while let Some(frame) = open.last_mut() {
            match frame.left.pop() {
                Some(child) => match self.known.get(&std::ptr::from_ref(child)) {
                    Some(Some(size)) => frame.add(*size),
                    // Round once.
                    Some(None) => {}
                    None => {
                        let child = self.open(child);
                        open.push(child);
                    }
                },
                None => {
                    let size = frame.size;
                    self.known.insert(std::ptr::from_ref(frame.node), Some(size));
                    open.pop();
                    match open.last_mut() {
                        Some(above) => above.add(size),
                        None => self.size = size,
                    }
                }
            }
        }
    }

    fn open(&mut self, node: &'s Value) -> Frame<'s> {
        self.known.insert(std::ptr::from_ref(node), None);
        let mut left: Vec<&Value> = schemas_in(node)
            .filter(|(key, _)| !matches!(*key, "$defs" | "definitions"))
            .map(|(_, schema)| schema)
            .collect();
        let references = REFERENCES.iter().filter_map(|key| node.get(*key)?.as_str());
        left.extend(references.filter_map(|reference| self.follow(reference)));
        Frame {
            node,
            left,
            size: Size { checks: 1, depth: 1 },
        }
    }

    /// Finds what a reference refers to. What is not found is refused where schemas are compiled.
    fn follow(&self, reference: &str) -> Option<&'s Value> {
        let (document, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let base = match document {
            "" => self.root,
            document => self.named.get(document).copied()?,
        };
        match fragment {
            "" => Some(base),
            pointer if pointer.starts_with('/') => base.pointer(pointer),
            anchor => self.named.get(anchor).copied(),
        }
    }
}

impl Frame<'_> {
    fn add(&mut self, below: Size) {
        self.size.checks = self.size.checks.saturating_add(below.checks);
        self.size.depth = self.size.depth.max(below.depth.saturating_add(1));
    }
}

fn names_in(root: &Value) -> HashMap<&str, &Value> {
    let mut named = HashMap::new();
    let mut left = vec![root];
    while let Some(node) = left.pop() {
        for key in ["$id", "$anchor", "$dynamicAnchor"] {
            if let Some(name) = node.get(key).and_then(Value::as_str) {
                named.insert(name, node);
            }
        }
        left.extend(schemas_in(node).map(|(_, schema)| schema));
    }
    named
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;

    fn check(schema: Value, is_usable: bool) {
        let found = unfolds_too_far(&schema);
        assert_eq!(found.is_none(), is_usable, "{found:?}");
    }

    /// Definitions that each name the next one, `times` times.
    fn chain(length: usize, times: usize, reference: impl Fn(usize) -> String) -> Value {
        let one = |at: usize| {
            let next = json!({"$ref": reference(at + 1)});
            let schema = match at + 1 {
                last if last == length => json!({"type": "string"}),
                _ => json!({"allOf": vec![next; times]}),
            };
            (format!("n{at}"), schema)
        };
        let definitions: Map<String, Value> = (0..length).map(one).collect();
        json!({"type": "object", "properties": {"a": {"$ref": reference(0)}}, "$defs": definitions})
    }

    fn pointer(at: usize) -> String {
        format!("#/$defs/n{at}")
    }

    #[test]
    fn what_multiplies_is_noticed() {
        check(chain(10, 2, pointer), true);
        check(chain(30, 2, pointer), false);
        check(chain(6, 20, pointer), false);
        let mut by_anchor = chain(30, 2, |at| format!("#n{at}"));
        for (name, schema) in by_anchor["$defs"].as_object_mut().unwrap() {
            schema["$anchor"] = json!(name);
        }
        check(by_anchor, false);
        let mut by_id = chain(30, 2, |at| format!("n{at}"));
        for (name, schema) in by_id["$defs"].as_object_mut().unwrap() {
            schema["$id"] = json!(name);
        }
        check(by_id, false);
    }

    #[test]
    fn what_is_deep_is_noticed() {
        check(chain(40, 1, pointer), true);
        check(chain(5000, 1, pointer), false);
        let deep = (0..120).fold(json!({}), |inner, _| json!({"items": inner}));
        check(deep, false);
    }

    #[test]
    fn what_people_write_is_usable() {
        check(json!(true), true);
        check(json!({"$ref": "#"}), true);
        check(json!({"$ref": "#/none"}), true);
        let tree = json!({"$ref": "#/$defs/a", "$defs": {"a": {"type": "object", "properties": {
            "left": {"$ref": "#/$defs/a"}, "right": {"$ref": "#/$defs/a"},
            "all": {"type": "array", "items": {"$ref": "#/$defs/a"}},
        }}}});
        check(tree, true);
        let one = json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "number"}}});
        check(json!({"oneOf": vec![one.clone(); 2000]}), true);
        let shared = json!({"$defs": {"x": one}, "anyOf": vec![json!({"$ref": "#/$defs/x"}); 2000]});
        check(shared, true);
        // A name among values is none.
        check(json!({"const": {"$ref": "#"}, "default": {"allOf": [{}]}}), true);
    }
}
