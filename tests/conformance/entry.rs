//! File entries of the cases: what is put into a folder, or must be found there.
//!
//! *Invariant:* an entry is exactly one thing.

use base64::Engine as _;
use serde::Deserialize;

/// A file, folder, link or pipe.
#[derive(Deserialize)]
#[serde(try_from = "RawEntry")]
pub(crate) struct Entry {
    pub(crate) content: Content,
    pub(crate) mode: Option<u32>,
    pub(crate) mtime_seconds_ago: Option<u64>,
}

/// What an entry is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// A file; placeholders in the text are replaced.
    Text(String),
    /// A file, byte by byte.
    Bytes(Vec<u8>),
    Folder,
    Symlink(String),
    Fifo,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawEntry {
    text: Option<String>,
    base64: Option<String>,
    repeat: Option<Repeat>,
    lines: Option<Lines>,
    dir: Option<bool>,
    symlink: Option<String>,
    fifo: Option<bool>,
    mode: Option<String>,
    mtime_seconds_ago: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Repeat {
    text: String,
    times: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Lines {
    prefix: String,
    from: u64,
    to: u64,
}

impl TryFrom<RawEntry> for Entry {
    type Error = String;

    fn try_from(raw: RawEntry) -> Result<Self, String> {
        let mut contents = Vec::new();
        contents.extend(raw.text.map(Content::Text));
        if let Some(text) = raw.base64 {
            let bytes = base64::engine::general_purpose::STANDARD.decode(text);
            contents.push(Content::Bytes(bytes.map_err(|error| format!("base64: {error}"))?));
        }
        contents.extend(raw.repeat.map(|it| Content::Text(it.text.repeat(it.times))));
        contents.extend(raw.lines.map(|it| {
            let lines = (it.from..=it.to).map(|number| format!("{}{number}\n", it.prefix));
            Content::Text(lines.collect())
        }));
        contents.extend(raw.dir.filter(|is| *is).map(|_| Content::Folder));
        contents.extend(raw.symlink.map(Content::Symlink));
        contents.extend(raw.fifo.filter(|is| *is).map(|_| Content::Fifo));
        let [content] = <[Content; 1]>::try_from(contents)
            .map_err(|contents| format!("a file entry is exactly one thing, this one is {}", contents.len()))?;
        let mode = raw.mode.map(|mode| u32::from_str_radix(&mode, 8)).transpose();
        Ok(Self {
            content,
            mode: mode.map_err(|error| format!("mode: {error}"))?,
            mtime_seconds_ago: raw.mtime_seconds_ago,
        })
    }
}
