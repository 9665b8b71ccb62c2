//! The tools that calls are admitted with, per workspace.
//!
//! *Invariant:* immutable once made. A call keeps the registry it was admitted with, whatever is registered later.

use std::sync::Arc;

use jsonschema::Validator;
use serde_json::Value;

use super::input;
use crate::call::{Definition, Rule};
use crate::permission::rules;
use crate::tool::{Offer, Tool};

/// A tool with its compiled schema.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) tool: Arc<dyn Tool>,
    pub(crate) schema: Value,
    pub(crate) validator: Arc<Validator>,
}

/// A schema that no validator can be made from.
#[derive(Debug, thiserror::Error)]
#[error("the input schema of the tool {tool} is not valid: {message}")]
pub struct SchemaError {
    tool: String,
    message: String,
}

/// An ordered set of tools. A later tool takes the place of an earlier one of the same name.
#[derive(Clone)]
pub struct Registry {
    /// Always callable, never told of, never hidden (`spec/permission.md` P7).
    invalid: Entry,
    entries: Vec<Entry>,
}

impl Entry {
    fn new(tool: Arc<dyn Tool>) -> Result<Self, SchemaError> {
        let schema = tool.input_schema();
        let validator = jsonschema::validator_for(&input::open_schema(&schema)).map_err(|error| SchemaError {
            tool: tool.name().to_owned(),
            message: error.to_string(),
        })?;
        Ok(Self {
            tool,
            schema,
            validator: Arc::new(validator),
        })
    }
}

impl Registry {
    /// Makes a registry from the tool that answers calls that cannot be understood, and the others in the order in
    /// which models are told of them.
    ///
    /// # Errors
    /// A tool's schema does not compile.
    pub fn new(invalid: Arc<dyn Tool>, tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Result<Self, SchemaError> {
        let mut entries: Vec<Entry> = Vec::new();
        for tool in tools {
            let entry = Entry::new(tool)?;
            match entries.iter_mut().find(|known| known.tool.name() == entry.tool.name()) {
                Some(known) => *known = entry,
                None => entries.push(entry),
            }
        }
        Ok(Self {
            invalid: Entry::new(invalid)?,
            entries,
        })
    }

    /// Returns what the model of an agent with these rules is told (`spec/framework.md` §7).
    pub fn offered(&self, offer: &Offer<'_>, rules: &[Rule]) -> Vec<Definition> {
        self.usable(rules)
            .filter(|entry| entry.tool.offered_to(offer))
            .map(|entry| entry.tool.definition(offer))
            .filter(|definition| definition.advertised)
            .collect()
    }

    /// Finds the tool of a call: by its exact name, else by its lower-case form, if an agent with these rules may use it.
    pub(crate) fn resolve(&self, name: &str, rules: &[Rule]) -> Option<&Entry> {
        let find = |wanted: &str| {
            if wanted == self.invalid.tool.name() {
                return Some(&self.invalid);
            }
            self.usable(rules).find(|entry| entry.tool.name() == wanted)
        };
        find(name).or_else(|| find(&name.to_lowercase()))
    }

    /// Returns the tool that answers calls that cannot be understood.
    pub(crate) fn invalid(&self) -> &Entry {
        &self.invalid
    }

    /// Returns the names of all tools that an agent with these rules may call and is told of, `invalid` first.
    pub(crate) fn callable_names(&self, offer: &Offer<'_>, rules: &[Rule]) -> Vec<String> {
        let offered = self.offered(offer, rules).into_iter().map(|definition| definition.name);
        std::iter::once(self.invalid.tool.name().to_owned())
            .chain(offered)
            .collect()
    }

    /// Returns every tool.
    pub fn tools(&self) -> impl Iterator<Item = &Arc<dyn Tool>> {
        std::iter::once(&self.invalid)
            .chain(&self.entries)
            .map(|entry| &entry.tool)
    }

    fn usable(&self, rules: &[Rule]) -> impl Iterator<Item = &Entry> {
        self.entries
            .iter()
            .filter(move |entry| !rules::disabled(entry.tool.name(), rules))
    }
}
