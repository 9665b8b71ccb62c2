//! Records of calls as they are stored: short ones as text, longer ones compressed. What a call showed stands in its record
//! more than once (for the model, for people, as a preview), and compressed it takes the room of one.
//!
//! *Invariant:* of `record` and `packed` of a row one is filled; whoever reads asks for [`JSON`].

use std::cell::RefCell;

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ValueRef};
use zstd::bulk::Compressor;
use zstd::zstd_safe;

/// What to select of a row to read its [`Json`].
pub(super) const JSON: &str = "coalesce(packed, record)";

/// Shorter records stay text: most fit into a page of the database as they are.
const SHORTEST: usize = 1024;

/// The fastest of the usual levels: higher ones take longer and save little of texts that are this short.
const LEVEL: i32 = 1;

/// SQLite stores no longer text: a row that says more is damaged, and no memory is taken for it.
const LONGEST: usize = 1_000_000_000;

/// A record's JSON on its way into a row.
pub(super) enum Stored {
    Text(String),
    Packed(Vec<u8>),
}

impl Stored {
    /// Compresses a record that is long.
    pub(super) fn new(json: String) -> Self {
        match (json.len() >= SHORTEST).then(|| pack(&json)).flatten() {
            Some(packed) => Self::Packed(packed),
            None => Self::Text(json),
        }
    }

    /// Returns the value of the column `record`.
    pub(super) fn record(&self) -> &str {
        match self {
            Self::Text(json) => json,
            Self::Packed(_) => "",
        }
    }

    /// Returns the value of the column `packed`.
    pub(super) fn packed(&self) -> Option<&[u8]> {
        match self {
            Self::Text(_) => None,
            Self::Packed(packed) => Some(packed),
        }
    }

    /// Returns how many bytes it takes.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Text(json) => json.len(),
            Self::Packed(packed) => packed.len(),
        }
    }
}

/// Compresses a text; none if it does not become shorter.
fn pack(json: &str) -> Option<Vec<u8>> {
    thread_local! {
        // It has tables of some hundred KB, which are not made anew for each record.
        static COMPRESSOR: RefCell<Option<Compressor<'static>>> = RefCell::new(Compressor::new(LEVEL).ok());
    }
    let packed = COMPRESSOR.with_borrow_mut(|compressor| compressor.as_mut()?.compress(json.as_bytes()).ok());
    packed.filter(|packed| packed.len() < json.len())
}

/// A record's JSON, read from a row.
pub(super) struct Json(pub(super) String);

impl FromSql for Json {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let bytes = match value {
            ValueRef::Text(text) => text.to_vec(),
            ValueRef::Blob(packed) => zstd::bulk::decompress(packed, length(value).min(LONGEST))
                .map_err(|error| FromSqlError::Other(Box::new(error)))?,
            ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => return Err(FromSqlError::InvalidType),
        };
        let text = String::from_utf8(bytes).map_err(|error| FromSqlError::Other(Box::new(error)))?;
        Ok(Self(text))
    }
}

/// Returns how long a text is that is stored, perhaps compressed; 0 of anything else.
pub(super) fn length(value: ValueRef<'_>) -> usize {
    match value {
        ValueRef::Text(text) => text.len(),
        ValueRef::Blob(packed) => zstd_safe::get_frame_content_size(packed)
            .ok()
            .flatten()
            .and_then(|length| usize::try_from(length).ok())
            .unwrap_or(0),
        ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    #[test]
    fn a_row_gives_back_what_was_stored_and_how_long_it_is() {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch("CREATE TABLE calls (record TEXT NOT NULL, packed BLOB) STRICT")
            .unwrap();
        let noise: String = (0..4_000_u32)
            .map(|number| char::from(b' ' + (number.wrapping_mul(2_654_435_761) >> 25) as u8 % 90))
            .collect();
        for (json, is_packed) in [
            (String::new(), false),
            ("x".repeat(SHORTEST - 1), false),
            ("é".repeat(SHORTEST), true),
            (noise, true),
            ("line\n".repeat(200_000), true),
        ] {
            let stored = Stored::new(json.clone());
            assert_eq!(stored.packed().is_some(), is_packed, "{}", json.len());
            assert!(!is_packed || (stored.len() < json.len() && stored.record().is_empty()));
            db.execute("INSERT INTO calls VALUES (?, ?)", (stored.record(), stored.packed()))
                .unwrap();
            let read: (Json, usize) = db
                .query_row(&format!("SELECT {JSON} FROM calls ORDER BY rowid DESC"), [], |row| {
                    Ok((row.get(0)?, length(row.get_ref(0)?)))
                })
                .unwrap();
            assert!(read.0.0 == json && read.1 == json.len(), "{}", json.len());
        }
        let damaged = db.query_row("SELECT x'28B52FFD2001'", [], |row| row.get::<_, Json>(0));
        assert!(damaged.is_err());
    }
}
