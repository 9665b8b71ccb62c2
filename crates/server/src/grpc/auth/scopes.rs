//! What each RPC needs, as its method option in the contract says.
//!
//! *Invariant:* read from the descriptors that the service ships, so no RPC can be forgotten; one that is not found there
//! and is not of a known standard service needs a scope that nobody has.

use std::collections::HashMap;

use prost::Message;
use toolgate_contract::{DESCRIPTORS, Scope};

use super::caller::scope_name;

/// What a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// Nothing, not even a caller that is known.
    Nothing,
    /// A caller that is known.
    Caller,
    /// A caller with this scope.
    Scope(Scope),
}

/// The needs of all RPCs by their paths.
#[derive(Debug)]
pub(super) struct Needs(HashMap<String, Scope>);

/// The descriptors once more, with the one option that the general types drop.
#[derive(Clone, PartialEq, Message)]
struct Files {
    #[prost(message, repeated, tag = "1")]
    file: Vec<File>,
}

#[derive(Clone, PartialEq, Message)]
struct File {
    #[prost(string, tag = "2")]
    package: String,
    #[prost(message, repeated, tag = "6")]
    service: Vec<Service>,
}

#[derive(Clone, PartialEq, Message)]
struct Service {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, repeated, tag = "2")]
    method: Vec<Method>,
}

#[derive(Clone, PartialEq, Message)]
struct Method {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "4")]
    options: Option<MethodOptions>,
}

#[derive(Clone, PartialEq, Message)]
struct MethodOptions {
    #[prost(int32, optional, tag = "1351")]
    scope: Option<i32>,
}

impl Needs {
    /// Reads the contract.
    ///
    /// # Errors
    /// The descriptors that the build wrote cannot be read.
    pub(super) fn read() -> Result<Self, prost::DecodeError> {
        let mut needs = HashMap::new();
        for file in Files::decode(DESCRIPTORS)?.file {
            for service in file.service {
                for method in service.method {
                    let scope = method.options.and_then(|options| options.scope);
                    let scope = scope.and_then(|scope| Scope::try_from(scope).ok());
                    let path = format!("/{}.{}/{}", file.package, service.name, method.name);
                    needs.insert(path, scope.unwrap_or(Scope::Unspecified));
                }
            }
        }
        Ok(Self(needs))
    }

    /// Returns what a request for this path needs.
    pub(super) fn for_path(&self, path: &str) -> Need {
        if let Some(scope) = self.0.get(path) {
            return Need::Scope(*scope);
        }
        if path == crate::grpc::mcp::PATH {
            return Need::Scope(Scope::CallsExecute);
        }
        if path.starts_with("/grpc.health.v1.Health/") {
            return Need::Nothing;
        }
        if path.starts_with("/toolgate.") {
            return Need::Scope(Scope::Unspecified);
        }
        // Reflection, and what will be found not to exist.
        Need::Caller
    }
}

/// The text for a caller that lacks a scope.
pub(super) fn missing(scope: Scope) -> (&'static str, String) {
    let name = scope_name(scope);
    (name, format!("this needs the scope {name}, which the caller has not"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rpc_of_the_contract_has_a_scope() {
        let needs = Needs::read().unwrap();
        assert!(needs.0.len() > 20);
        let without: Vec<_> = needs
            .0
            .iter()
            .filter(|(_, scope)| **scope == Scope::Unspecified)
            .collect();
        assert!(without.is_empty(), "{without:?}");
        let of = |path| needs.for_path(path);
        assert_eq!(of("/toolgate.v1.ToolService/RunTool"), Need::Scope(Scope::CallsExecute));
        assert_eq!(of("/toolgate.v1.ToolService/Made"), Need::Scope(Scope::Unspecified));
        assert_eq!(of("/mcp"), Need::Scope(Scope::CallsExecute));
        assert_eq!(of("/grpc.health.v1.Health/Check"), Need::Nothing);
        assert_eq!(
            of("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"),
            Need::Caller
        );
        assert_eq!(of("/"), Need::Caller);
    }
}
