//! Prompts for tests, and a person who looks at a screen and presses keys.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use prost_types::value::Kind;
use prost_types::{Struct, Value};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use toolgate_contract::{
    PermissionAction, PermissionPart, PermissionRequest, PermissionRule, Prompt, PromptState, Question, QuestionOption,
    QuestionRequest, prompt,
};

use super::draw::draw;
use super::state::{Effect, Now, State, UNREAD};
use super::theme::Theme;

pub(super) fn metadata(entries: &[(&str, &str)]) -> Option<Struct> {
    let entry = |(key, text): &(&str, &str)| {
        let kind = Some(Kind::StringValue((*text).to_owned()));
        ((*key).to_owned(), Value { kind })
    };
    Some(Struct {
        fields: entries.iter().map(entry).collect(),
    })
}

pub(super) fn part(text: &str, action: PermissionAction, always: &str) -> PermissionPart {
    PermissionPart {
        text: text.into(),
        arguments: text.split(' ').map(str::to_owned).collect(),
        patterns: vec![text.into()],
        always: vec![always.into()],
        action: action.into(),
        ..PermissionPart::default()
    }
}

fn prompt_of(id: &str, tool: &str, request: prompt::Request) -> Prompt {
    Prompt {
        prompt_id: id.into(),
        call_id: format!("call-{id}"),
        session_id: "s1".into(),
        workspace: "default".into(),
        agent: "build".into(),
        tool: tool.into(),
        state: PromptState::Open.into(),
        input_digest: "d".into(),
        request: Some(request),
        ..Prompt::default()
    }
}

/// A prompt for a command line of two parts.
pub(super) fn command(id: &str, line: &str) -> Prompt {
    let request = PermissionRequest {
        permission: "bash".into(),
        patterns: vec!["git push --force origin main".into()],
        always: vec!["git push *".into()],
        title: "Pushes the branch".into(),
        metadata: metadata(&[
            ("command", line),
            ("workdir", "/w"),
            ("description", "Pushes the branch"),
        ]),
        rule: Some(PermissionRule {
            permission: "bash".into(),
            pattern: "*".into(),
            action: PermissionAction::Ask.into(),
        }),
        parts: vec![
            part("ls src", PermissionAction::Allow, "ls *"),
            part("git push --force origin main", PermissionAction::Ask, "git push *"),
        ],
        ..PermissionRequest::default()
    };
    Prompt {
        editable: true,
        input_json: serde_json::json!({"command": line, "description": "Pushes the branch"}).to_string(),
        ..prompt_of(id, "bash", prompt::Request::Permission(request))
    }
}

/// A prompt for an edit with this diff.
pub(super) fn edit(id: &str, diff: &str) -> Prompt {
    let request = PermissionRequest {
        permission: "edit".into(),
        patterns: vec!["src/main.rs".into()],
        always: vec!["*".into()],
        title: "src/main.rs".into(),
        metadata: metadata(&[("filepath", "/w/src/main.rs"), ("diff", diff)]),
        ..PermissionRequest::default()
    };
    prompt_of(id, "edit", prompt::Request::Permission(request))
}

/// A diff of one file that takes so many lines out and puts as many in.
pub(super) fn diff(file: &str, lines: usize) -> String {
    let mut text = format!(
        "Index: {file}\n{}\n--- {file}\n+++ {file}\n@@ -1,{lines} +1,{lines} @@\n",
        "=".repeat(67)
    );
    for (sign, word) in [('-', "old"), ('+', "new")] {
        (0..lines).for_each(|number| text += &format!("{sign}{word} {number}\n"));
    }
    text
}

/// A prompt with two questions: one answer of two, and several of three.
pub(super) fn questions(id: &str) -> Prompt {
    let option = |label: &&str| QuestionOption {
        label: (*label).into(),
        description: format!("{label} it is"),
    };
    let question = |header: &str, text: &str, labels: &[&str], multiple| Question {
        question: text.into(),
        header: header.into(),
        options: labels.iter().map(option).collect(),
        multiple,
        custom: true,
    };
    let request = QuestionRequest {
        questions: vec![
            question("Indent", "Tabs or spaces?", &["tabs", "spaces"], false),
            question("Languages", "Which of them?", &["Rust", "Go", "Java"], true),
        ],
    };
    prompt_of(id, "question", prompt::Request::Questions(request))
}

/// A person in front of a state.
pub(super) struct Person {
    pub(super) state: State,
    pub(super) now: Now,
}

impl Person {
    /// Sits down in front of these prompts, and has read the first one.
    pub(super) fn with(prompts: Vec<Prompt>) -> Self {
        let now = Now {
            instant: Instant::now(),
            time: SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000),
        };
        let mut state = State::new("ann".to_owned(), now);
        state.services.set(1, 1);
        let mut person = Self { state, now };
        person.open(prompts);
        person.waits(UNREAD);
        person
    }

    /// Lets these prompts be the open ones; those that were open are the same as before.
    pub(super) fn open(&mut self, prompts: Vec<Prompt>) {
        let known = |prompt: Prompt| {
            let mut known = self.state.open.iter();
            let known = known.find(|one| ***one == prompt).cloned();
            known.unwrap_or_else(|| Arc::new(prompt))
        };
        let open: VecDeque<Arc<Prompt>> = prompts.into_iter().map(known).collect();
        self.state.set_open(&open, self.now);
        self.state.drawn_at(self.now);
    }

    pub(super) fn waits(&mut self, pause: Duration) {
        self.now.instant += pause;
        self.now.time += pause;
    }

    pub(super) fn presses(&mut self, code: KeyCode) -> Option<Effect> {
        self.presses_with(code, KeyModifiers::NONE)
    }

    pub(super) fn with_control(&mut self, letter: char) -> Option<Effect> {
        self.presses_with(KeyCode::Char(letter), KeyModifiers::CONTROL)
    }

    /// Presses a key, after which the screen is drawn.
    fn presses_with(&mut self, code: KeyCode, modifiers: KeyModifiers) -> Option<Effect> {
        let effect = self.state.key(KeyEvent::new(code, modifiers), self.now);
        self.state.drawn_at(self.now);
        effect
    }

    /// Types a text, letter by letter; returns what the last one did.
    pub(super) fn types(&mut self, text: &str) -> Option<Effect> {
        let mut effect = None;
        for letter in text.chars() {
            effect = self.presses(KeyCode::Char(letter));
        }
        effect
    }

    /// Returns what a terminal of this size shows, without what is blank at the ends of rows.
    pub(super) fn sees(&mut self, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        let (state, now) = (&mut self.state, self.now);
        terminal
            .draw(|frame| draw(frame, state, Theme::new(true), now))
            .unwrap();
        let buffer = terminal.backend().buffer();
        let row = |y: u16| {
            let mut text = String::new();
            let mut skipped = 0;
            for x in 0..width {
                let symbol = buffer[(x, y)].symbol();
                if skipped == 0 {
                    text += symbol;
                    skipped = super::rows::width_of(symbol);
                }
                skipped = skipped.saturating_sub(1);
            }
            text.trim_end().to_owned()
        };
        (0..height).map(row).collect::<Vec<_>>().join("\n")
    }
}
