//! Whether a request goes through a proxy.
//!
//! *Invariant:* pure; the environment is not read here. This machine is never asked for by way of another.

use std::fmt;
use std::net::IpAddr;

use hyper_util::client::proxy::matcher::Matcher;
use reqwest::Url;

use super::allow::host_of;

/// The proxies in force; none by default.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Proxy {
    http: Option<Url>,
    https: Option<Url>,
    except: String,
}

impl Proxy {
    /// Makes the rules of proxies from what the usual variables hold: one for `http`, one for `https`, one for what has
    /// none, and the hosts that are reached without one, separated by commas.
    ///
    /// # Errors
    /// An address that is none of a proxy that is spoken to by HTTP.
    pub fn new(
        http: Option<&str>,
        https: Option<&str>,
        all: Option<&str>,
        except: Option<&str>,
    ) -> Result<Self, String> {
        let one = |text: Option<&str>| text.or(all).map(read).transpose();
        Ok(Self {
            http: one(http)?,
            https: one(https)?,
            except: except.unwrap_or_default().to_owned(),
        })
    }

    /// Returns the proxy for a URL that goes through one.
    pub(super) fn of(&self, url: &Url) -> Option<Url> {
        match url.scheme() {
            "https" => self.https.clone(),
            _ => self.http.clone(),
        }
    }

    /// Returns the proxies for `http` and `https`, for a client that asks only for what [`Gate::takes`].
    pub(super) fn client_rules(&self) -> Result<Vec<reqwest::Proxy>, reqwest::Error> {
        let http = self.http.clone().map(reqwest::Proxy::http);
        let https = self.https.clone().map(reqwest::Proxy::https);
        http.into_iter().chain(https).collect()
    }
}

fn read(text: &str) -> Result<Url, String> {
    let with_scheme = if text.contains("://") {
        text.to_owned()
    } else {
        format!("http://{text}")
    };
    let url = Url::parse(&with_scheme).ok();
    let url = url.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    // Not shown whole: it may hold a password.
    url.ok_or_else(|| "expected the address of a proxy such as \"http://proxy.example:3128\"".to_owned())
}

/// Shows the proxies without what logs in to them.
impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bare = |url: &Url| {
            let mut url = url.clone();
            // Neither fails for a URL with a host.
            let _ = url.set_username("");
            let _ = url.set_password(None);
            url.to_string()
        };
        match (&self.http, &self.https) {
            (None, None) => f.write_str("none"),
            (Some(http), Some(https)) if http == https => f.write_str(&bare(http)),
            (http, https) => {
                let shown = [("http", http), ("https", https)].into_iter();
                let shown = shown.filter_map(|(scheme, url)| Some(format!("{scheme}={}", bare(url.as_ref()?))));
                f.write_str(&shown.collect::<Vec<_>>().join(","))
            }
        }
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proxy({self})")
    }
}

/// Says for each URL whether it goes through a proxy.
pub(super) struct Gate(Option<Matcher>);

impl Gate {
    pub(super) fn new(proxy: &Proxy) -> Self {
        let Proxy { http, https, except } = proxy;
        if http.is_none() && https.is_none() {
            return Self(None);
        }
        let text = |url: &Option<Url>| url.as_ref().map(Url::to_string).unwrap_or_default();
        let rules = Matcher::builder()
            .http(text(http))
            .https(text(https))
            .no(except.clone());
        Self(Some(rules.build()))
    }

    /// Says whether a URL is asked for by way of a proxy.
    pub(super) fn takes(&self, url: &Url) -> bool {
        let Some(rules) = &self.0 else { return false };
        let Some(host) = host_of(url) else { return false };
        let is_here = match host.parse::<IpAddr>() {
            Ok(address) => address.is_loopback(),
            Err(_) => host == "localhost" || host.ends_with(".localhost"),
        };
        !is_here && url.as_str().parse().is_ok_and(|uri| rules.intercept(&uri).is_some())
    }
}

/// Says whether a name is one that only a network of somebody's own knows. Where a proxy resolves names, nobody else can
/// see where they lead.
pub(super) fn is_local_name(host: &str) -> bool {
    let endings = [
        ".localhost",
        ".local",
        ".internal",
        ".lan",
        ".home.arpa",
        ".localdomain",
    ];
    !host.contains('.') || endings.iter().any(|ending| host.ends_with(ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_knows_what_goes_through() {
        let proxy = Proxy::new(
            None,
            Some("http://u:secret@p:1"),
            None,
            Some("direct.example, 10.0.0.0/8"),
        )
        .unwrap();
        let gate = Gate::new(&proxy);
        let check = |url: &str, expected: bool| assert_eq!(gate.takes(&Url::parse(url).unwrap()), expected, "{url}");
        check("https://a.example/", true);
        check("http://a.example/", false);
        check("https://direct.example/", false);
        check("https://a.direct.example/", false);
        check("https://10.1.1.1/", false);
        check("https://11.1.1.1/", true);
        check("https://localhost/", false);
        check("https://a.localhost./", false);
        check("https://127.0.0.9/", false);
        check("https://[::ffff:127.0.0.1]/", false);
        assert_eq!(proxy.to_string(), "https=http://p:1/");
        assert!(!format!("{proxy:?}").contains("secret"));
        assert!(!Gate::new(&Proxy::default()).takes(&Url::parse("https://a.example/").unwrap()));
    }

    #[test]
    fn proxies_are_spoken_to_by_http() {
        let both = Proxy::new(None, None, Some("proxy.example:3128"), None).unwrap();
        assert_eq!(both.to_string(), "http://proxy.example:3128/");
        assert_eq!(both.client_rules().unwrap().len(), 2);
        assert_eq!(Proxy::default().to_string(), "none");
        for wrong in ["socks5://p:1", "http://", "file:///x"] {
            let error = Proxy::new(Some(wrong), None, None, None).unwrap_err();
            assert!(error.contains("proxy.example:3128"), "{wrong}: {error}");
        }
    }
}
