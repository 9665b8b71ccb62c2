//! The other ways in: gRPC-Web over HTTP/1.1, reflection, health.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use prost::Message;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_reflection::pb::{v1, v1alpha};
use toolgate_contract::*;

use crate::support::*;

const SERVICES: [&str; 7] = [
    "toolgate.v1.AuditService",
    "toolgate.v1.HostService",
    "toolgate.v1.InfoService",
    "toolgate.v1.OutputService",
    "toolgate.v1.PermissionService",
    "toolgate.v1.SessionService",
    "toolgate.v1.ToolService",
];

fn page_setup() -> Setup {
    Setup::tcp().env("TOOLGATE_LISTEN_ORIGINS", PAGE)
}

/// The page that may call.
const PAGE: &str = "https://page.example";

/// An HTTP/1.1 response: head in lower case, body without chunks.
struct Response {
    head: String,
    body: Vec<u8>,
}

async fn http(server: &Server, request: &[u8]) -> Response {
    let mut stream = TcpStream::connect(server.tcp.as_ref().unwrap()).await.unwrap();
    stream.write_all(request).await.unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.unwrap();
    let split = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
    let head = String::from_utf8_lossy(&bytes[..split]).to_lowercase();
    let mut rest = &bytes[split + 4..];
    let mut body = Vec::new();
    if head.contains("transfer-encoding: chunked") {
        loop {
            let line = rest.windows(2).position(|two| two == b"\r\n").expect("a chunk");
            let size = usize::from_str_radix(std::str::from_utf8(&rest[..line]).unwrap().trim(), 16).unwrap();
            if size == 0 {
                break;
            }
            body.extend_from_slice(&rest[line + 2..line + 2 + size]);
            rest = &rest[line + 2 + size + 2..];
        }
    } else {
        body.extend_from_slice(rest);
    }
    Response { head, body }
}

fn frame(message: &impl Message) -> Vec<u8> {
    let body = message.encode_to_vec();
    let mut frame = vec![0];
    frame.extend_from_slice(&u32::try_from(body.len()).unwrap().to_be_bytes());
    frame.extend(body);
    frame
}

async fn post(server: &Server, rpc: &str, kind: &str, body: &[u8]) -> Response {
    let mut request = format!(
        "POST /toolgate.v1.{rpc} HTTP/1.1\r\nHost: localhost\r\nOrigin: https://page.example\r\nContent-Type: {kind}\r\n\
         Accept: {kind}\r\nX-Grpc-Web: 1\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    )
    .into_bytes();
    request.extend_from_slice(body);
    http(server, &request).await
}

/// The messages of a body, and its trailers.
fn frames(mut body: &[u8]) -> (Vec<Vec<u8>>, String) {
    let (mut messages, mut trailers) = (Vec::new(), String::new());
    while !body.is_empty() {
        let length = u32::from_be_bytes(body[1..5].try_into().unwrap()) as usize;
        let content = &body[5..5 + length];
        if body[0] & 0x80 == 0 {
            assert!(trailers.is_empty(), "nothing follows the trailers");
            messages.push(content.to_vec());
        } else {
            trailers = String::from_utf8(content.to_vec()).unwrap().to_lowercase();
        }
        body = &body[5 + length..];
    }
    (messages, trailers)
}

fn status(trailers: &str) -> Option<&str> {
    let line = trailers.lines().find_map(|line| line.strip_prefix("grpc-status:"));
    line.map(str::trim)
}

#[test]
fn unary_over_grpc_web() {
    test(async {
        let server = Server::with(page_setup()).await;
        let request = frame(&GetServerInfoRequest {});
        let response = post(
            &server,
            "InfoService/GetServerInfo",
            "application/grpc-web+proto",
            &request,
        )
        .await;
        assert!(response.head.starts_with("http/1.1 200"), "{}", response.head);
        assert!(
            response
                .head
                .contains("access-control-allow-origin: https://page.example"),
            "{}",
            response.head
        );
        let (messages, trailers) = frames(&response.body);
        assert_eq!(status(&trailers), Some("0"), "{trailers}");
        let info = GetServerInfoResponse::decode(&*messages[0]).unwrap();
        assert_eq!(info.version, env!("CARGO_PKG_VERSION"));

        let text = STANDARD.encode(&request).into_bytes();
        let response = post(
            &server,
            "InfoService/GetServerInfo",
            "application/grpc-web-text+proto",
            &text,
        )
        .await;
        // Each piece is encoded by itself, so padding may stand anywhere; four characters are always three bytes or less.
        let pieces = response.body.chunks(4).map(|four| STANDARD.decode(four).unwrap());
        let (messages, trailers) = frames(&pieces.collect::<Vec<_>>().concat());
        assert_eq!(status(&trailers), Some("0"), "{trailers}");
        assert_eq!(GetServerInfoResponse::decode(&*messages[0]).unwrap(), info);
    });
}

#[test]
fn other_pages_are_refused() {
    test(async {
        let server = Server::with(Setup::tcp()).await;
        let request = frame(&GetServerInfoRequest {});
        // Not even of the same origin, as a page seems to be whose name is made to lead here.
        for kind in ["application/grpc-web+proto", "application/grpc"] {
            let response = post(&server, "InfoService/GetServerInfo", kind, &request).await;
            assert!(response.head.starts_with("http/1.1 403"), "{}", response.head);
            assert!(
                !response.head.contains("access-control-allow-origin"),
                "{}",
                response.head
            );
        }
    });
}

#[test]
fn streams_over_grpc_web() {
    test(async {
        let server = Server::with(page_setup()).await;
        let request = frame(&kept("web", bash("seq 1 20000")));
        let response = post(
            &server,
            "ToolService/ExecuteTool",
            "application/grpc-web+proto",
            &request,
        )
        .await;
        let (messages, trailers) = frames(&response.body);
        assert_eq!(status(&trailers), Some("0"), "{trailers}");
        let decode = |message: &Vec<u8>| ExecuteToolResponse::decode(&**message).unwrap().event.unwrap();
        let events: Vec<CallEvent> = messages.iter().map(decode).collect();
        check_log(0, &events);
        assert_eq!(output_of(&events).len(), 108_894);
        assert_eq!(events, server.watch("web", 0).await.unwrap());
    });
}

#[test]
fn errors_over_grpc_web_keep_their_details() {
    test(async {
        let server = Server::with(page_setup()).await;
        let request = frame(&GetCallRequest {
            call_id: "nobody".to_owned(),
        });
        let response = post(&server, "ToolService/GetCall", "application/grpc-web+proto", &request).await;
        let (_, trailers) = frames(&response.body);
        let everything = format!("{}\n{trailers}", response.head);
        assert_eq!(status(&everything), Some("5"), "{everything}");
        assert!(everything.contains("grpc-status-details-bin"), "{everything}");
        assert!(
            response.head.contains("grpc-status-details-bin"),
            "exposed to pages: {}",
            response.head
        );
    });
}

#[test]
fn browsers_may_ask_first() {
    test(async {
        let server = Server::with(page_setup()).await;
        let request = "OPTIONS /toolgate.v1.ToolService/ExecuteTool HTTP/1.1\r\nHost: localhost\r\n\
                       Origin: https://page.example\r\nAccess-Control-Request-Method: POST\r\n\
                       Access-Control-Request-Headers: content-type,x-grpc-web\r\nConnection: close\r\n\r\n";
        let response = http(&server, request.as_bytes()).await;
        assert!(
            response.head.starts_with("http/1.1 200") || response.head.starts_with("http/1.1 204"),
            "{}",
            response.head
        );
        for header in [
            "access-control-allow-origin: https://page.example",
            "access-control-allow-methods: post",
            "access-control-allow-headers: content-type,x-grpc-web",
        ] {
            assert!(response.head.contains(header), "{header} in {}", response.head);
        }
    });
}

#[test]
fn nonsense_does_not_harm_the_server() {
    test(async {
        let server = Server::with(page_setup()).await;
        for bytes in [
            &b"\x00\x01\x02\x03\x04"[..],
            b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
            b"POST /toolgate.v1.ToolService/GetCall HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc",
            b"POST /nobody/Nothing HTTP/1.1\r\nHost: x\r\nContent-Type: application/grpc-web\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        ] {
            let mut stream = TcpStream::connect(server.tcp.as_ref().unwrap()).await.unwrap();
            stream.write_all(bytes).await.unwrap();
            stream.shutdown().await.unwrap();
            // An answer, an end or a reset: all are fine.
            let _ = stream.read_to_end(&mut Vec::new()).await;
        }
        for body in [
            &b"\x00\xff\xff\xff\xff"[..],
            b"\x00\x00\x00\x00\x02\xff\xff",
            b"\x01\x00\x00\x00\x00",
            b"",
            b"\x00",
        ] {
            let response = post(&server, "ToolService/ExecuteTool", "application/grpc-web+proto", body).await;
            assert!(response.head.starts_with("http/1.1 "), "{}", response.head);
        }
        server.run("bash", json!({"command": "true", "description": "d"})).await;
        server.assert_calm();
    });
}

#[test]
fn reflection_lists_every_service() {
    test(async {
        let server = Server::start().await;
        let request = v1::ServerReflectionRequest {
            host: String::new(),
            message_request: Some(v1::server_reflection_request::MessageRequest::ListServices(
                String::new(),
            )),
        };
        let mut stream = v1::server_reflection_client::ServerReflectionClient::new(server.channel())
            .server_reflection_info(tokio_stream::once(request))
            .await
            .unwrap()
            .into_inner();
        let names: Vec<String> = match stream.message().await.unwrap().unwrap().message_response {
            Some(v1::server_reflection_response::MessageResponse::ListServicesResponse(list)) => {
                list.service.into_iter().map(|service| service.name).collect()
            }
            other => panic!("{other:?}"),
        };
        let request = v1alpha::ServerReflectionRequest {
            host: String::new(),
            message_request: Some(v1alpha::server_reflection_request::MessageRequest::ListServices(
                String::new(),
            )),
        };
        let mut stream = v1alpha::server_reflection_client::ServerReflectionClient::new(server.channel())
            .server_reflection_info(tokio_stream::once(request))
            .await
            .unwrap()
            .into_inner();
        let old_names: Vec<String> = match stream.message().await.unwrap().unwrap().message_response {
            Some(v1alpha::server_reflection_response::MessageResponse::ListServicesResponse(list)) => {
                list.service.into_iter().map(|service| service.name).collect()
            }
            other => panic!("{other:?}"),
        };
        for service in SERVICES.into_iter().chain(["grpc.health.v1.Health"]) {
            assert!(names.iter().any(|name| name == service), "{service} in {names:?}");
            assert!(
                old_names.iter().any(|name| name == service),
                "{service} in {old_names:?}"
            );
        }
    });
}

#[test]
fn health_of_every_service() {
    test(async {
        let server = Server::start().await;
        for service in SERVICES.into_iter().chain([""]) {
            let request = HealthCheckRequest {
                service: service.to_owned(),
            };
            let response = server.health().check(request).await.unwrap().into_inner();
            assert_eq!(response.status(), ServingStatus::Serving, "{service}");
        }
        let request = HealthCheckRequest {
            service: "nobody".to_owned(),
        };
        assert_eq!(server.health().check(request).await.unwrap_err().code(), Code::NotFound);
    });
}
