//! Outputs of earlier runs: what they left incomplete, and what an earlier version kept elsewhere.

use std::path::Path;

use rusqlite::{Connection, params};

use super::error::{Doing, signed};
use super::folders::{Folders, create_folder, workspace_folder};
use super::output_file;
use super::output_rows::{COLUMNS, Stored};
use super::query::Query;
use super::spool::Spool;
use crate::StoreError;

const PLANS: &str = "plans";

/// Completes the rows of runs that died while they wrote. Called before this run writes anything, so a row of its own id
/// is of an earlier run, too. Lines and digest are left for the first who asks: the files may be large.
pub(super) fn recover(db: &Connection, spool: &Spool) -> Result<(), StoreError> {
    let open = Query::new(&format!("SELECT {COLUMNS} FROM outputs WHERE complete = 0"));
    for stored in open.rows(db, "", usize::MAX, Stored::read)? {
        if spool.is_written_elsewhere(&stored) {
            continue;
        }
        let length = output_file::file_length(&spool.path(&stored.owner, &stored.id))?.unwrap_or(0);
        db.prepare_cached("UPDATE outputs SET complete = 1, bytes = ? WHERE id = ?")
            .and_then(|mut statement| statement.execute(params![signed(length), stored.id.as_str()]))
            .doing(db, "complete an output's row")?;
    }
    Ok(())
}

/// Returns the files that sessions outside git checkouts keep their plans in, with their workspaces.
fn plans(db: &Connection) -> Result<Vec<(String, String)>, StoreError> {
    db.prepare_cached(
        "SELECT workspace, json_extract(value, '$.created') || '-' || json_extract(value, '$.slug') || '.md'
         FROM facts WHERE key = 'plan'",
    )
    .and_then(|mut statement| statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect())
    .doing(db, "list the plans of sessions")
}

/// Moves outputs and plans that an earlier version kept all in one folder to those of their workspaces. What a run of that version
/// still writes stays until a later start; what belongs to nobody stays for good.
pub(super) fn move_apart(db: &Connection, spool: &Spool, data_dir: &Path) -> Result<(), StoreError> {
    let Some(old) = Folders::shared(data_dir) else {
        return Ok(());
    };
    for (workspace, plan) in plans(db)? {
        let (from, to) = (data_dir.join(PLANS), workspace_folder(data_dir, &workspace).join(PLANS));
        create_folder(to.clone())?;
        output_file::move_file(&from.join(&plan), &to.join(&plan))?;
    }
    for stored in Stored::all(db)? {
        if spool.is_written_elsewhere(&stored) {
            continue;
        }
        spool.make_folder(&stored.owner.workspace)?;
        output_file::move_file(&old.join(stored.id.as_str()), &spool.path(&stored.owner, &stored.id))?;
    }
    Folders::drop_shared(&old);
    Ok(())
}
