//! A prompt in few lines, for where it is told of and nobody answers it.

use prost_types::value::Kind;
use toolgate_contract::{Prompt, prompt};

use super::{Paint, rendered};
use crate::cli::diff;
use crate::cli::terminal::Look;

/// Lines that are shown of a prompt.
const MOST_LINES: usize = 24;

/// Returns a prompt with the sums of its diff in the place of that, and of the rest so many lines.
pub(crate) fn brief(prompt: &Prompt, paint: Paint) -> String {
    let mut shown = prompt.clone();
    if let (Some(changes), Some(prompt::Request::Permission(request))) = (diff::summary(prompt), &mut shown.request) {
        // What the input does, the diff said.
        shown.input_json.clear();
        if let Some(metadata) = &mut request.metadata {
            metadata
                .fields
                .retain(|key, _| !matches!(key.as_str(), "diff" | "patch" | "files"));
            let changes = prost_types::Value {
                kind: Some(Kind::StringValue(changes)),
            };
            metadata.fields.insert("changes".to_owned(), changes);
        }
    }
    let text = rendered(&shown, true, paint);
    let lines: Vec<&str> = text.lines().collect();
    if lines.len() <= MOST_LINES {
        return text;
    }
    let more = format!(
        "  … {} more lines; toolgate approve shows all of it",
        lines.len() - MOST_LINES
    );
    format!("{}\n{}", lines[..MOST_LINES].join("\n"), paint.text(Look::Dim, &more))
}
