//! What a server finds wrong in a file.
//!
//! *Invariant:* pure.

use std::fmt;

use serde_json::Value;

/// One finding, as the server's JSON has it; what is missing there has a default.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnostic(Value);

/// How bad a finding is, worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// It does not work.
    Error,
    /// It may not be what was meant.
    Warning,
    /// Something to know.
    Information,
    /// Something that could be better.
    Hint,
}

impl Diagnostic {
    /// Takes the server's JSON.
    pub fn new(json: Value) -> Self {
        Self(json)
    }

    /// Returns how bad it is; an error if the server does not say.
    pub fn severity(&self) -> Severity {
        match self.0.get("severity").and_then(Value::as_u64) {
            Some(2) => Severity::Warning,
            Some(3) => Severity::Information,
            Some(4) => Severity::Hint,
            Some(_) | None => Severity::Error,
        }
    }

    /// Returns where it begins: line and column, both counted from 1.
    pub fn start(&self) -> (u64, u64) {
        let number = |name: &str| {
            let start = self.0.get("range").and_then(|range| range.get("start"));
            let number = start.and_then(|start| start.get(name)).and_then(Value::as_u64);
            number.unwrap_or_default().saturating_add(1)
        };
        (number("line"), number("character"))
    }

    /// Returns what the server says.
    pub fn message(&self) -> &str {
        self.0.get("message").and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns the server's JSON.
    pub fn json(&self) -> &Value {
        &self.0
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.severity() {
            Severity::Error => "ERROR",
            Severity::Warning => "WARN",
            Severity::Information => "INFO",
            Severity::Hint => "HINT",
        };
        let (line, column) = self.start();
        write!(f, "{word} [{line}:{column}] {}", self.message())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn is_one_line_for_the_model() {
        let check = |json: Value, expected: &str| {
            assert_eq!(Diagnostic::new(json.clone()).to_string(), expected, "{json}");
        };
        let range = json!({"start": {"line": 0, "character": 4}, "end": {"line": 9, "character": 9}});
        check(json!({"range": range, "message": "m"}), "ERROR [1:5] m");
        check(json!({"range": range, "severity": 1, "message": "m"}), "ERROR [1:5] m");
        check(json!({"range": range, "severity": 2, "message": "m"}), "WARN [1:5] m");
        check(json!({"range": range, "severity": 3, "message": "m"}), "INFO [1:5] m");
        check(json!({"range": range, "severity": 4, "message": "m"}), "HINT [1:5] m");
        check(json!({"severity": 7, "message": 5}), "ERROR [1:1] ");
        check(json!(null), "ERROR [1:1] ");
        check(
            json!({"range": {"start": {"line": u64::MAX, "character": -1}}}),
            "ERROR [18446744073709551615:1] ",
        );
    }
}
