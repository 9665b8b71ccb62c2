//! What an "always" would allow: patterns, the narrowest first, of which a person takes some, and how far they reach.
//!
//! *Invariant:* what lasts for good takes a second key. A broad pattern is marked, and is chosen by nobody but the person.

use toolgate_client::Decision;
use toolgate_contract::{GrantReach, GrantScope, PermissionAction, PermissionRequest};

use super::field::Field;
use crate::cli::prompt::patterns::{is_broad, sorted};
use crate::cli::scope;

/// A pattern that may be allowed from now on.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) pattern: String,
    pub(super) is_broad: bool,
    pub(super) is_chosen: bool,
}

/// A limit that is being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    Time,
    Uses,
}

/// What the panel of an "always" is at.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Choosing,
    /// The key for good was pressed once.
    ForGood,
    Limit(Limit, Field),
}

/// The panel.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Always {
    pub(super) choices: Vec<Choice>,
    pub(super) at: usize,
    pub(super) stage: Stage,
    /// What was wrong with the last key or text.
    pub(super) problem: Option<String>,
}

impl Always {
    /// Opens the panel; none if there is nothing to allow from now on.
    pub(super) fn of(request: &PermissionRequest) -> Option<Self> {
        if request.always.is_empty() {
            return None;
        }
        let chosen = chosen_beforehand(request);
        let choices = sorted(&request.permission, &request.always).into_iter();
        let choices = choices.map(|pattern| Choice {
            is_broad: is_broad(&request.permission, &pattern),
            is_chosen: chosen.contains(&pattern),
            pattern,
        });
        Some(Self {
            choices: choices.collect(),
            at: 0,
            stage: Stage::Choosing,
            problem: None,
        })
    }

    pub(super) fn step(&mut self, down: bool) {
        let last = self.choices.len().saturating_sub(1);
        self.at = if down {
            (self.at + 1).min(last)
        } else {
            self.at.saturating_sub(1)
        };
    }

    pub(super) fn toggle(&mut self) {
        if let Some(choice) = self.choices.get_mut(self.at) {
            choice.is_chosen = !choice.is_chosen;
        }
    }

    /// Returns the decision with a reach; none without a pattern, which is then said.
    pub(super) fn decide(&mut self, scope: GrantScope) -> Option<Decision> {
        let chosen = self.choices.iter().filter(|choice| choice.is_chosen);
        let patterns: Vec<String> = chosen.map(|choice| choice.pattern.clone()).collect();
        if patterns.is_empty() {
            self.problem = Some("Choose a pattern first (Space).".to_owned());
            self.stage = Stage::Choosing;
            return None;
        }
        Some(Decision::Always { scope, patterns })
    }

    /// Takes the limit that was written.
    pub(super) fn limited(&mut self) -> Option<Decision> {
        let Stage::Limit(limit, field) = &self.stage else {
            return None;
        };
        let text = field.text();
        let read = match limit {
            Limit::Time => scope::lasting(text.trim()),
            Limit::Uses => scope::times(text.trim()),
        };
        match read {
            Ok(scope) => self.decide(scope),
            Err(why) => {
                self.problem = Some(why);
                None
            }
        }
    }

    /// Leaves what was begun last; says whether that was the panel itself.
    pub(super) fn leave(&mut self) -> bool {
        let is_over = self.stage == Stage::Choosing;
        self.stage = Stage::Choosing;
        is_over
    }

    pub(super) fn for_good(&mut self) -> Option<Decision> {
        self.decide(scope::unlimited(GrantReach::Workspace))
    }
}

/// Returns which patterns are chosen when the panel opens: of each part that is asked about the narrowest, so that the same line is
/// not asked about again, or all where there are no such parts; but none that is broad.
fn chosen_beforehand(request: &PermissionRequest) -> Vec<String> {
    let narrowest = |patterns: &[String]| sorted(&request.permission, patterns).into_iter().next();
    let parts = request.parts.iter();
    let asked = parts.filter(|part| part.action() != PermissionAction::Allow);
    let mut chosen: Vec<String> = asked.filter_map(|part| narrowest(&part.always)).collect();
    if chosen.is_empty() {
        chosen.clone_from(&request.always);
    }
    chosen.retain(|pattern| !is_broad(&request.permission, pattern));
    chosen
}

#[cfg(test)]
mod tests {
    use toolgate_contract::PermissionPart;

    use super::*;

    fn request(permission: &str, always: &[&str]) -> PermissionRequest {
        PermissionRequest {
            permission: permission.into(),
            always: always.iter().map(|&pattern| pattern.to_owned()).collect(),
            ..PermissionRequest::default()
        }
    }

    fn part(always: &str, action: PermissionAction) -> PermissionPart {
        PermissionPart {
            always: vec![always.to_owned()],
            action: action.into(),
            ..PermissionPart::default()
        }
    }

    fn shown(always: &Always) -> Vec<(&str, bool, bool)> {
        let choices = always.choices.iter();
        choices
            .map(|choice| (choice.pattern.as_str(), choice.is_broad, choice.is_chosen))
            .collect()
    }

    #[test]
    fn the_narrowest_comes_first_and_broad_ones_are_marked() {
        let asked = request("bash", &["rm *", "git push *", "git push origin *"]);
        let mut always = Always::of(&asked).unwrap();
        assert_eq!(
            shown(&always),
            [
                ("git push origin *", false, true),
                ("git push *", false, true),
                ("rm *", true, false)
            ]
        );
        always.toggle();
        always.step(true);
        always.toggle();
        assert!(always.for_good().is_none() && always.problem.is_some());
        assert!(Always::of(&request("bash", &[])).is_none());
        let edit = request("edit", &["*"]);
        assert_eq!(shown(&Always::of(&edit).unwrap()), [("*", true, false)]);
    }

    #[test]
    fn what_is_asked_again_otherwise_is_chosen() {
        let mut asked = request("bash", &["ls *", "git push *", "make *"]);
        asked.parts = vec![
            part("ls *", PermissionAction::Allow),
            part("git push *", PermissionAction::Ask),
            part("make *", PermissionAction::Ask),
        ];
        let mut always = Always::of(&asked).unwrap();
        assert_eq!(
            shown(&always),
            [
                ("git push *", false, true),
                ("make *", true, false),
                ("ls *", true, false)
            ]
        );
        always.stage = Stage::Limit(Limit::Uses, Field::line());
        assert!(always.limited().is_none() && always.problem.is_some());
        assert!(!always.leave() && always.leave());
    }
}
