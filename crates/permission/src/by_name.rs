//! What is allowed by name, and not only because everything is: what programs obey must be.
//!
//! *Invariant:* pure. It only ever turns an allowed pattern into a question, and only where the rules hold something back, or
//! walls do.

use toolgate_model::{Action, Rule};

use super::Rights;
use super::judgement::{anything, is_for_everything};
use super::rules::evaluate_in;
use super::wildcard;

/// The permission for what lies outside the workspace.
const OUTSIDE: &str = "external_directory";

/// What allows a pattern by more than a rule or grant for everything.
pub(super) enum Named {
    /// The rules of every layer.
    ByRule,
    /// A grant, by its place.
    ByGrant(usize),
    /// Nothing does.
    Not,
}

/// Returns what allows a pattern by name.
pub(super) fn named(permission: &str, pattern: &str, rights: &Rights, grants: &[Rule]) -> Named {
    let matches = |rule: &Rule| {
        let rules = std::slice::from_ref(rule);
        evaluate_in(&rights.worktree, permission, pattern, &[rules]).1.is_some()
    };
    let allows = |rule: &Rule| rule.action == Action::Allow;
    // A later rule that allows everything takes nothing back.
    let is_named = rights.layers().all(|rules| {
        let mut speaking = rules.iter().rev().filter(|rule| matches(rule));
        let decides = speaking.find(|rule| !(allows(rule) && is_for_everything(Some(rule))));
        decides.is_some_and(allows)
    });
    if is_named {
        return Named::ByRule;
    }
    grants
        .iter()
        .position(|grant| allows(grant) && !is_for_everything(Some(grant)) && matches(grant))
        .map_or(Named::Not, Named::ByGrant)
}

/// Says whether the rules ask for or deny anything of what commands and edits do, or of what lies outside. That people are
/// asked about what lies outside is so without any rule of theirs, and says nothing.
pub(super) fn holds_back(rights: &Rights) -> bool {
    ["bash", "edit"]
        .iter()
        .any(|permission| anything(permission, rights).is_some())
        || rights.layers().any(|rules| {
            let outside = rules.iter().rev();
            let outside = outside.filter(|rule| wildcard::matches(OUTSIDE, &rule.permission));
            let in_force = outside.take_while(|rule| !(rule.action == Action::Allow && is_for_everything(Some(rule))));
            let (by_default, others): (Vec<&Rule>, Vec<&Rule>) =
                in_force.filter(|rule| rule.action != Action::Allow).partition(|rule| {
                    rule.action == Action::Ask && rule.permission == OUTSIDE && is_for_everything(Some(rule))
                });
            by_default.len() > 1 || !others.is_empty()
        })
}

/// Says whether commands run within walls, where nothing is held back: nobody has said that every command is allowed. Who could
/// change the rules would take the walls away.
pub(super) fn are_commands_confined(rights: &Rights) -> bool {
    let allows_all = |rule: &Rule| {
        let is_allowed = rule.action == Action::Allow && is_for_everything(Some(rule));
        is_allowed && wildcard::matches("bash", &rule.permission)
    };
    // The first rule of every agent is built in: nobody has said it.
    !rights.layers().all(|rules| rules.iter().skip(1).any(allows_all))
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use toolgate_model::Action::{Allow, Ask as Asks, Deny};
    use toolgate_model::{Ask, AskPart};

    use super::*;
    use crate::judgement::{Judgement, judge};
    use crate::rules::rule;

    fn list(rows: &[(&str, &str, Action)]) -> Vec<Rule> {
        rows.iter()
            .map(|&(name, pattern, action)| rule(name, pattern, action))
            .collect()
    }

    fn rights(layers: &[&[Rule]]) -> Rights {
        let mut layers = layers.iter().map(|&rules| Arc::from(rules));
        Rights {
            rules: layers.next().unwrap(),
            ancestors: layers.collect(),
            worktree: Path::new("/w").into(),
            requesters: Arc::default(),
        }
    }

    fn action(judgement: &Judgement) -> Action {
        match judgement {
            Judgement::Allow { .. } => Allow,
            Judgement::Ask { .. } => Asks,
            Judgement::Deny { .. } => Deny,
        }
    }

    #[test]
    fn rules_are_changed_unasked_only_where_commands_may_do_anything() {
        let path = "opencode.json";
        let asking = Ask {
            parts: vec![AskPart {
                patterns: vec![path.to_owned()],
                guarded: Some("it holds the rules".to_owned()),
                holds_rules: true,
                ..AskPart::default()
            }],
            ..Ask::new("edit", vec![path.to_owned()])
        };
        let defaults = [("*", "*", Allow), ("external_directory", "*", Asks)];
        let check = |own: &[(&str, &str, Action)], expected: Action| {
            let judged = judge(&asking, &rights(&[&list(&[&defaults, own].concat())]), &[]);
            assert_eq!(action(&judged), expected, "{own:?}");
        };
        check(&[], Asks);
        check(&[("webfetch", "*", Deny), ("read", "secret/*", Deny)], Asks);
        check(&[("edit", "*", Allow)], Asks);
        check(&[("bash", "git *", Allow)], Asks);
        check(&[("bash", "*", Allow), ("edit", "secret", Deny)], Asks);
        check(&[("edit", path, Allow)], Allow);
        check(&[("bash", "*", Allow)], Allow);
        check(&[("*", "*", Allow)], Allow);
        let [confined, free] = [
            list(&defaults),
            list(&[&defaults[..], &[("bash", "*", Allow)]].concat()),
        ];
        assert_eq!(action(&judge(&asking, &rights(&[&free, &confined]), &[])), Asks);
    }

    #[test]
    fn what_programs_obey_is_allowed_by_name_only() {
        let path = ".git/config";
        let asking = Ask {
            parts: vec![AskPart {
                patterns: vec![path.to_owned()],
                guarded: Some("git obeys it".to_owned()),
                ..AskPart::default()
            }],
            ..Ask::new("edit", vec![path.to_owned(), "src/a.rs".to_owned()])
        };
        let defaults = [
            ("*", "*", Allow),
            ("external_directory", "*", Asks),
            ("external_directory", "/out/*", Allow),
        ];
        let check = |own: &[(&str, &str, Action)], granted: &[&str], expected: Action| {
            let rules = list(&[&defaults, own].concat());
            let grants: Vec<Rule> = granted.iter().map(|pattern| rule("edit", pattern, Allow)).collect();
            let judged = judge(&asking, &rights(&[&rules]), &grants);
            assert_eq!(action(&judged), expected, "{own:?} {granted:?}");
            if let Judgement::Ask { verdicts, .. } = judged {
                assert_eq!(verdicts[0].action, Asks);
            }
        };
        // Who holds nothing back is not asked.
        check(&[], &[], Allow);
        check(&[("edit", "*", Allow), ("bash", "*", Allow)], &[], Allow);
        check(&[("webfetch", "*", Asks), ("read", "*", Deny)], &[], Allow);
        check(&[("external_directory", "*", Allow)], &[], Allow);
        for held in [
            ("bash", "*", Asks),
            ("bash", "rm *", Deny),
            ("external_directory", "*", Deny),
            ("external_directory", "*", Asks),
            ("external_directory", "/etc/*", Asks),
            ("edit", "secret", Deny),
        ] {
            check(&[held], &[], Asks);
            check(
                &[held, ("edit", "*", Allow), ("bash", "git *", Allow)],
                &[],
                if held.0 == "edit" { Allow } else { Asks },
            );
            check(&[held, ("edit", ".git/*", Allow)], &[], Allow);
            check(
                &[held, ("edit", "/w/.git/config", Allow), ("edit", "**", Allow)],
                &[],
                Allow,
            );
            check(&[held, ("edit", "src/*", Allow)], &[], Asks);
            check(&[held, ("edit", path, Deny)], &[], Deny);
            check(&[held], &["*"], Asks);
            check(&[held], &["*", path], Allow);
            check(&[held], &[path, "*"], Allow);
        }
        check(&[("edit", "*", Asks)], &["*"], Asks);
        check(&[("edit", "*", Asks)], &["*", ".git/*"], Allow);
        check(
            &[("bash", "*", Asks), ("edit", path, Asks), ("edit", "*", Allow)],
            &[],
            Asks,
        );

        let [all, held] = [
            list(&defaults),
            list(&[("*", "*", Allow), ("bash", "*", Asks), ("edit", path, Allow)]),
        ];
        let judged = judge(&asking, &rights(&[&all, &held]), &[]);
        assert_eq!(action(&judged), Asks, "each layer must name it");
        let grant = [rule("edit", path, Allow)];
        let judged = judge(&asking, &rights(&[&all, &held]), &grant);
        assert_eq!(judged, Judgement::Allow { used: vec![0] });
    }
}
