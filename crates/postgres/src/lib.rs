//! The store on PostgreSQL 14 or later: what a gateway keeps, and several gateways share.
//!
//! *Invariant:* the traits are those of [`toolgate_store`], and so is whatever needs no database: how changes of calls are made
//! ready, how the audit is chained, how outputs are named. Only gateways use this crate; a worker has no database. Every change is
//! one transaction; what it has to tell goes to the outbox with it, and is numbered and chained behind it. Nothing is kept in
//! a session of the database that more depends on than how soon something is heard: a pooler in transaction mode may stand in between.
//!
//! In reading order:
//!
//! - `options`, `text`, `values`, `error`: how a database is used, how texts and values are written for it, what its failures mean;
//! - `connection`: the pool, statements and transactions with a bounded time, what is tried again;
//! - `doubts`: what is known of changes without an answer;
//! - `schema` with `migrations/`, `partitions`: the tables, their versions, and the days that calls are kept by;
//! - `instances`: which runs of the service are alive; `agreement`: what their configurations should have the same; `fence`: that a run still has the workspace that it writes for;
//! - `sequencer`: from the outbox to audit and journal;
//! - `notes` with `live`: what is stored without anybody waiting for it;
//! - `store` with `listening`: one run's view of a database, and the tasks that work for it;
//! - `calls` with `adoption` and `sessions`, `prompts` with `settling`, `grants` and `approvers`, `facts`, `journal`, `audit`, `workspaces`, `changes`: one file for each trait;
//! - `outputs` with `parts`: stored outputs, and where their bytes are;
//! - `bucket`, `bucket_objects`, `bucket_moves`, `bucket_uploads`: a bucket, what it has of outputs, how that comes there and goes, and
//!   how others may put it there;
//! - `ledger`: what runs without a database write; `holds`: which workspaces they have; `bindings`: what those may have that came without
//!   one; `outputs_for`: their outputs; `reaper`: what the dead among them left; `lost_output`: what is missing of that;
//! - `created`, `created_steps`: workspaces that clients create: what is wanted of each, and what gateways do about it;
//! - `query`, `retention`: listings by pages, and how old calls go;
//! - `import` with `import_rows` and `import_check`: the history of a data directory, brought into an empty database.

mod adoption;
mod agreement;
mod approvers;
mod audit;
mod bindings;
mod bucket;
mod bucket_moves;
mod bucket_objects;
mod bucket_uploads;
mod calls;
mod changes;
mod connection;
mod created;
mod created_steps;
mod doubts;
mod error;
mod facts;
mod fence;
mod grants;
mod holds;
mod import;
mod import_check;
mod import_rows;
mod instances;
mod journal;
mod ledger;
mod listening;
mod live;
mod lost_output;
mod notes;
mod options;
mod outputs;
mod outputs_for;
mod partitions;
mod parts;
mod prompts;
mod query;
mod reaper;
mod retention;
mod schema;
mod sequencer;
mod sessions;
mod settling;
mod store;
mod text;
mod values;
mod workspaces;

pub use self::bucket::{Bucket, BucketKeys, BucketOptions};
pub use self::changes::MAX_BLOB_BYTES;
pub use self::error::remedy;
pub use self::import::{Imported, import, look};
pub use self::options::{CONNECTIONS, PostgresOptions};
pub use self::schema::{SchemaState, check, migrate};
pub use self::store::PostgresStore;
