//! Listings: conditions that a filter adds to a statement, and the cursor from page to page.
//!
//! *Invariant:* values from outside are bound, never written into the statement. Pages go by the numbers of rows
//! ([`crate::codec`]), but for those of calls (`call_list`).

use rusqlite::types::Value;
use rusqlite::{Connection, Row, params_from_iter};
use toolgate_model::{Timestamp, WorkspaceSet};

use super::error::{Doing, limit};
use super::packed;
use crate::codec::{MAX_PAGE, MAX_PAGE_BYTES, parse_token, token};
use crate::{Page, PageRequest, StoreError};

/// Workspaces that have fewer rows together are looked through by the index of their names.
const FEW: usize = 20_000;

/// Says whether some workspaces have few rows together, in a table with that index.
pub(super) fn have_few(db: &Connection, table: &str, workspaces: &WorkspaceSet) -> Result<bool, StoreError> {
    let rows = Query::new(&format!("SELECT 1 FROM {table} WHERE TRUE")).within("workspace", workspaces);
    Ok(rows.rows(db, "", FEW, |_| Ok(()))?.len() < FEW)
}

/// A `SELECT` under construction.
pub(super) struct Query {
    sql: String,
    values: Vec<Value>,
    /// The condition for a later page.
    before: &'static str,
}

impl Query {
    /// Begins with a statement that ends in a condition.
    pub(super) fn new(sql: &str) -> Self {
        Self {
            sql: sql.to_owned(),
            values: Vec::new(),
            before: "number < ?",
        }
    }

    /// Adds a condition without a value.
    pub(super) fn also(mut self, condition: &str) -> Self {
        self.sql.push_str(" AND ");
        self.sql.push_str(condition);
        self
    }

    /// Asks for a column's value, if one is given.
    pub(super) fn is(self, column: &str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.bind(&format!("{column} = ?"), Value::Text(value.to_owned())),
            None => self,
        }
    }

    /// Asks for what a condition says of a moment, if one is given.
    pub(super) fn compare(self, condition: &str, moment: Option<Timestamp>) -> Self {
        match moment {
            Some(moment) => self.bind(condition, Value::Integer(moment.millis())),
            None => self,
        }
    }

    /// Asks for rows whose column has a text in it, if one is given.
    pub(super) fn contains(self, column: &str, text: Option<&str>) -> Self {
        match text {
            Some(text) => self.bind(&format!("instr({column}, ?) > 0"), Value::Text(text.to_owned())),
            None => self,
        }
    }

    /// Asks for rows that were numbered after the one of an id, if one is given; for all if there is no such row.
    pub(super) fn numbered_after(self, table: &str, id: Option<&str>) -> Self {
        let condition = format!("number > coalesce((SELECT number FROM {table} WHERE id = ?), 0)");
        match id {
            Some(id) => self.bind(&condition, Value::Text(id.to_owned())),
            None => self,
        }
    }

    /// Asks for one of several values of a column; an empty list asks for nothing. The list travels as one JSON value,
    /// because the number of parameters of a statement is limited.
    pub(super) fn one_of<'a>(self, column: &str, values: impl Iterator<Item = &'a str>) -> Self {
        let list: serde_json::Value = values.collect();
        match list.as_array() {
            Some(items) if !items.is_empty() => {
                let condition = format!("{column} IN (SELECT value FROM json_each(?))");
                self.bind(&condition, Value::Text(list.to_string()))
            }
            _ => self,
        }
    }

    /// Asks for rows of some workspaces. A prefix is a range, which an index serves, however many workspaces are below it.
    pub(super) fn within(mut self, column: &str, workspaces: &WorkspaceSet) -> Self {
        if workspaces.is_all() {
            return self;
        }
        if let Some(name) = workspaces.single() {
            return self.is(column, Some(name));
        }
        let mut conditions = Vec::new();
        let names: Vec<&str> = workspaces.names().collect();
        if !names.is_empty() {
            conditions.push(format!("{column} IN (SELECT value FROM json_each(?))"));
            self.values.push(Value::Text(serde_json::json!(names).to_string()));
        }
        for (from, until) in workspaces.ranges() {
            conditions.push(format!("({column} >= ? AND {column} < ?)"));
            self.values.extend([Value::Text(from.to_owned()), Value::Text(until)]);
        }
        if conditions.is_empty() {
            return self.also("FALSE");
        }
        if conditions.len() > 1 {
            // Without the sign SQLite would read all rows before that one, instead of finding those of each condition by an
            // index.
            self.before = "+number < ?";
        }
        self.also(&format!("({})", conditions.join(" OR ")))
    }

    /// Goes from page to page by an index of the numbers, whatever else is asked for.
    pub(super) fn along_numbers(mut self) -> Self {
        self.before = "number < ?";
        self
    }

    /// Adds a condition with its values.
    pub(super) fn also_with(mut self, condition: &str, values: impl IntoIterator<Item = Value>) -> Self {
        self.values.extend(values);
        self.also(condition)
    }

    fn bind(self, condition: &str, value: Value) -> Self {
        self.also_with(condition, [value])
    }

    /// Returns the statement and the values of its parameters.
    pub(super) fn into_parts(self) -> (String, Vec<Value>) {
        (self.sql, self.values)
    }

    /// Runs the statement with an ending and returns its rows.
    pub(super) fn rows<T>(
        mut self,
        db: &Connection,
        ending: &str,
        items: usize,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, StoreError> {
        self.sql.push_str(ending);
        self.sql.push_str(" LIMIT ?");
        self.values.push(Value::Integer(limit(items)));
        db.prepare_cached(&self.sql)
            .and_then(|mut statement| statement.query_map(params_from_iter(self.values), read)?.collect())
            .doing(db, "list")
    }

    /// Returns the newest rows with their numbers, and whether there are more: at most `size`, and after the first only
    /// as long as they stay within [`MAX_PAGE_BYTES`].
    fn first_rows<T>(
        mut self,
        db: &Connection,
        size: usize,
        read: &mut impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<(Vec<(i64, T)>, bool)> {
        self.sql.push_str(" ORDER BY number DESC LIMIT ?");
        self.values.push(Value::Integer(limit(size + 1)));
        let mut statement = db.prepare_cached(&self.sql)?;
        let mut rows = statement.query(params_from_iter(self.values))?;
        let (mut found, mut bytes) = (Vec::new(), 0);
        while let Some(row) = rows.next()? {
            bytes += packed::length(row.get_ref(1)?);
            if found.len() == size || (bytes > MAX_PAGE_BYTES && !found.is_empty()) {
                return Ok((found, true));
            }
            found.push((row.get(0)?, read(row)?));
        }
        Ok((found, false))
    }

    /// Asks for what is behind the pages before, if there are any.
    pub(super) fn behind(self, page: &PageRequest) -> Result<Self, StoreError> {
        Ok(match &page.after {
            Some(token) => {
                let before = self.before;
                self.bind(before, Value::Integer(parse_token(token)?))
            }
            None => self,
        })
    }

    /// Runs the statement with an ending, and returns how many steps of SQLite's machine that took.
    #[cfg(test)]
    pub(super) fn steps(self, db: &Connection, ending: &str) -> i32 {
        let mut statement = db.prepare(&format!("{}{ending}", self.sql)).unwrap();
        let mut rows = statement.query(params_from_iter(self.values)).unwrap();
        while rows.next().unwrap().is_some() {}
        drop(rows);
        statement.get_status(rusqlite::StatementStatus::VmStep)
    }

    /// Runs the statement for one page, newest first; `read` takes what follows the row's number.
    pub(super) fn page<T, U>(
        self,
        db: &Connection,
        page: &PageRequest,
        mut read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
        finish: impl FnMut(T) -> Result<U, StoreError>,
    ) -> Result<Page<U>, StoreError> {
        let size = page.size.clamp(1, MAX_PAGE);
        let query = self.behind(page)?;
        let (rows, more) = query.first_rows(db, size, &mut read).doing(db, "list")?;
        let next = rows.last().filter(|_| more).map(|(number, _)| token(*number));
        let items = rows
            .into_iter()
            .map(|(_, item)| item)
            .map(finish)
            .collect::<Result<_, _>>()?;
        Ok(Page { items, next })
    }
}
