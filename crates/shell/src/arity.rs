//! How many words of a command its remembered prefix keeps (`docs/spec/bash.md` §4).
//!
//! *Invariant:* the data is `arity.txt`.

/// Each line says how many words its commands keep.
const TABLE: &str = include_str!("arity.txt");

/// Returns the words that are kept of a command.
pub fn prefix<'a, 'w>(words: &'a [&'w str]) -> &'a [&'w str] {
    &words[..length(words).min(words.len())]
}

/// Returns how many words a command needs for its prefix, be they there or not.
pub fn length(words: &[&str]) -> usize {
    let fits = |command: &str| {
        let mut named = command.split(' ');
        words.iter().zip(named.by_ref()).all(|(word, name)| *word == name) && named.next().is_none()
    };
    let lines = TABLE.lines().filter_map(|line| line.split_once(" : "));
    let kept = lines.filter(|(_, commands)| commands.split(", ").any(fits));
    let kept = kept.filter_map(|(count, _)| count.parse().ok()).max();
    kept.unwrap_or_else(|| words.len().min(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_prefixes() {
        let check = |line: &str, expected: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            assert_eq!(prefix(&words).join(" "), expected, "{line}");
        };
        check("git checkout main", "git checkout");
        check("npm run dev x", "npm run dev");
        check("docker compose up -d", "docker compose up");
        check("git -C dir status", "git -C");
        check("npx tsc", "npx");
        check("/usr/bin/git push", "/usr/bin/git");
        check("aws s3", "aws s3");
        check("git", "git");
        check("Git push", "Git");
        check("gh pr list x", "gh pr list");
        check("", "");
    }
}
