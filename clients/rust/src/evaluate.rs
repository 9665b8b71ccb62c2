//! What a call would ask, told without making it.
//!
//! *Invariant:* nothing is run, changed or recorded, and nobody is asked.

use toolgate_contract::evaluate_call_request::Arguments;
use toolgate_contract::{CallContext, CallEvaluation, EvaluateCallRequest};

use crate::client::{Client, unary};
use crate::context::context_setters;
use crate::error::Error;
use crate::request::{Input, completed};

/// A call to judge. It is sent by [`Self::run`].
#[derive(Clone, Debug)]
#[must_use = "a request does nothing until it is run"]
pub struct EvaluateRequest {
    client: Client,
    context: CallContext,
    request: EvaluateCallRequest,
}

impl Client {
    /// Prepares to ask what a call would ask before it does anything, and what the rules and standing approvals say to that.
    /// The tool and the input are those of [`Self::execute`].
    pub fn evaluate(&self, tool: impl Into<String>, input: impl Into<Input>) -> EvaluateRequest {
        self.evaluate_request(EvaluateCallRequest {
            tool: tool.into(),
            arguments: Some(Arguments::InputJson(input.into().into_text())),
            ..EvaluateCallRequest::default()
        })
    }

    /// Prepares the same by the message of the contract. What its context leaves out is filled in.
    pub fn evaluate_request(&self, mut request: EvaluateCallRequest) -> EvaluateRequest {
        EvaluateRequest {
            client: self.clone(),
            context: request.context.take().unwrap_or_default(),
            request,
        }
    }
}

impl EvaluateRequest {
    context_setters!(context);

    /// Returns what the call would ask, in order, each request with its verdict, its rule and its standing approvals.
    pub async fn run(self) -> Result<CallEvaluation, Error> {
        let mut request = self.request;
        request.context = Some(completed(self.context, &self.client));
        let response = unary!(&self.client, tool_service.evaluate_call, request).await?;
        response.evaluation.ok_or(Error::Protocol("evaluation"))
    }
}
