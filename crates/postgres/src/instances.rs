//! Which runs of the service live: each has a row with a lease, by the clock of the database.
//!
//! *Invariant:* a run without a row is dead. One whose lease is over counts as dead only to those who have reached the database
//! for a whole lease themselves: while it was away nobody could renew.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use toolgate_model::InstanceId;
use toolgate_store::StoreError;
use toolgate_store::codec::failed;

use crate::connection::Database;
use crate::text::key;
use crate::values::values;

/// This run, and what it knows of others.
pub(crate) struct Instances {
    /// How statements name this run.
    pub(crate) id: String,
    lease: Duration,
    /// Since when the database has been reached each time.
    reached_since: Mutex<Instant>,
    has_dead: AtomicBool,
    /// Dead runs are to be forgotten at the next renewal.
    forgets: AtomicBool,
}

impl Instances {
    /// Takes the row of this run.
    pub(crate) async fn register(db: &Database, instance: &InstanceId, lease: Duration) -> Result<Self, StoreError> {
        let this = Self {
            id: key(instance.as_str()),
            lease,
            reached_since: Mutex::new(Instant::now()),
            has_dead: AtomicBool::new(false),
            forgets: AtomicBool::new(false),
        };
        let sql = "INSERT INTO instances AS own (id, lease_until, noted)
                   VALUES ($1, clock_timestamp() + $2 * interval '1 millisecond', 0)
                   ON CONFLICT (id) DO UPDATE SET lease_until = excluded.lease_until, noted = 0
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

    pub(crate) fn lease_millis(&self) -> i64 {
        i64::try_from(self.lease.as_millis()).unwrap_or(i64::MAX)
    }

    /// Says whether a lease that is over means that its run is dead.
    pub(crate) fn trusts_leases(&self) -> bool {
        self.reached_since.lock().elapsed() >= self.lease
    }

    /// Renews the lease, forgets the dead if that was asked for, and looks for others.
    pub(crate) async fn renew(&self, db: &Database) -> Result<(), StoreError> {
        let renewed = self.try_renew(db).await;
        if renewed.is_err() {
            *self.reached_since.lock() = Instant::now();
        }
        renewed
    }

    async fn try_renew(&self, db: &Database) -> Result<(), StoreError> {
        let sql = "INSERT INTO instances (id, lease_until, noted)
                   VALUES ($1, clock_timestamp() + $2 * interval '1 millisecond', 0)
                   ON CONFLICT (id) DO UPDATE SET lease_until = excluded.lease_until";
        db.rows(
            "renew the lease of this run",
            sql,
            values![self.id, self.lease_millis()],
        )
        .await?;
        if self.trusts_leases() && self.forgets.swap(false, Ordering::AcqRel) {
            let sql = "DELETE FROM instances WHERE lease_until <= clock_timestamp()";
            db.rows("forget dead runs", sql, values![]).await?;
        }
        self.look(db).await
    }

    async fn look(&self, db: &Database) -> Result<(), StoreError> {
        let sql = "SELECT EXISTS (SELECT FROM instances WHERE lease_until <= clock_timestamp())";
        let row = db.row("look for dead runs", sql, values![]).await?;
        let has_dead = row.is_some_and(|row| row.get(0)) && self.trusts_leases();
        self.has_dead.store(has_dead, Ordering::Release);
        Ok(())
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

/// Returns the condition that the run in a column is dead; `trusts` stands for [`Instances::trusts_leases`].
pub(crate) fn is_dead(column: &str, trusts: &str) -> String {
    format!(
        "NOT EXISTS (SELECT FROM instances living WHERE living.id = {column}
             AND (living.lease_until > clock_timestamp() OR NOT {trusts}))"
    )
}
