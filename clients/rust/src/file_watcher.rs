//! What happens to the files of a workspace.
//!
//! *Invariant:* after a lost connection the watcher goes on behind the last message. Where something may have been missed, it
//! says so.

use std::fmt;

use futures_util::{Stream, stream};
use tonic::{Status, Streaming};
use toolgate_contract::watch_files_response::News;
use toolgate_contract::{FilesChanged, FilesMissed, FilesWatched, WatchFilesRequest, WatchFilesResponse};

use crate::client::Client;
use crate::error::{Error, reason};
use crate::retry::{Patience, next_message};

/// What happened to files.
#[derive(Clone, Debug, PartialEq)]
pub enum FileEvent {
    /// From here on nothing is missed: list the folder now, and take in what follows.
    Watched(FilesWatched),
    /// Files came, changed or went.
    Changed(FilesChanged),
    /// Something may have been missed, or what is ignored has changed: list the folder again.
    Missed(FilesMissed),
    /// What happened since the cursor is not known any more (`CURSOR_TOO_OLD`). The watcher begins anew: list the folder after
    /// the event [`FileEvent::Watched`], which comes next.
    CursorTooOld,
}

/// Watches a folder. After a lost connection it goes on behind the last message.
pub struct FileWatcher {
    client: Client,
    /// The next request, with the last cursor.
    request: WatchFilesRequest,
    stream: Option<Streaming<WatchFilesResponse>>,
    patience: Patience,
}

impl fmt::Debug for FileWatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileWatcher")
            .field("path", &self.request.path)
            .field("cursor", &self.request.cursor)
            .finish_non_exhaustive()
    }
}

impl FileWatcher {
    pub(crate) fn new(client: &Client, request: WatchFilesRequest) -> Self {
        Self {
            client: client.clone(),
            request,
            stream: None,
            patience: client.patience(),
        }
    }

    /// Returns where the watcher is, for [`crate::Files::watch_from`]; empty before the first event.
    pub fn cursor(&self) -> &str {
        &self.request.cursor
    }

    /// Returns the next event.
    pub async fn next(&mut self) -> Result<FileEvent, Error> {
        loop {
            let goes_on = !self.request.cursor.is_empty();
            let client = self.client.clone();
            let status = match client.unless_closed(async { Ok(self.receive().await) }).await? {
                Ok(WatchFilesResponse { cursor, news }) => {
                    self.patience.succeeded();
                    self.request.cursor = cursor;
                    match news {
                        // Another stream that goes on behind the last one brings nothing new by that.
                        Some(News::Watched(_)) if goes_on => continue,
                        Some(News::Watched(watched)) => return Ok(FileEvent::Watched(watched)),
                        Some(News::Changed(changed)) => return Ok(FileEvent::Changed(changed)),
                        Some(News::Missed(missed)) => return Ok(FileEvent::Missed(missed)),
                        Some(News::Heartbeat(_)) | None => continue,
                    }
                }
                Err(status) => status,
            };
            self.stream = None;
            if goes_on && reason(&status).as_deref() == Some("CURSOR_TOO_OLD") {
                self.request.cursor.clear();
                return Ok(FileEvent::CursorTooOld);
            }
            let may_reopen = self.client.may_reopen(&status, self.patience.has_worked());
            match self.patience.pause(&status).filter(|_| may_reopen) {
                Some(pause) => {
                    let wait = async {
                        tokio::time::sleep(pause).await;
                        Ok(())
                    };
                    client.unless_closed(wait).await?;
                }
                None => return Err(status.into()),
            }
        }
    }

    /// Returns the events as a [`Stream`], which ends with an error.
    pub fn events(&mut self) -> impl Stream<Item = Result<FileEvent, Error>> + '_ {
        stream::unfold(Some(self), async |watcher| {
            let watcher = watcher?;
            match watcher.next().await {
                Ok(event) => Some((Ok(event), Some(watcher))),
                Err(error) => Some((Err(error), None)),
            }
        })
    }

    async fn receive(&mut self) -> Result<WatchFilesResponse, Status> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            None => {
                let stream = self.client.file_service().watch_files(self.request.clone()).await?;
                self.stream.insert(stream.into_inner())
            }
        };
        let message = next_message(stream).await?;
        message.ok_or_else(|| Status::unavailable("the stream ended"))
    }
}
