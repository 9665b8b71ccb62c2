//! A folder as a tar archive, piece by piece.
//!
//! *Invariant:* an archive without its end is an error, never a short archive.

use std::fmt;

use bytes::Bytes;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tonic::{Code, Status, Streaming};
use toolgate_contract::{ArchiveEnd, DownloadArchiveRequest, DownloadArchiveResponse};

use crate::client::Client;
use crate::error::Error;
use crate::retry::{Patience, next_message};

/// Reads a folder as a tar archive in pieces of at most 64 KiB. It is begun again over another connection only as long as
/// nothing of it has arrived: an archive is not sent from its middle.
pub struct ArchiveReader {
    client: Client,
    request: DownloadArchiveRequest,
    stream: Option<Streaming<DownloadArchiveResponse>>,
    has_begun: bool,
    end: Option<ArchiveEnd>,
    patience: Patience,
}

impl fmt::Debug for ArchiveReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArchiveReader")
            .field("path", &self.request.path)
            .field("end", &self.end)
            .finish_non_exhaustive()
    }
}

impl ArchiveReader {
    pub(crate) fn new(client: &Client, request: DownloadArchiveRequest) -> Self {
        Self {
            client: client.clone(),
            request,
            stream: None,
            has_begun: false,
            end: None,
            patience: client.patience(),
        }
    }

    /// Has what ignore rules name, and `.git`, in the archive as well.
    pub fn include_ignored(mut self) -> Self {
        self.request.include_ignored = true;
        self
    }

    /// Returns the next piece; `None` when all of it has come.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        while self.end.is_none() {
            let client = self.client.clone();
            let status = match client.unless_closed(async { Ok(self.receive().await) }).await? {
                Ok(Some(DownloadArchiveResponse { end: Some(end), .. })) => {
                    self.end = Some(end);
                    break;
                }
                Ok(Some(DownloadArchiveResponse { data, .. })) => {
                    self.has_begun = true;
                    return Ok(Some(data));
                }
                Ok(None) => Status::unavailable("the archive ended before its end was told"),
                Err(status) => status,
            };
            self.stream = None;
            let may_pass = !self.has_begun && self.client.may_pass(&status) && status.code() != Code::Aborted;
            match self.patience.pause(&status).filter(|_| may_pass) {
                Some(pause) => tokio::time::sleep(pause).await,
                None => return Err(status.into()),
            }
        }
        Ok(None)
    }

    /// Returns how many entries the archive has and what was left out; `None` before its end.
    pub fn end(&self) -> Option<&ArchiveEnd> {
        self.end.as_ref()
    }

    /// Writes all that is left, and returns what was said at the end. What was written before an error is no archive.
    pub async fn write_to(mut self, mut writer: impl AsyncWrite + Unpin) -> Result<ArchiveEnd, Error> {
        while let Some(piece) = self.next().await? {
            writer.write_all(&piece).await.map_err(Error::Write)?;
        }
        writer.flush().await.map_err(Error::Write)?;
        self.end.ok_or(Error::Protocol("end of the archive"))
    }

    async fn receive(&mut self) -> Result<Option<DownloadArchiveResponse>, Status> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            None => {
                let request = self.request.clone();
                let stream = self.client.file_service().download_archive(request).await?;
                self.stream.insert(stream.into_inner())
            }
        };
        next_message(stream).await
    }
}
