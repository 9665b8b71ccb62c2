//! Listings: conditions that a filter adds to a statement, and the cursor from page to page.
//!
//! *Invariant:* values from outside are bound, never written into the statement. Pages go by the numbers of rows
//! ([`toolgate_store::codec`]).

use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};
use toolgate_model::{Timestamp, WorkspaceSet};
use toolgate_store::codec::{MAX_PAGE, MAX_PAGE_BYTES, limit, parse_token, token, unsigned};
use toolgate_store::{Page, PageRequest, StoreError};

use crate::connection::Database;
use crate::text::{escaped, key};
use crate::values::typed;

enum Value {
    Text(String),
    Texts(Vec<String>),
    Number(i64),
}

/// Bytes of calls that are read at once where no page bounds them: what is done with them has an end in good time, too.
const MAX_BATCH_BYTES: usize = 16 << 20;

/// Makes a statement for calls, which has their `number` and `record`, one for the first of them: after the first only as long as their
/// bytes stay within [`MAX_BATCH_BYTES`] in sum. As `found` it has how many there were.
pub(crate) fn within_bytes(calls: &str) -> String {
    format!(
        "SELECT * FROM (SELECT *, sum(octet_length(record)) OVER (ORDER BY number) AS upto,
             row_number() OVER (ORDER BY number) AS place, count(*) OVER () AS found FROM ({calls}) rows) weighed
         WHERE upto <= {MAX_BATCH_BYTES} OR place = 1 ORDER BY number"
    )
}

impl Value {
    fn typed(&self) -> (&(dyn ToSql + Sync), Type) {
        match self {
            Self::Text(text) => typed(text),
            Self::Texts(texts) => typed(texts),
            Self::Number(number) => typed(number),
        }
    }
}

/// A `SELECT` under construction.
pub(crate) struct Query {
    sql: String,
    values: Vec<Value>,
}

impl Query {
    /// Begins with a statement that ends in a condition.
    pub(crate) fn new(sql: &str) -> Self {
        Self {
            sql: sql.to_owned(),
            values: Vec::new(),
        }
    }

    /// As [`Self::new`], with texts in the statement; `sql` is given what stands for them.
    pub(crate) fn about(texts: Vec<String>, sql: impl FnOnce(&str) -> String) -> Self {
        let mut query = Self::new("");
        query.sql = sql(&query.number(Value::Texts(texts)));
        query
    }

    /// Adds to the statement what is no condition.
    pub(crate) fn then(mut self, sql: &str) -> Self {
        self.sql.push_str(sql);
        self
    }

    /// Puts the statement into another one, which goes on behind it.
    pub(crate) fn within_statement(mut self, before: &str, after: &str) -> Self {
        self.sql = format!("{before}{}{after}", self.sql);
        self
    }

    /// Adds a condition without a value.
    pub(crate) fn also(self, condition: &str) -> Self {
        self.then(" AND ").then(condition)
    }

    /// Asks for a column's value, if one is given.
    pub(crate) fn is(self, column: &str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.bind(&format!("{column} = "), Value::Text(key(value)), ""),
            None => self,
        }
    }

    /// As [`Self::is`], of a column that has whole texts.
    pub(crate) fn whole(self, column: &str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.bind(&format!("{column} = "), Value::Text(escaped(value)), ""),
            None => self,
        }
    }

    /// Compares a column with a number, if one is given; `operator` stands between them.
    pub(crate) fn compare(self, operator: &str, number: Option<i64>) -> Self {
        match number {
            Some(number) => self.bind(operator, Value::Number(number), ""),
            None => self,
        }
    }

    /// As [`Self::compare`], with a moment.
    pub(crate) fn moment(self, operator: &str, moment: Option<Timestamp>) -> Self {
        self.compare(operator, moment.map(Timestamp::millis))
    }

    /// Asks for rows whose column has a text in it, if one is given.
    pub(crate) fn contains(self, column: &str, text: Option<&str>) -> Self {
        match text {
            Some(text) => self.bind("position(", Value::Text(escaped(text)), &format!(" IN {column}) > 0")),
            None => self,
        }
    }

    /// Asks for rows that were numbered after the one of an id, if one is given; for all if there is no such row.
    pub(crate) fn numbered_after(self, table: &str, id: Option<&str>) -> Self {
        let before = format!("number > coalesce((SELECT number FROM {table} WHERE id = ");
        match id {
            Some(id) => self.bind(&before, Value::Text(key(id)), "), 0)"),
            None => self,
        }
    }

    /// Asks for one of several values of a column; an empty list asks for nothing.
    pub(crate) fn one_of<'a>(self, column: &str, values: impl Iterator<Item = &'a str>) -> Self {
        let keys: Vec<String> = values.map(key).collect();
        if keys.is_empty() {
            return self;
        }
        self.bind(&format!("{column} = ANY ("), Value::Texts(keys), ")")
    }

    /// Asks for rows of some workspaces. A prefix is a range, which an index serves, however many workspaces are below it.
    pub(crate) fn within(mut self, column: &str, workspaces: &WorkspaceSet) -> Self {
        if workspaces.is_all() {
            return self;
        }
        let mut conditions = Vec::new();
        let names: Vec<String> = workspaces.names().map(key).collect();
        if !names.is_empty() {
            conditions.push(format!("{column} = ANY ({})", self.number(Value::Texts(names))));
        }
        for (from, until) in workspaces.ranges() {
            let (from, until) = (
                self.number(Value::Text(key(from))),
                self.number(Value::Text(key(&until))),
            );
            conditions.push(format!("({column} >= {from} AND {column} < {until})"));
        }
        if conditions.is_empty() {
            return self.also("FALSE");
        }
        self.also(&format!("({})", conditions.join(" OR ")))
    }

    /// Adds a value and returns what stands for it in the statement.
    fn number(&mut self, value: Value) -> String {
        self.values.push(value);
        format!("${}", self.values.len())
    }

    fn bind(mut self, before: &str, value: Value, after: &str) -> Self {
        let number = self.number(value);
        self.also(&format!("{before}{number}{after}"))
    }

    /// Runs the statement with an ending and returns its rows, at most so many.
    pub(crate) async fn rows(
        mut self,
        db: &Database,
        what: &'static str,
        ending: &str,
        items: usize,
    ) -> Result<Vec<Row>, StoreError> {
        let most = self.number(Value::Number(limit(items)));
        self.then(&format!("{ending} LIMIT {most}")).run(db, what).await
    }

    /// Returns how many bytes a column has in those rows that [`Self::rows`] would return.
    pub(crate) async fn bytes(
        mut self,
        db: &Database,
        what: &'static str,
        (column, ending): (&str, &str),
        items: usize,
    ) -> Result<u64, StoreError> {
        let most = self.number(Value::Number(limit(items)));
        let query = self.then(&format!("{ending} LIMIT {most}")).within_statement(
            &format!("SELECT coalesce(sum(octet_length({column})), 0)::bigint FROM ("),
            ") AS rows",
        );
        let rows = query.run(db, what).await?;
        Ok(rows.first().map_or(0, |row| unsigned(row.get(0))))
    }

    async fn run(self, db: &Database, what: &'static str) -> Result<Vec<Row>, StoreError> {
        let values: Vec<(&(dyn ToSql + Sync), Type)> = self.values.iter().map(Value::typed).collect();
        db.rows(what, &self.sql, &values).await
    }

    /// Runs the statement for one page, newest first: at most `size` rows, and after the first only as long as `weight`, a
    /// number of bytes of each, stays within [`MAX_PAGE_BYTES`] in sum.
    pub(crate) async fn page<T>(
        self,
        db: &Database,
        what: &'static str,
        page: &PageRequest,
        weight: &str,
        mut read: impl FnMut(&Row) -> Result<T, StoreError>,
    ) -> Result<Page<T>, StoreError> {
        let size = page.size.clamp(1, MAX_PAGE);
        let before = page.after.as_deref().map(parse_token).transpose()?;
        let mut query = self.compare("number < ", before);
        let most = query.number(Value::Number(limit(size + 1)));
        let rows = query
            .then(&format!(" ORDER BY number DESC LIMIT {most}"))
            .within_statement(
                &format!(
                    "SELECT * FROM (SELECT *, sum({weight}) OVER (ORDER BY number DESC) AS upto,
                        row_number() OVER (ORDER BY number DESC) AS place, count(*) OVER () AS found FROM ("
                ),
                &format!(") rows) weighed WHERE upto <= {MAX_PAGE_BYTES} OR place = 1 ORDER BY number DESC"),
            )
            .run(db, what)
            .await?;
        let found = rows.first().map_or(0, |row| row.get::<_, i64>("found"));
        let shown = &rows[..rows.len().min(size)];
        let has_more = found > limit(shown.len());
        let next = shown.last().filter(|_| has_more).map(|row| token(row.get("number")));
        let items = shown.iter().map(&mut read).collect::<Result<_, _>>()?;
        Ok(Page { items, next })
    }
}
