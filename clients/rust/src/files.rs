//! The files of a workspace: shown, watched and changed.
//!
//! *Invariant:* what is shown is what rules and standing approvals allow without a question; a change is a call, which may ask.

#![allow(clippy::disallowed_methods)] // the user's own file, on the user's machine

use std::path::Path;

use bytes::Bytes;
use tokio::fs::File;
use tokio::io::AsyncRead;
use toolgate_contract::{
    ArchiveTarget, ByteRange, CallContext, CreateFolderRequest, DeleteFileRequest, DownloadArchiveRequest, FileInfo,
    ListFilesRequest, MoveFileRequest, ReadFileRequest, StatFileRequest, WatchFilesRequest, WriteFileRequest,
    WriteTarget,
};

use crate::archive::ArchiveReader;
use crate::call_request::CallRequest;
use crate::client::{Client, list, unary};
use crate::context::context_setters;
use crate::error::Error;
use crate::file_reader::FileReader;
use crate::file_watcher::FileWatcher;
use crate::request::completed;
use crate::upload::Upload;

/// The deepest that the service lists.
const MAX_DEPTH: i32 = 64;

/// The files of a workspace, in somebody's name. Paths are relative to the workspace's folder, or absolute and inside it; an
/// empty one is that folder. It is cheap to clone.
#[derive(Clone, Debug)]
pub struct Files {
    client: Client,
    context: CallContext,
}

impl Client {
    /// Returns the files of the client's workspace. It asks the service nothing yet.
    pub fn files(&self) -> Files {
        Files {
            client: self.clone(),
            context: CallContext::default(),
        }
    }
}

impl Files {
    context_setters!(context);

    fn look(&self) -> Option<CallContext> {
        Some(completed(self.context.clone(), &self.client))
    }

    fn change<R>(&self, request: R) -> CallRequest<R> {
        CallRequest::new(&self.client, self.context.clone(), request)
    }

    /// Says what is at a path: of a link what it leads to.
    pub async fn stat(&self, path: impl Into<String>) -> Result<FileInfo, Error> {
        self.stat_file(path.into(), false).await
    }

    /// Says the same, with the SHA-256 of a file, for which the service reads all of it.
    pub async fn stat_with_sha256(&self, path: impl Into<String>) -> Result<FileInfo, Error> {
        self.stat_file(path.into(), true).await
    }

    async fn stat_file(&self, path: String, with_sha256: bool) -> Result<FileInfo, Error> {
        let request = StatFileRequest {
            context: self.look(),
            path,
            with_sha256,
        };
        let response = unary!(&self.client, file_service.stat_file, request).await?;
        response.file.ok_or(Error::Protocol("file"))
    }

    /// Lists a folder in the order of its paths, all pages, without what ignore rules name.
    pub async fn list(&self, path: impl Into<String>) -> Result<Vec<FileInfo>, Error> {
        let path = path.into();
        self.list_request(ListFilesRequest {
            path,
            ..Default::default()
        })
        .await
    }

    /// Lists a folder with all that lies below it, 64 deep at most.
    pub async fn list_recursive(&self, path: impl Into<String>) -> Result<Vec<FileInfo>, Error> {
        let request = ListFilesRequest {
            path: path.into(),
            depth: MAX_DEPTH,
            ..ListFilesRequest::default()
        };
        self.list_request(request).await
    }

    /// Lists a folder by the message of the contract, all pages. Its context is the one of these files.
    pub async fn list_request(&self, mut request: ListFilesRequest) -> Result<Vec<FileInfo>, Error> {
        request.context = self.look();
        Ok(list!(&self.client, file_service.list_files, request, files))
    }

    /// Reads a file, whatever it holds. The request is sent when the first piece is asked for.
    pub fn read(&self, path: impl Into<String>) -> FileReader {
        self.read_range(path, 0, 0)
    }

    /// Reads at most `limit` bytes of a file from `offset` on; 0 for all that follow.
    pub fn read_range(&self, path: impl Into<String>, offset: i64, limit: i64) -> FileReader {
        let request = ReadFileRequest {
            context: self.look(),
            path: path.into(),
            range: Some(ByteRange { offset, limit }),
            with_sha256: false,
        };
        FileReader::new(&self.client, request)
    }

    /// Reads a folder as a tar archive. The request is sent when the first piece is asked for.
    pub fn download_archive(&self, path: impl Into<String>) -> ArchiveReader {
        let request = DownloadArchiveRequest {
            context: self.look(),
            path: path.into(),
            include_ignored: false,
        };
        ArchiveReader::new(&self.client, request)
    }

    /// Watches a folder and all that is in it, from now on. The request is sent when the first event is asked for.
    pub fn watch(&self, path: impl Into<String>) -> FileWatcher {
        self.watch_from(path, "")
    }

    /// Watches a folder from where an earlier watcher was ([`FileWatcher::cursor`]).
    pub fn watch_from(&self, path: impl Into<String>, cursor: impl Into<String>) -> FileWatcher {
        let request = WatchFilesRequest {
            context: self.look(),
            path: path.into(),
            cursor: cursor.into(),
        };
        FileWatcher::new(&self.client, request)
    }

    /// Prepares to write a file that fits into one message, with the folders above it; see [`Self::upload`] for larger ones.
    pub fn write(&self, path: impl Into<String>, content: impl Into<Bytes>) -> CallRequest<WriteFileRequest> {
        self.change(WriteFileRequest {
            target: Some(write_target(path)),
            content: content.into(),
            ..WriteFileRequest::default()
        })
    }

    /// Prepares to write a file of any size up to 64 MiB. What was read of the content is kept in memory until it is written,
    /// to be sent again over another connection.
    pub fn upload(
        &self,
        path: impl Into<String>,
        content: impl AsyncRead + Send + Unpin + 'static,
    ) -> CallRequest<Upload<WriteTarget>> {
        self.change(Upload::new(write_target(path), content))
    }

    /// Prepares the same with the content of a file on this machine.
    pub async fn upload_file(
        &self,
        path: impl Into<String>,
        local: impl AsRef<Path>,
    ) -> Result<CallRequest<Upload<WriteTarget>>, Error> {
        let local = local.as_ref();
        let content = File::open(local).await.map_err(|source| Error::Read {
            path: local.to_path_buf(),
            source,
        })?;
        Ok(self.upload(path, content))
    }

    /// Prepares to write the files and folders of a tar archive, at most 64 MiB and not compressed, into a folder: all of them,
    /// or none. What was read of it is kept in memory as in [`Self::upload`].
    pub fn upload_archive(
        &self,
        path: impl Into<String>,
        archive: impl AsyncRead + Send + Unpin + 'static,
    ) -> CallRequest<Upload<ArchiveTarget>> {
        let target = ArchiveTarget {
            path: path.into(),
            if_absent: false,
        };
        self.change(Upload::new(target, archive))
    }

    /// Prepares to make a folder, with those above it. One that is there is left as it is.
    pub fn create_folder(&self, path: impl Into<String>) -> CallRequest<CreateFolderRequest> {
        self.change(CreateFolderRequest {
            path: path.into(),
            ..CreateFolderRequest::default()
        })
    }

    /// Prepares to move a file, a link, or a folder with all that is in it to a path where nothing is.
    pub fn move_to(&self, path: impl Into<String>, new_path: impl Into<String>) -> CallRequest<MoveFileRequest> {
        self.change(MoveFileRequest {
            path: path.into(),
            new_path: new_path.into(),
            ..MoveFileRequest::default()
        })
    }

    /// Prepares to delete a file or a link; with [`CallRequest::recursive`] a folder as well.
    pub fn delete(&self, path: impl Into<String>) -> CallRequest<DeleteFileRequest> {
        self.change(DeleteFileRequest {
            path: path.into(),
            ..DeleteFileRequest::default()
        })
    }
}

fn write_target(path: impl Into<String>) -> WriteTarget {
    WriteTarget {
        path: path.into(),
        ..WriteTarget::default()
    }
}
