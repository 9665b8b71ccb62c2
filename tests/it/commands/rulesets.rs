//! The rule sets of `tests/corpus/rulesets.json`: what people write, and the agents that are built in.

use std::path::Path;

use serde_json::Value;
use toolgate_model::{Action, JsonMap, Rule};
use toolgate_permission::agents::{Agents, AgentsConfig, Folders};
use toolgate_permission::rules::from_config;

/// A set of rules.
pub(super) struct RuleSet {
    pub(super) name: String,
    pub(super) rules: Vec<Rule>,
}

impl RuleSet {
    /// Says whether every command is allowed.
    pub(super) fn allows_all(&self) -> bool {
        let mut of_bash = self.rules.iter().filter(|rule| rule.permission == "bash");
        let denies = self
            .rules
            .iter()
            .rposition(|rule| rule.permission == "*" && rule.action != Action::Allow);
        let allows = self
            .rules
            .iter()
            .rposition(|rule| matches!(&*rule.permission, "*" | "bash") && rule.pattern == "*");
        of_bash.all(|rule| rule.action == Action::Allow) && denies <= allows
    }
}

/// Returns the sets, in the order of the file.
pub(super) fn rule_sets() -> Vec<RuleSet> {
    let text = include_str!("../../corpus/rulesets.json");
    let sets: JsonMap = serde_json::from_str(text).unwrap();
    sets.into_iter()
        .map(|(name, block)| {
            let Value::Object(mut block) = block else {
                panic!("{name}: no rules")
            };
            let agent = block.remove("agent");
            let rules = from_config(&Value::Object(block), None).unwrap();
            let rules = match agent {
                Some(agent) => of_agent(agent.as_str().unwrap(), rules),
                None => rules,
            };
            RuleSet { name, rules }
        })
        .collect()
}

fn of_agent(name: &str, global: Vec<Rule>) -> Vec<Rule> {
    let config = AgentsConfig {
        global,
        agents: Vec::new(),
    };
    let folders = Folders {
        output_dir: Path::new("/var/lib/toolgate/tool-output"),
        data_dir: Path::new("/var/lib/toolgate"),
        skills: &[],
    };
    Agents::new(&config, folders).get(name).unwrap().rules.clone()
}
