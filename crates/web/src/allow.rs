//! What the operator allows beside the public internet.
//!
//! *Invariant:* pure. A host counts as it is written in a URL, an address wherever a name leads.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use reqwest::Url;

use super::address;

/// One thing that may be reached although it is not of the public internet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// What a URL names so, wherever that leads.
    Host {
        /// The host as URLs have it: lower case, punycode, an address without brackets.
        name: String,
        /// At this port only.
        port: Option<u16>,
    },
    /// The addresses of a network, whatever name leads there.
    Network {
        /// An address in it.
        base: IpAddr,
        /// The bits that all its addresses have in common.
        prefix: u8,
    },
}

impl FromStr for Allowed {
    type Err = String;

    /// Reads `wiki.example`, `localhost:3000`, `10.1.2.3`, `[::1]:80` or `10.0.0.0/8`.
    fn from_str(text: &str) -> Result<Self, String> {
        parse(text).ok_or_else(|| {
            format!(
                "expected a host such as \"wiki.example\" or \"localhost:3000\", or a network such as \"10.0.0.0/8\", \
                 found {text:?}"
            )
        })
    }
}

impl Allowed {
    /// Says whether an address is one of a network; a host is none.
    pub fn holds(&self, address: IpAddr) -> bool {
        match self {
            Self::Network { base, prefix } => address::holds(*base, *prefix, address),
            Self::Host { .. } => false,
        }
    }
}

fn parse(text: &str) -> Option<Allowed> {
    if let Some((base, prefix)) = text.split_once('/') {
        let (base, prefix): (IpAddr, u8) = (base.parse().ok()?, prefix.parse().ok()?);
        // A network of mapped addresses would hold nothing: they are taken for what they map.
        let is_plain = base.to_canonical() == base && prefix <= length(base);
        return is_plain.then_some(Allowed::Network { base, prefix });
    }
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(single(address));
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port.parse().ok()?)),
        Some(_) | None => (text, None),
    };
    let is_bracketed = host.starts_with('[') && host.ends_with(']');
    if host.is_empty() || host.contains(['@', '?', '#', '\\', ' ', '*']) || (host.contains(':') && !is_bracketed) {
        return None;
    }
    // As the host of a URL would be read, so that both are written alike.
    let url = Url::parse(&format!("http://{host}/")).ok()?;
    let name = host_of(&url)?;
    match (name.parse::<IpAddr>(), port) {
        (Ok(address), None) => Some(single(address)),
        (Ok(_) | Err(_), port) => Some(Allowed::Host { name, port }),
    }
}

fn single(address: IpAddr) -> Allowed {
    let base = address.to_canonical();
    let prefix = length(base);
    Allowed::Network { base, prefix }
}

fn length(base: IpAddr) -> u8 {
    if base.is_ipv4() { 32 } else { 128 }
}

impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network { base, prefix } if *prefix == length(*base) => write!(f, "{base}"),
            Self::Network { base, prefix } => write!(f, "{base}/{prefix}"),
            Self::Host { name, port: None } => f.write_str(name),
            Self::Host { name, port: Some(port) } if name.contains(':') => write!(f, "[{name}]:{port}"),
            Self::Host { name, port: Some(port) } => write!(f, "{name}:{port}"),
        }
    }
}

/// Returns the host of a URL as one name: without the brackets of an address and the dot at the end.
pub(super) fn host_of(url: &Url) -> Option<String> {
    let host = url.host_str()?;
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    if let Ok(address) = bare.parse::<IpAddr>() {
        return Some(address.to_canonical().to_string());
    }
    let name = bare.strip_suffix('.').unwrap_or(bare);
    (!name.is_empty()).then(|| name.to_owned())
}

/// Says whether a URL is of the loopback of this machine, by its text: what is sent there goes over no network.
pub fn is_loopback(url: &Url) -> bool {
    let host = host_of(url).unwrap_or_default();
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// All that is allowed.
#[derive(Clone, Debug, Default)]
pub(super) struct Allow(Vec<Allowed>);

impl Allow {
    pub(super) fn new(list: Vec<Allowed>) -> Self {
        Self(list)
    }

    /// Says whether a host is allowed by its name in the URL.
    pub(super) fn names(&self, host: &str, port: Option<u16>) -> bool {
        self.0.iter().any(|allowed| match allowed {
            Allowed::Host { name, port: at } => name == host && (at.is_none() || *at == port),
            Allowed::Network { .. } => false,
        })
    }

    /// Returns what an address is if it may not be reached.
    pub(super) fn refuses(&self, address: IpAddr) -> Option<&'static str> {
        let listed = self.0.iter().any(|allowed| allowed.holds(address));
        if listed { None } else { address::special(address) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries() {
        let check = |text: &str, expected: Option<&str>| {
            let read: Result<Allowed, String> = text.parse();
            assert_eq!(
                read.as_ref().ok().map(Allowed::to_string).as_deref(),
                expected,
                "{text}: {read:?}"
            );
        };
        for same in [
            "wiki",
            "localhost:3000",
            "10.0.0.0/8",
            "10.1.2.3",
            "10.1.2.3:80",
            "::1",
            "[::1]:80",
            "fd00::/8",
        ] {
            check(same, Some(same));
        }
        check("WIKI.Example.", Some("wiki.example"));
        check("b\u{fc}cher.example:443", Some("xn--bcher-kva.example:443"));
        check("[::1]", Some("::1"));
        check("0x7f.1", Some("127.0.0.1"));
        check("::ffff:10.0.0.1", Some("10.0.0.1"));
        for wrong in [
            "",
            ":80",
            "a b",
            "*",
            "*.example",
            "http://a",
            "a/b",
            "a@b",
            "10.0.0.0/33",
            "::/129",
            "10.0.0.0/",
            "/8",
            "a:",
            "a:x",
            "a:65536",
            "::ffff:0:0/96",
            "a?b",
            "[::1",
            "a:1:2",
        ] {
            check(wrong, None);
        }
    }

    #[test]
    fn hosts_are_names_and_networks_are_addresses() {
        let list = ["wiki.example", "localhost:3000", "10.1.0.0/16", "[::1]:80"];
        let allow = Allow::new(list.map(|text| text.parse().unwrap()).to_vec());
        let names = |url: &str| {
            let url = Url::parse(url).unwrap();
            allow.names(&host_of(&url).unwrap(), url.port_or_known_default())
        };
        for url in [
            "http://wiki.example/",
            "https://WIKI.example.:9/x",
            "http://localhost:3000",
            "http://[::1]/",
        ] {
            assert!(names(url), "{url}");
        }
        for url in [
            "http://a.wiki.example/",
            "http://localhost/",
            "http://127.0.0.1:3000",
            "http://[::1]:81/",
        ] {
            assert!(!names(url), "{url}");
        }
        let refuses = |address: &str| allow.refuses(address.parse().unwrap()).is_some();
        assert!(!refuses("10.1.255.1") && !refuses("::ffff:10.1.0.1") && !refuses("8.8.8.8"));
        assert!(refuses("10.2.0.1") && refuses("::1") && refuses("127.0.0.1"));
    }
}
