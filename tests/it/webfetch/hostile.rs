//! Servers that mean harm: each comes to a clear error, in bounded time and memory.

use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use toolgate_contract::*;

use super::{fetch, open};
use crate::support::*;

/// Bytes that a bomb has when it has gone off.
const BOMB: usize = 64 << 20;

/// What a service may need more for an answer that means harm: the largest body that is taken, and working space.
const MEMORY: u64 = 40 << 20;

fn resident_peak(server: &Server) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// Fetches, and checks that it fails with this text.
async fn check(server: &Server, url: &str, expected: &str) {
    let call = fetch(server, url).await;
    let failed = failed(&call);
    assert!(
        failed.error.contains(expected),
        "{url}: {} instead of {expected}",
        failed.error
    );
    assert_eq!(failed.reason(), FailureReason::ToolError, "{url}");
}

/// Fetches with a time limit of a second, which must be enough.
async fn check_slow(server: &Server, url: &str) {
    let started = Instant::now();
    let call = server
        .run("webfetch", json!({"url": url, "format": "text", "timeout": 1}))
        .await;
    assert_eq!(failed(&call).error, "Request timed out", "{url}");
    assert!(
        started.elapsed() < Duration::from_secs(8),
        "{url}: {:?}",
        started.elapsed()
    );
}

#[test]
fn slow_servers_are_given_up() {
    test(async {
        let server = Server::with(open()).await;
        let silent = Site::with(|stream: TcpStream| async move {
            let _stream = stream;
            std::future::pending().await
        })
        .await;
        check_slow(&server, &silent.url("/")).await;
        let starts = [
            "",
            "HTTP/1.1 200 OK\r\nX: ",
            "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n",
        ];
        for start in starts {
            let dripping = Site::with(move |mut stream: TcpStream| async move {
                request_head(&mut stream).await?;
                stream.write_all(start.as_bytes()).await?;
                loop {
                    stream.write_all(b"H").await?;
                    sleep(Duration::from_millis(20)).await;
                }
            })
            .await;
            if start.is_empty() {
                // That cannot become an answer.
                failed(
                    &server
                        .run("webfetch", json!({"url": dripping.url("/"), "timeout": 1}))
                        .await,
                );
            } else {
                check_slow(&server, &dripping.url("/")).await;
            }
        }
        for timeout in [0.0, -1.0] {
            let before = silent.connections();
            let call = server
                .run("webfetch", json!({"url": silent.url("/"), "timeout": timeout}))
                .await;
            assert_eq!(failed(&call).error, "Request timed out");
            assert_eq!(silent.connections(), before);
        }
        // One limit is for all hops together.
        let sent = Arc::new(AtomicUsize::new(0));
        let guide = Site::with(move |mut stream: TcpStream| {
            let at = sent.fetch_add(1, Ordering::SeqCst);
            async move {
                request_head(&mut stream).await?;
                sleep(Duration::from_millis(400)).await;
                stream.write_all(&redirect(302, &format!("/{at}"))).await
            }
        })
        .await;
        check_slow(&server, &guide.url("/")).await;
        assert!(guide.connections() <= 4);
    });
}

#[test]
fn cancelling_ends_it_at_once() {
    test(async {
        let server = Server::with(open()).await;
        let silent = Site::with(|stream: TcpStream| async move {
            let _stream = stream;
            std::future::pending().await
        })
        .await;
        let request = kept(
            "silent",
            request("webfetch", json!({"url": silent.url("/"), "timeout": 120})),
        );
        let stream = server.tools().execute_tool(request).await.unwrap().into_inner();
        eventually("a connection", async || silent.connections() == 1).await;
        let started = Instant::now();
        let request = CancelCallRequest {
            call_id: "silent".to_owned(),
        };
        server.tools().cancel_call(request).await.unwrap();
        let events = collect(stream).await.unwrap();
        match end_of(&events) {
            call::Ending::Failed(failed) => assert_eq!(failed.reason(), FailureReason::Cancelled),
            call::Ending::Completed(completed) => panic!("{completed:?}"),
        }
        assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    });
}

#[test]
fn endless_answers_are_cut() {
    test(async {
        let server = Server::with(open()).await;
        let warm = Site::answering(|_| page("text/plain", b"x")).await;
        fetch(&server, &warm.url("/")).await;
        let before = resident_peak(&server);
        let heads = [
            "HTTP/1.1 200 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffff\r\n",
            "HTTP/1.1 200 OK\r\nContent-Type: image/png\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 9000000000\r\n\r\n",
        ];
        for start in heads {
            let sent = Arc::new(AtomicUsize::new(0));
            let count = Arc::clone(&sent);
            let endless = Site::with(move |mut stream: TcpStream| {
                let count = Arc::clone(&count);
                async move {
                    request_head(&mut stream).await?;
                    stream.write_all(start.as_bytes()).await?;
                    loop {
                        stream.write_all(&[b'x'; 4096]).await?;
                        count.fetch_add(4096, Ordering::SeqCst);
                    }
                }
            })
            .await;
            check(&server, &endless.url("/"), "Response too large (exceeds 5MB limit)").await;
            // What the buffers of both ends hold is on its way.
            assert!(sent.load(Ordering::SeqCst) < 24 << 20, "{sent:?} bytes sent");
        }
        // A head has no end, either.
        for piece in ["X-Header: y\r\n", "y"] {
            let endless = Site::with(move |mut stream: TcpStream| async move {
                request_head(&mut stream).await?;
                stream.write_all(b"HTTP/1.1 200 OK\r\nX: ").await?;
                loop {
                    stream.write_all(piece.repeat(500).as_bytes()).await?;
                }
            })
            .await;
            check(&server, &endless.url("/"), "cannot be reached").await;
        }
        let grown = resident_peak(&server).saturating_sub(before);
        assert!(grown <= MEMORY, "{grown} bytes more memory");
    });
}

/// Blocks of one repeated byte, which is all that there is to a bomb. `window` is the frame's window descriptor.
fn zstd(window: u8) -> Vec<u8> {
    const BLOCK: usize = 128 << 10;
    let mut bytes = vec![0x28, 0xb5, 0x2f, 0xfd, 0, window];
    for at in (0..BOMB).step_by(BLOCK) {
        let is_last = u32::from(at + BLOCK >= BOMB);
        let header = (BLOCK as u32) << 3 | 1 << 1 | is_last;
        bytes.extend_from_slice(&header.to_le_bytes()[..3]);
        bytes.push(b'x');
    }
    bytes
}

/// 64 MiB of zeros.
const BROTLI: &str = "y///PwAkAOKxQHLv//j//weABEAcFoDu/R////8AkACIwwLQvf/j//8fABIAcVgAuvd//P//A0ACIA4LQPf+j///fwBIAMRhAeje//H\
                      //w8ACYA4LADd+7/8//8DIAEQhwWge/8H";

fn deflated<W: io::Write>(mut encoder: W, finish: impl FnOnce(W) -> io::Result<Vec<u8>>) -> Vec<u8> {
    for _ in 0..BOMB >> 20 {
        encoder.write_all(&[0; 1 << 20]).unwrap();
    }
    finish(encoder).unwrap()
}

#[test]
fn compressed_bombs_do_not_go_off() {
    test(async {
        let server = Server::with(open()).await;
        let warm = Site::answering(|_| page("text/plain", b"x")).await;
        fetch(&server, &warm.url("/")).await;
        let before = resident_peak(&server);
        let gzip = deflated(GzEncoder::new(Vec::new(), Compression::best()), GzEncoder::finish);
        let deflate = deflated(ZlibEncoder::new(Vec::new(), Compression::best()), ZlibEncoder::finish);
        let bombs = [
            ("gzip", gzip.clone()),
            ("deflate", deflate),
            ("br", STANDARD.decode(BROTLI).unwrap()),
            ("zstd", zstd(13 << 3)),
            // The largest window that a decoder may take by default.
            ("zstd", zstd(17 << 3)),
        ];
        for (encoding, bytes) in bombs {
            assert!(bytes.len() < 1 << 20);
            let site = Site::answering(move |_| encoded(encoding, &bytes)).await;
            check(&server, &site.url("/"), "Response too large (exceeds 5MB limit)").await;
        }
        // More than a decoder may take; and what cannot be decoded at all.
        let broken = [
            ("zstd", zstd(21 << 3)),
            ("gzip", gzip[..64].to_vec()),
            ("gzip", b"no such thing".to_vec()),
            ("br", b"\xff\xff\xff\xff\xff".to_vec()),
            ("deflate", b"no such thing".to_vec()),
        ];
        for (encoding, bytes) in broken {
            let site = Site::answering(move |_| encoded(encoding, &bytes)).await;
            check(&server, &site.url("/"), "broke off").await;
        }
        let grown = resident_peak(&server).saturating_sub(before);
        assert!(grown <= MEMORY, "{grown} bytes more memory");
    });
}

fn encoded(encoding: &str, bytes: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: {encoding}\r\nContent-Length: {}\r\n\r\n",
        bytes.len()
    );
    [head.as_bytes(), bytes].concat()
}

#[test]
fn wrong_answers_are_errors() {
    test(async {
        let server = Server::with(open()).await;
        let answers: [(&str, &str); 12] = [
            ("", "cannot be reached"),
            ("nonsense\r\n\r\n", "cannot be reached"),
            ("HTTP/9.9 200 OK\r\n\r\n", "cannot be reached"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort", "broke off"),
            ("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "cannot be reached"),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
                "cannot be reached",
            ),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\n",
                "cannot be reached",
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
                "broke off",
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nab",
                "broke off",
            ),
            (
                "HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n",
                "Request failed with status code: 302",
            ),
            (
                "HTTP/1.1 302 Found\r\nLocation: http://[\r\nContent-Length: 0\r\n\r\n",
                "redirects to something",
            ),
            (
                "HTTP/1.1 304 Not Modified\r\n\r\n",
                "Request failed with status code: 304",
            ),
        ];
        for (answer, expected) in answers {
            let site = Site::answering(move |_| answer.as_bytes().to_vec()).await;
            check(&server, &site.url("/"), expected).await;
        }
        // Only what was announced belongs to the answer.
        let site = Site::answering(|_| b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabcdef".to_vec()).await;
        assert_eq!(completed(&fetch(&server, &site.url("/")).await).output, "ab");
        let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "A: b\r\n".repeat(5000));
        let site = Site::answering(move |_| many.clone().into_bytes()).await;
        check(&server, &site.url("/"), "cannot be reached").await;
    });
}

#[test]
fn redirects_have_an_end() {
    test(async {
        let server = Server::with(open()).await;
        let circle = Site::answering(|_| redirect(302, "/again")).await;
        check(&server, &circle.url("/"), "redirects more than 10 times").await;
        assert_eq!(circle.connections(), 11);
        let row = Site::answering(|head| match head.split(['/', ' ']).nth(2).unwrap().parse() {
            Ok(10) => page("text/plain", b"arrived"),
            Ok(at) => redirect(307, &format!("{}", at + 1)),
            Err(_) => redirect(307, "/1"),
        })
        .await;
        assert_eq!(completed(&fetch(&server, &row.url("/")).await).output, "arrived");
        // What logs in is not taken along.
        let target = Site::answering(|_| page("text/plain", b"x")).await;
        let port = target.port;
        let site = Site::answering(move |_| redirect(302, &format!("http://user:password@127.0.0.1:{port}/"))).await;
        check(&server, &site.url("/"), "a user name or a password").await;
        assert_eq!(target.connections(), 0);
    });
}

#[test]
fn certificates_are_checked() {
    test(async {
        let server = Server::with(open()).await;
        let signed = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(signed.signing_key.serialize_der()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![signed.cert.der().clone()], key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let site = Site::with(move |stream: TcpStream| {
            let acceptor = acceptor.clone();
            async move {
                let mut stream = acceptor.accept(stream).await?;
                request_head(&mut stream).await?;
                stream.write_all(&page("text/plain", b"secret")).await
            }
        })
        .await;
        check(&server, &format!("https://127.0.0.1:{}/", site.port), "certificate").await;
        let plain = Site::with(|mut stream: TcpStream| async move {
            stream
                .write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
                .await
        })
        .await;
        check(
            &server,
            &format!("https://127.0.0.1:{}/", plain.port),
            "cannot be reached",
        )
        .await;
    });
}
