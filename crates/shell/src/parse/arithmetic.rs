//! Places where the shell evaluates arithmetic. A name in them is evaluated again and again until it is a number, and a
//! subscript on that way may hold a command; so only numbers that stand in the line are understood.
//!
//! *Invariant:* pure, and only ever adds a doubt.

use tree_sitter::Node;

const ARITHMETIC: &str = "it evaluates arithmetic on what is only known when it runs";
const INDIRECT: &str = "it expands a name or a text that is only known when it runs";

/// Node types of arithmetic that hold no name.
const LITERAL: &str = "number binary_expression unary_expression parenthesized_expression ternary_expression";

/// Operators of `[[ … ]]` that evaluate both sides as arithmetic.
const COMPARISONS: [&str; 6] = ["-eq", "-ne", "-lt", "-le", "-gt", "-ge"];

/// Returns what makes a node doubtful, if it is one that evaluates arithmetic or a name.
pub(super) fn opaque_node(node: Node<'_>, children: &[Node<'_>], line: &str) -> Option<&'static str> {
    let text = |node: &Node<'_>| line.get(node.byte_range()).unwrap_or_default();
    let is_literal = match node.kind() {
        "arithmetic_expansion" => children.iter().all(|child| is_number(*child, line)),
        "compound_statement" if children.first().is_some_and(|first| first.kind() == "((") => {
            children.iter().all(|child| is_number(*child, line))
        }
        "c_style_for_statement" => false,
        "subscript" => {
            let index = node.child_by_field_name("index");
            index.is_some_and(|index| matches!(text(&index), "@" | "*") || is_number(index, line))
        }
        "expansion" => return expansion(children, line),
        "test_command" if children.first().is_some_and(|first| first.kind() == "[[") => {
            compares_numbers(children, line)
        }
        "unary_expression" if children.iter().any(|child| matches!(text(child), "-v" | "-R")) => {
            children.last().is_some_and(|name| is_name(text(name)))
        }
        "array" => children.iter().all(|element| has_plain_index(text(element))),
        "declaration_command" => children
            .iter()
            .skip(1)
            .all(|child| child.kind() == "variable_assignment" || is_declared(text(child))),
        "unset_command" => children
            .iter()
            .skip(1)
            .all(|child| is_name(text(child)) || matches!(text(child), "-f" | "-v")),
        _ => true,
    };
    (!is_literal).then_some(ARITHMETIC)
}

/// Says whether an element of an array has no index, or a number.
fn has_plain_index(element: &str) -> bool {
    let index = element
        .strip_prefix('[')
        .map(|rest| rest.split(']').next().unwrap_or_default());
    index.is_none_or(|index| !index.is_empty() && index.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Says whether a word of a declaration is a name, or an option that neither evaluates what is assigned nor makes a name
/// stand for another.
fn is_declared(word: &str) -> bool {
    let is_option = |letters: &str| letters.bytes().all(|letter| b"rgpaAfFxul".contains(&letter));
    let option = word.strip_prefix(['-', '+']).filter(|letters| is_option(letters));
    option.is_some() || is_name(word) || is_quoted_name(word)
}

/// `export "NAME=text"` is judged as an assignment; its name is a plain one.
fn is_quoted_name(word: &str) -> bool {
    let inner = word.strip_prefix(['"', '\'']).unwrap_or(word);
    inner.split_once('=').is_some_and(|(name, _)| is_name(name))
}

/// Checks `${…}`: the operators that only cut or replace text are understood.
fn expansion(children: &[Node<'_>], line: &str) -> Option<&'static str> {
    const TEXTS: &str = ":- - := = :? ? :+ + # ## % %% / // /# /% ^ ^^ , ,,";
    let text = |node: &Node<'_>| line.get(node.byte_range()).unwrap_or_default();
    let is_subject = |node: &Node<'_>| matches!(node.kind(), "variable_name" | "special_variable_name" | "subscript");
    let subject = children.iter().position(is_subject);
    let before = &children[..subject.unwrap_or(children.len())];
    if before.iter().any(|child| !matches!(text(child), "${" | "#")) || subject.is_none() {
        return Some(INDIRECT);
    }
    let behind = &children[subject.map_or(children.len(), |at| at + 1)..];
    let (operator, rest) = behind.split_first()?;
    match text(operator) {
        "}" => None,
        ":" => {
            let is_literal = rest
                .iter()
                .all(|child| matches!(text(child), ":" | "}") || is_number(*child, line));
            (!is_literal).then_some(ARITHMETIC)
        }
        "@" => {
            let is_quoting = rest
                .first()
                .is_some_and(|child| matches!(text(child), "Q" | "U" | "u" | "L"));
            (!is_quoting).then_some(INDIRECT)
        }
        text if TEXTS.split_whitespace().any(|known| known == text) => None,
        _ => Some(INDIRECT),
    }
}

/// Says whether a node of arithmetic holds nothing but numbers and operators.
fn is_number(node: Node<'_>, line: &str) -> bool {
    // Its own stack: what is nested deeply enough would end the thread's.
    let mut left = vec![node];
    while let Some(node) = left.pop() {
        let text = line.get(node.byte_range()).unwrap_or_default();
        let is_literal = match node.kind() {
            _ if !node.is_named() => true,
            "word" | "number" => {
                let digits = text.strip_prefix('-').unwrap_or(text);
                !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
            }
            kind => {
                left.extend(node.children(&mut node.walk()));
                LITERAL.split_whitespace().any(|literal| literal == kind)
            }
        };
        if !is_literal {
            return false;
        }
    }
    true
}

/// Says whether all comparisons of `[[ … ]]` are of numbers; `[ … ]` takes numbers and evaluates nothing.
fn compares_numbers(children: &[Node<'_>], line: &str) -> bool {
    let is_operator = |node: &Node<'_>| {
        let text = line.get(node.byte_range()).unwrap_or_default();
        COMPARISONS.contains(&text)
    };
    let mut left: Vec<Node<'_>> = children.to_vec();
    while let Some(node) = left.pop() {
        if !matches!(
            node.kind(),
            "binary_expression" | "unary_expression" | "parenthesized_expression"
        ) {
            continue;
        }
        let parts: Vec<Node<'_>> = node.children(&mut node.walk()).collect();
        if parts.iter().any(is_operator) && !parts.iter().all(|part| is_operator(part) || is_number(*part, line)) {
            return false;
        }
        left.extend(parts);
    }
    true
}

/// Says whether a text is the plain name of a variable.
pub(crate) fn is_name(text: &str) -> bool {
    let begins = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    begins && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
