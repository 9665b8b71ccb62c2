//! The generic suite of the stores on PostgreSQL, and what only this store promises.
//!
//! *Invariant:* the cases are the files that the tests of the program have too. The servers are there, or the tests fail.

#![allow(clippy::disallowed_methods)] // tests make the folders and programs they work with
#![allow(clippy::wildcard_enum_match_arm)] // the other arm of a test is its failure
#![allow(clippy::unwrap_used)] // what a test needs is there, or the test fails

mod approvers;
mod bindings;
mod bounds;
mod bucket;
mod clocks;
mod content;
mod crash;
mod created;
mod days;
mod doubtful;
mod fixture;
mod hanging;
mod heard;
mod holding;
mod importing;
mod leases;
mod migrations;
mod noted;
mod pieces;
mod pooler;
mod proxy;
mod races;
mod reaping;
mod refused;
mod retries;
mod s3;
mod s3_bucket;
mod server;
mod stopped;
mod sweeps;
mod tls;
mod unanswered;
mod uploads;
mod without_database;

#[path = "../../../../tests/it/store"]
mod store {
    mod audit;
    mod calls;
    mod changes;
    mod outputs;
    mod prefixes;
    mod prompts;
    mod records;
    mod suite;

    pub(crate) use self::suite::*;

    mod on_postgres {
        use super::suite;
        use crate::fixture::PostgresFixture;

        suite!(PostgresFixture::new().await);
    }

    mod behind_a_pooler {
        use super::suite;

        suite! {
            crate::pooler::fixture().await;
            calls: create_and_take, append_continues_the_log, two_writers_race, a_restart_finds_calls, orphans_change_owner_once, events_by_pages,
                filters, many_at_once;
            prompts: first_reply_wins, two_stores_settle_once, cascades, uses_are_counted;
            records: facts_are_seen_at_once, facts_before_appends, journal_wakes_readers_of_others, journal_of_two_stores;
            outputs: written_and_read, read_while_written, deleted;
            audit: two_stores_keep_one_chain;
            changes: contents_are_kept;
        }
    }

    mod on_postgres_with_a_bucket {
        use super::suite;
        use crate::fixture::PostgresFixture;

        suite! {
            PostgresFixture::with_bucket(crate::s3::shared().await.bucket(None, "suite")).await;
            outputs: written_and_read, ranges, read_while_written, dropped_writer, never_written, large_ones, listed, deleted,
                kept_after_restart, swept_by_age, swept_by_size, unknown_outputs;
        }
    }
}
