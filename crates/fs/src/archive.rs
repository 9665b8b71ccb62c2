//! Tar archives: read as a list of files that may come into a folder, and written entry by entry.
//!
//! *Invariant:* what is read are files and folders by names that stay below the folder they come to: no absolute path, no `..`,
//! no link, no device, nothing twice. An archive with anything else is refused as a whole, and so is one beyond the bounds.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use bytes::Bytes;
use tar::{Archive, Builder, EntryType, Header};

use super::newest::Modified;
use super::tree::{Entry, EntryKind};

/// The permission bits that an archive may give.
const MODE_BITS: u32 = 0o777;

/// Bytes of a block; what is in an archive is filled up to whole ones.
pub const BLOCK: u64 = 512;

/// What ends an archive.
pub const END: [u8; 1024] = [0; 1024];

/// What is in an archive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Its files.
    pub files: Vec<Member>,
    /// Its folders, as it names them; those of files need not be named.
    pub folders: Vec<PathBuf>,
}

/// A file in an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its path, relative.
    pub path: PathBuf,
    /// Its permission bits.
    pub mode: u32,
    /// Its content.
    pub bytes: Bytes,
}

/// Why an archive is not read.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// An entry may not come into a folder.
    #[error("The archive has the entry {name:?}, {why}. Nothing of it was written.")]
    Refused {
        /// Its name.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// There are too many entries.
    #[error("The archive has more than {limit} entries. Nothing of it was written.")]
    TooMany {
        /// How many it may have.
        limit: usize,
    },
    /// It has too many bytes.
    #[error("The files of the archive have more than {limit} bytes. Nothing of it was written.")]
    TooLarge {
        /// How many they may have.
        limit: u64,
    },
    /// It is no tar archive, or a part of it is missing.
    #[error("The content is not a tar archive that can be read: {0}.")]
    Malformed(#[source] io::Error),
}

/// Reads an archive. Blocks.
///
/// # Errors
/// See [`ArchiveError`].
pub fn read(archive: &[u8], max_entries: usize, max_bytes: u64) -> Result<Contents, ArchiveError> {
    let mut contents = Contents::default();
    let (mut seen, mut total) = (BTreeSet::new(), 0_u64);
    let mut reader = Archive::new(archive);
    for (index, entry) in reader.entries().map_err(ArchiveError::Malformed)?.enumerate() {
        if index >= max_entries {
            return Err(ArchiveError::TooMany { limit: max_entries });
        }
        let mut entry = entry.map_err(ArchiveError::Malformed)?;
        let kind = entry.header().entry_type();
        // What git writes about the commit.
        if kind == EntryType::XGlobalHeader {
            continue;
        }
        let name = entry.path_bytes().into_owned();
        let refused = |why| ArchiveError::Refused {
            name: String::from_utf8_lossy(&name).into_owned(),
            why,
        };
        if !matches!(kind, EntryType::Regular | EntryType::Continuous | EntryType::Directory) {
            return Err(refused("which is neither a file nor a folder"));
        }
        let path = below(&name).map_err(refused)?;
        if path.as_os_str().is_empty() && kind == EntryType::Directory {
            continue;
        }
        let is_named = path.file_name().is_some_and(|last| name.ends_with(last.as_bytes()));
        if kind != EntryType::Directory && !is_named {
            return Err(refused("whose name is one of a folder, and which is a file"));
        }
        if kind == EntryType::Directory {
            contents.folders.push(path);
            continue;
        }
        if !seen.insert(path.clone()) {
            return Err(refused("which is there twice"));
        }
        let size = entry.size();
        total = total.saturating_add(size);
        if total > max_bytes {
            return Err(ArchiveError::TooLarge { limit: max_bytes });
        }
        let mut bytes = Vec::new();
        (&mut entry)
            .take(max_bytes)
            .read_to_end(&mut bytes)
            .map_err(ArchiveError::Malformed)?;
        if bytes.len() as u64 != size {
            return Err(ArchiveError::Malformed(io::ErrorKind::UnexpectedEof.into()));
        }
        let mode = entry.header().mode().map_err(ArchiveError::Malformed)?;
        contents.files.push(Member {
            path,
            mode: mode & MODE_BITS,
            bytes: bytes.into(),
        });
    }
    check_folders(&contents)?;
    Ok(contents)
}

/// Refuses what is to be a file and a folder at once.
fn check_folders(contents: &Contents) -> Result<(), ArchiveError> {
    let files = contents.files.iter().map(|file| file.path.as_path());
    let above = files.clone().flat_map(|path| path.ancestors().skip(1));
    let folders = contents.folders.iter().flat_map(|path| path.ancestors());
    let folders: BTreeSet<&Path> = above.chain(folders).collect();
    match files.clone().find(|path| folders.contains(path)) {
        None => Ok(()),
        Some(path) => Err(ArchiveError::Refused {
            name: path.to_string_lossy().into_owned(),
            why: "which is a file, and a folder as well",
        }),
    }
}

/// Returns the path that a name of an archive means.
fn below(name: &[u8]) -> Result<PathBuf, &'static str> {
    if name.contains(&0) {
        return Err("whose name has a zero byte");
    }
    let mut path = PathBuf::new();
    for part in Path::new(OsStr::from_bytes(name)).components() {
        match part {
            Component::Normal(part) if part.to_str().is_none() => return Err("whose name is not UTF-8"),
            Component::Normal(part) => path.push(part),
            Component::CurDir => {}
            Component::ParentDir => return Err("whose name leads out of the folder"),
            Component::RootDir | Component::Prefix(_) => return Err("whose name is absolute"),
        }
    }
    Ok(path)
}

/// Returns what stands before the content of an entry in an archive.
///
/// # Errors
/// The entry cannot be in an archive.
pub fn header(entry: &Entry, size: u64) -> io::Result<Vec<u8>> {
    let Modified { seconds, .. } = entry.facts.modified;
    let mut header = Header::new_gnu();
    header.set_mode(entry.facts.mode & MODE_BITS);
    header.set_mtime(u64::try_from(seconds).unwrap_or(0));
    header.set_uid(0);
    header.set_gid(0);
    header.set_size(0);
    let mut builder = Builder::new(Vec::new());
    match (entry.facts.kind, &entry.link) {
        (EntryKind::File, _) => {
            header.set_entry_type(EntryType::Regular);
            header.set_size(size);
            builder.append_data(&mut header, &entry.relative, io::empty())?;
        }
        (EntryKind::Folder, _) => {
            header.set_entry_type(EntryType::Directory);
            builder.append_data(&mut header, &entry.relative, io::empty())?;
        }
        (EntryKind::Link, Some(target)) => {
            header.set_entry_type(EntryType::Symlink);
            builder.append_link(&mut header, &entry.relative, target)?;
        }
        (EntryKind::Link | EntryKind::Other, _) => return Err(io::ErrorKind::Unsupported.into()),
    }
    Ok(std::mem::take(builder.get_mut()))
}

/// Returns how many zeros follow a content.
pub fn padding(size: u64) -> u64 {
    size.next_multiple_of(BLOCK) - size
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Facts;

    fn entry(name: &str, kind: EntryKind, link: Option<&str>) -> Entry {
        Entry {
            relative: name.into(),
            facts: Facts {
                kind,
                size: 0,
                mode: 0o4755,
                modified: Modified { seconds: 1, nanos: 0 },
            },
            link: link.map(PathBuf::from),
            closed: false,
        }
    }

    fn written(entries: &[(Entry, &[u8])]) -> Vec<u8> {
        let mut archive = Vec::new();
        for (entry, content) in entries {
            archive.extend(header(entry, content.len() as u64).unwrap());
            archive.extend_from_slice(content);
            archive.resize(
                archive.len() + usize::try_from(padding(content.len() as u64)).unwrap(),
                0,
            );
        }
        archive.extend(END);
        archive
    }

    #[test]
    fn what_is_written_is_read() {
        let long = format!("{}/file", "long".repeat(40));
        let archive = written(&[
            (entry("a", EntryKind::Folder, None), b""),
            (entry("a/b.bin", EntryKind::File, None), b"\0\xff"),
            (entry(&long, EntryKind::File, None), &[7; 512]),
        ]);
        let contents = read(&archive, 10, 1000).unwrap();
        assert_eq!(contents.folders, [PathBuf::from("a")]);
        let files: Vec<_> = contents
            .files
            .iter()
            .map(|file| (file.path.to_str().unwrap(), file.mode, file.bytes.len()))
            .collect();
        assert_eq!(files, [("a/b.bin", 0o755, 2), (long.as_str(), 0o755, 512)]);
        assert!(matches!(
            read(&archive, 2, 1000),
            Err(ArchiveError::TooMany { limit: 2 })
        ));
        assert!(matches!(read(&archive, 10, 513), Err(ArchiveError::TooLarge { .. })));
        assert!(matches!(
            read(&archive[..1600], 10, 1000),
            Err(ArchiveError::Malformed(_))
        ));
        assert!(matches!(read(&[b'x'; 700], 10, 1000), Err(ArchiveError::Malformed(_))));
        assert_eq!(read(&[], 10, 1000).unwrap(), Contents::default());
    }

    #[test]
    fn what_leads_out_is_refused() {
        let raw = |name: &[u8], kind: EntryType| {
            let mut header = Header::new_gnu();
            header.as_old_mut().name[..name.len()].copy_from_slice(name);
            header.set_entry_type(kind);
            header.set_mode(0o644);
            header.set_size(0);
            header.set_cksum();
            [&header.as_bytes()[..], &END].concat()
        };
        let check = |name: &[u8], kind: EntryType, expected: &str| match read(&raw(name, kind), 10, 1000) {
            Err(ArchiveError::Refused { why, .. }) => assert!(why.contains(expected), "{why}"),
            other => panic!("{other:?}"),
        };
        check(b"../x", EntryType::Regular, "leads out");
        check(b"a/../../x", EntryType::Regular, "leads out");
        check(b"a/../x", EntryType::Directory, "leads out");
        check(b"/etc/x", EntryType::Regular, "absolute");
        check(b"a\xff", EntryType::Regular, "UTF-8");
        for name in [&b"a/"[..], b".", b"a/.", b""] {
            check(name, EntryType::Regular, "one of a folder");
        }
        for kind in [
            EntryType::Symlink,
            EntryType::Link,
            EntryType::Fifo,
            EntryType::Char,
            EntryType::Block,
            EntryType::GNUSparse,
        ] {
            assert!(read(&raw(b"a", kind), 10, 1000).is_err(), "{kind:?}");
        }
        check(b"a", EntryType::Symlink, "neither");
        let twice = [
            (entry("a", EntryKind::File, None), &b"1"[..]),
            (entry("./a", EntryKind::File, None), b"2"),
        ];
        let above = [
            (entry("a", EntryKind::File, None), &b"1"[..]),
            (entry("a/b", EntryKind::File, None), b"2"),
        ];
        let both = [
            (entry("a/b", EntryKind::Folder, None), &b""[..]),
            (entry("a", EntryKind::File, None), b"1"),
        ];
        for wrong in [twice, above, both] {
            assert!(matches!(
                read(&written(&wrong), 10, 1000),
                Err(ArchiveError::Refused { .. })
            ));
        }
    }

    #[test]
    fn sizes_that_lie_take_no_memory() {
        let mut header = Header::new_gnu();
        header.set_path("a").unwrap();
        header.set_mode(0o644);
        header.set_size(1 << 40);
        header.set_cksum();
        let archive = [&header.as_bytes()[..], &END].concat();
        assert!(matches!(read(&archive, 10, 1000), Err(ArchiveError::TooLarge { .. })));
        header.set_size(1 << 20);
        header.set_cksum();
        let archive = [&header.as_bytes()[..], &END].concat();
        assert!(matches!(read(&archive, 10, 1 << 30), Err(ArchiveError::Malformed(_))));
    }
}
