//! The `console` blocks of a page, as commands with what they should print.
//!
//! In a block, `$ ` begins a command and `> ` goes on with it; what follows is what it prints, where `…` stands for any
//! text and, alone, for any lines.
//!
//! *Invariant:* reads text only; nothing is run here.

use regex::Regex;

#[derive(Debug, Default)]
pub(super) struct Example {
    pub(super) line: usize,
    section: String,
    pub(super) command: String,
    pub(super) expected: Vec<String>,
}

impl Example {
    pub(super) fn stays_in_background(&self) -> bool {
        self.command.ends_with('&')
    }

    /// Says whether the section's heading is of the third level.
    pub(super) fn is_of_a_subsection(&self) -> bool {
        self.section.starts_with("### ")
    }

    /// Puts another text in the place of one, in what is run and in what is printed.
    pub(super) fn replace(&mut self, from: &str, to: &str) {
        self.command = self.command.replace(from, to);
        for line in &mut self.expected {
            *line = line.replace(from, to);
        }
    }

    /// Returns a pattern for the whole output; of a program that goes on running, for its beginning.
    pub(super) fn pattern(&self) -> Regex {
        let lines = self.expected.iter().map(|line| match line.as_str() {
            "…" => r"(?:.*\n)*?".to_owned(),
            line => format!(r"{}\n", regex::escape(line).replace('…', ".*")),
        });
        let end = if self.stays_in_background() { "" } else { r"\z" };
        Regex::new(&format!(r"\A{}{end}", lines.collect::<String>())).unwrap()
    }
}

/// A fenced block of a page.
pub(super) struct Block<'a> {
    /// The line of the fence.
    pub(super) line: usize,
    pub(super) language: &'a str,
    /// The heading above it.
    section: &'a str,
    lines: Vec<&'a str>,
}

impl Block<'_> {
    /// Returns what is between the fences.
    pub(super) fn text(&self) -> String {
        self.lines.join("\n")
    }
}

pub(super) fn blocks(text: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut section = "";
    let mut lines = (1..).zip(text.lines());
    while let Some((line, text)) = lines.next() {
        if let Some(language) = text.strip_prefix("```") {
            let inside = lines.by_ref().map(|(_, text)| text);
            blocks.push(Block {
                line,
                language,
                section,
                lines: inside.take_while(|text| *text != "```").collect(),
            });
        } else if text.starts_with('#') {
            section = text;
        }
    }
    blocks
}

pub(super) fn examples(text: &str) -> Vec<Example> {
    let mut examples: Vec<Example> = Vec::new();
    for block in blocks(text).into_iter().filter(|block| block.language == "console") {
        let before = examples.len();
        for (line, text) in (block.line + 1..).zip(block.lines) {
            if let Some(command) = text.strip_prefix("$ ") {
                examples.push(Example {
                    line,
                    section: block.section.to_owned(),
                    command: command.to_owned(),
                    expected: Vec::new(),
                });
                continue;
            }
            assert!(examples.len() > before, "line {line}: a block begins with a command");
            let example = examples.last_mut().expect("one was just found");
            match text.strip_prefix('>') {
                Some(more) if example.expected.is_empty() => {
                    example.command.push('\n');
                    example.command.push_str(more.strip_prefix(' ').unwrap_or(more));
                }
                Some(_) | None => example.expected.push(text.to_owned()),
            }
        }
    }
    examples
}

#[test]
fn examples_are_told_from_the_text() {
    let text = "# A\n```console\n$ one \\\n>   two\nout…\n…\n$ three &\n```\n### B\n```python\n# no heading\n```\n\
                ```console\n$ four\n> five\n```\n";
    let found = examples(text);
    let commands: Vec<_> = found
        .iter()
        .map(|example| (example.line, example.command.as_str()))
        .collect();
    assert_eq!(commands, [(3, "one \\\n  two"), (7, "three &"), (14, "four\nfive")]);
    let check = |example: usize, printed: &str, expected: bool| {
        assert_eq!(found[example].pattern().is_match(printed), expected, "{printed:?}");
    };
    check(0, "output\n", true);
    check(0, "out\nmore\nand more\n", true);
    check(0, "in\n", false);
    check(1, "it runs\n", true);
    check(2, "", true);
    check(2, "unexpected\n", false);
    assert_eq!(
        [false, false, true],
        [0, 1, 2].map(|at: usize| found[at].is_of_a_subsection())
    );
}
