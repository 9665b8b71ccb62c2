//! The part `cluster.provisioner` of the configuration: who makes the places of workspaces that clients create at a gateway.
//!
//! *Invariant:* a token goes over an encrypted line, or stays on this machine. Which keys go together is for `roles`.

use std::path::PathBuf;

use toolgate_web::Url;

use super::addresses::is_local;
use super::values::ProvisionerKind;

/// Where pods reach the API of their cluster.
pub(super) const API: &str = "https://kubernetes.default.svc";

/// Where pods have what says who they are.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Bytes of the longest name of an object in a cluster.
const MAX_OBJECT_BYTES: usize = 253;

/// Returns a file of the service account, where that is what is used.
pub(super) fn file_of_pod(kind: Option<ProvisionerKind>, name: &str) -> Option<PathBuf> {
    match kind? {
        ProvisionerKind::AgentSandbox => Some(PathBuf::from(SERVICE_ACCOUNT).join(name)),
        ProvisionerKind::Webhook => None,
    }
}

/// Reads where somebody is asked.
pub(super) fn url(text: &str) -> Result<String, String> {
    let url = Url::parse(text).ok().filter(Url::has_host);
    let is_plain = url.is_some_and(|url| {
        let has_login = !url.username().is_empty() || url.password().is_some();
        matches!(url.scheme(), "http" | "https") && !has_login && url.fragment().is_none()
    });
    if !is_plain {
        return Err(
            "expected an address such as https://machines.example/toolgate, without a user name and a password"
                .to_owned(),
        );
    }
    if !text.starts_with("https://") && !is_local(text) {
        return Err("the line to this address is not encrypted, and a token is sent there: write https://".to_owned());
    }
    Ok(text.to_owned())
}

/// Reads the name of an object in a cluster.
pub(super) fn object(name: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    match (1..=MAX_OBJECT_BYTES).contains(&name.len()) && name.chars().all(is_plain) {
        true => Ok(name.to_owned()),
        false => Err(format!(
            "expected the name of an object of Kubernetes, of small letters, digits, '-' and '.', found {name:?}"
        )),
    }
}
