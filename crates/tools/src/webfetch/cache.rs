//! What was fetched a moment ago, so that a page that is looked at twice is asked for once.
//!
//! *Invariant:* bounded in number, bytes and time, all sessions together. A page is found only by the session that
//! fetched it, and who may see it is for whoever finds it to ask.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::time::Instant;
use toolgate_model::SessionId;
use toolgate_web::Url;
use toolgate_web::header::{CACHE_CONTROL, HeaderMap, PRAGMA, VARY};

/// How long a page counts as fetched just now.
const MAX_AGE: Duration = Duration::from_secs(60);
const MOST_PAGES: usize = 50;
const MOST_BYTES: usize = 16 << 20;

/// What a successful request brought.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Page {
    /// The status of the answer.
    pub(super) status: u16,
    /// The header as it came; empty for none.
    pub(super) content_type: String,
    pub(super) body: Bytes,
    /// Where redirects led.
    pub(super) hops: Vec<Url>,
}

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) workspace: String,
    pub(super) session: SessionId,
    pub(super) url: Url,
    pub(super) accept: &'static str,
}

/// The pages of all sessions. Protects a queue, the oldest first; never held across an await.
#[derive(Debug, Default)]
pub(super) struct Cache(Mutex<VecDeque<Entry>>);

#[derive(Debug)]
struct Entry {
    key: Key,
    page: Arc<Page>,
    stale: Instant,
}

impl Cache {
    /// Returns what was fetched a moment ago.
    pub(super) fn get(&self, key: &Key) -> Option<Arc<Page>> {
        let mut entries = self.0.lock();
        drop_stale(&mut entries);
        let found = entries.iter().find(|entry| entry.key == *key);
        found.map(|entry| Arc::clone(&entry.page))
    }

    /// Keeps a page for a moment, if its headers do not forbid it.
    pub(super) fn put(&self, key: Key, page: &Arc<Page>, headers: &HeaderMap) {
        let fresh = freshness(headers);
        let mut entries = self.0.lock();
        drop_stale(&mut entries);
        entries.retain(|entry| entry.key != key);
        if fresh.is_zero() {
            return;
        }
        entries.push_back(Entry {
            key,
            page: Arc::clone(page),
            stale: Instant::now() + fresh,
        });
        while entries.len() > MOST_PAGES || bytes(&entries) > MOST_BYTES {
            entries.pop_front();
        }
    }
}

fn drop_stale(entries: &mut VecDeque<Entry>) {
    let now = Instant::now();
    entries.retain(|entry| entry.stale > now);
}

fn bytes(entries: &VecDeque<Entry>) -> usize {
    entries.iter().map(|entry| entry.page.body.len()).sum()
}

/// Returns how long an answer may be taken for the one that would come now.
fn freshness(headers: &HeaderMap) -> Duration {
    let values = headers.get_all(CACHE_CONTROL).iter().chain(headers.get_all(PRAGMA));
    let values = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    let mut fresh = MAX_AGE;
    for directive in values.map(|directive| directive.trim().to_ascii_lowercase()) {
        let seconds = directive
            .strip_prefix("max-age=")
            .and_then(|age| age.trim_matches('"').parse().ok());
        match seconds {
            Some(seconds) => fresh = fresh.min(Duration::from_secs(seconds)),
            None if directive.starts_with("no-cache") || directive == "no-store" => fresh = Duration::ZERO,
            None => {}
        }
    }
    let varies = headers.get_all(VARY).iter().any(|value| value.as_bytes() == b"*");
    if varies { Duration::ZERO } else { fresh }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(session: &str, path: &str) -> Key {
        Key {
            workspace: "w".to_owned(),
            session: SessionId::new(session),
            url: Url::parse("http://a.example/").unwrap().join(path).unwrap(),
            accept: "text/html",
        }
    }

    fn page(bytes: usize) -> Arc<Page> {
        Arc::new(Page {
            status: 200,
            content_type: "text/html".to_owned(),
            body: vec![b'x'; bytes].into(),
            hops: Vec::new(),
        })
    }

    #[tokio::test(start_paused = true)]
    async fn a_page_is_kept_for_a_moment() {
        let cache = Cache::default();
        cache.put(key("s", "a"), &page(1), &HeaderMap::new());
        assert_eq!(cache.get(&key("s", "a")), Some(page(1)));
        assert_eq!(cache.get(&key("t", "a")), None);
        assert_eq!(cache.get(&key("s", "b")), None);
        let other = Key {
            accept: "text/plain",
            ..key("s", "a")
        };
        assert_eq!(cache.get(&other), None);
        let other = Key {
            workspace: "v".to_owned(),
            ..key("s", "a")
        };
        assert_eq!(cache.get(&other), None);
        cache.put(key("s", "a"), &page(2), &HeaderMap::new());
        assert_eq!(cache.get(&key("s", "a")), Some(page(2)));
        tokio::time::advance(MAX_AGE).await;
        assert_eq!(cache.get(&key("s", "a")), None);
        assert!(cache.0.lock().is_empty());
    }

    #[tokio::test]
    async fn pages_are_few_and_small() {
        let cache = Cache::default();
        for at in 0..MOST_PAGES + 3 {
            cache.put(key("s", &at.to_string()), &page(1), &HeaderMap::new());
        }
        assert_eq!(cache.0.lock().len(), MOST_PAGES);
        assert!(cache.get(&key("s", "2")).is_none() && cache.get(&key("s", "3")).is_some());
        for at in 0..5 {
            cache.put(key("t", &at.to_string()), &page(5 << 20), &HeaderMap::new());
            assert!(bytes(&cache.0.lock()) <= MOST_BYTES);
        }
        assert!(cache.get(&key("t", "1")).is_none() && cache.get(&key("t", "4")).is_some());
    }

    #[test]
    fn headers_may_forbid_it() {
        let check = |name: &'static str, value: &str, seconds: u64| {
            let headers = HeaderMap::from_iter([(name.parse().unwrap(), value.parse().unwrap())]);
            assert_eq!(freshness(&headers), Duration::from_secs(seconds), "{name}: {value}");
        };
        check("etag", "x", 60);
        check("cache-control", "public, max-age=3600", 60);
        check("cache-control", "private, Max-Age=5", 5);
        check("cache-control", "no-store", 0);
        check("cache-control", "No-Cache, max-age=60", 0);
        check("cache-control", "max-age=0", 0);
        check("cache-control", "max-age=-1", 60);
        check("pragma", "no-cache", 0);
        check("vary", "*", 0);
        check("vary", "accept", 60);
    }
}
