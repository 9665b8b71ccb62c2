//! The Unix socket: made so that at no moment anybody else can use it than those it is for.
//!
//! *Invariant:* a socket that nobody listens on any more is replaced; anything else at the path is left alone.

#![allow(clippy::disallowed_methods)] // makes and replaces the service's own socket

use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, PermissionsExt as _, chown};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use tokio::net::UnixListener;

use super::entrance::Taken;

/// Where the system lists its groups.
const GROUPS: &str = "/etc/group";

/// How long a socket may stay open after its service was killed: a program that was just being started holds it until it
/// runs.
const STALE_SOCKET_GRACE: Duration = Duration::from_secs(2);

/// Says whether somebody listens on a socket, and goes on doing so. Blocks.
fn is_listened_on(path: &Path) -> bool {
    let deadline = Instant::now() + STALE_SOCKET_GRACE;
    while std::os::unix::net::UnixStream::connect(path).is_ok() {
        if Instant::now() > deadline {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

/// Binds a Unix socket that only its owner can use, and the members of a group if one is named.
pub(super) fn bind(path: &Path, group: Option<&str>) -> anyhow::Result<UnixListener> {
    let group = group.map(group_id).transpose()?;
    let folder = path.parent().unwrap_or(Path::new("/"));
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    match std::fs::symlink_metadata(path) {
        Ok(metadata) if !metadata.file_type().is_socket() => bail!("something else than a socket is there"),
        Ok(_) if is_listened_on(path) => bail!(Taken::Unix(path.to_owned())),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error.into()),
    }
    // Bound in a folder that only we can enter and then moved, so that nobody can connect before the mode is set.
    let private = tempfile::Builder::new()
        .prefix(".tg-")
        .rand_bytes(4)
        .tempdir_in(folder)?;
    let bound = private.path().join("s");
    let listener = UnixListener::bind(&bound)?;
    let mode = match group {
        None => 0o600,
        Some(group) => {
            chown(&bound, None, Some(group))
                .with_context(|| format!("cannot give the socket to the group {group}: is this user one of it?"))?;
            warn_if_closed(folder, group);
            0o660
        }
    };
    std::fs::set_permissions(&bound, std::fs::Permissions::from_mode(mode))?;
    std::fs::rename(&bound, path)?;
    Ok(listener)
}

/// A folder that is made here is its owner's only, and so is a user's runtime directory.
fn warn_if_closed(folder: &Path, group: u32) {
    let open = std::fs::metadata(folder).is_ok_and(|metadata| {
        metadata.mode() & 0o001 != 0 || (metadata.gid() == group && metadata.mode() & 0o010 != 0)
    });
    if !open {
        tracing::warn!(folder = %folder.display(), group, "the folder of the socket keeps out the group that may use it");
    }
}

/// Returns the number of a group that is named or numbered.
fn group_id(group: &str) -> anyhow::Result<u32> {
    if let Ok(number) = group.parse() {
        return Ok(number);
    }
    let groups = std::fs::read_to_string(GROUPS).with_context(|| format!("cannot read {GROUPS}"))?;
    let listed = number_in(&groups, group);
    listed
        .with_context(|| format!("auth.unix.group: {GROUPS} has no group {group:?}; one from elsewhere goes by number"))
}

fn number_in(groups: &str, name: &str) -> Option<u32> {
    groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        let number = (fields.next()? == name).then(|| fields.nth(1))??;
        number.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_found_by_name() {
        let groups = "root:x:0:\n# comment\n\nstaff:x:50:ann,bob\nstaffs:x:51\nbroken\nworse:x:many:\n";
        for (name, expected) in [
            ("root", Some(0)),
            ("staff", Some(50)),
            ("staffs", Some(51)),
            ("broken", None),
            ("worse", None),
            ("ann", None),
            ("", None),
        ] {
            assert_eq!(number_in(groups, name), expected, "{name}");
        }
        assert_eq!(group_id("1234").unwrap(), 1234);
    }

    #[tokio::test]
    async fn the_mode_lets_in_whom_it_is_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let own = std::fs::metadata(folder.path()).unwrap().gid();
        for (group, mode) in [(None, 0o600), (Some(own.to_string()), 0o660)] {
            let listener = bind(&path, group.as_deref()).unwrap();
            let metadata = std::fs::metadata(&path).unwrap();
            assert_eq!((metadata.mode() & 0o777, metadata.gid()), (mode, own));
            assert!(bind(&path, None).is_err(), "somebody listens there");
            drop(listener);
        }
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "text").unwrap();
        assert!(bind(&path, None).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "text");
    }
}
