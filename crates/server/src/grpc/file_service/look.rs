//! Showing files: one entry, a tree, a content.
//!
//! *Invariant:* nothing is told of a path before it is known to be inside and permitted.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures_util::stream;
use tokio_util::sync::CancellationToken;
use tonic::Status;
use toolgate_contract::*;
use toolgate_engine::Glance;
use toolgate_fs::reader::Reader;
use toolgate_fs::tree::{self, EntryKind, MAX_DEPTH, Wanted};
use toolgate_fs::{FileError, ResolvedPath};
use toolgate_model::Ask;

use super::permitted::{inside, may, read_of, shown};
use super::wire;
use crate::grpc::convert::{int, page_size, unsigned};
use crate::grpc::events::ResponseStream;
use crate::grpc::status::{self, bad_field};

const MAX_ENTRIES: usize = 10_000;

/// Bytes of one message.
const PIECE: usize = 64 << 10;

/// Returns what is at a path.
pub(super) async fn stat(glance: &Glance, written: &str, with_sha256: bool) -> Result<FileInfo, Status> {
    let path = inside(glance, written).await?;
    may(glance, &read_of(&path)).await?;
    let failed = |error: FileError| status::file(&error, written);
    let facts = tree::look(&path).await.map_err(failed)?;
    let facts = facts.ok_or_else(|| status::not_found("file", written))?;
    let name = shown(glance, path.display_path());
    let link = tree::link_at(&path).await.map_err(failed)?;
    let mut file = FileInfo {
        link_target: wire::target(link.as_deref()),
        ..wire::file(name, &facts)
    };
    if with_sha256 && facts.kind == EntryKind::File {
        file.sha256 = match Reader::open(path).await.map_err(failed)? {
            Some(reader) => reader.sha256().await.map_err(failed)?.unwrap_or_default(),
            None => return Err(status::not_found("file", written)),
        };
    }
    Ok(file)
}

/// Returns a page of a tree.
pub(super) async fn list(glance: &Glance, request: &ListFilesRequest) -> Result<ListFilesResponse, Status> {
    let depth = match usize::try_from(request.depth) {
        Ok(0) => 1,
        Ok(depth) => depth.min(MAX_DEPTH),
        Err(_) => return Err(bad_field("depth", format!("{} is below 0", request.depth))),
    };
    let wanted = Wanted {
        depth,
        ignored: request.include_ignored,
        after: after(&request.page_token)?,
        most: page_size(request.page_size, 1000, MAX_ENTRIES)?,
    };
    let folder = folder(glance, &request.path).await?;
    let cancelled = CancellationToken::new();
    // Who does not wait any more does not want the rest.
    let _guard = cancelled.clone().drop_guard();
    let page = tree::list(&folder, wanted, hidden(glance, &folder), cancelled).await;
    let page = page.map_err(|error| status::file(&error, &request.path))?;
    let files = page.entries.iter().map(|entry| {
        let path = shown(glance, &folder.display_path().join(&entry.relative));
        wire::entry(path, entry)
    });
    let last = page.entries.last().map(|last| token(&last.relative));
    Ok(ListFilesResponse {
        files: files.collect(),
        next_page_token: match page.more {
            true => last.unwrap_or_else(|| request.page_token.clone()),
            false => String::new(),
        },
    })
}

/// Resolves a folder that may be listed.
pub(super) async fn folder(glance: &Glance, written: &str) -> Result<ResolvedPath, Status> {
    let folder = inside(glance, written).await?;
    let path = folder.display_path().to_string_lossy().into_owned();
    let ask = Ask {
        title: path.clone(),
        ..Ask::new("list", vec![path])
    };
    may(glance, &ask).await?;
    may(glance, &read_of(&folder)).await?;
    Ok(folder)
}

/// Returns what says whether a rule denies to read an entry of a folder.
pub(super) fn hidden(glance: &Glance, folder: &ResolvedPath) -> impl Fn(&Path) -> bool + Send + Sync + use<> {
    let denies = glance.hiding("read");
    let names: Vec<PathBuf> = folder.patterns().into_iter().map(PathBuf::from).collect();
    move |relative| {
        let mut paths = names.iter().map(|name| name.join(relative));
        paths.any(|path| denies(&path.to_string_lossy()))
    }
}

/// A name of a file need not be text, so that a token has its bytes.
fn token(last: &Path) -> String {
    URL_SAFE_NO_PAD.encode(last.as_os_str().as_bytes())
}

fn after(token: &str) -> Result<Option<PathBuf>, Status> {
    if token.is_empty() {
        return Ok(None);
    }
    let bytes = URL_SAFE_NO_PAD.decode(token);
    let bytes = bytes.map_err(|_| bad_field("page_token", "this service did not issue this token"))?;
    Ok(Some(OsString::from_vec(bytes).into()))
}

/// What is left to send of a file.
struct Pieces {
    reader: Reader,
    path: String,
    first: Option<FileInfo>,
    offset: u64,
    left: u64,
}

/// Streams a content.
pub(super) async fn read(
    glance: &Glance,
    request: ReadFileRequest,
) -> Result<ResponseStream<ReadFileResponse>, Status> {
    let range = request.range.unwrap_or_default();
    let offset = unsigned("range.offset", range.offset)?;
    let left = match unsigned("range.limit", range.limit)? {
        0 => u64::MAX,
        limit => limit,
    };
    let path = inside(glance, &request.path).await?;
    may(glance, &read_of(&path)).await?;
    let failed = |error: FileError| status::file(&error, &request.path);
    let name = shown(glance, path.display_path());
    let link = tree::link_at(&path).await.map_err(failed)?;
    let reader = Reader::open(path).await.map_err(failed)?;
    let reader = reader.ok_or_else(|| status::not_found("file", &request.path))?;
    let mut file = FileInfo {
        link_target: wire::target(link.as_deref()),
        ..wire::file(name, &reader.facts())
    };
    if request.with_sha256 {
        file.sha256 = reader.sha256().await.map_err(failed)?.unwrap_or_default();
    }
    let pieces = Pieces {
        reader,
        path: request.path,
        first: Some(file),
        offset,
        left,
    };
    Ok(Box::pin(stream::try_unfold(pieces, |pieces| async move {
        pieces.next().await
    })))
}

impl Pieces {
    async fn next(mut self) -> Result<Option<(ReadFileResponse, Self)>, Status> {
        if let Some(file) = self.first.take() {
            let response = ReadFileResponse {
                file: Some(file),
                offset: int(self.offset),
                ..ReadFileResponse::default()
            };
            return Ok(Some((response, self)));
        }
        let failed = |error: FileError| status::file(&error, &self.path);
        let size = usize::try_from(self.left).unwrap_or(usize::MAX).min(PIECE);
        let data = match size {
            0 => bytes::Bytes::new(),
            // No file is that long, and the system takes no such offset.
            size if i64::try_from(self.offset.saturating_add(size as u64)).is_err() => bytes::Bytes::new(),
            size => self.reader.read(self.offset, size).await.map_err(failed)?,
        };
        if data.is_empty() {
            let is_unchanged = self.reader.is_unchanged().await.map_err(failed)?;
            if !is_unchanged {
                let problem = format!("somebody has written to {} while it was read: read it again", self.path);
                return Err(status::changed(ErrorReason::FileChanged, problem));
            }
            return Ok(None);
        }
        let read = data.len() as u64;
        let response = ReadFileResponse {
            file: None,
            offset: int(self.offset),
            data,
        };
        self.offset += read;
        self.left -= read;
        Ok(Some((response, self)))
    }
}
