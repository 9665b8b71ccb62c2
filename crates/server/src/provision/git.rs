//! Repositories of git.
//!
//! *Invariant:* git runs within walls, as commands do that rules allow: it writes the folder that is filled, reads nothing of the
//! service's, and gets no credentials, no settings and no hooks of anybody. It speaks https alone, to the addresses that the operator's rules allow, and
//! follows no redirect. Where the kernel cannot confine it, or it is too old to be told addresses, it does not run.

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use toolgate_fs::created;
use toolgate_process::sandbox::{Demand, Mode};
use toolgate_process::{Cause, Exit, Launch, Output, Stdin};
use toolgate_web::{Url, Way};

use super::folders::Folders;
use super::seam::ProvisionError;

/// How often it is looked how much there is.
const MEASURE_INTERVAL: Duration = Duration::from_millis(500);

/// What of the messages of git is told.
const TOLD_BYTES: usize = 2000;

/// The first release that goes to the addresses that it is told. Those before pass that over without a word.
const OLDEST: (u32, u32) = (2, 37);

/// How long git may take to say its release.
const VERSION_TIMEOUT: Duration = Duration::from_secs(20);

const TOO_LARGE: &str = "the repository has more than created_workspaces.max_bytes and the bound of entries allow";

/// Which transports may be used, what is taken over from nobody, and what is checked.
const SETTINGS: [&str; 10] = [
    "protocol.allow=never",
    "protocol.https.allow=always",
    "http.followRedirects=false",
    "credential.helper=",
    "core.askPass=",
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "transfer.fsckObjects=true",
    "submodule.recurse=false",
    "fetch.recurseSubmodules=false",
];

/// Clones a repository into an empty folder.
pub(super) async fn clone(
    folders: &Folders,
    (url, reference): (&str, &str),
    aside: &Path,
) -> Result<(), ProvisionError> {
    let lacks = folders.sandbox.kernel().lacks();
    if !lacks.is_empty() {
        let lacks = lacks.join(" and ");
        return Err(ProvisionError::Refused(format!(
            "git is run confined only, and the kernel of this machine lacks {lacks}"
        )));
    }
    let program = folders.programs.find("git".as_ref(), aside);
    let program =
        program.ok_or_else(|| ProvisionError::Refused("git is not installed where the service runs".to_owned()))?;
    let parsed = Url::parse(url).map_err(|error| ProvisionError::Refused(error.to_string()))?;
    let way = folders.network.way_to(&parsed).await;
    let way = way.map_err(|error| ProvisionError::Failed(format!("the repository cannot be reached: {error}")))?;
    check_release(folders, &program, aside).await?;
    let launch = Launch {
        arguments: arguments(&parsed, &way, reference),
        ..launch(folders, program, &way, aside).await?
    };
    run(folders, launch, aside).await
}

/// Prepares to start git confined to a folder.
async fn launch(folders: &Folders, program: PathBuf, way: &Way, aside: &Path) -> Result<Launch, ProvisionError> {
    let (sandbox, folder) = (folders.sandbox.clone(), aside.to_path_buf());
    let authorities = folders.authorities.iter().map(PathBuf::from).collect();
    let confined = tokio::task::spawn_blocking(move || {
        sandbox.confine(&Demand {
            network: true,
            walls: true,
            // What it writes is nobody's workspace yet: it may have any names.
            opened: vec![folder.clone()],
            readable: authorities,
            ..Demand::new(Mode::WorkspaceWrite, folder)
        })
    });
    let confined = confined
        .await
        .map_err(|error| ProvisionError::Failed(error.to_string()))?;
    let confined = confined.map_err(|error| ProvisionError::Failed(format!("git cannot be confined: {error}")))?;
    Ok(Launch {
        call: format!("create:{}", aside.display()),
        program,
        arguments: Vec::new(),
        directory: aside.to_path_buf(),
        shown_directory: aside.to_path_buf(),
        environment: environment(folders, way, confined.temporary()),
        stdin: Stdin::Null,
        sandbox: Some(Arc::new(confined)),
    })
}

/// Refuses a git that is too old. One that is not is asked once.
async fn check_release(folders: &Folders, program: &Path, aside: &Path) -> Result<(), ProvisionError> {
    let checked = folders.has_git.get_or_try_init(|| async {
        let launch = Launch {
            arguments: vec!["--version".into()],
            ..launch(folders, program.to_path_buf(), &Way::Direct(Vec::new()), aside).await?
        };
        let call = launch.call.clone();
        let running = folders.programs.start(launch).await;
        let mut running = running.map_err(|error| ProvisionError::Failed(format!("git cannot be started: {error}")))?;
        let (output, never) = (running.take_output(), CancellationToken::new());
        let (_, told) = tokio::join!(running.supervise(VERSION_TIMEOUT, &never), told(output));
        folders.programs.end_call(&call).await;
        match release(&told) {
            Some(found) if found >= OLDEST => Ok(()),
            Some(_) | None => Err(ProvisionError::Refused(format!(
                "git {}.{} or newer is needed where the service runs, and it says: {told}",
                OLDEST.0, OLDEST.1
            ))),
        }
    });
    checked.await.copied()
}

/// Reads what git says of its release.
fn release(told: &str) -> Option<(u32, u32)> {
    let numbers = told.strip_prefix("git version ")?.split_whitespace().next()?;
    let mut numbers = numbers.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Returns the first of what a program says.
async fn told(mut output: Option<Output>) -> String {
    let mut told = Vec::new();
    while let Some(output) = &mut output {
        let Some(bytes) = output.next().await else { break };
        let room = TOLD_BYTES.saturating_sub(told.len()).min(bytes.len());
        told.extend_from_slice(&bytes[..room]);
    }
    String::from_utf8_lossy(&told).trim().to_owned()
}

fn arguments(url: &Url, way: &Way, reference: &str) -> Vec<OsString> {
    let mut settings: Vec<String> = SETTINGS.map(str::to_owned).to_vec();
    // An address that is written out is what is gone to.
    if let (Way::Direct(addresses), Some(host)) = (way, url.domain()) {
        let port = url.port_or_known_default().unwrap_or(443);
        let addresses = addresses.iter().map(|address| match address {
            IpAddr::V4(address) => address.to_string(),
            IpAddr::V6(address) => format!("[{address}]"),
        });
        let addresses = addresses.collect::<Vec<_>>().join(",");
        settings.push(format!("http.curloptResolve={host}:{port}:{addresses}"));
    }
    let settings = settings.into_iter().flat_map(|setting| ["-c".to_owned(), setting]);
    let clone = ["clone", "--quiet", "--no-recurse-submodules", "--template="].map(str::to_owned);
    let branch = (!reference.is_empty()).then(|| format!("--branch={reference}"));
    let rest = ["--".to_owned(), url.to_string(), ".".to_owned()];
    let all = settings.chain(clone).chain(branch).chain(rest);
    all.map(OsString::from).collect()
}

fn environment(folders: &Folders, way: &Way, temporary: &Path) -> toolgate_process::Environment {
    let proxy = match way {
        Way::Proxy(proxy) => proxy.to_string(),
        Way::Direct(_) => String::new(),
    };
    let home = temporary.to_string_lossy().into_owned();
    let variables = [
        ("GIT_CONFIG_NOSYSTEM", "1".to_owned()),
        ("GIT_CONFIG_GLOBAL", "/dev/null".to_owned()),
        ("GIT_TERMINAL_PROMPT", "0".to_owned()),
        ("GIT_ASKPASS", "/bin/false".to_owned()),
        ("SSH_ASKPASS", "/bin/false".to_owned()),
        ("GIT_ALLOW_PROTOCOL", "https".to_owned()),
        ("LC_ALL", "C".to_owned()),
        ("HOME", home.clone()),
        ("XDG_CONFIG_HOME", home),
        ("https_proxy", proxy),
        ("HTTPS_PROXY", String::new()),
        ("all_proxy", String::new()),
        ("ALL_PROXY", String::new()),
        ("no_proxy", String::new()),
        ("NO_PROXY", String::new()),
    ];
    // Where the machine's authorities are said by a variable, git has another one for that.
    let authorities = folders.authorities.as_ref();
    let authorities = authorities.map(|file| ("GIT_SSL_CAINFO".into(), file.into()));
    let variables = variables.map(|(name, value)| (OsString::from(name), OsString::from(value)));
    variables.into_iter().chain(authorities).collect()
}

async fn run(folders: &Folders, launch: Launch, aside: &Path) -> Result<(), ProvisionError> {
    let call = launch.call.clone();
    let running = folders.programs.start(launch).await;
    let mut running = running.map_err(|error| ProvisionError::Failed(format!("git cannot be started: {error}")))?;
    let output = running.take_output();
    let too_large = CancellationToken::new();
    let measuring = async {
        loop {
            tokio::time::sleep(MEASURE_INTERVAL).await;
            if check_size(folders, aside).await.is_err() {
                too_large.cancel();
                return std::future::pending::<()>().await;
            }
        }
    };
    // Dropped with this future, should the time be over, it takes git along.
    let ended = async { tokio::join!(running.supervise(folders.timeout, &too_large), told(output)) };
    let (ending, told) = tokio::select! {
        ended = ended => ended,
        () = measuring => return Err(ProvisionError::Failed("git was not watched to its end".to_owned())),
    };
    folders.programs.end_call(&call).await;
    check_size(folders, aside).await?;
    if ending.cause == Cause::Cancelled {
        return Err(ProvisionError::Refused(TOO_LARGE.to_owned()));
    }
    match ending.exit {
        Some(Exit::Code(0)) => Ok(()),
        Some(Exit::Code(_) | Exit::Signal(_)) | None => Err(ProvisionError::Failed(format!(
            "git could not clone the repository: {told}"
        ))),
    }
}

async fn check_size(folders: &Folders, folder: &Path) -> Result<(), ProvisionError> {
    let (folder, most) = (folder.to_path_buf(), folders.max_bytes);
    let checked = tokio::task::spawn_blocking(move || created::check_size(&folder, most)).await;
    // A look that panicked has found anything.
    let checked = checked.map_err(|error| ProvisionError::Failed(error.to_string()))?;
    checked.map_err(|error| ProvisionError::Refused(format!("{TOO_LARGE}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_gets_the_addresses_and_no_other_transport() {
        let url = Url::parse("https://git.example/a.git").unwrap();
        let way = Way::Direct(vec!["192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap()]);
        let arguments = arguments(&url, &way, "v1");
        let arguments: Vec<&str> = arguments.iter().filter_map(|one| one.to_str()).collect();
        assert!(arguments.contains(&"http.curloptResolve=git.example:443:192.0.2.1,[2001:db8::1]"));
        assert!(arguments.contains(&"protocol.allow=never") && arguments.contains(&"--branch=v1"));
        assert_eq!(
            arguments[arguments.len() - 3..],
            ["--", "https://git.example/a.git", "."]
        );
    }

    #[test]
    fn an_address_that_is_written_out_is_not_looked_up() {
        for url in ["https://192.0.2.1/a.git", "https://[2001:db8::1]/a.git"] {
            let way = Way::Direct(vec!["192.0.2.1".parse().unwrap()]);
            let arguments = arguments(&Url::parse(url).unwrap(), &way, "");
            let text = format!("{arguments:?}");
            assert!(!text.contains("curloptResolve") && text.contains(url), "{text}");
        }
    }

    #[test]
    fn the_release_of_git_is_read() {
        assert_eq!(release("git version 2.39.5"), Some((2, 39)));
        assert_eq!(release("git version 2.37.1 (Apple Git-137.1)"), Some((2, 37)));
        assert!(release("git version 2.9.1").unwrap() < OLDEST);
        assert_eq!(release("no such program"), None);
    }
}
