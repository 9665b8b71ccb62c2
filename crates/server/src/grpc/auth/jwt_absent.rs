//! What stands for signed tokens in a build without the feature `jwt`: a service that is to accept them does not start.

use tonic::Status;
use toolgate_config::service::JwtConfig;

use super::caller::Caller;
use super::error::AuthError;

/// What cannot be loaded.
pub(super) enum Jwt {}

impl Jwt {
    pub(super) fn load(_settings: JwtConfig) -> Result<Self, AuthError> {
        Err(AuthError::NotBuilt)
    }

    pub(super) fn is_for(&self, _token: &str) -> bool {
        match *self {}
    }

    pub(super) fn check(&self, _token: &str) -> Result<Caller, Status> {
        match *self {}
    }

    pub(super) fn refresh(&self) -> bool {
        match *self {}
    }
}
