//! How long a gateway takes at most to answer a worker.
//!
//! *Invariant:* a worker that asks gets an answer of the gateway before it gives the gateway up: also while the store hangs it hears that
//! the store is away, and not nothing. What is given up may be stored all the same, as with any answer that is lost. One that renews its
//! lease hears it well within that lease, and holds: nobody else can take over either.

use std::time::Duration;

use tokio::time::timeout;
use tonic::{Request, Response, Status};
use toolgate_contract::cluster::ledger_service_server::LedgerService;
use toolgate_contract::cluster::*;
use toolgate_ledger::wire;
use toolgate_store::StoreError;

use crate::ledger::LedgerDoor;
use crate::ledger_load::AtStore;

/// Shorter than what a worker waits for one answer, which is 4 s, by what may be lost on the way.
const TIME_LIMIT: Duration = Duration::from_millis(2_800);

/// A renewal may take such a part of the lease: a worker waits for twice as long, and begins with the second third of its lease.
const RENEWALS_PER_LEASE: u32 = 6;

/// What a gateway does for workers, each request within the limit.
#[derive(Clone)]
pub(crate) struct InTime(pub(crate) LedgerDoor);

async fn in_time<T>(limit: Duration, answer: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
    let away = |_| {
        let why = format!(
            "the store of the gateway does not answer within {} ms",
            limit.as_millis()
        );
        wire::refusal(&StoreError::Unavailable(why))
    };
    timeout(limit, answer).await.map_err(away)?
}

fn limit_of_renewals(lease: Duration) -> Duration {
    TIME_LIMIT.min(lease / RENEWALS_PER_LEASE)
}

macro_rules! in_time {
    ($($name:ident: $request:ident -> $answer:ident;)+) => {
        #[tonic::async_trait]
        impl LedgerService for InTime {
            $(
                async fn $name(&self, request: Request<$request>) -> Result<Response<$answer>, Status> {
                    let answer = async {
                        let _turn = AtStore::turn(request.extensions()).await?;
                        self.0.$name(request).await
                    };
                    in_time(TIME_LIMIT, answer).await
                }
            )+

            async fn renew_lease(
                &self,
                request: Request<RenewLeaseRequest>,
            ) -> Result<Response<RenewLeaseResponse>, Status> {
                in_time(limit_of_renewals(self.0.lease()), self.0.renew_lease(request)).await
            }

            type FollowStream = <LedgerDoor as LedgerService>::FollowStream;

            /// A stream, which asks the store for nothing.
            async fn follow(&self, request: Request<FollowRequest>) -> Result<Response<Self::FollowStream>, Status> {
                self.0.follow(request).await
            }
        }
    };
}

in_time! {
    bind: BindRequest -> BindResponse;
    release: ReleaseRequest -> ReleaseResponse;
    create_call: CreateCallRequest -> CreateCallResponse;
    append_events: AppendEventsRequest -> AppendEventsResponse;
    get_call: GetCallRequest -> GetCallResponse;
    find_namesakes: FindNamesakesRequest -> FindNamesakesResponse;
    read_events: ReadEventsRequest -> ReadEventsResponse;
    list_calls: ListCallsRequest -> ListCallsResponse;
    list_sessions: ListSessionsRequest -> ListSessionsResponse;
    adopt_calls: AdoptCallsRequest -> AdoptCallsResponse;
    open_prompt: OpenPromptRequest -> OpenPromptResponse;
    replace_asker: ReplaceAskerRequest -> ReplaceAskerResponse;
    get_prompt: GetPromptRequest -> GetPromptResponse;
    list_asked_prompts: ListAskedPromptsRequest -> ListAskedPromptsResponse;
    list_open_prompts: ListOpenPromptsRequest -> ListOpenPromptsResponse;
    list_interests: ListInterestsRequest -> ListInterestsResponse;
    list_prompts: ListPromptsRequest -> ListPromptsResponse;
    end_prompt: EndPromptRequest -> EndPromptResponse;
    use_grants: UseGrantsRequest -> UseGrantsResponse;
    list_grants: ListGrantsRequest -> ListGrantsResponse;
    get_grant: GetGrantRequest -> GetGrantResponse;
    revoke_grant: RevokeGrantRequest -> RevokeGrantResponse;
    store_notes: StoreNotesRequest -> StoreNotesResponse;
    get_facts: GetFactsRequest -> GetFactsResponse;
    forget_session: ForgetSessionRequest -> ForgetSessionResponse;
    record_changes: RecordChangesRequest -> RecordChangesResponse;
    list_changes: ListChangesRequest -> ListChangesResponse;
    begin_output: BeginOutputRequest -> BeginOutputResponse;
    append_output: AppendOutputRequest -> AppendOutputResponse;
    presign_part: PresignPartRequest -> PresignPartResponse;
    record_part: RecordPartRequest -> RecordPartResponse;
    finish_output: FinishOutputRequest -> FinishOutputResponse;
    get_output: GetOutputRequest -> GetOutputResponse;
    read_output: ReadOutputRequest -> ReadOutputResponse;
    list_outputs: ListOutputsRequest -> ListOutputsResponse;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_hangs_is_said_to_be_away() {
        let limit = Duration::from_millis(1);
        let hanging = in_time(limit, std::future::pending::<Result<(), Status>>()).await;
        let hanging = hanging.unwrap_err();
        assert!(
            matches!(wire::of_refusal(&hanging), Some(StoreError::Unavailable(_))),
            "{hanging:?}"
        );
        assert_eq!(in_time(limit, async { Ok(1) }).await.unwrap(), 1);
    }
}
