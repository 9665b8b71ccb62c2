//! The tools and hooks that calls are admitted with, per workspace, at one moment.
//!
//! *Invariant:* immutable once made. A call keeps the registry it was admitted with, whatever is registered later.

use std::collections::HashMap;
use std::collections::hash_map::Entry::{Occupied, Vacant};
use std::sync::Arc;

use jsonschema::Validator;
use serde_json::{Value, json};
use toolgate_model::{Definition, Source};
use toolgate_permission::Rights;
use toolgate_permission::rules;

use super::hooks::Hooks;
use super::{Offer, Tool, dialect, repair};

/// A tool with its compiled schema.
#[derive(Clone)]
pub struct Entry {
    /// The tool.
    pub tool: Arc<dyn Tool>,
    /// The schema of its input, as models see it.
    pub schema: Value,
    /// Checks inputs by the schema.
    pub validator: Arc<Validator>,
    /// What is not as the tool's own schema has it.
    repairs: Vec<String>,
    /// Where the tool comes from.
    pub source: Source,
}

/// A schema that no validator can be made from.
#[derive(Debug, thiserror::Error)]
#[error("the input schema of the tool {tool} is not valid: {message}")]
pub struct SchemaError {
    /// Whose.
    pub tool: String,
    /// What is wrong.
    pub message: String,
}

/// An ordered set of tools. A later tool takes the place of an earlier one of the same name.
#[derive(Clone)]
pub struct Registry {
    /// Always callable, never told of, never hidden (`docs/spec/permission.md` §13 P7).
    invalid: Entry,
    entries: Vec<Entry>,
    hooks: Hooks,
}

impl Entry {
    pub(super) fn new(tool: Arc<dyn Tool>, source: Source) -> Result<Self, SchemaError> {
        let schema = tool.input_schema();
        match Self::with(tool.clone(), source, schema.clone(), Vec::new()) {
            Err(problem) if schema.is_object() && dialect::unfolds_too_far(&schema).is_none() => {
                let mut repaired = schema.clone();
                let repairs = repair(&mut repaired);
                // What cannot be helped is said as it is of the schema as it was.
                if schema.get("type").is_some() && !takes_object(&repaired) {
                    return Err(problem);
                }
                Self::with(tool, source, repaired, repairs).map_err(|_| problem)
            }
            entry => entry,
        }
    }

    fn with(tool: Arc<dyn Tool>, source: Source, schema: Value, repairs: Vec<String>) -> Result<Self, SchemaError> {
        let wrong = |message: String| SchemaError {
            tool: tool.name().to_owned(),
            message,
        };
        if let Some(problem) = dialect::unfolds_too_far(&schema) {
            return Err(wrong(problem));
        }
        let checked = if !tool.properties().checks_own_input {
            open_schema(&schema)
        } else if is_schema(&schema) {
            json!({"type": "object"})
        } else {
            return Err(wrong("it is no JSON Schema of an object".to_owned()));
        };
        let validator = jsonschema::validator_for(&checked);
        let validator = validator.map_err(|error| wrong(error.to_string()))?;
        Ok(Self {
            tool,
            schema,
            repairs,
            validator: Arc::new(validator),
            source,
        })
    }

    /// Returns whether the tool has this name, whatever the case of its letters.
    pub(super) fn is_called(&self, name: &str) -> bool {
        self.tool.name().eq_ignore_ascii_case(name)
    }

    /// Returns what the model is told, with the schema that calls are checked by if that is not the tool's own.
    fn definition(&self, offer: &Offer<'_>) -> Definition {
        let mut definition = self.tool.definition(offer);
        if !self.repairs.is_empty() {
            definition.input_schema.clone_from(&self.schema);
        }
        definition
    }

    /// Says what of the tool's schema is read in another way, or left out; none if nothing is.
    pub(super) fn repaired(&self) -> Option<String> {
        let tool = self.tool.name();
        (!self.repairs.is_empty()).then(|| format!("the input schema of the tool {tool}: {}", self.repairs.join(", ")))
    }
}

/// Prepares a tool's schema for checking arguments: unknown keys are ignored (`docs/spec/framework.md` §4), though the
/// schema that models see is closed.
pub fn open_schema(schema: &Value) -> Value {
    let mut schema = schema.clone();
    if let Some(root) = schema.as_object_mut() {
        root.remove("additionalProperties");
    }
    schema
}

/// Returns whether a schema names objects among its types.
fn takes_object(schema: &Value) -> bool {
    let types = schema.get("type");
    types.is_some_and(|types| types == "object" || types.as_array().is_some_and(|all| all.contains(&json!("object"))))
}

/// Says whether models may be told of a schema: providers refuse a request with one that is none. Which draft it is
/// written for is left open, and so is whether its patterns and references can be followed.
fn is_schema(schema: &Value) -> bool {
    use jsonschema::{draft4, draft6, draft7, draft201909, draft202012};
    schema.is_object()
        && (draft202012::meta::is_valid(schema)
            || draft201909::meta::is_valid(schema)
            || draft7::meta::is_valid(schema)
            || draft6::meta::is_valid(schema)
            || draft4::meta::is_valid(schema))
}

impl Registry {
    /// Makes a registry from the tool that answers calls that cannot be understood, and the others in the order in
    /// which models are told of them.
    ///
    /// # Errors
    /// A tool's schema does not compile.
    pub fn new(invalid: Arc<dyn Tool>, tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Result<Self, SchemaError> {
        let entry = |tool| Entry::new(tool, Source::Builtin);
        let entries: Vec<Entry> = tools.into_iter().map(entry).collect::<Result<_, _>>()?;
        Ok(Self::assemble(entry(invalid)?, entries, Hooks::default()))
    }

    pub(super) fn assemble(invalid: Entry, all: impl IntoIterator<Item = Entry>, hooks: Hooks) -> Self {
        let mut entries: Vec<Entry> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        for entry in all {
            match places.entry(entry.tool.name().to_owned()) {
                Occupied(known) => entries[*known.get()] = entry,
                Vacant(free) => {
                    free.insert(entries.len());
                    entries.push(entry);
                }
            }
        }
        Self {
            invalid,
            entries,
            hooks,
        }
    }

    /// Returns the hooks, in the order in which they run.
    pub fn hooks(&self) -> &Hooks {
        &self.hooks
    }

    /// Returns what the model of an agent with these rights is told (`docs/spec/framework.md` §7), before hooks see it
    /// and with the schemas as the tools have them.
    pub fn offered(&self, offer: &Offer<'_>, rights: &Rights) -> Vec<Definition> {
        let offer = Offer {
            rights: Some(rights),
            ..*offer
        };
        self.usable(rights)
            .filter(|entry| entry.tool.is_offered(&offer))
            .map(|entry| entry.definition(&offer))
            .filter(|definition| definition.advertised)
            .collect()
    }

    /// Has every tool look again at what its definition is made of. To be called before [`Self::offered`].
    pub async fn refresh(&self) {
        for entry in &self.entries {
            entry.tool.refresh().await;
        }
    }

    /// Finds the tool of a call: by its exact name, else by its lower-case form, if an agent with these rights may use it
    /// and the tool is one for the model. A call that names no model is not a model's, and may use every tool.
    pub fn resolve(&self, name: &str, offer: &Offer<'_>, rights: &Rights) -> Option<&Entry> {
        let find = |wanted: &str| {
            if wanted == self.invalid.tool.name() {
                return Some(&self.invalid);
            }
            self.usable(rights)
                .filter(|entry| offer.model.model_id.is_empty() || entry.tool.is_offered(offer))
                .find(|entry| entry.tool.name() == wanted)
        };
        find(name).or_else(|| find(&name.to_lowercase()))
    }

    /// Returns whether an agent with these rights is told of a tool that runs subagents.
    pub fn offers_subagents(&self, offer: &Offer<'_>, rights: &Rights) -> bool {
        self.usable(rights)
            .any(|entry| entry.tool.properties().runs_subagent && entry.tool.is_offered(offer))
    }

    /// Returns the tool that answers calls that cannot be understood.
    pub fn invalid(&self) -> &Entry {
        &self.invalid
    }

    /// Returns the names of all tools that an agent with these rights may call and is told of, `invalid` first.
    pub fn callable_names(&self, offer: &Offer<'_>, rights: &Rights) -> Vec<String> {
        let offered = self
            .offered(offer, rights)
            .into_iter()
            .map(|definition| definition.name);
        std::iter::once(self.invalid.tool.name().to_owned())
            .chain(offered)
            .collect()
    }

    /// Returns every tool, first the one that answers calls that cannot be understood.
    pub fn tools(&self) -> impl Iterator<Item = &Arc<dyn Tool>> {
        std::iter::once(&self.invalid)
            .chain(&self.entries)
            .map(|entry| &entry.tool)
    }

    /// Returns what is hidden neither from the agent nor from one on whose behalf it works.
    fn usable(&self, rights: &Rights) -> impl Iterator<Item = &Entry> {
        self.entries
            .iter()
            .filter(|entry| !rights.layers().any(|rules| rules::disabled(entry.tool.name(), rules)))
    }
}

#[cfg(test)]
mod tests {
    use toolgate_fs::Workspace;
    use toolgate_model::{Claims, Effect, Model, ToolOutput};

    use super::*;
    use crate::{ToolContext, ToolError};

    #[test]
    fn schemas_of_any_draft_are_taken() {
        let check = |schema: Value, expected: bool| assert_eq!(is_schema(&schema), expected, "{schema}");
        check(json!({}), true);
        check(
            json!({"type": "object", "properties": {"a": {"pattern": "[\\w-.]"}}}),
            true,
        );
        check(
            json!({"type": "object", "properties": {"a": {"type": "array", "items": [{}]}}}),
            true,
        );
        check(
            json!({"properties": {"a": {"minimum": 0, "exclusiveMinimum": true}}}),
            true,
        );
        check(
            json!({"$schema": "https://example.org/own", "$ref": "#/definitions/gone"}),
            true,
        );
        check(json!({"properties": {"a": {"type": 7}}}), false);
        check(json!({"properties": "a"}), false);
        check(json!("object"), false);
        check(Value::Null, false);
    }

    /// A tool for one model only, or for all.
    struct For(&'static str, Option<&'static str>);

    #[async_trait::async_trait]
    impl Tool for For {
        fn name(&self) -> &str {
            self.0
        }

        fn input_schema(&self) -> Value {
            json!({"type": "object"})
        }

        fn definition(&self, _offer: &Offer<'_>) -> Definition {
            Definition {
                name: self.0.to_owned(),
                title: String::new(),
                description: String::new(),
                input_schema: self.input_schema(),
                source: Source::Builtin,
                effects: vec![Effect::Reads],
                permissions: Vec::new(),
                experimental: false,
                advertised: true,
                claims: Claims::default(),
            }
        }

        fn is_offered(&self, offer: &Offer<'_>) -> bool {
            self.1.is_none_or(|model| offer.model.model_id == model)
        }

        async fn call(&self, _input: Value, _ctx: &ToolContext) -> Result<ToolOutput, ToolError> {
            Err(ToolError::Cancelled)
        }
    }

    #[test]
    fn what_is_not_for_a_model_is_neither_seen_nor_called() {
        let tools: [Arc<dyn Tool>; 2] = [Arc::new(For("one", None)), Arc::new(For("two", Some("b")))];
        let registry = Registry::new(Arc::new(For("invalid", None)), tools).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let workspace = Workspace::open("w", folder.path(), None).unwrap();
        let rights = Rights {
            requesters: [].into(),
            rules: [].into(),
            ancestors: Vec::new(),
            worktree: folder.path().into(),
        };
        let check = |model: &str, seen: &[&str], is_callable: bool| {
            let model = Model {
                model_id: model.to_owned(),
                ..Model::default()
            };
            let offer = Offer {
                workspace: &workspace,
                agent: "build",
                model: &model,
                client: "cli",
                rights: None,
            };
            let offered: Vec<String> = registry
                .offered(&offer, &rights)
                .into_iter()
                .map(|tool| tool.name)
                .collect();
            assert_eq!(offered, seen);
            assert_eq!(registry.resolve("Two", &offer, &rights).is_some(), is_callable);
        };
        check("a", &["one"], false);
        check("b", &["one", "two"], true);
        check("", &["one"], true);
    }
}
