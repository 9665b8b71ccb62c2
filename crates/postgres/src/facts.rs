//! Session facts: queued as notes, and seen at once through the overlay.

use async_trait::async_trait;
use serde_json::Value;
use toolgate_model::{Facts, SessionKey};
use toolgate_store::codec::decode;
use toolgate_store::{SessionFacts, StoreError};

use crate::fence::{self, Fence};
use crate::store::{PostgresStore, Shared};
use crate::text::{key, plain};
use crate::values::values;

#[async_trait]
impl SessionFacts for PostgresStore {
    async fn fact(&self, session: &SessionKey, name: &str) -> Result<Option<Value>, StoreError> {
        if let Some(value) = self.shared.notes.overlay.get(session, name) {
            return Ok(Some(value));
        }
        let sql = "SELECT value FROM facts WHERE workspace = $1 AND session = $2 AND name = $3";
        let (workspace, session) = (key(&session.workspace), key(session.session.as_str()));
        let row = self
            .shared
            .db
            .row("read a session's fact", sql, values![workspace, session, key(name)])
            .await?;
        row.map(|row| decode("a fact", row.get(0))).transpose()
    }

    async fn facts(&self, session: &SessionKey) -> Result<Facts, StoreError> {
        let queued = self.shared.notes.overlay.session(session);
        let sql = "SELECT coalesce(full_name, name), value FROM facts WHERE workspace = $1 AND session = $2";
        let (workspace, session) = (key(&session.workspace), key(session.session.as_str()));
        let rows = self
            .shared
            .db
            .rows("read a session's facts", sql, values![workspace, session])
            .await?;
        let stored = rows
            .iter()
            .map(|row| Ok((plain(row.get(0)), decode("a fact", row.get(1))?)));
        let mut all = stored.collect::<Result<Facts, StoreError>>()?;
        all.extend(queued);
        Ok(all)
    }

    fn remember(&self, session: &SessionKey, name: &str, value: Value) {
        self.shared.notes.remember(session, name, value);
    }

    async fn forget(&self, session: &SessionKey) -> Result<usize, StoreError> {
        self.shared.flush().await?;
        forget(&self.shared, session, None).await
    }
}

/// Deletes the facts of a session.
pub(crate) async fn forget(shared: &Shared, session: &SessionKey, fence: Option<&Fence>) -> Result<usize, StoreError> {
    let sql = "gone AS (DELETE FROM facts {USING held }WHERE facts.workspace = $1 AND session = $2 RETURNING TRUE)
               SELECT (SELECT count(*) FROM gone) {FROM held}";
    let (workspace, session) = (key(&session.workspace), key(session.session.as_str()));
    let what = "forget a session's facts";
    let row = fence::row_of(&shared.db, what, fence, sql, values![workspace, session]).await?;
    match (row, fence) {
        (Some(row), _) => Ok(usize::try_from(row.get::<_, i64>(0)).unwrap_or(0)),
        (None, Some(fence)) => Err(fence.broken()),
        (None, None) => Ok(0),
    }
}
