//! The audit: records in a table that only grows, and the head of their chain in another one.
//!
//! *Invariant:* records are removed here, and only the sequencer adds some. A checkpoint is chained in the transaction that
//! removes what it stands for.

use async_trait::async_trait;
use toolgate_model::Timestamp;
use toolgate_store::audit::{Fact, Kind};
use toolgate_store::codec::{limit, signed, unsigned};
use toolgate_store::{Audit, AuditEnd, AuditLine, StoreError};

use crate::connection::{Session, retrying};
use crate::notes::Note;
use crate::sequencer::{self, hold_end};
use crate::store::{PostgresStore, Shared};
use crate::values::values;

/// Records that one transaction removes.
const RECORDS_PER_DELETE: u64 = 20_000;

/// The first record that was made at or after a moment.
const SINCE: &str = "SELECT sequence FROM audit WHERE moment >= $1 ORDER BY sequence LIMIT 1";

/// Removes the records before a moment, from the oldest on, and leaves a checkpoint. Not for the sake of checkpoints
/// alone: each would make way for another.
async fn sweep_in(shared: &Shared, session: &mut Session, before: Timestamp) -> Result<usize, StoreError> {
    let end = hold_end(session).await?;
    let (head, removed) = (&end.audit.head, end.audit.removed);
    let first = session.row(SINCE, values![before.millis()]).await?;
    let first = first.map_or(head.sequence + 1, |row| unsigned(row.get(0)));
    let last = first
        .saturating_sub(1)
        .min(removed + RECORDS_PER_DELETE)
        .min(head.sequence.saturating_sub(1));
    if last <= removed {
        return Ok(0);
    }
    let checkpoint = format!("%\"kind\":\"{}\"%", Kind::Checkpoint.as_str());
    let sql = "SELECT FROM audit WHERE sequence > $1 AND sequence <= $2 AND record NOT LIKE $3 LIMIT 1";
    if session
        .row(sql, values![signed(removed), signed(last), checkpoint])
        .await?
        .is_none()
    {
        return Ok(0);
    }
    let hash = session
        .row("SELECT hash FROM audit WHERE sequence = $1", values![signed(last)])
        .await?;
    let hash: String = hash.map(|row| row.get(0)).unwrap_or_default();
    session
        .run("UPDATE ends SET removed = $1", values![signed(last)])
        .await?;
    let sql = "DELETE FROM audit WHERE sequence > $1 AND sequence <= $2";
    let gone = session.run(sql, values![signed(removed), signed(last)]).await?;
    let fact = Fact {
        chain: head.chain.clone(),
        removed: Some(last),
        removed_hash: hash,
        ..Fact::new(Kind::Checkpoint)
    };
    shared
        .sequencer
        .add(session, end, vec![fact.into()], Vec::new())
        .await?;
    Ok(usize::try_from(gone).unwrap_or(usize::MAX))
}

#[async_trait]
impl Audit for PostgresStore {
    fn audit(&self, fact: Fact) {
        self.shared.notes.add(Note::Told(fact.into()));
    }

    async fn audit_end(&self) -> Result<AuditEnd, StoreError> {
        self.shared.catch_up().await?;
        Ok(sequencer::end(&self.shared.db).await?.audit)
    }

    async fn audit_lines(&self, from: u64, items: usize) -> Result<Vec<AuditLine>, StoreError> {
        self.shared.catch_up().await?;
        let sql = "SELECT sequence, record FROM audit WHERE sequence >= $1 ORDER BY sequence LIMIT $2";
        let rows = self
            .shared
            .db
            .rows("read the audit", sql, values![signed(from), limit(items)])
            .await?;
        let line = |row: &tokio_postgres::Row| AuditLine {
            sequence: unsigned(row.get(0)),
            json: row.get(1),
        };
        Ok(rows.iter().map(line).collect())
    }

    async fn audit_since(&self, time: Timestamp) -> Result<u64, StoreError> {
        self.shared.catch_up().await?;
        let first = self
            .shared
            .db
            .row("find a record of the audit", SINCE, values![time.millis()])
            .await?;
        match first {
            Some(row) => Ok(unsigned(row.get(0))),
            None => Ok(sequencer::end(&self.shared.db).await?.audit.head.sequence + 1),
        }
    }

    async fn sweep_audit(&self, before: Timestamp) -> Result<usize, StoreError> {
        self.shared.catch_up().await?;
        retrying(|| async {
            let mut session = self.shared.db.begin("remove old records of the audit").await?;
            let swept = sweep_in(&self.shared, &mut session, before).await;
            session.end(swept).await
        })
        .await
    }
}
