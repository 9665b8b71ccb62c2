//! The console: which files are served, under which headers, and who may call from a page.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::*;

async fn with_console() -> Server {
    Server::with(Setup::tcp().env("TOOLGATE_CONSOLE", "1")).await
}

/// An HTTP/1.1 response: status, head, body.
struct Answer {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        let mut fields = self.head.lines().filter_map(|line| line.split_once(": "));
        let (_, value) = fields.find(|(field, _)| field.eq_ignore_ascii_case(name))?;
        Some(value)
    }
}

async fn ask(server: &Server, line: &str, headers: &str) -> Answer {
    send(server, line, headers, b"").await
}

async fn send(server: &Server, line: &str, headers: &str, body: &[u8]) -> Answer {
    let address = server.tcp.as_ref().unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let host = if headers.to_lowercase().contains("host:") {
        String::new()
    } else {
        format!("Host: {address}\r\n")
    };
    let length = body.len();
    let request = format!("{line} HTTP/1.1\r\n{host}Connection: close\r\nContent-Length: {length}\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    stream.write_all(body).await.unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.unwrap();
    let split = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
    let head = String::from_utf8_lossy(&bytes[..split]).into_owned();
    Answer {
        status: head[9..12].parse().unwrap(),
        body: bytes[split + 4..].to_vec(),
        head,
    }
}

#[test]
fn the_files_of_the_page_are_served() {
    test(async {
        let server = with_console().await;
        for (path, kind, start) in [
            ("/console/", "text/html; charset=utf-8", "<!doctype html>"),
            ("/console/?x=1", "text/html; charset=utf-8", "<!doctype html>"),
            ("/console/app.js", "text/javascript; charset=utf-8", ""),
            ("/console/app.css", "text/css; charset=utf-8", ":root"),
            ("/console/icon.svg", "image/svg+xml", "<svg"),
        ] {
            let answer = ask(&server, &format!("GET {path}"), "").await;
            assert_eq!(
                (answer.status, answer.header("content-type")),
                (200, Some(kind)),
                "{path}"
            );
            assert!(answer.body.starts_with(start.as_bytes()), "{path}");
            assert!(answer.body.len() > 100, "{path}");
            let head = ask(&server, &format!("HEAD {path}"), "").await;
            assert_eq!((head.status, head.body.len()), (200, 0), "{path}");
            assert_eq!(head.header("etag"), answer.header("etag"), "{path}");
        }
        for path in ["/", "/console"] {
            let answer = ask(&server, &format!("GET {path}"), "").await;
            assert_eq!(
                (answer.status, answer.header("location")),
                (307, Some("/console/")),
                "{path}"
            );
        }
    });
}

#[test]
fn the_page_may_do_little_and_nothing_may_frame_it() {
    test(async {
        let server = with_console().await;
        for path in ["/", "/console/", "/console/app.js", "/console/nothing"] {
            let answer = ask(&server, &format!("GET {path}"), "").await;
            let policy = answer.header("content-security-policy").unwrap_or_default();
            for rule in [
                "default-src 'none'",
                "script-src 'self'",
                "connect-src 'self'",
                "frame-ancestors 'none'",
                "form-action 'none'",
            ] {
                assert!(policy.split("; ").any(|one| one == rule), "{path}: {rule} in {policy}");
            }
            assert!(!policy.contains("unsafe"), "{policy}");
            for (name, value) in [
                ("x-content-type-options", "nosniff"),
                ("x-frame-options", "DENY"),
                ("referrer-policy", "no-referrer"),
                ("cross-origin-opener-policy", "same-origin"),
                ("cache-control", "no-cache"),
            ] {
                assert_eq!(answer.header(name), Some(value), "{path}");
            }
        }
        let page = String::from_utf8(ask(&server, "GET /console/", "").await.body).unwrap();
        assert!(!page.contains("http:") && !page.contains("https:"), "{page}");
        assert!(!page.contains("<style") && !page.contains("style="), "{page}");
        let scripts = page.matches("<script").count();
        assert_eq!(
            scripts,
            page.matches("<script type=\"module\" src=\"app.js?v=").count(),
            "{page}"
        );
    });
}

#[test]
fn the_page_names_its_files_by_their_content_and_they_are_kept_for_good() {
    test(async {
        let server = with_console().await;
        for (within, name) in [
            ("", "app.js"),
            ("", "app.css"),
            ("", "shared.js"),
            ("app.js", "shared.js"),
            ("app.js", "parts.js"),
            ("parts.js", "shared.js"),
            ("parts.js", "emulator.js"),
        ] {
            let text = ask(&server, &format!("GET /console/{within}"), "").await.body;
            let text = String::from_utf8(text).unwrap();
            let from = text.find(&format!("{name}?v=")).expect(name);
            let address = text[from..].split('"').next().unwrap();
            let named = ask(&server, &format!("GET /console/{address}"), "").await;
            let expected = Some("public, max-age=31536000, immutable");
            assert_eq!(
                (named.status, named.header("cache-control")),
                (200, expected),
                "{address}"
            );
            // A page of another version gets nothing of this one, and keeps nothing of it under an address of its own.
            let other = ask(&server, &format!("GET /console/{name}?v=0"), "").await;
            assert_eq!((other.status, other.header("cache-control")), (404, Some("no-cache")));
        }
    });
}

#[test]
fn the_page_is_sent_as_short_as_the_browser_takes_it() {
    test(async {
        let server = with_console().await;
        for name in ["app.js", "shared.js", "parts.js", "emulator.js", "app.css"] {
            let line = format!("GET /console/{name}");
            let plain = ask(&server, &line, "").await;
            assert_eq!(plain.header("content-encoding"), None);
            assert_eq!(plain.header("vary"), Some("accept-encoding"));
            let gzip = ask(&server, &line, "Accept-Encoding: gzip, deflate\r\n").await;
            assert_eq!(gzip.header("content-encoding"), Some("gzip"));
            let mut text = Vec::new();
            std::io::copy(&mut flate2::read::GzDecoder::new(&*gzip.body), &mut text).unwrap();
            assert_eq!(text, plain.body, "{name}");
            let brotli = ask(&server, &line, "Accept-Encoding: gzip, br;q=0.9\r\n").await;
            assert_eq!(brotli.header("content-encoding"), Some("br"));
            assert!(
                brotli.body.len() < gzip.body.len() && gzip.body.len() < plain.body.len() / 2,
                "{name}"
            );
        }
        let small = ask(&server, "GET /console/icon.svg", "Accept-Encoding: br\r\n").await;
        assert_eq!(small.header("content-encoding"), None);
    });
}

#[test]
fn a_version_that_the_browser_has_is_not_sent_again() {
    test(async {
        let server = with_console().await;
        let etag = ask(&server, "GET /console/app.js", "").await;
        let etag = etag.header("etag").unwrap().to_owned();
        let answer = ask(&server, "GET /console/app.js", &format!("If-None-Match: {etag}\r\n")).await;
        assert_eq!((answer.status, answer.body.len()), (304, 0));
        assert_eq!(answer.header("etag"), Some(&*etag));
        let answer = ask(&server, "GET /console/app.js", "If-None-Match: \"another\"\r\n").await;
        assert_eq!(answer.status, 200);
    });
}

#[test]
fn nothing_else_is_served() {
    test(async {
        let server = with_console().await;
        for path in [
            "/console/nothing",
            "/console/index.html/..",
            "/console/../Cargo.toml",
            "/console/..%2f..%2fetc/passwd",
            "/console/%2e%2e/%2e%2e/etc/passwd",
            "/console//etc/passwd",
            "/console/app.js/",
            "/console/APP.JS",
            "/console/app.js%00",
        ] {
            let answer = ask(&server, &format!("GET {path}"), "").await;
            assert_eq!(answer.status, 404, "{path}");
        }
        for method in ["POST", "PUT", "DELETE"] {
            let answer = ask(&server, &format!("{method} /console/"), "").await;
            assert_eq!(
                (answer.status, answer.header("allow")),
                (405, Some("GET, HEAD")),
                "{method}"
            );
        }
        server.assert_calm();
    });
}

/// Calls as a page does, which says where it is from.
async fn call(server: &Server, headers: &str) -> u16 {
    let headers = format!("Content-Type: application/grpc-web+proto\r\n{headers}");
    let line = "POST /toolgate.v1.InfoService/GetServerInfo";
    send(server, line, &headers, &[0; 5]).await.status
}

#[test]
fn only_the_page_itself_may_call() {
    test(async {
        let server = with_console().await;
        let address = server.tcp.clone().unwrap();
        let port = address.rsplit(':').next().unwrap().to_owned();
        for (host, origin, expected) in [
            (address.clone(), format!("http://{address}"), 200),
            (format!("localhost:{port}"), format!("http://localhost:{port}"), 200),
            // A page of another program on this machine, one that cannot be named, and one whose name leads here.
            (address.clone(), "http://127.0.0.1:1".to_owned(), 403),
            (address.clone(), "null".to_owned(), 403),
            (
                format!("evil.example:{port}"),
                format!("http://evil.example:{port}"),
                403,
            ),
            (
                format!("localhost.evil.example:{port}"),
                format!("http://localhost.evil.example:{port}"),
                403,
            ),
        ] {
            let status = call(&server, &format!("Host: {host}\r\nOrigin: {origin}\r\n")).await;
            assert_eq!(status, expected, "{origin} to {host}");
        }
    });
}

#[test]
fn it_is_off_unless_somebody_wants_it() {
    test(async {
        let server = Server::with(Setup::tcp()).await;
        let address = server.tcp.clone().unwrap();
        for path in ["/", "/console/", "/console/app.js"] {
            let answer = ask(&server, &format!("GET {path}"), "").await;
            assert!(answer.status >= 400, "{path}: {}", answer.head);
        }
        let own = format!("Host: {address}\r\nOrigin: http://{address}\r\n");
        // A program that says where it calls is none of its pages.
        assert_eq!(call(&server, &own).await, 200);
    });
}
