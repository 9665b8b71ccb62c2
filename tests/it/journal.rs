//! The journal agrees with the calls and prompts that there are, whoever was killed when.

use std::collections::BTreeSet;

use rusqlite::{Connection, OpenFlags};
use toolgate_model::{ServiceEvent, ServiceEventKind};

use crate::support::*;

/// The journal of a service that has ended has no gaps, and tells of each call, of each end and of each prompt's beginning and
/// end once, and of no others.
pub(crate) fn agrees(server: &Server) {
    let file = server.folder().join("data/toolgate.db");
    let db = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let (mut calls, mut ended) = (BTreeSet::new(), BTreeSet::new());
    let (mut opened, mut settled) = (BTreeSet::new(), BTreeSet::new());
    let events = rows(&db, "SELECT CAST(number AS TEXT), event FROM journal ORDER BY number");
    for (expected, (number, json)) in (1..).zip(&events) {
        assert_eq!(number.parse(), Ok(expected), "numbers have no gaps");
        let event: ServiceEvent = serde_json::from_str(json).unwrap();
        match event.kind {
            ServiceEventKind::Call { call, state, .. } => {
                if state.is_terminal() {
                    assert!(ended.insert(call.to_string()), "{call} ended once");
                }
                calls.insert(call.to_string());
            }
            ServiceEventKind::PromptAdded { prompt, .. } => {
                assert!(opened.insert(prompt.to_string()), "{prompt} was opened once");
            }
            ServiceEventKind::PromptResolved { prompt, .. } => {
                assert!(settled.insert(prompt.to_string()), "{prompt} ended once");
            }
            _ => {}
        }
    }
    let ids = |sql: &str| -> BTreeSet<String> { rows(&db, sql).into_iter().map(|(id, _)| id).collect() };
    assert_eq!(calls, ids("SELECT id, '' FROM calls"));
    assert_eq!(ended, ids("SELECT id, '' FROM calls WHERE ended IS NOT NULL"));
    assert_eq!(opened, ids("SELECT id, '' FROM prompts"));
    assert_eq!(settled, ids("SELECT id, '' FROM prompts WHERE state <> 'open'"));
}

fn rows(db: &Connection, sql: &str) -> Vec<(String, String)> {
    let mut statement = db.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
    rows.unwrap().map(Result::unwrap).collect()
}
