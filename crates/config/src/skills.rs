//! Where skills are looked for (`docs/spec/skills-and-lsp.md` §A.2).
//!
//! Four tiers, weak to strong: the folders of other programs (`.claude`, `.agents`), the configuration folders, what
//! `skills.paths` names, and what was fetched from `skills.urls`. Within the first two an inner folder beats an outer one, and the project beats the home folder.
//!
//! *Invariant:* a folder is listed whether or not it is there, so that what is made later is found.

use std::path::{Path, PathBuf};

use serde_json::Value;
use toolgate_fs::marks::sha256;
use toolgate_model::JsonMap;
use toolgate_model::skills::SkillFolder;
use toolgate_model::skills::SkillSource;

use super::environment::Environment;
use super::flags::Flags;
use super::layers::{Folder, project_folders};

/// Returns the folders for a workspace, weak to strong.
pub(super) fn roots(
    directory: &Path,
    worktree: &Path,
    env: &Environment,
    merged: &JsonMap,
    warnings: &mut Vec<String>,
) -> Vec<SkillFolder> {
    let flags = Flags::from_environment(env);
    let project = project_folders(directory, worktree);
    let mut roots = Vec::new();
    // The folders of other programs that have skills in them, weak to strong.
    let others = [
        (".claude", flags.disable_claude_skills),
        (".agents", flags.disable_external_skills),
    ];
    let others = others.into_iter().filter(|(_, is_off)| !is_off).map(|(name, _)| name);
    let homes = env.home().map(|home| Folder::of_user(home.to_path_buf())).into_iter();
    for folder in homes.chain(project.iter().cloned()) {
        let below = |name| root(&folder, folder.path.join(name).join("skills"), worktree);
        roots.extend(others.clone().map(below).map(|root| SkillFolder {
            enters_hidden: true,
            ..root
        }));
    }
    for (folder, path) in configuration(&project, env, &flags) {
        roots.extend(["skill", "skills"].map(|name| root(&folder, path.join(name), worktree)));
    }
    roots.extend(named(merged, directory, env, warnings));
    keep_last(roots)
}

fn root(folder: &Folder, path: PathBuf, worktree: &Path) -> SkillFolder {
    let is_of_project = folder.foreign || folder.path.starts_with(worktree);
    SkillFolder {
        own_only: folder.foreign,
        within: is_of_project.then(|| if folder.foreign { &folder.path } else { worktree }.to_path_buf()),
        ..anywhere(path)
    }
}

/// Returns the configuration folders, each with the folder that it belongs to.
fn configuration(project: &[Folder], env: &Environment, flags: &Flags) -> Vec<(Folder, PathBuf)> {
    let of_home = [
        env.config_home().map(|folder| folder.join("opencode")),
        env.home().map(|home| home.join(".opencode")),
    ];
    let of_project = project.iter().filter(|_| !flags.disable_project_config);
    let of_project = of_project.map(|folder| (folder.clone(), folder.path.join(".opencode")));
    let named = env
        .get("OPENCODE_CONFIG_DIR")
        .map(|named| env.resolve(named, env.cwd()));
    let users = |path: PathBuf| (Folder::of_user(path.clone()), path);
    let homes = of_home.into_iter().flatten().map(users);
    homes.chain(of_project).chain(named.map(users)).collect()
}

/// Returns the folders that the configuration names.
fn named(merged: &JsonMap, directory: &Path, env: &Environment, warnings: &mut Vec<String>) -> Vec<SkillFolder> {
    let part = merged.get("skills");
    let mut roots = Vec::new();
    for text in texts(part, "paths") {
        let path = env.resolve(text, directory);
        if !path.is_dir() {
            warnings.push(format!("skills.paths: {} is not a folder", path.display()));
        }
        roots.push(anywhere(path));
    }
    roots.extend(remote(part, env).into_iter().map(|remote| SkillFolder {
        within: Some(remote.folder.clone()),
        ..anywhere(remote.folder)
    }));
    roots
}

fn anywhere(path: PathBuf) -> SkillFolder {
    SkillFolder {
        path,
        enters_hidden: false,
        own_only: false,
        within: None,
    }
}

fn texts<'v>(part: Option<&'v Value>, key: &str) -> impl Iterator<Item = &'v str> {
    let texts = part.and_then(|skills| skills.get(key)?.as_array());
    texts.into_iter().flatten().filter_map(Value::as_str)
}

/// Returns what the part `skills` of a configuration names by URL, and where that is kept.
pub(super) fn remote(part: Option<&Value>, env: &Environment) -> Vec<SkillSource> {
    let Some(cache) = env.cache_home() else {
        return Vec::new();
    };
    let remote = |url: &str| SkillSource {
        folder: cache.join("toolgate/skills").join(&sha256(url.as_bytes())[..16]),
        url: url.to_owned(),
    };
    texts(part, "urls").map(remote).collect()
}

/// Of a folder that is listed twice the stronger place counts.
fn keep_last(roots: Vec<SkillFolder>) -> Vec<SkillFolder> {
    let mut kept: Vec<SkillFolder> = Vec::new();
    for root in roots {
        kept.retain(|known| known.path != root.path);
        kept.push(root);
    }
    kept
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(vars: &[(&str, &str)], directory: &str, skills: Value, expected: &[&str]) -> Vec<String> {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let top = folder.path().canonicalize().expect("it is there");
        std::fs::create_dir_all(top.join("repo/.git")).expect("the folder is ours");
        std::fs::create_dir_all(top.join("repo/sub")).expect("the folder is ours");
        let fill = |text: &str| text.replace('$', &top.to_string_lossy());
        let mut env = vec![("HOME".to_owned(), fill("$/home"))];
        env.extend(vars.iter().map(|(name, value)| ((*name).to_owned(), fill(value))));
        let env = Environment::new(env, top.clone());
        let merged = toolgate_model::json_map([("skills", skills)]);
        let mut warnings = Vec::new();
        let roots = roots(&top.join(directory), &top.join("repo"), &env, &merged, &mut warnings);
        let found: Vec<String> = roots
            .iter()
            .map(|root| root.path.strip_prefix(&top).unwrap_or(&root.path).display().to_string())
            .collect();
        assert_eq!(found, expected);
        for root in &roots {
            assert_eq!(
                root.enters_hidden,
                root.path.ends_with(".claude/skills") || root.path.ends_with(".agents/skills")
            );
            assert_eq!(
                root.within.is_some(),
                root.path.starts_with(top.join("repo")) && !root.path.ends_with("named")
                    || root.path.starts_with(top.join("home/.cache"))
            );
        }
        warnings
    }

    #[test]
    fn three_tiers_weak_to_strong() {
        let warnings = check(
            &[],
            "repo/sub",
            json!({"paths": ["named", "~/more"], "urls": ["https://example.com/s"]}),
            &[
                "home/.claude/skills",
                "home/.agents/skills",
                "repo/.claude/skills",
                "repo/.agents/skills",
                "repo/sub/.claude/skills",
                "repo/sub/.agents/skills",
                "home/.config/opencode/skill",
                "home/.config/opencode/skills",
                "home/.opencode/skill",
                "home/.opencode/skills",
                "repo/.opencode/skill",
                "repo/.opencode/skills",
                "repo/sub/.opencode/skill",
                "repo/sub/.opencode/skills",
                "repo/sub/named",
                "home/more",
                "home/.cache/toolgate/skills/b101106561112f1b",
            ],
        );
        assert_eq!(warnings.len(), 2, "{warnings:?}");
    }

    #[test]
    fn switches() {
        let off = [
            ("OPENCODE_DISABLE_EXTERNAL_SKILLS", "1"),
            ("OPENCODE_DISABLE_PROJECT_CONFIG", "1"),
            ("OPENCODE_CONFIG_DIR", "$/dir"),
        ];
        let expected = [
            "home/.config/opencode/skill",
            "home/.config/opencode/skills",
            "home/.opencode/skill",
            "home/.opencode/skills",
            "dir/skill",
            "dir/skills",
        ];
        check(&off, "repo", json!({}), &expected);
        let only_agents = [
            ("OPENCODE_DISABLE_CLAUDE_CODE", "1"),
            ("OPENCODE_DISABLE_PROJECT_CONFIG", "1"),
            ("XDG_CONFIG_HOME", "$/home/.config"),
        ];
        let expected = ["home/.agents/skills", "repo/.agents/skills"]
            .into_iter()
            .chain(expected[..4].iter().copied());
        check(&only_agents, "repo", json!({}), &expected.collect::<Vec<_>>());
    }
}
