//! What messages look like as JSON.

use prost_types::{Duration, Timestamp};
use serde_json::json;

use super::*;
use crate::{
    Call, CallEvent, CallHeartbeat, CallMetadata, CallOutput, CallState, ChannelResponse, Event, ListPromptsResponse,
    PermissionRequest, Prompt, PromptAdded, PromptDecision, PromptEnded, PromptReply, SessionEnded, call_event,
    channel_response, event, prompt,
};

fn written<M: Message + Name>(message: &M) -> Value {
    let text = to_json(message).unwrap();
    assert!(!text.contains('\n'), "{text}");
    serde_json::from_str(&text).unwrap()
}

#[test]
fn messages_are_protobuf_json() {
    fn check(event: call_event::Event, expected: Value) {
        let event = CallEvent {
            call_id: "c".into(),
            sequence: 3,
            event_time: Some(Timestamp {
                seconds: 0,
                nanos: 5_000_000,
            }),
            event: Some(event),
        };
        let mut json = written(&event);
        let object = json.as_object_mut().unwrap();
        let common = ["callId", "sequence", "eventTime"].map(|name| object.remove(name).unwrap());
        assert_eq!(common, ["c", "3", "1970-01-01T00:00:00.005Z"]);
        assert_eq!(json, expected);
    }
    use call_event::Event as E;
    check(E::Metadata(CallMetadata::default()), json!({ "metadata": {} }));
    check(
        E::Output(CallOutput {
            output_id: "o".into(),
            offset: 2,
            data: vec![0xff].into(),
        }),
        json!({ "output": { "outputId": "o", "offset": "2", "data": "/w==" } }),
    );
    check(
        E::Heartbeat(CallHeartbeat {
            last_sequence: 2,
            state: CallState::Running.into(),
            elapsed: Some(Duration {
                seconds: 1,
                nanos: 500_000_000,
            }),
            draining: false,
        }),
        json!({ "heartbeat": { "lastSequence": "2", "state": "CALL_STATE_RUNNING", "elapsed": "1.500s" } }),
    );
    assert_eq!(to_json(&Call::default()).unwrap(), "{}");
    let ended = Event {
        event: Some(event::Event::SessionEnded(SessionEnded {})),
        ..Event::default()
    };
    assert_eq!(written(&ended), json!({ "sessionEnded": {} }));
    let unknown = PromptEnded {
        state: 99,
        ..PromptEnded::default()
    };
    assert_eq!(written(&unknown), json!({ "state": 99 }));
}

#[test]
fn numbers_in_a_struct_are_written_as_they_were() {
    let object = json!({"a": [1, 2.5, null, true, "x", {"b": -3}], "big": 1e300, "c": {}});
    let message = struct_from_json(object.as_object().unwrap().clone());
    assert_eq!(Value::Object(struct_to_json(message.clone())), object);
    let progress = |metadata| CallMetadata {
        metadata: Some(metadata),
        ..CallMetadata::default()
    };
    assert_eq!(written(&progress(message)), json!({ "metadata": object }));
    let infinite = Struct {
        fields: [(
            "n".to_owned(),
            WireValue {
                kind: Some(Kind::NumberValue(f64::NAN)),
            },
        )]
        .into(),
    };
    assert!(to_json(&progress(infinite.clone())).is_err());
    assert_eq!(struct_to_json(infinite)["n"], Value::Null);
}

#[test]
fn messages_are_read_from_protobuf_json() {
    let text = r#"{"promptId": "p", "decision": "PROMPT_DECISION_ANSWER", "answers": [{"values": ["x"]}], "input_digest": "d"}"#;
    let reply: PromptReply = from_json(text).unwrap();
    assert_eq!(
        (reply.prompt_id.as_str(), reply.decision(), reply.input_digest.as_str()),
        ("p", PromptDecision::Answer, "d")
    );
    assert_eq!(reply.answers[0].values, ["x"]);
    assert_eq!(from_json::<PromptReply>(&to_json(&reply).unwrap()).unwrap(), reply);
    for wrong in [
        r#"{"mesage": "x"}"#,
        r#"{"decision": "once"}"#,
        r#"{"promptId": "p"} {}"#,
        "once",
    ] {
        assert!(from_json::<PromptReply>(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn what_is_nested_too_deeply_is_text() {
    let nested = |levels: usize| (1..levels).fold(json!(1), |inner, _| json!({ "a": inner }));
    let check = |levels: usize, comes_back: bool| {
        let object = Map::from_iter([("a".to_owned(), nested(levels))]);
        assert_eq!(
            struct_to_json(struct_from_json(object.clone())) == object,
            comes_back,
            "{levels}"
        );
    };
    check(MAX_LEVELS, true);
    check(MAX_LEVELS + 1, false);
    check(100, false);
    let lists = (0..100).fold(json!(1), |inner, _| json!([inner]));
    let shown = struct_to_json(struct_from_json(Map::from_iter([("a".to_owned(), lists)])));
    assert!(shown["a"].to_string().contains("\"["), "{shown:?}");
}

#[test]
fn every_reader_can_read_what_is_nested() {
    let deep = (0..120).fold(json!("x"), |inner, _| json!({ "a": inner }));
    let prompt = Prompt {
        request: Some(prompt::Request::Permission(PermissionRequest {
            metadata: Some(struct_from_json(Map::from_iter([("a".to_owned(), deep)]))),
            ..Default::default()
        })),
        ..Default::default()
    };
    let list = ListPromptsResponse {
        prompts: vec![prompt.clone()],
        ..Default::default()
    };
    assert!(ListPromptsResponse::decode(&*list.encode_to_vec()).is_ok());
    assert!(to_json(&list).is_ok());
    let added = PromptAdded { prompt: Some(prompt) };
    let sent = ChannelResponse {
        message: Some(channel_response::Message::PromptAdded(added)),
    };
    assert!(ChannelResponse::decode(&*sent.encode_to_vec()).is_ok());
    assert!(to_json(&sent).is_ok());
}
