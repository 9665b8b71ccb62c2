//! Verification of an export, line by line, in bounded memory.
//!
//! *Invariant:* pure. An export passes only if it is, byte for byte, what the service wrote: every line is canonical, so
//! there is one way to write a record.

use std::collections::{BTreeSet, VecDeque};

use serde::de::DeserializeOwned;

use super::{Head, HeadLine, Key, Kind, NO_HASH, Record, canonical, hash, shorten};

/// So many hashes are remembered to tell a record that comes twice from one in the wrong place.
const MAX_REMEMBERED_HASHES: usize = 4096;

/// No line of the service's own is longer.
const MAX_LINE_BYTES: usize = 256 * 1024;

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// A line is not what was written.
    Changed,
    /// Records are not there.
    Missing,
    /// Records are not in their order.
    Reordered,
    /// A record comes twice.
    Duplicated,
    /// The end is not there.
    Truncated,
    /// Something stands behind the end.
    Added,
    /// It cannot be verified without a key that was not given, or is not made with the one that was.
    Key,
    /// A hash that was noted elsewhere is not in the chain.
    Anchor,
}

impl Problem {
    /// Returns the word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Changed => "changed",
            Self::Missing => "missing",
            Self::Reordered => "reordered",
            Self::Duplicated => "duplicated",
            Self::Truncated => "truncated",
            Self::Added => "added",
            Self::Key => "key",
            Self::Anchor => "anchor",
        }
    }
}

/// The first thing that is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}{}: {}: {detail}", of_record(*sequence), problem.as_str())]
pub struct Finding {
    /// The line, from 1.
    pub line: u64,
    /// The record, if there is one to name.
    pub sequence: Option<u64>,
    /// What.
    pub problem: Problem,
    /// A sentence.
    pub detail: String,
}

fn of_record(sequence: Option<u64>) -> String {
    sequence
        .map(|sequence| format!(" (record {sequence})"))
        .unwrap_or_default()
}

/// What was verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// How many records.
    pub count: u64,
    /// The number of the first.
    pub first: u64,
    /// The end of the chain.
    pub head: Head,
}

/// Verifies lines as they come.
#[derive(Debug, Default)]
pub struct Verifier {
    keys: Vec<Key>,
    from: Option<u64>,
    anchors: BTreeSet<String>,
    lines: u64,
    count: u64,
    first: u64,
    /// The number and hash of the last good record, and its key.
    last: Option<(u64, String, String)>,
    /// The chain's name, as soon as a record says it.
    chain: String,
    /// What the first record goes on from, until a checkpoint answers for it.
    open_start: Option<(u64, String)>,
    recent: VecDeque<String>,
    /// A record is not where it should be; whether it comes later says what is wrong.
    gap: Option<(u64, Finding)>,
    head: Option<Head>,
}

impl Verifier {
    /// Makes a verifier. With keys, the end must be made with one of them.
    pub fn new(keys: Vec<Key>) -> Self {
        Self {
            keys,
            ..Self::default()
        }
    }

    /// Says that what is verified is the part of a chain from this record on.
    pub fn from(mut self, sequence: u64) -> Self {
        self.from = Some(sequence);
        self
    }

    /// Demands that a record of this hash is there: one that was noted elsewhere.
    pub fn expect(mut self, hash: &str) -> Self {
        self.anchors.insert(hash.to_ascii_lowercase());
        self
    }

    /// Takes the next line, without its line feed.
    ///
    /// # Errors
    /// Something is wrong; nothing further needs to be read.
    pub fn line(&mut self, line: &[u8]) -> Result<(), Finding> {
        self.lines += 1;
        if let Some((wanted, _)) = &self.gap {
            return match parse::<Record>(line) {
                Ok(record) if record.sequence == *wanted => Err(self.gap_as(Problem::Reordered)),
                Ok(_) | Err(_) => Ok(()),
            };
        }
        if self.head.is_some() {
            return Err(self.finding(None, Problem::Added, "nothing may follow the head".to_owned()));
        }
        if let Ok(head) = parse::<HeadLine>(line) {
            return self.head(head);
        }
        let record = parse::<Record>(line).map_err(|why| self.finding(None, Problem::Changed, why))?;
        self.record(record)
    }

    fn gap_as(&mut self, problem: Problem) -> Finding {
        match self.gap.take() {
            Some((_, finding)) => Finding { problem, ..finding },
            None => self.finding(None, problem, String::new()),
        }
    }

    fn record(&mut self, record: Record) -> Result<(), Finding> {
        let sequence = record.sequence;
        let finding = |this: &Self, problem, detail: String| Err(this.finding(Some(sequence), problem, detail));
        let unhashed = Record {
            hash: String::new(),
            ..record.clone()
        };
        let key = self.keys.iter().find(|key| key.id() == record.key);
        if key.is_none() && !record.key.is_empty() {
            let detail = format!(
                "the record is made with the key {}, which was not given",
                shorten(&record.key)
            );
            return finding(self, Problem::Key, detail);
        }
        if hash(&canonical(&unhashed), key) != record.hash {
            return finding(self, Problem::Changed, "its hash is not that of its content".to_owned());
        }
        match self.last.clone() {
            None => self.begin(&record)?,
            Some((last, last_hash, last_key)) => {
                if sequence <= last {
                    let twice = self.recent.contains(&record.hash);
                    let problem = if twice { Problem::Duplicated } else { Problem::Reordered };
                    return finding(self, problem, format!("it stands behind record {last}"));
                }
                if sequence > last + 1 {
                    let detail = format!("record {} should be here", last + 1);
                    let found = self.finding(Some(sequence), Problem::Missing, detail);
                    self.gap = Some((last + 1, found));
                    return Ok(());
                }
                if record.previous != last_hash {
                    let detail = format!("it does not follow the record {last} that stands before it");
                    return finding(self, Problem::Changed, detail);
                }
                if record.key.is_empty() && !last_key.is_empty() {
                    return finding(
                        self,
                        Problem::Key,
                        "it is made without the key of those before it".to_owned(),
                    );
                }
            }
        }
        self.take(record);
        Ok(())
    }

    fn begin(&mut self, record: &Record) -> Result<(), Finding> {
        let sequence = record.sequence;
        let finding = |problem, detail: String| Err(self.finding(Some(sequence), problem, detail));
        match self.from {
            Some(from) if sequence != from => {
                return finding(Problem::Missing, format!("record {from} should be the first"));
            }
            Some(_) if sequence > 1 => {}
            Some(_) | None if sequence == 1 => {
                if record.fact.kind != Kind::Genesis || record.previous != NO_HASH {
                    return finding(Problem::Changed, "it is not the beginning of a chain".to_owned());
                }
            }
            Some(_) | None => self.open_start = Some((sequence.saturating_sub(1), record.previous.clone())),
        }
        self.first = sequence;
        Ok(())
    }

    fn take(&mut self, record: Record) {
        if record.fact.kind == Kind::Checkpoint
            && self.open_start
                == record
                    .fact
                    .removed
                    .map(|removed| (removed, record.fact.removed_hash.clone()))
        {
            self.open_start = None;
        }
        if self.chain.is_empty() {
            self.chain.clone_from(&record.fact.chain);
        }
        self.anchors.remove(&record.hash);
        if self.recent.len() == MAX_REMEMBERED_HASHES {
            self.recent.pop_front();
        }
        self.recent.push_back(record.hash.clone());
        self.count += 1;
        self.last = Some((record.sequence, record.hash, record.key));
    }

    fn head(&mut self, line: HeadLine) -> Result<(), Finding> {
        let head = line.head;
        let finding = |problem, detail: &str| Err(self.finding(None, problem, detail.to_owned()));
        let sealed = self.keys.iter().find(|key| key.id() == head.key);
        match sealed {
            Some(key) if head.seal(key) != head.seal => {
                return finding(Problem::Changed, "the seal of the head is broken");
            }
            None if !head.key.is_empty() => {
                return finding(Problem::Key, "the head is made with a key that was not given");
            }
            None if !self.keys.is_empty() => return finding(Problem::Key, "the head is made without a key"),
            Some(_) | None => {}
        }
        let Some((last, last_hash, _)) = &self.last else {
            return finding(Problem::Missing, "there is a head and no record");
        };
        if head.sequence > *last {
            return finding(Problem::Truncated, "records before the head are missing");
        }
        if !self.chain.is_empty() && self.chain != head.chain {
            return finding(Problem::Changed, "the head is that of another chain");
        }
        if head.sequence < *last || head.hash != *last_hash {
            return finding(Problem::Changed, "the head is not that of the last record");
        }
        if let Some((removed, _)) = &self.open_start {
            let detail = format!("no checkpoint says that the records up to {removed} were removed");
            return finding(Problem::Missing, &detail);
        }
        if line.count != self.count {
            return finding(Problem::Changed, "the head counts other records than there are");
        }
        self.head = Some(head);
        Ok(())
    }

    /// Says what was verified, when there are no more lines.
    ///
    /// # Errors
    /// Something is missing.
    pub fn finish(mut self) -> Result<Verified, Finding> {
        self.lines += 1;
        if self.gap.is_some() {
            return Err(self.gap_as(Problem::Missing));
        }
        let Some(head) = self.head.clone() else {
            return Err(self.finding(None, Problem::Truncated, "the head is missing".to_owned()));
        };
        if let Some(anchor) = self.anchors.first() {
            let detail = format!("no record has the hash {}", shorten(anchor));
            return Err(self.finding(None, Problem::Anchor, detail));
        }
        Ok(Verified {
            count: self.count,
            first: self.first,
            head,
        })
    }

    /// Verifies a whole text.
    ///
    /// # Errors
    /// Something is wrong.
    pub fn text(mut self, text: &[u8]) -> Result<Verified, Finding> {
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            let Some(whole) = line.strip_suffix(b"\n") else {
                return Err(self.cut());
            };
            self.line(whole)?;
        }
        self.finish()
    }

    /// Says what is wrong with an export whose last line does not end.
    pub fn cut(mut self) -> Finding {
        self.lines += 1;
        if self.gap.is_some() {
            return self.gap_as(Problem::Missing);
        }
        self.finding(None, Problem::Truncated, "the last line does not end".to_owned())
    }

    fn finding(&self, sequence: Option<u64>, problem: Problem, detail: String) -> Finding {
        Finding {
            line: self.lines,
            sequence,
            problem,
            detail,
        }
    }
}

/// Reads a line that must be written just as the service writes it.
fn parse<T: DeserializeOwned + serde::Serialize>(line: &[u8]) -> Result<T, String> {
    if line.len() > MAX_LINE_BYTES {
        return Err(format!("it has {} bytes, more than any record", line.len()));
    }
    let value: T = serde_json::from_slice(line).map_err(|error| format!("it is not a record: {error}"))?;
    if canonical(&value).as_bytes() == line {
        Ok(value)
    } else {
        Err("it is not written as the service writes it".to_owned())
    }
}
