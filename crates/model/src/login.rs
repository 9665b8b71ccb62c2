//! Logins at servers of tools.
//!
//! *Invariant:* no secret is in a debug text.

use std::fmt;
use std::time::SystemTime;

/// A login at a server.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// What is sent.
    pub token: String,
    /// What a new token can be had for.
    pub refresh: Option<String>,
    /// When the token is no good any more.
    pub expires: Option<SystemTime>,
    /// The client that it was given to.
    pub client: Option<OAuthClient>,
    /// Who gave it, and who alone may be sent what a new token can be had for; none if that is not known.
    pub issuer: Option<String>,
    /// What it is good for, as far as that is known.
    pub scopes: Vec<String>,
}

/// A client that is registered at whoever gives out tokens.
#[derive(Clone, PartialEq, Eq)]
pub struct OAuthClient {
    /// Its name.
    pub id: String,
    /// What proves it.
    pub secret: Option<String>,
}

impl Login {
    /// How many scopes a login is asked for at most, and how many are noted as missing: servers name them.
    pub const MAX_SCOPES: usize = 128;
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Login");
        shown.field("expires", &self.expires).field("issuer", &self.issuer);
        shown.field("scopes", &self.scopes).finish_non_exhaustive()
    }
}

impl fmt::Debug for OAuthClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuthClient")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}
