//! `toolgate config`: what is in force, and where each value comes from.

use std::path::PathBuf;

use clap::Args;
use serde_json::Value;

use super::exit::{Exit, Failure};
use super::globals::Globals;
use super::service::{self, Flags};
use super::terminal::{Look, Terminal, visible};

/// Which configuration to show. Nothing is started, no server is asked.
#[derive(Debug, Args)]
pub(super) struct ConfigArgs {
    /// Show it as if this folder were the workspace.
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
}

impl ConfigArgs {
    pub(super) fn run(self, globals: &Globals, terminal: &Terminal) -> Result<Exit, Failure> {
        let workspaces = self.workspace.map(|directory| {
            let directory = std::path::absolute(&directory).unwrap_or(directory);
            ("default".to_owned(), directory)
        });
        let flags = Flags {
            config: globals.config.clone(),
            workspaces: workspaces.into_iter().collect(),
            ..Flags::default()
        };
        let explained = service::explain(&flags)?;
        if terminal.json {
            terminal.record(&explained)?;
        } else {
            show(&explained, terminal)?;
        }
        let workspaces = explained["workspaces"].as_array().into_iter().flatten();
        let mut problems = workspaces.filter_map(|workspace| workspace["problem"].as_str());
        match problems.next() {
            Some(problem) => Err(Failure::Configuration(problem.to_owned())),
            None => Ok(Exit::Completed),
        }
    }
}

fn show(explained: &Value, terminal: &Terminal) -> Result<(), Failure> {
    terminal.whole_table(
        &["KEY", "FROM", "VALUE"],
        &rows(&explained["service"], &["key", "source", "value"]),
    )?;
    warnings(&explained["warnings"], terminal)?;
    for workspace in explained["workspaces"].as_array().into_iter().flatten() {
        let title = format!("\nworkspace {}", cell(&workspace["name"]));
        terminal.line(&terminal.out.text(Look::Bold, &title))?;
        terminal.line(&format!("directory {}", cell(&workspace["directory"])))?;
        if let Some(problem) = workspace["problem"].as_str() {
            let text = format!("cannot be used: {}", visible(problem));
            terminal.line(&terminal.out.text(Look::Red, &text))?;
            continue;
        }
        warnings(&workspace["warnings"], terminal)?;
        terminal.line(&format!("worktree  {}", cell(&workspace["worktree"])))?;
        let pretty = serde_json::to_string_pretty(&workspace["opencode"]).unwrap_or_default();
        terminal.line(&format!("tools' configuration {}", visible(&pretty)))?;
        terminal.whole_table(&["VALUE", "FROM"], &rows(&workspace["sources"], &["pointer", "source"]))?;
        terminal.whole_table(&["AGENT", "MODE"], &rows(&workspace["agents"], &["name", "mode"]))?;
    }
    Ok(())
}

/// Shows what a person should know.
fn warnings(list: &Value, terminal: &Terminal) -> Result<(), Failure> {
    for warning in list.as_array().into_iter().flatten() {
        let mark = terminal.out.text(Look::Yellow, "warning:");
        terminal.line(&format!("{mark} {}", cell(warning)))?;
    }
    Ok(())
}

fn rows(list: &Value, keys: &[&str]) -> Vec<Vec<String>> {
    let list = list.as_array().into_iter().flatten();
    list.map(|one| keys.iter().map(|key| cell(&one[*key])).collect())
        .collect()
}

fn cell(value: &Value) -> String {
    match value {
        Value::String(text) => visible(text).into_owned(),
        Value::Null => "-".to_owned(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            visible(&value.to_string()).into_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_become_rows() {
        let list = json!([{ "key": "listen", "value": null, "source": "default" }, { "key": "limit", "value": 5 }]);
        assert_eq!(
            rows(&list, &["key", "value", "source"]),
            [
                ["listen", "-", "default"].map(str::to_owned),
                ["limit", "5", "-"].map(str::to_owned)
            ]
        );
        assert!(rows(&Value::Null, &["key"]).is_empty());
    }
}
