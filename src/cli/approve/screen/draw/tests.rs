//! Pictures of the screen, kept beside this file. `TOOLGATE_UPDATE_DOCS=1` writes them anew.

use std::fs;
use std::path::Path;

use crossterm::event::KeyCode;

use super::super::fixtures::{Person, command, diff, edit, questions};
use super::*;

fn check(name: &str, picture: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cli/approve/screen/draw");
    let file = folder.join(name).with_extension("txt");
    if std::env::var_os("TOOLGATE_UPDATE_DOCS").is_some() {
        fs::write(&file, format!("{picture}\n")).unwrap();
    }
    let kept = fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(
        picture,
        kept.trim_end(),
        "{name}: TOOLGATE_UPDATE_DOCS=1 writes it anew\n{picture}"
    );
}

const LINE: &str = "ls src && git push --force origin main";

#[test]
fn prompts_at_the_usual_size() {
    let mut expiring = command("a", LINE);
    let mut person = Person::with(vec![]);
    expiring.expire_time = Some((person.now.time + Duration::from_secs(599)).into());
    person.open(vec![expiring, edit("b", &diff("/w/src/main.rs", 2)), questions("c")]);
    person.waits(Duration::from_secs(1));
    check("command", &person.sees(80, 24));
    person.types("a");
    check("always", &person.sees(80, 24));
    person.presses(KeyCode::Esc);
    person.presses(KeyCode::Tab);
    check("edit", &person.sees(80, 24));
    person.presses(KeyCode::Tab);
    person.waits(Duration::from_secs(1));
    person.types("2");
    check("question", &person.sees(80, 24));
}

#[test]
fn prompts_in_forty_columns() {
    let mut person = Person::with(vec![command("a", LINE), edit("b", &diff("/w/src/main.rs", 2))]);
    check("command-40", &person.sees(40, 24));
    person.types("mUse a branch, and a pull request.");
    check("message-40", &person.sees(40, 24));
}

#[test]
fn nothing_open_and_help() {
    let mut person = Person::with(vec![]);
    check("nothing", &person.sees(80, 10));
    person.types("?");
    check("help", &person.sees(80, 34));
}

#[test]
fn keys_are_in_view_at_every_size() {
    let mut person = Person::with(vec![command("a", LINE), edit("b", &diff("/w/src/main.rs", 2))]);
    for width in [1, 2, 7, 13, 20, 33, 40, 80, 99] {
        for height in 1..30 {
            for keys in ["", "a", "m", "e"] {
                person.types(keys);
                let picture = person.sees(width, height);
                person.presses(KeyCode::Esc);
                if width >= 20 && height >= 12 && keys.is_empty() {
                    assert!(
                        picture.contains("o once") && picture.contains("q leave"),
                        "{width}x{height}\n{picture}"
                    );
                }
                if width >= 20 && height >= 12 && !keys.is_empty() {
                    assert!(picture.contains("Esc back"), "{width}x{height} {keys}\n{picture}");
                }
            }
        }
    }
}

#[test]
fn the_mark_stays_in_view_whatever_is_begun() {
    let mut person = Person::with(vec![command("a", LINE), edit("b", &diff("/w/src/main.rs", 2))]);
    for height in 12..30 {
        for keys in ["a", "af", "an", "m", "e"] {
            person.types(keys);
            let picture = person.sees(40, height);
            assert!(picture.contains("\n! asks    git push"), "{height} {keys}\n{picture}");
            person.presses(KeyCode::Esc);
            person.presses(KeyCode::Esc);
            person.presses(KeyCode::Home);
        }
    }
}

#[test]
fn what_is_wrong_with_rules_is_told_above_the_prompts() {
    let mut person = Person::with(vec![command("a", LINE)]);
    let told = "default: a changed file cannot be used, and the rules from before stay in force: ".to_owned()
        + &"x ".repeat(200);
    person.state.alert = Some(told);
    let picture = person.sees(80, 24);
    let begin: Vec<&str> = picture.lines().take(5).collect();
    assert!(begin[1].starts_with("! default: a changed file"), "{picture}");
    assert!(begin[4].starts_with("──"), "{picture}");
    assert!(picture.contains("o once"), "{picture}");
}

#[test]
fn what_is_written_stays_in_view() {
    let mut person = Person::with(vec![command("a", LINE)]);
    person.types("m");
    person.types(&"word ".repeat(300));
    person.types("the end");
    assert!(person.sees(40, 12).contains("the end"));
}

#[test]
fn what_has_no_room_is_counted() {
    let lines = "echo a\n".repeat(30) + LINE;
    let mut person = Person::with(vec![command("a", &lines)]);
    for height in 4..30 {
        let picture = person.sees(80, height);
        assert!(picture.contains(" more, ! among them"), "{height}\n{picture}");
    }
    person.presses(KeyCode::End);
    person.sees(80, 24);
    assert!(person.sees(80, 24).contains("▲ "));
    person.types("e");
    for height in 6..30 {
        let picture = person.sees(80, height);
        let counts = picture.contains("▲ ") || picture.contains("terminal too small");
        assert!(counts && picture.contains("origin main"), "{height}\n{picture}");
    }
    person.presses(KeyCode::Esc);

    let mut asked = command("a", LINE);
    if let Some(toolgate_contract::prompt::Request::Permission(request)) = &mut asked.request {
        request.always = (0..20).map(|number| format!("git push {number} *")).collect();
    }
    let mut person = Person::with(vec![asked]);
    person.types("a");
    assert!(person.sees(80, 16).contains("\n▼ "));
    for _ in 0..30 {
        person.presses(KeyCode::Down);
        assert!(person.sees(80, 16).contains("\n▸ ["));
    }
    assert!(person.sees(80, 16).contains("\n▲ "));
}

#[test]
fn a_long_list_is_shown_around_the_prompt_in_hand() {
    let prompts = (0..12).map(|number| edit(&number.to_string(), &diff("/w/src/main.rs", number)));
    let mut person = Person::with(prompts.collect());
    for _ in 0..6 {
        person.presses(KeyCode::Tab);
    }
    check("list", &person.sees(80, 24));
}

#[test]
fn durations_as_clocks() {
    let check = |seconds, expected: &str| assert_eq!(shortly(Duration::from_secs(seconds)), expected);
    check(0, "0:00");
    check(42, "0:42");
    check(3605, "1:00:05");
    let now = Now::read();
    let check = |seconds, expected: &str| assert_eq!(ago(now.time - Duration::from_secs(seconds), now), expected);
    check(5, "5 s ago");
    check(125, "2 min ago");
    check(7200, "2 h ago");
    check(200_000, "2 d ago");
}
