//! Whose a certificate or a signed token is, and what a caller may as a worker.
//!
//! *Invariant:* people come before workers: what is a person's by the configuration no rule for workers makes a worker's. A signed token
//! is a worker's by the keys of workers alone, and one that could be of both is nobody's.

use std::sync::Arc;

use tonic::Status;
use toolgate_contract::ErrorReason;

use super::caller::Caller;
use super::jwt::Jwt;
use super::{Authenticator, certificates};
use crate::grpc::status;

impl Authenticator {
    /// Returns whose a certificate is.
    pub(super) fn owner_of(&self, certificate: &[u8]) -> Option<Caller> {
        // Read first: what changes meanwhile is looked at again.
        let generation = *self.generation.borrow();
        let shown = || self.workers.may_change().then(|| Arc::from(certificate));
        if let Some(caller) = self.certificates.find(certificate) {
            return Some(Caller {
                certificate: shown(),
                generation,
                ..caller.clone()
            });
        }
        let (name, may) = self
            .workers
            .with_certificate(&certificates::alternative(certificate)?)?;
        Some(Caller {
            certificate: shown(),
            generation,
            ..Caller::worker(name, may)
        })
    }

    /// Adds what a caller may as a worker that a rule names by its id.
    pub(super) fn as_worker(&self, caller: Caller) -> Caller {
        if caller.worker.is_some() || caller.within.is_some() {
            return caller;
        }
        match self.workers.known_otherwise(&caller.principal.id(), &caller.workspaces) {
            None => caller,
            Some(worker) => Caller {
                workspaces: worker.may.to_have(),
                worker: Some(worker),
                ..caller
            },
        }
    }

    /// Returns whose a signed token is: a person's, or a worker's.
    pub(super) fn signed(&self, token: &str) -> Result<Caller, Status> {
        let is_for = |jwt: &Option<Jwt>| jwt.as_ref().is_some_and(|jwt| jwt.accepts(token));
        let of_both = || {
            let problem = "the token is meant for people and for workers: ask its issuer for one with one audience";
            status::unauthenticated(ErrorReason::BadCredentials, problem)
        };
        let of_person = self.jwt.as_ref().map(|jwt| jwt.check(token));
        let why = match of_person {
            Some(Ok(_)) if is_for(&self.worker_jwt) => return Err(of_both()),
            Some(Ok(caller)) => return Ok(caller),
            Some(Err(why)) => Some(why),
            None => None,
        };
        let of_worker = self.worker_jwt.as_ref().map(|jwt| jwt.check_worker(token));
        let token = match (of_worker, why) {
            (Some(Ok(_)), Some(_)) if is_for(&self.jwt) => return Err(of_both()),
            (Some(Ok(token)), _) => token,
            // Whoever knows the key knows what is wrong.
            (Some(Err(refused)), why) if !refused.is_of_another() || why.is_none() => return Err(refused.into()),
            (_, Some(why)) => return Err(why.into()),
            (Some(Err(_)) | None, None) => return Err(status::no_caller()),
        };
        let Some(may) = self.workers.with_token(&token.subject, token.pod.as_deref()) else {
            let problem = format!(
                "no rule says what a worker with this token may have, whose subject is {}{}: add one to auth.workers_file of the gateway",
                token.subject,
                token
                    .pod
                    .map_or_else(String::new, |pod| format!(" and whose pod is {pod}"))
            );
            return Err(status::unauthenticated(ErrorReason::BadCredentials, problem));
        };
        // Pods that share an account are workers of their own.
        let name = match token.pod {
            Some(pod) => format!("{}/{pod}", token.subject),
            None => token.subject,
        };
        Ok(Caller {
            expires: Some(token.expires),
            ..Caller::worker(name, may)
        })
    }

    /// Says whether a text may be a signed token that is accepted.
    pub(super) fn may_be_signed(&self, token: &str) -> bool {
        self.jwt.iter().chain(&self.worker_jwt).any(|jwt| jwt.is_for(token))
    }
}
