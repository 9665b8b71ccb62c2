//! Listing a folder in portions, so that a folder of any size takes a bounded piece of memory.
//!
//! *Invariant:* `.`, `..` and `.git` are never among the entries.

use std::ffi::CStr;
use std::os::fd::OwnedFd;

use rustix::fs::{FileType, RawDir};
use rustix::io::Errno;

use super::ignore_rules::Marks;

/// Bytes of names that are held at once; a larger folder is taken in portions.
pub(super) const PORTION: usize = 256 * 1024;

/// Some entries of a folder, in one piece of memory.
#[derive(Default)]
pub(super) struct Portion {
    names: Vec<u8>,
    entries: Vec<(usize, FileType)>,
    /// The marks among them.
    pub(super) marks: Marks,
    /// Whether the listing broke off.
    pub(super) failed: bool,
}

impl Portion {
    /// Takes the next entries of a listing; says whether it has come to the end.
    pub(super) fn fill(&mut self, listing: &mut RawDir<'_, &OwnedFd>) -> bool {
        self.names.clear();
        self.entries.clear();
        self.marks = Marks::default();
        self.failed = false;
        while self.names.len() < PORTION {
            match listing.next() {
                None => return true,
                Some(Ok(entry)) => {
                    let name = entry.file_name();
                    self.marks.record(name.to_bytes());
                    if !matches!(name.to_bytes(), b"." | b".." | b".git") {
                        self.entries.push((self.names.len(), entry.file_type()));
                        self.names.extend_from_slice(name.to_bytes_with_nul());
                    }
                }
                Some(Err(error)) => {
                    self.failed = error != Errno::NOENT;
                    return true;
                }
            }
        }
        false
    }

    /// Returns how many entries it holds.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the entries in the folder's own order.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&CStr, FileType)> {
        self.entries.iter().filter_map(|&(at, kind)| {
            let name = CStr::from_bytes_until_nul(&self.names[at..]).ok()?;
            Some((name, kind))
        })
    }
}
