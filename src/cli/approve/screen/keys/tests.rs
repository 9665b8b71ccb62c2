//! What keys do to a state.

use std::time::Duration;

use toolgate_contract::{Prompt, PromptResolution, PromptState};

use super::super::fixtures::{Person, command, diff, edit, questions};
use super::super::state::UNREAD;
use super::*;
use crate::cli::approve::desk::Told;

fn decision(effect: Option<Effect>) -> Option<(String, Decision)> {
    match effect {
        Some(Effect::Decide(id, decision)) => Some((id, decision)),
        Some(Effect::Editor { .. } | Effect::Leave(_) | Effect::Suspend | Effect::Redraw) | None => None,
    }
}

fn two() -> (Prompt, Prompt) {
    (command("a", "git push"), edit("b", &diff("/w/x", 2)))
}

/// Lets another approver decide about a prompt.
fn answered_by_bob(person: &mut Person, mut prompt: Prompt, rest: Vec<Prompt>) {
    prompt.set_state(PromptState::Resolved);
    let mut resolution = PromptResolution {
        resolved_by: "bob".into(),
        ..PromptResolution::default()
    };
    resolution.set_decision(toolgate_contract::PromptDecision::Once);
    prompt.resolution = Some(resolution);
    let told = Told::Ended {
        prompt: Box::new(prompt),
        was_open: true,
    };
    person.state.tell(&told, person.now);
    person.open(rest);
}

#[test]
fn a_prompt_just_shown_takes_no_key() {
    let (a, b) = two();
    let mut person = Person::with(vec![]);
    person.open(vec![a.clone()]);
    assert_eq!(person.types("o"), None);
    person.waits(UNREAD);
    let decided = decision(person.types("o"));
    assert_eq!(decided, Some(("a".into(), Decision::Once)));

    // One that takes the place of another under the fingers.
    let mut person = Person::with(vec![a.clone(), b.clone()]);
    answered_by_bob(&mut person, a, vec![b]);
    assert_eq!(person.types("r"), None);
    person.waits(UNREAD - Duration::from_millis(1));
    assert_eq!(person.types("r"), None);
    person.waits(UNREAD);
    assert_eq!(decision(person.types("r")), Some(("b".into(), Decision::reject(""))));
}

#[test]
fn no_key_counts_before_its_prompt_was_drawn() {
    let (a, _) = two();
    let mut person = Person::with(vec![]);
    let open = [std::sync::Arc::new(a.clone())].into();
    person.state.set_open(&open, person.now);
    // The terminal was slow to take it.
    person.waits(UNREAD * 10);
    assert_eq!(person.types("o"), None);
    person.waits(UNREAD - Duration::from_millis(1));
    assert_eq!(person.types("o"), None);
    person.waits(UNREAD);
    assert_eq!(decision(person.types("o")), Some(("a".into(), Decision::Once)));

    // It came up while another page was shown.
    let mut person = Person::with(vec![]);
    person.types("h");
    person.open(vec![a]);
    person.waits(UNREAD * 10);
    person.presses(KeyCode::Esc);
    assert_eq!(person.types("o"), None);
    person.waits(UNREAD);
    assert_eq!(decision(person.types("o")), Some(("a".into(), Decision::Once)));
}

#[test]
fn a_key_that_is_held_down_decides_once() {
    let (a, b) = two();
    let mut person = Person::with(vec![a, b.clone()]);
    assert!(decision(person.types("o")).is_some());
    person.open(vec![b]);
    for _ in 0..100 {
        person.waits(Duration::from_millis(33));
        assert_eq!(person.types("o"), None);
    }
    person.waits(UNREAD);
    assert!(decision(person.types("o")).is_some());
}

#[test]
fn a_folded_diff_is_unfolded_before_it_is_allowed() {
    for key in ["o", "a"] {
        let mut person = Person::with(vec![edit("b", &diff("/w/x", 300))]);
        assert!(person.sees(80, 24).contains("folded: z shows it"));
        assert_eq!(person.types(key), None);
        assert_eq!(person.state.step, Step::Deciding);
        let picture = person.sees(80, 24);
        assert!(
            picture.contains("-old 0") && picture.contains("is whole now"),
            "{picture}"
        );
        assert_eq!(person.types("o"), None, "it is looked at first");
        person.waits(UNREAD);
        assert_eq!(decision(person.types("o")), Some(("b".into(), Decision::Once)));
    }
    let mut person = Person::with(vec![edit("b", &diff("/w/x", 300))]);
    assert!(decision(person.types("r")).is_some(), "nothing is allowed by that");
}

#[test]
fn keys_with_control_are_no_letters() {
    let mut person = Person::with(vec![command("a", "git push")]);
    for letter in ['o', 'r', 'a', 'e', 'y'] {
        assert_eq!(person.with_control(letter), None);
        assert_eq!(person.state.step, Step::Deciding);
    }
    assert_eq!(person.with_control('c'), Some(Effect::Leave(Exit::Interrupted)));
    assert_eq!(person.with_control('z'), Some(Effect::Suspend));
    assert_eq!(person.with_control('l'), Some(Effect::Redraw));
    assert_eq!(person.types("q"), Some(Effect::Leave(Exit::Completed)));
}

#[test]
fn what_was_begun_about_a_prompt_that_is_gone_decides_nothing() {
    let (a, b) = two();
    for begin in ["m", "e", "a", "at"] {
        let mut person = Person::with(vec![a.clone(), b.clone()]);
        person.types(begin);
        answered_by_bob(&mut person, a.clone(), vec![b.clone()]);
        person.waits(UNREAD);
        assert_eq!(person.types("no, rather not"), None, "{begin}");
        let Step::Gone(why) = &person.state.step else {
            panic!("{:?}", person.state.step)
        };
        assert!(
            why.contains("answered elsewhere") && why.contains("allowed once by bob"),
            "{why}"
        );
        assert_eq!(person.presses(KeyCode::Enter), None);
        assert_eq!(person.types("o"), None, "it is read first");
        person.waits(UNREAD);
        assert_eq!(decision(person.types("o")), Some(("b".into(), Decision::Once)));
    }
    // Nothing was begun: the next one takes its place, with a line about the other.
    let mut person = Person::with(vec![questions("q"), b.clone()]);
    answered_by_bob(&mut person, questions("q"), vec![b]);
    assert_eq!(person.state.step, Step::Deciding);
    assert!(
        person
            .state
            .notice
            .as_ref()
            .is_some_and(|(_, text)| text.contains("bob"))
    );
    // It is over when another one comes.
    person.open(vec![command("c", "make")]);
    assert_eq!(person.state.notice, None);
}

#[test]
fn always_begins_narrow_and_takes_a_second_key_for_good() {
    let chosen = |effect| match decision(effect) {
        Some((_, Decision::Always { scope, patterns })) => Some((scope.reach(), scope.max_uses, patterns)),
        _ => None,
    };
    let pattern = vec!["git push *".to_owned()];
    for (keys, reach, uses) in [
        ("as", GrantReach::Session, 0),
        ("afy", GrantReach::Workspace, 0),
        ("an3", GrantReach::Workspace, 3),
    ] {
        let mut person = Person::with(vec![command("a", "git push")]);
        let mut effect = person.types(keys);
        if uses > 0 {
            effect = person.presses(KeyCode::Enter);
        }
        assert_eq!(chosen(effect), Some((reach, uses, pattern.clone())), "{keys}");
    }
    let mut person = Person::with(vec![command("a", "git push")]);
    person.types("a");
    let effect = person.presses(KeyCode::Enter);
    assert_eq!(chosen(effect), Some((GrantReach::Run, 0, pattern)));

    let mut person = Person::with(vec![command("a", "git push")]);
    assert_eq!(person.types("aff"), None);
    assert_eq!(person.presses(KeyCode::Enter), None);
    person.presses(KeyCode::Esc);
    person.types("tsoon");
    assert_eq!(person.presses(KeyCode::Enter), None);
    person.presses(KeyCode::Esc);
    person.types(" ");
    assert_eq!(person.presses(KeyCode::Enter), None, "nothing is chosen");
    person.presses(KeyCode::Esc);
    assert_eq!(person.state.step, Step::Deciding);
}

#[test]
fn what_was_wrong_with_a_key_is_told_until_the_next_one() {
    let told = "Choose a pattern first";
    for next in [KeyCode::Char(' '), KeyCode::Down, KeyCode::Char('t'), KeyCode::Esc] {
        let mut person = Person::with(vec![command("a", "git push")]);
        person.types("a ");
        assert_eq!(person.presses(KeyCode::Enter), None);
        assert!(person.sees(80, 24).contains(told));
        person.presses(next);
        assert!(!person.sees(80, 24).contains(told), "{next:?}");
    }
}

#[test]
fn escape_leaves_every_step() {
    for keys in ["m", "mtext", "e", "a", "af", "at", "an3"] {
        let mut person = Person::with(vec![command("a", "git push")]);
        person.types(keys);
        assert_ne!(person.state.step, Step::Deciding, "{keys}");
        person.presses(KeyCode::Esc);
        person.presses(KeyCode::Esc);
        assert_eq!(person.state.step, Step::Deciding, "{keys}");
    }
    for page in ["h", "?"] {
        let mut person = Person::with(vec![command("a", "git push")]);
        person.types(page);
        assert_eq!(person.types("o"), None, "the prompt is not shown");
        person.presses(KeyCode::Esc);
        assert_eq!(person.state.page, Page::Prompt);
    }
}

#[test]
fn a_rejection_has_a_message() {
    let mut person = Person::with(vec![command("a", "git push")]);
    person.types("muse a");
    person.state.paste(" branch\nplease", person.now);
    let effect = person.presses(KeyCode::Enter);
    assert_eq!(
        decision(effect),
        Some(("a".into(), Decision::reject("use a branch please")))
    );
}

#[test]
fn a_paste_is_no_key() {
    let mut person = Person::with(vec![command("a", "git push")]);
    person.state.paste("o", person.now);
    assert_eq!((&person.state.step, person.state.open.len()), (&Step::Deciding, 1));
}

#[test]
fn another_command_runs_instead() {
    let mut person = Person::with(vec![command("a", "git push")]);
    person.types("e");
    assert_eq!(person.presses(KeyCode::Enter), None, "it is the same");
    person.types(" --dry-run");
    match decision(person.presses(KeyCode::Enter)) {
        Some((_, Decision::Instead(input))) => {
            let expected = r#"{"command":"git push --dry-run","description":"Pushes the branch"}"#;
            assert_eq!(Decision::Instead(input), Decision::Instead(expected.to_owned().into()));
        }
        other => panic!("{other:?}"),
    }

    let mut person = Person::with(vec![command("a", "git push")]);
    let effect = person.types("E");
    let text = "git push".to_owned();
    assert_eq!(effect, Some(Effect::Editor { text, is_command: true }));
    person.state.edited(Ok("git pull\n".to_owned()), person.now);
    assert_eq!(person.presses(KeyCode::Enter), None, "it is looked at first");
    person.waits(UNREAD);
    assert!(decision(person.presses(KeyCode::Enter)).is_some());

    let mut person = Person::with(vec![edit("b", "")]);
    person.types("e");
    assert_eq!(person.state.step, Step::Deciding, "this one is not editable");
}

#[test]
fn inputs_that_are_no_json_are_told() {
    let input = r#"{"path":"a"}"#;
    assert!(replaced(input, "{").unwrap_err().contains("not JSON"));
    assert!(replaced(input, " ").unwrap_err().contains("Write"));
    assert!(replaced(input, r#"{ "path": "a" }"#).unwrap_err().contains("same"));
    assert_eq!(replaced(input, r#"{"path":"b"}"#).as_deref(), Ok(r#"{"path":"b"}"#));
}

#[test]
fn questions_are_answered_by_number() {
    let mut person = Person::with(vec![questions("q")]);
    assert_eq!(person.presses(KeyCode::Enter), None, "nothing is chosen");
    person.types("2");
    assert_eq!(person.presses(KeyCode::Enter), None);
    person.types("13");
    person.types("tZig");
    assert_eq!(person.presses(KeyCode::Enter), None, "that was the answer of one's own");
    let values = |list: &[&str]| list.iter().map(|&one| one.to_owned()).collect::<Vec<_>>();
    let expected = Decision::Answer(vec![values(&["spaces"]), values(&["Rust", "Java", "Zig"])]);
    assert_eq!(decision(person.presses(KeyCode::Enter)), Some(("q".into(), expected)));

    let mut person = Person::with(vec![questions("q")]);
    assert_eq!(person.types("n"), None);
    assert_eq!(
        decision(person.types("n")).map(|(_, answer)| answer),
        Some(Decision::Answer(vec![vec![], vec![]]))
    );
    let mut person = Person::with(vec![questions("q")]);
    assert_eq!(decision(person.types("r")), Some(("q".into(), Decision::reject(""))));
}

#[test]
fn prompts_are_chosen_with_tab() {
    let (a, b) = two();
    let mut person = Person::with(vec![a, b]);
    person.presses(KeyCode::Tab);
    assert_eq!(person.state.place(), Some(1));
    assert_eq!(person.types("o"), None);
    person.presses(KeyCode::BackTab);
    person.presses(KeyCode::BackTab);
    person.waits(UNREAD);
    assert_eq!(decision(person.types("o")), Some(("b".into(), Decision::Once)));
}

#[test]
fn diffs_are_unfolded_and_paged() {
    let mut person = Person::with(vec![edit("b", &diff("/w/x", 3000))]);
    assert!(person.sees(80, 24).contains("+3000 −3000 folded"));
    person.types("z");
    assert!(person.sees(80, 24).contains("-old 3"));
    person.presses(KeyCode::End);
    person.sees(80, 24);
    person.presses(KeyCode::PageUp);
    assert!(person.sees(80, 24).contains("+new 298"));
    person.types("z");
    assert!(person.sees(80, 24).contains("folded"));
}

#[test]
fn time_passes_only_where_it_is_shown() {
    let mut person = Person::with(vec![command("a", "git push")]);
    assert_eq!(person.state.changes_in(person.now), None);
    let mut expiring = command("b", "git push");
    expiring.expire_time = Some((person.now.time + Duration::from_secs(600)).into());
    person.open(vec![expiring]);
    assert_eq!(person.state.changes_in(person.now), Some(UNREAD));
    person.waits(UNREAD);
    assert_eq!(person.state.changes_in(person.now), Some(Duration::from_secs(1)));
}
