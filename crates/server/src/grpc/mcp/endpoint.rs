//! Where MCP clients are served, and what a request says beside its body: for those who look at it before it is read.

use tonic::codegen::http::{HeaderMap, HeaderName};

/// Where MCP clients are served.
pub const PATH: &str = "/mcp";

/// Names the session of a request.
pub const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

/// The longest name that is taken.
const MAX_NAME_BYTES: usize = 256;

/// Returns what a request of an MCP client names, the workspace for instance: in its query (`?workspace=NAME`), else in the
/// header of this name (`toolgate-workspace`). Empty if it names nothing; an empty value in the query is none.
///
/// # Errors
/// It cannot be read; the text says what.
pub fn named(name: &str, query: &str, headers: &HeaderMap) -> Result<String, String> {
    let found = match pair(query, name).filter(|encoded| !encoded.is_empty()) {
        Some(encoded) => decode(encoded),
        None => headers
            .get(format!("toolgate-{name}"))
            .map_or(Some(String::new()), |text| text.to_str().ok().map(str::to_owned)),
    };
    let is_fine = |text: &String| text.len() <= MAX_NAME_BYTES && !text.chars().any(char::is_control);
    found
        .filter(is_fine)
        .ok_or_else(|| format!("{name}: not a name of at most {MAX_NAME_BYTES} bytes"))
}

fn pair<'q>(query: &'q str, name: &str) -> Option<&'q str> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.filter(|(key, _)| *key == name).map(|(_, value)| value).next()
}

/// Decodes a value of a query; none if it is not encoded well, or not UTF-8.
fn decode(text: &str) -> Option<String> {
    let spaced = text.replace('+', " ");
    let mut encoded = spaced.split('%').skip(1).map(str::as_bytes);
    if !encoded.all(|rest| rest.len() >= 2 && rest[..2].iter().all(u8::is_ascii_hexdigit)) {
        return None;
    }
    let decoded = percent_encoding::percent_decode_str(&spaced).decode_utf8().ok()?;
    Some(decoded.into_owned())
}
