//! Runs the examples of a page, one after the other in one shell, and holds what they print against the page.
//!
//! *Invariant:* what an example leaves behind (variables, files, programs in the background) is there for the next one
//! and gone with the last.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use super::examples::Example;

const SECONDS: &str = "180";

/// Where a page's examples run.
pub(super) struct Session<'a> {
    /// The page, for messages.
    pub(super) page: &'a str,
    pub(super) folder: &'a Path,
    /// An empty folder, for the home and for what is printed.
    pub(super) aside: &'a Path,
    pub(super) path: Vec<PathBuf>,
    pub(super) listen: &'a str,
    /// The address of a database, if the page needs one.
    pub(super) database: Option<&'a str>,
}

/// Writes one script of all commands, so that variables and jobs last. What the command at `n` prints goes to `out.n`
/// and its status to `status.n`; a program in the background is waited for until it has printed what it should.
fn script(examples: &[Example], results: &Path) -> String {
    let results = results.display();
    let mut script = "trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT\n".to_owned();
    for (n, example) in examples.iter().enumerate() {
        let Example { command, expected, .. } = example;
        script += &format!("{{ {command}\n}} >{results}/out.{n} 2>&1 </dev/null\necho $? >{results}/status.{n}\n");
        script += &format!("[[ $(<{results}/status.{n}) == 0 ]] || exit 1\n");
        if example.stays_in_background() {
            let printed = format!("$(wc -l <{results}/out.{n}) -ge {}", expected.len());
            script += &format!("for _ in {{1..200}}; do [[ {printed} ]] && break; sleep 0.05; done\n");
        }
    }
    script
}

impl Session<'_> {
    pub(super) fn run(&self, examples: &[Example]) {
        let [home, results] = ["home", "results"].map(|name| self.aside.join(name));
        for folder in [&home, &results] {
            fs::create_dir_all(folder).unwrap();
        }
        let script_file = self.aside.join("script");
        fs::write(&script_file, script(examples, &results)).unwrap();
        let ended = Command::new("timeout")
            .args(["--kill-after=10", SECONDS, "bash"])
            .arg(script_file)
            .current_dir(self.folder)
            .env_clear()
            .env("PATH", std::env::join_paths(&self.path).unwrap())
            .env("HOME", &home)
            .env("TOOLGATE_LISTEN_TCP", self.listen)
            .envs(self.database.map(|address| ("DATABASE", address)))
            .status()
            .unwrap();
        for (n, example) in examples.iter().enumerate() {
            let result = |name: &str| fs::read_to_string(results.join(format!("{name}.{n}"))).unwrap_or_default();
            self.check(example, result("status").trim(), &result("out"), ended);
        }
        assert!(ended.success(), "{}: {ended}", self.page);
    }

    fn check(&self, example: &Example, status: &str, printed: &str, ended: ExitStatus) {
        let place = format!("{}:{}: {}", self.page, example.line, example.command);
        assert_eq!(status, "0", "{place}\nended badly ({ended}) and printed:\n{printed}");
        assert!(
            example.pattern().is_match(printed),
            "{place}\nshould print:\n{}\nprinted:\n{printed}",
            example.expected.join("\n")
        );
    }
}
