//! A folder as a tar archive, sent as it is read.
//!
//! *Invariant:* what is in it was found inside of the folder and is permitted, entry by entry; no link is followed. What is
//! sent has the size that its header says, or the stream breaks off.

use std::collections::VecDeque;

use bytes::Bytes;
use futures_util::stream;
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::Status;
use toolgate_contract::*;
use toolgate_engine::Glance;
use toolgate_fs::ResolvedPath;
use toolgate_fs::archive::{END, header, padding};
use toolgate_fs::files::locate;
use toolgate_fs::reader::Reader;
use toolgate_fs::tree::{self, Entry, EntryKind, MAX_DEPTH, Wanted};

use super::look;
use super::permitted::{read_of, shown};
use crate::grpc::convert::int;
use crate::grpc::events::ResponseStream;
use crate::grpc::status;

const MAX_ENTRIES: usize = 50_000;

const MAX_BYTES: u64 = 1 << 30;

/// Paths that are named of what was left out.
const MAX_OMITTED: usize = 1000;

/// Bytes of one message.
const PIECE: usize = 64 << 10;

/// What is left to send.
struct Sending {
    glance: Glance,
    folder: ResolvedPath,
    entries: VecDeque<Entry>,
    /// The file that is being sent, its name, the next byte and its size.
    file: Option<(Reader, String, u64, u64)>,
    /// What goes into the next message.
    buffer: Vec<u8>,
    sent: usize,
    omitted: Vec<String>,
    state: State,
    _stop: DropGuard,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Entries,
    End,
    Over,
}

/// Begins to send a folder.
pub(super) async fn download(
    glance: Glance,
    request: &DownloadArchiveRequest,
) -> Result<ResponseStream<DownloadArchiveResponse>, Status> {
    let folder = look::folder(&glance, &request.path).await?;
    let cancelled = CancellationToken::new();
    let stop = cancelled.clone().drop_guard();
    let wanted = Wanted {
        depth: MAX_DEPTH,
        ignored: request.include_ignored,
        after: None,
        most: MAX_ENTRIES,
    };
    let page = tree::list(&folder, wanted, look::hidden(&glance, &folder), cancelled).await;
    let page = page.map_err(|error| status::file(&error, &request.path))?;
    let bytes = page.entries.iter().filter(|entry| entry.facts.kind == EntryKind::File);
    let bytes = bytes.fold(0_u64, |bytes, entry| bytes.saturating_add(entry.facts.size));
    if page.more || bytes > MAX_BYTES {
        let problem = format!(
            "{:?} has more than {MAX_ENTRIES} entries or {MAX_BYTES} bytes: download parts of it",
            request.path
        );
        return Err(status::precondition(
            ErrorReason::ArchiveTooLarge,
            &request.path,
            problem,
        ));
    }
    let sending = Sending {
        glance,
        folder,
        entries: page.entries.into(),
        file: None,
        buffer: Vec::with_capacity(PIECE),
        sent: 0,
        omitted: Vec::new(),
        state: State::Entries,
        _stop: stop,
    };
    Ok(Box::pin(stream::try_unfold(sending, |mut sending| async move {
        Ok(sending.next().await?.map(|response| (response, sending)))
    })))
}

impl Sending {
    async fn next(&mut self) -> Result<Option<DownloadArchiveResponse>, Status> {
        while self.state == State::Entries && self.buffer.len() < PIECE {
            self.fill().await?;
        }
        if !self.buffer.is_empty() {
            let rest = self.buffer.split_off(self.buffer.len().min(PIECE));
            let data = Bytes::from(std::mem::replace(&mut self.buffer, rest));
            return Ok(Some(DownloadArchiveResponse { data, end: None }));
        }
        if self.state == State::Over {
            return Ok(None);
        }
        self.state = State::Over;
        let end = ArchiveEnd {
            entries: int(self.sent as u64),
            omitted_paths: std::mem::take(&mut self.omitted),
        };
        Ok(Some(DownloadArchiveResponse {
            data: Bytes::new(),
            end: Some(end),
        }))
    }

    /// Adds the next bytes of the archive.
    async fn fill(&mut self) -> Result<(), Status> {
        if let Some((reader, name, offset, size)) = self.file.take() {
            return self.fill_from(reader, name, offset, size).await;
        }
        let Some(entry) = self.entries.pop_front() else {
            self.buffer.extend(END);
            self.state = State::End;
            return Ok(());
        };
        let shown_path = self.folder.display_path().join(&entry.relative);
        let name = shown(&self.glance, &shown_path);
        match entry.facts.kind {
            EntryKind::Folder | EntryKind::Link => match header(&entry, 0) {
                Ok(header) => {
                    self.buffer.extend(header);
                    self.sent += 1;
                }
                Err(_) => self.omit(name),
            },
            EntryKind::Other => self.omit(name),
            EntryKind::File => match self.open(&entry).await {
                Some((reader, header)) => {
                    let size = reader.facts().size;
                    self.buffer.extend(header);
                    self.sent += 1;
                    self.file = Some((reader, name, 0, size));
                }
                None => self.omit(name),
            },
        }
        Ok(())
    }

    /// Opens a file that may be sent, and returns what stands before it.
    async fn open(&self, entry: &Entry) -> Option<(Reader, Vec<u8>)> {
        let written = self.folder.display_path().join(&entry.relative);
        let written = written.into_os_string().into_string().ok()?;
        let path = locate(self.glance.workspace(), written).await.ok()?.path;
        // It was a file a moment ago, not a link.
        let is_there = path.is_inside() && path.real() == self.folder.real().join(&entry.relative);
        if !is_there || !self.glance.allows(&read_of(&path)) {
            return None;
        }
        let reader = Reader::open(path).await.ok()??;
        let size = reader.facts().size;
        let header = header(entry, size).ok()?;
        Some((reader, header))
    }

    async fn fill_from(&mut self, reader: Reader, name: String, offset: u64, size: u64) -> Result<(), Status> {
        let left = usize::try_from(size - offset).unwrap_or(usize::MAX);
        if left == 0 {
            let zeros = usize::try_from(padding(size)).unwrap_or_default();
            self.buffer.resize(self.buffer.len() + zeros, 0);
            return Ok(());
        }
        let data = reader.read(offset, left.min(PIECE)).await;
        let data = data.map_err(|error| status::file(&error, &name))?;
        if data.is_empty() {
            let problem = format!("{name} became shorter while it was sent: begin again");
            return Err(status::changed(ErrorReason::FileChanged, problem));
        }
        self.buffer.extend_from_slice(&data);
        self.file = Some((reader, name, offset + data.len() as u64, size));
        Ok(())
    }

    fn omit(&mut self, name: String) {
        if self.omitted.len() < MAX_OMITTED {
            self.omitted.push(name);
        }
    }
}
