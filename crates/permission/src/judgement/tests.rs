//! What rules and grants decide, case by case and for generated rules.

use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use toolgate_model::Action::{Allow, Ask as Asks, Deny};

use super::*;
use crate::rules::{evaluate, rule};

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

fn ask(permission: &str, patterns: &[&str]) -> Ask {
    Ask::new(permission, patterns.iter().map(|&pattern| pattern.to_owned()).collect())
}

fn is_ask(judgement: &Judgement) -> bool {
    matches!(judgement, Judgement::Ask { .. })
}

#[test]
fn grants_answer_questions_and_lift_no_deny() {
    let rules = list(&[("edit", "*", Asks), ("edit", "locked", Deny)]);
    let grant = list(&[("edit", "*", Allow)]);
    let asks = Judgement::Ask {
        rule: Some(rules[0].clone()),
        verdicts: Vec::new(),
    };
    let denies = Judgement::Deny {
        relevant: rules.clone(),
    };
    let cases: [(&[&str], &[Rule], &Judgement); 6] = [
        (&["a"], &[], &asks),
        (&["a"], &grant, &Judgement::Allow { used: vec![0] }),
        (&["a", "locked"], &grant, &denies),
        (&["a", "locked"], &[], &denies),
        (&["a", "b"], &list(&[("edit", "a", Allow)]), &asks),
        (&[], &[], &Judgement::Allow { used: Vec::new() }),
    ];
    for (patterns, grants, expected) in cases {
        let judged = judge(&ask("edit", patterns), &rights(&[&rules]), grants);
        assert_eq!(&judged, expected, "{patterns:?}");
    }
}

#[test]
fn parts_are_judged_by_all_that_they_are() {
    let part = |patterns: &[&str], unclear: Option<&str>| AskPart {
        patterns: patterns.iter().map(|&pattern| pattern.to_owned()).collect(),
        unclear: unclear.map(str::to_owned),
        ..AskPart::default()
    };
    let asking = Ask {
        parts: vec![
            part(&["ls"], None),
            part(&["sudo git push", "git push"], None),
            part(&["eval x"], Some("eval")),
        ],
        ..ask("bash", &["ls", "sudo git push", "eval x"])
    };
    let check = |rules: &[(&str, &str, Action)], granted: &[&str], expected: Option<[Action; 3]>| {
        let rules = list(rules);
        let grants: Vec<Rule> = granted.iter().map(|pattern| rule("bash", pattern, Allow)).collect();
        let found = match judge(&asking, &rights(&[&rules]), &grants) {
            Judgement::Allow { .. } => None,
            Judgement::Ask { verdicts, .. } => Some([0, 1, 2].map(|part| verdicts[part].action)),
            Judgement::Deny { .. } => Some([Deny; 3]),
        };
        assert_eq!(found, expected, "{rules:?} {granted:?}");
    };
    check(&[("*", "*", Allow)], &[], None);
    check(&[("bash", "*", Asks)], &[], Some([Asks; 3]));
    check(&[("bash", "*", Asks)], &["ls *"], Some([Allow, Asks, Asks]));
    check(
        &[("bash", "*", Asks)],
        &["ls *", "sudo *", "git push *", "eval *"],
        Some([Allow, Allow, Asks]),
    );
    check(
        &[("*", "*", Allow), ("bash", "git push *", Asks)],
        &[],
        Some([Allow, Asks, Asks]),
    );
    check(
        &[("*", "*", Allow), ("bash", "rm *", Deny)],
        &[],
        Some([Allow, Allow, Asks]),
    );
    check(
        &[("*", "*", Allow), ("bash", "git push *", Deny)],
        &["*"],
        Some([Deny; 3]),
    );
    check(&[("bash", "rm *", Deny), ("*", "*", Allow)], &[], None);
}

#[test]
fn other_ways_to_write_a_text_are_held_back_by_name_only() {
    let text = "git diff HEAD --stat";
    let asking = |variants: &[&str]| Ask {
        parts: vec![AskPart {
            patterns: vec![text.to_owned()],
            variants: variants.iter().map(|&variant| variant.to_owned()).collect(),
            ..AskPart::default()
        }],
        ..ask("bash", &[text])
    };
    let check = |layers: &[&[(&str, Action)]], expected: Action| {
        let layers: Vec<Vec<Rule>> = layers
            .iter()
            .map(|rows| {
                rows.iter()
                    .map(|&(pattern, action)| rule("bash", pattern, action))
                    .collect()
            })
            .collect();
        let layers: Vec<&[Rule]> = layers.iter().map(Vec::as_slice).collect();
        let judged = judge(&asking(&["git diff --stat HEAD"]), &rights(&layers), &[]);
        assert_eq!(strictness(&judged), expected as u8, "{layers:?}");
    };
    check(&[&[("*", Deny), (text, Allow)]], Allow);
    check(&[&[("*", Asks), (text, Allow)]], Allow);
    check(&[&[(text, Allow)]], Allow);
    check(&[&[("**", Deny), ("git diff HEAD *", Allow)]], Allow);
    check(&[&[("*", Deny), (text, Allow), ("* --stat *", Asks)]], Asks);
    check(&[&[(text, Allow), ("git diff --stat *", Deny)]], Deny);
    check(&[&[("*", Allow), ("git diff --stat *", Deny)]], Deny);
    check(&[&[("*", Deny), (text, Allow)], &[("*", Asks), (text, Allow)]], Allow);
    check(&[&[("*", Deny), (text, Allow)], &[("*", Asks)]], Asks);
    check(&[&[(text, Allow)], &[("*", Allow), ("* --stat *", Deny)]], Deny);
}

#[test]
fn a_grant_for_a_text_is_one_for_other_ways_to_write_it() {
    let asking = Ask {
        parts: vec![AskPart {
            patterns: vec!["git -C x push".to_owned()],
            variants: vec!["git push".to_owned()],
            ..AskPart::default()
        }],
        ..ask("bash", &["git -C x push"])
    };
    let check = |rows: &[(&str, Action)], granted: &str, expected: Action| {
        let rules: Vec<Rule> = rows
            .iter()
            .map(|&(pattern, action)| rule("bash", pattern, action))
            .collect();
        let judged = judge(&asking, &rights(&[&rules]), &[rule("bash", granted, Allow)]);
        assert_eq!(strictness(&judged), expected as u8, "{rows:?} {granted}");
    };
    check(&[("*", Asks)], "git -C *", Allow);
    check(&[("*", Asks)], "git push *", Asks);
    check(&[("*", Asks), ("git -C *", Asks)], "git -C *", Allow);
    check(&[("*", Asks), ("git push *", Asks)], "git -C *", Asks);
    check(&[("*", Asks), ("git push *", Deny)], "git -C *", Deny);
    check(&[("*", Deny), ("git -C *", Asks)], "git -C *", Deny);
}

#[test]
fn the_strictest_layer_decides() {
    let check = |layers: &[&[Rule]], grants: &[Rule], expected: Action| {
        let found = match judge(&ask("bash", &["x"]), &rights(layers), grants) {
            Judgement::Allow { .. } => Allow,
            Judgement::Ask { .. } => Asks,
            Judgement::Deny { .. } => Deny,
        };
        assert_eq!(found, expected, "{layers:?}");
    };
    let [allow, asks, deny] = [Allow, Asks, Deny].map(|action| list(&[("*", "*", action)]));
    check(&[&allow, &allow], &[], Allow);
    check(&[&allow, &asks], &[], Asks);
    check(&[&asks, &allow], &allow, Allow);
    check(&[&allow, &deny], &allow, Deny);
    check(&[&deny, &allow], &allow, Deny);
    check(&[&allow, &allow, &asks], &[], Asks);
}

fn any_rules() -> impl Strategy<Value = Vec<Rule>> {
    let action = prop_oneof![Just(Allow), Just(Asks), Just(Deny)];
    let one = ("[ab*]{1,2}", "[ab*/ ]{1,3}", action).prop_map(|(name, pattern, action)| Rule {
        permission: name,
        pattern,
        action,
    });
    prop::collection::vec(one, 0..8)
}

fn any_ask() -> impl Strategy<Value = Ask> {
    let patterns = || prop::collection::vec("[ab/ ]{0,3}", 0..4);
    let part = (patterns(), patterns(), any::<bool>()).prop_map(|(patterns, variants, unclear)| AskPart {
        patterns,
        variants,
        unclear: unclear.then(String::new),
        ..AskPart::default()
    });
    (patterns(), prop::collection::vec(part, 0..3)).prop_map(|(patterns, parts)| Ask {
        parts,
        ..Ask::new("a", patterns)
    })
}

fn strictness(judgement: &Judgement) -> u8 {
    match judgement {
        Judgement::Allow { .. } => 0,
        Judgement::Ask { .. } => 1,
        Judgement::Deny { .. } => 2,
    }
}

/// Puts the other ways to write a part among its patterns, or leaves them out.
fn with_variants(ask: &Ask, as_patterns: bool) -> Ask {
    let mut ask = ask.clone();
    for part in &mut ask.parts {
        let variants = std::mem::take(&mut part.variants);
        part.patterns.extend(variants.into_iter().filter(|_| as_patterns));
    }
    ask
}

proptest! {
    #[test]
    fn a_variant_only_tightens(own in any_rules(), parent in any_rules(), grants in any_rules(), ask in any_ask()) {
        let rights = rights(&[&own, &parent]);
        let judged = strictness(&judge(&ask, &rights, &grants));
        prop_assert!(judged >= strictness(&judge(&with_variants(&ask, false), &rights, &grants)));
        prop_assert!(judged <= strictness(&judge(&with_variants(&ask, true), &rights, &grants)));
    }

    #[test]
    fn a_variant_is_held_back_by_name(own in any_rules(), parent in any_rules(), ask in any_ask()) {
        let judged = strictness(&judge(&ask, &rights(&[&own, &parent]), &[]));
        for variant in ask.parts.iter().flat_map(|part| &part.variants) {
            for rules in [&own, &parent] {
                let (action, rule) = evaluate("a", variant, &[rules]);
                if rule.is_some_and(|rule| !rule.pattern.trim_matches('*').is_empty() || rule.pattern.is_empty()) {
                    prop_assert!(judged >= action as u8);
                }
            }
        }
    }

    #[test]
    fn a_variant_of_what_no_rule_allows_by_name_is_a_pattern(rules in any_rules(), grants in any_rules(), ask in any_ask()) {
        let is_named = |text: &String| {
            let allows = |rules: &[Rule]| {
                let (_, rule) = evaluate("a", text, &[rules]);
                rule.is_some_and(|rule| rule.action == Allow && !rule.pattern.trim_matches('*').is_empty())
            };
            allows(&rules) || allows(&grants)
        };
        let rights = rights(&[&rules]);
        if !ask.parts.iter().filter_map(|part| part.patterns.first()).any(is_named) {
            let as_patterns = judge(&with_variants(&ask, true), &rights, &grants);
            prop_assert_eq!(strictness(&judge(&ask, &rights, &grants)), strictness(&as_patterns));
        }
    }

    #[test]
    fn no_grant_lifts_a_deny(rules in any_rules(), grants in any_rules(), ask in any_ask()) {
        let ask = with_variants(&ask, true);
        let mut patterns = ask.patterns.iter().chain(ask.parts.iter().flat_map(|part| &part.patterns));
        let denied = patterns.any(|pattern| evaluate("a", pattern, &[&rules]).0 == Deny);
        let judged = judge(&ask, &rights(&[&rules]), &grants);
        let is_deny = matches!(judged, Judgement::Deny { .. });
        prop_assert_eq!(denied, is_deny);
    }

    #[test]
    fn grants_only_turn_questions_into_allow(rules in any_rules(), grants in any_rules(), ask in any_ask()) {
        let grants: Vec<Rule> = grants.into_iter().filter(|grant| grant.action == Allow).collect();
        let without = judge(&ask, &rights(&[&rules]), &[]);
        let with = judge(&ask, &rights(&[&rules]), &grants);
        if is_ask(&without) {
            prop_assert!(strictness(&with) <= 1);
        } else {
            prop_assert_eq!(without, with);
        }
    }

    #[test]
    fn nothing_unclear_is_ever_granted(rules in any_rules(), grants in any_rules(), patterns in prop::collection::vec("[ab/ ]{0,3}", 0..4)) {
        let part = AskPart { patterns, unclear: Some(String::new()), ..AskPart::default() };
        let ask = Ask { parts: vec![part], ..Ask::new("a", Vec::new()) };
        let everything = Ask::new("a", vec!["something that no rule of this test names".to_owned()]);
        if strictness(&judge(&everything, &rights(&[&rules]), &[])) > 0 {
            prop_assert!(strictness(&judge(&ask, &rights(&[&rules]), &grants)) > 0);
        }
    }

    #[test]
    fn no_child_has_more_than_its_parent(own in any_rules(), parent in any_rules(), above in any_rules(), grants in any_rules(), ask in any_ask()) {
        let child = judge(&ask, &rights(&[&own, &parent, &above]), &grants);
        for ancestor in [&parent, &above] {
            prop_assert!(strictness(&child) >= strictness(&judge(&ask, &rights(&[ancestor]), &grants)));
        }
        prop_assert!(strictness(&child) >= strictness(&judge(&ask, &rights(&[&own]), &grants)));
    }
}
