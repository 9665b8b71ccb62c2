//! The database of a gateway: how it is reached, opened, checked and brought up to date.
//!
//! *Invariant:* only a gateway, or a command for its operator, comes here; the address is never shown whole.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore, crypto};
use tokio::time::{Instant, sleep};
use toolgate_config::Config;
use toolgate_config::service::{MigrateWhen, StoreAddress};
use toolgate_model::InstanceId;
use toolgate_model::audit_key::Key;
use toolgate_postgres::{Bucket, BucketKeys, BucketOptions, PostgresOptions, PostgresStore};
pub use toolgate_postgres::{Imported, SchemaState};
use toolgate_server::app::outgoing;
use toolgate_store::StoreError;
use toolgate_store::audit::Recorder;
use toolgate_store::local::export::Export;

/// How long a gateway that starts waits for its database.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often it is said that it waits.
const TOLD: Duration = Duration::from_secs(10);

/// How long to wait before it is tried again.
const PAUSE: Duration = Duration::from_secs(1);

/// Opens the database of a gateway for one run of it; waits for it if it is away.
pub(crate) async fn open(config: &Config, instance: &InstanceId) -> anyhow::Result<Option<Arc<PostgresStore>>> {
    let Some(address) = config.cluster.database() else {
        return Ok(None);
    };
    let (begun, mut told) = (Instant::now(), None);
    loop {
        let error = match attempt(config, instance).await {
            Ok(store) => return Ok(Some(Arc::new(store))),
            Err(error) => error,
        };
        if !may_come(&error) || begun.elapsed() > PATIENCE {
            let text = format!("cannot use the database {} ({})", address.shown(), key(config));
            return Err(with_remedy(error).context(text));
        }
        if told.is_none_or(|told: Instant| told.elapsed() > TOLD) {
            tracing::warn!(
                error = format!("{:#}", with_remedy(error)),
                database = address.shown(),
                "waiting for the database, for up to {} s",
                PATIENCE.as_secs()
            );
            told = Some(Instant::now());
        }
        sleep(PAUSE).await;
    }
}

/// Returns the key that names the database.
fn key(config: &Config) -> &'static str {
    match config.cluster.store {
        Some(_) => "cluster.store",
        None => "cluster.store_file",
    }
}

/// Says behind an error of the database what an operator can do about it.
fn with_remedy(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref().and_then(toolgate_postgres::remedy) {
        Some(remedy) => anyhow::anyhow!("{error:#}. What to do: {remedy}"),
        None => error,
    }
}

/// As [`with_remedy`], of what a command has done.
fn done<T>(outcome: Result<T, StoreError>) -> anyhow::Result<T> {
    outcome.map_err(|error| with_remedy(error.into()))
}

/// Says whether it is worth while to wait: the database does not answer, or has not begun to.
fn may_come(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(StoreError::Unavailable(_)))
}

async fn attempt(config: &Config, instance: &InstanceId) -> anyhow::Result<PostgresStore> {
    if config.cluster.migrate == MigrateWhen::Start {
        toolgate_postgres::migrate(&options(config)?).await?;
    }
    if let SchemaState::Older { version } = toolgate_postgres::check(&options(config)?).await? {
        let found = match version {
            0 => "it has no tables yet".to_owned(),
            _ => format!("its tables are of version {version}, and this gateway needs newer ones"),
        };
        anyhow::bail!("{found}: run `toolgate store migrate`, or set cluster.migrate to \"start\"");
    }
    Ok(PostgresStore::open(options(config)?, instance.clone()).await?)
}

/// Brings the tables of the database up to date; says what they were and are.
///
/// # Errors
/// There is no database in the configuration, or it cannot be used.
pub async fn migrate(config: &Config) -> anyhow::Result<SchemaState> {
    done(toolgate_postgres::migrate(&options(config)?).await)
}

/// Says what the tables of the database are.
///
/// # Errors
/// There is no database in the configuration, or it cannot be used.
pub async fn check(config: &Config) -> anyhow::Result<SchemaState> {
    done(toolgate_postgres::check(&options(config)?).await)
}

/// Opens the database as a gateway does, and gives it up again: all that a gateway needs is there then.
///
/// # Errors
/// Something is not; the text says what.
pub async fn try_out(config: &Config) -> anyhow::Result<()> {
    let instance = InstanceId::generate();
    let store = done(PostgresStore::open(options(config)?, instance).await)?;
    done(toolgate_store::Upkeep::check(&store).await)?;
    done(toolgate_store::Upkeep::close(&store).await)
}

/// Brings all that a data directory has into the database, which must be empty; earlier keys of the audit help to verify it.
///
/// # Errors
/// The database is not empty, is used, or cannot be used; the audit cannot go on there. It is as it was then.
pub async fn import(config: &Config, export: &mut Export, keys: Vec<Key>) -> anyhow::Result<Imported> {
    done(toolgate_postgres::import(&options(config)?, export, keys).await)
}

/// Says what [`import`] would bring. Changes nothing.
///
/// # Errors
/// As [`import`], as far as that can be told before.
pub async fn look(config: &Config, export: &mut Export) -> anyhow::Result<Imported> {
    done(toolgate_postgres::look(&options(config)?, export).await)
}

fn options(config: &Config) -> anyhow::Result<PostgresOptions> {
    let address = config.cluster.database().context(
        "the configuration names no database: set cluster.store, or cluster.store_file, in the configuration of the gateway",
    )?;
    let tls = is_encrypted(address).then(|| tls(config)).transpose();
    Ok(PostgresOptions {
        tls: tls.context("cluster.store_ca")?,
        lease: config.cluster.lease,
        agreed: agreed(config),
        recorder: Recorder {
            key: config.audit.key().cloned(),
            redactor: config.redact.0.clone(),
        },
        bucket: bucket(config)?,
        ..PostgresOptions::new(address.reveal())
    })
}

/// Returns what all gateways of a fleet should have the same, by the keys: what a gateway does with it, it does to all.
fn agreed(config: &Config) -> BTreeMap<String, String> {
    let seconds = |time: Duration| format!("{} s", time.as_secs_f64());
    let outputs = config.cluster.outputs.clone();
    let agreed = [
        ("cluster.lease", seconds(config.cluster.lease)),
        ("cluster.outputs", outputs.unwrap_or_else(|| "none".to_owned())),
        ("audit.key_file", config.audit.key().map_or("none", Key::id).to_owned()),
        (
            "permission.self_approval",
            config
                .permission
                .self_approval
                .map_or("not set".to_owned(), |may| may.to_string()),
        ),
        (
            "permission.second_approver",
            config.permission.second_approver.join(", "),
        ),
        ("retention.calls", seconds(config.retention.calls)),
        ("retention.outputs", seconds(config.retention.outputs)),
        ("retention.journal", seconds(config.retention.journal)),
        ("auth.workers", config.auth.workers.join(", ")),
        (
            "cluster.provisioner.kind",
            config.provisioner.kind.map_or("none", |kind| kind.as_str()).to_owned(),
        ),
        (
            "cluster.provisioner.on_first_call",
            config.provisioner.on_first_call.to_string(),
        ),
        (
            "cluster.provisioner.idle_suspend",
            seconds(config.provisioner.idle_suspend),
        ),
        (
            "cluster.jwt.issuer",
            config
                .auth
                .worker_jwt
                .as_ref()
                .map_or("none", |jwt| &jwt.issuer)
                .to_owned(),
        ),
    ];
    agreed.map(|(name, value)| (name.to_owned(), value)).into()
}

/// Returns the bucket of outputs, if there is one. It is not asked for anything: a gateway starts without it.
fn bucket(config: &Config) -> anyhow::Result<Option<Bucket>> {
    let cluster = &config.cluster;
    let Some(address) = &cluster.outputs else {
        return Ok(None);
    };
    let options = BucketOptions::of_address(address).context("cluster.outputs names no bucket")?;
    let keys = cluster.outputs_keys_file.as_ref().map(|(_, keys)| BucketKeys {
        id: keys.id.clone(),
        secret: keys.secret.clone(),
    });
    let bucket = Bucket::new(BucketOptions {
        region: cluster.outputs_region.clone().unwrap_or_default(),
        endpoint: cluster.outputs_endpoint.clone().unwrap_or_default(),
        path_style: cluster.outputs_path_style,
        keys,
        ..options
    });
    Ok(Some(bucket.context("cluster.outputs")?))
}

/// Says whether the line to a database is encrypted: on this machine only if that is asked for, elsewhere unless it is not wanted.
fn is_encrypted(address: &StoreAddress) -> bool {
    match address.tls_mode() {
        Some("disable") => false,
        None | Some("prefer") => !address.is_local(),
        Some(_) => true,
    }
}

fn tls(config: &Config) -> anyhow::Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    let pem = outgoing::authorities(config.cluster.store_ca.as_deref())?;
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        roots.add(certificate.context("a certificate cannot be read")?)?;
    }
    let provider = Arc::new(crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}
