//! The journal of what happened.
//!
//! *Invariant:* events are read and removed here, and only the sequencer adds some.

use async_trait::async_trait;
use tokio::sync::watch;
use toolgate_model::{ServiceEvent, Timestamp};
use toolgate_store::codec::{decode, limit, signed, unsigned};
use toolgate_store::outbox::Entry;
use toolgate_store::{Journal, StoreError};

use crate::notes::Note;
use crate::sequencer;
use crate::store::PostgresStore;
use crate::values::values;

/// So many events are deleted in one transaction.
const EVENTS_PER_DELETE: i64 = 10_000;

impl PostgresStore {
    /// Returns events, and whether something is not in the journal yet that has been told.
    async fn stored_since(&self, after: u64, items: usize) -> Result<(Vec<(u64, ServiceEvent)>, bool), StoreError> {
        // One statement: whatever is not in the outbox any more is among the rows.
        let sql = "SELECT EXISTS (SELECT FROM outbox), number, event
                   FROM (VALUES (TRUE)) AS one LEFT JOIN LATERAL
                       (SELECT number, event FROM journal WHERE number > $1 ORDER BY number LIMIT $2) AS page ON TRUE
                   ORDER BY number";
        let rows = self
            .shared
            .db
            .rows("read the journal", sql, values![signed(after), limit(items)])
            .await?;
        let is_behind = rows.first().is_some_and(|row| row.get(0));
        let (numbers, jsons): (Vec<Option<i64>>, Vec<Option<&str>>) = rows
            .iter()
            .map(|row| (row.get::<_, Option<i64>>(1), row.get::<_, Option<&str>>(2)))
            .unzip();
        let found = numbers
            .into_iter()
            .zip(jsons)
            .filter_map(|(number, json)| Some((number?, json?)));
        let events = found.map(|(number, json)| Ok((unsigned(number), decode("an event of the journal", json)?)));
        Ok((events.collect::<Result<_, StoreError>>()?, is_behind))
    }
}

#[async_trait]
impl Journal for PostgresStore {
    fn record(&self, event: ServiceEvent) {
        match Entry::try_from(&event) {
            Ok(entry) => self.shared.notes.add(Note::Told(entry)),
            Err(error) => tracing::error!(%error, "an event of the journal is lost"),
        }
    }

    async fn since(&self, after: u64, limit: usize) -> Result<Vec<(u64, ServiceEvent)>, StoreError> {
        let (events, is_behind) = self.stored_since(after, limit).await?;
        if !is_behind || events.len() >= limit {
            return Ok(events);
        }
        self.shared.catch_up().await?;
        Ok(self.stored_since(after, limit).await?.0)
    }

    async fn last(&self) -> Result<watch::Receiver<u64>, StoreError> {
        let listener = self.shared.sequencer.listen();
        // What another one has stored may not be known here while nobody listens.
        self.shared
            .sequencer
            .reached(sequencer::end(&self.shared.db).await?.journal);
        self.shared.told();
        Ok(listener)
    }

    async fn sweep_journal(&self, before: Timestamp) -> Result<usize, StoreError> {
        self.shared.catch_up().await?;
        let sql = "WITH gone AS (DELETE FROM journal WHERE number IN
                       (SELECT number FROM journal WHERE moment < $1 ORDER BY number LIMIT $2) RETURNING TRUE)
                   SELECT count(*) FROM gone";
        let (what, mut gone) = ("delete old events of the journal", 0);
        loop {
            let row = self
                .shared
                .db
                .row(what, sql, values![before.millis(), EVENTS_PER_DELETE])
                .await?;
            match row.map_or(0, |row| row.get::<_, i64>(0)) {
                0 => return Ok(gone),
                some => gone += usize::try_from(some).unwrap_or(0),
            }
        }
    }
}
