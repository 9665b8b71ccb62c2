//! A server as it is configured: which files it is for, and how it is started for a project.
//!
//! *Invariant:* what a project brings is run only where the workspace is trusted: programs that its files name, programs below its
//! `node_modules`, and servers that run what they find in it. Blocking.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use toolgate_fs::Workspace;
use toolgate_process::Programs;

use super::roots::{self, Root};
use super::table::{self, Builtin, Settings};

const TRUST: &str = "If you trust the project, set `trust = true` for the workspace in toolgate.toml, or start the service \
                     with `--trust` or TOOLGATE_TRUST=1.";

/// A server that may be used.
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    /// Its id.
    pub id: String,
    /// The endings of its files, such as `.rs`; every file if there is none.
    pub extensions: Vec<String>,
    /// How it is started.
    pub command: Command,
    /// Variables that it gets.
    pub environment: BTreeMap<String, String>,
    /// What it is told when it starts, and when it asks for its settings.
    pub initialization: Option<Value>,
}

/// How a server is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// As the table of known servers says.
    Known,
    /// The program and its arguments, at least the program.
    Line(Vec<String>),
    /// Not at all: only the project names it, and the workspace is not trusted.
    Untrusted,
}

/// Where servers of a workspace look for things.
pub(super) struct Surroundings {
    pub(super) workspace: Arc<Workspace>,
    pub(super) programs: Programs,
    pub(super) trusted: bool,
    pub(super) virtual_env: Option<PathBuf>,
}

/// How a server is started for one root.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Start {
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<String>,
    /// `null` for nothing.
    pub(super) settings: Value,
}

impl Server {
    /// Returns the servers that are known without configuration.
    pub fn builtins() -> Vec<Self> {
        table::BUILTINS
            .iter()
            .map(|builtin| Self {
                id: builtin.id.to_owned(),
                extensions: builtin.extensions.iter().map(|&text| text.to_owned()).collect(),
                command: Command::Known,
                environment: BTreeMap::new(),
                initialization: None,
            })
            .collect()
    }

    /// Says whether a server of that id is known without configuration.
    pub fn is_known(id: &str) -> bool {
        table::find(id).is_some()
    }

    fn builtin(&self) -> Option<&'static Builtin> {
        table::find(&self.id)
    }

    /// Says whether it is for files of that name.
    pub(super) fn fits(&self, path: &Path) -> bool {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let ending = match name.rfind('.') {
            None | Some(0) => &name,
            Some(dot) => &name[dot..],
        };
        self.extensions.is_empty() || self.extensions.iter().any(|extension| extension == ending)
    }

    /// Returns where its project begins for a file; none if it is not for the file.
    pub(super) fn root(&self, path: &Path, around: &Surroundings) -> Option<PathBuf> {
        let builtin = self.builtin();
        let unless = builtin.map(|builtin| builtin.unless).unwrap_or_default();
        if !unless.is_empty() && roots::nearest(path, &around.workspace, unless).is_some() {
            return None;
        }
        let root = builtin.map_or(Root::Start, |builtin| builtin.root);
        root.find(path, &around.workspace)
    }

    /// Returns how it is started for a root.
    ///
    /// # Errors
    /// It cannot be; the text says why, and how to get it.
    pub(super) fn start(&self, root: &Path, around: &Surroundings) -> Result<Start, String> {
        let start = match (&self.command, self.builtin()) {
            (Command::Untrusted, _) => {
                return Err(format!("it is named by the project, which is not trusted. {TRUST}"));
            }
            (Command::Line(line), _) => self.configured(line, root, around)?,
            (Command::Known, Some(builtin)) => self.find_builtin(builtin, root, around)?,
            (Command::Known, None) => return Err("it has no command".to_owned()),
        };
        Ok(match &self.initialization {
            Some(more) => Start {
                settings: laid_over(start.settings, more),
                ..start
            },
            None => start,
        })
    }

    fn configured(&self, line: &[String], root: &Path, around: &Surroundings) -> Result<Start, String> {
        let Some((program, arguments)) = line.split_first() else {
            return Err("it has no command".to_owned());
        };
        let found = around.programs.find(OsStr::new(program), root);
        let found = found.ok_or_else(|| format!("the program {program:?} is not found"))?;
        Ok(Start {
            program: around.allowed(found)?,
            arguments: arguments.to_vec(),
            settings: Value::Null,
        })
    }

    fn find_builtin(&self, builtin: &Builtin, root: &Path, around: &Surroundings) -> Result<Start, String> {
        let get = builtin.get;
        let name = builtin.commands[0][0];
        let candidates = builtin.commands.iter();
        let found = candidates.filter_map(|command| Some((around.find(command[0], root)?, &command[1..])));
        let (program, arguments) = found
            .into_iter()
            .next()
            .ok_or_else(|| format!("the program {name:?} is not found. To get it: {get}"))?;
        if builtin.runs_project_code && !around.trusted {
            return Err(format!("it runs code of the project, which is not trusted. {TRUST}"));
        }
        let program = around.allowed(program)?;
        if let Some(package) = builtin.package
            && around.installed(&format!("{package}/package.json")).is_none()
        {
            return Err(format!("the npm package {package:?} is not installed in the project"));
        }
        let settings = self.settings(builtin, &program, root, around)?;
        let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        Ok(Start {
            program,
            arguments,
            settings,
        })
    }

    fn settings(&self, builtin: &Builtin, program: &Path, root: &Path, around: &Surroundings) -> Result<Value, String> {
        let typescript = |file: &str| {
            let get = builtin.get;
            let wanted = format!("typescript/lib/{file}");
            let found = around.installed(&wanted).or_else(|| beside(program, &wanted));
            found.ok_or_else(|| format!("the npm package \"typescript\" is not installed. To get it: {get}"))
        };
        Ok(match builtin.settings {
            Settings::None => Value::Null,
            Settings::Tsserver => json!({"tsserver": {"path": typescript("tsserver.js")?}}),
            Settings::Tsdk => {
                let library = typescript("tsserverlibrary.js").or_else(|_| typescript("typescript.js"))?;
                json!({"typescript": {"tsdk": library.parent()}})
            }
            Settings::Python => match around.python(root) {
                Some(python) => json!({"pythonPath": python, "python": {"pythonPath": python}}),
                None => Value::Null,
            },
        })
    }

    /// Returns the program that it would be started with at the workspace's folder.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub(super) fn survey(&self, around: &Surroundings) -> Result<PathBuf, String> {
        let start = self.start(around.workspace.directory(), around)?;
        Ok(start.program)
    }
}

impl Surroundings {
    /// Finds a program: in the project's `node_modules` where that is trusted, else in the service's `PATH`.
    fn find(&self, name: &str, root: &Path) -> Option<PathBuf> {
        let in_project = || {
            let folders = root
                .ancestors()
                .take_while(|folder| folder.starts_with(self.workspace.worktree()));
            let mut programs = folders.map(|folder| folder.join("node_modules/.bin").join(name));
            programs.find_map(|program| self.programs.find(program.as_os_str(), root))
        };
        let local = if self.trusted { in_project() } else { None };
        local.or_else(|| self.programs.find(OsStr::new(name), root))
    }

    /// Refuses a program of a project that is not trusted, by whatever way it was found.
    fn allowed(&self, program: PathBuf) -> Result<PathBuf, String> {
        let real = toolgate_fs::path::follow(&program);
        if self.trusted || !(self.workspace.contains_real(&real) || program.starts_with(self.workspace.worktree())) {
            return Ok(program);
        }
        let shown = program.display();
        Err(format!(
            "its program {shown} belongs to the project, which is not trusted. {TRUST}"
        ))
    }

    /// Returns a file of an npm package that is installed where the workspace is, if that is trusted.
    fn installed(&self, file: &str) -> Option<PathBuf> {
        let folders = self.workspace.directory().ancestors().filter(|_| self.trusted);
        let mut files = folders.map(|folder| folder.join("node_modules").join(file));
        files.find(|file| file.is_file())
    }

    /// Returns the Python that the project is used with, if that is not the one of the system.
    fn python(&self, root: &Path) -> Option<PathBuf> {
        let of_project = [root.join(".venv"), root.join("venv")];
        let of_project = of_project.into_iter().filter(|_| self.trusted);
        let mut pythons = self.virtual_env.iter().cloned().chain(of_project);
        pythons.find_map(|folder| Some(folder.join("bin/python")).filter(|python| python.exists()))
    }
}

/// Returns a file of an npm package that is installed beside a program of another.
fn beside(program: &Path, file: &str) -> Option<PathBuf> {
    let real = toolgate_fs::path::follow(program);
    let mut files = real
        .ancestors()
        .skip(1)
        .flat_map(|folder| [folder.join("node_modules").join(file), folder.join(file)]);
    files.find(|file| file.is_file())
}

/// Lays one value on another, objects deeply.
fn laid_over(base: Value, over: &Value) -> Value {
    match (base, over) {
        (Value::Object(mut base), Value::Object(over)) => {
            for (key, value) in over {
                let below = base.remove(key).unwrap_or_default();
                base.insert(key.clone(), laid_over(below, value));
            }
            Value::Object(base)
        }
        (_, over) => over.clone(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::sync::Arc;

    use toolgate_fs::Workspace;
    use toolgate_process::{self as process, Programs};

    use super::*;

    /// A workspace `w`, and a folder `bin` of programs beside it.
    struct Stage {
        folder: tempfile::TempDir,
        around: Surroundings,
    }

    impl Stage {
        fn new(trusted: bool, files: &[&str], virtual_env: Option<&str>) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let top = folder.path().canonicalize().unwrap();
            for name in ["w/x", "bin/x"].iter().chain(files) {
                let path = top.join(name);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(&path, "").unwrap();
                std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            }
            let path = format!("{0}/bin:{0}/w/bin", top.display());
            let variables = [("PATH".into(), path.into())].into();
            let around = Surroundings {
                workspace: Arc::new(Workspace::open("w", &top.join("w"), None).unwrap()),
                programs: Programs::new(&variables, process::Settings::default()).unwrap(),
                trusted,
                virtual_env: virtual_env.map(|name| top.join(name)),
            };
            Self { folder, around }
        }

        fn check(&self, id: &str, expected: Result<&str, &str>) {
            let server = Server::builtins().into_iter().find(|server| server.id == id).unwrap();
            let root = self.around.workspace.directory();
            let top = self.folder.path().canonicalize().unwrap().display().to_string();
            let found = server.start(root, &self.around).map(|start| {
                let settings = if start.settings.is_null() {
                    String::new()
                } else {
                    format!(" {}", start.settings)
                };
                format!("{} {}{settings}", start.program.display(), start.arguments.join(" ")).replace(&top, "$")
            });
            match expected {
                Ok(expected) => assert_eq!(found.as_deref(), Ok(expected), "{id}"),
                Err(part) => {
                    let error = found.expect_err("it cannot be started");
                    assert!(error.contains(part), "{id}: {error}");
                }
            }
        }
    }

    #[tokio::test]
    async fn what_a_project_brings_is_run_only_if_it_is_trusted() {
        let files = [
            "bin/rust-analyzer",
            "bin/pyright-langserver",
            "bin/typescript-language-server",
            "bin/node_modules/typescript/lib/tsserver.js",
            "w/bin/gopls",
            "w/node_modules/.bin/typescript-language-server",
            "w/node_modules/.bin/biome",
            "w/node_modules/typescript/lib/tsserver.js",
            "w/.venv/bin/python",
        ];
        let stage = Stage::new(false, &files, None);
        stage.check(
            "rust",
            Err("it runs code of the project, which is not trusted. If you trust"),
        );
        stage.check("gopls", Err("belongs to the project, which is not trusted"));
        stage.check(
            "biome",
            Err("the program \"biome\" is not found. To get it: npm install -g @biomejs/biome"),
        );
        stage.check("pyright", Ok("$/bin/pyright-langserver --stdio"));
        stage.check(
            "typescript",
            Ok(
                r#"$/bin/typescript-language-server --stdio {"tsserver":{"path":"$/bin/node_modules/typescript/lib/tsserver.js"}}"#,
            ),
        );
        let stage = Stage::new(true, &files, None);
        stage.check("rust", Ok("$/bin/rust-analyzer "));
        stage.check("gopls", Ok("$/w/bin/gopls "));
        stage.check("biome", Ok("$/w/node_modules/.bin/biome lsp-proxy --stdio"));
        stage.check(
            "pyright",
            Ok(r#"$/bin/pyright-langserver --stdio {"pythonPath":"$/w/.venv/bin/python","python":{"pythonPath":"$/w/.venv/bin/python"}}"#),
        );
        stage.check(
            "typescript",
            Ok(
                r#"$/w/node_modules/.bin/typescript-language-server --stdio {"tsserver":{"path":"$/w/node_modules/typescript/lib/tsserver.js"}}"#,
            ),
        );
        stage.check("clangd", Err("the program \"clangd\" is not found"));
        let stage = Stage::new(false, &["bin/typescript-language-server"], None);
        stage.check(
            "typescript",
            Err("the npm package \"typescript\" is not installed. To get it: npm"),
        );
        let stage = Stage::new(true, &["bin/vscode-eslint-language-server"], None);
        stage.check(
            "eslint",
            Err("the npm package \"eslint\" is not installed in the project"),
        );
    }

    #[tokio::test]
    async fn the_python_of_the_service_may_always_be_used() {
        let stage = Stage::new(false, &["bin/pyright-langserver", "env/bin/python"], Some("env"));
        stage.check(
            "pyright",
            Ok(r#"$/bin/pyright-langserver --stdio {"pythonPath":"$/env/bin/python","python":{"pythonPath":"$/env/bin/python"}}"#),
        );
    }

    #[tokio::test]
    async fn a_file_of_deno_is_not_for_node() {
        let stage = Stage::new(true, &["w/a/deno.json", "w/b/package-lock.json"], None);
        let root = |id: &str, file: &str| {
            let server = Server::builtins().into_iter().find(|server| server.id == id).unwrap();
            let work = stage.around.workspace.directory().to_path_buf();
            let root = server.root(&work.join(file), &stage.around)?;
            Some(root.strip_prefix(work).unwrap().display().to_string())
        };
        assert_eq!(root("typescript", "a/x.ts"), None);
        assert_eq!(root("typescript", "b/x.ts").as_deref(), Some("b"));
        assert_eq!(root("deno", "a/c/x.ts").as_deref(), Some("a"));
        assert_eq!(root("deno", "b/x.ts"), None);
    }

    #[test]
    fn a_server_is_for_endings() {
        let check = |extensions: &[&str], name: &str, expected: bool| {
            let server = Server {
                id: String::new(),
                extensions: extensions.iter().map(|&text| text.to_owned()).collect(),
                command: Command::Known,
                environment: BTreeMap::new(),
                initialization: None,
            };
            assert_eq!(
                server.fits(&Path::new("/w").join(name)),
                expected,
                "{extensions:?} {name}"
            );
        };
        check(&[".rs"], "a.rs", true);
        check(&[".rs"], "a.RS", false);
        check(&[".rs"], "a.b.rs", true);
        check(&[".rs"], ".rs", true);
        check(&[".b.rs"], "a.b.rs", false);
        check(&["Dockerfile"], "Dockerfile", true);
        check(&["Dockerfile"], "x.Dockerfile", false);
        check(&[], "anything", true);
    }

    #[test]
    fn settings_are_laid_over_each_other() {
        let base = json!({"a": {"b": 1, "c": 2}, "d": 3});
        let over = json!({"a": {"b": [9]}, "e": null});
        assert_eq!(
            laid_over(base, &over),
            json!({"a": {"b": [9], "c": 2}, "d": 3, "e": null})
        );
        assert_eq!(laid_over(Value::Null, &json!({"x": 1})), json!({"x": 1}));
    }
}
