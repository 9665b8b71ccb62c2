//! Reading `toolgate.toml`: the values, and the line of each key.

use std::ops::Range;
use std::path::Path;

use toml::de::{DeTable, DeValue};

use super::raw::RawConfig;
use crate::error::{ConfigError, Position, Problem};

/// Parses the text of a file.
pub(super) fn parse(text: &str, path: &Path) -> Result<RawConfig, ConfigError> {
    toml::from_str(text).map_err(|error| {
        let span = error.span();
        let root = DeTable::parse(text).ok();
        let key = span.as_ref().and_then(|span| key_at(root.as_ref()?.get_ref(), span));
        let position = span.map(|span| Position::at(text, span.start));
        ConfigError::invalid(
            path.display(),
            Problem::new(position, key.unwrap_or_default(), error.message().trim()),
        )
    })
}

/// Returns the place of a key, its segments joined by dots.
pub(super) fn locate(text: &str, key: &str) -> Option<Position> {
    let root = DeTable::parse(text).ok()?;
    let mut table = root.get_ref();
    let mut place = None;
    for segment in key.split('.') {
        let Some((name, value)) = table.iter().find(|(name, _)| name.get_ref() == segment) else {
            break;
        };
        place = Some(name.span().start);
        let DeValue::Table(below) = value.get_ref() else { break };
        table = below;
    }
    place.map(|offset| Position::at(text, offset))
}

/// Returns the innermost key at whose name or value a span lies. The span of a table is its header only, so what is in
/// it is looked at whether or not the span is.
fn key_at(table: &DeTable<'_>, span: &Range<usize>) -> Option<String> {
    let around = |part: Range<usize>| part.start <= span.start && span.end <= part.end;
    table.iter().find_map(|(name, value)| {
        let below = match value.get_ref() {
            DeValue::Table(table) => key_at(table, span),
            DeValue::String(_)
            | DeValue::Integer(_)
            | DeValue::Float(_)
            | DeValue::Boolean(_)
            | DeValue::Datetime(_)
            | DeValue::Array(_) => None,
        };
        match below {
            Some(below) => Some(format!("{}.{below}", name.get_ref())),
            None => (around(name.span()) || around(value.span())).then(|| name.get_ref().to_string()),
        }
    })
}
