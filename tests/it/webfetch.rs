//! `webfetch` against web servers of the tests: what it brings, what it may reach, and what servers cannot do to it.

mod addresses;
mod hostile;

use serde_json::json;
use toolgate_contract::*;

use crate::support::*;

/// A service that may reach this machine by its address.
fn open() -> Setup {
    Setup::default().env("TOOLGATE_NETWORK_ALLOW", "127.0.0.1")
}

async fn fetch(server: &Server, url: &str) -> Call {
    server
        .run("webfetch", json!({"url": url, "format": "text", "timeout": 20}))
        .await
}

async fn fetch_in(server: &Server, session: &str, url: &str, format: &str) -> Call {
    let request = in_session(session, request("webfetch", json!({"url": url, "format": format})));
    run(&mut server.tools(), run_request(request)).await.unwrap()
}

#[test]
fn pages_come_in_the_form_that_was_asked_for() {
    test(async {
        let body = "<h1>Caf\u{e9}</h1><p>a <b>b</b></p>";
        let latin: Vec<u8> = body
            .chars()
            .map(|letter| u8::try_from(u32::from(letter)).unwrap())
            .collect();
        let site = Site::answering(move |_| page("text/html; charset=iso-8859-1", &latin)).await;
        let server = Server::with(open()).await;
        for (format, expected) in [
            ("markdown", "# Caf\u{e9}\n\na **b**"),
            ("text", "Caf\u{e9}a b"),
            ("html", body),
        ] {
            let call = fetch_in(&server, "s", &site.url("/x"), format).await;
            let completed = completed(&call);
            assert_eq!(completed.output, expected);
            assert_eq!(
                completed.title,
                format!("{} (text/html; charset=iso-8859-1)", site.url("/x"))
            );
        }
        let heads = site.heads();
        assert_eq!(heads.len(), 3, "each format is asked for in its own words");
        for head in heads.iter().map(|head| head.to_lowercase()) {
            for part in [
                "user-agent: mozilla/5.0",
                "accept-encoding: gzip, deflate, br, zstd",
                "accept-language: en-us",
            ] {
                assert!(head.contains(part), "{part}: {head}");
            }
            for part in ["traceparent", "referer", "cookie", "authorization"] {
                assert!(!head.contains(part), "{part}: {head}");
            }
        }
    });
}

#[test]
fn a_page_is_fetched_anew_each_time() {
    test(async {
        let served = std::sync::atomic::AtomicUsize::new(0);
        let site = Site::answering(move |_| {
            let number = served.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            page("text/plain", number.to_string().as_bytes())
        })
        .await;
        let server = Server::with(open()).await;
        for number in 0..2 {
            let call = fetch_in(&server, "s", &site.url("/"), "text").await;
            assert_eq!(completed(&call).output, number.to_string());
        }
    });
}

#[test]
fn rules_hold_for_where_redirects_lead_and_for_every_spelling() {
    test(async {
        let site = Site::answering(|head| match head.split(' ').nth(1).unwrap() {
            "/in" => redirect(302, "/secret"),
            "/out" => redirect(307, "/free"),
            _ => page("text/plain", b"here"),
        })
        .await;
        let rules = json!({"webfetch*": {"*": "allow", "http://127.0.0.1:*/secret*": "deny"}});
        let server = Server::with(Setup {
            env: open().env,
            ..Setup::permission(rules)
        })
        .await;
        assert_eq!(completed(&fetch(&server, &site.url("/out")).await).output, "here");
        let port = site.port;
        for url in [
            format!("http://127.0.0.1:{port}/secret"),
            format!("http://127.0.0.1:{port}/in"),
            format!("http://127.1:{port}/secret"),
            format!("http://0x7f000001:{port}/a/../secret"),
            format!("http://127.0.0.1:{port}\\secret"),
        ] {
            let call = fetch(&server, &url).await;
            let failed = failed(&call);
            assert_eq!(failed.reason(), FailureReason::Denied, "{url}: {failed:?}");
        }
        assert!(
            site.heads().iter().all(|head| !head.contains("secret")),
            "{:?}",
            site.heads()
        );
    });
}

#[test]
fn proxies_count_only_if_the_configuration_says_so() {
    test(async {
        let proxy = Site::answering(|_| page("text/plain", b"by proxy")).await;
        let address = proxy.url("");
        let server = Server::with(Setup::default().env("http_proxy", &address).env("ALL_PROXY", &address)).await;
        failed(&fetch(&server, "http://nobody.invalid/").await);
        assert_eq!(proxy.connections(), 0);

        for setup in [
            Setup::default().env("TOOLGATE_NETWORK_PROXY", &address),
            Setup::default()
                .env("TOOLGATE_NETWORK_PROXY", "environment")
                .env("http_proxy", &address),
        ] {
            let before = proxy.connections();
            let server = Server::with(setup).await;
            let call = fetch(&server, "http://site.example/x").await;
            assert_eq!(completed(&call).output, "by proxy");
            let head = proxy.heads().last().cloned().unwrap();
            assert!(head.starts_with("GET http://site.example/x HTTP/1.1"), "{head}");
            // Neither what is this machine's nor what is private is asked for by way of it.
            for url in [
                "http://127.0.0.1:8080/",
                "http://localhost:8080/",
                "http://169.254.169.254/",
                "http://10.1.1.1/",
                "http://metadata.google.internal/",
                "http://intranet/",
                "http://printer.local/",
            ] {
                let call = fetch(&server, url).await;
                assert!(failed(&call).error.contains("leads to"), "{url}: {call:?}");
            }
            assert_eq!(proxy.connections(), before + 1);
        }
    });
}
