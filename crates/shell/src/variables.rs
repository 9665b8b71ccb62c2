//! What a line makes of its own variables, so that `for f in a b; do rm "$f"; done` is judged by what it removes.
//!
//! A variable is only known where an assignment of a literal text surely ran before, in the same shell, and where every
//! other assignment of the line is known as well; then it is one of those texts. In doubt it is not known.
//!
//! *Invariant:* pure. What is not understood makes variables unknown, never known.

use std::ops::Range;

use tree_sitter::Node;

use super::parse::is_name;
use super::words::{Value, Word};

/// The most texts that one variable is followed with, and the most spellings of one command.
const MAX_TEXTS: usize = 16;

/// Commands of the shell that set the variables that their operands name.
const SETTERS: &str = "read mapfile readarray getopts printf wait coproc unset let";

/// Commands of the shell that may set any variable.
const OPAQUE: &str = "eval source . trap enable bind complete fc";

/// Variables that the shell itself changes, or that name what the command line cannot show.
const CHANGING: &str = "RANDOM SECONDS LINENO OLDPWD REPLY OPTARG OPTIND IFS PWD HOME PATH";

/// The assignments of a line.
#[derive(Clone, Debug, Default)]
pub(super) struct Variables {
    assigned: Vec<Assigned>,
    /// Whether any variable may have been set to anything.
    is_lost: bool,
}

/// One place that sets a variable.
#[derive(Clone, Debug)]
struct Assigned {
    name: String,
    /// The texts that it may have then; none if they are not known.
    texts: Option<Vec<Value>>,
    /// Where it surely has run before.
    holds: Option<Range<usize>>,
}

impl Variables {
    /// Takes in a node of the line.
    pub(super) fn see(&mut self, node: Node<'_>, children: &[Node<'_>], line: &str) {
        let text = |node: Node<'_>| line.get(node.byte_range()).unwrap_or_default();
        match node.kind() {
            "variable_assignment" => self.assignment(node, children, line),
            "for_statement" => self.loops(node, children, line),
            "expansion" if children.iter().any(|child| matches!(text(*child), ":=" | "=")) => {
                let subject = children.iter().find(|child| child.kind() == "variable_name");
                self.unknown(subject.map_or("", |name| text(*name)));
            }
            "unset_command" => children.iter().skip(1).for_each(|child| self.unknown(text(*child))),
            "declaration_command" => {
                let plain = |child: &Node<'_>| {
                    matches!(child.kind(), "variable_assignment" | "variable_name")
                        || (child.kind() == "word" && !text(*child).contains('='))
                };
                self.is_lost |= !children.iter().skip(1).all(plain);
            }
            "command" => self.command(children, line),
            _ => {}
        }
    }

    fn unknown(&mut self, name: &str) {
        self.assigned.push(Assigned {
            name: name.to_owned(),
            texts: None,
            holds: None,
        });
    }

    fn command(&mut self, children: &[Node<'_>], line: &str) {
        let words: Vec<Word> = children
            .iter()
            .filter(|child| child.kind() != "variable_assignment")
            .map(|child| Word::new(line.get(child.byte_range()).unwrap_or_default()))
            .collect();
        let is_listed = |list: &str, word: &Word| list.split_whitespace().any(|name| word.is(name));
        let Some(first) = words.iter().find(|word| !is_listed("command builtin time -p --", word)) else {
            return;
        };
        self.is_lost |= is_listed(OPAQUE, first);
        if is_listed(SETTERS, first) {
            for word in &words {
                match word.fixed() {
                    Some(name) => self.unknown(name.split(['=', '[']).next().unwrap_or_default()),
                    None => self.is_lost = true,
                }
            }
        }
    }

    fn assignment(&mut self, node: Node<'_>, children: &[Node<'_>], line: &str) {
        let name = node.child_by_field_name("name");
        let name = name.map_or("", |name| line.get(name.byte_range()).unwrap_or_default());
        let is_plain = is_name(name) && children.iter().any(|child| child.kind() == "=");
        let is_transformed = node.parent().is_some_and(|parent| {
            parent.kind() == "declaration_command"
                && parent
                    .children(&mut parent.walk())
                    .any(|child| child.kind() == "word" && line.as_bytes().get(child.start_byte()) == Some(&b'-'))
        });
        let is_local = node.parent().is_some_and(|parent| parent.kind() == "command");
        if !is_plain || is_transformed || is_local {
            return self.unknown(name.split(['[', '+']).next().unwrap_or_default());
        }
        let value = match node.child_by_field_name("value") {
            None => Some(Value::default()),
            Some(value) if value.kind() == "array" => None,
            Some(value) => Word::new(line.get(value.byte_range()).unwrap_or_default()).assigned(),
        };
        self.assigned.push(Assigned {
            name: name.to_owned(),
            texts: value.map(|value| vec![value]),
            holds: scope(node),
        });
    }

    fn loops(&mut self, node: Node<'_>, children: &[Node<'_>], line: &str) {
        let text = |node: Node<'_>| line.get(node.byte_range()).unwrap_or_default();
        let Some(name) = node.child_by_field_name("variable").map(text) else {
            return;
        };
        let words: Vec<Word> = node
            .children_by_field_name("value", &mut node.walk())
            .map(|value| Word::new(text(value)))
            .collect();
        let is_for = children.first().is_some_and(|first| first.kind() == "for");
        let values: Option<Vec<Value>> = words.iter().flat_map(Word::braces).map(|word| word.listed()).collect();
        let body = children.iter().find(|child| child.kind() == "do_group");
        self.assigned.push(Assigned {
            name: name.to_owned(),
            texts: values.filter(|values| is_for && !values.is_empty() && values.len() <= MAX_TEXTS),
            holds: body.map(Node::byte_range),
        });
    }

    /// Returns the texts that a variable may have where a word stands; none if they are not known.
    fn texts(&self, name: &str, at: Option<usize>) -> Option<Vec<Value>> {
        if self.is_lost {
            return None;
        }
        let mut own = self.assigned.iter().filter(|assigned| assigned.name == name).peekable();
        if own.peek().is_none() {
            return Value::of_environment(name).map(|value| vec![value]);
        }
        if CHANGING.split_whitespace().any(|changing| changing == name) {
            return None;
        }
        let mut texts: Vec<Value> = Vec::new();
        let mut is_set = false;
        for assigned in own {
            is_set |= at
                .zip(assigned.holds.as_ref())
                .is_some_and(|(at, holds)| holds.contains(&at));
            for value in assigned.texts.as_ref()? {
                if !texts.contains(value) {
                    texts.push(value.clone());
                }
            }
        }
        (is_set && texts.len() <= MAX_TEXTS).then_some(texts)
    }

    /// Returns the words with what is known put in: one list for each way that the variables may be.
    pub(super) fn resolve(&self, words: &[Word]) -> Vec<Vec<Word>> {
        let words: Vec<Word> = words.iter().flat_map(Word::braces).collect();
        let mut lists: Vec<Vec<Word>> = vec![Vec::with_capacity(words.len())];
        // The same variable has the same text in all words of a command.
        let mut names: Vec<String> = words.iter().flat_map(Word::variables).collect();
        names.sort();
        names.dedup();
        let mut ways: Vec<Vec<(String, Value)>> = vec![Vec::new()];
        let at = words.iter().find_map(|word| word.at);
        for name in names {
            let Some(texts) = self.texts(&name, at) else { continue };
            if ways.len() * texts.len() > MAX_TEXTS {
                continue;
            }
            ways = ways
                .iter()
                .flat_map(|way| {
                    texts
                        .iter()
                        .map(|text| way.iter().cloned().chain([(name.clone(), text.clone())]).collect())
                })
                .collect();
        }
        if ways.len() == 1 && ways[0].is_empty() {
            lists[0] = words;
            return lists;
        }
        ways.iter()
            .map(|way| words.iter().flat_map(|word| word.with(way)).collect())
            .collect()
    }
}

/// Returns where in the line an assignment has surely run before: from its end to the end of what it stands in, if nothing
/// on the way there makes it conditional or runs it in a process of its own.
fn scope(node: Node<'_>) -> Option<Range<usize>> {
    let mut below = node;
    while let Some(above) = below.parent() {
        let is_background = below.next_sibling().is_some_and(|next| next.kind() == "&");
        if is_background {
            return None;
        }
        match above.kind() {
            "program" | "do_group" | "subshell" | "command_substitution" | "process_substitution" => {
                return Some(node.end_byte()..above.end_byte());
            }
            "compound_statement" if above.child(0).is_some_and(|first| first.kind() == "{") => {
                return Some(node.end_byte()..above.end_byte());
            }
            "variable_assignments" | "declaration_command" => below = above,
            "list" if above.child(0) == Some(below) => below = above,
            _ => return None,
        }
    }
    None
}
