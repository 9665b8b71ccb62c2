//! `AuditService`: hands out the audit as it is stored.

use std::sync::Arc;

use futures_util::stream;
use tonic::{Request, Response, Status};
use toolgate_contract::audit_service_server::AuditService;
use toolgate_contract::*;
use toolgate_model::Timestamp;
use toolgate_store::{Audit, AuditEnd, AuditLine};

use super::Shared;
use super::auth::Caller;
use super::convert::{int, unsigned};
use super::events::ResponseStream;
use super::status::{self, bad_field};

/// Records that are read at once; one has a few kilobytes at most.
const BATCH: usize = 64;

/// The service.
pub(crate) struct Audits(pub(crate) Arc<Shared>);

/// Reads records up to an end that is fixed.
struct Reader {
    store: Arc<dyn Audit>,
    end: AuditEnd,
    next: u64,
    count: u64,
    done: bool,
}

impl Reader {
    /// Returns the next records, then the end of the chain, then none.
    async fn next(&mut self) -> Result<Option<ExportAuditResponse>, Status> {
        if self.done {
            return Ok(None);
        }
        let last = self.end.head.sequence;
        if self.next > last {
            self.done = true;
            return Ok(Some(ExportAuditResponse {
                records: Vec::new(),
                head: Some(audit_head(&self.end)),
                head_line: self.end.head.line(self.count),
            }));
        }
        let lines = self.store.audit_lines(self.next, BATCH).await.map_err(status::store)?;
        let mut records = Vec::with_capacity(lines.len());
        for AuditLine { sequence, json } in lines {
            if sequence > last {
                break;
            }
            if sequence != self.next {
                return Err(removed_meanwhile());
            }
            self.next += 1;
            records.push(json);
        }
        if records.is_empty() {
            return Err(removed_meanwhile());
        }
        self.count += records.len() as u64;
        Ok(Some(ExportAuditResponse {
            records,
            ..ExportAuditResponse::default()
        }))
    }
}

/// Refuses a caller who may not see all workspaces: the audit is one chain, and a part of it cannot be verified.
fn check_whole(caller: &Caller) -> Result<(), Status> {
    match caller.is_limited() {
        true => Err(status::limited("the audit is one chain over all workspaces")),
        false => Ok(()),
    }
}

fn removed_meanwhile() -> Status {
    Status::aborted("records were removed while they were read; try again")
}

/// Returns the head of the audit as the contract has it.
pub fn audit_head(end: &AuditEnd) -> AuditHead {
    AuditHead {
        chain: end.head.chain.clone(),
        sequence: int(end.head.sequence),
        hash: end.head.hash.clone(),
        key_id: end.head.key.clone(),
        seal: end.head.seal.clone(),
        removed_sequence: int(end.removed),
    }
}

#[tonic::async_trait]
impl AuditService for Audits {
    type ExportAuditStream = ResponseStream<ExportAuditResponse>;

    async fn export_audit(
        &self,
        request: Request<ExportAuditRequest>,
    ) -> Result<Response<Self::ExportAuditStream>, Status> {
        let caller = Caller::from_extensions(request.extensions())?;
        check_whole(&caller)?;
        let request = request.into_inner();
        let store = self.0.audit.clone();
        let end = store.audit_end().await.map_err(status::store)?;
        let from = unsigned("from_sequence", request.from_sequence)?;
        let next = match request.from_time {
            None if from == 0 => end.removed + 1,
            None => from,
            Some(_) if from > 0 => return Err(bad_field("from_time", "give a number or a time, not both")),
            Some(time) => {
                let millis = time
                    .seconds
                    .saturating_mul(1000)
                    .saturating_add(i64::from(time.nanos) / 1_000_000);
                let first = store.audit_since(Timestamp(millis)).await.map_err(status::store)?;
                first.max(end.removed + 1)
            }
        };
        if next <= end.removed || (from > 0 && next > end.head.sequence) {
            let problem = format!("records {} to {} are kept", end.removed + 1, end.head.sequence);
            return Err(status::out_of_range("from_sequence", problem));
        }
        let reader = Reader {
            store,
            end,
            next,
            count: 0,
            done: false,
        };
        let parts = stream::try_unfold(reader, |mut reader| async {
            Ok(reader.next().await?.map(|part| (part, reader)))
        });
        Ok(Response::new(Box::pin(parts)))
    }

    async fn get_audit_head(
        &self,
        request: Request<GetAuditHeadRequest>,
    ) -> Result<Response<GetAuditHeadResponse>, Status> {
        let caller = Caller::from_extensions(request.extensions())?;
        check_whole(&caller)?;
        let end = self.0.audit.audit_end().await.map_err(status::store)?;
        Ok(Response::new(GetAuditHeadResponse {
            head: Some(audit_head(&end)),
        }))
    }
}
