//! Which programs are known to use the network, so that a rule that allows them opens it for them. For every other command
//! it stays closed.
//!
//! *Invariant:* the data is `network.txt`.

use super::words::Word;

const TABLE: &str = include_str!("network.txt");

/// Says whether a program, called by its name without a folder, is known to use the network with these words. Options in
/// front of its subcommand are not among them.
pub(super) fn uses(name: &str, words: &[&str]) -> bool {
    let lines = TABLE.lines().filter(|line| !line.starts_with('#'));
    let mut lines = lines.filter_map(|line| line.split_once(" :"));
    let Some((_, subcommands)) = lines.find(|(names, _)| names.split('/').any(|listed| listed == name)) else {
        return false;
    };
    let subcommand = words.get(1).map(|word| Word::new(*word));
    subcommands.is_empty()
        || subcommand.is_some_and(|word| subcommands.split_whitespace().any(|listed| word.is(listed)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_subcommands_use_the_network() {
        let check = |line: &str, expected: bool| {
            let words: Vec<&str> = line.split(' ').collect();
            assert_eq!(uses(words[0], &words), expected, "{line}");
        };
        check("git status", false);
        check("git fetch origin", true);
        check("git 'push'", true);
        check("cargo test", true);
        check("cargo fmt", false);
        check("curl x", true);
        check("sort x", false);
        check("mvn", true);
        check("npm", false);
        check("... SUBCOMMAND", false);
        check("bunx x", true);
        check("gradlew build", true);
        check("mamba env", true);
    }
}
