//! Which runs of the service live: each has a row with a lease, by the clock of the database.
//!
//! *Invariant:* a run without a row is dead. One whose lease is over counts as dead only to those who have seen that same lease for
//! as long as one lasts, by a clock of their own and while they reached the database: when it was away nobody could renew, and
//! when its clock was put forward all leases were over at once.
//!
//! One whose lease was seen unchanged for two leases is dead, whatever that clock says: it was put back.
//!
//! *Invariant:* a run that is doubted, because its connection broke, is dead once its lease is over, which is a moment after that. Of a
//! doubt from before the database was last away nothing is known to have come of it: then it takes a lease as well.
//!
//! *Invariant:* a run is forgotten when no unfinished call is left of it, but for those that wait for the next holder of their
//! workspace, and its row stays for a day even then: should it come back, it says how many of its notes are stored. Until it does it is
//! dead to everybody, and is not looked at: of ten thousand workers most do nothing.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use toolgate_model::InstanceId;
use toolgate_store::StoreError;
use toolgate_store::codec::failed;

use crate::connection::Database;
use crate::text::key;
use crate::values::values;

/// What was seen so short a time ago is as good as what would be seen now.
const RECENT: Duration = Duration::from_millis(250);

/// This run, and what it knows of others.
pub(crate) struct Instances {
    /// How statements name this run.
    pub(crate) id: String,
    lease: Duration,
    seen: Mutex<Seen>,
    /// When it was last looked. Held by who looks, so that nobody puts what it saw before in the place of what another one has
    /// seen since.
    looking: tokio::sync::Mutex<Option<Instant>>,
    /// The runs that count as dead here, each with how statements name it: by its id if it is dead once its lease is over, and as
    /// [`outlasted`] has it if it is dead with that lease, whatever the clock says.
    silent: Mutex<HashMap<String, Vec<String>>>,
    has_dead: AtomicBool,
    /// Dead runs are to be forgotten at the next renewal.
    forgets: AtomicBool,
    /// Others write through this process, so that somebody waits for the end of what the dead leave.
    serves: AtomicBool,
    /// Workspaces of dead runs in which something cannot be ended, which was told of in the log.
    told: Mutex<HashSet<String>>,
    /// Workspaces that were taken here from runs that were not heard of.
    expired: AtomicU64,
}

/// What was seen of leases since the database was last away.
#[derive(Default)]
struct Seen {
    /// The leases of all runs, and since when each is the same.
    leases: HashMap<String, (String, Instant)>,
    /// Since when the database has been there.
    since: Option<Instant>,
}

impl Seen {
    /// Says whether a run is dead whose lease is over and has been the same since a moment.
    fn is_silent(&self, now: Instant, since: Instant, is_doubted: bool, lease: Duration) -> bool {
        let was_seen_to_come = self.since.is_some_and(|there| since > there);
        now - since >= lease || is_doubted && was_seen_to_come
    }
}

impl Instances {
    /// Takes note that workspaces were taken from runs that were not heard of.
    pub(crate) fn count_expired(&self, workspaces: u64) {
        self.expired.fetch_add(workspaces, Ordering::Relaxed);
    }

    /// Returns how many these were.
    pub(crate) fn expired(&self) -> u64 {
        self.expired.load(Ordering::Relaxed)
    }

    /// Takes the row of this run.
    pub(crate) async fn register(db: &Database, instance: &InstanceId, lease: Duration) -> Result<Self, StoreError> {
        let this = Self {
            id: key(instance.as_str()),
            lease,
            seen: Mutex::default(),
            looking: tokio::sync::Mutex::default(),
            silent: Mutex::default(),
            has_dead: AtomicBool::new(false),
            forgets: AtomicBool::new(false),
            serves: AtomicBool::new(false),
            told: Mutex::default(),
            expired: AtomicU64::new(0),
        };
        let sql = "INSERT INTO instances AS own (id, lease_until, noted)
                   VALUES ($1, clock_timestamp() + $2 * interval '1 millisecond', 0)
                   ON CONFLICT (id) DO UPDATE SET lease_until = excluded.lease_until, doubted = FALSE, noted = 0, forgotten = NULL,
                       principal = NULL
                   WHERE own.lease_until <= clock_timestamp() RETURNING TRUE";
        let what = "register this run of the service";
        if db
            .row(what, sql, values![this.id, this.lease_millis()])
            .await?
            .is_none()
        {
            return Err(failed(what, "an instance of the same id is running"));
        }
        this.look(db).await?;
        Ok(this)
    }

    pub(crate) fn lease(&self) -> Duration {
        self.lease
    }

    pub(crate) fn lease_millis(&self) -> i64 {
        i64::try_from(self.lease.as_millis()).unwrap_or(i64::MAX)
    }

    /// Returns the runs that are dead if their leases are over.
    pub(crate) fn silent(&self) -> Vec<String> {
        self.silent.lock().values().flatten().cloned().collect()
    }

    /// As [`Self::silent`], of these: in a large fleet most runs are silent, as nothing goes on in them.
    pub(crate) fn silent_of(&self, runs: &HashSet<String>) -> Vec<String> {
        let silent = self.silent.lock();
        runs.iter()
            .filter_map(|run| silent.get(run))
            .flatten()
            .cloned()
            .collect()
    }

    /// Renews the lease, forgets the dead if that was asked for, and looks for others.
    pub(crate) async fn renew(&self, db: &Database) -> Result<(), StoreError> {
        let renewed = self.try_renew(db).await;
        self.unless_away(renewed)
    }

    /// Looks which runs are dead, unless that was done a moment ago: it reads the leases of all.
    pub(crate) async fn look(&self, db: &Database) -> Result<(), StoreError> {
        let looked = self.try_look(db, RECENT).await;
        self.unless_away(looked)
    }

    /// While the database is away nobody can renew: what was seen of leases before says nothing.
    fn unless_away(&self, outcome: Result<(), StoreError>) -> Result<(), StoreError> {
        if outcome.is_err() {
            *self.seen.lock() = Seen::default();
            self.silent.lock().clear();
        }
        outcome
    }

    async fn try_renew(&self, db: &Database) -> Result<(), StoreError> {
        let sql = "WITH old AS (SELECT lease_until <= clock_timestamp() AS is_over FROM instances WHERE id = $1 FOR UPDATE)
                   UPDATE instances SET lease_until = clock_timestamp() + $2 * interval '1 millisecond', doubted = FALSE,
                       forgotten = NULL
                   FROM old WHERE id = $1 RETURNING old.is_over";
        let lease = self.lease_millis();
        let values = values![self.id, lease];
        let row = db.row("renew the lease of this run", sql, values).await?;
        if row.is_none() {
            // It was away for so long that even its row is gone.
            let sql = "INSERT INTO instances (id, lease_until, noted)
                       VALUES ($1, clock_timestamp() + $2 * interval '1 millisecond', 0) ON CONFLICT (id) DO NOTHING";
            db.rows("register this run again", sql, values).await?;
        }
        if row.is_none_or(|row| row.get(0)) {
            tracing::warn!(
                "this run was not heard of for a lease, as when the database was away: others may have taken it for dead"
            );
        }
        // Only who has looked knows the dead; what was in vain is done next time.
        if self.seen.lock().since.is_some() && self.forgets.swap(false, Ordering::AcqRel) {
            let forgotten = self.forget(db).await;
            self.forgets.fetch_or(forgotten.is_err(), Ordering::AcqRel);
            forgotten?;
        }
        self.try_look(db, Duration::ZERO).await
    }

    /// Forgets the dead.
    async fn forget(&self, db: &Database) -> Result<(), StoreError> {
        // Not those of which calls are left: nobody would look after them any more.
        let sql = format!(
            "UPDATE instances SET forgotten = clock_timestamp()
             WHERE forgotten IS NULL AND {}
                 AND (lease_until <= clock_timestamp() OR chr(1) || lease_until::text || '/' || id = ANY ($1))
                 AND NOT EXISTS (SELECT FROM calls WHERE owner = instances.id AND ended IS NULL
                     AND NOT EXISTS (SELECT FROM workspaces WHERE workspaces.id = calls.workspace AND NOT is_left
                         AND workspaces.owner IS DISTINCT FROM instances.id))",
            is_dead("instances.id", "$1")
        );
        db.rows("forget dead runs", &sql, values![self.silent()]).await?;
        let sql = "DELETE FROM instances WHERE forgotten < clock_timestamp() - interval '1 day'
                       AND lease_until <= clock_timestamp()";
        db.rows("forget dead runs", sql, values![]).await.map(drop)
    }

    /// Returns how many notes of this run are stored; `known` of them at least. The row is made if it is not there any more.
    pub(crate) async fn noted(&self, db: &Database, known: i64) -> Result<i64, StoreError> {
        let sql = "INSERT INTO instances AS own (id, lease_until, noted)
                   VALUES ($1, clock_timestamp() + $2 * interval '1 millisecond', $3)
                   ON CONFLICT (id) DO UPDATE SET noted = greatest(own.noted, excluded.noted) RETURNING noted";
        let lease = self.lease_millis();
        let values = values![self.id, lease, known];
        let row = db.row("look which notes are stored", sql, values).await?;
        Ok(row.map_or(known, |row| row.get(0)))
    }

    async fn try_look(&self, db: &Database, recent: Duration) -> Result<(), StoreError> {
        let mut looked = db.turn("look for dead runs", &self.looking).await?;
        if looked.is_some_and(|looked| looked.elapsed() < recent) {
            return Ok(());
        }
        *looked = None;
        let sql =
            "SELECT id, lease_until::text, lease_until <= clock_timestamp(), doubted, forgotten IS NULL FROM instances
                   WHERE forgotten IS NULL OR lease_until > clock_timestamp()";
        let rows = db.rows("look for dead runs", sql, values![]).await?;
        let (now, mut leases, mut silent, mut has_dead) = (Instant::now(), HashMap::new(), HashMap::new(), false);
        let mut seen = self.seen.lock();
        seen.since.get_or_insert(now);
        for row in rows {
            let (id, until): (String, String) = (row.get(0), row.get(1));
            let since = seen
                .leases
                .get(&id)
                .filter(|(same, _)| *same == until)
                .map_or(now, |(_, since)| *since);
            let is_over = row.get(2) && seen.is_silent(now, since, row.get(3), self.lease);
            let has_outlasted = now - since >= 2 * self.lease;
            let names = [
                is_over.then(|| id.clone()),
                has_outlasted.then(|| outlasted(&id, &until)),
            ];
            let names: Vec<String> = names.into_iter().flatten().collect();
            if !names.is_empty() {
                silent.insert(id.clone(), names);
            }
            has_dead |= (is_over || has_outlasted) && row.get::<_, bool>(4);
            leases.insert(id, (until, since));
        }
        seen.leases = leases;
        *self.silent.lock() = silent;
        self.has_dead.store(has_dead, Ordering::Release);
        *looked = Some(now);
        Ok(())
    }

    /// Says that others write through this process; from now on.
    pub(crate) fn serve(&self) {
        self.serves.store(true, Ordering::Release);
    }

    pub(crate) fn serves(&self) -> bool {
        self.serves.load(Ordering::Acquire)
    }

    /// Says whether it is to be told of a workspace that something in it cannot be ended: once.
    pub(crate) fn is_to_be_told(&self, workspace: &str) -> bool {
        self.told.lock().insert(workspace.to_owned())
    }

    /// Takes in that all of a workspace was ended.
    pub(crate) fn is_well(&self, workspace: &str) {
        self.told.lock().remove(workspace);
    }

    /// Takes in that a lease was renewed just now.
    pub(crate) fn renewed(&self, id: String, until: String) {
        self.seen.lock().leases.insert(id, (until, Instant::now()));
    }

    /// Says whether another run was found dead when the lease was last renewed.
    pub(crate) fn has_dead(&self) -> bool {
        self.has_dead.load(Ordering::Acquire)
    }

    /// Has the dead forgotten when the lease is renewed.
    pub(crate) fn forget_dead(&self) {
        self.has_dead.store(false, Ordering::Release);
        self.forgets.store(true, Ordering::Release);
    }

    /// Gives the row up: this run is dead from now on.
    pub(crate) async fn leave(&self, db: &Database) -> Result<(), StoreError> {
        let sql = "DELETE FROM instances WHERE id = $1";
        db.rows("end this run", sql, values![self.id]).await.map(drop)
    }
}

/// Returns how a run is named that is dead while it has this lease. No key has what it begins with.
fn outlasted(id: &str, until: &str) -> String {
    format!("\u{1}{until}/{id}")
}

/// Returns the condition that the run in a column is dead; `silent` stands for [`Instances::silent`].
pub(crate) fn is_dead(column: &str, silent: &str) -> String {
    format!(
        "NOT EXISTS (SELECT FROM instances living WHERE living.id = {column}
             AND (living.lease_until > clock_timestamp() OR living.forgotten IS NULL AND NOT living.id = ANY ({silent}))
             AND NOT chr(1) || living.lease_until::text || '/' || living.id = ANY ({silent}))"
    )
}
