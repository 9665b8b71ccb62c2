//! One run's view of a database: what the parts of the store are, how it is opened, and the tasks that work for it.
//!
//! *Invariant:* the tasks end with the store, the last notes stored; who closes it waits for that.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolgate_model::InstanceId;
use toolgate_store::codec::failed;
use toolgate_store::outage::{self, Outage};
use toolgate_store::output::Names;
use toolgate_store::{StoreError, Upkeep};

use crate::agreement;
use crate::bucket_objects::Objects;
use crate::connection::Database;
use crate::doubts::Unsure;
use crate::instances::Instances;
use crate::listening::Listener;
use crate::notes::{Notes, Room};
use crate::options::PostgresOptions;
use crate::partitions::Days;
use crate::schema::{self, SchemaState};
use crate::sequencer::{Sequencer, Turn};
use crate::values::values;

/// How long what others have left in the outbox, or have added to the journal, may go unseen: while somebody listens to the
/// journal, and else.
const LISTENING_INTERVAL: Duration = Duration::from_millis(100);
const IDLE_INTERVAL: Duration = Duration::from_millis(500);

/// How long what is told waits for more of it: a batch costs one commit, however much is in it.
const GATHERING: Duration = Duration::from_millis(5);

/// How long to leave a failing database alone.
const RETRY_DELAY: Duration = Duration::from_millis(200);

/// How long to wait at most until a lease that was not renewed is renewed.
const RENEWAL_DELAY: Duration = Duration::from_secs(1);

/// How often it is looked who is dead, while others write through this process.
const LOOKING_INTERVAL: Duration = Duration::from_secs(1);

/// One renewal may take such a part of the lease: then there is time for others before it is over.
const TRIES_PER_LEASE: u32 = 6;

/// How often partitions are made ahead.
const AHEAD_INTERVAL: Duration = Duration::from_secs(3_600);

/// The store on PostgreSQL: one run's view of a database that other runs share.
///
/// Dropping it stores what is queued and ends this run a moment later; [`Upkeep::close`] waits for that. It works on the
/// runtime that it was opened in.
pub struct PostgresStore {
    pub(crate) shared: Arc<Shared>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

/// What the store and its tasks work with.
pub(crate) struct Shared {
    pub(crate) db: Database,
    /// For renewals of the lease: they must not wait behind what the service is busy with.
    renewals: Database,
    pub(crate) days: Days,
    pub(crate) instances: Instances,
    pub(crate) notes: Notes,
    pub(crate) room: Room,
    pub(crate) sequencer: Sequencer,
    pub(crate) names: Names,
    pub(crate) unsure: Unsure,
    /// Notified when another process may have changed prompts or grants; none if nobody says so.
    pub(crate) changed: Option<Arc<Notify>>,
    /// The same of created workspaces, or of prompts.
    pub(crate) created: Option<Arc<Notify>>,
    /// As [`PostgresOptions::clock_difference`].
    pub(crate) clock_difference: Duration,
    /// What the bucket has, if there is one.
    pub(crate) objects: Option<Objects>,
    /// Why the end of the tasks was not clean.
    failure: Mutex<Option<StoreError>>,
}

impl Shared {
    /// Returns when everything is stored that was noted before.
    pub(crate) async fn flush(&self) -> Result<(), StoreError> {
        self.notes.flush(&self.db, &self.instances).await
    }

    /// Says that a change has left something in the outbox.
    pub(crate) fn told(&self) {
        self.notes.wake.notify_one();
    }

    /// Has all sequenced that has been told.
    pub(crate) async fn catch_up(&self) -> Result<(), StoreError> {
        self.flush().await?;
        self.sequencer.catch_up(&self.db).await
    }

    /// Stores notes and sequences what there is; says whether somebody else is at it.
    async fn work(&self, stop: &CancellationToken) -> Result<bool, StoreError> {
        self.flush().await?;
        // By its number: of the rows that were in it and are gone, many are still there to be passed over.
        let sql = "SELECT journal, (SELECT number FROM outbox ORDER BY number LIMIT 1) IS NOT NULL FROM ends";
        let Some(row) = self
            .db
            .row("look whether there is anything to tell", sql, values![])
            .await?
        else {
            return Ok(false);
        };
        self.sequencer.reached(toolgate_store::codec::unsigned(row.get(0)));
        if !row.get::<_, bool>(1) {
            return Ok(false);
        }
        loop {
            match self.sequencer.turn(&self.db).await? {
                // Others do the rest, or the next run.
                Turn::Some(_) if stop.is_cancelled() => return Ok(false),
                Turn::Some(_) => {}
                Turn::Done => return Ok(false),
                Turn::Taken => return Ok(true),
            }
        }
    }

    async fn tell(&self, stop: CancellationToken) {
        let (mut has_failed, mut pause) = (false, Duration::ZERO);
        while !stop.is_cancelled() {
            let interval = match self.sequencer.has_listeners() {
                true => LISTENING_INTERVAL,
                false => IDLE_INTERVAL,
            };
            tokio::select! {
                () = stop.cancelled() => break,
                () = self.notes.wake.notified() => sleep(GATHERING).await,
                () = sleep(interval.max(pause)) => {}
            }
            match self.work(&stop).await {
                Ok(is_taken) => {
                    (has_failed, pause) = (false, Duration::ZERO);
                    if is_taken {
                        // Whoever is at it may not have seen the newest.
                        sleep(GATHERING).await;
                        self.told();
                    }
                }
                Err(error) => {
                    if !std::mem::replace(&mut has_failed, true) {
                        outage::tell(&error, "what happens cannot be told of");
                    }
                    pause = RETRY_DELAY;
                    sleep(pause).await;
                }
            }
        }
    }

    async fn keep(&self, lease: Duration, stop: CancellationToken) {
        let (mut ahead, mut renewal) = (Instant::now() + AHEAD_INTERVAL, Instant::now() + lease / 3);
        let (mut is_blind, outage) = (false, Outage::default());
        loop {
            let pause = match self.instances.serves() {
                true => LOOKING_INTERVAL.min(lease / 3),
                false => lease / 3,
            };
            let until = renewal.min(Instant::now() + pause);
            tokio::select! {
                () = stop.cancelled() => return,
                () = sleep_until(until) => {}
            }
            if Instant::now() < renewal {
                let looked = self.instances.look(&self.renewals).await;
                if let Err(error) = &looked
                    && !is_blind
                {
                    outage::tell(error, "it is not known which runs live");
                }
                is_blind = looked.is_err();
                continue;
            }
            if let Err(error) = self.instances.renew(&self.renewals).await {
                renewal = Instant::now() + RENEWAL_DELAY.min(lease / TRIES_PER_LEASE);
                if outage.fails().is_some() {
                    outage::tell(&error, "the lease of this run is not renewed");
                }
                continue;
            }
            let _ = outage.is_over();
            renewal = Instant::now() + lease / 3;
            if Instant::now() < ahead {
                continue;
            }
            match self.days.make_ahead(&self.db).await {
                Ok(()) => ahead = Instant::now() + AHEAD_INTERVAL,
                Err(error) => {
                    tracing::warn!(error = &error as &dyn std::error::Error, "no partitions are made ahead");
                }
            }
        }
    }

    /// Moves parts of outputs to the bucket.
    async fn move_parts(&self, stop: CancellationToken) {
        if let Some(objects) = &self.objects {
            objects.work(&self.db, stop).await;
        }
    }

    /// Stores the last notes and gives up the place of this run.
    async fn end(&self) {
        self.notes.close();
        let ended = match self.flush().await {
            Ok(()) => self.instances.leave(&self.db).await,
            Err(error) => Err(error),
        };
        self.notes.give_up();
        self.db.close();
        self.renewals.close();
        if let Err(error) = ended {
            *self.failure.lock() = Some(error);
        }
    }
}

/// Makes sure that what is committed is not lost when the server is: a database can be told not to wait for its disk.
async fn is_durable(db: &Database) -> Result<(), StoreError> {
    let what = "open the database";
    let sql = "SELECT current_setting('synchronous_commit')";
    match db.row(what, sql, values![]).await? {
        Some(row) if row.get::<_, &str>(0) == "off" => Err(failed(
            what,
            "its synchronous_commit is off: what was answered would be lost in a crash",
        )),
        _ => Ok(()),
    }
}

impl PostgresStore {
    /// Opens a database for one run of the service. Its tables must be there: see [`crate::migrate`].
    ///
    /// # Errors
    /// The database cannot be reached, its tables are of an earlier version, or it does not wait for its disk; the audit has been kept with a key, and there is
    /// none; an instance of the same id is running.
    pub async fn open(options: PostgresOptions, instance: InstanceId) -> Result<Self, StoreError> {
        let db = Database::new(&options)?;
        let renewals = Database::with(&options, 1, options.time_limit.min(options.lease / TRIES_PER_LEASE))?;
        is_durable(&db).await?;
        if let SchemaState::Older { version } = schema::state(&db).await? {
            return Err(failed(
                "open the database",
                format!(
                    "its tables are of version {version}, an earlier one than this service needs: they must be migrated"
                ),
            ));
        }
        let listener = options.notifies.then(|| Listener::new(&options)).transpose()?;
        let sequencer = Sequencer::new(&db, options.recorder, &instance).await?;
        let instances = Instances::register(&db, &instance, options.lease).await?;
        for (key, here, there) in agreement::compare(&db, &instances.id, &options.agreed).await? {
            tracing::warn!(
                key,
                here,
                there,
                "another gateway of this database has something else in its configuration: give all the same, unless they are just \
                 being changed one after another"
            );
        }
        let days = Days::default();
        days.make_ahead(&db).await?;
        let objects = match options.bucket {
            Some(bucket) => Some(Objects::new(bucket, &db).await?),
            None => None,
        };
        let shared = Arc::new(Shared {
            db,
            renewals,
            days,
            instances,
            notes: Notes::default(),
            room: Room::default(),
            sequencer,
            names: Names::default(),
            unsure: Unsure::default(),
            changed: listener.as_ref().map(Listener::changed),
            created: listener.as_ref().map(Listener::created),
            clock_difference: options.clock_difference,
            objects,
            failure: Mutex::default(),
        });
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        let lease = options.lease;
        let (of_task, until) = (Arc::clone(&shared), stop.clone());
        tasks.spawn(async move {
            let listen = async {
                if let Some(listener) = listener {
                    listener.listen(&until).await;
                }
            };
            tokio::join!(
                of_task.tell(until.clone()),
                of_task.keep(lease, until.clone()),
                of_task.move_parts(until.clone()),
                listen
            );
            of_task.end().await;
        });
        tasks.close();
        Ok(Self { shared, tasks, stop })
    }
}

impl PostgresStore {
    /// Looks through the bucket for objects that no row tells of and that were put before `age` ago, and deletes them with all that may
    /// be deleted. The store does so by itself now and then; it returns how many objects went.
    ///
    /// # Errors
    /// `Unavailable` if the bucket is away.
    pub async fn sweep_bucket(&self, age: Duration) -> Result<usize, StoreError> {
        let Some(objects) = &self.shared.objects else {
            return Ok(0);
        };
        objects.find_strays(&self.shared.db, age).await?;
        objects.delete_due(&self.shared.db).await
    }
}

#[async_trait]
impl Upkeep for PostgresStore {
    fn prepare_workspace(&self, _: &str) -> Result<(), StoreError> {
        // Outputs have no folders here.
        Ok(())
    }

    async fn check(&self) -> Result<(), StoreError> {
        self.shared.instances.renew(&self.shared.db).await
    }

    async fn free_bytes(&self) -> Option<u64> {
        // The database's disk is another machine's; when it is full, changes are refused as `Full`.
        None
    }

    async fn untold(&self) -> Result<u64, StoreError> {
        let sql = "SELECT count(*) FROM outbox_aside";
        let row = self.shared.db.row("count what was not told", sql, values![]).await?;
        Ok(row.map_or(0, |row| toolgate_store::codec::unsigned(row.get(0))))
    }

    fn has_dead_runs(&self) -> bool {
        self.shared.instances.has_dead()
    }

    fn forget_dead_runs(&self) -> Result<(), StoreError> {
        self.shared.instances.forget_dead();
        Ok(())
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.stop.cancel();
        self.tasks.wait().await;
        self.shared.failure.lock().take().map_or(Ok(()), Err)
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
