//! What an MCP client and its user can do for a call.
//!
//! *Invariant:* whoever is refused as an approver by the policy is not asked.

use rmcp::RoleServer;
use rmcp::model::{ClientCapabilities, ProtocolVersion};
use rmcp::service::RequestContext;
use toolgate_contract::Scope;

use super::context::Seen;
use crate::grpc::Shared;

/// Says whether a client shows forms to its user.
pub(super) fn shows_forms(client: &ClientCapabilities) -> bool {
    // The first revision with elicitation knew only forms, and its capability has no fields.
    let elicitation = client.elicitation.as_ref();
    elicitation.is_some_and(|elicitation| elicitation.form.is_some() || elicitation.url.is_none())
}

/// Says whether the user of a client may answer prompts of its calls: whoever asks does not answer, unless that is allowed.
pub(super) fn user_may_answer(shared: &Shared, seen: &Seen, workspace: &str) -> bool {
    if !shared.takes_replies || seen.context.leaves_prompts() {
        return false;
    }
    let approvals = shared.engine.inbox().approvals();
    let principal = seen.caller.principal().id();
    seen.caller.may(Scope::PromptsReply) && approvals.allows_self(workspace, &principal)
}

/// Says whether a client is told in the answer to its request what a call needs: it has no sessions.
pub(super) fn is_sessionless(context: &RequestContext<RoleServer>) -> bool {
    let version = context.protocol_version();
    version.is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str())
}
