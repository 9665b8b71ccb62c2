//! Files under many hands, and under a server that is killed while it writes.

use std::fs;
use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::support::*;

const FILES: usize = 4;
const EDITORS: usize = 64;
const EDITS: usize = 25;

/// How often the server is killed in the middle of its writing.
const KILLS: usize = 60;

/// Every editor counts up its own line of a file that it shares with fifteen others: what comes out is what one editor
/// after the other would have made.
#[test]
fn parallel_edits_of_shared_files_all_land() {
    test(async {
        let server = Server::start().await;
        let file = |index: usize| format!("f{}.txt", index % FILES);
        for index in 0..FILES {
            let lines: String = (index..EDITORS)
                .step_by(FILES)
                .map(|editor| format!("editor-{editor}: 0.\n"))
                .collect();
            fs::write(server.work().join(file(index)), lines).unwrap();
            // One session for each file: the mark of a read counts for all its editors.
            let read = in_session(&file(index), request("read", json!({ "filePath": file(index) })));
            completed(&run(&mut server.tools(), run_request(read)).await.unwrap());
        }
        let mut editors = JoinSet::new();
        for editor in 0..EDITORS {
            let (mut tools, path) = (server.tools(), file(editor));
            editors.spawn(async move {
                for count in 0..EDITS {
                    let input = json!({
                        "filePath": path,
                        "oldString": format!("editor-{editor}: {count}."),
                        "newString": format!("editor-{editor}: {}.", count + 1),
                    });
                    let edit = in_session(&path, request("edit", input));
                    completed(&run(&mut tools, run_request(edit)).await.unwrap());
                }
            });
        }
        while let Some(done) = editors.join_next().await {
            done.unwrap();
        }
        for index in 0..FILES {
            let expected: String = (index..EDITORS)
                .step_by(FILES)
                .map(|editor| format!("editor-{editor}: {EDITS}.\n"))
                .collect();
            assert_eq!(fs::read_to_string(server.work().join(file(index))).unwrap(), expected);
        }
        server.assert_calm();
    });
}

/// Whatever the moment of death, a file is one of the versions that were written, whole, and the next start clears away
/// what was on its way.
#[test]
fn a_killed_server_leaves_each_file_old_or_new() {
    test(async {
        let mut server = Server::start().await;
        let mut random = Random::new(20_261_121);
        let path = server.work().join("loop.txt");
        let version = |number: usize| format!("version {number}\n").repeat(500);
        let mut number = 0;
        for _ in 0..KILLS {
            let mut writing = JoinSet::new();
            let mut tools = server.tools();
            let begin = number;
            writing.spawn(async move {
                let session = format!("s{begin}");
                let read = in_session(&session, request("read", json!({ "filePath": "loop.txt", "limit": 1 })));
                // The first time there is nothing to read.
                let _ = run(&mut tools, run_request(read)).await;
                for number in begin + 1.. {
                    let input = json!({ "filePath": "loop.txt", "content": version(number) });
                    let write = in_session(&session, request("write", input));
                    if run(&mut tools, run_request(write)).await.is_err() {
                        break;
                    }
                }
            });
            sleep(Duration::from_micros(random.below(150_000))).await;
            server.kill9().await;
            while writing.join_next().await.is_some() {}
            if let Ok(text) = fs::read_to_string(&path) {
                number = text
                    .lines()
                    .next()
                    .and_then(|line| line.strip_prefix("version ")?.parse().ok())
                    .expect("the file is one that was written");
                assert_eq!(text, version(number), "mixed");
            }
            server.restart().await;
            let left: Vec<String> = fs::read_dir(server.work())
                .unwrap()
                .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
                .filter(|name| name.starts_with(".toolgate-"))
                .collect();
            assert_eq!(left, Vec::<String>::new(), "left over");
        }
        assert!(number > 0, "the loop never wrote");
    });
}
