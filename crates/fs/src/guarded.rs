//! Files that programs obey: whoever writes one decides what runs later, when somebody calls git, make or an editor.
//!
//! *Invariant:* pure, and the one list of such files. It goes by names, wherever in a tree they stand, and not by what is
//! there: a repository or a configuration may come into being later. The case of letters does not matter, because some file
//! systems do not keep it apart.

use serde_json::Value;

/// Folders all of whose files are obeyed, and files of the same names, such as the `.git` of a submodule; with the reason.
const FOLDERS: &[(&str, &str)] = &[
    (".git", "git runs programs that its own files name"),
    (".hg", "Mercurial runs programs that its own files name"),
    (".jj", "Jujutsu runs programs that its own files name"),
    (".opencode", "tools, agents and rules are loaded from there"),
    (".claude", "agents load settings and hooks from there"),
    (".husky", "git runs its files as hooks"),
    (".githooks", "git runs its files as hooks"),
    (".vscode", "editors run tasks that it names"),
    (".idea", "editors run tasks that it names"),
    (".devcontainer", "editors run commands that it names"),
    (".direnv", "the shell runs it in this folder"),
    (".cargo", "cargo runs programs that its configuration names"),
    (".ssh", "ssh runs programs that its configuration names"),
];

/// Files that are obeyed, with the reason.
const FILES: &[(&str, &str)] = &[
    ("opencode.json", "it holds the rules themselves"),
    ("opencode.jsonc", "it holds the rules themselves"),
    (".mcp.json", "agents start the servers that it names"),
    (".envrc", "the shell runs it in this folder"),
    ("mise.toml", "the shell runs what it names in this folder"),
    (".mise.toml", "the shell runs what it names in this folder"),
    (".gitconfig", "git runs programs that it names"),
    (".gitmodules", "git fetches from the places that it names"),
    (".pre-commit-config.yaml", "git runs programs that it names as hooks"),
    ("lefthook.yml", "git runs programs that it names as hooks"),
    (".lefthook.yml", "git runs programs that it names as hooks"),
    (".npmrc", "npm obeys it"),
    (".yarnrc", "yarn runs the program that it names"),
    (".yarnrc.yml", "yarn runs the program that it names"),
    (".pnpmfile.cjs", "pnpm runs it"),
    (".pnp.cjs", "node runs it first"),
    (".bazelrc", "bazel obeys it"),
    ("pip.conf", "pip installs from the places that it names"),
    ("sitecustomize.py", "python runs it first"),
    ("usercustomize.py", "python runs it first"),
    (".bashrc", "the shell runs it"),
    (".bash_profile", "the shell runs it"),
    (".bash_login", "the shell runs it"),
    (".bash_logout", "the shell runs it"),
    (".bash_aliases", "the shell runs it"),
    (".profile", "the shell runs it"),
    (".zshrc", "the shell runs it"),
    (".zshenv", "the shell runs it"),
    (".zprofile", "the shell runs it"),
    (".gdbinit", "the debugger runs it"),
    (".lldbinit", "the debugger runs it"),
    (".vimrc", "the editor runs it"),
    (".exrc", "the editor runs it"),
    (".nvim.lua", "the editor runs it"),
    (".curlrc", "curl obeys it"),
    (".wgetrc", "wget obeys it"),
    ("makefile", "make runs what it says"),
    ("gnumakefile", "make runs what it says"),
    ("justfile", "just runs what it says"),
    ("taskfile.yml", "task runs what it says"),
    ("taskfile.yaml", "task runs what it says"),
    (PACKAGE, "npm runs the scripts that it names"),
];

/// The files of rules.
const RULES: [&str; 2] = ["opencode.json", "opencode.jsonc"];

/// The folders of agents in `.opencode`.
const OF_AGENTS: [&str; 4] = ["agent", "agents", "mode", "modes"];

/// Files in `.git` that are texts and nothing else.
const TEXTS: [&str; 6] = [
    "info/exclude",
    "commit_editmsg",
    "merge_msg",
    "squash_msg",
    "tag_editmsg",
    "description",
];

const PACKAGE: &str = "package.json";

/// What of a `package.json` makes something run.
const RUNNING: [&str; 8] = [
    "scripts",
    "husky",
    "simple-git-hooks",
    "lint-staged",
    "pre-commit",
    "packagemanager",
    "config",
    "gypfile",
];

/// A `package.json` above this size is not looked into.
const MAX_PACKAGE: usize = 1 << 20;

/// Returns why programs obey the file at a path relative to the workspace, in a few words; nothing if they do not.
pub fn reason(relative: &str) -> Option<&'static str> {
    let lower = relative.to_ascii_lowercase();
    let parts: Vec<&str> = lower.split('/').filter(|part| !part.is_empty()).collect();
    for (at, part) in parts.iter().enumerate() {
        if *part == ".git" && TEXTS.contains(&parts[at + 1..].join("/").as_str()) {
            return None;
        }
        if let Some(reason) = reason_for(FOLDERS, part) {
            return Some(reason);
        }
    }
    reason_for(FILES, parts.last()?)
}

/// Says whether rules or agents are read from a path relative to the workspace, as its names tell: a workspace may begin in
/// any folder.
pub fn holds_rules(relative: &str) -> bool {
    let lower = relative.to_ascii_lowercase();
    let parts: Vec<&str> = lower.split('/').filter(|part| !part.is_empty()).collect();
    let is_in_folder =
        |at: usize| parts[at] == ".opencode" && parts.get(at + 1).is_none_or(|below| OF_AGENTS.contains(below));
    parts.last().is_some_and(|last| RULES.contains(last)) || (0..parts.len()).any(is_in_folder)
}

/// Returns the reason that a list has for a name.
fn reason_for(list: &[(&str, &'static str)], name: &str) -> Option<&'static str> {
    let listed = list.iter().find(|(listed, _)| *listed == name);
    listed.map(|(_, reason)| *reason)
}

/// As [`reason`], for a change of the file from one content to another: of a `package.json`, only what runs is obeyed. What
/// is no JSON counts.
pub fn reason_to_change(relative: &str, old: &[u8], new: &[u8]) -> Option<&'static str> {
    let reason = reason(relative)?;
    // One that stands in a folder all of whose files are obeyed has the folder's reason.
    let is_package = self::reason(PACKAGE) == Some(reason);
    match is_package.then(|| (running(old), running(new))) {
        Some((Some(old), Some(new))) if old == new => None,
        Some(_) | None => Some(reason),
    }
}

/// Returns what of a `package.json` makes something run; none if that cannot be said.
fn running(content: &[u8]) -> Option<Vec<(String, Value)>> {
    if content.is_empty() {
        return Some(Vec::new());
    }
    if content.len() > MAX_PACKAGE {
        return None;
    }
    let Ok(Value::Object(package)) = serde_json::from_slice(content) else {
        return None;
    };
    let runs = |(key, _): &(String, Value)| RUNNING.contains(&key.to_ascii_lowercase().as_str());
    let mut running: Vec<_> = package.into_iter().filter(runs).collect();
    running.sort_by(|(one, _), (other, _)| one.cmp(other));
    Some(running)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_what_is_obeyed_wherever_it_stands() {
        for path in [
            ".git",
            ".git/config",
            ".git/hooks/pre-commit",
            "vendor/lib/.git/hooks/post-checkout",
            ".GIT/config",
            ".git/modules/x/config",
            "../other/.git/config",
            ".opencode/tool/z.sh",
            "sub/.opencode/agent/a.md",
            "opencode.json",
            "sub/opencode.jsonc",
            ".envrc",
            "a/b/.envrc",
            "Makefile",
            "GNUmakefile",
            "web/package.json",
            ".vscode/tasks.json",
            ".git//config",
        ] {
            assert!(reason(path).is_some(), "{path}");
        }
        for path in [
            "",
            "src/main.rs",
            ".gitignore",
            ".github/workflows/ci.yml",
            ".git/info/exclude",
            ".git/COMMIT_EDITMSG",
            "git/config",
            "makefile.md",
            "docs/opencode.json.md",
            "package-lock.json",
            ".env",
        ] {
            assert_eq!(reason(path), None, "{path}");
        }
    }

    #[test]
    fn knows_what_rules_are_read_from() {
        for path in [
            "opencode.json",
            "sub/OpenCode.jsonc",
            ".opencode",
            ".opencode/opencode.json",
            "sub/.opencode/agent/team/a.md",
            ".opencode/modes/a.md",
        ] {
            assert!(holds_rules(path), "{path}");
        }
        for path in [
            "",
            ".opencode/plans/a.md",
            ".opencode/skill/a/SKILL.md",
            "agent/a.md",
            "opencode.json/x",
            "a.json",
        ] {
            assert!(!holds_rules(path), "{path}");
        }
    }

    #[test]
    fn of_a_package_only_what_runs_counts() {
        let check = |old: &str, new: &str, expected: bool| {
            let found = reason_to_change("web/package.json", old.as_bytes(), new.as_bytes());
            assert_eq!(found.is_some(), expected, "{old} {new}");
        };
        let package = r#"{"name": "a", "scripts": {"test": "jest"}}"#;
        check("", r#"{"name": "a"}"#, false);
        check(
            package,
            r#"{"scripts": {"test": "jest"}, "name": "b", "version": "2"}"#,
            false,
        );
        check(package, r#"{"name": "a", "scripts": {"test": "rm -fr ."}}"#, true);
        check(package, r#"{"name": "a"}"#, true);
        check(package, r#"{"name": "a", "Scripts": {"test": "jest"}}"#, true);
        check("", package, true);
        check(package, "", true);
        check(package, "not json", true);
        check("not json", package, true);
        let found = reason_to_change(".opencode/package.json", b"", br#"{"name": "a"}"#);
        assert!(found.is_some(), "everything in such a folder is obeyed");
        assert!(reason_to_change("Makefile", b"a", b"a").is_some());
        assert!(reason_to_change("src/main.rs", b"a", b"b").is_none());
    }
}
