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

    /// The workspace that it changes something of, if it does.
    fn holding(&mut self) -> Option<&mut Holding> {
        None
    }
}

macro_rules! rpcs {
    ($($name:literal: $request:ident -> $answer:ident $([$holding:ident])? $($again:ident)?;)+) => {
        $(
            impl Rpc for $request {
                type Answer = $answer;

                const PATH: &'static str = concat!("/toolgate.cluster.v1.LedgerService/", $name);

                $(
                    fn say_again(&mut self) {
                        self.$again = true;
                    }
                )?

                $(
                    fn holding(&mut self) -> Option<&mut Holding> {
                        self.$holding.as_mut()
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
    "CreateCall": CreateCallRequest -> CreateCallResponse [holding] again;
    "AppendEvents": AppendEventsRequest -> AppendEventsResponse [holding] again;
    "GetCall": GetCallRequest -> GetCallResponse;
    "FindNamesakes": FindNamesakesRequest -> FindNamesakesResponse;
    "ReadEvents": ReadEventsRequest -> ReadEventsResponse;
    "ListCalls": ListCallsRequest -> ListCallsResponse;
    "ListSessions": ListSessionsRequest -> ListSessionsResponse;
    "AdoptCalls": AdoptCallsRequest -> AdoptCallsResponse [holding];
    "OpenPrompt": OpenPromptRequest -> OpenPromptResponse [holding] again;
    "ReplaceAsker": ReplaceAskerRequest -> ReplaceAskerResponse [holding];
    "GetPrompt": GetPromptRequest -> GetPromptResponse;
    "ListAskedPrompts": ListAskedPromptsRequest -> ListAskedPromptsResponse;
    "ListOpenPrompts": ListOpenPromptsRequest -> ListOpenPromptsResponse;
    "ListInterests": ListInterestsRequest -> ListInterestsResponse;
    "ListPrompts": ListPromptsRequest -> ListPromptsResponse;
    "EndPrompt": EndPromptRequest -> EndPromptResponse [holding];
    "UseGrants": UseGrantsRequest -> UseGrantsResponse [holding];
    "ListGrants": ListGrantsRequest -> ListGrantsResponse;
    "GetGrant": GetGrantRequest -> GetGrantResponse;
    "RevokeGrant": RevokeGrantRequest -> RevokeGrantResponse [holding];
    "StoreNotes": StoreNotesRequest -> StoreNotesResponse [holding];
    "GetFacts": GetFactsRequest -> GetFactsResponse;
    "ForgetSession": ForgetSessionRequest -> ForgetSessionResponse [holding];
    "RecordChanges": RecordChangesRequest -> RecordChangesResponse [holding];
    "ListChanges": ListChangesRequest -> ListChangesResponse;
    "BeginOutput": BeginOutputRequest -> BeginOutputResponse [holding];
    "AppendOutput": AppendOutputRequest -> AppendOutputResponse [holding];
    "PresignPart": PresignPartRequest -> PresignPartResponse [holding];
    "RecordPart": RecordPartRequest -> RecordPartResponse [holding];
    "FinishOutput": FinishOutputRequest -> FinishOutputResponse [holding];
    "GetOutput": GetOutputRequest -> GetOutputResponse;
    "ReadOutput": ReadOutputRequest -> ReadOutputResponse;
    "ListOutputs": ListOutputsRequest -> ListOutputsResponse;
}
