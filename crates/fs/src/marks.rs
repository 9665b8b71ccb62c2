//! Read marks: what a session has seen of a file, so that it never overwrites what it has not seen.
//!
//! *Invariant:* pure. A mark is taken from the very bytes that were shown or written. A file counts as modified only
//! if its content differs; times and sizes decide only for files too large to be hashed
//! (`docs/spec/file-tools.md` §1.5).

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// Files up to this size are hashed when they are read. Beyond it a mark holds only the file's identity: hashing would
/// cost more than reading, and such files are not overwritten by tools anyway.
pub const MAX_HASHED: u64 = 64 << 20;

/// What a session remembers of a file that it has read or written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadMark {
    /// Bytes.
    pub size: u64,
    /// Time of the last modification, nanoseconds since 1970.
    pub mtime_ns: i64,
    /// The device that holds the file.
    pub dev: u64,
    /// The file's number on its device.
    pub ino: u64,
    /// SHA-256 of the content, hexadecimal; none above [`MAX_HASHED`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// When the file was read, milliseconds since 1970.
    pub read_ms: i64,
}

impl ReadMark {
    /// Makes the mark of a file from its metadata at the time of reading and the hash of what was read.
    pub fn new(metadata: &Metadata, sha256: Option<String>, read: SystemTime) -> Self {
        Self {
            size: metadata.len(),
            mtime_ns: mtime_ns(metadata),
            dev: metadata.dev(),
            ino: metadata.ino(),
            sha256,
            read_ms: millis(read),
        }
    }

    /// Returns the name under which a session keeps the mark of the file at the real path `real`.
    pub fn key(real: &Path) -> String {
        format!("read:{}", real.to_string_lossy())
    }

    /// Returns when the file was read.
    pub fn read_at(&self) -> SystemTime {
        match u64::try_from(self.read_ms) {
            Ok(after) => UNIX_EPOCH + Duration::from_millis(after),
            Err(_) => UNIX_EPOCH - Duration::from_millis(self.read_ms.unsigned_abs()),
        }
    }

    /// Says whether a file with this hash and metadata is the one that the mark was made from.
    pub fn matches(&self, sha256: &str, metadata: &Metadata) -> bool {
        match &self.sha256 {
            Some(seen) => seen == sha256,
            None => {
                (self.size, self.mtime_ns, self.dev, self.ino)
                    == (metadata.len(), mtime_ns(metadata), metadata.dev(), metadata.ino())
            }
        }
    }
}

/// Returns the SHA-256 of bytes, hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// Returns a moment as JavaScript's `toISOString` has it: UTC, milliseconds, `Z`.
pub fn iso8601(time: SystemTime) -> String {
    let millis = millis(time);
    let (days, of_day) = (millis.div_euclid(86_400_000), millis.rem_euclid(86_400_000));
    let (year, month, day) = civil_date(days);
    let (hour, minute) = (of_day / 3_600_000, of_day / 60_000 % 60);
    let (second, milli) = (of_day / 1000 % 60, of_day % 1000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
}

/// Returns year, month and day of the day `days` after 1970-01-01. The year is taken to begin in March, so that the
/// leap day is its last, and 400 years have a fixed number of days.
fn civil_date(days: i64) -> (i64, i64, i64) {
    const DAYS_IN_400_YEARS: i64 = 146_097;
    const FROM_YEAR_ZERO_TO_1970: i64 = 719_468;
    let shifted = days + FROM_YEAR_ZERO_TO_1970;
    let era = shifted.div_euclid(DAYS_IN_400_YEARS);
    let day_of_era = shifted.rem_euclid(DAYS_IN_400_YEARS);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year, month, day)
}

fn millis(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_millis()).unwrap_or(i64::MAX),
        Err(before) => -i64::try_from(before.duration().as_millis()).unwrap_or(i64::MAX),
    }
}

fn mtime_ns(metadata: &Metadata) -> i64 {
    metadata
        .mtime()
        .saturating_mul(1_000_000_000)
        .saturating_add(metadata.mtime_nsec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_times_like_javascript() {
        let check = |millis: i64, expected: &str| {
            let time = if millis < 0 {
                UNIX_EPOCH - Duration::from_millis(millis.unsigned_abs())
            } else {
                UNIX_EPOCH + Duration::from_millis(millis.unsigned_abs())
            };
            assert_eq!(iso8601(time), expected);
        };
        check(0, "1970-01-01T00:00:00.000Z");
        check(-1, "1969-12-31T23:59:59.999Z");
        check(951_782_400_000, "2000-02-29T00:00:00.000Z");
        check(1_709_164_800_123, "2024-02-29T00:00:00.123Z");
        check(1_767_225_599_999, "2025-12-31T23:59:59.999Z");
        check(4_107_542_400_000, "2100-03-01T00:00:00.000Z");
    }

    #[test]
    fn only_other_content_is_a_modification() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a");
        std::fs::write(&file, "old").unwrap();
        let before = file.metadata().unwrap();
        let hashed = ReadMark::new(&before, Some(sha256(b"old")), SystemTime::now());
        let unhashed = ReadMark::new(&before, None, SystemTime::now());
        std::fs::write(folder.path().join("b"), "old").unwrap();
        let other = folder.path().join("b").metadata().unwrap();
        let (old, new) = (sha256(b"old"), sha256(b"new"));
        assert!(hashed.matches(&old, &before) && hashed.matches(&old, &other));
        assert!(!hashed.matches(&new, &before));
        assert!(unhashed.matches(&old, &before) && !unhashed.matches(&old, &other));
    }

    #[test]
    fn survives_storing() {
        let metadata = std::env::temp_dir().metadata().unwrap();
        let mark = ReadMark::new(&metadata, Some(sha256(b"")), UNIX_EPOCH + Duration::from_millis(5));
        let stored = serde_json::to_value(&mark).unwrap();
        assert_eq!(serde_json::from_value::<ReadMark>(stored).unwrap(), mark);
        assert_eq!(mark.read_at(), UNIX_EPOCH + Duration::from_millis(5));
    }
}
