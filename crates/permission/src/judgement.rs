//! What rules and grants say about a request, and about each of its parts (`docs/spec/permission.md` §6, §13).
//!
//! *Invariant:* pure. A deny wins over everything, whichever ruleset it stands in and whatever was granted. With the
//! rules of ancestors in play the strictest ruleset decides, so nobody gains a right by delegating.

use toolgate_model::{Action, Ask, AskPart, PartVerdict, Rule};

use super::Rights;
use super::by_name::{Named, are_commands_confined, holds_back, named};
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
        let is_guarded = |part: &&AskPart| {
            part.guarded.is_some() && (holds_back(rights) || part.holds_rules && are_commands_confined(rights))
        };
        let guarded = part.filter(is_guarded);
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
mod tests;
