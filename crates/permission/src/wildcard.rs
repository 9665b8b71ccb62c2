//! The wildcard of permission rules (`docs/spec/permission.md` §4), used for both sides of a rule.
//!
//! *Invariant:* pure, without recursion or allocation: patterns come from the configuration of any cloned project and
//! inputs from a model, so the worst case is the product of their lengths.

/// Says whether `pattern` matches the whole of `input`.
///
/// `*` stands for any run of characters, `/` and newlines included; `?` for exactly one character; everything else for
/// itself, `\` too: it neither escapes what follows nor stands for a slash, because the shell runs `rm build\er` as
/// `rm builder`. A pattern that ends in a space and a star also matches without that tail.
pub fn matches(input: &str, pattern: &str) -> bool {
    glob(input.as_bytes(), pattern.as_bytes())
        || pattern
            .strip_suffix(" *")
            .is_some_and(|bare| glob(input.as_bytes(), bare.as_bytes()))
}

/// Matches with two cursors. A mismatch goes back to the last star only: what an earlier star could take more, the
/// last one can take instead.
fn glob(input: &[u8], pattern: &[u8]) -> bool {
    let (mut at, mut next) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while at < input.len() {
        match pattern.get(next) {
            Some(b'*') => {
                next += 1;
                retry = Some((at, next));
            }
            Some(b'?') => {
                at += character_length(input[at]);
                next += 1;
            }
            Some(&literal) if literal == input[at] => {
                at += 1;
                next += 1;
            }
            Some(_) | None => {
                let Some((taken, after_star)) = retry else { return false };
                at = taken + character_length(input[taken]);
                next = after_star;
                retry = Some((at, next));
            }
        }
    }
    pattern[next..].iter().all(|&rest| rest == b'*')
}

/// Returns the length of the UTF-8 sequence that begins with `lead`.
fn character_length(lead: u8) -> usize {
    match lead {
        0xf0.. => 4,
        0xe0.. => 3,
        0xc0.. => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::matches;

    fn check(rows: &[(&str, &str, bool)]) {
        for &(input, pattern, expected) in rows {
            assert_eq!(matches(input, pattern), expected, "{input:?} against {pattern:?}");
        }
    }

    #[test]
    fn star_and_question_mark() {
        check(&[
            ("", "*", true),
            ("", "", true),
            ("a", "", false),
            ("a", "?", true),
            ("", "?", false),
            ("ab", "?", false),
            ("file1.txt", "file?.txt", true),
            ("file12.txt", "file?.txt", false),
            ("one\ntwo", "one?two", true),
            ("one\ntwo", "one*", true),
            ("/tmp/a/b", "/tmp/*", true),
            ("/tmp", "/tmp/*", false),
            ("src/.env", "**/*.env", true),
            (".env", "**/*.env", false),
            ("abcabc", "*abc", true),
            ("abcab", "*abc", false),
        ]);
    }

    #[test]
    fn characters_are_whole() {
        check(&[
            ("é", "?", true),
            ("日本", "??", true),
            ("日本", "?", false),
            ("😀", "?", true),
            ("😀x", "*?x", true),
            ("a😀", "?", false),
        ]);
    }

    #[test]
    fn optional_tail() {
        check(&[
            ("ls", "ls *", true),
            ("ls ", "ls *", true),
            ("ls -la", "ls *", true),
            ("lsof", "ls *", false),
            ("lsof", "ls*", true),
            ("a b", "a * *", true),
            ("a b c", "a * *", true),
            ("a", "a * *", false),
            ("", " *", true),
            (" x", " *", true),
            ("x", " *", false),
            ("git\tpush", "git *", false),
            ("npm build", "npm * build", false),
        ]);
    }

    #[test]
    fn everything_else_is_literal() {
        check(&[
            ("axb", "a.b", false),
            ("[x]", "[x]", true),
            ("x", "[x]", false),
            ("a", "a|b", false),
            ("{a}", "{a}", true),
            ("Git x", "git *", false),
            ("a\\b", "a\\b", true),
            ("a\\b", "a/b", false),
            ("a/b", "a\\b", false),
            ("a/*", "a\\*", false),
            ("a\\x", "a\\*", true),
            ("*", "\\*", false),
            ("rm build\\er", "rm build/*", false),
        ]);
    }

    #[test]
    fn many_stars_on_a_long_input_end_quickly() {
        let input = "a".repeat(100_000);
        assert!(!matches(&input, &format!("{}b", "*a".repeat(200))));
        assert!(matches(&input, &"*a".repeat(200)));
    }

    /// The definition, read aloud: exponential, so only for short inputs.
    fn naive(input: &[char], pattern: &[char]) -> bool {
        match pattern {
            [] => input.is_empty(),
            [' ', '*'] if input.is_empty() => true,
            ['*', rest @ ..] => (0..=input.len()).any(|taken| naive(&input[taken..], rest)),
            ['?', rest @ ..] => !input.is_empty() && naive(&input[1..], rest),
            [literal, rest @ ..] => input.first() == Some(literal) && naive(&input[1..], rest),
        }
    }

    proptest! {
        #[test]
        fn agrees_with_the_definition(input in r"[ab é/\\]{0,10}", pattern in r"[ab é/\\*?]{0,7}") {
            let (characters, definition): (Vec<char>, Vec<char>) = (input.chars().collect(), pattern.chars().collect());
            prop_assert_eq!(matches(&input, &pattern), naive(&characters, &definition));
        }

        #[test]
        fn never_panics(input in ".*", pattern in ".*") {
            matches(&input, &pattern);
        }
    }
}
