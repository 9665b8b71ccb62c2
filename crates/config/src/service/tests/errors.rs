//! What is wrong is told with its place and what was expected.

use super::*;

#[test]
fn errors_name_file_line_key_and_expectation() {
    let cases: &[(&str, &[&str])] = &[
        (
            "drain_grace = \"soon\"",
            &[
                "toolgate.toml",
                "line 1, column 1: drain_grace",
                "expected a duration such as",
            ],
        ),
        (
            "\n[limits]\nmax_input_bytes = \"8MB\"",
            &["line 3, column 1: limits.max_input_bytes", "8MiB"],
        ),
        (
            "[limits]\nmax_input_bytes = -1",
            &["line 2", "limits.max_input_bytes", "expected a number of bytes"],
        ),
        (
            "[limits]\nmax_input_bytes = 0",
            &["limits.max_input_bytes", "at least one byte"],
        ),
        (
            "[limits]\nmax_running_calls = 0",
            &["limits.max_running_calls", "from 1 to 1000000, found 0"],
        ),
        (
            "[limits]\nmax_queued_calls = -1",
            &["line 2", "limits.max_queued_calls", "from 0 to 1000000, found -1"],
        ),
        (
            "[limits]\nmax_streams = 1000001",
            &["limits.max_streams", "from 1 to 1000000"],
        ),
        (
            "[limits]\nmax_running_calls_per_session = 0",
            &["limits.max_running_calls_per_session", "from 1 to 1000000"],
        ),
        (
            "[limits]\nmax_request_burst = 5",
            &["limits.max_request_burst", "limits.max_requests_per_second"],
        ),
        (
            "[limits]\nmax_message_bytes = \"1MiB\"",
            &["limits.max_message_bytes", "limits.max_input_bytes, 2MiB"],
        ),
        (
            "[limits]\nmax_queued_bytes = \"1MiB\"",
            &["limits.max_queued_bytes", "limits.max_input_bytes, 2MiB"],
        ),
        (
            "[limits]\nmax_input_bytes = \"3GiB\"",
            &["line 2", "limits.max_input_bytes", "at most 2147483647B"],
        ),
        (
            "[limits]\nmax_running_calls = \"x\"",
            &["line 2", "limits.max_running_calls", "expected a whole number"],
        ),
        (
            "[limits]\nmax_total_output_bytes = 1",
            &["line 2", "limits.max_total_output_bytes", "1GiB"],
        ),
        (
            "[listen]\ntpc = \"x\"",
            &["line 2, column 1: listen.tpc", "unknown field `tpc`", "`tcp`"],
        ),
        ("[listen]\ntcp = \"x\"", &["listen.tcp", "expected an address and port"]),
        (
            "[listen]\ntcp = \"none\"\nunix = \"none\"",
            &["line 2", "nothing to listen on"],
        ),
        ("[listen]\ntcp = \n", &["toolgate.toml", "line 2"]),
        ("workspaces = []", &["line 1", "workspaces", "at least one"]),
        ("[workspaces]\nname = \"a\"", &["line 1", "workspaces", "write `[[…]]`"]),
        (
            "[[workspaces]]\nname = \"a b\"\ndirectory = \"/\"",
            &["workspaces", "expected a name", "a b"],
        ),
        (
            "[[workspaces]]\nname = \"a/../b\"\ndirectory = \"/\"",
            &["workspaces", "with a '/' between two", "a/../b"],
        ),
        (
            "[[workspaces]]\nname = \"a\"\ndirectory = \"/\"\n[[workspaces]]\nname = \"a\"\ndirectory = \"/\"",
            &["workspaces", "twice"],
        ),
        (
            "[[workspaces]]\nname = \"a\"",
            &["workspaces", "missing field `directory`"],
        ),
        ("[permission]\ntimeout = \"0s\"", &["permission.timeout", "none"]),
        (
            "[permission]\nunattended = \"maybe\"",
            &["permission.unattended", "\"wait\", \"refuse\" or \"attended\""],
        ),
        ("[log]\nfilter = \"a=b=c\"", &["log.filter", "expected a filter"]),
    ];
    for (text, parts) in cases {
        let error = load(text, &[], RawConfig::default())
            .expect_err("it is invalid")
            .to_string();
        assert!(error.starts_with("Configuration is invalid at "), "{error}");
        for part in *parts {
            assert!(error.contains(part), "{part:?} is not in {error:?}");
        }
    }
}

#[test]
fn errors_of_variables_and_flags_name_them() {
    for (name, value) in [
        ("TOOLGATE_LIMITS_MAX_RUNNING_CALLS", "many"),
        ("TOOLGATE_LISTEN_INSECURE", "perhaps"),
        ("TOOLGATE_WORKSPACES", "/only/a/folder"),
        ("TOOLGATE_LISTEN_TCP", "0.0.0.0:1"),
    ] {
        let error = load("", &[(name, value)], RawConfig::default()).expect_err("it is invalid");
        assert!(error.to_string().contains(name), "{error}");
    }
    let flags = RawConfig::default().with("drain_grace", "never");
    let error = load("", &[], flags).expect_err("it is invalid").to_string();
    assert!(
        error.contains("invalid on the command line") && error.contains("drain_grace"),
        "{error}"
    );
}
