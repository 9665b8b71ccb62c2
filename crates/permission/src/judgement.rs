//! What rules and grants say about a request, and about each of its parts (`docs/spec/permission.md` §6, §13).
//!
//! *Invariant:* pure. A deny wins over everything, whichever ruleset it stands in and whatever was granted. With the
//! rules of ancestors in play the strictest ruleset decides, so nobody gains a right by delegating.

use toolgate_model::{Action, Ask, AskPart, PartVerdict, Rule};

use super::Rights;
use super::by_name::{Named, holds_back, named};
use super::rules::{evaluate_in, relevant};
use super::wildcard;

/// What the rules and the grants say about one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// Every pattern is allowed.
    Allow {
        /// Which of the grants it takes, by their places; none if the rules allow it alone.
        used: Vec<usize>,
    },
    /// A person must be asked.
    Ask {
        /// The rule that asks first; none if no rule matched.
        rule: Option<Rule>,
        /// The verdict on each part, in their order.
        verdicts: Vec<PartVerdict>,
    },
    /// A rule forbids one of the patterns.
    Deny {
        /// The rules for the permission, for the text that the model reads.
        relevant: Vec<Rule>,
    },
}

impl Judgement {
    /// Says whether the rules allow it, without a grant.
    pub fn is_allowed_by_rule(&self) -> bool {
        matches!(self, Self::Allow { used } if used.is_empty())
    }

    fn is_denied(&self) -> bool {
        matches!(self, Self::Deny { .. })
    }
}

/// Judges a request. All patterns are looked at before anybody is asked, and a deny among them always wins; grants
/// answer only where the rules would ask (`docs/spec/permission.md` §13 P1 and P2). Without patterns nothing is asked.
/// A deny of what is asked later counts as well: an approval of the first question would be for nothing.
pub fn judge(ask: &Ask, rights: &Rights, grants: &[Rule]) -> Judgement {
    let own = judge_alone(ask, rights, grants);
    if own.is_denied() {
        return own;
    }
    let mut later = ask.then.iter().map(|later| judge_alone(later, rights, grants));
    later.find(Judgement::is_denied).unwrap_or(own)
}

/// Returns which of a request and of those that follow it the rules deny, the first of them; the request itself if they deny
/// none.
pub fn denied<'a>(ask: &'a Ask, rights: &Rights) -> &'a Ask {
    let is_denied = |ask: &&Ask| judge_alone(ask, rights, &[]).is_denied();
    std::iter::once(ask).chain(&ask.then).find(is_denied).unwrap_or(ask)
}

/// What rules and grants say of one request and of each of its parts, for somebody who only wants to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Appraisal {
    /// The verdict on the request.
    pub action: Action,
    /// The rule that decided; none if no rule matched.
    pub rule: Option<Rule>,
    /// The verdict on each part by itself, in their order.
    pub parts: Vec<PartVerdict>,
    /// Which of the grants allow it, by their places.
    pub used: Vec<usize>,
}

/// Judges a request, and each of its parts by itself. What follows the request is left aside.
pub fn appraise(ask: &Ask, rights: &Rights, grants: &[Rule]) -> Appraisal {
    let verdict = |ask: &Ask| {
        let first = || deciding(ask, rights).into_iter().next();
        match judge_alone(ask, rights, grants) {
            Judgement::Allow { used } => (Action::Allow, first(), used),
            Judgement::Ask { rule, .. } => (Action::Ask, rule, Vec::new()),
            Judgement::Deny { .. } => (Action::Deny, first(), Vec::new()),
        }
    };
    let of_part = |part: &AskPart| {
        let (action, rule, used) = verdict(&Ask {
            parts: vec![part.clone()],
            ..Ask::new(&ask.permission, Vec::new())
        });
        let granted = !used.is_empty();
        PartVerdict { action, rule, granted }
    };
    let (action, rule, used) = verdict(ask);
    Appraisal {
        action,
        rule,
        parts: ask.parts.iter().map(of_part).collect(),
        used,
    }
}

/// Judges a request without those that follow it.
fn judge_alone(ask: &Ask, rights: &Rights, grants: &[Rule]) -> Judgement {
    let mut asking = None;
    let mut used = Vec::new();
    let mut verdicts = Vec::with_capacity(ask.parts.len());
    let whole = (alone(ask), None);
    let parts = ask.parts.iter().map(|part| (of_part(part), Some(part)));
    for (index, (patterns, part)) in std::iter::once(whole).chain(parts).enumerate() {
        let mut verdict = PartVerdict::default();
        for pattern in patterns {
            match judge_pattern(&ask.permission, pattern, rights, grants) {
                Verdict::Allow { rule, grant } => {
                    tighten(&mut verdict, Action::Allow, rule, grant.is_some());
                    used.extend(grant.filter(|grant| !used.contains(grant)));
                }
                Verdict::Ask { rule } => tighten(&mut verdict, Action::Ask, rule, false),
                Verdict::Deny { rules } => {
                    let relevant = relevant(&ask.permission, rules);
                    return Judgement::Deny { relevant };
                }
            }
        }
        let unclear = part.and_then(|part| part.unclear.as_ref());
        if let Some(rule) = unclear.and_then(|_| anything(&ask.permission, rights)) {
            tighten(&mut verdict, Action::Ask, rule, false);
        }
        let guarded = part.filter(|part| part.guarded.is_some() && holds_back(rights));
        for pattern in guarded.iter().flat_map(|part| &part.patterns) {
            match named(&ask.permission, pattern, rights, grants) {
                Named::ByRule => {}
                Named::ByGrant(grant) => {
                    verdict.granted = verdict.action == Action::Allow;
                    used.extend(Some(grant).filter(|grant| !used.contains(grant)));
                }
                Named::Not => tighten(&mut verdict, Action::Ask, None, false),
            }
        }
        if verdict.action == Action::Ask && asking.is_none() {
            asking = Some(verdict.rule.clone());
        }
        if index > 0 {
            verdicts.push(verdict);
        }
    }
    match asking {
        Some(rule) => Judgement::Ask { rule, verdicts },
        None if ask.only_people => Judgement::Ask { rule: None, verdicts },
        None => Judgement::Allow { used },
    }
}

/// Says whether a rule denies a permission for one pattern, whatever is granted.
pub fn denies(permission: &str, pattern: &str, rights: &Rights) -> bool {
    let pattern = Judged {
        pattern,
        text: None,
        equivalents: &[],
    };
    matches!(judge_pattern(permission, pattern, rights, &[]), Verdict::Deny { .. })
}

/// A pattern that is judged.
#[derive(Clone, Copy)]
struct Judged<'a> {
    pattern: &'a str,
    /// The text that the pattern is another way to write; none if it is judged for itself.
    text: Option<&'a str>,
    /// What means the very same as the text.
    equivalents: &'a [String],
}

/// Returns what is judged: the patterns, and the other ways to write the first of them.
fn judged<'a>(patterns: &'a [String], variants: &'a [String], equivalents: &'a [String]) -> Vec<Judged<'a>> {
    let text = patterns.first().map(String::as_str);
    let own = patterns.iter().enumerate().map(move |(place, pattern)| Judged {
        pattern,
        text: None,
        equivalents: if place == 0 { equivalents } else { &[] },
    });
    own.chain(variants.iter().map(move |pattern| Judged {
        pattern,
        text,
        equivalents,
    }))
    .collect()
}

/// Returns the patterns of a request that none of its parts has: a part knows more of its own ones.
fn alone(ask: &Ask) -> Vec<Judged<'_>> {
    let is_of = |part: &AskPart, pattern| part.patterns.contains(pattern) || part.variants.contains(pattern);
    let patterns = ask
        .patterns
        .iter()
        .filter(|pattern| !ask.parts.iter().any(|part| is_of(part, pattern)));
    let judged = patterns.map(|pattern| Judged {
        pattern,
        text: None,
        equivalents: &[],
    });
    judged.collect()
}

fn of_part(part: &AskPart) -> Vec<Judged<'_>> {
    judged(&part.patterns, &part.variants, &part.equivalents)
}

/// The verdict on one pattern.
enum Verdict<'r> {
    Allow {
        rule: Option<&'r Rule>,
        /// The place of the grant that it takes.
        grant: Option<usize>,
    },
    Ask {
        rule: Option<&'r Rule>,
    },
    Deny {
        rules: &'r [Rule],
    },
}

fn judge_pattern<'r>(permission: &str, judged: Judged<'_>, rights: &'r Rights, grants: &[Rule]) -> Verdict<'r> {
    let pattern = judged.pattern;
    let mut allowing = None;
    let mut asking = None;
    let mut settled: Option<&String> = None;
    for rules in rights.layers() {
        let (action, rule) = evaluate_in(&rights.worktree, permission, pattern, &[rules]);
        // Rules are written, and grants given, for the text. A rule for everything says nothing about another way to write it.
        let is_settled = |text: &str| match evaluate_in(&rights.worktree, permission, text, &[rules]) {
            (Action::Allow, rule) => !is_for_everything(rule),
            (Action::Ask, _) if action == Action::Ask => {
                let (granted, grant) = evaluate_in(&rights.worktree, permission, text, &[grants]);
                granted == Action::Allow && !is_for_everything(grant)
            }
            (Action::Ask | Action::Deny, _) => false,
        };
        let mut others = judged
            .text
            .into_iter()
            .chain(judged.equivalents.iter().map(String::as_str));
        if action != Action::Allow && is_for_everything(rule) && others.any(is_settled) {
            // Which rule or grant settled it is told with the verdict.
            settled = settled.or_else(|| judged.equivalents.iter().find(|text| is_settled(text)));
            continue;
        }
        match action {
            Action::Allow => allowing = rule,
            Action::Ask => asking = asking.or(Some(rule)),
            Action::Deny => return Verdict::Deny { rules },
        }
    }
    let granted = |text: &str| match evaluate_in(&rights.worktree, permission, text, &[grants]) {
        (Action::Allow, found) => found.and_then(|found| grants.iter().position(|grant| std::ptr::eq(grant, found))),
        (Action::Ask | Action::Deny, _) => None,
    };
    let Some(rule) = asking else {
        return Verdict::Allow {
            rule: allowing,
            grant: settled.and_then(|text| granted(text)),
        };
    };
    match granted(pattern) {
        Some(grant) => Verdict::Allow {
            rule,
            grant: Some(grant),
        },
        None => Verdict::Ask { rule },
    }
}

/// Says whether a verdict comes from no rule, or from one that matches anything.
pub(super) fn is_for_everything(rule: Option<&Rule>) -> bool {
    rule.is_none_or(|rule| !rule.pattern.is_empty() && rule.pattern.bytes().all(|byte| byte == b'*'))
}

/// Returns the rules that decide a request where no grant does, each once; of a denied request the one that denies.
pub fn deciding(ask: &Ask, rights: &Rights) -> Vec<Rule> {
    let mut deciding: Vec<Rule> = Vec::new();
    let parts = ask.parts.iter().flat_map(of_part);
    for judged in alone(ask).into_iter().chain(parts) {
        let rule = match judge_pattern(&ask.permission, judged, rights, &[]) {
            Verdict::Allow { rule, .. } | Verdict::Ask { rule } => rule,
            Verdict::Deny { rules } => {
                let (_, rule) = evaluate_in(&rights.worktree, &ask.permission, judged.pattern, &[rules]);
                return rule.cloned().into_iter().collect();
            }
        };
        deciding.extend(rule.filter(|rule| !deciding.contains(rule)).cloned());
    }
    deciding
}

/// Returns the rule that stands against doing just anything under a permission, none inside if it is that no rule
/// allows it; none at all if everything is allowed.
pub(super) fn anything<'r>(permission: &str, rights: &'r Rights) -> Option<Option<&'r Rule>> {
    rights.layers().find_map(|rules| {
        for rule in rules.iter().rev() {
            if !wildcard::matches(permission, &rule.permission) {
                continue;
            }
            if rule.action != Action::Allow {
                return Some(Some(rule));
            }
            if is_for_everything(Some(rule)) {
                return None;
            }
        }
        Some(None)
    })
}

/// Takes in the verdict on one more pattern; the first of the strictest stays.
fn tighten(verdict: &mut PartVerdict, action: Action, rule: Option<&Rule>, granted: bool) {
    let is_stricter = verdict.action == Action::Allow && action == Action::Ask;
    if is_stricter || verdict.rule.is_none() {
        verdict.rule = rule.cloned();
    }
    if is_stricter {
        verdict.action = action;
    }
    verdict.granted = verdict.action == Action::Allow && (verdict.granted || granted);
}

#[cfg(test)]
mod tests {
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
}
