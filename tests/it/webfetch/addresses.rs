//! Nothing but the public internet is reached, however it is written and whoever leads there.

use std::sync::Arc;

use toolgate_contract::*;

use super::fetch;
use crate::support::*;

/// Ways to write what must not be reached. `{p}` is the port of a server of this machine.
const CORPUS: &[&str] = &[
    // This machine, in all spellings of its address.
    "http://127.0.0.1:{p}/",
    "http://127.0.0.1.:{p}/",
    "http://127.1:{p}/",
    "http://127.0.1:{p}/",
    "http://2130706433:{p}/",
    "http://0x7f000001:{p}/",
    "http://0x7f.0x0.0x0.0x1:{p}/",
    "http://0x7f.1:{p}/",
    "http://0177.0.0.1:{p}/",
    "http://0177.1:{p}/",
    "http://017700000001:{p}/",
    "http://0x7f.0.0.01:{p}/",
    "http://127.000.000.001:{p}/",
    "http://127.127.127.127:{p}/",
    "http://0.0.0.0:{p}/",
    "http://0:{p}/",
    "http://0x0:{p}/",
    "http://%31%32%37.0.0.1:{p}/",
    "http://127%2e0%2e0%2e1:{p}/",
    "http://１２７.０.０.１:{p}/",
    "http://①②⑦.⓪.⓪.①:{p}/",
    "http://127。0。0。1:{p}/",
    "http:127.0.0.1:{p}/",
    "http:///127.0.0.1:{p}/",
    "http:\\\\127.0.0.1:{p}\\",
    "http://127.0.0.1:{p}\\@8.8.8.8/",
    "http://\t127.0.0.1:{p}/",
    "http://127.0.\n0.1:{p}/",
    "https://127.0.0.1:{p}/",
    // By its name.
    "http://localhost:{p}/",
    "http://LOCALHOST:{p}/",
    "http://localhost.:{p}/",
    "http://lo\u{ad}calhost:{p}/",
    "http://ｌｏｃａｌｈｏｓｔ:{p}/",
    // By IPv6, and by addresses that carry another one.
    "http://[::1]:{p}/",
    "http://[0:0:0:0:0:0:0:1]:{p}/",
    "http://[0000::0001]:{p}/",
    "http://[::]:{p}/",
    "http://[::ffff:127.0.0.1]:{p}/",
    "http://[::ffff:7f00:1]:{p}/",
    "http://[0:0:0:0:0:ffff:127.0.0.1]:{p}/",
    "http://[::127.0.0.1]:{p}/",
    "http://[::ffff:0:127.0.0.1]:{p}/",
    "http://[64:ff9b::127.0.0.1]:{p}/",
    "http://[64:ff9b:1::127.0.0.1]:{p}/",
    "http://[2002:7f00:1::]:{p}/",
    "http://[2001:0:7f00:1::80ff:fffe]:{p}/",
    // With somebody else's name in front.
    "http://user@127.0.0.1:{p}/",
    "http://user:hunter2@127.0.0.1:{p}/",
    "http://example.com@127.0.0.1:{p}/",
    "http://example.com:80@127.0.0.1:{p}/",
    "http://127.0.0.1:{p}#@example.com/",
    "http://127.0.0.1:{p}?@example.com/",
    "http://example.com%00@127.0.0.1:{p}/",
    // Services of clouds.
    "http://169.254.169.254/latest/meta-data/iam/",
    "http://0xa9fea9fe/",
    "http://2852039166/",
    "http://0251.0376.0251.0376/",
    "http://[::ffff:169.254.169.254]/",
    "http://[fd00:ec2::254]/",
    "http://[fd20:ce::254]/",
    "http://169.254.170.2/v2/credentials",
    "http://100.100.100.200/",
    "http://192.0.0.192/",
    "http://168.63.129.16/",
    // Networks of somebody's own, and what is no address of a server.
    "http://10.0.0.1/",
    "http://10.255.255.255/",
    "http://172.16.0.1/",
    "http://172.31.255.255/",
    "http://192.168.0.1/",
    "http://192.168.1.254:8080/",
    "http://100.64.0.1/",
    "http://169.254.1.1/",
    "http://198.18.0.1/",
    "http://192.0.2.1/",
    "http://203.0.113.1/",
    "http://224.0.0.1/",
    "http://240.0.0.1/",
    "http://255.255.255.255/",
    "http://[fe80::1]/",
    "http://[fec0::1]/",
    "http://[fc00::1]/",
    "http://[fd12:3456::1]/",
    "http://[ff02::1]/",
    "http://[2001:db8::1]/",
    "http://[100::1]/",
    // What is no URL of the web.
    "file:///etc/passwd",
    "file://127.0.0.1/etc/passwd",
    "gopher://127.0.0.1:{p}/_GET%20/",
    "ftp://127.0.0.1:{p}/",
    "dict://127.0.0.1:{p}/d:x",
    "ldap://127.0.0.1:{p}/",
    "jar:http://127.0.0.1:{p}!/",
    "data:text/plain,x",
    "javascript:alert(1)",
    "unix:/run/docker.sock",
    "ws://127.0.0.1:{p}/",
    "http://",
    "http://:{p}/",
    "http://[::1/",
    "http://127.0.0.1:99999/",
    // Where other things than the web are.
    "http://8.8.8.8:25/",
    "http://8.8.8.8:22/",
    "http://8.8.8.8:53/",
];

fn corpus(port: u16) -> Vec<String> {
    CORPUS.iter().map(|url| url.replace("{p}", &port.to_string())).collect()
}

/// It failed, and not by waiting for something.
fn is_refused(url: &str, call: &Call) {
    let failed = failed(call);
    assert_eq!(failed.reason(), FailureReason::ToolError, "{url}: {failed:?}");
    assert!(!failed.error.contains("timed out"), "{url}: {}", failed.error);
    assert!(!failed.error.contains("hunter2"), "{url}: {}", failed.error);
}

#[test]
fn what_is_not_public_is_refused() {
    test(async {
        let victim = Site::answering(|_| page("text/plain", b"secret")).await;
        let server = Server::start().await;
        for url in corpus(victim.port) {
            is_refused(&url, &fetch(&server, &url).await);
        }
        assert_eq!(victim.connections(), 0);
        // It would have been there for whoever is allowed to.
        let port = victim.port;
        for (allowed, url) in [
            ("127.0.0.1".to_owned(), format!("http://0x7f.1:{port}/")),
            (format!("127.0.0.1:{port}"), format!("http://127.0.0.1.:{port}/")),
            (format!("localhost:{port}"), format!("http://LOCALHOST:{port}/")),
            ("127.0.0.0/8,::1".to_owned(), format!("http://localhost:{port}/")),
        ] {
            let server = Server::with(Setup::default().env("TOOLGATE_NETWORK_ALLOW", &allowed)).await;
            let call = fetch(&server, &url).await;
            assert_eq!(completed(&call).output, "secret", "{allowed} {url}");
        }
        assert_eq!(victim.connections(), 4);
    });
}

#[test]
fn what_is_listed_opens_nothing_beside_it() {
    test(async {
        let victim = Site::answering(|_| page("text/plain", b"secret")).await;
        let other = Site::answering(|_| page("text/plain", b"here")).await;
        let allowed = format!("127.0.0.1:{},10.0.0.0/8,wiki.example", other.port);
        let server = Server::with(Setup::default().env("TOOLGATE_NETWORK_ALLOW", &allowed)).await;
        let port = victim.port;
        for url in [
            format!("http://127.0.0.1:{port}/"),
            format!("http://localhost:{port}/"),
            format!("http://[::1]:{}/", other.port),
            format!("http://localhost:{}/", other.port),
        ] {
            is_refused(&url, &fetch(&server, &url).await);
        }
        assert_eq!((victim.connections(), other.connections()), (0, 0));
        assert_eq!(completed(&fetch(&server, &other.url("/")).await).output, "here");
    });
}

#[test]
fn redirects_lead_to_nothing_that_is_refused() {
    test(async {
        let victim = Site::answering(|_| page("text/plain", b"secret")).await;
        let mut targets = corpus(victim.port);
        // As a location they are no URLs but paths of the server that redirects.
        targets.retain(|url| url.contains("://") && !url.contains(['\t', '\n']));
        targets.push(format!("//127.0.0.1:{}/", victim.port));
        targets.push(format!("\\\\127.0.0.1:{}/", victim.port));
        targets.push(format!("HTTP://LocalHost:{}/", victim.port));
        let targets = Arc::new(targets);
        let known = Arc::clone(&targets);
        let statuses = [301, 302, 303, 307, 308];
        // `/3/at/7` redirects three times, the last time to the seventh target.
        let guide = Site::answering(move |head| {
            let path: Vec<&str> = head.split(' ').nth(1).unwrap().split('/').collect();
            let (left, at): (usize, usize) = (path[1].parse().unwrap(), path[3].parse().unwrap());
            let status = statuses[(left + at) % statuses.len()];
            match left {
                1 => redirect(status, &known[at]),
                left => redirect(status, &format!("/{}/at/{at}", left - 1)),
            }
        })
        .await;
        let allowed = format!("127.0.0.1:{}", guide.port);
        let server = Server::with(Setup::default().env("TOOLGATE_NETWORK_ALLOW", &allowed)).await;
        for (at, target) in targets.iter().enumerate() {
            let url = guide.url(&format!("/{}/at/{at}", 1 + at % 3));
            is_refused(target, &fetch(&server, &url).await);
        }
        assert_eq!(victim.connections(), 0);
        assert!(guide.connections() >= targets.len());
    });
}
