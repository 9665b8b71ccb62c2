//! What the keys do.
//!
//! *Invariant:* no key decides that is read before its prompt was shown for a while, and none that is held down. None allows what
//! is folded. Escape leaves every step that a key has begun.

// Of all keys a few mean something.
#![allow(clippy::wildcard_enum_match_arm)]

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::Value;
use toolgate_client::Decision;
use toolgate_contract::GrantReach;

use super::always::{Always, Limit, Stage};
use super::content::is_folded;
use super::field::Field;
use super::state::{Effect, Now, Page, State, Step};
use crate::cli::diff::{self, FileDiff};
use crate::cli::exit::Exit;
use crate::cli::prompt as words;
use crate::cli::scope;

/// A key that is held down comes again before this.
const HELD: Duration = Duration::from_millis(120);

/// Rows that stay in view when a page is turned.
const KEPT: usize = 2;

impl State {
    /// Takes a key.
    pub(super) fn key(&mut self, key: KeyEvent, now: Now) -> Option<Effect> {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            match key.code {
                KeyCode::Char('c') => return Some(Effect::Leave(Exit::Interrupted)),
                KeyCode::Char('l') => return Some(Effect::Redraw),
                KeyCode::Char('z') => return Some(Effect::Suspend),
                _ => {}
            }
        }
        let has_modifier = key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT);
        if has_modifier && !self.is_writing() {
            return None;
        }
        if self.page != Page::Prompt {
            return self.key_on_page(key, now);
        }
        if self.prompt().is_some() && !self.is_ready(now) && !is_harmless(key.code) {
            self.wait(now, HELD);
            return None;
        }
        self.notice = None;
        let effect = match &self.step {
            Step::Gone(_) => {
                if matches!(key.code, KeyCode::Esc | KeyCode::Enter) {
                    self.begin();
                    self.comes_up(now);
                }
                None
            }
            Step::Deciding => self.key_deciding(key, now),
            Step::Always(_) => self.key_always(key),
            Step::Message(_) => self.key_message(key),
            Step::Editing(..) => self.key_editing(key),
            Step::Answering(_) => self.key_answering(key, now),
        };
        if matches!(effect, Some(Effect::Decide(..))) {
            self.step = Step::Deciding;
        }
        effect
    }

    /// Takes text that was pasted: only where text is written, so that none of it is taken for keys.
    pub(super) fn paste(&mut self, text: &str, now: Now) {
        if !self.is_ready(now) || self.page != Page::Prompt {
            return;
        }
        match &mut self.step {
            Step::Message(field) | Step::Editing(field, _) => field.insert(text),
            Step::Always(Always {
                stage: Stage::Limit(_, field),
                ..
            }) => field.insert(text),
            Step::Answering(answers) => {
                if let Some(field) = &mut answers.writing {
                    field.insert(text);
                }
            }
            Step::Always(_) | Step::Deciding | Step::Gone(_) => {}
        }
    }

    /// Says whether keys write a text.
    fn is_writing(&self) -> bool {
        match &self.step {
            Step::Message(_) | Step::Editing(..) => self.page == Page::Prompt,
            Step::Always(always) => matches!(always.stage, Stage::Limit(..)),
            Step::Answering(answers) => answers.writing.is_some() && self.page == Page::Prompt,
            Step::Deciding | Step::Gone(_) => false,
        }
    }

    fn decide(&mut self, decision: Decision) -> Option<Effect> {
        let id = self.prompt()?.prompt_id.clone();
        Some(Effect::Decide(id, decision))
    }

    fn key_on_page(&mut self, key: KeyEvent, now: Now) -> Option<Effect> {
        match key.code {
            KeyCode::Esc | KeyCode::Char('h' | '?') | KeyCode::Enter => self.turn(Page::Prompt, now),
            KeyCode::Char('q') => return Some(Effect::Leave(Exit::Completed)),
            code => self.key_moving(code),
        }
        None
    }

    /// Takes a key that moves what is shown.
    fn key_moving(&mut self, code: KeyCode) {
        let page = self.drawn.1.saturating_sub(KEPT).max(1);
        let page = isize::try_from(page).unwrap_or(1);
        match code {
            KeyCode::Up => self.scroll(-1),
            KeyCode::Down => self.scroll(1),
            KeyCode::PageUp => self.scroll(-page),
            KeyCode::PageDown | KeyCode::Char(' ') => self.scroll(page),
            KeyCode::Home => self.scroll(isize::MIN),
            KeyCode::End => self.scroll(isize::MAX),
            _ => {}
        }
    }

    /// Takes a key that means the same whatever the prompt is.
    fn key_common(&mut self, code: KeyCode, now: Now) -> Option<Effect> {
        match code {
            KeyCode::Tab => self.turn_to(1, now),
            KeyCode::BackTab => self.turn_to(-1, now),
            KeyCode::Char('h') => self.turn(Page::History, now),
            KeyCode::Char('?') => self.turn(Page::Help, now),
            KeyCode::Char('q') => return Some(Effect::Leave(Exit::Completed)),
            code => self.key_moving(code),
        }
        None
    }

    fn turn_to(&mut self, by: isize, now: Now) {
        let count = self.open.len();
        if let Some(place) = self.place().filter(|_| count > 1) {
            let place = (place + count).saturating_add_signed(by) % count;
            self.take(place, now);
        }
    }

    fn key_deciding(&mut self, key: KeyEvent, now: Now) -> Option<Effect> {
        let is_permission = self.permission().is_some();
        match key.code {
            KeyCode::Char('o' | 'a') if is_permission && !self.folded().is_empty() => {
                self.unfold(now);
                None
            }
            KeyCode::Char('o') if is_permission => self.decide(Decision::Once),
            KeyCode::Char('r') if self.prompt().is_some() => self.decide(Decision::reject("")),
            KeyCode::Char('m') if is_permission => {
                self.step = Step::Message(Field::line());
                None
            }
            KeyCode::Char('a') if is_permission => {
                match self.permission().and_then(Always::of) {
                    Some(always) => self.step = Step::Always(always),
                    None => self.note("There is nothing to allow from now on: o allows this call."),
                }
                None
            }
            KeyCode::Char('e') if is_permission => {
                self.edit();
                None
            }
            KeyCode::Char('E') if is_permission => {
                self.edit();
                self.editor()
            }
            KeyCode::Char('z') => {
                self.fold(false);
                None
            }
            KeyCode::Char('Z') => {
                self.fold(true);
                None
            }
            code => self.key_common(code, now),
        }
    }

    /// Begins to write another input.
    fn edit(&mut self) {
        let Some(prompt) = self.prompt().filter(|prompt| prompt.editable) else {
            return self.note("This call cannot run with another input.");
        };
        let text = match words::command_of(&prompt.input_json) {
            Some(fields) => fields
                .get("command")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned(),
            None => pretty(&prompt.input_json),
        };
        self.step = Step::Editing(Field::lines(&text), None);
    }

    fn editor(&self) -> Option<Effect> {
        let Step::Editing(field, _) = &self.step else {
            return None;
        };
        let is_command = words::command_of(&self.prompt()?.input_json).is_some();
        Some(Effect::Editor {
            text: field.text(),
            is_command,
        })
    }

    fn key_always(&mut self, key: KeyEvent) -> Option<Effect> {
        let Step::Always(always) = &mut self.step else {
            return None;
        };
        // It was about the key before.
        always.problem = None;
        let decision = match (&mut always.stage, key.code) {
            (_, KeyCode::Esc) => {
                if always.leave() {
                    self.step = Step::Deciding;
                }
                None
            }
            (Stage::Limit(..), KeyCode::Enter) => always.limited(),
            (Stage::Limit(_, field), _) => {
                field.key(key);
                None
            }
            (Stage::ForGood, KeyCode::Char('y')) => always.for_good(),
            (Stage::ForGood, _) => None,
            (Stage::Choosing, code) => match code {
                KeyCode::Up => {
                    always.step(false);
                    None
                }
                KeyCode::Down => {
                    always.step(true);
                    None
                }
                KeyCode::Char(' ') => {
                    always.toggle();
                    None
                }
                KeyCode::Enter => always.decide(scope::unlimited(GrantReach::Run)),
                KeyCode::Char('s') => always.decide(scope::unlimited(GrantReach::Session)),
                KeyCode::Char('f') => {
                    always.stage = Stage::ForGood;
                    None
                }
                KeyCode::Char('t') => {
                    always.stage = Stage::Limit(Limit::Time, Field::line());
                    None
                }
                KeyCode::Char('n') => {
                    always.stage = Stage::Limit(Limit::Uses, Field::line());
                    None
                }
                _ => None,
            },
        };
        self.decide(decision?)
    }

    fn key_message(&mut self, key: KeyEvent) -> Option<Effect> {
        let Step::Message(field) = &mut self.step else {
            return None;
        };
        match key.code {
            KeyCode::Esc => {
                self.step = Step::Deciding;
                None
            }
            KeyCode::Enter if !key.modifiers.contains(KeyModifiers::ALT) => {
                let message = field.text().trim().to_owned();
                self.decide(Decision::reject(message))
            }
            _ => {
                field.key(key);
                None
            }
        }
    }

    fn key_editing(&mut self, key: KeyEvent) -> Option<Effect> {
        match key.code {
            KeyCode::Esc => {
                self.step = Step::Deciding;
                None
            }
            KeyCode::Char('o') if key.modifiers.contains(KeyModifiers::CONTROL) => self.editor(),
            KeyCode::Enter if !key.modifiers.contains(KeyModifiers::ALT) => self.run_edited(),
            _ => {
                if let Step::Editing(field, problem) = &mut self.step {
                    field.key(key);
                    *problem = None;
                }
                None
            }
        }
    }

    fn run_edited(&mut self) -> Option<Effect> {
        let input = self.prompt()?.input_json.clone();
        let Step::Editing(field, problem) = &mut self.step else {
            return None;
        };
        match replaced(&input, &field.text()) {
            Ok(input) => self.decide(Decision::Instead(input.into())),
            Err(why) => {
                *problem = Some(why);
                None
            }
        }
    }

    fn key_answering(&mut self, key: KeyEvent, now: Now) -> Option<Effect> {
        let request = self.questions()?.clone();
        let Step::Answering(answers) = &mut self.step else {
            return None;
        };
        let question = request.questions.get(answers.question)?;
        self.content = None;
        if answers.writing.is_some() {
            match key.code {
                KeyCode::Esc => answers.leave(&request),
                KeyCode::Enter => {
                    answers.written(question);
                    // Where there is nothing to choose, the answer is whole.
                    if question.options.is_empty() && answers.is_answered() {
                        let decision = answers.next(&request)?;
                        return self.decide(decision);
                    }
                }
                _ => {
                    if let Some(field) = &mut answers.writing {
                        field.key(key);
                    }
                }
            }
            return None;
        }
        let decision = match key.code {
            KeyCode::Esc => {
                answers.leave(&request);
                None
            }
            KeyCode::Up if !question.options.is_empty() => {
                answers.step(question, false);
                None
            }
            KeyCode::Down if !question.options.is_empty() => {
                answers.step(question, true);
                None
            }
            KeyCode::Char(digit @ '1'..='9') => {
                let option = digit.to_digit(10).map_or(0, |number| number as usize - 1);
                answers.toggle(question, option);
                None
            }
            KeyCode::Char(' ') => {
                answers.toggle(question, answers.option);
                None
            }
            KeyCode::Char('t') => {
                answers.write();
                None
            }
            KeyCode::Char('n') => {
                answers.clear();
                answers.next(&request)
            }
            KeyCode::Enter if answers.is_answered() => answers.next(&request),
            KeyCode::Enter => {
                self.note("Choose an answer first, or press n for none.");
                return None;
            }
            KeyCode::Char('r') => Some(Decision::reject("")),
            code => return self.key_common(code, now),
        };
        self.decide(decision?)
    }

    /// Folds the file of the diff that is at the top of the screen, or unfolds it; or all of them like that one.
    fn fold(&mut self, all: bool) {
        let Some((_, content)) = &self.content else { return };
        let rows = content.files.clone();
        if rows.is_empty() {
            return;
        }
        let here = rows.iter().rposition(|&row| row <= self.top).unwrap_or(0);
        let long = self.permission().map(long_files).unwrap_or_default();
        let is_long = |number: usize| long.get(number).copied().unwrap_or(false);
        let folded = !is_folded(&self.folds, here, is_long(here));
        let range = if all { 0..rows.len() } else { here..here + 1 };
        self.folds.extend(range.map(|number| (number, folded)));
        self.top = self.top.min(rows[here]);
        self.content = None;
    }

    /// Returns the numbers of the files of the diff that are folded.
    fn folded(&self) -> Vec<usize> {
        let long = self.permission().map(long_files).unwrap_or_default();
        let files = long.into_iter().enumerate();
        let folded = files.filter(|(number, is_long)| is_folded(&self.folds, *number, *is_long));
        folded.map(|(number, _)| number).collect()
    }

    /// Unfolds all files of the diff, for somebody who was about to allow it.
    fn unfold(&mut self, now: Now) {
        let folded = self.folded();
        let first = folded.first().copied().unwrap_or_default();
        let row = self
            .content
            .as_ref()
            .and_then(|(_, content)| content.files.get(first).copied());
        self.top = self.top.min(row.unwrap_or_default());
        self.folds.extend(folded.into_iter().map(|number| (number, false)));
        self.content = None;
        self.comes_up(now);
        self.note("The diff was folded, and is whole now: look at it, then press the key again.");
    }
}

/// Says of each file of a diff whether its changes are long.
fn long_files(request: &toolgate_contract::PermissionRequest) -> Vec<bool> {
    diff::of(request)
        .map(|text| diff::files(text).iter().map(FileDiff::is_long).collect())
        .unwrap_or_default()
}

/// Says whether a key decides nothing whatever the step is.
fn is_harmless(code: KeyCode) -> bool {
    matches!(
        code,
        KeyCode::Tab
            | KeyCode::BackTab
            | KeyCode::Up
            | KeyCode::Down
            | KeyCode::PageUp
            | KeyCode::PageDown
            | KeyCode::Home
            | KeyCode::End
    )
}

fn pretty(json: &str) -> String {
    let value: Result<Value, _> = serde_json::from_str(json);
    let text = value.ok().and_then(|value| serde_json::to_string_pretty(&value).ok());
    text.unwrap_or_else(|| json.to_owned())
}

/// Returns the input that a text makes of another one.
///
/// # Errors
/// What is wrong with the text.
fn replaced(input: &str, text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        return Err("Write what should run instead; Escape leaves it as it is.".to_owned());
    }
    let before: Value = serde_json::from_str(input).unwrap_or_default();
    let after = words::edited(input, text).unwrap_or_default();
    match serde_json::from_str::<Value>(&after) {
        Ok(value) if value == before => Err("That is the same; Escape leaves it, and o allows it.".to_owned()),
        Ok(_) => Ok(after),
        Err(error) => Err(format!("This is not JSON: {error}")),
    }
}

#[cfg(test)]
mod tests;
