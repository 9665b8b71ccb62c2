//! One word of a command line: its source text, and the value that the shell makes of it where that can be known.
//!
//! *Invariant:* reads the source text by itself, without the syntax tree, so that a mistake of the grammar about where a
//! quote ends does not become a mistake about what a word is. No value is given for what only the shell can know.

use std::str::Chars;

/// A word as written and as the program gets it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Word {
    /// The source text, quotes and all.
    pub source: String,
    /// The text without quotes; none if it holds an expansion or a substitution.
    pub value: Option<String>,
    /// Where in the value the first unquoted `*`, `?` or `[` stands.
    pub glob: Option<usize>,
    /// Whether an unquoted `~` stands at its beginning.
    pub tilde: bool,
    /// Whether it holds a brace expansion, so that it becomes several words.
    pub brace: bool,
    /// Whether the table of prefixes counts it: plain, quoted and concatenated words, but not bare numbers and expansions.
    pub counts: bool,
    /// Where it begins in the text that was parsed; none for a word that was made from another text.
    pub at: Option<usize>,
}

impl Word {
    /// Reads a word from its source text.
    pub fn new(source: impl Into<String>) -> Self {
        let source = source.into();
        let mut scan = Scan::new(&source);
        scan.unquoted();
        let (value, glob, brace) = (scan.value, scan.glob, scan.brace);
        Self {
            value: (!scan.dynamic).then_some(value),
            glob,
            tilde: source.starts_with('~'),
            brace,
            counts: true,
            at: None,
            source,
        }
    }

    /// Returns the one text that the program gets, if that can be known.
    pub fn fixed(&self) -> Option<&str> {
        if self.glob.is_some() || self.brace {
            return None;
        }
        self.value.as_deref()
    }

    /// Returns the value if quoting it was needless, and otherwise the source text.
    pub fn plain(&self) -> &str {
        match self.fixed() {
            Some(value) if !value.is_empty() && value.chars().all(is_plain) => value,
            Some(_) | None => &self.source,
        }
    }

    /// Returns what is shown as the argument: the value, or the source text where there is none.
    pub fn shown(&self) -> &str {
        self.fixed().unwrap_or(&self.source)
    }

    /// Says whether the word is this text, whatever quotes it is written with.
    pub fn is(&self, text: &str) -> bool {
        self.fixed() == Some(text)
    }
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_./:=@%+-,^".contains(c)
}

struct Scan<'a> {
    left: Chars<'a>,
    value: String,
    dynamic: bool,
    brace: bool,
    glob: Option<usize>,
}

impl<'a> Scan<'a> {
    fn new(source: &'a str) -> Self {
        Self {
            left: source.chars(),
            value: String::new(),
            dynamic: false,
            brace: false,
            glob: None,
        }
    }

    fn peek(&self) -> Option<char> {
        self.left.clone().next()
    }

    fn unquoted(&mut self) {
        let (mut open, mut is_list) = (0_usize, false);
        while let Some(c) = self.left.next() {
            match c {
                '\\' => match self.left.next() {
                    Some('\n') => {}
                    Some(escaped) => self.value.push(escaped),
                    None => self.value.push('\\'),
                },
                '\'' => self.single(),
                '"' => self.double(),
                '$' => self.dollar(),
                '`' => self.dynamic = true,
                '<' | '>' if self.peek() == Some('(') => self.dynamic = true,
                '*' | '?' | '[' => {
                    self.glob.get_or_insert(self.value.len());
                    self.value.push(c);
                }
                '@' | '!' | '+' if self.peek() == Some('(') => {
                    self.glob.get_or_insert(self.value.len());
                    self.value.push(c);
                }
                '{' => {
                    open += 1;
                    self.value.push(c);
                }
                ',' if open > 0 => {
                    is_list = true;
                    self.value.push(c);
                }
                '.' if open > 0 && self.peek() == Some('.') => {
                    is_list = true;
                    self.value.push(c);
                }
                '}' if open > 0 => {
                    open -= 1;
                    self.brace |= is_list;
                    self.value.push(c);
                }
                other => self.value.push(other),
            }
        }
    }

    fn single(&mut self) {
        for c in self.left.by_ref() {
            if c == '\'' {
                return;
            }
            self.value.push(c);
        }
        self.dynamic = true;
    }

    fn double(&mut self) {
        while let Some(c) = self.left.next() {
            match c {
                '"' => return,
                '\\' => match self.left.next() {
                    Some('\n') => {}
                    Some(escaped @ ('$' | '`' | '"' | '\\')) => self.value.push(escaped),
                    Some(other) => self.value.extend(['\\', other]),
                    None => self.value.push('\\'),
                },
                '$' if self.starts_expansion() => self.dynamic = true,
                '`' => self.dynamic = true,
                other => self.value.push(other),
            }
        }
        self.dynamic = true;
    }

    fn dollar(&mut self) {
        match self.peek() {
            Some('\'') => {
                self.left.next();
                self.ansi();
            }
            Some('"') => {
                self.left.next();
                self.double();
            }
            _ if self.starts_expansion() => self.dynamic = true,
            _ => self.value.push('$'),
        }
    }

    fn starts_expansion(&self) -> bool {
        self.peek()
            .is_some_and(|c| c.is_ascii_alphanumeric() || "_{([@*#?$!-".contains(c))
    }

    fn ansi(&mut self) {
        // A NUL ends the text of the quote, but not the quote.
        let mut is_over = false;
        while let Some(c) = self.left.next() {
            let made = match c {
                '\'' => return,
                '\\' => match self.escape() {
                    Escape::Text(text) => text,
                    Escape::Nul => {
                        is_over = true;
                        continue;
                    }
                    Escape::Unknown => {
                        self.dynamic = true;
                        continue;
                    }
                },
                other => other.to_string(),
            };
            if !is_over {
                self.value.push_str(&made);
            }
        }
        self.dynamic = true;
    }

    fn escape(&mut self) -> Escape {
        let Some(c) = self.left.next() else {
            return Escape::Unknown;
        };
        let code = match c {
            'a' => 7,
            'b' => 8,
            'e' | 'E' => 27,
            'f' => 12,
            'n' => 10,
            'r' => 13,
            't' => 9,
            'v' => 11,
            '\\' | '\'' | '"' | '?' => c as u32,
            'x' => return Escape::byte(self.digits(16, 2, None)),
            'u' => return Escape::code(self.digits(16, 4, None)),
            'U' => return Escape::code(self.digits(16, 8, None)),
            '0'..='7' => return Escape::byte(self.digits(8, 2, c.to_digit(8))),
            'c' => match self.left.next() {
                Some(control) if control.is_ascii() => (control as u32) & 0x1f,
                Some(_) | None => return Escape::Unknown,
            },
            other => return Escape::Text(format!("\\{other}")),
        };
        Escape::code(Some(code))
    }

    fn digits(&mut self, radix: u32, most: usize, first: Option<u32>) -> Option<u32> {
        let mut code = first;
        for _ in 0..most {
            let Some(digit) = self.peek().and_then(|c| c.to_digit(radix)) else {
                break;
            };
            self.left.next();
            code = Some(code.unwrap_or(0).wrapping_mul(radix).wrapping_add(digit));
        }
        code
    }
}

enum Escape {
    Text(String),
    Nul,
    Unknown,
}

impl Escape {
    fn code(code: Option<u32>) -> Self {
        match code {
            Some(0) => Self::Nul,
            Some(code) => char::from_u32(code).map_or(Self::Unknown, |c| Self::Text(c.to_string())),
            None => Self::Unknown,
        }
    }

    /// A byte beyond ASCII is a piece of a character; nobody writes a name that way in good faith.
    fn byte(code: Option<u32>) -> Self {
        match code {
            Some(code) if code > 127 => Self::Unknown,
            Some(_) | None => Self::code(code),
        }
    }
}

/// Writes a text so that the shell reads it back as one word.
pub fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn takes_quotes_off() {
        let check = |source: &str, expected: Option<&str>| {
            assert_eq!(Word::new(source).fixed(), expected, "{source}");
        };
        check("git", Some("git"));
        check(r"\git", Some("git"));
        check(r#"g"i"t"#, Some("git"));
        check("'git'", Some("git"));
        check("gi\\\nt", Some("git"));
        check(r"$'\x67it'", Some("git"));
        check(r"$'g\u0069t'", Some("git"));
        check(r"$'\147it\0zzz'", Some("git"));
        check(r#"$"git""#, Some("git"));
        check(r#""a\$b\c""#, Some(r"a$b\c"));
        check("'a$b*'", Some("a$b*"));
        check("a$", Some("a$"));
        check("stash@{0}", Some("stash@{0}"));
        check("{}", Some("{}"));
        check("", Some(""));
        check("$x", None);
        check("\"$x\"", None);
        check("a`b`", None);
        check("$(b)", None);
        check("<(b)", None);
        check("g?t", None);
        check("{git,push}", None);
        check("a{1..3}", None);
        check("'open", None);
        check(r"$'\xff'", None);
    }

    proptest! {
        #[test]
        fn reads_back_what_it_quotes(text in any::<String>()) {
            let word = Word::new(quote(&text));
            prop_assert_eq!(word.fixed(), Some(&*text));
        }

        #[test]
        fn any_text_is_a_word(text in any::<String>()) {
            let word = Word::new(text.clone());
            prop_assert_eq!(word.source, text);
        }
    }
}
