//! Which rule denied a call, as a person knows it: what it says, and where it is written.
//!
//! *Invariant:* only tells. The call has ended by the time that this is asked for, and what is not found out is left out.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use toolgate_client::Client;
use toolgate_contract::evaluated_request::Request as Asked;
use toolgate_contract::{CallEvaluation, ExecuteToolRequest, PermissionAction, PermissionRule};
use toolgate_permission::rules::from_config;

use super::dry_run;
use super::service;

/// How long whoever was denied something waits for the reason.
const PATIENCE: Duration = Duration::from_secs(5);

/// The agent where none is named.
const DEFAULT_AGENT: &str = "build";

/// A call that a rule may deny.
pub(super) struct Judged {
    request: ExecuteToolRequest,
    /// Whether the files of its workspace are on this machine.
    has_files: bool,
}

impl Judged {
    pub(super) fn new(request: &ExecuteToolRequest, has_files: bool) -> Self {
        Self {
            request: request.clone(),
            has_files,
        }
    }

    /// Returns the rule that denies the call, in words; none if it cannot be found out.
    pub(super) async fn denied_by(&self, client: &Client) -> Option<String> {
        tokio::time::timeout(PATIENCE, self.look(client)).await.ok().flatten()
    }

    async fn look(&self, client: &Client) -> Option<String> {
        let request = dry_run::evaluated(self.request.clone());
        let evaluation = client.evaluate_request(request).run().await.ok()?;
        let rule = denying(&evaluation)?;
        let context = self.request.context.clone().unwrap_or_default();
        let origin = if self.has_files {
            let workspaces = client.server_info().await.ok()?.workspaces;
            let is_meant = |name: &str| context.workspace.is_empty() || context.workspace == name;
            let workspace = workspaces.iter().find(|one| is_meant(&one.name));
            workspace.and_then(|one| origin(rule, &context.agent, Path::new(&one.directory)))
        } else {
            None
        };
        let text = format!("the rule \"{}\": \"{}\"", rule.permission, rule.pattern);
        Some(match origin {
            Some(origin) => format!("{text} in {origin}"),
            None => text,
        })
    }
}

/// Returns the rule that denies what is evaluated, or a call that it would make.
fn denying(evaluation: &CallEvaluation) -> Option<&PermissionRule> {
    let mut own = evaluation.requests.iter();
    let denied = own.find(|request| request.action() == PermissionAction::Deny);
    let rule = denied.and_then(|request| match &request.request {
        Some(Asked::Permission(permission)) => permission.rule.as_ref(),
        Some(Asked::Questions(_)) | None => None,
    });
    rule.or_else(|| evaluation.children.iter().find_map(denying))
}

/// Returns what a rule is written in; none if it is built in, or of a plugin.
fn origin(rule: &PermissionRule, agent: &str, directory: &Path) -> Option<String> {
    let environment = service::environment();
    let (_, tools) = service::read_workspace("default", directory, &environment).ok()?;
    let agent = if agent.is_empty() { DEFAULT_AGENT } else { agent };
    let leaves = tools.explain();
    let is_it = |block: &[String], value: &Value| {
        let block = match block {
            [] => value.clone(),
            [permission] => json!({ permission: value }),
            [permission, pattern] => json!({ permission: { pattern: value } }),
            _ => return false,
        };
        let made = from_config(&block, environment.home()).unwrap_or_default();
        let is_same = |made: &toolgate_model::Rule| made.permission == rule.permission && made.pattern == rule.pattern;
        value == "deny" && made.iter().any(is_same)
    };
    // An agent's own rules come after those of all agents.
    let own = ["agent", agent, "permission"];
    let mut found = None;
    for prefix in [&own[..], &own[2..]] {
        found = found.or_else(|| {
            let mut written = leaves.iter().rev();
            written.find(|leaf| {
                let path: Vec<String> = leaf.pointer.split('/').skip(1).map(unescaped).collect();
                path.len() >= prefix.len()
                    && path.iter().zip(prefix).all(|(name, wanted)| name == wanted)
                    && is_it(&path[prefix.len()..], leaf.value)
            })
        });
    }
    let origins: Vec<String> = found?.origins.iter().map(ToString::to_string).collect();
    Some(origins.join(", "))
}

/// Returns a part of a JSON pointer as it is without its escapes.
fn unescaped(part: &str) -> String {
    part.replace("~1", "/").replace("~0", "~")
}
