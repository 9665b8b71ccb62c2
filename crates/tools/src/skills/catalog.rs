//! The skills of one workspace, found anew whenever somebody wants to know.
//!
//! *Invariant:* what [`Catalog::refresh`] returns was looked for after it was called. Who waits for the lock of the search
//! blocks; [`Catalog::current`] never does.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use toolgate_fs::found::OpenFile;
use toolgate_fs::named::Search;
use toolgate_fs::newest::Modified;
use toolgate_fs::open::is_own;

use super::{FILE_NAME, Skill, SkillError, SkillFolder, parse, read};

/// Entries that are looked at below one root.
const MOST_ENTRIES: usize = 20_000;

/// Things wrong with skills that are told one by one.
const MOST_TOLD: usize = 10;

/// Skills of one workspace.
const MOST_SKILLS: usize = 1000;

/// The skills of one workspace.
pub struct Catalog {
    /// Weak to strong: of skills with one name the last one counts.
    roots: Mutex<Arc<[SkillFolder]>>,
    /// What the last search found, sorted by name.
    known: Mutex<Arc<[Skill]>>,
    search: Mutex<Memory>,
}

/// What the last search leaves for the next one.
#[derive(Default)]
struct Memory {
    began: Option<Instant>,
    files: HashMap<PathBuf, File>,
    warnings: Vec<String>,
}

/// What was read of a file when it was like this.
#[derive(Clone)]
struct File {
    real: PathBuf,
    modified: Modified,
    size: u64,
    skill: Option<Skill>,
    warning: Option<String>,
}

impl Catalog {
    /// Makes the catalogue of the skills below these folders, of which the later ones win. It knows none before it is
    /// [refreshed](Self::refresh).
    pub fn new(roots: Vec<SkillFolder>) -> Self {
        Self {
            roots: Mutex::new(roots.into()),
            known: Mutex::new(Arc::from([])),
            search: Mutex::default(),
        }
    }

    /// Looks in these folders from the next search on.
    pub fn look_in(&self, roots: Vec<SkillFolder>) {
        *self.roots.lock() = roots.into();
    }

    /// Returns the skills that the last search found, sorted by name.
    pub fn current(&self) -> Arc<[Skill]> {
        self.known.lock().clone()
    }

    /// Returns what the last search found wrong, in sentences, at most a few. Who waits for a search blocks.
    pub fn warnings(&self) -> Vec<String> {
        let memory = self.search.lock();
        let mut told: Vec<String> = memory.warnings.iter().take(MOST_TOLD).cloned().collect();
        if let Some(more) = memory.warnings.len().checked_sub(MOST_TOLD).filter(|more| *more > 0) {
            told.push(format!(
                "{more} more skills are left out or have the name of another one: the log names them"
            ));
        }
        told
    }

    /// Looks for skills and returns them, sorted by name. Blocking.
    pub fn refresh(&self) -> Arc<[Skill]> {
        let asked = Instant::now();
        let mut memory = self.search.lock();
        // Whoever waited here while another search began has its answer.
        if memory.began.is_none_or(|began| began < asked) {
            memory.began = Some(Instant::now());
            let skills = self.look(&mut memory);
            *self.known.lock() = skills;
        }
        self.current()
    }

    /// Returns the folders of the skills outside `worktree`: a model may read there what its skills speak of.
    pub fn folders_outside(&self, worktree: &Path) -> Vec<PathBuf> {
        let roots = self.roots.lock().clone();
        let mut folders: Vec<PathBuf> = Vec::new();
        for skill in self.current().iter() {
            let folder = skill.folder();
            folders.push(folder.to_path_buf());
            // Where a project's links lead is for a person to say.
            if roots
                .iter()
                .any(|root| folder.starts_with(&root.path) && root.within.is_none())
            {
                folders.extend(folder.canonicalize());
            }
        }
        folders.retain(|folder| !folder.starts_with(worktree));
        folders.sort_unstable();
        folders.dedup();
        folders
    }

    fn look(&self, memory: &mut Memory) -> Arc<[Skill]> {
        let mut files = HashMap::new();
        let mut warnings = Vec::new();
        let mut skills: BTreeMap<String, Skill> = BTreeMap::new();
        let roots = self.roots.lock().clone();
        for root in roots.iter() {
            if root.own_only && !is_own(&root.path) {
                continue;
            }
            let search = Search {
                name: OsStr::new(FILE_NAME),
                enters_hidden: root.enters_hidden,
                most_entries: MOST_ENTRIES,
            };
            let found = search.below(&root.path);
            if found.is_partial {
                warnings.push(format!(
                    "{} has more than {MOST_ENTRIES} entries: skills among the rest are not found",
                    root.path.display()
                ));
            }
            for path in found.files {
                let file = look_at(root, &path, memory.files.remove(&path));
                warnings.extend(file.warning.clone());
                if let Some(skill) = &file.skill {
                    warnings.extend(add(&mut skills, skill));
                }
                files.insert(path, file);
            }
        }
        for warning in warnings.iter().filter(|warning| !memory.warnings.contains(warning)) {
            tracing::warn!("{warning}");
        }
        *memory = Memory {
            files,
            warnings,
            ..*memory
        };
        skills.into_values().collect()
    }
}

/// Adds a skill, in the place of a weaker one of its name; returns what people should know of that.
fn add(skills: &mut BTreeMap<String, Skill>, skill: &Skill) -> Option<String> {
    if skills.len() >= MOST_SKILLS && !skills.contains_key(&skill.name) {
        return Some(format!(
            "there are more than {MOST_SKILLS} skills: the rest are left out"
        ));
    }
    let weaker = skills.insert(skill.name.clone(), skill.clone())?;
    (weaker.location != skill.location).then(|| {
        format!(
            "two skills are named {:?}: {} counts, {} does not",
            skill.name,
            skill.location.display(),
            weaker.location.display()
        )
    })
}

/// Reads a file, unless it is as it was when it was read before.
fn look_at(root: &SkillFolder, path: &Path, before: Option<File>) -> File {
    let mut file = File {
        real: PathBuf::new(),
        modified: Modified { seconds: 0, nanos: 0 },
        size: 0,
        skill: None,
        warning: None,
    };
    let found = identify(root, path, &mut file).and_then(|()| match before {
        Some(before) if is_same(&before, &file) => Ok((before.skill, before.warning)),
        Some(_) | None => {
            let text = read(&file.real)?;
            let (name, description, _) = parse(&text)?;
            let location = path.to_path_buf();
            let skill = Skill {
                name,
                description,
                location,
            };
            Ok((Some(skill), None))
        }
    });
    (file.skill, file.warning) = found.unwrap_or_else(|error| {
        let warning = format!("{} is left out of the skills: {error}", path.display());
        (None, Some(warning))
    });
    file
}

fn identify(root: &SkillFolder, path: &Path, file: &mut File) -> Result<(), SkillError> {
    file.real = path.canonicalize()?;
    let is_named = file.real.file_name() == Some(OsStr::new(FILE_NAME));
    let may_lead_there = is_named
        || root.within.as_ref().is_none_or(|within| {
            let within = within.canonicalize();
            within.is_ok_and(|within| file.real.starts_with(within))
        });
    if (root.own_only && !is_own(path)) || !may_lead_there {
        return Err(SkillError::Foreign);
    }
    let opened = OpenFile::open(&file.real)?.ok_or(SkillError::NoFile)?;
    (file.modified, file.size) = (opened.modified, opened.size);
    Ok(())
}

fn is_same(one: &File, other: &File) -> bool {
    (one.modified, one.size, &one.real) == (other.modified, other.size, &other.real)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Stage(tempfile::TempDir);

    impl Stage {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn at(&self, path: &str) -> PathBuf {
            self.0.path().canonicalize().unwrap().join(path)
        }

        fn write(&self, path: &str, text: &str) {
            std::fs::create_dir_all(self.at(path).parent().unwrap()).unwrap();
            std::fs::write(self.at(path), text).unwrap();
        }

        fn skill(&self, path: &str, name: &str) {
            self.write(
                path,
                &format!("---\nname: {name}\ndescription: d\n---\nbody of {path}\n"),
            );
        }

        fn catalog(&self, roots: &[&str]) -> Catalog {
            let root = |path: &&str| SkillFolder {
                path: self.at(path),
                enters_hidden: false,
                own_only: false,
                within: Some(self.at("project")),
            };
            Catalog::new(roots.iter().map(root).collect())
        }
    }

    fn names(skills: &[Skill]) -> Vec<&str> {
        skills.iter().map(|skill| skill.name.as_str()).collect()
    }

    #[test]
    fn the_last_of_a_name_counts() {
        let stage = Stage::new();
        stage.skill("one/x/SKILL.md", "same");
        stage.skill("one/y/SKILL.md", "other");
        stage.skill("two/SKILL.md", "same");
        stage.write("two/broken/SKILL.md", "---\nname: \"x\n---\n");
        let catalog = stage.catalog(&["one", "two", "none"]);
        assert!(catalog.current().is_empty());
        let skills = catalog.refresh();
        assert_eq!(names(&skills), ["other", "same"]);
        assert_eq!(skills[1].location, stage.at("two/SKILL.md"));
        let memory = catalog.search.lock();
        assert_eq!(memory.warnings.len(), 2, "{:?}", memory.warnings);
        assert!(memory.warnings.iter().any(|text| text.contains("Failed to parse YAML")));
    }

    #[test]
    fn sees_what_changes() {
        let stage = Stage::new();
        let catalog = stage.catalog(&["s"]);
        assert!(catalog.refresh().is_empty());
        stage.skill("s/a/SKILL.md", "a");
        assert_eq!(names(&catalog.refresh()), ["a"]);
        stage.skill("s/a/SKILL.md", "longer");
        stage.skill("s/b/SKILL.md", "b");
        assert_eq!(names(&catalog.refresh()), ["b", "longer"]);
        std::fs::remove_dir_all(stage.at("s/a")).unwrap();
        assert_eq!(names(&catalog.refresh()), ["b"]);
    }

    #[test]
    fn links_of_a_project_show_only_skills() {
        let stage = Stage::new();
        stage.skill("private.md", "private");
        stage.skill("shared/x/SKILL.md", "shared");
        stage.skill("project/notes.md", "inside");
        for (to, at) in [
            ("private.md", "a"),
            ("project/notes.md", "b"),
            ("shared/x/SKILL.md", "c"),
        ] {
            let link = stage.at(&format!("project/s/{at}/SKILL.md"));
            std::fs::create_dir_all(link.parent().unwrap()).unwrap();
            std::os::unix::fs::symlink(stage.at(to), link).unwrap();
        }
        let skills = stage.catalog(&["project/s"]).refresh();
        assert_eq!(names(&skills), ["inside", "shared"]);
        assert_eq!(
            skills[0].location,
            stage.at("project/s/b/SKILL.md"),
            "the link's path stays"
        );
    }

    #[test]
    fn what_lies_outside_may_be_read() {
        let stage = Stage::new();
        stage.skill("project/s/a/SKILL.md", "a");
        stage.skill("home/s/b/SKILL.md", "b");
        let catalog = stage.catalog(&["project/s", "home/s"]);
        catalog.refresh();
        assert_eq!(catalog.folders_outside(&stage.at("project")), [stage.at("home/s/b")]);
    }
}
