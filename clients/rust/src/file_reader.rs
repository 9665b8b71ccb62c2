//! The content of a file, piece by piece.
//!
//! *Invariant:* a reader gives every byte once and in order, over as many streams as it takes, and all of them of one state of
//! the file.

use std::collections::HashMap;
use std::fmt;

use bytes::Bytes;
use futures_util::{Stream, stream};
use tonic::{Code, Status, Streaming};
use tonic_types::{ErrorDetails, StatusExt as _};
use toolgate_contract::{ByteRange, FileInfo, ReadFileRequest, ReadFileResponse};

use crate::client::Client;
use crate::error::Error;
use crate::retry::{Patience, next_message};

/// Reads a file or a part of it in pieces of at most 64 KiB. After a lost connection it goes on where it was.
///
/// If the file changes meanwhile, the error's reason is `FILE_CHANGED`: the pieces may not belong together. Read again.
pub struct FileReader {
    client: Client,
    request: ReadFileRequest,
    file: Option<FileInfo>,
    /// A piece that came with what the service says of the file.
    early: Option<ReadFileResponse>,
    /// Where the last piece ended.
    reached: i64,
    /// Behind the last byte to read, if that is known.
    end: Option<i64>,
    stream: Option<Streaming<ReadFileResponse>>,
    patience: Patience,
}

impl fmt::Debug for FileReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileReader")
            .field("path", &self.request.path)
            .field("reached", &self.reached)
            .finish_non_exhaustive()
    }
}

impl FileReader {
    pub(crate) fn new(client: &Client, request: ReadFileRequest) -> Self {
        let ByteRange { offset, limit } = request.range.unwrap_or_default();
        Self {
            client: client.clone(),
            request,
            file: None,
            early: None,
            reached: offset,
            end: (limit > 0).then(|| offset.saturating_add(limit)),
            stream: None,
            patience: client.patience(),
        }
    }

    /// Asks for the SHA-256 of the whole file as well, for which the service reads all of it first.
    pub fn with_sha256(mut self) -> Self {
        self.request.with_sha256 = true;
        self
    }

    /// Returns what the service says of the file, and asks for it if nothing was read yet.
    pub async fn info(&mut self) -> Result<FileInfo, Error> {
        while self.file.is_none() {
            let Some(message) = self.message().await? else {
                return Err(Error::Protocol("file"));
            };
            self.early = Some(message);
        }
        self.file.clone().ok_or(Error::Protocol("file"))
    }

    /// Returns the next piece; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        while self.end.is_none_or(|end| self.reached < end) {
            let message = match self.early.take() {
                Some(early) => Some(early),
                None => self.message().await?,
            };
            let Some(message) = message else { break };
            if !message.data.is_empty() {
                self.reached = message.offset + i64::try_from(message.data.len()).unwrap_or(i64::MAX);
                return Ok(Some(message.data));
            }
        }
        Ok(None)
    }

    /// Returns the pieces as a [`Stream`].
    pub fn pieces(&mut self) -> impl Stream<Item = Result<Bytes, Error>> + '_ {
        stream::unfold(Some(self), async |reader| {
            let reader = reader?;
            match reader.next().await {
                Ok(piece) => piece.map(|piece| (Ok(piece), Some(reader))),
                Err(error) => Some((Err(error), None)),
            }
        })
    }

    /// Reads all that is left.
    pub async fn read_to_end(mut self) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        while let Some(piece) = self.next().await? {
            bytes.extend_from_slice(&piece);
        }
        Ok(bytes)
    }

    /// Returns the next message, over another connection if this one is lost.
    async fn message(&mut self) -> Result<Option<ReadFileResponse>, Error> {
        loop {
            let client = self.client.clone();
            let status = match client.unless_closed(async { Ok(self.receive().await) }).await? {
                Ok(Some(message)) => {
                    self.patience.succeeded();
                    if let Some(file) = &message.file {
                        self.check(file)?;
                    }
                    return Ok(Some(message));
                }
                Ok(None) => return Ok(None),
                Err(status) => status,
            };
            self.stream = None;
            let may_pass = self.client.may_pass(&status) && status.code() != Code::Aborted;
            match self.patience.pause(&status).filter(|_| may_pass) {
                Some(pause) => tokio::time::sleep(pause).await,
                None => return Err(status.into()),
            }
        }
    }

    async fn receive(&mut self) -> Result<Option<ReadFileResponse>, Status> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            None => {
                let limit = self.end.map_or(0, |end| end - self.reached);
                let request = ReadFileRequest {
                    range: Some(ByteRange {
                        offset: self.reached,
                        limit,
                    }),
                    ..self.request.clone()
                };
                let stream = self.client.file_service().read_file(request).await?;
                self.stream.insert(stream.into_inner())
            }
        };
        next_message(stream).await
    }

    /// Takes up what another stream says of the file, if it is still the same.
    fn check(&mut self, file: &FileInfo) -> Result<(), Error> {
        let known = self.file.get_or_insert_with(|| file.clone());
        if (known.size_bytes, known.modify_time) == (file.size_bytes, file.modify_time) {
            return Ok(());
        }
        let details = ErrorDetails::with_error_info("FILE_CHANGED", "toolgate", HashMap::new());
        let problem = format!("{:?} has changed while it was read: read it again", self.request.path);
        Err(Status::with_error_details(Code::Aborted, problem, details).into())
    }
}

#[cfg(test)]
mod tests {
    use prost_types::Timestamp;

    use super::*;

    #[tokio::test]
    async fn a_file_that_is_another_one_is_not_read_on() {
        let client = Client::builder("").connect_lazy().unwrap();
        let mut reader = client.files().read("a");
        let file = |size_bytes, seconds| FileInfo {
            size_bytes,
            modify_time: Some(Timestamp { seconds, nanos: 0 }),
            ..FileInfo::default()
        };
        assert!(reader.check(&file(5, 1)).is_ok());
        assert!(reader.check(&file(5, 1)).is_ok());
        for other in [file(6, 1), file(5, 2)] {
            let error = reader.check(&other).unwrap_err();
            assert_eq!(error.reason().as_deref(), Some("FILE_CHANGED"));
            assert!(error.code() == Code::Aborted);
        }
    }
}
