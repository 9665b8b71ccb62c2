//! What a server has reported of which file, and waiting for it to have had its say.
//!
//! A server reports a file's findings as a whole, whenever it likes, often first what is quickly found and then the rest.
//! So a report counts as the last word when none has followed it for [`QUIET_PERIOD`].
//!
//! *Invariant:* bounded: files and bytes beyond the limits push out what was reported of other files.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::diagnostic::Diagnostic;
use super::uri;

/// How long no further report must come for the last one to count as final.
pub(super) const QUIET_PERIOD: Duration = Duration::from_millis(150);

/// What is kept of all files together, in bytes of JSON.
const MAX_BYTES: usize = 16 << 20;
const MAX_FILES: usize = 2000;

/// A report that a server made of its own accord.
#[derive(Clone, Debug)]
pub struct Published {
    /// The server's id.
    pub server: String,
    /// The file.
    pub path: PathBuf,
    /// Everything that the server has to say about it now.
    pub diagnostics: Arc<[Diagnostic]>,
}

/// A report as it arrives.
#[derive(Deserialize)]
struct PublishParams<'a> {
    uri: String,
    #[serde(default)]
    version: Option<i64>,
    #[serde(borrow)]
    diagnostics: &'a RawValue,
}

/// What was last reported of a file.
#[derive(Clone, Debug)]
struct Report {
    found: Arc<[Diagnostic]>,
    bytes: usize,
    version: Option<i64>,
    /// Its number among all that count; 0 for one that does not.
    serial: u64,
    at: Instant,
}

/// The reports of one server.
#[derive(Debug)]
pub(super) struct Reports {
    /// Whether the first report of each file is kept and not waited for: there is always a better one soon.
    first_is_partial: bool,
    files: Mutex<Files>,
    changed: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Files {
    reports: HashMap<PathBuf, Report>,
    bytes: usize,
    /// How many reports there were that count.
    serial: u64,
}

/// Where the reports stood at a moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReportMark(u64);

impl Reports {
    pub(super) fn new(first_is_partial: bool) -> Self {
        Self {
            first_is_partial,
            files: Mutex::default(),
            changed: watch::Sender::new(()),
        }
    }

    fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock()
    }

    /// Takes a report. Returns the file and what was found, if the report counts.
    pub(super) fn take(&self, params: &RawValue) -> Option<(PathBuf, Arc<[Diagnostic]>)> {
        let published: PublishParams<'_> = serde_json::from_str(params.get()).ok()?;
        let path = uri::to_path(&published.uri)?;
        let list: Vec<Value> = serde_json::from_str(published.diagnostics.get()).ok()?;
        let found: Arc<[Diagnostic]> = list.into_iter().map(Diagnostic::new).collect();
        let bytes = published.diagnostics.get().len();
        let is_partial = {
            let mut files = self.files();
            let is_partial = files.forget(&path).is_none() && self.first_is_partial;
            files.make_room(bytes);
            files.bytes += bytes;
            files.serial += u64::from(!is_partial);
            let serial = if is_partial { 0 } else { files.serial };
            let report = Report {
                found: Arc::clone(&found),
                bytes,
                version: published.version,
                serial,
                at: Instant::now(),
            };
            files.reports.insert(path.clone(), report);
            is_partial
        };
        if is_partial {
            return None;
        }
        self.changed.send_replace(());
        Some((path, found))
    }

    /// Drops what was reported of a file that is gone.
    pub(super) fn forget(&self, path: &Path) {
        self.files().forget(path);
    }

    /// Returns what was last reported of a file.
    pub(super) fn found_in(&self, path: &Path) -> Arc<[Diagnostic]> {
        let files = self.files();
        let report = files.reports.get(path);
        report.map_or_else(|| Arc::from([]), |report| Arc::clone(&report.found))
    }

    /// Returns what was last reported of every file.
    pub(super) fn all(&self) -> Vec<(PathBuf, Arc<[Diagnostic]>)> {
        let files = self.files();
        let reports = files.reports.iter();
        reports
            .map(|(path, report)| (path.clone(), Arc::clone(&report.found)))
            .collect()
    }

    /// Remembers where the reports stand. To be called before the server is told of a change.
    pub(super) fn mark(&self) -> ReportMark {
        ReportMark(self.files().serial)
    }

    /// Waits until reports have followed `mark` and none more follows. Reports about an earlier version than `version` are
    /// not meant. Returns the last one; none if there was none by `until`.
    pub(super) async fn settled(
        &self,
        path: &Path,
        mark: ReportMark,
        version: i64,
        until: Instant,
    ) -> Option<Arc<[Diagnostic]>> {
        let mut changed = self.changed.subscribe();
        loop {
            changed.mark_unchanged();
            let report = self.files().reports.get(path).cloned();
            let report =
                report.filter(|report| report.serial > mark.0 && report.version.is_none_or(|told| told >= version));
            let quiet = report.as_ref().map(|report| report.at + QUIET_PERIOD);
            let end = quiet.map_or(until, |quiet| quiet.min(until));
            if Instant::now() >= end {
                return report.map(|report| report.found);
            }
            // An error is the end of the time.
            let _ = timeout_at(end, changed.changed()).await;
        }
    }
}

impl Files {
    fn forget(&mut self, path: &Path) -> Option<Report> {
        let report = self.reports.remove(path)?;
        self.bytes -= report.bytes;
        Some(report)
    }

    fn make_room(&mut self, bytes: usize) {
        while self.reports.len() >= MAX_FILES || (self.bytes + bytes > MAX_BYTES && !self.reports.is_empty()) {
            let oldest = self.reports.iter().min_by_key(|(_, report)| report.at);
            let Some(oldest) = oldest.map(|(path, _)| path.clone()) else {
                return;
            };
            self.forget(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn publish(reports: &Reports, path: &str, version: Option<i64>, messages: &[&str]) -> bool {
        let diagnostics: Vec<Value> = messages.iter().map(|text| json!({"message": text})).collect();
        let mut params = json!({"uri": format!("file://{path}"), "diagnostics": diagnostics});
        if let Some(version) = version {
            params["version"] = json!(version);
        }
        let params = RawValue::from_string(params.to_string()).unwrap();
        reports.take(&params).is_some()
    }

    fn texts(found: &[Diagnostic]) -> Vec<&str> {
        found.iter().map(Diagnostic::message).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_word_is_waited_for() {
        let reports = Arc::new(Reports::new(false));
        let path = Path::new("/a");
        let limit = Duration::from_secs(3);
        let started = Instant::now();
        let mark = reports.mark();
        assert!(reports.settled(path, mark, 1, started + limit).await.is_none());
        assert_eq!(started.elapsed(), limit);

        let started = Instant::now();
        let told = async {
            for (pause, version, text) in [(10, Some(0), "old"), (10, None, "one"), (100, Some(1), "two")] {
                tokio::time::sleep(Duration::from_millis(pause)).await;
                assert!(publish(&reports, "/a", version, &[text]));
                assert!(publish(&reports, "/b", version, &[text]));
            }
        };
        let (found, ()) = tokio::join!(reports.settled(path, mark, 1, started + limit), told);
        assert_eq!(texts(&found.unwrap()), ["two"]);
        assert_eq!(started.elapsed(), Duration::from_millis(120) + QUIET_PERIOD);

        let started = Instant::now();
        let until = started + Duration::from_millis(50);
        let found = reports.settled(path, mark, 2, until).await;
        assert!(found.is_none(), "it is about an earlier version");
        assert_eq!(texts(&reports.found_in(path)), ["two"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_first_report_may_be_partial() {
        let reports = Reports::new(true);
        let path = Path::new("/a");
        let mark = reports.mark();
        assert!(!publish(&reports, "/a", None, &["first"]));
        assert_eq!(texts(&reports.found_in(path)), ["first"]);
        let soon = Instant::now() + Duration::from_secs(1);
        assert!(reports.settled(path, mark, 0, soon).await.is_none());
        assert!(publish(&reports, "/a", None, &[]));
        let soon = Instant::now() + Duration::from_secs(1);
        assert!(reports.settled(path, mark, 0, soon).await.unwrap().is_empty());
        reports.forget(path);
        assert!(!publish(&reports, "/a", None, &[]), "it is the first again");
    }

    #[tokio::test]
    async fn memory_stays_bounded() {
        let reports = Reports::new(false);
        let long = "x".repeat(1 << 20);
        for index in 0..40 {
            publish(&reports, &format!("/{index}"), None, &[&long]);
        }
        assert_eq!(reports.all().len(), 15);
        assert!(!reports.found_in(Path::new("/39")).is_empty());
        for index in 0..MAX_FILES + 50 {
            publish(&reports, &format!("/{index}"), None, &[]);
        }
        assert_eq!(reports.all().len(), MAX_FILES);
        for strange in [
            "[]",
            "{}",
            r#"{"uri": "file:///a"}"#,
            r#"{"uri": "x:", "diagnostics": []}"#,
        ] {
            assert!(
                reports
                    .take(&RawValue::from_string(strange.to_owned()).unwrap())
                    .is_none()
            );
        }
    }
}
