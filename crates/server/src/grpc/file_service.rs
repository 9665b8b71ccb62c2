//! `FileService`: shows and changes the files of a workspace, for front ends.
//!
//! *Invariant:* a path is resolved once and used by what was opened from there; what leads out of the workspace is refused
//! before anything is told of it.
//!
//! `permitted`: what a caller may see. `wire`: core types as those of the contract. `look`: what is only read. `change`: what
//! is changed, by calls of the tool `files`. `watch`: what happens to files. `archive`: a folder as one stream of bytes.

mod archive;
pub(super) mod change;
mod look;
pub(super) mod permitted;
mod watch;
mod wire;

use std::sync::Arc;

use serde_json::json;
use tonic::{Request, Response, Status, Streaming};
use toolgate_contract::file_service_server::FileService;
use toolgate_contract::*;

use self::change::Change;
use self::permitted::{glance, named};
use super::auth::Caller;
use super::events::{ResponseStream, deadline};
use super::shared::Shared;

/// The service.
pub(crate) struct WorkspaceFiles(pub(crate) Arc<Shared>);

#[tonic::async_trait]
impl FileService for WorkspaceFiles {
    async fn stat_file(&self, request: Request<StatFileRequest>) -> Result<Response<StatFileResponse>, Status> {
        let (caller, request) = Caller::of_request(request)?;
        let glance = glance(&self.0, &caller, request.context).await?;
        let file = look::stat(&glance, &request.path, request.with_sha256).await?;
        Ok(Response::new(StatFileResponse { file: Some(file) }))
    }

    async fn list_files(&self, request: Request<ListFilesRequest>) -> Result<Response<ListFilesResponse>, Status> {
        let (caller, mut request) = Caller::of_request(request)?;
        let glance = glance(&self.0, &caller, request.context.take()).await?;
        look::list(&glance, &request).await.map(Response::new)
    }

    type ReadFileStream = ResponseStream<ReadFileResponse>;

    async fn read_file(&self, request: Request<ReadFileRequest>) -> Result<Response<Self::ReadFileStream>, Status> {
        let (caller, mut request) = Caller::of_request(request)?;
        let glance = glance(&self.0, &caller, request.context.take()).await?;
        look::read(&glance, request).await.map(Response::new)
    }

    type WatchFilesStream = ResponseStream<WatchFilesResponse>;

    async fn watch_files(
        &self,
        request: Request<WatchFilesRequest>,
    ) -> Result<Response<Self::WatchFilesStream>, Status> {
        let (caller, mut request) = Caller::of_request(request)?;
        let glance = glance(&self.0, &caller, request.context.take()).await?;
        watch::watch(&self.0, glance, &request).await.map(Response::new)
    }

    type DownloadArchiveStream = ResponseStream<DownloadArchiveResponse>;

    async fn download_archive(
        &self,
        request: Request<DownloadArchiveRequest>,
    ) -> Result<Response<Self::DownloadArchiveStream>, Status> {
        let (caller, mut request) = Caller::of_request(request)?;
        let glance = glance(&self.0, &caller, request.context.take()).await?;
        archive::download(glance, &request).await.map(Response::new)
    }

    async fn upload_archive(
        &self,
        request: Request<Streaming<UploadArchiveRequest>>,
    ) -> Result<Response<UploadArchiveResponse>, Status> {
        let deadline = deadline(request.metadata());
        let (caller, mut pieces) = Caller::of_request(request)?;
        let first = pieces.message().await?.unwrap_or_default();
        let target = first.target.ok_or_else(change::no_target)?;
        let change = Change::new(&self.0, &caller, first.call, deadline)?;
        let target_folder = if target.path.is_empty() {
            "."
        } else {
            named("target.path", &target.path)?
        };
        let input = json!({"operation": "unpack", "path": target_folder, "ifAbsent": target.if_absent});
        let call_id = change.send(input, change::pieces(first.data, pieces)).await?;
        Ok(Response::new(UploadArchiveResponse { call_id }))
    }

    async fn write_file(&self, request: Request<WriteFileRequest>) -> Result<Response<WriteFileResponse>, Status> {
        let deadline = deadline(request.metadata());
        let (caller, request) = Caller::of_request(request)?;
        let target = request.target.unwrap_or_default();
        let change = Change::new(&self.0, &caller, request.call, deadline)?;
        let (call_id, file) = change.write(&target, change::whole(request.content)).await?;
        Ok(Response::new(WriteFileResponse { call_id, file }))
    }

    async fn upload_file(
        &self,
        request: Request<Streaming<UploadFileRequest>>,
    ) -> Result<Response<UploadFileResponse>, Status> {
        let deadline = deadline(request.metadata());
        let (caller, mut pieces) = Caller::of_request(request)?;
        let first = pieces.message().await?.unwrap_or_default();
        let target = first.target.ok_or_else(change::no_target)?;
        let change = Change::new(&self.0, &caller, first.call, deadline)?;
        let content = change::pieces(first.content, pieces);
        let (call_id, file) = change.write(&target, content).await?;
        Ok(Response::new(UploadFileResponse { call_id, file }))
    }

    async fn create_folder(
        &self,
        request: Request<CreateFolderRequest>,
    ) -> Result<Response<CreateFolderResponse>, Status> {
        let deadline = deadline(request.metadata());
        let (caller, request) = Caller::of_request(request)?;
        let change = Change::new(&self.0, &caller, request.call, deadline)?;
        let input = json!({"operation": "create_folder", "path": named("path", &request.path)?});
        let call_id = change.make(input).await?;
        let file = change.result(&request.path, false).await;
        Ok(Response::new(CreateFolderResponse { call_id, file }))
    }

    async fn move_file(&self, request: Request<MoveFileRequest>) -> Result<Response<MoveFileResponse>, Status> {
        let deadline = deadline(request.metadata());
        let (caller, request) = Caller::of_request(request)?;
        let change = Change::new(&self.0, &caller, request.call, deadline)?;
        let mut input = json!({
            "operation": "move",
            "path": named("path", &request.path)?,
            "to": named("new_path", &request.new_path)?,
        });
        change::expect_sha256(&mut input, &request.if_sha256)?;
        let call_id = change.make(input).await?;
        Ok(Response::new(MoveFileResponse { call_id }))
    }

    async fn delete_file(&self, request: Request<DeleteFileRequest>) -> Result<Response<DeleteFileResponse>, Status> {
        let deadline = deadline(request.metadata());
        let (caller, request) = Caller::of_request(request)?;
        let change = Change::new(&self.0, &caller, request.call, deadline)?;
        let mut input = json!({
            "operation": "delete",
            "path": named("path", &request.path)?,
            "recursive": request.recursive,
        });
        change::expect_sha256(&mut input, &request.if_sha256)?;
        let call_id = change.make(input).await?;
        Ok(Response::new(DeleteFileResponse { call_id }))
    }
}
