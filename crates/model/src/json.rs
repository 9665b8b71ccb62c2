//! Free JSON maps: metadata, `extra`, the facts of a session.
//!
//! *Invariant:* plain data, like the rest of the vocabulary.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// A free map, as metadata and `extra` are; the order of keys is kept.
pub type JsonMap = Map<String, Value>;

/// Facts of one session that outlive a call, such as the files that it has read: key to JSON value.
pub type Facts = BTreeMap<String, Value>;

/// Makes a JSON map from pairs.
pub fn json_map<const N: usize>(pairs: [(&str, Value); N]) -> JsonMap {
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}
