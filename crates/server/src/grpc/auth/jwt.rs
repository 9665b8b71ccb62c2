//! Signed tokens (JWT) against a file of public keys (JWKS).
//!
//! *Invariant:* only asymmetric algorithms, and only with a key of their own kind: a public key is never taken for a
//! shared secret. Issuer, audience and expiry are required; nothing a token says is looked at before its signature is
//! right, but for the name of its key.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, JwkSet, KeyAlgorithm, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode};
use serde_json::{Map, Value};
use tokio::time::Instant;
use tonic::Status;
use toolgate_config::service::JwtConfig;
use toolgate_contract::ErrorReason;
use toolgate_model::{Principal, PrincipalKind, WorkspaceSet};

use super::caller::{Caller, Scopes};
use super::error::AuthError;
use super::files::{Readers, Reloading, Source, wrong};
use crate::grpc::status;

/// A stream lasts no longer than this, whatever its token says.
const MAX_STREAM_LIFETIME: Duration = Duration::from_secs(10 * 365 * 86_400);

/// What accepts signed tokens.
pub(super) struct Jwt {
    settings: JwtConfig,
    algorithms: Vec<Algorithm>,
    keys: Reloading<Keys>,
}

impl Jwt {
    /// Reads the file of public keys. Blocking.
    ///
    /// # Errors
    /// The file cannot be read or understood, or a setting means nothing.
    pub(super) fn load(settings: JwtConfig) -> Result<Self, AuthError> {
        let algorithms = algorithms(&settings.algorithms).map_err(AuthError::Algorithms)?;
        let path = settings.jwks_file.clone();
        let source = Source {
            path: path.clone(),
            readers: Readers::Anybody,
        };
        let keys = Reloading::load(vec![source], move |contents| {
            Keys::parse(&path, contents.first().map(Vec::as_slice).unwrap_or_default())
        })?;
        Ok(Self {
            settings,
            algorithms,
            keys,
        })
    }

    /// Returns who issues the tokens.
    pub(super) fn issuer(&self) -> &str {
        &self.settings.issuer
    }

    /// Returns whether a text has the form of a signed token.
    pub(super) fn is_for(&self, token: &str) -> bool {
        token.split('.').count() == 3 && header(token).is_some()
    }

    /// Checks a token and returns whose it is.
    ///
    /// # Errors
    /// It is not accepted; the text says why, for its owner.
    pub(super) fn check(&self, token: &str) -> Result<Caller, Refused> {
        check(token, &self.keys.current(), &self.algorithms, &self.settings)
    }

    /// Says whether its signature, its issuer, its audience and its times are right, whatever else it says.
    pub(super) fn accepts(&self, token: &str) -> bool {
        claims(token, &self.keys.current(), &self.algorithms, &self.settings).is_ok()
    }

    /// Checks the token of a worker and returns whose it is, and for which pod Kubernetes made it.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub(super) fn check_worker(&self, token: &str) -> Result<WorkerToken, Refused> {
        let claims = claims(token, &self.keys.current(), &self.algorithms, &self.settings)?;
        let name = |claim: Option<&Value>| {
            claim
                .and_then(Value::as_str)
                .filter(|name| is_name(name))
                .map(str::to_owned)
        };
        let subject = name(claims.get("sub")).ok_or(Refused::Bad("it does not say whose it is"))?;
        let expires = claims.get("exp").and_then(Value::as_f64).unwrap_or_default();
        Ok(WorkerToken {
            subject,
            pod: name(claims.get("kubernetes.io").and_then(|of| of.get("pod")?.get("name"))),
            expires: Instant::now() + left(expires, self.settings.leeway),
        })
    }

    /// Reads the file again; returns whether it has changed. Blocking.
    pub(super) fn refresh(&self) -> bool {
        self.keys.refresh()
    }
}

/// The public keys of a file.
struct Keys(Vec<Key>);

struct Key {
    id: Option<String>,
    /// What it is good for.
    algorithms: Vec<Algorithm>,
    key: DecodingKey,
}

impl Keys {
    /// Reads the content of a file.
    fn parse(path: &Path, content: &[u8]) -> Result<Self, AuthError> {
        let set: Value = serde_json::from_slice(content).map_err(|_| wrong(path, "it is not JSON"))?;
        let set: JwkSet = serde_json::from_value(set).map_err(|_| wrong(path, "it is no JSON Web Key Set"))?;
        let keys: Vec<Key> = set.keys.iter().filter_map(public_key).collect();
        if keys.is_empty() {
            return Err(wrong(path, "it has no public key that verifies signatures"));
        }
        Ok(Self(keys))
    }

    fn find(&self, id: Option<&str>, algorithm: Algorithm) -> Option<&Key> {
        let mut fitting = self.0.iter().filter(|key| key.algorithms.contains(&algorithm));
        match id {
            Some(id) => fitting.find(|key| key.id.as_deref() == Some(id)),
            // Without a name there must be no choice.
            None => fitting.next().filter(|_| self.0.len() == 1),
        }
    }
}

#[allow(clippy::wildcard_enum_match_arm)] // the library's list is open
fn public_key(jwk: &Jwk) -> Option<Key> {
    if matches!(jwk.common.public_key_use, Some(PublicKeyUse::Encryption)) {
        return None;
    }
    let kind: &[Algorithm] = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => &[
            Algorithm::RS256,
            Algorithm::RS384,
            Algorithm::RS512,
            Algorithm::PS256,
            Algorithm::PS384,
            Algorithm::PS512,
        ],
        AlgorithmParameters::EllipticCurve(curve) if curve.curve == EllipticCurve::P256 => &[Algorithm::ES256],
        AlgorithmParameters::EllipticCurve(curve) if curve.curve == EllipticCurve::P384 => &[Algorithm::ES384],
        AlgorithmParameters::OctetKeyPair(curve) if curve.curve == EllipticCurve::Ed25519 => &[Algorithm::EdDSA],
        // Shared secrets above all.
        _ => return None,
    };
    let algorithms: Vec<Algorithm> = match jwk.common.key_algorithm {
        None => kind.to_vec(),
        Some(only) => kind.iter().copied().filter(|one| is_named(*one, only)).collect(),
    };
    Some(Key {
        id: jwk.common.key_id.clone(),
        algorithms,
        key: DecodingKey::from_jwk(jwk).ok()?,
    })
}

fn is_named(algorithm: Algorithm, name: KeyAlgorithm) -> bool {
    format!("{algorithm:?}") == format!("{name:?}")
}

/// Reads names of algorithms.
///
/// # Errors
/// One is not known, or works with a shared secret.
fn algorithms(names: &[String]) -> Result<Vec<Algorithm>, String> {
    let read = |name: &String| match name.parse::<Algorithm>() {
        Ok(Algorithm::HS256 | Algorithm::HS384 | Algorithm::HS512) => Err(format!(
            "{name} works with a shared secret; only public keys are accepted"
        )),
        Ok(algorithm) => Ok(algorithm),
        Err(_) => Err(format!(
            "there is no algorithm {name:?}; write RS256, PS256, ES256, ES384 or EdDSA, say"
        )),
    };
    names.iter().map(read).collect()
}

fn header(token: &str) -> Option<Map<String, Value>> {
    let first = token.split('.').next()?;
    let json = URL_SAFE_NO_PAD.decode(first).ok()?;
    serde_json::from_slice(&json).ok()
}

fn check(token: &str, keys: &Keys, allowed: &[Algorithm], settings: &JwtConfig) -> Result<Caller, Refused> {
    caller(&claims(token, keys, allowed, settings)?, settings)
}

/// Returns what a token says whose signature, issuer, audience and times are right.
fn claims(
    token: &str,
    keys: &Keys,
    allowed: &[Algorithm],
    settings: &JwtConfig,
) -> Result<Map<String, Value>, Refused> {
    let header = header(token).ok_or(Refused::Bad("it is no signed token"))?;
    // Extensions that must be understood, and none is.
    if header.contains_key("crit") {
        return Err(Refused::Bad("it needs extensions that are not known here"));
    }
    let algorithm = header
        .get("alg")
        .and_then(Value::as_str)
        .and_then(|name| name.parse::<Algorithm>().ok());
    let algorithm = algorithm
        .filter(|algorithm| allowed.contains(algorithm))
        .ok_or(Refused::Bad("its algorithm is not accepted"))?;
    let id = match header.get("kid") {
        None => None,
        Some(Value::String(id)) => Some(id.as_str()),
        Some(_) => return Err(Refused::Bad("the name of its key is no text")),
    };
    let key = keys.find(id, algorithm).ok_or(Refused::UnknownKey)?;
    let mut validation = Validation::new(algorithm);
    validation.leeway = settings.leeway.as_secs();
    validation.validate_nbf = true;
    validation.set_audience(&[&settings.audience]);
    validation.set_issuer(&[&settings.issuer]);
    validation.set_required_spec_claims(&["exp", "iss", "aud"]);
    let claims = decode::<Map<String, Value>>(token, &key.key, &validation)
        .map_err(|error| rejected(error.kind()))?
        .claims;
    // The library takes a list in which the issuer is one of several; a token has one (RFC 7519, 4.1.1).
    if claims.get("iss").and_then(Value::as_str) != Some(settings.issuer.as_str()) {
        return Err(Refused::Bad("its issuer is not accepted"));
    }
    Ok(claims)
}

/// What the token of a worker says.
pub(super) struct WorkerToken {
    pub(super) subject: String,
    pub(super) pod: Option<String>,
    pub(super) expires: Instant,
}

/// Why a token is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// It was good once.
    Expired,
    /// It may be one of another issuer.
    UnknownKey,
    /// Something about it.
    Bad(&'static str),
}

impl Refused {
    /// Says whether it may be a token of another issuer.
    pub(super) fn is_of_another(self) -> bool {
        self == Self::UnknownKey
    }
}

impl From<Refused> for Status {
    fn from(refused: Refused) -> Self {
        let bad = |problem: &str| {
            status::unauthenticated(
                ErrorReason::BadCredentials,
                format!("the token is not accepted: {problem}"),
            )
        };
        match refused {
            Refused::Expired => status::expired(),
            Refused::UnknownKey => bad("its key is not known"),
            Refused::Bad(problem) => bad(problem),
        }
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= 256 && !name.chars().any(char::is_control)
}

fn rejected(kind: &ErrorKind) -> Refused {
    #[allow(clippy::wildcard_enum_match_arm)] // the library's list is open
    match kind {
        ErrorKind::ExpiredSignature => Refused::Expired,
        ErrorKind::ImmatureSignature => Refused::Bad("it is not valid yet"),
        ErrorKind::InvalidIssuer => Refused::Bad("its issuer is not accepted"),
        ErrorKind::InvalidAudience => Refused::Bad("it is meant for somebody else"),
        ErrorKind::MissingRequiredClaim(_) => Refused::Bad("it must say exp, iss and aud"),
        ErrorKind::InvalidSignature => Refused::Bad("its signature is wrong"),
        _ => Refused::Bad("it is malformed"),
    }
}

fn caller(claims: &Map<String, Value>, settings: &JwtConfig) -> Result<Caller, Refused> {
    let name = claims
        .get(&settings.name_claim)
        .and_then(Value::as_str)
        .unwrap_or_default();
    if !is_name(name) {
        return Err(Refused::Bad("it does not say whose it is"));
    }
    let scopes = words(claims.get(&settings.scope_claim));
    let workspaces = match &settings.workspace_claim {
        None => WorkspaceSet::ALL,
        Some(claim) => workspaces(&words(claims.get(claim)))?,
    };
    let principal = Principal::new(PrincipalKind::Jwt, name);
    let scopes = Scopes::among(scopes.iter().map(String::as_str));
    let expires = claims.get("exp").and_then(Value::as_f64).unwrap_or_default();
    Ok(Caller {
        expires: Some(Instant::now() + left(expires, settings.leeway)),
        ..Caller::new(principal, scopes, workspaces)
    })
}

/// Reads a claim of workspaces, among which names of groups may be that are for others.
fn workspaces(claim: &[String]) -> Result<WorkspaceSet, Refused> {
    let meant = claim
        .iter()
        .map(String::as_str)
        .filter(|entry| !WorkspaceSet::is_foreign(entry));
    if meant.clone().next().is_none() {
        return Err(Refused::Bad("it names no workspace"));
    }
    let understood = WorkspaceSet::parse(meant);
    understood
        .map_err(|_| Refused::Bad("a star in its workspaces stands alone or ends `PREFIX/*`, at most 100 of these"))
}

/// Returns how long a token is still good.
fn left(expires: f64, leeway: Duration) -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let until = Duration::try_from_secs_f64(expires).unwrap_or(Duration::MAX);
    until
        .saturating_add(leeway)
        .saturating_sub(now)
        .min(MAX_STREAM_LIFETIME)
}

/// Returns the words of a claim: a list, or one text.
fn words(claim: Option<&Value>) -> Vec<String> {
    match claim {
        Some(Value::String(text)) => text.split_whitespace().map(str::to_owned).collect(),
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => Vec::new(),
    }
}
