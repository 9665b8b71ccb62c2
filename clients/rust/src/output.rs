//! Stored outputs: everything that a call printed, however little of it the model sees.
//!
//! *Invariant:* a reader gives every byte once and in order, over as many streams as it takes.

use std::fmt;

use bytes::{Buf as _, Bytes};
use tonic::Streaming;
use toolgate_contract::read_output_request::Range;
use toolgate_contract::{
    ByteRange, DeleteOutputRequest, GetOutputRequest, LineRange, ListOutputsRequest, ReadOutputRequest,
    ReadOutputResponse, SearchOutputRequest, SearchOutputResponse, Tail,
};

use crate::client::{Client, list, unary};
use crate::error::Error;
use crate::retry::{Patience, next_message};

/// One stored output.
#[derive(Clone, Debug)]
pub struct Output {
    pub(crate) client: Client,
    pub(crate) id: String,
}

/// A part of an output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    #[default]
    All,
    /// At most `limit` bytes from `offset` on; 0 for all that follow.
    Bytes {
        /// How many bytes come before.
        offset: i64,
        /// How many bytes at most.
        limit: i64,
    },
    /// At most `limit` lines from the line `first` on, which counts from 1; 0 for all that follow.
    Lines {
        /// The first line.
        first: i64,
        /// How many lines at most.
        limit: i64,
    },
    /// The last lines.
    Tail {
        /// How many lines.
        lines: i64,
    },
}

impl Part {
    /// Asks for what is left of the part once everything before `reached` has been read.
    fn request(self, output_id: &str, reached: Option<i64>) -> ReadOutputRequest {
        let range = match (self, reached) {
            (Self::All, reached) => Range::Bytes(ByteRange {
                offset: reached.unwrap_or_default(),
                limit: 0,
            }),
            (Self::Bytes { offset, limit }, reached) => {
                let begin = reached.unwrap_or(offset);
                let limit = if limit > 0 { offset + limit - begin } else { 0 };
                Range::Bytes(ByteRange { offset: begin, limit })
            }
            // What is known of its lines is skipped as it comes again.
            (Self::Lines { first, limit }, reached) if reached.is_none() || limit > 0 => Range::Lines(LineRange {
                first_line: first,
                limit,
            }),
            (Self::Tail { lines }, None) => Range::Tail(Tail { lines }),
            (Self::Lines { .. } | Self::Tail { .. }, reached) => Range::Bytes(ByteRange {
                offset: reached.unwrap_or_default(),
                limit: 0,
            }),
        };
        ReadOutputRequest {
            output_id: output_id.to_owned(),
            range: Some(range),
        }
    }

    fn is_read(self, reached: Option<i64>) -> bool {
        match (self, reached) {
            (Self::Bytes { offset, limit }, Some(reached)) => limit > 0 && reached >= offset + limit,
            _ => false,
        }
    }
}

impl Client {
    /// Returns the output with this id, which results and output events name. It asks the service nothing yet.
    pub fn output(&self, id: impl Into<String>) -> Output {
        Output {
            client: self.clone(),
            id: id.into(),
        }
    }

    /// Lists stored outputs, newest first, all pages.
    pub async fn list_outputs(&self, request: ListOutputsRequest) -> Result<Vec<toolgate_contract::Output>, Error> {
        Ok(list!(self, output_service.list_outputs, request, outputs))
    }
}

impl Output {
    /// Returns the output's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns its size, digest and origin.
    pub async fn info(&self) -> Result<toolgate_contract::Output, Error> {
        let output_id = self.id.clone();
        let response = unary!(&self.client, output_service.get_output, GetOutputRequest { output_id }).await?;
        response.output.ok_or(Error::Protocol("output"))
    }

    /// Searches it line by line. The request's `pattern` is a regular expression in Rust's syntax; its output is this one.
    pub async fn search(&self, mut request: SearchOutputRequest) -> Result<SearchOutputResponse, Error> {
        request.output_id.clone_from(&self.id);
        unary!(&self.client, output_service.search_output, request).await
    }

    /// Deletes it.
    pub async fn delete(&self) -> Result<(), Error> {
        let output_id = self.id.clone();
        self.client
            .output_service()
            .delete_output(DeleteOutputRequest { output_id })
            .await?;
        Ok(())
    }

    /// Reads a part of it. The request is sent when the first piece is asked for.
    pub fn read(&self, part: Part) -> OutputReader {
        OutputReader {
            client: self.client.clone(),
            id: self.id.clone(),
            part,
            reached: None,
            stream: None,
            patience: self.client.patience(),
        }
    }
}

/// Reads a part of an output in pieces of at most 64 KiB. After a lost connection it goes on where it was.
pub struct OutputReader {
    client: Client,
    id: String,
    part: Part,
    /// Where the last piece ended.
    reached: Option<i64>,
    stream: Option<Streaming<ReadOutputResponse>>,
    patience: Patience,
}

impl fmt::Debug for OutputReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutputReader")
            .field("id", &self.id)
            .field("part", &self.part)
            .field("reached", &self.reached)
            .finish_non_exhaustive()
    }
}

impl OutputReader {
    /// Returns the next piece; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            if self.part.is_read(self.reached) {
                return Ok(None);
            }
            let client = self.client.clone();
            let status = match client.unless_closed(async { Ok(self.receive().await) }).await? {
                Ok(None) => return Ok(None),
                Ok(Some(piece)) => match self.accept(piece) {
                    data if data.is_empty() => continue,
                    data => return Ok(Some(data)),
                },
                Err(status) => status,
            };
            self.stream = None;
            match self.patience.pause(&status).filter(|_| self.client.may_pass(&status)) {
                Some(pause) => tokio::time::sleep(pause).await,
                None => return Err(status.into()),
            }
        }
    }

    async fn receive(&mut self) -> Result<Option<ReadOutputResponse>, tonic::Status> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            None => {
                let request = self.part.request(&self.id, self.reached);
                let stream = self.client.output_service().read_output(request).await?;
                self.stream.insert(stream.into_inner())
            }
        };
        next_message(stream).await
    }

    /// Returns what is new in a piece.
    fn accept(&mut self, piece: ReadOutputResponse) -> Bytes {
        self.patience.succeeded();
        let mut data = piece.data;
        let end = piece.offset + i64::try_from(data.len()).unwrap_or(i64::MAX);
        if let Some(reached) = self.reached {
            let again = usize::try_from(reached - piece.offset).unwrap_or_default();
            data.advance(again.min(data.len()));
        }
        self.reached = Some(self.reached.unwrap_or_default().max(end));
        data
    }

    /// Reads all that is left.
    pub async fn read_to_end(mut self) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        while let Some(piece) = self.next().await? {
            bytes.extend_from_slice(&piece);
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_piece_that_comes_again_is_skipped() {
        let client = Client::builder("").connect_lazy().unwrap();
        let mut reader = client.output("tool_x").read(Part::Lines { first: 3, limit: 2 });
        let piece = |offset, data: &'static str| ReadOutputResponse {
            offset,
            data: Bytes::from_static(data.as_bytes()),
        };
        assert_eq!(reader.accept(piece(10, "abc")), "abc");
        assert_eq!(reader.accept(piece(10, "abcde")), "de");
        assert_eq!(reader.accept(piece(10, "ab")), "");
        assert_eq!(reader.accept(piece(15, "f")), "f");
    }

    #[test]
    fn the_rest_of_a_part_is_asked_for() {
        fn check(part: Part, reached: Option<i64>, expected: Range) {
            assert_eq!(part.request("o", reached).range, Some(expected), "{part:?} {reached:?}");
        }
        let bytes = |offset, limit| Range::Bytes(ByteRange { offset, limit });
        check(Part::All, None, bytes(0, 0));
        check(Part::All, Some(5), bytes(5, 0));
        check(Part::Bytes { offset: 10, limit: 10 }, None, bytes(10, 10));
        check(Part::Bytes { offset: 10, limit: 10 }, Some(14), bytes(14, 6));
        check(Part::Tail { lines: 3 }, None, Range::Tail(Tail { lines: 3 }));
        check(Part::Tail { lines: 3 }, Some(7), bytes(7, 0));
        let lines = Range::Lines(LineRange {
            first_line: 2,
            limit: 4,
        });
        check(Part::Lines { first: 2, limit: 4 }, Some(7), lines);
        check(Part::Lines { first: 2, limit: 0 }, Some(7), bytes(7, 0));
        assert!(Part::Bytes { offset: 1, limit: 2 }.is_read(Some(3)));
        assert!(!Part::Bytes { offset: 1, limit: 0 }.is_read(Some(3)));
    }
}
