//! From a command line to its simple commands, by the grammar of bash.
//!
//! The walk keeps its own stack, so nesting costs memory and never the thread's stack. The grammar is not the shell: where
//! the two are known to differ (line continuations inside a word, comments, the ends of here-documents, what follows the
//! target of a redirection), the text is looked at again here, and a doubt makes the whole line unclear.
//!
//! *Invariant:* every command node of the tree becomes a [`Simple`], in source order, damaged tree or not.

mod arithmetic;
mod declared;
mod fit;
mod pieces;
mod redirects;

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::{ControlFlow, Range};
use std::time::{Duration, Instant};

pub(super) use arithmetic::is_name;
use declared::Declared;
use pieces::Pieces;
use tree_sitter::{Node, ParseOptions, Parser};

use super::variables::Variables;
use super::words::Word;

/// The node types that the walk understands. Everything else makes the line unclear.
const KNOWN: &str = "program list pipeline command command_name word string string_content raw_string ansi_c_string \
    translated_string number concatenation simple_expansion expansion variable_name special_variable_name \
    command_substitution process_substitution arithmetic_expansion variable_assignment variable_assignments array subscript \
    declaration_command unset_command redirected_statement file_redirect heredoc_redirect herestring_redirect \
    file_descriptor heredoc_start heredoc_body heredoc_content heredoc_end simple_heredoc_body subshell compound_statement \
    if_statement elif_clause else_clause while_statement for_statement c_style_for_statement do_group case_statement \
    case_item extglob_pattern function_definition negated_command test_command test_operator binary_expression \
    unary_expression parenthesized_expression postfix_expression ternary_expression regex comment brace_expression";

/// Statements that are no command and still do something.
const STATEMENTS: &str = "variable_assignment declaration_command unset_command test_command compound_statement subshell \
    if_statement while_statement for_statement c_style_for_statement case_statement function_definition \
    redirected_statement arithmetic_expansion command_substitution process_substitution";

/// How long one line may take to parse, with everything that is parsed inside it.
pub(super) const PARSE_LIMIT: Duration = Duration::from_millis(500);

/// The most signs of pipes in one line: of a damaged line, the parser needs memory for the square of their number.
const MAX_PIPES: usize = 2000;

/// The most commands of one line.
pub(super) const MAX_COMMANDS: usize = 1000;

/// One simple command as it stands in the line.
#[derive(Debug, Default)]
pub(super) struct Simple {
    /// The source text with its redirections.
    pub(super) text: String,
    /// Where it begins in the line.
    pub(super) start: usize,
    /// The same with one blank between words and without assignments in front.
    pub(super) canonical: String,
    /// The command followed by the redirections of the list or pipeline that it ends; none if there are none.
    pub(super) extended: Option<String>,
    /// The assignments in front: name and value.
    pub(super) assignments: Vec<Assignment>,
    /// The name and the arguments; empty for a redirection without a command.
    pub(super) words: Vec<Word>,
    /// Where its output goes and its input comes from.
    pub(super) redirects: Vec<Redirect>,
}

impl Simple {
    /// A redirection that no command belongs to.
    fn redirection(redirect: Redirect) -> Self {
        let text = redirect.text.trim().to_owned();
        Self {
            start: redirect.target.at.unwrap_or_default(),
            canonical: text.clone(),
            text,
            redirects: vec![redirect],
            ..Self::default()
        }
    }
}

/// A variable that is set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Assignment {
    pub(super) name: String,
    pub(super) text: String,
}

/// A redirection from or to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Redirect {
    /// Whether the file is written.
    pub(super) writes: bool,
    pub(super) target: Word,
    /// The source text of the redirection.
    pub(super) text: String,
}

/// What the grammar finds in a line.
#[derive(Debug, Default)]
pub(super) struct Parsed {
    pub(super) commands: Vec<Simple>,
    /// Assignments that stand for themselves, `export` and its like included.
    pub(super) assignments: Vec<Assignment>,
    /// The names of functions that are defined.
    pub(super) functions: Vec<String>,
    /// What the line makes of its variables.
    pub(super) variables: Variables,
    /// Whether the text holds more than commands: assignments, tests and other statements of the shell.
    pub(super) has_statements: bool,
    /// Why the line as a whole is not understood.
    pub(super) unclear: Option<String>,
}

/// Parses a line; gives up at the deadline.
pub(super) fn parse(line: &str, deadline: Instant) -> Parsed {
    if line.bytes().filter(|byte| *byte == b'|').count() > MAX_PIPES {
        return Parsed::unclear("it has too many commands");
    }
    let mut parser = Parser::new();
    if parser.set_language(&tree_sitter_bash::LANGUAGE.into()).is_err() {
        return Parsed::unclear("the grammar cannot be used");
    }
    let mut stop = |_: &tree_sitter::ParseState| {
        if Instant::now() > deadline {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    let plain = without_wide(line);
    let known = without_read_write(&plain);
    let bytes = known.as_bytes();
    let mut read = |at: usize, _| bytes.get(at..).unwrap_or_default();
    let options = ParseOptions::new().progress_callback(&mut stop);
    let Some(tree) = parser.parse_with_options(&mut read, None, Some(options)) else {
        return Parsed::unclear("it takes too long to parse");
    };
    let mut walk = Walk {
        line,
        parsed: Parsed::default(),
        starts: Vec::new(),
        loose: Vec::new(),
        quoted: Vec::new(),
        redirects: Vec::new(),
        taken: HashSet::new(),
        declared: Declared::default(),
    };
    if tree.root_node().has_error() {
        walk.mark_opaque("the shell's grammar does not fit it");
    }
    walk.all(tree.root_node(), deadline);
    if let Some(reason) = walk.declared.reason() {
        walk.mark_opaque(reason);
    }
    walk.finish()
}

impl Parsed {
    fn unclear(reason: &str) -> Self {
        Self {
            unclear: Some(reason.to_owned()),
            ..Self::default()
        }
    }
}

/// A redirected statement that a command is the body of, or the end of the body.
#[derive(Clone, Copy)]
struct Around<'t> {
    statement: Node<'t>,
    is_direct: bool,
}

struct Walk<'l> {
    line: &'l str,
    parsed: Parsed,
    /// Where the commands begin, in order.
    starts: Vec<usize>,
    /// Redirections of statements that are no command: the statement, and what it redirects.
    loose: Vec<(Range<usize>, Vec<Redirect>)>,
    /// All redirections, by their nodes.
    redirects: Vec<(usize, Redirect)>,
    /// The nodes of those that belong to a command.
    taken: HashSet<usize>,
    declared: Declared,
    /// Where text is quoted, so that a line continuation is what it looks like.
    quoted: Vec<Range<usize>>,
}

impl<'l> Walk<'l> {
    fn mark_opaque(&mut self, reason: &str) {
        self.parsed.unclear.get_or_insert_with(|| reason.to_owned());
    }

    fn text(&self, node: Node<'_>) -> &'l str {
        self.line.get(node.byte_range()).unwrap_or_default()
    }

    fn all<'t>(&mut self, root: Node<'t>, deadline: Instant) {
        let mut left: Vec<(Node<'t>, Option<Around<'t>>)> = vec![(root, None)];
        let mut visited = 0_usize;
        while let Some((node, around)) = left.pop() {
            visited += 1;
            // A command may be long, and hold others that are as long.
            if (visited.is_multiple_of(1024) || node.kind() == "command") && Instant::now() > deadline {
                return self.mark_opaque("it takes too long to parse");
            }
            if self.parsed.commands.len() >= MAX_COMMANDS {
                return self.mark_opaque("it has too many commands");
            }
            let children: Vec<Node<'t>> = node.children(&mut node.walk()).collect();
            let inherited = self.visit(node, &children, around);
            let last_statement = children.iter().rposition(|child| child.is_named());
            let pass_on = |at: usize| inherited.filter(|around| around.is_direct || Some(at) == last_statement);
            left.extend((0..children.len()).rev().map(|at| {
                (
                    children[at],
                    pass_on(at).map(|around| settle(node, children[at], around)),
                )
            }));
        }
    }

    /// Takes down a node, and returns the redirected statement that its body belongs to.
    fn visit<'t>(&mut self, node: Node<'t>, children: &[Node<'t>], around: Option<Around<'t>>) -> Option<Around<'t>> {
        let is_listed = |list: &str| list.split_whitespace().any(|kind| kind == node.kind());
        if node.is_named() && !node.is_error() && !is_listed(KNOWN) {
            self.mark_opaque("the shell's grammar does not fit it");
        }
        self.parsed.has_statements |= is_listed(STATEMENTS);
        let reasons = [fit::opaque_node, arithmetic::opaque_node].map(|check| check(node, children, self.line));
        reasons
            .into_iter()
            .flatten()
            .for_each(|reason| self.mark_opaque(reason));
        self.parsed.variables.see(node, children, self.line);
        self.declared.see(node, children, self.line);
        let set = declared::set_by(node, children, self.line);
        self.parsed.assignments.extend(set);
        match node.kind() {
            "command" => self.command(node, children, around),
            "redirected_statement" => return self.redirected(node, children),
            "list" | "pipeline" | "negated_command" => {
                return around.map(|around| Around {
                    is_direct: false,
                    ..around
                });
            }
            "variable_assignment" if node.parent().is_none_or(|parent| parent.kind() != "command") => {
                self.parsed.assignments.extend(self.assignment(node));
            }
            "declaration_command" => {
                let words = children.iter().filter(|child| child.kind() != "variable_assignment");
                let named = words.filter_map(|child| self.quoted_assignment(*child));
                let named: Vec<Assignment> = named.collect();
                self.parsed.assignments.extend(named);
            }
            "function_definition" => self.function(node, children),
            "file_redirect" => {
                let redirect = self.file_redirect(node);
                self.redirects.extend(redirect.map(|redirect| (node.id(), redirect)));
            }
            "comment" => self.comment(node),
            "heredoc_redirect" => self.heredoc(node, children),
            "raw_string" | "ansi_c_string" | "string" | "heredoc_body" => self.quotation(node),
            "expansion" if self.text(node).ends_with("@P}") => self.mark_opaque("it expands a text as a prompt"),
            "command_substitution" if self.text(node).starts_with('`') && self.text(node).contains("\\`") => {
                self.mark_opaque("it has backticks within backticks");
            }
            // The grammar looks for substitutions in fewer places than the shell.
            "word" | "regex" | "string_content" | "heredoc_content" | "extglob_pattern"
                if children.is_empty() && substitutes(self.text(node)) =>
            {
                self.mark_opaque("a text in it may hide a command");
            }
            _ => {}
        }
        None
    }

    fn assignment(&self, node: Node<'_>) -> Option<Assignment> {
        let name = node.child_by_field_name("name")?;
        Some(Assignment {
            name: self.text(name).to_owned(),
            text: self.text(node).to_owned(),
        })
    }

    /// `export "PATH=/x"` sets a variable as well.
    fn quoted_assignment(&self, node: Node<'_>) -> Option<Assignment> {
        let word = Word::new(self.text(node));
        let (name, _) = word.fixed()?.split_once('=')?;
        Some(Assignment {
            name: name.to_owned(),
            text: word.source.clone(),
        })
    }

    fn function(&mut self, node: Node<'_>, children: &[Node<'_>]) {
        if let Some(name) = node.child_by_field_name("name") {
            self.parsed.functions.push(self.text(name).to_owned());
        }
        let redirects = self.redirects(children);
        self.loose.push((node.byte_range(), redirects));
    }

    fn redirected<'t>(&mut self, node: Node<'t>, children: &[Node<'t>]) -> Option<Around<'t>> {
        let Some(body) = node.child_by_field_name("body") else {
            self.bare(node, children);
            return None;
        };
        if !matches!(body.kind(), "command" | "list" | "pipeline" | "negated_command") {
            let redirects = self.redirects(children);
            self.loose.push((body.byte_range(), redirects));
        }
        Some(Around {
            statement: node,
            is_direct: true,
        })
    }

    /// A redirection without a command. The grammar takes words behind the target for further targets; for the shell they
    /// are a command.
    fn bare(&mut self, node: Node<'_>, children: &[Node<'_>]) {
        let mut pieces = Pieces::default();
        for child in children {
            pieces.redirect(*child);
        }
        self.push(node, pieces, self.text(node).trim().to_owned(), None);
    }

    fn command<'t>(&mut self, node: Node<'t>, children: &[Node<'t>], around: Option<Around<'t>>) {
        let mut pieces = Pieces::default();
        for child in children {
            match child.kind() {
                "variable_assignment" => pieces.assignments.push(*child),
                "file_redirect" | "herestring_redirect" | "heredoc_redirect" => pieces.redirect(*child),
                _ => pieces.words.push(*child),
            }
        }
        let own = self.text(node).trim();
        let mut text = own.to_owned();
        let mut extended = None;
        if let Some(around) = around {
            let outer: Vec<Node<'t>> = around.statement.children(&mut around.statement.walk()).collect();
            let outer = outer.into_iter().filter(|child| child.kind().ends_with("_redirect"));
            let redirects: Vec<Node<'t>> = outer.collect();
            redirects.iter().for_each(|redirect| pieces.redirect(*redirect));
            pieces.lost = self.between(node, redirects.first().filter(|_| around.is_direct));
            if around.is_direct {
                self.text(around.statement).trim().clone_into(&mut text);
            } else if let (Some(first), Some(last)) = (redirects.first(), redirects.last()) {
                let tail = self.line.get(first.start_byte()..last.end_byte()).unwrap_or_default();
                extended = Some(format!("{own} {}", tail.trim()));
                pieces.own_end = Some(node.end_byte());
            }
        }
        self.push(node, pieces, text, extended);
    }

    fn push(&mut self, node: Node<'_>, pieces: Pieces<'_>, text: String, extended: Option<String>) {
        if text.is_empty() {
            return;
        }
        let (mut words, is_glued) = self.words(&pieces.words);
        words.extend(pieces.lost.iter().cloned().map(|span| self.word(span, true)));
        if is_glued {
            self.mark_opaque("a line continuation stands inside a word");
        }
        if words
            .iter()
            .any(|word| opens_descriptor(word, &pieces.redirects, self.line))
        {
            self.mark_opaque("a redirection in it sets a variable");
        }
        let redirects = self.redirects(&pieces.redirects);
        let simple = Simple {
            canonical: pieces.canonical(self.line),
            extended,
            assignments: pieces
                .assignments
                .iter()
                .filter_map(|node| self.assignment(*node))
                .collect(),
            words,
            redirects,
            text,
            start: node.start_byte(),
        };
        self.starts.push(node.start_byte());
        self.parsed.commands.push(simple);
    }

    /// Returns a word that the grammar loses between a command and its here-document, such as `-`.
    fn between(&self, command: Node<'_>, redirect: Option<&Node<'_>>) -> Option<Range<usize>> {
        let start = command.end_byte();
        let gap = self.line.get(start..redirect?.start_byte())?;
        let at = start + (gap.len() - gap.trim_start().len());
        (!gap.trim().is_empty()).then(|| at..at + gap.trim().len())
    }

    /// Says whether what stands there may become several words, or none: an expansion outside of quotes, or a list in them.
    fn splits(&self, node: Node<'_>) -> bool {
        match node.kind() {
            "simple_expansion" | "expansion" | "command_substitution" | "arithmetic_expansion" => true,
            "string" | "translated_string" => {
                let text = self.text(node);
                ["[@]", "$@", "${@", "${!"].iter().any(|list| text.contains(list))
            }
            "concatenation" | "command_name" => node.children(&mut node.walk()).any(|child| self.splits(child)),
            "word" | "raw_string" | "ansi_c_string" | "number" | "process_substitution" | "brace_expression" => false,
            _ => true,
        }
    }

    fn word(&self, span: Range<usize>, counts: bool) -> Word {
        Word {
            counts,
            at: Some(span.start),
            ..Word::new(self.line.get(span).unwrap_or_default())
        }
    }

    /// Reads words. What stands together without a gap is one word to the shell, whatever the grammar says.
    fn words(&self, nodes: &[Node<'_>]) -> (Vec<Word>, bool) {
        let mut spans: Vec<(Range<usize>, bool)> = Vec::new();
        // For each word whether it may become several.
        let mut splits: Vec<bool> = Vec::new();
        let mut is_glued = false;
        for node in nodes {
            let is_split = self.splits(*node);
            let inner = if node.kind() == "command_name" {
                node.child(0)
            } else {
                Some(*node)
            };
            let counts = node.kind() == "command_name"
                || inner
                    .is_some_and(|inner| matches!(inner.kind(), "word" | "string" | "raw_string" | "concatenation"));
            match spans.last_mut() {
                Some((span, known)) if span.end == node.start_byte() => {
                    span.end = node.end_byte();
                    *known |= counts;
                    splits.last_mut().into_iter().for_each(|known| *known |= is_split);
                }
                Some((span, _)) => {
                    let gap = self.line.get(span.end..node.start_byte()).unwrap_or_default();
                    is_glued |= gap.replace("\\\n", "").is_empty();
                    spans.push((node.byte_range(), counts));
                    splits.push(is_split);
                }
                None => {
                    spans.push((node.byte_range(), counts));
                    splits.push(is_split);
                }
            }
        }
        let words = spans.into_iter().zip(splits).filter(|((span, _), _)| !span.is_empty());
        let word = |((span, counts), splits): ((Range<usize>, bool), bool)| {
            let word = self.word(span, counts);
            Word {
                splits: splits && word.value.is_none(),
                ..word
            }
        };
        (words.map(word).collect(), is_glued)
    }

    fn quotation(&mut self, node: Node<'_>) {
        let text = self.text(node);
        let is_literal = matches!(node.kind(), "raw_string" | "ansi_c_string");
        let is_expanded = node.parent().is_some_and(|parent| parent.kind() == "expansion");
        if is_literal && (text.contains("[$(") || text.contains("[`") || (is_expanded && substitutes(text))) {
            self.mark_opaque("a quoted text may hide a command in an index");
        }
        // What is nested in an unquoted text is code again, and is looked at for itself.
        if is_literal || !text.contains(['$', '`']) {
            self.quoted.push(node.byte_range());
        }
    }

    fn finish(mut self) -> Parsed {
        self.quoted.sort_by_key(|span| span.start);
        if has_glue(self.line, &self.quoted) {
            self.mark_opaque("a line continuation stands inside a word");
        }
        for (span, redirects) in std::mem::take(&mut self.loose) {
            let from = self.starts.partition_point(|start| *start < span.start);
            // Commands inside are judged for themselves; without any, the redirection would be seen by nobody.
            if self.starts.get(from).is_some_and(|start| *start < span.end) {
                self.parsed.commands.get_mut(from).into_iter().for_each(|command| {
                    command.redirects.extend(redirects.iter().cloned());
                });
                continue;
            }
            for redirect in redirects {
                self.parsed.commands.push(Simple::redirection(redirect));
            }
        }
        // What stands nowhere that is known still opens its file, such as the one in `$(> file)`.
        for (node, redirect) in std::mem::take(&mut self.redirects) {
            if !self.taken.contains(&node) {
                self.parsed.commands.push(Simple::redirection(redirect));
            }
        }
        self.parsed
    }
}

/// Returns the line with letters that are as long in the place of all characters beyond ASCII. To the shell, too, they are
/// nothing but parts of words; the scanner of the grammar looks some up in a table that ends at U+00FF, and the memory
/// behind that may be nobody's.
fn without_wide(line: &str) -> Cow<'_, str> {
    if line.is_ascii() {
        return Cow::Borrowed(line);
    }
    let letters = |character: char| match character.len_utf8() {
        2 => "é",
        3 => "éx",
        4 => "éé",
        _ => "",
    };
    let mut plain = String::with_capacity(line.len());
    for character in line.chars() {
        if character.is_ascii() {
            plain.push(character);
        } else {
            plain.push_str(letters(character));
        }
    }
    Cow::Owned(plain)
}

/// Returns the line with `>>` in the place of `<>`, which the grammar does not know: it is as long, and opens a file for
/// writing as well. It stays where one of its two characters may belong to another operator or is escaped; the grammar does
/// not fit the line then.
fn without_read_write(line: &str) -> Cow<'_, str> {
    let bytes = line.as_bytes();
    let is_operator = |at: usize| {
        let before = at.checked_sub(1).and_then(|before| bytes.get(before));
        let is_apart = |byte: Option<&u8>, others: &[u8]| byte.is_none_or(|byte| !others.contains(byte));
        is_apart(before, b"<>&\\") && is_apart(bytes.get(at + 2), b"<>&|(")
    };
    let places: Vec<usize> = memchr::memmem::find_iter(bytes, "<>")
        .filter(|at| is_operator(*at))
        .collect();
    if places.is_empty() {
        return Cow::Borrowed(line);
    }
    let mut known = line.to_owned();
    for at in places {
        known.replace_range(at..at + 2, ">>");
    }
    Cow::Owned(known)
}

/// Says whether a word names the variable that a redirection right behind it sets, as in `exec {name}> file`.
fn opens_descriptor(word: &Word, redirects: &[Node<'_>], line: &str) -> bool {
    let is_name = word.source.starts_with('{') && word.source.ends_with('}');
    let end = word.at.map(|at| at + word.source.len());
    is_name
        && end.is_some_and(|end| line.get(end..).is_some_and(|rest| rest.starts_with(['<', '>', '&'])))
        && redirects.iter().any(|redirect| Some(redirect.start_byte()) == end)
}

/// Says whether a text holds the beginning of a substitution that no backslash makes literal.
fn substitutes(text: &str) -> bool {
    let mut is_escaped = false;
    let bytes = text.as_bytes();
    bytes.iter().enumerate().any(|(at, byte)| {
        let opens = matches!((byte, bytes.get(at + 1)), (b'$', Some(b'(')) | (b'`', _));
        let begins = !is_escaped && opens;
        is_escaped = *byte == b'\\' && !is_escaped;
        begins
    })
}

/// The grammar counts only a command and what it wraps as the end of a list; the redirections stay with that.
fn settle<'t>(parent: Node<'t>, child: Node<'t>, around: Around<'t>) -> Around<'t> {
    let is_body = parent.kind() == "redirected_statement" && parent.child_by_field_name("body") == Some(child);
    Around {
        is_direct: is_body && around.is_direct,
        ..around
    }
}

/// Says whether a line continuation joins two words that the grammar sees as two.
fn has_glue(line: &str, quoted: &[Range<usize>]) -> bool {
    let bytes = line.as_bytes();
    memchr::memmem::find_iter(bytes, "\\\n").any(|at| {
        let joins = |byte: Option<&u8>| byte.is_some_and(|byte| !b" \t\n;&|()\\".contains(byte));
        let before = at.checked_sub(1).and_then(|before| bytes.get(before));
        if !joins(before) || !joins(bytes.get(at + 2)) {
            return false;
        }
        let after = quoted.partition_point(|span| span.start <= at);
        !after.checked_sub(1).is_some_and(|last| quoted[last].contains(&at))
    })
}
