//! The generic suite of the stores over gRPC: a worker's store, a real gateway, a real PostgreSQL; and what only this promises.
//!
//! *Invariant:* the cases are the files that the tests of the program have too. A server is there, or the tests fail.

#![allow(clippy::disallowed_methods)] // tests make the folders and programs they work with
#![allow(clippy::wildcard_enum_match_arm)] // the other arm of a test is its failure
#![allow(clippy::unwrap_used)] // what a test needs is there, or the test fails

mod bounds;
mod doubts;
mod faults;
mod fixture;
mod found;
mod gateway;
mod identity;
mod idle;
mod mixed;
mod proxy;
mod refused;
mod uploads;

#[path = "../../../postgres/tests/store/content.rs"]
mod content;

#[allow(dead_code)] // the tests of PostgreSQL use more of it
#[path = "../../../postgres/tests/store/server.rs"]
mod server;

#[allow(dead_code)] // the tests of PostgreSQL use more of it
#[path = "../../../postgres/tests/store/fixture.rs"]
mod postgres;

#[allow(dead_code)] // the tests of PostgreSQL use more of it
#[path = "../../../postgres/tests/store/s3.rs"]
mod s3;

#[allow(dead_code)] // the tests of PostgreSQL use more of it
#[path = "../../../postgres/tests/store/s3_bucket.rs"]
mod s3_bucket;

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

    mod on_ledger {
        use super::suite;
        use crate::fixture::LedgerFixture;

        suite!(LedgerFixture::new().await);
    }
}
