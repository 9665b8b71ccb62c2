//! Secrets of this run by which gateways call that it has registered at: one for each gateway, good while it is registered there.
//!
//! *Invariant:* only their digests are kept here, they are compared in constant time, and none is logged. One that is good no more is
//! refused, never taken for no credentials.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use toolgate_model::{Principal, PrincipalKind, WorkspaceSet};
use uuid::Uuid;

use super::caller::{Caller, Scopes};

/// What the secrets begin with.
const PREFIX: &str = "toolgate-registration-";

struct Entry {
    /// Which registration it is of.
    number: u64,
    hash: [u8; 32],
    gateway: String,
}

/// The secrets that are good now.
#[derive(Default)]
pub(crate) struct Registered {
    entries: Mutex<Vec<Entry>>,
    numbers: AtomicU64,
}

impl Registered {
    /// Makes a secret, which is good for nothing until it is let in.
    pub(crate) fn make_secret() -> String {
        format!("{PREFIX}{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple())
    }

    /// Says whether a token is meant to be such a secret.
    pub(super) fn is_one(token: &str) -> bool {
        token.starts_with(PREFIX)
    }

    /// Takes a secret for a gateway's, and returns what [`Self::forget`] knows it by.
    pub(crate) fn let_in(&self, gateway: &str, secret: &str) -> u64 {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        self.entries.lock().push(Entry {
            number,
            hash: Sha256::digest(secret.as_bytes()).into(),
            gateway: gateway.to_owned(),
        });
        number
    }

    /// Takes it so no more.
    pub(crate) fn forget(&self, number: u64) {
        self.entries.lock().retain(|entry| entry.number != number);
    }

    /// Finds whose a secret is.
    pub(super) fn find(&self, secret: &str) -> Option<Caller> {
        let hash: [u8; 32] = Sha256::digest(secret.as_bytes()).into();
        let entries = self.entries.lock();
        // All of them, whichever it is.
        let found: Vec<&Entry> = entries.iter().filter(|entry| entry.hash.ct_eq(&hash).into()).collect();
        let principal = Principal::new(PrincipalKind::Gateway, found.first()?.gateway.clone());
        Some(Caller::new(principal, Scopes::ALL, WorkspaceSet::ALL))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_good_while_it_is_let_in() {
        let registered = Registered::default();
        let (own, other) = (Registered::make_secret(), Registered::make_secret());
        assert!(Registered::is_one(&own) && own != other && own.len() > 80);
        assert!(registered.find(&own).is_none());
        let number = registered.let_in("https://10.0.0.1:50551", &own);
        let found = registered.find(&own).unwrap();
        assert_eq!(found.principal().id(), "gateway:https://10.0.0.1:50551");
        assert!(registered.find(&other).is_none() && registered.find("").is_none());
        // An earlier registration of the same gateway goes by itself.
        let again = registered.let_in("https://10.0.0.1:50551", &own);
        registered.forget(number);
        assert!(registered.find(&own).is_some());
        registered.forget(again);
        assert!(registered.find(&own).is_none());
    }
}
