//! The variables that hooks and callers set for a command. They are judged as assignments in front of it are: what hooks may, and what a
//! rule or a person has allowed, is not to run something else.
//!
//! Of a hook, which is code that somebody trusts, the variables are asked about that are known to decide what runs; of a caller all
//! that are not known to be harmless.
//!
//! *Invariant:* only ever adds a question.

use std::collections::BTreeMap;

use serde_json::json;
use toolgate_model::{Ask, AskPart, json_map};
use toolgate_shell as shell;
use toolgate_shell::words;
use toolgate_tool::{Refusal, ToolContext};

use super::input::Input;

/// Asks for the variables of hooks that decide what runs.
pub(super) async fn approve(
    environment: &BTreeMap<String, String>,
    input: &Input,
    ctx: &ToolContext,
) -> Result<(), Refusal> {
    if let Some(ask) = question(environment.iter().filter_map(unclear).collect(), input) {
        ctx.permission.ask(ask).await?;
    }
    Ok(())
}

/// Makes the question about the variables of a caller; none if all are known to be harmless.
pub(super) fn for_caller(environment: &BTreeMap<String, String>, input: &Input) -> Option<Ask> {
    let part = |variable| unclear(variable).or_else(|| unknown(variable));
    question(environment.iter().filter_map(part).collect(), input)
}

fn question(parts: Vec<AskPart>, input: &Input) -> Option<Ask> {
    if parts.is_empty() {
        return None;
    }
    let texts: Vec<String> = parts.iter().map(|part| part.text.clone()).collect();
    Some(Ask {
        permission: "bash".to_owned(),
        title: format!("For this command is set: {}", texts.join(" ")),
        metadata: json_map([
            ("command", json!(input.command)),
            ("description", json!(input.description)),
            ("variables", json!(texts)),
        ]),
        patterns: texts,
        parts,
        ..Ask::default()
    })
}

/// Says why a variable leaves open what a command does; none if it does not.
pub fn decides_what_runs(name: &str, value: &str) -> Option<String> {
    unclear((&name.to_owned(), &value.to_owned())).and_then(|part| part.unclear)
}

/// Returns the part of a question that a variable is, unless it leaves a command what a rule for the command means.
fn unknown((name, value): (&String, &String)) -> Option<AskPart> {
    let text = format!("{name}={}", words::quote(value));
    let line = shell::parse(&format!("{text} true"));
    let is_plain = line
        .commands
        .first()
        .is_some_and(|command| command.equivalents.iter().any(|form| form == "true"));
    (!is_plain).then(|| AskPart {
        patterns: vec![text.clone()],
        text,
        ..AskPart::default()
    })
}

/// Returns the part of a question that a variable is, if it leaves open what the command does.
fn unclear((name, value): (&String, &String)) -> Option<AskPart> {
    let text = format!("{name}={}", words::quote(value));
    let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && !name.starts_with(|first: char| first.is_ascii_digit());
    let reason = if is_name {
        // By itself an assignment is none for a program.
        let line = shell::parse(&format!("{text} true"));
        line.unclear
            .or_else(|| line.commands.into_iter().find_map(|command| command.unclear))
    } else {
        // Bash takes functions from variables of such names.
        Some("it sets a variable of a name that no assignment can have".to_owned())
    };
    reason.map(|reason| AskPart {
        patterns: vec![text.clone()],
        text,
        unclear: Some(reason),
        ..AskPart::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_judged_as_assignments() {
        let check = |name: &str, value: &str, expected: bool| {
            let part = unclear((&name.to_owned(), &value.to_owned()));
            assert_eq!(part.is_some(), expected, "{name}={value}: {part:?}");
        };
        for (name, value) in [
            ("BASH_ENV", "/tmp/x"),
            ("PATH", "/tmp"),
            ("LD_PRELOAD", "/tmp/x.so"),
            ("GIT_SSH_COMMAND", "sh -c id"),
            ("NODE_OPTIONS", "--require=/tmp/x.js"),
            ("PROMPT_COMMAND", "id"),
            ("BASH_FUNC_git%%", "() { id; }"),
            ("a b", "x"),
        ] {
            check(name, value, true);
        }
        for (name, value) in [
            ("AWS_PROFILE", "test"),
            ("NODE_ENV", "production"),
            ("GREETING", "it's $HOME `id`"),
            ("GIT_AUTHOR_NAME", "a"),
        ] {
            check(name, value, false);
        }
        let check = |name: &str, expected: bool| {
            let part = unknown((&name.to_owned(), &"it's x".to_owned()));
            assert_eq!(part.is_some(), expected, "{name}: {part:?}");
        };
        for name in ["COMPILER_PATH", "PERLLIB", "OPENSSL_CONF", "AWS_PROFILE", "GREETING"] {
            check(name, true);
        }
        for name in ["NODE_ENV", "LANG", "GIT_AUTHOR_NAME", "CI"] {
            check(name, false);
        }
    }
}
