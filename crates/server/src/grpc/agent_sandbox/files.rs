//! Files: shown as FileService shows them, deleted by the call that it makes.
//!
//! *Invariant:* a content is sent byte for byte and with its size, or breaks off where the client sees that it is not whole.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, TryStreamExt as _, stream};
use http_body::Frame;
use http_body_util::StreamBody;
use serde_json::{Value, json};
use tonic::body::Body;
use tonic::codegen::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use tonic::codegen::http::{HeaderMap, HeaderValue, Response, StatusCode};
use tonic::{Code, Status};
use toolgate_contract::file_service_server::FileService as _;
use toolgate_contract::*;

use super::answers;
use super::asked::{Asked, within};
use crate::grpc::events::ResponseStream;
use crate::grpc::file_service::WorkspaceFiles;
use crate::grpc::mcp::named;
use crate::grpc::shared::Shared;
use crate::grpc::status::{self, bad_field};

const PAGE: i32 = 10_000;

/// Entries of a listing, which has no pages for the SDKs and is in memory as a whole.
const MAX_ENTRIES: usize = 100_000;

/// The two ways in which a folder is listed.
#[derive(Clone, Copy)]
enum Listing {
    Runtime,
    Sandboxd,
}

/// Sends a file.
pub(super) async fn download(shared: &Arc<Shared>, asked: &Asked, name: &str) -> Result<Response<Body>, Status> {
    match look(shared, asked, name).await? {
        file if file.kind() == FileKind::File => content(shared, asked, name).await,
        _ => Err(status::not_found("file", name)),
    }
}

/// Lists a folder as the runtime in Python does.
pub(super) async fn list(shared: &Arc<Shared>, asked: &Asked, name: &str) -> Result<Response<Body>, Status> {
    match look(shared, asked, name).await? {
        file if file.kind() == FileKind::Folder => {
            let entries = entries(shared, asked, name, Listing::Runtime).await?;
            Ok(answers::json(&Value::Array(entries)))
        }
        _ => Err(status::not_found("folder", name)),
    }
}

/// Says whether there is something.
pub(super) async fn exists(shared: &Arc<Shared>, asked: &Asked, name: &str) -> Result<Response<Body>, Status> {
    let exists = match look(shared, asked, name).await {
        Ok(_) => true,
        Err(status) if status.code() == Code::NotFound && shared_has(shared, asked) => false,
        Err(status) => return Err(status),
    };
    Ok(answers::json(&json!({"path": name, "exists": exists})))
}

/// Says whether the workspace is there, so that a file that is not found is what is missing.
fn shared_has(shared: &Shared, asked: &Asked) -> bool {
    asked.caller.place(&shared.engine, &asked.context().workspace).is_ok()
}

/// Sends a file, or lists a folder as sandboxd does.
pub(super) async fn show(shared: &Arc<Shared>, asked: &Asked, name: &str) -> Result<Response<Body>, Status> {
    let file = look(shared, asked, name).await?;
    if file.kind() != FileKind::Folder {
        return content(shared, asked, name).await;
    }
    let entries = entries(shared, asked, name, Listing::Sandboxd).await?;
    let path = format!("/{}", name.trim_start_matches('/'));
    Ok(answers::json(&json!({"path": path, "entries": entries})))
}

/// Says what [`show`] would send.
pub(super) async fn head(shared: &Arc<Shared>, asked: &Asked, name: &str) -> Result<Response<Body>, Status> {
    let file = look(shared, asked, name).await?;
    let mut response = answers::nothing(StatusCode::OK);
    match file.kind() {
        FileKind::Folder => {
            let kind = HeaderValue::from_static("application/json");
            response.headers_mut().insert(CONTENT_TYPE, kind);
        }
        FileKind::File | FileKind::Link | FileKind::Other | FileKind::Unspecified => of_size(&mut response, &file),
    }
    Ok(response)
}

/// Deletes what is there.
pub(super) async fn delete(
    shared: &Arc<Shared>,
    asked: &Asked,
    name: &str,
    query: Option<&str>,
) -> Result<Response<Body>, Status> {
    let recursive = named("recursive", query.unwrap_or_default(), &HeaderMap::new());
    let recursive = match recursive.as_deref() {
        Ok("" | "false" | "0") => false,
        Ok("true" | "1") => true,
        Ok(_) | Err(_) => return Err(bad_field("recursive", "expected true or false")),
    };
    let path = within(name);
    let request = DeleteFileRequest {
        call: Some(asked.start(&json!(["delete", path, recursive]))),
        path,
        recursive,
        ..DeleteFileRequest::default()
    };
    WorkspaceFiles(shared.clone()).delete_file(asked.to(request)).await?;
    Ok(answers::nothing(StatusCode::NO_CONTENT))
}

/// Looks what is there; of a link, what it leads to.
async fn look(shared: &Arc<Shared>, asked: &Asked, name: &str) -> Result<FileInfo, Status> {
    let request = StatFileRequest {
        context: Some(asked.context()),
        path: within(name),
        with_sha256: false,
    };
    let found = WorkspaceFiles(shared.clone()).stat_file(asked.to(request)).await?;
    let file = found.into_inner().file;
    file.ok_or_else(|| status::not_found("file", name))
}

async fn content(shared: &Arc<Shared>, asked: &Asked, name: &str) -> Result<Response<Body>, Status> {
    let request = ReadFileRequest {
        context: Some(asked.context()),
        path: within(name),
        ..ReadFileRequest::default()
    };
    let pieces = WorkspaceFiles(shared.clone()).read_file(asked.to(request)).await?;
    let mut pieces = pieces.into_inner();
    let first = pieces.next().await.transpose()?.unwrap_or_default();
    let file = first.file.unwrap_or_default();
    let rest = pieces.map_ok(|piece| piece.data);
    let data = stream::iter([Ok::<Bytes, Status>(first.data)]).chain(rest);
    let data = data.try_filter(|piece| std::future::ready(!piece.is_empty()));
    let data = last_if_whole(data.boxed());
    let mut response = Response::new(Body::new(StreamBody::new(data.map_ok(Frame::data))));
    of_size(&mut response, &file);
    Ok(response)
}

/// Gives each piece when it is known how it goes on. That a file has changed is said behind its last piece, where nobody asks by
/// HTTP/1.1: all the bytes that were announced have come then.
fn last_if_whole(pieces: ResponseStream<Bytes>) -> impl Stream<Item = Result<Bytes, Status>> {
    stream::try_unfold((pieces.fuse(), None), async |(mut pieces, mut held)| {
        if held.is_none() {
            held = pieces.next().await.transpose()?;
        }
        let next = pieces.next().await.transpose()?;
        Ok(held.map(|piece| (piece, (pieces, next))))
    })
}

/// Says that a body is bytes, and how many.
fn of_size(response: &mut Response<Body>, file: &FileInfo) {
    let headers = response.headers_mut();
    let kind = HeaderValue::from_static("application/octet-stream");
    headers.insert(CONTENT_TYPE, kind);
    headers.insert(CONTENT_LENGTH, HeaderValue::from(file.size_bytes));
}

/// Lists what is in a folder, except what the SDKs have no word for.
async fn entries(shared: &Arc<Shared>, asked: &Asked, name: &str, listing: Listing) -> Result<Vec<Value>, Status> {
    let files = WorkspaceFiles(shared.clone());
    let (mut entries, mut page_token) = (Vec::new(), String::new());
    loop {
        let request = ListFilesRequest {
            context: Some(asked.context()),
            path: within(name),
            depth: 1,
            include_ignored: true,
            page_size: PAGE,
            page_token,
        };
        let page = files.list_files(asked.to(request)).await?.into_inner();
        for file in page.files {
            entries.extend(entry(shared, asked, file, listing).await);
        }
        if entries.len() > MAX_ENTRIES {
            let problem = format!(
                "the folder has more than {MAX_ENTRIES} entries, which is as many as are listed: list a folder below it, or run `ls`"
            );
            return Err(bad_field("path", problem));
        }
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return Ok(entries);
        }
    }
}

/// Returns an entry of a folder as the SDKs read it; none of what is neither a file nor a folder, nor leads to one that may be shown.
async fn entry(shared: &Arc<Shared>, asked: &Asked, file: FileInfo, listing: Listing) -> Option<Value> {
    if file.path_is_lossy {
        return None;
    }
    let name = file.path.rsplit('/').next()?.to_owned();
    let file = match file.kind() {
        FileKind::Link => look(shared, asked, &file.path).await.ok()?,
        FileKind::File | FileKind::Folder | FileKind::Other | FileKind::Unspecified => file,
    };
    let kind = match file.kind() {
        FileKind::File => "file",
        FileKind::Folder => "directory",
        FileKind::Link | FileKind::Other | FileKind::Unspecified => return None,
    };
    let modified = file.modify_time.unwrap_or_default();
    let mut entry = json!({"name": name, "size": file.size_bytes, "type": kind});
    match listing {
        Listing::Runtime => entry["mod_time"] = json!(modified.seconds as f64 + f64::from(modified.nanos) / 1e9),
        Listing::Sandboxd => {
            let to_the_second = prost_types::Timestamp { nanos: 0, ..modified };
            entry["modified_at"] = json!(to_the_second.to_string());
            entry["mode"] = json!(format!("{:04o}", file.mode));
        }
    }
    Some(entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_last_piece_comes_only_of_a_whole_file() {
        let check = async |pieces: &[Option<&'static str>], expected: &[Option<&'static str>]| {
            let given: Vec<Result<Bytes, Status>> = pieces.iter().map(|piece| of(*piece)).collect();
            let told = last_if_whole(stream::iter(given).boxed());
            let told = told.map(|piece| piece.ok()).collect::<Vec<_>>().await;
            let expected: Vec<Option<Bytes>> = expected.iter().map(|piece| piece.map(Bytes::from)).collect();
            assert_eq!(told, expected, "{pieces:?}");
        };
        let (a, b, torn) = (Some("a"), Some("b"), None);
        check(&[], &[]).await;
        check(&[a], &[a]).await;
        check(&[a, b], &[a, b]).await;
        check(&[a, torn], &[torn]).await;
        check(&[a, b, torn], &[a, torn]).await;
        check(&[torn], &[torn]).await;
    }

    fn of(piece: Option<&'static str>) -> Result<Bytes, Status> {
        piece.map(Bytes::from).ok_or_else(|| Status::aborted("it has changed"))
    }
}
