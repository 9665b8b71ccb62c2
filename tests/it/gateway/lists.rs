//! Lists of all workers as one, page by page.

use tonic::Code;
use toolgate_contract::*;

use super::setup::*;
use crate::support::{refused, test};

fn page(token: &str) -> ListCallsRequest {
    ListCallsRequest {
        workspace: "-".to_owned(),
        page_size: 4,
        page_token: token.to_owned(),
        ..ListCallsRequest::default()
    }
}

fn moment(call: &Call) -> (i64, i32) {
    let time = call.create_time.unwrap();
    (time.seconds, time.nanos)
}

#[test]
fn pages_have_everything_once_and_in_order() {
    test(async {
        let mut fleet = Fleet::start().await;
        let mut made = Vec::new();
        for (count, workspace) in ["wa", "wa", "wb", "wa", "wc", "wb", "wa", "wa", "wa", "wc", "wb"]
            .iter()
            .enumerate()
        {
            let call = fleet.run(ANNA, workspace, &format!("echo {count}")).await.unwrap();
            made.push(call.call_id);
        }
        made.reverse();
        let (mut found, mut token) = (Vec::new(), String::new());
        loop {
            let read = fleet.tools(ANNA).list_calls(page(&token)).await.unwrap().into_inner();
            assert!(read.calls.len() <= 4 && read.calls.is_sorted_by_key(|call| std::cmp::Reverse(moment(call))));
            found.extend(read.calls.into_iter().map(|call| call.call_id));
            token = read.next_page_token;
            if token.is_empty() {
                break;
            }
            if found.len() == 4 {
                // What is new is on pages before, and moves nothing.
                fleet.run(ANNA, "wa", "true").await.unwrap();
                fleet.workers[1].kill9().await;
                let home = fleet.home();
                refused(
                    fleet.tools(ANNA).list_calls(page(&token)).await,
                    Code::Unavailable,
                    "WORKER_GONE",
                );
                fleet.workers[1].run(&home).await;
            }
        }
        assert_eq!(found, made);
        let theirs = fleet.tools(BEN).list_calls(page("")).await.unwrap().into_inner();
        assert!(
            theirs
                .calls
                .iter()
                .all(|call| call.context.as_ref().unwrap().workspace == "wb")
        );
        assert_eq!(theirs.calls.len(), 3);
        refused(
            fleet.tools(ANNA).list_calls(page("x")).await,
            Code::InvalidArgument,
            "INVALID_FIELD",
        );

        let sessions = ListSessionsRequest {
            workspace: "-".to_owned(),
            ..ListSessionsRequest::default()
        };
        let sessions = fleet
            .sessions(ANNA)
            .list_sessions(sessions)
            .await
            .unwrap()
            .into_inner()
            .sessions;
        assert_eq!(sessions.len(), made.len() + 1);
        fleet.assert_calm();
    });
}
