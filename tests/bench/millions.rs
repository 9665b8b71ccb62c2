//! Many stored calls: lists, searches and the start of a service whose database has them.
//!
//! *Invariant:* the service made the calls that all others are copies of, by SQL: each has an id, a session and times of its own, and
//! the newest have their logs. What a table has of calls is found by its references, so that a new table is copied too.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use prost_types::Timestamp;
use rusqlite::Connection;
use serde_json::json;
use tempfile::TempDir;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use toolgate_contract::session_service_client::SessionServiceClient;
use toolgate_contract::{
    CallState, ExecuteToolRequest, FailureReason, GetCallRequest, ListCallsRequest, ListSessionsRequest,
};

use crate::Plan;
use crate::cost::bytes_in;
use crate::measure::Samples;
use crate::service::{Service, Tools, execute, folder, recorded, request};
use crate::table::{Row, show_bytes, show_time};

/// What everything is to take at most.
const LIMIT: Duration = Duration::from_millis(100);

/// How long one kind of question is asked.
const PATIENCE: Duration = Duration::from_secs(10);

/// How many of the newest calls have their logs.
const WITH_LOGS: u64 = 100_000;

/// Calls of a session.
const OF_A_SESSION: u64 = 100;

/// In what time they were made: within what is kept.
const SPAN: Duration = Duration::from_secs(25 * 24 * 60 * 60);

/// What the copies have in the place of ids and of sessions.
const SESSION: &str = "stored-session";

/// The calls that the others are copies of, by their ids.
const TEMPLATES: [&str; 4] = ["stored-read", "stored-bash", "stored-grep", "stored-failed"];

fn template(id: &str) -> ExecuteToolRequest {
    let (tool, input) = match id {
        "stored-read" => ("read", json!({"filePath": "a.txt"})),
        "stored-bash" => ("bash", json!({"command": "true", "description": "Does nothing"})),
        "stored-grep" => ("grep", json!({"pattern": "needle"})),
        _ => ("read", json!({"filePath": "missing.txt"})),
    };
    ExecuteToolRequest {
        call_id: id.to_owned(),
        ..request(SESSION, tool, input)
    }
}

/// Measures with so many stored calls.
pub(crate) async fn stored(plan: Plan) -> Result<Vec<Row>> {
    let count = plan.stored;
    let workspace = folder()?;
    std::fs::write(workspace.path().join("a.txt"), "text\n")?;
    let home = filled(workspace.path(), count).await?;
    let data = home.path().join("data");
    let size = show_bytes(bytes_in(&data)?);
    let about = format!("{count} stored calls, {size}");

    let mut starts = Vec::new();
    let mut home = home;
    for _ in 0..plan.samples(10, 3) {
        let begin = Instant::now();
        let service = Service::again(home, workspace.path()).await?;
        let mut health = HealthClient::new(service.connect().await?);
        health.check(HealthCheckRequest::default()).await?;
        starts.push(begin.elapsed());
        home = service.leave().await?;
    }
    let service = Service::again(home, workspace.path()).await?;
    let asked = Asked {
        client: service.tools().await?,
        samples: plan.samples(200, 30),
        about,
        rows: Vec::new(),
    };
    let mut rows = questions(asked, &service, count).await?;
    service.stop().await?;
    let starts = Samples::new(starts)?;
    rows.insert(
        0,
        Row::time("stored calls: start to SERVING", &starts, starts.percentile(99), LIMIT),
    );
    Ok(rows)
}

/// What asks the service, and what came of it.
struct Asked {
    client: Tools,
    samples: usize,
    about: String,
    rows: Vec<Row>,
}

impl Asked {
    /// Asks again and again, at least three times; each question is given its number.
    async fn time(&mut self, what: &str, mut question: impl AsyncFnMut(&mut Tools, usize) -> Result<()>) -> Result<()> {
        let mut times = Vec::new();
        let begun = Instant::now();
        while times.len() < self.samples && (times.len() < 3 || begun.elapsed() < PATIENCE) {
            let begin = Instant::now();
            question(&mut self.client, times.len())
                .await
                .with_context(|| what.to_owned())?;
            times.push(begin.elapsed());
        }
        let times = Samples::new(times)?;
        let row = Row::time(&format!("stored calls: {what}"), &times, times.percentile(99), LIMIT);
        self.rows.push(row.beside(&self.about));
        Ok(())
    }

    /// The same for a list, and for how many calls it has to have at least.
    async fn list(&mut self, what: &str, at_least: usize, of: impl Fn(usize) -> ListCallsRequest) -> Result<()> {
        self.time(what, async |client, round| {
            let found = client.list_calls(of(round)).await?.into_inner().calls.len();
            ensure!(found >= at_least, "{found} calls were found, not {at_least}");
            Ok(())
        })
        .await
    }

    /// Follows the pages of a search to its end: a page is bounded, and together they look at all calls.
    async fn whole_search(&mut self, mut page: ListCallsRequest) -> Result<()> {
        let (begin, mut pages) = (Instant::now(), 0);
        loop {
            page.page_token = self.client.list_calls(page.clone()).await?.into_inner().next_page_token;
            pages += 1;
            if page.page_token.is_empty() {
                break;
            }
        }
        let what = "stored calls: all pages of a search of what none has";
        let row = Row::told(what, format!("{pages} pages"), show_time(begin.elapsed()));
        self.rows.push(row.beside(&self.about));
        Ok(())
    }
}

fn session(number: u64) -> String {
    format!("session-{number:07}")
}

fn call_id(number: u64) -> String {
    format!("call-{number:09}")
}

async fn questions(mut asked: Asked, service: &Service, count: u64) -> Result<Vec<Row>> {
    let all = ListCallsRequest::default;
    // Numbers from everywhere, the same in every run.
    let some = |round: usize| (round as u64 * 7_919 + 13) * 104_729 % count;
    asked.list("the newest 50", 50, |_| all()).await?;
    let mut page_token = String::new();
    asked
        .time("pages of 500, one after the other", async |client, _| {
            let page = ListCallsRequest {
                page_size: 500,
                page_token: std::mem::take(&mut page_token),
                ..all()
            };
            page_token = client.list_calls(page).await?.into_inner().next_page_token;
            Ok(())
        })
        .await?;
    let of_session = |round| ListCallsRequest {
        session_id: session(some(round) / OF_A_SESSION),
        ..all()
    };
    asked.list("those of a session", 50, of_session).await?;
    let failed = ListCallsRequest {
        states: vec![CallState::Failed.into()],
        reasons: vec![FailureReason::ToolError.into()],
        ..all()
    };
    asked.list("those that failed", 50, |_| failed.clone()).await?;
    let running = ListCallsRequest {
        states: vec![CallState::Running.into()],
        ..all()
    };
    asked.list("those that run: none", 0, |_| running.clone()).await?;
    let of_tool = ListCallsRequest {
        tools: vec!["webfetch".to_owned()],
        ..all()
    };
    asked
        .list("a page of those of a tool that none is of", 0, |_| of_tool.clone())
        .await?;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
    let long_ago = now.saturating_sub(SPAN / 2).as_secs();
    let moment = |seconds: u64| -> Result<Option<Timestamp>> {
        let seconds = i64::try_from(seconds)?;
        Ok(Some(Timestamp { seconds, nanos: 0 }))
    };
    let then = ListCallsRequest {
        from_time: moment(long_ago)?,
        until_time: moment(long_ago + 24 * 60 * 60)?,
        ..all()
    };
    asked.list("those of one day, long ago", 50, |_| then.clone()).await?;
    let mut sessions = SessionServiceClient::new(service.connect().await?);
    asked
        .time("the newest 50 sessions", async |_, _| {
            let page = sessions
                .list_sessions(ListSessionsRequest::default())
                .await?
                .into_inner();
            ensure!(page.sessions.len() == 50, "there are {} sessions", page.sessions.len());
            Ok(())
        })
        .await?;
    let text = |text: String| ListCallsRequest { text, ..all() };
    asked
        .list("search of what many have", 50, |_| text("needle".to_owned()))
        .await?;
    let one = |round| text(call_id(some(round)));
    asked.list("a page of a search of what one has", 0, one).await?;
    let nobody = |round| text(format!("nobody has {round}"));
    asked.list("a page of a search of what none has", 0, nobody).await?;
    asked.whole_search(nobody(0)).await?;
    asked
        .time("one of them", async |client, round| {
            let call_id = call_id(some(round));
            client.get_call(GetCallRequest { call_id }).await?;
            Ok(())
        })
        .await?;
    asked
        .time("one more call: a read", async |client, round| {
            let input = json!({"filePath": "a.txt", "limit": round % 7 + 1});
            execute(client, request("new", "read", input)).await.map(drop)
        })
        .await?;
    Ok(asked.rows)
}

/// Has a service make the templates, and copies them until there are so many calls.
async fn filled(workspace: &Path, count: u64) -> Result<TempDir> {
    let service = Service::start(workspace).await?;
    let mut client = service.tools().await?;
    for id in TEMPLATES {
        recorded(&mut client, template(id)).await?;
    }
    let data = service.data_dir();
    drop(client);
    let home = service.leave().await?;
    let begun = Instant::now();
    let path = data.join("toolgate.db");
    let free = rustix::fs::statvfs(&data).context("asking for free space")?;
    let copying = tokio::task::spawn_blocking(move || copy(&path, count, free.f_bavail * free.f_frsize));
    copying.await??;
    eprintln!("{count} calls copied in {:.0?}", begun.elapsed());
    Ok(home)
}

/// Copies the templates by SQL, in one transaction without a journal: nobody else has the database.
fn copy(path: &Path, count: u64, free: u64) -> Result<()> {
    let db = Connection::open(path)?;
    db.execute_batch(
        "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -1000000; PRAGMA foreign_keys = OFF;
         PRAGMA temp_store = MEMORY; BEGIN EXCLUSIVE;",
    )?;
    let last: i64 = db.query_row("SELECT max(number) FROM calls", [], |row| row.get(0))?;
    let id_of = |template: &str| {
        db.query_row("SELECT number FROM calls WHERE id = ?", [template], |row| {
            row.get::<_, i64>(0)
        })
        .with_context(|| format!("the call {template}"))
    };
    let templates = TEMPLATES.iter().map(|id| id_of(id)).collect::<Result<Vec<_>>>()?;
    let first = templates.iter().min().context("no templates")?;
    ensure!(
        templates
            .iter()
            .zip(*first..)
            .all(|(number, expected)| *number == expected),
        "{templates:?}"
    );
    let kinds = TEMPLATES.len();
    let count_signed = i64::try_from(count)?;
    let millis = i64::try_from(SPAN.as_millis())?;
    let series =
        format!("WITH RECURSIVE series (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM series WHERE i + 1 < {count})");

    let columns = columns(&db, "calls")?;
    let length: Vec<String> = columns
        .iter()
        .map(|(name, _)| format!("coalesce(length({name}), 0)"))
        .collect();
    // Half as much again for the indexes and for what pages leave empty.
    let sql = format!("SELECT sum({}) * 3 / 2 / count(*) FROM calls", length.join(" + "));
    let bytes: i64 = db.query_row(&sql, [], |row| row.get(0))?;
    let needed = u64::try_from(bytes)?
        .saturating_mul(count)
        .saturating_add(WITH_LOGS * 4096);
    ensure!(
        needed < free,
        "{} are needed for so many calls, and {} are free",
        show_bytes(needed),
        show_bytes(free)
    );

    // Ids and sessions stand in several columns, as they do in what a service writes.
    let new = |column: &str| {
        format!(
            "replace(replace(template.{column}, template.id, printf('call-%09d', i)), '{SESSION}', \
             printf('session-%07d', i / {OF_A_SESSION}))"
        )
    };
    let values = columns.iter().map(|(name, kind)| match name.as_str() {
        "number" => format!("{last} + 1 + i"),
        "created" | "ended" => format!("template.{name} - {millis} + i * {millis} / {count_signed}"),
        _ if kind == "TEXT" => new(name),
        _ => format!("template.{name}"),
    });
    let values: Vec<String> = values.collect();
    let names: Vec<&str> = columns.iter().map(|(name, _)| name.as_str()).collect();
    db.execute(
        &format!(
            "{series} INSERT INTO calls ({}) SELECT {} FROM series JOIN calls AS template ON template.number = {first} + i % {kinds}",
            names.join(", "),
            values.join(", "),
        ),
        [],
    )
    .context("copying calls")?;
    for (table, column) in tables_of_calls(&db)? {
        let columns = self::columns(&db, &table)?;
        let copied = columns
            .iter()
            .filter(|(name, _)| *name != "number" || column == "number");
        let names: Vec<&str> = copied.map(|(name, _)| name.as_str()).collect();
        let values: Vec<String> = names
            .iter()
            .map(|name| {
                if **name == column {
                    format!("{last} + 1 + i")
                } else {
                    format!("template.{name}")
                }
            })
            .collect();
        db.execute(
            &format!(
                "{series} INSERT INTO {table} ({}) SELECT {} FROM series JOIN {table} AS template \
                 ON template.{column} = {first} + i % {kinds} WHERE i >= {count_signed} - {WITH_LOGS}",
                names.join(", "),
                values.join(", "),
            ),
            [],
        )
        .with_context(|| format!("copying {table}"))?;
    }
    // The first start must not wait until all this is on the disk.
    db.execute_batch("COMMIT; PRAGMA journal_mode = WAL")?;
    std::fs::File::open(path)?.sync_all()?;
    let copied: i64 = db.query_row("SELECT count(*) FROM calls", [], |row| row.get(0))?;
    ensure!(copied >= count_signed, "there are {copied} calls");
    Ok(())
}

/// The columns of a table, with their types.
fn columns(db: &Connection, table: &str) -> Result<Vec<(String, String)>> {
    let mut statement = db.prepare("SELECT name, type FROM pragma_table_info(?)")?;
    let rows = statement.query_map([table], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// The tables whose rows are of calls, with the column that names the call.
fn tables_of_calls(db: &Connection) -> Result<Vec<(String, String)>> {
    let mut statement = db.prepare(
        "SELECT tables.name, keys.\"from\" FROM pragma_table_list AS tables, pragma_foreign_key_list(tables.name) AS keys
         WHERE tables.schema = 'main' AND keys.\"table\" = 'calls'",
    )?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}
