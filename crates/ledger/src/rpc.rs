//! The RPCs of a ledger: each request with its path, its answer, and how it says that it is said again.

use prost::Message;
use toolgate_contract::cluster::*;

/// A request of which exactly one answer comes.
pub(crate) trait Rpc: Message + Clone + 'static {
    /// The answer.
    type Answer: Message + Default + 'static;

    /// The path.
    const PATH: &'static str;

    /// Takes note that it was sent before, and no answer came.
    fn say_again(&mut self) {}
}

macro_rules! rpcs {
    ($($name:literal: $request:ident -> $answer:ident $($again:ident)?;)+) => {
        $(
            impl Rpc for $request {
                type Answer = $answer;

                const PATH: &'static str = concat!("/toolgate.cluster.v1.LedgerService/", $name);

                $(
                    fn say_again(&mut self) {
                        self.$again = true;
                    }
                )?
            }
        )+
    };
}

rpcs! {
    "Bind": BindRequest -> BindResponse;
    "RenewLease": RenewLeaseRequest -> RenewLeaseResponse;
    "Release": ReleaseRequest -> ReleaseResponse;
    "CreateCall": CreateCallRequest -> CreateCallResponse again;
    "AppendEvents": AppendEventsRequest -> AppendEventsResponse again;
    "GetCall": GetCallRequest -> GetCallResponse;
    "FindNamesakes": FindNamesakesRequest -> FindNamesakesResponse;
    "ReadEvents": ReadEventsRequest -> ReadEventsResponse;
    "ListCalls": ListCallsRequest -> ListCallsResponse;
    "ListSessions": ListSessionsRequest -> ListSessionsResponse;
    "AdoptCalls": AdoptCallsRequest -> AdoptCallsResponse;
    "OpenPrompt": OpenPromptRequest -> OpenPromptResponse again;
    "ReplaceAsker": ReplaceAskerRequest -> ReplaceAskerResponse;
    "GetPrompt": GetPromptRequest -> GetPromptResponse;
    "ListAskedPrompts": ListAskedPromptsRequest -> ListAskedPromptsResponse;
    "ListOpenPrompts": ListOpenPromptsRequest -> ListOpenPromptsResponse;
    "ListInterests": ListInterestsRequest -> ListInterestsResponse;
    "ListPrompts": ListPromptsRequest -> ListPromptsResponse;
    "EndPrompt": EndPromptRequest -> EndPromptResponse;
    "UseGrants": UseGrantsRequest -> UseGrantsResponse;
    "ListGrants": ListGrantsRequest -> ListGrantsResponse;
    "GetGrant": GetGrantRequest -> GetGrantResponse;
    "RevokeGrant": RevokeGrantRequest -> RevokeGrantResponse;
    "StoreNotes": StoreNotesRequest -> StoreNotesResponse;
    "GetFacts": GetFactsRequest -> GetFactsResponse;
    "ForgetSession": ForgetSessionRequest -> ForgetSessionResponse;
    "RecordChanges": RecordChangesRequest -> RecordChangesResponse;
    "ListChanges": ListChangesRequest -> ListChangesResponse;
    "BeginOutput": BeginOutputRequest -> BeginOutputResponse;
    "AppendOutput": AppendOutputRequest -> AppendOutputResponse;
    "PresignPart": PresignPartRequest -> PresignPartResponse;
    "RecordPart": RecordPartRequest -> RecordPartResponse;
    "FinishOutput": FinishOutputRequest -> FinishOutputResponse;
    "GetOutput": GetOutputRequest -> GetOutputResponse;
    "ReadOutput": ReadOutputRequest -> ReadOutputResponse;
    "ListOutputs": ListOutputsRequest -> ListOutputsResponse;
}
