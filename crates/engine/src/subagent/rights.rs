//! On whose behalf a call is made, and what that leaves of its rights.
//!
//! *Invariant:* pure. A call may at most what every call above it may, whatever the rules of its own agent say; what is not
//! known of a call above counts as a deny of everything.

use std::path::Path;
use std::sync::Arc;

use toolgate_model::{CallRecord, Delegation, Rule};
use toolgate_permission::Rights;
use toolgate_permission::agents::{self, Agent};

/// Returns in whose name a call runs that an agent makes, on behalf of `parent` if there is one, and who stands above it.
pub(crate) fn descend(workspace: &str, agent: &str, parent: Option<&CallRecord>) -> (Delegation, Vec<Delegation>) {
    let above = parent.map(|parent| {
        (
            delegation_of(parent),
            parent.ancestors.as_slice(),
            parent.runs_subagent(),
        )
    });
    below(workspace, agent, above)
}

/// Returns in whose name a call runs.
pub(crate) fn delegation_of(record: &CallRecord) -> Delegation {
    Delegation {
        workspace: record.origin.workspace.clone(),
        agent: record.origin.agent.clone(),
        in_task: record.in_task,
    }
}

fn below(
    workspace: &str,
    agent: &str,
    above: Option<(Delegation, &[Delegation], bool)>,
) -> (Delegation, Vec<Delegation>) {
    let in_task = above
        .as_ref()
        .is_some_and(|(parent, _, is_task)| *is_task || parent.in_task);
    let own = Delegation {
        workspace: workspace.to_owned(),
        agent: agent.to_owned(),
        in_task,
    };
    // All of them hold, in whatever order: once is enough, and the list never grows beyond the number of agents.
    let mut ancestors: Vec<Delegation> = Vec::new();
    if let Some((parent, older, _)) = above {
        for ancestor in std::iter::once(parent).chain(older.iter().cloned()) {
            if ancestor != own && !ancestors.contains(&ancestor) {
                ancestors.push(ancestor);
            }
        }
    }
    (own, ancestors)
}

/// Returns the rules that an agent has where it runs: in a task, its session's limits come after its own rules.
pub(crate) fn layer(rules: &[Rule], primary_tools: &[String], in_task: bool) -> Arc<[Rule]> {
    if !in_task {
        return rules.into();
    }
    [rules, &agents::subagent_rules(rules, primary_tools)].concat().into()
}

/// Returns the rulesets that an agent has where it runs, its own first.
pub(crate) fn layers(agent: &Agent, primary_tools: &[String], in_task: bool) -> Vec<Arc<[Rule]>> {
    // What holds an agent back has the limits of a task as its own rules have them: it may not know of tasks either.
    let at_most = agent.at_most.iter().map(|rules| layer(rules, primary_tools, in_task));
    std::iter::once(layer(&agent.rules, primary_tools, in_task))
        .chain(at_most)
        .collect()
}

/// Returns the rights of a call. `rules_of` finds the rulesets of an agent where it runs, none if there is no such agent.
pub(crate) fn combine(
    own: &Delegation,
    ancestors: &[Delegation],
    worktree: &Path,
    rules_of: impl Fn(&Delegation) -> Option<Vec<Arc<[Rule]>>>,
) -> Rights {
    let mut layers = std::iter::once(own).chain(ancestors).flat_map(|delegation| {
        let found = rules_of(delegation).filter(|layers| !layers.is_empty());
        found.unwrap_or_else(|| vec![[agents::deny_all()].into()])
    });
    Rights {
        rules: layers.next().unwrap_or_else(|| [agents::deny_all()].into()),
        ancestors: layers.collect(),
        worktree: worktree.into(),
        requesters: Arc::default(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use toolgate_model::{Action, Ask};
    use toolgate_permission::judgement::{Judgement, judge};
    use toolgate_permission::rules;

    use super::*;

    fn any_rules() -> impl Strategy<Value = Vec<Rule>> {
        let action = prop_oneof![Just(Action::Allow), Just(Action::Ask), Just(Action::Deny)];
        let name = prop_oneof!["[ab*]{1,2}", Just("task".to_owned()), Just("todowrite".to_owned())];
        let one = (name, "[ab*/ ]{1,3}", action).prop_map(|(permission, pattern, action)| Rule {
            permission,
            pattern,
            action,
        });
        prop::collection::vec(one, 0..8)
    }

    fn strictness(ask: &Ask, rights: &Rights, grants: &[Rule]) -> u8 {
        match judge(ask, rights, grants) {
            Judgement::Allow { .. } => 0,
            Judgement::Ask { .. } => 1,
            Judgement::Deny { .. } => 2,
        }
    }

    /// The rights of each call of a chain, the first one's first. A link is an agent and whether the call is a task's.
    fn chain(agents: &[Vec<Rule>], links: &[(usize, bool)], primary: &[String]) -> Vec<Rights> {
        let rules_of = |delegation: &Delegation| {
            let index: usize = delegation.agent.parse().ok()?;
            Some(vec![layer(agents.get(index)?, primary, delegation.in_task)])
        };
        let mut rights_of_all = Vec::new();
        let mut parent: Option<(Delegation, Vec<Delegation>, bool)> = None;
        for &(agent, is_task) in links {
            let above = parent
                .as_ref()
                .map(|(own, older, is_task)| (own.clone(), older.as_slice(), *is_task));
            let (own, ancestors) = below("w", &agent.to_string(), above);
            rights_of_all.push(combine(&own, &ancestors, Path::new("/w"), rules_of));
            parent = Some((own, ancestors, is_task));
        }
        rights_of_all
    }

    proptest! {
        #[test]
        fn nobody_gains_by_delegating(
            agents in prop::collection::vec(any_rules(), 1..4),
            // The last index names an agent that is configured no more.
            links in prop::collection::vec((0_usize..4, any::<bool>()), 1..12),
            granted in prop::collection::vec(("[ab*]{1,2}", "[ab*/ ]{1,3}"), 0..4),
            permission in prop_oneof!["[ab]", Just("task".to_owned()), Just("todowrite".to_owned())],
            patterns in prop::collection::vec("[ab/ ]{0,3}", 0..4),
        ) {
            let grants: Vec<Rule> = granted
                .into_iter()
                .map(|(permission, pattern)| Rule { permission, pattern, action: Action::Allow })
                .collect();
            let ask = Ask::new(&permission, patterns);
            let chain = chain(&agents, &links, &["a".to_owned()]);
            for pair in chain.windows(2) {
                let [parent, child] = pair else { unreachable!() };
                prop_assert!(strictness(&ask, child, &grants) >= strictness(&ask, parent, &grants));
                for tool in ["a", "b", "task", "todowrite"] {
                    let hidden = |rights: &Rights| rights.layers().any(|rules| rules::disabled(tool, rules));
                    prop_assert!(hidden(child) || !hidden(parent), "{} is back", tool);
                }
                // Every agent of the chain and its limits are there once at most.
                prop_assert!(child.ancestors.len() <= 2 * 4);
            }
        }
    }

    #[test]
    fn what_holds_an_agent_back_does_so_in_a_task() {
        let allow = |permission: &str| rules::rule(permission, "*", Action::Allow);
        let agents = agents::Agents::new(
            &agents::AgentsConfig::default(),
            agents::Folders {
                output_dir: Path::new("/o"),
                data_dir: Path::new("/d"),
                skills: &[],
            },
        );
        let general = agents.get("general").expect("it is built in").as_ref().clone();
        let agent = Agent {
            rules: vec![allow("*"), allow("task")],
            at_most: Some(vec![allow("*")]),
            ..general
        };
        let denied = |in_task: bool| {
            let layers = layers(&agent, &[], in_task);
            assert_eq!(layers.len(), 2);
            layers.iter().any(|rules| rules::disabled("task", rules))
        };
        assert!(!denied(false));
        assert!(denied(true));
    }

    #[test]
    fn a_task_takes_todos_and_tasks_away() {
        let allow = |permission: &str| Rule {
            permission: permission.to_owned(),
            pattern: "*".to_owned(),
            action: Action::Allow,
        };
        let agents = [vec![allow("*")], vec![allow("*"), allow("task")]];
        let check = |links: &[(usize, bool)], tool: &str, expected: u8| {
            let chain = chain(&agents, links, &["bash".to_owned()]);
            let ask = Ask::new(tool, vec!["x".to_owned()]);
            assert_eq!(
                strictness(&ask, &chain[chain.len() - 1], &[]),
                expected,
                "{links:?} {tool}"
            );
        };
        for tool in ["todowrite", "todoread", "task", "bash"] {
            check(&[(0, false), (0, false)], tool, 0);
            check(&[(0, true), (0, false)], tool, 2);
            check(&[(0, true), (0, false), (0, false)], tool, 2);
        }
        check(&[(0, true), (1, false)], "task", 0);
        check(&[(0, true), (1, false)], "todowrite", 2);
        check(&[(0, true), (0, false)], "edit", 0);
        check(&[(9, false), (0, false)], "edit", 2);
    }
}
