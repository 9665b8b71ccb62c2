//! Session facts: queued for the writer, and seen at once through an overlay.
//!
//! *Invariant:* a fact leaves the overlay only after it is committed, and only if it was not replaced meanwhile; so a
//! reader that asks the overlay first and the database second never misses one.

use std::sync::Arc;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, params};
use serde_json::Value;
use toolgate_model::{Facts, SessionKey};

use super::error::{Doing, decode};
use super::store::LocalStore;
use super::writer::Operation;
use crate::outbox::Outbox;
use crate::overlay::Overlay;
use crate::{SessionFacts, StoreError};

/// One fact on its way.
struct Remembered {
    overlay: Arc<Overlay>,
    session: SessionKey,
    key: String,
    json: String,
    number: u64,
}

impl Operation for Remembered {
    fn run(&mut self, db: &Connection, _: &mut Outbox) -> Result<(), StoreError> {
        db.prepare_cached(
            "INSERT INTO facts (workspace, session, key, value) VALUES (?, ?, ?, ?)
             ON CONFLICT (workspace, session, key) DO UPDATE SET value = excluded.value",
        )
        .and_then(|mut statement| {
            statement.execute(params![
                self.session.workspace,
                self.session.session.as_str(),
                self.key,
                self.json
            ])
        })
        .map(drop)
        .doing(db, "store a session's fact")
    }

    fn end(self: Box<Self>, outcome: Result<(), StoreError>) {
        if let Err(error) = outcome {
            tracing::error!(%error, workspace = self.session.workspace, session = %self.session.session, key = self.key, "a session's fact is lost");
        }
        self.overlay.remove(&self.session, &self.key, self.number);
    }

    fn unattended(&self) -> bool {
        true
    }
}

fn fact(db: &Connection, session: &SessionKey, key: &str) -> Result<Option<Value>, StoreError> {
    let json: Option<String> = db
        .prepare_cached("SELECT value FROM facts WHERE workspace = ? AND session = ? AND key = ?")
        .and_then(|mut statement| {
            statement
                .query_row([&session.workspace, session.session.as_str(), key], |row| row.get(0))
                .optional()
        })
        .doing(db, "read a session's fact")?;
    json.map(|json| decode("a fact", &json)).transpose()
}

fn facts(db: &Connection, session: &SessionKey) -> Result<Facts, StoreError> {
    let rows: Vec<(String, String)> = db
        .prepare_cached("SELECT key, value FROM facts WHERE workspace = ? AND session = ?")
        .and_then(|mut statement| {
            statement
                .query_map([&session.workspace, session.session.as_str()], |row| {
                    Ok((row.get(0)?, row.get(1)?))
                })?
                .collect()
        })
        .doing(db, "read a session's facts")?;
    rows.into_iter()
        .map(|(key, json)| decode("a fact", &json).map(|value| (key, value)))
        .collect()
}

#[async_trait]
impl SessionFacts for LocalStore {
    async fn fact(&self, session: &SessionKey, key: &str) -> Result<Option<Value>, StoreError> {
        if let Some(value) = self.overlay.get(session, key) {
            return Ok(Some(value));
        }
        let (session, key) = (session.clone(), key.to_owned());
        self.readers.read(move |db| fact(db, &session, &key)).await
    }

    async fn facts(&self, session: &SessionKey) -> Result<Facts, StoreError> {
        let queued = self.overlay.session(session);
        let session = session.clone();
        let mut all = self.readers.read(move |db| facts(db, &session)).await?;
        all.extend(queued);
        Ok(all)
    }

    fn remember(&self, session: &SessionKey, key: &str, value: Value) {
        let json = value.to_string();
        // Held while the fact is queued, so that the overlay and the queue agree on the order of two of the same key.
        let mut queued = self.overlay.queued();
        queued.count += 1;
        let number = queued.count;
        queued
            .sessions
            .entry(session.clone())
            .or_default()
            .insert(key.to_owned(), (number, value));
        let overlay = Arc::clone(&self.overlay);
        let fact = Remembered {
            overlay,
            session: session.clone(),
            key: key.to_owned(),
            json,
            number,
        };
        let noted = self.writer.try_enqueue(fact);
        drop(queued);
        if let Err(refused) = noted {
            refused.end();
        }
    }

    async fn forget(&self, session: &SessionKey) -> Result<usize, StoreError> {
        let session = session.clone();
        self.writer
            .write(move |db| {
                db.prepare_cached("DELETE FROM facts WHERE workspace = ? AND session = ?")
                    .and_then(|mut statement| statement.execute([&session.workspace, session.session.as_str()]))
                    .doing(db, "forget a session's facts")
            })
            .await
    }
}
