//! Where names lead, judged at the moment in which a connection is made: between the look-up and the connection there is
//! nothing that a name server could change.
//!
//! *Invariant:* what is handed on may be connected to.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::allow::Allow;

/// More addresses than any server has.
const MOST_ADDRESSES: usize = 64;

/// Asks for the addresses of a name.
pub(super) type Lookup = Arc<dyn Fn(String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> + Send + Sync>;

/// Asks as every program of the machine does.
pub(super) fn system() -> Lookup {
    Arc::new(|name| {
        let look_up = async move {
            let found = tokio::net::lookup_host((name, 0)).await?;
            Ok(found.map(|address| address.ip()).take(MOST_ADDRESSES).collect())
        };
        look_up.boxed()
    })
}

/// What a client may connect to by name.
#[derive(Clone)]
pub(super) enum Scope {
    /// What is public, and what is listed.
    Public(Arc<Allow>),
    /// Everything: for names that have been checked in the URL.
    Everything,
    /// These names and no others, wherever they lead.
    Names(Vec<String>),
}

/// A name leads to nothing that may be reached.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it leads to {kind}")]
pub(super) struct Misled {
    pub(super) kind: &'static str,
}

pub(super) struct Resolver {
    lookup: Lookup,
    scope: Scope,
}

impl Resolver {
    pub(super) fn new(lookup: Lookup, scope: Scope) -> Self {
        Self { lookup, scope }
    }
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let asked = (self.lookup)(name.as_str().to_owned());
        let scope = self.scope.clone();
        Box::pin(async move {
            let name = name.as_str().trim_end_matches('.');
            if let Scope::Names(names) = &scope
                && !names.iter().any(|known| known == name)
            {
                let kind = "a server that the configuration does not name";
                return Err(Misled { kind }.into());
            }
            let found = asked.await?;
            let kept = match &scope {
                Scope::Public(allow) => public(allow, found)?,
                Scope::Everything | Scope::Names(_) => found,
            };
            let addresses = kept.into_iter().map(|address| SocketAddr::new(address, 0));
            Ok(Box::new(addresses) as Addrs)
        })
    }
}

/// Leaves out what may not be reached.
pub(super) fn public(allow: &Allow, found: Vec<IpAddr>) -> Result<Vec<IpAddr>, Misled> {
    let refused = found.iter().find_map(|address| allow.refuses(*address));
    let kept: Vec<IpAddr> = found.into_iter().filter(|it| allow.refuses(*it).is_none()).collect();
    match (kept.is_empty(), refused) {
        (true, Some(kind)) => Err(Misled { kind }),
        (true, None) | (false, _) => Ok(kept),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_what_may_be_reached_is_handed_on() {
        async fn check(scope: Scope, name: &str, expected: Result<&[&str], &str>) {
            let lookup: Lookup = Arc::new(|name| {
                let addresses = name
                    .trim_end_matches('.')
                    .split('_')
                    .filter_map(|text| text.replace('x', ":").parse().ok());
                let addresses: Vec<IpAddr> = addresses.collect();
                async move { Ok(addresses) }.boxed()
            });
            let resolver = Resolver::new(lookup, scope);
            let found = resolver.resolve(name.parse().unwrap()).await;
            let found = found.map(|addresses| addresses.map(|it| it.ip().to_string()).collect::<Vec<_>>());
            match expected {
                Ok(expected) => assert_eq!(found.unwrap(), expected, "{name}"),
                Err(part) => assert!(found.unwrap_err().to_string().contains(part), "{name}"),
            }
        }
        let allow = Arc::new(Allow::new(vec!["10.0.0.0/8".parse().unwrap()]));
        let public = || Scope::Public(Arc::clone(&allow));
        check(public(), "8.8.8.8", Ok(&["8.8.8.8"])).await;
        check(public(), "127.0.0.1_8.8.8.8_xx1", Ok(&["8.8.8.8"])).await;
        check(public(), "10.1.1.1_127.0.0.1", Ok(&["10.1.1.1"])).await;
        check(public(), "127.0.0.1_192.168.0.1", Err("a loopback address")).await;
        check(public(), "169.254.169.254", Err("metadata")).await;
        check(public(), "nothing", Ok(&[])).await;
        check(Scope::Everything, "127.0.0.1", Ok(&["127.0.0.1"])).await;
        let named = || Scope::Names(vec!["127.0.0.1".to_owned()]);
        check(named(), "127.0.0.1.", Ok(&["127.0.0.1"])).await;
        check(named(), "127.0.0.2", Err("does not name")).await;
    }
}
