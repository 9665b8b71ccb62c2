//! The tables that the contract can be asked about: a service is configured with what a table says, and answers it as it
//! would answer a front end.
//!
//! *Invariant:* nothing here calls a function of the library. A table that no configuration or no request can say, such as
//! one in which a pattern stands twice, gives `None`, and is left to [`crate::tables`].

use std::fs;

use anyhow::{Context as _, Result, bail};
use serde_json::{Map, Value, json};
use toolgate_contract::{
    CallContext, ExecuteToolRequest, PromptDecision, PromptReply, call_event, execute_tool_request::Arguments, prompt,
};
use toolgate_model::Action;

use crate::case::Pairs;
use crate::connection::{Connection, Notice};
use crate::entry::Content;
use crate::host::{Host, Script};
use crate::play::{self, Bench, Problems, finish, in_time};
use crate::rows::{AgentPermission, Arity, Direction, Evaluate, RuleRow, Ruleset, Truncate, Wildcard};
use crate::server::Server;
use crate::workspace::{Folders, Setup};

/// What nobody has: a rule for it is no rule for anything else.
const OWN: &str = "conformance_";

/// Plays `kind: evaluate`.
pub(crate) async fn evaluate(table: &Evaluate, bench: &Bench) -> Result<Option<Problems>> {
    let Some(rules) = block(table.rulesets.iter().flatten()) else {
        return Ok(None);
    };
    ask(rules, table.queries.clone(), bench).await.map(Some)
}

/// Plays `kind: wildcard`.
pub(crate) async fn wildcard(table: &Wildcard, bench: &Bench) -> Result<Option<Problems>> {
    let mut rules = vec![rule("*", "*", Action::Deny)];
    let mut queries = Vec::new();
    for (number, row) in table.rows.iter().enumerate() {
        if is_of_home(&row.pattern) {
            return Ok(None);
        }
        let permission = format!("{OWN}{number}");
        rules.push(rule(&permission, &row.pattern, Action::Allow));
        let action = if row.matches { Action::Allow } else { Action::Deny };
        queries.push(rule(&permission, &row.input, action));
    }
    let rules = block(&rules).context("each permission has one pattern")?;
    ask(rules, queries, bench).await.map(Some)
}

/// Plays `kind: ruleset`: what is asked for in the words of a rule is decided by it, unless a later one covers it.
pub(crate) async fn ruleset(table: &Ruleset, bench: &Bench) -> Result<Problems> {
    let mut queries = Vec::new();
    for (index, row) in table.expect.iter().enumerate() {
        let is_covered = |later: &RuleRow| {
            let begins =
                |text: &str, pattern: &str| text.starts_with(pattern.split(['*', '?']).next().unwrap_or_default());
            begins(&row.permission, &later.permission) && begins(&row.pattern, &later.pattern)
        };
        // Another home folder is that of the service here.
        let is_of_home = row.pattern.starts_with(&table.home);
        if !is_of_home && !table.expect[index + 1..].iter().any(is_covered) {
            queries.push(row.clone());
        }
    }
    ask(table.config.clone(), queries, bench).await
}

/// Writes rules as a configuration has them.
fn block<'a>(rows: impl IntoIterator<Item = &'a RuleRow>) -> Option<Value> {
    // What no rule is about is asked; the service allows it unless it is told.
    let mut block = Map::new();
    block.insert("*".to_owned(), json!({ "*": "ask" }));
    for row in rows {
        let is_last = block.keys().next_back() == Some(&row.permission);
        if is_of_home(&row.pattern) || (block.contains_key(&row.permission) && !is_last) {
            return None;
        }
        let patterns = block.entry(row.permission.clone()).or_insert_with(|| json!({}));
        let known = patterns
            .as_object_mut()?
            .insert(row.pattern.clone(), action(row.action));
        let is_default = row.permission == "*" && row.pattern == "*";
        if known.is_some() && !is_default {
            return None;
        }
    }
    Some(Value::Object(block))
}

/// The configuration puts the user's folder in the place of these.
fn is_of_home(pattern: &str) -> bool {
    pattern.starts_with('~') || pattern.starts_with("$HOME")
}

fn rule(permission: &str, pattern: &str, action: Action) -> RuleRow {
    RuleRow {
        permission: permission.to_owned(),
        pattern: pattern.to_owned(),
        action,
    }
}

fn action(action: Action) -> Value {
    json!(match action {
        Action::Allow => "allow",
        Action::Ask => "ask",
        Action::Deny => "deny",
    })
}

async fn ask(rules: Value, queries: Vec<RuleRow>, bench: &Bench) -> Result<Problems> {
    let mut config = Map::new();
    config.insert("permission".to_owned(), rules);
    let table = AgentPermission {
        agent: "build".to_owned(),
        config,
        queries,
    };
    play::agent_permission(&table, bench).await
}

/// Plays `kind: arity`: what a person is offered to allow from now on begins with the words that are kept.
pub(crate) async fn arity(table: &Arity, bench: &Bench) -> Result<Option<Problems>> {
    if table.rows.iter().any(|row| row.words.is_empty()) {
        return Ok(None);
    }
    let config = json!({ "permission": { "bash": "ask" } });
    let setup = Setup {
        config: config.as_object(),
        ..Setup::default()
    };
    let folders = Folders::make(&bench.template, &setup)?;
    let server = Server::start(&folders, &Pairs::default(), bench).await?;
    let outcome = in_time(offered(table, &server.connection())).await;
    finish(server, outcome).await.map(Some)
}

async fn offered(table: &Arity, connection: &Connection) -> Result<Problems> {
    let mut approvals = connection.approvals("conformance").await?;
    let mut problems = Problems::new();
    for row in &table.rows {
        let mut call = connection.execute(bash(&row.words.join(" "))).await?;
        let prompt = loop {
            if let Notice::Added(prompt) = approvals.next().await? {
                break prompt;
            }
        };
        let Some(prompt::Request::Permission(asked)) = &prompt.request else {
            bail!("{:?} asked a question", row.words);
        };
        let expected = vec![format!("{} *", row.prefix.join(" "))];
        if asked.always != expected {
            let (words, got) = (&row.words, &asked.always);
            problems.push(format!("{words:?}\nexpected: {expected:?}\ngot:      {got:?}"));
        }
        let no = PromptReply {
            prompt_id: prompt.prompt_id.clone(),
            reply_id: prompt.prompt_id,
            input_digest: prompt.input_digest,
            decision: PromptDecision::Reject.into(),
            ..PromptReply::default()
        };
        approvals.reply(no).await?;
        while call.next().await?.is_some() {}
    }
    Ok(problems)
}

/// Plays `kind: truncate`: a command prints the text. The service keeps the beginning of what is long, never the end.
pub(crate) async fn truncate(table: &Truncate, bench: &Bench) -> Result<Option<Problems>> {
    let text = match &table.text.content {
        Content::Text(text) => text.clone().into_bytes(),
        Content::Bytes(bytes) => bytes.clone(),
        Content::Folder | Content::Symlink(_) | Content::Fifo => bail!("the text of a truncation is a file"),
    };
    if matches!(table.options.direction, Some(Direction::Tail)) {
        return Ok(None);
    }
    let mut limits = Map::new();
    for (key, limit) in [
        ("max_lines", table.options.max_lines),
        ("max_bytes", table.options.max_bytes),
    ] {
        limits.extend(limit.map(|limit| (key.to_owned(), json!(limit))));
    }
    let config = json!({ "tool_output": limits, "permission": "allow" });
    let setup = Setup {
        config: config.as_object(),
        ..Setup::default()
    };
    let folders = Folders::make(&bench.template, &setup)?;
    fs::write(folders.workspace().join("text"), text).context("writing the text")?;
    let server = Server::start(&folders, &Pairs::default(), bench).await?;
    let outcome = in_time(printed(table, &server.connection())).await;
    finish(server, outcome).await.map(Some)
}

async fn printed(table: &Truncate, connection: &Connection) -> Result<Problems> {
    let _host = match table.task_tool {
        true => Some(Host::open(connection, Script::default(), Vec::new()).await?),
        false => None,
    };
    let mut call = connection.execute(bash("cat text")).await?;
    let mut end = None;
    while let Some(event) = call.next().await? {
        if let Some(call_event::Event::Completed(completed)) = event.event {
            end = Some(completed);
        }
    }
    let end = end.context("the call has no result")?;
    let mut problems = Problems::new();
    let (expected, got) = (table.expect.truncated, end.truncation.unwrap_or_default().truncated);
    if got != expected {
        problems.push(format!("truncated\nexpected: {expected}\ngot:      {got}"));
    }
    if let Err(problem) = table.expect.content.check_str(Some(&end.output)) {
        problems.push(format!("content\n{problem}"));
    }
    Ok(problems)
}

fn bash(command: &str) -> ExecuteToolRequest {
    let input = json!({ "command": command, "description": "run a command" });
    ExecuteToolRequest {
        context: Some(CallContext {
            client_kind: "cli".to_owned(),
            ..CallContext::default()
        }),
        tool: "bash".to_owned(),
        arguments: Some(Arguments::InputJson(input.to_string())),
        ..ExecuteToolRequest::default()
    }
}
