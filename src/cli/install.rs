//! `toolgate install`: a copy of this program, made by itself. An init container of the image that holds nothing else puts
//! it so into a volume, beside the tools of another image.
//!
//! *Invariant:* whoever finds the file finds all of it: it gets its name when it is written, and takes the place of an
//! older one that may be running.

#![allow(clippy::disallowed_methods)] // what is read is the running program, and no workspace is there

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use clap::Args;

use super::exit::{Exit, Failure};
use super::service::OWN_PROGRAM;
use super::terminal::Terminal;

/// Where to.
#[derive(Debug, Args)]
pub(super) struct InstallArgs {
    /// The file to write, or a directory to write `toolgate` in. What is there under this name is replaced.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

impl InstallArgs {
    pub(super) fn run(self, terminal: &Terminal) -> Result<Exit, Failure> {
        let path = if self.file.is_dir() {
            self.file.join("toolgate")
        } else {
            self.file
        };
        install(Path::new(OWN_PROGRAM), &path).map_err(|source| Failure::WriteFile {
            path: path.clone(),
            source,
        })?;
        terminal.inform(&format!("installed {}", path.display()));
        Ok(Exit::Completed)
    }
}

fn install(program: &Path, path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut file = tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))?;
    io::copy(&mut File::open(program)?, &mut file)?;
    file.as_file().set_permissions(Permissions::from_mode(0o755))?;
    // A program that is open for writing cannot be executed.
    file.into_temp_path().persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_the_place_of_an_older_program() {
        let folder = tempfile::tempdir().unwrap();
        let (program, path) = (folder.path().join("new"), folder.path().join("toolgate"));
        std::fs::write(&program, "new").unwrap();
        std::fs::write(&path, "older").unwrap();
        let older = File::open(&path).unwrap();
        install(&program, &path).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o7777, 0o755);
        assert_eq!(io::read_to_string(older).unwrap(), "older");
        assert_eq!(folder.path().read_dir().unwrap().count(), 2, "nothing else is left");
        assert!(install(&program, &folder.path().join("none/toolgate")).is_err());
    }
}
