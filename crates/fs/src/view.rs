//! Looking at a path: a window of a text, a window of a folder, or a whole image or document.
//!
//! *Invariant:* memory is bounded whatever is looked at, nothing is waited for, and a cancelled call stops between two
//! blocks. A text is hashed from the very bytes that the window is cut from.

use std::cmp::Ordering;
use std::fs::{File, Metadata};
use std::io::{self, IoSliceMut, Read};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use bytes::Bytes;
use rustix::fs::{AtFlags, Dir, FileType};
use rustix::io::ReadWriteFlags;
use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;

use super::ResolvedPath;
use super::blocking::blocking;
use super::error::FileError;
use super::files::Located;
use super::kind::{Media, SAMPLE, is_binary};
use super::marks::{MAX_HASHED, ReadMark};
use super::open::{self, Kind};
use super::place::Folder;
use super::window::{self, MAX_WINDOW_BYTES, Wanted, Window};

/// Larger images and documents are not attached: gRPC clients take 4 MiB in one message unless they are told otherwise.
const MAX_MEDIA: u64 = 3 << 20;

/// Larger folders are not listed.
const MAX_ENTRIES: usize = 200_000;

/// Suggestions for a missing file.
const MAX_SUGGESTIONS: usize = 3;

/// A file up to this size is looked at where it is asked for, if the kernel has it in memory: handing it to a thread that may
/// wait, and back, would take longer than looking.
const MAX_AT_HAND: u64 = 64 << 10;

/// Bytes that are read at once.
const BLOCK: usize = 256 << 10;

/// What was seen at a path.
#[derive(Debug)]
pub enum View {
    /// A text, with the mark for the session.
    Text(Window, ReadMark),
    /// A folder.
    Folder(Listing),
    /// An image or a document, whole.
    Media(Media, Bytes),
}

/// Entries of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The names, those of folders and of links to folders with a slash at the end.
    pub entries: Vec<String>,
    /// The entries of the whole folder.
    pub total: u64,
    /// Whether there are entries after these.
    pub truncated: bool,
}

/// Looks at a path that was approved.
///
/// # Errors
/// Nothing is there, it is neither file nor folder, its content is binary or too large, the window begins after its
/// end, or it cannot be read.
pub async fn view(located: Located, wanted: Wanted, stop: CancellationToken) -> Result<View, FileError> {
    if let Some(seen) = view_at_hand(&located, wanted, &stop) {
        return seen;
    }
    blocking(move || view_now(&located, wanted, &stop)).await
}

/// Looks at a small file that the kernel has in memory; none if it is something else, or would have to be waited for.
fn view_at_hand(located: &Located, wanted: Wanted, stop: &CancellationToken) -> Option<Result<View, FileError>> {
    if located.kind != Kind::Regular || !located.is_local {
        return None;
    }
    let (file, metadata) = open::open_cached(&located.path)?;
    let content = cached(&file, metadata.len())?;
    let shown = located.path.display_path();
    Some(view_file(shown, content.as_slice(), &metadata, wanted, stop))
}

/// Returns what a small file holds, if the kernel has all of it in memory.
fn cached(file: &File, size: u64) -> Option<Vec<u8>> {
    if size == 0 || size > MAX_AT_HAND {
        return None;
    }
    // With room for one byte more, which would show that it has grown.
    let mut content = vec![0; usize::try_from(size).ok()? + 1];
    let mut filled = 0;
    loop {
        let rest = content.get_mut(filled..).filter(|rest| !rest.is_empty())?;
        let read = rustix::io::preadv2(
            file,
            &mut [IoSliceMut::new(rest)],
            filled as u64,
            ReadWriteFlags::NOWAIT,
        );
        match read.ok()? {
            0 => break,
            count => filled += count,
        }
    }
    content.truncate(filled);
    Some(content)
}

fn view_now(located: &Located, wanted: Wanted, stop: &CancellationToken) -> Result<View, FileError> {
    let path = &located.path;
    let Some(opened) = open::open(path)? else {
        return Err(FileError::NotFound {
            path: path.display_path().into(),
            suggestions: suggest(path),
        });
    };
    // What was approved depends on whether it is a folder, so it may not have become the other meanwhile.
    if opened.is_folder != (located.kind == Kind::Folder) {
        return Err(FileError::Swapped {
            path: path.display_path().into(),
        });
    }
    if opened.is_folder {
        list(path.display_path(), &opened.file, wanted, stop).map(View::Folder)
    } else {
        view_file(path.display_path(), opened.file, &opened.metadata, wanted, stop)
    }
}

fn view_file(
    shown: &Path,
    mut file: impl Read,
    metadata: &Metadata,
    wanted: Wanted,
    stop: &CancellationToken,
) -> Result<View, FileError> {
    let failed = |source| FileError::io("read", shown, source);
    let mut sample = Vec::with_capacity(SAMPLE);
    file.by_ref()
        .take(SAMPLE as u64)
        .read_to_end(&mut sample)
        .map_err(failed)?;
    if let Some(media) = Media::detect(shown, &sample) {
        return attach(shown, sample, file, metadata).map(|bytes| View::Media(media, bytes));
    }
    if is_binary(shown, &sample) {
        return Err(FileError::Binary { path: shown.into() });
    }
    view_text(shown, &sample, file, metadata, wanted, stop)
}

fn view_text(
    shown: &Path,
    sample: &[u8],
    file: impl Read,
    metadata: &Metadata,
    wanted: Wanted,
    stop: &CancellationToken,
) -> Result<View, FileError> {
    let read_at = SystemTime::now();
    let size = metadata.len();
    // A file that grows faster than it is read ends where it ended when it was opened. The kernel's own files claim to
    // be empty and are not.
    let end = if size == 0 { MAX_HASHED } else { size };
    let rest = file.take(end.saturating_sub(sample.len() as u64));
    let mut hash = (size <= MAX_HASHED).then(Sha256::new);
    let mut buffer = vec![0; usize::try_from(end).map_or(BLOCK, |end| end.clamp(SAMPLE, BLOCK))];
    let window = window::read(sample, rest, wanted, &mut buffer, |block| {
        if stop.is_cancelled() {
            return Err(io::Error::other("cancelled"));
        }
        if let Some(hash) = &mut hash {
            hash.update(block);
        }
        Ok(())
    });
    let window = window.map_err(|source| {
        if stop.is_cancelled() {
            FileError::Stopped
        } else {
            FileError::io("read", shown, source)
        }
    })?;
    if window.total < wanted.offset && !(window.total == 0 && wanted.offset == 1) {
        return Err(FileError::OffsetOutOfRange {
            offset: wanted.offset,
            lines: window.total,
        });
    }
    let sha256 = hash.map(|hash| hex::encode(hash.finalize()));
    Ok(View::Text(window, ReadMark::new(metadata, sha256, read_at)))
}

fn attach(shown: &Path, sample: Vec<u8>, file: impl Read, metadata: &Metadata) -> Result<Bytes, FileError> {
    let too_large = |size| FileError::TooLarge {
        attempt: "attach",
        path: shown.into(),
        size,
        limit: MAX_MEDIA,
    };
    if metadata.len() > MAX_MEDIA {
        return Err(too_large(metadata.len()));
    }
    let mut bytes = sample;
    file.take(MAX_MEDIA)
        .read_to_end(&mut bytes)
        .map_err(|source| FileError::io("read", shown, source))?;
    if bytes.len() as u64 > MAX_MEDIA {
        return Err(too_large(bytes.len() as u64));
    }
    Ok(Bytes::from(bytes))
}

fn list(shown: &Path, folder: &File, wanted: Wanted, stop: &CancellationToken) -> Result<Listing, FileError> {
    let failed = |error: rustix::io::Errno| FileError::io("list", shown, error.into());
    let mut entries = Vec::new();
    for entry in Dir::read_from(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if matches!(entry.file_name().to_bytes(), b"." | b"..") {
            continue;
        }
        if entries.len() == MAX_ENTRIES {
            return Err(FileError::TooManyEntries {
                path: shown.into(),
                limit: MAX_ENTRIES,
            });
        }
        if entries.len().is_multiple_of(1000) && stop.is_cancelled() {
            return Err(FileError::Stopped);
        }
        let mut name = entry.file_name().to_string_lossy().into_owned();
        if is_folder(folder, &entry) {
            name.push('/');
        }
        entries.push(name);
    }
    entries.sort_unstable_by(|a, b| compare_names(a, b));
    let total = entries.len();
    let first = usize::try_from(wanted.offset.saturating_sub(1)).unwrap_or(usize::MAX);
    let limit = usize::try_from(wanted.limit).unwrap_or(usize::MAX);
    let mut room = MAX_WINDOW_BYTES;
    let entries: Vec<String> = entries
        .into_iter()
        .skip(first)
        .take(limit)
        .take_while(|name| {
            let fits = name.len() < room;
            room = room.saturating_sub(name.len() + 1);
            fits
        })
        .collect();
    Ok(Listing {
        truncated: first.saturating_add(entries.len()) < total,
        total: total as u64,
        entries,
    })
}

fn is_folder(folder: &File, entry: &rustix::fs::DirEntry) -> bool {
    match entry.file_type() {
        FileType::Directory => true,
        // Links are followed, and some file systems do not say the kind in the listing.
        FileType::Symlink | FileType::Unknown => {
            rustix::fs::statat(folder.as_fd(), entry.file_name(), AtFlags::empty())
                .is_ok_and(|there| FileType::from_raw_mode(there.st_mode) == FileType::Directory)
        }
        FileType::RegularFile
        | FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice => false,
    }
}

/// Compares names as people sort them: punctuation before digits before letters, the case of a letter only where
/// nothing else differs, lower case first. For ASCII it is the order of Unicode's default collation.
fn compare_names(a: &str, b: &str) -> Ordering {
    let ranks = |name: &str| name.chars().map(rank).collect::<Vec<_>>().into_iter();
    let upper = |name: &str| {
        name.chars()
            .map(|c| c.is_ascii_uppercase())
            .collect::<Vec<_>>()
            .into_iter()
    };
    ranks(a)
        .cmp(ranks(b))
        .then_with(|| upper(a).cmp(upper(b)))
        .then_with(|| a.cmp(b))
}

fn rank(c: char) -> u32 {
    const PUNCTUATION: &str = " _-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$";
    match PUNCTUATION.chars().position(|known| known == c) {
        Some(at) => at as u32,
        None => 64 + u32::from(c.to_ascii_lowercase()),
    }
}

/// Returns neighbours of a missing file whose name contains its name, or the other way round, ignoring case.
fn suggest(missing: &ResolvedPath) -> Vec<PathBuf> {
    let (Some(folder), Some(name)) = (missing.display_path().parent(), missing.display_path().file_name()) else {
        return Vec::new();
    };
    // Beside a link that leads nowhere is not where the missing file would be.
    let real = missing
        .real()
        .parent()
        .filter(|_| missing.real().file_name() == Some(name));
    let opened = real.and_then(|real| Folder::open(missing.root(), real).ok());
    let Some(names) = opened.and_then(|opened| opened.names(MAX_ENTRIES).ok()) else {
        return Vec::new();
    };
    let wanted = name.to_string_lossy().to_lowercase();
    let mut names: Vec<_> = names
        .into_iter()
        .filter(|name| {
            let name = name.to_string_lossy().to_lowercase();
            name.contains(&wanted) || wanted.contains(&name)
        })
        .collect();
    names.sort_unstable();
    names.truncate(MAX_SUGGESTIONS);
    names.iter().map(|name| folder.join(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Workspace;
    use crate::files::locate;
    use crate::marks::sha256;
    use std::sync::Arc;

    const ALL: Wanted = Wanted { offset: 1, limit: 2000 };

    struct Place {
        folder: tempfile::TempDir,
        workspace: Arc<Workspace>,
    }

    impl Place {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let root = folder.path().canonicalize().unwrap();
            let workspace = Arc::new(Workspace::open("w", &root, None).unwrap());
            Self { folder, workspace }
        }

        fn write(&self, name: &str, content: impl AsRef<[u8]>) {
            let path = self.folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }

        async fn view(&self, name: &str, wanted: Wanted) -> Result<View, FileError> {
            let located = locate(&self.workspace, name.to_owned()).await?;
            view(located, wanted, CancellationToken::new()).await
        }
    }

    /// What is the same whether it was seen at hand or not; when it was read is not.
    fn comparable(seen: Result<View, FileError>) -> String {
        match seen {
            Ok(View::Text(window, mark)) => format!("{window:?} {:?} {:?}", mark.sha256, mark.size),
            Ok(other) => format!("{other:?}"),
            Err(error) => error.to_string(),
        }
    }

    #[tokio::test]
    async fn what_is_at_hand_is_seen_as_anything_else_is() {
        let place = Place::new();
        let stop = CancellationToken::new();
        place.write("text.txt", "a\nb\r\nc");
        place.write("binary.bin", b"\0\x01\x02");
        place.write("picture.png", b"\x89PNG\r\n\x1a\n rest");
        place.write("large.txt", "line\n".repeat(20_000));
        place.write("empty.txt", "");
        let mut seen_at_hand = 0;
        for name in [
            "text.txt",
            "binary.bin",
            "picture.png",
            "large.txt",
            "empty.txt",
            ".",
            "missing",
        ] {
            for wanted in [ALL, Wanted { offset: 2, limit: 1 }, Wanted { offset: 9, limit: 1 }] {
                let located = locate(&place.workspace, name.to_owned()).await.unwrap();
                let slowly = comparable(view_now(&located, wanted, &stop));
                if let Some(at_hand) = view_at_hand(&located, wanted, &stop) {
                    assert_eq!(comparable(at_hand), slowly, "{name}");
                    assert!(["text.txt", "binary.bin", "picture.png"].contains(&name), "{name}");
                    seen_at_hand += 1;
                }
            }
        }
        // Not every file system says what is in memory.
        assert!(seen_at_hand == 0 || seen_at_hand == 9, "{seen_at_hand}");
    }

    #[tokio::test]
    async fn what_was_put_in_the_way_is_not_at_hand() {
        let place = Place::new();
        place.write("a.txt", "a");
        place.write("b.txt", "b");
        let stop = CancellationToken::new();
        let located = locate(&place.workspace, "a.txt".to_owned()).await.unwrap();
        let path = place.folder.path().join("a.txt");
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("b.txt", &path).unwrap();
        assert!(view_at_hand(&located, ALL, &stop).is_none());
        std::fs::remove_file(&path).unwrap();
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &path, FileType::Fifo, mode, 0).unwrap();
        assert!(view_at_hand(&located, ALL, &stop).is_none());
    }

    #[test]
    fn sorts_names_like_people() {
        let check = |sorted: &[&str]| {
            let mut names = sorted.to_vec();
            names.reverse();
            names.sort_by(|a, b| compare_names(a, b));
            assert_eq!(names, sorted);
        };
        check(&[".env.sample", "api/", "lib.rs", "main.rs"]);
        check(&[
            "_x",
            ".git/",
            "1",
            "10",
            "2",
            "a",
            "A",
            "b",
            "Cargo.toml",
            "lib.rs",
            "README.md",
            "src/",
        ]);
        check(&["main_test.rs", "main.rs", "main/"]);
    }

    #[tokio::test]
    async fn hashes_what_it_shows() {
        let place = Place::new();
        let text = "line\n".repeat(100_000);
        place.write("a.txt", &text);
        let wanted = Wanted {
            offset: 99_999,
            limit: 5,
        };
        let View::Text(window, mark) = place.view("a.txt", wanted).await.unwrap() else {
            panic!("text")
        };
        assert_eq!((window.lines.len(), window.total), (2, 100_000));
        let metadata = place.folder.path().join("a.txt").metadata().unwrap();
        assert!(mark.matches(&sha256(text.as_bytes()), &metadata));
        assert!(!mark.matches(&sha256(b"other"), &metadata));
    }

    #[tokio::test]
    async fn lists_a_window_of_a_folder() {
        let place = Place::new();
        for name in ["b", "c/x", "a", "d"] {
            place.write(name, "");
        }
        std::os::unix::fs::symlink("c", place.folder.path().join("link")).unwrap();
        std::os::unix::fs::symlink("none", place.folder.path().join("hole")).unwrap();
        let check = async |offset, limit, expected: &[&str], truncated| {
            let View::Folder(seen) = place.view(".", Wanted { offset, limit }).await.unwrap() else {
                panic!("folder")
            };
            assert_eq!(seen.entries, expected);
            assert_eq!((seen.total, seen.truncated), (6, truncated));
        };
        check(1, 2000, &["a", "b", "c/", "d", "hole", "link/"], false).await;
        check(2, 2, &["b", "c/"], true).await;
        check(5, 2, &["hole", "link/"], false).await;
        check(9, 2, &[], false).await;
    }

    #[tokio::test]
    async fn a_large_listing_is_cut() {
        let place = Place::new();
        for n in 0..600 {
            place.write(&format!("{n:0>100}"), "");
        }
        let View::Folder(seen) = place.view(".", ALL).await.unwrap() else {
            panic!("folder")
        };
        assert_eq!((seen.entries.len(), seen.total, seen.truncated), (506, 600, true));
    }

    #[tokio::test]
    async fn refuses_large_media_and_stops_when_cancelled() {
        let place = Place::new();
        place.write("small.png", b"\x89PNG\r\n\x1a\n");
        assert!(matches!(place.view("small.png", ALL).await, Ok(View::Media(Media::Png, bytes)) if bytes.len() == 8));
        place.write("large.png", b"\x89PNG\r\n\x1a\n");
        let large = File::options()
            .write(true)
            .open(place.folder.path().join("large.png"))
            .unwrap();
        large.set_len(MAX_MEDIA + 1).unwrap();
        assert!(matches!(
            place.view("large.png", ALL).await,
            Err(FileError::TooLarge { .. })
        ));

        place.write("a.txt", "a\n");
        let located = locate(&place.workspace, "a.txt".to_owned()).await.unwrap();
        let stop = CancellationToken::new();
        stop.cancel();
        assert!(matches!(view(located, ALL, stop).await, Err(FileError::Stopped)));
    }

    #[tokio::test]
    async fn a_kernel_file_that_claims_to_be_empty_is_read() {
        let place = Place::new();
        let View::Text(window, _) = place
            .view("/proc/self/status", ALL)
            .await
            .unwrap_or_else(|error| panic!("{error}"))
        else {
            panic!("text")
        };
        assert!(window.total > 5);
    }

    #[tokio::test]
    async fn suggests_neighbours() {
        let place = Place::new();
        for name in ["conf.a", "conf.b", "conf.c", "conf.d", "zzz"] {
            place.write(name, "");
        }
        let check = async |wanted: &str, expected: &[&str]| {
            let Err(FileError::NotFound { suggestions, .. }) = place.view(wanted, ALL).await else {
                panic!("missing")
            };
            let names: Vec<_> = suggestions
                .iter()
                .map(|path| path.file_name().unwrap().to_str().unwrap())
                .collect();
            assert_eq!(names, expected, "{wanted}");
        };
        check("CONF", &["conf.a", "conf.b", "conf.c"]).await;
        check("my-zzz.txt", &["zzz"]).await;
        check("other", &[]).await;
        check("no/such", &[]).await;
    }
}
