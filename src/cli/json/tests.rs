//! What the messages look like as JSON.

use toolgate_contract::{CallHeartbeat, CallMetadata, CallOutput, CallPending, CallQueued, PromptEnded, TodosUpdated};

use super::*;

fn number(value: f64) -> prost_types::Value {
    prost_types::Value {
        kind: Some(Kind::NumberValue(value)),
    }
}

#[test]
fn events_have_the_names_of_the_contract() {
    fn check(event: call_event::Event, expected: Value) {
        let event = CallEvent {
            call_id: "c".into(),
            sequence: 3,
            time: None,
            event: Some(event),
        };
        let mut json = event.to_json();
        let object = json.as_object_mut().unwrap();
        assert_eq!(
            (object.remove("call_id"), object.remove("sequence")),
            (Some("c".into()), Some(3.into()))
        );
        assert_eq!(json, expected);
    }
    use call_event::Event as E;
    check(
        E::Pending(CallPending {
            tool: "invalid".into(),
            requested_tool: "x".into(),
            queued: None,
        }),
        json!({ "pending": { "tool": "invalid", "requested_tool": "x" } }),
    );
    check(
        E::Pending(CallPending {
            tool: "bash".into(),
            requested_tool: "bash".into(),
            queued: Some(CallQueued {
                limit: "limits.max_running_calls".into(),
                ahead: 2,
            }),
        }),
        json!({ "pending": {
            "tool": "bash",
            "requested_tool": "bash",
            "queued": { "limit": "limits.max_running_calls", "ahead": 2 },
        } }),
    );
    check(
        E::Metadata(CallMetadata {
            title: None,
            metadata: None,
        }),
        json!({ "metadata": {} }),
    );
    check(
        E::Output(CallOutput {
            output_id: "o".into(),
            offset: 2,
            data: "é".into(),
        }),
        json!({ "output": { "output_id": "o", "offset": 2, "data": "é" } }),
    );
    check(
        E::Output(CallOutput {
            output_id: "o".into(),
            offset: 0,
            data: vec![0xff].into(),
        }),
        json!({ "output": { "output_id": "o", "offset": 0, "data_base64": "/w==" } }),
    );
    check(
        E::Heartbeat(CallHeartbeat {
            last_sequence: 2,
            state: CallState::Running.into(),
            elapsed: Some(Duration {
                seconds: 1,
                nanos: 500_000_000,
            }),
            draining: true,
        }),
        json!({ "heartbeat": { "last_sequence": 2, "state": "running", "draining": true, "elapsed": 1.5 } }),
    );
    check(
        E::Failed(CallFailed {
            reason: FailureReason::TimedOut.into(),
            error: "e".into(),
            ..CallFailed::default()
        }),
        json!({ "failed": { "reason": "timed_out", "error": "e", "title": "", "attachments": [] } }),
    );
}

#[test]
fn structures_are_plain() {
    let list = prost_types::ListValue {
        values: vec![number(1.0), number(0.5), number(f64::NAN)],
    };
    let fields = [
        (
            "list".to_owned(),
            prost_types::Value {
                kind: Some(Kind::ListValue(list)),
            },
        ),
        ("none".to_owned(), prost_types::Value { kind: None }),
        ("big".to_owned(), number(1e300)),
    ];
    let value = structure(&Struct {
        fields: fields.into_iter().collect(),
    });
    assert_eq!(value, json!({ "big": 1e300, "list": [1, 0.5, null], "none": null }));
}

#[test]
fn times_and_unknown_words() {
    let event = Event {
        sequence: 1,
        time: Some(Timestamp { seconds: 0, nanos: 0 }),
        event: Some(event::Event::PromptEnded(PromptEnded {
            state: 99,
            ..PromptEnded::default()
        })),
        ..Event::default()
    };
    let json = event.to_json();
    assert_eq!(json["time"], "1970-01-01T00:00:00Z");
    assert_eq!(json["prompt_ended"]["state"], "unknown");
}

#[test]
fn an_absent_name_of_a_todo_is_left_out() {
    let todo = |id: Option<&str>| Todo {
        content: "c".into(),
        status: "s".into(),
        priority: "p".into(),
        id: id.map(str::to_owned),
    };
    let event = Event {
        event: Some(event::Event::TodosUpdated(TodosUpdated {
            todos: vec![todo(None), todo(Some(""))],
            call_id: "c".into(),
        })),
        ..Event::default()
    };
    let expected = json!([
        { "content": "c", "status": "s", "priority": "p" },
        { "content": "c", "status": "s", "priority": "p", "id": "" },
    ]);
    assert_eq!(event.to_json()["todos_updated"]["todos"], expected);
}
