//! The tables among the cases, as `kind` names them.
//!
//! *Invariant:* strict and plain; nothing here is judged.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::{Map, Value};
use toolgate_model::Action;

use crate::case::{Model, Pairs};
use crate::entry::Entry;
use crate::matcher::Matcher;

/// A permission rule.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(crate) struct RuleRow {
    pub(crate) permission: String,
    pub(crate) pattern: String,
    pub(crate) action: Action,
}

/// `kind: arity`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Arity {
    pub(crate) rows: Vec<ArityRow>,
}

/// The words that are kept of a command.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ArityRow {
    pub(crate) words: Vec<String>,
    pub(crate) prefix: Vec<String>,
}

/// `kind: wildcard`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wildcard {
    pub(crate) rows: Vec<WildcardRow>,
}

/// Whether a pattern matches an input.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WildcardRow {
    pub(crate) input: String,
    pub(crate) pattern: String,
    #[serde(rename = "match")]
    pub(crate) matches: bool,
}

/// `kind: evaluate`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Evaluate {
    pub(crate) rulesets: Vec<Vec<RuleRow>>,
    pub(crate) queries: Vec<RuleRow>,
}

/// `kind: ruleset`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ruleset {
    pub(crate) home: String,
    pub(crate) config: Value,
    pub(crate) expect: Vec<RuleRow>,
}

/// `kind: disabled_tools`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DisabledTools {
    pub(crate) rules: Vec<RuleRow>,
    pub(crate) tools: Vec<String>,
    pub(crate) disabled: BTreeSet<String>,
}

/// `kind: agent_permission`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AgentPermission {
    pub(crate) agent: String,
    pub(crate) config: Map<String, Value>,
    pub(crate) queries: Vec<RuleRow>,
}

/// `kind: registry`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Registry {
    pub(crate) model: Model,
    pub(crate) client: String,
    pub(crate) flags: Pairs<String>,
    pub(crate) config: Map<String, Value>,
    pub(crate) agent: String,
    pub(crate) offered: Vec<String>,
}

/// `kind: truncate`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Truncate {
    pub(crate) text: Entry,
    pub(crate) options: TruncateOptions,
    pub(crate) task_tool: bool,
    pub(crate) expect: ExpectedTruncation,
}

/// `kind: schema_transform`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SchemaTransform {
    pub(crate) model: Model,
    pub(crate) input: Value,
    pub(crate) output: Value,
}

/// The limits of a truncation; absent ones have their defaults.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TruncateOptions {
    pub(crate) max_lines: Option<usize>,
    pub(crate) max_bytes: Option<usize>,
    pub(crate) direction: Option<Direction>,
}

/// Which end of the text stays.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Direction {
    Head,
    Tail,
}

/// What truncation must make of the text.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExpectedTruncation {
    pub(crate) truncated: bool,
    pub(crate) content: Matcher,
}
