//! What each RPC needs, as its method option in the contract says.
//!
//! *Invariant:* read from the descriptors that the service ships, so no RPC can be forgotten; one that is not found there
//! and is not of a known standard service needs a scope that nobody has.

use std::collections::HashMap;

use toolgate_contract::Scope;
use toolgate_contract::cluster::DESCRIPTORS;

use super::caller::Scopes;
use crate::grpc::described;

/// How a worker registers at a gateway, which asks whether it may by itself: a worker needs no scope there.
const REGISTER: &str = "/toolgate.cluster.v1.ClusterService/Register";

/// What a worker stores and reads through a gateway, which asks whether it may by itself, too.
const LEDGER: &str = "/toolgate.cluster.v1.LedgerService/";

/// What a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// Nothing, not even a caller that is known.
    Nothing,
    /// A caller that is known.
    Caller,
    /// A caller with any of these scopes.
    AnyOf(Scopes),
}

/// The needs of all RPCs by their paths.
#[derive(Debug)]
pub(super) struct Needs(HashMap<String, Scopes>);

impl Needs {
    /// Reads the contract.
    ///
    /// # Errors
    /// The descriptors that the build wrote cannot be read.
    pub(super) fn read() -> Result<Self, prost::DecodeError> {
        let methods = described::methods(DESCRIPTORS)?.into_iter();
        let needs = methods.map(|method| {
            let scopes = method.scopes.into_iter();
            let scopes = scopes.filter_map(|scope| Scope::try_from(scope).ok());
            let scopes: Vec<_> = scopes.filter(|scope| *scope != Scope::Unspecified).collect();
            (format!("/{}", method.name), Scopes::new(&scopes))
        });
        Ok(Self(needs.collect()))
    }

    /// Returns what a request for this path needs.
    pub(super) fn for_path(&self, path: &str) -> Need {
        if path == REGISTER || path.starts_with(LEDGER) {
            return Need::Caller;
        }
        if let Some(scopes) = self.0.get(path) {
            return Need::AnyOf(*scopes);
        }
        if path == crate::grpc::mcp::PATH {
            return Need::AnyOf(Scopes::new(&[Scope::CallsExecute]));
        }
        if path.starts_with("/grpc.health.v1.Health/") {
            return Need::Nothing;
        }
        if path.starts_with("/toolgate.") {
            return Need::AnyOf(Scopes::default());
        }
        // Reflection, and what will be found not to exist.
        Need::Caller
    }
}

/// The names of what a caller lacks, and a text for it.
pub(super) fn missing(scopes: Scopes) -> (String, String) {
    let names: Vec<_> = scopes.names().collect();
    let text = format!("this needs the scope {}, which the caller has not", names.join(" or "));
    (names.join(" "), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rpc_of_the_contract_has_a_scope() {
        let needs = Needs::read().unwrap();
        assert!(needs.0.len() > 20);
        let is_asked = |path: &str| !path.starts_with(LEDGER);
        let without = needs
            .0
            .iter()
            .filter(|(path, scopes)| scopes.is_empty() && is_asked(path));
        let without: Vec<&String> = without.map(|(path, _)| path).collect();
        // A gateway asks by itself who may.
        assert_eq!(without, [REGISTER]);
        let of = |path| needs.for_path(path);
        assert_eq!(of(REGISTER), Need::Caller);
        assert_eq!(of("/toolgate.cluster.v1.LedgerService/Bind"), Need::Caller);
        assert_eq!(
            of("/toolgate.cluster.v1.ClusterService/ListWorkers"),
            Need::AnyOf(Scopes::new(&[Scope::Admin]))
        );
        let any_of = |scopes: &[Scope]| Need::AnyOf(Scopes::new(scopes));
        assert_eq!(of("/toolgate.v1.ToolService/RunTool"), any_of(&[Scope::CallsExecute]));
        let reads_prompts = [Scope::CallsRead, Scope::PromptsReply];
        assert_eq!(
            of("/toolgate.v1.PermissionService/WatchPrompts"),
            any_of(&reads_prompts)
        );
        assert_eq!(of("/toolgate.v1.ToolService/Made"), any_of(&[]));
        assert_eq!(of("/mcp"), any_of(&[Scope::CallsExecute]));
        assert_eq!(missing(Scopes::new(&reads_prompts)).0, "calls.read prompts.reply");
        assert_eq!(of("/grpc.health.v1.Health/Check"), Need::Nothing);
        assert_eq!(
            of("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"),
            Need::Caller
        );
        assert_eq!(of("/"), Need::Caller);
    }
}
