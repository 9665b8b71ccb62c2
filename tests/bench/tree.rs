//! Generated trees of text, the same every time.
//!
//! *Invariant:* what is generated depends on nothing but the arguments.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

use anyhow::Result;

const WORDS: [&str; 24] = [
    "let", "value", "request", "return", "error", "stream", "buffer", "index", "match", "length", "result", "channel",
    "while", "path", "config", "handler", "token", "session", "struct", "static", "async", "future", "queue", "sender",
];
const EXTENSIONS: [&str; 10] = ["rs", "ts", "md", "json", "py", "go", "toml", "css", "html", "txt"];

/// In a line of every 250th file.
pub(crate) const RARE: &str = "needle_[0-9]+";
/// In several lines of every file.
pub(crate) const COMMON: &str = "error (return|match)";

/// Numbers that look random: xorshift.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound as u64).unwrap_or(0)
    }
}

/// Writes `files` files of about 6 KB, 20 to a folder, three folders deep, with ignore rules and ignored files.
pub(crate) fn generate(root: &Path, files: usize) -> Result<()> {
    let mut numbers = Numbers(0x9E37_79B9_7F4A_7C15);
    fs::create_dir_all(root.join(".git"))?;
    fs::write(root.join(".gitignore"), "*.log\nbuild/\n/cache\n")?;
    let now = SystemTime::now();
    for index in 0..files {
        let (outer, inner) = (index / 400, index / 20);
        let folder = root.join(format!("part{outer}/module{inner}/src"));
        if index % 20 == 0 {
            fs::create_dir_all(folder.join("build"))?;
            fs::write(folder.join("build/out.txt"), "needle_0 error return\n".repeat(100))?;
            fs::write(folder.join("trace.log"), "needle_0 error match\n".repeat(100))?;
        }
        if index % 400 == 0 {
            fs::write(root.join(format!("part{outer}/.gitignore")), "*.tmp\n!keep.tmp\n")?;
        }
        let extension = EXTENSIONS[index % EXTENSIONS.len()];
        let mut file = File::create(folder.join(format!("file{index}.{extension}")))?;
        file.write_all(text(&mut numbers, index).as_bytes())?;
        // Files of a real tree were not changed in the order in which they are listed.
        file.set_modified(now - Duration::from_secs(numbers.below(10_000_000) as u64))?;
    }
    Ok(())
}

fn text(numbers: &mut Numbers, index: usize) -> String {
    let mut text = String::new();
    let size = 2000 + numbers.below(8000);
    while text.len() < size {
        let indent = 4 * numbers.below(4);
        text.extend(std::iter::repeat_n(' ', indent));
        for _ in 0..3 + numbers.below(8) {
            text.push_str(WORDS[numbers.below(WORDS.len())]);
            text.push(' ');
        }
        text.push('\n');
    }
    if index % 250 == 7 {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "needle_{index}");
    }
    text
}
