//! How a worker uses its gateways.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tonic::codegen::http::HeaderValue;
use tonic::transport::{Channel, Endpoint};
use toolgate_model::InstanceId;
use toolgate_store::local::QuotaLimits;
use toolgate_web::{Network, Settings};

/// Reads what says who the worker is, as the value of `authorization`. It may block for a moment, and is asked anew for each request,
/// because what it reads may have been exchanged.
pub type Identity = Arc<dyn Fn() -> std::io::Result<HeaderValue> + Send + Sync>;

/// A gateway that a worker may write through.
#[derive(Clone)]
pub struct Way {
    /// What it is called in the log.
    pub name: String,
    /// The connection to it.
    pub line: Arc<Line>,
    /// Changes when it is to be reached by other certificates, or otherwise in another way.
    pub version: u64,
}

impl Way {
    /// Makes the way to a gateway. Nothing is connected yet.
    pub fn new(name: String, endpoint: Endpoint, version: u64) -> Self {
        let line = Arc::new(Line {
            endpoint,
            channel: Mutex::default(),
        });
        Self { name, line, version }
    }
}

/// The one connection of a worker to a gateway, made when it is first needed: the worker is registered on it and stores through it. A gateway
/// has thousands of workers, and each connection takes more of its memory than all that it knows of a worker.
pub struct Line {
    endpoint: Endpoint,
    /// None until it is needed.
    channel: Mutex<Option<Channel>>,
}

impl Line {
    /// Returns the connection.
    pub fn channel(&self) -> Channel {
        let mut channel = self.channel.lock();
        channel.get_or_insert_with(|| self.endpoint.connect_lazy()).clone()
    }

    /// Has the next request make a connection of its own: on this one nothing comes any more, and the system may take minutes to notice.
    pub fn give_up(&self) {
        *self.channel.lock() = None;
    }
}

/// The gateways as they are now, which may come and go.
pub type Ways = watch::Receiver<Arc<[Way]>>;

/// How a worker uses its gateways.
#[derive(Clone)]
pub struct LedgerOptions {
    /// The gateways, which share one store. The first that answers is used for as long as it does.
    pub gateways: Ways,
    /// Who the worker is; none where gateways know that from its certificate.
    pub identity: Option<Identity>,
    /// This run of the worker.
    pub run: InstanceId,
    /// Where it can be reached, for people.
    pub address: String,
    /// Its workspaces. One that it gets later is taken when it first stores something.
    pub workspaces: Vec<String>,
    /// Its folder: outputs, and contents that a revert needs.
    pub data_dir: PathBuf,
    /// How much of the disk that may take.
    pub limits: QuotaLimits,
    /// After how long without a gateway this run stops what it does; none for the lease that the gateways have.
    pub lease: Option<Duration>,
    /// How long to wait for a workspace that another run has.
    pub patience: Duration,
    /// The way to the bucket that gateways name.
    pub network: Network,
}

/// Twice as long as the usual lease of a run that has died.
const PATIENCE: Duration = Duration::from_secs(60);

impl LedgerOptions {
    /// Makes those of a run with what most have, and with gateways that stay where they are.
    pub fn new(gateways: Vec<Way>, run: InstanceId, data_dir: PathBuf) -> Self {
        Self {
            gateways: watch::Sender::new(gateways.into()).subscribe(),
            identity: None,
            run,
            address: String::new(),
            workspaces: Vec::new(),
            data_dir,
            limits: QuotaLimits::UNLIMITED,
            lease: None,
            patience: PATIENCE,
            network: Network::new(Settings::default()),
        }
    }
}

impl fmt::Debug for LedgerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Neither an identity nor what endpoints know of certificates.
        f.debug_struct("LedgerOptions")
            .field("run", &self.run)
            .field("workspaces", &self.workspaces)
            .finish_non_exhaustive()
    }
}
