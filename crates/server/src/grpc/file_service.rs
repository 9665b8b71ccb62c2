//! `FileService`: shows and changes the files of a workspace, for front ends.
//!
//! *Invariant:* a path is resolved once and used by what was opened from there; what leads out of the workspace is refused
//! before anything is told of it.
//!
//! `wire`: core types as those of the contract. `look`: what is only read. `change`: what is changed, by calls of the tool
//! `files`. `watch`: what happens to files. `archive`: a folder as one stream of bytes.

mod archive;
mod change;
mod look;
mod watch;
mod wire;

use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use tonic::{Request, Response, Status, Streaming};
use toolgate_contract::file_service_server::FileService;
use toolgate_contract::*;
use toolgate_engine::{Glance, Unseen};
use toolgate_fs::ResolvedPath;
use toolgate_fs::files::locate;
use toolgate_model::{Ask, CallId, Origin};

use self::change::Content;
pub use self::watch::Watches;
use super::auth::Caller;
use super::events::{ResponseStream, deadline};
use super::{Shared, convert, status};

/// The service.
pub(crate) struct WorkspaceFiles(pub(crate) Arc<Shared>);

/// What the audit calls whoever looks, in the place of a tool.
const LOOKING: &str = "files";

impl WorkspaceFiles {
    /// Returns in whose name something is done, checked.
    async fn origin(&self, caller: &Caller, context: Option<CallContext>) -> Result<Origin, Status> {
        let context = context.unwrap_or_default();
        let place = caller.place(&self.0.engine, &context.workspace)?;
        let mut origin = convert::origin(context, &CallId::generate(), place.workspace.name())?;
        caller.sign(&mut origin);
        if let Some(parent) = &origin.parent {
            origin.parent = Some(self.0.call(caller, parent).await?);
        }
        Ok(origin)
    }

    /// Returns what a caller may look at.
    pub(super) async fn glance(&self, caller: &Caller, context: Option<CallContext>) -> Result<Glance, Status> {
        let origin = self.origin(caller, context).await?;
        self.0.engine.glance(origin).await.map_err(status::admit)
    }
}

/// Returns the path of a change, which is not empty.
fn named<'p>(field: &str, path: &'p str) -> Result<&'p str, Status> {
    if path.is_empty() || path.contains('\0') {
        return Err(status::bad_field(field, "name the path, without a zero byte"));
    }
    Ok(path)
}

/// Resolves a path of a request, which must lie in the workspace.
async fn inside(glance: &Glance, written: &str) -> Result<ResolvedPath, Status> {
    if written.contains('\0') {
        return Err(status::bad_field("path", "contains a zero byte"));
    }
    let located = locate(glance.workspace(), written.to_owned()).await;
    let path = located.map_err(|error| status::file(&error, written))?.path;
    if path.is_inside() {
        return Ok(path);
    }
    Err(status::refused(
        ErrorReason::OutsideWorkspace,
        format!(
            "{written:?} leads out of the workspace {}: FileService serves what lies in it; a call of a tool can ask for more",
            glance.workspace().name()
        ),
    ))
}

/// Fails unless something may be shown.
async fn may(glance: &Glance, ask: &Ask) -> Result<(), Status> {
    let Ask { permission, title, .. } = ask;
    glance.may(LOOKING, ask).await.map_err(|unseen| match unseen {
        Unseen::Denied { .. } => {
            let problem = format!("a rule denies the permission {permission} for {title}");
            status::refused(ErrorReason::DeniedByRule, problem)
        }
        Unseen::Asked => {
            let problem = format!(
                "the rules want a person asked for the permission {permission} for {title}, and nobody is asked when a file is \
                 shown: allow it by a rule or by a standing approval, or make a call of a tool"
            );
            status::refused(ErrorReason::PermissionNeeded, problem)
        }
        Unseen::Unavailable => status::unavailable("whether it is permitted could not be found out"),
    })
}

/// Returns what is asked before a file is shown.
fn read_of(path: &ResolvedPath) -> Ask {
    Ask {
        title: path.relative().to_owned(),
        ..Ask::new("read", path.patterns())
    }
}

/// Returns the path of something as it is shown: relative to the workspace's folder.
fn shown(glance: &Glance, path: &Path) -> String {
    let relative = toolgate_fs::path::relative(path, glance.workspace().directory());
    if relative.is_empty() { ".".to_owned() } else { relative }
}

#[tonic::async_trait]
impl FileService for WorkspaceFiles {
    async fn stat_file(&self, request: Request<StatFileRequest>) -> Result<Response<StatFileResponse>, Status> {
        let (caller, request) = Caller::of_request(request)?;
        let glance = self.glance(&caller, request.context).await?;
        let file = look::stat(&glance, &request.path, request.with_sha256).await?;
        Ok(Response::new(StatFileResponse { file: Some(file) }))
    }

    async fn list_files(&self, request: Request<ListFilesRequest>) -> Result<Response<ListFilesResponse>, Status> {
        let (caller, mut request) = Caller::of_request(request)?;
        let glance = self.glance(&caller, request.context.take()).await?;
        look::list(&glance, &request).await.map(Response::new)
    }

    type ReadFileStream = ResponseStream<ReadFileResponse>;

    async fn read_file(&self, request: Request<ReadFileRequest>) -> Result<Response<Self::ReadFileStream>, Status> {
        let (caller, mut request) = Caller::of_request(request)?;
        let glance = self.glance(&caller, request.context.take()).await?;
        look::read(&glance, request).await.map(Response::new)
    }

    type WatchFilesStream = ResponseStream<WatchFilesResponse>;

    async fn watch_files(
        &self,
        request: Request<WatchFilesRequest>,
    ) -> Result<Response<Self::WatchFilesStream>, Status> {
        let (caller, mut request) = Caller::of_request(request)?;
        let glance = self.glance(&caller, request.context.take()).await?;
        watch::watch(&self.0, glance, &request).await.map(Response::new)
    }

    type DownloadArchiveStream = ResponseStream<DownloadArchiveResponse>;

    async fn download_archive(
        &self,
        request: Request<DownloadArchiveRequest>,
    ) -> Result<Response<Self::DownloadArchiveStream>, Status> {
        let (caller, mut request) = Caller::of_request(request)?;
        let glance = self.glance(&caller, request.context.take()).await?;
        archive::download(glance, &request).await.map(Response::new)
    }

    async fn upload_archive(
        &self,
        request: Request<Streaming<UploadArchiveRequest>>,
    ) -> Result<Response<UploadArchiveResponse>, Status> {
        let deadline = deadline(request.metadata());
        let (caller, mut pieces) = Caller::of_request(request)?;
        let first = pieces.message().await?.unwrap_or_default();
        let target = first
            .target
            .ok_or_else(|| status::bad_field("target", "the first message says where to write"))?;
        let change = self.change(&caller, first.call, deadline)?;
        let target_folder = if target.path.is_empty() { "." } else { named("target.path", &target.path)? };
        let input = json!({"operation": "unpack", "path": target_folder, "ifAbsent": target.if_absent});
        let call_id = change.send(input, Content::Archive(first.data, pieces)).await?;
        Ok(Response::new(UploadArchiveResponse { call_id }))
    }

    async fn write_file(&self, request: Request<WriteFileRequest>) -> Result<Response<WriteFileResponse>, Status> {
        let deadline = deadline(request.metadata());
        let (caller, request) = Caller::of_request(request)?;
        let target = request.target.unwrap_or_default();
        let change = self.change(&caller, request.call, deadline)?;
        let content = Content::One(request.content);
        let (call_id, file) = change.write(&target, content).await?;
        Ok(Response::new(WriteFileResponse { call_id, file }))
    }

    async fn upload_file(
        &self,
        request: Request<Streaming<UploadFileRequest>>,
    ) -> Result<Response<UploadFileResponse>, Status> {
        let deadline = deadline(request.metadata());
        let (caller, mut pieces) = Caller::of_request(request)?;
        let first = pieces.message().await?.unwrap_or_default();
        let target = first
            .target
            .ok_or_else(|| status::bad_field("target", "the first message says where to write"))?;
        let change = self.change(&caller, first.call, deadline)?;
        let content = Content::Many(first.content, pieces);
        let (call_id, file) = change.write(&target, content).await?;
        Ok(Response::new(UploadFileResponse { call_id, file }))
    }

    async fn create_folder(
        &self,
        request: Request<CreateFolderRequest>,
    ) -> Result<Response<CreateFolderResponse>, Status> {
        let deadline = deadline(request.metadata());
        let (caller, request) = Caller::of_request(request)?;
        let change = self.change(&caller, request.call, deadline)?;
        let input = json!({"operation": "create_folder", "path": named("path", &request.path)?});
        let call_id = change.make(input).await?;
        let file = change.result(&request.path, false).await;
        Ok(Response::new(CreateFolderResponse { call_id, file }))
    }

    async fn move_file(&self, request: Request<MoveFileRequest>) -> Result<Response<MoveFileResponse>, Status> {
        let deadline = deadline(request.metadata());
        let (caller, request) = Caller::of_request(request)?;
        let change = self.change(&caller, request.call, deadline)?;
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
        let change = self.change(&caller, request.call, deadline)?;
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
