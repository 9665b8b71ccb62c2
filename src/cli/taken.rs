//! Who has what a service wants for itself: an address, a socket, a data directory. And what to do about it.
//!
//! *Invariant:* only texts; nothing is taken from anybody.

use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::net::sockopt::socket_peercred;
use toolgate_process::Listeners;
use toolgate_server::app::ClaimError;
use toolgate_server::app::entrance::Taken;

use super::folder;
use super::instances::Instance;
use super::terminal::{short, visible};

/// How much of a command line is shown.
const COMMAND: usize = 60;

/// Says who listens where a service wants to.
pub(super) fn of_address(taken: &Taken, running: &[Instance]) -> String {
    match taken {
        Taken::Tcp(address) => {
            let holder = running.iter().find(|one| has_port(one, *address));
            let holder = holder.map(service).or_else(|| {
                let process = Listeners::look().ok()?.at(*address)?.process;
                Some(format!(
                    "process {}, `{}`",
                    process.pid,
                    short(&process.command, COMMAND)
                ))
            });
            let holder = holder.unwrap_or_else(|| "a process of another user or container".to_owned());
            format!(
                "cannot listen on {address}, which is in use by {holder}. Stop that process, or choose another address: --listen \
                 HOST:PORT, where port 0 takes a free one, or --no-tcp to use only the socket"
            )
        }
        Taken::Unix(path) => {
            let url = format!("unix:{}", path.display());
            let holder = running.iter().find(|one| one.url == url).map(service);
            let holder = holder
                .or_else(|| process_at(path))
                .unwrap_or_else(|| "a process".to_owned());
            format!(
                "cannot listen on {}, which is in use by {holder}. Stop that process, or choose another socket: --socket PATH, or \
                 --no-socket",
                visible(&path.display().to_string())
            )
        }
    }
}

/// Says who has the data directory of a service, and how a second one runs beside it.
pub(super) fn of_data(error: &ClaimError, running: &[Instance]) -> String {
    let ClaimError::Taken { process, .. } = error else {
        return error.to_string();
    };
    let holder = running.iter().find(|one| one.stays && Some(one.pid) == *process);
    let works_in = holder
        .map(|one| format!("\nIt works in {}.", folders(one)))
        .unwrap_or_default();
    format!("{error}.{works_in}\nTo run another one beside it: `toolgate serve --data-dir DIR --listen 127.0.0.1:0`.")
}

fn service(instance: &Instance) -> String {
    format!(
        "a Toolgate service, process {}, working in {}",
        instance.pid,
        folders(instance)
    )
}

fn folders(instance: &Instance) -> String {
    let folders: Vec<String> = instance
        .workspaces
        .iter()
        .map(|(_, path)| folder::shown(path))
        .collect();
    match folders.as_slice() {
        [] => "no folder yet".to_owned(),
        [one] => one.clone(),
        [first, rest @ ..] => format!("{first} and {} more", rest.len()),
    }
}

fn has_port(instance: &Instance, wanted: SocketAddr) -> bool {
    instance.tcp.is_some_and(|has| {
        let overlaps = has.ip() == wanted.ip() || has.ip().is_unspecified() || wanted.ip().is_unspecified();
        has.port() == wanted.port() && overlaps
    })
}

/// Says which process listens on a socket: the kernel knows who began to.
fn process_at(path: &Path) -> Option<String> {
    let connection = UnixStream::connect(path).ok()?;
    let peer = socket_peercred(&connection).ok()?;
    Some(format!("process {}", peer.pid.as_raw_nonzero()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::path::PathBuf;

    use super::*;

    fn instance(url: &str, tcp: Option<&str>) -> Instance {
        Instance {
            url: url.to_owned(),
            pid: 4711,
            stays: true,
            tcp: tcp.map(|address| address.parse().unwrap()),
            workspaces: vec![("default".to_owned(), PathBuf::from("/nowhere/tour"))],
            ..Instance::default()
        }
    }

    #[test]
    fn who_has_an_address_is_named() {
        let running = [instance("unix:/nowhere/s", Some("127.0.0.1:50551"))];
        let taken = Taken::Tcp("127.0.0.1:50551".parse().unwrap());
        let told = of_address(&taken, &running);
        for part in ["process 4711", "/nowhere/tour", "--listen", "--no-tcp"] {
            assert!(told.contains(part), "{part}: {told}");
        }
        let told = of_address(&Taken::Unix("/nowhere/s".into()), &running);
        assert!(told.contains("process 4711") && told.contains("--socket"), "{told}");
    }

    #[test]
    fn other_programs_are_named_by_what_the_kernel_knows() {
        let own = format!("process {}", std::process::id());
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let taken = Taken::Tcp(listener.local_addr().unwrap());
        let told = of_address(&taken, &[]);
        assert!(told.contains(&own), "{told}");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let _listener = UnixListener::bind(&path).unwrap();
        let told = of_address(&Taken::Unix(path), &[]);
        assert!(told.contains(&own), "{told}");
    }
}
