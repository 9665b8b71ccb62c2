//! Archives from the network.
//!
//! *Invariant:* the address is judged by the operator's rules, and that of each redirect anew. What is in an archive is bounded as
//! what a client uploads.

use toolgate_fs::archive::{self, Contents};
use toolgate_fs::compressed::decompressed;
use toolgate_fs::entries;
use toolgate_web::header::HeaderMap;
use toolgate_web::{Request, RequestError, Url};

use super::folders::Folders;
use super::seam::ProvisionError;

const MAX_REDIRECTS: usize = 5;

/// Bytes of headers and of filling beside the content of each file.
const PER_ENTRY: u64 = 2048;

/// Gets an archive and reads what is in it.
pub(super) async fn fetch(folders: &Folders, url: &str) -> Result<Contents, ProvisionError> {
    let refused = |problem: String| ProvisionError::Refused(format!("the archive cannot be used: {problem}"));
    let most = entries::MAX_BYTES.min(folders.max_bytes);
    let packed = most.saturating_add(entries::MAX_ENTRIES as u64 * PER_ENTRY);
    let body = download(folders, url, packed).await?;
    let read = tokio::task::spawn_blocking(move || {
        let plain = decompressed(body, packed).map_err(|error| error.to_string())?;
        archive::read(&plain, entries::MAX_ENTRIES, most).map_err(|error| error.to_string())
    });
    let read = read.await.map_err(|error| ProvisionError::Failed(error.to_string()))?;
    read.map_err(refused)
}

async fn download(folders: &Folders, url: &str, most: u64) -> Result<bytes::Bytes, ProvisionError> {
    let mut url = Url::parse(url).map_err(|error| ProvisionError::Refused(error.to_string()))?;
    let failed = |error: RequestError| ProvisionError::Failed(format!("the archive cannot be got: {error}"));
    for _ in 0..=MAX_REDIRECTS {
        if url.scheme() != "https" {
            return Err(ProvisionError::Refused(
                "the archive is not at an https address".to_owned(),
            ));
        }
        // The time for all of it is bounded by whoever asks for it.
        let request = Request::within(folders.timeout, url, HeaderMap::new());
        let reply = folders.network.request(request).await.map_err(failed)?;
        if let Some(next) = reply.redirect().map_err(failed)? {
            url = next;
            continue;
        }
        if !reply.is_success() {
            let status = reply.status();
            return Err(ProvisionError::Failed(format!(
                "the archive cannot be got: the server answers {status}"
            )));
        }
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        return reply.body(most).await.map_err(failed);
    }
    Err(ProvisionError::Refused(
        "the archive is behind too many redirects".to_owned(),
    ))
}
