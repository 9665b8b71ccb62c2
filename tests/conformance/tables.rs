//! The pure tables: what the library's functions must give for rows of input, where [`crate::asked`] cannot ask the
//! contract.
//!
//! *Invariant:* every call of a library function stands in [`library`], so a changed signature touches one place.

use std::path::Path;

use anyhow::{Result, bail};
use toolgate_contract::PermissionRule;
use toolgate_model::Rule;

use crate::entry::Content;
use crate::play::Problems;
use crate::rows::{Arity, DisabledTools, Evaluate, RuleRow, Ruleset, SchemaTransform, Truncate, Wildcard};

/// The functions under test, with the types of the tables.
mod library {
    use std::path::Path;

    use anyhow::Result;
    use serde_json::Value;
    use toolgate_contract::{PermissionAction, PermissionRule};
    use toolgate_engine::truncate::{self, Direction, Limits, Totals};
    use toolgate_model::{Action, Rule};
    use toolgate_permission::{rules, wildcard as wildcards};
    use toolgate_shell::arity;
    use toolgate_tool::dialect;

    use crate::case::Model;
    use crate::rows::{self, TruncateOptions};

    pub(super) fn prefix(words: &[String]) -> Vec<String> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        arity::prefix(&words).iter().map(|&word| word.to_owned()).collect()
    }

    pub(super) fn wildcard(input: &str, pattern: &str) -> bool {
        wildcards::matches(input, pattern)
    }

    pub(super) fn ruleset(block: &Value, home: &Path) -> Result<Vec<Rule>> {
        Ok(rules::from_config(block, Some(home))?)
    }

    pub(super) fn evaluate(permission: &str, pattern: &str, rulesets: &[&[Rule]]) -> Action {
        rules::evaluate(permission, pattern, rulesets).0
    }

    pub(super) fn evaluate_in(worktree: &Path, permission: &str, pattern: &str, rules: &[Rule]) -> Action {
        rules::evaluate_in(worktree, permission, pattern, &[rules]).0
    }

    pub(super) fn rule(rule: &PermissionRule) -> Rule {
        let action = match rule.action() {
            PermissionAction::Allow => Action::Allow,
            PermissionAction::Deny => Action::Deny,
            PermissionAction::Ask | PermissionAction::Unspecified => Action::Ask,
        };
        rules::rule(&rule.permission, &rule.pattern, action)
    }

    pub(super) fn is_disabled(tool: &str, rules: &[Rule]) -> bool {
        rules::disabled(tool, rules)
    }

    pub(super) fn schema_for(model: &Model, schema: &Value) -> Value {
        let model = toolgate_model::Model {
            provider_id: model.provider_id.clone(),
            model_id: model.model_id.clone(),
            package: model.npm.clone(),
        };
        dialect::for_model(schema.clone(), &model)
    }

    /// Returns the text for the model, or `None` if the text is within the limits.
    pub(super) fn truncate(text: &str, options: &TruncateOptions, task: bool, path: &Path) -> Option<String> {
        let default = Limits::default();
        let limits = Limits {
            max_lines: options.max_lines.unwrap_or(default.max_lines),
            max_bytes: options.max_bytes.unwrap_or(default.max_bytes),
        };
        let totals = Totals::measure(text.as_bytes());
        let direction = match options.direction {
            None | Some(rows::Direction::Head) => Direction::Head,
            Some(rows::Direction::Tail) => Direction::Tail,
        };
        (!totals.fit(&limits)).then(|| {
            let preview = truncate::preview(text.as_bytes(), totals, &limits, direction);
            truncate::render(&preview, direction, &path.to_string_lossy(), task)
        })
    }
}

/// The path that a truncated text names.
const STORED: &str = "/data/tool-output/tool_0123456789abABCDEFGHIJKLMN";

fn rules(rows: &[RuleRow]) -> Vec<Rule> {
    let rule = |row: &RuleRow| Rule {
        permission: row.permission.clone(),
        pattern: row.pattern.clone(),
        action: row.action,
    };
    rows.iter().map(rule).collect()
}

/// Plays `kind: arity`.
pub(crate) fn arity(table: &Arity) -> Result<Problems> {
    let mut problems = Problems::new();
    for row in &table.rows {
        let got = library::prefix(&row.words);
        if got != row.prefix {
            let (words, expected) = (&row.words, &row.prefix);
            problems.push(format!("{words:?}\nexpected: {expected:?}\ngot:      {got:?}"));
        }
    }
    Ok(problems)
}

/// Plays `kind: wildcard`.
pub(crate) fn wildcard(table: &Wildcard) -> Result<Problems> {
    let mut problems = Problems::new();
    for row in &table.rows {
        let got = library::wildcard(&row.input, &row.pattern);
        if got != row.matches {
            let (input, pattern, expected) = (&row.input, &row.pattern, row.matches);
            problems.push(format!(
                "{input:?} and {pattern:?}\nexpected: {expected}\ngot:      {got}"
            ));
        }
    }
    Ok(problems)
}

/// Plays `kind: evaluate`.
pub(crate) fn evaluate(table: &Evaluate) -> Result<Problems> {
    let rulesets: Vec<Vec<Rule>> = table.rulesets.iter().map(|rows| rules(rows)).collect();
    let rulesets: Vec<&[Rule]> = rulesets.iter().map(Vec::as_slice).collect();
    let mut problems = Problems::new();
    for query in &table.queries {
        let got = library::evaluate(&query.permission, &query.pattern, &rulesets);
        if got != query.action {
            let (permission, pattern, expected) = (&query.permission, &query.pattern, query.action);
            problems.push(format!(
                "{permission} {pattern:?}\nexpected: {expected:?}\ngot:      {got:?}"
            ));
        }
    }
    Ok(problems)
}

/// Says which queries rules of the contract decide otherwise than is expected. They are for an agent in a worktree.
pub(crate) fn decided(rules: &[PermissionRule], worktree: &Path, queries: &[RuleRow]) -> Problems {
    let rules: Vec<Rule> = rules.iter().map(library::rule).collect();
    let wrong = queries.iter().filter_map(|query| {
        let got = library::evaluate_in(worktree, &query.permission, &query.pattern, &rules);
        let (permission, pattern, expected) = (&query.permission, &query.pattern, query.action);
        (got != expected).then(|| format!("{permission} {pattern:?}\nexpected: {expected:?}\ngot:      {got:?}"))
    });
    wrong.collect()
}

/// Plays `kind: ruleset`.
pub(crate) fn ruleset(table: &Ruleset) -> Result<Problems> {
    let got = library::ruleset(&table.config, Path::new(&table.home))?;
    let expected = rules(&table.expect);
    if got == expected {
        return Ok(Problems::new());
    }
    Ok(vec![format!("rules\nexpected: {expected:?}\ngot:      {got:?}")])
}

/// Plays `kind: disabled_tools`.
pub(crate) fn disabled_tools(table: &DisabledTools) -> Result<Problems> {
    let rules = rules(&table.rules);
    let mut problems = Problems::new();
    for tool in &table.tools {
        let expected = table.disabled.contains(tool);
        let got = library::is_disabled(tool, &rules);
        if got != expected {
            problems.push(format!("is {tool} disabled?\nexpected: {expected}\ngot:      {got}"));
        }
    }
    if let Some(stray) = table.disabled.iter().find(|tool| !table.tools.contains(tool)) {
        bail!("{stray} is expected to be disabled but is not among the tools");
    }
    Ok(problems)
}

/// Plays `kind: truncate`.
pub(crate) fn truncate(table: &Truncate) -> Result<Problems> {
    let text = match &table.text.content {
        Content::Text(text) => text.clone(),
        Content::Bytes(bytes) => String::from_utf8(bytes.clone())?,
        Content::Folder | Content::Symlink(_) | Content::Fifo => bail!("the text of a truncation is a file"),
    };
    let cut = library::truncate(&text, &table.options, table.task_tool, Path::new(STORED));
    let mut problems = Problems::new();
    if cut.is_some() != table.expect.truncated {
        problems.push(format!(
            "truncated\nexpected: {}\ngot:      {}",
            table.expect.truncated,
            cut.is_some()
        ));
    }
    let content = cut.unwrap_or(text);
    if let Err(problem) = table.expect.content.check_str(Some(&content)) {
        problems.push(format!("content\n{problem}"));
    }
    Ok(problems)
}

/// Returns the schema of `kind: schema_transform` as the model is told of it.
pub(crate) fn schema_for(table: &SchemaTransform) -> serde_json::Value {
    library::schema_for(&table.model, &table.input)
}
