//! The embedded store: SQLite in WAL mode and spool files in the data directory.
