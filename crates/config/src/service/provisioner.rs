//! The part `cluster.provisioner` of the configuration: who makes the places of workspaces that clients create at a gateway.
//!
//! *Invariant:* a token goes over an encrypted line, or stays on this machine. What is about another kind than the one that is set is
//! refused.

use std::path::PathBuf;

use super::addresses::is_local;
use super::keys::{ClusterConfig, ProvisionerConfig};
use super::layers::Layers;
use super::values::{ClusterRole, ProvisionerKind};
use crate::error::ConfigError;
use toolgate_web::Url;

/// Where pods reach the API of their cluster.
pub(super) const API: &str = "https://kubernetes.default.svc";

/// Where pods have what says who they are.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Bytes of the longest name of an object in a cluster.
const MAX_OBJECT_BYTES: usize = 253;

const WEBHOOK_KEYS: [&str; 1] = ["url"];
const SANDBOX_KEYS: [&str; 4] = ["namespace", "template", "api", "ca_file"];
const COMMON_KEYS: [&str; 3] = ["on_first_call", "idle_suspend", "token_file"];

fn whole(key: &str) -> String {
    format!("cluster.provisioner.{key}")
}

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

/// Returns the files with secrets.
pub(super) fn private_files(provisioner: &ProvisionerConfig) -> Vec<PathBuf> {
    let file = provisioner.token_file.iter().filter(|_| provisioner.kind.is_some());
    file.cloned().collect()
}

/// Checks that it is a gateway with a database that has one, and that nothing of it is missing.
pub(super) fn check(
    layers: &Layers<'_>,
    cluster: &ClusterConfig,
    provisioner: &ProvisionerConfig,
) -> Result<(), ConfigError> {
    let kind_key = whole("kind");
    let others = WEBHOOK_KEYS.iter().chain(&SANDBOX_KEYS).chain(&COMMON_KEYS);
    let Some(kind) = provisioner.kind else {
        return match others.map(|key| whole(key)).find(|key| layers.has(key)) {
            Some(key) => Err(layers.conflict(
                &key,
                "it is not said who makes workspaces: set cluster.provisioner.kind",
            )),
            None => Ok(()),
        };
    };
    let has_database = match cluster.role {
        ClusterRole::Gateway => cluster.database().is_some(),
        ClusterRole::All | ClusterRole::Worker => false,
    };
    if !has_database {
        let message = "only a gateway with a database keeps track of workspaces that are made: set cluster.role to \"gateway\" and \
                       cluster.store there; on one machine set created_workspaces.directory instead";
        return Err(layers.conflict(&kind_key, message));
    }
    let (foreign, needed, missing): (&[&str], _, _) = match kind {
        ProvisionerKind::Webhook => (&SANDBOX_KEYS, "url", provisioner.url.is_none()),
        ProvisionerKind::AgentSandbox => (&WEBHOOK_KEYS, "template", provisioner.template.is_none()),
    };
    if let Some(key) = foreign.iter().map(|key| whole(key)).find(|key| layers.has(key)) {
        let message = format!(
            "this means nothing with cluster.provisioner.kind = {:?}: leave it out",
            kind.as_str()
        );
        return Err(layers.conflict(&key, &message));
    }
    if missing {
        let message = format!("{:?} needs more: set {}", kind.as_str(), whole(needed));
        return Err(layers.conflict(&kind_key, &message));
    }
    if kind == ProvisionerKind::Webhook && provisioner.token_file.is_none() {
        let message = "the gateway must say who it is: set cluster.provisioner.token_file";
        return Err(layers.conflict(&kind_key, message));
    }
    Ok(())
}
