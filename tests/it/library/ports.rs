//! Ports of commands in the background: opened, connected to and closed.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use toolgate_client::{Client, OpenedPort};
use toolgate_contract::*;

use super::{connected, listens, open_air, refused_for};
use crate::support::*;

async fn open(client: &Client, call: &str, port: u16) -> OpenedPort {
    client.open_port(call, port).run().await.unwrap()
}

#[test]
fn each_side_of_a_connection_ends_by_itself() {
    test(async {
        let mut server = Server::with(open_air("allow")).await;
        let port = listens(&server, "c").await;
        // Where the client works otherwise is no matter.
        let client = Client::builder(&server.url())
            .workspace("elsewhere")
            .connect()
            .await
            .unwrap();
        let opened = open(&client, "c", port).await;
        assert!(opened.http_path().starts_with("/ports/"), "{opened:?}");
        let mut connection = opened.connect().await.unwrap();
        connection.write_all(b"one").await.unwrap();
        connection.write_all(b"two").await.unwrap();
        connection.shutdown().await.unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).await.unwrap();
        assert_eq!(answer, "6 bytes\nonetwo");
        assert!(connection.write_all(b"more").await.is_err(), "it was shut down");

        // Several at once, and more than waits anywhere.
        let data: Vec<u8> = (0..2_000_000_u32).flat_map(u32::to_le_bytes).collect();
        let exchange = async || {
            let (mut reads, mut writes) = tokio::io::split(opened.connect().await.unwrap());
            let sent = async {
                writes.write_all(&data).await.unwrap();
                writes.shutdown().await.unwrap();
            };
            let mut answer = Vec::new();
            let (read, ()) = tokio::join!(reads.read_to_end(&mut answer), sent);
            read.unwrap();
            assert!(answer.ends_with(&data));
        };
        tokio::join!(exchange(), exchange(), exchange());

        let call = opened.close().await.unwrap();
        assert_eq!(call.tool, "port");
        let ended = json_of(completed(&call).metadata.as_ref().unwrap());
        assert_eq!(ended["connections"], 4.0, "{ended}");
        refused_for(opened.connect().await, "PORT_CLOSED");
        server.stop().await;
    });
}

#[test]
fn a_connection_that_the_program_breaks_is_an_error() {
    test(async {
        let server = Server::with(open_air("allow")).await;
        let port = listens(&server, "c").await;
        let opened = open(&connected(&server).await, "c", port).await;
        let mut connection = opened.connect().await.unwrap();
        connection.write_all(b"break").await.unwrap();
        let error = connection.read_to_end(&mut Vec::new()).await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
        let error = error
            .into_inner()
            .unwrap()
            .downcast::<toolgate_client::Error>()
            .unwrap();
        refused_for(Err::<(), _>(*error), "CONNECTION_LOST");
        // One that is closed from here ends so, too.
        let mut connection = opened.connect().await.unwrap();
        opened.close().await.unwrap();
        let error = connection.read_to_end(&mut Vec::new()).await.unwrap_err();
        let error = error
            .into_inner()
            .unwrap()
            .downcast::<toolgate_client::Error>()
            .unwrap();
        refused_for(Err::<(), _>(*error), "PORT_CLOSED");
    });
}

#[test]
fn what_is_not_allowed_or_not_there_is_not_opened() {
    test(async {
        let server = Server::with(open_air("ask")).await;
        let port = listens(&server, "c").await;
        let client = connected(&server).await;
        refused_for(client.open_port("c", port).run().await, "PERMISSION_NEEDED");
        refused_for(client.open_port("none", port).run().await, "NOT_FOUND");
        // Somebody listens there, but nobody of the call.
        let foreign = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let foreign = foreign.local_addr().unwrap().port();
        refused_for(client.open_port("c", foreign).run().await, "NOT_LISTENING");
        let opening = client.open_port("c", port).call_id("o").wait_for_approval(None).run();
        let approve = async {
            let mut approver = Approver::open(server.channel(), "ann").await.unwrap();
            let prompt = approver.added().await;
            assert!(approver.send(reply(&prompt, PromptDecision::Once)).await);
            std::future::pending().await
        };
        let opened = tokio::select! {
            opened = opening => opened.unwrap(),
            () = approve => unreachable!(),
        };
        assert_eq!(opened.call_id(), "o");
        // The same again is the same port.
        let again = client
            .open_port("c", port)
            .call_id("o")
            .wait_for_approval(None)
            .run()
            .await
            .unwrap();
        assert_eq!(again.http_path(), opened.http_path());
    });
}

#[test]
fn what_a_rule_denies_is_not_opened() {
    test(async {
        let server = Server::with(open_air("deny")).await;
        let port = listens(&server, "c").await;
        let client = connected(&server).await;
        refused_for(client.open_port("c", port).run().await, "DENIED_BY_RULE");
    });
}
