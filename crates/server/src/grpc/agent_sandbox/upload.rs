//! Contents that come: each is written by a call of `files`, byte for byte, and asked about like any other change.
//!
//! *Invariant:* a content is never in memory as a whole. What breaks off is not written.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt as _;
use http_body_util::BodyExt as _;
use serde_json::json;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::{HeaderMap, Request, Response, StatusCode};
use toolgate_contract::WriteTarget;

use super::answers;
use super::asked::{Asked, within};
use super::form;
use crate::grpc::events::ResponseStream;
use crate::grpc::file_service::change::Change;
use crate::grpc::mcp::named;
use crate::grpc::shared::Shared;
use crate::grpc::status::bad_field;

/// Writes the file of a form, whose name says where.
pub(super) async fn of_form(
    shared: &Arc<Shared>,
    asked: &Asked,
    request: Request<Body>,
) -> Result<Response<Body>, Status> {
    let boundary =
        form::boundary(request.headers()).ok_or_else(|| bad_field("body", "expected multipart/form-data"))?;
    let (name, content) = form::file(request.into_body().into_data_stream(), boundary).await?;
    let name = name.ok_or_else(|| bad_field(form::PART, "the part has no name of a file"))?;
    write(shared, asked, &name, None, content).await?;
    Ok(answers::json(&json!({"message": format!("{name:?} is written")})))
}

/// Writes the body of a request, or the file of the form that it is.
pub(super) async fn put(
    shared: &Arc<Shared>,
    asked: &Asked,
    name: &str,
    request: Request<Body>,
) -> Result<Response<Body>, Status> {
    let mode = mode(request.uri().query().unwrap_or_default())?;
    let content = match form::boundary(request.headers()) {
        Some(boundary) => form::file(request.into_body().into_data_stream(), boundary).await?.1,
        None => request.into_body().into_data_stream().boxed(),
    };
    write(shared, asked, name, mode, content).await?;
    Ok(answers::nothing(StatusCode::NO_CONTENT))
}

async fn write(
    shared: &Arc<Shared>,
    asked: &Asked,
    name: &str,
    mode: Option<u32>,
    content: ResponseStream<Bytes>,
) -> Result<(), Status> {
    let path = within(name);
    let start = asked.start(&json!(["write", path, mode]));
    let change = Change::new(shared, &asked.caller, Some(start), asked.deadline)?;
    let target = WriteTarget {
        path,
        mode,
        ..WriteTarget::default()
    };
    change.write(&target, content).await.map(drop)
}

/// Reads the permission bits that a file is to get, four octal digits.
fn mode(query: &str) -> Result<Option<u32>, Status> {
    let wrong = || bad_field("mode", "expected 0 and three octal digits, such as 0644");
    let text = named("mode", query, &HeaderMap::new()).map_err(|_| wrong())?;
    if text.is_empty() {
        return Ok(None);
    }
    let is_fine = text.len() == 4 && text.starts_with('0') && text.bytes().all(|digit| digit.is_ascii_digit());
    let mode = u32::from_str_radix(&text, 8).ok();
    mode.filter(|_| is_fine).map(Some).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_octal() {
        let check = |query: &str, expected: Option<Option<u32>>| assert_eq!(mode(query).ok(), expected, "{query}");
        check("", Some(None));
        check("mode=0644", Some(Some(0o644)));
        check("x=1&mode=0755", Some(Some(0o755)));
        check("mode=644", None);
        check("mode=1644", None);
        check("mode=0888", None);
        check("mode=%2B644", None);
    }
}
