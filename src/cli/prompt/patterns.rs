//! The patterns that an "always" would allow, as a person reads them: the narrowest first, and which of them allow much more.

/// Returns the patterns, the narrowest first.
pub(crate) fn sorted(permission: &str, patterns: &[String]) -> Vec<String> {
    let mut sorted = patterns.to_vec();
    sorted.sort_by_key(|pattern| {
        let letters = pattern.chars().filter(|letter| !is_wildcard(*letter)).count();
        (
            is_broad(permission, pattern),
            pattern.contains(is_wildcard),
            std::cmp::Reverse(letters),
        )
    });
    sorted
}

fn is_wildcard(letter: char) -> bool {
    matches!(letter, '*' | '?')
}

/// Says whether a pattern allows much more than what was asked: everything, whatever a program can do, or most of a disk.
pub(crate) fn is_broad(permission: &str, pattern: &str) -> bool {
    let Some(wildcard) = pattern.find(is_wildcard) else {
        return false;
    };
    let literal = &pattern[..wildcard];
    match permission {
        "bash" => literal.split_whitespace().count() < 2,
        "external_directory" => literal.split('/').filter(|name| !name.is_empty()).count() < 2,
        _ => literal.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_narrowest_comes_first() {
        let patterns = ["rm *", "git push *", "make", "git push origin *"].map(str::to_owned);
        assert_eq!(
            sorted("bash", &patterns),
            ["make", "git push origin *", "git push *", "rm *"]
        );
    }

    #[test]
    fn how_much_a_pattern_allows() {
        let check = |permission, pattern, expected| assert_eq!(is_broad(permission, pattern), expected, "{pattern}");
        check("bash", "*", true);
        check("bash", "git *", true);
        check("bash", "git push *", false);
        check("bash", "make", false);
        check("external_directory", "/etc/*", true);
        check("external_directory", "/home/ann/*", false);
        check("edit", "*", true);
        check("edit", "src/*", false);
        check("webfetch", "https://example.org/*", false);
    }
}
