//! Stored outputs as resources, so that what a result leaves out can be read: `toolgate://outputs/ID`, in pieces.
//!
//! *Invariant:* a piece is bounded. The outputs of a client's own calls are its to read; for others it takes the scope that
//! the contract wants, also in a session that it names, and what a caller may not see is not there.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rmcp::ErrorData;
use rmcp::model::{
    Implementation, ListResourcesResult, MetaObject, ReadResourceResult, Resource, ResourceContents, ResourceTemplate,
};
use serde_json::json;
use toolgate_contract::Scope;
use toolgate_engine::{Engine, outputs};
use toolgate_model::{OutputId, SessionId};
use toolgate_store::{OutputFilter, OutputInfo, PageRequest, StoreError};

use super::super::shared::Shared;
use super::context::Seen;

const OUTPUTS: &str = "toolgate://outputs/";

/// Bytes of one piece.
const READ_CHUNK_BYTES: u64 = 256 * 1024;

/// Outputs of one page.
const PAGE_SIZE: usize = 100;

/// Returns the address of a stored output.
pub(super) fn uri(output: &OutputId) -> String {
    format!("{OUTPUTS}{output}")
}

/// Says whether an address is one of those that are served here.
pub(super) fn is_own(uri: &str) -> bool {
    uri.starts_with("toolgate:")
}

/// Returns how outputs are addressed.
pub(super) fn template() -> ResourceTemplate {
    ResourceTemplate::new(format!("{OUTPUTS}{{id}}{{?offset,limit,line,tail}}"), "output")
        .with_title("Stored output of a tool call")
        .with_description(format!(
            "The whole output of a call, of which its result may show only a part. At most {READ_CHUNK_BYTES} bytes at a time: \
             `offset` and `limit` are bytes, `line` starts at that line (from 1), `tail` is a number of last lines; \
             _meta.nextOffset says where to go on."
        ))
}

/// Where in an output to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    Byte(u64),
    Line(u64),
    Tail(u64),
}

/// What a request wants of an output.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Wanted {
    id: OutputId,
    start: Start,
    limit: u64,
}

impl Wanted {
    fn parse(uri: &str) -> Option<Self> {
        let (id, query) = {
            let rest = uri.strip_prefix(OUTPUTS)?;
            rest.split_once('?').unwrap_or((rest, ""))
        };
        let is_id =
            !id.is_empty() && id.len() <= 128 && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if !is_id {
            return None;
        }
        let mut wanted = Self {
            id: OutputId::from(id),
            start: Start::Byte(0),
            limit: READ_CHUNK_BYTES,
        };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=')?;
            let value: u64 = value.parse().ok()?;
            match name {
                "offset" => wanted.start = Start::Byte(value),
                "line" if value > 0 => wanted.start = Start::Line(value),
                "tail" => wanted.start = Start::Tail(value),
                "limit" => wanted.limit = value.clamp(1, READ_CHUNK_BYTES),
                _ => return None,
            }
        }
        Some(wanted)
    }
}

/// Lists the outputs of a session, newest first.
pub(super) async fn list(
    shared: &Shared,
    seen: &Seen,
    client: Option<&Implementation>,
    cursor: Option<String>,
) -> Result<ListResourcesResult, ErrorData> {
    let filter = OutputFilter {
        workspaces: seen.caller.workspaces().clone(),
        session: Some(conversation(&shared.engine, seen, client)?),
        ..OutputFilter::default()
    };
    let page = PageRequest {
        size: PAGE_SIZE,
        after: cursor,
    };
    let page = shared.outputs.list_outputs(&filter, &page).await.map_err(store)?;
    let mut listed = Vec::new();
    for info in &page.items {
        if may_read(shared, seen, client, info).await? {
            listed.push(resource(info));
        }
    }
    let mut listed = ListResourcesResult::with_all_items(listed);
    listed.next_cursor = page.next;
    Ok(listed)
}

fn conversation(engine: &Engine, seen: &Seen, client: Option<&Implementation>) -> Result<SessionId, ErrorData> {
    let place = seen.context.place(&seen.caller, engine);
    let place = place.map_err(|status| ErrorData::invalid_params(status.message().to_owned(), None))?;
    Ok(seen.conversation(client, &place))
}

/// Says whether a caller may read an output. Whoever names a session may name another one's.
async fn may_read(
    shared: &Shared,
    seen: &Seen,
    client: Option<&Implementation>,
    info: &OutputInfo,
) -> Result<bool, ErrorData> {
    if !seen.caller.sees(&info.owner.workspace) {
        return Ok(false);
    }
    if seen.caller.may(Scope::OutputsRead) {
        return Ok(true);
    }
    if info.owner.session != conversation(&shared.engine, seen, client)? {
        return Ok(false);
    }
    if !seen.context.names_session() {
        return Ok(true);
    }
    let call = shared.engine.get(&info.owner.call).await.map_err(store)?;
    Ok(call.is_some_and(|call| call.origin.requester == seen.caller.principal().id()))
}

fn resource(info: &OutputInfo) -> Resource {
    Resource::new(uri(&info.id), info.id.as_str())
        .with_title(format!("Output of the call {}", info.owner.call))
        .with_mime_type("text/plain")
        .with_size(info.bytes)
}

/// Reads a piece of an output.
pub(super) async fn read(
    shared: &Shared,
    seen: &Seen,
    client: Option<&Implementation>,
    uri: &str,
) -> Result<ReadResourceResult, ErrorData> {
    let missing = || ErrorData::resource_not_found(format!("there is no resource {uri:?}"), None);
    let wanted = Wanted::parse(uri).ok_or_else(missing)?;
    let outputs = &*shared.outputs;
    let info = outputs.look(&wanted.id).await.map_err(store)?;
    let info = info.ok_or_else(missing)?;
    if !may_read(shared, seen, client, &info).await? {
        return Err(missing());
    }
    let start = match wanted.start {
        Start::Byte(offset) => offset.min(info.bytes),
        Start::Line(line) => outputs::line_start(outputs, &info.id, line)
            .await
            .map_err(store)?
            .unwrap_or(info.bytes),
        Start::Tail(lines) => outputs::tail_start(outputs, &info.id, lines).await.map_err(store)?,
    };
    let mut data = Vec::new();
    while (data.len() as u64) < wanted.limit {
        let left = usize::try_from(wanted.limit - data.len() as u64).unwrap_or(outputs::PIECE);
        let at = start + data.len() as u64;
        let piece = outputs.read(&info.id, at, left).await.map_err(store)?;
        if piece.is_empty() {
            break;
        }
        data.extend_from_slice(&piece);
    }
    let is_last = start + data.len() as u64 >= info.bytes;
    let contents = contents(uri, data, start, is_last, &info);
    Ok(ReadResourceResult::new(vec![contents]))
}

/// Makes text of bytes where they are text; a character that the end of a piece cuts is left for the next one.
fn contents(uri: &str, mut data: Vec<u8>, start: u64, is_last: bool, info: &OutputInfo) -> ResourceContents {
    if let Err(error) = std::str::from_utf8(&data)
        && error.error_len().is_none()
        && error.valid_up_to() > 0
        && !is_last
    {
        data.truncate(error.valid_up_to());
    }
    let next = start + data.len() as u64;
    let mut meta = MetaObject::default();
    meta.insert("offset".to_owned(), json!(start));
    meta.insert("bytes".to_owned(), json!(info.bytes));
    meta.insert("complete".to_owned(), json!(info.complete && !info.cut));
    if !is_last || next < info.bytes {
        meta.insert("nextOffset".to_owned(), json!(next));
    }
    let contents = match String::from_utf8(data) {
        Ok(text) => ResourceContents::text(text, uri),
        Err(error) => {
            ResourceContents::blob(STANDARD.encode(error.as_bytes()), uri).with_mime_type("application/octet-stream")
        }
    };
    contents.with_meta(meta)
}

fn store(error: StoreError) -> ErrorData {
    match error {
        StoreError::BadPage(problem) => ErrorData::invalid_params(problem, None),
        StoreError::NotFound(name) => ErrorData::resource_not_found(format!("there is no {name}"), None),
        StoreError::Conflict(_)
        | StoreError::Fenced(_)
        | StoreError::Full(_)
        | StoreError::Unavailable(_)
        | StoreError::Failed { .. } => {
            tracing::error!(error = &error as &dyn std::error::Error, "an output could not be read");
            ErrorData::internal_error("the output could not be read", None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        let check = |uri: &str, expected: Option<(Start, u64)>| {
            let found = Wanted::parse(uri).map(|wanted| (wanted.start, wanted.limit));
            assert_eq!(found, expected, "{uri}");
        };
        check("toolgate://outputs/tool_1", Some((Start::Byte(0), READ_CHUNK_BYTES)));
        check(
            "toolgate://outputs/tool_1?offset=5&limit=10",
            Some((Start::Byte(5), 10)),
        );
        check(
            "toolgate://outputs/tool_1?line=3",
            Some((Start::Line(3), READ_CHUNK_BYTES)),
        );
        check(
            "toolgate://outputs/tool_1?tail=3&limit=99999999999",
            Some((Start::Tail(3), READ_CHUNK_BYTES)),
        );
        check("toolgate://outputs/tool_1?limit=0", Some((Start::Byte(0), 1)));
        check("toolgate://outputs/", None);
        check("toolgate://outputs/../etc", None);
        check("toolgate://outputs/tool_1?line=0", None);
        check("toolgate://outputs/tool_1?offset=-1", None);
        check("toolgate://outputs/tool_1?what=1", None);
        check("file:///etc/passwd", None);
    }
}
