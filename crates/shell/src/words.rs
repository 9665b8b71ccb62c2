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
    /// What stands in front of the first expansion that is not known.
    pub prefix: String,
    /// Whether it may become several words, or none, for what only the shell can know.
    pub splits: bool,
    /// Whether the table of prefixes counts it: plain, quoted and concatenated words, but not bare numbers and expansions.
    pub counts: bool,
    /// Where it begins in the text that was parsed; none for a word that was made from another text.
    pub at: Option<usize>,
}

/// The text of a variable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Value {
    text: String,
    /// Whether it begins with the home folder, which is written as `~`.
    tilde: bool,
    /// Whether it stands for names of files, which are not expanded again where it is quoted.
    names: bool,
}

impl Value {
    /// Returns the value of a variable that every service has: `HOME` as `~`, `PWD` as `.`.
    pub(super) fn of_environment(name: &str) -> Option<Self> {
        let (text, tilde) = match name {
            "HOME" => ("~", true),
            "PWD" => (".", false),
            _ => return None,
        };
        Some(Self {
            text: text.to_owned(),
            tilde,
            names: false,
        })
    }
}

impl Value {
    /// Says whether it stands for a folder whose name is not put in.
    fn is_folder(&self, name: &str) -> bool {
        self.tilde || Self::of_environment(name).is_some()
    }
}

/// The most words that a brace expansion is followed to.
const MAX_BRACES: usize = 64;

impl Word {
    /// Reads a word from its source text.
    pub fn new(source: impl Into<String>) -> Self {
        Self::read(source.into(), &[])
    }

    fn read(source: String, known: &[(String, Value)]) -> Self {
        let mut scan = Scan::new(&source);
        scan.known = known;
        scan.unquoted();
        let (value, glob, brace) = (scan.value, scan.glob, scan.brace);
        Self {
            prefix: scan.prefix.unwrap_or_default(),
            splits: scan.dynamic,
            value: (!scan.dynamic).then_some(value),
            glob,
            tilde: source.starts_with('~') || scan.tilde,
            brace,
            counts: true,
            at: None,
            source,
        }
    }

    /// Returns the names of the variables that it expands as they are.
    pub(super) fn variables(&self) -> Vec<String> {
        if self.value.is_some() {
            return Vec::new();
        }
        let mut scan = Scan::new(&self.source);
        scan.unquoted();
        scan.names
    }

    /// Returns the words that this one becomes with the texts of some variables; itself where it still is not known.
    pub(super) fn with(&self, known: &[(String, Value)]) -> Vec<Self> {
        if self.value.is_some() {
            return vec![self.clone()];
        }
        // Alone and without quotes, it falls into as many words as the text has.
        let name = self.source.strip_prefix('$').map(|name| name.trim_matches(['{', '}']));
        if let Some((_, value)) = known.iter().find(|(known, _)| Some(known.as_str()) == name)
            && !value.tilde
        {
            let words = value.text.split_ascii_whitespace();
            return words.map(|word| self.expanded(Self::unquoted(word))).collect();
        }
        let read = Self::read(self.source.clone(), known);
        match read.value {
            Some(_) => vec![self.expanded(read)],
            None => vec![self.clone()],
        }
    }

    /// A text that stands unquoted: what it has of wildcards counts, its quotes and dollars do not.
    fn unquoted(text: &str) -> Self {
        Self {
            value: Some(text.to_owned()),
            glob: text.find(['*', '?', '[']),
            source: text.to_owned(),
            ..Self::default()
        }
    }

    /// The expanded word, in the place of this one.
    fn expanded(&self, word: Self) -> Self {
        let value = word.value.unwrap_or_default();
        let is_bare = word.glob.is_some() || word.tilde || (!value.is_empty() && value.chars().all(is_plain));
        Self {
            source: if is_bare { value.clone() } else { quote(&value) },
            value: Some(value),
            glob: word.glob,
            tilde: word.tilde,
            counts: self.counts,
            at: self.at,
            ..Self::default()
        }
    }

    /// Returns the same word as the program gets it, where that is known: what looks like an option is one, however it was
    /// quoted.
    pub(super) fn unquote(&self) -> Self {
        let Some(value) = self
            .fixed()
            .filter(|value| value.starts_with(['-', '+']) || value.chars().all(is_plain))
        else {
            return self.clone();
        };
        Self {
            source: if value.is_empty() {
                self.source.clone()
            } else {
                value.to_owned()
            },
            ..self.clone()
        }
    }

    /// Returns what stands in front of the first wildcard or expansion that is not known.
    pub(super) fn beginning(&self) -> &str {
        match (&self.value, self.glob) {
            (Some(value), Some(glob)) => value.get(..glob).unwrap_or_default(),
            (Some(value), None) => value,
            (None, _) => &self.prefix,
        }
    }

    /// Returns the text that an assignment of this word gives; nothing but `~` is expanded then.
    pub(super) fn assigned(&self) -> Option<Value> {
        let text = self.value.clone()?;
        let is_home = text == "~" || text.starts_with("~/");
        (is_home == self.tilde).then_some(Value {
            text,
            tilde: self.tilde,
            names: false,
        })
    }

    /// Returns the text that a loop gives for this word, wildcards and all.
    pub(super) fn listed(&self) -> Option<Value> {
        // A name in quotes may hold what would be a wildcard when it is expanded without.
        let is_sound = self.glob.is_some() || !self.value.as_deref()?.contains(['*', '?', '[']);
        let value = self.assigned().filter(|_| is_sound && !self.brace)?;
        Some(Value {
            names: self.glob.is_some(),
            ..value
        })
    }

    /// Expands lists in braces where nothing is nested or quoted; otherwise the word stays as it is.
    pub(super) fn braces(&self) -> Vec<Self> {
        let source = &self.source;
        let single = || vec![self.clone()];
        if !self.brace || source.contains(['\'', '"', '\\', '$', '`']) || source.matches('{').count() > 1 {
            return single();
        }
        let Some((open, close)) = source.find('{').zip(source.rfind('}')) else {
            return single();
        };
        let list = source.get(open + 1..close).unwrap_or_default();
        if list.is_empty() || !list.contains(',') || list.split(',').count() > MAX_BRACES {
            return single();
        }
        list.split(',')
            .map(|item| format!("{}{item}{}", &source[..open], &source[close + 1..]))
            // Without quotes a word that became empty is none.
            .filter(|made| !made.is_empty())
            .map(|made| Self {
                at: self.at,
                counts: self.counts,
                ..Self::new(made)
            })
            .collect()
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

    /// Says whether the shell puts the name of a pipe in its place.
    pub(super) fn is_stream(&self) -> bool {
        !self.splits && (self.source.starts_with("<(") || self.source.starts_with(">("))
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
    /// The texts of variables that are known.
    known: &'a [(String, Value)],
    /// The variables that were met.
    names: Vec<String>,
    value: String,
    /// Whether the value begins with the home folder.
    tilde: bool,
    dynamic: bool,
    prefix: Option<String>,
    brace: bool,
    glob: Option<usize>,
}

impl<'a> Scan<'a> {
    fn new(source: &'a str) -> Self {
        Self {
            left: source.chars(),
            known: &[],
            names: Vec::new(),
            value: String::new(),
            tilde: false,
            dynamic: false,
            prefix: None,
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
                '`' => self.expand(),
                '<' | '>' if self.peek() == Some('(') => self.expand(),
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
        self.expand();
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
                '$' if self.constant() => {}
                '$' if self.starts_expansion() => self.variable(true),
                '`' => self.expand(),
                other => self.value.push(other),
            }
        }
        self.expand();
    }

    /// Marks what is not known.
    fn expand(&mut self) {
        self.dynamic = true;
        self.prefix.get_or_insert_with(|| self.value.clone());
    }

    /// Reads `$name` or `${name}`, and puts its text in if that is known; everything else is dynamic.
    fn variable(&mut self, is_quoted: bool) {
        let rest = self.left.as_str();
        let is_braced = rest.starts_with('{');
        let begin = rest.strip_prefix('{').unwrap_or(rest);
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let name = &begin[..begin.find(|c| !is_part(c)).unwrap_or(begin.len())];
        let behind = &begin[name.len()..];
        // `${name%text}` leaves the beginning of what it is.
        let cut = behind.find('}').filter(|end| {
            is_braced && behind.starts_with('%') && !behind[..*end].contains(['$', '`', '\'', '"', '\\', '{'])
        });
        let is_whole = !is_braced || behind.starts_with('}') || cut.is_some();
        if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) || !is_whole {
            self.expand();
            return;
        }
        let length = name.chars().count() + if is_braced { 2 } else { 0 };
        let length = length + cut.map_or(0, |end| behind[..end].chars().count());
        self.names.push(name.to_owned());
        let value = self
            .known
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value);
        self.left.by_ref().take(length).for_each(drop);
        match value {
            Some(value) if !(cut.is_some() && value.is_folder(name)) && self.takes(value, name, is_quoted) => {
                self.value.push_str(&value.text);
                if cut.is_some() {
                    self.glob.get_or_insert(self.value.len());
                }
            }
            Some(_) | None => self.expand(),
        }
    }

    /// Says whether the text of a variable can stand here as it is.
    fn takes(&mut self, value: &Value, name: &str, is_quoted: bool) -> bool {
        let is_path = value.is_folder(name);
        // A folder in the middle of a word is another path than the one that is put in for it.
        if is_path && !(self.value.is_empty() || self.value.ends_with(['=', ':'])) {
            return false;
        }
        self.tilde |= value.tilde && self.value.is_empty();
        if let Some(glob) = value.text.find(['*', '?', '[']).filter(|_| !is_quoted || value.names) {
            self.glob.get_or_insert(self.value.len() + glob);
        }
        if !is_quoted {
            return !value.text.contains(|c: char| c.is_ascii_whitespace());
        }
        !value.text.starts_with('~') || value.tilde
    }

    /// Puts in what some commands print wherever they run, and says whether it did.
    fn constant(&mut self) -> bool {
        let rest = self.left.as_str();
        let (length, text) = if rest.starts_with("(nproc)") {
            ("(nproc)".len(), "1")
        } else if rest.starts_with("(pwd)") && (self.value.is_empty() || self.value.ends_with(['=', ':'])) {
            ("(pwd)".len(), ".")
        } else {
            return false;
        };
        self.left = rest[length..].chars();
        self.value.push_str(text);
        true
    }

    fn dollar(&mut self) {
        if self.constant() {
            return;
        }
        match self.peek() {
            Some('\'') => {
                self.left.next();
                self.ansi();
            }
            Some('"') => {
                self.left.next();
                self.double();
            }
            _ if self.starts_expansion() => self.variable(false),
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
                        self.expand();
                        continue;
                    }
                },
                other => other.to_string(),
            };
            if !is_over {
                self.value.push_str(&made);
            }
        }
        self.expand();
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
