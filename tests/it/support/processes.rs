//! Processes of the machine, found by what their command lines say.

use std::fs;
use std::time::Duration;

use tokio::time::sleep;

use super::eventually;

/// The ids of processes whose command line has this text.
pub(crate) fn processes(marker: &str) -> Vec<u32> {
    let entries = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter(|id| {
        let line = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(marker)
    })
    .collect()
}

/// Waits until no process has this text in its command line.
pub(crate) async fn gone(marker: &str) {
    // A process that is just becoming another program has no command line for a moment.
    eventually(&format!("no process with {marker}"), async || {
        processes(marker).is_empty() && {
            sleep(Duration::from_millis(20)).await;
            processes(marker).is_empty()
        }
    })
    .await;
}
