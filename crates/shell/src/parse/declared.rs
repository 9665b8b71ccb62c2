//! What statements besides plain assignments make of variables: declarations, loops, `unset`, and expansions that assign.
//!
//! *Invariant:* pure, and only ever adds a doubt.

use tree_sitter::Node;

use super::Assignment;
use crate::words::Word;

/// Returns the variables that a node sets to what is not followed.
pub(super) fn set_by(node: Node<'_>, children: &[Node<'_>], line: &str) -> Vec<Assignment> {
    let text = |node: &Node<'_>| line.get(node.byte_range()).unwrap_or_default();
    let mut names = children.to_vec();
    match node.kind() {
        "for_statement" => names = node.child_by_field_name("variable").into_iter().collect(),
        "expansion" if children.iter().any(|child| matches!(text(child), ":=" | "=")) => {
            names.retain(|name| name.kind() == "variable_name");
        }
        // A variable of a function hides the one from outside.
        "declaration_command" => {
            let is_new = |first: &Node<'_>| !matches!(text(first), "export" | "readonly");
            let makes = children.first().is_some_and(is_new);
            names.retain(|name| makes && name.kind() == "variable_name");
        }
        // Without it the shell looks where it is; without any other one it is as if nobody had set it.
        "unset_command" => names.retain(|name| text(name) == "PATH"),
        _ => names.clear(),
    }
    let assignment = |name: &Node<'_>| Assignment {
        name: text(name).to_owned(),
        text: text(name).to_owned(),
    };
    names.iter().map(assignment).collect()
}

/// Declarations that read what they assign to an array as a list, which may hold commands; `export` does not.
const DECLARE: [&str; 4] = ["declare", "typeset", "local", "readonly"];

/// Commands of the shell that make arrays.
const MAKE_ARRAYS: [&str; 4] = ["read", "mapfile", "readarray", "coproc"];

/// Arrays of the shell's own.
const OWN_ARRAYS: &str = "BASH_ALIASES BASH_ARGC BASH_ARGV BASH_CMDS BASH_LINENO BASH_REMATCH BASH_SOURCE BASH_VERSINFO COMP_WORDS \
    COMPREPLY COPROC DIRSTACK FUNCNAME GROUPS MAPFILE PIPESTATUS";

/// Whether a declaration of a line may read a text as a list. It does so where the text begins with a parenthesis and the name is that of
/// an array, which may have become one anywhere before.
#[derive(Default)]
pub(super) struct Declared {
    has_array: bool,
    has_open_text: bool,
    has_list: bool,
}

impl Declared {
    /// Takes in a node of the line.
    pub(super) fn see(&mut self, node: Node<'_>, children: &[Node<'_>], line: &str) {
        let text = |node: &Node<'_>| line.get(node.byte_range()).unwrap_or_default();
        match node.kind() {
            "array" | "subscript" => self.has_array = true,
            "command" => {
                let words: Vec<Word> = children.iter().map(|child| Word::new(text(child))).collect();
                let has = |is_one: &dyn Fn(&str) -> bool| words.iter().any(|word| word.fixed().is_some_and(is_one));
                self.has_array |= has(&|word| MAKE_ARRAYS.contains(&word));
                self.has_array |= has(&|word| word == "printf") && has(&|word| word.starts_with("-v"));
            }
            "declaration_command" if children.first().is_some_and(|first| DECLARE.contains(&text(first))) => {
                children.iter().skip(1).for_each(|child| self.declared(*child, line));
            }
            _ => {}
        }
    }

    fn declared(&mut self, node: Node<'_>, line: &str) {
        let text = line.get(node.byte_range()).unwrap_or_default();
        if let Some(option) = text.strip_prefix(['-', '+']) {
            self.has_array |= option.contains(['a', 'A']);
            return;
        }
        let (name, value) = match node.kind() {
            "variable_assignment" => {
                let Some(value) = node
                    .child_by_field_name("value")
                    .filter(|value| value.kind() != "array")
                else {
                    return;
                };
                let value = Word::new(line.get(value.byte_range()).unwrap_or_default());
                (
                    text.split(['=', '+']).next().map(str::to_owned),
                    value.fixed().map(str::to_owned),
                )
            }
            _ => match Word::new(text).fixed() {
                Some(text) => match text.split_once('=') {
                    Some((name, value)) => (Some(name.to_owned()), Some(value.to_owned())),
                    None => return,
                },
                None => (None, None),
            },
        };
        let is_own = |name: String| OWN_ARRAYS.split_whitespace().any(|own| own == name);
        self.has_array |= name.is_none_or(is_own);
        match value {
            Some(value) => self.has_list |= value.starts_with('('),
            None => self.has_open_text = true,
        }
    }

    /// Says why the line is not clear, if it is not.
    pub(super) fn reason(&self) -> Option<&'static str> {
        let is_read = self.has_list || (self.has_open_text && self.has_array);
        is_read.then_some("it assigns a text that the shell may read as a list with commands")
    }
}
