//! Which keys do what now, for the foot of the screen, and all of them for the page of help.

use toolgate_contract::Prompt;

use super::always::Stage;
use super::state::{Page, State, Step};

/// A key and what it does.
pub(super) type Hint = (&'static str, &'static str);

/// Returns the keys that do something now, the most important first.
pub(super) fn of(state: &State) -> Vec<Hint> {
    if state.page != Page::Prompt {
        return vec![("Esc", "back"), ("↑↓", "scroll"), ("q", "leave")];
    }
    let many = state.open.len() > 1;
    let rest = |hints: &mut Vec<Hint>| {
        if many {
            hints.push(("Tab", "next prompt"));
        }
        hints.extend([("h", "history"), ("?", "help"), ("q", "leave")]);
    };
    let mut hints: Vec<Hint> = Vec::new();
    match &state.step {
        Step::Gone(_) => hints.push(("Enter", "go on")),
        Step::Deciding => match state.prompt().map(|prompt| &**prompt) {
            Some(prompt) if state.permission().is_some() => {
                deciding(&mut hints, prompt, state);
                rest(&mut hints);
            }
            Some(_) => {
                hints.push(("r", "reject"));
                rest(&mut hints);
            }
            None => rest(&mut hints),
        },
        Step::Always(always) => match &always.stage {
            Stage::Choosing => hints.extend([
                ("Enter", "while the service runs"),
                ("s", "this session"),
                ("t", "for a time…"),
                ("n", "a number of times…"),
                ("f", "for good…"),
                ("↑↓", "move"),
                ("Space", "choose"),
                ("Esc", "back"),
            ]),
            Stage::ForGood => hints.extend([("y", "yes, for good"), ("Esc", "back")]),
            Stage::Limit(..) => hints.extend([("Enter", "allow"), ("Esc", "back")]),
        },
        Step::Message(_) => hints.extend([("Enter", "reject with this message"), ("Esc", "back")]),
        Step::Editing(..) => hints.extend([
            ("Enter", "run this instead"),
            ("Alt-Enter", "new line"),
            ("Ctrl-O", "in $EDITOR"),
            ("Esc", "back"),
        ]),
        Step::Answering(answers) if answers.writing.is_some() => {
            hints.extend([("Enter", "take this answer"), ("Esc", "back")]);
        }
        Step::Answering(answers) => {
            let questions = state.questions();
            let count = questions.map_or(0, |request| request.questions.len());
            let question = questions.and_then(|request| request.questions.get(answers.question));
            if question.is_some_and(|question| !question.options.is_empty()) {
                hints.push(("1-9", "choose"));
            }
            let is_last = answers.question + 1 >= count;
            hints.push(("Enter", if is_last { "answer" } else { "next question" }));
            hints.extend([("t", "own answer"), ("n", "no answer")]);
            if answers.question > 0 {
                hints.push(("Esc", "question before"));
            }
            hints.push(("r", "dismiss"));
            rest(&mut hints);
        }
    }
    hints
}

fn deciding(hints: &mut Vec<Hint>, prompt: &Prompt, state: &State) {
    hints.push(("o", "once"));
    if state.permission().is_some_and(|request| !request.always.is_empty()) {
        hints.push(("a", "always…"));
    }
    hints.extend([("r", "reject"), ("m", "reject with message…")]);
    if prompt.editable {
        hints.push(("e", "edit…"));
    }
    if state
        .content
        .as_ref()
        .is_some_and(|(_, content)| !content.files.is_empty())
    {
        hints.push(("z", "fold"));
    }
}

/// What the keys do, in full.
pub(super) const HELP: [Hint; 24] = [
    ("o", "allow this call once"),
    (
        "r",
        "reject it; other prompts of the session are rejected, too. Questions are dismissed",
    ),
    ("m", "reject it, and tell the model why: it goes on with that"),
    (
        "a",
        "allow it, and what matches a pattern from now on: first you choose which",
    ),
    ("Enter", "with a: until the service ends"),
    ("s", "with a: in this session only, also after a restart of the service"),
    (
        "t, n",
        "with a: for a time, or for a number of requests, also after a restart",
    ),
    (
        "f, y",
        "with a: for good, until somebody revokes it (toolgate grants --revoke ID)",
    ),
    ("e", "write another input, which runs instead of this one"),
    ("E", "the same in your editor ($VISUAL, $EDITOR)"),
    (
        "1-9",
        "choose an answer to a question; Space chooses the one that is marked",
    ),
    ("t", "with a question: write an answer of your own"),
    ("n", "with a question: leave it without an answer"),
    ("Enter", "with a question: take the answer and go on"),
    ("Tab", "the next prompt; Shift-Tab the one before"),
    ("↑ ↓", "scroll; Page Up, Page Down, Space, Home and End as well"),
    (
        "z",
        "fold or unfold the file of a diff at the top of the screen; Z all files",
    ),
    ("h", "the last decisions, yours and those of others"),
    ("Esc", "leave what a key has begun"),
    ("Ctrl-L", "draw the screen anew"),
    ("Ctrl-Z", "suspend the program"),
    ("q", "leave; open prompts stay open"),
    ("Ctrl-C", "the same"),
    (
        "",
        "A prompt takes no key for a moment after it has come up, so that nothing is decided unseen.",
    ),
];
