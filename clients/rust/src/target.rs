//! Where the service is.
//!
//! *Invariant:* an address that cannot be understood is refused before anything is sent.

use std::net::IpAddr;

use tonic::transport::Endpoint;

use crate::error::{Error, innermost};

/// Where a service listens unless it is configured otherwise.
pub const DEFAULT_TARGET: &str = "http://127.0.0.1:50551";

/// An address that was understood.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) endpoint: Endpoint,
    pub(crate) is_encrypted: bool,
}

/// Reads `unix:/PATH`, `http://HOST:PORT`, `https://HOST:PORT` or `HOST:PORT`. The last one is plain text on this machine
/// and TLS elsewhere.
pub(crate) fn parse(target: &str) -> Result<Target, Error> {
    let wrong = |problem: &str| Error::Address {
        address: target.to_owned(),
        problem: problem.to_owned(),
    };
    let url = if let Some(path) = target.strip_prefix("unix:") {
        if path.strip_prefix("//").unwrap_or(path).is_empty() {
            return Err(wrong("the path is missing in unix:/PATH"));
        }
        target.to_owned()
    } else if target.starts_with("http://") || target.starts_with("https://") {
        target.to_owned()
    } else {
        let host = target
            .rsplit_once(':')
            .filter(|(host, port)| !host.contains('/') && port.parse::<u16>().is_ok())
            .map(|(host, _)| host.trim_start_matches('[').trim_end_matches(']'));
        let host = host.ok_or_else(|| wrong("write unix:/PATH, http://HOST:PORT, https://HOST:PORT or HOST:PORT"))?;
        let is_local = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        format!("{}://{target}", if is_local { "http" } else { "https" })
    };
    Ok(Target {
        is_encrypted: url.starts_with("https:"),
        endpoint: Endpoint::from_shared(url).map_err(|error| wrong(&innermost(&error)))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_checked() {
        fn check(target: &str, expected: Result<bool, &str>) {
            match (parse(target), expected) {
                (Ok(found), Ok(is_encrypted)) => assert_eq!(found.is_encrypted, is_encrypted, "{target}"),
                (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{target}: {error}"),
                (result, _) => panic!("{target}: {result:?}"),
            }
        }
        check("http://127.0.0.1:50551", Ok(false));
        check("http://[::1]:1", Ok(false));
        check("unix:/run/toolgate.sock", Ok(false));
        check("unix:///run/toolgate.sock", Ok(false));
        check("https://example.com", Ok(true));
        check("127.0.0.1:50551", Ok(false));
        check("[::1]:50551", Ok(false));
        check("example.com:443", Ok(true));
        check("unix:", Err("path is missing"));
        check("example.com", Err("write unix:/PATH"));
        check("http://", Err("is not a server address"));
    }
}
