//! The table of limits: every key of the configuration stands in it.

use std::fs;
use std::path::Path;

use toolgate_config::{Config, Environment, RawConfig};

use super::*;

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// Every key of `limits`, with its default.
fn keys() -> Vec<(String, String)> {
    let environment = Environment::new([("HOME".to_owned(), "/nowhere".to_owned())], "/nowhere");
    let config = Config::load(None, RawConfig::default(), &environment).unwrap();
    let settings = config.explain().iter();
    let limits = settings.filter_map(|setting| Some((setting.key.strip_prefix("limits.")?, &setting.value)));
    limits.map(|(key, value)| (key.to_owned(), value.clone())).collect()
}

#[test]
fn every_limit_is_documented_with_its_default() {
    let text = read("docs/reference/limits.md");
    for (key, default) in keys() {
        let row = text.lines().find(|line| line.starts_with(&format!("| `{key}` |")));
        let row = row.unwrap_or_else(|| panic!("{key} is not in the table"));
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        assert_eq!(cells[2], default, "the default of {key}");
        assert!(
            cells.len() >= 6 && cells[3..=4].iter().all(|cell| !cell.is_empty()),
            "{row}"
        );
    }
}

#[test]
fn clients_are_told_every_limit() {
    test(async {
        let server = Server::with(limited([
            ("max_running_calls", "11"),
            ("max_running_calls_per_workspace", "12"),
            ("max_running_calls_per_session", "13"),
            ("max_running_calls_per_principal", "14"),
            ("max_queued_calls", "15"),
            ("max_queued_bytes", "4MiB"),
            ("max_requests_per_second", "1000"),
            ("max_request_burst", "2000"),
            ("max_streams", "18"),
            ("max_streams_per_principal", "19"),
            ("max_streams_per_connection", "20"),
            ("max_message_bytes", "3MiB"),
            ("max_open_prompts", "22"),
            ("max_open_prompts_per_session", "23"),
        ]))
        .await;
        let info = server.info().get_server_info(GetServerInfoRequest {}).await.unwrap();
        let told = info.into_inner().limits.unwrap();
        let calls = (told.max_running_calls, told.max_queued_calls, told.max_queued_bytes);
        assert_eq!(calls, (11, 15, 4 << 20));
        let each = [
            (told.max_running_calls_per_workspace, 12),
            (told.max_running_calls_per_session, 13),
            (told.max_running_calls_per_principal, 14),
            (told.max_requests_per_second, 1000),
            (told.max_request_burst, 2000),
            (told.max_streams_per_principal, 19),
            (told.max_open_prompts_per_session, 23),
        ];
        assert!(each.iter().all(|(found, set)| *found == Some(*set)), "{told:?}");
        let all = (told.max_streams, told.max_streams_per_connection, told.max_open_prompts);
        assert_eq!((all, told.max_message_bytes), ((18, 20, 22), 3 << 20));

        let told = Server::start()
            .await
            .info()
            .get_server_info(GetServerInfoRequest {})
            .await;
        let told = told.unwrap().into_inner().limits.unwrap();
        assert_eq!(told.max_running_calls_per_session, None, "absent is no limit");
        assert_eq!(told.max_requests_per_second, None);
    });
}
