//! The keys that say who may call: `auth`, `listen.tls` and the approval keys of `permission`.
//!
//! *Invariant:* names files and rules; what is in the files is read, and read again, by the service. An address that other
//! machines can reach is refused unless callers must say who they are and the line is encrypted, or somebody took the
//! risk by name.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::layered::{DEFAULT_TCP, Layered, folder};
use super::raw::{RawCertificate, RawConfig};
use super::values::{
    AuthConfig, CertificateConfig, ClientAuth, JwtConfig, ListenConfig, Source, TlsConfig, UnixGroupConfig,
};
use crate::error::ConfigError;
use crate::units;

/// By how much clocks may differ at most: a leeway keeps expired tokens alive.
const MAX_LEEWAY: Duration = Duration::from_secs(300);

const MISSING: &str = "none";

impl Layered<'_> {
    pub(super) fn tls(&mut self) -> Result<Option<TlsConfig>, ConfigError> {
        let certificate = self.file("listen.tls.certificate", |raw| &raw.listen.tls.certificate)?;
        let key = self.file("listen.tls.key", |raw| &raw.listen.tls.key)?;
        let client_ca = self.file("listen.tls.client_ca", |raw| &raw.listen.tls.client_ca)?;
        self.private_files.extend(key.clone());
        let client_auth = self.value(
            "listen.tls.client_auth",
            |raw| &raw.listen.tls.client_auth,
            |text, _| match text.as_str() {
                "required" => Ok(ClientAuth::Required),
                "optional" => Ok(ClientAuth::Optional),
                other => Err(format!("expected \"required\" or \"optional\", found {other:?}")),
            },
            || ClientAuth::Required,
            |value| match value {
                ClientAuth::Required => "required".to_owned(),
                ClientAuth::Optional => "optional".to_owned(),
            },
        )?;
        match (certificate, key) {
            (Some(certificate), Some(key)) => Ok(Some(TlsConfig {
                certificate,
                key,
                client_ca: client_ca.map(|path| (path, client_auth)),
            })),
            (None, None) if client_ca.is_none() => Ok(None),
            (None, _) => {
                let message = "the certificate is missing: TLS needs both certificate and key".to_owned();
                Err(self.conflict("listen.tls.certificate", |raw| &raw.listen.tls.key, message))
            }
            (Some(_), None) => {
                let message = "the private key is missing: TLS needs both certificate and key".to_owned();
                Err(self.conflict("listen.tls.key", |raw| &raw.listen.tls.certificate, message))
            }
        }
    }

    pub(super) fn auth(&mut self) -> Result<AuthConfig, ConfigError> {
        let tokens_file = self.file("auth.tokens_file", |raw| &raw.auth.tokens_file)?;
        self.private_files.extend(tokens_file.clone());
        let jwt = self.jwt()?;
        let certificates = self.certificates()?;
        let unix = self.unix_group()?;
        Ok(AuthConfig {
            tokens_file,
            jwt,
            certificates,
            unix,
        })
    }

    fn unix_group(&mut self) -> Result<Option<UnixGroupConfig>, ConfigError> {
        let group = self.word("auth.unix.group", |raw| &raw.auth.unix.group, None)?;
        let scopes = self.value(
            "auth.unix.scopes",
            |raw| &raw.auth.unix.scopes,
            |list, _| Ok(list.clone()),
            Vec::new,
            |list| match list.is_empty() {
                true => MISSING.to_owned(),
                false => list.join(","),
            },
        )?;
        match (group, scopes.is_empty()) {
            (Some(group), false) => Ok(Some(UnixGroupConfig { group, scopes })),
            (None, true) => Ok(None),
            (Some(_), true) => {
                let message = "it is not said what the group may do: set auth.unix.scopes".to_owned();
                Err(self.conflict("auth.unix.group", |raw| &raw.auth.unix.group, message))
            }
            (None, false) => {
                let message = "it is not said who has them: set auth.unix.group".to_owned();
                Err(self.conflict("auth.unix.scopes", |raw| &raw.auth.unix.scopes, message))
            }
        }
    }

    fn jwt(&mut self) -> Result<Option<JwtConfig>, ConfigError> {
        let jwks_file = self.file("auth.jwt.jwks_file", |raw| &raw.auth.jwt.jwks_file)?;
        self.private_files.extend(jwks_file.clone());
        let issuer = self.word("auth.jwt.issuer", |raw| &raw.auth.jwt.issuer, None)?;
        let audience = self.word("auth.jwt.audience", |raw| &raw.auth.jwt.audience, None)?;
        let algorithms = self.value(
            "auth.jwt.algorithms",
            |raw| &raw.auth.jwt.algorithms,
            |list, _| match list.is_empty() {
                true => Err("expected at least one algorithm".to_owned()),
                false => Ok(list.clone()),
            },
            || vec!["RS256".to_owned(), "ES256".to_owned(), "EdDSA".to_owned()],
            |list| list.join(","),
        )?;
        let name_claim = self.word("auth.jwt.name_claim", |raw| &raw.auth.jwt.name_claim, Some("sub"))?;
        let scope_claim = self.word("auth.jwt.scope_claim", |raw| &raw.auth.jwt.scope_claim, Some("scope"))?;
        let workspace_claim = self.word("auth.jwt.workspace_claim", |raw| &raw.auth.jwt.workspace_claim, None)?;
        let leeway = self.duration("auth.jwt.leeway", |raw| &raw.auth.jwt.leeway, Duration::from_secs(30))?;
        if leeway > MAX_LEEWAY {
            let message = format!("expected at most {}", units::show_duration(MAX_LEEWAY));
            return Err(self.conflict("auth.jwt.leeway", |raw| &raw.auth.jwt.leeway, message));
        }
        let Some(jwks_file) = jwks_file else {
            if issuer.is_some() || audience.is_some() {
                let message = "the file of public keys is missing: set auth.jwt.jwks_file".to_owned();
                return Err(self.conflict("auth.jwt.jwks_file", |raw| &raw.auth.jwt.issuer, message));
            }
            return Ok(None);
        };
        let needed =
            |what: &str| format!("{what} is missing: a token must name its issuer and be meant for this service");
        let (Some(issuer), Some(audience)) = (issuer.clone(), audience) else {
            let key = if issuer.is_none() {
                "auth.jwt.issuer"
            } else {
                "auth.jwt.audience"
            };
            return Err(self.conflict(key, |raw| &raw.auth.jwt.jwks_file, needed(key)));
        };
        Ok(Some(JwtConfig {
            jwks_file,
            issuer,
            audience,
            algorithms,
            name_claim: name_claim.unwrap_or_default(),
            scope_claim: scope_claim.unwrap_or_default(),
            workspace_claim,
            leeway,
        }))
    }

    fn certificates(&mut self) -> Result<Vec<CertificateConfig>, ConfigError> {
        let key = "auth.certificates";
        let Some((layer, entries)) = self.said(|raw| &raw.auth.certificates) else {
            self.record(key, MISSING.to_owned(), Source::Default);
            return Ok(Vec::new());
        };
        let mut certificates = Vec::with_capacity(entries.len());
        for entry in entries {
            certificates.push(certificate(entry).map_err(|message| layer.error(key, message))?);
        }
        let names: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
        let source = layer.source(key);
        self.record(key, names.join(","), source);
        Ok(certificates)
    }

    /// Refuses what would let strangers in.
    pub(super) fn check_reach(&self, listen: &ListenConfig, auth: &AuthConfig) -> Result<(), ConfigError> {
        let client_ca = listen.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some());
        if !auth.certificates.is_empty() && !client_ca {
            let message = "nobody can show a certificate: set listen.tls.client_ca to the authority that signs them";
            return Err(self.conflict("auth.certificates", |raw| &raw.auth.certificates, message.to_owned()));
        }
        let of_group =
            |message: &str| Err(self.conflict("auth.unix.group", |raw| &raw.auth.unix.group, message.to_owned()));
        match (&auth.unix, &listen.unix, listen.tcp) {
            (Some(_), None, _) => return of_group("there is no socket for it: listen.unix is none"),
            (Some(_), Some(_), Some(_)) if !auth.has_credentials() => {
                return of_group(
                    "its members would be asked who they are, but nobody could say so over TCP: set listen.tcp to \
                     none, or auth.tokens_file, auth.jwt or auth.certificates",
                );
            }
            (Some(_) | None, _, _) => {}
        }
        let Some(address) = listen.tcp.filter(|_| !listen.is_local()) else {
            return Ok(());
        };
        let encrypted = listen.tls.is_some() || listen.insecure;
        let missing = match (encrypted, auth.has_credentials()) {
            (true, true) => return Ok(()),
            (false, true) => {
                "the line is not encrypted: set listen.tls.certificate and listen.tls.key, or listen.insecure \
                 (--insecure) if something in front of the service encrypts"
            }
            (true, false) => "nobody would be asked who they are: set auth.tokens_file, auth.jwt or auth.certificates",
            (false, false) => {
                "there is neither TLS nor authentication: set listen.tls.certificate and listen.tls.key (or \
                 listen.insecure, --insecure, if something in front of the service encrypts), and auth.tokens_file, \
                 auth.jwt or auth.certificates"
            }
        };
        let message = format!(
            "other machines can reach {address}, and {missing}; or listen on a loopback address such as {DEFAULT_TCP}"
        );
        Err(self.conflict("listen.tcp", |raw| &raw.listen.tcp, message))
    }

    /// Picks whose replies count.
    pub(super) fn approval(&mut self, auth: &AuthConfig) -> Result<(Option<bool>, Vec<String>), ConfigError> {
        let self_approval = self.value(
            "permission.self_approval",
            |raw| &raw.permission.self_approval,
            |value, _| Ok(Some(*value)),
            || None,
            |value| match (value, auth.is_configured()) {
                (Some(value), _) => value.to_string(),
                (None, true) => "owner only".to_owned(),
                (None, false) => "true".to_owned(),
            },
        )?;
        let second_approver = self.value(
            "permission.second_approver",
            |raw| &raw.permission.second_approver,
            |list, _| match list.iter().any(String::is_empty) {
                true => Err("expected names of permissions, found an empty one".to_owned()),
                false => Ok(list.clone()),
            },
            Vec::new,
            |list| match list.is_empty() {
                true => MISSING.to_owned(),
                false => list.join(","),
            },
        )?;
        if auth.is_configured() {
            return Ok((self_approval, second_approver));
        }
        let alone = "needs authentication: without it everybody counts as the same one";
        if self_approval == Some(false) {
            let message = format!("false {alone}, and nobody could answer a prompt");
            return Err(self.conflict("permission.self_approval", |raw| &raw.permission.self_approval, message));
        }
        if !second_approver.is_empty() {
            let message = format!("{alone}, and there is no second one");
            return Err(self.conflict(
                "permission.second_approver",
                |raw| &raw.permission.second_approver,
                message,
            ));
        }
        Ok((self_approval, second_approver))
    }

    fn file(&mut self, key: &str, get: impl Fn(&RawConfig) -> &Option<String>) -> Result<Option<PathBuf>, ConfigError> {
        let env = self.env;
        self.value(
            key,
            get,
            |text: &String, base: &Path| folder(env, text, base).map(Some),
            || None,
            |path| {
                path.as_ref()
                    .map_or_else(|| MISSING.to_owned(), |path| path.display().to_string())
            },
        )
    }

    fn word(
        &mut self,
        key: &str,
        get: impl Fn(&RawConfig) -> &Option<String>,
        default: Option<&str>,
    ) -> Result<Option<String>, ConfigError> {
        self.value(
            key,
            get,
            |text: &String, _| match text.trim().is_empty() {
                true => Err("expected a text that is not empty".to_owned()),
                false => Ok(Some(text.clone())),
            },
            || default.map(str::to_owned),
            |word| word.clone().unwrap_or_else(|| MISSING.to_owned()),
        )
    }
}

fn certificate(entry: &RawCertificate) -> Result<CertificateConfig, String> {
    if entry.name.trim().is_empty() {
        return Err("expected a name of the principal, found an empty one".to_owned());
    }
    if entry.subject.is_none() && entry.san.is_none() {
        return Err(format!(
            "expected `subject` or `san` for {:?}, found neither",
            entry.name
        ));
    }
    if entry.workspaces.as_ref().is_some_and(Vec::is_empty) {
        return Err(format!(
            "expected at least one workspace for {:?}, or no such key",
            entry.name
        ));
    }
    Ok(CertificateConfig {
        subject: entry.subject.clone(),
        san: entry.san.clone(),
        name: entry.name.clone(),
        scopes: entry.scopes.clone(),
        workspaces: entry.workspaces.clone(),
    })
}
