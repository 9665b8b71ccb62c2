//! Changing files: each change is a call of the tool `files`, made and waited for here.
//!
//! *Invariant:* a content waits beside the call, under the call's id and its own digest, and is gone when the call has ended.

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream};
use serde_json::{Value, json};
use tokio::time::Instant;
use tonic::{Code, Status, Streaming};
use toolgate_contract::*;
use toolgate_fs::FileError;
use toolgate_fs::uploads::Upload;

use super::look;
use super::permitted::{self, named};
use crate::grpc::auth::Caller;
use crate::grpc::rpc_call::RpcCall;
use crate::grpc::shared::Shared;
use crate::grpc::status::{self, bad_field};

/// The tool that changes files.
const TOOL: &str = "files";

/// A content as it comes, piece by piece.
pub(crate) type Content = Pin<Box<dyn Stream<Item = Result<Bytes, Status>> + Send>>;

/// A message of a stream that brings a content.
pub(super) trait Piece: Send + 'static {
    /// Returns its bytes, and whether it says where to write, as only the first one may.
    fn into_parts(self) -> (Bytes, bool);
}

impl Piece for UploadFileRequest {
    fn into_parts(self) -> (Bytes, bool) {
        (self.content, self.target.is_some() || self.call.is_some())
    }
}

impl Piece for UploadArchiveRequest {
    fn into_parts(self) -> (Bytes, bool) {
        (self.data, self.target.is_some() || self.call.is_some())
    }
}

/// Returns a content that is here as a whole.
pub(super) fn whole(content: Bytes) -> Content {
    Box::pin(stream::iter([Ok(content)]))
}

/// Returns a content whose first bytes are here, and the others follow.
pub(super) fn pieces<P: Piece>(first: Bytes, others: Streaming<P>) -> Content {
    let others = others.map(|piece| match piece?.into_parts() {
        (bytes, false) => Ok(bytes),
        (_, true) => Err(bad_field(
            "target",
            "only the first message says where to write, and how",
        )),
    });
    Box::pin(stream::iter([Ok(first)]).chain(others))
}

/// A change that is to be made.
pub(crate) struct Change<'a>(RpcCall<'a>);

/// Adds to an input the SHA-256 that a file must have, if one is named.
pub(super) fn expect_sha256(input: &mut Value, sha256: &str) -> Result<(), Status> {
    if sha256.is_empty() {
        return Ok(());
    }
    if sha256.len() != 64 || !sha256.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Err(bad_field("if_sha256", "not 64 hexadecimal digits"));
    }
    input["ifSha256"] = json!(sha256.to_ascii_lowercase());
    Ok(())
}

impl<'a> Change<'a> {
    /// Prepares a change in the name of a caller.
    pub(crate) fn new(
        shared: &'a Arc<Shared>,
        caller: &'a Caller,
        call: Option<CallStart>,
        deadline: Option<Instant>,
    ) -> Result<Self, Status> {
        RpcCall::new(shared, caller, TOOL, call, deadline).map(Self)
    }

    /// Writes a content, and returns the call and the file as it is then.
    pub(crate) async fn write(
        &self,
        target: &WriteTarget,
        content: Content,
    ) -> Result<(String, Option<FileInfo>), Status> {
        let mut input = json!({"operation": "write", "path": named("target.path", &target.path)?});
        expect_sha256(&mut input, &target.if_sha256)?;
        if target.if_absent {
            input["ifAbsent"] = json!(true);
        }
        if let Some(mode) = target.mode {
            if mode > 0o777 {
                return Err(bad_field("target.mode", "more than the permission bits 0777"));
            }
            input["mode"] = json!(mode);
        }
        let call_id = self.send(input, content).await?;
        let file = self.result(&target.path, true).await;
        Ok((call_id, file))
    }

    /// Keeps a content for the call, makes that, and returns its id.
    pub(super) async fn send(&self, mut input: Value, content: Content) -> Result<String, Status> {
        let (uploads, call) = (&self.0.shared.uploads, &self.0);
        let upload = uploads.begin().await.map_err(not_kept)?;
        let upload = receive(upload, content).await?;
        let kept = upload.keep(call.workspace(), call.id()).await;
        let (sha256, bytes) = kept.map_err(not_kept)?;
        input["sha256"] = json!(sha256);
        input["bytes"] = json!(bytes);
        let made = call.make(input).await;
        // A call of the next run of the service, or another one of the same id, may still want it; then time takes it away.
        let is_over = |status: &Status| !matches!(status.code(), Code::Unavailable | Code::AlreadyExists);
        if made.as_ref().err().is_none_or(is_over) {
            uploads.forget(call.workspace(), call.id(), &sha256).await;
        }
        made
    }

    /// Makes the call, and returns its id if it did what it is for.
    pub(super) async fn make(&self, input: Value) -> Result<String, Status> {
        self.0.make(input).await
    }

    /// Returns a file as the change has left it; nothing if it may not be shown, or is gone already.
    pub(super) async fn result(&self, path: &str, with_sha256: bool) -> Option<FileInfo> {
        let glance = permitted::glance(self.0.shared, self.0.caller, self.0.context())
            .await
            .ok()?;
        look::stat(&glance, path, with_sha256).await.ok()
    }
}

/// The first message of a stream says nothing of where to write.
pub(super) fn no_target() -> Status {
    bad_field("target", "the first message says where to write")
}

/// A content could not be kept.
fn not_kept(error: FileError) -> Status {
    status::file(&error, "content")
}

/// Takes a content in.
async fn receive(mut upload: Upload, mut content: Content) -> Result<Upload, Status> {
    while let Some(piece) = content.next().await {
        upload.write(piece?).await.map_err(not_kept)?;
    }
    Ok(upload)
}
