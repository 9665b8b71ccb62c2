//! Which keys go with which role: `all`, `gateway` with or without a database, `worker`.
//!
//! *Invariant:* what has no meaning in a role is refused with what to do instead, never passed over.

use std::path::PathBuf;

use super::TlsConfig;
use super::keys::{ClusterConfig, ListenConfig, ProvisionerConfig};
use super::layers::Layers;
use super::resolve::AuthConfig;
use super::values::{ClusterRole, PoolUse, ProvisionerKind, StoreAddress, WorkspaceConfig};
use crate::error::ConfigError;

/// What a gateway with a database has.
const STORE_KEYS: [&str; 11] = [
    "cluster.pool",
    "cluster.store",
    "cluster.store_file",
    "cluster.store_ca",
    "cluster.lease",
    "cluster.migrate",
    "cluster.outputs",
    "cluster.outputs_endpoint",
    "cluster.outputs_region",
    "cluster.outputs_path_style",
    "cluster.outputs_keys_file",
];

/// What says more of the bucket of outputs.
const BUCKET_KEYS: [&str; 4] = [
    "cluster.outputs_endpoint",
    "cluster.outputs_region",
    "cluster.outputs_path_style",
    "cluster.outputs_keys_file",
];

impl ClusterConfig {
    /// Returns the database of a gateway.
    pub fn database(&self) -> Option<&StoreAddress> {
        let in_file = self.store_file.as_ref().map(|(_, address)| address);
        self.store.as_ref().or(in_file)
    }
}

/// Checks that a gateway is one, and that what is none has nothing of one.
pub(super) fn check(
    layers: &Layers<'_>,
    cluster: &ClusterConfig,
    auth: &AuthConfig,
    tls: Option<&TlsConfig>,
) -> Result<(), ConfigError> {
    if !auth.gateways.is_empty() && !auth.has_credentials() {
        let message = "nobody could show that it is a gateway: set auth.tokens_file, auth.jwt or auth.certificates";
        return Err(layers.conflict("auth.gateways", message));
    }
    let [certificate, key] = ["cluster.certificate", "cluster.key"];
    let both = "certificate and key go together: set both cluster.certificate and cluster.key";
    layers.requires(certificate, key, both)?;
    layers.requires(key, certificate, both)?;
    match cluster.role {
        ClusterRole::All => return check_worker(layers, cluster),
        ClusterRole::Worker => return check_worker_without_store(layers, cluster),
        ClusterRole::Gateway => {}
    }
    for key in [
        "cluster.gateways",
        "cluster.resolve",
        "cluster.identity",
        "cluster.name",
        "cluster.advertise",
    ] {
        if layers.has(key) {
            let message = "a gateway registers nowhere: this is for the configuration of its workers";
            return Err(layers.conflict(key, message));
        }
    }
    for key in ["workspaces", "workspace_roots", "created_workspaces.directory"] {
        if layers.has(key) {
            let message = "a gateway works in no folder: name the workspaces in the configuration of the workers";
            return Err(layers.conflict(key, message));
        }
    }
    check_rules(layers, auth)?;
    if cluster.workers.is_empty() && !auth.takes_workers() {
        let message = "a gateway needs workers: write a table [cluster.workers.NAME] with the address of each, or name in \
                       auth.workers or auth.workers_file who may register as one";
        return Err(layers.conflict("cluster.role", message));
    }
    if auth.unix.is_some() {
        let message = "a gateway asks everybody for credentials, also on its Unix socket: leave it out";
        return Err(layers.conflict("auth.unix.group", message));
    }
    check_store(layers, cluster, auth)?;
    let by_certificate = || tls.is_some() && !auth.certificates.is_empty();
    if auth.tokens_file.is_none() && auth.jwt.is_none() && !by_certificate() {
        let message = "a gateway must know on whose behalf it calls the workers: set auth.tokens_file, auth.jwt or \
                       auth.certificates";
        return Err(layers.conflict("cluster.role", message));
    }
    Ok(())
}

/// Checks that signed tokens of workers are told from those of people, and that it is said what they are for.
fn check_rules(layers: &Layers<'_>, auth: &AuthConfig) -> Result<(), ConfigError> {
    let Some(tokens) = &auth.worker_jwt else {
        return Ok(());
    };
    if auth.workers_file.is_none() {
        let message = "it is not said what a worker with such a token may have: set auth.workers_file";
        return Err(layers.conflict("cluster.jwt.jwks_file", message));
    }
    let of_people = auth.jwt.as_ref();
    if of_people.is_some_and(|other| other.issuer == tokens.issuer && other.audience == tokens.audience) {
        let message = "issuer and audience are those of auth.jwt, so a worker's token would be a person's: give workers an \
                       audience of their own";
        return Err(layers.conflict("cluster.jwt.audience", message));
    }
    Ok(())
}

/// Checks the database of a gateway.
fn check_store(layers: &Layers<'_>, cluster: &ClusterConfig, auth: &AuthConfig) -> Result<(), ConfigError> {
    if layers.has("cluster.store") && layers.has("cluster.store_file") {
        let message = "the database is named twice: leave out cluster.store or cluster.store_file";
        return Err(layers.conflict("cluster.store_file", message));
    }
    let Some(store) = cluster.database() else {
        for key in STORE_KEYS {
            if layers.has(key) {
                let message = "this is for a gateway with a database: set cluster.store or cluster.store_file";
                return Err(layers.conflict(key, message));
            }
        }
        return Ok(());
    };
    let key = match cluster.store {
        Some(_) => "cluster.store",
        None => "cluster.store_file",
    };
    if !auth.takes_workers() {
        let message = "workers of a gateway with a database register themselves: name in auth.workers or auth.workers_file who may";
        return Err(layers.conflict(key, message));
    }
    if !cluster.workers.is_empty() {
        let message = "workers of a gateway with a database register themselves, and keep nothing: leave the table out, set \
                       cluster.role to \"worker\" in the configuration of the worker, and name it in auth.workers";
        return Err(layers.conflict("cluster.workers", message));
    }
    for key in BUCKET_KEYS {
        let message = "this is about a bucket: set cluster.outputs to s3://BUCKET/PREFIX";
        layers.requires(key, "cluster.outputs", message)?;
    }
    let modes = ["disable", "prefer", "require", "verify-ca", "verify-full"];
    if store.tls_mode().is_some_and(|mode| !modes.contains(&mode)) {
        let message = format!("sslmode is none of {}", modes.join(", "));
        return Err(layers.conflict(key, &message));
    }
    Ok(())
}

/// Checks the listener for workers.
pub(super) fn check_listener(
    layers: &Layers<'_>,
    cluster: &ClusterConfig,
    listen: &ListenConfig,
    tls: Option<&TlsConfig>,
) -> Result<(), ConfigError> {
    let key = "cluster.listen";
    for of_tls in ["certificate", "key", "client_ca"].map(|key| format!("cluster.tls.{key}")) {
        layers.requires(
            &of_tls,
            key,
            "this is for a listener for workers alone: set cluster.listen",
        )?;
    }
    let Some(address) = cluster.listen else {
        return Ok(());
    };
    match cluster.role {
        ClusterRole::Gateway => {}
        ClusterRole::All | ClusterRole::Worker => {
            return Err(layers.conflict(key, "only a gateway has workers: set cluster.role to \"gateway\""));
        }
    }
    if address.ip().to_canonical().is_loopback() || tls.is_some() || listen.insecure {
        return Ok(());
    }
    let message = format!(
        "other machines can reach {address}, and the line is not encrypted: set cluster.tls.certificate and cluster.tls.key, or \
         listen.tls, or listen.insecure if something in between encrypts"
    );
    Err(layers.conflict(key, message))
}

/// Checks a worker that waits for a workspace: it has one folder, and that has no name yet.
pub(super) fn check_unbound(
    layers: &Layers<'_>,
    role: ClusterRole,
    unbound: Option<&WorkspaceConfig>,
    others: usize,
) -> Result<(), ConfigError> {
    let Some(unbound) = unbound else {
        return Ok(());
    };
    let wrong = |message: &str| Err(layers.conflict("workspaces", message));
    match role {
        ClusterRole::Worker => {}
        ClusterRole::All | ClusterRole::Gateway => {
            return wrong(
                "a workspace without a name is for a worker that gateways with a database give one: set cluster.role to \
                          \"worker\", or write a name",
            );
        }
    }
    let has_more = ["workspace_roots", "created_workspaces.directory"]
        .iter()
        .any(|key| layers.has(key));
    if others > 0 || has_more {
        return wrong(
            "a worker that waits for a workspace has one folder: write one entry without a name, and neither workspace_roots nor \
             created_workspaces.directory",
        );
    }
    if unbound.self_approval.is_some() {
        return wrong(
            "self_approval of a workspace without a name would be for whatever it becomes: set permission.self_approval",
        );
    }
    Ok(())
}

/// Checks what runs calls and has no store: it can register, and says nothing of what it does not keep.
fn check_worker_without_store(layers: &Layers<'_>, cluster: &ClusterConfig) -> Result<(), ConfigError> {
    if cluster.gateways.is_empty() {
        let message =
            "a worker keeps nothing and needs gateways that do: set cluster.gateways, or cluster.role to \"all\"";
        return Err(layers.conflict("cluster.role", message));
    }
    for key in ["state.durability", "audit.key_file", "audit.retention"] {
        if layers.has(key) {
            let message = "a worker keeps nothing: this is for the configuration of the gateways";
            return Err(layers.conflict(key, message));
        }
    }
    check_worker(layers, cluster)
}

/// Checks that what runs calls has nothing of a gateway, and that it can register if it is to.
fn check_worker(layers: &Layers<'_>, cluster: &ClusterConfig) -> Result<(), ConfigError> {
    for key in STORE_KEYS {
        if layers.has(key) {
            let message = "only a gateway has a database: set cluster.role to \"gateway\" there, and to \"worker\" where calls \
                           run. What keeps its records itself (cluster.role = \"all\") needs none";
            return Err(layers.conflict(key, message));
        }
    }
    for key in [
        "cluster.workers",
        "auth.workers",
        "auth.workers_file",
        "cluster.reach",
        "cluster.jwt.jwks_file",
    ] {
        if layers.has(key) {
            return Err(layers.conflict(key, "only a gateway has workers: set cluster.role to \"gateway\""));
        }
    }
    if layers.has("tenants") {
        return Err(layers.conflict("tenants", "only a gateway has tenants: set cluster.role to \"gateway\""));
    }
    if cluster.gateways.is_empty() {
        for key in ["identity", "name", "advertise", "ca", "certificate", "resolve"].map(|key| format!("cluster.{key}"))
        {
            if layers.has(&key) {
                let message = "this is for a worker that registers itself: set cluster.gateways to the gateways";
                return Err(layers.conflict(&key, message));
            }
        }
        return Ok(());
    }
    if cluster.identity.is_none() && cluster.certificate.is_none() {
        let message = "the worker must say who it is: set cluster.identity, or cluster.certificate and cluster.key";
        return Err(layers.conflict("cluster.gateways", message));
    }
    if cluster.advertise.is_none() {
        let message = "it is not said where gateways reach this worker: set cluster.advertise";
        return Err(layers.conflict("cluster.gateways", message));
    }
    let is_encrypted = |gateway: &String| gateway.starts_with("https://");
    if cluster.identity.is_none() && !cluster.gateways.iter().all(is_encrypted) {
        let message =
            "a certificate says who the worker is at gateways with https:// only: set cluster.identity as well";
        return Err(layers.conflict("cluster.gateways", message));
    }
    Ok(())
}

/// What is about one kind of those who make workspaces, or the other, or both.
const WEBHOOK_KEYS: [&str; 1] = ["url"];
const SANDBOX_KEYS: [&str; 3] = ["namespace", "template", "api"];
const COMMON_KEYS: [&str; 4] = ["on_first_call", "idle_suspend", "token_file", "ca_file"];

fn whole(key: &str) -> String {
    format!("cluster.provisioner.{key}")
}

/// Returns the files with secrets of who makes workspaces.
pub(super) fn files_of(provisioner: &ProvisionerConfig) -> Vec<PathBuf> {
    let file = provisioner.token_file.iter().filter(|_| provisioner.kind.is_some());
    file.cloned().collect()
}

/// Checks that it is a gateway with a database that has one, and that nothing of it is missing.
pub(super) fn check_provisioner(
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
    match cluster.pool {
        PoolUse::Off => {}
        PoolUse::FirstCall => {
            let message = "workers that wait would be taken twice, by first calls and for workspaces that are made: leave it out, and set \
                           cluster.provisioner.on_first_call if first calls are to make workspaces";
            return Err(layers.conflict("cluster.pool", message));
        }
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
