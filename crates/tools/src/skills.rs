//! Skills: folders with a `SKILL.md` that tells a model how to do something (`docs/spec/skills-and-lsp.md` §A).
//!
//! A [`Catalog`] knows those of one workspace. It looks again whenever it is asked to, and reads only the files that have
//! changed since, so a new skill is there at once.
//!
//! *Invariant:* imports `frontmatter`, `net` and `workspace`. Everything in a skill was written by somebody else: files are
//! regular ones of bounded size, searches and lists are bounded, and what is wrong with one skill concerns no other.

mod catalog;
pub mod remote;

use std::collections::BTreeSet;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
pub use toolgate_model::skills::SkillFolder;

use serde_json::Value;
use tokio_util::sync::CancellationToken;
use toolgate_fs::found::{FoundFile, OpenFile};
use toolgate_fs::walk::{Choose, Effort, Visit, Walk};
use toolgate_model::frontmatter::{self, FrontMatterError};

pub use catalog::Catalog;

/// The name of the file that makes a folder a skill.
pub const FILE_NAME: &str = "SKILL.md";

/// Bytes of the largest skill.
const MAX_BYTES: u64 = 1 << 20;

/// Files of a skill's folder that are looked at for a sample of them.
const MOST_FILES: usize = 10_000;

const BYTE_ORDER_MARK: char = '\u{feff}';

/// A skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skill {
    /// Its name, any text at all.
    pub name: String,
    /// When to use it. A skill without one can be loaded, but models are not told of it.
    pub description: Option<String>,
    /// Its file, by the path that led there.
    pub location: PathBuf,
}

impl Skill {
    /// Returns the folder that it describes.
    pub fn folder(&self) -> &Path {
        self.location.parent().unwrap_or(&self.location)
    }

    /// Reads what the skill says, without front matter. Blocking.
    ///
    /// # Errors
    /// The file is gone, or describes no skill of this name any more.
    pub fn body(&self) -> Result<String, SkillError> {
        let text = read(&self.location.canonicalize()?)?;
        let (name, _, body) = parse(&text)?;
        if name == self.name {
            Ok(body.trim().to_owned())
        } else {
            Err(SkillError::NoName)
        }
    }

    /// Returns at most `most` other files of the skill's folder, at any depth, in order: hidden ones too, those that are
    /// ignored and links not. Blocking.
    pub fn sample(&self, most: usize, cancelled: &CancellationToken) -> Vec<PathBuf> {
        let stop = cancelled.child_token();
        let Ok(real) = self.folder().canonicalize() else {
            return Vec::new();
        };
        let walk = Walk {
            root: &real,
            effort: Effort::Ordered,
            cancelled: &stop,
        };
        let visitor = || Sample {
            first: BTreeSet::new(),
            most,
            seen: 0,
            stop: &stop,
        };
        // A folder that cannot be walked has no files for us.
        let samples = walk.run(&Everything, &visitor).unwrap_or_default();
        let files = samples.into_iter().flat_map(|sample| sample.first);
        files.map(|file| self.folder().join(file)).collect()
    }
}

/// Why a file is no skill.
#[derive(Debug, thiserror::Error)]
pub enum SkillError {
    /// It cannot be read.
    #[error("it cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    /// It is no regular file, or gone.
    #[error("it is not a regular file")]
    NoFile,
    /// It is too large.
    #[error("it is larger than {MAX_BYTES} bytes")]
    TooLarge,
    /// It belongs to another user, or is a link to a file of another kind.
    #[error("it belongs to somebody else, or is a link out of the project to a file of another name")]
    Foreign,
    /// Its front matter cannot be read.
    #[error("Failed to parse YAML frontmatter: {0}")]
    FrontMatter(#[from] FrontMatterError),
    /// It has no name.
    #[error("its front matter has no name that is a string")]
    NoName,
    /// Its description is no text.
    #[error("its description is not a string")]
    Description,
}

/// Reads a path whose links were followed. Bytes that are no UTF-8 are replaced.
fn read(real: &Path) -> Result<String, SkillError> {
    let opened = OpenFile::open(real)?.ok_or(SkillError::NoFile)?;
    let mut bytes = Vec::new();
    opened.file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(SkillError::TooLarge);
    }
    Ok(match String::from_utf8_lossy(&bytes).strip_prefix(BYTE_ORDER_MARK) {
        Some(text) => text.to_owned(),
        None => String::from_utf8_lossy(&bytes).into_owned(),
    })
}

/// Returns the name, the description and the body of a skill.
fn parse(text: &str) -> Result<(String, Option<String>, &str), SkillError> {
    let (front, body) = frontmatter::split(text);
    let mut front = frontmatter::parse(front)?;
    let Some(Value::String(name)) = front.remove("name") else {
        return Err(SkillError::NoName);
    };
    let description = match front.remove("description") {
        None => None,
        Some(Value::String(description)) => Some(description),
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            return Err(SkillError::Description);
        }
    };
    Ok((name, description, body))
}

/// Every file but those that describe skills.
struct Everything;

impl Choose for Everything {
    fn enters(&self, _relative: &Path) -> bool {
        true
    }

    fn takes(&self, relative: &Path) -> bool {
        relative.file_name().is_some_and(|name| name != FILE_NAME)
    }
}

/// Keeps the first paths in order.
struct Sample<'a> {
    first: BTreeSet<PathBuf>,
    most: usize,
    seen: usize,
    stop: &'a CancellationToken,
}

impl Visit for Sample<'_> {
    fn file(&mut self, file: &FoundFile<'_>) {
        if !file.is_link() {
            self.first.insert(file.relative().to_path_buf());
        }
        if self.first.len() > self.most {
            self.first.pop_last();
        }
        self.seen += 1;
        if self.seen >= MOST_FILES {
            self.stop.cancel();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<(&str, Option<&str>, &str)>) {
        let found = parse(text).ok();
        let found = found
            .as_ref()
            .map(|(name, description, body)| (name.as_str(), description.as_deref(), *body));
        assert_eq!(found, expected, "{text:?}");
    }

    #[test]
    fn what_is_a_skill() {
        check("---\nname: a\ndescription: b\n---\nc", Some(("a", Some("b"), "c")));
        check(
            "---\nname: A b_1.2\n---\nc\n---\nd",
            Some(("A b_1.2", None, "c\n---\nd")),
        );
        check("---\r\nname: a\r\nother: [1]\r\n---\r\nc", Some(("a", None, "c")));
        check(
            "---\nname: \"\"\ndescription: Use when: a, b: c\n---\n",
            Some(("", Some("Use when: a, b: c"), "")),
        );
    }

    #[test]
    fn what_is_none() {
        for text in [
            "",
            "# just text",
            "---\ndescription: d\n---\nm",
            "---\nname: 12\n---\nm",
            "---\nname: [a]\n---\nm",
            "---\nname: a\ndescription: 5\n---\nm",
            "---\nname: a\ndescription: \"unclosed\n---\nm",
            "---\nname: a\n",
            "---\n- name\n---\n",
        ] {
            check(text, None);
        }
    }

    #[test]
    fn reads_bounded_regular_files() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let path = root.join(FILE_NAME);
        assert!(matches!(read(&path), Err(SkillError::NoFile)));
        assert!(matches!(read(&root), Err(SkillError::NoFile)));
        assert!(matches!(read(Path::new("/dev/zero")), Err(SkillError::NoFile)));
        std::fs::write(&path, b"\xef\xbb\xbf---\nname: a\xff\n---\n").unwrap();
        assert_eq!(read(&path).unwrap(), "---\nname: a\u{fffd}\n---\n");
        std::fs::write(&path, vec![b' '; MAX_BYTES as usize + 1]).unwrap();
        assert!(matches!(read(&path), Err(SkillError::TooLarge)));
    }

    #[test]
    fn samples_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for path in ["SKILL.md", ".hidden", "b/2", "b/1", "a", "z", "sub/SKILL.md", "out/x"] {
            std::fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            std::fs::write(root.join(path), "").unwrap();
        }
        std::fs::write(root.join(".ignore"), "out\n").unwrap();
        std::os::unix::fs::symlink(root.join("a"), root.join("link")).unwrap();
        let skill = Skill {
            name: "s".to_owned(),
            description: None,
            location: root.join(FILE_NAME),
        };
        let check = |most: usize, expected: &[&str]| {
            let expected: Vec<PathBuf> = expected.iter().map(|path| root.join(path)).collect();
            assert_eq!(skill.sample(most, &CancellationToken::new()), expected);
        };
        check(10, &[".hidden", ".ignore", "a", "b/1", "b/2", "z"]);
        check(3, &[".hidden", ".ignore", "a"]);
    }
}
