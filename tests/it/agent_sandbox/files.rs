//! Files: byte for byte, inside of the workspace, changed by calls.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use serde_json::{Value, json};
use toolgate_contract::*;

use super::{ask, served};
use crate::support::*;

fn bytes() -> Vec<u8> {
    (0..=255).cycle().take(300_000).collect()
}

/// Returns a form with one file in it, and the header that says so.
fn form(name: &str, content: &[u8]) -> (String, Vec<u8>) {
    let mut body = format!(
        "--limit\r\nContent-Disposition: form-data; name=\"other\"\r\n\r\nx\r\n--limit\r\nContent-Disposition: form-data; \
         name=\"file\"; filename=\"{name}\"\r\nContent-Type: application/octet-stream\r\n\r\n"
    )
    .into_bytes();
    body.extend_from_slice(content);
    body.extend_from_slice(b"\r\n--limit--\r\n");
    ("Content-Type: multipart/form-data; boundary=limit\r\n".to_owned(), body)
}

#[test]
fn a_content_comes_and_goes_byte_for_byte() {
    test(async {
        let server = served().await;
        let (kind, body) = form("data/ümlaut name.bin", &bytes());
        let answer = ask(&server, "POST /upload", &kind, &body).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(fs::read(server.work().join("data/ümlaut name.bin")).unwrap(), bytes());
        for path in [
            "/download/data%2F%C3%BCmlaut%20name.bin",
            "/v1/files/data/%C3%BCmlaut%20name.bin",
        ] {
            let answer = ask(&server, &format!("GET {path}"), "", b"").await;
            assert!(
                answer.status == 200 && answer.body == bytes(),
                "{path}: {}",
                answer.head
            );
            assert!(answer.head.contains("content-length: 300000"), "{}", answer.head);
        }
        let put = ask(&server, "PUT /v1/files/run%2Fme?mode=0750", "", &bytes()).await;
        assert_eq!(put.status, 204, "{}", put.text());
        let written = server.work().join("run/me");
        assert_eq!(fs::read(&written).unwrap(), bytes());
        assert_eq!(fs::metadata(&written).unwrap().permissions().mode() & 0o777, 0o750);
        let (kind, body) = form("ignored", b"of a form");
        assert_eq!(ask(&server, "PUT /v1/files/run%2Fme", &kind, &body).await.status, 204);
        assert_eq!(fs::read(&written).unwrap(), b"of a form");
        assert_eq!(ask(&server, "PUT /v1/files/empty", "", b"").await.status, 204);
        let empty = ask(&server, "GET /download/empty", "", b"").await;
        assert!(empty.status == 200 && empty.body.is_empty(), "{}", empty.head);
        let request = ListCallsRequest {
            tools: vec!["files".to_owned()],
            ..ListCallsRequest::default()
        };
        let calls = server.tools().list_calls(request).await.unwrap().into_inner().calls;
        assert_eq!(calls.len(), 4);
        for (line, body) in [
            ("POST /upload", b"x".as_slice()),
            ("PUT /v1/files/x?mode=9", b"x"),
            ("PUT /v1/files/", b"x"),
        ] {
            let answer = ask(&server, line, "", body).await;
            assert!((400..500).contains(&answer.status), "{line}: {}", answer.status);
        }
        server.assert_calm();
    });
}

#[test]
fn folders_are_listed_as_each_api_does() {
    test(async {
        let server = served().await;
        fs::create_dir_all(server.work().join("a/.git")).unwrap();
        fs::write(server.work().join("a/f"), "four").unwrap();
        symlink("f", server.work().join("a/link")).unwrap();
        symlink("/etc/passwd", server.work().join("a/out")).unwrap();
        let listed = ask(&server, "GET /list/a", "", b"").await.json();
        let short = |entry: &Value| json!([entry["name"], entry["type"], entry["size"]]);
        let entries: Vec<Value> = listed.as_array().unwrap().iter().map(short).collect();
        let sizes: Vec<&Value> = entries.iter().filter(|entry| entry[1] == "file").collect();
        assert_eq!(
            sizes,
            [&json!(["f", "file", 4]), &json!(["link", "file", 4])],
            "{listed}"
        );
        assert!(
            entries
                .iter()
                .any(|entry| entry[0] == ".git" && entry[1] == "directory"),
            "{listed}"
        );
        assert_eq!(entries.len(), 3, "{listed}");
        assert!(listed[1]["mod_time"].as_f64().unwrap() > 1.6e9);
        let listed = ask(&server, "GET /v1/files/a", "", b"").await.json();
        assert_eq!(listed["path"], "/a");
        let file = listed["entries"]
            .as_array()
            .unwrap()
            .iter()
            .find(|entry| entry["name"] == "f")
            .unwrap();
        assert_eq!((&file["size"], &file["type"]), (&json!(4), &json!("file")));
        assert!(
            file["modified_at"].as_str().unwrap().ends_with('Z') && file["mode"].as_str().unwrap().starts_with("06")
        );
        for (path, exists) in [
            ("a%2Ff", true),
            ("a", true),
            ("%2Fa%2Ff", true),
            (".", true),
            ("b", false),
        ] {
            let answer = ask(&server, &format!("GET /exists/{path}"), "", b"").await;
            assert_eq!(
                (answer.status, &answer.json()["exists"]),
                (200, &json!(exists)),
                "{path}"
            );
            let code = if exists { 200 } else { 404 };
            let head = ask(&server, &format!("HEAD /v1/files/{path}"), "", b"").await;
            assert_eq!((head.status, head.body.len()), (code, 0), "{path}");
        }
        assert_eq!(ask(&server, "GET /list/a%2Ff", "", b"").await.status, 404);
        assert_eq!(ask(&server, "GET /download/a", "", b"").await.status, 404);
    });
}

#[test]
fn what_is_outside_or_denied_is_not_shown() {
    test(async {
        let server = served().await;
        fs::write(server.folder().join("secret"), "secret").unwrap();
        fs::write(server.work().join("hidden"), "secret").unwrap();
        symlink("/etc", server.work().join("out")).unwrap();
        for path in ["..%2Fsecret", "out%2Fpasswd", "hidden"] {
            for line in ["GET /download/", "GET /exists/", "GET /v1/files/"] {
                let answer = ask(&server, &format!("{line}{path}"), "", b"").await;
                assert_eq!(answer.status, 403, "{line}{path}: {}", answer.text());
            }
        }
        let (kind, body) = form("../escaped", b"x");
        assert_eq!(ask(&server, "POST /upload", &kind, &body).await.status, 403);
        assert!(!server.folder().join("escaped").exists());
        // An absolute name begins at the workspace.
        let (kind, body) = form("/etc/passwd", b"x");
        assert_eq!(ask(&server, "POST /upload", &kind, &body).await.status, 200);
        assert_eq!(fs::read(server.work().join("etc/passwd")).unwrap(), b"x");
    });
}

#[test]
fn deleting_is_asked_for() {
    test(async {
        let server = served().await;
        fs::create_dir(server.work().join("a")).unwrap();
        fs::write(server.work().join("a/f"), "f").unwrap();
        assert_eq!(ask(&server, "DELETE /v1/files/a", "", b"").await.status, 409);
        assert_eq!(ask(&server, "DELETE /v1/files/b", "", b"").await.status, 404);
        assert_eq!(
            ask(&server, "DELETE /v1/files/a?recursive=maybe", "", b"").await.status,
            400
        );
        assert_eq!(
            ask(&server, "DELETE /v1/files/a?recursive=true", "", b"").await.status,
            204
        );
        assert!(!server.work().join("a").exists());
        let root = ask(&server, "DELETE /v1/files/?recursive=true", "", b"").await;
        assert!((400..500).contains(&root.status), "{}", root.status);
        assert!(server.work().exists());
    });
}
