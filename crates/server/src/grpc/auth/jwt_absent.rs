//! What stands for signed tokens in a build without the feature `jwt`: a service that is to accept them does not start.

use tokio::time::Instant;
use tonic::Status;
use toolgate_config::service::JwtConfig;

use super::caller::Caller;
use super::error::AuthError;

/// What the token of a worker would say.
pub(super) struct WorkerToken {
    pub(super) subject: String,
    pub(super) pod: Option<String>,
    pub(super) expires: Instant,
}

/// Why a token would not be accepted.
#[derive(Clone, Copy)]
pub(super) enum Refused {}

impl Refused {
    pub(super) fn is_of_another(self) -> bool {
        match self {}
    }
}

impl From<Refused> for Status {
    fn from(refused: Refused) -> Self {
        match refused {}
    }
}

/// What cannot be loaded.
pub(super) enum Jwt {}

impl Jwt {
    pub(super) fn load(_settings: JwtConfig) -> Result<Self, AuthError> {
        Err(AuthError::NotBuilt)
    }

    pub(super) fn issuer(&self) -> &str {
        match *self {}
    }

    pub(super) fn is_for(&self, _token: &str) -> bool {
        match *self {}
    }

    pub(super) fn check(&self, _token: &str) -> Result<Caller, Refused> {
        match *self {}
    }

    pub(super) fn accepts(&self, _token: &str) -> bool {
        match *self {}
    }

    pub(super) fn check_worker(&self, _token: &str) -> Result<WorkerToken, Refused> {
        match *self {}
    }

    pub(super) fn refresh(&self) -> bool {
        match *self {}
    }
}
