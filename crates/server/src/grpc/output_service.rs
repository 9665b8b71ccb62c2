//! `OutputService`: reads, searches, lists and deletes stored outputs.

use std::sync::Arc;

use futures_util::stream;
use regex::bytes::RegexBuilder;
use tonic::{Request, Response, Status};
use toolgate_contract::output_service_server::OutputService;
use toolgate_contract::read_output_request::Range;
use toolgate_contract::*;
use toolgate_engine::outputs::{self, PIECE, Search};
use toolgate_model::{OutputId, SessionId};
use toolgate_store::{OutputFilter, OutputInfo, PageRequest, StoreError};

use super::auth::Caller;
use super::convert::{self, int, int32, non_empty, page_size, unsigned};
use super::events::ResponseStream;
use super::status::bad_field;
use super::{Shared, status};

/// The service.
pub(crate) struct StoredOutputs(pub(crate) Arc<Shared>);

const MAX_OUTPUTS: usize = 500;
const MAX_TAIL: i64 = 1_000_000;
const MAX_CONTEXT: i32 = 20;
const MAX_MATCHES: usize = 1000;

/// Compiled size of a search pattern at most.
const REGEX_BYTES: usize = 1 << 20;

impl StoredOutputs {
    /// Finds an output without reading it.
    async fn find(&self, caller: &Caller, id: &str) -> Result<OutputInfo, Status> {
        let id = OutputId::new(convert::name("output_id", id.to_owned())?);
        let info = self.0.outputs.look(&id).await.map_err(status::store)?;
        let info = info.filter(|info| caller.sees(&info.owner.workspace));
        info.ok_or_else(|| status::not_found("output", id.as_str()))
    }

    /// Turns a range of a request into the first byte and how many, if that is limited.
    async fn range(&self, id: &OutputId, range: Option<Range>) -> Result<(u64, Option<u64>), Status> {
        let store = &*self.0.outputs;
        match range {
            None => Ok((0, None)),
            Some(Range::Bytes(bytes)) => {
                let limit = unsigned("bytes.limit", bytes.limit)?;
                Ok((unsigned("bytes.offset", bytes.offset)?, (limit > 0).then_some(limit)))
            }
            Some(Range::Tail(tail)) => {
                if !(1..=MAX_TAIL).contains(&tail.lines) {
                    return Err(bad_field(
                        "tail.lines",
                        format!("{} is not between 1 and {MAX_TAIL}", tail.lines),
                    ));
                }
                let lines = unsigned("tail.lines", tail.lines)?;
                let start = outputs::tail_start(store, id, lines).await.map_err(status::store)?;
                Ok((start, None))
            }
            Some(Range::Lines(lines)) => {
                let first = unsigned("lines.first_line", lines.first_line)?;
                if first == 0 {
                    return Err(bad_field("lines.first_line", "lines count from 1"));
                }
                let limit = unsigned("lines.limit", lines.limit)?;
                let Some(start) = outputs::line_start(store, id, first).await.map_err(status::store)? else {
                    return Ok((0, Some(0)));
                };
                let end = match limit {
                    0 => None,
                    limit => outputs::line_start(store, id, first.saturating_add(limit))
                        .await
                        .map_err(status::store)?,
                };
                Ok((start, end.map(|end| end - start)))
            }
        }
    }
}

#[tonic::async_trait]
impl OutputService for StoredOutputs {
    type ReadOutputStream = ResponseStream<ReadOutputResponse>;

    async fn read_output(
        &self,
        request: Request<ReadOutputRequest>,
    ) -> Result<Response<Self::ReadOutputStream>, Status> {
        let (caller, request) = Caller::of_request(request)?;
        let info = self.find(&caller, &request.output_id).await?;
        let (start, limit) = self.range(&info.id, request.range).await?;
        let store = self.0.outputs.clone();
        let state = (store, info.id, start, limit.unwrap_or(u64::MAX));
        let pieces = stream::unfold(state, |(store, id, offset, left)| async move {
            let size = usize::try_from(left).unwrap_or(usize::MAX).min(PIECE);
            if size == 0 {
                return None;
            }
            match store.read(&id, offset, size).await {
                Ok(data) if data.is_empty() => None,
                Ok(data) => {
                    let read = data.len() as u64;
                    let piece = ReadOutputResponse {
                        offset: int(offset),
                        data,
                    };
                    Some((Ok(piece), (store, id, offset + read, left - read)))
                }
                // Deleted while it was read: what follows is gone, and the caller must know.
                Err(StoreError::NotFound(_)) => {
                    let gone = status::not_found("output", id.as_str());
                    Some((Err(gone), (store, id, offset, 0)))
                }
                Err(error) => Some((Err(status::store(error)), (store, id, offset, 0))),
            }
        });
        Ok(Response::new(Box::pin(pieces)))
    }

    async fn search_output(
        &self,
        request: Request<SearchOutputRequest>,
    ) -> Result<Response<SearchOutputResponse>, Status> {
        let (caller, request) = Caller::of_request(request)?;
        if request.pattern.is_empty() {
            return Err(bad_field("pattern", "say what to search for"));
        }
        let pattern = RegexBuilder::new(&request.pattern)
            .size_limit(REGEX_BYTES)
            .build()
            .map_err(|error| bad_field("pattern", error.to_string()))?;
        let context = |field: &str, lines: i32| match usize::try_from(lines) {
            Ok(lines) if lines <= MAX_CONTEXT as usize => Ok(lines),
            Ok(_) | Err(_) => Err(bad_field(field, format!("{lines} is not between 0 and {MAX_CONTEXT}"))),
        };
        let search = Search {
            pattern,
            before: context("before_context", request.before_context)?,
            after: context("after_context", request.after_context)?,
            max_matches: match usize::try_from(request.max_matches) {
                Ok(0) => 100,
                Ok(count) if count <= MAX_MATCHES => count,
                Ok(_) | Err(_) => {
                    return Err(bad_field("max_matches", format!("not between 0 and {MAX_MATCHES}")));
                }
            },
        };
        let info = self.find(&caller, &request.output_id).await?;
        let store = &*self.0.outputs;
        let found = outputs::search(store, &info.id, &search).await.map_err(status::store)?;
        Ok(Response::new(SearchOutputResponse {
            lines: found
                .lines
                .into_iter()
                .map(|line| OutputLine {
                    line: int(line.number),
                    offset: int(line.offset),
                    text: line.text,
                    is_match: line.is_match,
                })
                .collect(),
            matches: int32(found.matches),
            truncated: found.truncated,
        }))
    }

    async fn get_output(&self, request: Request<GetOutputRequest>) -> Result<Response<GetOutputResponse>, Status> {
        let caller = Caller::from_extensions(request.extensions())?;
        let id = self.find(&caller, &request.get_ref().output_id).await?.id;
        let counted = self.0.outputs.stat(&id).await.map_err(status::store)?;
        let info = counted.ok_or_else(|| status::not_found("output", id.as_str()))?;
        let output = convert::output(info, self.0.output_retention);
        Ok(Response::new(GetOutputResponse { output: Some(output) }))
    }

    async fn list_outputs(
        &self,
        request: Request<ListOutputsRequest>,
    ) -> Result<Response<ListOutputsResponse>, Status> {
        let (caller, request) = Caller::of_request(request)?;
        let filter = OutputFilter {
            workspaces: match request.workspace.as_str() {
                "" if !request.call_id.is_empty() => caller.workspaces().clone(),
                name => caller.filtered(&self.0.engine, name).await?,
            },
            session: non_empty(request.session_id).map(SessionId::new),
            call: self.0.filtered_call(&caller, "call_id", request.call_id).await?,
        };
        let page = PageRequest {
            size: page_size(request.page_size, 50, MAX_OUTPUTS)?,
            after: non_empty(request.page_token),
        };
        let page = self
            .0
            .outputs
            .list_outputs(&filter, &page)
            .await
            .map_err(status::store)?;
        let retention = self.0.output_retention;
        Ok(Response::new(ListOutputsResponse {
            outputs: page
                .items
                .into_iter()
                .map(|info| convert::output(info, retention))
                .collect(),
            next_page_token: page.next.unwrap_or_default(),
        }))
    }

    async fn delete_output(
        &self,
        request: Request<DeleteOutputRequest>,
    ) -> Result<Response<DeleteOutputResponse>, Status> {
        let caller = Caller::from_extensions(request.extensions())?;
        let info = self.find(&caller, &request.get_ref().output_id).await?;
        match self.0.outputs.delete(&info.id).await {
            Ok(true) => Ok(Response::new(DeleteOutputResponse {})),
            Ok(false) => Err(status::not_found("output", info.id.as_str())),
            Err(StoreError::Conflict(problem)) => Err(status::precondition(
                ErrorReason::OutputInUse,
                info.id.as_str(),
                problem,
            )),
            Err(error) => Err(status::store(error)),
        }
    }
}
