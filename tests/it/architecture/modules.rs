//! The modules of a crate and which of them name each other, told from their text.
//!
//! *Invariant:* tests and comments do not count. What is not understood is left out, so a circle that is found is there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;

/// A module: the names that lead to it from the root of its crate, which has none.
type Module = Vec<String>;

/// How many re-exports lead from one to the next before the search is given up.
const MAX_REEXPORTS: usize = 8;

/// The modules of one crate.
pub(super) struct Modules {
    texts: BTreeMap<Module, String>,
    /// What a module re-exports: by the name that it gives, where that leads.
    reexports: BTreeMap<(Module, String), (Module, Vec<String>)>,
}

/// Returns the Rust files below a folder.
pub(super) fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut left = vec![folder.to_path_buf()];
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                left.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

impl Modules {
    /// Reads the modules of the crate whose sources are in a folder.
    pub(super) fn read(source: &Path) -> Self {
        let test_file = Regex::new(r"#\[cfg\(test\)\]\s*(?:pub(?:\([a-z]+\))? )?mod (\w+);").unwrap();
        let test_block = Regex::new(r"#\[cfg\(test\)\]\s*(?:pub(?:\([a-z]+\))? )?mod \w+ \{").unwrap();
        let comment = Regex::new(r"//[^\n]*").unwrap();
        let mut texts = BTreeMap::new();
        let mut tests: Vec<Module> = Vec::new();
        for file in rust_files(source) {
            let path = file.strip_prefix(source).unwrap().with_extension("");
            let mut module: Module = path.iter().map(|name| name.to_str().unwrap().to_owned()).collect();
            module.pop_if(|name| ["lib", "main", "mod"].contains(&name.as_str()));
            let text = comment
                .replace_all(&fs::read_to_string(&file).unwrap(), "")
                .into_owned();
            for found in test_file.captures_iter(&text) {
                tests.push([module.as_slice(), &[found[1].to_owned()]].concat());
            }
            let end = test_block.find(&text).map_or(text.len(), |found| found.start());
            texts.insert(module, text[..end].to_owned());
        }
        texts.retain(|module, _| !tests.iter().any(|test| module.starts_with(test)));
        let mut modules = Self {
            texts,
            reexports: BTreeMap::new(),
        };
        modules.reexports = modules.find_reexports();
        modules
    }

    /// Returns the groups of modules of which each leads to each other one.
    pub(super) fn circles(&self) -> Vec<Vec<String>> {
        let uses: BTreeMap<&Module, BTreeSet<Module>> =
            self.texts.keys().map(|module| (module, self.uses(module))).collect();
        let reach = |from: &Module| {
            let mut seen: BTreeSet<Module> = BTreeSet::new();
            let mut left = vec![from.clone()];
            while let Some(module) = left.pop() {
                for next in &uses[&module] {
                    if seen.insert(next.clone()) {
                        left.push(next.clone());
                    }
                }
            }
            seen
        };
        let reached: BTreeMap<&Module, BTreeSet<Module>> = uses.keys().map(|&module| (module, reach(module))).collect();
        let mut circles: BTreeSet<Vec<String>> = BTreeSet::new();
        for (module, others) in &reached {
            if others.contains(*module) {
                let circle = others.iter().filter(|other| reached[other].contains(*module));
                circles.insert(circle.map(name).collect());
            }
        }
        circles.into_iter().collect()
    }

    /// Returns the other modules that a module names.
    fn uses(&self, module: &Module) -> BTreeSet<Module> {
        let text = &self.texts[module];
        let import = Regex::new(r"\buse ([^;]+);").unwrap();
        let path = Regex::new(r"(?:^|[^\w:])(\w+(?:::\w+)+)").unwrap();
        let imported = import.captures_iter(text).flat_map(|found| paths(&found[1]));
        let rest = import.replace_all(text, "");
        let named = path
            .captures_iter(&rest)
            .map(|found| found[1].split("::").map(str::to_owned).collect());
        imported
            .map(|(path, _)| path)
            .chain(named)
            .filter_map(|path| self.start(module, &path))
            .map(|(start, rest)| self.definition(start, rest, 0))
            .filter(|other| other != module)
            .collect()
    }

    fn find_reexports(&self) -> BTreeMap<(Module, String), (Module, Vec<String>)> {
        let reexport = Regex::new(r"\bpub(?:\([a-z ]+\))? use ([^;]+);").unwrap();
        let mut found = BTreeMap::new();
        for (module, text) in &self.texts {
            for (path, alias) in reexport.captures_iter(text).flat_map(|found| paths(&found[1])) {
                if let Some(target) = self.start(module, &path) {
                    let name = alias.or_else(|| path.last().cloned()).unwrap_or_default();
                    found.insert((module.clone(), name), target);
                }
            }
        }
        found
    }

    /// Returns the module that a path begins at, and what is left of the path; none if it leads out of the crate.
    fn start(&self, module: &Module, path: &[String]) -> Option<(Module, Vec<String>)> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => Some((Vec::new(), rest.to_vec())),
            "self" => Some((module.clone(), rest.to_vec())),
            "super" => {
                let ups = path.iter().take_while(|name| *name == "super").count();
                let parent = module[..module.len().checked_sub(ups)?].to_vec();
                Some((parent, path[ups..].to_vec()))
            }
            child => {
                let is_child = self
                    .texts
                    .contains_key(&[module.as_slice(), &[child.to_owned()]].concat());
                is_child.then(|| (module.clone(), path.to_vec()))
            }
        }
    }

    /// Returns the module in which what a path leads to is defined.
    fn definition(&self, mut module: Module, mut path: Vec<String>, reexports: usize) -> Module {
        while let Some(next) = path.first() {
            let child = [module.as_slice(), std::slice::from_ref(next)].concat();
            if !self.texts.contains_key(&child) {
                break;
            }
            module = child;
            path.remove(0);
        }
        let Some(first) = path.first() else { return module };
        match self.reexports.get(&(module.clone(), first.clone())) {
            Some((target, rest)) if reexports < MAX_REEXPORTS => {
                let path = [rest.as_slice(), &path[1..]].concat();
                self.definition(target.clone(), path, reexports + 1)
            }
            Some(_) | None => module,
        }
    }
}

fn name(module: &Module) -> String {
    if module.is_empty() {
        "the root".to_owned()
    } else {
        module.join("::")
    }
}

/// Returns the paths of a `use`, each with the name that it gets if it gets another.
fn paths(tree: &str) -> Vec<(Vec<String>, Option<String>)> {
    let mut found = Vec::new();
    collect(&[], tree.trim(), &mut found);
    found
}

fn collect(before: &[String], tree: &str, found: &mut Vec<(Vec<String>, Option<String>)>) {
    let names = |text: &str| -> Vec<String> {
        let names = text.split("::").map(str::trim).filter(|name| !name.is_empty());
        names.map(str::to_owned).collect()
    };
    let Some((head, inner)) = tree.split_once('{') else {
        let (path, alias) = match tree.split_once(" as ") {
            Some((path, alias)) => (path, Some(alias.trim().to_owned())),
            None => (tree, None),
        };
        found.push(([before, &names(path)].concat(), alias));
        return;
    };
    let before = [before, &names(head)].concat();
    let inner = inner.trim_end().strip_suffix('}').unwrap_or(inner);
    let mut depth = 0;
    let mut start = 0;
    for (at, letter) in inner.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                collect_part(&before, &inner[start..at], found);
                start = at + 1;
            }
            _ => {}
        }
    }
    collect_part(&before, &inner[start..], found);
}

fn collect_part(before: &[String], part: &str, found: &mut Vec<(Vec<String>, Option<String>)>) {
    if !part.trim().is_empty() {
        collect(before, part.trim(), found);
    }
}
