//! ConnectPort: bytes both ways, both ends, many at once, and all the ways in which it is over.

use super::*;

const MIB: usize = 1024 * 1024;

#[test]
fn bytes_go_both_ways_in_order() {
    test(async {
        let place = Place::new().await;
        let target = place.serve("talk").await;
        let opened = place.opened(&target).await;
        let mut random = Random::new(7);
        let mut sent: Vec<u8> = (0..8 * MIB).map(|_| random.below(256) as u8).collect();
        let mut connection = place.connect(&opened.call_id, b"E").await.unwrap();
        let sender = connection.sender.take().unwrap();
        let pieces: Vec<Vec<u8>> = sent.chunks(MIB).map(<[u8]>::to_vec).collect();
        let sending = async move {
            for data in pieces {
                let data = data.into();
                sender
                    .send(ConnectPortRequest {
                        call_id: String::new(),
                        data,
                    })
                    .await
                    .unwrap();
            }
        };
        let (received, ()) = tokio::join!(connection.rest(), sending);
        sent.extend_from_slice(format!("{} bytes", 8 * MIB).as_bytes());
        let received = received.unwrap();
        assert!(received == sent, "{} of {} bytes", received.len(), sent.len());
        // The program is done first.
        let mut connection = place.connect(&opened.call_id, b"B").await.unwrap();
        assert_eq!(connection.rest().await.unwrap(), b"bye");
    });
}

#[test]
fn several_connections_are_apart_and_256_are_all() {
    test(async {
        let place = Place::new().await;
        let target = place.serve("talk").await;
        let opened = place.opened(&target).await;
        let mut open = Vec::new();
        for _ in 0..256 {
            let mut connection = place.connect(&opened.call_id, b"W").await.unwrap();
            assert_eq!(connection.read(7).await, b"waiting");
            open.push(connection);
        }
        refused(
            place.connect(&opened.call_id, b"W").await.map(drop),
            Code::ResourceExhausted,
            "TOO_MANY_CONNECTIONS",
        );
        let url = format!("http://{}{}", place.server.tcp.as_ref().unwrap(), opened.http_path);
        let answer = super::web::client().get(url).send().await.unwrap();
        assert_eq!(answer.status().as_u16(), 503);
        assert!(answer.headers().contains_key("retry-after"));
        open.pop();
        eventually("there is room again", async || {
            place.connect(&opened.call_id, b"W").await.is_ok()
        })
        .await;
    });
}

#[test]
fn what_is_not_read_waits_at_the_program() {
    test(async {
        let place = Place::new().await;
        let target = place.serve("talk").await;
        let opened = place.opened(&target).await;
        let mut connection = place.connect(&opened.call_id, b"S").await.unwrap();
        connection.read(1).await;
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        // Dropped unread; the result says how much the service has taken.
        drop(connection);
        place.server.cancel(&opened.call_id).await;
        let call = ended(&place.server, &opened.call_id).await;
        let metadata = json_of(completed(&call).metadata.as_ref().unwrap());
        let received: f64 = serde_json::from_str(&metadata["bytesReceived"].to_string()).unwrap();
        assert!(received < (16 * MIB) as f64, "{received}");
    });
}

#[test]
fn each_end_has_its_status() {
    test(async {
        let place = Place::new().await;
        let target = place.serve("talk").await;
        let opened = place.opened(&target).await;
        let call = opened.call_id.as_str();
        refused(
            place.connect("", b"").await.map(drop),
            Code::InvalidArgument,
            "INVALID_FIELD",
        );
        refused(
            place.connect("nobody", b"").await.map(drop),
            Code::NotFound,
            "NOT_FOUND",
        );
        // A call, but not one that keeps a port open.
        refused(
            place.connect(&target.call, b"").await.map(drop),
            Code::NotFound,
            "NOT_FOUND",
        );
        let mut named_twice = place.connect(call, b"W").await.unwrap();
        let again = ConnectPortRequest {
            call_id: call.to_owned(),
            ..Default::default()
        };
        named_twice.sender.as_ref().unwrap().send(again).await.unwrap();
        refused(named_twice.rest().await, Code::InvalidArgument, "INVALID_FIELD");
        let mut broken = place.connect(call, b"R").await.unwrap();
        refused(broken.rest().await, Code::Aborted, "CONNECTION_LOST");
        // The connections go with the port.
        let mut waiting = place.connect(call, b"W").await.unwrap();
        assert_eq!(waiting.read(7).await, b"waiting");
        place.server.cancel(call).await;
        refused(waiting.rest().await, Code::FailedPrecondition, "PORT_CLOSED");
        refused(
            place.connect(call, b"").await.map(drop),
            Code::FailedPrecondition,
            "PORT_CLOSED",
        );
        // And so they do with the call that they lead to.
        let opened = place.opened(&target).await;
        let mut waiting = place.connect(&opened.call_id, b"W").await.unwrap();
        assert_eq!(waiting.read(7).await, b"waiting");
        place.server.cancel(&target.call).await;
        let _ = waiting.rest().await;
        completed(&ended(&place.server, &opened.call_id).await);
    });
}

#[test]
fn a_session_takes_its_ports_with_it() {
    test(async {
        let place = Place::new().await;
        let target = place.serve("talk").await;
        let request = OpenPortRequest {
            call: Some(CallOptions {
                context: Some(CallContext {
                    session_id: "s".to_owned(),
                    ..Default::default()
                }),
                ..Default::default()
            }),
            ..open(&target)
        };
        let opened = place.open(request).await.unwrap();
        let mut waiting = place.connect(&opened.call_id, b"W").await.unwrap();
        assert_eq!(waiting.read(7).await, b"waiting");
        let end = EndSessionRequest {
            session_id: "s".to_owned(),
            ..Default::default()
        };
        let ended = place.server.sessions().end_session(end).await.unwrap().into_inner();
        assert_eq!(ended.cancelled_calls, 1);
        refused(waiting.rest().await, Code::FailedPrecondition, "PORT_CLOSED");
        // What it led to is of another session.
        assert_eq!(listening(&place.server, &target.call).await.len(), 1);
    });
}
