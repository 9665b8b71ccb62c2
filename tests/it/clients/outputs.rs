//! Stored outputs: read, searched, and saved over connections that break.

use std::fs;

use serde_json::json;
use toolgate_contract::{SearchOutputRequest, SearchOutputResponse};

use super::driver::{bytes, pack, unpack};
use super::{Client, for_each_language};
use crate::support::*;

for_each_language!(an_output_is_read_searched_and_saved);

async fn an_output_is_read_searched_and_saved(language: &str) {
    let server = Server::with(Setup::tcp()).await;
    let call = server
        .run("bash", json!({"command": "seq 1 300000", "description": "numbers"}))
        .await;
    let output = completed(&call).truncation.clone().unwrap().output_id;
    let whole: String = (1..=300_000).map(|number| format!("{number}\n")).collect();
    let shaky = Shaky::before(server.tcp.as_ref().unwrap(), Random::new(11)).await;
    let client = Client::to(language, &format!("http://{}", shaky.address)).await;

    let mut reports = client.begin("read", json!({"output": output, "offset": 1_000, "limit": 500_000}));
    let mut read = Vec::new();
    while let Some(report) = reports.next().await.unwrap() {
        match report.get("data") {
            Some(data) => read.extend(bytes(data).unwrap()),
            None => break,
        }
    }
    assert!(
        read == whole.as_bytes()[1_000..501_000],
        "{language}: {} bytes were read",
        read.len()
    );

    let request = SearchOutputRequest {
        output_id: output.clone(),
        pattern: "^2999+8$".to_owned(),
        after_context: 1,
        ..SearchOutputRequest::default()
    };
    let done = client.ask("search", json!({"request": pack(&request)})).await.unwrap();
    let found: SearchOutputResponse = unpack(&done["response"]).unwrap();
    let expected = server.outputs().search_output(request).await.unwrap().into_inner();
    assert_eq!(found, expected, "{language}");

    let path = server.folder().join("saved");
    let mut reports = client.begin("save", json!({"output": output, "path": path}));
    let (mut last, total) = (0, whole.len() as u64);
    let done = loop {
        let report = reports.next().await.unwrap().unwrap();
        if let Some(progress) = report.get("progress") {
            let so_far = progress["bytes"].as_u64().unwrap();
            assert!(so_far >= last, "{language}: progress goes forward");
            assert_eq!(progress["total"].as_u64(), Some(total), "{language}");
            last = so_far;
        } else {
            break report["done"].clone();
        }
    };
    assert_eq!((last, done["bytes"].as_u64()), (total, Some(total)), "{language}");
    assert!(
        fs::read(&path).unwrap() == whole.as_bytes(),
        "{language}: what was saved is the output"
    );
    let left: Vec<_> = fs::read_dir(server.folder())
        .unwrap()
        .flatten()
        .map(|it| it.file_name())
        .collect();
    assert!(
        !left
            .iter()
            .any(|name| name.to_string_lossy().starts_with("saved") && name != "saved"),
        "{language}: {left:?}"
    );
}
