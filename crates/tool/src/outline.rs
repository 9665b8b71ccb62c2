//! What is shown of a call before it has a result: a title, and one line of what it touches.
//!
//! *Invariant:* made from the frozen input alone, which need not fit the tool's schema. Secrets are taken out before a line
//! is cut.

use serde_json::Value;
use toolgate_model::redact::Redactor;

/// Characters of a line at most, the mark of a cut included.
const MAX_CHARS: usize = 200;

/// What a call is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outline {
    /// A short text for people.
    pub title: String,
    /// What the call touches: a command, a path, a URL, a pattern.
    pub summary: String,
}

impl Outline {
    /// Makes one whose title is its summary.
    pub fn new(summary: impl Into<String>) -> Self {
        let summary = summary.into();
        Self {
            title: summary.clone(),
            summary,
        }
    }

    /// Makes one of the values of arguments, those that are there and are texts.
    pub fn of(input: &Value, arguments: &[&str]) -> Self {
        let texts: Vec<&str> = arguments.iter().filter_map(|name| text(input, name)).collect();
        Self::new(texts.join(" "))
    }

    /// Gives it the title that an argument holds, if there is one.
    pub fn titled(mut self, input: &Value, argument: &str) -> Self {
        if let Some(title) = text(input, argument) {
            title.clone_into(&mut self.title);
        }
        self
    }

    /// Makes one of a tool's name and the first short text among its arguments.
    pub fn of_any(tool: &str, input: &Value) -> Self {
        let is_short = |text: &&str| (1..=MAX_CHARS).contains(&text.chars().take(MAX_CHARS + 1).count());
        let mut texts = input
            .as_object()
            .into_iter()
            .flatten()
            .filter_map(|(_, value)| value.as_str());
        match texts.find(is_short) {
            Some(text) => Self::new(format!("{tool} {text}")),
            None => Self::new(tool),
        }
    }

    /// Makes one that counts what an argument lists.
    pub fn counting(input: &Value, argument: &str, noun: &str) -> Self {
        let count = input[argument].as_array().map_or(0, Vec::len);
        Self::new(format!("{count} {noun}{}", if count == 1 { "" } else { "s" }))
    }

    /// Returns it as it is shown: without secrets, each text one line of at most 200 characters.
    pub fn shown(&self, redactor: &Redactor) -> Self {
        Self {
            title: line(&redactor.text(&self.title)),
            summary: line(&redactor.text(&self.summary)),
        }
    }
}

fn text<'v>(input: &'v Value, argument: &str) -> Option<&'v str> {
    input.get(argument)?.as_str().filter(|text| !text.trim().is_empty())
}

/// Returns a text as one line. What could fool its reader is written as an escape.
fn line(text: &str) -> String {
    let mut shown = String::new();
    let mut count = 0;
    for letter in text.trim().chars() {
        let before = shown.len();
        match letter {
            '\n' => shown.push('⏎'),
            '\t' => shown.push(' '),
            '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' => {
                shown.extend(letter.escape_unicode());
            }
            _ if letter.is_control() => shown.extend(letter.escape_unicode()),
            _ => shown.push(letter),
        }
        count += shown[before..].chars().count();
        if count > MAX_CHARS {
            let end = shown.char_indices().nth(MAX_CHARS - 1).map_or(before, |(at, _)| at);
            shown.truncate(end);
            shown.push('…');
            return shown;
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn lines_are_harmless() {
        let check = |text: &str, expected: &str| assert_eq!(line(text), expected, "{text:?}");
        check("  ls -la \n", "ls -la");
        check("a\nb\tc", "a⏎b c");
        check("\u{1b}[31mred", "\\u{1b}[31mred");
        check("a\u{202e}b", "a\\u{202e}b");
        check(&"x".repeat(200), &"x".repeat(200));
        check(&"x".repeat(201), &format!("{}…", "x".repeat(199)));
    }

    #[test]
    fn arguments_are_named() {
        let input = json!({"long": "x".repeat(300), "count": 7, "pattern": "fn", "path": "src", "empty": ""});
        assert_eq!(Outline::of(&input, &["pattern", "path"]), Outline::new("fn src"));
        assert_eq!(Outline::of(&input, &["pattern", "count", "absent"]).summary, "fn");
        assert_eq!(Outline::of(&input, &["pattern"]).titled(&input, "path").title, "src");
        assert_eq!(Outline::of(&input, &["pattern"]).titled(&input, "empty").title, "fn");
        let foreign = json!({"long": "x".repeat(300), "count": 7, "path": "src"});
        assert_eq!(Outline::of_any("deploy", &foreign).summary, "deploy src");
        assert_eq!(Outline::of_any("deploy", &json!([1])).summary, "deploy");
        assert_eq!(
            Outline::counting(&json!({"calls": [1]}), "calls", "call").summary,
            "1 call"
        );
        assert_eq!(Outline::counting(&json!(null), "calls", "call").summary, "0 calls");
    }

    #[test]
    fn a_secret_at_the_cut_is_not_shown() {
        let redactor = Redactor::new(&["hunter2-hunter2".to_owned()], &[]).unwrap();
        let outline = Outline::new(format!("{}hunter2-hunter2", "x".repeat(190)));
        assert!(!outline.shown(&redactor).summary.contains("hunter"));
    }

    proptest! {
        #[test]
        fn lines_are_bounded(text in "(?s).{0,400}") {
            let line = line(&text);
            prop_assert!(line.chars().count() <= MAX_CHARS);
            prop_assert!(!line.chars().any(char::is_control));
        }
    }
}
