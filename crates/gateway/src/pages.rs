//! Where a list of all workers was left off: the token of a page.
//!
//! *Invariant:* it says for each worker by name where that one's list goes on, so that it stays good while workers come and go, and
//! at every gateway. What cannot be read is refused.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use tonic::Status;
use toolgate_server::grpc::status;

/// What the first letter of a token says: how to read the rest.
const VERSION: char = '1';

/// A moment, in seconds and nanoseconds: by it the lists of several workers are put into one order.
pub(crate) type Moment = (i64, i32);

/// What was shown last of a worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Shown {
    /// Its id.
    #[serde(rename = "i")]
    pub(crate) id: String,
    /// When it was.
    #[serde(rename = "m")]
    pub(crate) moment: Moment,
}

/// Where the list of one worker goes on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Place {
    /// The worker's own token of the page that was read last.
    #[serde(rename = "t", default)]
    pub(crate) token: String,
    /// What was shown last of that page; none if nothing was.
    #[serde(rename = "s", default)]
    pub(crate) shown: Option<Shown>,
}

/// Where all lists go on; none for those that are read to their end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Places(pub(crate) BTreeMap<String, Option<Place>>);

impl Places {
    /// Reads a token; an empty one is for the beginning.
    pub(crate) fn read(token: &str) -> Result<Self, Status> {
        if token.is_empty() {
            return Ok(Self::default());
        }
        let wrong = || status::bad_field("page_token", "it is no token of this list");
        let text = token.strip_prefix(VERSION).ok_or_else(wrong)?;
        let json = URL_SAFE_NO_PAD.decode(text).map_err(|_| wrong())?;
        serde_json::from_slice(&json).map(Self).map_err(|_| wrong())
    }

    /// Writes a token; empty at the end of all lists.
    pub(crate) fn token(&self) -> String {
        if self.0.values().all(Option::is_none) {
            return String::new();
        }
        let json = serde_json::to_vec(&self.0).expect("texts and numbers are JSON");
        format!("{VERSION}{}", URL_SAFE_NO_PAD.encode(json))
    }

    /// Returns where the list of a worker goes on: at the beginning if it is new. None if it is at its end.
    pub(crate) fn of(&self, worker: &str) -> Option<Place> {
        self.0.get(worker).cloned().unwrap_or_else(|| Some(Place::default()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn tokens_are_read_as_they_were_written() {
        let shown = Shown {
            id: "call~w".to_owned(),
            moment: (7, 8),
        };
        let place = Place {
            token: "t".to_owned(),
            shown: Some(shown),
        };
        let places = Places([("a".to_owned(), Some(place.clone())), ("b".to_owned(), None)].into());
        let read = Places::read(&places.token()).unwrap();
        assert_eq!(read, places);
        assert_eq!(
            (read.of("a"), read.of("b"), read.of("c")),
            (Some(place), None, Some(Place::default()))
        );
        assert_eq!(Places([("b".to_owned(), None)].into()).token(), "");
        for wrong in ["x", "1", "1?", "2e30", "1e30x"] {
            assert!(Places::read(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn no_token_panics(text in "1?[A-Za-z0-9_-]{0,40}") {
            let _ = Places::read(&text);
        }
    }
}
