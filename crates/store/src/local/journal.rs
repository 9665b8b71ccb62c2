//! The journal of what happened.
//!
//! *Invariant:* events are read and removed here, and only the sequencer adds some (`sequencer`).

use async_trait::async_trait;
use rusqlite::{Connection, params};
use tokio::sync::watch;
use toolgate_model::{ServiceEvent, Timestamp};

use super::error::{Doing, decode, limit, signed, unsigned};
use super::follower::end_of_journal;
use super::sequencer::Note;
use super::store::LocalStore;
use crate::outbox::Entry;
use crate::{Journal, StoreError};

/// So many events are deleted in one transaction, so that the log has room for it.
const EVENTS_PER_DELETE: i64 = 1024;

fn since(db: &Connection, after: u64, items: usize) -> Result<Vec<(u64, ServiceEvent)>, StoreError> {
    let rows: Vec<(i64, String)> = db
        .prepare_cached("SELECT number, event FROM journal WHERE number > ? ORDER BY number LIMIT ?")
        .and_then(|mut statement| {
            statement
                .query_map(params![signed(after), limit(items)], |row| {
                    Ok((row.get(0)?, row.get(1)?))
                })?
                .collect()
        })
        .doing(db, "read the journal")?;
    rows.into_iter()
        .map(|(number, json)| Ok((unsigned(number), decode("an event of the journal", &json)?)))
        .collect()
}

#[async_trait]
impl Journal for LocalStore {
    fn record(&self, event: ServiceEvent) {
        match Entry::try_from(&event) {
            Ok(entry) => self.writer.enqueue(Note(entry)),
            Err(error) => tracing::error!(%error, "an event of the journal is lost"),
        }
    }

    async fn since(&self, after: u64, limit: usize) -> Result<Vec<(u64, ServiceEvent)>, StoreError> {
        self.readers.read(move |db| since(db, after, limit)).await
    }

    async fn last(&self) -> Result<watch::Receiver<u64>, StoreError> {
        let listener = self.follower.listen()?;
        // What another process has stored is not known here while nobody listens.
        self.follower.reached(self.readers.read(end_of_journal).await?);
        Ok(listener)
    }

    async fn sweep_journal(&self, before: Timestamp) -> Result<usize, StoreError> {
        // What is queued is in the journal at the end of its transaction, and not before.
        self.writer.write(|_| Ok(())).await?;
        let mut count = 0;
        loop {
            let deleted = self.writer.write(move |db| {
                let sql = "DELETE FROM journal WHERE number IN
                           (SELECT number FROM journal WHERE time < ? ORDER BY number LIMIT ?)";
                db.prepare_cached(sql)
                    .and_then(|mut statement| statement.execute(params![before.millis(), EVENTS_PER_DELETE]))
                    .doing(db, "delete old events of the journal")
            });
            match deleted.await? {
                0 => break,
                some => count += some,
            }
        }
        self.give_space_back().await?;
        Ok(count)
    }
}
