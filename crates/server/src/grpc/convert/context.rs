//! In whose name a call is made: what a request says of that, checked.
//!
//! *Invariant:* an error names the field. Whether a workspace, an agent or a folder exists is seen at the admission.

use std::collections::{BTreeMap, HashMap};

use tonic::Status;
use toolgate_contract as proto;
use toolgate_model as call;

use super::names::{call_id, name, session_id};
use crate::grpc::status::bad_field;
use crate::grpc::values::{from_struct, non_empty};

/// The agent of a call that names none.
pub(crate) const DEFAULT_AGENT: &str = "build";

/// Variables that a call may set.
const MAX_VARIABLES: usize = 64;

/// Bytes of the variables that a call sets, names included.
const MAX_ENVIRONMENT: usize = 32 * 1024;

/// The longest path of a folder that a request may carry, in bytes.
const MAX_DIRECTORY: usize = 2048;

/// Names that the clients of a call may give themselves.
const MAX_CLIENTS: usize = 8;

pub(crate) fn origin(
    context: proto::CallContext,
    id: &call::CallId,
    default_workspace: &str,
) -> Result<call::Origin, Status> {
    let session = match context.session_id.as_str() {
        // Made from the call's id, so that a repeated start is the same start.
        "" => call::SessionId::new(format!("ses_{id}")),
        _ => session_id("context.session_id", context.session_id)?,
    };
    let parent = match context.parent_call_id.as_str() {
        "" => None,
        parent => Some(call_id("context.parent_call_id", parent)?),
    };
    let or = |text: String, default: &str| non_empty(text).unwrap_or_else(|| default.to_owned());
    Ok(call::Origin {
        workspace: or(name("context.workspace", context.workspace)?, default_workspace),
        directory: directory(context.directory)?,
        session,
        message_id: name("context.message_id", context.message_id)?,
        agent: or(name("context.agent", context.agent)?, DEFAULT_AGENT),
        model: model(context.model)?,
        client: name("context.client_kind", context.client_kind)?,
        client_name: name("context.client_name", context.client_name)?,
        parent,
        requester: String::new(),
        on_behalf_of: Vec::new(),
        unanswered: None,
        clients: client_ids("context.client_ids", context.client_ids)?,
        environment: environment("context.environment", context.environment)?,
        extra: context.extra.map(from_struct).unwrap_or_default(),
    })
}

/// Checks the variables that a call sets; whether it may set these is another question.
fn environment(field: &str, variables: HashMap<String, String>) -> Result<BTreeMap<String, String>, Status> {
    if variables.len() > MAX_VARIABLES {
        return Err(bad_field(field, format!("more than {MAX_VARIABLES} variables")));
    }
    let size: usize = variables.iter().map(|(name, value)| name.len() + value.len()).sum();
    if size > MAX_ENVIRONMENT {
        return Err(bad_field(field, format!("{size} bytes; at most {MAX_ENVIRONMENT}")));
    }
    let is_name = |name: &str| {
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        name.bytes().all(is_letter) && name.bytes().next().is_some_and(|first| !first.is_ascii_digit())
    };
    for (name, value) in &variables {
        if !is_name(name) {
            let problem = "a name has letters, digits and _, and does not begin with a digit";
            return Err(bad_field(
                field,
                format!("{name:?} is no name of a variable: {problem}"),
            ));
        }
        if value.contains('\0') {
            return Err(bad_field(field, format!("the value of {name} contains a NUL byte")));
        }
    }
    Ok(variables.into_iter().collect())
}

/// Checks the form of a folder; whether it lies in the workspace is seen at the admission.
fn directory(directory: String) -> Result<String, Status> {
    match directory.len() > MAX_DIRECTORY || directory.contains(char::is_control) {
        true => Err(bad_field(
            "context.directory",
            format!("expected a path of at most {MAX_DIRECTORY} bytes without control characters"),
        )),
        false => Ok(directory),
    }
}

/// Checks the names that clients give themselves.
pub(crate) fn client_ids(field: &str, ids: Vec<String>) -> Result<Vec<String>, Status> {
    if ids.len() > MAX_CLIENTS {
        return Err(bad_field(field, format!("more than {MAX_CLIENTS}")));
    }
    ids.into_iter()
        .map(|id| match id.as_str() {
            "" => Err(bad_field(field, "an id of a client is not empty")),
            _ => name(field, id),
        })
        .collect()
}

pub(crate) fn model(model: Option<proto::ModelRef>) -> Result<call::Model, Status> {
    let model = model.unwrap_or_default();
    Ok(call::Model {
        provider_id: name("model.provider_id", model.provider_id)?,
        model_id: name("model.model_id", model.model_id)?,
        package: name("model.package", model.package)?,
    })
}
