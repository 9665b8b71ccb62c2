//! Files under many hands, and under a server that is killed while it writes.

use std::fs;
use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tonic::transport::Channel;
use toolgate_contract::tool_service_client::ToolServiceClient;

use crate::support::*;

const FILES: usize = 4;
const EDITORS: usize = 64;
const EDITS: usize = 100;

/// Servers that are killed side by side: most of a round is waiting for the next start.
const SERVERS: usize = 4;

/// How often each is killed.
const KILLS: usize = 15;

/// Files that each writes at the same time, in loops of their own: with every kill so many of them end at a random point,
/// 300 in all.
const WRITTEN: usize = 5;

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
        let mut random = Random::new(20_261_121);
        let mut loops = JoinSet::new();
        for _ in 0..SERVERS {
            loops.spawn(kill_and_look(random.fork()));
        }
        let mut seen = 0;
        while let Some(done) = loops.join_next().await {
            seen += done.unwrap();
        }
        assert!(seen >= SERVERS * KILLS, "only {seen} versions");
    });
}

/// Kills one server again and again while it writes several files, and returns how many new versions were seen.
async fn kill_and_look(mut random: Random) -> usize {
    let mut server = Server::start().await;
    let mut numbers = [0; WRITTEN];
    let mut seen = 0;
    for round in 0..KILLS {
        let mut writing = JoinSet::new();
        for (file, number) in numbers.into_iter().enumerate() {
            writing.spawn(write_on(server.tools(), format!("{round}-{file}"), file, number));
        }
        // However slow the machine is, the loops are under way.
        while !(0..WRITTEN).any(|file| number_in(&server, file) > Some(numbers[file])) {
            sleep(Duration::from_millis(2)).await;
        }
        sleep(Duration::from_micros(random.below(100_000))).await;
        server.kill9().await;
        while writing.join_next().await.is_some() {}
        for (file, number) in numbers.iter_mut().enumerate() {
            let Ok(text) = fs::read_to_string(server.work().join(name_of(file))) else {
                assert_eq!(*number, 0, "a file is gone");
                continue;
            };
            let now = number_of(&text).expect("the file is one that was written");
            assert_eq!(text, version(now), "mixed");
            assert!(now >= *number, "an older version is back");
            seen += now - *number;
            *number = now;
        }
        server.restart().await;
        let left: Vec<String> = fs::read_dir(server.work())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .filter(|name| name.starts_with(".toolgate-"))
            .collect();
        assert_eq!(left, Vec::<String>::new(), "left over");
    }
    server.assert_calm();
    seen
}

fn name_of(file: usize) -> String {
    format!("loop-{file}.txt")
}

fn version(number: usize) -> String {
    format!("version {number}\n").repeat(500)
}

fn number_in(server: &Server, file: usize) -> Option<usize> {
    number_of(&fs::read_to_string(server.work().join(name_of(file))).ok()?)
}

fn number_of(text: &str) -> Option<usize> {
    text.lines().next()?.strip_prefix("version ")?.parse().ok()
}

/// Writes one version after the other until the server is gone.
async fn write_on(mut tools: ToolServiceClient<Channel>, session: String, file: usize, begin: usize) {
    let read = in_session(
        &session,
        request("read", json!({ "filePath": name_of(file), "limit": 1 })),
    );
    // The first time there is nothing to read.
    let _ = run(&mut tools, run_request(read)).await;
    for number in begin + 1.. {
        let input = json!({ "filePath": name_of(file), "content": version(number) });
        let write = in_session(&session, request("write", input));
        if run(&mut tools, run_request(write)).await.is_err() {
            return;
        }
    }
}
