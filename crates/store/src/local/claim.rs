//! Which service has a data directory: the one that looks after its calls and prompts, and that clients reach.
//!
//! *Invariant:* at most one process has the lock of `service.lock`, whose first line says which process that is, and the
//! others where it listens. What a dead one left is taken over at once.

use std::fs;
use std::path::{Path, PathBuf};

use super::folders::create_folder;
use super::instances::{Held, Instances, is_held, process_of};
use crate::StoreError;

/// The file whose lock it is, in the data directory.
const FILE: &str = "service.lock";

/// Why a data directory cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// A service has it.
    #[error(
        "another service has the data directory {}: {}. Only one `toolgate serve` may use a data directory: stop that one, or \
         choose another directory with --data-dir or the key data_dir",
        folder.display(),
        holder(*process, addresses)
    )]
    Taken {
        /// The data directory.
        folder: PathBuf,
        /// The id of the process, if it is one of this system that can be seen from here.
        process: Option<u32>,
        /// Where it listens; empty while it starts.
        addresses: Vec<String>,
    },
    /// The files cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn holder(process: Option<u32>, addresses: &[String]) -> String {
    let process = process.map_or_else(
        || "a process of another container or machine".to_owned(),
        |id| format!("process {id}"),
    );
    match addresses {
        [] => format!("{process}, which is starting"),
        addresses => format!("{process}, listening on {}", addresses.join(" and ")),
    }
}

/// The right of one service to a data directory. It ends when this is dropped, or with the process.
pub struct Claim(Held);

impl Claim {
    /// Claims a data directory, which is made if it is missing. Blocks for up to half a second if it is taken.
    ///
    /// # Errors
    /// [`ClaimError::Taken`] if another service has it; else the directory cannot be written.
    pub fn take(data_dir: &Path) -> Result<Self, ClaimError> {
        let data_dir = create_folder(data_dir.to_owned())?;
        let instances = Instances::new(create_folder(data_dir.join("instances"))?);
        let file = data_dir.join(FILE);
        // Nobody else looks whether it is free meanwhile.
        let _alone = instances.lock_folder()?;
        if !is_held(&file) && file.exists() {
            // A child that was being born when the service was killed may still have its lock: a new file has none.
            fs::remove_file(&file).map_err(|error| super::error::io("remove", &file, error))?;
        }
        Held::take(file.clone(), "another service has it")
            .map(Self)
            .map_err(|error| {
                if !is_held(&file) {
                    return error.into();
                }
                let text = fs::read_to_string(&file).unwrap_or_default();
                ClaimError::Taken {
                    folder: data_dir,
                    process: process_of(&text),
                    addresses: text.lines().skip(1).map(str::to_owned).collect(),
                }
            })
    }

    /// Says where the service listens, for those who want the directory too.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn announce<'a>(&self, addresses: impl IntoIterator<Item = &'a str>) -> Result<(), StoreError> {
        let lines: String = addresses.into_iter().map(|address| format!("{address}\n")).collect();
        self.0.add(&lines)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn one_service_has_a_data_directory() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let first = Claim::take(&data).unwrap();
        let refused = Claim::take(&data).map(drop).unwrap_err().to_string();
        let own = std::process::id();
        assert!(
            refused.contains(&format!("process {own}, which is starting")),
            "{refused}"
        );
        first.announce(["unix:/run/s", "http://127.0.0.1:1"]).unwrap();
        let refused = Claim::take(&data).map(drop).unwrap_err().to_string();
        let expected = format!("process {own}, listening on unix:/run/s and http://127.0.0.1:1. ");
        assert!(refused.contains(&expected), "{refused}");
        assert!(refused.contains(data.to_str().unwrap()), "{refused}");
        drop(first);
        drop(Claim::take(&data).unwrap());
    }

    #[test]
    fn what_a_dead_service_left_is_taken_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let first = Claim::take(folder.path()).unwrap();
        let path = folder.path().join(FILE);
        let text = fs::read_to_string(&path).unwrap();
        drop(first);
        // A process of this id that began at another time is gone, though something still holds the lock.
        let began = text.trim_end().rsplit(' ').next().unwrap();
        fs::write(&path, text.replace(&format!(" {began}\n"), " 1\n")).unwrap();
        let held = File::open(&path).unwrap();
        held.lock().unwrap();
        let second = Claim::take(folder.path()).unwrap();
        assert!(Claim::take(folder.path()).is_err());
        drop((second, held));
    }
}
