//! The rows of a history, table by table, written as the store itself writes them.
//!
//! *Invariant:* nothing is told of what is brought: journal and audit come with it. Numbers of calls, of the journal and of the audit
//! stay; the order of all that is numbered here stays, too.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt as _;

use sha2::{Digest as _, Sha256};
use toolgate_model::Timestamp;
use toolgate_store::StoreError;
use toolgate_store::audit::Head;
use toolgate_store::change::Change;
use toolgate_store::codec::{encode, failed, signed};
use toolgate_store::local::export::{Export, ExportedFact, ExportedOutput};
use toolgate_store::output::Lines;

use crate::changes::Side;
use crate::connection::Session;
use crate::fence::Held;
use crate::outputs::Origin;
use crate::partitions::{day_of, make_in};
use crate::parts;
use crate::text::{Key, escaped, key};
use crate::values::values;

/// What is read of an output at once.
const OUTPUT_BYTES: usize = 4 << 20;

/// What became of outputs.
#[derive(Default)]
pub(crate) struct Outputs {
    /// How long they are together.
    pub(crate) bytes: u64,
    /// How many had no file any more.
    pub(crate) without_file: u64,
}

/// Brings the records of calls, with the partitions of their days.
pub(crate) async fn calls(session: &mut Session, export: &mut Export) -> Result<(), StoreError> {
    let sql = "WITH one AS (SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[],
                   $8::text[], $9::text[], $10::text[], $11::text[], $12::bigint[], $13::bigint[], $14::bigint[], $15::text[],
                   $16::text[], $17::text[], $18::text[], $19::text[], $20::text[])
                   AS one (day, number, id, full_id, owner, workspace, full_workspace, session, full_session, tool, state, created,
                       ended, last_sequence, agent, requester, parent, reason, words, record)),
               places AS (INSERT INTO call_days (id, full_id, day, number) SELECT id, full_id, day, number FROM one)
               INSERT INTO calls (day, number, id, owner, workspace, full_workspace, session, full_session, tool, state, created, ended,
                   last_sequence, agent, requester, parent, reason, words, record)
               SELECT day, number, id, owner, workspace, full_workspace, session, full_session, tool, state, created, ended,
                   last_sequence, agent, requester, parent, reason, words, record FROM one";
    let (mut last, mut days) = (0, BTreeSet::new());
    loop {
        let some = export.calls(last)?;
        let Some(call) = some.last() else { break };
        last = call.number;
        let numbers: Vec<i64> = some.iter().map(|call| call.number).collect();
        let mut changes = Vec::with_capacity(some.len());
        for call in some {
            let day = day_of(call.record.created);
            if days.insert(day) {
                make_in(session, day).await?;
            }
            changes.push(Change::new(call.record, &[])?);
        }
        let keys = |text: fn(&Change) -> &str| -> (Vec<String>, Vec<Option<String>>) {
            changes
                .iter()
                .map(|change| {
                    let Key { key, full } = Key::new(text(change));
                    (key, full)
                })
                .unzip()
        };
        let (ids, full_ids) = keys(|change| change.record.id.as_str());
        let (workspaces, full_workspaces) = keys(|change| &change.record.origin.workspace);
        let (sessions, full_sessions) = keys(|change| change.record.origin.session.as_str());
        let (owners, _) = keys(|change| change.record.owner.as_str());
        let (tools, _) = keys(|change| &change.record.tool);
        let texts =
            |text: fn(&Change) -> &str| -> Vec<String> { changes.iter().map(|change| escaped(text(change))).collect() };
        let numbered = |number: fn(&Change) -> i64| -> Vec<i64> { changes.iter().map(number).collect() };
        let parent = |change: &Change| change.record.origin.parent.as_ref().map(|id| key(id.as_str()));
        let parents: Vec<Option<String>> = changes.iter().map(parent).collect();
        let ended: Vec<Option<i64>> = changes.iter().map(Change::ended).collect();
        let reasons: Vec<Option<&str>> = changes.iter().map(Change::reason).collect();
        let states: Vec<&str> = changes.iter().map(|change| change.record.state.as_str()).collect();
        let records: Vec<&str> = changes.iter().map(|change| change.json.as_str()).collect();
        session
            .run(
                sql,
                values![
                    numbered(|change| day_of(change.record.created)),
                    numbers,
                    ids,
                    full_ids,
                    owners,
                    workspaces,
                    full_workspaces,
                    sessions,
                    full_sessions,
                    tools,
                    states,
                    numbered(|change| change.record.created.millis()),
                    ended,
                    numbered(|change| signed(change.record.last_sequence)),
                    texts(|change| &change.record.origin.agent),
                    texts(|change| &change.record.origin.requester),
                    parents,
                    reasons,
                    texts(|change| &change.words),
                    records
                ],
            )
            .await?;
    }
    if last > 0 {
        // Numbers of calls grow; a sequence does not go back when the transaction does, and need not.
        let sql = "SELECT setval('call_numbers', greatest($1, (SELECT last_value FROM call_numbers)))";
        session.rows(sql, values![last]).await?;
    }
    Ok(())
}

/// Brings the logs of calls.
pub(crate) async fn events(session: &mut Session, export: &mut Export) -> Result<(), StoreError> {
    let sql = "INSERT INTO events (day, call, first, last, ends, batch)
               SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::boolean[], $6::text[])";
    let mut place = (0, 0);
    loop {
        let some = export.events(place)?;
        let Some(last) = some.last() else { return Ok(()) };
        place = (last.call, last.last);
        let days: Vec<i64> = some.iter().map(|group| day_of(group.admitted)).collect();
        let calls: Vec<i64> = some.iter().map(|group| group.call).collect();
        let firsts: Vec<i64> = some.iter().map(|group| group.first).collect();
        let lasts: Vec<i64> = some.iter().map(|group| group.last).collect();
        let ends: Vec<bool> = some.iter().map(|group| group.ends).collect();
        let batches: Vec<&str> = some.iter().map(|group| group.json.as_str()).collect();
        session
            .run(sql, values![days, calls, firsts, lasts, ends, batches])
            .await?;
    }
}

/// Brings what calls changed in files. The contents stay where they are: a revert is done beside the files, by a worker.
pub(crate) async fn changes(session: &mut Session, export: &mut Export) -> Result<(), StoreError> {
    let sql = "INSERT INTO changes (day, call, path, shown, before_sha256, before_bytes, before_mode, after_sha256, after_bytes, after_mode)
               SELECT one.day, one.call, one.path, one.shown, one.b, one.bb, one.bm, one.a, one.ab, one.am
               FROM unnest($1::bigint[], $2::bigint[], $3::bytea[], $4::bytea[], $5::text[], $6::bigint[], $7::bigint[], $8::text[],
                   $9::bigint[], $10::bigint[]) WITH ORDINALITY AS one (day, call, path, shown, b, bb, bm, a, ab, am, place)
               ORDER BY one.place";
    let mut last = 0;
    loop {
        let some = export.changes(last)?;
        let Some(change) = some.last() else { return Ok(()) };
        last = change.number;
        let days: Vec<i64> = some.iter().map(|one| day_of(one.admitted)).collect();
        let calls: Vec<i64> = some.iter().map(|one| one.call).collect();
        let paths: Vec<&[u8]> = some.iter().map(|one| one.change.path.as_os_str().as_bytes()).collect();
        let shown: Vec<&[u8]> = some.iter().map(|one| one.change.shown.as_os_str().as_bytes()).collect();
        let before = Side::of(some.iter().map(|one| one.change.before.as_ref()));
        let after = Side::of(some.iter().map(|one| one.change.after.as_ref()));
        session
            .run(
                sql,
                values![
                    days,
                    calls,
                    paths,
                    shown,
                    before.digests,
                    before.bytes,
                    before.modes,
                    after.digests,
                    after.bytes,
                    after.modes
                ],
            )
            .await?;
    }
}

/// Brings prompts, and what is known of whoever asks.
pub(crate) async fn prompts(session: &mut Session, export: &mut Export) -> Result<(), StoreError> {
    // Where they were, all had one clock.
    let sql = "INSERT INTO prompts (id, full_id, call, owner, session, workspace, state, prompt, asker, revision, opened)
               SELECT id, full_id, call, owner, session, workspace, state, prompt, asker, revision,
                   to_timestamp((prompt::json ->> 'created')::float8 / 1000)
               FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[],
                       $10::bigint[]) WITH ORDINALITY
                   AS one (id, full_id, call, owner, session, workspace, state, prompt, asker, revision, place)
               ORDER BY place";
    let mut last = 0;
    loop {
        let some = export.prompts(last)?;
        let Some(prompt) = some.last() else { return Ok(()) };
        last = prompt.number;
        let (ids, full_ids): (Vec<String>, Vec<Option<String>>) = some
            .iter()
            .map(|one| {
                let Key { key, full } = Key::new(one.prompt.id.as_str());
                (key, full)
            })
            .unzip();
        let calls: Vec<String> = some.iter().map(|one| key(one.prompt.call.as_str())).collect();
        let owners: Vec<String> = some.iter().map(|one| key(one.prompt.owner.as_str())).collect();
        let sessions: Vec<String> = some.iter().map(|one| key(one.prompt.session.as_str())).collect();
        let workspaces: Vec<String> = some.iter().map(|one| key(&one.prompt.workspace)).collect();
        let states: Vec<&str> = some.iter().map(|one| one.prompt.state.as_str()).collect();
        let jsons: Vec<&str> = some.iter().map(|one| one.json.as_str()).collect();
        let askers: Vec<Option<&str>> = some.iter().map(|one| one.asker.as_deref()).collect();
        let revisions: Vec<i64> = some.iter().map(|one| one.revision).collect();
        session
            .run(
                sql,
                values![
                    ids, full_ids, calls, owners, sessions, workspaces, states, jsons, askers, revisions
                ],
            )
            .await?;
    }
}

/// Brings the grants that outlast a run.
pub(crate) async fn grants(session: &mut Session, export: &mut Export) -> Result<(), StoreError> {
    let sql = "INSERT INTO grants (id, owner, content) SELECT id, '', content
               FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS one (id, content, place) ORDER BY place";
    let mut last = 0;
    loop {
        let some = export.grants(last)?;
        let Some(grant) = some.last() else { return Ok(()) };
        last = grant.number;
        let ids: Vec<String> = some.iter().map(|grant| key(&grant.id)).collect();
        let contents: Vec<&str> = some.iter().map(|grant| grant.content.as_str()).collect();
        session.run(sql, values![ids, contents]).await?;
    }
}

/// Brings the facts of sessions.
pub(crate) async fn facts(session: &mut Session, export: &mut Export) -> Result<(), StoreError> {
    let sql = "INSERT INTO facts (workspace, session, name, full_name, value, stored)
               SELECT one.*, clock_timestamp() FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[]) AS one";
    let mut last = ExportedFact::default();
    loop {
        let some = export.facts(&last)?;
        let Some(fact) = some.last() else { return Ok(()) };
        last = fact.clone();
        let workspaces: Vec<String> = some.iter().map(|fact| key(&fact.workspace)).collect();
        let sessions: Vec<String> = some.iter().map(|fact| key(&fact.session)).collect();
        let (names, full_names): (Vec<String>, Vec<Option<String>>) = some
            .iter()
            .map(|fact| {
                let Key { key, full } = Key::new(&fact.name);
                (key, full)
            })
            .unzip();
        let contents: Vec<&str> = some.iter().map(|fact| fact.value.as_str()).collect();
        session
            .run(sql, values![workspaces, sessions, names, full_names, contents])
            .await?;
    }
}

/// Brings outputs with their bytes. What no run had completed is complete: nobody writes to it any more.
pub(crate) async fn outputs(session: &mut Session, export: &mut Export) -> Result<Outputs, StoreError> {
    let (mut last, mut brought) = (0, Outputs::default());
    loop {
        let some = export.outputs(last)?;
        let Some(output) = some.last() else { return Ok(brought) };
        last = output.number;
        for output in &some {
            match output.bytes {
                Some(bytes) => {
                    bring_output(session, export, output).await?;
                    brought.bytes += bytes;
                }
                None => brought.without_file += 1,
            }
        }
    }
}

async fn bring_output(session: &mut Session, export: &mut Export, output: &ExportedOutput) -> Result<(), StoreError> {
    let origin = Origin {
        call: output.owner.call.clone(),
        session: output.owner.session.clone(),
        workspace: output.owner.workspace.clone(),
    };
    let sql = "INSERT INTO outputs (id, instance, call, session, workspace, origin, created, written)
               VALUES ($1, $2, $3, $4, $5, $6, $7, $7)";
    let id = key(output.id.as_str());
    session
        .run(
            sql,
            values![
                id,
                key(&output.instance),
                key(origin.call.as_str()),
                key(origin.session.as_str()),
                key(&origin.workspace),
                encode("the owner of an output", &origin)?,
                output.created.millis()
            ],
        )
        .await?;
    let (mut end, mut lines, mut digest) = (0, Lines::default(), Sha256::new());
    loop {
        let piece = export.read(output, end, OUTPUT_BYTES)?;
        if piece.is_empty() {
            break;
        }
        lines.add(&piece);
        digest.update(&piece);
        if !parts::append_in(session, &Held::new(None), &output.id, end, &piece).await? {
            return Err(parts::ends_elsewhere(&output.id, end));
        }
        end += piece.len() as u64;
    }
    if Some(end) != output.bytes {
        let problem = format!("its file is shorter than it was: {end} bytes");
        return Err(failed(format!("read output {}", output.id), problem));
    }
    let sql = "UPDATE outputs SET complete = TRUE, lines = $2, sha256 = $3, written = $4 WHERE id = $1";
    let (lines, sha256) = (signed(lines.count()), hex::encode(digest.finalize()));
    let Timestamp(written) = output.written;
    session.run(sql, values![id, lines, sha256, written]).await.map(drop)
}

/// Brings the journal with its numbers.
pub(crate) async fn journal(session: &mut Session, export: &mut Export) -> Result<(), StoreError> {
    let sql =
        "INSERT INTO journal (number, moment, event) SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[])";
    let mut last = 0;
    loop {
        let some = export.journal(last)?;
        let Some(event) = some.last() else { return Ok(()) };
        last = event.number;
        let numbers: Vec<i64> = some.iter().map(|event| event.number).collect();
        let moments: Vec<i64> = some.iter().map(|event| event.moment).collect();
        let events: Vec<&str> = some.iter().map(|event| event.event.as_str()).collect();
        session.run(sql, values![numbers, moments, events]).await?;
    }
}

/// Brings the audit, and where it and the journal end. A chain that was only begun makes way for it.
pub(crate) async fn audit(session: &mut Session, export: &mut Export) -> Result<(), StoreError> {
    session
        .batch("UPDATE ends SET removed = sequence; DELETE FROM audit")
        .await?;
    let sql = "INSERT INTO audit (sequence, moment, hash, record)
               SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[])";
    let mut last = 0;
    loop {
        let some = export.audit(last)?;
        let Some(record) = some.last() else { break };
        last = record.sequence;
        let sequences: Vec<i64> = some.iter().map(|record| record.sequence).collect();
        let moments: Vec<i64> = some.iter().map(|record| record.moment).collect();
        let hashes: Vec<&str> = some.iter().map(|record| record.hash.as_str()).collect();
        let records: Vec<&str> = some.iter().map(|record| record.record.as_str()).collect();
        session.run(sql, values![sequences, moments, hashes, records]).await?;
    }
    let sql = "INSERT INTO ends (only_row, chain, sequence, hash, key, seal, removed, journal) VALUES (TRUE, $1, $2, $3, $4, $5, $6, $7)
               ON CONFLICT (only_row) DO UPDATE SET chain = excluded.chain, sequence = excluded.sequence, hash = excluded.hash,
                   key = excluded.key, seal = excluded.seal, removed = excluded.removed, journal = excluded.journal";
    let end = export.audit_end();
    let (
        Head {
            chain,
            sequence,
            hash,
            key,
            seal,
        },
        removed,
    ) = (end.head.clone(), signed(end.removed));
    let journal = signed(export.journal_end());
    session
        .run(sql, values![chain, signed(sequence), hash, key, seal, removed, journal])
        .await
        .map(drop)
}
